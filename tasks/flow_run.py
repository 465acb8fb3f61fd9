"""The Prefect flow run that the code is part of: its address, its name, and its log."""

import contextlib
import contextvars
import logging
from functools import cache, partial

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run
from prefect.settings import PREFECT_UI_ENABLED
from prefect.utilities.urls import url_for

from tasks.tracking.store import within

# Tags of an MLflow run.
FLOW_RUN_TAG = "prefect.flow_run"
_ADDRESS_TAG = "prefect.url"
# Timeout for a slow or unavailable server.
_PATIENCE_SECONDS = 5.0


def flow_run_tags() -> dict[str, str]:
    """Return the tags that lead from an MLflow run to its outermost flow run; none outside one.

    A private server has no pages, hence no address.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return {}
    run_id = str(context.flow_run.id)
    with contextlib.suppress(Exception):
        run_id = str(flow_run.root_flow_run_id or run_id)
    address = url_for("flow-run", run_id) if PREFECT_UI_ENABLED.value() else None
    return {FLOW_RUN_TAG: run_id} | ({_ADDRESS_TAG: address} if address else {})


def rename_flow_run(name: str) -> None:
    """Rename the flow run that the code is part of; a failure is ignored."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    run_id = context.flow_run.id

    def rename() -> None:
        settings = {"timeout": _PATIENCE_SECONDS}
        with get_client(httpx_settings=settings, sync_client=True) as client:
            client.update_flow_run(run_id, name=name)

    with contextlib.suppress(Exception):
        within(_PATIENCE_SECONDS, partial(contextvars.copy_context().run, rename))


def log_line(text: str) -> None:
    """Write a line to the log of the flow run on its server, not to the terminal."""
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None:
        _logger().info("%s", text, extra={"flow_run_id": str(context.flow_run.id)})


@cache
def _logger() -> logging.Logger:
    """Return a logger for the server alone: loggers of Prefect print, and are off in commands."""
    logger = logging.getLogger("swarm.flow_run")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(APILogHandler())
    return logger
