"""The rows of a verdict: those of the fit, given again, and test rows that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from swarm.arrays import AnyArray, Int
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

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector

# Tables have equal rows by chance: test rows may share this many with the fit.
_MAX_SHARE_OF_COPIES = 0.1


@dataclass(frozen=True)
class ProblemMark:
    """What tells the problem of a fit from another one: columns, digests and settings."""

    columns: tuple[str, ...]
    digests: tuple[bytes, str]
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, problem: Problem) -> ProblemMark:
        """Compute the mark of a problem, whose fingerprint has hashed the data already."""
        digests = problem.model_and_data_digests()
        return cls(problem.space.columns, digests, problem.settings.in_results())

    def check(self, problem: Problem) -> None:
        """Raise InputError unless a problem is the marked one."""
        if problem.space.columns != self.columns:
            raise DataError(
                "X has other columns than the table of the fit; pass the rows that fit was called "
                "with"
            )
        if not problem.matches_data(self.digests):
            raise DataError(
                "X, y or sample_weight differ from those of the fit; pass what fit was called with"
            )
        if problem.settings.in_results() != self.settings:
            raise InputError(
                "settings of scikit-learn, NumPy or warnings differ from those of the fit: "
                f"{self.settings or 'the defaults'}; set the same"
            )
        if not problem.matches_models(self.digests):
            raise InputError(
                "the estimator, the scorer or another parameter of the models was changed after "
                "the fit; fit the selector again"
            )


def pose_again(selector: SubsetSelector, X: Any, y: Any, params: dict[str, Any]) -> Problem:
    """Build the problem of the fit again, from the same rows."""
    # Reading the table sets attributes, so a clone reads it.
    problem, _ = pose(clone(selector), X, y, params)
    selector._mark.check(problem)
    return problem


def groups_of(problem: Problem) -> AnyArray | None:
    """Return the groups of the rows of the fit, None without."""
    assert problem.division is not None
    rows = problem.division.rows
    if rows.groups is None or not rows.is_grouped:
        return None
    return complete_groups(rows.groups)


def time_of(problem: Problem, n_rows: int) -> Int | None:
    """Return times for rows in order of time if the folds are forward in time, else None."""
    assert problem.division is not None
    return np.arange(n_rows) if problem.division.is_forward else None


def unseen_rows(selector: SubsetSelector, problem: Problem, test: tuple[Any, ...]) -> Rows:
    """Return test rows with their target, and with weights and groups if those of the fit count."""
    reason = reason_not_comparable(problem.estimator, problem.task)
    if reason is not None:
        raise InputError(reason)
    names = ["X_test", "y_test"]
    names += ["sample_weight"] * problem.weights_in_score
    names += ["groups"] * (groups_of(problem) is not None)
    is_complete = isinstance(test, (tuple, list)) and len(test) == len(names)
    if not is_complete or any(value is None for value in test[1:]):
        raise InputError(
            "test must be rows, their target, and their weights and groups if those of the fit "
            f"counted; pass ({', '.join(names)})"
        )
    test_data = dict(zip(names, test, strict=True))
    rows = checked_table(selector, test_data["X_test"])
    target = test_data["y_test"]
    check_target(target)
    check_rows(rows, plain_target(target))
    check_columns(rows, problem.estimator)
    n_seen = _count_seen(problem, rows, target)
    if n_seen:
        raise InputError(
            f"{n_seen:,} of {rows.shape[0]:,} test rows are rows of the fit; pass rows that fit "
            "has not seen"
        )
    weight = test_data.get("sample_weight")
    groups = test_data.get("groups")
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


def _count_seen(problem: Problem, rows: Any, target: Any) -> int:
    """Count the test rows that are rows of the fit, unless so few are that they may be copies."""
    fitted = problem.features
    tested = as_frame(rows, problem.space.columns)
    fitted_hashes = np.unique(_hashes(fitted, problem.target))
    if not is_distinguished(fitted, len(fitted_hashes)):
        # Rows of a few categories are equal by chance, but not whole tables.
        return len(tested) if tested.equals(fitted) else 0
    n_seen = int(np.isin(_hashes(tested, plain_target(target)), fitted_hashes).sum())
    return n_seen if n_seen > _MAX_SHARE_OF_COPIES * len(tested) else 0


def _hashes(features: pd.DataFrame, target: AnyArray) -> AnyArray:
    return hash_rows(pd.concat([features, pd.DataFrame(target)], axis=1))
