"""``swarm plan``: what a search will take, before anything long starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli_options import Config, Set

if TYPE_CHECKING:
    from flows.planning import Planned
    from swarm.planning import Span

__all__ = ["plan"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def plan(
    config: Config,
    set_: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole plan as JSON.")] = False,
) -> None:
    """Time a few subsets, and say what the search of CONFIG would take. Nothing is stored.

    Models are trained in this process, on one thread; nothing long is started, and neither the
    archive nor MLflow is touched. All figures are ranges.
    """
    from conf.check import check
    from conf.load import load_select

    loaded = load_select(config, set_ or ())
    check(loaded)
    from flows.planning import plan_search
    from flows.progress import say

    tell: Callable[[str], None] = say if sys.stderr.isatty() else lambda text: None
    planned = plan_search(loaded, tell)
    if as_json:
        typer.echo(json.dumps(as_dict(planned), indent=2))
    else:
        typer.echo("\n".join(lines(planned)))


def as_dict(planned: Planned) -> dict[str, Any]:
    """Give the plan as JSON takes it: seconds, bytes and counts."""
    timing = planned.timing
    return {
        **asdict(planned.plan),
        "models_are_fitted": not timing.exact,
        "way": planned.way,
        "proxy": planned.proxy,
        "rows": planned.rows,
        "units": planned.units,
        "folds": timing.costs.shape[1],
        "workers": planned.workers,
        "machine": asdict(planned.machine),
        "timed": [
            {"units": size, "seconds_per_fold": seconds}
            for size, seconds in zip(timing.sizes.tolist(), timing.seconds.tolist(), strict=True)
        ],
    }


def lines(planned: Planned) -> list[str]:
    """Say the plan, one thing a line."""
    found, timing, machine = planned.plan, planned.timing, planned.machine
    folds = timing.costs.shape[1]
    fits, exact = found.fits, timing.exact
    saved = 1 - fits.typical / fits.high if fits.high else 0.0
    sizes = sorted({int(size) for size in timing.sizes})
    told = {
        "search": f"{planned.rows:,} rows, {planned.units:,} units to choose from, {folds} folds"
        + (", on a cheaper model (proxy)" if planned.proxy else ""),
        "way": planned.way,
        "timed": f"{_seconds(found.seconds_per_fit.typical)} for a fold on one thread "
        f"({len(timing.sizes)} subsets of {_listed(sizes)} units); "
        f"{_seconds(timing.first)} for the first subset of all",
        "subsets": _span(found.evaluations, _count) + " asked for, repeated ones included",
        ("fold costs" if exact else "fits"): _span(fits, _count)
        + f", {_count(fits.typical)} likely ({saved:.0%} saved by pruning and repetition)",
        "search time": f"{_span(found.search_seconds, _seconds)}, "
        f"{_seconds(found.search_seconds.typical)} likely, with {planned.workers} "
        f"worker{'' if planned.workers == 1 else 's'} on {machine.cores} cores if these are free",
        "time after": f"{_span(found.after_seconds, _seconds)} for ensemble, baselines and report",
        "memory": _span(found.memory, _bytes)
        + (f" of {_bytes(machine.memory)}" if machine.memory else "")
        + f", {_bytes(found.distances)} of it for distances and other hints",
        "disk": f"{_span(found.archive, _bytes)} in the archive, "
        f"{_span(found.artifacts, _bytes)} of artifacts, models not counted",
    }
    wide = max(map(len, told)) + 2
    text = [f"{name:<{wide}}{what}" for name, what in told.items()]
    text += [f"{'note':<{wide}}{note}" for note in found.notes]
    text += [f"{'warning':<{wide}}{warning}" for warning in found.warnings]
    return text


def _listed(sizes: list[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _span(span: Span, write: Callable[[float], str]) -> str:
    low, high = write(span.low), write(span.high)
    return low if low == high else f"{low} to {high}"


def _count(value: float) -> str:
    """Write no more digits than an estimate has."""
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
