"""The page of figures is what its script makes of the stored results."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "write_page.py"


def test_the_page_equals_what_the_script_makes_of_the_stored_results() -> None:
    spec = importlib.util.spec_from_file_location("write_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run benchmarks/write_page.py"
    assert len(list(script.RESULTS.glob("*.json"))) > 3
