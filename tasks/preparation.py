"""Pose the problem of a search on the training rows, and compute its hints."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swarm.arrays import Float
from swarm.errors import ConfigError, InputError
from swarm.findings import Finding, make_finding
from swarm.findings.table import column_findings, target_findings
from swarm.metrics import judged_metrics
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.inputs import missing_classes
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.protocols import Estimator
from swarm.rows import Division
from swarm.search.warm_start import warm_masks
from swarm.validation.answers import EvaluationTarget
from swarm.validation.jackknife import check_scorable
from swarm.wording import quoted
from tasks.split import group_findings, rows_of
from tasks.table import Table


def compute_hints(
    problem: Problem,
    needs: Sequence[str],
    *,
    n_clusters: int | None,
    warm: Sequence[Sequence[str]] = (),
    distance: Float | None = None,
) -> Hints:
    """Compute what the first swarm starts from: clusters, relevance and subsets of a warm start.

    A table with fewer units than `n_clusters` has as many clusters as units.
    """
    space = problem.space
    return prepare_hints(
        problem.features,
        space,
        problem.target,
        problem.task,
        n_clusters=None if n_clusters is None else min(n_clusters, space.n_units),
        needs=needs,
        warm=warm_masks(warm, space),
        distance=distance,
    )


def pose(
    train: Table,
    estimator: Estimator,
    *,
    folds: Mapping[str, Any],
    space: Mapping[str, Any],
    **options: Any,
) -> tuple[Problem, tuple[Finding, ...]]:
    """Build the problem on the training rows; the findings are reasons to doubt its costs.

    Parameters
    ----------
    train : Table
        Training rows.
    estimator : estimator
        Model.
    folds, space : dict
        Parameters of :meth:`~swarm.rows.Division.of_kind`, and of
        :meth:`~swarm.problem.space.SearchSpace.build`.
    **options
        Other parameters of :meth:`~swarm.problem.problem.Problem.build`.
    """
    problem = Problem.build(
        train.features,
        train.target,
        estimator,
        space=SearchSpace.build(
            list(train.features.columns), **space, dtypes=train.features.dtypes.tolist()
        ),
        folds=Division.of_kind(rows_of(train, estimator), **folds),
        weight=train.weight,
        **options,
    )
    return problem, _findings(train, folds, problem, options["pos_label"])


def _findings(
    train: Table, folds: Mapping[str, Any], problem: Problem, pos_label: object
) -> tuple[Finding, ...]:
    """Return the findings of the training rows and of their folds."""
    findings = group_findings(train, problem.folds, "a fold")
    missing = missing_classes(problem.folds, problem.target, problem.task)
    if missing:
        text = (
            f"{len(missing)} of {len(np.unique(problem.target))} classes ({quoted(missing, 3)}) "
            f"{'is' if len(missing) == 1 else 'are'} missing from the training rows of a fold that "
            "tests them, where they are always wrong"
        )
        remedy = "merge rare classes with others or remove their rows, in the table"
        rarest = int(np.unique(problem.target, return_counts=True)[1].min())
        if folds["kind"] == "random" and rarest > 1:
            remedy = f"set folds.kind to 'stratified', or {remedy}"
        findings.append(make_finding("SWM102", text, remedy=remedy))
    if train.n_unlabelled:
        findings.append(
            make_finding("SWM005", f"{train.n_unlabelled:,} rows without a target are left out")
        )
    texts = [name for name in train.as_text if name in problem.space.columns]
    if texts:
        findings.append(make_finding("SWM006", f"{quoted(texts)}: read as text", texts))
    findings += target_findings(problem.target, problem.task, problem.scoring.name, pos_label)
    findings += column_findings(
        train.features.drop(columns=problem.space.subset(problem.space.forbidden)),
        problem.target,
        problem.task,
        groups=train.groups,
        derived=train.derived,
    )
    return tuple(findings)


def check_test_metrics(
    problem: Problem, train: Table, test: Table, metrics: Sequence[str] | None
) -> None:
    """Refuse metrics that cannot be computed on the test rows, before anything is trained."""
    scoring = problem.scoring
    weight = test.weight_in_score(problem)
    truth = EvaluationTarget.of(
        problem.estimator, train.target, test.target, scoring.pos_label, weight
    )
    for metric in judged_metrics(metrics, truth.task, scoring):
        try:
            check_scorable([metric], truth, scoring)
        except InputError as error:
            key = "scoring" if metric == scoring.metric else "test.metrics"
            raise ConfigError(f"{key}: {error}") from None
