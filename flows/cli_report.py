"""The command ``swarm report``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.cli_options import RunId, Uri, tracking_of
from swarm.errors import InputError

__all__ = ["report"]


def report(
    run_id: RunId,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write; default: report-RUN_ID.html in this folder.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    stored: Annotated[
        bool,
        typer.Option(
            "--stored", help="Use the page stored with the run instead of rendering it again."
        ),
    ] = False,
    tracking_uri: Uri = None,
) -> None:
    """Write the report of a run or a comparison as one HTML file.

    Example: swarm report RUN_ID --out report.html --open
    """
    file = (out or Path(f"report-{run_id}.html")).expanduser().absolute()
    if file.is_dir():
        raise InputError(f"{file} is a folder; pass a file with --out")
    if not file.parent.is_dir():
        raise InputError(f"folder {file.parent} does not exist; create it, or pass another --out")
    from tasks.stored_report import page_of

    page = page_of(tracking_of(tracking_uri), run_id, stored=stored)
    _write(file, page.html)
    typer.echo(f"{file} ({page.how})")
    if page.why:
        typer.echo(f"not rendered again: {page.why}", err=True)
    if open_ and not _opened(file):
        typer.echo("no browser found to open it", err=True)


def _write(file: Path, html: str) -> None:
    from tasks.files import write_atomically

    # Permissions of a new file.
    mask = os.umask(0)
    os.umask(mask)
    try:
        write_atomically(file, html, 0o666 & ~mask)
    except OSError as error:
        raise InputError(
            f"cannot write {file} ({error.strerror or error}); pass another --out"
        ) from None


def _opened(file: Path) -> bool:
    import webbrowser

    return webbrowser.open(file.as_uri())
