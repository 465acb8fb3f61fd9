"""The report of a tracked run, rendered again or downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swarm.errors import InputError
from swarm.report import render
from swarm.report.comparison import render_comparison
from swarm.report.serialization import comparison_of, report_of
from tasks.tracking import RunRecord, Tracking


@dataclass(frozen=True)
class Page:
    """The report of a run.

    Attributes
    ----------
    html : str
    how : str
        "rendered again" or "as stored".
    why : str
        Reason why it was not rendered again, else empty.
    """

    html: str
    how: str
    why: str = ""


def page_of(tracking: Tracking, run_id: str, *, stored: bool = False) -> Page:
    """Render the report of a run again from its stored data, or download it.

    The artifact ``report.json`` (``comparison.json`` of a comparison) contains all data of the
    page, so neither the archive, nor the table, nor any training is needed. The page differs from
    the stored one only if this version renders it differently. If the artifact is missing or has
    the format of another version, the stored page is downloaded.

    Parameters
    ----------
    stored : bool
        Download the page in any case.

    Raises
    ------
    InputError
        If there is no such run, or it has no report.
    """
    run = tracking.run(run_id)
    for name, rendered in _KINDS.items():
        page, data = f"{name}.html", f"{name}.json"
        there = tracking.find_artifact(run.run_id, page)
        why = "" if stored else "the run was written before report data was stored"
        if not stored and tracking.find_artifact(run.run_id, data):
            try:
                return Page(rendered(_read(tracking, run.run_id, data)), "rendered again")
            except InputError as error:
                if not there:
                    raise
                why = str(error)
        if there:
            return Page(_read(tracking, run.run_id, page), "as stored", why)
    raise InputError(_missing(run))


_KINDS: dict[str, Callable[[str], str]] = {
    "report": lambda text: render(report_of(text)),
    "comparison": lambda text: render_comparison(comparison_of(text)),
}


def _read(tracking: Tracking, run_id: str, path: str) -> str:
    return tracking.download(run_id, path).read_text(encoding="utf-8")


def _missing(run: RunRecord) -> str:
    """State why there is no report, and what to do."""
    start = f"the run {run.run_id} has no report"
    parent = run.tags.get("mlflow.parentRunId")
    if parent and run.tags.get("kind") != "compare":
        return f"{start}: it is a child of the run {parent}; use that run id"
    if run.status == "RUNNING":
        return (
            f"{start} yet: it is still running or was killed; wait, or `swarm resume {run.run_id}`"
        )
    if run.tags.get("kind") == "compare":
        return f"{start}: it ended as {run.status}; repeat the `swarm compare` command to resume it"
    return f"{start}: it ended as {run.status}; `swarm resume {run.run_id}` completes it"
