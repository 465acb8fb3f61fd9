"""``swarm nested``: how good a whole selection procedure is, from rows that it never saw."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli_flow import checked, interruptible
from flows.cli_options import AsJson, Config, Quiet, Set, Verbose
from flows.prefect_server import launch_prefect

if TYPE_CHECKING:
    from conf.schema import SelectConfig
    from flows.nested import NestedRun

__all__ = ["nested", "print_nested"]


def nested(
    config: Config,
    set_: Set = None,
    folds: Annotated[int, typer.Option(help="Outer folds of a partition of the rows.")] = 5,
    repeats: Annotated[
        int, typer.Option(help="Partitions of the rows, each with its own seed.")
    ] = 1,
    rows: Annotated[
        Literal["all", "train"],
        typer.Option(
            help="Divide all rows of the table, or only its training rows, which leaves the test"
            " rows of the split unused."
        ),
    ] = "all",
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Evaluate the whole procedure by nested cross-validation: search, confirmation, ensemble.

    Needs no test part. After an interruption, run the same command to continue.

    Example: swarm nested default --folds 5
    """
    verbosity = 0 if quiet else 1 + verbose
    with launch_prefect() as server:
        from conf.load import load_select

        with checked(server, load_select(config, set_ or ()), None, verbosity) as loaded:
            from flows.nested import OuterPlan
            from flows.nested import nested as flow

            outer = OuterPlan(folds, repeats, rows)
    with interruptible("run the same command to continue"):
        found = flow(loaded, outer, verbosity)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        print_nested(found, loaded)


def print_nested(found: NestedRun, config: SelectConfig) -> None:
    """Print the scores with their differences, the stability, and what each stage took."""
    from rich.box import SIMPLE
    from rich.table import Table

    from flows.stability import describe_index
    from flows.summary import MEANING
    from flows.terminal import WIDE, echo, print_end, result_console
    from swarm.validation.evidence import number, signed
    from swarm.validation.metrics import display_name

    console = result_console()
    table = Table(
        title=f"On the test rows of {found.estimate.n_folds} outer folds",
        title_justify="left",
        box=SIMPLE,
    )
    table.add_column("", no_wrap=True)
    level = f"{found.estimate.level:.0%} interval"
    table.add_column(f"{display_name(found.scoring.metric)} ({level})")
    table.add_column("difference to all features")
    table.add_column("features", justify="right")
    # On a narrow terminal an interval has a row of its own.
    below = " " if console.width >= WIDE else "\n"
    for row in found.estimate.costs.to_dict("records"):
        name, difference = str(row["contender"]), ""
        value, low, high = found.score(name)
        score = f"{number(value)}{below}[dim]\\[{number(low)}, {number(high)}][/dim]"
        if name in ("ensemble", "best_subset"):
            value, low, high = found.difference(name)
            difference = f"{signed(value)}{below}[dim]\\[{signed(low)}, {signed(high)}][/dim]"
        table.add_row(MEANING[name], score, difference, f"{row['n_features']:.1f}")
    console.print(table)
    console.print(found.sentence(), markup=False)
    console.print(_optimism(found), markup=False)
    index = found.stability.by_rows
    assert index is not None
    console.print(describe_index(index, "outer folds, which share rows"), markup=False)
    fits, seconds = found.totals("fits"), found.totals("seconds")
    stages = [
        f"{stage} {fits[stage]:,.0f} fits, {seconds[stage]:,.1f} s" for stage in fits if fits[stage]
    ]
    echo(f"Stages, cached fits included: {'; '.join(stages)}.")
    look = "look     swarm ui, then open nested_folds.csv and figures among its artifacts"
    print_end(console, found.warnings, found.run_id, config.tracking.experiment, look)


def _optimism(found: NestedRun) -> str:
    estimate = found.estimate
    said = (
        "The best subset costs "
        f"{estimate.optimism.mean:+.4f} more on the test rows than in the search"
    )
    if estimate.optimism_confirmed is None:
        return f"{said}."
    return f"{said}, and {estimate.optimism_confirmed.mean:+.4f} more than its confirmed cost."
