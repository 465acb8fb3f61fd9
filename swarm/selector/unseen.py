"""The rows of a verdict: those of the fit, given again, and test rows that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from swarm.errors import DataError, InputError
from swarm.findings.rows import hash_rows, is_distinguished
from swarm.problem.inputs import check_columns, check_rows, check_target, checked_weights
from swarm.problem.problem import Problem
from swarm.problem.table import as_frame, plain_target
from swarm.rows import complete_groups
from swarm.selector.inputs import checked_table
from swarm.selector.plan import pose
from swarm.selector.results import reason_not_comparable
from swarm.validation import Rows

# Share of test rows that may equal rows of the fit: tables have copies of rows.
_MOST_COPIES = 0.1


def pose_again(selector: Any, X: Any, y: Any, params: dict[str, Any]) -> Problem:
    """Build the problem of the fit again, from the same rows."""
    # Of a clone, since reading the table sets attributes.
    problem, _ = pose(clone(selector), X, y, params)
    if problem.space.columns != selector.result_.space.columns:
        raise DataError(
            "X has other columns than the table of the fit; pass the rows that fit was called with"
        )
    if not problem.matches_data(selector._digests):
        raise DataError(
            "X, y or sample_weight differ from those of the fit; pass what fit was called with"
        )
    if problem.settings.in_results() != selector._settings:
        raise InputError(
            "settings of scikit-learn, NumPy or warnings differ from those of the fit: "
            f"{selector._settings or 'the defaults'}; set the same"
        )
    if not problem.matches_models(selector._digests):
        raise InputError(
            "the estimator, the scorer or another parameter of the models was changed after the "
            "fit; fit the selector again"
        )
    return problem


def groups_of(problem: Problem) -> Any:
    """Return the groups of the rows of the fit, None without."""
    assert problem.division is not None
    rows = problem.division.rows
    return complete_groups(rows.groups) if rows.is_grouped else None


def time_of(problem: Problem, n_rows: int) -> Any:
    """Return times of rows that are in order of time, as those of the folds; else None."""
    assert problem.division is not None
    return np.arange(n_rows) if problem.division.is_forward else None


def unseen_rows(selector: Any, problem: Problem, test: tuple[Any, ...]) -> Rows:
    """Return test rows with their target, and with weights and groups if those of the fit count."""
    reason = reason_not_comparable(problem.estimator, problem.task)
    if reason is not None:
        raise InputError(reason)
    names = ["X_test", "y_test"]
    names += ["sample_weight"] * problem.weights_in_score
    names += ["groups"] * (groups_of(problem) is not None)
    complete = isinstance(test, (tuple, list)) and len(test) == len(names)
    if not complete or any(part is None for part in test[1:]):
        raise InputError(
            "test must be rows, their target, and their weights and groups if those of the fit "
            f"counted; pass ({', '.join(names)})"
        )
    given = dict(zip(names, test, strict=True))
    rows, target = checked_table(selector, given["X_test"]), given["y_test"]
    check_target(target)
    check_rows(rows, plain_target(target))
    check_columns(rows, problem.estimator)
    seen = _seen(problem, rows, target)
    if seen:
        raise InputError(
            f"{seen:,} of {rows.shape[0]:,} test rows are rows of the fit; pass rows that fit has "
            "not seen"
        )
    weight, groups = given.get("sample_weight"), given.get("groups")
    if weight is not None:
        weight = checked_weights(weight, rows.shape[0], problem.estimator)
    if groups is not None:
        groups = complete_groups(groups)
        if len(groups) != rows.shape[0]:
            raise DataError(
                f"there are {rows.shape[0]:,} test rows but {len(groups):,} groups; pass one "
                "for each row"
            )
    return Rows(rows, target, groups=groups, weight=weight, time=time_of(problem, rows.shape[0]))


def _seen(problem: Problem, rows: Any, target: Any) -> int:
    """Count the test rows that are rows of the fit, unless so few are that they may be copies."""
    fitted, tested = problem.features, as_frame(rows, problem.space.columns)
    hashes = [
        hash_rows(pd.concat([features, pd.DataFrame(labels)], axis=1))
        for features, labels in ((fitted, problem.target), (tested, plain_target(target)))
    ]
    fitted_rows = np.unique(hashes[0])
    if not is_distinguished(fitted, len(fitted_rows)):
        # Rows of a few categories are equal by chance, but not whole tables.
        return len(tested) if tested.equals(fitted) else 0
    seen = int(np.isin(hashes[1], fitted_rows).sum())
    return seen if seen > _MOST_COPIES * len(tested) else 0
