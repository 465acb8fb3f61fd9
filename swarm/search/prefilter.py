"""Leave out most units of a wide table before a search, by the importances of the model.

The units are ranked by the importances of a model on all of them, and the search runs on the first
ones of the ranking. How many is decided by a golden-section search on the cost of the best-ranked
units, as in FeatureCuts (Hu et al. 2025). Our choices: sizes are searched on a logarithmic scale,
and a cost is measured with the ranking of each fold's own training rows, on its test rows. A
ranking on all rows has seen the test rows of every fold, and would make small cuts look better than
they are (Ambroise and McLachlan 2002, Selection bias in gene extraction).
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
from swarm.problem.problem import Problem
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
    """How units are left out before a search; `problem` has fresh folds, and importances."""

    problem: Problem
    # Units to keep at least, fixed ones included.
    least: int = 20
    # Of the units that are kept.
    n_clusters: int | None = None

    def __post_init__(self) -> None:
        require("least", self.least, at_least=1, whole=True)

    @classmethod
    def of(
        cls,
        problem: Problem,
        folds: tuple[Fold, ...],  # of all rows
        strategy: Strategy,
        least: int = 20,
        n_clusters: int | None = None,
    ) -> Prefilter:
        """Return the prefilter of a search, which keeps as many units as its strategy selects."""
        size = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
        if isinstance(size, (tuple, list)):
            size = size[1]
        if isinstance(size, int):
            least = max(least, size)
        if max(int(test.max()) for _, test in folds) >= len(problem.target):
            # A proxy on a part of the rows has no other folds than those of its search.
            folds = problem.folds
        return cls(ranking_problem(problem, folds), least, n_clusters)

    def bounds(self, space: SearchSpace) -> tuple[int, int]:
        """Smallest and largest number of units that can be kept, of 5,000 columns at most."""
        allowed = int((~space.forbidden).sum())
        least = min(allowed, max(self.least, space.min_size, int(space.fixed.sum()) + 1))
        # Whichever units are kept.
        n_columns = np.cumsum(np.sort([len(unit) for unit in space.units])[::-1])
        most = min(allowed, int(np.searchsorted(n_columns, MAX_COLUMNS, side="right")))
        if least > most:
            raise ConfigError(
                f"the prefilter must keep {least:,} units, but keeps at most {most:,}, as a search"
                f" has at most {MAX_COLUMNS:,} columns; keep, fix or select fewer"
            )
        return least, most


@dataclass(frozen=True, eq=False)
class Cut:
    """The units that were kept, and how their number was chosen."""

    kept: Bool  # (n_units,)
    importances: Float  # (n_units,), means over the folds; 0 for forbidden units
    sizes: Int  # (n_sizes,), measured numbers of units, ascending; the last one is all
    costs: Float  # (n_sizes,), means on the fresh folds; inf where a model failed
    n_folds: int
    source: str  # what the units were ranked by

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
        """State what was kept, and by which costs."""
        return (
            f"the search runs on {self.n_kept:,} of {len(self.kept):,} units, ranked by "
            f"{self.source}: cost {self.cost:.4f} on {self.n_folds} fresh folds, "
            f"{self.costs[-1]:.4f} with all; {self.n_fits} fits"
        )

    def sentence(self) -> str:
        """State the outcome behind its name."""
        return f"prefilter: {self.outcome()}"


def is_wide(space: SearchSpace, when: When) -> bool:
    """Whether a table is cut: always, or with ``auto`` if it has more than 5,000 columns."""
    return when == "always" or space.n_columns > MAX_COLUMNS


def ranking_problem(problem: Problem, folds: tuple[Fold, ...]) -> Problem:
    """Return the problem on `folds`, with importances of the fold models where there are any."""
    from sklearn.base import clone

    kind = problem.importance
    if kind == "none":
        informed = problem.task in ("binary", "multiclass", "regression", "multilabel")
        kind = "mutual_information" if informed else "permutation"
    estimator = problem.estimator
    if kind == "fold" and is_lightgbm(last_step(estimator)):
        steps = getattr(estimator, "steps", None)
        name = f"{steps[-1][0]}__importance_type" if steps else "importance_type"
        estimator = clone(estimator, safe=False).set_params(**{name: "gain"})
    return replace(
        problem.with_folds(folds), importance=kind, estimator=estimator, exact_shrink=False
    )


def cut_units(plan: Prefilter, evaluator: CrossValidation) -> Cut:
    """Rank the units, and choose how many to keep, by the evaluator of the ranking problem."""
    problem, space, n_folds = plan.problem, plan.problem.space, plan.problem.n_folds
    least, most = plan.bounds(space)
    importances, costs = _importances(problem, evaluator)
    orders = np.array([space.in_order(values) for values in importances])
    costs_by_size = {int((~space.forbidden).sum()): costs}

    def cost(size: int) -> float:
        if size not in costs_by_size:
            costs_by_size[size] = evaluator.fold_costs(first_of(orders, size), np.arange(n_folds))
        return float(costs_by_size[size].mean())

    size = golden_section(cost, least, most)
    mean = importances.mean(axis=0)
    sizes = sorted(costs_by_size)
    return Cut(
        kept=first_of(space.in_order(mean)[None, :], size)[0],
        importances=np.where(space.forbidden, 0.0, mean),
        sizes=np.array(sizes, dtype=np.int64),
        costs=np.array([cost(each) for each in sizes]),
        n_folds=n_folds,
        source={
            "mutual_information": "mutual information",
            "permutation": "permutation importance",
        }.get(problem.importance, "the importances of the model"),
    )


def golden_section(cost: Callable[[int], float], least: int, most: int) -> int:
    """Return the size of the lowest measured cost, the smallest of equal ones.

    Golden-section search on the logarithm of the size, until neighbouring sizes differ by less
    than a tenth. Exact if the cost falls up to some size and rises from there.
    """
    costs: dict[int, float] = {}

    def measured(place: float) -> float:
        size = min(most, max(least, round(math.exp(place))))
        if size not in costs:
            costs[size] = cost(size)
        return costs[size]

    low, high = math.log(least), math.log(most)
    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    measured(high)
    while high - low > _RESOLUTION:
        # Beyond the units that a model uses, all costs are equal.
        if measured(left) <= measured(right):
            high, right = right, left
            left = high - _RATIO * (high - low)
        else:
            low, left = left, right
            right = low + _RATIO * (high - low)
    measured(low)
    return min(costs, key=lambda size: (costs[size], size))


def most_cut_fits(plan: Prefilter) -> int:
    """Largest number of fold models that a cut needs."""
    least, most = plan.bounds(plan.problem.space)
    # Every step of the search measures one new size, the first one two; then there are the ends.
    width = math.log(most) - math.log(least)
    steps = math.log(max(1.0, width / _RESOLUTION)) / -math.log(_RATIO)
    n_sizes = min(most - least + 1, math.ceil(steps) + 3)
    # The cost of all units is measured even if not all can be kept.
    n_sizes += int((~plan.problem.space.forbidden).sum()) > most
    return plan.problem.n_folds * n_sizes


def _importances(problem: Problem, evaluator: CrossValidation) -> tuple[Float, Float]:
    """Importances (n_folds, n_units), each on the training rows of a fold, and costs (n_folds,)."""
    space, n_folds = problem.space, problem.n_folds
    everything = np.broadcast_to(~space.forbidden, (n_folds, space.n_units))
    costs = evaluator.fold_costs(everything, np.arange(n_folds))
    if problem.importance == "mutual_information":
        values = [
            target_information(problem.features.iloc[train], problem.target[train], problem.task)
            for train, _ in problem.folds
        ]
        means = [each.mean(axis=1) for each in values]
        return np.array([space.by_unit(each, range(space.n_columns)) for each in means]), costs
    record = evaluator.evaluations.lookup(everything[:1])[0]
    if not np.isfinite(costs).all():
        raise ConfigError(
            "the model cannot be fitted on all features, by which prefilter ranks them "
            f"({reason_of(record.error)}); use importance 'mutual_information', or no prefilter"
        )
    importances = np.zeros(everything.shape)
    importances[:, everything[0]] = np.nan_to_num(record.importances)
    return importances, costs
