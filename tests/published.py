"""What consumers of published features read."""

from __future__ import annotations

from swarm.errors import DataError
from swarm.storage.features_file import read_published


def published_version(location: str) -> str | None:
    """Return the version of the model whose features are published, None if there is none."""
    try:
        return str(read_published(location).get("version"))
    except DataError:
        return None
