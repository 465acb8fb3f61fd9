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
        "findings": [each.as_dict() for each in outcome.findings],
        "unsent": outcome.unsent or None,
    }


def print_summary(outcome: SelectRun, config: SelectConfig) -> None:
    """Print the answer: columns, scores, the gravest findings, and what to do next."""
    head, names = outcome.headline, outcome.result.features
    typer.echo()
    typer.secho(head.title, bold=True)
    if columns := chosen_columns(head, names, terminal_width() or sys.maxsize):
        echo_row(columns)
    # The score of the subset is in its evidence, and its columns are at its model below.
    votes = [outcome.model_line("ensemble")] if "ensemble" in outcome.models else []
    for row, line in enumerate([*head.answer(), *votes]):
        if row:
            echo_row(f"  {line}")
        else:  # the score is not cut off
            echo(f"  {line}", indent=4)
    for row, line in enumerate(outcome.shown_doubts):
        echo_row(f"{'' if row else 'Look at':<9}{line}")
    if outcome.unsent:
        echo(f"warning: {outcome.unsent}", indent=9)
    run, option = outcome.run_id[:SHORT_ID], store_option(config.tracking.uri)
    more = len(outcome.doubts) - len(outcome.shown_doubts)
    echo(
        f"Model    {_describe_model(outcome)}",
        f"Report   swarm report {run} --open{option}"
        + (f"  ({counted(more, 'more finding')})" if more else ""),
        f"Runs     {pages_of(config.tracking.uri)}",
        # Columns that are worse than all, or no better than guessing, are not worth exporting.
        *([] if head.loses else [f"Next     swarm features {run}{option} > columns.txt"]),
        indent=9,
    )


def print_refresh(done: RefreshRun, config: RefreshConfig, *, quiet: bool = False) -> None:
    """Print the search, if there was one, and the decision."""
    if done.outcome is not None and not quiet:
        print_summary(done.outcome, config)
    champion, published = done.champion, config.champion.publish
    uri = "none" if champion is None else f"{champion.uri}, since {champion.since or 'unknown'}"
    keys = "features: the columns to keep; model_inputs: those that the model needs"
    echo(
        *(f"warning: {text}" for text in done.warnings),
        f"Decision {_DECISIONS[done.decision]}: {done.why}",
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
    which = f"{outcome.served}, {counted(len(outcome.model_inputs), 'column')}"
    if outcome.contender(outcome.served) == "all_features":
        which = f"all {counted(len(outcome.model_inputs), 'column')}"
    if outcome.model_loses:
        which = f"{which}, worse than all"
    text = f"{which}: {outcome.model_uri}"
    if outcome.declined:
        beaten = "all features are better"
        why = beaten if outcome.headline.beats_guessing else "it has no clear gain over guessing"
        return f"{text}, not registered, as {why}"
    return text
