"""What a person reads at the end of a run."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from conf.schema import SelectConfig
from flows.select import Outcome
from swarm.validation import Judgement

__all__ = ["print_summary"]

# Columns that all figures need side by side.
_WIDE = 110
_MEANING = {
    "ensemble": "ensemble of the best subsets",
    "best_subset": "best single subset",
    "all_features": "all features, one model",
    "all_features_ensemble": "all features, same vote",
    "random_subsets": "random subsets, same vote",
}


def print_summary(outcome: Outcome, config: SelectConfig) -> None:
    """Print the chosen features, the test figures against the baselines, and where to look."""
    console = _console()
    result, judgement = outcome.result, outcome.judgement
    names = result.features
    console.print(
        f"\n[bold]{len(names)} of {result.space.n_columns} features[/bold] "
        f"(cost {result.cost:.5f}, {result.state.epoch} epochs, ended by {result.reason}):"
    )
    console.print("  " + ", ".join(names), soft_wrap=True)
    console.print(_figures(judgement, wide=console.width >= _WIDE))
    console.print(judgement.verdict())
    if judgement.optimism is not None:
        console.print(
            f"The best subset costs {judgement.optimism:+.4f} more on these rows than in "
            "cross-validation."
            if judgement.optimism > 0
            else f"The best subset costs {-judgement.optimism:.4f} less on these rows than in "
            "cross-validation."
        )
    for text in outcome.warnings:
        console.print(f"[yellow]warning:[/yellow] {text}")
    if outcome.unsent:
        console.print(f"[yellow]{outcome.unsent}[/yellow]")
    console.print(f"\nrun      {outcome.run_id}  ({config.tracking.experiment})")
    console.print(f"model    {outcome.model_uri or 'not kept: it has no form without a pickle'}")
    console.print("look     swarm ui (or make ui), then open report.html among the run's artifacts")


def _console() -> Console:
    """As wide as the terminal; a log file has no width to keep to."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def _figures(judgement: Judgement, wide: bool) -> Table:
    """One row a contender; the first metric with its interval, which the verdict is about."""
    table = Table(
        title=f"On {judgement.n_rows} rows that no search saw", title_justify="left", box=SIMPLE
    )
    first, *others = judgement.metrics if wide else judgement.metrics[:2]
    table.add_column("", no_wrap=True)
    table.add_column(first, no_wrap=True)
    for metric in others:
        table.add_column(metric.replace("_", " "), justify="right", min_width=8)
    for contender, rows in judgement.table.groupby("contender", sort=False):
        row = rows.set_index("metric").to_dict("index")
        top = row[first]
        cells = [f"{top['value']:.3f} [dim]\\[{top['low']:.3f}, {top['high']:.3f}][/dim]"]
        cells += [f"{row[metric]['value']:.3f}" for metric in others]
        table.add_row(_MEANING.get(str(contender), str(contender)), *cells)
    return table
