"""What a page of evidence is made of, and the pieces that all pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

__all__ = ["Page", "duration", "markdown_table", "run_line"]


@dataclass(frozen=True)
class Page:
    """A page, with the files that it shows.

    Attributes
    ----------
    text : str
        Markdown.
    figures : mapping of str to bytes
        SVG by file name; the text refers to them as ``figures/NAME``.
    tables : mapping of str to DataFrame
        Tables behind the page that are more than its rows, by file name.
    """

    text: str
    figures: Mapping[str, bytes] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], align: str | None = None
) -> str:
    """Write a table in Markdown.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequences
        As long as the header each; everything is written by `str`.
    align : str, optional
        One of ``l``, ``r`` and ``c`` per column; default: the first left, the others right.

    Raises
    ------
    ValueError
        If a row is not as long as the header.
    """
    align = align or "l" + "r" * (len(header) - 1)
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(row)} cells does not fit {len(header)} columns")
    rule = {"l": ":--", "r": "--:", "c": ":-:"}
    lines = [list(header), [rule[letter] for letter in align]]
    lines += [[str(cell).replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def duration(seconds: float) -> str:
    """Say a time as a person would: ``48 s``, ``12 min``, ``2 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def run_line(facts: Mapping[str, Any], parts: Sequence[str] | None = None) -> str:
    """Say in a sentence with what, where and how long the searches were run.

    Parameters
    ----------
    facts : mapping
        `versions`, `machine` and `seconds` of the study.
    parts : sequence of str, optional
        Parts whose time is told; default: all.
    """
    versions, machine = facts.get("versions", {}), facts.get("machine", {})
    spent = facts.get("seconds", {})
    total = sum(spent.get(part, 0.0) for part in (spent if parts is None else parts))
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    where = ", ".join(
        text
        for text in (
            f"{machine['cores']} cores" if "cores" in machine else "",
            f"{machine['memory_gib']} GiB" if "memory_gib" in machine else "",
            str(machine.get("processor", "")),
        )
        if text
    )
    return f"Run with {told or 'unknown versions'} on {where or 'an unknown machine'}" + (
        f", in {duration(total)} of wall time." if total else "."
    )
