"""Evaluate masks on parts of the rows first, and only those that survive on all rows.

Successive halving with the number of rows as the resource (Jamieson and Talwalkar 2016; Li et al.
2018, Hyperband). Our choices: all masks of an epoch compete, a quarter of them survives each part,
and each part has four times the rows of the one before. A mask that does not survive is reported
like one that lost its race: censored, without a cost. Parts are nested, and their folds are those
of the problem restricted to their rows, so that no row changes its fold. Each part is a problem of
its own, so that the archive keeps its evaluations apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.errors import ConfigError
from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations, Evaluator, Work
from swarm.search.budget import Counts
from swarm.search.packing import first_of_equal, pack_folds, pack_masks, unpack_folds
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of

if TYPE_CHECKING:
    from swarm.problem.problem import Problem

__all__ = [
    "FACTOR",
    "PartsResult",
    "RowParts",
    "charged_on_parts",
    "check_row_parts",
    "evaluate_by_rows",
    "folds_on_parts",
]

# Ratio of the rows of successive parts, and of the masks that are evaluated on them.
FACTOR = 4


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


def check_row_parts(
    strategy: Strategy,
    rows: int | Literal["auto"] | None,
    *,
    repeats: int,
    proxy: bool,
    tuning: bool,
) -> None:
    """Refuse parts of the rows that the rest of a search does not allow.

    Parameters
    ----------
    strategy : Strategy
    rows : int, "auto" or None
        As in :func:`swarm.search.row_parts.row_parts`; None for a search on all rows.
    repeats : int
        Number of fold partitions.
    proxy, tuning : bool
        Whether the search runs on a cheaper model; whether a setting of the model is chosen.

    Raises
    ------
    ConfigError
    """
    if rows is None:
        return
    given = f"budget.rows {rows!r}"
    if strategy.ends_by_itself:
        raise ConfigError(
            f"{given} leaves most subsets without a cost on all rows, but "
            f"{name_of(strategy)!r} compares the costs of all that it proposes; use another "
            "strategy, or set budget.rows to null"
        )
    if repeats > 1:
        raise ConfigError(
            f"{given} selects the subsets of an epoch on parts of the rows, which repeats "
            f"{repeats} does on one partition after the other; set repeats to 1, or budget.rows "
            "to null"
        )
    if proxy:
        raise ConfigError(
            f"{given} evaluates on parts of the rows first, and a proxy on a cheaper model; "
            "remove the proxy, or set budget.rows to null"
        )
    if tuning:
        raise ConfigError(
            f"settings of the model are compared on all rows, but {given} evaluates on parts of "
            "them first; remove model.search, or set budget.rows to null"
        )


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
        survivors = max(1, -(-len(left) // FACTOR))
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

    def spread(values: NDArray[Any], blank: NDArray[Any]) -> NDArray[Any]:
        blank[rows] = values
        return blank

    return Evaluations(
        costs=spread(whole.costs, np.full(n, np.inf)),
        fold_costs=spread(whole.fold_costs, np.full((n, n_folds), np.nan)),
        importances=spread(whole.importances, np.zeros(masks.shape)),
        used=spread(whole.used, masks.copy()),
        censored=spread(whole.censored, ~failed),
        failed=spread(whole.failed, failed),
        needed=spread(whole.needed, np.zeros((n, n_folds), dtype=bool)),
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
    n_parts = len(rows) - 1
    asked, before = dict(asked), counts.on_parts or (0,) * n_parts
    fresh = list[int]()
    for key, folds in zip(pack_masks(masks), on_parts, strict=False):
        packed, had = pack_folds(folds.reshape(-1)), asked.get(key, 0)
        fresh.append(packed & ~had)
        if packed:
            asked[key] = had | packed
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
