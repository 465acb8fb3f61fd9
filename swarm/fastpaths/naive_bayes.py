"""Fast path of Gaussian naive Bayes: log-likelihoods are sums over features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.bayes_moments import Moments, moments_are_exact, moments_of
from swarm.fastpaths.bayes_shares import class_shares
from swarm.fastpaths.bayes_sums import Kept, SmoothedVariances, exact_joints, exact_sums
from swarm.fastpaths.costs import FoldCosts, is_accuracy
from swarm.fastpaths.device import BayesOnDevice, Device
from swarm.fastpaths.metrics import takes_labels
from swarm.fastpaths.path_result import PathResult
from swarm.fastpaths.tables import columns_of, fold_tables, membership
from swarm.problem.problem import Problem

__all__ = ["NaiveBayesPath", "naive_bayes_path"]

# If two classes are closer than this share of their log-likelihood, the sums are computed again in
# the order of the model. Sums in another order differ by about 1e-15 of it, or by more if a mean is
# far from zero.
_MARGIN = 1e-7
# Elements of a chunk, 64 MiB, and of each of the two caches, 128 MiB.
_CHUNK = 1 << 23
# Elements of a chunk of probabilities, which stay in the cache of a core.
_SMALL_CHUNK = 1 << 17
_KEPT = 1 << 24


@dataclass
class _Block:
    """Folds that are evaluated together.

    Attributes
    ----------
    first : int
        Number of the first fold.
    squares : float64 (n_folds, n_classes, n_columns, n_test) or None
        See :meth:`.bayes_moments.Moments.squares`; None if they exceed the cache.
    kept : Kept
        Cache of variances.
    on_device : BayesOnDevice or None
        What classifies, up to rounding; None for the CPU.
    """

    first: int
    moments: Moments
    squares: Float | None = field(repr=False)
    kept: Kept = field(repr=False)
    on_device: BayesOnDevice | None = field(default=None, repr=False)


@dataclass
class NaiveBayesPath:
    """Costs of :class:`sklearn.naive_bayes.GaussianNB` by one matrix product per fold and class.

    If the order of a sum could change a prediction, the sum is computed again in the order of
    the model; if that order is unknown, the fallback is a fitted model.

    Attributes
    ----------
    problem : Problem
    blocks : list of _Block
    membership : bool (n_units, n_columns)
    smoothing : float
    exact : bool or None
        Whether sums in the order of the model are bit-identical; None until compared.
    fold_costs : FoldCosts
    """

    problem: Problem
    blocks: list[_Block]
    membership: Bool
    smoothing: float
    exact: bool | None
    fold_costs: FoldCosts

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        columns = columns_of(masks, self.membership)
        return PathResult(np.concatenate([self._costs(columns, b) for b in self.blocks], axis=1))

    def _costs(self, columns: Bool, block: _Block) -> Float:
        """Return the cost of each set of columns (n, n_columns) on each fold of a block."""
        learned = block.moments
        squares = learned.squares() if block.squares is None else block.squares
        smoothing = self.smoothing * _widest(columns, learned.spread)
        n_folds, n_classes, n_columns, n_test = squares.shape
        by_labels = takes_labels(self.problem.scoring)
        limit = _CHUNK if by_labels else _SMALL_CHUNK
        step = max(1, limit // (n_folds * n_classes * (n_columns + n_test)))
        costs = np.full(smoothing.shape, np.nan)
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            find = self._costs_by if by_labels else self._costs_by_shares
            costs[part] = find(smoothing[part], columns[part], block, squares)
        return costs

    def _costs_by(self, smoothing: Float, columns: Bool, block: _Block, squares: Float) -> Float:
        learned = block.moments
        if block.on_device is None:
            made = [block.kept.get(learned, one) for one in smoothing]
            labels, doubtful = _labels(made, columns, learned, squares)
        else:
            labels, doubtful = block.on_device.labels(columns, smoothing)
        if doubtful.any() and self.exact is not False:
            for row in np.flatnonzero(doubtful.any(axis=0)).tolist():
                chosen = np.flatnonzero(columns[row])
                open_ = doubtful[:, row] & (learned.sizes >= 2)
                if len(chosen) >= 2 and open_.any():
                    made_of_row = block.kept.get(learned, smoothing[row])
                    joint = exact_sums(learned, squares, made_of_row, chosen)
                    settled = self._told(joint, chosen, open_, block)
                    labels[settled, row] = joint[settled].argmax(axis=1)
                    doubtful[settled, row] = False
        costs = self._costs_of(labels, block)
        costs[doubtful.T] = np.nan
        return costs

    def _costs_of(self, labels: Int, block: _Block) -> Float:
        """Return the cost of predicted classes (n_folds, n, n_test): float64 (n, n_folds)."""
        learned = block.moments
        if is_accuracy(self.problem.scoring):
            right = (labels == learned.truth[:, None]).sum(axis=2)
            shares: Float = (self.problem.scoring.upper or 0.0) - right.T / learned.sizes
            return shares
        parts = zip(labels, learned.sizes.tolist(), strict=True)
        found = [
            self.fold_costs.of_codes(part[:, :size], block.first + fold)
            for fold, (part, size) in enumerate(parts)
        ]
        return np.stack(found, axis=1)

    def _costs_by_shares(
        self, smoothing: Float, columns: Bool, block: _Block, squares: Float
    ) -> Float:
        """Return the costs of probabilities: float64 (n, n_folds).

        Scores depend on the last bits of probabilities, as those close to 1 are ties or not.
        """
        learned = block.moments
        made = [block.kept.get(learned, one) for one in smoothing]
        costs = np.full((len(columns), len(learned.sizes)), np.nan)
        joint = np.empty((*squares.shape[:2], len(columns), squares.shape[3]))
        width, logs = np.stack([one.width for one in made]), np.stack([one.logs for one in made])
        exact_joints(squares, width, logs, learned.log_prior, columns, joint)
        for fold, size in enumerate(learned.sizes.tolist()):
            here = joint[fold, :, :, :size]
            sure = (columns.sum(axis=1) >= 2) & np.isfinite(here).all(axis=(0, 2))
            if size < 2 or not sure.any():
                continue
            shares = class_shares(here[:, sure])
            if self.exact is None:
                chosen = np.flatnonzero(columns[sure.argmax()])
                self.exact = self._shares_agree(shares[:, 0], chosen, block.first + fold)
            if self.exact:
                costs[sure, fold] = self.fold_costs.of_probabilities(shares, block.first + fold)
        return costs

    def _told(self, joint: Float, columns: Int, open_: Bool, block: _Block) -> Bool:
        """Return the open folds of a mask that are decided by sums in the order of the model."""
        learned = block.moments
        open_ = open_ & np.isfinite(joint.max(axis=1)).all(axis=1)
        if self.exact is None and open_.any():
            fold = int(np.flatnonzero(open_)[0])
            here = joint[fold, :, : learned.sizes[fold]]
            self.exact = self._agrees(here, columns, block.first + fold)
        return open_ & bool(self.exact)

    def _agrees(self, joint: Float, columns: Int, fold: int) -> bool:
        """Whether the log-likelihoods of a fitted model are bit-identical."""
        model, tested = self._model(columns, fold)
        there = np.isin(np.unique(self.problem.target), model.classes_)
        expected = model.predict_joint_log_proba(tested)
        return bool(np.array_equal(joint[there], expected.T))

    def _shares_agree(self, shares: Float, columns: Int, fold: int) -> bool:
        """Whether the probabilities of a fitted model are bit-identical."""
        model, tested = self._model(columns, fold)
        return bool(np.array_equal(shares, model.predict_proba(tested).T))

    def _model(self, columns: Int, fold: int) -> tuple[Any, Any]:
        """Return a fitted model, and the test rows as its input."""
        from sklearn.base import clone

        features = self.problem.features.iloc[:, columns.tolist()]
        train, test = self.problem.folds[fold]
        model = clone(self.problem.estimator)
        return model.fit(features.iloc[train], self.problem.target[train]), features.iloc[test]


def _widest(columns: Bool, spread: Float) -> Float:
    """Return the largest variance in each set of columns (n, n_columns): float64 (n, n_folds)."""
    found = np.empty((len(columns), len(spread)))
    for fold, variance in enumerate(spread):
        order = np.argsort(-variance, kind="stable")
        found[:, fold] = variance[order[columns[:, order].argmax(axis=1)]]
    return found


def _joint(made: list[SmoothedVariances], columns: Bool, learned: Moments, squares: Float) -> Float:
    """Return the log-likelihoods of all masks: float64 (n_folds, n_classes, n, n_test)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = np.stack([one.width for one in made], axis=2)
        far = [one.far is not None for one in made]
        if any(far):
            width = np.where(width > 0, width, 1.0)
        joint: Float = np.matmul(columns * (-0.5 / width), squares)
        terms = [one.logs if one.far is None else _finite(one.logs) for one in made]
        logs = np.stack([one @ row for one, row in zip(terms, columns * 1.0, strict=True)], 2)
        joint += (learned.log_prior[..., None] - 0.5 * logs)[..., None]
    return joint


def _finite(logs: Float) -> Float:
    return np.where(np.isfinite(logs), logs, 0.0)


def _labels(
    made: list[SmoothedVariances], columns: Bool, learned: Moments, squares: Float
) -> tuple[Int, Bool]:
    """Return classes (n_folds, n, n_test), and which masks have a doubtful one (n_folds, n)."""
    joint = _joint(made, columns, learned, squares)
    best = joint[:, 0].copy()
    labels, second = np.zeros(best.shape, dtype=np.int64), np.full(best.shape, -np.inf)
    for label in range(1, joint.shape[1]):
        here = joint[:, label]
        np.maximum(second, np.minimum(best, here), out=second)
        labels[here > best] = label
        np.maximum(best, here, out=best)
    with np.errstate(invalid="ignore"):
        unsure = best - second <= _MARGIN * (1.0 + np.abs(best))
    unsure |= ~np.isfinite(best)
    unsure &= learned.truth[:, None] >= 0
    doubtful = unsure.any(axis=2)
    for row, one in enumerate(made):
        if one.far is not None:
            doubtful[:, row] |= (one.far & columns[row]).any(axis=1)
    return labels, doubtful


def naive_bayes_path(
    problem: Problem, model: Any, device: Device | None
) -> tuple[NaiveBayesPath | None, str]:
    """Compute the moments of every fold, or return the reason why models are fitted."""
    if model.priors is not None:
        return None, "GaussianNB has given priors"
    if not takes_labels(problem.scoring) and not moments_are_exact(problem):
        return None, "the last bits of the probabilities of GaussianNB are unknown"
    tables = fold_tables(problem)
    # All folds together, unless they exceed the cache or would be mostly padding.
    sizes = [table.test.shape[1] for table in tables]
    numbers = max(sizes) * len(sizes) * problem.space.n_columns * len(np.unique(problem.target))
    keep = numbers <= _KEPT
    together = len(tables) if keep and max(sizes) * len(sizes) <= 2 * sum(sizes) else 1
    blocks = []
    for first in range(0, len(tables), together):
        learned = moments_of(problem, tables[first : first + together], first)
        kept = Kept(_KEPT // (len(tables) // together))
        squares = learned.squares() if keep else None
        on_device = None if device is None else BayesOnDevice(device, learned, _MARGIN)
        blocks.append(_Block(first, learned, squares, kept, on_device))
    exact = None if moments_are_exact(problem) else False
    costs = FoldCosts(problem, np.unique(problem.target))
    given = (membership(problem), float(model.var_smoothing), exact, costs)
    path = NaiveBayesPath(problem, blocks, *given)
    return path, "log-likelihoods of naive Bayes are sums over features"
