"""What reaches the terminal: lines broken between words, commands to paste, warnings, logs."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from typing import Any

import typer

# Not those of the server, which logs every request.
_LOGS = ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_INTERNAL_LEVEL")

# A worker whose memory has grown by 300 MB, as with a wide table, is replaced; nothing is lost.
_REPLACED = "A worker stopped while some jobs were given to the executor"

_plainly = warnings.showwarning


def echo(*lines: str, indent: int = 0, err: bool = False) -> None:
    """Print lines; a terminal shows long ones on several indented rows, broken between words."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        lines = tuple(
            textwrap.fill(
                line,
                width,
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line in lines
        )
    for line in lines:
        typer.echo(line, err=err)


def store_option(uri: str) -> str:
    """Return the option, after a blank, by which a command uses a store; empty for the default.

    Variables in the address are kept.
    """
    from conf.load import load
    from tasks.secrets import expand
    from tasks.tracking.store import is_sqlite, resolve

    # Other variables may be meant for another kind of configuration.
    env = {key: text for key, text in os.environ.items() if key.startswith("SWARM_TRACKING")}
    default = load("default", (), env).tracking.uri
    address, usual = (
        resolve(expand(each, "address of the tracking store")) for each in (uri, default)
    )
    if address == usual:
        return ""
    # A file is found from any folder by its absolute path.
    return f" --tracking-uri {shlex.quote(address if is_sqlite(address) else uri)}"


def pages_of(uri: str) -> str:
    """Return the address of a tracking server, or the command that starts one for a store."""
    from swarm.redaction import redact
    from tasks.secrets import expand

    address = expand(uri, "address of the tracking store")
    # MLflow cannot show the runs of another server.
    is_server = address.startswith(("http://", "https://"))
    return redact(address) if is_server else f"swarm up{store_option(uri)}"


def show_warnings_once() -> None:
    """Show each kind of warning once, in one line, and none of those of worker processes.

    The main process trains the same models at the end, and shows the same warnings.
    """
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    # A command says once that a server is lost, Prefect for every batch of lines that it logs.
    logging.raiseExceptions = False
    global _plainly
    _plainly = warnings.showwarning
    seen: set[tuple[type[Warning], str]] = set()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        first = (str(message).strip().splitlines() or [""])[0]
        if first.startswith(_REPLACED):
            return
        # Ignore numbers when comparing warnings.
        key = category, re.sub(r"\d+", "", first)
        if key not in seen:
            seen.add(key)
            sys.stderr.write(f"note: {category.__name__}: {first} (shown once; -vv shows all)\n")

    warnings.showwarning = show


def hide_warnings(quiet: bool) -> bool:
    """Hide all warnings with `--quiet`."""
    if quiet:
        warnings.simplefilter("ignore")
    return quiet


def enable_logs(count: int) -> int:
    """Enable all logs and warnings from -vv on, before Prefect and MLflow are imported."""
    if count > 1:
        for name in _LOGS:
            if os.environ.get(name) == "CRITICAL":
                os.environ[name] = "INFO"
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO")
        if os.environ.get("PYTHONWARNINGS") == "ignore":
            del os.environ["PYTHONWARNINGS"]
        warnings.showwarning = _plainly
    return count
