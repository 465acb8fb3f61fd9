"""Models that hang, fail or lack memory, in a module that workers import."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB


class Moody(GaussianNB):
    """A model that hangs or fails for a subset, or lacks memory or a connection.

    Each fit adds the id of its process to the file `notes`.
    """

    def __init__(self, column: str = "", mood: str = "", folder: str = "") -> None:
        super().__init__()
        self.column = column
        self.mood = mood
        self.folder = folder

    def fit(self, X: Any, y: Any, **options: Any) -> Moody:
        if self.folder:
            with (Path(self.folder) / "notes").open("a") as notes:
                notes.write(f"fit {os.getpid()}\n")
        if list(X.columns) == self.column.split():
            if self.mood == "hangs":
                time.sleep(3600)
            if self.mood == "fails":
                raise ValueError("no")
        if self.mood == "away" and not (Path(self.folder) / "back").exists():
            raise ConnectionError("the store is away")
        if self.column in X.columns and self.mood == "memory":
            limited(64)
            np.ones(10**9)
        return super().fit(X, y, **options)


def limited(megabytes: int) -> None:
    """Limit the memory of this process to some megabytes more than it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
