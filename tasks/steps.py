"""The steps of the flows: thin Prefect tasks around functions of the library.

No task takes a random generator or relies on Prefect's cache: an epoch is a function of the
previous state, and finished evaluations are in the archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from swarm.ensemble import SubsetEnsemble
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.search.confirmation import confirm_on_fresh_folds
from swarm.search.driver import Search, SearchState
from swarm.search.history import EpochRecord
from swarm.search.prefilter import cut_units
from swarm.search.proxy import confirm
from swarm.search.tuning import choose_setting
from swarm.validation import Judgement, judge
from tasks.models.registry import log_ensemble
from tasks.preparation import prepare
from tasks.sources import fetch
from tasks.split import split
from tasks.step import step
from tasks.table import Table

fetch_data = step("fetch")(fetch)
split_rows = step("split")(split)
prepare_search = step("prepare")(prepare)
cut_by_importance = step("prefilter")(cut_units)
choose_model_setting = step("model-setting")(choose_setting)
confirm_best = step("confirm")(confirm)
confirm_fresh = step("confirm-fresh")(confirm_on_fresh_folds)
register_model = step("register")(log_ensemble)


@step("epoch")
def run_epoch(search: Search, state: SearchState) -> tuple[SearchState, EpochRecord]:
    """Run one epoch from a frozen state; a retry repeats the same epoch."""
    return search.step(state)


@step("ensemble")
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


@step("evaluate")
def judge_answer(
    problem: Problem,
    train: Table,
    test: Table,
    ensemble: SubsetEnsemble,
    best: Sequence[str],
    cv_cost: float,
    *,
    by_group: bool,
    **options: Any,
) -> Judgement:
    """Compare the result with its baselines on the test rows.

    `by_group` is true if the groups of the test rows differ from those of the training rows.
    Otherwise the baseline committee is not split by group, as members that have not seen some of
    the groups would be at an unfair disadvantage.
    """
    return judge(
        problem.estimator,
        (train.features, train.target),
        (test.features, test.target),
        ensemble.subsets,
        best=best,
        space=problem.space,
        pos_label=positive_of(problem),
        scoring=problem.scoring,
        train_groups=train.groups if by_group else None,
        test_groups=test.groups,
        train_weight=train.weight,
        test_weight=test.weight_in_score(problem),
        cv_cost=cv_cost,
        fitted=ensemble,
        **options,
    )
