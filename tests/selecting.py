"""Two tables and a short search, which the tests of the selector share."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

from lightgbm import LGBMClassifier
from sklearn.datasets import load_iris, load_wine

# Tests may not change these tables: one that has to takes a copy.
WINE: Any = load_wine(return_X_y=True, as_frame=True)
IRIS: Any = load_iris(return_X_y=True)
FEW = {"n_particles": 4, "n_swarms": 2}
BRIEF: dict[str, Any] = {"budget": 2, "cv": 3, "strategy_params": FEW}
TREES = LGBMClassifier(n_estimators=3, num_leaves=3, verbosity=-1)


def summary_of(selector: Any) -> str:
    """Return what a fitted selector prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        selector.summary()
    return printed.getvalue()
