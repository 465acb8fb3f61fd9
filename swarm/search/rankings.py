"""Rankings of the units, whose first ones are the answer, or compete with the subsets of a search.

The longer a search, the more optimistic is the cost of its best subset. A ranking looks at each
unit once, and contains units that a short search does not find. If units outnumber rows many times,
rankings replace the search; if units outnumber rows, both compete on fresh folds. On a fresh fold
the units are ranked again on its own training rows, by the same number of trees: a ranking of all
rows has seen the test rows (Ambroise and McLachlan 2002, Selection bias in gene extraction).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int, read_only
from swarm.errors import DataError
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.candidates import Candidates
from swarm.search.packing import first_of_equal
from swarm.statistics.encoding import as_numbers
from swarm.statistics.lowest import first_of

_F = "F ranking"
_TREES = "extra-trees ranking"
# The better one differs from table to table, so that the folds decide.
RANKINGS = (_F, _TREES)
_N_TREES = 200
# Sizes are in geometric progression, without the smallest ones, which are rarely enough.
_N_STEPS = 10
_N_LEFT_OUT = 2
MAX_PREFIXES = len(RANKINGS) * (_N_STEPS + 1 - _N_LEFT_OUT)
# F statistic of a column that separates the classes without an error.
_MAX_STATISTIC = 1e300
# The order of the units needs no more rows.
_MAX_ROWS = 2_000
# On unseen rows, rankings are better than a search from about ten times as many units as rows, as
# in gene tables. With fewer units a search is as good, and both together are better.
_MIN_UNITS_PER_ROW = 10


def _n_allowed(problem: Problem) -> int:
    return int((~problem.space.forbidden).sum())


def allows_rankings(problem: Problem) -> bool:
    """Whether rankings compete with a search: units outnumber rows."""
    return _n_allowed(problem) > problem.n_rows


def prefers_rankings(problem: Problem) -> bool:
    """Whether rankings are better than a search: units outnumber rows many times."""
    return _n_allowed(problem) > _MIN_UNITS_PER_ROW * problem.n_rows


def can_replace_search(problem: Problem) -> bool:
    """Whether rankings are better than a search, and there are folds to measure them on."""
    return prefers_rankings(problem) and problem.n_folds > 1


@dataclass(frozen=True, eq=False)
class Rankings:
    """The units of a problem in the order of each ranking, on all rows or on given ones.

    Attributes
    ----------
    space : SearchSpace
        Units that are not ranked are forbidden.
    values : float64 (n_rows, n_ranked_columns)
        Cells as numbers, with NaN for missing ones. Categories have codes, whose order has no
        meaning, but trees can split them at any place.
    positions : int (n_ranked_columns,)
        Positions of the ranked columns in the table.
    target : (n_rows,) or (n_rows, n_outputs)
        The target.
    is_regression : bool
        Whether the target is a number.
    rows : int (n_ranked_rows,)
        Rows that the rankings look at, ascending.
    seed : int
        Seed of the trees.
    n_jobs : int
        Number of threads that grow trees. It does not change the results.
    """

    space: SearchSpace
    values: Float
    positions: Int
    target: NDArray[np.generic]
    is_regression: bool
    rows: Int
    seed: int
    n_jobs: int = 1

    def __post_init__(self) -> None:
        read_only(self.values)

    @classmethod
    def of(cls, problem: Problem, mask: Bool, seed: int, n_jobs: int = 1) -> Rankings | None:
        """Prepare the rankings of the units of `mask`; None if cells or target are no numbers."""
        space = replace(problem.space, forbidden=problem.space.forbidden | ~mask)
        positions = space.positions_by_unit(~space.forbidden)
        rows = np.arange(len(problem.target))
        if len(rows) > _MAX_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, _MAX_ROWS, replace=False))
        is_regression = problem.task.endswith("regression")
        try:
            target = np.asarray(problem.target)
            values = as_numbers(problem.features.iloc[:, positions])
            if is_regression:
                target = target.astype(np.float64)
        except (DataError, TypeError, ValueError):
            return None
        return cls(
            space=space,
            values=values,
            positions=positions,
            target=target,
            is_regression=is_regression,
            rows=rows,
            seed=seed,
            n_jobs=n_jobs,
        )

    def order(self, name: str, rows: Int | None = None) -> Int:
        """Return the units in the order of a ranking of the given rows, by default of all."""
        rows = self.rows if rows is None else rows[np.isin(rows, self.rows)]
        values = _imputed(self.values[rows])
        target = self.target[rows]
        if name == _F:
            importances = _f_statistics(values, target, self.is_regression)
        else:
            trees = _trees(self.is_regression)(_N_TREES, n_jobs=self.n_jobs, random_state=self.seed)
            importances = trees.fit(values, target).feature_importances_
        return self.space.in_order(self.space.by_unit(importances, self.positions))

    def prefixes(self) -> Candidates:
        """Return the first units of each ranking on all rows, without costs.

        Returns
        -------
        Candidates
            Distinct masks within the constraints, in the order of the rankings and of their sizes,
            up to all units; `origin` is the ranking.
        """
        sizes = self._sizes()
        orders = np.repeat([self.order(name) for name in RANKINGS], len(sizes), axis=0)
        masks = first_of(orders, np.tile(sizes, len(RANKINGS)))
        distinct = first_of_equal(masks)
        table = Candidates.build(
            masks, np.full(len(masks), np.nan), origin=np.repeat(RANKINGS, len(sizes))
        )
        return table.take(distinct[self.space.obeys(masks[distinct])])

    def prefixes_of(self, table: Candidates, train: Int) -> Bool:
        """Return the first units (n, n_units) of rankings of the training rows.

        `table` has the first units on all rows; their rankings and sizes are used again.
        """
        masks = np.empty_like(table.masks)
        for name in np.unique(table.origin).tolist():
            rows = np.flatnonzero(table.origin == name)
            orders = np.broadcast_to(self.order(name, train), (len(rows), masks.shape[1]))
            masks[rows] = first_of(orders, table.sizes[rows])
        return masks

    def _sizes(self) -> Int:
        """Return the numbers of units, ascending: p^(i/10) of p units, up to all."""
        n_allowed = int((~self.space.forbidden).sum())
        smallest = min(self.space.min_size, n_allowed)
        largest = min(self.space.max_size, n_allowed)
        sizes = np.geomspace(smallest, largest, _N_STEPS + 1)[_N_LEFT_OUT:].round()
        return np.unique(sizes.astype(np.int64))


def _imputed(values: Float) -> Float:
    """Return the values with the mean of their column in place of cells that are not finite."""
    with np.errstate(over="ignore"):
        # Trees compare in float32.
        is_finite = np.isfinite(values.astype(np.float32))
    if is_finite.all():
        return values
    means = np.where(is_finite, values, 0.0).sum(axis=0) / np.maximum(is_finite.sum(axis=0), 1)
    return np.where(is_finite, values, means)


def _f_statistics(values: Float, target: NDArray[np.generic], is_regression: bool) -> Float:
    """Return the F statistic (n_columns,) of each column, the mean over several outputs."""
    from sklearn.feature_selection import f_classif, f_regression

    test = f_regression if is_regression else f_classif
    outputs = target.T if target.ndim == 2 else target[None, :]
    total = np.zeros(values.shape[1])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # Constant columns cause warnings, and come last.
        warnings.simplefilter("ignore")
        for output in outputs:
            if len(np.unique(output)) > 1:
                total += np.nan_to_num(test(values, output)[0], nan=0.0, posinf=_MAX_STATISTIC)
    return total / len(outputs)


def _trees(is_regression: bool) -> Any:
    """Return the class of extremely randomised trees (Geurts et al. 2006)."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    return ExtraTreesRegressor if is_regression else ExtraTreesClassifier
