"""How many features are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from swarm.errors import ConfigError
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import make, registry
from swarm.strategies.operators.subset_size import Size, answer_sizes, check_size

__all__ = ["bounds_of_answer", "sized"]

# These take every kind of size themselves.
_PATHS = ("sfs", "sbs", "sffs", "sbfs")


def sized(
    name: str,
    params: Mapping[str, object] | None,
    size: Size | None,
    min_size: int,
    max_size: int | None,
) -> tuple[Strategy, int, int | None]:
    """Make a strategy that chooses as many units as were asked for.

    Returns
    -------
    strategy : Strategy
    min_size, max_size : int
        What is left for the space to see to.

    Raises
    ------
    ConfigError
        For what :func:`swarm.strategies.catalogue.make` refuses, a size the strategy cannot follow,
        or one that is given twice.
    """
    given = dict(params or {})
    if size is None:
        return make(name, given), min_size, max_size
    size = _plain(size)
    try:
        check_size(size)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if name in registry() and (name in _PATHS or (name == "rfe" and isinstance(size, int))):
        if "size" in given:
            raise ConfigError(
                f"size is given twice, as {size!r} and in strategy_params as {given['size']!r}; "
                "leave one out"
            )
        given["size"] = size
        return make(name, given), min_size, max_size
    strategy = make(name, given)
    if size == "parsimonious":
        raise ConfigError(
            f"strategy {name!r} has no size 'parsimonious'; give pick='parsimonious' instead"
        )
    if size == "auto":
        raise ConfigError(
            f"strategy {name!r} has no size 'auto', which is for {', '.join(_PATHS)}; "
            "give a number or a pair (min, max)"
        )
    if isinstance(size, str):
        return strategy, min_size, max_size
    if (min_size, max_size) != (1, None):
        raise ConfigError(
            f"size {size!r} and min_size or max_size are both given; leave one of them out"
        )
    least, largest = (size, size) if isinstance(size, int) else size
    return strategy, least, largest


def bounds_of_answer(strategy: Strategy, space: SearchSpace) -> tuple[int, int]:
    """Least and largest number of units that a pick may have."""
    size: Any = getattr(strategy, "size", None)
    tol: float | None = getattr(strategy, "tol", None)
    return answer_sizes("best" if size is None else size, space, tol=tol)


def _plain(size: Size) -> Size:
    """Whole numbers as Python's: a grid of parameters is often an array."""
    if isinstance(size, (tuple, list)):
        return tuple(_plain(number) for number in size)  # type: ignore[return-value]
    return int(size) if isinstance(size, Integral) and not isinstance(size, bool) else size
