"""The steps of the flows: thin Prefect tasks around functions of the library.

No task takes a random generator or relies on Prefect's cache: an epoch is a function of the
previous state, and finished evaluations are in the archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.ensemble import SubsetEnsemble
from swarm.errors import InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.folds import Fold, make_folds, repeated_folds
from swarm.problem.hints import TARGET_HINTS, Hints, prepare_hints
from swarm.problem.inputs import missing_classes
from swarm.problem.problem import Importance, Problem
from swarm.problem.scoring import positive_class
from swarm.problem.space import SearchSpace
from swarm.problem.target import task_of
from swarm.search.confirmation import ConfirmationPlan, confirm_on_fresh_folds, fresh_problem
from swarm.search.driver import Search, SearchState
from swarm.search.history import EpochRecord
from swarm.search.prefilter import Cut, Prefilter, When, cut_units, is_wide
from swarm.search.proxy import confirm
from swarm.search.result import SearchResult
from swarm.validation import Judgement, judge
from swarm.warning_codes import coded
from tasks.models.registry import ModelInfo, log_ensemble
from tasks.sources import fetch
from tasks.split import Split, split
from tasks.step import step
from tasks.table import Table
from tasks.tracking.run_log import RunLog

__all__ = [
    "Prepared",
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


@dataclass(frozen=True)
class Prepared:
    """Inputs of a search.

    Attributes
    ----------
    problem : Problem
        Problem on the training rows.
    hints : Hints
    warnings : tuple of str
        Reasons to doubt the costs, see :mod:`swarm.warning_codes`.
    fresh : Problem or None
        The problem on fresh folds; None if none were requested, or the folds have no other
        partition.
    cut_folds : tuple of (train, test) or None
        The folds on which a prefilter ranks and cuts the units: one fresh partition, or those of
        the search if there is no other. None without a prefilter.
    """

    problem: Problem
    hints: Hints
    warnings: tuple[str, ...] = ()
    fresh: Problem | None = None
    cut_folds: tuple[Fold, ...] | None = None


@step("fetch")
def fetch_data(source: str, options: Mapping[str, Any]) -> Table:
    """Fetch the table; see :func:`tasks.sources.fetch`.

    `options` is the section `data` of a configuration. Its keys ``categorical_support`` and
    ``weights_in_score`` concern the model and the scorer, and are ignored here.
    """
    others = ("categorical_support", "weights_in_score")
    return fetch(source, **{k: v for k, v in options.items() if k not in others})


@step("split")
def split_rows(table: Table, kind: str, test_size: float, seed: int, estimator: Any) -> Split:
    """Split the rows; see :func:`tasks.split.split`."""
    return split(table, kind, test_size=test_size, seed=seed, estimator=estimator)


@step("prepare")
def prepare_search(
    train: Table,
    estimator: Any,
    *,
    scoring: str | None,
    pos_label: str | int | None,
    folds: Mapping[str, Any],
    space: Mapping[str, Any],
    importance: Importance,
    n_clusters: int | None,
    categorical_support: bool = False,
    weights_in_score: bool = False,
    seed: int,
    needs: Sequence[str] = ("distance", "clusters"),
    warm: Sequence[Sequence[str]] = (),
    fresh_partitions: int = 0,
    prefilter: When | None = None,
) -> Prepared:
    """Build the problem on the training rows, and the hints that the strategy needs.

    Columns of `warm` subsets that no longer exist are ignored, and so are incomplete units. If a
    prefilter applies, hints that need the target are computed after it. `folds` are the parameters
    of :func:`swarm.problem.folds.make_folds`, and optionally `repeats`.
    """
    target = train.target
    folds = dict(folds)
    repeats = folds.pop("repeats", 1)

    def drawn(fold_seed: int) -> list[Fold]:
        return _folds(train, {**folds, "seed": fold_seed}, estimator)

    problem = Problem.build(
        train.features,
        target,
        estimator,
        space=SearchSpace.build(list(train.features.columns), **space),
        scoring=scoring,
        pos_label=pos_label,
        folds=repeated_folds(drawn(folds["seed"]), drawn, folds["seed"], repeats),
        repeats=repeats,
        weight=train.weight,
        importance=importance,
        categorical_support=categorical_support,
        seed=seed,
        weights_in_score=weights_in_score,
    )
    is_cut = prefilter is not None and is_wide(problem.space, prefilter)
    hints = prepare_hints(
        problem.features,
        problem.space,
        problem.target,
        problem.task,
        # A configuration may be used on a table with fewer units.
        n_clusters=None if n_clusters is None else min(n_clusters, problem.space.n_units),
        needs=[name for name in needs if not (is_cut and name in TARGET_HINTS)],
        warm=_warm_masks(warm, problem.space),
    )

    def fresh(n_partitions: int, first: int) -> Problem | None:
        # The partitions of the other kinds do not depend on a seed.
        if not n_partitions or not folds["shuffle"] or folds["kind"] in ("time", "column"):
            return None
        return fresh_problem(problem, drawn, folds["seed"], n_partitions, first)

    cut_folds = None
    if is_cut:
        cut_on = fresh(1, 0)
        cut_folds = problem.folds if cut_on is None else cut_on.folds
    warnings = _setup_warnings(train, folds, problem)
    return Prepared(problem, hints, warnings, fresh(fresh_partitions, 1), cut_folds)


def _setup_warnings(train: Table, folds: Mapping[str, Any], problem: Problem) -> tuple[str, ...]:
    """Return warnings about valid settings that are probably mistakes."""
    found = []
    fold = train.fold if folds["kind"] == "column" else None
    if fold is not None and fold.isna().any():
        found.append(
            coded(
                "SWM103",
                f"{int(fold.isna().sum())} of {len(fold)} rows have no value in the fold column "
                f"{fold.name!r}: they are always trained on and never tested; fill them, unless "
                "this is intended",
            )
        )
    missing = missing_classes(problem.folds, problem.target, problem.task)
    if missing:
        few = ", ".join(repr(label) for label in missing[:3]) + ("..." if len(missing) > 3 else "")
        found.append(
            coded(
                "SWM104",
                f"{len(missing)} of {len(np.unique(problem.target))} classes ({few}) are missing "
                "from the training rows of a fold that tests them, where they are always "
                "misclassified; use stratified folds, or merge or drop rare classes",
            )
        )
    return tuple(found)


def _warm_masks(subsets: Sequence[Sequence[str]], space: SearchSpace) -> NDArray[np.bool_] | None:
    """Return masks (n, n_units) of the subsets that are not empty."""
    chosen = [{space.columns.index(n) for n in subset if n in space.columns} for subset in subsets]
    masks = [[columns.issuperset(unit) for unit in space.units] for columns in chosen]
    kept = [mask for mask in masks if any(mask)]
    return np.array(kept, dtype=bool) if kept else None


def _folds(train: Table, folds: Mapping[str, Any], estimator: Any) -> list[Fold]:
    def values(column: pd.Series | None) -> np.ndarray | None:
        return None if column is None else column.to_numpy()

    return make_folds(
        target=np.asarray(train.target),
        task=task_of(train.target, estimator),
        groups=values(train.groups),
        time=values(train.time),
        column=values(train.fold),
        **folds,
    )


@step("epoch")
def run_epoch(search: Search, state: SearchState) -> tuple[SearchState, EpochRecord]:
    """Run one epoch from a frozen state; a retry repeats the same epoch."""
    return search.step(state)


@step("prefilter")
def cut_by_importance(plan: Prefilter, evaluator: CrossValidation) -> Cut:
    """Leave units out before the search; see :func:`swarm.search.prefilter.cut_units`."""
    return cut_units(plan, evaluator)


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
) -> ModelInfo:
    """Save the ensemble as a model of the run, and register it if a name is given."""
    return log_ensemble(log.tracking, log.run_id, ensemble, example, name, description)
