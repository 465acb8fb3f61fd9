"""Words of sentences: counts with their nouns, and lists of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_MOST_NAMED = 8


def counted(count: float, noun: str) -> str:
    """Format a count with its noun: ``1 feature``, ``1,000 features``."""
    whole = int(count)
    return f"{whole:,} {noun}" if whole == 1 else f"{whole:,} {noun}s"


def listed(names: Collection[object], most: int = _MOST_NAMED) -> str:
    """Join the first names, and count the others."""
    more = len(names) - most
    return ", ".join(map(str, list(names)[:most])) + (f" and {more:,} more" if more > 0 else "")


def quoted(names: Iterable[object], most: int = 5) -> str:
    """Quote the first names, and count the others."""
    return listed(list(map(repr, names)), most)
