"""The pages in docs/evidence are what their stored rows say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flows.evidence.pages import write_page
from flows.evidence.run import Places

DOCS = Path(__file__).parents[1] / "docs" / "evidence"


@pytest.mark.parametrize("study", ["musk", "two-d", "bees", "pays"])
def test_a_page_is_written_from_its_rows_alone(study: str, tmp_path: Path) -> None:
    shutil.copytree(DOCS / "results", tmp_path / "results")
    files = write_page(study, Places(tmp_path, tmp_path / "work"))
    again = f"run `swarm evidence {study} --page`"
    assert (tmp_path / f"{study}.md").read_text() == (DOCS / f"{study}.md").read_text(), again
    assert (tmp_path / "index.md").read_text() == (DOCS / "index.md").read_text(), again
    for name in files:
        assert (DOCS / name).exists(), again
        if name.endswith(".csv"):
            assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes(), again
    shown = re.findall(r"\]\((figures/[^)]+)\)", (DOCS / f"{study}.md").read_text())
    assert set(shown) == {name for name in files if name.startswith("figures/")}


def test_the_rows_are_small() -> None:
    assert sum(path.stat().st_size for path in (DOCS / "results").iterdir()) < 5_000_000
