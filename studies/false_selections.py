"""False selections promised and found: real columns, simulated targets.

The columns of a data set are real and the target is drawn from five of them, so that it is known
which selections are false. A repetition is what ``swarm stability --seeds 0 --probes N`` does.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from conf.estimator import build_estimator
from conf.sections import (
    BudgetSection,
    ConfirmSection,
    DataSection,
    EvaluationSection,
    FoldsSection,
    ModelSection,
)
from flows.configured import plan_as_configured, prepare_as_configured
from flows.progress import say
from studies.page import Page, command
from studies.runner import configured, facts_of, save_facts, section, stored
from studies.tables import find, read
from swarm.statistics.spearman import spearman_distance
from swarm.strategies.catalogue import make
from swarm.validation.stability import CORE, NOISE
from tasks.search_cell import Cell, search_cell
from tasks.stability import assess, draw_sample, with_probes
from tasks.table import Table

STUDY = "false-selections"
SETS = ("ionosphere", "sonar", "wdbc")
# Columns as they were measured, with their correlations, or each shuffled by itself.
DESIGNS = ("shuffled", "measured")
_TRUE = 5
_RELATED = 0.5
_KEY = ["design", "dataset", "repetition"]


class Simulated(NamedTuple):
    """A target drawn from the columns `true`; `related` ones are correlated with one of them."""

    table: Table
    true: list[str]
    related: set[str]


def simulate(features: pd.DataFrame, shuffled: bool, seed: int) -> Simulated:
    """Draw a target from `_TRUE` columns by a logistic model, and shuffle all columns if asked."""
    rng = np.random.default_rng([seed, 0xFA15])
    if shuffled:
        features = features.apply(lambda column: column.to_numpy()[rng.permutation(len(column))])
    true = sorted(rng.choice(features.columns, _TRUE, replace=False).tolist())
    # Ranks, so that no outlier decides; effects of either sign and similar size.
    ranks = features[true].rank().to_numpy()
    scores = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    score = scores @ (rng.choice([-1.0, 1.0], _TRUE) * rng.uniform(0.8, 1.2, _TRUE))
    chance = 1 / (1 + np.exp(-2.0 * score))
    target = pd.Series((rng.random(len(features)) < chance).astype(int), name="target")
    at = features.columns.get_indexer(true)
    near = (1 - spearman_distance(features)[at]).max(axis=0) >= _RELATED
    related = set(features.columns[near]) - set(true)
    return Simulated(Table("simulated", "simulated", features, target), true, related)


def repetition(
    design: str, dataset: str, features: pd.DataFrame, number: int, pairs: int, distinct: int
) -> dict[str, Any]:
    """Simulate a target, repeat the search on complementary pairs, and count false selections."""
    simulated = simulate(features, design == "shuffled", number)
    config = configured(
        dataset,
        data=DataSection(source="bundled", name="wine"),
        model=ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
        folds=FoldsSection(kind="stratified", n_folds=5, seed=0),
        strategy=section("multiswarm"),
        budget=BudgetSection(epochs=None, distinct=distinct),
        confirm=ConfirmSection(best=10, repeats=3),
        # Mutual information would take longer than the search.
        evaluation=EvaluationSection(n_jobs=1, importance="none"),
    )
    estimator = build_estimator(config.model)
    needs = make(config.strategy.name, config.strategy.params).needs
    plain = prepare_as_configured(config, simulated.table, needs=(), split=False).problem.space
    table, probes = with_probes(simulated.table, plain, plain.n_units, number)
    space = prepare_as_configured(config, table, needs=(), split=False).problem.space
    results, began = [], time.perf_counter()
    for draw in range(2 * pairs):
        rows = draw_sample(table, 0.5, number, draw, estimator)
        data = prepare_as_configured(config, rows, needs=needs, split=False)
        plan = plan_as_configured(config, data, draw)
        results.append(search_cell(Cell("draw", "multiswarm", draw), plan, "sqlite://")[0])
    found = assess(space, [], results, (CORE, NOISE), 0.95, probes.names, false_selections=1.0)
    assert found.control is not None
    assert found.probes is not None
    by_name = found.table.set_index("feature")
    true, related = set(simulated.true), simulated.related

    def counts(prefix: str, chosen: Sequence[str]) -> dict[str, int]:
        return {
            f"{prefix}_n": len(chosen),
            f"{prefix}_true": len(true & set(chosen)),
            f"{prefix}_false": len(set(chosen) - true),
            f"{prefix}_unrelated": len(set(chosen) - true - related),
        }

    picks = pd.Series([name for one in results for name in one.features])
    real = picks[picks.isin(by_name.index)]
    core = by_name.index[by_name["class"] == "core"].tolist()
    kept = by_name.index[by_name["q_value"] <= 0.2].tolist()
    return {
        "design": design,
        "dataset": dataset,
        "repetition": number,
        "rows": len(table.features),
        "columns": len(by_name),
        "related": len(related),
        "pairs": pairs,
        "mean_size": found.control.mean_size,
        "threshold": found.control.threshold,
        "bound": found.control.bound,
        "lowest_bound": found.control.lowest,
        **counts("stable", by_name.index[by_name["stable"].astype(bool)].tolist()),
        **counts("core", core),
        **counts("q20", kept),
        "q20_value": float(by_name.loc[kept, "q_value"].max()) if kept else 0.0,
        "core_bound": float(by_name.loc[core, "bound"].max()) if core else float("nan"),
        "picks_false_estimated": found.probes.false_share,
        "picks_false": float((~real.isin(true)).mean()),
        "picks_unrelated": float((~real.isin(true | related)).mean()),
        "probe_rate": found.probes.probe_rate,
        "seconds": round(time.perf_counter() - began, 1),
    }


def run_repetitions(
    data: Path | None,
    _: Path,
    out: Path,
    verbosity: int,
    *,
    repetitions: int = 20,
    pairs: int = 10,
    distinct: int = 200,
) -> None:
    """Run the repetitions that have no row yet."""
    path = out / "results" / f"{STUDY}.csv"
    tables = {name: read(at) for name, at in find(data, multilabel=False, only=SETS).items()}
    facts = {"seconds": {}} | facts_of(STUDY, out)
    done = set(stored(path, _KEY)[_KEY].itertuples(index=False, name=None))
    # Repetition by repetition, so that an interrupted study has as many of each.
    for number, design, name in itertools.product(range(repetitions), DESIGNS, tables):
        if (design, name, number) in done:
            continue
        features = tables[name].drop(columns="target")
        features = features.loc[:, features.nunique() > 1].astype(float)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            row = repetition(design, name, features, number, pairs, distinct)
        rows = pd.concat([stored(path, _KEY), pd.DataFrame([row])])
        rows.sort_values(_KEY, kind="stable").to_csv(path, index=False)
        facts["seconds"][design] = facts["seconds"].get(design, 0) + row["seconds"]
        save_facts(STUDY, out, facts)
        counts = f"{row['stable_n']} stable, {row['stable_false']} false"
        say(f"{design} {name} {number}: {counts}, {row['seconds']} s", verbosity)


def page_of(out: Path) -> Page:
    """Fill the page in from the stored rows."""
    rows = stored(out / "results" / f"{STUDY}.csv", _KEY)
    n_accepted = rows["q20_n"].clip(lower=1)
    rows["fdp"] = rows["q20_false"] / n_accepted
    rows["fdp_unrelated"] = rows["q20_unrelated"] / n_accepted
    groups = rows.groupby(["design", "dataset"], sort=False)

    means = groups.mean(numeric_only=True).round(2)
    means["mean_size"] = groups["mean_size"].mean().round(1)
    means["thresholds"], means["repetitions"] = groups["threshold"].count(), groups.size()
    shares = groups[["fdp", "fdp_unrelated"]].mean().groupby("design").mean()
    values = {
        "pairs": int(rows["pairs"].max()),
        "repetitions": groups.size().min(),
        "means": means,
        "mean": rows.groupby("design").mean(numeric_only=True).to_dict("index"),
        **shares.to_dict(),
    }
    return Page(values)


if __name__ == "__main__":
    command(STUDY, page_of, before=run_repetitions)
