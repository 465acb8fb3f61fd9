"""Random tables for the fuzz tests, which try 128, or as many as SWARM_FUZZ_CASES says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rng = np.random.Generator

CASES = int(os.environ.get("SWARM_FUZZ_CASES", "128"))


def failures(seeds: Sequence[int], differences: Callable[[int], list[str]]) -> list[str]:
    """Return what differs in any case, each line with the seed that repeats it."""
    return [f"seed {seed}: {line}" for seed in seeds for line in differences(seed)]


def random_table(rng: Rng, n: int, d: int, target: NDArray[Any]) -> pd.DataFrame:
    """Return a table with ties, equal rows and columns, and large numbers, in several dtypes."""
    first = target if target.ndim == 1 else target[:, 0]
    codes = np.unique(first, return_inverse=True)[1] % 7
    drawn: dict[str, Callable[[], NDArray[np.float64]]] = {
        "normal": lambda: rng.normal(size=n),
        "signal": lambda: codes + rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=n),
        "whole": lambda: rng.integers(-3, 4, n).astype(np.float64),
        "rare": lambda: (rng.random(n) < rng.choice([0.05, 0.3, 0.5])).astype(np.float64),
        "round": lambda: np.round(rng.normal(size=n), 1),
        "tenths": lambda: 0.1 * rng.integers(0, 3, n),
        "constant": lambda: np.full(n, rng.choice([0.0, 1.0, 4.2, 1e9, -3.3])),
        "nearly constant": lambda: 5.0 + (np.arange(n) == 3) * rng.choice([1e-6, 1.0]),
        "large": lambda: rng.normal(size=n) * 10.0 ** rng.integers(5, 16),
        "small": lambda: rng.normal(size=n) * 10.0 ** rng.integers(-18, -5),
        "far": lambda: 10.0 ** rng.integers(3, 12) + rng.normal(size=n),
        "large whole": lambda: rng.integers(-(10**6), 10**6, n).astype(np.float64),
    }
    profiles = [
        list(drawn),
        ["signal", "whole", "rare", "round", "tenths", "constant"],
        ["whole", "rare", "large whole"],
        ["normal", "signal"],
    ]
    kinds = rng.choice(profiles[int(rng.integers(len(profiles)))], d)
    values = np.stack([drawn[str(kind)]() for kind in kinds], axis=1)
    if d > 2 and rng.random() < 0.3:
        # Two columns are equal, or nearly equal, which makes systems singular.
        noise = rng.choice([0.0, 1e-12, 1e-8, 1e-4]) * rng.normal(size=n)
        values[:, 1] = values[:, 0] * rng.choice([1.0, 2.0, -1.0]) + noise
    if rng.random() < 0.4:
        values[rng.choice(n, n // 3, replace=False)] = values[rng.choice(n, n // 3)]
    features = pd.DataFrame(values, columns=[f"x{i}" for i in range(d)])
    layout = rng.choice(["columns", "columns", "rows", "float32", "integer", "mixed"])
    if layout == "rows":
        return pd.DataFrame(np.ascontiguousarray(values), columns=features.columns, copy=False)
    if layout == "float32":
        return features.astype(np.float32)
    whole = [name for name in features if (features[name] % 1 == 0).all()]
    if layout in ("integer", "mixed"):
        features = features.astype(dict.fromkeys(whole, rng.choice([np.int64, np.int32])))
    if layout == "mixed":
        short = [name for name in features if rng.random() < 0.3]
        features = features.astype(dict.fromkeys(short, np.float32))
    return features
