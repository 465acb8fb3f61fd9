"""The rows of a study: one per search, appended as searches end, read back when it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["COLUMNS", "KEY", "Rows"]

KEY = ("part", "dataset", "resample", "strategy", "seed")
COLUMNS = (
    *KEY,
    *("cost", "size", "n_available", "evaluations", "distinct", "fits", "epochs", "reason"),
    *("seconds_algorithm", "seconds_evaluation"),
    *("test_cost", "test_ensemble", "test_all_ensemble", "test_random"),
    "plan",
)
_SECONDS = COLUMNS[13:15]
_TEXTS = ("part", "dataset", "strategy", "reason", "plan")
_FLOATS = ("cost", *COLUMNS[13:19])
_TYPES = {
    name: "str" if name in _TEXTS else "float64" if name in _FLOATS else "int64" for name in COLUMNS
}


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
        """Every row, the last one of a search where there are several; columns `COLUMNS`."""
        content = self._whole_lines() or _text(pd.DataFrame(columns=list(COLUMNS)), True)
        # Numbers go through text, as some versions of pandas lose their last bit on reading.
        table = pd.read_csv(BytesIO(content), dtype="str").astype(_TYPES)
        return table.drop_duplicates(list(KEY), keep="last", ignore_index=True)

    def done(self) -> set[tuple[Any, ...]]:
        """Key and plan of every search that has a row."""
        return set(self.read()[[*KEY, "plan"]].itertuples(index=False, name=None))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add the row of a search, and wait until it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self._whole_lines()
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            # The last line is torn where its writer was killed.
            file.truncate(len(whole))
            file.seek(len(whole))
            file.write(_text(pd.DataFrame([row]), header=not whole))
            file.flush()
            os.fsync(file.fileno())

    def tidy(self) -> None:
        """Write the file anew in the order of its keys, each search once."""
        table = self.read().sort_values(list(KEY), kind="stable")
        beside = self.path.with_suffix(".part")
        beside.write_bytes(_text(table, header=True))
        beside.replace(self.path)

    def _whole_lines(self) -> bytes:
        content = self.path.read_bytes() if self.path.exists() else b""
        return content[: content.rfind(b"\n") + 1]


def _text(table: pd.DataFrame, header: bool) -> bytes:
    # Times differ from machine to machine anyway; three digits keep the file small.
    table = table.assign(**{name: table[name].map("{:.3f}".format) for name in _SECONDS})
    text = table.to_csv(index=False, header=header, columns=list(COLUMNS), lineterminator="\n")
    return text.encode()
