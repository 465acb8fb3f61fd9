"""The worked example on Musk (version 2) again: by random rows, by molecules, and an ablation.

The example fixes no seed: its numbers are one draw. Its runs are select runs of shipped
configurations here; the ablation searches at equal distinct evaluations on the cheaper model of the
fast runs.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from conf.load import load_as
from conf.schema import SelectConfig
from conf.sections import (
    BudgetSection,
    EvaluationSection,
    ModelSection,
    SplitSection,
    StrategySection,
)
from flows.display.terminal import say
from flows.run.answer import SelectRun
from flows.run.configured import archive_url
from flows.run.prefect_server import start_prefect
from flows.select import select
from studies import page as pages
from studies.runner import Part, rows_of, stored
from swarm.search.requests import training_seconds
from swarm.storage.archive import Archive
from tasks.files import write_atomically

METRICS = ("f1", "accuracy", "recall", "precision")
CONTENDERS = {
    "ensemble": "ensemble of subsets",
    "best_subset": "best single subset",
    "all_features": "all features",
    "all_features_ensemble": "all features, same vote",
    "random_subsets": "random subsets, same vote",
}
_RIVALS = ("all_features", "all_features_ensemble", "random_subsets", "best_subset")
_PAIRS = (*(("ensemble", rival) for rival in _RIVALS), ("best_subset", "all_features"))
_VARIANTS: dict[str, dict[str, Any]] = {
    "whole": {},
    "no_local_search": {"local_search": False},
    "no_regrouping": {"regroup_every": 0},
    "no_shrink": {"shrink": False},
    "bernoulli_init": {"init": "bernoulli"},
}
_RUN = ["split", "mode", "seed"]


def config_of(
    data: Path | None, work: Path, split: str, mode: str, seed: int, epochs: int
) -> SelectConfig:
    """Configure one run; without `data` the table comes from the UCI repository."""
    source = "{source: uci, name: 75, group: molecule_name}"
    if data is not None:
        path = json.dumps(str(data / "musk_v2.parquet"))
        source = f"{{source: file, path: {path}, target: target, group: group}}"
    given = [
        f"data={source}",
        f"archive.url=sqlite:///{work / 'musk.db'}",
        f"tracking.uri=sqlite:///{work / 'mlflow.db'}",
        f"tracking.artifacts={work / 'artifacts'}",
        "tracking.register=false",
        "confirm=null",
        "evaluation.n_jobs=-1",
        f"seed={seed}",
        f"budget.epochs={epochs}",
        f"name=musk-{split}-{mode}-{seed}",
        *(["split.kind=group", "folds.kind=stratified_group"] if split == "group" else ()),
        *(["proxy.rows=null", "proxy.best=16"] if mode == "fast" else ()),
    ]
    return load_as(SelectConfig, "musk_fast" if mode == "fast" else "musk", given)


def digest_of(config: SelectConfig) -> str:
    """Name what the figures of a run depend on; stored runs carry it."""
    kept = {"split", "model", "scoring", "folds", "strategy", "budget", "proxy", "ensemble"}
    text = config.model_dump_json(include=kept)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_selects(
    data: Path | None,
    work: Path,
    out: Path,
    verbosity: int,
    *,
    seeds: int = 5,
    epochs: int = 100,
    epochs_group: int = 100,
    epochs_exact: int = 100,
) -> None:
    """Run what has no figures yet, 0 epochs being no run; tables are written as runs end."""
    start_prefect()
    planned = [(split, "fast", seed) for seed in range(seeds) for split in ("random", "group")]
    for split, mode, seed in [*planned, ("random", "exact", 0)]:
        n = epochs_exact if mode == "exact" else epochs if split == "random" else epochs_group
        config = config_of(data, work, split, mode, seed, n or 1)
        done = tables_of(out)["runs"]
        known = zip(*(done[name] for name in (*_RUN, "plan")), strict=True) if len(done) else ()
        if n == 0 or (split, mode, seed, digest_of(config)) in set(known):
            continue
        say(f"{split} split, {mode}, seed {seed}", verbosity)
        _keep((split, mode, seed), config, select(config, None, verbosity), out)


def _training_seconds(config: SelectConfig, outcome: SelectRun) -> float:
    """Sum the seconds of the models that the search needed."""
    with closing(Archive(archive_url(config.archive))) as archive:
        trained = archive.open_problem(outcome.search.search_problem)
        return training_seconds(outcome.result.state.requests, trained)


def tables_of(out: Path) -> dict[str, pd.DataFrame]:
    """Read the tables ``figures``, ``epochs`` and ``runs``; empty where there are none."""
    return {name: stored(_path(out, name)) for name in ("figures", "epochs", "runs")}


def _path(out: Path, name: str) -> Path:
    return out / "results" / f"musk-{name}.csv"


def _keep(key: tuple[str, str, int], config: SelectConfig, outcome: SelectRun, out: Path) -> None:
    """Add the tables of a run to those that are stored, in the place of its earlier ones."""
    result, judgement = outcome.result, outcome.judgement
    counts = result.state.counts
    row = {
        "epochs": result.state.epoch,
        "cost": result.cost,
        "size": len(result.features),
        "n_available": result.space.n_columns,
        **{name: getattr(counts, name) for name in ("evaluations", "distinct", "fits")},
        "proxy_correlation": result.correlation,
        "seconds": round(_training_seconds(config, outcome), 1),
        "n_train": len(outcome.search.problem.target),
        "n_test": len(judgement.predictions),
        "plan": digest_of(config),
    }
    tables = {
        "figures": judgement.table[["contender", "metric", "value", "low", "high", "n_features"]],
        "epochs": result.history[["epoch", "best_cost", "best_size"]],
        "runs": pd.DataFrame([row]),
    }
    (out / "results").mkdir(parents=True, exist_ok=True)
    for name, before in tables_of(out).items():
        table = tables[name].assign(**dict(zip(_RUN, key, strict=True)))
        table = table[[*_RUN, *(column for column in table if column not in _RUN)]]
        if len(before):
            table = pd.concat([before[(before[_RUN] != list(key)).any(axis=1)], table])
        text = table.sort_values(_RUN, kind="stable").to_csv(index=False, lineterminator="\n")
        write_atomically(_path(out, name), text, 0o644)


def parts(
    data: Path | None,
    work: Path,
    only: list[str] | None = None,
    *,
    seeds_ablation: int = 5,
    distinct: int = 640,
) -> list[Part]:
    """Lay the ablation out: parts of the algorithm switched off, one at a time."""
    config = config_of(data, work, "random", "fast", 0, 1)
    assert config.proxy is not None
    params = {**config.model.params, **config.proxy.params}
    changed = config.model_copy(
        update={
            "name": "musk-ablation",
            "model": ModelSection(estimator=config.model.estimator, params=params),
            "proxy": None,
            "split": SplitSection(kind="random", test_size=0.3, seed=0),
            "folds": config.folds.model_copy(update={"seed": 0}),
            "budget": BudgetSection(epochs=None, distinct=distinct),
            "evaluation": EvaluationSection(n_jobs=1),
        }
    )
    strategies = {
        label: StrategySection(name="multiswarm", params={**config.strategy.params, **given})
        for label, given in _VARIANTS.items()
    }
    seeds = tuple(range(seeds_ablation))
    return [Part("ablation", "musk", changed, strategies, seeds, resample=0, archived=True)]


def section_of(out: Path) -> pages.Section:
    """Fill the section in."""
    tables, rows = tables_of(out), rows_of("musk", out).read()
    figures, runs = tables["figures"], tables["runs"]
    fast = runs[runs["mode"] == "fast"].groupby("split")
    own = figures[(figures["mode"] == "fast") & figures["metric"].isin(METRICS)]
    wide = own.pivot(index=["split", "metric", "seed"], columns="contender", values="value")
    pairs = {pair: wide[pair[0]] - wide[pair[1]] for pair in _PAIRS}
    gaps = pd.concat(pairs, names=["first", "second"])
    gaps.index = gaps.index.rename({"split": "dataset", "seed": "resample"})
    gaps = gaps.sort_index()
    sizes = {name: (n["n_train"].mean(), n["n_test"].mean()) for name, n in fast}
    tests = pages.corrected_gains(gaps, sizes)
    spread = wide.stack().groupby(level=["split", "contender", "metric"])
    means, ablation = spread.agg(["mean", "min", "max"]), _ablation(rows)
    values = {
        "examples": pd.read_csv(pages.PUBLISHED / "musk.csv", index_col="contender"),
        "contenders": CONTENDERS,
        "runs": fast.size(),
        "epochs": fast["epochs"].max(),
        "spread": means,
        "features": own.groupby(["split", "contender"])["n_features"].mean(),
        "tests": tests,
        "group_f1": tests.xs(("group", "f1"), level=["dataset", "metric"]),
        "ends": runs.loc[runs["split"] == "random", "cost"],
        "missing": pages.unfinished(rows, {"ablation": 5}),
    }
    stored_tables = {
        "musk_tests": tests.reset_index().rename(columns={"dataset": "split"}),
        "musk_means": means.reset_index(),
        "musk_ablation": ablation.rename_axis("search").reset_index(),
    }
    return pages.Section(values, stored_tables)


def _ablation(rows: pd.DataFrame) -> pd.DataFrame:
    """Costs of the searches without one part, less those of the whole, with Student's interval."""
    costs = rows.pivot(index="seed", columns="strategy", values="cost")[list(_VARIANTS)]
    gaps = costs.sub(costs["whole"], axis=0)
    spans = {name: ttest_1samp(gaps[name], 0.0).confidence_interval() for name in gaps}
    table = pd.DataFrame.from_dict(spans, orient="index", columns=["low", "high"]).fillna(0.0)
    return table.assign(mean=costs.mean(), gap=gaps.mean(), worse=(gaps > 0).sum(), n=len(gaps))


if __name__ == "__main__":
    pages.command("musk", section_of, parts, before=run_selects)
