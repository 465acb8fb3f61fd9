"""Saved subsets that a search starts from."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.errors import ConfigError, suggestion
from swarm.problem.space import SearchSpace
from swarm.storage.features_file import load_subsets
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of


def check_warm_start(strategy: Strategy) -> None:
    """Raise ConfigError if a strategy cannot start from saved subsets."""
    if not strategy.takes_warm_start:
        raise ConfigError(
            f"strategy {name_of(strategy)!r} takes no warm start; use another strategy, or remove "
            "warm"
        )


def warm_masks(subsets: Sequence[Sequence[str]], space: SearchSpace) -> Bool | None:
    """Return the masks (n, n_units) of subsets, best first; None if there are none.

    Columns that no longer exist are ignored, and so are incomplete units and empty subsets.
    """
    position_of = {name: position for position, name in enumerate(space.columns)}
    masks = []
    for subset in subsets:
        columns = {position_of[name] for name in subset if name in position_of}
        mask = [columns.issuperset(unit) for unit in space.units]
        if any(mask):
            masks.append(mask)
    return np.array(masks, dtype=bool) if masks else None


def read_warm(source: object, columns: Sequence[str]) -> list[list[str]]:
    """Return the subsets of a features file, of masks, or of lists of names or positions."""
    if isinstance(source, (str, os.PathLike)):
        return load_subsets(os.fspath(source))
    if not isinstance(source, Iterable):
        raise ConfigError(f"warm must be a file, masks or lists of features, got {source!r}")
    return [_names(subset, columns) for subset in source]


def _names(subset: object, columns: Sequence[str]) -> list[str]:
    if isinstance(subset, (str, bytes)) or not isinstance(subset, Iterable):
        raise ConfigError(f"warm must be a file, masks or lists of features, got {subset!r} in it")
    members = list(subset)
    if members and all(isinstance(member, (bool, np.bool_)) for member in members):
        if len(members) != len(columns):
            raise ConfigError(
                f"warm has a mask of length {len(members)} but must have one of {len(columns)}, a "
                "value for each column"
            )
        return [name for name, is_on in zip(columns, members, strict=True) if is_on]
    return [_name(member, columns) for member in members]


def _name(member: Any, columns: Sequence[str]) -> str:
    """Return the name of a feature that is given by name or position."""
    if isinstance(member, (int, np.integer)) and member not in columns:
        if not 0 <= member < len(columns):
            raise ConfigError(
                f"warm has the position {member} but there are {len(columns)} columns"
            )
        return columns[int(member)]
    if member not in columns:
        raise ConfigError(f"warm names an unknown feature {member!r}{suggestion(member, columns)}")
    return member
