"""What a refresh is made of: snapshots, lock, the published file, and rows that are known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.challenge import Challenge
from swarm import load_features, load_model_inputs
from swarm.errors import DataError, StoreError
from swarm.validation.answers import Answers
from tasks.refresh.champion import publish, require_publishable
from tasks.refresh.decision import compared_predictions, find_trained_rows, record_of_rows
from tasks.refresh.drift import summarise
from tasks.refresh.lock import champion_lock
from tasks.sources import newest
from tasks.table import Table
from tests.published import published_version

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
    for _ in range(2):
        # It leaves nothing.
        require_publishable(location)
        assert published_version(location) is None
    publish(location, {"version": "3", "features": ["a", "b c"]})
    assert load_features(location) == ["a", "b c"]
    require_publishable(location)
    publish(location, {"version": "4", "features": ["z"]})
    assert published_version(location) == "4"
    if where == "local":
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["features.json"]


def test_what_cannot_be_published_or_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for location in ("file/features.json", "."):
        for attempt in (require_publishable, lambda where: publish(where, {"features": []})):
            with pytest.raises(StoreError, match="cannot publish to"):
                attempt(str(tmp_path / location))
    with pytest.raises(StoreError, match="cannot publish to 'nothing://x' "):
        require_publishable("nothing://x")
    with pytest.raises(DataError, match="there is no features file at"):
        load_features(str(tmp_path / "none.json"))
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(DataError, match="is not a features file"):
        load_features(str(tmp_path / "other.json"))
    # As of a search of a comparison, which fits no model, or of a file written by hand.
    publish(str(tmp_path / "bare.json"), {"features": ["a"]})
    with pytest.raises(DataError, match="has no model_inputs"):
        load_model_inputs(str(tmp_path / "bare.json"))


def test_a_lock_is_let_go_by_a_process_that_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    hold = (
        "import sys, time\nfrom tasks.refresh.lock import champion_lock\n"
        f"with champion_lock({url!r}, 'mine'):\n"
        "    print('held', flush=True)\n    time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(StoreError, match="another refresh of 'mine' is still running"):
        champion_lock(url, "mine").__enter__()
    with champion_lock(url, "another"):
        other.kill()
        other.wait()
    with champion_lock(url, "mine"):
        pass
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


def test_drift_at_the_threshold_is_not_above_it() -> None:
    before = pd.DataFrame({"level": ["a"] * 70 + ["b"] * 30})
    champions: Any = SimpleNamespace(reference=lambda champion: summarise(before))
    for share, drifted in ((80, False), (81, True)):
        now = pd.DataFrame({"level": ["a"] * share + ["b"] * (100 - share)})
        drift = SimpleNamespace(psi=9.0, ks=0.1, action="warn")
        config: Any = SimpleNamespace(drift=drift, mute=())
        contest = Challenge(config, champions, SimpleNamespace(), 0)  # type: ignore[arg-type]
        contest.check_drift(SimpleNamespace(features=now))  # type: ignore[arg-type]
        assert bool(contest.findings) is drifted


@pytest.mark.parametrize("kind", ["regression", "multilabel", "multiclass"])
def test_the_predictions_of_a_comparison_have_all_that_it_was_made_of(kind: str) -> None:
    rng = np.random.default_rng(0)
    n, compared = 40, np.arange(40) % 4 > 0
    shares = [np.column_stack([1 - p, p]) for p in rng.random((2, n))]
    target: Any = pd.Series(np.arange(n) % 3, name="y")
    one = Answers(np.arange(n) % 3, rng.dirichlet([1, 1, 1], n), rng.random((n, 3)), np.arange(3))
    if kind == "regression":
        target, one = pd.Series(rng.normal(size=n)), Answers(rng.normal(size=n))
    elif kind == "multilabel":
        target = pd.DataFrame(rng.integers(0, 2, (n, 2)), columns=["a", "b"])
        one = Answers(np.column_stack([s[:, 1] > 0.5 for s in shares]), shares, None, [[0, 1]] * 2)
    test = Table("t", "t", pd.DataFrame(index=range(n)), target, pd.Series(np.arange(n) // 4))
    weight = rng.random(n)
    table = compared_predictions(
        pd.DataFrame({"row": np.arange(n)}), test, compared, {"champion": one}, weight
    )
    assert table["compared"].tolist() == compared.tolist()
    assert table["group"].tolist() == (np.arange(n) // 4).tolist()
    assert table["weight"].tolist() == weight.tolist()
    names = {
        "regression": ["champion"],
        "multilabel": ["champion.a", "champion.b", "champion.proba.a", "champion.proba.b"],
        "multiclass": [
            "champion",
            *(f"champion.{s}.{i}" for s in ("proba", "decision") for i in range(3)),
        ],
    }
    assert table.columns[4:].tolist() == names[kind]
    rest = one.take(compared)
    assert np.array_equal(table.loc[compared, names[kind][0]], rest.predicted.reshape(30, -1)[:, 0])
    if kind == "multilabel":
        assert np.array_equal(table.loc[compared, "champion.proba.b"], rest.proba[1][:, 1])
