"""Strategies by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from swarm.errors import ConfigError, nearest
from swarm.strategies import STRATEGIES
from swarm.strategy import Strategy

__all__ = ["make", "registry"]


def registry() -> Mapping[str, type]:
    """Every strategy by name: the class, whose fields are its parameters."""
    return STRATEGIES


def make(name: str, params: Mapping[str, object] | None = None) -> Strategy:
    """Create the strategy `name` with `params`.

    Raises
    ------
    ConfigError
        For an unknown strategy or parameter, with the nearest known, or a value out of range.
    """
    known = registry()
    if name not in known:
        listed = ", ".join(sorted(known))
        raise ConfigError(f"unknown strategy {name!r} (there are {listed}){nearest(name, known)}")
    given = dict(params or {})
    fields = [field.name for field in dataclasses.fields(known[name])]
    for key in given:
        if key not in fields:
            raise ConfigError(
                f"unknown parameter {key!r} of strategy {name!r} "
                f"(it has {', '.join(fields) or 'none'}){nearest(key, fields)}"
            )
    try:
        strategy: Strategy = known[name](**given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"strategy {name!r} cannot be made: {error}") from error
    return strategy
