"""Evaluate masks on parts of the rows first, and only those that survive on all rows.

Successive halving with the number of rows as the resource (Jamieson and Talwalkar 2016; Li et al.
2018, Hyperband). Our choices: all masks of an epoch compete, a quarter of them survives each part,
and each part has four times the rows of the one before. A mask that does not survive is reported
like one that lost its race: censored, without a cost. Parts are nested, and their folds are those
of the problem restricted to their rows, so that no row changes its fold. Each part is a problem of
its own, so that the archive keeps its evaluations apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.checks import require
from swarm.errors import ConfigError, DataError
from swarm.evaluation.limit import Race
from swarm.evaluation.types import (
    ROW_ARRAYS,
    Evaluations,
    Evaluator,
    Work,
    censored,
    evaluate_fully,
)
from swarm.problem.problem import Problem
from swarm.search.budget import Counts, added, charged
from swarm.search.packing import first_of_equal, pack_folds, pack_masks, unpack_folds
from swarm.search.proxy import probe_masks, rank_correlation

if TYPE_CHECKING:
    from swarm.search.driver import Search
    from swarm.search.result import SearchResult

# Ratio of the rows of successive parts, and of the masks that are evaluated on them.
_FACTOR = 4
# Training rows from which "auto" applies.
AUTO_ROWS = 100_000
# Rows of the smallest part under "auto".
_SMALLEST = 10_000
# One of up to 64 masks is left after three parts.
_MOST_PARTS = 3
# Subsets that are evaluated on all parts and on all rows, to compare their ranks.
N_PROBES = 12
# Levels of a target of numbers that are represented equally.
_N_LEVELS = 10
# Keeps the generator of the rows apart from those of the folds and of the search.
_ROWS_SEED = 13


@dataclass(frozen=True, eq=False)
class RowParts:
    """The parts of the rows on which masks are evaluated first.

    Attributes
    ----------
    problems : tuple of Problem
        The problem on each part, the smallest first.
    rows : tuple of int
        Number of rows of each part, then of all rows.
    """

    problems: tuple[Problem, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class PartsResult:
    """How well the parts of the rows have ranked subsets.

    Attributes
    ----------
    rows : tuple of int
        Number of rows of each part, then of all rows.
    subsets : tuple of int
        Number of distinct subsets of the epochs that were evaluated on each of them.
    correlations : tuple of float
        Spearman's rank correlation of each part and all rows over a sample of the requested
        subsets; NaN if all costs are equal on one side.
    n_probes : int
        Size of the sample.
    """

    rows: tuple[int, ...]
    subsets: tuple[int, ...]
    correlations: tuple[float, ...]
    n_probes: int

    def outcome(self) -> str:
        """State on how many rows how many subsets were evaluated, and how far ranks agree."""
        steps = [
            f"{count:,} subsets on {rows:,} rows"
            for count, rows in zip(self.subsets, self.rows, strict=True)
        ]
        agreement = ", ".join(f"{value:.2f}" for value in self.correlations)
        return (
            f"{', '.join(steps)}; rank correlation of each part with all rows {agreement} over "
            f"{self.n_probes} subsets"
        )

    def sentence(self) -> str:
        """State the outcome behind its name."""
        return f"rows: {self.outcome()}"


def row_parts(problem: Problem, rows: int | Literal["auto"] | None) -> RowParts | None:
    """Return the problem on nested parts of its rows, or None if they do not apply.

    Parameters
    ----------
    problem : Problem
        Its seed draws the rows.
    rows : int, "auto" or None
        Number of rows of the smallest part. ``"auto"``: 10,000, from 100,000 rows on. Up to two
        further parts are four times as large each, at most half of the rows.

    Raises
    ------
    ConfigError
        If the part is too large to save anything, or too small for the folds.
    """
    if rows is None:
        return None
    n_rows, is_auto = len(problem.target), rows == "auto"
    if rows == "auto":
        if n_rows < AUTO_ROWS:
            return None
        rows = _SMALLEST
    else:
        require("budget rows", rows, at_least=1, whole=True)
        if 2 * rows > n_rows:
            raise ConfigError(
                f"budget.rows {rows:,} is more than half of the {n_rows:,} training rows, and "
                "would save nothing; set budget.rows to a smaller number, or to null"
            )
    sizes = [rows]
    while len(sizes) < _MOST_PARTS and 2 * _FACTOR * sizes[-1] <= n_rows:
        sizes.append(_FACTOR * sizes[-1])
    order = nested_order(problem)
    made = list[Problem]()
    for size in sizes:
        try:
            made.append(problem.on_rows(np.sort(order[:size])))
        except DataError as error:
            if not is_auto:
                raise ConfigError(
                    f"budget.rows {rows:,} is too few for the folds: {error}; set budget.rows to "
                    "a larger number, or to null"
                ) from None
    if not made:
        return None
    return RowParts(tuple(made), (*(len(part.target) for part in made), n_rows))


def nested_order(problem: Problem) -> Int:
    """Return the rows (n_rows,) in an order of which each beginning is a stratified sample.

    Strata are classes, sets of labels or ten levels of a number, within the folds of the first
    partition. A stratum with `n` of `N` rows has between ``floor(k n / N)`` and
    ``ceil(k n / N) + 1`` of about the first `k`, so that rare classes keep their share too.
    """
    rng = np.random.default_rng([problem.seed, _ROWS_SEED])
    strata = _strata(problem)
    n_rows = len(strata)
    drawn = rng.permutation(n_rows)
    by_stratum = drawn[np.argsort(strata[drawn], kind="stable")]
    sizes = np.bincount(strata)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(n_rows)
    own = strata[by_stratum]
    # Without an offset the first rows would be one of each stratum, however small it is.
    place[by_stratum] = (np.arange(n_rows) - starts[own] + rng.random(len(sizes))[own]) / sizes[own]
    return drawn[np.argsort(place[drawn], kind="stable")]


def _strata(problem: Problem) -> Int:
    """Return the stratum of each row: int (n_rows,), from 0 on without gaps."""
    target, n_rows = problem.target, len(problem.target)
    level = np.zeros(n_rows, dtype=np.int64)
    if problem.task in ("binary", "multiclass", "multilabel"):
        axis = 0 if target.ndim == 2 else None
        level = np.unique(target, axis=axis, return_inverse=True)[1].reshape(-1)
    elif problem.task == "regression":
        ranks = np.empty(n_rows, dtype=np.int64)
        ranks[np.argsort(target, kind="stable")] = np.arange(n_rows)
        level = ranks * _N_LEVELS // n_rows
    fold = np.zeros(n_rows, dtype=np.int64)
    for number, (_, test) in enumerate(problem.folds[: problem.n_folds // problem.repeats]):
        fold[test] = number + 1
    strata: Int = np.unique(level * (problem.n_folds + 1) + fold, return_inverse=True)[1]
    return strata.reshape(-1)


def evaluate_by_rows(
    parts: Sequence[Evaluator],
    evaluator: Evaluator,
    masks: Bool,
    incumbents: Float,
    order: Int,
    race: Race | None,
    asked: Mapping[bytes, int],
) -> Evaluations:
    """Evaluate masks (n, n_units) on one part after the other, and what survives on all rows.

    Parameters
    ----------
    parts : sequence of Evaluator
        Of each part of the rows, the smallest first.
    evaluator : Evaluator
        Of all rows.
    masks, incumbents, order, race
        As in :meth:`swarm.evaluation.types.Evaluator.evaluate`. Incumbents and race are those of
        all rows, and apply there alone.
    asked : mapping of packed mask to packed folds
        What the search has evaluated on all rows before; masks with all folds do not compete, as
        their costs are known.

    Returns
    -------
    Evaluations
        Of all rows. Masks that did not survive are censored, and failed if they failed on a part;
        ``on_parts`` has the folds that they needed.
    """
    n, n_folds = len(masks), evaluator.n_folds
    keys = pack_masks(masks)
    every = pack_folds(np.ones(n_folds, dtype=bool))
    known = np.array([asked.get(key, 0) == every for key in keys], dtype=bool)
    # The first row of each mask competes for all of them.
    first = first_of_equal(masks) if n else np.zeros(0, dtype=np.int64)
    left = first[~known[first]]
    on_parts = np.zeros((n, len(parts), n_folds), dtype=bool)
    failed, error, work = np.zeros(n, dtype=bool), None, Work()
    size = masks.sum(axis=1)
    for number, part in enumerate(parts):
        survivors = max(1, -(-len(left) // _FACTOR))
        if survivors >= len(left):
            # All of them go on, whatever their costs.
            continue
        found = part.evaluate(masks[left], np.full(len(left), np.inf), order)
        on_parts[left, number] = found.needed
        failed[left] = found.failed
        error = error or found.first_error
        # Each mask is a hit once.
        work = work.plus(found.work, with_hits=number == 0)
        ranked = np.lexsort((size[left], found.costs))
        ranked = ranked[np.isfinite(found.costs[ranked])]
        left = np.sort(left[ranked[:survivors]])
    through = set(left.tolist())
    row_of = {keys[row]: row for row in first.tolist()}
    goes_on = known | np.array([row_of[key] in through for key in keys], dtype=bool)
    rows = np.flatnonzero(goes_on)
    if race is not None:
        race = replace(race, rivals=race.rivals[rows])
    whole = evaluator.evaluate(masks[rows], incumbents[rows], order, race)
    failed = np.array([failed[row_of[key]] for key in keys], dtype=bool)
    blank, rows_of = censored(masks, n_folds, failed), dict[str, Any]()
    for name in ROW_ARRAYS:
        rows_of[name] = getattr(blank, name).copy()
        rows_of[name][rows] = getattr(whole, name)
    return replace(
        blank,
        **rows_of,
        exact_shrink=whole.exact_shrink,
        work=work.plus(whole.work, with_hits=not on_parts.any()),
        first_error=error or whole.first_error,
        on_parts=on_parts,
    )


def charged_on_parts(
    asked: Mapping[bytes, int],
    counts: Counts,
    masks: Bool,
    on_parts: Bool,
    rows: Sequence[int],
) -> tuple[dict[bytes, int], Counts]:
    """Count the folds on parts that a search has not requested before.

    Parameters
    ----------
    asked : mapping of packed mask to packed folds
        What it has requested before, of all parts one after the other.
    counts : Counts
        With what was requested on all rows.
    masks : bool (n, n_units)
    on_parts : bool (m, n_parts, n_folds)
        Requested folds of at least the masks.
    rows : sequence of int
        Number of rows of each part, then of all.

    Returns
    -------
    asked, counts
        A fit on a part counts as its share of the rows; the sum is rounded up.
    """
    before = counts.on_parts or (0,) * (len(rows) - 1)
    on_parts = on_parts[: len(masks)]
    asked_any = on_parts.any(axis=(1, 2))
    flat = on_parts[asked_any].reshape(-1, math.prod(on_parts.shape[1:]))
    asked, fresh = added(asked, masks[asked_any], flat)
    new = folds_on_parts(fresh, *on_parts.shape[1:]).sum(axis=(0, 2))
    after = tuple(int(count) for count in new + before)
    extra = _whole_fits(after, rows) - _whole_fits(before, rows)
    return asked, replace(counts, fits=counts.fits + extra, on_parts=after)


def _whole_fits(on_parts: Sequence[int], rows: Sequence[int]) -> int:
    """Return how many fits on all rows have as many training rows, rounded up."""
    total = sum(count * size for count, size in zip(on_parts, rows[:-1], strict=True))
    return -(-total // rows[-1])


def folds_on_parts(packed: Collection[int], n_parts: int, n_folds: int) -> Bool:
    """Return the folds of values of :func:`charged_on_parts`: bool (n, n_parts, n_folds)."""
    return unpack_folds(packed, n_parts * n_folds).reshape(len(packed), n_parts, n_folds)


def measure_parts(result: SearchResult, search: Search) -> SearchResult:
    """Evaluate a sample of the requested subsets on all parts and all rows, to compare their ranks.

    The subsets that survived differ too little for their ranks to agree, so the sample is evenly
    spread over all that the search requested. Its fits count towards those of the search, and the
    best of it is the result if nothing else is better.

    Parameters
    ----------
    result : SearchResult
        Result of the epochs.
    search : Search
        With parts.

    Returns
    -------
    SearchResult
        With :attr:`SearchResult.parts`.
    """
    state, space, n_folds = result.state, result.space, search.evaluator.n_folds
    probes = probe_masks(result, N_PROBES)
    if not len(probes):
        return result
    needed = folds_on_parts(state.asked_on_parts.values(), len(search.parts), n_folds)
    on_parts = needed.any(axis=2).sum(axis=0)
    on_all = sum(folds != 0 for folds in state.asked.values())
    found = [evaluate_fully(each, probes) for each in search.parts]
    whole = evaluate_fully(search.evaluator, probes)
    asked, counts = charged(state.asked, state.counts, probes, whole)
    # The epochs have asked for these subsets: they are no further evaluations.
    counts = replace(counts, evaluations=state.counts.evaluations)
    stacked = np.stack([each.needed for each in found], axis=1)
    asked_on_parts, counts = charged_on_parts(
        state.asked_on_parts, counts, probes, stacked, search.rows
    )
    state = replace(state, asked=asked, asked_on_parts=asked_on_parts, counts=counts)
    row = int(np.lexsort((probes.sum(axis=1), space.price(probes), whole.costs))[0])
    if whole.costs[row] < state.best_cost:
        best = probes[row].copy()
        best.setflags(write=False)
        state = replace(state, best_mask=best, best_cost=float(whole.costs[row]))
    told = PartsResult(
        search.rows,
        (*(int(count) for count in on_parts), on_all),
        tuple(rank_correlation(each.costs, whole.costs) for each in found),
        len(probes),
    )
    return replace(result, state=state, parts=told)
