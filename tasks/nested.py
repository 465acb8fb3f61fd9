"""An outer fold of nested resampling: the whole procedure, and its scores on the test rows."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool
from swarm.json_data import plain
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.storage.archive import Archive
from tasks.step import RETRIES, step
from tasks.steps import fit_ensemble, judge_answer
from tasks.study import Cell, CellResult, search_cell
from tasks.table import Table

STAGES = ("search", "proxy", "confirmation", "ensemble", "baselines")
# One draw per outer fold: the mean over the outer folds averages over the draws.
_N_RANDOM = 1


@dataclass(frozen=True)
class FoldResult(CellResult):
    """A search on the training rows of an outer fold, and the scores on its test rows.

    `test_cost` is that of the best subset.

    Attributes
    ----------
    n_train, n_test : int
        Numbers of training and of test rows of the outer fold.
    confirmed_cost : float or None
        Cost on fresh folds of the training rows, if there are any.
    guess : float or None
        Score of a model that ignores the features, in the metric of the search.
    costs : dict
        Cost on the test rows by contender.
    scores : DataFrame
        Columns: contender, metric, value, n_features.
    subsets : list of list of str
        Members of the ensemble, the best subset first.
    stage_fits : dict
        Number of fits by stage of `STAGES`, cached fits included.
    stage_seconds : dict
        Seconds by stage of `STAGES`, with the recorded training time of cached fits.
    """

    n_train: int
    n_test: int
    confirmed_cost: float | None
    guess: float | None
    costs: Mapping[str, float]
    scores: pd.DataFrame
    subsets: list[list[str]]
    stage_fits: Mapping[str, int]
    stage_seconds: Mapping[str, float]

    def files(self) -> dict[str, bytes]:
        """Return the artifacts of the search, and the metrics on the test rows."""
        return {**super().files(), "metrics.csv": self.scores.to_csv(index=False).encode()}

    def metrics(self, scoring: Scoring) -> dict[str, float | None]:
        """Return the metrics of the search, the costs, and what each stage took."""
        return {
            **super().metrics(scoring),
            **{f"outer/cost_{name}": plain(cost) for name, cost in self.costs.items()},
            "outer/searched_cost": self.cost,
            "outer/confirmed_cost": self.confirmed_cost,
            **{f"spent/fits_{stage}": float(n) for stage, n in self.stage_fits.items()},
            **{f"work/seconds_{stage}": s for stage, s in self.stage_seconds.items()},
        }

    def row(self) -> dict[str, Any]:
        """Return the row of the outer fold: rows, costs, subset, and what each stage took."""
        return {
            "fold": self.cell.dataset,
            "seed": self.cell.seed,
            "n_train": self.n_train,
            "n_test": self.n_test,
            "searched_cost": self.cost,
            "confirmed_cost": self.confirmed_cost,
            "guess": self.guess,
            **{f"cost_{name}": cost for name, cost in self.costs.items()},
            "size": self.size,
            "features": json.dumps(self.features, ensure_ascii=False),
            "n_subsets": len(self.subsets),
            **{f"fits_{stage}": self.stage_fits[stage] for stage in STAGES},
            **{f"seconds_{stage}": round(self.stage_seconds[stage], 3) for stage in STAGES},
        }


@step("outer-fold", retries=RETRIES)
def run_outer_fold(
    cell: Cell,
    search: Search,
    archive: str,
    stop: Path | None,
    test: Table,
    *,
    train: Table,
    n_models: int,
    union_at_most: float | int | None,
    vote: str,
    metrics: Sequence[str] | None,
) -> FoldResult:
    """Search, confirm and fit the ensemble on the training rows, then score on the test rows.

    Evaluations that are in the archive are not repeated; the models after the search are.

    Parameters
    ----------
    cell : Cell
    search : Search
        Search on the training rows.
    archive : str
        URL of the archive, with secrets.
    stop : Path or None
        File whose existence ends the search.
    test, train : Table
        Rows of the outer fold.
    n_models, union_at_most, vote
        Parameters of the ensemble.
    metrics : sequence of str or None
        Metrics on the test rows.

    Raises
    ------
    SearchInterrupted
        If the searches were interrupted.
    """
    searched, result = search_cell(cell, search, archive, stop)
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
        split="random" if train.groups is None else "group",
        metrics=metrics,
        level=None,
        n_random=_N_RANDOM,
        seed=cell.seed,
        n_jobs=search.evaluation.get("n_jobs", 1),
    )
    judged = perf_counter()
    guess = judgement.guessing
    confirmation = result.confirmation
    (proxy_fits, proxy_seconds), (fresh_fits, fresh_seconds) = _work_after(search, result, archive)
    search_seconds = searched.seconds_algorithm + searched.seconds_evaluation
    # The best subset, all features, and as many models of all and of random features as subsets.
    baseline_fits = 2 + (1 + _N_RANDOM) * len(subsets)
    fits = (searched.fits, proxy_fits, fresh_fits, len(subsets), baseline_fits)
    seconds = (search_seconds, proxy_seconds, fresh_seconds, fitted - began, judged - fitted)
    search_fields = {**vars(searched), "test_cost": judgement.costs["best_subset"]}
    return FoldResult(
        **search_fields,
        n_train=len(train.features),
        n_test=len(test.features),
        confirmed_cost=None if confirmation is None else confirmation.cost,
        guess=guess.value if guess is not None and search.problem.scoring.is_named else None,
        costs=dict(judgement.costs),
        scores=judgement.table[["contender", "metric", "value", "n_features"]],
        subsets=subsets,
        stage_fits=dict(zip(STAGES, fits, strict=True)),
        stage_seconds=dict(zip(STAGES, seconds, strict=True)),
    )


def _work_after(
    search: Search, result: SearchResult, archive: str
) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return fits and recorded seconds on the full model after a proxy, and on fresh folds."""
    with closing(Archive(archive)) as opened:

        def work(problem: Problem, masks: Bool) -> tuple[int, float]:
            records = opened.open_problem(problem).lookup(masks)
            return len(masks) * problem.n_folds, sum(record.seconds for record in records)

        proxy = fresh = (0, 0.0)
        if result.measured is not None:
            proxy = work(search.problem, result.measured.masks)
        if result.confirmation is not None and search.confirmation is not None:
            masks = np.vstack([result.confirmation.candidates.masks, ~result.space.forbidden])
            fresh = work(search.confirmation.problem, masks)
        return proxy, fresh
