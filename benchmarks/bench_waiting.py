"""What a user waits for: wall and processor seconds of each command, and of each stage of a search.

A table of 2,000 rows and 30 columns, LightGBM and the configuration that ``swarm init`` writes. The
stages are those that ``swarm select -v`` announces; processor seconds include all child processes.

Usage: ``python benchmarks/bench_waiting.py`` on an idle machine, some four minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from tables import save

N_ROWS, N_COLUMNS = 2000, 30
SWARM = (sys.executable, "-m", "swarm")
# First words of an announcement: what is waited for from then on.
STAGES = {
    "starting": "start of Prefect",
    "reading": "reading",
    "preparing": "distances and clusters",
    "searching": "search",
    "ranking": "rankings",
    "confirming": "confirmation",
    "training": "ensemble",
    "judging": "judging",
    "writing": "report",
    "sending": "last writes to MLflow",
    "storing": "model",
    "Keep": "answer and end",
}
# Ends as `fit` returns: in a notebook nobody waits for the end of the interpreter.
FIRST_FIT = """
import os
from swarm import SubsetSelector
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import KNeighborsClassifier
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
SubsetSelector(KNeighborsClassifier(), budget=10).fit(X, y)
os._exit(0)
"""


@dataclass(frozen=True)
class Waited:
    """Seconds of a command or of one of its stages."""

    what: str
    wall: float
    processor: float


def main() -> None:
    """Measure and store the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_table(Path("table.csv"))
        rows = list(waited())
    save(
        "waiting",
        f"Seconds of commands and stages, {N_ROWS:,} rows and {N_COLUMNS} columns",
        ["what", "wall", "processor"],
        [(row.what, f"{row.wall:.1f}", f"{row.processor:.1f}") for row in rows],
    )


def write_table(file: Path) -> None:
    """Write a table in which five columns carry the signal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).round(3)
    y = X[:, :5].sum(axis=1) + 2 * rng.normal(size=N_ROWS) > 0
    table = pd.DataFrame(X, columns=[f"sensor {i}" for i in range(N_COLUMNS)])
    table.assign(y=y.astype(int)).to_csv(file, index=False)


def waited() -> Iterator[Waited]:
    """Yield the commands in the order in which a newcomer runs them."""
    # What Python compiles once is not waited for again.
    run("compiled", *SWARM, "strategies")
    yield run("`swarm init`", *SWARM, "init", "table.csv", "--target", "y")
    yield run("`swarm check`", *SWARM, "check", "table.yaml")
    yield from staged("`swarm select`", "select", "table.yaml")
    yield run("`swarm select` again", *SWARM, "select", "table.yaml")
    yield run("`swarm runs`", *SWARM, "runs")
    run_id = newest_run()
    yield run("`swarm features`", *SWARM, "features", run_id)
    yield run("`swarm report`", *SWARM, "report", run_id)
    run("champion", *SWARM, "refresh", "refresh")
    yield run("`swarm refresh`, nothing changed", *SWARM, "refresh", "refresh")
    yield run("`SubsetSelector`, import and first fit", sys.executable, "-c", FIRST_FIT)


def newest_run() -> str:
    """Return the id of the run that was the last to write its features."""
    files = Path("mlruns", "artifacts").glob("*/artifacts/features.json")
    return max(files, key=lambda file: file.stat().st_mtime).parts[-3]


def run(what: str, *command: str) -> Waited:
    """Run a command to its end."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, os.times()
    user = after.children_user - before.children_user
    return Waited(what, wall, user + after.children_system - before.children_system)


def staged(what: str, *arguments: str) -> Iterator[Waited]:
    """Run a command that announces its stages, and yield these after the whole."""
    began, stages = time.perf_counter(), [("start, check of the configuration", 0.0, 0.0)]
    with subprocess.Popen(
        [*SWARM, *arguments, "-v"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        family = psutil.Process(process.pid)
        for line in process.stdout:
            name = STAGES.get(line.partition(" ")[0].rstrip(":"))
            if name is not None and name not in {stage for stage, *_ in stages}:
                stages.append((name, time.perf_counter() - began, spent(family)))
            last = spent(family)
        status = process.wait()
    if status:
        raise SystemExit(f"{' '.join(arguments)} ended with status {status}")
    end = time.perf_counter() - began
    yield Waited(what, end, last)
    for (name, wall, processor), (_, next_wall, next_processor) in zip(
        stages, [*stages[1:], ("end", end, last)], strict=True
    ):
        yield Waited(f"- {name}", next_wall - wall, next_processor - processor)


def spent(family: psutil.Process) -> float:
    """Return the processor seconds of a process and its living and ended children."""
    members = [family, *family.children(recursive=True)]
    return sum(sum(member.cpu_times()[:4]) for member in members if member.is_running())


if __name__ == "__main__":
    main()
