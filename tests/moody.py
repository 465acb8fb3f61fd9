"""Models that hang, fail or find no memory; apart, as workers import the module of their model."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB


class Moody(GaussianNB):
    """Hangs or fails for one subset, or lacks memory or a connection; notes who fits."""

    def __init__(self, column: str = "", mood: str = "", folder: str = "") -> None:
        super().__init__()
        self.column, self.mood, self.folder = column, mood, folder

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
    """Let this process have no more than so much above what it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
