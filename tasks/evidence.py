"""The searches of a study: run on processes of this machine, each row written as it comes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from prefect import task
from prefect.cache_policies import NO_CACHE
from threadpoolctl import threadpool_limits

from swarm.evidence.rows import COLUMNS
from swarm.search.result import SearchResult
from swarm.validation import judge
from tasks.compare_cell import Cell, CellPlan, CellResult, Ground, search_cell

__all__ = ["Judged", "Trial", "ground_facts", "run_trials"]

_UNKNOWN = float("nan")


@dataclass(frozen=True)
class Judged:
    """How the answer of a search is judged on test rows.

    Attributes
    ----------
    train : Table
        The rows that were searched on; the test rows are those of the ground.
    n_models : int
        Best subsets, one model each, that vote.
    n_random : int
        Draws of random subsets of the same sizes.
    """

    train: Any
    n_models: int = 8
    n_random: int = 3


@dataclass(frozen=True)
class Trial:
    """One search of a study.

    Attributes
    ----------
    part : str
        Protocol that it belongs to.
    cell : Cell
        Data set, label of the strategy, and seed.
    resample : int
        Which split into training and test rows; -1 for a search on all rows.
    plan : CellPlan
    digest : str
        Names everything that the row depends on.
    """

    part: str
    cell: Cell
    resample: int
    plan: CellPlan
    digest: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What its row is told by; see :meth:`swarm.evidence.rows.Rows.done`."""
        cell = self.cell
        return (self.part, cell.dataset, self.resample, cell.strategy, cell.seed, self.digest)


def ground_facts(ground: Ground) -> Mapping[str, Any]:
    """Facts of a data set that pages tell: all rows, columns, and classes or labels."""
    problem = ground.prepared.problem
    target = np.asarray(problem.target)
    if ground.test is not None:
        kept_aside = np.asarray(ground.test.target)
        target = np.concatenate([target, kept_aside.reshape(len(kept_aside), *target.shape[1:])])
    facts: dict[str, Any] = {"rows": len(target), "columns": problem.space.n_columns}
    if target.ndim == 2:
        return {**facts, "labels": target.shape[1]}
    counts = np.unique(target, return_counts=True)[1].tolist()
    return {**facts, "classes": len(counts), "class_rows": sorted(counts, reverse=True)}


@task(name="searches", cache_policy=NO_CACHE, persist_result=False)
def run_trials(
    trials: Sequence[Trial],
    ground: Ground,
    judged: Judged | None,
    keep: Callable[[Trial, CellResult, Mapping[str, Any]], None],
    done: Set[tuple[Any, ...]],
    workers: int,
) -> int:
    """Run searches on one ground side by side; `keep` is called with each row as it comes.

    Parameters
    ----------
    trials : sequence of Trial
    ground : Ground
    judged : Judged or None
        None: no ensembles are fitted, and at most the best subset is tried on test rows.
    keep : callable
        ``keep(trial, result, row)``; called in this process. It adds to `done`, so that a retry
        leaves out what the first try has kept.
    done : set of keys of trials
        What is not run.
    workers : int
        Processes.

    Returns
    -------
    int
        Number of searches that were run.
    """
    missing = [trial for trial in trials if trial.key not in done]
    for trial, result, row in _answers(missing, ground, judged, workers):
        keep(trial, result, row)
    return len(missing)


def _answers(
    trials: Sequence[Trial], ground: Ground, judged: Judged | None, workers: int
) -> Iterator[tuple[Trial, CellResult, dict[str, Any]]]:
    if workers == 1 or len(trials) == 1:
        for trial in trials:
            yield _trial(trial, ground, judged)
        return
    with parallel_config("loky", inner_max_num_threads=1):
        jobs = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")
        yield from jobs(delayed(_trial)(trial, ground, judged) for trial in trials)


def _trial(
    trial: Trial, ground: Ground, judged: Judged | None
) -> tuple[Trial, CellResult, dict[str, Any]]:
    """Run a search in whatever process this is, and make its row."""
    with threadpool_limits(1):
        result, search = search_cell(trial.cell, trial.plan, ground)
        costs = {} if judged is None else _judged(search, ground, judged, trial.cell.seed)
    known = {**asdict(trial.cell), **vars(result), **costs}
    known |= {"part": trial.part, "resample": trial.resample, "plan": trial.digest}
    if known["test_cost"] is None:
        known["test_cost"] = _UNKNOWN
    row = {name: known.get(name, _UNKNOWN) for name in COLUMNS}
    return trial, result, row


def _judged(search: SearchResult, ground: Ground, judged: Judged, seed: int) -> dict[str, float]:
    """Costs on the test rows of the ensemble, and of what it has to beat."""
    problem, test = ground.prepared.problem, ground.test
    if test is None:
        return {}
    masks, _ = search.best_members(judged.n_models)
    subsets = [search.space.subset(mask) for mask in masks]
    answer = judge(
        problem.estimator,
        (judged.train.features, judged.train.target),
        (test.features, test.target),
        subsets,
        best=search.features,
        space=problem.space,
        cost_of=problem.scoring.cost,
        n_random=judged.n_random,
        # The intervals of these studies come from the resamples, not from a bootstrap.
        n_resamples=1,
        seed=seed,
    )
    return {
        "test_ensemble": answer.costs["ensemble"],
        "test_all_ensemble": answer.costs["all_features_ensemble"],
        "test_random": answer.costs["random_subsets"],
    }
