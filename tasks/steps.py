"""The steps of the flows: thin Prefect tasks around functions of the library.

No task takes a random generator or relies on Prefect's cache: an epoch is a function of the
previous state, and finished evaluations are in the archive.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from swarm.ensemble import SubsetEnsemble
from swarm.problem.hints import unit_distances
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.search.driver import Driver
from swarm.search.history import EpochRecord
from swarm.search.result import SearchResult
from swarm.search.runner import Stages
from swarm.search.state import SearchState
from swarm.validation import Judgement, Rows, judge
from swarm.validation.drop_column import feature_losses
from tasks.models.registry import log_ensemble
from tasks.preparation import compute_hints, pose
from tasks.sources import fetch
from tasks.split import split
from tasks.step import RETRIES, step
from tasks.table import Table

fetch_data = step("fetch")(fetch)
split_rows = step("split")(split)
pose_problem = step("problem")(pose)
spearman_distance = step("spearman-distance")(unit_distances)
cluster_columns = step("clusters")(compute_hints)
cut_by_importance = step("prefilter", retries=RETRIES)(Stages.narrow)
measure_best = step("full-model", retries=RETRIES)(Stages.measure)
rank_units = step("rankings", retries=RETRIES)(Stages.rank)
confirm_fresh = step("confirm-fresh", retries=RETRIES)(Stages.confirm)
losses_on_test = step("drop-features")(feature_losses)
register_model = step("register")(log_ensemble)


@step("initial-swarm")
def initial_swarm(driver: Driver) -> SearchState:
    """Return the state before the first epoch."""
    return driver.start()


@step("epoch", retries=RETRIES)
def run_epoch(driver: Driver, state: SearchState) -> tuple[SearchState, EpochRecord]:
    """Run one epoch from a frozen state, so that a retry repeats the same epoch."""
    return driver.step(state)


def last_step(result: SearchResult) -> object:
    """Return what the last step of a search gave, for the arrows on Prefect's page."""
    return result.confirmation or result.rivals or result.measured or result.records[-1]


@step("ensemble", retries=RETRIES)
def fit_ensemble(
    problem: Problem, train: Table, subsets: Sequence[Sequence[str]], vote: str
) -> SubsetEnsemble:
    """Train one model per subset on all training rows."""
    ensemble = SubsetEnsemble(problem.estimator, subsets, vote=vote, pos_label=positive_of(problem))
    ensemble.fit(train.features, train.target, sample_weight=train.weight)
    return ensemble


def positive_of(problem: Problem) -> Any:
    """Return the positive class of a binary target; None for other tasks."""
    if problem.task != "binary":
        return None
    return positive_class(problem.scoring, np.asarray(problem.target))


@step("evaluate", retries=RETRIES)
def judge_answer(
    problem: Problem,
    train: Table,
    test: Table,
    ensemble: SubsetEnsemble,
    cv_cost: float,
    *,
    split: str,
    **options: Any,
) -> Judgement:
    """Compare the result with its baselines on the test rows.

    `split` is the kind of the split. Unless it keeps groups together, the baseline committee is not
    split by group: members that have not seen some of the groups would be at a disadvantage.
    """
    return judge(
        ensemble,
        Rows(
            train.features,
            train.target,
            train.groups if split == "group" else None,
            None if train.weight is None else train.weight.to_numpy(dtype=np.float64),
        ),
        test.rows_to_test(problem, split),
        space=problem.space,
        scoring=problem.scoring,
        cv_cost=cv_cost,
        **options,
    )
