"""What the flows print at their end: tables, sentences, and where to find more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.terminal import echo, echo_row, pages_of, store_option, terminal_width
from swarm.metrics import display_name
from swarm.report.comparison import columns_of, formatted, judged_score, sentences
from swarm.validation.records import judgement_record
from swarm.validation.sentences import format_bounds, format_score, format_signed
from swarm.wording import counted, listed, listed_within
from tasks.files import plain, records
from tasks.tracking.client import SHORT_ID

if TYPE_CHECKING:
    from conf.schema import CompareConfig, RefreshConfig, SelectConfig
    from flows.answer import SelectRun
    from flows.challenge import RefreshRun
    from flows.compare import ComparisonRun
    from flows.nested import NestedRun
    from flows.stability import StabilityRun

# Width of the output in a file, and of that of a comparison.
WIDE, _WIDE_COMPARISON = 110, 120
# Columns under the headline; `swarm features` prints all of them.
_MOST_NAMES = 10
_MEANING = {
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
    "declined": "challenger declined",
    "unchanged": "nothing changed",
}
# Shown in the report only, so that a row fits on a line.
_PAGE_ONLY = ("evaluations",)
# Left out in this order where a row does not fit on a line; the report has all.
_LEFT_OUT = (
    *("seconds_evaluation", "seconds_algorithm", "best_cost", "size_reduction", "improvement"),
    *("distinct", "fits", "stability", "sd_cost"),
)
# Spaces between two columns, and on both sides of all of them.
_GAP, _EDGES = 3, 2
# Columns of costs that are shown as scores.
_SCORES = {
    "mean_cost": ("mean score", "{:.4f}"),
    "best_cost": ("best", "{:.4f}"),
    "mean_test_cost": ("test score", "{:.4f}"),
}
_TIMES = {
    "seconds_algorithm": ("algorithm s", "{:.2f}"),
    "seconds_evaluation": ("evaluation s", "{:.1f}"),
}
# Rows of a table of features.
_MOST_ROWS = 30


def result_console(width: int = WIDE) -> Console:
    """Return a console as wide as the terminal or ``COLUMNS``, or of this width in a file."""
    console = Console(highlight=False)
    is_set = os.environ.get("COLUMNS", "").isdigit()
    return console if console.is_terminal or is_set else Console(highlight=False, width=width)


def _print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print warnings, a line each."""
    for text in warnings:
        console.print(Text.assemble(("warning:", "yellow"), f" {text}"))


def _print_end(
    console: Console,
    config: SelectConfig | CompareConfig,
    run_id: str,
    what: str,  # to look at
    warnings: Iterable[str] = (),
) -> None:
    """Print warnings, the run, and where to find more."""
    _print_warnings(console, warnings)
    console.print(f"\nrun      {run_id}  ({config.tracking.experiment})", markup=False)
    echo(f"look     {pages_of(config.tracking.uri)}, then open {what}", indent=9)


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
        "model": outcome.model_uri or None,
        "registered": outcome.registered,
        "findings": [each.as_dict() for each in outcome.findings],
        "unsent": outcome.unsent or None,
    }


def print_summary(outcome: SelectRun, config: SelectConfig) -> None:
    """Print the answer: columns, scores, the gravest findings, and what to do next."""
    console = result_console()
    result, head = outcome.result, outcome.headline
    console.print(Text(f"\n{head.title}", "bold"))
    if head.n_features < head.n_available:
        best = "" if head.names_features else f"The best {head.n_features}: "
        start, names, width = f"  {best}", result.features, terminal_width()
        if width is None:
            echo(f"{start}{listed(names, _MOST_NAMES)}")
        else:
            echo_row(listed_within(width, start, names, _MOST_NAMES))
    for row, line in enumerate(outcome.lines):
        if row:
            echo_row(f"  {line}")
        else:  # the score is not cut off
            echo(f"  {line}", indent=4)
    for row, line in enumerate(outcome.shown_doubts):
        echo_row(f"{'' if row else 'Look at':<9}{line}")
    if outcome.unsent:
        console.print(Text(outcome.unsent, "yellow"))
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
    console = Console(highlight=False)
    console.soft_wrap = not console.is_terminal
    champion = done.champion
    console.print(Text.assemble((f"\n{_DECISIONS[done.decision]}", "bold"), f": {done.why}"))
    _print_warnings(console, done.warnings)
    since = "none" if champion is None else f"{champion.uri}  (since {champion.since or 'unknown'})"
    console.print(f"champion {since}", markup=False)
    if config.champion.publish and champion is not None:
        console.print(
            f"features {config.champion.publish}  (features: the columns to keep; model_inputs: "
            "those that the model needs)",
            markup=False,
        )


def _describe_model(outcome: SelectRun) -> str:
    if not outcome.model_uri:
        return (
            "not stored: nothing is pickled, so an estimator of your own cannot be; fit it to the "
            "selected features"
        )
    if outcome.declined:
        beaten = "all features are better"
        why = beaten if outcome.headline.beats_guessing else "it has no clear gain over guessing"
        return f"{outcome.model_uri}, not registered, as {why}"
    if not outcome.registered:
        return f"{outcome.model_uri}, stored with the run"
    return outcome.model_uri


def comparison_as_dict(compared: ComparisonRun, config: CompareConfig) -> dict[str, Any]:
    """Return what :func:`print_comparison` prints, for programs; undefined numbers are null."""
    comparison = compared.comparison
    return {
        "run_id": compared.run_id,
        "experiment": config.tracking.experiment,
        "all_features": {
            name: {"cost": cost, "size": size, "test_cost": compared.all_features_test.get(name)}
            for name, (cost, size) in compared.all_features.items()
        },
        "summary": records(comparison.summary),
        "ranks": {
            str(name): {key: plain(rank) for key, rank in row.items()}
            for name, row in comparison.ranks.iterrows()
        },
        "sentences": list(sentences(comparison)),
        "warnings": list(compared.warnings),
    }


def print_comparison(compared: ComparisonRun, config: CompareConfig) -> None:
    """Print a table for each data set, the ranks, the test results, and where to find more."""
    console = result_console(_WIDE_COMPARISON)
    comparison = compared.comparison
    columns = {**columns_of(comparison), **_SCORES, **_TIMES}
    summary = _in_metrics(compared)
    columns = _columns_that_fit(columns, summary, console.width)
    for dataset in comparison.datasets:
        rows, scoring = summary[summary["dataset"] == dataset], compared.scorings[dataset]
        cost, size = compared.all_features[dataset]
        test = compared.all_features_test.get(dataset)
        on_test = "" if test is None else f", {scoring.natural(test):.4f} on the test rows"
        scores = f"{scoring.natural(cost):.4f} with all {size} features{on_test}"
        table = Table(
            title=Text.assemble((dataset, "bold"), f": {display_name(scoring.metric)} {scores}"),
            title_justify="left",
            title_style="",
            box=SIMPLE,
        )
        for key, (name, _) in columns.items():
            table.add_column(name, justify="left" if key == "strategy" else "right", no_wrap=True)
        for _, row in rows.sort_values("rank", kind="stable").iterrows():
            table.add_row(*(formatted(row[key], form) for key, (_, form) in columns.items()))
        console.print(table)
    if len(comparison.datasets) > 1:
        console.print(_ranks(compared))
    for text in sentences(comparison):
        console.print(text, markup=False)
    what = "comparison.html among its artifacts"
    _print_end(console, config, compared.run_id, what, compared.warnings)


def _in_metrics(compared: ComparisonRun) -> pd.DataFrame:
    """Return the summary with scores in the metric of each data set instead of costs."""
    summary = compared.comparison.summary.copy()
    for dataset, scoring in compared.scorings.items():
        rows = summary["dataset"] == dataset
        for name in _SCORES.keys() & summary:
            summary.loc[rows, name] = summary.loc[rows, name].map(scoring.natural)
    return summary


def _columns_that_fit(
    columns: dict[str, tuple[str, str]], rows: pd.DataFrame, width: int
) -> dict[str, tuple[str, str]]:
    """Return the columns of a table that is at most so wide, the most important ones if need be."""
    shown = {key: value for key, value in columns.items() if key in rows and key not in _PAGE_ONLY}
    widths = {
        key: max([len(name), *(len(formatted(value, form)) for value in rows[key])]) + _GAP
        for key, (name, form) in shown.items()
    }
    for key in _LEFT_OUT:
        if key in shown and sum(widths[each] for each in shown) + _EDGES > width:
            del shown[key]
    return shown


def _ranks(compared: ComparisonRun) -> Table:
    ranks = compared.comparison.ranks
    title = f"Ranks by mean {judged_score(compared.comparison)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE)
    table.add_column("strategy", no_wrap=True)
    table.add_column("average", justify="right")
    for dataset in compared.comparison.datasets:
        table.add_column(dataset, justify="right")
    for name, row in ranks.sort_values("average", kind="stable").iterrows():
        cells = (f"{row[dataset]:g}" for dataset in compared.comparison.datasets)
        table.add_row(str(name), f"{row['average']:.2f}", *cells)
    return table


def print_nested(run: NestedRun, config: SelectConfig) -> None:
    """Print the scores with their differences, the stability, and what each stage took."""
    from tasks.stability import describe_index

    console = result_console()
    table = Table(
        title=f"On the test rows of {run.estimate.n_folds} outer folds",
        title_justify="left",
        box=SIMPLE,
    )
    table.add_column("", no_wrap=True)
    level = f"{run.estimate.level:.0%} interval"
    table.add_column(f"{display_name(run.scoring.metric)} ({level})")
    table.add_column("difference to all features")
    table.add_column("features", justify="right")
    # On a narrow terminal an interval has a row of its own.
    below = " " if console.width >= WIDE else "\n"
    for row in run.estimate.costs.to_dict("records"):
        name, difference = str(row["contender"]), ""
        value, low, high = run.score(name)
        score = (
            f"{format_score(value)}{below}[dim]\\[{format_score(low)}, {format_score(high)}][/dim]"
        )
        if name in ("ensemble", "best_subset"):
            value, low, high = run.difference(name)
            interval = ", ".join(format_bounds(low, high))
            difference = f"{format_signed(value)}{below}[dim]\\[{interval}][/dim]"
        table.add_row(_MEANING[name], score, difference, f"{row['n_features']:.1f}")
    console.print(table)
    console.print(run.sentence(), markup=False)
    console.print(run.optimism(), markup=False)
    index = run.stability.by_rows
    assert index is not None
    console.print(describe_index(index, "outer folds, which share rows"), markup=False)
    fits, seconds = run.totals("fits"), run.totals("seconds")
    stages = [
        f"{stage} {fits[stage]:,.0f} fits, {seconds[stage]:,.1f} s" for stage in fits if fits[stage]
    ]
    echo(f"Stages, cached fits included: {'; '.join(stages)}.")
    what = "nested_folds.csv and figures among its artifacts"
    _print_end(console, config, run.run_id, what, run.warnings)


def print_stability(run: StabilityRun, config: SelectConfig) -> None:
    """Print the selection frequencies, the stability index, and where to find more."""
    console = result_console()
    assessment = run.assessment
    both = assessment.by_seed is not None and assessment.by_rows is not None
    # A narrow terminal has no place for the shares over seeds, which stability.csv has too.
    both &= console.width >= WIDE
    table = Table(box=SIMPLE)
    # Names get the width they need, at most 18 characters on a narrow terminal.
    longest = max(map(len, assessment.table["feature"].astype(str)), default=0)
    table.add_column("feature", overflow="fold", min_width=min(longest, 18))
    table.add_column("class")
    over_seeds = ["over seeds"] if both else []
    for name in ("selected", "95 % interval", *over_seeds):
        table.add_column(name, justify="right")
    colours = {"core": "bold", "optional": "", "noise": "dim"}
    rows = assessment.table.to_dict("records")
    for row in rows[:_MOST_ROWS]:
        cells: list[Any] = [
            Text(str(row["feature"])),
            str(row["class"]),
            f"{row['share']:.0%}",
            f"{row['low']:.0%} to {row['high']:.0%}",
        ]
        cells += [f"{row['share_seeds']:.0%}"] if both else []
        table.add_row(*cells, style=colours[row["class"]])
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"and {len(rows) - _MOST_ROWS} more in stability.csv, none more frequent")
    console.print(run.sentence(), markup=False)
    echo(f"Consensus of {len(assessment.consensus)}: {', '.join(assessment.consensus)}")
    _print_end(console, config, run.run_id, "stability.csv and figures among its artifacts")
