"""False selections promised and found: real columns, simulated targets.

The columns of a data set are real and the target is drawn from five of them, so that it is known
which selections are false. A repetition is what ``swarm stability --seeds 0 --probes N`` does.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from threadpoolctl import threadpool_limits

from conf.estimator import build_estimator
from conf.problem_sections import DataSection, FoldsSection, ModelSection
from conf.run_sections import BudgetSection, ConfirmSection, EvaluationSection
from conf.schema import SelectConfig
from flows.configured import plan_as_configured, prepare_as_configured
from flows.progress import say
from studies.page import Page, write_page
from studies.runner import environment, facts_of, save_facts, section
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


@dataclass(frozen=True, eq=False)
class Simulated:
    """A table with a simulated target.

    Attributes
    ----------
    table : Table
    true : list of str
        The columns that the target was drawn from.
    related : set of str
        Other columns with a rank correlation of 0.5 or more with one of them.
    """

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
    distance = pd.DataFrame(
        spearman_distance(features), index=features.columns, columns=features.columns
    )
    near = (1 - distance.loc[true]).max() >= _RELATED
    return Simulated(
        Table("simulated", "simulated", features, target), true, set(near[near].index) - set(true)
    )


def config_of(name: str, distinct: int) -> SelectConfig:
    """Return the configuration of the searches."""
    return SelectConfig(
        name=name,
        data=DataSection(source="bundled", name="wine"),
        model=ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
        scoring="accuracy",
        folds=FoldsSection(kind="stratified", n_folds=5, seed=0),
        strategy=section("multiswarm"),
        budget=BudgetSection(epochs=None, distinct=distinct),
        confirm=ConfirmSection(best=10, repeats=3),
        # Mutual information would take longer than the search.
        evaluation=EvaluationSection(n_jobs=1, importance="none"),
    )


def repetition(
    design: str, dataset: str, features: pd.DataFrame, number: int, pairs: int, distinct: int
) -> dict[str, Any]:
    """Simulate a target, repeat the search on complementary pairs, and count false selections."""
    simulated = simulate(features, design == "shuffled", number)
    config = config_of(dataset, distinct)
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


def page_of(out: Path) -> Page:
    """Fill the page in from the stored rows."""
    rows = _rows(out / "results" / f"{STUDY}.csv")
    groups = rows.groupby(["design", "dataset"], sort=False)

    def table(columns: dict[str, Any]) -> pd.DataFrame:
        made = pd.DataFrame(columns)
        made.index = pd.Index([f"{design}, {name}" for design, name in made.index], name="columns")
        return made.map(lambda value: "–" if value != value else f"{value:g}")

    controlled = table(
        {
            "repetitions": groups.size(),
            "columns selected": groups["mean_size"].mean().round(1),
            "with a threshold": groups["threshold"].count(),
            "promised": groups["bound"].mean().round(2),
            "stable": groups["stable_n"].mean().round(2),
            "true of 5": groups["stable_true"].mean().round(2),
            "false": groups["stable_false"].mean().round(2),
            "false, unrelated": groups["stable_unrelated"].mean().round(2),
        }
    )
    probed = table(
        {
            "estimated": groups["picks_false_estimated"].mean().round(2),
            "found": groups["picks_false"].mean().round(2),
            "found, unrelated": groups["picks_unrelated"].mean().round(2),
        }
    )
    shares = rows.assign(
        fdp=rows["q20_false"] / rows["q20_n"].clip(lower=1),
        fdp_unrelated=rows["q20_unrelated"] / rows["q20_n"].clip(lower=1),
    ).groupby(["design", "dataset"], sort=False)
    accepted = table(
        {
            "accepted": shares["q20_n"].mean().round(2),
            "true of 5": shares["q20_true"].mean().round(2),
            "false share": shares["fdp"].mean().round(2),
            "false share, unrelated": shares["fdp_unrelated"].mean().round(2),
        }
    )
    core = table(
        {
            "core": groups["core_n"].mean().round(2),
            "true of 5": groups["core_true"].mean().round(2),
            "false": groups["core_false"].mean().round(2),
            "false, unrelated": groups["core_unrelated"].mean().round(2),
            "bound": groups["core_bound"].mean().round(2),
        }
    )
    by_design = rows.groupby("design")
    values = {
        "pairs": int(rows["pairs"].max()),
        "repetitions": int(groups.size().min()),
        "controlled": controlled,
        "probed": probed,
        "accepted": accepted,
        "core": core,
        "mean": by_design[
            ["stable_false", "stable_unrelated", "stable_true", "core_false", "bound", "mean_size"]
        ]
        .mean()
        .to_dict("index"),
        "estimated": by_design[["picks_false_estimated", "picks_false", "picks_unrelated"]]
        .mean()
        .to_dict("index"),
        "fdp": shares["fdp"].mean().groupby("design").mean().to_dict(),
        "fdp_unrelated": shares["fdp_unrelated"].mean().groupby("design").mean().to_dict(),
        "thresholds": by_design["threshold"].apply(lambda own: own.notna().mean()).to_dict(),
    }
    return Page(values, {}, {})


def main(
    data: Annotated[Path | None, typer.Option(help="Folder of Parquet tables.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Simulated targets per set.")] = 20,
    pairs: Annotated[int, typer.Option(min=1, help="Complementary pairs.")] = 10,
    distinct: Annotated[int, typer.Option(min=1, help="Subsets that a search evaluates.")] = 200,
    page: Annotated[bool, typer.Option("--page", help="Run nothing, render the page.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs/evidence"),
) -> None:
    """Run the repetitions that have no row yet, then write the page."""
    logging.disable(logging.INFO)
    path = out / "results" / f"{STUDY}.csv"
    if not page:
        tables = {
            name: read(found) for name, found in find(data, multilabel=False, only=SETS).items()
        }
        facts = {"seconds": {}} | facts_of(STUDY, out) | environment()
        done = set(_rows(path)[_KEY].itertuples(index=False, name=None))
        # Repetition by repetition, so that an interrupted study has as many of each.
        for number in range(repetitions):
            for design in DESIGNS:
                for name, table in tables.items():
                    if (design, name, number) in done:
                        continue
                    features = table.drop(columns="target")
                    features = features.loc[:, features.nunique() > 1].astype(float)
                    with warnings.catch_warnings(), threadpool_limits(1):
                        warnings.simplefilter("ignore")
                        row = repetition(design, name, features, number, pairs, distinct)
                    pd.concat([_rows(path), pd.DataFrame([row])]).to_csv(path, index=False)
                    facts["seconds"][design] = facts["seconds"].get(design, 0) + row["seconds"]
                    save_facts(STUDY, out, facts)
                    say(
                        f"{design} {name} {number}: {row['stable_n']} stable, "
                        f"{row['stable_false']} false, {row['seconds']} s"
                    )
    rows = _rows(path).sort_values(_KEY, kind="stable")
    rows.to_csv(path, index=False)
    write_page(STUDY, page_of(out), out)


def _rows(path: Path) -> pd.DataFrame:
    """Read the rows, none if there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=_KEY)


if __name__ == "__main__":
    typer.run(main)
