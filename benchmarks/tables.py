"""Print tables of results, and store them in ``benchmarks/results`` for the page."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "lightgbm", "joblib")


def save(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    notes: Sequence[str] = (),
) -> None:
    """Print a table and store it as ``results/<name>.json`` with a description of the machine."""
    table = {
        "title": title,
        "columns": list(columns),
        "rows": [[_text(cell) for cell in row] for row in rows],
        "notes": list(notes),
        "machine": machine(),
    }
    show(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n")


def show(table: dict) -> None:
    """Print a table in columns."""
    lines = [table["columns"], *table["rows"]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    print(f"\n{table['title']}")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    for note in table["notes"]:
        print(f"- {note}")


def machine() -> dict[str, str]:
    """Describe the machine: cores, memory, processor, versions and the date."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = lines[0].partition(":")[2].strip() if lines else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "date": date.today().isoformat(),
    }


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
