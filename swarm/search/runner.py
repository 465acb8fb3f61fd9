"""A search from its plan to its confirmed result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.search.asked import looked_up, training_seconds
from swarm.search.budget import Counts
from swarm.search.confirmation import confirm_on_fresh_folds
from swarm.search.driver import Search, SearchState, run
from swarm.search.history import EpochRecord
from swarm.search.packing import first_of_equal, pack_folds, pack_masks
from swarm.search.plan import SearchPlan
from swarm.search.prefilter import Cut, cut_units
from swarm.search.proxy import LOW_CORRELATION, best_subsets, confirm
from swarm.search.result import SearchResult
from swarm.storage.archive import Archive, KnownEvaluations
from swarm.storage.records import Record


@dataclass(frozen=True, eq=False)
class FinishedSearch:
    """A completed search; `searched` are evaluations of what the epochs ran on, a proxy if any."""

    result: SearchResult
    known: KnownEvaluations
    searched: KnownEvaluations
    plan: SearchPlan

    @property
    def problem(self) -> Problem:
        """The problem of the result."""
        return self.plan.problem

    @property
    def fits(self) -> int:
        """Fold models that the epochs needed."""
        return self.result.state.counts.fits

    @property
    def training_seconds(self) -> float:
        """Training time of the epochs.

        Reads every record of the search, so the archive must still be open.
        """
        return training_seconds(self.result.state.asked, self.searched)

    @property
    def doubt(self) -> str:
        """A warning if the proxy ranks subsets poorly, else an empty string."""
        if self.result.measured is None or self.result.correlation >= LOW_CORRELATION:
            return ""
        return (
            "the proxy ranks subsets differently from the full model on all rows: rank correlation "
            f"{self.result.correlation:.2f}, below {LOW_CORRELATION}"
        )


class Stages:
    """The stages of a search: prefilter, epochs, full model, fresh folds; a context manager.

    Each stage has an evaluator of its own, and all share their processes, which take seconds to
    start. A stage that the plan does not have returns what it was given.

    Parameters
    ----------
    plan : SearchPlan
        After the prefilter the attribute is the search on the units that are kept.
    archive : Archive
        Left open.
    on_fit : callable, optional
        Called after every fit.
    """

    def __init__(
        self,
        plan: SearchPlan,
        archive: Archive,
        on_fit: Callable[[Bool, Record], None] | None = None,
    ) -> None:
        self.plan = plan
        self.cut: Cut | None = None
        self._options: dict[str, Any] = {"archive": archive, "on_fit": on_fit}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        if self.plan.evaluation.get("backend", "loky") == "loky":
            host = self._opened.enter_context(closing(self.plan.shared_workers()))
            self._options["host"] = host
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def _evaluator(self, problem: Problem) -> CrossValidation:
        return self._opened.enter_context(self.plan.evaluator(problem, **self._options))

    @cached_property
    def searched(self) -> CrossValidation:
        """The evaluator of the epochs: on the proxy, if any."""
        return self._evaluator(self.plan.searched)

    @cached_property
    def full(self) -> CrossValidation:
        """The evaluator of the problem itself."""
        return self.searched if self.plan.proxy is None else self._evaluator(self.plan.problem)

    @cached_property
    def fresh(self) -> CrossValidation:
        """The evaluator of the problem on fresh folds."""
        assert self.plan.confirmation is not None
        return self._evaluator(self.plan.confirmation.problem)

    def narrow(self) -> Cut | None:
        """Rank the units, and continue with those that the prefilter keeps."""
        if self.plan.prefilter is not None:
            with self.plan.evaluator(self.plan.prefilter.problem, **self._options) as ranking:
                self.cut = cut_units(self.plan.prefilter, ranking)
            self.plan = self.plan.on_units(self.cut.kept)
        return self.cut

    def search(self) -> Search:
        """Create the search of the epochs."""
        return self.plan.search(self.searched)

    def measure(self, result: SearchResult) -> SearchResult:
        """Measure the best subsets of a proxy on the full model and all rows."""
        if self.plan.proxy is None:
            return result
        return confirm(result, self.searched, self.full, **self.plan.proxy.sizes)

    def confirm(self, result: SearchResult) -> SearchResult:
        """Evaluate the best subsets on fresh folds; Ctrl-C leaves them unconfirmed."""
        if self.plan.confirmation is None or result.interrupted:
            return result
        try:
            return confirm_on_fresh_folds(result, self.full, self.fresh, self.plan.confirmation)
        except KeyboardInterrupt:
            return replace(result, cut_short="the confirmation")

    def finished(self, result: SearchResult) -> FinishedSearch:
        """Return the search with its result."""
        result = replace(result, cut=self.cut)
        return FinishedSearch(result, self.full.known, self.searched.known, self.plan)


def run_search(
    plan: SearchPlan,
    archive: Archive,
    *,
    callbacks: Sequence[Callable[[EpochRecord, SearchState], None]] = (),
    on_fit: Callable[[Bool, Record], None] | None = None,
    step: Callable[[Search, SearchState], tuple[SearchState, EpochRecord]] = Search.step,
    salvage: bool = False,
) -> FinishedSearch:
    """Run a search to its end, and confirm its best subsets.

    With a :class:`swarm.search.prefilter.Prefilter` the search runs on the units that it keeps.
    With a proxy the best subsets are measured on the full model; with a :class:`ConfirmationPlan`
    they are evaluated on fresh folds, unless the search was interrupted.

    Parameters
    ----------
    plan, archive, on_fit
        See :class:`Stages`.
    callbacks, step
        See :func:`swarm.search.driver.run`.
    salvage : bool
        Whether Ctrl-C within the first epoch returns the best evaluated subset instead of raising
        KeyboardInterrupt. After the first epoch Ctrl-C always returns the best subset so far.

    Raises
    ------
    EvaluationError
        If a cost is NaN, or more than a tenth of the evaluations failed.
    """
    with Stages(plan, archive, on_fit) as stages:
        stages.narrow()
        search = stages.search()
        try:
            result = run(search, callbacks=callbacks, step=step)
        except KeyboardInterrupt:
            known = _salvaged(search, stages.searched) if salvage else None
            if known is None:
                raise
            result = known
        return stages.finished(stages.confirm(stages.measure(result)))


def _salvaged(search: Search, evaluator: CrossValidation) -> SearchResult | None:
    """Return the best evaluated subset of an unfinished first epoch, if any.

    Other evaluations in the archive are not read: there may be millions.
    """
    space = search.space
    requested = search.first_masks()
    requested = requested[first_of_equal(requested)]
    requested = requested[space.obeys(requested)]
    records = looked_up(requested, evaluator.known)
    rows = [record.complete and not record.failed for _, record in records]
    complete, every = requested[rows], pack_folds(np.ones(evaluator.n_folds, dtype=bool))
    state = replace(
        search.start(),
        asked=dict.fromkeys(pack_masks(complete), every),
        counts=Counts(len(complete), len(complete), len(complete) * evaluator.n_folds),
    )
    result = SearchResult(state, (), "interrupted", space)
    best, costs = best_subsets(result, evaluator, 1)
    if not len(best):
        return None
    return replace(result, state=replace(state, best_mask=best[0], best_cost=float(costs[0])))
