"""What there is to choose from: every strategy with its parameters, for people to read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from docstring_parser import DocstringStyle, parse

from swarm.registry import registry

__all__ = ["Parameter", "StrategyEntry", "catalogue"]


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
