"""What fresh folds promise on tables without any signal, and what unseen rows show.

A `SubsetSelector` searches and confirms tables of noise. A gain over all features on fresh folds is
then luck of the rows, which fresh folds share with the search.

    python benchmarks/bench_noise.py                 # runs what is missing in results/noise.csv
    python benchmarks/bench_noise.py --table         # prints how much too good confirmed scores are
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector

ROWS = Path(__file__).parent / "results" / "noise.csv"
SHAPES = ((100, 20), (100, 100), (300, 30), (300, 300), (1000, 30), (1000, 300), (3000, 100))
MODELS: dict[str, Any] = {"naive Bayes": GaussianNB(), "5-NN": KNeighborsClassifier(5)}
# The distances of k-NN take long on more rows.
MOST_ROWS = {"naive Bayes": 3000, "5-NN": 300}
N_TABLES, N_UNSEEN = 20, 2000
KEY = ["n_rows", "n_columns", "model", "seed"]


def search(n_rows: int, n_columns: int, model: str, seed: int) -> dict[str, Any]:
    """Search and confirm one table, and score the result on rows of the same kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + N_UNSEEN, n_columns))
    y = rng.integers(0, 2, n_rows + N_UNSEEN)
    train, new = slice(0, n_rows), slice(n_rows, None)
    selector = SubsetSelector(MODELS[model], budget=15, confirm=True, random_state=seed)
    selector.fit(X[train], y[train])
    head = selector.judge(X[train], y[train], test=(X[new], y[new]))
    unseen = next(one for one in head.evidence if "unseen" in one.rows and one.rival != "guessing")
    return {
        **dict(zip(KEY, (n_rows, n_columns, model, seed), strict=True)),
        "n_features": len(selector.subset_),
        "fresh_verdict": selector.confirmation_.verdict,
        "fresh_accuracy": round(1 - selector.confirmation_.cost, 4),
        "unseen_verdict": unseen.outcome,
        "unseen_accuracy": round(unseen.chosen, 4),
        "beats_guessing": head.beats_guessing,
    }


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Excess of the confirmed accuracy with its 95 % interval, and gains on fresh folds."""
    rows = rows.assign(
        excess=rows["fresh_accuracy"] - rows["unseen_accuracy"],
        gain=rows["fresh_verdict"].eq("better"),
    )
    by = rows.groupby(["model", "n_rows", "n_columns"])
    found = by.agg(excess=("excess", "mean"), sem=("excess", "sem"), gains=("gain", "sum"))
    return found.assign(n=by.size(), margin=1.96 * found.pop("sem")).round(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true")
    rows = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=KEY)
    done = set(rows[KEY].itertuples(index=False, name=None))
    for model in {} if parser.parse_args().table else MODELS:
        for n_rows, n_columns in SHAPES:
            for seed in range(N_TABLES):
                key = (n_rows, n_columns, model, seed)
                if key in done or n_rows > MOST_ROWS[model]:
                    continue
                rows = pd.concat([rows, pd.DataFrame([search(*key)])], ignore_index=True)
                rows.to_csv(ROWS, index=False)
    print(table(rows).to_string())
    for name in ("fresh_verdict", "unseen_verdict", "beats_guessing"):
        print(rows[name].value_counts().to_dict())


if __name__ == "__main__":
    main()
