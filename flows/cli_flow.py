"""How a command runs a flow: its configuration is checked while Prefect starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from flows.cli_options import tell_ignored_uri
from flows.findings import with_mute

if TYPE_CHECKING:
    from conf.load import AnyConfig
    from flows.prefect_server import PrefectServer

__all__ = ["checked", "interruptible"]

C = TypeVar("C", bound="AnyConfig")


@contextmanager
def checked(
    server: PrefectServer, config: C, mute: Sequence[str] | None, verbosity: int
) -> Iterator[C]:
    """Check a configuration, then wait for the server while the block imports what is slow."""
    from conf.check import check

    config = with_mute(config, mute)
    check(config)
    if verbosity:
        tell_ignored_uri(config.tracking)
    with server.starting(verbosity):
        yield config


@contextmanager
def interruptible(remedy: str) -> Iterator[None]:
    """Exit with a message after Ctrl-C; typer would exit without one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())
        typer.echo("; ".join(["interrupted", remedy, *notes]), err=True)
        raise typer.Exit(130) from None
