"""The evaluations that a search requested, whichever search trained them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.problem.problem import Problem
from swarm.search.candidates import SEARCH
from swarm.search.packing import first_of_equal, pack_masks, unpack_folds, unpack_masks
from swarm.search.result import SearchResult
from swarm.storage.archive import ProblemEvaluations
from swarm.storage.records import Record
from swarm.strategies.operators.memory import shrink

# Limits of a lookup, as records take much more memory than the results.
_MAX_MASKS = 500
_MAX_RECORD_BYTES = 1 << 26


def requested_masks(result: SearchResult, n_folds: int) -> tuple[Bool, Bool]:
    """Return the masks (n, n_units) that a search requested, and the folds (n, n_folds) needed.

    After a search on a proxy, these are the subsets that were measured on the full problem. Masks
    that only the confirmation evaluated, such as those of rankings, are at the end.
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
    seen = set(pack_masks(masks))
    confirmed = result.confirmation.candidates.masks
    confirmed = confirmed[[key not in seen for key in pack_masks(confirmed)]]
    all_folds = np.ones((len(confirmed), needed.shape[1]), dtype=bool)
    return np.vstack([masks, confirmed]), np.vstack([needed, all_folds])


def only_ranked(masks: Bool, result: SearchResult) -> Bool:
    """Whether each mask (n, n_units) is from a ranking, and was not requested by the search.

    A ranking of all rows has seen the test rows of the folds, so that its costs there are too low.
    """
    if result.confirmation is None:
        return np.zeros(len(masks), dtype=bool)
    table = result.confirmation.candidates
    ranked = set(pack_masks(table.masks[table.origin != SEARCH])) - set(result.state.requests)
    return np.array([key in ranked for key in pack_masks(masks)], dtype=bool)


def read_records(masks: Bool, evaluations: ProblemEvaluations) -> Iterator[tuple[Bool, Record]]:
    """Yield the masks (n, n_units) with their records, which are read in blocks."""
    # Each fold and unit has an importance of eight bytes, and one for whether it is used.
    record_bytes = 9 * evaluations.n_folds * int(masks.sum(axis=1).max(initial=1))
    step = max(1, min(_MAX_MASKS, _MAX_RECORD_BYTES // record_bytes))
    for start in range(0, len(masks), step):
        chunk = masks[start : start + step]
        yield from zip(chunk, evaluations.lookup(chunk), strict=True)


@dataclass(frozen=True, eq=False)
class MeasuredSubsets:
    """The distinct subsets that a search requested, in its order.

    Attributes
    ----------
    masks : bool (n, n_units)
        Without the units that no fold model used, if dropping these changes no model.
    fold_costs : float64 (n, n_folds)
        NaN for folds that the search did not need, inf where a fit failed.
    counts : int (n_units,)
        Subsets with each unit that were measured on all folds, or on all fresh folds; units that
        no model used count.
    """

    masks: Bool
    fold_costs: Float
    counts: Int

    def __post_init__(self) -> None:
        read_only(self.masks, self.fold_costs, self.counts)


def measured_subsets(
    result: SearchResult, problem: Problem, evaluations: ProblemEvaluations
) -> MeasuredSubsets:
    """Read the subsets of :func:`requested_masks` from the archive."""
    masks, needed = requested_masks(result, problem.n_folds)
    fold_costs, used = _fold_costs(masks, needed, evaluations)
    whole = np.isfinite(fold_costs).all(axis=1)
    confirmation, has_cost, nothing_searched = result.confirmation, whole, False
    if confirmation is not None:
        nothing_searched = confirmation.replaces_search
        confirmed = set(pack_masks(confirmation.candidates.masks))
        is_confirmed = [key in confirmed for key in pack_masks(masks)]
        has_cost = np.logical_or(whole, is_confirmed)
    counts = masks[has_cost].sum(axis=0)
    has_rule = nothing_searched or result.state.strategy.members.answer is not None
    if problem.exact_shrink and not has_rule:
        masks = masks.copy()
        masks[whole] = shrink(masks[whole], used[whole], problem.space)
    # Keep the subset with the most fold costs of equal ones, then the first of the search.
    order = np.lexsort((np.isnan(fold_costs).sum(axis=1),))
    rows = np.sort(order[first_of_equal(masks[order])])
    return MeasuredSubsets(masks[rows], fold_costs[rows], counts)


def _fold_costs(masks: Bool, needed: Bool, evaluations: ProblemEvaluations) -> tuple[Float, Bool]:
    """Fold costs (n, n_folds), NaN unless needed, and used units (n, n_units)."""
    fold_costs, used = np.full(needed.shape, np.nan), masks.copy()
    for row, (mask, record) in enumerate(read_records(masks, evaluations)):
        fold_costs[row] = np.where(needed[row], record.fold_costs, np.nan)
        used[row] = record.units_used(mask)
    return fold_costs, used


def requested_evaluations(
    result: SearchResult, evaluations: ProblemEvaluations
) -> Iterator[tuple[Bool, Record]]:
    """Yield the masks of :func:`requested_masks`, in order, with their records.

    Folds that the search did not need are left out, so that the records depend on it alone.
    """
    masks, needed = requested_masks(result, evaluations.n_folds)
    for (mask, record), folds in zip(read_records(masks, evaluations), needed, strict=True):
        if (record.has_cost & folds).any():
            yield mask, replace(record, fold_costs=np.where(folds, record.fold_costs, np.nan))


def importances_of(
    masks: Bool, result: SearchResult, problem: Problem, evaluations: ProblemEvaluations
) -> Float:
    """Return the importances (n, n_units) of masks from their records; NaN or 0 without any.

    A mask that was shrunk to its used units has the importances of the whole mask.
    """
    importances = np.full(masks.shape, np.nan)
    if problem.importance == "none":
        return importances
    row_of = {mask.tobytes(): row for row, mask in enumerate(masks)}
    for mask, record in requested_evaluations(result, evaluations):
        if not record.complete or record.failed:
            continue
        equivalent = mask[None, :]
        if problem.exact_shrink:
            used = record.units_used(mask)[None, :]
            equivalent = np.vstack([equivalent, shrink(equivalent, used, problem.space)])
        for key in {row.tobytes() for row in equivalent} & set(row_of):
            importances[row_of[key]] = record.importance(mask)
    return importances


def training_seconds(requests: Mapping[bytes, int], evaluations: ProblemEvaluations) -> float:
    """Sum the seconds of the folds that a search needed, whichever search trained them."""
    masks = unpack_masks(requests, evaluations.n_units)
    total = 0.0
    for (_, record), folds in zip(read_records(masks, evaluations), requests.values(), strict=True):
        n_trained = int(record.has_cost.sum())
        if n_trained:
            total += record.seconds * min(1.0, folds.bit_count() / n_trained)
    return total
