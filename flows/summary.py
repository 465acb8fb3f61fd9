"""Summary of a run on the terminal."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from conf.schema import SelectConfig
from flows.select import Outcome
from swarm.search.result import SearchResult
from swarm.validation import Judgement

__all__ = ["MEANING", "print_summary"]

# Width of the table with all metrics.
_WIDE = 110
MEANING = {
    "ensemble": "ensemble of the best subsets",
    "best_subset": "best single subset",
    "all_features": "all features, one model",
    "all_features_ensemble": "all features, same vote",
    "random_subsets": "random subsets, same vote",
}


def print_summary(outcome: Outcome, config: SelectConfig) -> None:
    """Print the selected features, the test scores with their baselines, and where to find more."""
    console = _console()
    result, judgement = outcome.result, outcome.judgement
    names = result.features
    console.print(
        f"\n[bold]{_headline(result)}[/bold] "
        f"(cost {result.cost:.5f}, {result.state.epoch} epochs, ended by {result.reason}):"
    )
    console.print("  " + ", ".join(names), soft_wrap=True)
    if result.confirmation is not None:
        console.print(result.confirmation.sentence(), highlight=False, markup=False)
    console.print(_figures(judgement, wide=console.width >= _WIDE))
    console.print(judgement.verdict())
    if judgement.optimism is not None:
        console.print(
            f"Optimism of the best subset: {judgement.optimism:+.4f} "
            "(cost on these rows minus cost in cross-validation)."
        )
    for text in outcome.warnings:
        console.print(f"[yellow]warning:[/yellow] {text}")
    if outcome.unsent:
        console.print(f"[yellow]{outcome.unsent}[/yellow]")
    console.print(f"\nrun      {outcome.run_id}  ({config.tracking.experiment})")
    console.print(
        f"model    {outcome.model_uri or 'not stored: it cannot be saved without pickle'}"
    )
    console.print("look     swarm ui (or make ui), then open report.html among the run's artifacts")


def _headline(result: SearchResult) -> str:
    """State whether the subset, or all features, should be used."""
    count, total = len(result.features), result.space.n_columns
    verdict = "better" if result.confirmation is None else result.confirmation.verdict
    if verdict == "worse":
        return f"Keep all {total} features; the best subset has {count}"
    if verdict == "better":
        return f"{count} of {total} features"
    return f"No clear difference between these {count} and all {total} features"


def _console() -> Console:
    """Return a console as wide as the terminal, or wide enough for all metrics in a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def _figures(judgement: Judgement, wide: bool) -> Table:
    """Return a table with a row per contender; the first metric has its confidence interval."""
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
        table.add_row(MEANING.get(str(contender), str(contender)), *cells)
    return table
