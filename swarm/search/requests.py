"""The evaluations that a search requested, whichever search trained them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from swarm.arrays import Bool, Float
from swarm.problem.problem import Problem
from swarm.search.candidates import SEARCH
from swarm.search.packing import pack_masks, unpack_folds, unpack_masks
from swarm.search.result import SearchResult
from swarm.storage.archive import ProblemEvaluations
from swarm.storage.records import Record
from swarm.strategies.operators.memory import shrink

# Per lookup: records take much more memory than what is kept of them.
_MOST_MASKS = 500
_MOST_RECORD_BYTES = 1 << 26


def requested_masks(result: SearchResult, n_folds: int) -> tuple[Bool, Bool]:
    """Return the masks (n, n_units) that a search requested, and the folds that each needed.

    After a search on a proxy, these are the subsets that were measured on the full problem. Those
    that only the confirmation evaluated, such as those of rankings, follow at the end.
    """
    if result.measured is not None:
        masks = result.measured.masks
        needed = np.ones((len(masks), n_folds), dtype=bool)
    else:
        requests = result.state.requests
        masks = unpack_masks(requests, result.space.n_units)
        needed = unpack_folds(requests.values(), n_folds)
    if result.confirmation is None:
        return masks, needed
    seen, confirmed = set(pack_masks(masks)), result.confirmation.candidates.masks
    also = confirmed[[key not in seen for key in pack_masks(confirmed)]]
    every = np.ones((len(also), needed.shape[1]), dtype=bool)
    return np.vstack([masks, also]), np.vstack([needed, every])


def only_ranked(masks: Bool, result: SearchResult) -> Bool:
    """Whether each mask (n, n_units) is of a ranking, and the search has not requested it.

    A ranking of all rows has seen the test rows of the folds, so that its costs there are too low.
    """
    if result.confirmation is None:
        return np.zeros(len(masks), dtype=bool)
    table = result.confirmation.candidates
    ranked = set(pack_masks(table.masks[table.origin != SEARCH])) - set(result.state.requests)
    return np.array([key in ranked for key in pack_masks(masks)], dtype=bool)


def read_records(masks: Bool, evaluations: ProblemEvaluations) -> Iterator[tuple[Bool, Record]]:
    """Yield each of the masks (n, n_units) and its record, reading a part of them at a time."""
    # An importance and whether it is used, per fold and unit.
    record_bytes = 9 * evaluations.n_folds * int(masks.sum(axis=1).max(initial=1))
    step = max(1, min(_MOST_MASKS, _MOST_RECORD_BYTES // record_bytes))
    for start in range(0, len(masks), step):
        chunk = masks[start : start + step]
        yield from zip(chunk, evaluations.lookup(chunk), strict=True)


def requested_evaluations(
    result: SearchResult, evaluations: ProblemEvaluations
) -> Iterator[tuple[Bool, Record]]:
    """Yield the masks of :func:`requested_masks`, in order, and their records.

    Folds that the search did not need are left out, so that the records depend on it alone.
    """
    masks, needed = requested_masks(result, evaluations.n_folds)
    for (mask, record), folds in zip(read_records(masks, evaluations), needed, strict=True):
        if (record.has_cost & folds).any():
            yield mask, replace(record, fold_costs=np.where(folds, record.fold_costs, np.nan))


def importances_of(
    masks: Bool, result: SearchResult, problem: Problem, evaluations: ProblemEvaluations
) -> Float:
    """Return the importances (n, n_units) in the records of masks; NaN or 0 if there are none.

    A mask without its unused units has those of the mask that it was shrunk from.
    """
    importances = np.full(masks.shape, np.nan)
    if problem.importance == "none":
        return importances
    rows = {mask.tobytes(): row for row, mask in enumerate(masks)}
    for mask, record in requested_evaluations(result, evaluations):
        if not record.complete or record.failed:
            continue
        same = mask[None, :]
        if problem.exact_shrink:
            same = np.vstack([same, shrink(same, record.units_used(mask)[None, :], problem.space)])
        for key in {each.tobytes() for each in same} & set(rows):
            importances[rows[key]] = record.importance(mask)
    return importances


def training_seconds(requests: Mapping[bytes, int], evaluations: ProblemEvaluations) -> float:
    """Sum the seconds of the folds that a search needed, whichever search trained them."""
    masks = unpack_masks(requests, evaluations.n_units)
    total = 0.0
    for (_, record), folds in zip(read_records(masks, evaluations), requests.values(), strict=True):
        trained = int(record.has_cost.sum())
        if trained:
            total += record.seconds * min(1.0, folds.bit_count() / trained)
    return total
