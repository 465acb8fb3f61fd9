"""Training time of a search, cached folds included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.search.packing import unpack_masks
from swarm.storage.archive import KnownEvaluations

if TYPE_CHECKING:
    from swarm.search.driver import SearchState

__all__ = ["training_seconds"]

_CHUNK = 500


def training_seconds(state: SearchState, known: KnownEvaluations) -> float:
    """Sum the training time of the folds that a search needed.

    Parameters
    ----------
    state : SearchState
        The last state.
    known : KnownEvaluations
        Evaluations of the problem in the archive.

    Returns
    -------
    float
        Seconds recorded in the archive, whichever search trained the folds, so that a replay
        gives the same sum.
    """
    keys = list(state.asked)
    n_units = known.blank.used.shape[1]
    total = 0.0
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        records = known.lookup(unpack_masks(some, n_units))
        for key, record in zip(some, records, strict=True):
            trained = int(record.known.sum())
            if trained:
                total += record.seconds * min(1.0, state.asked[key].bit_count() / trained)
    return total
