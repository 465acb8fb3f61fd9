"""Words of sentences: counts with their nouns, lists of names, and lines of two columns."""

from collections.abc import Collection, Iterable, Sequence

_MAX_NAMED = 8


def counted(count: float, noun: str) -> str:
    """Format a count with its noun: ``1 feature``, ``1,000 features``."""
    whole = int(count)
    return f"{whole:,} {noun}" if whole == 1 else f"{whole:,} {noun}s"


def listed(names: Collection[object], n_max: int = _MAX_NAMED) -> str:
    """Join the first names, and count the others."""
    text = ", ".join(map(str, list(names)[:n_max]))
    n_more = len(names) - n_max
    return f"{text} and {n_more:,} more" if n_more > 0 else text


def quoted(names: Iterable[object], n_max: int = 5) -> str:
    """Quote the first names, and count the others."""
    return listed(list(map(repr, names)), n_max)


def listed_within(width: int, start: str, names: Sequence[str], n_max: int | None = None) -> str:
    """List after `start` the first names that fit into `width` characters, at least one."""
    # A name and its comma take three characters or more.
    n_fitting = min(width // 3 + 1, len(names) if n_max is None else n_max)
    for count in range(n_fitting, 1, -1):
        text = f"{start}{listed(names, count)}"
        if len(text) <= width:
            return text
    return f"{start}{listed(names, 1)}"


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """Format names and texts as lines of two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
