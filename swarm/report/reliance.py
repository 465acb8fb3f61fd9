"""What the page says of picks, of agreement, and of promises kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swarm.report.data import ReportData
from swarm.report.picked import RULES
from swarm.report.promise import promised_and_kept
from swarm.report.words import cost, counted, number, shortened

__all__ = ["agreed", "agreement_tiles", "kept", "pick_rows"]

_NAMED = 12


@dataclass(frozen=True)
class PickRow:
    """A row of the table of picks."""

    name: str
    rule: str
    size: str
    cost: str
    error: str
    features: str


def pick_rows(data: ReportData) -> list[PickRow]:
    """One row per rule; features in the order of the table."""
    rows = []
    for pick in data.picks:
        ranked = data.ranked() if pick.rule == "best" else pick.features
        names = [shortened(name, 40) for name in ranked]
        listed = ", ".join(names[:_NAMED])
        if len(names) > _NAMED:
            listed += f" and {len(names) - _NAMED:,} more"
        rows.append(
            PickRow(
                name=RULES[pick.rule][0],
                rule=RULES[pick.rule][1],
                size=counted(len(names), "feature"),
                cost=cost(pick.cost),
                error=f"± {cost(pick.error)}" if pick.error else "",
                features=listed,
            )
        )
    return rows


def agreement_tiles(data: ReportData) -> list[tuple[str, str, str]]:
    """Nogueira's index, the overlap of two subsets, and the features that all hold."""
    found = data.agreement
    if found is None or math.isnan(found.overlap):
        return []
    tiles = []
    if not math.isnan(found.index):
        bounds = f"[{number(found.low)}, {number(found.high)}], {found.word}"
        tiles.append((number(found.index), "stability index (Nogueira)", bounds))
    tiles.append((f"{found.overlap:.0%}", "overlap of two subsets", "mean Jaccard index"))
    always = int((found.shares["held"] == 1.0).sum())
    tiles.append((f"{always:,}", f"{'feature' if always == 1 else 'features'} in every subset", ""))
    often = int((found.shares["held"] > 0.5).sum())
    tiles.append((f"{often:,}", "in more than half of them", ""))
    return tiles


def agreed(data: ReportData) -> str:
    """Say what one run can say of stability, and what it cannot."""
    found = data.agreement
    if found is None:
        return ""
    caution = (
        "One run cannot tell what another seed or other rows would have chosen; "
        "the command swarm stability repeats the search, and can."
    )
    if found.n_held < 2:
        return f"The search held one subset at its end, so there is nothing to compare. {caution}"
    start = f"The search held {counted(found.n_held, 'different subset')} at its end."
    if math.isnan(found.index):
        return f"{start} {caution}"
    little = (
        " They agree little: many subsets do about as well, so that a feature may matter less, "
        "or be easier to replace, than its place in one of them suggests."
        if found.word == "poor"
        else ""
    )
    return (
        f"{start}{little} The index is 1 where all are the same, and about 0 where they agree as "
        "random subsets of their sizes would. They learned from each other and from the same "
        "rows, so that index and interval flatter: take a low value as a warning, and a high one "
        f"as no proof. {caution}"
    )


def kept(data: ReportData) -> str:
    """Say how many subsets of the ensemble kept their promise."""
    cv, test = promised_and_kept(data)
    if len(cv) < 2:
        return ""
    worse = int((test > cv).sum())
    gap = float(np.mean(test - cv))
    text = (
        f"{worse} of {len(cv)} cost more on the test rows than in cross-validation; the mean "
        f"difference is {cost(gap)}. "
    )
    if gap > 0 and gap >= float(cv.max() - cv.min()):
        text += (
            "That is more than all the distance between their cross-validated costs: which of "
            "them came first says little about which is best."
        )
    else:
        text += "Above the dashed line a subset promised too much, below it too little."
    return text
