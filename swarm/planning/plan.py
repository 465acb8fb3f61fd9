"""What a search will take, put together from a rehearsal, timed subsets and the machine.

Every figure is a range. Its top is what nothing can exceed, or what happens where nothing is
saved; its bottom assumes that as much is saved as made-up costs allow, and some more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from swarm.planning.machine import Machine
from swarm.planning.rehearsal import Rehearsal, steps_of
from swarm.planning.timing import Timing
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.strategies.base import Strategy
from swarm.strategies.exhaustive import Exhaustive
from swarm.strategies.operators.add_drop import FloatingSettings

__all__ = ["Plan", "Settings", "Span", "make_plan"]

# Swarms that agree repeat themselves more often than on made-up costs.
_REPEATS = 0.6
# Share of a core that a worker is sure to make use of, on a machine that does other things too.
_BUSY = 0.5
# Seconds that handing out an epoch and writing it down takes, and that starting workers does.
_EPOCH, _START = 0.15, 6.0
_ROW, _FILE, _REPORT = 200, 8_000, 4_000_000
_THREADS = ("n_jobs", "nthread", "num_threads", "thread_count", "n_threads", "num_thread")


@dataclass(frozen=True)
class Span:
    """A range, and what is most likely in it."""

    low: float
    typical: float
    high: float

    def times(self, factor: float) -> Span:
        """Scale all three."""
        return Span(self.low * factor, self.typical * factor, self.high * factor)


@dataclass(frozen=True)
class Settings:
    """How the search would be run.

    Attributes
    ----------
    workers : int
    processes : bool
        Whether workers are processes of this machine.
    elsewhere : bool
        Whether they are on another one.
    pruning : bool
    racing : bool
    full_evaluations : int
        Evaluations on the full model after a search on a cheaper one.
    full_seconds : float
        Seconds of one fold of them.
    models_after : int
        Models that are trained on all training rows when the search is over.
    """

    workers: int
    processes: bool
    elsewhere: bool = False
    pruning: bool = True
    racing: bool = False
    full_evaluations: int = 0
    full_seconds: float = 0.0
    models_after: int = 0


@dataclass(frozen=True)
class Plan:
    """What a search will take.

    Attributes
    ----------
    evaluations : Span
        Subsets asked for.
    fits : Span
        Fold models (or fold costs, where no models are fitted) of the search; the top is without
        pruning, racing or any repetition.
    seconds_per_fit : Span
    search_seconds, after_seconds : Span
        Wall time of the search, and of the models and baselines after it.
    memory, archive, artifacts : Span
        Bytes.
    distances : int
        Bytes of the distances, part of `memory`.
    sequential : int or None
        Evaluations of a sequential strategy without steps back, or of an exhaustive one.
    warnings, notes : tuple of str
    """

    evaluations: Span
    fits: Span
    seconds_per_fit: Span
    search_seconds: Span
    after_seconds: Span
    memory: Span
    archive: Span
    artifacts: Span
    distances: int
    sequential: int | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def make_plan(
    problem: Problem,
    strategy: Strategy,
    budget: Budget,
    rehearsals: Sequence[Rehearsal],
    timing: Timing,
    machine: Machine,
    settings: Settings,
    distances: int = 0,
) -> Plan:
    """Put a plan together.

    Parameters
    ----------
    rehearsals : sequence of Rehearsal
        On landscapes of different kinds.
    distances : int
        Bytes of the hints.
    """
    folds = problem.n_folds
    steps = steps_of(strategy, problem.space)
    typical = sorted(rehearsals, key=lambda r: r.fits)[len(rehearsals) // 2]
    per_fold = timing.per_fold(typical.sizes)
    each = Span(float(per_fold.min()), float(np.average(per_fold)), float(per_fold.max()))
    at_once = max(
        1, settings.workers if settings.elsewhere else min(settings.workers, machine.cores)
    )
    pace = each.typical / at_once
    growth = [_growth(r, budget, steps, pace) for r in rehearsals]
    asked = [r.evaluations * g for r, g in zip(rehearsals, growth, strict=True)]
    needed = [r.fits * g for r, g in zip(rehearsals, growth, strict=True)]
    floating = isinstance(strategy, FloatingSettings)
    kind = "an exhaustive" if isinstance(strategy, Exhaustive) else "a sequential"
    least, most = min(asked), max(asked)
    if floating and steps is not None:
        # How often a path turns back hangs on the true costs; it may be never.
        least, needed, most = min(least, steps), [*needed, steps * folds], 2 * most
    if budget.distinct is not None or budget.fits is not None:
        # What else is asked for again and again hangs on them too.
        least, most = min(least, budget.distinct or least) * _REPEATS, 2 * most
    evaluations = _capped(Span(least, float(np.median(asked)), most), budget.evaluations)
    all_folds = _capped(evaluations, budget.distinct).high * folds
    epoch = max(r.fits / max(1, r.epochs) for r in rehearsals)
    # Without steps back a sequential search is the same whatever the costs.
    repeats = _REPEATS if steps is None or floating else 1.0
    fits = Span(min(needed) * repeats, float(np.median(needed)), max(all_folds, *needed))
    if budget.fits is not None:
        # It ends the search after the epoch that reaches it.
        fits = _capped(fits, budget.fits + epoch)
    if budget.patience is not None and typical.epochs:
        share = min(1.0, (budget.patience + 1) / (typical.epochs * max(growth)))
        fits = Span(fits.low * share, fits.typical, fits.high)
        evaluations = Span(evaluations.low * share, evaluations.typical, evaluations.high)
    if budget.seconds is not None:
        fits = _capped(fits, budget.seconds * at_once / max(each.low, 1e-6) + epoch)
        fits = Span(min(fits.low, budget.seconds / each.high / 2), fits.typical, fits.high)
    wall = _wall(fits, each, typical, at_once, timing, settings, max(growth))
    if budget.seconds is not None:
        wall = _capped(wall, budget.seconds + epoch * each.high * 2 + _START)
        if budget.epochs is budget.evaluations is budget.distinct is budget.fits is None:
            wall = Span(budget.seconds, max(budget.seconds, wall.typical), wall.high)
    full = settings.full_evaluations * folds * settings.full_seconds
    wall = Span(wall.low + full / at_once / 2, wall.typical + full / at_once, wall.high + full * 2)
    whole = settings.models_after * each.high * folds / max(1, folds - 1)
    data = int(problem.features.memory_usage(deep=True).sum())
    return Plan(
        evaluations=evaluations,
        fits=fits,
        seconds_per_fit=each,
        search_seconds=wall,
        after_seconds=Span(whole / at_once / 2, whole / at_once + 2, whole * 2 + 60),
        memory=_memory(machine, settings, data, timing.exact),
        archive=_archive(fits, typical, folds),
        artifacts=_artifacts(typical, evaluations, max(growth)),
        distances=distances,
        sequential=steps,
        warnings=tuple(_warnings(problem, machine, settings, data, timing.exact)),
        notes=tuple(_notes(rehearsals, budget, settings, steps, floating, kind)),
    )


def _growth(rehearsal: Rehearsal, budget: Budget, steps: int | None, pace: float) -> float:
    """How many times as long a rehearsal would be that came to its end, at `pace` s a fit."""
    if rehearsal.complete or not rehearsal.evaluations:
        return 1.0
    ends = []
    if budget.epochs is not None:
        ends.append(budget.epochs / max(1, rehearsal.epochs))
    for name in ("evaluations", "distinct", "fits"):
        limit = getattr(budget, name)
        if limit is not None:
            ends.append(limit / max(1, getattr(rehearsal, name)))
    if steps is not None:
        ends = [steps / rehearsal.evaluations, *(e for e in ends if budget.epochs is None)]
    if budget.seconds is not None:
        took = rehearsal.seconds + rehearsal.fits * pace + rehearsal.epochs * _EPOCH / 3
        ends.append(budget.seconds / took)
    return min(ends, default=1.0)


def _capped(span: Span, limit: float | None) -> Span:
    if limit is None:
        return span
    return Span(min(span.low, limit), min(span.typical, limit), min(span.high, limit))


def _wall(
    fits: Span,
    each: Span,
    typical: Rehearsal,
    at_once: int,
    timing: Timing,
    settings: Settings,
    growth: float,
) -> Span:
    """Seconds of the search: training, starting workers, and what the strategy does itself."""
    epochs = typical.epochs * growth
    own = typical.seconds * growth
    start = _START if settings.processes and not timing.exact else 0.0
    return Span(
        fits.low * each.low / at_once * 0.7,
        fits.typical * each.typical / at_once + start / 2 + epochs * _EPOCH / 3 + timing.first,
        fits.high * each.typical / max(1.0, at_once * _BUSY) * 1.5
        + start
        + epochs * _EPOCH
        + 2 * own
        + 3 * timing.first,
    )


def _memory(machine: Machine, settings: Settings, data: int, exact: bool) -> Span:
    """Bytes: what this process took to read, prepare and train is what a worker may take."""
    workers = settings.workers if settings.processes and not exact else 0
    least = machine.process + workers * data
    most = machine.process * (1 + workers) + workers * data
    return Span(least, (least + most) / 2, most)


def _archive(fits: Span, typical: Rehearsal, folds: int) -> Span:
    """Bytes of the rows: packed masks, costs, importances of the units in each mask."""
    size = float(typical.sizes.mean()) if len(typical.sizes) else 1.0
    row = _ROW + typical.masks.shape[1] / 8 + folds * size * (8 + 1 / 8) + 16 * folds
    return Span(fits.low / folds, fits.typical / folds, fits.high / folds).times(row * 1.2)


def _artifacts(typical: Rehearsal, evaluations: Span, growth: float) -> Span:
    particle = 60 + typical.masks.shape[1] / 4
    files = typical.epochs * growth * _FILE
    made = files + evaluations.high * particle
    return Span(_REPORT / 4 + made / 3, _REPORT / 2 + made / 2, _REPORT + made)


def _warnings(
    problem: Problem, machine: Machine, settings: Settings, data: int, exact: bool
) -> list[str]:
    told = []
    threads = _threads(problem.estimator.get_params(deep=True), machine.cores)
    total = settings.workers * max(threads.values(), default=1)
    limited = machine.cores < machine.cores_of_machine
    cores = f"{machine.cores} cores" + (
        f" that this process may use of the machine's {machine.cores_of_machine}" if limited else ""
    )
    if not settings.elsewhere and total > machine.cores and not exact:
        named = ", ".join(f"{name} {value}" for name, value in threads.items())
        each = f" with {max(threads.values())} threads each ({named})" if threads else ""
        told.append(
            f"{settings.workers} workers{each} share {cores}; set evaluation.n_jobs to "
            f"{max(1, machine.cores // max(threads.values(), default=1))}"
            + (" and the threads to 1" if threads else "")
        )
    elif limited:
        told.append(f"there are {cores}; more workers than that would only wait for each other")
    memory = _memory(machine, settings, data, exact)
    if machine.memory is not None and memory.high > machine.memory:
        doubt = "needs" if memory.low > machine.memory else "may need"
        told.append(
            f"the search {doubt} {memory.high / 2**30:.1f} GiB and there are "
            f"{machine.memory / 2**30:.1f}; use fewer workers (evaluation.n_jobs)"
        )
    return told


def _threads(params: Mapping[str, Any], cores: int) -> dict[str, int]:
    """Parameters by which an estimator starts threads of its own, with their number."""
    found = {}
    for name, value in params.items():
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if name.rpartition("__")[2] in _THREADS and whole and value != 1:
            found[name] = cores if value < 1 else int(value)
    return found


def _notes(
    rehearsals: Sequence[Rehearsal],
    budget: Budget,
    settings: Settings,
    steps: int | None,
    floating: bool,
    kind: str,
) -> list[str]:
    told = []
    if steps is not None:
        back = ", and steps back come on top" if floating else ""
        told.append(f"{kind} search to its end takes {steps:,} evaluations{back}")
    if not all(r.complete for r in rehearsals):
        told.append("the rehearsal was broken off, and what follows is extrapolated")
    if budget.patience is not None:
        told.append(f"budget.patience {budget.patience} may end it much earlier")
    if settings.racing:
        told.append("racing saves more where subsets differ clearly than made-up costs can tell")
    if settings.elsewhere:
        told.append("workers are on another machine, while the fits were timed on this one")
    return told
