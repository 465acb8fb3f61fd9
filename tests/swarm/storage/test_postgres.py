"""PostgreSQL under everything: the archive, MLflow's store and the data; and many flows at once.

The archive's own contract runs on it in ``test_archive.py``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from conf.yaml_text import render
from swarm.errors import DataError, StoreError
from swarm.storage.archive import Archive
from tasks.refresh.lock import champion_lock, run_lock
from tasks.sources import fetch
from tasks.tracking import open_tracking
from tests.postgres import Postgres
from tests.small_run import NO_REPORT, OTHERS, Bench, table
from tests.warm_swarm import WarmSwarm

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

LONG = os.environ.get("SWARM_FAULTS") == "long"
FLOWS = 8 if LONG else 3
PASSWORD = "SWARM_TEST_PASSWORD"
EPOCHS = 4


@pytest.fixture(scope="module")
def warm(
    prefect_server: str, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WarmSwarm]:
    env = {"PREFECT_API_URL": prefect_server, PASSWORD: postgres.password}
    with WarmSwarm(tmp_path_factory.mktemp("said"), env, NO_REPORT) as started:
        yield started


class ServerBench(Bench):
    """A bench with its archive, its store and its table on PostgreSQL."""

    @property
    def archive(self) -> str:
        """The URL of the archive, with a placeholder of the password."""
        return (self.folder / "archive.url").read_text()

    def mapping(self, **sections: Any) -> dict[str, Any]:
        """The same search as on files."""
        base = super().mapping(**sections)
        stored = (self.folder / "store.url").read_text()
        base["tracking"]["uri"] = stored
        base["data"] = {
            "source": "sql",
            "url": stored.replace("+psycopg", ""),
            "query": 'SELECT * FROM measured ORDER BY "when"',
            "target": "y",
            "drop": OTHERS,
        }
        return base


@pytest.fixture
def on_server(postgres: Postgres, tmp_path: Path) -> ServerBench:
    store, archive = postgres.database(), postgres.database()
    bench = ServerBench(tmp_path / "server", store)
    bench.folder.mkdir()
    for name, url in (("store", store), ("archive", archive)):
        hidden = postgres.without_password(url, PASSWORD)
        (bench.folder / f"{name}.url").write_text(hidden)
    # MLflow's own tables come first: it makes them in an empty database only.
    open_tracking(store, bench.experiment, str(bench.folder / "artifacts"))
    table().to_sql("measured", sa.create_engine(store), index=False)
    return bench


@pytest.fixture(scope="module")
def on_files(
    warm: WarmSwarm, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], dict[str, bytes]]:
    """What a search with some seed finds on files and alone."""

    @cache
    def answer(seed: int) -> dict[str, bytes]:
        bench = Bench(tmp_path_factory.mktemp("files"), tracking_uri)
        command = warm.start("select", bench.file(seed=seed))
        assert command.wait() == 0, command.said()
        return bench.answer(bench.runs()[0].info.run_id)

    return answer


@pytest.mark.slow
def test_a_run_killed_on_postgresql_ends_as_on_files(
    warm: WarmSwarm,
    on_server: ServerBench,
    on_files: Callable[[int], dict[str, bytes]],
) -> None:
    killed = warm.start("select", on_server.file(seed=0), "-v")
    killed.wait_for("epoch 2/")
    killed.signal(signal.SIGKILL)
    killed.wait()
    run_id = on_server.runs()[0].info.run_id
    stored = on_server.mapping()["tracking"]["uri"]
    assert PASSWORD in stored
    command = warm.start("resume", run_id, "--tracking-uri", stored, "-v")
    assert command.wait() == 0, command.said()
    run = on_server.tracking.run(run_id)
    assert run.info.status == "FINISHED"
    assert on_server.answer(run_id) == on_files(0)
    assert on_server.steps(run_id) == list(range(1, EPOCHS + 1))
    assert run.data.tags["data"].startswith("sql:postgresql://swarm:***@")
    config = on_server.tracking.download(run_id, "config.yaml").read_text(encoding="utf-8")
    assert f"url: {on_server.archive}" in config


def without_driver(url: str) -> str:
    return url.replace("+psycopg", "")


def test_an_address_needs_no_driver_in_it(postgres: Postgres) -> None:
    url = without_driver(postgres.database())
    table().to_sql("measured", sa.create_engine(url.replace(":", "+psycopg:", 1)), index=False)
    assert len(fetch("sql", url=url, query="SELECT * FROM measured", target="y").features) == 120
    with pytest.raises(StoreError, match=r"not an archive .it has the table 'measured'"):
        Archive(url)
    Archive(without_driver(postgres.database())).check()


def test_a_query_that_writes_is_refused(postgres: Postgres) -> None:
    url = postgres.database()
    engine = sa.create_engine(url)
    table().to_sql("measured", engine, index=False)
    with pytest.raises(DataError, match="read-only"):
        fetch("sql", url=url, query="DELETE FROM measured RETURNING *", target="y")
    assert sa.inspect(engine).get_table_names() == ["measured"]
    assert len(fetch("sql", url=url, query="SELECT * FROM measured", target="y").features) == 120


def test_a_wrong_password_is_one_sentence_without_it(postgres: Postgres) -> None:
    wrong = sa.make_url(postgres.database()).set(password="hush:@/%")
    url = wrong.render_as_string(hide_password=False)
    for attempt in (
        lambda: Archive(url),
        lambda: champion_lock(url, "any").__enter__(),
        lambda: open_tracking(url, "any"),
        lambda: fetch("sql", url=url, query="SELECT 1", target="y"),
    ):
        with pytest.raises(StoreError, match="password authentication failed") as caught:
            attempt()
        assert "hush" not in str(caught.value)


def test_a_lock_in_a_database_is_held_by_one_and_ends_with_its_connection(
    postgres: Postgres,
) -> None:
    url = postgres.database()
    # The key of a lock is a signed number of 64 bits: those of some names are below 0.
    for name in "abcd":
        for _ in range(2):
            with champion_lock(url, name), run_lock(url, name):
                for lock in (champion_lock, run_lock):
                    with pytest.raises(StoreError, match=name):
                        lock(url, name).__enter__()
                with champion_lock(url, f"{name}b"):
                    pass


def make_store(uri: str) -> str:
    return open_tracking(without_driver(uri), "first").experiment_id


def test_an_empty_database_found_by_several_at_once_gets_its_tables_once(
    postgres: Postgres,
) -> None:
    uri = postgres.database()
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(make_store, [uri] * 4))) == 1


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_flows_at_once_on_one_store_lose_nothing(
    kind: str,
    warm: WarmSwarm,
    on_files: Callable[[int], dict[str, bytes]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if kind == "sqlite":
        bench = Bench(tmp_path / "together", f"sqlite:///{tmp_path}/fresh.db")
        bench.folder.mkdir()
    else:
        bench = request.getfixturevalue("on_server")
    # Two flows have the same seed, and write the same rows at the same moment.
    seeds = [number % (FLOWS // 2 + 1) for number in range(FLOWS)]
    files = {seed: bench.folder / f"{seed}.yaml" for seed in seeds}
    for seed, file in files.items():
        file.write_text(render(bench.mapping(seed=seed)), encoding="utf-8")
    commands = [warm.start("select", str(files[seed]), "-v") for seed in seeds]
    for command in commands:
        assert command.wait(600) == 0, command.said()
        assert "locked" not in command.said()
        assert "Traceback" not in command.said()
    runs = bench.runs()
    assert [run.info.status for run in runs] == ["FINISHED"] * FLOWS
    assert sorted(int(run.data.params["seed"]) for run in runs) == sorted(seeds)
    for run in runs:
        for metric in ("epoch/n_features", "spent/fits", "epoch/diversity", "work/fits"):
            assert bench.steps(run.info.run_id, metric) == list(range(1, EPOCHS + 1)), metric
        assert bench.answer(run.info.run_id) == on_files(int(run.data.params["seed"]))
    # The archive knows all that was evaluated: once more, and nothing is trained.
    again = warm.start("select", str(files[0]))
    assert again.wait() == 0, again.said()
    trained = bench.tracking.client.get_metric_history(bench.runs()[0].info.run_id, "work/fits")
    assert [point.value for point in trained] == [0] * EPOCHS
