"""Approval of a promotion by a person: a form of a deployed run, or a question on the terminal."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import typer
from prefect.context import FlowRunContext
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from pydantic import Field

from swarm.validation.metrics import display_name
from swarm.validation.paired_comparison import PairedComparison

_POLL_SECONDS = 5


class Approval(RunInput):
    """The form on the page of a paused run."""

    approve: bool = Field(default=False, description="Let the challenger replace the champion")
    reason: str = Field(default="", description="Stored with the decision")


@dataclass(frozen=True)
class Answer:
    """The answer of a person.

    Attributes
    ----------
    approved : bool
    why : str
        Clause that goes on from the evidence.
    answered : bool
        False if there was nobody to ask.
    """

    approved: bool
    why: str
    answered: bool = True


def ask(name: str, version: str, why: str, duel: PairedComparison | None, seconds: int) -> Answer:
    """Ask whether a version becomes the champion.

    A deployed run pauses until it is resumed with the form, in Prefect's page or by its client. A
    command asks on the terminal. Where there is neither, the answer is no.

    Parameters
    ----------
    name, version : str
        The champion, and the version that would replace it.
    why : str
        The evidence in one sentence.
    duel : PairedComparison or None
        Its figures; None if the champion cannot be compared.
    seconds : int
        How long to wait.
    """
    context = FlowRunContext.get()
    if context is not None and context.flow_run and context.flow_run.deployment_id:
        return _paused(form(name, version, why, duel), name, version, seconds)
    if sys.stdin.isatty():
        typer.echo(f"version {version} of {name} would replace the champion: {why}", err=True)
        yes = typer.confirm("promote it?", default=False, err=True)
        return Answer(yes, "approved on the terminal" if yes else "declined on the terminal")
    return _unanswered("approval is required, and there is no terminal", name, version)


def form(name: str, version: str, why: str, duel: PairedComparison | None) -> str:
    """Return the Markdown above the form: the figures of the comparison."""
    lines = [f"Shall version {version} of **{name}** replace the champion?", "", f"{why}."]
    if duel is None:
        return "\n".join(lines)
    interval = ""
    if math.isfinite(duel.low):
        interval = f" [{duel.low:+z.4f}, {duel.high:+z.4f}]"
    rows = {
        f"champion, {display_name(duel.metric)}": f"{duel.champion:.4f}",
        f"challenger, {display_name(duel.metric)}": f"{duel.challenger:.4f}",
        "gain": f"{duel.gain:+z.4f}{interval}",
        f"resamples with a gain above {duel.margin:g}": f"{duel.chance:.0%}",
        "test rows": str(duel.n_rows),
    }
    table = ["", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())]
    return "\n".join([*lines, *table])


def _paused(text: str, name: str, version: str, seconds: int) -> Answer:
    kind = Approval.with_initial_data(description=text)
    try:
        given = pause_flow_run(wait_for_input=kind, timeout=seconds, poll_interval=_POLL_SECONDS)
    except FlowPauseTimeout:
        return _unanswered(f"nobody approved it within {seconds} s", name, version)
    reason = f" ({given.reason})" if given.reason else ""
    return Answer(given.approve, f"{'approved' if given.approve else 'declined'} by hand{reason}")


def _unanswered(what: str, name: str, version: str) -> Answer:
    return Answer(False, f"{what}; `swarm rollback {name} --to {version}` promotes it", False)
