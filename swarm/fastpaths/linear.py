"""Fast path of linear models: the system of a mask is a sub-block of that of all columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding, logs_lose_digits
from swarm.fastpaths.scores import scores_numbers
from swarm.fastpaths.tables import Chosen, FoldTable, chosen_columns, columns_of, fold_tables
from swarm.metrics import magnifies_rounding
from swarm.problem.problem import Problem
from swarm.threads import one_thread

# If two decisions are closer than this share of the largest, a fitted model decides.
_DECISION_MARGIN = 1e-7
# With a higher condition number, solvers differ by more than the tolerance.
_WORST = 1e7
# The coefficient of a column that changes predictions by less than this share is rounding.
_USE_MARGIN = 1e-9
# The solver ``svd`` treats singular values up to 1e-15 as zero, regardless of the units.
_SHORTEST = 1e-20
# Farther from zero than this many standard deviations, values lose digits, and the result depends
# on the order of summation.
_FARTHEST = 1e5
# Means of integers up to this limit are exact.
_LARGEST_EXACT_MEAN = 2.0**30
# Memory limit for the systems of all folds.
_MOST_SYSTEM_BYTES = 2**29


@dataclass(frozen=True)
class System:
    """The linear system of the training rows of a fold, for all columns."""

    gram: Float  # (d, d)
    right: Float  # (t, d), right-hand sides
    centre: Float  # (d,), means of the columns
    constant: Float  # (t,), means of the targets
    test: Float  # (d, n_test), centred test rows
    far: Bool  # (d,), columns whose deviations from the mean are mostly rounding
    length: float  # norm of the centred targets
    classes: NDArray[Any] | None  # (n_classes,)


@dataclass(frozen=True)
class _Rule:
    """Differences between the models."""

    penalty: float = 0.0
    # highest condition number of the unscaled matrix; inf for the Cholesky solver
    worst_unscaled: float = np.inf
    ignores_zeros: bool = False  # whether columns of zeros get coefficients of exactly zero


class LinearPath:
    """Costs and coefficients of scikit-learn's linear models from one matrix per fold."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self._problem, self._rule = problem, _rule(model)
        # The last digits of a product depend on the number of threads.
        with one_thread():
            self._systems = [
                _least_squares(problem, model, table, train)
                for table, (train, _) in zip(fold_tables(problem), problem.folds, strict=True)
            ]
        has_classes = self._systems[0].classes is not None
        self._costs = FoldCosts(problem, np.unique(problem.target) if has_classes else None)

    def answers(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks, see :class:`.choose.ExactPath`."""
        flags, chosen = columns_of(self._problem, masks), chosen_columns(self._problem, masks)
        shape = (len(masks), len(self._systems))
        costs = np.full(shape, np.nan)
        explains = self._problem.importance == "fold"
        importances = np.full((*shape, masks.shape[1]), np.nan) if explains else None
        for fold in folds:
            system, (train, test) = self._systems[fold], self._problem.folds[fold]
            solutions, decision, bounds = self._solved(chosen, system)
            is_certain = self._is_regular(flags, system, bounds, len(train))
            sizes = np.abs(solutions).mean(axis=1)
            predicted, decided = self._predicted(system, solutions, decision)
            is_certain &= decided
            if system.classes is None:
                is_certain &= ~errors_are_rounding(predicted, self._problem.target[test])
                is_certain &= ~logs_lose_digits(self._problem.scoring, predicted)
            if explains:
                is_certain &= self._uses_are_certain(flags, system, sizes)
            if not is_certain.any():
                continue
            has_classes = system.classes is not None
            find = self._costs.of_codes if has_classes else self._costs.of_numbers
            costs[is_certain, fold] = find(predicted[is_certain], fold)
            if importances is not None:
                importances[is_certain, fold] = self._importances(sizes[is_certain])
        return PathResult(costs, importances)

    def _solved(self, chosen: Chosen, system: System) -> tuple[Float, Float, Float]:
        """Solve ``(G + a I) w = b`` on the columns of each mask.

        Returns the weights (n, t, d), their decision values (n, t, n_test), and upper bounds (n, 2)
        of the condition numbers of the scaled and of the unscaled matrix, inf without a solution.
        """
        n, n_sides = len(chosen.pointers) - 1, len(system.right)
        solutions = np.zeros((n, *system.right.shape))
        decision = np.zeros((n, n_sides, system.test.shape[1]))
        bounds = np.full((n, 2), np.inf)
        for m in range(n):
            columns = chosen.of(m)
            matrix = system.gram.take(columns, axis=0).take(columns, axis=1)
            diagonal = matrix.diagonal() + self._rule.penalty
            if not (diagonal > 0.0).all():
                continue
            # Scaled to a unit diagonal, so that the result does not depend on the units.
            scale = np.sqrt(diagonal)
            matrix /= scale[:, None] * scale
            matrix.flat[:: len(columns) + 1] = 1.0
            factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
            if failed:
                continue
            scaled, _ = dpotrs(factor, (system.right.take(columns, axis=1) / scale).T, lower=1)
            weights = scaled.T / scale
            solutions[m][:, columns] = weights
            decision[m] = weights @ system.test.take(columns, axis=0)
            # The norm of the inverse is at most its trace.
            inverse = np.square(dtrtri(factor, lower=1, overwrite_c=1)[0]).sum(axis=0)
            bounds[m] = len(columns) * inverse.sum(), diagonal.sum() * (inverse / diagonal).sum()
        return solutions, decision + system.constant[:, None], bounds

    def _is_regular(self, flags: Bool, system: System, bounds: Float, n_train: int) -> Bool:
        """Whether the matrix of a mask is well-conditioned: bool (n,)."""
        # With fewer rows than columns, Ridge solves the dual, which depends on the units.
        worst_unscaled = np.full(len(flags), self._rule.worst_unscaled)
        worst_unscaled[flags.sum(axis=1) > n_train] = min(_WORST, self._rule.worst_unscaled)
        is_regular: Bool = (bounds[:, 0] < _WORST) & (bounds[:, 1] < worst_unscaled)
        return is_regular & ~(flags & system.far).any(axis=1)

    def _predicted(
        self, system: System, solutions: Float, decision: Float
    ) -> tuple[NDArray[Any], Bool]:
        """Return predictions (n, n_test), positions of classes, and which masks have no doubt."""
        n, n_sides = solutions.shape[:2]
        if system.classes is None:
            return decision[:, 0], np.ones(n, dtype=bool)
        # Cancelled by the intercept of a model that does not centre its rows.
        lost = (np.abs(solutions) @ np.abs(system.centre)).max(axis=1)
        # Targets are of order 1: if all decisions are much smaller, they are differences of these,
        # and their signs are rounding.
        size = np.maximum(lost + np.abs(decision).max(axis=(1, 2)), 1.0)
        if n_sides == 1:
            labels, gap = (decision[:, 0] > 0).astype(np.int64), np.abs(decision[:, 0])
        else:
            labels = decision.argmax(axis=1)
            two = np.partition(decision, n_sides - 2, axis=1)[:, -2:]
            gap = two[:, 1] - two[:, 0]
        assert self._costs.classes is not None
        codes = np.searchsorted(self._costs.classes, system.classes)
        return codes[labels], gap.min(axis=1) > _DECISION_MARGIN * size

    def _uses_are_certain(self, flags: Bool, system: System, sizes: Float) -> Bool:
        """Whether no coefficient of a mask could be zero or rounding: bool (n,)."""
        squares = np.diag(system.gram)
        effect = sizes * np.sqrt(squares)
        least = _USE_MARGIN * np.maximum(effect.max(axis=1), system.length)
        zero = (squares == 0) & self._rule.ignores_zeros
        is_certain: Bool = ((effect > least[:, None]) | zero | ~flags).all(axis=1)
        return is_certain

    def _importances(self, sizes: Float) -> Float:
        """Sum sizes of coefficients (n, d) by unit: float64 (n, n_units)."""
        space = self._problem.space
        return np.stack([space.by_unit(row, range(space.n_columns)) for row in sizes])


def path_of(problem: Problem, model: Any) -> tuple[LinearPath | None, str]:
    """Compute the systems of all folds, or return the reason why models are fitted."""
    reason = _unfit(problem, model)
    if reason:
        return None, reason
    path = LinearPath(problem, model)
    return path, f"{type(model).__name__} solves a sub-block of one matrix per fold"


def _least_squares(problem: Problem, model: Any, table: FoldTable, train: Int) -> System:
    """Normal equations of centred columns: ``(X'X + a) w = X'y``."""
    weight = None if problem.weight is None else problem.weight[train]
    svd = getattr(model, "solver", "") == "svd"
    if "Classifier" in type(model).__name__:
        classes = np.unique(table.train_target)
        positive = classes[1:] if len(classes) == 2 else classes
        targets = np.where(table.train_target == positive[:, None], 1.0, -1.0)
    else:
        classes, targets = None, table.train_target.astype(np.float64)[None, :]
    rows = table.train
    centre, constant = np.zeros(len(rows)), np.zeros(len(targets))
    if model.fit_intercept:
        centre = np.average(rows, axis=1, weights=weight)
        constant = np.average(targets, axis=1, weights=weight)
    centred, aims = rows - centre[:, None], targets - constant[:, None]
    share = np.ones(rows.shape[1]) if weight is None else weight
    gram = (centred * share) @ centred.T
    right = (aims * share) @ centred.T
    squares = np.diag(gram)
    far = np.zeros(len(rows), dtype=bool)
    if model.fit_intercept:
        far = squares <= (centre / _FARTHEST) ** 2 * share.sum()
        # A penalty gives constant columns the weight 0; with the solver svd it is rounding.
        if getattr(model, "alpha", 0.0) > 0 and not svd:
            first = rows[:, 0]
            is_constant = (rows == first[:, None]).all(axis=1) & (squares == 0)
            is_exact = (first == np.round(first)) & (np.abs(first) < _LARGEST_EXACT_MEAN)
            far &= ~(is_constant & (is_exact & (weight is None) | (first == 0)))
    if svd:
        far |= squares <= _SHORTEST
    length = float(np.sqrt((np.square(aims) * share).sum(axis=1).max()))
    test = table.test - centre[:, None]
    return System(
        gram=gram,
        right=right,
        centre=centre,
        constant=constant,
        test=test,
        far=far,
        length=length,
        classes=classes,
    )


def _rule(model: Any) -> _Rule:
    if type(model).__name__ == "LinearRegression":
        # It drops directions shorter than a share of the longest, which depend on the units.
        dropped = max(float(getattr(model, "tol", 0.0)), 1e-6)
        return _Rule(worst_unscaled=0.25 / dropped**2)
    if model.solver == "svd":
        return _Rule(float(model.alpha), worst_unscaled=1e11)
    return _Rule(float(model.alpha), ignores_zeros=True)


def _unfit(problem: Problem, model: Any) -> str:
    """Return a reason against the fast path of a model, or ""."""
    name, weight = type(model).__name__, problem.weight
    if name in ("Ridge", "LinearRegression"):
        if problem.task != "regression" and not scores_numbers(problem.scoring):
            return f"{name} predicts numbers, not the classes of {problem.scoring.name!r}"
        if magnifies_rounding(problem.scoring):
            return f"{problem.scoring.name!r} magnifies the rounding of {name}"
    if weight is not None and not all(weight[train].any() for train, _ in problem.folds):
        return "all training rows of a fold have weight 0"
    if model.positive:
        return f"{name} has positive=True"
    if getattr(model, "solver", "auto") not in ("auto", "cholesky", "svd"):
        return f"{name} has the solver {model.solver!r}, which stops before the solution"
    if np.ndim(getattr(model, "alpha", 0.0)) > 0:
        return f"{name} has several penalties"
    if getattr(model, "class_weight", None) is not None:
        return f"{name} has class weights"
    if problem.target.ndim > 1:
        return f"{name} predicts several columns"
    size = 8 * problem.space.n_columns**2 * problem.n_folds
    if size > _MOST_SYSTEM_BYTES:
        return f"{name} needs {size / 2**20:.0f} MiB for the matrices of all folds"
    return ""
