"""Summary of a run or a refresh on the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from conf.schema import SelectConfig
from flows.select import Outcome
from flows.terminal import WIDE, print_end, print_warnings, result_console
from swarm.validation import Judgement
from swarm.validation.metrics import display_name

if TYPE_CHECKING:
    from conf.refresh_schema import RefreshConfig
    from flows.refresh import RefreshRun

__all__ = ["MEANING", "print_refresh", "print_summary", "summary_as_json"]

# Metrics that fit side by side; the report has all of them.
_METRICS = 5
MEANING = {
    "ensemble": "ensemble of the best subsets",
    "best_subset": "best single subset",
    "all_features": "all features, one model",
    "all_features_ensemble": "all features, same vote",
    "random_subsets": "random subsets, same vote",
}

_DECISIONS = {
    "first": "first champion",
    "promoted": "challenger promoted",
    "replaced": "champion replaced",
    "kept": "champion kept",
    "declined": "challenger not approved, champion kept",
    "unchanged": "nothing changed",
}


def summary_as_json(outcome: Outcome, config: SelectConfig) -> str:
    """Return what :func:`print_summary` prints, for programs."""
    result = outcome.result
    confirmation = result.confirmation
    told = {
        "run_id": outcome.run_id,
        "experiment": config.tracking.experiment,
        "headline": outcome.headline.title,
        "features": result.features,
        "n_features": len(result.features),
        "n_available": result.space.n_columns,
        "cost": result.cost,
        **({} if result.tuning is None else {"setting": result.tuning.params}),
        "confirmation": None if confirmation is None else confirmation.as_dict(),
        "evaluation": outcome.judgement.as_dict(),
        "epochs": result.state.epoch,
        "reason": result.reason,
        "model": outcome.model_uri or None,
        "registered": outcome.registered,
        "findings": [each.as_dict() for each in outcome.findings],
        "unsent": outcome.unsent or None,
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def print_summary(outcome: Outcome, config: SelectConfig) -> None:
    """Print the selected features, the test scores with their baselines, and where to find more."""
    console = result_console()
    result, judgement, head = outcome.result, outcome.judgement, outcome.headline
    console.print(f"\n[bold]{escape(head.title)}[/bold]")
    if head.n_features < head.n_available:
        found = "" if head.names_features else f"best subset found, {head.n_features}: "
        listed = Text(f"{found}{', '.join(result.features)}")
        # A terminal would break the names at its right edge; a file keeps them on a line.
        if console.is_terminal:
            console.print(Padding(listed, (0, 0, 0, 2)))
        else:
            console.print("  ", listed, sep="", soft_wrap=True)
    for text in head.sentences():
        console.print(text, highlight=False, markup=False)
    if head.offer:
        console.print(head.offer, highlight=False, markup=False)
    epochs = result.state.epoch
    console.print(
        f"{head.searched} It took {epochs} epoch{'s' * (epochs != 1)}, ended by {result.reason}.",
        highlight=False,
        markup=False,
    )
    if result.tuning is not None:
        text = result.tuning.sentence()
        console.print(f"{text[0].upper()}{text[1:]}.", highlight=False, markup=False)
    console.print(_figures(judgement, wide=console.width >= WIDE))
    console.print(judgement.verdict(), highlight=False, markup=False)
    if judgement.positive:
        console.print(judgement.positive, highlight=False, markup=False)
    if judgement.optimism is not None:
        console.print(
            f"Optimism of the best subset: {judgement.optimism:+.4f} "
            "(cost on these rows minus cost in cross-validation)."
        )
    if outcome.unsent:
        console.print(f"[yellow]{outcome.unsent}[/yellow]")
    look = "look     swarm ui, then open report.html among the run's artifacts"
    model = f"model    {_stored(outcome)}"
    print_end(console, outcome.warnings, outcome.run_id, config.tracking.experiment, model, look)


def print_refresh(done: RefreshRun, config: RefreshConfig, *, quiet: bool = False) -> None:
    """Print the search, if there was one, and the decision."""
    if done.outcome is not None and not quiet:
        print_summary(done.outcome, config)
    console = Console(highlight=False)
    console.soft_wrap = not console.is_terminal
    champion = done.champion
    console.print(f"\n[bold]{_DECISIONS[done.decision]}[/bold]: {done.why}")
    print_warnings(console, done.warnings)
    console.print(f"champion {champion.uri}  (since {champion.since or 'unknown'})")
    if config.champion.publish:
        console.print(f"features {config.champion.publish}")


def _stored(outcome: Outcome) -> str:
    if not outcome.model_uri:
        return "not stored: it cannot be saved without pickle"
    if outcome.declined:
        why = "all features are better"
        if not outcome.headline.beats_guessing:
            why = "it has no clear gain over guessing"
        return (
            f"{outcome.model_uri} (not registered, as {why}; to register it, set "
            "tracking.register to true)"
        )
    if not outcome.registered:
        return f"{outcome.model_uri} (stored with the run; tracking.register: auto registers it)"
    return outcome.model_uri


def _figures(judgement: Judgement, wide: bool) -> Table:
    """Return a table with a row per contender; the first metric has its confidence interval."""
    table = Table(
        title=f"On {judgement.n_rows:,} rows that no search saw", title_justify="left", box=SIMPLE
    )
    first, *others = judgement.metrics[: _METRICS if wide else 2]
    table.add_column("", no_wrap=True)
    table.add_column(display_name(first), no_wrap=True)
    for metric in others:
        table.add_column(display_name(metric), justify="right", min_width=8)
    for contender, rows in judgement.table.groupby("contender", sort=False):
        row = rows.set_index("metric").to_dict("index")
        top = row[first]
        cells = [f"{top['value']:.3f} [dim]\\[{top['low']:.3f}, {top['high']:.3f}][/dim]"]
        cells += [f"{row[metric]['value']:.3f}" for metric in others]
        table.add_row(MEANING.get(str(contender), str(contender)), *cells)
    return table
