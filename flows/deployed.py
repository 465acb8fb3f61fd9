"""The flows as Prefect deployments, with retries, and the process that serves their schedules.

Parameters are typed, so that Prefect's page has a form with the descriptions of the schema. They
arrive as JSON and are validated like a file. Transient errors (an unavailable store or network) are
retried with increasing delays, bad input is not. Evaluations of an earlier attempt are cached in
the archive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any, TypeVar

import psutil
from prefect import flow, get_run_logger
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, State
from prefect.client.schemas.schedules import CronSchedule
from prefect.runner import Runner
from prefect.states import Completed, Failed
from prefect.types.entrypoint import EntrypointType

from conf.load import AnyConfig
from conf.schema import CompareConfig, RefreshConfig, SelectConfig
from flows.flow_runs import DEPLOYED_FLOW, configuration_of, flow_name, tags_of
from swarm.errors import ConfigError, InputError, SwarmError

C = TypeVar("C", bound=SelectConfig | CompareConfig)

# Delays before each retry.
_DELAYS_SECONDS = (30.0, 120.0, 480.0)
_DAY_SECONDS = 24 * 3600
# For a run to end its MLflow run, which waits for the store at most this long.
_GRACE_SECONDS = 35.0
_REAP_SECONDS = 2.0


def read_parameter(value: object, kind: type[C]) -> C:
    """Read the parameter `config` of a deployed flow, as JSON or as a configuration.

    The environment of the worker overrides nothing: the run uses what Prefect's page shows.

    Raises
    ------
    ConfigError
        An unknown key, a value that is not allowed, or a configuration of another kind.
    """
    config = configuration_of(value)
    # A RefreshConfig is a SelectConfig, but must not run as one.
    if type(config) is not kind:
        raise ConfigError(
            f"the parameter 'config' is for the flow {flow_name(config)!r}; run a deployment of"
            " that flow, or start from a configuration of this one"
        )
    return config


def _concluded(attempt: Callable[[], str]) -> State:
    """Run attempts until one succeeds, and return the state of the run.

    Prefect's own retries of a flow would repeat bad input, and have no increasing delays.
    """
    for delay in (*_DELAYS_SECONDS, None):
        try:
            return Completed(message=attempt())
        except Exception as error:
            if delay is None or isinstance(error, InputError):
                if isinstance(error, SwarmError):
                    # The message is enough; a traceback would hide it.
                    return Failed(message=str(error))
                raise
            reason = next(iter(str(error).splitlines()), repr(error))
            get_run_logger().warning("%s; retrying in %.0f s", reason, delay)
            sleep(delay)
    raise AssertionError


@flow(name="select", timeout_seconds=_DAY_SECONDS, **DEPLOYED_FLOW)
def select(config: SelectConfig) -> State:
    """Select features, and evaluate the result on rows that no search has seen.

    Parameters
    ----------
    config : SelectConfig
        What a configuration file holds.
    """
    from flows.select import select as run

    def attempt() -> str:
        # `fn` rather than a subflow: tasks and artifacts belong to this run.
        return run.fn(read_parameter(config, SelectConfig), None, 1).judgement.verdict()

    return _concluded(attempt)


@flow(name="compare", timeout_seconds=7 * _DAY_SECONDS, **DEPLOYED_FLOW)
def compare(config: CompareConfig, new: bool = False) -> State:
    """Compare strategies on data sets; an unfinished comparison is continued.

    Parameters
    ----------
    config : CompareConfig
        What a configuration file holds.
    new : bool
        Start a new comparison, even if one is unfinished.
    """
    from flows.compare import compare as run
    from swarm.report.comparison import sentences
    from tasks.prefect_artifacts import show_table

    # In the first attempt only: a retry continues it.
    afresh = iter([new])

    def attempt() -> str:
        read = read_parameter(config, CompareConfig)
        done = run(read, next(afresh, False), 1)
        told = " ".join(sentences(done.comparison))
        show_table(f"{read.name}-summary", done.comparison.summary.to_dict("records"), told)
        return told

    return _concluded(attempt)


@flow(name="refresh", timeout_seconds=_DAY_SECONDS, **DEPLOYED_FLOW)
def refresh(config: RefreshConfig, force: bool = False) -> State:
    """Search the newest rows, and promote the result if it beats the champion.

    Parameters
    ----------
    config : RefreshConfig
        What a configuration file holds.
    force : bool
        Search even if neither data nor configuration has changed.
    """
    from flows.refresh import refresh as run

    def attempt() -> str:
        done = run.fn(read_parameter(config, RefreshConfig), force, 1)
        return f"{done.decision}: {done.why}"

    return _concluded(attempt)


def deployment_of(config: AnyConfig) -> Any:
    """Return the deployment of a configuration with a schedule."""
    assert config.schedule is not None
    kind = flow_name(config)
    deployed: Any = {"select": select, "compare": compare, "refresh": refresh}[kind]
    return deployed.to_deployment(
        name=config.name,
        description=config.description,
        tags=tags_of(config, kind),
        schedules=[CronSchedule(cron=config.schedule.cron, timezone=config.schedule.timezone)],
        parameters={"config": config.model_dump(mode="json", by_alias=True)},
        # A run that takes longer than its interval delays the next one.
        concurrency_limit=ConcurrencyLimitConfig(
            limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
        ),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


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
