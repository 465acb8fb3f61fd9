"""The result of a search."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Bool
from swarm.checks import require
from swarm.errors import EvaluationError
from swarm.evaluation.types import failed_evaluations
from swarm.problem.space import SearchSpace
from swarm.search.candidates import Candidates
from swarm.search.confirmation import Confirmation
from swarm.search.history import EpochRecord
from swarm.search.prefilter import Cut
from swarm.search.state import SearchState
from swarm.wording import aligned, listed

# Below this rank correlation the proxy is a poor guide.
_LOW_CORRELATION = 0.8


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    state : SearchState
        The last state.
    records : tuple of EpochRecord
        The record of each epoch.
    reason : str
        The limit that ended the search, ``"finished"``, ``"exhausted"``, ``"stopped"`` or
        ``"interrupted"``.
    space : SearchSpace
        The units and constraints.
    measured : Candidates or None
        Subsets measured on the full model after a search on a proxy, by their costs on the proxy.
    correlation : float or None
        Spearman's rank correlation of proxy and full model, over a sample of the requested
        subsets; NaN if one side is constant, None without a proxy or its probes.
    rivals : Candidates or None
        Subsets of rankings and of elimination, with costs on fresh folds, NaN if not measured.
    n_rival_fits : int
        Number of models on a fold that the measurement of the rivals needed.
    rival_models : frozenset of (int, bytes)
        The models of the rivals on fresh folds: the fold and the packed mask.
    confirmation : Confirmation or None
        Candidates evaluated again on fresh folds; the best subset is chosen among them.
    cut : Cut or None
        The units that a prefilter kept for the search; masks cover all units.
    interrupted_step : str
        The step after the search that Ctrl-C ended, without its outcome; empty if none.
    """

    state: SearchState
    records: tuple[EpochRecord, ...]
    reason: str
    space: SearchSpace
    measured: Candidates | None = None
    correlation: float | None = None
    rivals: Candidates | None = None
    n_rival_fits: int = 0
    rival_models: frozenset[tuple[int, bytes]] = frozenset()
    confirmation: Confirmation | None = None
    cut: Cut | None = None
    interrupted_step: str = ""

    def __str__(self) -> str:
        """Summarise the result in a few lines; ``repr`` shows all fields."""
        rows = [("features", "none has a finite cost")]
        if len(self.candidates):
            names = listed(self.features)
            count = f"{len(self.features):,} of {self.space.n_columns:,}"
            rows = [("features", f"{count}: {names}")]
            rows.append(("cost", f"{self.cost:.4g} on the folds of the search"))
        if self.confirmation is not None:
            rows.append(("fresh folds", self.confirmation.sentence()))
        rows += self.outcomes
        rows.append(("search", counts_of(self)))
        rows.append(("ended by", self.reason))
        return aligned(rows)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Name and outcome of each step before the epochs."""
        return [] if self.cut is None else [("prefilter", self.cut.outcome())]

    def no_subset_error(self) -> EvaluationError:
        """Return the error of a search in which no mask had a finite cost."""
        counts = self.state.counts
        if counts.failed:
            return failed_evaluations(
                f"{counts.failed} of {counts.evaluations} evaluations failed, and no subset of an"
                " allowed size has a finite cost",
                self.state.first_error,
            )
        return EvaluationError(
            f"no subset of an allowed size has a finite cost after {self.state.epoch} epochs; "
            "increase the budget"
        )

    @property
    def best_mask(self) -> Bool:
        """Mask (n_units,) of the best subset.

        Raises
        ------
        EvaluationError
            If no mask had a finite cost.
        """
        if not len(self.candidates):
            raise self.no_subset_error()
        return self.candidates.masks[0]

    @property
    def features(self) -> list[str]:
        """Feature names of the best subset."""
        return self.space.subset(self.best_mask)

    @property
    def cost(self) -> float:
        """Cost of the best subset on the folds of the search."""
        return float(self.candidates.costs[0]) if len(self.candidates) else self.state.best_cost

    @cached_property
    def candidates(self) -> Candidates:
        """Distinct candidates with a finite cost, the best subset first.

        Confirmed subsets follow by their costs on fresh folds; then, by their costs, the subsets
        measured after a search on a proxy, or else the members of the strategy. If rankings replace
        the search, only subsets within one standard error of the lowest cost follow.
        """
        members = self.state.strategy.members
        # Costs on the full model and on the cheaper one must not be mixed.
        table = self.measured
        if table is None:
            table = Candidates.build(members.masks, members.costs)
        table = table.take(self.space.obeys(table.masks))
        table = table.take(self.space.rank(table.masks, table.costs))
        if self.confirmation is not None:
            fresh = self.confirmation.candidates
            if self.confirmation.replaces_search:
                return fresh.take(self.confirmation.within_one_error).distinct()
            table = fresh.take(self.confirmation.in_order).append(table)
        elif self.measured is None and members.answer is not None:
            # The rule of the strategy may select any size.
            rows = [members.answer]
            answer = Candidates.build(members.masks[rows], members.costs[rows])
            table = (answer if np.isfinite(answer.costs[0]) else self._best).append(table)
        elif self.measured is None:
            table = self._best.append(table)
        return table.distinct()

    @property
    def _best(self) -> Candidates:
        """The best mask that the search has seen, if any."""
        mask = self.state.best_mask
        masks = np.empty((0, self.space.n_units), dtype=bool) if mask is None else mask[None, :]
        return Candidates.build(masks, np.full(len(masks), self.state.best_cost))

    @property
    def proxy_warning(self) -> str:
        """A warning if the proxy ranks subsets poorly, else an empty string."""
        if self.correlation is None or self.correlation >= _LOW_CORRELATION:
            return ""
        return (
            "the proxy ranks subsets differently from the full model on all rows: rank correlation "
            f"{self.correlation:.2f}, below {_LOW_CORRELATION}"
        )

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search, or a step after it."""
        return self.reason == "interrupted" or bool(self.interrupted_step)

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch, byte-identical after any interruption."""
        return pd.DataFrame([{"epoch": record.epoch, **record.metrics} for record in self.records])

    @property
    def work(self) -> pd.DataFrame:
        """One row per epoch with the work done by this process."""
        return pd.DataFrame(
            [{"epoch": record.epoch, **vars(record.work)} for record in self.records]
        )

    def best_members(
        self, n: int | None = None, union_at_most: int | float | None = None
    ) -> Candidates:
        """Return the first `n` of :attr:`candidates`, the best subset first.

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
        EvaluationError
            If no mask had a finite cost.
        """
        table = self.candidates
        if not len(table):
            raise self.no_subset_error()
        if union_at_most is not None:
            table = table.take(_within(self.space, table.masks, union_at_most, n))
        return table.take(np.arange(len(table))[:n])


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
    union = masks[0]
    rows = [0]
    for row in range(1, len(masks)):
        if len(rows) == n:
            break
        wider = union | masks[row]
        if widths[wider].sum() <= limit:
            union = wider
            rows.append(row)
    return np.array(rows, dtype=np.intp)


def counts_of(result: SearchResult) -> str:
    """Return how many epochs, subsets and models a search took."""
    counts = result.state.counts
    return (
        f"{result.state.epoch:,} epochs, {counts.distinct:,} distinct subsets, "
        f"{counts.fits:,} models trained on a fold"
    )
