"""All evaluated subsets of a search as a table, and the subsets that can be picked from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.base import is_classifier, is_regressor

from swarm.arrays import Bool, Float, Int
from swarm.errors import ConfigError, check_known
from swarm.problem.models import is_a
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.problem.table import labels_of
from swarm.search.candidates import PICKS, pareto_front, pick
from swarm.search.columns import Neighbours, column_table
from swarm.search.confirmation import Confirmation
from swarm.search.packing import pack_masks
from swarm.search.requests import (
    MeasuredSubsets,
    importances_of,
    measured_subsets,
    only_ranked,
)
from swarm.search.result import SearchResult
from swarm.statistics.resampled import CONFIDENCE
from swarm.storage.archive import ProblemEvaluations
from swarm.storage.records import costs_of
from swarm.strategies.operators.sequential import standard_error
from swarm.validation import Judgement
from swarm.validation.verdict import Headline, headline


@dataclass(frozen=True)
class EvaluatedSubsets:
    """The evaluated subsets of a search.

    Attributes
    ----------
    result : SearchResult
    table : DataFrame (n, 7 + n_folds)
        A row per distinct subset; see :class:`swarm.SubsetSelector`.
    measured : MeasuredSubsets
        The same subsets.
    front : int64 (n_front,)
        Rows on the Pareto front that may be picked, the smallest first.
    answer : int or None
        Row of the best subset of the search, if it is in the table.
    importances : dict of int to float64 (n_units,)
        Importances by row, on the front and of the best subset; NaN if there are none.
    bounds : (int, int)
        Smallest and largest requested number of units.
    labels : tuple
        Labels of the columns of X.
    scoring : Scoring
    task : str
        Task of :class:`~swarm.problem.problem.Problem`.
    neighbours : mapping of str to Neighbours
        Neighbours of the subset that each rule picks.
    """

    result: SearchResult
    table: pd.DataFrame
    measured: MeasuredSubsets
    front: Int
    answer: int | None
    importances: dict[int, Float]
    bounds: tuple[int, int]
    labels: tuple[Any, ...]
    scoring: Scoring
    task: str
    neighbours: Mapping[str, Neighbours] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        result: SearchResult,
        problem: Problem,
        evaluations: ProblemEvaluations,
        bounds: tuple[int, int],
        distance: Float | None = None,
    ) -> EvaluatedSubsets:
        """Read the requested subsets of the search from the archive.

        Folds that the search did not need are omitted, so that the table does not depend on other
        searches. Picks are within the `bounds`, unless no such subset was measured. `distance` is
        (n_units, n_units), see :func:`unit_distances`.
        """
        measured = measured_subsets(result, problem, evaluations)
        masks = measured.masks
        confirmation = result.confirmation
        table = _table(masks, measured.fold_costs, problem)
        allowed = problem.space.obeys(masks)
        if confirmation is not None and confirmation.replaces_search:
            table = _with_fresh_costs(table, masks, confirmation, problem.n_folds)
        else:
            allowed &= ~only_ranked(masks, result)
        size = table["size"].to_numpy()
        in_bounds = allowed & (size >= bounds[0]) & (size <= bounds[1])
        # An interrupted search may not have reached the requested sizes.
        if np.isfinite(table["cost"].to_numpy()[in_bounds]).any():
            allowed = in_bounds
        front = pareto_front(size, np.where(allowed, table["cost"], np.nan))
        best = np.flatnonzero((masks == result.best_mask).all(axis=1))
        rows = np.union1d(front, best)
        if problem.relevance is None:
            importances = importances_of(masks[rows], result, problem, evaluations)
        else:
            importances = problem.relevance * masks[rows]
        evaluated = cls(
            result=result,
            table=table,
            measured=measured,
            front=front,
            answer=int(best[0]) if len(best) else None,
            importances=dict(zip(rows.tolist(), importances, strict=True)),
            bounds=bounds,
            labels=labels_in(problem),
            scoring=problem.scoring,
            task=problem.task,
        )
        neighbours = {
            name: Neighbours.of(problem.space, evaluated._mask(evaluated.pick(name)), distance)
            for name in PICKS
        }
        return replace(evaluated, neighbours=neighbours)

    @property
    def masks(self) -> Bool:
        """The subsets (n, n_units)."""
        return self.measured.masks

    @property
    def n_folds(self) -> int:
        """Number of folds of every row."""
        return sum(str(name).startswith("fold_") for name in self.table)

    def pick(self, name: str) -> int | None:
        """Row that a rule picks; ``best`` is the best subset of the search."""
        check_known("pick", name, PICKS)
        if name == "best" or not len(self.front):
            return self.answer
        rows = self.table.iloc[self.front]
        # A single fold has no standard error, and only the lowest cost qualifies.
        errors = rows["se"].fillna(0.0).to_numpy()
        picked = pick(name, rows["size"].to_numpy(), rows["cost"].to_numpy(), errors=errors)
        return int(self.front[picked])

    def select(self, name: str) -> Selection:
        """Return the subset that a rule picks."""
        row = self.pick(name)
        cost = self.result.cost
        importances = np.full(self.masks.shape[1], np.nan)
        if row is not None:
            importances = self.importances[row]
            if name != "best":
                cost = float(self.table["cost"].iloc[row])
        return Selection(self, self._mask(row), cost, importances, self.neighbours[name])

    def _mask(self, row: int | None) -> Bool:
        """Return a subset; None is the best one of the search, if it is not in the table."""
        return self.result.best_mask if row is None else self.masks[row]


@dataclass(frozen=True)
class Selection:
    """An evaluated subset that a rule picked.

    Attributes
    ----------
    evaluated : EvaluatedSubsets
    mask : bool (n_units,)
    cost : float
    importances : float64 (n_units,)
        Importances; NaN if there are none.
    neighbours : Neighbours
    """

    evaluated: EvaluatedSubsets
    mask: Bool
    cost: float
    importances: Float
    neighbours: Neighbours

    def columns(self) -> pd.DataFrame:
        """Return why each column is in or out, see :func:`column_table`."""
        evaluated = self.evaluated
        return column_table(
            evaluated.result,
            evaluated.measured,
            self.mask,
            scoring=evaluated.scoring,
            neighbours=self.neighbours,
            labels=evaluated.labels,
        )

    @property
    def names(self) -> list[str]:
        """Names of its columns, in the order of the table."""
        return self.evaluated.result.space.subset(self.mask)

    @property
    def labels(self) -> list[Any]:
        """Labels of its columns in X."""
        space = self.evaluated.result.space
        return [self.evaluated.labels[position] for position in space.positions(self.mask)]

    def ranked_units(self) -> pd.Series:
        """Importances of its units by label, the highest first; groups by name."""
        space = self.evaluated.result.space
        labels = self.evaluated.labels
        units = np.flatnonzero(self.mask)
        unit_labels = [
            labels[space.units[unit][0]] if len(space.units[unit]) == 1 else space.names[unit]
            for unit in units
        ]
        index = pd.Index(unit_labels, tupleize_cols=False)
        series = pd.Series(self.importances[units], index=index, name="importance")
        return series.sort_values(ascending=False, kind="stable")

    @property
    def is_best(self) -> bool:
        """Whether it is the best subset of the search, which the confirmation is about."""
        return bool((self.mask == self.evaluated.result.best_mask).all())

    def headline(self, judgement: Judgement | None = None) -> Headline:
        """Return its headline, which is about the test rows if there is a judgement."""
        evaluated = self.evaluated
        return headline(evaluated.result, evaluated.scoring, judgement, self.mask)

    def smaller(self) -> Selection | None:
        """Return the smaller subset that ``parsimonious`` picks, if there is one with a cost."""
        other = self.evaluated.select("parsimonious")
        is_smaller = len(other.names) < len(self.names)
        return other if is_smaller and np.isfinite(other.cost) else None


def labels_in(problem: Problem) -> tuple[Any, ...]:
    """Return the labels of the columns of X; x0, x1, ... for an array."""
    return tuple(labels_of(problem.X) or problem.space.columns)


def reason_not_comparable(estimator: object, task: str) -> str | None:
    """Return why models of a task cannot be compared on test rows; None if they can."""
    if task.startswith("multioutput"):
        return (
            "models of several outputs cannot be compared on test rows, unless these are labels of"
            " 0 and 1; fit a selector to each output"
        )
    if not (is_a(is_classifier, estimator) or is_a(is_regressor, estimator)):
        return (
            f"{type(estimator).__name__} is neither a classifier nor a regressor to scikit-learn,"
            " so its models cannot be compared on test rows; derive it from ClassifierMixin or"
            " RegressorMixin"
        )
    return None


def add_interval_columns(table: pd.DataFrame, n_folds: int, confidence: float) -> pd.DataFrame:
    """Return the table with `ci_low` and `ci_high` for a level of confidence."""
    is_number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    if not is_number or not 0 < confidence < 1:
        raise ConfigError(f"confidence must be > 0 and < 1, got {confidence!r}")
    half_width = t.ppf(0.5 + confidence / 2, n_folds - 1) * table["se"]
    return table.assign(ci_low=table["cost"] - half_width, ci_high=table["cost"] + half_width)


def best_by_size(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cheapest row of each size, indexed by size; the first wins a tie."""
    with_cost = table[table["cost"].notna()].sort_values(["size", "cost"], kind="stable")
    return with_cost.drop_duplicates("size").set_index("size")


def _with_fresh_costs(
    table: pd.DataFrame, masks: Bool, confirmation: Confirmation, n_folds: int
) -> pd.DataFrame:
    """Replace costs on the folds of a search by costs of rankings within the fresh folds."""
    row_of = {key: row for row, key in enumerate(pack_masks(masks))}
    rows = [row_of[key] for key in pack_masks(confirmation.candidates.masks)]
    table = table.copy()
    table.loc[rows, [name for name in table if str(name).startswith("fold_")]] = np.nan
    table.loc[rows, "cost"] = confirmation.candidates.fresh_costs
    table.loc[rows, "se"] = confirmation.errors
    table.loc[rows, "sd"] = confirmation.errors * np.sqrt(confirmation.n_in_partition)
    return add_interval_columns(table, n_folds, CONFIDENCE)


def _table(masks: Bool, fold_costs: Float, problem: Problem) -> pd.DataFrame:
    n_folds = problem.n_folds
    labels = labels_in(problem)
    costs = costs_of(fold_costs)
    is_finite = np.isfinite(costs)
    errors = np.full(len(costs), np.nan)
    if n_folds > 1:
        errors[is_finite] = [standard_error(row) for row in fold_costs[is_finite]]
    columns: dict[str, object] = {
        "features": [
            tuple(labels[position] for position in problem.space.positions(mask)) for mask in masks
        ],
        "size": masks.sum(axis=1),
        "cost": costs,
        "sd": errors * np.sqrt(n_folds),
        "se": errors,
        "ci_low": np.nan,
        "ci_high": np.nan,
    }
    columns |= {f"fold_{fold}": fold_costs[:, fold] for fold in range(n_folds)}
    return add_interval_columns(pd.DataFrame(columns), n_folds, CONFIDENCE)
