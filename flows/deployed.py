"""The flows as Prefect deployments, with retries, and the process that serves their schedules.

Parameters are typed, so that Prefect's page has a form with the descriptions of the schema. They
arrive as JSON and are validated like a file. Transient errors (an unavailable store or network) are
retried with increasing delays, bad input is not. Evaluations of an earlier attempt are cached in
the archive.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any, TypeVar

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, State
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.states import Completed, Failed
from prefect.types.entrypoint import EntrypointType

from conf.load import AnyConfig
from conf.schema import CompareConfig, RefreshConfig, SelectConfig
from flows.run.flow_runs import DEPLOYED_FLOW, configuration_of, flow_name, tags_of
from swarm.errors import ConfigError, EvaluationError, InputError, SwarmError
from swarm.evaluation.transient import is_transient
from tasks.tracking.run_log import failure

C = TypeVar("C", bound=SelectConfig | CompareConfig)

_RETRY_SECONDS = (30.0, 120.0, 480.0)
_DAY_SECONDS = 24 * 3600


def read_parameter(value: object, model: type[C]) -> C:
    """Read the parameter `config` of a deployed flow, as JSON or as a configuration.

    The environment of the worker overrides nothing: the run uses what Prefect's page shows.
    """
    config = configuration_of(value)
    # A RefreshConfig is a SelectConfig, but must not run as one.
    if type(config) is not model:
        raise ConfigError(
            f"the parameter 'config' is for the flow {flow_name(config)!r}; run a deployment of"
            " that flow, or start from a configuration of this one"
        )
    return config


def _attempt_repeatedly(attempt: Callable[[], str]) -> State:
    """Run attempts until one succeeds, and return the state of the run.

    Bad input and models that fail would fail again. Prefect's own retries of a flow would repeat
    them, and have no increasing delays.
    """
    for delay in (*_RETRY_SECONDS, None):
        try:
            return Completed(message=attempt())
        except Exception as error:
            is_bad_model = isinstance(error, EvaluationError) and not is_transient(error)
            if delay is None or is_bad_model or isinstance(error, InputError):
                if isinstance(error, SwarmError):
                    # The message is enough; a traceback would hide it.
                    return Failed(message=str(error))
                raise
            get_run_logger().warning("%s; retrying in %.0f s", failure(error), delay)
            sleep(delay)
    raise AssertionError


@flow(name="select", timeout_seconds=_DAY_SECONDS, **DEPLOYED_FLOW)
def select(config: SelectConfig) -> State:
    """Select features, and evaluate the result on rows that no search has seen.

    Parameters
    ----------
    config : SelectConfig
        The keys of a configuration file.
    """
    from flows.select import select as run

    def attempt() -> str:
        # `fn` rather than a subflow: tasks and artifacts belong to this run.
        return run.fn(read_parameter(config, SelectConfig), None, 1).judgement.sentence()

    return _attempt_repeatedly(attempt)


@flow(name="compare", timeout_seconds=7 * _DAY_SECONDS, **DEPLOYED_FLOW)
def compare(config: CompareConfig, new: bool = False) -> State:
    """Compare strategies on data sets; an unfinished comparison is continued.

    Parameters
    ----------
    config : CompareConfig
        The keys of a configuration file.
    new : bool
        Start a new comparison, even if one is unfinished.
    """
    from flows.compare import compare as run
    from tasks.prefect_artifacts import show_table

    is_retry = False

    def attempt() -> str:
        nonlocal is_retry
        parameter = read_parameter(config, CompareConfig)
        # A retry continues the comparison.
        starts_new = new and not is_retry
        is_retry = True
        comparison = run(parameter, starts_new, 1)
        text = " ".join(comparison.sentences())
        summary = comparison.data.comparison.summary.to_dict("records")
        show_table(f"{parameter.name}-summary", summary, text)
        return text

    return _attempt_repeatedly(attempt)


@flow(name="refresh", timeout_seconds=_DAY_SECONDS, **DEPLOYED_FLOW)
def refresh(config: RefreshConfig, force: bool = False) -> State:
    """Search the newest rows, and promote the result if it beats the champion.

    Parameters
    ----------
    config : RefreshConfig
        The keys of a configuration file.
    force : bool
        Search even if neither data nor configuration has changed.
    """
    from flows.refresh import refresh as run

    def attempt() -> str:
        result = run.fn(read_parameter(config, RefreshConfig), force, 1)
        return f"{result.decision}: {result.why}"

    return _attempt_repeatedly(attempt)


def deployment_of(config: AnyConfig) -> RunnerDeployment:
    """Return the deployment of a configuration with a schedule."""
    assert config.schedule is not None
    name = flow_name(config)
    deployed: Any = {"select": select, "compare": compare, "refresh": refresh}[name]
    return deployed.to_deployment(
        name=config.name,
        description=config.description,
        tags=tags_of(config, name),
        schedules=[CronSchedule(cron=config.schedule.cron, timezone=config.schedule.timezone)],
        parameters={"config": config.model_dump(mode="json", by_alias=True)},
        # A run that takes longer than its interval delays the next one.
        concurrency_limit=ConcurrencyLimitConfig(
            limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
        ),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def serve_until_stopped(deployments: Sequence[RunnerDeployment], limit: int) -> None:
    """Serve deployments, at most `limit` runs at once, until Ctrl-C or SIGTERM.

    Runs then end as cancelled, and schedules are paused. In the main thread, :func:`prefect.serve`
    would handle both signals itself: by an exception in its event loop, which kills its runs before
    they have ended their MLflow runs, and leaves a traceback.
    """
    runner = Runner(limit=limit)
    for deployment in deployments:
        runner.add_deployment(deployment)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(1) as thread:
        serving = thread.submit(asyncio.run, runner.start())
        try:
            serving.result()
        except KeyboardInterrupt:
            # A second signal must not interrupt the first.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while not (runner.started or serving.done()):
                time.sleep(0.1)
            if runner.started:
                runner.execute_in_background(runner.astop).result()
