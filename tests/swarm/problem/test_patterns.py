"""Tests of columns that are named by a pattern or by their type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError, SpaceError
from swarm.problem.patterns import expand_patterns
from swarm.problem.space import SearchSpace
from swarm.problem.table import dtypes_of

TABLE = pd.DataFrame(
    {
        "lag_1": [1.0],
        "lag_2": pd.array([1], dtype="Int64"),
        "Lag_3": [1],
        "city": pd.Categorical(["a"]),
        "note": ["x"],
        "when": pd.to_datetime(["2024-01-31"]),
        "paid": [True],
        "price [EUR]": [1.5],
        "all*": [2],
    }
)
DTYPES = dict(TABLE.dtypes)


@pytest.mark.parametrize(
    ("items", "expanded"),
    [
        (["lag_*"], ["lag_1", "lag_2"]),
        (["lag_2", "lag_*"], ["lag_2", "lag_1"]),
        (["*_[13]"], ["lag_1", "Lag_3"]),
        (["dtype:number"], ["lag_1", "lag_2", "Lag_3", "price [EUR]", "all*"]),
        (["dtype:category", "dtype:text"], ["city", "note"]),
        (["dtype:date", "dtype:boolean"], ["when", "paid"]),
        # Names that look like patterns, positions, and names that are refused later stay.
        (["price [EUR]", "all*", 3, "lga_1"], ["price [EUR]", "all*", 3, "lga_1"]),
    ],
)
def test_patterns_become_columns_and_all_else_stays(
    items: list[object], expanded: list[object]
) -> None:
    assert expand_patterns("drop", items, DTYPES) == expanded


@pytest.mark.parametrize(
    ("item", "message"),
    [("log_*", "'log_\\*'"), ("price [USD]", "did you mean 'price"), ("dtype:int", "there are")],
)
def test_what_matches_nothing_is_refused(item: str, message: str) -> None:
    with pytest.raises(InputError, match=f"drop.*{message}"):
        expand_patterns("drop", [item], DTYPES)


def test_columns_with_a_role_are_not_matched() -> None:
    assert expand_patterns("drop", ["lag_*"], DTYPES, skip=["lag_2"]) == ["lag_1"]
    with pytest.raises(InputError, match="no column"):
        expand_patterns("drop", ["lag_2*"], DTYPES, skip=["lag_2"])


def test_a_space_has_groups_by_pattern_and_constraints_on_groups_and_types() -> None:
    space = SearchSpace.build(
        list(TABLE),
        groups={"lags": "lag_*", "other": ["c*y", "note"]},
        fixed=["la*s"],
        forbidden=["dtype:boolean", "all*"],
        dtypes=dtypes_of(TABLE),
    )
    assert space.subset(space.fixed) == ["lag_1", "lag_2"]
    assert space.subset(space.forbidden) == ["paid", "all*"]
    assert space.units[space.names.index("other")] == (3, 4)
    with pytest.raises(SpaceError, match="splits the group 'lags'"):
        SearchSpace.build(list(TABLE), groups={"lags": "lag_*"}, fixed=["*_1"])
    with pytest.raises(SpaceError, match="'lag_1' is in the groups"):
        SearchSpace.build(list(TABLE), groups={"a": "lag_*", "b": "*_1"})


def test_every_container_has_dtypes() -> None:
    assert [dtype.kind for dtype in dtypes_of(np.ones((2, 2)))] == ["f", "f"]
    mixed = np.array([["a", 1.0], ["b", 2.0]], dtype=object)
    names = {str(position): dtype for position, dtype in enumerate(dtypes_of(mixed))}
    assert expand_patterns("fixed", ["dtype:text", "dtype:number"], names) == ["0", "1"]
