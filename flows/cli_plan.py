"""The command ``swarm plan``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli_options import Config, Set
from flows.terminal import echo

if TYPE_CHECKING:
    from swarm.planning import Plan, Span

__all__ = ["plan"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Width of the names of the topics.
_LABEL = 15


def plan(
    config: Config,
    set_: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Time a few subsets and estimate the time of all stages of a run. Nothing is stored.

    Models are trained in this process, on one thread; neither the archive nor MLflow is used. All
    estimates are ranges.

    Example: swarm plan default
    """
    from conf.check import check
    from conf.load import load_select

    loaded = load_select(config, set_ or ())
    began = time.perf_counter()
    check(loaded)
    from flows.planning import plan_search
    from flows.progress import say

    importing = time.perf_counter() - began

    tell: Callable[[str], None] = say if sys.stderr.isatty() else lambda text: None
    found = plan_search(loaded, tell, importing)
    if as_json:
        typer.echo(json.dumps(as_dict(found), indent=2))
    else:
        echo(*lines(found), indent=_LABEL)


def as_dict(found: Plan) -> dict[str, Any]:
    """Return the plan as JSON data: seconds, bytes and counts."""
    from swarm.planning import Span

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
    from swarm.planning import Span
    from swarm.search.prefilter import MANY_COLUMNS

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
        **(
            {
                "prefilter": f"at most {found.prefilter_fits:,} fits to rank and cut the units"
                f" (by default beyond {MANY_COLUMNS:,} columns; null searches all)"
            }
            if found.prefilter_fits
            else {}
        ),
        **(
            {"settings": f"at most {found.tuning_fits:,} fits to choose a setting of the model"}
            if found.tuning_fits
            else {}
        ),
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
    rows = [*told.items(), *(("note", note) for note in found.notes)]
    rows += [("warning", warning) for warning in found.warnings]
    return [f"{name:<{_LABEL}}{what}" for name, what in rows]


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
