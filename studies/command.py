"""The command line of a study: run what has no row yet, then render its page."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from studies.page import Page, UnsupportedClaimError, write_page
from studies.runner import Part, run_study
from swarm.errors import InputError

__all__ = ["command"]


def command(
    study: str,
    parts: Callable[..., list[Part]],
    page_of: Callable[[Path], Page],
    before: Callable[..., None] | None = None,
) -> None:
    """Parse the command line and do what it says.

    Parameters
    ----------
    study : str
        Name of its files.
    parts : callable
        ``parts(data, work, only, **numbers)`` lays the searches out; its numbers have defaults.
    page_of : callable
        Fills the page in from what is stored in a folder.
    before : callable, optional
        ``before(data, work, out, verbosity, **numbers)`` runs what is more than rows.
    """
    first = dict(before.__kwdefaults__) if before is not None else {}
    numbers = {**parts.__kwdefaults__, **first}
    listed = ", ".join(f"{name}={number}" for name, number in numbers.items())

    def main(
        data: Annotated[Path | None, typer.Option(help="Folder of Parquet tables.")] = None,
        change: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=NUMBER", help="Change a number of the protocol."),
        ] = None,
        only: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated.")] = None,
        page: Annotated[bool, typer.Option("--page", help="Run nothing, render the page.")] = False,
        out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs/evidence"),
        work: Annotated[Path, typer.Option(help="Folder of archives.")] = Path("mlruns/evidence"),
        workers: Annotated[int, typer.Option(min=1, help="Searches at a time.")] = 2,
        verbosity: Annotated[int, typer.Option(help="0 silent, 2 a line per search.")] = 1,
    ) -> None:
        # Prefect logs every step.
        logging.disable(logging.INFO)
        given = dict(text.split("=", 1) for text in change or ())
        if unknown := set(given) - set(numbers):
            raise typer.BadParameter(f"{', '.join(unknown)} is none of {listed}")
        chosen = numbers | {name: int(text) for name, text in given.items()}
        try:
            if not page:
                if before is not None:
                    before(data, work, out, verbosity, **{name: chosen.pop(name) for name in first})
                run_study(study, parts(data, work, only, **chosen), out, work, workers, verbosity)
            write_page(study, page_of(out), out)
        except (InputError, UnsupportedClaimError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on with what is left", err=True)
            raise typer.Exit(130) from None

    main.__doc__ = f"Run what has no row yet, and render the page. Numbers: {listed}."
    typer.run(main)
