"""The rows of a study: one per search, appended as searches end, read back when it goes on."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from swarm.errors import StoreError

__all__ = ["COLUMNS", "KEY", "Rows"]

KEY = ("part", "dataset", "resample", "strategy", "seed")
_TYPES = {
    "part": "str",
    "dataset": "str",
    "resample": "int64",
    "strategy": "str",
    "seed": "int64",
    "cost": "float64",
    "size": "int64",
    "n_available": "int64",
    "evaluations": "int64",
    "distinct": "int64",
    "fits": "int64",
    "epochs": "int64",
    "reason": "str",
    "seconds_algorithm": "float64",
    "seconds_evaluation": "float64",
    "test_cost": "float64",
    "test_ensemble": "float64",
    "test_all_ensemble": "float64",
    "test_random": "float64",
    "plan": "str",
}
COLUMNS = tuple(_TYPES)
# Times differ from machine to machine anyway; three digits keep the file small.
_SECONDS = "seconds_"


@dataclass(frozen=True)
class Rows:
    """The CSV file of a study.

    A row is written and synchronised as soon as its search ends, so that a study that is killed
    loses the searches under way and no other. Two studies must not write to one file at once.

    Parameters
    ----------
    path : Path
    """

    path: Path

    def read(self) -> pd.DataFrame:
        """Every row, the last one of a search where there are several; columns `COLUMNS`.

        Raises
        ------
        StoreError
            If the file is not one of this kind.
        """
        lines = self._lines()
        if not lines:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _TYPES.items()})
        if tuple(next(csv.reader(lines[:1]))) != COLUMNS:
            raise StoreError(
                f"{self.path} has other columns than the rows of a study; move it away to start"
                " afresh"
            )
        text = io.StringIO("".join(lines))
        try:
            table = pd.read_csv(text, dtype=_TYPES)
        except ValueError as error:
            raise StoreError(
                f"{self.path} cannot be read as the rows of a study: {error}; restore it, or move"
                " it away to start afresh"
            ) from error
        return pd.DataFrame(table.drop_duplicates(list(KEY), keep="last", ignore_index=True))

    def done(self) -> set[tuple[Any, ...]]:
        """Key and plan of every search that has a row."""
        table = self.read()
        return set(table[[*KEY, "plan"]].itertuples(index=False, name=None))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add the row of a search, and wait until it is on the disk."""
        self._write([row], "a")

    def tidy(self) -> pd.DataFrame:
        """Write the file anew in the order of its keys, each search once, and return its rows."""
        table = self.read().sort_values(list(KEY), kind="stable", ignore_index=True)
        beside = Rows(self.path.with_suffix(".part"))
        beside.path.unlink(missing_ok=True)
        beside._write(table.to_dict("records"), "w")
        os.replace(beside.path, self.path)
        return table

    def _lines(self) -> list[str]:
        """Whole lines: the last one is torn where its writer was killed."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _write(self, rows: Sequence[Mapping[Any, Any]], mode: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._cut_torn_line()
        with self.path.open(mode, encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            for row in rows:
                writer.writerow({name: _written(name, row[name]) for name in COLUMNS})
            file.flush()
            os.fsync(file.fileno())

    def _cut_torn_line(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)


def _written(name: str, value: Any) -> Any:
    if name.startswith(_SECONDS):
        return f"{value:.3f}"
    if isinstance(value, float):
        # What is not known stays empty; the rest comes back to the last bit.
        return "" if value != value else repr(float(value))
    return value
