"""Locks: one refresh of a champion and one process per run at a time, until their holder ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from swarm.errors import StoreError
from tasks.refresh.lock import champion_lock, run_lock


@pytest.mark.parametrize("lock", [champion_lock, run_lock])
@pytest.mark.parametrize("archive", ["new/folder/archive.db", ""])
def test_a_lock_is_held_by_one_and_belongs_to_its_archive_and_name(
    lock: Any, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    url = f"sqlite:///{tmp_path / archive}" if archive else "sqlite://"
    for _ in range(2):
        with lock(url, "a/b"):
            with pytest.raises(StoreError, match="a/b"):
                lock(url, "a/b").__enter__()
            with lock(url, "another"), lock(f"sqlite:///{tmp_path}/other.db", "a/b"):
                pass
    places = {file.parent for file in tmp_path.rglob("*.lock")}
    assert places <= {tmp_path, (tmp_path / archive).parent, tmp_path / "temporary"}


def test_the_lock_of_a_run_is_not_that_of_a_champion(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    with champion_lock(url, "one"), run_lock(url, "one"):
        pass
    with pytest.raises(KeyError), champion_lock(url, "one"):
        raise KeyError("errors of the holder are its own")


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


class Server:
    """An engine of PostgreSQL with the advisory locks of one session."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.is_free = True
        self.n_open = 0

    def connect(self) -> Server:
        return self

    def __enter__(self) -> Server:
        self.n_open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.n_open -= 1

    def execute(self, statement: object, values: dict[str, int]) -> Server:
        assert "pg_try_advisory_lock" in str(statement)
        self.keys.append(values["key"])
        return self

    def scalar_one(self) -> bool:
        return self.is_free

    def dispose(self) -> None:
        assert self.n_open == 0


def test_a_lock_of_a_database_is_an_advisory_one_that_ends_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, url = Server(), "postgresql://ann:hunter2@host/db"
    monkeypatch.setattr("tasks.refresh.lock.open_engine", lambda *_, **__: server)
    for lock, name in ((champion_lock, "a"), (champion_lock, "b"), (run_lock, "a")) * 2:
        with lock(url, name):
            assert server.n_open == 1
        assert server.n_open == 0
    assert server.keys[:3] == server.keys[3:]
    assert len(set(server.keys)) == 3
    # The type of the server's key: a signed integer of 64 bits, most of which are used.
    assert all(-(2**63) <= key < 2**63 for key in server.keys)
    assert max(map(abs, server.keys)) > 2**56
    server.is_free = False
    with pytest.raises(StoreError, match="a1b2"):
        run_lock(url, "a1b2").__enter__()
    assert server.n_open == 0

    def refuse(*_: object) -> Any:
        raise sa.exc.OperationalError("", {}, Exception("login of ann with hunter2 failed"))

    monkeypatch.setattr(Server, "connect", refuse)
    with pytest.raises(StoreError, match=r"'churn' in postgresql://ann:\*\*\*@host/db") as caught:
        champion_lock(url, "churn").__enter__()
    assert "hunter2" not in str(caught.value)
