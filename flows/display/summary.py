"""What select, resume and refresh print at their end, and where to find more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from flows.display.terminal import echo, echo_row, pages_of, store_option, terminal_width
from swarm.validation.records import judgement_record
from swarm.validation.sentences import chosen_columns
from swarm.wording import counted
from tasks.tracking.client import SHORT_ID

if TYPE_CHECKING:
    from conf.schema import RefreshConfig, SelectConfig
    from flows.run.answer import SelectRun
    from flows.run.challenge import RefreshRun

_DECISIONS = {
    "first": "first champion",
    "promoted": "challenger promoted",
    "replaced": "champion replaced",
    "kept": "champion kept",
    "declined": "challenger declined",
    "unchanged": "nothing changed",
}


def outcome_as_dict(outcome: SelectRun, config: SelectConfig) -> dict[str, Any]:
    """Return what :func:`print_summary` prints, for programs."""
    result = outcome.result
    confirmation = result.confirmation
    return {
        "run_id": outcome.run_id,
        "experiment": config.tracking.experiment,
        "headline": outcome.headline.title,
        "features": result.features,
        "n_features": len(result.features),
        "n_available": result.space.n_columns,
        "model_inputs": outcome.model_inputs,
        "cost": result.cost,
        "confirmation": None if confirmation is None else confirmation.as_dict(),
        "evaluation": judgement_record(outcome.judgement),
        "epochs": result.state.epoch,
        "reason": result.reason,
        "models": {
            name: {
                "n_features": len({column for subset in model.subsets_ for column in subset}),
                "score": outcome.judgement.first_metric[outcome.contender(name)]["value"],
            }
            for name, model in outcome.models.items()
        },
        "served": outcome.served,
        "model": outcome.model_uri or None,
        "registered": outcome.registered,
        "findings": [finding.as_dict() for finding in outcome.findings],
        "unsent": outcome.unsent or None,
    }


def print_summary(outcome: SelectRun, config: SelectConfig) -> None:
    """Print the answer: columns, scores, the gravest findings, and what to do next."""
    head = outcome.headline
    typer.echo()
    typer.secho(head.title, bold=True)
    if columns := chosen_columns(head, outcome.result.features, terminal_width() or sys.maxsize):
        echo_row(columns)
    # The answer has the score of the subset, and the row of the model below its columns.
    lines = head.answer()
    if "ensemble" in outcome.models:
        lines.append(outcome.model_line("ensemble"))
    # The first line has the score, which is not cut off.
    for line in lines[:1]:
        echo(f"  {line}", indent=4)
    for line in lines[1:]:
        echo_row(f"  {line}")
    for row, line in enumerate(outcome.shown_doubts):
        echo_row(f"{'' if row else 'Look at':<9}{line}")
    if outcome.unsent:
        echo(f"warning: {outcome.unsent}", indent=9)
    run = outcome.run_id[:SHORT_ID]
    option = store_option(config.tracking.uri)
    n_more = len(outcome.doubts) - len(outcome.shown_doubts)
    more = f"  ({counted(n_more, 'more finding')})" if n_more else ""
    echo(
        f"Model    {_describe_model(outcome)}",
        f"Report   swarm report {run} --open{option}{more}",
        f"Runs     {pages_of(config.tracking.uri)}",
        # Columns that are worse than all, or no better than guessing, are not worth exporting.
        *([] if head.loses else [f"Next     swarm features {run}{option} > columns.txt"]),
        indent=9,
    )


def print_refresh(run: RefreshRun, config: RefreshConfig, *, quiet: bool = False) -> None:
    """Print the search, if there was one, and the decision."""
    if run.outcome is not None and not quiet:
        print_summary(run.outcome, config)
    champion = run.champion
    published = config.champion.publish
    uri = "none" if champion is None else f"{champion.uri}, since {champion.since or 'unknown'}"
    keys = "features: the columns to keep; model_inputs: those that the model needs"
    echo(
        *(f"warning: {text}" for text in run.warnings),
        f"Decision {_DECISIONS[run.decision]}: {run.why}",
        f"Champion {uri}",
        *([f"Features {published}  ({keys})"] if published and champion is not None else []),
        indent=9,
    )


def _describe_model(outcome: SelectRun) -> str:
    if not outcome.model_uri:
        return (
            "not stored: nothing is pickled, so an estimator of your own cannot be; fit it to the "
            "selected features"
        )
    n_columns = counted(len(outcome.model_inputs), "column")
    text = f"{outcome.served}, {n_columns}"
    if outcome.contender(outcome.served) == "all_features":
        text = f"all {n_columns}"
    if outcome.model_loses:
        text += ", worse than all"
    text += f": {outcome.model_uri}"
    if outcome.declined:
        reason = "it has no clear gain over guessing"
        if outcome.headline.beats_guessing:
            reason = "all features are better"
        text += f", not registered, as {reason}"
    return text
