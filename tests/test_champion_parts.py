"""What a refresh is made of: drift, duel, snapshots, lock and the published file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import GaussianNB

from swarm import load_features
from swarm.errors import DataError, StoreError
from swarm.validation.drift import drift_table, summarise
from swarm.validation.evaluation_target import EvaluationTarget
from swarm.validation.paired_comparison import duel
from tasks.refresh.lock import champion_lock
from tasks.refresh.publish import publish, published_version
from tasks.sources._snapshot import newest
from tests.fakes import calm


def frame(seed: int, n: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "count": rng.poisson(2.0, size=n),
            "kind": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n),
            "same": 1.0,
        }
    )


def test_rows_of_the_same_source_have_not_drifted_and_moved_ones_have() -> None:
    reference = json.loads(json.dumps(summarise(frame(0))))
    still = drift_table(reference, frame(1)).set_index("feature")
    assert (still["psi"] < 0.05).all()
    assert (still["ks"] < 0.05).all()
    later = frame(2)
    later["number"] = later["number"] * 0.5 + 1.0
    later["kind"] = later["kind"].replace({"a": "d"})
    later.loc[:999, "count"] = np.nan
    moved = drift_table(reference, later).set_index("feature")
    assert moved.loc["number", "ks"] == pytest.approx(0.54, abs=0.05)  # normal(0, 1) to (1, 1/2)
    assert moved.loc["kind", "ks"] == pytest.approx(0.6, abs=0.03)
    assert (moved.loc[["number", "kind", "count"], "psi"] > 0.2).all()
    assert moved.loc["count", "missing_now"] == 0.5
    assert moved.loc["same", ["psi", "ks"]].tolist() == [0.0, 0.0]


@calm
@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=40))
def test_nothing_has_drifted_from_itself(values: list[float]) -> None:
    table = pd.DataFrame({"x": values})
    moved = drift_table(json.loads(json.dumps(summarise(table))), table)
    assert moved.loc[0, "missing_before"] == moved.loc[0, "missing_now"]
    # Quantiles stand for few rows only roughly.
    assert moved.loc[0, "ks"] <= 0.5
    assert moved.loc[0, "psi"] >= 0


def test_a_duel_is_won_by_the_margin_at_the_confidence_asked() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    champion = np.where(rng.random(300) < 0.8, y, 1 - y)
    challenger = np.where(rng.random(300) < 0.9, y, 1 - y)
    met = duel(truth, champion, challenger, "accuracy", margin=0.0, confidence=0.95)
    assert met.champion == accuracy_score(y, champion)
    assert met.gain == pytest.approx(accuracy_score(y, challenger) - met.champion)
    assert met.low < met.gain < met.high
    assert met.won
    wide = duel(truth, champion, challenger, "accuracy", margin=0.2, confidence=0.95)
    assert not wide.won
    assert duel(truth, champion, champion, "accuracy").chance == 0.0
    # All rows of one group: that group again and again proves nothing.
    assert not duel(truth, champion, challenger, "accuracy", groups=np.zeros(300)).won


def test_groups_are_drawn_whole_in_a_duel() -> None:
    y = np.tile([0, 1], 100)
    truth = EvaluationTarget.of(GaussianNB(), y, y, None)
    groups = np.repeat(np.arange(4), 50)
    # Better in one group of four, and there by much: rows would be sure of it, groups are not.
    champion = np.where(groups == 0, 1 - y, y)
    by_rows = duel(truth, champion, y, "accuracy", confidence=0.95)
    by_group = duel(truth, champion, y, "accuracy", confidence=0.95, groups=groups)
    assert by_rows.chance == 1.0
    assert by_group.chance < 0.95
    assert by_group.n_groups == 4


def test_a_smaller_error_is_a_gain() -> None:
    y = np.arange(50, dtype=float)
    truth = EvaluationTarget.of(LinearRegression(), y, y, None)
    met = duel(truth, y + 2.0, y + 1.0, "neg_root_mean_squared_error")
    assert met.gain == pytest.approx(1.0)


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
