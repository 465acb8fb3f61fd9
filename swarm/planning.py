"""Estimate the time and memory of a search: time a few subsets, and simulate the rest.

The simulation runs the search on synthetic costs that resemble the measured ones, and counts
proposed, pruned and repeated subsets without training a model. Every estimate is a range: its upper
end assumes no pruning, its lower end more pruning and repetition than in the simulation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.limit import Race, limit_of, settle
from swarm.evaluation.types import Evaluations, Work
from swarm.machine import Machine
from swarm.search.budget import Budget
from swarm.search.driver import Search
from swarm.search.narrowed import Narrowed
from swarm.search.packing import unpack_masks
from swarm.search.rotation import N_FINALISTS
from swarm.storage.records import Record

# Kinds of synthetic costs: how much subsets differ, relative to the measured costs, and the share
# of units of a subset that the models do not use.
_LANDSCAPES = ((1.0, 0.0), (2.0, 0.15), (0.5, 0.3))
# Seconds before a simulation is stopped and extrapolated.
_PATIENCE = 3.0
# On real costs a converging swarm repeats subsets more often than on synthetic ones.
_REPEATS = 0.6
# Share of a core that a worker gets where each core has one: the search itself, Prefect and MLflow
# need time too. And the share that it gets at least on a busy machine.
_EFFICIENCY, _BUSY = 0.65, 0.5
# Seconds to submit and record an epoch, and to start workers.
_EPOCH, START_SECONDS = 0.15, 6.0
# Bytes of an archive row, of an epoch's artifact, and of a report with its figures.
_ROW, _FILE, _REPORT = 200, 8_000, 4_000_000
_THREADS = ("n_jobs", "nthread", "num_threads", "thread_count", "n_threads", "num_thread")


@dataclass(frozen=True)
class Span:
    """A range and its most likely value."""

    low: float
    typical: float
    high: float

    def capped(self, limit: float | None) -> Span:
        """Limit all three values; None means no limit."""
        if limit is None:
            return self
        return Span(min(self.low, limit), min(self.typical, limit), min(self.high, limit))

    def times(self, factor: float) -> Span:
        """Multiply all three values."""
        return Span(self.low * factor, self.typical * factor, self.high * factor)

    def __add__(self, other: Span) -> Span:
        """Add the values of both."""
        return Span(self.low + other.low, self.typical + other.typical, self.high + other.high)

    def __sub__(self, other: Span) -> Span:
        """Undo an addition."""
        return Span(self.low - other.low, self.typical - other.typical, self.high - other.high)


@dataclass(frozen=True)
class Timing:
    """Measurements of a few subsets on one thread.

    Attributes
    ----------
    sizes : int (n,)
        Units of the subsets.
    seconds : float64 (n,)
        Wall time of one fold of each, scoring included.
    costs : float64 (m, n_folds)
    first : float
        Seconds of the first subset, one-time initialisation included.
    exact : bool
        Whether costs came from a fast path, without fitting models.
    """

    sizes: Int
    seconds: Float
    costs: Float
    first: float
    exact: bool

    def with_subset(self, n_units: int, seconds: float) -> Timing:
        """Return the measurements with those of one more, larger subset."""
        sizes, times = np.append(self.sizes, n_units), np.append(self.seconds, seconds)
        return replace(self, sizes=sizes, seconds=times)


@dataclass(frozen=True)
class Plan:
    """The estimate of a search, and the measurements it is based on.

    Attributes
    ----------
    evaluations : Span
        Proposed subsets, repeated ones included.
    fits : Span
        Fold models of the search, or fold costs if no models are fitted.
    seconds_per_fit, search_seconds, confirm_seconds, after_seconds : Span
        Seconds of one fold, of the search with its confirmation, of the confirmation, and of the
        models and baselines after it.
    memory, archive, artifacts : Span
        Bytes.
    distances : int
        Bytes of the hints, part of `memory`.
    sequential : int or None
        Evaluations until the strategy finishes, conditional steps excluded; None if it depends on
        the costs or the budget.
    warnings, notes : tuple of str
    way : str
        Whether models are fitted, and why.
    proxy : bool
        Whether the search uses a cheaper model.
    prefilter_fits : int
        Largest number of fold models with which a prefilter ranks and cuts the units; 0 without.
    tuning_fits : int
        Largest number of fold models with which a setting of the model is chosen; 0 without.
    rows, units, folds, workers : int
    machine : Machine
    timing : Timing
    stages : mapping of str to Span
        Seconds of each stage of a run; empty if unknown.
    """

    evaluations: Span
    fits: Span
    seconds_per_fit: Span
    search_seconds: Span
    confirm_seconds: Span
    after_seconds: Span
    memory: Span
    archive: Span
    artifacts: Span
    distances: int
    sequential: int | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    way: str
    proxy: bool
    prefilter_fits: int
    tuning_fits: int
    rows: int
    units: int
    folds: int
    workers: int
    machine: Machine
    timing: Timing
    stages: Mapping[str, Span] = field(default_factory=dict)


def time_subsets(search: Search, count: int = 6, patience: float = 15.0) -> Timing:
    """Time a few masks that `search` would propose, one by one, by ascending size.

    Parameters
    ----------
    search : Search
        Its evaluator has one worker and a separate archive.
    count : int
        Number of masks.
    patience : float
        Seconds after which no further mask is evaluated; at least one is.

    Raises
    ------
    EvaluationError
        If the model fails on one of them.
    """
    evaluator = cast(CrossValidation, search.evaluator)
    # No costs are known yet, but the sizes of proposed masks hardly depend on them.
    blank = np.array([[0.25], [0.35]]) * np.ones(evaluator.n_folds)
    masks = _simulate(search, blank).masks
    masks = masks[np.argsort(masks.sum(axis=1), kind="stable")]
    masks = masks[np.unique(np.linspace(0, len(masks) - 1, count).round().astype(int))]
    exact = not evaluator.fits_models
    # With a fast path all masks take hardly longer than one.
    batches = [masks[:1], masks[1:]] if exact else np.split(masks, len(masks))
    seconds, costs = list[float](), list[Float]()
    for batch in batches:
        if not len(batch) or sum(seconds) > patience:
            break
        began = time.perf_counter()
        bounds = np.full(len(batch), np.inf)
        answer = evaluator.evaluate(batch, bounds, np.arange(evaluator.n_folds))
        seconds += [(time.perf_counter() - began) / len(batch)] * len(batch)
        costs.append(answer.fold_costs)
        if answer.failed.any():
            size = int(batch[answer.failed][0].sum())
            trace = (answer.first_error or "an unknown error").strip().splitlines()
            raise EvaluationError(f"the model fails on a subset of {size} units: {trace[-1]}")
    # The first evaluation includes one-time initialisation.
    timed = slice(1 if len(seconds) > 1 else 0, len(seconds))
    per_fold = np.array(seconds[timed]) / evaluator.n_folds
    sizes = masks.sum(axis=1, dtype=np.int64)[timed]
    return Timing(sizes, per_fold, np.concatenate(costs), seconds[0], exact)


def make_plan(
    search: Search,
    timing: Timing,
    machine: Machine,
    *,
    workers: int = 1,
    processes: bool = False,
    remote: bool = False,
    confirm_seconds: float = 0.0,
    rank_seconds: float = 0.0,
    proxy: bool = False,
    prefilter_fits: int = 0,
    tuning_fits: int = 0,
    models_after: float = 0.0,
) -> Plan:
    """Estimate the time and memory of `search` from the timing of a few subsets.

    Parameters
    ----------
    search : Search
    timing : Timing
    machine : Machine
    workers : int
        Number of workers of the search.
    processes, remote : bool
        Whether workers are processes of this machine; whether they run on another machine.
    confirm_seconds : float
        Training time of the confirmation: on the full model after a search with a cheaper one,
        and on fresh folds.
    rank_seconds : float
        Training time of a prefilter and of the choice of a setting of the model.
    proxy : bool
        Whether the search uses a cheaper model.
    prefilter_fits : int
        Largest number of fits of a prefilter; `search` then runs on a guess of its units.
    tuning_fits : int
        Largest number of fits to choose a setting of the model; `search` has the rest of the
        budget.
    models_after : float
        Number of models trained on all training rows after the search; one that takes longer than
        that of a subset counts more than once.

    Returns
    -------
    Plan
        Without the stages of a run that this library does not know.
    """
    evaluator, budget = cast(CrossValidation, search.evaluator), search.budget
    problem, n_folds, n_units = evaluator.problem, evaluator.n_folds, search.space.n_units
    parallel = workers if remote else min(workers, machine.cores)
    pace = float(timing.seconds.mean()) / parallel
    runs = [_simulate(search, timing.costs, kind, pace) for kind in _LANDSCAPES]
    evaluations, fits = _counts(search, runs)
    typical = sorted(runs, key=lambda run: run.fits)[1]
    sizes, order = typical.masks.sum(axis=1), np.argsort(timing.sizes)
    per_fold = np.interp(sizes, timing.sizes[order], timing.seconds[order])
    each = Span(float(per_fold.min()), float(per_fold.mean()), float(per_fold.max()))

    processes = processes and not timing.exact
    # The likely speed-up.
    likely = max(1.0, parallel * (_EFFICIENCY if workers >= machine.cores and not remote else 1.0))
    start, spent = START_SECONDS * processes, typical.epochs * _EPOCH
    wall = Span(
        fits.low * each.low / parallel * 0.7,
        fits.typical * each.typical / likely + spent / 3 + start / 2 + timing.first,
        fits.high * each.typical / max(1.0, parallel * _BUSY) * 1.5
        + (spent + start + 2 * typical.seconds + 3 * timing.first),
    )
    if budget.seconds is not None:
        wall = wall.capped(budget.seconds + 2 * each.high * fits.high / typical.epochs + start)
        if budget == Budget(seconds=budget.seconds) and _until_finished(search)[0] is None:
            # No other limit ends the search.
            least = budget.seconds
            wall = Span(least, max(least, wall.typical), max(least, wall.high))

    def trained(seconds: float, speed_up: float) -> Span:
        return Span(seconds / parallel / 2, seconds / speed_up, seconds * 2)

    wall += trained(rank_seconds, likely)
    confirm = trained(confirm_seconds, likely)
    per_partition = n_folds // problem.repeats
    after = models_after * each.high * per_partition / max(1, per_partition - 1)

    data = int(problem.features.memory_usage(deep=True).sum())
    least = machine.process + processes * workers * data
    most = least + processes * workers * machine.process
    memory = Span(least, (least + most) / 2, most)
    row = 1.2 * (_ROW + n_units / 8 + n_folds * (float(sizes.mean()) * (8 + 1 / 8) + 16))
    files = typical.epochs * _FILE + evaluations.high * (60 + n_units / 4)
    plan = Plan(
        evaluations=evaluations,
        fits=fits,
        seconds_per_fit=each,
        search_seconds=wall + confirm,
        confirm_seconds=confirm,
        after_seconds=trained(after, parallel),
        memory=memory,
        archive=Span(*(count * row / n_folds for count in (fits.low, fits.typical, fits.high))),
        artifacts=Span(_REPORT / 4 + files / 3, _REPORT / 2 + files / 2, _REPORT + files),
        distances=sum(_bytes_of(hint) for hint in vars(search.hints).values()),
        sequential=_until_finished(search)[0],
        warnings=(),
        notes=tuple(_notes(search, all(run.complete for run in runs), remote)),
        way=evaluator.way,
        proxy=proxy,
        prefilter_fits=prefilter_fits,
        tuning_fits=tuning_fits,
        rows=len(problem.target),
        units=n_units,
        folds=n_folds,
        workers=workers,
        machine=machine,
        timing=timing,
    )
    params = problem.estimator.get_params(deep=True)
    return replace(plan, warnings=tuple(_warnings(plan, params, remote)))


@dataclass(frozen=True)
class _Simulation:
    """Counts of a search on synthetic costs, extrapolated if it was stopped early."""

    epochs: float
    evaluations: float
    fits: float
    seconds: float
    masks: Bool
    complete: bool


def _simulate(
    search: Search,
    costs: Float,
    kind: tuple[float, float] = _LANDSCAPES[0],
    pace: float = 0.0,
) -> _Simulation:
    """Simulate `search` for a few seconds at most; `pace` is the time of a fit in seconds."""
    # Early stopping depends on the true costs; without it there may be no limit left.
    budget = replace(
        search.budget,
        patience=None,
        noise_floor=None,
        epochs=search.budget.epochs or 10**9,
    )
    synthetic = _SyntheticCosts(search, costs, *kind)
    parts = (synthetic,) * len(search.parts)
    simulated = replace(search, budget=budget, evaluator=synthetic, parts=parts)
    started = time.perf_counter()
    state, complete, own, seconds = simulated.start(), False, 0.0, 0.0
    while not complete and (own < _PATIENCE or state.epoch == 0):
        state, _ = simulated.step(state)
        own = time.perf_counter() - started
        seconds = own + state.counts.fits * pace + state.epoch * _EPOCH / 3
        complete = simulated.stop(state, seconds) is not None
    counts, growth = state.counts, 1.0
    if not complete:
        done = {**vars(counts), "epochs": state.epoch, "seconds": seconds}
        ends = [limit / done[name] for name, limit in vars(budget).items() if limit is not None]
        steps, _ = _until_finished(search)
        growth = min(ends if steps is None else [*ends, steps / counts.evaluations])
    return _Simulation(
        epochs=state.epoch * growth,
        evaluations=counts.evaluations * growth,
        fits=counts.fits * growth,
        seconds=own * growth,
        masks=unpack_masks(state.asked, search.space.n_units),
        complete=complete,
    )


class _SyntheticCosts:
    """An evaluator of synthetic costs, without models.

    Its costs resemble the measured ones (n, n_folds), with differences between subsets scaled by
    `steepness`. Models do not use a share `unused` of the units of a mask.
    """

    def __init__(self, search: Search, measured: Float, steepness: float, unused: float) -> None:
        evaluator = cast(CrossValidation, search.evaluator)
        self.n_folds, self._pruning = evaluator.n_folds, evaluator.pruning
        self._shrinks = evaluator.problem.exact_shrink
        self._unused = unused if evaluator.problem.importance != "none" else 0.0
        self._folds, means = measured.mean(axis=0), measured.mean(axis=1)
        level = float(np.abs(self._folds).mean()) or 1.0
        rest = measured - self._folds - means[:, None] + means.mean()
        self._spread = max(float(means.std()), 0.03 * level) * steepness
        self._noise = max(float(rest.std()), 0.01 * level)
        rng = np.random.default_rng([search.seed, 0x5A4B])
        # Typically a few units matter much and most hardly at all.
        self._weights = rng.exponential(size=search.space.n_units) ** 2
        self._phases = rng.uniform(0, 1e3, size=(search.space.n_units, self.n_folds))

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        """Evaluate without training; see :class:`swarm.evaluation.types.Evaluator`."""
        costs = self._costs(masks)
        bounds = incumbents if self._pruning else np.full(len(masks), np.inf)
        blank = Record.unknown(self.n_folds, 0)
        records = [replace(blank, fold_costs=row) for row in costs]
        folds, share = np.sort(fold_order), len(fold_order) / self.n_folds
        limits = [limit_of(bound * share, race, row) for row, bound in enumerate(bounds.tolist())]
        needed, _ = settle(records, fold_order, limits)
        means = costs[:, folds].sum(axis=1) / len(folds)
        worse = ~needed[:, folds].all(axis=1) | (means > bounds)
        costs[:, np.setdiff1d(np.arange(self.n_folds), folds)] = np.nan
        used = self._used(masks)
        return Evaluations(
            costs=np.where(worse, np.inf, means),
            fold_costs=np.where(worse[:, None], np.nan, costs),
            importances=np.where(used & ~worse[:, None], self._weights, 0.0),
            used=used,
            censored=worse,
            failed=np.zeros(len(masks), dtype=bool),
            needed=needed,
            exact_shrink=self._shrinks,
            work=Work(),
        )

    def _costs(self, masks: Bool) -> Float:
        """Fold costs (n, n_folds), a deterministic function of the mask."""
        weights = self._weights
        share = (masks @ weights - weights.sum() / 2) / (np.sqrt((weights**2).sum()) / 2)
        # Every further unit adds a small cost.
        burden = masks.mean(axis=1) - 0.5
        noise = np.sin(masks @ self._phases) * np.sqrt(2)
        costs = self._folds + self._spread * (burden - share)[:, None] + self._noise * noise
        least = 0.05 * self._folds.mean() * (1 + 0.1 * noise)
        bounded: Float = np.maximum(costs, least)
        return bounded

    def _used(self, masks: Bool) -> Bool:
        idle = np.sin(masks @ self._phases[:, :1] + self._phases[:, 0]) < 2 * self._unused - 1
        used = masks & ~idle
        return np.where(used.any(axis=1, keepdims=True), used, masks)


def _until_finished(search: Search) -> tuple[int | None, bool]:
    """Evaluations until the strategy finishes, if known, and whether that is an upper bound."""
    least, most = search.strategy.evaluations_in(search.space)
    return (least or None, False) if most is None else (most, True)


def _counts(search: Search, runs: Sequence[_Simulation]) -> tuple[Span, Span]:
    """Ranges of evaluations and of fits."""
    budget, n_folds = search.budget, search.evaluator.n_folds
    per_mask = n_folds // search.repeats if search.rotate else n_folds
    asked, needed = [run.evaluations for run in runs], [run.fits for run in runs]
    least, most, repeats = min(asked), max(asked), _REPEATS
    steps, bounded = _until_finished(search)
    if steps is not None and not bounded:
        # The number of conditional steps depends on the true costs, and may be 0.
        least, needed, most = min(least, steps), [*needed, steps * n_folds], 2 * most
    elif steps is not None:
        # Without conditional steps a sequential search has the same length for all costs.
        repeats = 1.0
    if budget.distinct is not None or budget.fits is not None or budget.seconds is not None:
        # How many evaluations such a budget allows depends on the true costs.
        least, most = min(least, budget.distinct or least) * _REPEATS, 2 * most
    share = 1.0
    if budget.patience is not None:
        share = min(1.0, (budget.patience + 1) / max(run.epochs for run in runs))
    if budget.noise_floor is not None:
        share = min(share, (budget.noise_floor + 1) / max(run.epochs for run in runs))
    if budget.seconds is not None:
        # Other programs may slow down the search, and large batches speed up a fast path.
        share, most = share / 2, 3 * most
    evaluations = Span(least * share, float(np.median(asked)), most).capped(budget.evaluations)
    # With rotation a mask may be evaluated on every partition.
    masks = evaluations if search.rotate else evaluations.capped(budget.distinct)
    unpruned = masks.high * per_mask
    low, typical = min(needed) * repeats * share, float(np.median(needed))
    fits = Span(low, typical, max(unpruned, *needed))
    if budget.fits is not None:
        # The search ends after the epoch that reaches this limit.
        fits = fits.capped(budget.fits + max(run.fits / run.epochs for run in runs))
    if search.rotate:
        more = N_FINALISTS * (n_folds - per_mask)
        fits = Span(fits.low, fits.typical + more, fits.high + more)
        high = evaluations.high + N_FINALISTS
        evaluations = Span(evaluations.low, evaluations.typical + N_FINALISTS, high)
    return evaluations, fits


def _bytes_of(hint: object) -> int:
    """Bytes of an array, or of the arrays of a distances object."""
    parts = [hint] if isinstance(hint, np.ndarray) else getattr(hint, "__dict__", {}).values()
    return sum(int(getattr(part, "nbytes", 0)) for part in parts)


def _warnings(plan: Plan, params: Mapping[str, Any], remote: bool) -> list[str]:
    """Warn of too many workers, threads or bytes; `params` are those of the estimator."""
    machine, memory, found = plan.machine, plan.memory, list[str]()
    threads = {}
    for name, value in params.items():
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if name.rpartition("__")[2] in _THREADS and whole and value != 1:
            threads[name] = machine.cores if value < 1 else int(value)
    most = max(threads.values(), default=1)
    cores = f"{machine.cores} cores"
    if limited := machine.cores < machine.cores_of_machine:
        cores += f" available to this process, of {machine.cores_of_machine} in the machine"
    if plan.workers * most > machine.cores and not (remote or plan.timing.exact):
        named = ", ".join(f"{name} {value}" for name, value in threads.items())
        each = f" with {most} threads each ({named})" if threads else ""
        found.append(
            f"{plan.workers} workers{each} share {cores}; set evaluation.n_jobs to "
            f"{max(1, machine.cores // most)}" + (" and the threads to 1" if threads else "")
        )
    elif limited:
        found.append(f"{cores}; more workers would not speed up the search")
    if machine.memory is not None and memory.high > machine.memory:
        doubt = "needs" if memory.low > machine.memory else "may need"
        found.append(
            f"the search {doubt} {memory.high / 2**30:.1f} GiB of memory, but "
            f"{machine.memory / 2**30:.1f} GiB are available; use fewer workers (evaluation.n_jobs)"
        )
    return found


def _notes(search: Search, complete: bool, remote: bool) -> list[str]:
    notes = []
    steps, bounded = _until_finished(search)
    if steps is not None:
        more = "" if bounded else ", conditional steps excluded"
        notes.append(f"evaluations in total: {steps:,}{more}")
    if isinstance(search.strategy, Narrowed):
        kept, units = int(search.strategy.kept.sum()), search.space.n_units
        notes.append(
            "the prefilter decides how many units are searched; estimated for "
            f"{kept:,} of {units:,}"
        )
    if not complete:
        notes.append("the simulation was stopped early; these estimates are extrapolated")
    if search.budget.patience is not None:
        notes.append(f"budget.patience {search.budget.patience} may end the search much earlier")
    if search.budget.noise_floor is not None:
        rule = f"budget.noise_floor {search.budget.noise_floor}"
        notes.append(f"{rule} may end the search much earlier")
    if search.racing is not None:
        notes.append("racing saves more than estimated if subsets differ clearly")
    if remote:
        notes.append("workers run on another machine, but fits were timed on this one")
    return notes
