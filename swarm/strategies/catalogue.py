"""The registry of strategies: create one by name, or look up its parameters.

A package registers a strategy by an entry point of the group :data:`GROUP`, ``name =
"package.module:Class"``. Its code is imported when the strategy is looked up by name, or when all
strategies are described.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from swarm.errors import ConfigError, check_known, nearest
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
from swarm.strategies.ranked import RankedForwardSelection
from swarm.strategies.rankings import RankingSizes
from swarm.strategies.rfe import RecursiveElimination
from swarm.strategies.sequential import (
    BackwardSelection,
    FloatingBackwardSelection,
    FloatingForwardSelection,
    ForwardSelection,
)
from swarm.strategies.two_d import TwoD

GROUP = "swarmselect.strategies"
# `swarm.search.pose` replaces the default search by rankings on the widest tables.
AUTO = "auto"
_DEFAULT = "multiswarm"


STRATEGIES: dict[str, type[Strategy]] = {
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
    "ranked": RankedForwardSelection,
    "rankings": RankingSizes,
    "rfe": RecursiveElimination,
    "sbfs": FloatingBackwardSelection,
    "sbs": BackwardSelection,
    "sffs": FloatingForwardSelection,
    "sfs": ForwardSelection,
    "two_d": TwoD,
}


class _Registry(Mapping[str, type[Strategy]]):
    """The strategies of this package and of installed packages; the latter are loaded lazily."""

    def __getitem__(self, name: str) -> type[Strategy]:
        entries = _entries_on(tuple(sys.path)).get(name, ())
        if entries:
            return _load(name, entries)
        return STRATEGIES[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*STRATEGIES, *_entries_on(tuple(sys.path))}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in STRATEGIES or name in _entries_on(tuple(sys.path))


# Reading the metadata of all installed packages takes tens of milliseconds.
@lru_cache(maxsize=1)
def _entries_on(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points of the packages on `path`, by name; nothing is imported."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        entries[entry.name] = (*entries.get(entry.name, ()), entry)
    return entries


def _load(name: str, entries: tuple[EntryPoint, ...]) -> type[Strategy]:
    """Import a strategy of another package; ConfigError if that is ambiguous or fails."""
    packages = [_package(entry) for entry in entries]
    if name in STRATEGIES:
        packages = ["swarmselect", *packages]
    if len(packages) > 1:
        raise ConfigError(
            f"strategy {name!r} is registered by more than one package, {' and '.join(packages)}; "
            "uninstall one of them or rename its entry point"
        )
    package = packages[0]
    entry = entries[0]
    try:
        strategy = entry.load()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"strategy {name!r} of the package {package} cannot be imported ({reason}); fix or "
            "uninstall the package"
        ) from error
    if not (isinstance(strategy, type) and _is_strategy(strategy)):
        raise ConfigError(
            f"strategy {name!r} of the package {package} must be a dataclass derived from "
            f"swarm.Strategy, got {entry.value}; fix or uninstall the package"
        )
    return strategy


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name


def _is_strategy(cls: type) -> bool:
    return issubclass(cls, Strategy) and dataclasses.is_dataclass(cls)


def registry() -> Mapping[str, type[Strategy]]:
    """Map the name of every strategy to its class, whose fields are its parameters.

    Strategies of other packages are imported when they are looked up.
    """
    return _Registry()


def strategy_class(strategy: str | Strategy) -> type[Strategy]:
    """Class of a strategy, or of a name; ConfigError, with a suggestion, if it is unknown.

    ``"auto"`` has the class of the search that it takes unless columns outnumber rows many times.
    """
    if strategy == AUTO:
        strategy = _DEFAULT
    if isinstance(strategy, str):
        strategies = registry()
        check_known("strategy", strategy, strategies)
        return strategies[strategy]
    if isinstance(strategy, type):
        raise ConfigError(
            f"strategy must be a name or an object, got the class {strategy.__name__}; "
            f"pass {strategy.__name__}(...)"
        )
    if not _is_strategy(type(strategy)):
        raise ConfigError(
            "strategy must be a name, or an object whose class is a dataclass derived from "
            f"swarm.Strategy, got {strategy!r}"
        )
    return type(strategy)


def name_of(strategy: str | Strategy) -> str:
    """Return the registered name of a strategy, or the name of its class if it has none."""
    if isinstance(strategy, str):
        return strategy
    names = (name for name, cls in STRATEGIES.items() if cls is type(strategy))
    return next(names, type(strategy).__name__)


def make(strategy: str | Strategy, params: Mapping[str, object] | None = None) -> Strategy:
    """Create a strategy by name, or change parameters of an object.

    Parameters
    ----------
    strategy : str or Strategy
        An object is returned unchanged if there are no `params`.
    params : mapping, optional
        Parameters that differ from the defaults, or from those of the object.

    Raises
    ------
    ConfigError
        If the strategy or a parameter is unknown (the message suggests the nearest name), or a
        value is out of range.
    """
    strategy = _DEFAULT if strategy == AUTO else strategy
    cls = strategy_class(strategy)
    values = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in (params or {}).items()
    }
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(
                f"unknown parameter {key!r} of strategy {name_of(strategy)!r} "
                f"(it has {', '.join(fields) or 'none'}){nearest(key, fields)}"
            )
    if isinstance(strategy, Strategy) and not values:
        return strategy
    try:
        if isinstance(strategy, Strategy):
            return dataclasses.replace(strategy, **values)  # type: ignore[type-var]
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"strategy {name_of(strategy)!r} cannot be created: {error}") from error


@dataclass(frozen=True)
class Parameter:
    """A parameter of a strategy."""

    name: str
    default: object
    text: str


@dataclass(frozen=True)
class StrategyEntry:
    """The description of a strategy.

    Attributes
    ----------
    name : str
    line : str
        One-line summary.
    parameters : tuple of Parameter
    facts : tuple of str
        Properties, from the attributes of its class.
    package : str or None
        The package that registers it; None for this one.
    """

    name: str
    line: str
    parameters: tuple[Parameter, ...]
    facts: tuple[str, ...] = ()
    package: str | None = None


def catalogue() -> tuple[StrategyEntry, ...]:
    """Describe every strategy; if one cannot be imported, its line is the error."""
    return tuple(_describe_or_error(name) for name in registry())


def _describe_or_error(name: str) -> StrategyEntry:
    try:
        return describe(name)
    except ConfigError as error:
        return StrategyEntry(name, str(error), ())


def describe(name: str) -> StrategyEntry:
    """Describe a strategy by its class; ConfigError if it is unknown or cannot be imported."""
    from docstring_parser import DocstringStyle, parse

    cls = strategy_class(name)
    texts: dict[str, str] = {}
    # Inherited parameters are documented in the class that defines them.
    for base in reversed(cls.__mro__):
        docstring = parse(base.__doc__ or "", DocstringStyle.NUMPYDOC)
        for entry in docstring.params:
            text = " ".join((entry.description or "").replace("``", "").split())
            for parameter in entry.arg_name.split(", "):
                texts[parameter] = text
    line = parse(cls.__doc__ or "", DocstringStyle.NUMPYDOC).short_description or ""
    parameters = tuple(
        Parameter(field.name, _default(field), texts.get(field.name, ""))
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
    )
    package = None if name in STRATEGIES else _package(_entries_on(tuple(sys.path))[name][0])
    return StrategyEntry(name, line.rstrip("."), parameters, _facts(cls), package)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "required" if field.default is dataclasses.MISSING else field.default


def _facts(cls: type[Strategy]) -> tuple[str, ...]:
    facts = {
        "deterministic": cls.is_deterministic,
        "terminates by itself": cls.ends_by_itself,
        "ignores warm starts": not cls.takes_warm_start,
        f"subset size set by {cls.size_parameter}": cls.size_parameter is not None,
    }
    return tuple(text for text, is_true in facts.items() if is_true)
