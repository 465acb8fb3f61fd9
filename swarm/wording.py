"""Words of sentences: counts with their nouns, lists of names, and lines of two columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

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


def listed_within(width: int, start: str, names: Sequence[str], most: int | None = None) -> str:
    """List after `start` the first names that `width` characters have room for, at least one."""
    # A name and its comma take three characters or more.
    room = min(width // 3 + 1, len(names) if most is None else most)
    for count in range(room, 1, -1):
        text = f"{start}{listed(names, count)}"
        if len(text) <= width:
            return text
    return f"{start}{listed(names, 1)}"


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and texts as lines of two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
