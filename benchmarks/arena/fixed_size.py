"""Selectors at fixed sizes, as TabArena's benchmark of feature selection runs them.

A selector gets training rows, the model that will use the columns, the number of columns to select
and a limit of seconds; the model is then scored on rows that no selector saw. Selectors without a
limit of their own run to their end, and their seconds are recorded; one that takes longer than any
may is stopped, and has a row without a score.

``python benchmarks/arena/fixed_size.py --tables FOLDER --out FILE`` runs what FILE does not hold;
``--summary`` prints mean ranks, differences to all columns, and the seconds.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from metric import OURS, balanced_accuracy
from peers import SCORING, Boruta, boosted, by_f, by_information, by_mrmr, folds
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_selection import RFE, RFECV, SequentialFeatureSelector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.stats.multitest import multipletests

from swarm import SubsetSelector

N_TRAIN, N_TEST = 300, 1000
SIZES: dict[str, Callable[[int], int]] = {
    "10": lambda width: 10,
    "10 %": lambda width: max(2, width // 10),
    "half": lambda width: width // 2,
}
MODELS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=100)
    ),
    "LightGBM": boosted,
    "random forest": lambda: RandomForestClassifier(100, n_jobs=1, random_state=0),
}
# Selectors whose columns depend on the model that will use them; others run once for all models.
WITH_MODEL = ("SFS", "ours", "ours, search only")
Select = Callable[..., np.ndarray]


class OutOfTime(BaseException):
    """A selector has taken too long; no ordinary exception, which cross-validation would catch."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in a block that takes longer."""

    def stop(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    # Again each second: Python ignores an exception in the clean-up of an object.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _first(order: np.ndarray, size: int) -> np.ndarray:
    return np.sort(order[:size])


def _by_importance(model: Any) -> Select:
    def select(X: pd.DataFrame, y: np.ndarray, size: int, **_: Any) -> np.ndarray:
        return _first(np.argsort(-model.fit(X, y).feature_importances_, kind="stable"), size)

    return select


def _random(X: pd.DataFrame, y: np.ndarray, size: int, **_: Any) -> np.ndarray:
    return _first(np.random.default_rng(0).permutation(X.shape[1]), size)


def _rfe(X: pd.DataFrame, y: np.ndarray, size: int, **_: Any) -> np.ndarray:
    found = RFE(boosted(), n_features_to_select=size, step=0.2).fit(X, y)
    return np.flatnonzero(found.support_)


def _rfecv(X: pd.DataFrame, y: np.ndarray, size: int, **_: Any) -> np.ndarray:
    found = RFECV(
        boosted(), step=0.05, min_features_to_select=size, cv=folds(0), scoring=SCORING
    ).fit(X, y)
    order = np.argsort(-found.estimator_.feature_importances_, kind="stable")
    return _first(np.flatnonzero(found.support_)[order], size)


def _sequential(X: pd.DataFrame, y: np.ndarray, size: int, model: Any, **_: Any) -> np.ndarray:
    found = SequentialFeatureSelector(model, n_features_to_select=size, cv=3, scoring=SCORING)
    return np.flatnonzero(found.fit(X, y).support_)


def _l1(X: pd.DataFrame, y: np.ndarray, size: int, **_: Any) -> np.ndarray:
    model = LogisticRegression(l1_ratio=1.0, C=0.1, solver="saga", max_iter=200)
    weights = np.abs(model.fit(StandardScaler().fit_transform(X), y).coef_).max(axis=0)
    return _first(np.argsort(-weights, kind="stable"), size)


def _ours(**options: Any) -> Select:
    def select(
        X: pd.DataFrame, y: np.ndarray, size: int, model: Any, time_limit: float
    ) -> np.ndarray:
        selector = SubsetSelector(
            clone(model),
            # The limit is one of the search; ranking columns and confirming come after it.
            budget={"seconds": 0.5 * time_limit},
            scoring=OURS,
            size=size,
            random_state=0,
            **options,
        )
        return np.flatnonzero(selector.fit(X, y).get_support())

    return select


SELECTORS: dict[str, Select] = {
    "all columns": lambda X, y, size, **_: np.arange(X.shape[1]),
    "random": _random,
    "F": lambda X, y, size, **_: _first(by_f(X, y, 0), size),
    "mutual information": lambda X, y, size, **_: _first(by_information(X, y, 0), size),
    "mRMR": lambda X, y, size, **_: _first(by_mrmr(X, y, 0, size), size),
    "extra trees": _by_importance(ExtraTreesClassifier(200, n_jobs=1, random_state=0)),
    "LightGBM importance": _by_importance(boosted()),
    "RFE": _rfe,
    "L1": _l1,
    "Boruta": lambda X, y, size, **_: _first(Boruta().fit(X, y).order_, size),
    "RFECV": _rfecv,
    "SFS": _sequential,
    "ours": _ours(confirm={"repeats": 2}),
    "ours, search only": _ours(confirm=False),
}


def tables(folder: Path, names: list[str]) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Yield the numeric tables of a folder with a column `label`, without classes of few rows."""
    for name in names or sorted(file.stem for file in folder.glob("*.parquet")):
        table = pd.read_parquet(folder / f"{name}.parquet")
        target = pd.factorize(table["label"], sort=True)[0]
        kept = np.bincount(target)[target] >= 6
        others = [name for name in ("label", "subset") if name in table]
        X = table.drop(columns=others).apply(pd.to_numeric, errors="coerce").fillna(0.0)[kept]
        X = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1).reset_index(drop=True)
        yield name, X.astype(float), pd.factorize(target[kept], sort=True)[0]


def finished(out: Path, keys: list[str]) -> set[tuple[Any, ...]]:
    """Return the keys of the rows that a file holds."""
    if not out.exists():
        return set()
    rows = pd.read_csv(out, dtype={"size": str})  # "10" is no number
    return set(rows[keys].itertuples(index=False, name=None))


def split(y: np.ndarray, most_test: int = N_TEST, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training rows and of test rows."""
    everything = np.arange(len(y))
    train, test = train_test_split(everything, test_size=0.4, stratify=y, random_state=seed)
    if len(train) > N_TRAIN:
        train, _ = train_test_split(train, train_size=N_TRAIN, stratify=y[train], random_state=seed)
    return train, test[:most_test]


def parser(description: str | None, models: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of what to run, and where its rows are."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--tables", dest="folder", type=Path, help="folder of Parquet files")
    made.add_argument("--names", nargs="*", default=[], help="tables to run; default: all")
    made.add_argument("--models", nargs="*", default=[*models])
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--summary", action="store_true")
    return made


def with_selectors(options: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add which selectors to run, at which sizes, and for how long."""
    options.add_argument("--sizes", nargs="*", default=[*SIZES])
    options.add_argument("--selectors", nargs="*", default=[*SELECTORS])
    options.add_argument(
        "--seconds", dest="time_limit", type=float, default=300.0, help="limit of a selector"
    )
    options.add_argument(
        "--longest", type=float, default=300.0, help="seconds after which a selector is stopped"
    )
    return options


def carry_out(
    options: argparse.ArgumentParser,
    run: Callable[..., None],
    summary: Callable[[Path], pd.DataFrame],
) -> None:
    """Run what the command line names, unless it asks for the summary alone, and print that."""
    arguments = vars(options.parse_args())
    warnings.filterwarnings("ignore")
    if not arguments.pop("summary"):
        run(**arguments)
    print(summary(arguments["out"]).round(3).to_string(index=False))


def select(
    selector: str,
    model: Any,
    X: pd.DataFrame,
    y: np.ndarray,
    size: int,
    *,
    time_limit: float,
    longest: float,
) -> tuple[np.ndarray, float]:
    """Return the columns of a selector, none if it took longer than `longest`, and its seconds."""
    columns, began = np.empty(0, dtype=int), time.perf_counter()
    try:
        with at_most(longest):
            columns = SELECTORS[selector](X, y, size, model=model, time_limit=time_limit)
    except OutOfTime:
        return columns, time.perf_counter() - began
    if selector != "all columns" and len(columns) != size:
        raise ValueError(f"{selector} selected {len(columns)} columns, not {size}")
    return columns, time.perf_counter() - began


def measured(
    model: Any,
    columns: np.ndarray,
    seconds: float,
    train: tuple[pd.DataFrame, np.ndarray],
    test: tuple[pd.DataFrame, np.ndarray],
) -> dict[str, Any]:
    """Return the sizes of a selection, its score on unseen rows, nan without columns, and time."""
    score = np.nan
    if len(columns):
        predicted = model.fit(train[0].iloc[:, columns], train[1]).predict(test[0].iloc[:, columns])
        score = round(balanced_accuracy(test[1], predicted), 6)
    return {
        "n_columns": train[0].shape[1],
        "n_train": len(train[0]),
        "n_selected": len(columns),
        "score": score,
        "seconds": round(seconds, 2),
    }


def append(out: Path, row: dict[str, Any]) -> None:
    """Append a row to a file, which may not exist."""
    pd.DataFrame([row]).to_csv(out, mode="a", header=not out.exists(), index=False)


def run(
    folder: Path,
    out: Path,
    *,
    names: list[str],
    models: list[str],
    selectors: list[str],
    sizes: list[str],
    **limits: float,
) -> None:
    """Append a row for each table, model, size and selector that has none."""
    done = finished(out, ["table", "model", "size", "selector"])
    for name, X, y in tables(folder, names):
        A, a, B, b = divided(X, y)
        for size_name in sizes:
            size = SIZES[size_name](A.shape[1])
            if size >= A.shape[1]:
                continue
            found: dict[tuple[str, str], tuple[np.ndarray, float]] = {}
            for selector, model_name in itertools.product(selectors, models):
                if (name, model_name, size_name, selector) in done:
                    continue
                make = MODELS[model_name]
                key = (selector, model_name if selector in WITH_MODEL else "")
                if key not in found:
                    found[key] = select(selector, make(), A, a, size, **limits)
                row = {
                    "table": name,
                    "model": model_name,
                    "size": size_name,
                    "selector": selector,
                    **measured(make(), *found[key], (A, a), (B, b)),
                }
                append(out, row)


def divided(
    X: pd.DataFrame, y: np.ndarray
) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return training rows and their target, then test rows; columns vary in the first."""
    train, test = split(y)
    varies = X.iloc[train].nunique().to_numpy() > 1
    A, B = (X.iloc[rows].loc[:, varies].reset_index(drop=True) for rows in (train, test))
    return A, y[train], B, y[test]


def summary(out: Path) -> pd.DataFrame:
    """Compare the selectors on the tables of a file.

    Returns
    -------
    DataFrame
        By model, size and selector: mean rank, mean difference of the score to all columns and to
        ours in points with the p of Wilcoxon's test after Holm's correction, and median seconds. A
        selector without a score on some table has neither rank nor p, and the differences are those
        on the tables that it has finished.
    """
    rows: list[dict[str, Any]] = []
    for (model, size), part in pd.read_csv(out).groupby(["model", "size"]):
        every = part.pivot(index="table", columns="selector", values="score")
        complete = every.dropna(axis=1)
        ranks = complete.rank(axis=1, ascending=False).mean().reindex(every.columns)
        seconds = part.groupby("selector")["seconds"].median()
        others = [name for name in complete if name != "ours"]
        gaps = {name: (every["ours"] - complete[name]).dropna() for name in others}
        raw = [wilcoxon(gap).pvalue if gap.any() else 1.0 for gap in gaps.values()]
        corrected = dict(zip(others, multipletests(raw, method="holm")[1], strict=True))
        rows += [
            {
                "model": model,
                "size": size,
                "selector": name,
                "tables": every[name].count(),
                "mean rank": ranks[name],
                "to all columns": 100 * (every[name] - every["all columns"]).mean(),
                "ours is ahead by": 100 * (every["ours"] - every[name]).mean(),
                "p": corrected.get(name, np.nan),
                "seconds": seconds[name],
            }
            for name in ranks.sort_values().index
        ]
    return pd.DataFrame(rows)


def main() -> None:
    """Run or summarise."""
    carry_out(with_selectors(parser(__doc__, MODELS)), run, summary)


if __name__ == "__main__":
    main()
