"""A search from its description to its confirmed result."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from swarm.arrays import Bool
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.probe import trouble
from swarm.problem.problem import Problem
from swarm.search.budget import Counts
from swarm.search.driver import Driver, OnEpoch, Step
from swarm.search.elimination import allows_elimination, elimination_problem
from swarm.search.fresh_folds import confirm_on_fresh_folds, measure_rivals
from swarm.search.packing import first_of_equal, pack_folds, pack_masks
from swarm.search.prefilter import Cut, cut_units
from swarm.search.proxy import best_subsets, measure_best
from swarm.search.rankings import Rankings, allows_rankings
from swarm.search.requests import read_records
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.storage.records import Record

# Only the units that the prefilter keeps of a larger table are ranked.
_MAX_RANKED_CELLS = 1 << 24


class Stages:
    """The stages of a search, as a context manager: prefilter, epochs, full model, fresh folds.

    Each stage has an evaluator of its own, and all evaluators share worker processes, which take
    seconds to start. A stage that the search does not have returns its argument.

    Parameters
    ----------
    search : Search
        The search. After the prefilter, the attribute is the search on the kept units.
    archive : Archive
        Cache of evaluations, which is left open.
    on_fit : callable, optional
        Called with the mask and the record of every evaluation that was trained.
    """

    def __init__(
        self,
        search: Search,
        archive: Archive,
        on_fit: Callable[[Bool, Record], None] | None = None,
    ) -> None:
        self.search = search
        self.cut: Cut | None = None
        self._options: dict[str, Any] = {"archive": archive, "on_fit": on_fit}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        workers = self._opened.enter_context(closing(self.search.shared_workers()))
        self._options["workers"] = workers
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def _evaluator(self, problem: Problem) -> CrossValidation:
        return self._opened.enter_context(self.search.evaluator(problem, **self._options))

    @cached_property
    def search_evaluator(self) -> CrossValidation:
        """The evaluator of the epochs: on the proxy, if any."""
        return self._evaluator(self.search.search_problem)

    @cached_property
    def full_evaluator(self) -> CrossValidation:
        """The evaluator of the problem itself."""
        if self.search.proxy is None:
            return self.search_evaluator
        return self._evaluator(self.search.problem)

    @cached_property
    def fresh_evaluator(self) -> CrossValidation:
        """The evaluator of the problem on fresh folds."""
        assert self.search.confirmation is not None
        return self._evaluator(self.search.confirmation.problem)

    def try_out(self) -> None:
        """Raise ConfigError if all masks would fail, or all of the smallest size."""
        for evaluator in dict.fromkeys((self.search_evaluator, self.full_evaluator)):
            attempt = partial(trouble, smallest=self.search.smallest_size)
            message = evaluator.workers.call(evaluator.problem, attempt)
            if message is not None:
                raise ConfigError(message)

    def narrow(self) -> Cut | None:
        """Rank the units, and continue with those that the prefilter keeps."""
        if self.search.prefilter is not None:
            with self.search.evaluator(self.search.prefilter.problem, **self._options) as ranking:
                self.cut = cut_units(self.search.prefilter, ranking)
            self.search = self.search.on_units(self.cut.kept)
        return self.cut

    def driver(self) -> Driver:
        """Create what runs the epochs."""
        return self.search.driver(self.search_evaluator)

    def measure(self, result: SearchResult) -> SearchResult:
        """Measure the best subsets of a proxy on the full model and all rows."""
        if self.search.proxy is None:
            return result
        return measure_best(
            result, self.search_evaluator, self.full_evaluator, **self.search.proxy.sizes
        )

    def rankings_compete(self, result: SearchResult) -> bool:
        """Whether rankings compete: a strategy with a rule of its own has no other candidate."""
        plan = self.search.confirmation
        has_rule = result.state.strategy.members.answer is not None
        if plan is None or has_rule or result.interrupted:
            return False
        if plan.replaces_search:
            return True
        problem = self.search.problem
        has_rivals = allows_rankings(problem) or allows_elimination(problem)
        return plan.rankings and plan.n_best > 1 and has_rivals

    @property
    def n_rivals(self) -> int | None:
        """Number of rivals of a search that are measured on all fresh folds; None for all."""
        plan = self.search.confirmation
        return None if plan is None or plan.replaces_search else plan.n_best // 2

    def rank(self, result: SearchResult) -> SearchResult:
        """Measure the first units of rankings on the fresh folds, if they compete."""
        plan = self.search.confirmation
        problem = self.search.problem
        if plan is None or not self.rankings_compete(result):
            return result
        mask = ~result.space.forbidden
        # A prefilter has seen the test rows of all folds, but ranking all units takes long.
        if result.cut is not None and problem.features.size > _MAX_RANKED_CELLS:
            mask = result.cut.kept
        rankings = eliminator = None
        try:
            if allows_rankings(problem):
                n_jobs = self.search.evaluation.get("n_jobs", 1)
                rankings = Rankings.of(problem, mask, self.search.seed, n_jobs)
            if allows_elimination(problem):
                eliminator = self._evaluator(elimination_problem(problem, plan.problem.folds))
            fresh = self.fresh_evaluator
            return measure_rivals(result, fresh, rankings, eliminator, self.n_rivals)
        except KeyboardInterrupt:
            return replace(result, interrupted_step="the confirmation")

    def confirm(self, result: SearchResult) -> SearchResult:
        """Evaluate the best subsets on fresh folds; Ctrl-C leaves them unconfirmed."""
        if self.search.confirmation is None or result.interrupted:
            return result
        try:
            return confirm_on_fresh_folds(
                result, self.full_evaluator, self.fresh_evaluator, self.search.confirmation
            )
        except KeyboardInterrupt:
            return replace(result, interrupted_step="the confirmation")


def run(
    search: Search,
    archive: Archive | None = None,
    *,
    on_epoch: OnEpoch | None = None,
    on_fit: Callable[[Bool, Record], None] | None = None,
    step: Step | None = None,
    salvage: bool = False,
    trial: bool = False,
) -> SearchResult:
    """Run a search to its end, and confirm its best subsets.

    With a :class:`swarm.search.prefilter.Prefilter` the search runs on the units that it keeps.
    With a proxy the best subsets are measured on the full model; with a :class:`ConfirmationPlan`
    they are evaluated on fresh folds, unless the search was interrupted.

    Parameters
    ----------
    search : Search
        The search.
    archive : Archive, optional
        Cache of evaluations, which is left open. Default: a new one in memory.
    on_epoch : callable, optional
        Called after every epoch with its record and the state.
    step : callable, optional
        Called in place of :meth:`swarm.search.driver.Driver.step`.
    on_fit : callable, optional
        Called with the mask and the record of every evaluation that was trained.
    salvage : bool, default=False
        Whether Ctrl-C within the first epoch returns the best evaluated subset instead of raising
        KeyboardInterrupt. After the first epoch Ctrl-C always returns the best subset so far.
    trial : bool, default=False
        Whether to fit one fold with all units and one with few before the search, so that settings
        that no model can have are refused.

    Returns
    -------
    SearchResult

    Raises
    ------
    ConfigError
        If a fit of the trial fails.
    EvaluationError
        If a cost is NaN, or more than a tenth of the evaluations, and five, failed.
    """
    with Stages(search, Archive() if archive is None else archive, on_fit) as stages:
        if trial:
            stages.try_out()
        stages.narrow()
        driver = stages.driver()
        try:
            result = driver.run(on_epoch, step)
        except KeyboardInterrupt:
            salvaged = _best_of_first_epoch(driver, stages.search_evaluator) if salvage else None
            if salvaged is None:
                raise
            result = salvaged
        measured = stages.measure(replace(result, cut=stages.cut))
        return stages.confirm(stages.rank(measured))


def _best_of_first_epoch(driver: Driver, evaluator: CrossValidation) -> SearchResult | None:
    """Return the best evaluated subset of an unfinished first epoch, if any.

    Other evaluations in the archive are not read: there may be millions.
    """
    space = driver.space
    masks = driver.first_masks()
    masks = masks[first_of_equal(masks)]
    masks = masks[space.obeys(masks)]
    records = read_records(masks, evaluator.evaluations)
    masks = masks[[record.complete and not record.failed for _, record in records]]
    all_folds = pack_folds(np.ones(evaluator.n_folds, dtype=bool))
    state = replace(
        driver.start(),
        requests=dict.fromkeys(pack_masks(masks), all_folds),
        counts=Counts(len(masks), len(masks), len(masks) * evaluator.n_folds),
    )
    result = SearchResult(state, (), "interrupted", space)
    best, costs = best_subsets(result, evaluator, 1)
    if not len(best):
        return None
    return replace(result, state=replace(state, best_mask=best[0], best_cost=float(costs[0])))
