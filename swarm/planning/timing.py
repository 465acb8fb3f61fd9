"""A few real subsets, trained in this process on one thread: what a fit takes, what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.planning.rehearsal import Landscape

__all__ = ["Timing", "some_of", "time_subsets"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Timing:
    """What was measured.

    Attributes
    ----------
    sizes : int (n,)
        Units of the subsets.
    seconds : float64 (n,)
        Wall time of one fold of each, its test included.
    costs : float64 (n, n_folds)
    first : float
        Seconds of the very first subset, which loads and prepares what all others share.
    exact : bool
        Whether costs came without models.
    """

    sizes: Int
    seconds: Float
    costs: Float
    first: float
    exact: bool

    def per_fold(self, sizes: Int) -> Float:
        """Seconds of a fold of subsets of these sizes: a line through what was measured."""
        if len(np.unique(self.sizes)) < 2:
            return np.full(len(sizes), self.seconds.mean())
        slope, _ = np.polyfit(self.sizes, self.seconds, 1)
        slope = max(0.0, float(slope))
        start = self.seconds.mean() - slope * self.sizes.mean()
        line: Float = np.maximum(start + slope * sizes, self.seconds.min() / 2)
        return line

    def landscape(self, steepness: float, unused: float, shrinks: bool) -> Landscape:
        """Make costs up that look like these, their spread times `steepness`."""
        folds = self.costs.mean(axis=0)
        means = self.costs.mean(axis=1)
        level = float(np.abs(folds).mean()) or 1.0
        rest = self.costs - folds - means[:, None] + means.mean()
        spread = max(float(means.std()), 0.03 * level) * steepness
        return Landscape(folds, spread, max(float(rest.std()), 0.01 * level), unused, shrinks)


def some_of(masks: Bool, count: int) -> Bool:
    """Choose `count` masks, from the smallest to the largest in even steps."""
    order = np.argsort(masks.sum(axis=1), kind="stable")
    places = np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)
    chosen: Bool = masks[order[np.unique(places)]]
    return chosen


def time_subsets(evaluator: CrossValidation, masks: Bool, patience: float = 15.0) -> Timing:
    """Evaluate masks (n, n_units) one by one, at least the first and in all for `patience` seconds.

    Parameters
    ----------
    evaluator : CrossValidation
        With one worker, without pruning, and with an archive that knows none of them.

    Raises
    ------
    EvaluationError
        If the model fails on one of them.
    """
    exact = evaluator.way.startswith("no models")
    started = time.perf_counter()
    first, costs = _evaluated(evaluator, masks[:1])
    seconds, rows, sizes = [first], [costs], masks[:1].sum(axis=1)
    # Where costs follow without models a whole batch takes hardly longer than one mask.
    parts = [masks[1:]] if exact else [masks[i : i + 1] for i in range(1, len(masks))]
    for part in parts:
        if not len(part) or time.perf_counter() - started > patience:
            break
        took, costs = _evaluated(evaluator, part)
        seconds += [took / len(part)] * len(part)
        rows.append(costs)
        sizes = np.concatenate([sizes, part.sum(axis=1)])
    # The first is slower than all that follow, so that it tells of none but itself.
    told = slice(1, None) if len(seconds) > 1 else slice(None)
    return Timing(
        sizes=sizes[told].astype(np.int64),
        seconds=np.array(seconds[told]) / evaluator.n_folds,
        costs=np.concatenate(rows),
        first=first,
        exact=exact,
    )


def _evaluated(evaluator: CrossValidation, masks: Bool) -> tuple[float, Float]:
    started = time.perf_counter()
    n = len(masks)
    answer = evaluator.evaluate(masks, np.full(n, np.inf), np.arange(evaluator.n_folds))
    took = time.perf_counter() - started
    if answer.failed.any():
        size = int(masks[np.flatnonzero(answer.failed)[0]].sum())
        trace = (answer.first_error or "an unknown error").strip().splitlines()
        raise EvaluationError(f"the model fails on a subset of {size} units: {trace[-1]}")
    return took, answer.fold_costs
