"""Approval of a promotion by a person: a form of a deployed run, or a question on the terminal."""

from __future__ import annotations

import shlex
import sys
from typing import NamedTuple

import typer
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment
from pydantic import Field

# A run does not wait for a day, as the next one may start.
_MOST_SECONDS = 12 * 3600


class Approval(RunInput):
    """The form on the page of a paused run."""

    approve: bool = Field(default=False, description="Let the challenger replace the champion")
    reason: str = Field(default="", description="Stored with the decision")


class Answer(NamedTuple):
    """The answer of a person."""

    approved: bool
    why: str  # clause that goes on from the evidence
    answered: bool = True  # False if there was nobody to ask


def ask(name: str, version: str, why: str, option: str = "") -> Answer:
    """Ask whether a version becomes the champion `name`; `why` is the evidence in one sentence.

    A deployed run pauses until it is resumed with the form, in Prefect's page or by its client. A
    command asks on the terminal. Where there is neither, the answer is no, with the command that
    promotes the version by hand, which takes the `option` of its store.
    """
    later = promotion(name, version, option)
    if deployment.id:
        text = f"Shall version {version} of **{name}** replace the champion?\n\n{why}."
        form = Approval.with_initial_data(description=text)
        try:
            given = pause_flow_run(wait_for_input=form, timeout=_MOST_SECONDS, poll_interval=5)
        except FlowPauseTimeout:
            return Answer(False, f"nobody approved it in time; {later}", False)
        reason = f" ({given.reason})" if given.reason else ""
        word = "approved" if given.approve else "declined"
        return Answer(given.approve, f"{word} by hand{reason}")
    if sys.stdin.isatty():
        typer.echo(f"version {version} of {name} would replace the champion: {why}", err=True)
        yes = typer.confirm("promote it?", default=False, err=True)
        return Answer(yes, "approved on the terminal" if yes else "declined on the terminal")
    return Answer(False, f"approval is required, and there is no terminal; {later}", False)


def promotion(name: str, version: str, option: str) -> str:
    """Return the clause that says how to promote a version by hand."""
    return f"`swarm rollback {shlex.quote(name)} --to {version}{option}` promotes it"
