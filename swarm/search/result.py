"""The result of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, read_only
from swarm.checks import require
from swarm.errors import EvaluationError
from swarm.problem.space import SearchSpace
from swarm.search.history import EpochRecord
from swarm.search.packing import first_of_equal

if TYPE_CHECKING:
    from swarm.search.confirmation import Confirmation
    from swarm.search.driver import SearchState
    from swarm.search.prefilter import Cut

_MOST_NAMED = 8


@dataclass(frozen=True)
class ConfirmedSubsets:
    """Subsets of a search on a proxy, measured on the full problem, by their costs on the proxy."""

    masks: Bool  # (m, n_units)
    costs: Float  # (m,), inf where the model failed
    cheap: Float  # (m,), on the proxy
    # Spearman's, over a sample of the requested subsets; NaN if one side is constant.
    correlation: float

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs, self.cheap)


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    state : SearchState
        The last state.
    records : tuple of EpochRecord
    reason : str
        The limit that ended it, ``"finished"``, ``"exhausted"`` or ``"interrupted"``.
    space : SearchSpace
    confirmed : ConfirmedSubsets or None
        Subsets measured on the full model after a search with a cheaper one; the best of them is
        the best subset.
    confirmation : Confirmation or None
        Subsets evaluated again on fresh folds; the best subset is chosen among them.
    cut : Cut or None
        The units that a prefilter kept for the search; masks cover all units.
    cut_short : str
        The step after the search that Ctrl-C ended, without its outcome; empty if none.
    """

    state: SearchState
    records: tuple[EpochRecord, ...]
    reason: str
    space: SearchSpace
    confirmed: ConfirmedSubsets | None = None
    confirmation: Confirmation | None = None
    cut: Cut | None = None
    cut_short: str = ""

    def __str__(self) -> str:
        """Summarise the result in a few lines; ``repr`` shows all fields."""
        names = self.features
        rows = [("features", f"{len(names):,} of {self.space.n_columns:,}: {listed(names)}")]
        rows.append(("cost", f"{self.cost:.4g} on the folds of the search"))
        if self.confirmation is not None:
            rows.append(("fresh folds", self.confirmation.sentence()))
        rows += self.outcomes
        rows.append(("search", counts_of(self)))
        rows.append(("ended by", self.reason))
        return aligned(rows)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Name and outcome of each option that the search ran with beside its epochs."""
        return [] if self.cut is None else [("prefilter", self.cut.outcome())]

    @property
    def best_mask(self) -> Bool:
        """Mask (n_units,) of the best subset.

        Raises
        ------
        EvaluationError
            If no mask had a finite cost.
        """
        answer = self._answer
        if answer is not None:
            return answer[0]
        if self.state.best_mask is None:
            remedy = " or check the failed fits" if self.state.counts.failed else ""
            raise EvaluationError(
                f"no subset of an allowed size has a finite cost after {self.state.epoch} epochs; "
                f"increase the budget{remedy}"
            )
        return self.state.best_mask

    @property
    def features(self) -> list[str]:
        """Feature names of the best subset."""
        return self.space.subset(self.best_mask)

    @property
    def cost(self) -> float:
        """Cost of the best subset on the folds of the search."""
        answer = self._answer
        if answer is not None:
            return answer[1]
        return self.state.best_cost

    @property
    def _answer(self) -> tuple[Bool, float] | None:
        """The best confirmed subset, or the result of the strategy's own rule, if any."""
        if self.confirmation is not None:
            chosen = self.confirmation.chosen
            return self.confirmation.masks[chosen], self.confirmation.searched_cost
        if self.confirmed is not None:
            masks, costs = self.confirmed.masks, self.confirmed.costs
            best = int(self.space.rank(masks, costs)[0])
            return masks[best], float(costs[best])
        members = self.state.strategy.members
        if members.answer is None or not np.isfinite(members.costs[members.answer]):
            return None
        return members.masks[members.answer], float(members.costs[members.answer])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search, or a step after it."""
        return self.reason == "interrupted" or bool(self.cut_short)

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch, byte-identical after any interruption."""
        return pd.DataFrame([{"epoch": each.epoch, **each.metrics} for each in self.records])

    @property
    def work(self) -> pd.DataFrame:
        """One row per epoch with the work done by this process."""
        return pd.DataFrame([{"epoch": each.epoch, **vars(each.work)} for each in self.records])

    def best_members(
        self, n: int | None = None, union_at_most: int | float | None = None
    ) -> tuple[Bool, Float]:
        """Return the `n` best distinct masks of the strategy, and their costs.

        The best mask of the search comes first, even if no member has it any more; then those
        that were confirmed on fresh folds, in that order. Members outside the size bounds, which
        a sequential search may have, are excluded.

        Parameters
        ----------
        n : int, optional
            Default: all of them.
        union_at_most : int or float, optional
            Maximum number of columns that the masks use together; a float is a share of all
            columns. A mask that would exceed it is left out, and the next one is tried. The best
            mask is always included. Default: no limit.

        Raises
        ------
        ValueError
            If `union_at_most` is neither a whole number of at least 1 nor a share below 1.

        Returns
        -------
        masks : bool (m, n_units), costs : float64 (m,)
            With ``m <= n``, duplicates removed.
        """
        # Costs on the full model and on the cheaper one must not be mixed.
        held = self.confirmed or self.state.strategy.members
        allowed = self.space.obeys(held.masks)
        masks, costs = self.best_mask[None, :], np.array([self.cost])
        if self.confirmation is not None:
            masks = np.vstack([masks, self.confirmation.masks])
            costs = np.append(costs, self.confirmation.searched)
        first = np.append(np.arange(len(costs)), np.full(int(allowed.sum()), len(costs)))
        masks = np.vstack([masks, held.masks[allowed]])
        costs = np.append(costs, held.costs[allowed])
        order = self.space.rank(masks, costs)
        order = order[np.argsort(first[order], kind="stable")]
        order = order[np.isfinite(costs[order])]
        chosen = order[first_of_equal(masks[order])]
        if union_at_most is not None:
            chosen = chosen[_within(self.space, masks[chosen], union_at_most, n)]
        return masks[chosen[:n]], costs[chosen[:n]]


def _within(
    space: SearchSpace, masks: Bool, union_at_most: int | float, n: int | None
) -> NDArray[np.intp]:
    """Return the first `n` rows whose columns together stay within the bound."""
    if isinstance(union_at_most, float):
        require("union_at_most", union_at_most, above=0, below=1)
        limit = int(union_at_most * space.n_columns + 1e-9)
    else:
        require("union_at_most", union_at_most, at_least=1, whole=True)
        limit = union_at_most
    widths = np.array([len(unit) for unit in space.units])
    union, kept = masks[0], [0]
    for row in range(1, len(masks)):
        if len(kept) == n:
            break
        wider = union | masks[row]
        if widths[wider].sum() <= limit:
            union = wider
            kept.append(row)
    return np.array(kept, dtype=np.intp)


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """Join the first names, and count the others."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def counts_of(result: SearchResult) -> str:
    """Return how many epochs, subsets and models a search took."""
    counts = result.state.counts
    return (
        f"{result.state.epoch:,} epochs, {counts.distinct:,} distinct subsets, "
        f"{counts.fits:,} models trained on a fold"
    )


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and texts as lines of two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
