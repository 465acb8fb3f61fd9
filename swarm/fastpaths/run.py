"""Run a fast path over masks, on several threads."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float
from swarm.fastpaths.choose import ExactPath
from swarm.fastpaths.path_result import PathResult, joined
from swarm.threads import one_thread

__all__ = ["evaluate_masks", "fold_costs"]

# Chunks per thread, and the smallest number of masks of a chunk.
_PIECES = 2
_FEWEST = 8


def evaluate_masks(path: ExactPath, masks: Bool, n_threads: int = 1) -> PathResult:
    """Evaluate masks (n, n_units); the result does not depend on the number of threads.

    Compiled code releases the GIL, so that threads can use all cores.
    """
    from concurrent.futures import ThreadPoolExecutor

    count = 1 if n_threads == 1 else min(_PIECES * n_threads, len(masks) // _FEWEST)
    with one_thread():
        if count <= 1:
            return path.answers(masks)
        with ThreadPoolExecutor(n_threads) as pool:
            return joined(list(pool.map(path.answers, np.array_split(masks, count))))


def fold_costs(path: ExactPath, masks: Bool, n_folds: int, n_threads: int = 1) -> Float:
    """Return the costs of masks (n, n_units): float64 (n, n_folds), NaN if doubtful."""
    costs = evaluate_masks(path, masks, n_threads).costs
    return costs.reshape(len(masks), n_folds)
