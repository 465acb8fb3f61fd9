"""Fixtures that more than one test file needs."""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.postgres import NoPostgres, Postgres, running
from tests.small_run import Bench, leave_report_out

if TYPE_CHECKING:
    from tests.command import Swarm

_STARTUP_SECONDS = 120
_HOME = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Prefect reads its settings when it is imported: give it a home of its own before that."""
    # The tables of Prefect and MLflow were written for an older SQLAlchemy.
    for message in ("Type object .* OperatorClass", "The ``noload`` loader strategy"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:DeprecationWarning")
    # Hypothesis does not see references to a generator from objects that are frozen below.
    config.addinivalue_line("filterwarnings", "ignore:It looks like `register_random`")
    config.stash[_HOME] = tempfile.mkdtemp(prefix="prefect-home-")
    for name in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE"):
        os.environ.pop(name, None)
    os.environ |= {
        "PREFECT_HOME": config.stash[_HOME],
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        # A tracking server that is away is tried again as often as in the product, but at once.
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    }


def pytest_collection_finish() -> None:
    """Freeze imported objects: statsmodels collects garbage with every correction."""
    gc.collect()
    gc.freeze()


class _OneServer(LoadFileScheduling):
    """Keep the tests of a file in one process, and all files that need Prefect in another."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "served" if _needs_prefect(self.config.rootpath / file) else file


@functools.cache
def _needs_prefect(file: Path) -> bool:
    # The process that distributes the tests does not import them.
    return "prefect_server" in file.read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Start one server only with ``--dist loadgroup``, as each takes 15 seconds of processor time.

    Slow tests mostly wait for servers, and end sooner with two.
    """
    return _OneServer(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """One Prefect server for the session: flows of this process use it, others by its address."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=_STARTUP_SECONDS):
        address = PREFECT_API_URL.value()
        assert address
        yield address


@pytest.fixture
def api(prefect_server: str) -> Iterator[Any]:
    """Yield a client of the Prefect server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="session")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the MLflow store of the session: creating its tables takes seconds."""
    from tasks.tracking import open_tracking

    uri = f"sqlite:///{tmp_path_factory.mktemp('store')}/new/mlflow.db"
    open_tracking(uri, "made")
    return uri


@pytest.fixture
def bench(tmp_path: Path, tracking_uri: str) -> Bench:
    """Return a folder and an experiment for the runs of a test."""
    return Bench(tmp_path, tracking_uri)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return a function for the path of a benchmark data set, which skips where it is missing."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"

    def path(name: str) -> Path:
        file = folder / f"{name}.parquet"
        if not file.exists():
            pytest.skip(f"benchmark data set {name!r} is not at hand beside this checkout")
        return file

    return path


@pytest.fixture
def swarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swarm:
    """Run the `swarm` command in this process."""
    # Prefect reads its settings when it is imported, so it is imported here.
    from tests.command import command_of

    return command_of(monkeypatch, capsys)


@pytest.fixture
def narrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], list[str]]:
    """Return a function for the rows that a terminal of 80 columns showed since its last call."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")

    def rows() -> list[str]:
        shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
        # Rows of tables are indented; what does not fit is cut off with a dot.
        assert all(len(row) <= 80 and "…" not in row for row in shown if row.startswith("  "))
        return shown

    return rows


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the report and its models out, which take longer than all the rest of a small run."""
    leave_report_out(monkeypatch)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield the PostgreSQL server of the session, or skip the test where there is none."""
    try:
        with running() as server:
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))
