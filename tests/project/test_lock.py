"""Tests of locks: one refresh of a champion, and one process per run, at a time.

Locks of archives on PostgreSQL are tested in ``test_postgres.py``.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from swarm.errors import StoreError
from tasks.refresh.lock import advisory_key, champion_lock, run_lock


@pytest.mark.parametrize("lock", [champion_lock, run_lock])
@pytest.mark.parametrize("archive", ["new/folder/archive.db", ""])
def test_a_lock_is_held_by_one_and_belongs_to_its_archive_and_name(
    lock: Any, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    url = f"sqlite:///{tmp_path / archive}" if archive else "sqlite://"
    (other,) = {champion_lock, run_lock} - {lock}
    for _ in range(2):
        with lock(url, "a/b"), other(url, "a/b"):
            with pytest.raises(StoreError, match="a/b"):
                lock(url, "a/b").__enter__()
            with lock(url, "another"), lock(f"sqlite:///{tmp_path}/other.db", "a/b"):
                pass
            places = {file.parent for file in tmp_path.rglob("*.lock")}
            assert places == {(tmp_path / archive).parent if archive else tmp_path / "temporary"}
    assert not list(tmp_path.rglob("*.lock"))


def test_a_lock_that_removes_its_file_is_still_held_by_one(tmp_path: Path) -> None:
    holders = 0
    held = 0
    most = 0

    def contend(_: int) -> None:
        nonlocal holders, held, most
        for _ in range(200):
            with contextlib.suppress(StoreError), run_lock(f"sqlite:///{tmp_path}/a.db", "run"):
                holders += 1
                most = max(most, holders)
                held += 1
                time.sleep(0)
                holders -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(contend, range(8)))
    assert held > 8
    assert most == 1
    assert not list(tmp_path.rglob("*.lock"))


def test_errors_of_the_holder_of_a_lock_are_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(sa.exc.DBAPIError),
        champion_lock(f"sqlite:///{tmp_path}/archive.db", "one"),
    ):
        raise sa.exc.DBAPIError("", None, Exception())


def test_a_database_has_room_for_the_key_of_any_name() -> None:
    keys = {advisory_key(f"champion-{i}") for i in range(100)}
    assert len(keys) == 100
    assert -(2**63) <= min(keys) < 0 < max(keys) < 2**63


def test_a_lock_is_let_go_by_a_process_that_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    hold = (
        "import sys\nfrom tasks.refresh.lock import champion_lock\n"
        f"with champion_lock({url!r}, 'mine'):\n"
        "    print('held', flush=True)\n    sys.stdin.read()"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", hold], **pipes) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="mine"):
            champion_lock(url, "mine").__enter__()
        other.kill()
        other.wait()
    with champion_lock(url, "mine"):
        pass
