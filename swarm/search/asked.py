"""The evaluations that a search asked for, whichever search trained them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from swarm.arrays import Bool
from swarm.search.packing import pack_masks, unpack_folds, unpack_masks
from swarm.storage.archive import KnownEvaluations
from swarm.storage.records import Record

if TYPE_CHECKING:
    from swarm.search.result import SearchResult

# Per lookup: records take much more memory than what is kept of them.
_MOST_MASKS = 500
_MOST_BYTES = 1 << 26


def asked_masks(result: SearchResult, n_folds: int) -> tuple[Bool, Bool]:
    """Return the masks that a search asked for, in order, and the folds that each needed.

    After a search on a cheaper model, these are the subsets that were measured on the full one.

    Returns
    -------
    masks : bool (n, n_units), needed : bool (n, n_folds)
    """
    if result.confirmed is not None:
        masks = result.confirmed.masks
        return masks, np.ones((len(masks), n_folds), dtype=bool)
    asked = result.state.asked
    return unpack_masks(asked, result.space.n_units), unpack_folds(asked.values(), n_folds)


def looked_up(masks: Bool, known: KnownEvaluations) -> Iterator[tuple[Bool, Record]]:
    """Yield each of the masks (n, n_units) and its record, reading a part of them at a time."""
    blank = known.blank
    record_bytes = blank.importances.nbytes + blank.used.nbytes
    step = max(1, min(_MOST_MASKS, _MOST_BYTES // record_bytes))
    for start in range(0, len(masks), step):
        chunk = masks[start : start + step]
        yield from zip(chunk, known.lookup(chunk), strict=True)


def asked_evaluations(
    result: SearchResult, known: KnownEvaluations
) -> Iterator[tuple[Bool, Record]]:
    """Yield the masks of a search and their records, in the order in which they were asked for.

    Subsets that were confirmed on fresh folds, and are none of the search, follow at the end.

    Folds that the search did not need are left out, even if another search trained them, so that
    the records depend on the search alone, and the time to read them on its length.

    Parameters
    ----------
    result : SearchResult
    known : KnownEvaluations
        Evaluations of the problem, of the full model, in the archive.

    Yields
    ------
    mask : bool (n_units,)
    record : Record
        With at least one fold.
    """
    masks, needed = asked_masks(result, len(known.blank.fold_costs))
    if result.confirmation is not None:
        # Its candidates need not be masks of the search, such as the units that many share.
        seen, also = set(pack_masks(masks)), result.confirmation.masks
        also = also[[key not in seen for key in pack_masks(also)]]
        masks = np.vstack([masks, also])
        needed = np.vstack([needed, np.ones((len(also), needed.shape[1]), dtype=bool)])
    for (mask, record), folds in zip(looked_up(masks, known), needed, strict=True):
        if (record.known & folds).any():
            yield mask, replace(record, fold_costs=np.where(folds, record.fold_costs, np.nan))


def training_seconds(asked: Mapping[bytes, int], known: KnownEvaluations) -> float:
    """Sum the training time of the folds that a search needed.

    Parameters
    ----------
    asked : mapping of packed mask to packed folds
        As in the last state of the search.
    known : KnownEvaluations
        Evaluations of the problem in the archive.

    Returns
    -------
    float
        Seconds recorded in the archive, whichever search trained the folds, so that a replay
        gives the same sum.
    """
    masks = unpack_masks(asked, known.blank.used.shape[1])
    total = 0.0
    for (_, record), folds in zip(looked_up(masks, known), asked.values(), strict=True):
        trained = int(record.known.sum())
        if trained:
            total += record.seconds * min(1.0, folds.bit_count() / trained)
    return total
