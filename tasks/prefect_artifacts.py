"""Prefect artifacts of a run: test metrics and the answer.

Artifacts never delay or fail a run. They are skipped outside a flow run and on a private server,
which has no UI; requests to a slow or unavailable server time out after a few seconds.
"""

import contextvars
import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pandas as pd
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.context import FlowRunContext
from prefect.logging import get_logger
from prefect.settings import PREFECT_API_URL, PREFECT_UI_ENABLED

from swarm.validation import Judgement
from swarm.validation.contenders import CONTENDERS
from tasks.tracking import Tracking
from tasks.tracking.store import first_line, within

# Timeout for a slow or unavailable server.
_PATIENCE_SECONDS = 5.0

Row = Mapping[Any, Any]


def show_table(key: str, rows: Sequence[Row], description: str) -> bool:
    """Create a table artifact with a Markdown description; return False if it was not sent.

    Artifacts with the same key are versions of each other.
    """
    return _send(_table(key, rows, description))


def show_answer(
    name: str,
    text: str,
    judgement: Judgement,
    tracking: Tracking,
    run_id: str,
) -> bool:
    """Show the metrics as a table ``NAME-figures``, and the answer as ``NAME-answer``.

    Parameters
    ----------
    name : str
        Name of the configuration.
    text : str
        Answer, as Markdown.
    judgement : Judgement
    tracking : Tracking
        Store of the run, to which the text links.
    run_id : str

    Returns
    -------
    bool
        False if the artifacts were not sent.
    """
    if _flow_run() is None:
        return False
    text = f"{text}\n\n{_run_link(tracking, run_id)}\n"
    figures = f"On {judgement.n_rows} unseen rows, with {judgement.jackknife.level:.0%} intervals"
    return _send(
        _table(f"{name}-figures", _figure_rows(judgement), figures),
        ArtifactCreate(
            type="markdown", key=_key(f"{name}-answer"), data=text, description=judgement.sentence()
        ),
    )


def _figure_rows(judgement: Judgement) -> list[dict[str, str]]:
    """Make a row per contender, with a column per metric: the value with its interval."""
    rows = []
    for contender, figures in judgement.table.groupby("contender", sort=False):
        row = {"": CONTENDERS.get(str(contender), str(contender))}
        for figure in figures.to_dict("records"):
            row[str(figure["metric"])] = _with_interval(figure)
        rows.append(row)
    return rows


def _run_link(tracking: Tracking, run_id: str) -> str:
    """Return Markdown that names an MLflow run, with a link if the store is a server."""
    address = tracking.page(run_id)
    if address is None:
        command = as_code(f"swarm up{tracking.option}")
        return f"MLflow run {as_code(run_id)} in {as_code(tracking.label)}; {command} shows it."
    return f"[MLflow run {run_id}]({address})"


def _flow_run() -> UUID | None:
    """Return the id of the current flow run, None if there is no run or no UI."""
    if not PREFECT_API_URL.value() or not PREFECT_UI_ENABLED.value():
        return None
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return context.flow_run.id


def _table(key: str, rows: Sequence[Row], description: str) -> ArtifactCreate:
    # JSON has neither NaN nor infinity.
    table = [
        {
            name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
            for name, cell in row.items()
        }
        for row in rows
    ]
    data = json.dumps(table, default=str)
    return ArtifactCreate(type="table", key=_key(key), data=data, description=description)


def _send(*artifacts: ArtifactCreate) -> bool:
    run = _flow_run()
    if run is None:
        return False

    def send() -> None:
        # Passing settings creates a new client: the client of the flow must stay in its thread.
        settings = {"timeout": _PATIENCE_SECONDS}
        with get_client(httpx_settings=settings, sync_client=True) as client:
            for artifact in artifacts:
                client.create_artifact(artifact.model_copy(update={"flow_run_id": run}))

    try:
        context = contextvars.copy_context()
        within(_PATIENCE_SECONDS, lambda: context.run(send))
    except Exception as error:
        what = ", ".join(str(artifact.key) for artifact in artifacts)
        reason = first_line(error) if str(error) else "no answer in time"
        get_logger("swarm").warning("Prefect did not accept an artifact, %s (%s)", what, reason)
        return False
    return True


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def as_code(text: str) -> str:
    """Format a name as inline code, so that it is not parsed as Markdown."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _with_interval(figure: Mapping[Hashable, Any]) -> str:
    value = f"{figure['value']:.4f}"
    if pd.isna(figure["low"]):
        return value
    return f"{value} [{figure['low']:.4f}, {figure['high']:.4f}]"
