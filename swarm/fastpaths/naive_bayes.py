"""Fast path of Gaussian naive Bayes: log-likelihoods are sums over features."""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
from sklearn.naive_bayes import GaussianNB

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.fastpaths.bayes_sums import (
    SmoothedVariances,
    class_shares,
    exact_joints,
    exact_sums,
    smooth,
)
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts
from swarm.fastpaths.tables import (
    FoldTable,
    columns_are_contiguous,
    columns_of,
    fit_on,
    fold_tables,
)
from swarm.metrics import takes_labels
from swarm.problem.problem import Problem

# If two classes are closer than this share of their log-likelihood, the sums are computed again in
# the order of the model. Sums in another order differ by about 1e-15 of it, or by more if a mean is
# far from zero.
_LIKELIHOOD_MARGIN = 1e-7
# A chunk is limited to 64 MiB, and each of the two caches to 128 MiB.
_MAX_CHUNK_NUMBERS = 1 << 23
_MAX_CACHED_NUMBERS = 1 << 24
# Chunks of probabilities stay in the cache of a core.
_MAX_PROBABILITY_CHUNK_NUMBERS = 1 << 17


class Moments:
    """Means and variances of some folds, and their test rows, padded to the same number.

    Two caches save time: one of squared distances, if `caches_squares`, and one of smoothed
    variances with up to `n_numbers` numbers.
    """

    def __init__(
        self,
        tables: list[FoldTable],
        classes: AnyArray,
        truth: list[AnyArray],
        caches_squares: bool,
        n_numbers: int,
    ) -> None:
        # Steps and memory layout are those of scikit-learn, so that sums have the same order.
        shape = (len(tables), len(classes), len(tables[0].train))
        self.mean = np.zeros(shape)
        self.variance = np.ones(shape)
        self.log_prior = np.full(shape[:2], -np.inf)
        self.sizes = np.array([table.test.shape[1] for table in tables])
        self.test = np.zeros((len(tables), shape[2], self.sizes.max()))
        self.truth = np.full((len(tables), self.sizes.max()), -1)
        for fold, table in enumerate(tables):
            rows = table.train.T
            codes = np.searchsorted(classes, table.train_target)
            counts = np.bincount(codes, minlength=len(classes)).astype(np.float64)
            for code in np.flatnonzero(counts):
                rows_of_class = rows[codes == code]
                self.mean[fold, code] = np.mean(rows_of_class, axis=0)
                self.variance[fold, code] = np.var(rows_of_class, axis=0)
                self.log_prior[fold, code] = np.log((counts / counts.sum())[code])
            self.test[fold, :, : self.sizes[fold]] = table.test
            self.truth[fold, : self.sizes[fold]] = truth[fold]
        self.total_variance = np.array([np.var(table.train.T, axis=0) for table in tables])
        self._squares = self._compute_squares() if caches_squares else None
        compute = partial(smooth, self.mean, self.variance)
        self._smooth = lru_cache(n_numbers // (2 * self.mean.size))(compute)

    def squares(self) -> Float:
        """Squared distances from the means: float64 (n_folds, n_classes, n_columns, n_test)."""
        return self._compute_squares() if self._squares is None else self._squares

    def _compute_squares(self) -> Float:
        distance = self.test[:, None] - self.mean[..., None]
        return np.square(distance, out=distance)

    def smoothed(self, smoothing: Float) -> SmoothedVariances:
        """Add `smoothing` (n_folds,) to the variances of each fold."""
        return self._smooth(smoothing.tobytes())


class NaiveBayesPath:
    """Costs of :class:`sklearn.naive_bayes.GaussianNB` by one matrix product per fold and class."""

    def __init__(self, problem: Problem, model: GaussianNB) -> None:
        self._problem = problem
        self._smoothing = float(model.var_smoothing)
        # If the order of a sum could change a prediction, it is summed again in the order of the
        # model. False if that order is unknown, and a model is fitted; None until compared.
        self.exact = None if moments_are_exact(problem) else False
        classes = np.unique(problem.target)
        self._costs = FoldCosts(problem, classes)
        tables = fold_tables(problem)
        # A block has all folds, unless they exceed the cache or would be mostly padding.
        sizes = [table.test.shape[1] for table in tables]
        n_padded = max(sizes) * len(sizes)
        fits_cache = n_padded * problem.space.n_columns * len(classes) <= _MAX_CACHED_NUMBERS
        folds_per_block = len(tables) if fits_cache and n_padded <= 2 * sum(sizes) else 1
        self._first_folds = range(0, len(tables), folds_per_block)
        self.blocks = []
        for first in self._first_folds:
            folds = slice(first, first + folds_per_block)
            moments = Moments(
                tables[folds],
                classes,
                self._costs.truth[folds],
                caches_squares=fits_cache,
                n_numbers=_MAX_CACHED_NUMBERS // len(self._first_folds),
            )
            self.blocks.append(moments)

    def evaluate(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks on the blocks of some folds, see :class:`.choose.ExactPath`."""
        columns = columns_of(self._problem, masks)
        costs = np.full((len(masks), self._problem.n_folds), np.nan)
        for number in sorted({fold // self._first_folds.step for fold in folds}):
            first = self._first_folds[number]
            folds_of_block = slice(first, first + len(self.blocks[number].sizes))
            costs[:, folds_of_block] = self._costs_of(columns, number)
        return PathResult(costs)

    def _costs_of(self, columns: Bool, number: int) -> Float:
        """Return the cost of each set of columns (n, n_columns) on each fold of a block."""
        block = self.blocks[number]
        squares = block.squares()
        smoothing = self.smoothing(columns, block)
        n_folds, n_classes, n_columns, n_test = squares.shape
        if takes_labels(self._problem.scoring):
            compute = self._costs_by_labels
            max_numbers = _MAX_CHUNK_NUMBERS
        else:
            compute = self._costs_by_probabilities
            max_numbers = _MAX_PROBABILITY_CHUNK_NUMBERS
        step = max(1, max_numbers // (n_folds * n_classes * (n_columns + n_test)))
        costs = np.full(smoothing.shape, np.nan)
        for start in range(0, len(columns), step):
            chunk = slice(start, start + step)
            costs[chunk] = compute(smoothing[chunk], columns[chunk], number, squares)
        return costs

    def smoothing(self, columns: Bool, block: Moments) -> Float:
        """Addends of the variances of columns (n, n_columns): float64 (n, n_folds)."""
        largest = np.empty((len(columns), len(block.total_variance)))
        for fold, variance in enumerate(block.total_variance):
            order = np.argsort(-variance, kind="stable")
            largest[:, fold] = variance[order[columns[:, order].argmax(axis=1)]]
        return self._smoothing * largest

    def _costs_by_labels(
        self, smoothing: Float, columns: Bool, number: int, squares: Float
    ) -> Float:
        block = self.blocks[number]
        first = self._first_folds[number]
        variances = [block.smoothed(addend) for addend in smoothing]
        labels, doubtful = _labels(variances, columns, block, squares)
        if doubtful.any() and self.exact is not False:
            for row in np.flatnonzero(doubtful.any(axis=0)).tolist():
                chosen = np.flatnonzero(columns[row])
                # NumPy sums other shapes in another order, see `exact_sums`.
                is_known = doubtful[:, row] & (block.sizes >= 2)
                if len(chosen) >= 2 and is_known.any():
                    joint = exact_sums(block.log_prior, squares, variances[row], chosen)
                    resolved = is_known & np.isfinite(joint.max(axis=1)).all(axis=1)
                    if self.exact is None and resolved.any():
                        fold = int(resolved.argmax())
                        log_likelihoods = joint[fold, :, : block.sizes[fold]]
                        self.exact = self._agrees(log_likelihoods, chosen, first + fold)
                    resolved &= bool(self.exact)
                    labels[resolved, row] = joint[resolved].argmax(axis=1)
                    doubtful[resolved, row] = False
        if self._costs.is_accuracy:
            # This is `FoldCosts.of_codes` of all folds at once.
            n_right = (labels == block.truth[:, None]).sum(axis=2)
            costs = self._costs.upper - n_right.T / block.sizes
        else:
            by_fold = [
                self._costs.of_codes(labels[i][:, :size], first + i)
                for i, size in enumerate(block.sizes.tolist())
            ]
            costs = np.stack(by_fold, axis=1)
        costs[doubtful.T] = np.nan
        return costs

    def _costs_by_probabilities(
        self, smoothing: Float, columns: Bool, number: int, squares: Float
    ) -> Float:
        """Return the costs of probabilities, whose last bits make ties or not: (n, n_folds)."""
        block = self.blocks[number]
        first = self._first_folds[number]
        variances = [block.smoothed(addend) for addend in smoothing]
        costs = np.full((len(columns), len(block.sizes)), np.nan)
        joint = np.empty((*squares.shape[:2], len(columns), squares.shape[3]))
        log_sums = [
            smoothed.logs[:, :, row].copy().sum(axis=2)
            for smoothed, row in zip(variances, columns, strict=True)
        ]
        exact_joints(
            squares,
            np.stack([smoothed.variance for smoothed in variances]),
            halves=-0.5 * np.array(log_sums),
            log_prior=block.log_prior,
            columns=columns,
            joint=joint,
        )
        for fold, size in enumerate(block.sizes.tolist()):
            log_likelihoods = joint[fold, :, :, :size]
            is_certain = (columns.sum(axis=1) >= 2) & np.isfinite(log_likelihoods).all(axis=(0, 2))
            if size < 2 or not is_certain.any():
                continue
            shares = class_shares(log_likelihoods[:, is_certain])
            if self.exact is None:
                chosen = np.flatnonzero(columns[is_certain.argmax()])
                model, test_rows = fit_on(self._problem, chosen, first + fold)
                self.exact = np.array_equal(shares[:, 0], model.predict_proba(test_rows).T)
            if self.exact:
                costs[is_certain, fold] = self._costs.of_probabilities(shares, first + fold)
        return costs

    def _agrees(self, joint: Float, columns: Int, fold: int) -> bool:
        """Whether the log-likelihoods of a fitted model are bit-identical."""
        model, test_rows = fit_on(self._problem, columns, fold)
        in_model = np.isin(np.unique(self._problem.target), model.classes_)
        return np.array_equal(joint[in_model], model.predict_joint_log_proba(test_rows).T)


def path_of(problem: Problem, model: GaussianNB) -> tuple[NaiveBayesPath | None, str]:
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
    dtypes = problem.features.dtypes
    if not dtypes.isin([np.dtype(np.float64), np.dtype(np.int64)]).all():
        return False
    integers = problem.features.loc[:, (dtypes == np.int64).to_numpy()].to_numpy()
    # Sums of integers are exact, and thus the same in any order, below this limit.
    is_exact = np.abs(integers.astype(np.float64)).sum(axis=0) < 2.0**52
    return bool(is_exact.all()) and columns_are_contiguous(problem)


def _joint(
    variances: list[SmoothedVariances], columns: Bool, block: Moments, squares: Float
) -> Float:
    """Return the log-likelihoods of all masks: float64 (n_folds, n_classes, n, n_test)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = np.stack([smoothed.variance for smoothed in variances], axis=2)
        if any(smoothed.far is not None for smoothed in variances):
            variance = np.where(variance > 0, variance, 1.0)
        joint: Float = np.matmul(columns * (-0.5 / variance), squares)
        sums = []
        for smoothed, row in zip(variances, columns * 1.0, strict=True):
            logs = smoothed.logs
            if smoothed.far is not None:
                logs = np.where(np.isfinite(logs), logs, 0.0)
            sums.append(logs @ row)
        joint += (block.log_prior[..., None] - 0.5 * np.stack(sums, 2))[..., None]
    return joint


def _labels(
    variances: list[SmoothedVariances], columns: Bool, block: Moments, squares: Float
) -> tuple[Int, Bool]:
    """Return classes (n_folds, n, n_test), and which masks have a doubtful one (n_folds, n)."""
    joint = _joint(variances, columns, block, squares)
    best = joint[:, 0].copy()
    second = np.full(best.shape, -np.inf)
    labels = np.zeros(best.shape, dtype=np.int64)
    for label in range(1, joint.shape[1]):
        likelihood = joint[:, label]
        np.maximum(second, np.minimum(best, likelihood), out=second)
        labels[likelihood > best] = label
        np.maximum(best, likelihood, out=best)
    with np.errstate(invalid="ignore"):
        is_close = best - second <= _LIKELIHOOD_MARGIN * (1.0 + np.abs(best))
    is_close |= ~np.isfinite(best)
    # Padding has no class.
    is_close &= block.truth[:, None] >= 0
    doubtful = is_close.any(axis=2)
    for row, smoothed in enumerate(variances):
        if smoothed.far is not None:
            doubtful[:, row] |= (smoothed.far & columns[row]).any(axis=1)
    return labels, doubtful
