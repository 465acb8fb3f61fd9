"""The Prefect server that flows of the command line run on."""

from __future__ import annotations

from swarm.errors import StoreError

__all__ = ["start_prefect"]


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
