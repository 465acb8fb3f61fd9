"""The requested number of units of a sequential search."""

from __future__ import annotations

from swarm.checks import require
from swarm.errors import SpaceError
from swarm.problem.space import SearchSpace

__all__ = ["Size", "answer_sizes", "check_size"]

# A number, a range, or a rule over all allowed sizes.
Size = int | str | tuple[int, int] | list[int]

_RULES = ("auto", "best", "parsimonious")


def check_size(size: Size) -> None:
    """Raise ValueError unless `size` is a number, a pair (min, max) or the name of a rule."""
    if isinstance(size, (tuple, list)):
        if len(size) != 2:
            raise ValueError(f"size must be a pair (min, max), got {len(size)} numbers: {size!r}")
        for name, value in zip(("the smallest size", "the largest size"), size, strict=True):
            require(name, value, at_least=1, whole=True)
        if size[0] > size[1]:
            raise ValueError(f"size must be a pair (min, max) with min <= max, got {size!r}")
    elif isinstance(size, str):
        if size not in _RULES:
            raise ValueError(
                "size must be a number, a pair (min, max), 'auto', 'best' or 'parsimonious', "
                f"got {size!r}"
            )
    else:
        require("size", size, at_least=1, whole=True)


def answer_sizes(size: Size, space: SearchSpace, *, tol: float | None = None) -> tuple[int, int]:
    """Smallest and largest number of units that the result may have.

    Parameters
    ----------
    tol
        If given, ``"auto"`` means any allowed size, else half of the units.

    Raises
    ------
    SpaceError
        If `size` contradicts the constraints of the space.
    """
    if size == "auto" and tol is None:
        half = int((~space.forbidden).sum()) // 2
        size = min(max(half, space.min_size), space.max_size)
    if isinstance(size, str):
        return space.min_size, space.max_size
    lo, hi = (size, size) if isinstance(size, int) else size
    allowed, fixed = int((~space.forbidden).sum()), int(space.fixed.sum())
    if hi > allowed:
        raise SpaceError(f"size {hi} exceeds the {allowed} allowed units; choose a smaller size")
    if hi < fixed:
        raise SpaceError(
            f"size {hi} is below the {fixed} fixed units; choose a larger size or fix fewer units"
        )
    if hi < space.min_size or lo > space.max_size:
        asked = f"{lo}" if lo == hi else f"{lo} to {hi}"
        raise SpaceError(
            f"size {asked} is outside min_size {space.min_size} to max_size {space.max_size}; "
            "change one of them"
        )
    return max(lo, space.min_size), min(hi, space.max_size)
