"""What a refresh is made of: snapshots, lock, the published file, and rows that are known."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm import load_features
from swarm.errors import DataError, StoreError
from tasks.refresh.champion import publish, published_version
from tasks.refresh.decision import find_trained_rows, record_of_rows
from tasks.refresh.lock import champion_lock
from tasks.sources import newest
from tasks.table import Table

_TRAINED = np.arange(150) % 3 > 0


def test_the_newest_snapshot_is_the_one_of_the_latest_date(tmp_path: Path) -> None:
    for name in ("s_03-02-2026.csv", "s_01-12-2025.csv", "s_notes.csv", "t_01-01-2030.csv"):
        (tmp_path / name).write_text("a\n1\n")
    pattern = str(tmp_path / "s_{date:%d-%m-%Y}.csv")
    assert newest(pattern) == str(tmp_path / "s_03-02-2026.csv")
    assert newest(f"file://{pattern}") == f"file://{tmp_path}/s_03-02-2026.csv"
    assert newest("plain.csv") == "plain.csv"
    for wrong in ("u_{date}.csv", "s_{date:%H}.csv"):
        with pytest.raises(DataError, match="no file there has a date of the form"):
            newest(str(tmp_path / wrong))
    with pytest.raises(DataError, match="belongs in the name of the file"):
        newest(str(tmp_path / "{date}" / "rows.csv"))


@pytest.mark.parametrize("where", ["local", "memory://bucket/features.json"])
def test_a_features_file_is_read_as_it_was_published(where: str, tmp_path: Path) -> None:
    location = str(tmp_path / "new" / "features.json") if where == "local" else where
    assert published_version(location) is None
    publish(location, {"version": "3", "features": ["a", "b c"]})
    assert load_features(location) == ["a", "b c"]
    publish(location, {"version": "4", "features": ["z"]})
    assert published_version(location) == "4"
    if where == "local":
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["features.json"]


def test_what_cannot_be_published_or_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot publish to"):
        publish(str(tmp_path / "file" / "features.json"), {"features": []})
    with pytest.raises(DataError, match="there is no features file at"):
        load_features(str(tmp_path / "none.json"))
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(DataError, match="is not a features file"):
        load_features(str(tmp_path / "other.json"))


def test_a_lock_is_let_go_by_a_process_that_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    hold = (
        "import sys, time\nfrom tasks.refresh.lock import champion_lock\n"
        f"with champion_lock({url!r}, 'mine', 0):\n"
        "    print('held', flush=True)\n    time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(StoreError, match="another refresh of 'mine' is still running"):
        champion_lock(url, "mine", 0.0).__enter__()
    with champion_lock(url, "another", 0.0):
        other.kill()
        other.wait()
    before = time.monotonic()
    with champion_lock(url, "mine", 5.0):
        assert time.monotonic() - before < 3
    other.stdout.close()


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


def test_other_rows_are_not_taken_for_trained_ones() -> None:
    """Those with another target, or in columns where rows are equal by chance."""
    first = table()
    counted = table(features=first.features[["count", "kind", "open"]])
    for record, later in (
        (record_of_rows(first), table(target=1 - first.target)),
        (record_of_rows(counted.take(_TRAINED)), counted),
    ):
        found = find_trained_rows(record, later)
        assert found is not None
        assert not found.any()
    # Nothing is known without a column of then.
    lacking = table(features=first.features.drop(columns="kind"))
    assert find_trained_rows(record_of_rows(first), lacking) is None


def test_rows_of_a_group_of_trained_rows_count_as_trained() -> None:
    later = table(groups=pd.Series(np.arange(150) // 2, name="who"))
    even = np.arange(0, 150, 2)[:74]
    found = find_trained_rows(record_of_rows(later.take(even)), later)
    assert found is not None
    assert np.flatnonzero(found).tolist() == sorted([*even, *(even + 1)])
