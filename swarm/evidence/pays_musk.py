"""Musk version 2 on the page on where selection pays: its seeds are resamples, and tested so."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from swarm.evidence.musk_words import p_value
from swarm.evidence.page import markdown_table
from swarm.evidence.pays_tables import gains, one_per_resample
from swarm.evidence.pays_words import between, change
from swarm.report.words import counted, number

__all__ = ["musk_section"]

_SPLITS = {"random": "random rows", "group": "whole molecules"}
_CONTENDERS = {
    "test_cost": "best subset of `{}`",
    "test_ensemble": "ensemble of `{}`",
    "test_all_ensemble": "all features, same vote as `{}`",
    "test_random": "random subsets, same vote as `{}`",
}
# Contrasts of `swarm.evidence.pays_tables.CONTRASTS`: who is judged, and against whom.
_TESTED = MappingProxyType(
    {
        "subset": ("best subset", "all features"),
        "ensemble_over_vote": ("ensemble", "the same vote of all features"),
        "ensemble_over_random": ("ensemble", "the same vote of random subsets"),
    }
)


def musk_section(rows: pd.DataFrame) -> str:
    """Write what the rows of Musk say.

    Parameters
    ----------
    rows : DataFrame
        Columns as elsewhere; `part` is ``random`` or ``group``, `resample` the seed: each has
        a split of its own into 70 % training and 30 % test rows.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    table = []
    for part in dict.fromkeys(rows["part"]):
        here = rows[rows["part"] == part]
        split = _SPLITS.get(part, part)
        full = here[here["strategy"] == "full"]
        if full["test_cost"].notna().any():
            table.append([split, "all features", *_cells(full, "test_cost")])
        for strategy in [name for name in dict.fromkeys(here["strategy"]) if name != "full"]:
            own = here[here["strategy"] == strategy]
            for column, label in _CONTENDERS.items():
                if own[column].notna().any():
                    table.append([split, label.format(strategy), *_cells(own, column)])
    header = ("test rows", "contender", "searches", "mean test cost", "lowest to highest", "size")
    return "\n".join(
        ["## Musk version 2\n", markdown_table(header, table, "llrrrr"), *_judged(rows)]
    )


def _cells(rows: pd.DataFrame, column: str) -> list[object]:
    costs = rows[column].dropna()
    # The sizes of a vote's members are not in the rows; random subsets have those of the search.
    size = f"{rows['size'].mean():.1f}" if column == "test_cost" else "–"
    ends = f"{number(costs.min())} to {number(costs.max())}" if len(costs) > 1 else "–"
    return [len(costs), number(costs.mean()), ends, size]


def _judged(rows: pd.DataFrame) -> list[str]:
    """Test the paired differences of the seeds, and say what came out."""
    # Without facts the test goes by the share of test rows: splits by molecule vary a little.
    found = gains(one_per_resample(rows), {})
    found = found[found["contrast"].isin(list(_TESTED))]
    if found.empty:
        return ["No split has both a selection and its rival yet.\n"]
    order = list(dict.fromkeys(rows["part"]))
    found = found.sort_values("part", key=lambda parts: parts.map(order.index), kind="stable")
    tests = found.to_dict("records")
    table = [
        [
            *(_split(test), *_names(test), int(test["n"]), change(test["gain"])),
            *(between(test["low"], test["high"]), p_value(test["p"])),
        ]
        for test in tests
    ]
    header = ("test rows", "selection", "against", "splits", "mean gain", "95 % interval", "p")
    tested = (
        "The paired differences of the splits are judged by the corrected resampled t-test, each "
        "for itself. "
    )
    return [
        "Each seed has a split of its own into 70 % training and 30 % test rows. "
        + (tested if found["p"].notna().any() else "")
        + "A gain is the cost of the rival minus one's own: above 0 the selection is better.\n",
        markdown_table(header, table, "lllrrrr"),
        *(f"- {_sentence(test)}" for test in tests),
        "",
    ]


def _sentence(test: Mapping[Hashable, Any]) -> str:
    own, rival = _names(test)
    start = f"With {_split(test)} held out, the {own}"
    if test["verdict"] == "untested":
        return (
            f"{start} was judged against {rival} on {counted(test['n'], 'split')} only (gain "
            f"{change(test['gain'])}): no test can be made."
        )
    told = {
        "helps": f"is better than {rival}",
        "hurts": f"is worse than {rival}",
        "open": f"cannot be told from {rival}",
    }[str(test["verdict"])]
    p = p_value(test["p"])
    return (
        f"{start} {told}: mean gain {change(test['gain'])} over {counted(test['n'], 'split')}, "
        f"95 % interval {between(test['low'], test['high'])}, p {p if p[0] == '<' else f'= {p}'}."
    )


def _split(test: Mapping[Hashable, Any]) -> str:
    return _SPLITS.get(str(test["part"]), str(test["part"]))


def _names(test: Mapping[Hashable, Any]) -> tuple[str, str]:
    own, rival = _TESTED[str(test["contrast"])]
    return f"{own} of `{test['strategy']}`", rival
