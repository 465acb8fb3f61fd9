"""Searches on clusters: the same answer as on this machine, whichever part of a cluster dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.select import select
from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.storage.archive import Archive
from tests.servers import free_port, happens
from tests.small_run import Bench, leave_report_out
from tests.test_workers import ROOT, Noted, needs_dask, notes, problem_of, same

pytestmark = pytest.mark.faults

# Enough subsets that a cluster is hit in the middle of a batch.
MANY = (np.arange(1, 128)[:, None] >> np.arange(7)) % 2 == 1
# Fits after which a part of the cluster is killed.
SOON = 30


def evaluated(folder: Path | str = "", archive: Archive | None = None, **options: Any) -> Any:
    with CrossValidation(problem_of(Noted(str(folder))), archive, **options) as evaluator:
        return evaluator.evaluate(MANY, np.full(len(MANY), np.inf), np.arange(3))


@pytest.fixture(scope="module")
def plain() -> Evaluations:
    """Answers of one process of this machine."""
    return evaluated()


@contextmanager
def in_mid_batch(folder: Path, kill: Callable[[], None]) -> Iterator[None]:
    """Kill when some fits have been noted in the folder, and not later than this context."""
    killed = threading.Event()

    def wait() -> None:
        file = folder / "notes"
        if happens(lambda: file.exists() and len(notes(folder, "fit")) > SOON, 120):
            kill()
            killed.set()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
    assert killed.is_set(), "nothing was killed"


@pytest.mark.parametrize("backend", ["loky", pytest.param("dask", marks=needs_dask)])
def test_a_run_is_the_same_to_the_byte_on_every_backend(
    backend: str, bench: Bench, prefect_server: str, monkeypatch: Any
) -> None:
    leave_report_out(monkeypatch)
    here = bench.other("here")
    expected = here.answer(select(here.config(), verbosity=0).run_id)
    there = bench.other("there")
    config = there.config(evaluation={"n_jobs": 2, "backend": backend})
    found = there.answer(select(config, verbosity=0).run_id)
    assert found == expected


def resumed(folder: Path, plain: Evaluations) -> None:
    """Finish on this machine what the archive of the folder does not have."""
    finished = evaluated(folder, Archive(f"sqlite:///{folder}/archive.db"))
    same(finished, plain)
    assert finished.work.hits > 0, "nothing was kept"


def dask(*arguments: str, inside: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[Any]:
    """Start a scheduler or a worker of Dask, in a process group of its own."""
    command = [*inside, sys.executable, "-m", "distributed.cli.dask_" + arguments[0]]
    return subprocess.Popen(
        [*command, *arguments[1:], "--no-dashboard"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **options,
    )


def kill_group(process: subprocess.Popen[Any]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@needs_dask
def test_a_dask_scheduler_that_is_killed_is_one_sentence_and_the_search_is_resumed(
    tmp_path: Path, plain: Evaluations
) -> None:
    port = str(free_port())
    address = f"tcp://127.0.0.1:{port}"
    archive = Archive(f"sqlite:///{tmp_path}/archive.db")
    with ExitStack() as cluster:
        scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", port)
        worker = dask("worker", address, "--nthreads", "1", "--nworkers", "2")
        cluster.callback(kill_group, worker)
        listens(port)
        with (
            pytest.raises(EvaluationError, match=r"^the connection to the Dask scheduler is lost"),
            in_mid_batch(tmp_path, lambda: kill_group(scheduler)),
        ):
            evaluated(tmp_path, archive, backend="dask", address=address)
    archive.close()
    resumed(tmp_path, plain)


def listens(port: str, host: str = "127.0.0.1") -> None:
    from tasks.task_runner import is_reachable

    assert happens(lambda: is_reachable(f"tcp://{host}:{port}", 0, 1.0), 60)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, list[str]]]:
    """Two network namespaces: the address of this machine between them, and their names."""
    tag = f"sw{os.getpid() % 100_000}"
    net = f"198.18.{os.getpid() % 250}"
    if shutil.which("ip") is None or shutil.which("mount") is None:
        pytest.skip("needs the commands ip (iproute2) and mount")
    with ExitStack() as made:
        try:
            ip("link", "add", tag, "type", "bridge")
            made.callback(ip, "link", "del", tag)
            ip("addr", "add", f"{net}.1/24", "dev", tag)
            ip("link", "set", tag, "up")
            names = [f"{tag}-{each}" for each in "ab"]
            for number, name in enumerate(names, start=2):
                ip("netns", "add", name)
                made.callback(ip, "netns", "del", name)
                ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", name, "master", tag, "up")
                ip("-n", name, "addr", "add", f"{net}.{number}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted here: {error.stderr.strip()}")
        yield f"{net}.1", names


@needs_dask
def test_two_hosts_without_the_data_find_what_this_machine_finds(
    hosts: tuple[str, list[str]], bench: Bench, prefect_server: str, monkeypatch: Any
) -> None:
    from distributed import Client

    leave_report_out(monkeypatch)
    here = bench.other("here")
    expected = here.answer(select(here.config(), verbosity=0).run_id)
    there = bench.other("there")
    host, names = hosts
    address = f"tcp://{host}:8786"
    config = there.config(
        evaluation={"backend": "dask", "address": address},
    )
    table = there.folder / "table.csv"
    with ExitStack() as cluster:
        cluster.callback(kill_group, dask("scheduler", "--host", host, "--port", "8786"))
        listens("8786", host)
        # `ip netns exec` has mounts of its own as well: an empty folder hides that of the test.
        hide = f'mount -t tmpfs none "{there.folder}" && cd "{there.folder}" && exec "$@"'
        for name in names:
            inside = ("ip", "netns", "exec", name, "sh", "-c", hide, "sh")
            worker = dask("worker", address, "--nthreads", "1", inside=inside)
            cluster.callback(kill_group, worker)
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            assert table.exists()
            seen = client.run(os.path.exists, str(table))
            assert len({each.rpartition(":")[0] for each in seen}) == 2
            assert not any(seen.values())
            found = there.answer(select(config, verbosity=0).run_id)
            worked = client.run(lambda dask_worker: len(dask_worker.state.log) > 0)
            assert all(worked.values())
    assert found == expected
