"""The requested number of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any

from swarm.errors import ConfigError
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import STRATEGIES, make, name_of, strategy_class
from swarm.strategies.operators.subset_size import Size, answer_sizes, check_size

__all__ = ["bounds_of_answer", "sized"]


def sized(
    strategy: str | Strategy,
    params: Mapping[str, object] | None,
    size: Size | None,
    min_size: int,
    max_size: int | None,
) -> tuple[Strategy, int, int | None]:
    """Create a strategy that selects the requested number of units.

    Returns
    -------
    strategy : Strategy
    min_size, max_size : int
        Size bounds for the space.

    Raises
    ------
    ConfigError
        If :func:`swarm.strategies.catalogue.make` raises it, the strategy does not support the
        size, or the size is given twice.
    """
    if size is None:
        return make(strategy, params), min_size, max_size
    size = _plain(size)
    try:
        check_size(size)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    kind, name = strategy_class(strategy), name_of(strategy)
    # For other strategies the bounds of the space set the size.
    takes_number = kind.crosses_size_bounds and isinstance(size, int)
    if kind.size_parameter is not None and (kind.takes_size_rules or takes_number):
        _refuse_second_size(strategy, params or {}, kind.size_parameter, size)
        return make(strategy, {**(params or {}), kind.size_parameter: size}), min_size, max_size
    made = make(strategy, params)
    if size == "parsimonious":
        raise ConfigError(
            f"strategy {name!r} does not support size 'parsimonious'; use pick='parsimonious'"
        )
    if size == "auto":
        takers = ", ".join(
            known for known, made_by in STRATEGIES.items() if made_by.takes_size_rules
        )
        raise ConfigError(
            f"strategy {name!r} does not support size 'auto', which is for {takers}; "
            "pass a number or a pair (min, max)"
        )
    if isinstance(size, str):
        return made, min_size, max_size
    if (min_size, max_size) != (1, None):
        raise ConfigError(
            f"size {size!r} and min_size or max_size are both given; omit one of them"
        )
    least, largest = (size, size) if isinstance(size, int) else size
    return made, least, largest


def _refuse_second_size(
    strategy: str | Strategy, params: Mapping[str, object], parameter: str, size: Size
) -> None:
    """Reject a size that is also given as a parameter of the strategy."""
    given = {"strategy_params": params}
    if isinstance(strategy, Strategy):
        given["strategy"] = _changed(strategy)
    for key, values in given.items():
        if parameter in values:
            raise ConfigError(
                f"size is given twice, as {size!r} and in {key} as {values[parameter]!r}; "
                "omit one of them"
            )


def _changed(strategy: Strategy) -> dict[str, object]:
    """Return the parameters of a strategy that differ from their defaults."""
    found = fields(strategy)  # type: ignore[arg-type]
    values = {field.name: getattr(strategy, field.name) for field in found}
    return {
        field.name: values[field.name] for field in found if values[field.name] != field.default
    }


def bounds_of_answer(strategy: Strategy, space: SearchSpace) -> tuple[int, int]:
    """Smallest and largest number of units that a pick may have."""
    size: Any = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
    tol: float | None = getattr(strategy, "tol", None)
    return answer_sizes("best" if size is None else size, space, tol=tol)


def _plain(size: Size) -> Size:
    """Convert NumPy integers to int: a grid of parameters is often an array."""
    if isinstance(size, (tuple, list)):
        return tuple(_plain(number) for number in size)  # type: ignore[return-value]
    return int(size) if isinstance(size, Integral) and not isinstance(size, bool) else size
