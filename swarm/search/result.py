"""What a search found, and how to pick from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import EvaluationError
from swarm.problem.space import SearchSpace
from swarm.search.history import EpochRecord, history_table, work_table

if TYPE_CHECKING:
    from swarm.search.driver import SearchState

__all__ = ["Confirmed", "SearchResult"]

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Confirmed:
    """Subsets of a search on a cheaper model, measured on the model that counts.

    Attributes
    ----------
    masks : bool (m, n_units)
        Best by the cheaper model first.
    costs : float64 (m,)
        On the model that counts; inf where it failed.
    cheap : float64 (m,)
        On the cheaper one.
    correlation : float
        Spearman's rank correlation of the two over a sample of all that the search asked for;
        NaN where one of the models finds all alike.
    """

    masks: Bool
    costs: NDArray[np.float64]
    cheap: NDArray[np.float64]
    correlation: float

    def __post_init__(self) -> None:
        for array in (self.masks, self.costs, self.cheap):
            array.setflags(write=False)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    state : SearchState
        The last state.
    records : tuple of EpochRecord
    reason : str
        The limit that ended it, ``"finished"``, ``"exhausted"`` or ``"interrupted"``.
    space : SearchSpace
    confirmed : Confirmed or None
        Where the search was on a cheaper model: the answer is the best of these.
    """

    state: SearchState
    records: tuple[EpochRecord, ...]
    reason: str
    space: SearchSpace
    confirmed: Confirmed | None = None

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
            raise EvaluationError(
                f"no subset has a finite cost after {self.state.epoch} epochs; "
                "give the search a larger budget, or look at the failed fits"
            )
        return self.state.best_mask

    @property
    def features(self) -> list[str]:
        """Feature names of the best subset."""
        return self.space.subset(self.best_mask)

    @property
    def cost(self) -> float:
        """Measured cost of the best subset."""
        answer = self._answer
        return self.state.best_cost if answer is None else answer[1]

    @property
    def _answer(self) -> tuple[Bool, float] | None:
        """What was confirmed, or what the strategy itself calls the answer, once it has a cost."""
        if self.confirmed is not None:
            masks, costs = self.confirmed.masks, self.confirmed.costs
            best = int(np.lexsort((masks.sum(axis=1), costs))[0])
            return masks[best], float(costs[best])
        members = self.state.strategy.members
        if members.answer is None or not np.isfinite(members.costs[members.answer]):
            return None
        return members.masks[members.answer], float(members.costs[members.answer])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.reason == "interrupted"

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch; byte for byte the same after any interruption."""
        return history_table(self.records)

    @property
    def work(self) -> pd.DataFrame:
        """One row per epoch: what this machine did."""
        return work_table(self.records)

    def best_members(self, n: int | None = None) -> tuple[Bool, NDArray[np.float64]]:
        """Return the `n` best different masks the strategy holds, and their costs.

        The answer of the search comes first, also where no member holds it any more. Members
        outside the size bounds, which a sequential search passes on its way, are left out.

        Returns
        -------
        masks : bool (m, n_units), costs : float64 (m,)
            With ``m <= n``: members that hold the same mask count once.
        """
        # Costs on the model that counts and on a cheaper one are not to be mixed.
        held = self.state.strategy.members if self.confirmed is None else self.confirmed
        allowed = self.space.obeys(held.masks)
        masks = np.vstack([self.best_mask[None, :], held.masks[allowed]])
        costs = np.concatenate([[self.cost], held.costs[allowed]])
        order = np.lexsort((masks.sum(axis=1), costs, np.arange(len(costs)) > 0))
        order = order[np.isfinite(costs[order])]
        first = np.unique(np.packbits(masks[order], axis=1), axis=0, return_index=True)[1]
        chosen = order[np.sort(first)][:n]
        return masks[chosen], costs[chosen]
