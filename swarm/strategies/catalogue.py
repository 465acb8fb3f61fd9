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
# The search of the default, which `swarm.search.pose` replaces by rankings on the widest tables.
AUTO, _DEFAULT = "auto", "multiswarm"


# Strategies of this package are registered here.
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
        added = _added(tuple(sys.path)).get(name, ())
        if name in STRATEGIES and not added:
            return STRATEGIES[name]
        if not added:
            raise KeyError(name)
        return _loaded(name, added)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*STRATEGIES, *_added(tuple(sys.path))}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in STRATEGIES or name in _added(tuple(sys.path))


# Cached, as reading the metadata of all installed packages takes tens of milliseconds.
@lru_cache(maxsize=1)
def _added(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points of the packages on `path`, by name; nothing is imported."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        entries[entry.name] = (*entries.get(entry.name, ()), entry)
    return entries


def _loaded(name: str, added: tuple[EntryPoint, ...]) -> type[Strategy]:
    """Import a strategy of another package; ConfigError if that is ambiguous or fails."""
    packages = [_package(entry) for entry in added]
    if name in STRATEGIES or len(added) > 1:
        owners = " and ".join([*(["swarmselect"] if name in STRATEGIES else []), *packages])
        raise ConfigError(
            f"strategy {name!r} is registered by more than one package, {owners}; uninstall one "
            "of them or rename its entry point"
        )
    (entry,), (package,) = added, packages
    try:
        made_by = entry.load()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"strategy {name!r} of the package {package} cannot be imported ({reason}); fix or "
            "uninstall the package"
        ) from error
    if not (isinstance(made_by, type) and _is_strategy(made_by)):
        raise ConfigError(
            f"strategy {name!r} of the package {package} must be a dataclass derived from "
            f"swarm.Strategy, got {entry.value}; fix or uninstall the package"
        )
    return made_by


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name


def _is_strategy(made_by: type) -> bool:
    return issubclass(made_by, Strategy) and dataclasses.is_dataclass(made_by)


def registry() -> Mapping[str, type[Strategy]]:
    """Map the name of every strategy to its class, whose fields are its parameters.

    Strategies of other packages are imported when they are looked up.
    """
    return _Registry()


def strategy_class(strategy: str | Strategy) -> type[Strategy]:
    """Class of a strategy, or of a name; ConfigError, with a suggestion, if it is unknown.

    That of ``"auto"`` is the search that it takes unless columns outnumber rows many times.
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
    made_by = type(strategy)
    return next((name for name, cls in STRATEGIES.items() if cls is made_by), made_by.__name__)


def make(strategy: str | Strategy, params: Mapping[str, object] | None = None) -> Strategy:
    """Return a strategy that is given by name or as an object.

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
    made_by = strategy_class(strategy)
    values = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in (params or {}).items()
    }
    fields = [field.name for field in dataclasses.fields(made_by)]  # type: ignore[arg-type]
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
        return made_by(**values)
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
    """The description of a strategy."""

    name: str
    line: str  # one-line summary
    parameters: tuple[Parameter, ...]
    facts: tuple[str, ...] = ()  # properties, from the attributes of its class
    package: str | None = None  # the package that registers it; None for this one


def catalogue() -> tuple[StrategyEntry, ...]:
    """Describe every strategy; the line of one that cannot be imported is the error."""
    return tuple(_described(name) for name in registry())


def _described(name: str) -> StrategyEntry:
    try:
        return describe(name)
    except ConfigError as error:
        return StrategyEntry(name, str(error), ())


def describe(name: str) -> StrategyEntry:
    """Describe a strategy by its class; ConfigError if it is unknown or cannot be imported."""
    from docstring_parser import DocstringStyle, parse

    made_by = strategy_class(name)
    texts: dict[str, str] = {}
    # Inherited parameters are documented in the class that defines them.
    for part in reversed(made_by.__mro__):
        documented = parse(part.__doc__ or "", DocstringStyle.NUMPYDOC)
        for entry in documented.params:
            for parameter in entry.arg_name.split(", "):
                texts[parameter] = " ".join((entry.description or "").replace("``", "").split())
    line = parse(made_by.__doc__ or "", DocstringStyle.NUMPYDOC).short_description or ""
    parameters = tuple(
        Parameter(field.name, _default(field), texts.get(field.name, ""))
        for field in dataclasses.fields(made_by)  # type: ignore[arg-type]
    )
    package = None if name in STRATEGIES else _package(_added(tuple(sys.path))[name][0])
    return StrategyEntry(name, line.rstrip("."), parameters, _facts(made_by), package)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "required" if field.default is dataclasses.MISSING else field.default


def _facts(made_by: type[Strategy]) -> tuple[str, ...]:
    facts = {
        "deterministic": made_by.is_deterministic,
        "terminates by itself": made_by.ends_by_itself,
        "ignores warm starts": not made_by.takes_warm_start,
        f"subset size set by {made_by.size_parameter}": made_by.size_parameter is not None,
    }
    return tuple(text for text, holds in facts.items() if holds)
