"""Rows of a small study of document 002, drawn by a seeded generator."""

from __future__ import annotations

import numpy as np
import pandas as pd

STRATEGIES = (
    "genetic", "ant_colony", "bpso", "catfish", "erfs", "pso42", "chaotic", "two_d",
)  # fmt: skip
DATASETS = (
    "wine", "australian", "zoo", "vehicle", "german_numeric", "wdbc", "ionosphere", "lung_cancer",
    "sonar", "hill_valley_with_noise", "lsvt", "secom",
)  # fmt: skip
FACTS = {
    "versions": {"python": "3.11", "numpy": "2.0"},
    "machine": {"cores": 2, "memory_gib": 24},
    "seconds": {"nb": 1200.0, "knn": 2400.0, "nested": 600.0},
    "sets": {
        "wine": {"rows": 178, "columns": 13, "classes": 3, "class_rows": [71, 59, 48]},
        "zoo": {"rows": 101, "columns": 16, "classes": 7, "class_rows": [41, 20, 13, 10, 8, 5, 4]},
        "wdbc": {"rows": 569, "columns": 30, "classes": 2, "class_rows": [357, 212]},
    },
}


def rows_of(
    part: str,
    datasets: tuple[str, ...] = DATASETS,
    strategies: tuple[str, ...] = STRATEGIES,
    seeds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Searches in which a later strategy of `STRATEGIES` is better, but for chance."""
    rng = np.random.default_rng(seed)
    nested = part == "nested"
    found = []
    for dataset in datasets:
        for i in range(seeds):
            common = {
                "part": part,
                "dataset": dataset,
                "resample": i if nested else -1,
                "seed": i,
                "n_available": 30,
                "evaluations": 6000,
                "seconds_algorithm": 0.5,
            }
            full = {"strategy": "full", "cost": 0.3, "size": 30, "distinct": 1}
            full |= {"seconds_evaluation": 0.1, "test_cost": 0.3 + 0.01 * rng.normal()}
            found.append(common | full)
            for strategy in strategies:
                place = STRATEGIES.index(strategy)
                row = {
                    "strategy": strategy,
                    "cost": 0.25 - 0.01 * place + 0.004 * rng.normal(),
                    "size": int(rng.integers(15 - place, 25 - place)),
                    "distinct": 6000 - 100 * place,
                    "seconds_evaluation": 20.0 - place + rng.normal(),
                    "test_cost": 0.29 + 0.01 * rng.normal() if nested else np.nan,
                }
                found.append(common | row)
    return pd.DataFrame(found)
