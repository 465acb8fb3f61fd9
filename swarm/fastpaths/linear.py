"""Fast path of linear models: the system of a mask is a sub-block of that of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding, logs_lose_digits
from swarm.fastpaths.metrics import magnifies_rounding
from swarm.fastpaths.scores import scores_numbers
from swarm.fastpaths.solve import predict_masks, solve_masks
from swarm.fastpaths.tables import Chosen, FoldTable, chosen_columns, columns_of, fold_tables
from swarm.problem.problem import Problem

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
    constant: Float  # (t,), means of the targets, or logarithms of the priors
    test: Float  # (d, n_test), centred test rows
    far: Bool  # (d,), columns whose deviations from the mean are mostly rounding
    length: float  # norm of the centred targets, or 1 for classes that differ in their means
    classes: NDArray[Any] | None  # (n_classes,)


@dataclass(frozen=True)
class _Rule:
    """Differences between the models; `added` and `shrinkage` are those of :func:`.solve_masks`."""

    added: float = 0.0
    shrinkage: float = 0.0
    # highest condition number of the unscaled matrix; inf for the Cholesky solver
    worst_unscaled: float = np.inf
    discriminant: bool = False
    smallest: float = 0.0  # threshold below which singular values are zero; 0 if there is none
    ignores_zeros: bool = False  # whether columns of zeros get coefficients of exactly zero


class LinearPath:
    """Costs and coefficients of scikit-learn's linear models from one matrix per fold."""

    def __init__(self, problem: Problem, model: Any) -> None:
        from threadpoolctl import threadpool_limits

        self._problem, self._rule = problem, _rule(model)
        # The last digits of a product depend on the number of threads.
        with threadpool_limits(limits=1):
            self._systems = [
                _discriminant(model, table)
                if self._rule.discriminant
                else _least_squares(problem, model, table, train)
                for table, (train, _) in zip(fold_tables(problem), problem.folds, strict=True)
            ]
        has_classes = self._systems[0].classes is not None
        self._costs = FoldCosts(problem, np.unique(problem.target) if has_classes else None)

    def answers(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(self._problem, masks)
        shape = (len(masks), len(self._systems))
        costs = np.full(shape, np.nan)
        explains = self._problem.importance == "fold"
        importances = np.full((*shape, masks.shape[1]), np.nan) if explains else None
        for fold in folds:
            system, (train, test) = self._systems[fold], self._problem.folds[fold]
            is_certain, solutions = self._solved(masks, chosen, system, len(train))
            predicted, decided = self._predicted(chosen, system, solutions)
            is_certain &= decided
            if system.classes is None:
                is_certain &= ~errors_are_rounding(predicted, self._problem.target[test])
                is_certain &= ~logs_lose_digits(self._problem.scoring, predicted)
            if explains:
                is_certain &= self._uses_are_certain(chosen, system, solutions)
            if not is_certain.any():
                continue
            by_number = system.classes is None
            find = self._costs.of_numbers if by_number else self._costs.of_codes
            costs[is_certain, fold] = find(predicted[is_certain], fold)
            if importances is not None:
                importances[is_certain, fold] = self._importances(solutions[is_certain])
        return PathResult(costs, importances)

    def _solved(
        self, masks: Bool, chosen: Chosen, system: System, n_train: int
    ) -> tuple[Bool, Float]:
        """Return which masks have a well-conditioned system, and the weights (n, t, d)."""
        rule = self._rule
        solutions = np.zeros((len(masks), *system.right.shape))
        bounds = np.empty((len(masks), 3))
        inputs = (chosen.pointers, chosen.columns, rule.added, rule.shrinkage)
        solve_masks(system.gram, system.right, *inputs, solutions, bounds)
        # With fewer rows than columns, Ridge solves the dual, which depends on the units.
        wide = np.diff(chosen.pointers) > n_train
        worst_unscaled = np.where(wide, min(_WORST, rule.worst_unscaled), rule.worst_unscaled)
        is_certain = (bounds[:, 0] < _WORST) & (bounds[:, 1] < worst_unscaled)
        if rule.smallest:
            is_certain &= (bounds[:, 2] * rule.smallest**2 < 0.5) & self._spread(
                chosen, system, solutions
            )
        is_certain &= ~((columns_of(self._problem, masks) & system.far).any(axis=1))
        return is_certain, solutions

    def _spread(self, chosen: Chosen, system: System, solutions: Float) -> Bool:
        """Whether no direction between class means is so short that the model could drop it."""
        n_classes = len(system.right)
        if n_classes == 2:
            return np.ones(len(solutions), dtype=bool)
        share = np.sqrt(np.exp(system.constant))
        between = np.einsum("mkd,ld->mkl", solutions, system.right) * share[:, None] * share
        lengths = np.linalg.eigvalsh((between + between.transpose(0, 2, 1)) / 2)[:, ::-1]
        n_directions = np.minimum(n_classes - 1, np.diff(chosen.pointers))
        last = np.take_along_axis(lengths, n_directions[:, None] - 1, axis=1)[:, 0]
        return last > 4.0 * self._rule.smallest**2 * lengths[:, 0]

    def _predicted(
        self, chosen: Chosen, system: System, solutions: Float
    ) -> tuple[NDArray[Any], Bool]:
        """Return predictions (n, n_test), positions of classes, and which masks have no doubt."""
        weights, constant = solutions, system.constant
        if self._rule.discriminant:
            prior = np.exp(system.constant)
            # Subtracting the same weights for all classes keeps the labels and saves digits.
            weights = solutions - np.einsum("k,mkd->md", prior, solutions)[:, None, :]
            aside = system.right - prior @ system.right
            constant = system.constant - 0.5 * np.einsum("mkd,kd->mk", weights, aside)
        n, n_sides = solutions.shape[:2]
        decision = np.empty((n, n_sides, system.test.shape[1]))
        predict_masks(system.test, weights, chosen.pointers, chosen.columns, decision)
        decision += constant[..., None]
        if system.classes is None:
            return decision[:, 0], np.ones(n, dtype=bool)
        # Cancelled by the intercept of a model that does not centre its rows.
        lost = (np.abs(weights) @ np.abs(system.centre)).max(axis=1)
        # Targets and logarithms of priors are of order 1: if all decisions are much smaller, they
        # are differences of these, and their signs are rounding.
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

    def _uses_are_certain(self, chosen: Chosen, system: System, solutions: Float) -> Bool:
        """Whether no coefficient of a mask could be zero or rounding: bool (n,)."""
        squares = np.diag(system.gram)
        effect = self._sizes(solutions) * np.sqrt(squares)
        least = _USE_MARGIN * np.maximum(effect.max(axis=1), system.length)
        zero = (squares == 0) & self._rule.ignores_zeros
        is_certain = np.empty(len(solutions), dtype=bool)
        for m in range(len(solutions)):
            columns = chosen.of(m)
            is_certain[m] = np.all((effect[m, columns] > least[m]) | zero[columns])
        return is_certain

    def _sizes(self, solutions: Float) -> Float:
        """Mean absolute coefficients over outputs: float64 (n, d)."""
        if self._rule.discriminant and solutions.shape[1] == 2:
            solutions = solutions[:, 1:] - solutions[:, :1]
        size: Float = np.abs(solutions).mean(axis=1)
        return size

    def _importances(self, solutions: Float) -> Float:
        """Mean absolute coefficients over outputs, summed by unit: float64 (n, n_units)."""
        size = self._sizes(solutions)
        space = self._problem.space
        return np.stack([space.by_unit(row, range(space.n_columns)) for row in size])


def path_of(problem: Problem, model: Any) -> tuple[LinearPath | None, str]:
    """Compute the systems of all folds, or return the reason why models are fitted."""
    name = type(model).__name__
    discriminant = name == "LinearDiscriminantAnalysis"
    reason = _other_discriminant(model) if discriminant else _other_least_squares(model)
    if not reason and problem.target.ndim > 1:
        reason = "predicts several columns"
    numbers = name in ("Ridge", "LinearRegression")
    if numbers and problem.task != "regression" and not scores_numbers(problem.scoring):
        return None, f"{name} predicts numbers, not the classes of {problem.scoring.name!r}"
    if numbers and magnifies_rounding(problem.scoring):
        return None, f"{problem.scoring.name!r} magnifies the rounding of {name}"
    weight = problem.weight
    if weight is not None and not all(weight[train].any() for train, _ in problem.folds):
        return None, "all training rows of a fold have weight 0"
    size = 8 * problem.space.n_columns**2 * problem.n_folds
    if not reason and size > _MOST_SYSTEM_BYTES:
        reason = f"needs {size / 2**20:.0f} MiB for the matrices of all folds"
    if reason:
        return None, f"{name} {reason}"
    path = LinearPath(problem, model)
    return path, f"{name} solves a sub-block of one matrix per fold"


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
            whole = (rows == rows[:, :1]).all(axis=1) & (squares == 0)
            first = rows[:, 0]
            safe = (
                (first == np.round(first))
                & (np.abs(first) < _LARGEST_EXACT_MEAN)
                & (weight is None)
            )
            far &= ~(whole & (safe | (first == 0)))
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


def _discriminant(model: Any, table: FoldTable) -> System:
    """Within-class covariance and class means."""
    svd = model.solver == "svd"
    classes, codes = np.unique(table.train_target, return_inverse=True)
    rows = table.train
    prior = np.bincount(codes) / len(codes)
    means = np.stack([rows[:, codes == code].mean(axis=1) for code in range(len(classes))])
    within = rows - means[codes].T
    centre = prior @ means
    gram = within @ within.T / len(codes)
    far = np.diag(gram) <= (np.abs(means).max(axis=0) / _FARTHEST) ** 2
    if svd:
        gram *= _share_of_rows(model, len(codes), len(classes))
    right, test = means - centre if svd else means, table.test - centre[:, None]
    return System(
        gram=gram,
        right=right,
        centre=centre,
        constant=np.log(prior),
        test=test,
        far=far,
        length=1.0,
        classes=classes,
    )


def _share_of_rows(model: Any, n_rows: int, n_classes: int) -> float:
    """Return the ratio of the covariance of the solver ``svd`` to the mean over rows."""
    # It depends on scikit-learn's version, so a fit on six rows measures it.
    from sklearn.base import clone

    tried = clone(model).set_params(tol=1e-6)
    tried.fit(np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]), np.array([0, 0, 0, 1, 1, 1]))
    # Means 1 and 4, squares within classes 4.
    divisor = float(np.ravel(tried.coef_)[0]) * 4.0 / 3.0
    return n_rows / (n_rows - n_classes) if divisor < 5.0 else 1.0


def _rule(model: Any) -> _Rule:
    name = type(model).__name__
    if name == "LinearDiscriminantAnalysis":
        if model.solver == "svd":
            return _Rule(discriminant=True, smallest=max(float(model.tol), 1e-15))
        return _Rule(shrinkage=float(model.shrinkage or 0.0), worst_unscaled=1e8, discriminant=True)
    if name == "LinearRegression":
        # It drops directions shorter than a share of the longest, which depend on the units.
        dropped = max(float(getattr(model, "tol", 0.0)), 1e-6)
        return _Rule(worst_unscaled=0.25 / dropped**2)
    if model.solver == "svd":
        return _Rule(added=float(model.alpha), worst_unscaled=1e11)
    return _Rule(added=float(model.alpha), ignores_zeros=True)


def _other_least_squares(model: Any) -> str:
    if model.positive:
        return "has positive=True"
    if getattr(model, "solver", "auto") not in ("auto", "cholesky", "svd"):
        return f"has the solver {model.solver!r}, which stops before the solution"
    if np.ndim(getattr(model, "alpha", 0.0)) > 0:
        return "has several penalties"
    if getattr(model, "class_weight", None) is not None:
        return "has class weights"
    return ""


def _other_discriminant(model: Any) -> str:
    if model.solver not in ("svd", "lsqr"):
        return f"has the solver {model.solver!r}"
    if model.priors is not None:
        return "has given priors"
    if model.covariance_estimator is not None or isinstance(model.shrinkage, str):
        return "has another covariance estimator"
    if model.solver == "svd" and model.shrinkage is not None:
        return "cannot shrink with the solver 'svd'"
    if model.n_components is not None:
        return "keeps fewer components"
    return ""
