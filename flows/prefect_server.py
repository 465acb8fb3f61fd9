"""The Prefect server that flows of the command line run on."""

from __future__ import annotations

import sys

from swarm.errors import StoreError

__all__ = ["lost_prefect", "start_prefect"]


def start_prefect() -> None:
    """Reach the Prefect server, or start one of our own that a Ctrl-C does not end."""
    from prefect.client.orchestration import get_client

    from swarm.interrupts import deaf_children

    try:
        with deaf_children(), get_client(sync_client=True) as client:
            problem = client.api_healthcheck()
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise StoreError(
            f"Prefect's own server did not start ({reason}); try again with "
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=300, or set PREFECT_API_URL to a "
            "server that runs"
        ) from error
    if problem is not None:
        raise StoreError(
            f"the Prefect server at {client.api_url} does not answer ({problem}); "
            "start it, or unset PREFECT_API_URL to run without one"
        )


def lost_prefect(error: Exception) -> StoreError | None:
    """Say in a sentence that the server went away in mid-run, if this is what `error` tells."""
    # No client but Prefect's is built on httpx; where it was never imported it raised nothing.
    httpx = sys.modules.get("httpx")
    if httpx is None or not isinstance(error, httpx.HTTPError):
        return None
    from prefect.settings import PREFECT_API_URL

    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return StoreError(
        f"the Prefect server at {PREFECT_API_URL.value()} went away in mid-run ({reason}); what "
        "was evaluated is in the archive, and the same command, or `swarm resume` with the id "
        "of the run, goes on from there once the server is back or PREFECT_API_URL is unset"
    )
