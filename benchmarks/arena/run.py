"""Run the arena: every method on every set, model, budget and resample that has no row yet.

``python benchmarks/arena/run.py --out rows.csv``: rows are appended as cells end, and the same
command goes on where it was stopped. At most two of these may run at a time, with different
models or sets.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import multiprocessing
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before numerical libraries are loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import data  # noqa: E402
import methods as arena  # noqa: E402
import numpy as np  # noqa: E402

COLUMNS = (
    *("set", "model", "budget", "method", "resample", "score", "size", "n_columns"),
    *("fits", "seconds", "real_share", "found_share", "n_train", "n_test", "mask", "note"),
)
KEY = COLUMNS[:5]
_LIMIT, _FAILED = "time limit", "failed"
# A cell that waits for another process is ended after this many times its limit.
_PATIENCE = 20


class Rows:
    """The CSV file of the arena."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        with path.open(encoding="utf-8", newline="") as file:
            self.rows = [row for row in csv.DictReader(file) if row["note"] is not None]
        self.done = {tuple(row[name] for name in KEY) for row in self.rows}
        # A method that was too slow on one resample is so on the others.
        self.slow = {
            tuple(row[name] for name in KEY[:4]) for row in self.rows if row["note"] == _LIMIT
        }

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add rows, one writer at a time."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            for row in rows:
                writer.writerow({name: row.get(name, "") for name in COLUMNS})
                key = tuple(str(row[name]) for name in KEY)
                self.done.add(key)
                if row["note"] == _LIMIT:
                    self.slow.add(key[:4])
            file.flush()
            os.fsync(file.fileno())


def jobs(
    found: dict[str, arena.Method], models: list[str], budgets: list[int]
) -> Iterator[tuple[str, arena.Method, list[str], int]]:
    """Yield each method with the models that one run serves, and its budget (0 for none)."""
    for name, method in found.items():
        for budget in budgets if method.uses_budget else [0]:
            for served in [[each] for each in models] if method.uses_model else [models]:
                yield name, method, served, budget


def main() -> None:
    """Run what is missing."""
    options = _options()
    warnings.simplefilter("ignore")
    found = arena.methods()
    if options.methods:
        found = {name: found[name] for name in options.methods}
    rows = Rows(options.out)
    arena.load_compiled_code()
    for number in range(options.resamples):
        for name in options.sets or data.names(options.data):
            if not any(name.startswith(f"{group}:") for group in options.groups):
                continue
            cell = None
            for method, run, served, budget in jobs(found, options.models, options.budgets):
                keys = [
                    (name, model, str(budget), label, str(number))
                    for model in served
                    for label in run.labels
                ]
                if all(key in rows.done for key in keys):
                    continue
                base = [dict(zip(KEY, key, strict=True)) for key in keys]
                if any(key[:4] in rows.slow for key in keys):
                    rows.append([{**row, "note": _LIMIT} for row in base])
                    continue
                if cell is None:
                    cell = data.resample(data.load(name, options.data), number)
                made, note = _limited(run, cell, served, budget, number, options.seconds)
                if note:
                    rows.append([{**row, "note": note} for row in base])
                    print(number, name, served, method, note, flush=True)
                    continue
                facts = {"set": name, "budget": budget, "resample": number, "note": ""}
                facts |= {"n_train": len(cell.y), "n_test": len(cell.y_test)}
                rows.append([{**row, **facts} for row in made])
            print(number, name, "done", flush=True)


def _limited(
    run: arena.Method,
    cell: data.Resample,
    served: list[str],
    budget: int,
    number: int,
    seconds: float,
) -> tuple[list[dict[str, Any]], str]:
    """Run a method in a process of its own, which is ended at the limit."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_cell, args=(sender, run, cell, served, budget, number, seconds)
    )
    process.start()
    sender.close()
    try:
        if not receiver.poll(_PATIENCE * seconds):
            return [], _LIMIT
        return receiver.recv()
    except EOFError:
        # The kernel ends a process at its limit.
        process.join()
        over = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        return [], _LIMIT if over else f"{_FAILED}: the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()


def _cell(
    sender: Any,
    run: arena.Method,
    cell: data.Resample,
    served: list[str],
    budget: int,
    number: int,
    seconds: float,
) -> None:
    # The limit counts from the start of this process.
    resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds) + 1))
    made: list[dict[str, Any]] = []
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        first = arena.MODELS[served[0]]()
        for answer in run.run(arena.Task(cell, first, budget, number)):
            for model in served:
                row = _row(answer, cell)
                row["score"] = f"{arena.score(answer, cell, arena.MODELS[model]()):.6f}"
                made.append({"model": model, "method": answer.method, **row})
        sender.send((made, ""))
    except Exception as error:
        reason = " ".join(str(error).split())[:150]
        place = traceback.extract_tb(error.__traceback__)[-1].name
        sender.send(([], f"{_FAILED}: {type(error).__name__}: {reason} ({place})"))


def _row(answer: arena.Answer, cell: data.Resample) -> dict[str, Any]:
    together = np.any(answer.members[:1] if answer.averaged else answer.members, axis=0)
    row = {
        "size": int(together.sum()),
        "n_columns": len(together),
        "fits": "" if answer.fits is None else answer.fits,
        "seconds": f"{answer.seconds:.3f}",
        "mask": np.packbits(together).tobytes().hex(),
    }
    if cell.real is not None:
        hits = int((together & cell.real).sum())
        row["real_share"] = f"{hits / together.sum():.4f}"
        row["found_share"] = f"{hits / cell.real.sum():.4f}"
    return row


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/results/arena.csv"))
    parser.add_argument("--data", type=Path, help="folder with more sets, as Parquet files")
    parser.add_argument("--groups", nargs="+", default=["keel", "semi", "noise", "file"])
    parser.add_argument("--sets", nargs="+", help="names of sets, such as keel:sonar")
    parser.add_argument("--models", nargs="+", choices=arena.MODELS, default=list(arena.MODELS))
    parser.add_argument("--budgets", nargs="+", type=int, default=[100, 300, 1000])
    parser.add_argument("--methods", nargs="+", choices=list(arena.methods()))
    parser.add_argument("--resamples", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=120, help="processor time of each cell")
    return parser.parse_args()


if __name__ == "__main__":
    main()
