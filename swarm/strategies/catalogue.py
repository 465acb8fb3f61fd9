"""Strategies by name: to make one, and to look one up with its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from swarm.errors import ConfigError, nearest
from swarm.strategies.ant_colony import AntColony
from swarm.strategies.base import Strategy
from swarm.strategies.bee_colony import BeeColony
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catfish import CatfishPso
from swarm.strategies.chaotic import ChaoticPso
from swarm.strategies.erfs import ErrorRatePso
from swarm.strategies.exhaustive import Exhaustive
from swarm.strategies.full import FullSet
from swarm.strategies.genetic import Genetic
from swarm.strategies.memetic import Memetic
from swarm.strategies.mlaco import MultiLabelAnts
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.pso42 import MixedStartPso
from swarm.strategies.random import RandomSearch
from swarm.strategies.rfe import RecursiveElimination
from swarm.strategies.sbfs import FloatingBackwardSelection
from swarm.strategies.sbs import BackwardSelection
from swarm.strategies.sffs import FloatingForwardSelection
from swarm.strategies.sfs import ForwardSelection
from swarm.strategies.two_d import TwoD

__all__ = ["Parameter", "StrategyEntry", "catalogue", "make", "registry"]


# A strategy is known once it has a line here.
STRATEGIES: dict[str, type] = {
    "ant_colony": AntColony,
    "bee_colony": BeeColony,
    "bpso": BinaryPso,
    "catfish": CatfishPso,
    "chaotic": ChaoticPso,
    "erfs": ErrorRatePso,
    "exhaustive": Exhaustive,
    "full": FullSet,
    "genetic": Genetic,
    "memetic": Memetic,
    "mlaco": MultiLabelAnts,
    "multiswarm": MultiSwarm,
    "pso42": MixedStartPso,
    "random": RandomSearch,
    "rfe": RecursiveElimination,
    "sbfs": FloatingBackwardSelection,
    "sbs": BackwardSelection,
    "sffs": FloatingForwardSelection,
    "sfs": ForwardSelection,
    "two_d": TwoD,
}


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
