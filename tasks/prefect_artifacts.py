"""Prefect artifacts of a run: progress, test metrics and the result.

Artifacts never delay or fail a run. They are skipped outside a flow run and on a private server,
which has no UI; requests to a slow or unavailable server time out after a few seconds.
"""

from __future__ import annotations

import contextvars
import json
import math
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pandas as pd
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import FlowRunContext
from prefect.logging import get_logger
from prefect.settings import PREFECT_API_URL, PREFECT_UI_ENABLED

from swarm.search.budget import Budget
from swarm.search.history import EpochRecord
from swarm.search.result import SearchResult
from swarm.validation import Judgement
from swarm.validation.contenders import CONTENDERS
from swarm.validation.headline import Headline
from tasks.tracking import Tracking
from tasks.tracking.store import first_line, within

# Interval between two updates of the progress.
_EVERY_SECONDS = 3.0
# Timeout for a slow or unavailable server.
_PATIENCE_SECONDS = 5.0
_MOST_FEATURES = 100

Row = Mapping[Any, Any]


@contextmanager
def show_progress(budget: Budget) -> Iterator[Callable[[EpochRecord], None]]:
    """Show how much of the budget of a search is spent.

    A background thread sends the updates, so that the search never waits for the server.

    Parameters
    ----------
    budget : Budget
        The progress is that of the limit closest to being reached.

    Yields
    ------
    callable
        Callback to call with the record of each epoch.
    """
    run = _flow_run()
    if run is None:
        yield lambda record: None
        return
    latest, ended = (0.0, "no epoch has finished yet"), threading.Event()

    def send_updates() -> None:
        sent = latest
        try:
            with _client() as client:
                given: dict[str, Any] = {"type": "progress", "flow_run_id": run}
                made = client.create_artifact(
                    ArtifactCreate(data=sent[0], description=sent[1], **given)
                )
                last = False
                while not last:
                    last = ended.wait(_EVERY_SECONDS)
                    if latest != sent:
                        sent = latest
                        changed = ArtifactUpdate(data=sent[0], description=sent[1])
                        client.update_artifact(made.id, changed)
        except Exception as error:
            _complain("progress", error)

    def move(record: EpochRecord) -> None:
        nonlocal latest
        latest = _spent(budget, record, time.monotonic() - started)

    # Settings such as the address of the server are context variables.
    within_context = contextvars.copy_context().run
    thread = threading.Thread(
        target=within_context, args=(send_updates,), name="prefect-progress", daemon=True
    )
    thread.start()
    started = time.monotonic()
    yield move
    latest = (100.0, latest[1])
    ended.set()
    thread.join(_PATIENCE_SECONDS)


def show_table(key: str, rows: Sequence[Row], description: str) -> bool:
    """Create a table artifact; return False if it was not sent.

    Parameters
    ----------
    key : str
        Artifacts with the same key are versions of each other. Characters that Prefect does not
        allow are replaced.
    rows : sequence of mappings
        Values by column.
    description : str
        Description in Markdown.
    """
    return _made(_table(key, rows, description))


def show_answer(
    name: str,
    result: SearchResult,
    head: Headline,
    judgement: Judgement,
    tracking: Tracking,
    run_id: str,
) -> bool:
    """Show the test metrics as a table, and the result as Markdown.

    Parameters
    ----------
    name : str
        Name of the configuration; the keys are ``NAME-figures`` and ``NAME-answer``.
    tracking : Tracking
        Store of the run `run_id`, which the text links to.
    """
    if _flow_run() is None:
        return False
    names = result.features
    listed = [f"- {_code(feature)}" for feature in names[:_MOST_FEATURES]]
    if len(names) > _MOST_FEATURES:
        listed.append(f"- and {len(names) - _MOST_FEATURES} more")
    paragraphs = [
        f"**{head.title}.** {' '.join(head.sentences())}",
        f"{head.searched} {head.offer} {result.state.epoch} epochs, ended by {result.reason}.",
        f"{judgement.verdict()} {judgement.positive}".rstrip(),
        _run_link(tracking, run_id),
        "## Features",
        "\n".join(listed) + "\n",
    ]
    text = "\n\n".join(paragraphs)
    figures = f"On {judgement.n_rows} unseen rows, with {judgement.level:.0%} intervals"
    return _made(
        _table(f"{name}-figures", _figure_rows(judgement), figures),
        ArtifactCreate(
            type="markdown", key=_key(f"{name}-answer"), data=text, description=judgement.verdict()
        ),
    )


def _figure_rows(judgement: Judgement) -> list[dict[str, str]]:
    """Return one row per contender: a column per metric, the value with its interval."""
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
        return f"MLflow run {_code(run_id)} in {_code(tracking.label)}; `swarm ui` shows it."
    return f"[MLflow run {run_id}]({address})"


def _spent(budget: Budget, record: EpochRecord, seconds: float) -> tuple[float, str]:
    metrics, shares = record.metrics, record.shares(budget, seconds)
    text = (
        f"epoch {record.epoch}{f' of {budget.epochs}' if budget.epochs else ''}: best cost"
        f" {metrics['best_cost']:.5f} with {metrics['best_size']:.0f} features"
    )
    return 100.0 * min(1.0, max(shares.values(), default=0.0)), text


def _flow_run() -> UUID | None:
    """Return the id of the current flow run, None if there is no run or no UI."""
    if not PREFECT_API_URL.value() or not PREFECT_UI_ENABLED.value():
        return None
    context = FlowRunContext.get()
    return context.flow_run.id if context is not None and context.flow_run is not None else None


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


def _made(*artifacts: ArtifactCreate) -> bool:
    run = _flow_run()
    if run is None:
        return False

    def send() -> None:
        with _client() as client:
            for artifact in artifacts:
                client.create_artifact(artifact.model_copy(update={"flow_run_id": run}))

    try:
        context = contextvars.copy_context()
        within(_PATIENCE_SECONDS, lambda: context.run(send))
    except Exception as error:
        _complain(", ".join(str(artifact.key) for artifact in artifacts), error)
        return False
    return True


def _client() -> SyncPrefectClient:
    # Passing settings creates a new client: that of the flow must stay in its thread.
    return get_client(httpx_settings={"timeout": _PATIENCE_SECONDS}, sync_client=True)


def _complain(what: str, error: Exception) -> None:
    reason = first_line(error) if str(error) else "no answer in time"
    get_logger("swarm").warning("Prefect did not accept an artifact, %s (%s)", what, reason)


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _code(text: str) -> str:
    """Format a name as inline code, so that it is not parsed as Markdown."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _with_interval(figure: Mapping[Hashable, Any]) -> str:
    value = f"{figure['value']:.4f}"
    if pd.isna(figure["low"]):
        return value
    return f"{value} [{figure['low']:.4f}, {figure['high']:.4f}]"
