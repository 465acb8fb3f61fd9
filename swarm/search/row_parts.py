"""Draw the parts of the rows for :mod:`swarm.search.fidelity`, and measure how well they rank."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from swarm.arrays import Int
from swarm.checks import require
from swarm.errors import ConfigError, DataError
from swarm.evaluation.types import evaluate_fully
from swarm.problem.problem import Problem
from swarm.search.budget import charged
from swarm.search.fidelity import FACTOR, PartsResult, RowParts, charged_on_parts, folds_on_parts
from swarm.search.proxy import probe_masks, rank_correlation

if TYPE_CHECKING:
    from swarm.search.driver import Search
    from swarm.search.result import SearchResult

__all__ = ["AUTO_ROWS", "N_PROBES", "measure_parts", "nested_order", "row_parts"]

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
    while len(sizes) < _MOST_PARTS and 2 * FACTOR * sizes[-1] <= n_rows:
        sizes.append(FACTOR * sizes[-1])
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
