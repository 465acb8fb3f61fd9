"""Strategies by name: to make one, and to look one up with its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from swarm.errors import ConfigError, nearest
from swarm.strategies import STRATEGIES
from swarm.strategies.base import Strategy

__all__ = ["Parameter", "StrategyEntry", "catalogue", "make", "registry"]


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


@dataclass(frozen=True)
class Parameter:
    """A parameter of a strategy.

    Attributes
    ----------
    name : str
    default : object
    text : str
        What it does.
    """

    name: str
    default: object
    text: str


@dataclass(frozen=True)
class StrategyEntry:
    """A strategy as a person would look it up.

    Attributes
    ----------
    name : str
        As it is called in a configuration.
    line : str
        What it is, in a line.
    parameters : tuple of Parameter
    """

    name: str
    line: str
    parameters: tuple[Parameter, ...]


def catalogue() -> tuple[StrategyEntry, ...]:
    """Every registered strategy, by name."""
    return tuple(_entry(name, registry()[name]) for name in sorted(registry()))


def _entry(name: str, made_by: type) -> StrategyEntry:
    from docstring_parser import DocstringStyle, parse

    texts: dict[str, str] = {}
    # What a class inherits is documented where it is defined.
    for part in reversed(made_by.__mro__):
        documented = parse(part.__doc__ or "", DocstringStyle.NUMPYDOC)
        for entry in documented.params:
            for parameter in entry.arg_name.split(", "):
                texts[parameter] = " ".join((entry.description or "").replace("``", "").split())
    line = parse(made_by.__doc__ or "", DocstringStyle.NUMPYDOC).short_description or ""
    parameters = tuple(
        Parameter(field.name, field.default, texts.get(field.name, ""))
        for field in dataclasses.fields(made_by)
    )
    return StrategyEntry(name, line.rstrip("."), parameters)
