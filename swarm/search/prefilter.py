"""Leave out most units of a wide table before a search, by the importances of the model.

The units are ranked by the importances of a model on all of them, and the search runs on the first
ones of the ranking. A golden-section search on the cost of the best-ranked units decides their
number, as in FeatureCuts (Hu et al. 2025). Our choices: sizes are searched on a logarithmic scale,
and the test rows of a fold measure the ranking of its own training rows. A ranking on all rows has
seen the test rows of every fold, and would make small cuts look better than they are (Ambroise and
McLachlan 2002, Selection bias in gene extraction).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.checks import require
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import MAX_COLUMNS
from swarm.problem.models import is_lightgbm, last_step
from swarm.problem.problem import Problem, clone_of
from swarm.problem.space import SearchSpace
from swarm.rows import Fold
from swarm.statistics.information import target_information
from swarm.statistics.lowest import first_of
from swarm.storage.records import reason_of
from swarm.strategies.base import Strategy

When = Literal["always", "auto"]

_RATIO = (math.sqrt(5) - 1) / 2
# Costs of sizes closer than this differ by less than their errors.
_RESOLUTION = math.log(1.1)


@dataclass(frozen=True, eq=False)
class Prefilter:
    """How units are left out before a search.

    Attributes
    ----------
    problem : Problem
        The problem on fresh folds, with importances.
    least : int
        Smallest number of units to keep, fixed ones included.
    n_clusters : int, optional
        Number of clusters of the kept units, for the hints of the strategy.
    """

    problem: Problem
    least: int = 20
    n_clusters: int | None = None

    def __post_init__(self) -> None:
        require("least", self.least, at_least=1, whole=True)

    @classmethod
    def of(
        cls,
        problem: Problem,
        folds: tuple[Fold, ...],
        strategy: Strategy,
        least: int = 20,
        n_clusters: int | None = None,
    ) -> Prefilter:
        """Return the prefilter of a search, which keeps as many units as its strategy selects.

        `folds` are those of all rows.
        """
        size = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
        if isinstance(size, (tuple, list)):
            size = size[1]
        if isinstance(size, int):
            least = max(least, size)
        if max(int(test.max()) for _, test in folds) >= len(problem.target):
            # A proxy on a sample of the rows has no folds but those of its search.
            folds = problem.folds
        return cls(ranking_problem(problem, folds), least, n_clusters)

    def bounds(self, space: SearchSpace) -> tuple[int, int]:
        """Smallest and largest number of units that can be kept, with at most 5,000 columns."""
        n_allowed = int((~space.forbidden).sum())
        n_min = min(n_allowed, max(self.least, space.min_size, int(space.fixed.sum()) + 1))
        # The largest units may be kept.
        n_columns = np.cumsum(np.sort([len(unit) for unit in space.units])[::-1])
        n_max = min(n_allowed, int(np.searchsorted(n_columns, MAX_COLUMNS, side="right")))
        if n_min > n_max:
            raise ConfigError(
                f"the prefilter must keep {n_min:,} units, but keeps at most {n_max:,}, as a search"
                f" has at most {MAX_COLUMNS:,} columns; keep, fix or select fewer"
            )
        return n_min, n_max


@dataclass(frozen=True, eq=False)
class Cut:
    """The units that were kept, and the costs by which their number was chosen.

    Attributes
    ----------
    kept : bool (n_units,)
        Mask of the kept units.
    importances : float64 (n_units,)
        Means over the folds; 0 for forbidden units.
    sizes : int (n_sizes,)
        Measured numbers of units, ascending; the last one is that of all units.
    costs : float64 (n_sizes,)
        Mean costs on the fresh folds; inf if a model failed.
    n_folds : int
        Number of fresh folds.
    source : str
        Name of the importances.
    """

    kept: Bool
    importances: Float
    sizes: Int
    costs: Float
    n_folds: int
    source: str

    def __post_init__(self) -> None:
        read_only(self.kept, self.importances, self.sizes, self.costs)

    @property
    def n_kept(self) -> int:
        """Number of units that are kept."""
        return int(self.kept.sum())

    @property
    def n_fits(self) -> int:
        """Fold models that the cut needed, those of the ranking included."""
        return self.n_folds * len(self.sizes)

    @property
    def cost(self) -> float:
        """Cost of the units that are kept, on the fresh folds."""
        return float(self.costs[np.flatnonzero(self.sizes == self.n_kept)[0]])

    def outcome(self) -> str:
        """State the number of kept units, and its cost."""
        return (
            f"the search runs on {self.n_kept:,} of {len(self.kept):,} units, ranked by "
            f"{self.source}: cost {self.cost:.4f} on {self.n_folds} fresh folds, "
            f"{self.costs[-1]:.4f} with all; {self.n_fits} fits"
        )

    def sentence(self) -> str:
        """State the outcome after its name."""
        return f"prefilter: {self.outcome()}"


def is_wide(space: SearchSpace, when: When) -> bool:
    """Whether a table is cut: always, or with ``auto`` if it has more than 5,000 columns."""
    return when == "always" or space.n_columns > MAX_COLUMNS


def ranking_problem(problem: Problem, folds: tuple[Fold, ...]) -> Problem:
    """Return the problem on `folds`, with importances of the fold models if they have any."""
    importance = problem.importance
    if importance == "none":
        has_estimate = problem.task in ("binary", "multiclass", "regression", "multilabel")
        importance = "mutual_information" if has_estimate else "permutation"
    estimator = problem.estimator
    if importance == "fold" and is_lightgbm(last_step(estimator)):
        steps = getattr(estimator, "steps", None)
        name = f"{steps[-1][0]}__importance_type" if steps else "importance_type"
        estimator = clone_of(estimator).set_params(**{name: "gain"})
    return replace(
        problem.with_folds(folds), importance=importance, estimator=estimator, exact_shrink=False
    )


def cut_units(plan: Prefilter, evaluator: CrossValidation) -> Cut:
    """Rank the units, and choose how many to keep, by the evaluator of the ranking problem."""
    problem = plan.problem
    space = problem.space
    n_folds = problem.n_folds
    importances, costs = _importances(problem, evaluator)
    orders = np.array([space.in_order(values) for values in importances])
    costs_by_size = {int((~space.forbidden).sum()): costs}

    def cost(size: int) -> float:
        if size not in costs_by_size:
            costs_by_size[size] = evaluator.fold_costs(first_of(orders, size), np.arange(n_folds))
        return float(costs_by_size[size].mean())

    n_kept = golden_section(cost, *plan.bounds(space))
    mean = importances.mean(axis=0)
    sizes = sorted(costs_by_size)
    return Cut(
        kept=first_of(space.in_order(mean)[None, :], n_kept)[0],
        importances=np.where(space.forbidden, 0.0, mean),
        sizes=np.array(sizes, dtype=np.int64),
        costs=np.array([cost(size) for size in sizes]),
        n_folds=n_folds,
        source={
            "mutual_information": "mutual information",
            "permutation": "permutation importance",
        }.get(problem.importance, "the importances of the model"),
    )


def golden_section(cost: Callable[[int], float], n_min: int, n_max: int) -> int:
    """Return the size of the lowest measured cost, the smallest of equal ones.

    This is a golden-section search on the logarithm of the size, until neighbouring sizes differ by
    less than a tenth. It is exact if the cost falls up to a size and rises from there.
    """
    costs: dict[int, float] = {}

    def cost_at(log_size: float) -> float:
        size = min(n_max, max(n_min, round(math.exp(log_size))))
        if size not in costs:
            costs[size] = cost(size)
        return costs[size]

    low, high = math.log(n_min), math.log(n_max)
    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    cost_at(high)
    while high - low > _RESOLUTION:
        # A tie goes to the smaller sizes: costs are equal beyond the units that a model uses.
        if cost_at(left) <= cost_at(right):
            high, right = right, left
            left = high - _RATIO * (high - low)
        else:
            low, left = left, right
            right = low + _RATIO * (high - low)
    cost_at(low)
    return min(costs, key=lambda size: (costs[size], size))


def most_cut_fits(plan: Prefilter) -> int:
    """Largest number of fold models that a cut needs."""
    n_min, n_max = plan.bounds(plan.problem.space)
    # Every step of the search measures one new size, the first step two; the two ends are added.
    width = math.log(n_max) - math.log(n_min)
    n_steps = math.log(max(1.0, width / _RESOLUTION)) / -math.log(_RATIO)
    n_sizes = min(n_max - n_min + 1, math.ceil(n_steps) + 3)
    # The cost of all units is measured even if not all can be kept.
    n_sizes += int((~plan.problem.space.forbidden).sum()) > n_max
    return plan.problem.n_folds * n_sizes


def _importances(problem: Problem, evaluator: CrossValidation) -> tuple[Float, Float]:
    """Importances (n_folds, n_units) on the training rows of each fold, and costs (n_folds,)."""
    space = problem.space
    masks = np.broadcast_to(~space.forbidden, (problem.n_folds, space.n_units))
    costs = evaluator.fold_costs(masks, np.arange(problem.n_folds))
    if problem.importance == "mutual_information":
        importances = np.zeros(masks.shape)
        for fold, (train, _) in enumerate(problem.folds):
            features = problem.features.iloc[train]
            values = target_information(features, problem.target[train], problem.task)
            importances[fold] = space.by_unit(values.mean(axis=1), range(space.n_columns))
        return importances, costs
    record = evaluator.evaluations.lookup(masks[:1])[0]
    if not np.isfinite(costs).all():
        raise ConfigError(
            "the model cannot be fitted on all features, by which prefilter ranks them "
            f"({reason_of(record.error)}); use importance 'mutual_information', or no prefilter"
        )
    importances = np.zeros(masks.shape)
    importances[:, masks[0]] = np.nan_to_num(record.importances)
    return importances, costs
