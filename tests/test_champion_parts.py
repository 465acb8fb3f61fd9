"""What a refresh is made of: snapshots, lock and the published file."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarm import load_features
from swarm.errors import DataError, StoreError
from tasks.refresh.lock import champion_lock
from tasks.refresh.publish import publish, published_version
from tasks.sources._snapshot import newest


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
