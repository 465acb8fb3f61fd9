"""Plan the search of a configuration: nothing is stored, no server is started."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from joblib import cpu_count

from conf.schema import SelectConfig
from flows.configured import fetched, plan_as_configured, prepare_run, probe_as_configured
from flows.stages import FitSeconds, Stage, Workload
from swarm.machine import this_machine
from swarm.planning import START_SECONDS, Plan, Span, Timing, make_plan, time_subsets
from swarm.problem.problem import Problem
from swarm.search.plan import SearchPlan
from swarm.search.prefilter import MANY_COLUMNS, most_cut_fits
from swarm.search.row_parts import N_PROBES
from swarm.search.tuning import without_rounds
from swarm.storage.archive import Archive
from swarm.validation.diagnostics import FULL_FITS
from tasks.models.files import is_storable

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Width of the names of the topics.
LABEL = 15

# Seconds in which `swarm plan` imports its modules.
_IMPORT = 4.0
# Seconds to open a run in MLflow: the first one of a project creates the tables.
_OPEN = Span(0.5, 4.0, 10.0)
# Settings of the model that are timed.
_TIMED_SETTINGS = 4


def plan_search(
    config: SelectConfig,
    tell: Callable[[str], None] = lambda text: None,
    import_seconds: float = _IMPORT,
) -> Plan:
    """Read the data, time a few subsets on one thread, and estimate all stages of a run.

    Parameters
    ----------
    config : SelectConfig
        Checked.
    tell : callable
        Called with a line of text at each stage.
    import_seconds : float
        Wall time in which this process has imported its modules, from which the time to start
        Prefect is estimated.

    Raises
    ------
    InputError
        For any input that the search itself would refuse before it starts.
    EvaluationError
        If the model fails on a subset.
    """
    tell(Stage.READ.line)
    began, used = time.perf_counter(), time.process_time()
    table = fetched(config)
    read = time.perf_counter() - began
    tell(Stage.PREPARE.line)
    data = prepare_run(config, table)
    planned = plan_as_configured(config, data)
    planned.check()
    probe_as_configured(config, data, planned, None)
    prepare = time.perf_counter() - began - read
    found = estimate_search(config, planned, tell)
    # How much longer than on a free machine everything takes.
    delay = max(1.0, (time.perf_counter() - began) / (time.process_time() - used))
    before = {
        # A server and MLflow start besides.
        Stage.START: Span(1.5, 3.0, 8.0).times(import_seconds),
        Stage.READ: _around(read),
        Stage.PREPARE: _around(prepare) + _OPEN.times(delay),
    }
    larger = _seconds_of_all(found.timing, planned.problem) / found.seconds_per_fit.high
    return _with_stages(found, before, workload_of(config, planned), delay, max(1.0, larger))


def _around(seconds: float) -> Span:
    """Return a range around a measurement, as other programs may slow a run down."""
    return Span(seconds / 2, seconds, 3 * seconds)


def _seconds_of_all(timing: Timing, problem: Problem) -> float:
    """Return the likely seconds of a fold model of all features, from those of timed subsets."""
    line = FitSeconds()
    for n_units, seconds in zip(timing.sizes.tolist(), timing.seconds.tolist(), strict=True):
        line.learn(n_units, seconds, 1)
    return line.of(problem.space.n_units)


def _with_stages(
    found: Plan, before: Mapping[Stage, Span], workload: Workload, delay: float, larger: float
) -> Plan:
    """Return the plan with all stages of a run, those `before` the search and those after it.

    A model of all features takes `larger` times as long as one of a large subset.
    """
    models, parallel = found.after_seconds, min(workload.workers, found.machine.cores)
    per_fit = found.seconds_per_fit.high / parallel
    judge = workload.seconds(Stage.JUDGE, per_fit, per_fit * larger)
    after = {Stage.JUDGE: Span(models.low, judge, models.high + 3 * judge)}
    for stage in (Stage.REPORT, Stage.REGISTER):
        after[stage] = _around(delay * workload.seconds(stage, 0.0, 0.0))
    during = {
        Stage.SEARCH: found.search_seconds - found.confirm_seconds,
        Stage.CONFIRM: found.confirm_seconds,
    }
    stages = {**before, **during, **after}
    return replace(
        found,
        after_seconds=sum(after.values(), Span(0.0, 0.0, 0.0)),
        stages={stage.label: span for stage, span in stages.items()},
    )


def workload_of(config: SelectConfig, planned: SearchPlan) -> Workload:
    """Return what a select run has to do after its search."""
    n_workers, are_processes = _workers(config)
    proxy, confirmation, fits, n_fresh = planned.proxy, planned.confirmation, 0, 0
    if proxy is not None:
        fits += planned.problem.n_folds * (proxy.n_best + proxy.n_probes)
    if planned.parts is not None:
        fits += planned.problem.n_folds * N_PROBES
    if confirmation is not None:
        # The best subsets, the features that they share, and the Pareto front.
        subsets = confirmation.n_best + 1 + confirmation.n_best * (confirmation.goal != "score")
        n_fresh = confirmation.problem.n_folds
        fits += n_fresh * subsets
    n_models = config.ensemble.n_models
    return Workload(
        confirm_fits=fits,
        confirm_all_fits=n_fresh,
        ensemble_fits=n_models,
        # Each vote has as many models, and a single model is compared with it.
        contender_fits=n_models * config.test.random_subsets + 1,
        contender_all_fits=n_models + 1,
        report_fits=FULL_FITS * config.test.explain,
        has_model=is_storable(planned.problem.estimator),
        workers=n_workers,
        start_seconds=START_SECONDS * are_processes,
    )


def _workers(config: SelectConfig) -> tuple[int, bool]:
    """Return the number of workers, and whether they are processes of this machine."""
    section = config.evaluation
    n_workers = cpu_count() if section.n_jobs == -1 else section.n_jobs
    remote = section.address is not None
    single = n_workers == 1 and section.timeout_seconds is None and not remote
    if single or section.backend == "sequential":
        return 1, False
    return n_workers, not (remote or section.backend == "threading")


def estimate_search(
    config: SelectConfig, planned: SearchPlan, tell: Callable[[str], None] = lambda text: None
) -> Plan:
    """Time a few subsets on one thread, and estimate a search that is prepared and probed.

    Raises
    ------
    EvaluationError
        If the model fails on a subset.
    """
    evaluation, proxy, work = config.evaluation, planned.proxy, workload_of(config, planned)
    tell("timing a few subsets on one thread")
    named = ("pruning", "exact", "device")
    alone = replace(planned, evaluation={name: getattr(evaluation, name) for name in named})
    rank, full = 0.0, None
    if proxy is not None:
        with alone.evaluator(alone.problem, Archive()) as evaluator:
            full = time_subsets(alone.search(evaluator), count=2)
    workers, processes = _workers(config)
    remote = evaluation.address is not None
    prefilter, ranking, largest = planned.prefilter, 0, None
    if prefilter is not None:
        least, most = prefilter.bounds(alone.problem.space)
        ranking = most_cut_fits(prefilter)
        with alone.evaluator(prefilter.problem, Archive()) as ranked:
            began = time.perf_counter()
            ranked.fold_costs(alone.first_units(most)[None, :], np.zeros(1, dtype=np.int64))
            largest = most, time.perf_counter() - began
            # Most of the sizes that are tried are smaller.
            rank = largest[1] * ranking / 2
        alone = alone.on_units(alone.first_units(round(math.sqrt(least * most))))
    alone, tune_fits = _after_rounds(alone)
    with alone.evaluator(alone.problems[-1], Archive()) as evaluator:
        n_parts = 0 if alone.parts is None else len(alone.parts.problems)
        # Only their number counts: costs are simulated.
        search = alone.search(evaluator, [evaluator] * n_parts)
        timing = time_subsets(search)
        slowest = float((full or timing).seconds.max())
        if largest is not None:
            timing = timing.with_subset(*largest)
        of_all = _seconds_of_all(full or timing, planned.problem)
        confirm = slowest * work.confirm_fits + of_all * work.confirm_all_fits
        judged = work.ensemble_fits + work.contender_fits + work.report_fits
        tell("simulating the search on synthetic costs")
        found = make_plan(
            search,
            timing,
            this_machine(),
            workers=workers,
            processes=processes,
            remote=remote,
            confirm_seconds=confirm,
            rank_seconds=rank + tune_fits * slowest,
            proxy=proxy is not None,
            prefilter_fits=ranking,
            tuning_fits=tune_fits,
            models_after=judged + work.contender_all_fits * max(1.0, of_all / slowest),
        )
    note = "estimated for epochs that wait for their slowest subset; asynchronous ones do not"
    return replace(found, notes=(*found.notes, note)) if planned.asynchronous else found


def _after_rounds(plan: SearchPlan) -> tuple[SearchPlan, int]:
    """Return the search after the choice of a setting of the model, and its fits.

    The setting is the slowest of a few: which one is chosen is not known yet.
    """
    tuning = plan.tuning
    if tuning is None:
        return plan, 0
    rounds = plan.rounds()
    places = np.unique(np.linspace(0, len(tuning.problems) - 1, _TIMED_SETTINGS).round())
    seconds, every = {}, plan.everything[None, :]
    for place in places.astype(int).tolist():
        with plan.evaluator(tuning.problems[place], Archive()) as evaluator:
            began = time.perf_counter()
            evaluator.fold_costs(every, np.zeros(1, dtype=np.int64))
            seconds[place] = time.perf_counter() - began
    subsets = sum(each.n_settings * each.n_subsets for each in rounds)
    fits = subsets * plan.problem.n_folds
    budget = without_rounds(plan.budget, subsets, subsets, fits, plan.per_epoch)
    slowest = max(seconds, key=lambda place: seconds[place])
    rest = replace(plan, problem=tuning.problems[slowest], budget=budget, tuning=None)
    return rest, fits


def as_dict(found: Plan) -> dict[str, Any]:
    """Return the plan as JSON data: seconds, bytes and counts."""
    data, timing = asdict(found), found.timing
    del data["timing"]
    data["models_are_fitted"] = not timing.exact
    data["total_seconds"] = asdict(sum(found.stages.values(), Span(0.0, 0.0, 0.0)))
    data["timed"] = [
        {"units": size, "seconds_per_fold": seconds}
        for size, seconds in zip(timing.sizes.tolist(), timing.seconds.tolist(), strict=True)
    ]
    return data


def lines(found: Plan) -> list[str]:
    """Describe the plan, one topic per line."""
    fits, timing, machine = found.fits, found.timing, found.machine
    saved = 1 - fits.typical / fits.high if fits.high else 0.0
    least, most = f"{timing.sizes.min():,}", f"{timing.sizes.max():,}"
    told = {
        "search": f"{found.rows:,} rows, {found.units:,} unit{'s' * (found.units != 1)} to choose "
        f"from, {found.folds} folds" + (", on a cheaper model (proxy)" if found.proxy else ""),
        "way": found.way,
        "timed": f"{_seconds(found.seconds_per_fit.typical)} for a fold on one thread "
        f"({len(timing.sizes)} subsets of {least if least == most else f'{least} to {most}'} "
        f"units); {_seconds(timing.first)} for the first subset of all",
        "subsets": _span(found.evaluations, _count) + " proposed, repeated ones included",
        ("fold costs" if timing.exact else "fits"): _span(fits, _count)
        + f", {_count(fits.typical)} likely ({saved:.0%} saved by pruning and repetition)",
        "prefilter": f"at most {found.prefilter_fits:,} fits to rank and cut the units (by default"
        f" beyond {MANY_COLUMNS:,} columns; null searches all)"
        if found.prefilter_fits
        else "",
        "settings": f"at most {found.tuning_fits:,} fits to choose a setting of the model"
        if found.tuning_fits
        else "",
        "total time": _likely(sum(found.stages.values(), Span(0.0, 0.0, 0.0)))
        + f", with {found.workers} worker{'' if found.workers == 1 else 's'} on "
        f"{machine.cores} cores if these are free",
        **{f"- {name}": _likely(span) for name, span in found.stages.items() if span.high},
        "memory": _span(found.memory, _bytes)
        + (f" of {_bytes(machine.memory)}" if machine.memory else "")
        + f", {_bytes(found.distances)} of it for distances and other hints",
        "disk": f"{_span(found.archive, _bytes)} in the archive, "
        f"{_span(found.artifacts, _bytes)} of artifacts, models not counted",
    }
    rows = [(name, what) for name, what in told.items() if what]
    rows += [("note", note) for note in found.notes]
    rows += [("warning", warning) for warning in found.warnings]
    return [f"{name:<{LABEL}}{what}" for name, what in rows]


def _likely(span: Span) -> str:
    return f"{_span(span, _seconds)}, {_seconds(span.typical)} likely"


def _span(span: Span, write: Callable[[float], str]) -> str:
    low, high = write(span.low), write(span.high)
    return low if low == high else f"{low} to {high}"


def _count(value: float) -> str:
    """Round an estimate to two digits."""
    digits = len(str(int(value)))
    return f"{int(round(value, 2 - digits) if digits > 2 else round(value)):,}"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.2g} ms" if value < 0.0995 else f"{value:.1f} s"
    if value < 2 * _MINUTE:
        return f"{value:.0f} s"
    if value < 2 * _HOUR:
        return f"{value / _MINUTE:.0f} min"
    return f"{value / _HOUR:.0f} h" if value < 2 * _DAY else f"{value / _DAY:.0f} days"


def _bytes(value: float) -> str:
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000:
            return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{value / 1000:.2g} TB"
