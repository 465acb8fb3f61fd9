"""``swarm evidence``: the studies behind docs/evidence, each by one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli_options import Quiet, Verbose
from flows.prefect_server import start_prefect

if TYPE_CHECKING:
    from flows.evidence.part import Study
    from flows.evidence.run import Places

__all__ = ["evidence_app"]

evidence_app = typer.Typer(
    help="Run the studies behind docs/evidence again, or write their pages from stored rows.",
    no_args_is_help=True,
)

Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of Parquet tables with a column `target`, or columns `label_...`; a column"
        " `group` is never a feature. Default: what scikit-learn bundles; Musk comes from UCI."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the pages, their figures and their rows.")]
Work = Annotated[Path, typer.Option(help="Folder of archives and prepared tables.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", help="A data set; may be given several times.")
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        "--leave-out",
        metavar="PART:DATASET",
        help="What is not to be run, such as knn:secom; may be given several times.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Searches at a time.")]
PagesOnly = Annotated[
    bool, typer.Option("--page", help="Run nothing: write the page from the rows that are stored.")
]
Runs = Annotated[int, typer.Option(min=1, help="Runs of each algorithm.")]
_OUT, _WORK = Path("docs/evidence"), Path("mlruns/evidence")


@evidence_app.command("two-d")
def two_d(
    data: Data = None,
    runs: Runs = 40,
    runs_knn: Annotated[int, typer.Option(min=0, help="Runs with 5-NN; 0 for none.")] = 10,
    resamples: Annotated[
        int, typer.Option(min=0, help="Splits of the nested part; 0 for none.")
    ] = 20,
    evaluations: Annotated[int, typer.Option(min=1, help="Evaluations of a run.")] = 6000,
    only: Only = None,
    leave_out: LeaveOut = None,
    page: PagesOnly = False,
    out: Out = _OUT,
    work: Work = _WORK,
    workers: Workers = 2,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Document 002: eight algorithms with naive Bayes and 5-NN, and what holds on unseen rows."""
    from flows.evidence.run import Places

    places = Places(out, work)
    if not page:
        from flows.evidence.two_d import two_d as study

        tables = work / "tables"
        given = study(
            data,
            tables,
            runs=runs,
            runs_knn=runs_knn,
            resamples=resamples,
            evaluations=evaluations,
            datasets=only,
        )
        whole = study(data, tables, evaluations=evaluations)
        _run(given.without(leave_out or ()), whole, places, workers, verbose, quiet)
    _write("two-d", places, ran=not page)


@evidence_app.command("bees")
def bees(
    data: Data = None,
    runs: Runs = 30,
    runs_others: Annotated[
        int, typer.Option(min=1, help="Runs at fixed sizes, and of the single-label swarms.")
    ] = 10,
    evaluations: Annotated[int, typer.Option(min=1, help="Evaluations of a run.")] = 500,
    only: Only = None,
    leave_out: LeaveOut = None,
    page: PagesOnly = False,
    out: Out = _OUT,
    work: Work = _WORK,
    workers: Workers = 2,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Document 004: bees, ants and a memetic search on labels, and single-label swarms."""
    from flows.evidence.run import Places

    places = Places(out, work)
    if not page:
        from flows.evidence.bees import bees as study

        given = study(
            data,
            work / "tables",
            runs=runs,
            runs_others=runs_others,
            evaluations=evaluations,
            datasets=only,
        )
        whole = study(data, work / "tables", evaluations=evaluations)
        _run(given.without(leave_out or ()), whole, places, workers, verbose, quiet)
    _write("bees", places, ran=not page)


@evidence_app.command("pays")
def pays(
    data: Data = None,
    resamples: Annotated[int, typer.Option(min=2, help="Splits into training and test rows.")] = 10,
    resamples_trees: Annotated[
        int, typer.Option(min=2, help="Splits where the model is LightGBM.")
    ] = 5,
    distinct: Annotated[int, typer.Option(min=1, help="Distinct subsets of a search.")] = 1000,
    distinct_trees: Annotated[
        int, typer.Option(min=1, help="Distinct subsets where the model is LightGBM.")
    ] = 200,
    only: Only = None,
    leave_out: LeaveOut = None,
    page: PagesOnly = False,
    out: Out = _OUT,
    work: Work = _WORK,
    workers: Workers = 2,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Where selection pays: three models on every data set, judged on rows no search saw."""
    from flows.evidence.run import Places

    places = Places(out, work)
    if not page:
        from flows.evidence.pays import pays as study

        given = study(
            data,
            work / "tables",
            resamples=resamples,
            resamples_trees=resamples_trees,
            distinct=distinct,
            distinct_trees=distinct_trees,
            datasets=only,
        )
        whole = study(data, work / "tables", distinct=distinct, distinct_trees=distinct_trees)
        _run(given.without(leave_out or ()), whole, places, workers, verbose, quiet)
    _write("pays", places, ran=not page)


@evidence_app.command("musk")
def musk(
    data: Data = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fast runs of each split.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs by the random split.")] = 100,
    epochs_group: Annotated[
        int, typer.Option(min=0, help="Epochs by molecules never seen; 0 for no such run.")
    ] = 100,
    epochs_exact: Annotated[
        int, typer.Option(min=0, help="Epochs of the run without shortcuts; 0 for none.")
    ] = 100,
    seeds_ablation: Annotated[int, typer.Option(min=1, help="Searches of each variant.")] = 5,
    distinct: Annotated[
        int, typer.Option(min=1, help="Distinct evaluations of a search of the ablation.")
    ] = 640,
    page: PagesOnly = False,
    out: Out = _OUT,
    work: Work = _WORK,
    workers: Workers = 2,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Document 000: Musk version 2, by the random split and by molecules, and an ablation."""
    from flows.evidence.run import Places

    places = Places(out, work)
    if not page:
        from flows.evidence.musk import ablation, musk_runs, not_run, run_musk

        runs = musk_runs(
            data,
            work,
            seeds=seeds,
            epochs=epochs,
            epochs_group=epochs_group,
            epochs_exact=epochs_exact,
        )
        all_runs = musk_runs(data, work, seeds=5, epochs=100, epochs_group=100, epochs_exact=100)
        whole = ablation(data, work, seeds=5, distinct=distinct)
        with _running():
            run_musk(runs, places, 0 if quiet else 1 + verbose)
        left = not_run(runs, all_runs, places, workers)
        study = ablation(data, work, seeds=seeds_ablation, distinct=distinct, left=left)
        _run(study, whole, places, workers, verbose, quiet)
    _write("musk", places, ran=not page)


def _run(
    study: Study, whole: Study, places: Places, workers: int, verbose: int, quiet: bool
) -> None:
    from flows.evidence.run import run_study

    shown = 0 if quiet else 1 + verbose
    with _running():
        run_study(study, places, whole=whole, workers=workers, verbosity=shown)


@contextmanager
def _running() -> Iterator[None]:
    """Have a Prefect server, and say after Ctrl-C that nothing is lost."""
    start_prefect()
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on with what is left", err=True)
        raise typer.Exit(130) from None


def _write(study: str, places: Places, ran: bool) -> None:
    from flows.evidence.pages import keep, write_page

    files = write_page(study, places)
    typer.echo(f"page     {files[f'{study}.md']}")
    typer.echo(f"rows     {places.rows(study).path}")
    if ran:
        typer.echo(f"run      {keep(study, files, places)}")
