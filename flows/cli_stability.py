"""``swarm stability``: which features a search selects for most seeds and samples of the rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli_flow import checked, interruptible
from flows.cli_options import AsJson, Config, Quiet, Set, Verbose
from flows.findings import Mute
from flows.prefect_server import launch_prefect

if TYPE_CHECKING:
    from conf.schema import SelectConfig
    from flows.stability import StabilityRun
    from swarm.validation.error_control import ErrorControl, ProbeEstimate

__all__ = ["print_stability", "stability"]

_MOST_ROWS = 30


def stability(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    seeds: Annotated[
        int, typer.Option(help="Searches on all training rows, each with its own seed.")
    ] = 10,
    resamples: Annotated[
        int, typer.Option(help="Searches on samples of the training rows, each with its own seed.")
    ] = 10,
    share: Annotated[
        float,
        typer.Option(help="Share of the rows in a sample; whole groups if data.group is set."),
    ] = 0.5,
    core: Annotated[
        float, typer.Option(help="Features in at least this share of searches are core.")
    ] = 0.8,
    noise: Annotated[
        float, typer.Option(help="Features in at most this share of searches are noise.")
    ] = 0.2,
    probes: Annotated[
        int,
        typer.Option(
            help="Shuffled copies of features added as noise; how often they are selected estimates"
            " the false selections. As many as features are best."
        ),
    ] = 0,
    false_selections: Annotated[
        float,
        typer.Option(
            help="Largest acceptable expected number of false selections among the stable features;"
            " needs samples of half of the rows."
        ),
    ] = 1.0,
    from_archive: Annotated[
        bool,
        typer.Option(
            "--archive",
            help="Search nothing: print what the evaluations in the archive say about each feature."
            " No substitute for samples of the rows.",
        ),
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Repeat a search over seeds and samples of the rows, and measure how stable its result is.

    After an interruption, run the same command to continue.

    Example: swarm stability default --seeds 5 --resamples 20
    """
    if from_archive:
        _print_archived(config, set_, as_json)
        return
    verbosity = 0 if quiet else 1 + verbose
    with launch_prefect() as server:
        from conf.load import load_select

        with checked(server, load_select(config, set_ or ()), mute, verbosity) as loaded:
            from flows.stability import Repetitions
            from flows.stability import stability as flow

            plan = Repetitions(
                seeds,
                resamples,
                share,
                core,
                noise,
                probes=probes,
                false_selections=false_selections,
            )
    with interruptible("run the same command to continue"):
        assessed = flow(loaded, plan, verbosity)
    if as_json:
        typer.echo(json.dumps(as_dict(assessed), indent=2, ensure_ascii=False))
    else:
        print_stability(assessed, loaded)


def _print_archived(config: str, set_: list[str] | None, as_json: bool) -> None:
    """Print the evidence from the archive; nothing is trained or stored."""
    from conf.check import check
    from conf.load import load_select

    loaded = load_select(config, set_ or ())
    check(loaded)
    from flows.archived import evidence_of

    found = evidence_of(loaded)
    if as_json:
        figures = {
            "n_subsets": found.n_subsets,
            "n_complete": found.n_complete,
            "n_winners": found.n_winners,
            "level": found.level,
            "features": json.loads(found.table.to_json(orient="records")),
        }
        typer.echo(json.dumps(figures, indent=2, ensure_ascii=False))
        return
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    from flows.terminal import result_console

    console = result_console()
    table = Table(box=SIMPLE)
    table.add_column("feature", overflow="fold")
    for name in ("winner share", "effect of removal", f"{found.level:.0%} interval", "pairs"):
        table.add_column(name, justify="right")
    for row in found.table.head(_MOST_ROWS).to_dict("records"):
        defined = row["effect"] == row["effect"]
        bounded = row["low"] == row["low"]
        table.add_row(
            escape(str(row["feature"])),
            f"{row['winner_share']:.0%}",
            f"{row['effect']:+.4f}" if defined else "",
            f"{row['low']:+.4f} to {row['high']:+.4f}" if bounded else "",
            str(row["n_pairs"]),
        )
    console.print(table)
    if len(found.table) > _MOST_ROWS:
        console.print(f"and {len(found.table) - _MOST_ROWS} more with --json")
    console.print(
        f"From {found.n_subsets:,} archived subsets on the folds of the search. Winner share: how "
        f"often the best subset of random fold weights ({found.n_winners} different ones) has the "
        "feature. Effect of removal: mean cost without the feature minus with it, over pairs of "
        "subsets that differ in nothing else."
    )
    console.print(
        "All subsets share the rows of the search, so this shows how far the folds decide between "
        "them. It is no selection probability: run swarm stability without --archive for that."
    )


def as_dict(assessed: StabilityRun) -> dict[str, Any]:
    """Return the result as JSON data; undefined values are null."""
    from tasks.stability import index_as_dict

    found = assessed.assessment
    return {
        "run": assessed.run_id,
        "draws": assessed.scheme,
        "basis": found.basis,
        "core_from": found.thresholds[0],
        "noise_to": found.thresholds[1],
        "stability_over_seeds": index_as_dict(found.by_seed),
        "stability_over_rows": index_as_dict(found.by_rows),
        "adjusted_over_seeds": _plain(found.adjusted_by_seed),
        "adjusted_over_rows": _plain(found.adjusted_by_rows),
        "error_control": _control(found.control),
        "probes": _probes(found.probes),
        "consensus": list(found.consensus),
        "features": json.loads(found.table.to_json(orient="records")),
    }


def _control(found: ErrorControl | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "method": "complementary pairs",
        "n_pairs": found.n_pairs,
        "mean_size": found.mean_size,
        "false_selections": found.wanted,
        "threshold": _plain(found.threshold),
        "bound": _plain(found.bound),
        "lowest_bound": found.lowest,
        "n_stable": int(found.stable.sum()),
    }


def _probes(found: ProbeEstimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "n_probes": found.n_probes,
        "selection_rate": found.probe_rate,
        "false_share": found.false_share,
    }


def _plain(value: float | None) -> float | None:
    """Convert NaN to None."""
    return None if value is None or value != value else value


def print_stability(assessed: StabilityRun, config: SelectConfig) -> None:
    """Print the selection frequencies, the stability index, and where to find more."""
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    from flows.terminal import WIDE, echo, print_end, result_console

    console = result_console()
    found = assessed.assessment
    both = found.by_seed is not None and found.by_rows is not None
    # A narrow terminal has no place for the shares over seeds, which stability.csv has too.
    both &= console.width >= WIDE
    table = Table(box=SIMPLE)
    # Of a narrow terminal the names have as much as they need, up to a quarter.
    longest = max(map(len, found.table["feature"].astype(str)), default=0)
    table.add_column("feature", overflow="fold", min_width=min(longest, 18))
    table.add_column("class")
    table.add_column("selected", justify="right")
    table.add_column("95 % interval", justify="right")
    if both:
        table.add_column("over seeds", justify="right")
    controlled = {"bound": "false selections", "q_value": "q-value"}
    controlled = {key: name for key, name in controlled.items() if key in found.table}
    for name in controlled.values():
        table.add_column(name, justify="right")
    colours = {"core": "bold", "optional": "", "noise": "dim"}
    rows = found.table.to_dict("records")
    for row in rows[:_MOST_ROWS]:
        cells = [
            escape(str(row["feature"])),
            str(row["class"]),
            f"{row['share']:.0%}",
            f"{row['low']:.0%} to {row['high']:.0%}",
        ]
        cells += [f"{row['share_seeds']:.0%}"] if both else []
        # A bound above the size of a subset promises nothing.
        most = {"bound": found.control.mean_size if found.control else 0.0, "q_value": 1.0}
        cells += [f"{row[key]:.2f}" if row[key] <= most[key] else "" for key in controlled]
        table.add_row(*cells, style=colours[row["class"]])
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"and {len(rows) - _MOST_ROWS} more in stability.csv, none more frequent")
    for line in assessed.sentences():
        console.print(line, markup=False)
    echo(f"Consensus of {len(found.consensus)}: {', '.join(found.consensus)}")
    look = "look     swarm ui, then open stability.csv and figures among its artifacts"
    print_end(console, (), assessed.run_id, config.tracking.experiment, look)
