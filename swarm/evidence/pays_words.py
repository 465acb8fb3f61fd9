"""Words and numbers of the page on where selection pays, chosen by what was computed."""

from __future__ import annotations

import math

import pandas as pd

from swarm.evidence.pays_tables import counts
from swarm.report.words import signed

__all__ = ["advice", "between", "change", "percent", "tally"]

# Share of the features below which a subset is called small.
_SMALL = 0.6


def change(value: float) -> str:
    """Difference with its sign, without one where it rounds to nothing."""
    return "0.000" if abs(value) < 0.0005 else signed(value)


def between(low: float, high: float) -> str:
    """Interval of a difference."""
    return "–" if math.isnan(low) else f"[{change(low)}, {change(high)}]"


def tally(cells: pd.DataFrame, noun: str = "data set") -> str:
    """Say the verdicts: ``helps on 3, hurts on 0, not distinguishable on 5 of 8 data sets``."""
    found = counts(cells)
    tested = len(cells) - found["untested"]
    if not tested:
        return "not tested yet"
    more = f" ({found['untested']} more not tested yet)" if found["untested"] else ""
    return (
        f"helps on {found['helps']}, hurts on {found['hurts']}, not distinguishable on "
        f"{found['open']} of {tested} {noun}{'' if tested == 1 else 's'}{more}"
    )


def advice(cells: pd.DataFrame, kept: float) -> str:
    """What follows from the verdicts over all features, given the mean share kept."""
    found = counts(cells)
    helps, hurts, undecided = found["helps"], found["hurts"], found["open"]
    if not helps + hurts + undecided:
        return "Nothing can be said yet."
    if helps and not hurts:
        if helps >= undecided:
            return "Selection pays: select."
        return "Selection pays on some data sets: try it, and keep it if test rows agree."
    if helps:
        return "It depends on the data: select only if test rows agree."
    if hurts:
        return "Do not select for the score: it was never better here, and sometimes worse."
    if kept <= _SMALL:
        return (
            "Select for size, not for score: no difference could be shown, which does not prove "
            "that there is none."
        )
    return "Little reason to select: no difference could be shown, and the subsets are not small."


def percent(share: float) -> str:
    """Share as whole percent."""
    return "–" if math.isnan(share) else f"{100 * share:.0f} %".replace("-", "−")
