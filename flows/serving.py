"""Run deployments on their schedules until a signal ends this process and all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from typing import Any

import psutil
from prefect.runner import Runner

__all__ = ["serve_until_stopped"]

# For a run to end its MLflow run, which waits for the store at most this long.
_GRACE_SECONDS = 35.0
_REAP_SECONDS = 2.0


def serve_until_stopped(deployments: Sequence[Any], limit: int) -> None:
    """Serve deployments until SIGTERM or Ctrl-C, and pause their schedules at the end.

    Parameters
    ----------
    deployments : sequence of RunnerDeployment
    limit : int
        Maximum number of concurrent runs.
    """
    logging.getLogger("prefect.runner").addFilter(_is_news)
    runner = _Runner(pause_on_shutdown=True, limit=limit)
    for deployment in deployments:
        runner.add_deployment(deployment)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(runner.start())


class _Runner(Runner):
    """Prefect's runner, with a SIGTERM that ends its runs too.

    Prefect's own handler exits within its event loop, which leaves a traceback, and kills the
    processes of runs, which leaves their workers, and MLflow runs that seem to be running.
    """

    _serving: asyncio.Task[Any] | None = None

    async def start(self, run_once: bool = False, webserver: bool | None = None) -> None:
        """Serve until cancelled."""
        self._serving = asyncio.current_task()
        reaping = asyncio.create_task(_reap_workers())
        try:
            await super().start(run_once, webserver)
        finally:
            reaping.cancel()

    def handle_sigterm(self, *_: Any, **__: Any) -> None:
        """End all runs as killed, then serving, as Ctrl-C does."""
        # A second signal must not interrupt the first.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_runs()
        # Not by a SIGINT, which processes in the background of a shell ignore.
        if self._serving is not None:
            self._serving.get_loop().call_soon_threadsafe(self._serving.cancel)


def _end_runs() -> None:
    """Let the processes of runs end by themselves, then end what is left of them."""
    runs = psutil.Process().children()
    # Before they end, as their own children would lose their parent.
    family = psutil.Process().children(recursive=True)
    for run in runs:
        run.terminate()
    _left_after(_GRACE_SECONDS, runs)
    left = _left_after(0, family)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in _left_after(5, left):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _left_after(seconds: float, processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Wait for processes to end, without taking their status, for which asyncio waits."""
    end = time.monotonic() + seconds
    while (left := [each for each in processes if _is_alive(each)]) and time.monotonic() < end:
        time.sleep(0.1)
    return left


async def _reap_workers() -> None:
    """End the workers of runs whose process was killed.

    They hold its output open, without whose end Prefect does not notice that the run crashed.
    """
    workers: dict[psutil.Process, list[psutil.Process]] = {}
    while True:
        await asyncio.sleep(_REAP_SECONDS)
        with contextlib.suppress(psutil.Error):
            for run in psutil.Process().children():
                if run.status() != psutil.STATUS_ZOMBIE:
                    workers[run] = run.children(recursive=True)
        for run in [run for run in workers if not _is_alive(run)]:
            for worker in workers.pop(run):
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what the runner repeats every ten seconds while a run goes on."""
    return "scheduled runs skipped" not in str(record.msg)
