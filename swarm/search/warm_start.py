"""Saved subsets that a search starts from."""

from __future__ import annotations

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
    place = {name: position for position, name in enumerate(space.columns)}
    chosen = [{place[name] for name in subset if name in place} for subset in subsets]
    masks = [[columns.issuperset(unit) for unit in space.units] for columns in chosen]
    nonempty = [mask for mask in masks if any(mask)]
    return np.array(nonempty, dtype=bool) if nonempty else None


def read_warm(source: Any, columns: Sequence[str]) -> list[list[str]]:
    """Return the subsets of a features file, of masks, or of lists of names or positions."""
    if isinstance(source, (str, os.PathLike)):
        return load_subsets(os.fspath(source))
    if not isinstance(source, Iterable):
        raise ConfigError(f"warm must be a file, masks or lists of features, got {source!r}")
    return [_names(subset, columns) for subset in source]


def _names(subset: Any, columns: Sequence[str]) -> list[str]:
    if isinstance(subset, (str, bytes)) or not isinstance(subset, Iterable):
        raise ConfigError(f"warm must be a file, masks or lists of features, got {subset!r} in it")
    members = list(subset)
    if members and all(isinstance(each, (bool, np.bool_)) for each in members):
        if len(members) != len(columns):
            raise ConfigError(
                f"warm has a mask of length {len(members)} but must have one of {len(columns)}, a "
                "value for each column"
            )
        return [name for name, on in zip(columns, members, strict=True) if on]
    names = []
    for each in members:
        if isinstance(each, (int, np.integer)) and each not in columns:
            if not 0 <= each < len(columns):
                raise ConfigError(
                    f"warm has the position {each} but there are {len(columns)} columns"
                )
            each = columns[int(each)]
        if each not in columns:
            raise ConfigError(f"warm names an unknown feature {each!r}{suggestion(each, columns)}")
        names.append(each)
    return names
