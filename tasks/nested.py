"""Nested resampling: the outer folds, the step that runs one of them, and the artifacts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError
from swarm.rows import divide
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.validation.nested import NestedEstimate, OuterScores
from tasks.files import json_file
from tasks.search_cell import Cell, CellResult, search_cell
from tasks.split import rows_of
from tasks.stability import Assessment
from tasks.step import RETRIES, step
from tasks.steps import fit_ensemble, judge_answer
from tasks.table import Table

STAGES = ("search", "proxy", "confirmation", "ensemble", "baselines")
# One draw per outer fold: the mean over the outer folds averages over the draws.
_N_RANDOM = 1


@dataclass(frozen=True, eq=False)
class OuterFold:
    """Rows of one outer fold, as ascending positions in the table."""

    name: str  # "fold 2 of 5", with its repetition if there are several
    train: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FoldResult:
    """Result of the whole procedure on one outer fold."""

    cell: CellResult  # its search; `test_cost` is that of the best subset on the outer test rows
    subsets: list[list[str]]  # members of the ensemble, the best subset first
    scores: OuterScores
    fits: Mapping[str, int]  # of each of `STAGES`, cached fits included
    # of each of `STAGES`, with the recorded training time of cached fits
    seconds: Mapping[str, float]


def outer_kind(table: Table, split: str, folds: str, estimator: Any) -> str:
    """Return the kind of the outer folds: in time if split or folds are, or by the same column."""
    if "time" in (split, folds):
        return "time"
    if folds == "column":
        return "column"
    return rows_of(table, estimator).kind


def outer_folds(
    table: Table,
    kind: str,
    n_folds: int,  # ignored by kind "column": as many as the column has values
    repeats: int,  # number of partitions, each with its own seed
    seed: int,  # of the first partition
    estimator: Any,
    gap: int = 0,  # rows left out between training and test rows, for kind "time"
) -> list[OuterFold]:
    """Divide the rows into outer folds; InputError if they, or a partition, do not allow it."""
    if repeats > 1 and kind in ("time", "column"):
        raise ConfigError(
            f"outer folds of kind {kind!r} have a single partition; set --repeats to 1"
        )
    if kind == "column" and table.fold is not None and table.fold.nunique() < 3:
        raise ConfigError(
            f"the fold column {table.fold.name!r} has {table.fold.nunique()} values; nested "
            "resampling needs 3 or more, as one is held out and the search uses the others: set "
            "folds.kind to another one"
        )

    outer = []
    for repeat in range(repeats):
        folds = divide(rows_of(table, estimator), kind, n_folds, seed=seed + repeat, gap=gap)
        suffix = f", repeat {repeat + 1}" if repeats > 1 else ""
        outer += [
            OuterFold(f"fold {i} of {len(folds)}{suffix}", np.sort(train), np.sort(test))
            for i, (train, test) in enumerate(folds, 1)
        ]
    return outer


@step("outer-fold", retries=RETRIES)
def run_outer_fold(
    cell: Cell,
    search: Search,  # on the training rows
    archive: str,  # its URL, with secrets
    train: Table,
    test: Table,
    *,
    n_models: int,
    union_at_most: float | int | None,
    vote: str,
    metrics: Sequence[str] | None,  # on the test rows
) -> FoldResult:
    """Search, confirm and fit the ensemble on the training rows, then score on the test rows.

    Evaluations that are in the archive are not repeated; the models after the search are. Raises
    SearchInterrupted if the searches were interrupted.
    """
    searched, result = search_cell(cell, search, archive)
    masks = result.best_members(n_models, union_at_most).masks
    subsets = [result.space.subset(mask) for mask in masks]
    began = perf_counter()
    ensemble = fit_ensemble.fn(search.problem, train, subsets, vote)
    fitted = perf_counter()
    judgement = judge_answer.fn(
        search.problem,
        train,
        test,
        ensemble,
        result.cost,
        by_group=train.groups is not None,
        metrics=metrics,
        n_resamples=1,
        n_random=_N_RANDOM,
        seed=cell.seed,
        n_jobs=search.evaluation.get("n_jobs", 1),
    )
    judged = perf_counter()
    confirmation = result.confirmation
    scores = OuterScores(
        n_train=len(train.features),
        n_test=len(test.features),
        searched_cost=result.cost,
        confirmed_cost=None if confirmation is None else confirmation.cost,
        costs=dict(judgement.costs),
        table=judgement.table[["contender", "metric", "value", "n_features"]],
        guess=judgement.guess if search.problem.scoring.is_named else None,
    )
    (proxy_fits, proxy_seconds), (fresh_fits, fresh_seconds) = _work_after(search, result, archive)
    search_seconds = searched.seconds_algorithm + searched.seconds_evaluation
    # The best subset, all features, and as many models of all and of random features as subsets.
    after = 2 + (1 + _N_RANDOM) * len(subsets)
    fits = (searched.fits, proxy_fits, fresh_fits, len(subsets), after)
    seconds = (search_seconds, proxy_seconds, fresh_seconds, fitted - began, judged - fitted)
    return FoldResult(
        cell=replace(searched, test_cost=judgement.costs["best_subset"]),
        subsets=subsets,
        scores=scores,
        fits=dict(zip(STAGES, fits, strict=True)),
        seconds=dict(zip(STAGES, seconds, strict=True)),
    )


def _work_after(
    search: Search, result: SearchResult, archive: str
) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return fits and recorded seconds on the full model after a proxy, and on fresh folds."""
    with closing(Archive(archive)) as opened:

        def work(problem: Any, masks: NDArray[np.bool_]) -> tuple[int, float]:
            records = opened.open_problem(problem).lookup(masks)
            return len(masks) * problem.n_folds, sum(record.seconds for record in records)

        proxy = fresh = (0, 0.0)
        if result.measured is not None:
            proxy = work(search.problem, result.measured.masks)
        if result.confirmation is not None and search.confirmation is not None:
            masks = np.vstack([result.confirmation.candidates.masks, ~result.space.forbidden])
            fresh = work(search.confirmation.problem, masks)
        return proxy, fresh


def fold_table(results: Sequence[FoldResult]) -> pd.DataFrame:
    """Return one row per outer fold: rows, costs, subset, and what each stage took."""
    rows = []
    for result in results:
        scores, cell = result.scores, result.cell
        rows.append(
            {
                "fold": cell.cell.dataset,
                "seed": cell.cell.seed,
                "n_train": scores.n_train,
                "n_test": scores.n_test,
                "searched_cost": scores.searched_cost,
                "confirmed_cost": scores.confirmed_cost,
                **{f"cost_{name}": cost for name, cost in scores.costs.items()},
                "size": cell.size,
                "features": json.dumps(cell.features, ensure_ascii=False),
                "n_subsets": len(result.subsets),
                **{f"fits_{stage}": result.fits[stage] for stage in STAGES},
                **{f"seconds_{stage}": round(result.seconds[stage], 3) for stage in STAGES},
            }
        )
    return pd.DataFrame(rows)


def nested_files(
    results: Sequence[FoldResult], estimate: NestedEstimate, stability: Assessment, summary: Any
) -> dict[str, bytes]:
    """Return the artifacts: tables of folds, costs, gains, metrics and features, and a figure."""
    tables = {
        "nested_folds.csv": fold_table(results),
        "nested_costs.csv": estimate.costs,
        "nested_gains.csv": estimate.gains,
        "nested_metrics.csv": estimate.metrics,
        "stability.csv": stability.table,
    }
    return {
        **{name: table.to_csv(index=False).encode() for name, table in tables.items()},
        "nested.json": json_file(summary),
        **stability.figures(),
    }
