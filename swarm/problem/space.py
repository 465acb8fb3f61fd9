"""The search space: units, and constraints on their subsets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int, Positions, read_only
from swarm.errors import SpaceError, suggestion
from swarm.problem.patterns import expand_patterns
from swarm.statistics.lowest import first_of

Groups = Mapping[str, str | Sequence[str | int]] | Iterable[Sequence[str | int]]


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Units of a problem, and constraints on the subsets of them.

    Use :meth:`build`; the constructor expects validated arrays.

    Attributes
    ----------
    columns : tuple of str
        Feature names in the order of the table.
    names : tuple of str
        Unit names: the feature, or the group of features that are selected together. Units are
        sorted by :func:`canonical_order`, so that what is drawn at random does not depend on the
        order of the columns.
    units : tuple of tuple of int
        Column positions of each unit.
    fixed, forbidden : bool (n_units,)
        Units that are in every subset, and in no subset.
    min_size, max_size : int
        Bounds on the number of units of a subset.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[tuple[int, ...], ...]
    fixed: Bool
    forbidden: Bool
    min_size: int
    max_size: int

    @classmethod
    def build(
        cls,
        columns: Sequence[str],
        *,
        groups: Groups | None = None,
        fixed: Iterable[str | int] | None = (),
        forbidden: Iterable[str | int] | None = (),
        min_size: int = 1,
        max_size: int | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> SearchSpace:
        """Build a space from feature names and constraints.

        In place of names, `groups`, `fixed` and `forbidden` may have patterns such as ``lag_*``,
        and types such as ``dtype:category`` (number, category, text, date or boolean); a column
        that has such a name is that column.

        Parameters
        ----------
        columns : sequence of str
            Feature names, unique, in the order of the data.
        groups : mapping or list of lists, optional
            Mapping of group names to features that are selected together, or to a pattern, or a
            list of groups, which are named after their features: ``x0+x2``. Features without a
            group are units of their own. A group is sorted by its first feature.
        fixed, forbidden : list of str or int, optional
            Features, or names of groups, that are always, or never, selected. Here and in
            groups, an integer is the position of a column, from 0.
        min_size, max_size : int, optional
            Bounds on the number of units (a group counts once). Default: 1 and all units.
        dtypes : sequence, optional
            Of the columns, by pandas; needed for types in place of names.

        Returns
        -------
        SearchSpace

        Raises
        ------
        SpaceError
            If names or positions are unknown or repeated, a pattern matches nothing, a constraint
            splits a group, or no mask satisfies all constraints.
        """
        columns = tuple(columns)
        _refuse_repeats(columns)
        typed = dict(zip(columns, [None] * len(columns) if dtypes is None else dtypes, strict=True))
        units = _units(columns, _named_groups(groups, typed))
        names = tuple(units)
        fixed_mask, forbidden_mask = (
            _unit_mask(role, _as_names(role, features, typed, units), columns, units)
            for role, features in (("fixed", fixed), ("forbidden", forbidden))
        )
        both = [names[unit] for unit in np.flatnonzero(fixed_mask & forbidden_mask)]
        n_fixed = int(fixed_mask.sum())
        n_allowed = len(names) - int(forbidden_mask.sum())
        largest = n_allowed if max_size is None else max_size
        refusals = [
            (bool(both), f"{(both or names)[0]!r} is both fixed and forbidden; choose one"),
            (n_allowed == 0, "every feature is forbidden; allow at least one"),
            (min_size < 1, f"the smallest size must be at least 1, got {min_size}"),
            (
                largest < min_size,
                f"the largest size {largest} is below the smallest {min_size}; "
                f"{n_allowed} of {len(names)} units are allowed",
            ),
            (
                largest > n_allowed,
                f"the largest size {largest} must be at most {n_allowed}, "
                "the units that are allowed",
            ),
            (
                n_fixed > largest,
                f"{n_fixed} units are fixed but the largest size is {largest}; "
                "raise it or fix fewer",
            ),
        ]
        for is_refused, message in refusals:
            if is_refused:
                raise SpaceError(message)
        return cls(
            columns=columns,
            names=names,
            units=tuple(units.values()),
            fixed=fixed_mask,
            forbidden=forbidden_mask,
            min_size=max(min_size, n_fixed),
            max_size=largest,
        )

    def __post_init__(self) -> None:
        read_only(self.fixed, self.forbidden)

    @property
    def n_units(self) -> int:
        """Number of units: the length of a mask."""
        return len(self.names)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return len(self.columns)

    @property
    def n_allowed(self) -> int:
        """Number of feature columns that are not forbidden."""
        return len(self.positions(~self.forbidden))

    @cached_property
    def unit_of(self) -> Int:
        """Unit of each column: int (n_columns,)."""
        owner = np.empty(self.n_columns, dtype=np.int64)
        owner[self.order] = np.repeat(np.arange(self.n_units), [len(unit) for unit in self.units])
        return owner

    @cached_property
    def order(self) -> Int:
        """Column positions in the order of the units: int (n_columns,)."""
        return np.fromiter((p for unit in self.units for p in unit), dtype=np.int64)

    def positions(self, mask: Bool) -> Int:
        """Return the column positions of `mask` (n_units,), ascending."""
        return np.flatnonzero(mask[self.unit_of])

    def positions_by_unit(self, mask: Bool) -> Int:
        """Return the column positions of `mask` (n_units,) in the order of the units."""
        return self.order[mask[self.unit_of[self.order]]]

    def subset(self, mask: Bool) -> list[str]:
        """Return the feature names of `mask` (n_units,), in the order of `columns`."""
        return [self.columns[p] for p in self.positions(mask)]

    def mask(self, names: Iterable[str]) -> Bool:
        """Return the mask (n_units,) of features or groups; the inverse of :meth:`subset`."""
        units = dict(zip(self.names, self.units, strict=True))
        return _unit_mask("subset", names, self.columns, units)

    def rank(self, masks: Bool, costs: Float) -> Int:
        """Rank subsets by cost, then by number of units, then in their order.

        Parameters
        ----------
        masks : bool (n, n_units)
            Subsets.
        costs : float64 (n,)
            Cross-validated costs.

        Returns
        -------
        int (n,)
            Rows of `masks`, the best first.
        """
        return np.lexsort((masks.sum(axis=1), costs))

    def in_order(self, importances: Float | float = 0.0) -> Int:
        """Return all units: fixed ones first, forbidden ones last, by importance within these."""
        importances = np.broadcast_to(importances, self.n_units)
        return np.lexsort((-importances, ~self.fixed, self.forbidden))

    def restricted(self, mask: Bool) -> SearchSpace:
        """Return the space of only the units of `mask` (n_units,), in the same order.

        Its columns are those of :meth:`positions`. The bounds on the size are lowered where there
        are too few units left.

        Raises
        ------
        SpaceError
            If a fixed unit is left out, or no unit that is allowed is kept.
        """
        if (self.fixed & ~mask).any():
            lost = self.names[int(np.flatnonzero(self.fixed & ~mask)[0])]
            raise SpaceError(f"the fixed unit {lost!r} must be kept")
        n_allowed = int((mask & ~self.forbidden).sum())
        if n_allowed == 0:
            raise SpaceError("at least one unit that is not forbidden must be kept")
        positions = self.positions(mask)
        kept = np.flatnonzero(mask)
        place = np.zeros(self.n_columns, dtype=np.int64)
        place[positions] = np.arange(len(positions))
        return replace(
            self,
            columns=tuple(self.columns[position] for position in positions),
            names=tuple(self.names[unit] for unit in kept),
            units=tuple(tuple(place[list(self.units[unit])].tolist()) for unit in kept),
            fixed=self.fixed[kept],
            forbidden=self.forbidden[kept],
            min_size=min(self.min_size, n_allowed),
            max_size=min(self.max_size, n_allowed),
        )

    def by_unit(self, values: Float, positions: Positions) -> Float:
        """Sum the values of columns by unit.

        Parameters
        ----------
        values : float64 (len(positions),)
            One value for each of the columns at `positions`.
        positions : int (n,)
            Positions of these columns.

        Returns
        -------
        float64 (n_units,)
            Zero for units without any of the columns.
        """
        columns = np.asarray(positions, dtype=np.int64)
        values = np.asarray(values)
        if self.n_units < self.n_columns:
            # Sums of a group do not depend on the order of the columns in the table.
            rank = np.argsort(np.argsort(self.order)[columns], kind="stable")
            columns, values = columns[rank], values[rank]
        sums = np.bincount(self.unit_of[columns], weights=values, minlength=self.n_units)
        return sums.astype(np.float64, copy=False)

    def repair(self, masks: Bool, rng: np.random.Generator) -> Bool:
        """Return the masks with the fewest changes that satisfy every constraint.

        Fixed units are added and forbidden units dropped; then random units are added up to
        `min_size` or dropped down to `max_size`. A feasible mask is returned unchanged.

        Parameters
        ----------
        masks : bool (n, n_units)
            Subsets.
        rng : numpy.random.Generator
            Draws one number per unit for each mask of a wrong size, none otherwise.

        Returns
        -------
        bool (n, n_units)
        """
        repaired = (masks | self.fixed) & ~self.forbidden
        size = repaired.sum(axis=1)
        wrong = np.flatnonzero((size < self.min_size) | (size > self.max_size))
        if wrong.size == 0:
            return repaired
        # Units are ranked as fixed, selected, not selected and forbidden, at random within these.
        # The first ones are taken, whether units are missing or too many.
        key = rng.random((wrong.size, self.n_units))
        key += np.where(self.fixed, 0.0, np.where(repaired[wrong], 1.0, 2.0))
        key[:, self.forbidden] = np.inf
        target = np.clip(size[wrong], self.min_size, self.max_size)
        repaired[wrong] = first_of(np.argsort(key, axis=1), target)
        return repaired

    def obeys(self, masks: Bool) -> Bool:
        """Whether each of the masks (n, n_units) satisfies every constraint: bool (n,)."""
        size = masks.sum(axis=1)
        has_size = (size >= self.min_size) & (size <= self.max_size)
        has_fixed = (masks | ~self.fixed).all(axis=1)
        return has_size & has_fixed & ~(masks & self.forbidden).any(axis=1)


def canonical_order(columns: Iterable[object]) -> list[int]:
    """Return the positions of columns sorted by name, with numbers by value: x2 before x10."""
    names = [str(name) for name in columns]
    return sorted(range(len(names)), key=lambda position: _name_key(names[position]))


def _name_key(name: str) -> tuple[list[tuple[str, int, str]], str]:
    pieces = re.split("([0-9]+)", name)
    numbers = [digits.lstrip("0") for digits in pieces[1::2]] + [""]
    # Numbers of any length are compared by length and then as text.
    pairs = zip(pieces[::2], numbers, strict=True)
    return [(text, len(number), number) for text, number in pairs], name


def _refuse_repeats(columns: tuple[str, ...]) -> None:
    if not columns:
        raise SpaceError("there are no features to select from; give at least one column")
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise SpaceError(f"column {name!r} appears more than once; rename or drop one")
        seen.add(name)


def _named_groups(groups: Groups | None, columns: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the feature names of each group, by group name; `columns` have their dtypes."""
    if groups is None:
        return {}
    if isinstance(groups, Mapping):
        pairs = [
            (
                str(name),
                _as_names(
                    f"group {name!r}", [members] if isinstance(members, str) else members, columns
                ),
            )
            for name, members in groups.items()
        ]
    else:
        lists = _as_list("groups", groups, "a mapping or a list of lists")
        members = [_as_names(f"group {place}", group, columns) for place, group in enumerate(lists)]
        pairs = [("+".join(group) or str(place), group) for place, group in enumerate(members)]
    named = dict(pairs)
    if len(named) < len(pairs):
        twice = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise SpaceError(f"group {twice!r} is given twice; leave one out")
    return named


def _as_names(
    role: str, features: object, columns: Mapping[str, Any], units: Iterable[str] = ()
) -> list[str]:
    """Replace column positions and patterns by names of `columns` and, in patterns, of `units`."""
    names: list[Any] = []
    for feature in [] if features is None else _as_list(role, features, "a list of features"):
        if isinstance(feature, str) or feature in columns:
            names.append(feature)
            continue
        if isinstance(feature, bool) or not isinstance(feature, Integral):
            raise SpaceError(f"{role} must name features or their positions, got {feature!r}")
        position = int(feature)
        if not 0 <= position < len(columns):
            raise SpaceError(
                f"{role} has the position {position} but there are {len(columns)} columns; "
                f"positions are from 0 to {len(columns) - 1}"
            )
        names.append(list(columns)[position])
    return expand_patterns(role, names, {**dict.fromkeys(units), **columns})


def _as_list(role: str, value: object, expected: str) -> list[object]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise SpaceError(f"{role} must be {expected}, got {value!r}")
    return list(value)


def _units(
    columns: tuple[str, ...], groups: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, ...]]:
    """Return the column positions of each unit, by its name."""
    place = {name: position for position, name in enumerate(columns)}
    owner: dict[str, str] = {}
    for group, members in groups.items():
        if not members:
            raise SpaceError(f"group {group!r} has no feature; name some or remove it")
        if group in place and list(members) != [group]:
            raise SpaceError(f"group {group!r} has the name of a feature; rename the group")
        for member in members:
            if member not in place:
                raise SpaceError(
                    f"group {group!r} names an unknown feature {member!r}"
                    f"{suggestion(member, columns)}"
                )
            if member in owner:
                raise SpaceError(
                    f"feature {member!r} is in the groups {owner[member]!r} and {group!r}; "
                    "leave it in one"
                )
            owner[member] = group
    members_of: dict[str, list[int]] = {}
    for position in canonical_order(columns):
        name = columns[position]
        members_of.setdefault(owner.get(name, name), []).append(position)
    return {name: tuple(unit) for name, unit in members_of.items()}


def _unit_mask(
    role: str,
    names: Iterable[str],
    columns: tuple[str, ...],
    units: Mapping[str, tuple[int, ...]],
) -> Bool:
    """Return the mask of the units that `names` cover; a group must be covered completely."""
    place = {name: position for position, name in enumerate(columns)}
    chosen: set[int] = set()
    for name in names:
        if name in units:
            chosen.update(units[name])
        elif name in place:
            chosen.add(place[name])
        else:
            candidates = [*columns, *units]
            raise SpaceError(
                f"{role} names an unknown feature {name!r}{suggestion(name, candidates)}"
            )
    mask = np.zeros(len(units), dtype=bool)
    for index, (name, unit) in enumerate(units.items()):
        inside = chosen.intersection(unit)
        if inside and len(inside) < len(unit):
            missing = next(columns[p] for p in unit if p not in chosen)
            raise SpaceError(
                f"{role} splits the group {name!r}: it lacks {missing!r}; name the whole group"
            )
        mask[index] = bool(inside)
    return mask
