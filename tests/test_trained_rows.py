"""A champion is compared on rows that it was not trained on, however the table has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tasks.refresh.trained_rows import find_trained_rows, record_of_rows
from tasks.table import Table

_TRAINED = np.arange(150) % 3 > 0


def table(**parts: Any) -> Table:
    rng = np.random.default_rng(0)
    features = pd.DataFrame(
        {
            "count": rng.integers(0, 9, 150),
            "size": rng.normal(size=150),
            "kind": rng.choice(["u", "v"], 150),
            "open": rng.random(150) < 0.5,
        }
    )
    target = pd.Series(rng.integers(0, 2, 150), name="y")
    return Table("made", "made", **({"features": features, "target": target} | parts))


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X,
        lambda X: X.assign(later=1.0)[["later", "open", "kind", "size", "count"]],
        lambda X: X.astype({"count": float, "kind": "category", "open": int}),
        lambda X: X.astype({"kind": object, "count": "Int64"}),
    ],
    ids=["unchanged", "a new column and another order", "other types", "types of pandas"],
)
def test_trained_rows_are_found_in_a_later_table(change: Any) -> None:
    first = table()
    record = record_of_rows(first.take(_TRAINED))
    order = np.random.default_rng(1).permutation(150)
    later = table(features=change(first.features)).take(order)
    found = find_trained_rows(record, later)
    assert found is not None
    assert np.array_equal(found, _TRAINED[order])


def test_the_same_features_with_another_target_are_another_row() -> None:
    first = table()
    found = find_trained_rows(record_of_rows(first), table(target=1 - first.target))
    assert found is not None
    assert not found.any()


def test_rows_of_a_group_of_trained_rows_count_as_trained() -> None:
    later = table(groups=pd.Series(np.arange(150) // 2, name="who"))
    even = np.arange(0, 150, 2)[:74]
    found = find_trained_rows(record_of_rows(later.take(even)), later)
    assert found is not None
    assert np.flatnonzero(found).tolist() == sorted([*even, *(even + 1)])


def test_nothing_is_known_without_a_column_of_then() -> None:
    first = table()
    record = record_of_rows(first)
    assert find_trained_rows(record, table(features=first.features.drop(columns="kind"))) is None


def test_rows_that_are_equal_by_chance_are_not_taken_for_trained_ones() -> None:
    counted = table(features=table().features[["count", "kind", "open"]])
    found = find_trained_rows(record_of_rows(counted.take(_TRAINED)), counted)
    assert found is not None
    assert not found.any()
