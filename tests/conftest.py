"""Fixtures that more than one test file needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Give the path of a benchmark data set, or skip the test where the sets are not at hand."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"

    def path(name: str) -> Path:
        file = folder / f"{name}.parquet"
        if not file.exists():
            pytest.skip(f"benchmark data set {name!r} is not at hand beside this checkout")
        return file

    return path
