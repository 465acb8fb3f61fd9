"""Fast path of linear models: the system of a mask is a sub-block of that of all columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding, logs_lose_digits
from swarm.fastpaths.scores import scores_numbers
from swarm.fastpaths.tables import Chosen, FoldTable, chosen_columns, columns_of, fold_tables
from swarm.metrics import magnifies_rounding
from swarm.problem.problem import Problem
from swarm.threads import one_thread

LinearModel: TypeAlias = Ridge | RidgeClassifier | LinearRegression

# If two decisions are closer than this share of the largest, a fitted model decides.
_DECISION_MARGIN = 1e-7
# The results of solvers differ by more than the tolerance at a higher condition number.
_MAX_CONDITION = 1e7
# The coefficient of a column that changes predictions by less than this share is rounding.
_USE_MARGIN = 1e-9
# The solver ``svd`` treats singular values up to 1e-15 as zero, regardless of the units.
_MIN_SQUARE = 1e-20
# Values farther from zero than this many standard deviations lose digits, and the result depends on
# the order of summation.
_MAX_DEVIATIONS = 1e5
# Means of integers up to this limit are exact.
_MAX_EXACT_MEAN = 2.0**30
# Memory limit for the systems of all folds.
_MAX_SYSTEM_BYTES = 2**29


@dataclass(frozen=True)
class System:
    """The linear system of the training rows of a fold, for all d columns and t targets.

    Attributes
    ----------
    gram : float64 (d, d)
    right : float64 (t, d)
        Right-hand sides.
    centre : float64 (d,)
        Means of the columns.
    constant : float64 (t,)
        Means of the targets.
    test : float64 (d, n_test)
        Centred test rows.
    far : bool (d,)
        Columns whose deviations from the mean are mostly rounding.
    length : float
        Norm of the centred targets.
    classes : array (n_classes,) or None
    """

    gram: Float
    right: Float
    centre: Float
    constant: Float
    test: Float
    far: Bool
    length: float
    classes: AnyArray | None


@dataclass(frozen=True)
class _Rule:
    """Differences between the models.

    Attributes
    ----------
    penalty : float
    max_condition_unscaled : float
        Highest condition number of the unscaled matrix; inf for the Cholesky solver.
    ignores_zeros : bool
        Whether columns of zeros get coefficients of exactly zero.
    """

    penalty: float = 0.0
    max_condition_unscaled: float = np.inf
    ignores_zeros: bool = False


class LinearPath:
    """Costs and coefficients of scikit-learn's linear models from one matrix per fold."""

    def __init__(self, problem: Problem, model: LinearModel) -> None:
        self._problem = problem
        self._rule = _rule(model)
        # The last digits of a product depend on the number of threads.
        with one_thread():
            self._systems = [
                _least_squares(problem, model, table, train)
                for table, (train, _) in zip(fold_tables(problem), problem.folds, strict=True)
            ]
        has_classes = self._systems[0].classes is not None
        self._costs = FoldCosts(problem, np.unique(problem.target) if has_classes else None)

    def evaluate(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks, see :class:`.choose.ExactPath`."""
        flags = columns_of(self._problem, masks)
        chosen = chosen_columns(self._problem, masks)
        shape = (len(masks), len(self._systems))
        costs = np.full(shape, np.nan)
        has_importances = self._problem.importance == "fold"
        importances = np.full((*shape, masks.shape[1]), np.nan) if has_importances else None
        for fold in folds:
            system = self._systems[fold]
            train, test = self._problem.folds[fold]
            weights, decision, conditions = self._solve(chosen, system)
            sizes = np.abs(weights).mean(axis=1)
            predicted, is_certain = self._predict(system, weights, decision)
            is_certain &= self._is_regular(flags, system, conditions, len(train))
            if system.classes is None:
                is_certain &= ~errors_are_rounding(predicted, self._problem.target[test])
                is_certain &= ~logs_lose_digits(self._problem.scoring, predicted)
            if has_importances:
                is_certain &= self._uses_are_certain(flags, system, sizes)
            if not is_certain.any():
                continue
            has_classes = system.classes is not None
            costs_of = self._costs.of_codes if has_classes else self._costs.of_numbers
            costs[is_certain, fold] = costs_of(predicted[is_certain], fold)
            if importances is not None:
                importances[is_certain, fold] = self._importances(sizes[is_certain])
        return PathResult(costs, importances)

    def _solve(self, chosen: Chosen, system: System) -> tuple[Float, Float, Float]:
        """Solve ``(G + a I) w = b`` on the columns of each mask.

        Returns the weights (n, t, d), their decision values (n, t, n_test), and upper bounds (n, 2)
        of the condition numbers of the scaled and of the unscaled matrix, inf without a solution.
        """
        n = len(chosen.pointers) - 1
        weights = np.zeros((n, *system.right.shape))
        decision = np.zeros((n, len(system.right), system.test.shape[1]))
        conditions = np.full((n, 2), np.inf)
        for m in range(n):
            columns = chosen.of(m)
            matrix = system.gram.take(columns, axis=0).take(columns, axis=1)
            diagonal = matrix.diagonal() + self._rule.penalty
            if not (diagonal > 0.0).all():
                continue
            # A unit diagonal makes the result independent of the units of measurement.
            scale = np.sqrt(diagonal)
            matrix /= scale[:, None] * scale
            matrix.flat[:: len(columns) + 1] = 1.0
            factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
            if failed:
                continue
            scaled, _ = dpotrs(factor, (system.right.take(columns, axis=1) / scale).T, lower=1)
            solution = scaled.T / scale
            weights[m][:, columns] = solution
            decision[m] = solution @ system.test.take(columns, axis=0)
            # The norm of the inverse is at most its trace.
            inverse = np.square(dtrtri(factor, lower=1, overwrite_c=1)[0]).sum(axis=0)
            conditions[m, 0] = len(columns) * inverse.sum()
            conditions[m, 1] = diagonal.sum() * (inverse / diagonal).sum()
        return weights, decision + system.constant[:, None], conditions

    def _is_regular(self, flags: Bool, system: System, conditions: Float, n_train: int) -> Bool:
        """Whether the matrix of a mask is well-conditioned: bool (n,)."""
        # Ridge solves the dual of fewer rows than columns, which depends on the units.
        max_unscaled = np.full(len(flags), self._rule.max_condition_unscaled)
        is_dual = flags.sum(axis=1) > n_train
        max_unscaled[is_dual] = min(_MAX_CONDITION, self._rule.max_condition_unscaled)
        is_regular = (conditions[:, 0] < _MAX_CONDITION) & (conditions[:, 1] < max_unscaled)
        return is_regular & ~(flags & system.far).any(axis=1)

    def _predict(self, system: System, weights: Float, decision: Float) -> tuple[AnyArray, Bool]:
        """Return predictions (n, n_test), positions of classes, and which masks have no doubt."""
        n, n_targets = weights.shape[:2]
        if system.classes is None:
            return decision[:, 0], np.ones(n, dtype=bool)
        # The intercept of a model that does not centre its rows cancels terms of this size.
        cancelled = (np.abs(weights) @ np.abs(system.centre)).max(axis=1)
        # Targets are of order 1. Decisions that are much smaller are differences of these, and
        # their signs are rounding.
        size = np.maximum(cancelled + np.abs(decision).max(axis=(1, 2)), 1.0)
        if n_targets == 1:
            labels = (decision[:, 0] > 0).astype(np.int64)
            gap = np.abs(decision[:, 0])
        else:
            labels = decision.argmax(axis=1)
            highest = np.partition(decision, n_targets - 2, axis=1)[:, -2:]
            gap = highest[:, 1] - highest[:, 0]
        assert self._costs.classes is not None
        codes = np.searchsorted(self._costs.classes, system.classes)
        return codes[labels], gap.min(axis=1) > _DECISION_MARGIN * size

    def _uses_are_certain(self, flags: Bool, system: System, sizes: Float) -> Bool:
        """Whether no coefficient of a mask could be zero or rounding: bool (n,)."""
        squares = np.diag(system.gram)
        effect = sizes * np.sqrt(squares)
        min_effect = _USE_MARGIN * np.maximum(effect.max(axis=1), system.length)
        is_zero = (squares == 0) & self._rule.ignores_zeros
        return ((effect > min_effect[:, None]) | is_zero | ~flags).all(axis=1)

    def _importances(self, sizes: Float) -> Float:
        """Sum sizes of coefficients (n, d) by unit: float64 (n, n_units)."""
        space = self._problem.space
        return np.stack([space.by_unit(row, range(space.n_columns)) for row in sizes])


def path_of(problem: Problem, model: LinearModel) -> tuple[LinearPath | None, str]:
    """Compute the systems of all folds, or return the reason why models are fitted."""
    reason = _reason_against(problem, model)
    if reason:
        return None, reason
    path = LinearPath(problem, model)
    return path, f"{type(model).__name__} solves a sub-block of one matrix per fold"


def _least_squares(problem: Problem, model: LinearModel, table: FoldTable, train: Int) -> System:
    """Normal equations of centred columns: ``(X'X + a) w = X'y``."""
    weight = None if problem.weight is None else problem.weight[train]
    uses_svd = getattr(model, "solver", "") == "svd"
    classes = None
    if "Classifier" in type(model).__name__:
        classes = np.unique(table.train_target)
        positive = classes[1:] if len(classes) == 2 else classes
        targets = np.where(table.train_target == positive[:, None], 1.0, -1.0)
    else:
        targets = table.train_target.astype(np.float64)[None, :]
    rows = table.train
    centre = np.zeros(len(rows))
    constant = np.zeros(len(targets))
    if model.fit_intercept:
        centre = np.average(rows, axis=1, weights=weight)
        constant = np.average(targets, axis=1, weights=weight)
    centred_rows = rows - centre[:, None]
    centred_targets = targets - constant[:, None]
    weights = np.ones(rows.shape[1]) if weight is None else weight
    gram = (centred_rows * weights) @ centred_rows.T
    squares = np.diag(gram)
    far = np.zeros(len(rows), dtype=bool)
    if model.fit_intercept:
        far = squares <= (centre / _MAX_DEVIATIONS) ** 2 * weights.sum()
        # A penalty gives constant columns the weight 0, which is rounding with the solver svd.
        if getattr(model, "alpha", 0.0) > 0 and not uses_svd:
            first = rows[:, 0]
            is_constant = (rows == first[:, None]).all(axis=1) & (squares == 0)
            is_exact = (first == np.round(first)) & (np.abs(first) < _MAX_EXACT_MEAN)
            far &= ~(is_constant & (is_exact & (weight is None) | (first == 0)))
    if uses_svd:
        far |= squares <= _MIN_SQUARE
    return System(
        gram=gram,
        right=(centred_targets * weights) @ centred_rows.T,
        centre=centre,
        constant=constant,
        test=table.test - centre[:, None],
        far=far,
        length=float(np.sqrt((np.square(centred_targets) * weights).sum(axis=1).max())),
        classes=classes,
    )


def _rule(model: LinearModel) -> _Rule:
    if type(model).__name__ == "LinearRegression":
        # It drops directions shorter than a share of the longest, which depend on the units.
        min_share = max(float(getattr(model, "tol", 0.0)), 1e-6)
        return _Rule(max_condition_unscaled=0.25 / min_share**2)
    if model.solver == "svd":
        return _Rule(float(model.alpha), max_condition_unscaled=1e11)
    return _Rule(float(model.alpha), ignores_zeros=True)


def _reason_against(problem: Problem, model: LinearModel) -> str:
    """Return a reason against the fast path of a model, or ""."""
    name = type(model).__name__
    weight = problem.weight
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
    if size > _MAX_SYSTEM_BYTES:
        return f"{name} needs {size / 2**20:.0f} MiB for the matrices of all folds"
    return ""
