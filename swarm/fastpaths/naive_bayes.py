"""Fast path of Gaussian naive Bayes: log-likelihoods are sums over features."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.bayes_sums import (
    SmoothedVariances,
    class_shares,
    exact_joints,
    exact_sums,
    smoothed,
)
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts
from swarm.fastpaths.tables import (
    FoldTable,
    columns_are_contiguous,
    columns_of,
    fitted_on,
    fold_tables,
)
from swarm.metrics import takes_labels
from swarm.problem.problem import Problem

# If two classes are closer than this share of their log-likelihood, the sums are computed again in
# the order of the model. Sums in another order differ by about 1e-15 of it, or by more if a mean is
# far from zero.
_LIKELIHOOD_MARGIN = 1e-7
# Elements of a chunk, 64 MiB, and of each of the two caches, 128 MiB.
_CHUNK = 1 << 23
# Elements of a chunk of probabilities, which stay in the cache of a core.
_SMALL_CHUNK = 1 << 17
_KEPT = 1 << 24


class Moments:
    """Means and variances of some folds, and their test rows, padded to the same number."""

    def __init__(
        self, tables: list[FoldTable], classes: Any, truth: list[Any], keep: bool, n_numbers: int
    ) -> None:
        # Steps and memory layout are those of scikit-learn, so that sums have the same order.
        shape = (len(tables), len(classes), len(tables[0].train))
        self.mean, self.variance = np.zeros(shape), np.ones(shape)
        self.log_prior = np.full(shape[:2], -np.inf)
        self.sizes = np.array([table.test.shape[1] for table in tables])
        self.test = np.zeros((len(tables), shape[2], self.sizes.max()))
        self.truth = np.full((len(tables), self.sizes.max()), -1)
        for fold, table in enumerate(tables):
            rows, codes = table.train.T, np.searchsorted(classes, table.train_target)
            counts = np.bincount(codes, minlength=len(classes)).astype(np.float64)
            for code in np.flatnonzero(counts):
                members = rows[codes == code]
                self.mean[fold, code] = np.mean(members, axis=0)
                self.variance[fold, code] = np.var(members, axis=0)
                self.log_prior[fold, code] = np.log((counts / counts.sum())[code])
            self.test[fold, :, : self.sizes[fold]] = table.test
            self.truth[fold, : self.sizes[fold]] = truth[fold]
        self.spread = np.array([np.var(table.train.T, axis=0) for table in tables])
        self._squares = self._made_squares() if keep else None
        made = partial(smoothed, self.mean, self.variance)
        self._smoothed = lru_cache(n_numbers // (2 * self.mean.size))(made)

    def squares(self) -> Float:
        """Squared distances from the means: float64 (n_folds, n_classes, n_columns, n_test)."""
        return self._made_squares() if self._squares is None else self._squares

    def _made_squares(self) -> Float:
        distance = self.test[:, None] - self.mean[..., None]
        return np.square(distance, out=distance)

    def smoothed(self, smoothing: Float) -> SmoothedVariances:
        """Add `smoothing` (n_folds,) to the variances of each fold."""
        return self._smoothed(smoothing.tobytes())


class NaiveBayesPath:
    """Costs of :class:`sklearn.naive_bayes.GaussianNB` by one matrix product per fold and class."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self._problem = problem
        self._smoothing = float(model.var_smoothing)
        # If the order of a sum could change a prediction, it is summed again in the order of the
        # model, or a model is fitted if that order is unknown: False, or None until compared.
        self.exact = None if moments_are_exact(problem) else False
        classes = np.unique(problem.target)
        self._costs = FoldCosts(problem, classes)
        tables = fold_tables(problem)
        # All folds together, unless they exceed the cache or would be mostly padding.
        sizes = [table.test.shape[1] for table in tables]
        numbers = max(sizes) * len(sizes) * problem.space.n_columns * len(classes)
        keep = numbers <= _KEPT
        together = len(tables) if keep and max(sizes) * len(sizes) <= 2 * sum(sizes) else 1
        room = _KEPT // (len(tables) // together)
        self._first = range(0, len(tables), together)
        parts = [slice(first, first + together) for first in self._first]
        self.blocks = [
            Moments(tables[part], classes, self._costs.truth[part], keep, room) for part in parts
        ]

    def answers(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks on the blocks of some folds, see :class:`.choose.ExactPath`."""
        columns = columns_of(self._problem, masks)
        costs = np.full((len(masks), self._problem.n_folds), np.nan)
        for number in sorted({fold // self._first.step for fold in folds}):
            first = self._first[number]
            part = slice(first, first + len(self.blocks[number].sizes))
            costs[:, part] = self._costs_of(columns, number)
        return PathResult(costs)

    def _costs_of(self, columns: Bool, number: int) -> Float:
        """Return the cost of each set of columns (n, n_columns) on each fold of a block."""
        block = self.blocks[number]
        squares, smoothing = block.squares(), self.smoothing(columns, block)
        n_folds, n_classes, n_columns, n_test = squares.shape
        by_labels = takes_labels(self._problem.scoring)
        limit = _CHUNK if by_labels else _SMALL_CHUNK
        step = max(1, limit // (n_folds * n_classes * (n_columns + n_test)))
        costs = np.full(smoothing.shape, np.nan)
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            find = self._costs_by_labels if by_labels else self._costs_by_shares
            costs[part] = find(smoothing[part], columns[part], number, squares)
        return costs

    def smoothing(self, columns: Bool, block: Moments) -> Float:
        """Return what is added to the variances of columns (n, n_columns): float64 (n, n_folds)."""
        widest = np.empty((len(columns), len(block.spread)))
        for fold, variance in enumerate(block.spread):
            order = np.argsort(-variance, kind="stable")
            widest[:, fold] = variance[order[columns[:, order].argmax(axis=1)]]
        return self._smoothing * widest

    def _costs_by_labels(
        self, smoothing: Float, columns: Bool, number: int, squares: Float
    ) -> Float:
        block, first = self.blocks[number], self._first[number]
        made = [block.smoothed(one) for one in smoothing]
        labels, doubtful = _labels(made, columns, block, squares)
        if doubtful.any() and self.exact is not False:
            for row in np.flatnonzero(doubtful.any(axis=0)).tolist():
                chosen = np.flatnonzero(columns[row])
                open_ = doubtful[:, row] & (block.sizes >= 2)
                if len(chosen) >= 2 and open_.any():
                    joint = exact_sums(block.log_prior, squares, made[row], chosen)
                    settled = open_ & np.isfinite(joint.max(axis=1)).all(axis=1)
                    if self.exact is None and settled.any():
                        fold = int(settled.argmax())
                        log_likelihoods = joint[fold, :, : block.sizes[fold]]
                        self.exact = self._agrees(log_likelihoods, chosen, first + fold)
                    settled &= bool(self.exact)
                    labels[settled, row] = joint[settled].argmax(axis=1)
                    doubtful[settled, row] = False
        if self._costs.is_accuracy:
            # As `FoldCosts.of_codes`, of all folds at once.
            right = (labels == block.truth[:, None]).sum(axis=2)
            costs: Float = self._costs.upper - right.T / block.sizes
        else:
            folds = enumerate(block.sizes.tolist(), start=first)
            parts = zip(labels, folds, strict=True)
            by_fold = [self._costs.of_codes(part[:, :size], fold) for part, (fold, size) in parts]
            costs = np.stack(by_fold, axis=1)
        costs[doubtful.T] = np.nan
        return costs

    def _costs_by_shares(
        self, smoothing: Float, columns: Bool, number: int, squares: Float
    ) -> Float:
        """Return the costs of probabilities, whose last bits make ties or not: (n, n_folds)."""
        block, first = self.blocks[number], self._first[number]
        made = [block.smoothed(one) for one in smoothing]
        costs = np.full((len(columns), len(block.sizes)), np.nan)
        joint = np.empty((*squares.shape[:2], len(columns), squares.shape[3]))
        width = np.stack([one.width for one in made])
        pairs = zip(made, columns, strict=True)
        halves = -0.5 * np.array([one.logs[:, :, row].copy().sum(axis=2) for one, row in pairs])
        exact_joints(
            squares, width, halves=halves, log_prior=block.log_prior, columns=columns, joint=joint
        )
        for fold, size in enumerate(block.sizes.tolist()):
            log_likelihoods = joint[fold, :, :, :size]
            is_certain = (columns.sum(axis=1) >= 2) & np.isfinite(log_likelihoods).all(axis=(0, 2))
            if size < 2 or not is_certain.any():
                continue
            shares = class_shares(log_likelihoods[:, is_certain])
            if self.exact is None:
                chosen = np.flatnonzero(columns[is_certain.argmax()])
                model, tested = fitted_on(self._problem, chosen, first + fold)
                self.exact = np.array_equal(shares[:, 0], model.predict_proba(tested).T)
            if self.exact:
                costs[is_certain, fold] = self._costs.of_probabilities(shares, first + fold)
        return costs

    def _agrees(self, joint: Float, columns: Int, fold: int) -> bool:
        """Whether the log-likelihoods of a fitted model are bit-identical."""
        model, tested = fitted_on(self._problem, columns, fold)
        in_model = np.isin(np.unique(self._problem.target), model.classes_)
        return np.array_equal(joint[in_model], model.predict_joint_log_proba(tested).T)


def path_of(problem: Problem, model: Any) -> tuple[NaiveBayesPath | None, str]:
    """Compute the moments of every fold, or return the reason why models are fitted."""
    if model.priors is not None:
        return None, "GaussianNB has given priors"
    if not takes_labels(problem.scoring) and not moments_are_exact(problem):
        return None, "the last bits of the probabilities of GaussianNB are unknown"
    path = NaiveBayesPath(problem, model)
    return path, "log-likelihoods of naive Bayes are sums over features"


def moments_are_exact(problem: Problem) -> bool:
    """Whether subsets stay contiguous, so that moments are bit-identical to those of models."""
    if getattr(problem.estimator, "steps", None):
        return False
    kinds = problem.features.dtypes
    if not kinds.isin([np.dtype(np.float64), np.dtype(np.int64)]).all():
        return False
    whole = problem.features.loc[:, (kinds == np.int64).to_numpy()].to_numpy()
    # Sums of integers are exact, and thus the same in any order, below this limit.
    is_exact = np.abs(whole.astype(np.float64)).sum(axis=0) < 2.0**52
    return bool(is_exact.all()) and columns_are_contiguous(problem)


def _joint(made: list[SmoothedVariances], columns: Bool, block: Moments, squares: Float) -> Float:
    """Return the log-likelihoods of all masks: float64 (n_folds, n_classes, n, n_test)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = np.stack([one.width for one in made], axis=2)
        far = [one.far is not None for one in made]
        if any(far):
            width = np.where(width > 0, width, 1.0)
        joint: Float = np.matmul(columns * (-0.5 / width), squares)
        terms = [
            one.logs if one.far is None else np.where(np.isfinite(one.logs), one.logs, 0.0)
            for one in made
        ]
        logs = np.stack([one @ row for one, row in zip(terms, columns * 1.0, strict=True)], 2)
        joint += (block.log_prior[..., None] - 0.5 * logs)[..., None]
    return joint


def _labels(
    made: list[SmoothedVariances], columns: Bool, block: Moments, squares: Float
) -> tuple[Int, Bool]:
    """Return classes (n_folds, n, n_test), and which masks have a doubtful one (n_folds, n)."""
    joint = _joint(made, columns, block, squares)
    best = joint[:, 0].copy()
    labels, second = np.zeros(best.shape, dtype=np.int64), np.full(best.shape, -np.inf)
    for label in range(1, joint.shape[1]):
        of_label = joint[:, label]
        np.maximum(second, np.minimum(best, of_label), out=second)
        labels[of_label > best] = label
        np.maximum(best, of_label, out=best)
    with np.errstate(invalid="ignore"):
        unsure = best - second <= _LIKELIHOOD_MARGIN * (1.0 + np.abs(best))
    unsure |= ~np.isfinite(best)
    unsure &= block.truth[:, None] >= 0
    doubtful = unsure.any(axis=2)
    for row, one in enumerate(made):
        if one.far is not None:
            doubtful[:, row] |= (one.far & columns[row]).any(axis=1)
    return labels, doubtful
