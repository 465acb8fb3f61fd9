"""The description of a search, and the function that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.limit import Race
from swarm.evaluation.stream import MaskStream
from swarm.evaluation.types import Evaluations, Evaluator, Work
from swarm.evaluation.workers import Workers
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.problem import Problem
from swarm.search.asked import looked_up, training_seconds
from swarm.search.budget import Budget, Counts
from swarm.search.confirmation import ConfirmationPlan, confirm_on_fresh_folds
from swarm.search.driver import Search, SearchState, run
from swarm.search.history import EpochRecord
from swarm.search.narrowed import Narrowed
from swarm.search.options import check_options
from swarm.search.packing import first_of_equal, in_turn, pack_folds, pack_masks
from swarm.search.prefilter import Cut, Prefilter, cut_units
from swarm.search.proxy import LOW_CORRELATION, best_subsets, confirm
from swarm.search.result import SearchResult
from swarm.search.rotation import evaluate_finalists
from swarm.search.row_parts import RowParts, folds_on_parts, measure_parts
from swarm.search.steady import Steady, search_name
from swarm.search.tuning import (
    Round,
    Tuning,
    TuningResult,
    choose_setting,
    rounds_of,
    subsets_in,
    without_rounds,
)
from swarm.storage.archive import AnswerOrder, Archive, KnownEvaluations
from swarm.storage.records import Record
from swarm.strategies.base import Strategy

__all__ = ["FinishedSearch", "Proxy", "SearchHooks", "SearchPlan", "run_search"]


@dataclass(frozen=True, eq=False)
class Proxy:
    """A cheaper model that guides a search; see :func:`swarm.search.proxy.confirm`.

    Attributes
    ----------
    problem : Problem
        The same rows and folds, with the cheaper model.
    n_best, n_probes : int
        How many of the best subsets, and of all requested ones, are measured on the full model.
    """

    problem: Problem
    n_best: int = 16
    n_probes: int = 12


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """The description of a search.

    Attributes
    ----------
    problem : Problem
    strategy : Strategy
    hints : Hints
    budget : Budget
    seed : int
    racing : float or None
        See :class:`swarm.search.driver.Search`.
    evaluation : mapping
        Options of :class:`swarm.evaluation.crossval.CrossValidation`: `n_jobs`, `backend`,
        `pruning`, `exact`, `device`, `address`, `timeout`.
    proxy : Proxy or None
    confirmation : ConfirmationPlan or None
    rotate : int
        Epochs on one fold partition at a time, see :mod:`swarm.search.rotation`; 0 for no rotation.
    prefilter : Prefilter or None
        How units are left out before the search.
    tuning : Tuning or None
        The settings of the model of which one is chosen before the search, see
        :mod:`swarm.search.tuning`. `problem` is then a stand-in with the settings that the
        estimator has; only its rows, folds, units and scorer are used.
    parts : RowParts or None
        Parts of the rows on which the subsets of an epoch are evaluated first, see
        :mod:`swarm.search.row_parts`.
    asynchronous : bool
        Whether a worker that is idle gets the next subset without waiting for the epoch, see
        :mod:`swarm.search.steady`.
    """

    problem: Problem
    strategy: Strategy
    hints: Hints
    budget: Budget
    seed: int = 0
    racing: float | None = None
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    proxy: Proxy | None = None
    confirmation: ConfirmationPlan | None = None
    rotate: int = 0
    prefilter: Prefilter | None = None
    tuning: Tuning | None = None
    parts: RowParts | None = None
    asynchronous: bool = False

    def __post_init__(self) -> None:
        check_options(
            self.strategy,
            repeats=self.problem.repeats,
            rotate=self.rotate,
            racing=self.racing,
            noise_floor=self.budget.noise_floor,
            importance=self.problem.importance,
            rows=None if self.parts is None else self.parts.rows[0],
            asynchronous=self.asynchronous,
            proxy=self.proxy is not None,
            tuning=self.tuning is not None,
        )

    def check(self) -> None:
        """Validate the parameters of the strategy against the data, before a run is created.

        Raises
        ------
        InputError
            If the strategy rejects them.
        ConfigError
            If there is not enough memory for the first state, or the budget is too small for the
            settings of the model.
        """
        strategy = self.strategy
        if self.prefilter is not None:
            # The smallest search that the prefilter can leave.
            strategy = self.narrowed(self.first_units(self.prefilter.bounds(self.problem.space)[0]))
        try:
            if self.tuning is None:
                strategy.start(
                    self.problem.space, self.hints, np.random.default_rng([self.seed, 0])
                )
            else:
                self.rounds(self.per_epoch(strategy))
        except MemoryError:
            raise ConfigError(
                f"the strategy needs more memory for {self.problem.space.n_units:,} units than "
                "is available; reduce the population size in strategy.params"
            ) from None

    def per_epoch(self, strategy: Strategy) -> int:
        """Return the number of subsets that the strategy, or a narrowed one, proposes at first."""
        state = strategy.start(
            self.problem.space, self.hints, np.random.default_rng([self.seed, 0])
        )
        return len(strategy.propose(state, np.random.default_rng([self.seed, 1]))[1].masks)

    def rounds(self, per_epoch: int) -> tuple[Round, ...]:
        """Return the rounds in which a setting of the model is chosen; none without a tuning.

        Raises
        ------
        ConfigError
            If the budget is too small for the settings.
        """
        if self.tuning is None:
            return ()
        subsets = subsets_in(self.budget, self.problem.n_folds, per_epoch)
        return rounds_of(len(self.tuning.settings), subsets)

    def with_setting(self, found: TuningResult, per_epoch: int) -> SearchPlan:
        """Return the search with the chosen setting, on what the rounds left of the budget."""
        assert self.tuning is not None
        problem = self.tuning.problems[found.chosen]
        # Half of the first positions are new.
        carried = found.warm[: max(1, per_epoch // 2), None]
        warm = in_turn([*carried, *self.warm_masks], problem.space.n_units)
        confirmation = self.confirmation
        if confirmation is not None:
            fresh = problem.with_folds(confirmation.problem.folds)
            confirmation = replace(confirmation, problem=fresh)
        spent = found.evaluations, found.distinct, found.fits
        return replace(
            self,
            problem=problem,
            hints=replace(self.hints, warm=warm),
            budget=without_rounds(self.budget, *spent, per_epoch),
            confirmation=confirmation,
            tuning=None,
        )

    def with_own_hints(self) -> SearchPlan:
        """Drop the hints that the strategy does not need."""
        own = {name: getattr(self.hints, name) for name in self.strategy.needs}
        return replace(self, hints=Hints(**own))

    def narrowed(self, kept: Bool) -> Narrowed:
        """Return the strategy on the units of `kept` (n_units,), with their own hints."""
        problem, warm = self.problem, self.hints.warm
        space = problem.space.restricted(kept)
        n_clusters = None if self.prefilter is None else self.prefilter.n_clusters
        if warm is not None:
            warm = warm[:, kept]
            warm = warm[warm.any(axis=1)]
        hints = prepare_hints(
            problem.features.iloc[:, problem.space.positions(kept)],
            space,
            None if problem.task == "unsupervised" else problem.target,
            problem.task,
            n_clusters=None if n_clusters is None else min(n_clusters, space.n_units),
            warm=warm,
            needs=self.strategy.needs,
        )
        return Narrowed(self.strategy, kept, hints)

    def first_units(self, count: int) -> Bool:
        """Return a mask of `count` units, fixed ones first: a stand-in for what is kept."""
        space = self.problem.space
        chosen = np.lexsort((~space.fixed, space.forbidden))[:count]
        mask = np.zeros(space.n_units, dtype=bool)
        mask[chosen] = True
        return mask

    @property
    def warm_masks(self) -> list[Bool]:
        """Each of the saved subsets (1, n_units) that the search starts from."""
        return [] if self.hints.warm is None else list(self.hints.warm[:, None])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problem, and that of the proxy, if any; with a tuning, that of each setting."""
        if self.tuning is not None:
            return self.tuning.problems
        return (self.problem,) if self.proxy is None else (self.problem, self.proxy.problem)

    def evaluator(
        self,
        problem: Problem,
        archive: Archive,
        on_fit: Callable[[Bool, Record], None] | None = None,
        host: Workers | None = None,
    ) -> CrossValidation:
        """Create the evaluator of one of the problems, with the processes of `host` if given."""
        return CrossValidation(
            problem,
            archive,
            on_fit=on_fit,
            importances=self.strategy.uses_importances,
            host=host,
            **self.evaluation,
        )

    def shared_workers(self) -> Workers:
        """Create workers whose processes the evaluators of several problems share."""
        names = ("n_jobs", "backend", "address", "timeout")
        given = {name: self.evaluation[name] for name in names if name in self.evaluation}
        return Workers(self.problem, **given)

    def steady(self, timed: _Timed, kept: Bool | None) -> Steady | None:
        """Create what asynchronous epochs need, on the workers of `timed`; None without them."""
        if not self.asynchronous:
            return None
        evaluator = timed.evaluator
        name = search_name(
            evaluator.archive.fingerprint(evaluator.problem),
            self.strategy,
            self.problem.space,
            self.hints,
            self.seed,
            pruning=evaluator.pruning,
            kept=None if kept is None else np.flatnonzero(kept).tolist(),
            n_clusters=None if self.prefilter is None else self.prefilter.n_clusters,
        )
        return Steady(_TimedStream(timed), AnswerOrder(evaluator.archive, name))

    def search(
        self,
        evaluator: Evaluator,
        kept: Bool | None = None,
        parts: Sequence[Evaluator] = (),
        steady: Steady | None = None,
    ) -> Search:
        """Create the search with its evaluators, on the units of `kept` (n_units,) if given."""
        return Search(
            self.strategy if kept is None else self.narrowed(kept),
            self.problem.space,
            evaluator,
            self.hints if kept is None else Hints(),
            self.seed,
            self.budget,
            self.racing,
            self.problem.repeats,
            self.rotate,
            parts,
            self.parts.rows if self.parts is not None and parts else (),
            steady,
        )


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
        Called with the evaluator before the first epoch.
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
    cut_ended : callable
        Called with the :class:`swarm.search.prefilter.Cut`.
    tune : callable
        Chooses a setting of the model before the search.
    tuned : callable
        Called with the :class:`swarm.search.tuning.TuningResult` and the plan of the search.
    """

    started: Callable[[CrossValidation], None] = lambda evaluator: None
    step: Callable[[Search, SearchState], tuple[SearchState, EpochRecord]] = Search.step
    epochs: Sequence[Callable[[EpochRecord, SearchState], None]] = ()
    fits: Callable[[Bool, Record], None] | None = None
    ended: Callable[[SearchResult], SearchResult] = lambda result: result
    confirm: Callable[..., SearchResult] = confirm
    confirm_fresh: Callable[..., SearchResult] = confirm_on_fresh_folds
    cut: Callable[[Prefilter, CrossValidation], Cut] = cut_units
    cut_ended: Callable[[Cut], None] = lambda cut: None
    tune: Callable[..., TuningResult] = choose_setting
    tuned: Callable[[TuningResult, SearchPlan], None] = lambda found, plan: None


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
        cut = kept = None
        if plan.prefilter is not None:
            with opened(plan.prefilter.problem) as ranking:
                cut = hooks.cut(plan.prefilter, ranking)
            hooks.cut_ended(cut)
            kept = cut.kept
        tuning = None
        if plan.tuning is not None:
            tuning, plan = _tuned(plan, plan.tuning, kept, opened, hooks)
            hooks.tuned(tuning, plan)
        evaluator = stack.enter_context(opened((plan.proxy or plan).problem))
        timed = _Timed(evaluator)
        part_problems = () if plan.parts is None else plan.parts.problems
        on_parts = [_Timed(stack.enter_context(opened(part))) for part in part_problems]
        steady = plan.steady(timed, kept)
        search = plan.search(timed, kept, on_parts, steady)
        hooks.started(evaluator)
        began = time.thread_time()
        try:
            if tuning is not None and tuning.interrupted is not None:
                result = replace(tuning.interrupted, reason="interrupted")
            else:
                result = run(
                    search,
                    callbacks=(*(each.forget for each in (timed, *on_parts)), *hooks.epochs),
                    step=lambda state: hooks.step(search, state),
                )
        except KeyboardInterrupt:
            known = _salvaged(search, timed) if salvage else None
            if known is None:
                raise
            result = known
        finally:
            if steady is not None:
                steady.close()
        evaluating = sum(each.seconds for each in (timed, *on_parts))
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
        known_on_parts = tuple(each.evaluator.known for each in on_parts)
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
    kept: Bool | None,
    opened: Callable[[Problem], CrossValidation],
    hooks: SearchHooks,
) -> tuple[TuningResult, SearchPlan]:
    """Choose a setting of the model, on the units of `kept` if given; return the rest as a plan."""
    space = plan.problem.space
    narrowed = None if kept is None else plan.narrowed(kept)
    per_epoch = plan.per_epoch(plan.strategy if narrowed is None else narrowed)

    def make_search(evaluator: Evaluator, warm: Bool, seed: int, budget: Budget) -> Search:
        strategy, hints = plan.strategy, replace(plan.hints, warm=warm)
        if narrowed is not None:
            inside = warm[:, narrowed.kept]
            own = replace(narrowed.hints, warm=inside[inside.any(axis=1)])
            strategy, hints = replace(narrowed, hints=own), Hints()
        return Search(strategy, space, evaluator, hints, seed, budget, repeats=plan.problem.repeats)

    every = ~space.forbidden[None, :] if kept is None else kept[None, :]
    warm = in_turn([every, *plan.warm_masks], space.n_units)
    found = hooks.tune(tuning, plan.rounds(per_epoch), warm, plan.seed, opened, make_search)
    return found, plan.with_setting(found, per_epoch)


class _Timed:
    """An evaluator that measures the CPU time this thread spends in it.

    Attributes
    ----------
    n_folds : int
    seconds : float
        CPU time.
    asked : list of bool (n, n_units)
        Masks of every batch since the last epoch.
    """

    def __init__(self, evaluator: CrossValidation) -> None:
        self.evaluator = evaluator
        self.n_folds = evaluator.n_folds
        self.seconds = 0.0
        self.asked: list[Bool] = []

    def evaluate(
        self,
        masks: Bool,
        incumbents: Float,
        fold_order: Int,
        race: Race | None = None,
    ) -> Evaluations:
        self.asked.append(masks)
        with self.clock():
            return self.evaluator.evaluate(masks, incumbents, fold_order, race)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Measure the CPU time of this context."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - began

    def forget(self, record: EpochRecord, state: SearchState) -> None:
        """Drop the masks of a finished epoch."""
        self.asked.clear()


class _TimedStream(MaskStream):
    """A stream whose CPU time in this thread, and whose masks, count as those of `timed`."""

    def __init__(self, timed: _Timed) -> None:
        super().__init__(timed.evaluator)
        self._timed = timed

    def ask(self, numbers: Int, masks: Bool, incumbents: Float, fold_order: Int) -> None:
        self._timed.asked.append(masks)
        with self._timed.clock():
            super().ask(numbers, masks, incumbents, fold_order)

    def finished(self) -> list[int]:
        with self._timed.clock():
            return super().finished()

    def save(self) -> Work:
        with self._timed.clock():
            return super().save()


def _salvaged(search: Search, timed: _Timed) -> SearchResult | None:
    """Return the best evaluated subset of an unfinished first epoch, if any.

    Other evaluations in the archive are not read: there may be millions.
    """
    evaluator, space = timed.evaluator, search.space
    if not timed.asked:
        return None
    requested = np.vstack(timed.asked)
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
