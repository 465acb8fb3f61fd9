"""The steps of the flows: thin Prefect tasks around functions of the library.

No task takes a random generator or relies on Prefect's cache: an epoch is a function of the
previous state, and finished evaluations are in the archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from swarm.ensemble import SubsetEnsemble
from swarm.errors import InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.problem.time_folds import TimeWindows
from swarm.search.confirmation import ConfirmationPlan, confirm_on_fresh_folds
from swarm.search.driver import Search, SearchState
from swarm.search.history import EpochRecord
from swarm.search.prefilter import Cut, Prefilter, cut_units
from swarm.search.proxy import confirm
from swarm.search.result import SearchResult
from swarm.search.tuning import Round, Tuning, TuningResult, choose_setting
from swarm.validation import Judgement, judge
from tasks.models.registry import ModelInfo, log_ensemble
from tasks.preparation import prepare
from tasks.sources import fetch
from tasks.split import Split, split
from tasks.step import step
from tasks.table import Table
from tasks.tracking.run_log import RunLog

__all__ = [
    "choose_model_setting",
    "confirm_best",
    "confirm_fresh",
    "cut_by_importance",
    "fetch_data",
    "fit_ensemble",
    "is_retryable",
    "judge_answer",
    "positive_of",
    "prepare_search",
    "register_model",
    "run_epoch",
    "split_rows",
]


def is_retryable(_task: object, _run: object, state: Any) -> bool:
    """Retry condition: invalid input is not retried, any other error may be transient."""
    try:
        state.result(raise_on_failure=True)
    except InputError:
        return False
    except Exception:
        return True
    return True


@step("fetch")
def fetch_data(source: str, options: Mapping[str, Any]) -> Table:
    """Fetch the table; see :func:`tasks.sources.fetch`.

    `options` is the section `data` of a configuration. Its keys ``categorical_support`` and
    ``weights_in_score`` concern the model and the scorer, and are ignored here.
    """
    others = ("categorical_support", "weights_in_score")
    return fetch(source, **{k: v for k, v in options.items() if k not in others})


@step("split")
def split_rows(
    table: Table,
    kind: str,
    test_size: float,
    seed: int,
    estimator: Any,
    windows: TimeWindows | None = None,
) -> Split:
    """Split the rows; see :func:`tasks.split.split`."""
    return split(table, kind, test_size=test_size, seed=seed, estimator=estimator, windows=windows)


prepare_search = step("prepare")(prepare)


@step("epoch")
def run_epoch(search: Search, state: SearchState) -> tuple[SearchState, EpochRecord]:
    """Run one epoch from a frozen state; a retry repeats the same epoch."""
    return search.step(state)


@step("prefilter")
def cut_by_importance(plan: Prefilter, evaluator: CrossValidation) -> Cut:
    """Leave units out before the search; see :func:`swarm.search.prefilter.cut_units`."""
    return cut_units(plan, evaluator)


@step("model-setting")
def choose_model_setting(tuning: Tuning, rounds: Sequence[Round], *given: Any) -> TuningResult:
    """Choose a setting of the model; see :func:`swarm.search.tuning.choose_setting`."""
    return choose_setting(tuning, rounds, *given)


@step("confirm")
def confirm_best(
    result: SearchResult, guide: CrossValidation, evaluator: CrossValidation, **options: Any
) -> SearchResult:
    """Evaluate the best subsets of the proxy model; see :func:`swarm.search.proxy.confirm`."""
    return confirm(result, guide, evaluator, **options)


@step("confirm-fresh")
def confirm_fresh(
    result: SearchResult, searched: CrossValidation, fresh: CrossValidation, plan: ConfirmationPlan
) -> SearchResult:
    """Evaluate the best subsets on fresh folds; see :mod:`swarm.search.confirmation`."""
    return confirm_on_fresh_folds(result, searched, fresh, plan)


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
    weight = test.weight_in_score(problem)
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
        cost_of=None if weight is None else partial(problem.scoring.cost, weight=weight),
        cv_cost=cv_cost,
        fitted=ensemble,
        **options,
    )


@step("register")
def register_model(
    log: RunLog,
    ensemble: SubsetEnsemble,
    example: pd.DataFrame,
    name: str | None,
    description: str | None,
    params: Mapping[str, object],
) -> ModelInfo:
    """Save the ensemble as a model of the run, and register it if a name is given."""
    return log_ensemble(
        log.tracking, log.run_id, ensemble, example, name, description, params=params
    )
