"""The function that runs a search from its plan to its confirmed result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.stream import MaskStream
from swarm.evaluation.types import Evaluator
from swarm.problem.problem import Problem
from swarm.search.asked import looked_up, training_seconds
from swarm.search.budget import Budget, Counts
from swarm.search.confirmation import confirm_on_fresh_folds
from swarm.search.driver import Search, SearchState, run
from swarm.search.history import EpochRecord
from swarm.search.narrowed import Narrowed
from swarm.search.packing import first_of_equal, in_turn, pack_folds, pack_masks
from swarm.search.plan import SearchPlan
from swarm.search.prefilter import Cut, Prefilter, cut_units
from swarm.search.proxy import LOW_CORRELATION, best_subsets, confirm
from swarm.search.result import SearchResult
from swarm.search.rotation import evaluate_finalists
from swarm.search.row_parts import folds_on_parts, measure_parts
from swarm.search.steady import Steady, search_name
from swarm.search.tuning import (
    Tuning,
    TuningResult,
    choose_setting,
)
from swarm.storage.archive import AnswerOrder, Archive, KnownEvaluations
from swarm.storage.records import Record


@dataclass(frozen=True, eq=False)
class FinishedSearch:
    """A completed search.

    Attributes
    ----------
    result : SearchResult
    known : KnownEvaluations
        Evaluations of the problem in the archive.
    algorithm_seconds : float
        CPU time of this thread, evaluations excluded.
    searched : KnownEvaluations
        Evaluations of the problem that the epochs ran on: that of the proxy, if any.
    plan : SearchPlan
        The plan of the epochs: with a tuning, its problem is that of the chosen setting.
    on_parts : tuple of KnownEvaluations
        Evaluations of the problem on each part of the rows.
    """

    result: SearchResult
    known: KnownEvaluations
    algorithm_seconds: float
    searched: KnownEvaluations
    plan: SearchPlan
    on_parts: tuple[KnownEvaluations, ...] = ()

    @property
    def problem(self) -> Problem:
        """The problem of the result, with the chosen setting of the model."""
        return self.plan.problem

    @property
    def fits(self) -> int:
        """Fold models that the epochs needed, and the choice of a setting of the model."""
        tuning = self.result.tuning
        return self.result.state.counts.fits + (0 if tuning is None else tuning.fits)

    @property
    def training_seconds(self) -> float:
        """Training time of the epochs, parts included, and of the choice of a setting of the model.

        Reads every record of the search, so the archive must still be open.
        """
        tuning = self.result.tuning
        before = 0.0 if tuning is None else tuning.seconds
        state = self.result.state
        if self.on_parts:
            asked, n_parts = state.asked_on_parts, len(self.on_parts)
            needed = folds_on_parts(asked.values(), n_parts, self.problem.n_folds)
            for number, known in enumerate(self.on_parts):
                folds = map(pack_folds, needed[:, number])
                before += training_seconds(dict(zip(asked, folds, strict=True)), known)
        return before + training_seconds(state.asked, self.searched)

    @property
    def doubt(self) -> str:
        """A warning if the proxy ranks subsets poorly, else an empty string."""
        confirmed = self.result.confirmed
        if confirmed is None or confirmed.correlation >= LOW_CORRELATION:
            return ""
        return (
            "the cheaper model ranks subsets differently from the full one: rank correlation "
            f"{confirmed.correlation:.2f}, below {LOW_CORRELATION}"
        )


@dataclass(frozen=True)
class SearchHooks:
    """Callbacks of a search, and replacements for its steps.

    Attributes
    ----------
    started : callable
        Called with the plan of the epochs and their evaluator before the first epoch.
    step : callable
        Runs an epoch, for example as a task; default: :meth:`swarm.search.driver.Search.step`.
    epochs : sequence of callables
        Called after every epoch with its record and the state.
    fits : callable, optional
        Called after every fit.
    ended : callable
        Called with the result of the epochs, before the best subsets of a proxy are measured; its
        return value replaces the result.
    confirm : callable
        Measures the best subsets of a proxy.
    confirm_fresh : callable
        Evaluates the best subsets on fresh folds.
    cut : callable
        Leaves units out before the search.
    tune : callable
        Chooses a setting of the model before the search.
    """

    started: Callable[[SearchPlan, CrossValidation], None] = lambda plan, evaluator: None
    step: Callable[[Search, SearchState], tuple[SearchState, EpochRecord]] = Search.step
    epochs: Sequence[Callable[[EpochRecord, SearchState], None]] = ()
    fits: Callable[[Bool, Record], None] | None = None
    ended: Callable[[SearchResult], SearchResult] = lambda result: result
    confirm: Callable[..., SearchResult] = confirm
    confirm_fresh: Callable[..., SearchResult] = confirm_on_fresh_folds
    cut: Callable[[Prefilter, CrossValidation], Cut] = cut_units
    tune: Callable[..., TuningResult] = choose_setting


def run_search(
    plan: SearchPlan, archive: Archive, hooks: SearchHooks | None = None, *, salvage: bool = False
) -> FinishedSearch:
    """Run a search to its end, and confirm its best subsets.

    With a :class:`swarm.search.prefilter.Prefilter` the search runs on the units that it keeps,
    with a :class:`swarm.search.tuning.Tuning` on the setting of the model that it chooses.
    With a proxy the best subsets are measured on the full model; with a :class:`ConfirmationPlan`
    they are evaluated on fresh folds, unless the search was interrupted.

    Parameters
    ----------
    plan : SearchPlan
    archive : Archive
        Left open.
    hooks : SearchHooks, optional
    salvage : bool
        Whether Ctrl-C within the first epoch returns the best evaluated subset instead of raising
        KeyboardInterrupt. After the first epoch Ctrl-C always returns the best subset so far.

    Raises
    ------
    EvaluationError
        If a cost is NaN, or more than a tenth of the evaluations failed.
    """
    hooks = hooks or SearchHooks()
    with ExitStack() as stack:
        host = None
        if plan.evaluation.get("backend", "loky") == "loky":
            # Each stage has a problem of its own; starting worker processes takes seconds.
            host = stack.enter_context(closing(plan.shared_workers()))
        opened = partial(plan.evaluator, archive=archive, on_fit=hooks.fits, host=host)
        cut = None
        if plan.prefilter is not None:
            with opened(plan.prefilter.problem) as ranking:
                cut = hooks.cut(plan.prefilter, ranking)
            plan = plan.on_units(cut.kept)
        tuning = None
        if plan.tuning is not None:
            tuning = _tuned(plan, plan.tuning, opened, hooks)
            plan = plan.with_setting(tuning)
        evaluator = stack.enter_context(opened((plan.proxy or plan).problem))
        part_problems = () if plan.parts is None else plan.parts.problems
        on_parts = [stack.enter_context(opened(part)) for part in part_problems]
        steady = _steady(plan, evaluator)
        search = plan.search(evaluator, on_parts, steady)
        hooks.started(plan, evaluator)
        began = time.thread_time()
        try:
            if tuning is not None and tuning.interrupted is not None:
                result = replace(tuning.interrupted, reason="interrupted")
            else:
                result = run(
                    search, callbacks=hooks.epochs, step=lambda state: hooks.step(search, state)
                )
        except KeyboardInterrupt:
            known = _salvaged(search, evaluator) if salvage else None
            if known is None:
                raise
            result = known
        finally:
            if steady is not None:
                steady.close()
        evaluating = sum(each.cpu_seconds for each in (evaluator, *on_parts))
        algorithm = max(0.0, time.thread_time() - began - evaluating)
        result = hooks.ended(replace(result, cut=cut, tuning=tuning))
        if plan.rotate:
            step = "the evaluation on all partitions"
            result = _unless_interrupted(step, evaluate_finalists, result, search.evaluator)
        if on_parts:
            step = "the evaluation on all rows"
            result = _unless_interrupted(step, measure_parts, result, search)
        full = evaluator
        if plan.proxy is not None:
            full = stack.enter_context(opened(plan.problem))
            sizes = {"n_best": plan.proxy.n_best, "n_probes": plan.proxy.n_probes}
            result = hooks.confirm(result, evaluator, full, **sizes)
        if plan.confirmation is not None and not result.interrupted:
            fresh = stack.enter_context(opened(plan.confirmation.problem))
            result = _unless_interrupted(
                "the confirmation", hooks.confirm_fresh, result, full, fresh, plan.confirmation
            )
        known_on_parts = tuple(each.known for each in on_parts)
        return FinishedSearch(result, full.known, algorithm, evaluator.known, plan, known_on_parts)


def _unless_interrupted(
    name: str, step: Callable[..., SearchResult], result: SearchResult, *args: Any
) -> SearchResult:
    """Return the result after a step that follows the epochs; Ctrl-C ends the step alone."""
    if result.interrupted:
        return result
    try:
        return step(result, *args)
    except KeyboardInterrupt:
        return replace(result, cut_short=name)


def _tuned(
    plan: SearchPlan,
    tuning: Tuning,
    opened: Callable[[Problem], CrossValidation],
    hooks: SearchHooks,
) -> TuningResult:
    """Choose a setting of the model."""
    space, repeats = plan.problem.space, plan.problem.repeats

    def make_search(evaluator: Evaluator, warm: Bool, seed: int, budget: Budget) -> Search:
        hints = replace(plan.hints, warm=warm)
        return Search(plan.strategy, space, evaluator, hints, seed, budget, repeats=repeats)

    warm = in_turn([plan.everything[None, :], *plan.warm_masks], space.n_units)
    return hooks.tune(tuning, plan.rounds(), warm, plan.seed, opened, make_search)


def _steady(plan: SearchPlan, evaluator: CrossValidation) -> Steady | None:
    """Create what asynchronous epochs need, on the workers of `evaluator`; None without them."""
    if not plan.asynchronous:
        return None
    strategy, kept = plan.strategy, plan.kept
    name = search_name(
        evaluator.archive.fingerprint(evaluator.problem),
        strategy.strategy if isinstance(strategy, Narrowed) else strategy,
        plan.problem.space,
        plan.hints,
        plan.seed,
        pruning=evaluator.pruning,
        kept=None if kept is None else np.flatnonzero(kept).tolist(),
        n_clusters=None if plan.prefilter is None else plan.prefilter.n_clusters,
    )
    return Steady(MaskStream(evaluator), AnswerOrder(evaluator.archive, name))


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
    paid = float(costs[0] + space.penalty(best)[0])
    return replace(result, state=replace(state, best_mask=best[0], best_cost=paid))
