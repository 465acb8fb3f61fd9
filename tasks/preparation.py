"""Pose the problem of a search on the training rows, and compute its hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.errors import ConfigError, InputError
from swarm.findings import Finding, make_finding
from swarm.findings.table import column_findings, target_findings
from swarm.problem.folds import Fold, make_folds
from swarm.problem.hints import MOST_COLUMNS, TARGET_HINTS, Hints, prepare_hints, unit_distances
from swarm.problem.inputs import missing_classes
from swarm.problem.problem import Importance, Problem
from swarm.problem.space import SearchSpace
from swarm.problem.target import task_of
from swarm.search.fresh_folds import fresh_problem
from swarm.search.prefilter import When, is_wide
from swarm.search.warm_start import warm_masks
from swarm.validation.answers import EvaluationTarget
from swarm.validation.metrics import judged_metrics
from swarm.validation.scorer_metrics import check_scorable
from swarm.wording import quoted
from tasks.table import Table


@dataclass(frozen=True, eq=False)
class PosedProblem:
    """The problem of a search on the training rows."""

    problem: Problem
    findings: tuple[Finding, ...]  # reasons to doubt the costs
    # the problem on fresh folds; None if none were requested, or there is no other partition
    fresh: Problem | None
    # On which a prefilter ranks and cuts the units: one fresh partition, or the folds of the search
    # if there is no other. None without a prefilter.
    cut_folds: tuple[Fold, ...] | None

    def hints_before_prefilter(self, needs: Sequence[str]) -> list[str]:
        """Return the hints of `needs` that are computed before a prefilter, if there is one."""
        if self.cut_folds is None:
            return list(needs)
        # The search gets hints of the kept units, and the report of a wide table no distances.
        if self.problem.space.n_columns > MOST_COLUMNS:
            return []
        return [name for name in needs if name not in TARGET_HINTS]


def measure_distances(problem: Problem) -> Float:
    """Return the Spearman distances (n_units, n_units) of the units on the training rows."""
    return unit_distances(problem.features, problem.space)


def compute_hints(
    problem: Problem,
    needs: Sequence[str],
    *,
    n_clusters: int | None,
    warm: Sequence[Sequence[str]] = (),
    distance: Float | None = None,
) -> Hints:
    """Return what the first swarm starts from: clusters, relevance and subsets of a warm start."""
    space = problem.space
    return prepare_hints(
        problem.features,
        space,
        problem.target,
        problem.task,
        # A configuration may be used on a table with fewer units.
        n_clusters=None if n_clusters is None else min(n_clusters, space.n_units),
        needs=needs,
        warm=warm_masks(warm, space),
        distance=distance,
    )


def pose(
    train: Table,
    estimator: Any,
    *,
    scoring: str | None,
    pos_label: str | int | None,
    folds: Mapping[str, Any],
    space: Mapping[str, Any],
    importance: Importance,
    weights_in_score: bool = False,
    seed: int,
    fresh_partitions: int = 0,
    prefilter: When | None = None,
) -> PosedProblem:
    """Build the problem on the training rows; `folds` are the parameters of `make_folds`."""
    target = train.target

    def drawn(fold_seed: int) -> list[Fold]:
        return table_folds(train, estimator, **{**folds, "seed": fold_seed})

    problem = Problem.build(
        train.features,
        target,
        estimator,
        space=SearchSpace.build(list(train.features.columns), **space),
        scoring=scoring,
        pos_label=pos_label,
        folds=drawn(folds["seed"]),
        weight=train.weight,
        importance=importance,
        seed=seed,
        weights_in_score=weights_in_score,
    )

    def fresh(n_partitions: int, first: int) -> Problem | None:
        # The partitions of the other kinds do not depend on a seed.
        if not n_partitions or not folds["shuffle"] or folds["kind"] in ("time", "column"):
            return None
        return fresh_problem(problem, drawn, folds["seed"], n_partitions, first)

    cut_folds = None
    if prefilter is not None and is_wide(problem.space, prefilter):
        cut_on = fresh(1, 0)
        cut_folds = problem.folds if cut_on is None else cut_on.folds
    findings = _findings(train, folds, problem, pos_label)
    return PosedProblem(problem, findings, fresh(fresh_partitions, 1), cut_folds)


def _findings(
    train: Table, folds: Mapping[str, Any], problem: Problem, pos_label: object
) -> tuple[Finding, ...]:
    """Return the findings of the training rows and of their folds."""
    findings = []
    fold = train.fold if folds["kind"] == "column" else None
    if fold is not None and fold.isna().any():
        findings.append(
            make_finding(
                "SWM103",
                f"{int(fold.isna().sum())} of {len(fold)} rows have no value in the fold column "
                f"{fold.name!r}: they are always trained on and never tested",
            )
        )
    missing = missing_classes(problem.folds, problem.target, problem.task)
    if missing:
        findings.append(
            make_finding(
                "SWM104",
                f"{len(missing)} of {len(np.unique(problem.target))} classes "
                f"({quoted(missing, 3)}) {'is' if len(missing) == 1 else 'are'} missing from the "
                "training rows of a fold "
                "whose test rows have them, which are always misclassified",
                remedy=_remedy_of_missing(problem, folds),
            )
        )
    findings += _shared_groups(train, problem)
    if train.n_unlabelled:
        findings.append(
            make_finding("SWM005", f"{train.n_unlabelled:,} rows without a target are left out")
        )
    texts = [name for name in train.as_text if name in problem.space.columns]
    if texts:
        findings.append(make_finding("SWM006", f"{quoted(texts)}: read as text", texts))
    target, task = problem.target, problem.task
    findings += target_findings(target, task, problem.scoring.name, pos_label)
    # No model has the columns that are forbidden.
    features = train.features.drop(columns=problem.space.subset(problem.space.forbidden))
    grouped, derived = train.groups is not None, train.derived
    odd = column_findings(features, target, task, grouped=grouped, derived=derived)
    return (*findings, *odd)


def _remedy_of_missing(problem: Problem, folds: Mapping[str, Any]) -> str:
    """Say what suits the size of the rarest class: stratified folds refuse a smaller one."""
    least, n_folds = int(np.unique(problem.target, return_counts=True)[1].min()), folds["n_folds"]
    rest = "merge rare classes with others or remove their rows, in the table"
    if folds["kind"] != "random" or least < 2:
        return rest
    fewer = "" if least >= n_folds else f" and folds.n_folds to {least}"
    return f"set folds.kind to 'stratified'{fewer}, or {rest}"


def _shared_groups(train: Table, problem: Problem) -> list[Finding]:
    """Find groups on both sides of a fold."""
    if train.groups is None:
        return []
    groups = pd.factorize(train.groups)[0]
    shared = {
        int(group)
        for rows, tested in problem.folds
        for group in np.intersect1d(groups[rows], groups[tested])
    }
    if not shared:
        return []
    text = f"{len(shared)} of {groups.max() + 1} groups in {train.groups.name!r} are on both sides"
    return [make_finding("SWM105", f"{text} of a fold", [str(train.groups.name)])]


def check_test_metrics(
    problem: Problem, train: Table, test: Table, metrics: Sequence[str] | None
) -> None:
    """Refuse metrics that cannot be computed on the test rows, before anything is trained."""
    scoring, weight = problem.scoring, test.weight_in_score(problem)
    truth = EvaluationTarget.of(
        problem.estimator, train.target, test.target, scoring.pos_label, weight
    )
    for metric in judged_metrics(metrics, truth.task, scoring):
        try:
            check_scorable([metric], truth, scoring)
        except InputError as error:
            key = "scoring" if metric == scoring.metric else "test.metrics"
            raise ConfigError(f"{key}: {error}") from None


def table_folds(table: Table, estimator: Any, **options: Any) -> list[Fold]:
    """Divide the rows of a table; `options` are those of :func:`swarm.problem.folds.make_folds`."""

    def values(column: pd.Series | None) -> np.ndarray | None:
        return None if column is None else column.to_numpy()

    return make_folds(
        target=np.asarray(table.target),
        task=task_of(table.target, estimator),
        groups=values(table.groups),
        time=values(table.time),
        column=values(table.fold),
        **options,
    )
