"""Answers where columns outnumber rows, ours and those of other selectors, on unseen rows.

Ours are the columns of a default fit, and the vote of the default number of members. A filter is
the best size of one ranking in folds that rank anew. Others decide their number of columns
themselves, the same for every model.

``python benchmarks/arena/answers.py --tables FOLDER --out FILE`` runs what FILE does not hold;
``--summary`` compares the answers on the tables with more columns than rows. The columns have unit
variance in at most 300 training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fixed_size import append, carry_out, finished, parser, split, tables
from metric import OURS, balanced_accuracy
from peers import Boruta, boosted, by_f
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_selection import f_classif
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from statsmodels.stats.multitest import multipletests

from swarm import SubsetSelector

# Members of a vote: the default of runs.
N_MEMBERS = 8
N_TEST, MOST_CLASSES = 2000, 25
# Columns that mRMR ranks.
MOST_MRMR = 100
MODELS: dict[str, Any] = {
    "naive Bayes": GaussianNB(var_smoothing=1e-6),
    "5-NN": KNeighborsClassifier(5),
    "logistic regression": LogisticRegression(max_iter=300),
    "LightGBM": boosted().set_params(deterministic=True, force_col_wise=True),
}
COLUMNS, VOTE = "ours: columns to keep", "ours: model to serve"
Columns = np.ndarray  # positions of columns
Votes = Sequence[Columns]  # one set of columns for each member


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table that a model learns from, and rows that it is scored on."""

    X: np.ndarray
    y: np.ndarray
    unseen_X: np.ndarray
    unseen_y: np.ndarray

    def part(self, train: np.ndarray, test: np.ndarray) -> Rows:
        """Return some of the rows to learn from, and others of them to score on."""
        return Rows(self.X[train], self.y[train], self.X[test], self.y[test])

    def probabilities(self, model: Any, columns: Columns) -> np.ndarray:
        """Fit on some columns, and predict the unseen rows."""
        fitted = clone(model).fit(self.X[:, columns], self.y)
        return fitted.predict_proba(self.unseen_X[:, columns])

    def score(self, model: Any, votes: Votes) -> float:
        """Return the balanced accuracy of the soft vote of models on the unseen rows."""
        shares = [self.probabilities(model, columns) for columns in votes]
        return balanced_accuracy(self.unseen_y, np.mean(shares, axis=0).argmax(axis=1))


def rank_by_f(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns, the highest F statistic first."""
    return by_f(X, y, 0)


def rank_by_trees(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns, the most important ones in extremely randomised trees first."""
    trees = ExtraTreesClassifier(200, n_jobs=1, random_state=0).fit(X, y)
    return np.argsort(-trees.feature_importances_, kind="stable")


def rank_by_permutation(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns that a forest uses, the most important ones by permutation first."""
    forest = RandomForestClassifier(100, n_jobs=1, random_state=0).fit(X, y)
    used = np.flatnonzero(forest.feature_importances_)
    # A forest of these columns alone predicts as well, and each of its calls takes less time.
    forest = RandomForestClassifier(100, n_jobs=1, random_state=0).fit(X[:, used], y)
    found = permutation_importance(
        forest, X[:, used], y, scoring="neg_log_loss", n_repeats=1, random_state=0
    )
    return used[np.argsort(-found.importances_mean, kind="stable")]


def rank_by_mrmr(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the first columns of mRMR, those of the package mrmr-selection, which takes minutes.

    The F statistic by the mean absolute correlation with the columns before.
    """
    relevance = np.nan_to_num(f_classif(X, y)[0])
    scaled = X - X.mean(axis=0)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=0), 1e-12)
    redundancy, order = np.ones(X.shape[1]), list[int]()
    total = np.zeros(X.shape[1])
    while len(order) < min(MOST_MRMR, X.shape[1]):
        order.append(int(np.argmax(relevance / redundancy)))
        relevance[order[-1]] = -1.0
        total += np.maximum(np.abs(scaled[:, order[-1]] @ scaled), 0.001)
        redundancy = total / len(order)
    return np.array(order)


FILTERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "F filter": rank_by_f,
    "extra-trees filter": rank_by_trees,
    "permutation filter": rank_by_permutation,
    "mRMR filter": rank_by_mrmr,
}


def by_lasso(X: np.ndarray, y: np.ndarray) -> Columns:
    """Return the columns that a path of L1 models keeps, one path for each class."""
    path = LogisticRegressionCV(
        Cs=10, l1_ratios=(1.0,), solver="liblinear", cv=5, use_legacy_attributes=False
    )
    models = OneVsRestClassifier(path).fit(X, y).estimators_
    return np.flatnonzero(np.vstack([model.coef_ for model in models]).any(axis=0))


def by_boruta(X: np.ndarray, y: np.ndarray) -> Columns:
    """Return the columns that Boruta confirms."""
    return np.flatnonzero(Boruta().fit(pd.DataFrame(X), y).support_)


# Their columns do not depend on the model.
FIXED: dict[str, Callable[[np.ndarray, np.ndarray], Columns]] = {
    "lasso": by_lasso,
    "Boruta": by_boruta,
}
ANSWERS = (COLUMNS, VOTE, "all columns", *FILTERS, *FIXED)


@dataclass(frozen=True, eq=False)
class Peers:
    """Selectors on the rows of one table, whose rankings serve all models.

    `order` and `fixed` return columns and the processor seconds that they took; fold -1 is all
    rows.
    """

    rows: Rows
    parts: list[Rows]
    order: Callable[[str, int], tuple[np.ndarray, float]]
    fixed: Callable[[str], tuple[Columns, float]]

    @classmethod
    def of(cls, rows: Rows, repeats: int = 1) -> Peers:
        """Prepare the folds of a table."""
        parts = [
            rows.part(train, test)
            for seed in range(repeats)
            for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(
                rows.y, rows.y
            )
        ]

        @cache
        def order(name: str, fold: int) -> tuple[np.ndarray, float]:
            part = [*parts, rows][fold]
            return timed(lambda: FILTERS[name](part.X, part.y))

        @cache
        def fixed(name: str) -> tuple[Columns, float]:
            return timed(lambda: FIXED[name](rows.X, rows.y))

        return cls(rows, parts, order, fixed)

    def filtered(self, name: str, model: Any) -> tuple[Columns, float]:
        """Return the first columns of a ranking, as many as score best with rankings in folds."""
        orders = [self.order(name, fold) for fold in (*range(len(self.parts)), -1)]
        most = min(len(order) for order, _ in orders)
        width = self.rows.X.shape[1]
        sizes = sorted({min(round(width ** (i / 10)), most) for i in range(1, 11)} - {1})

        def best() -> int:
            scores = {
                size: sum(
                    part.score(model, [order[:size]])
                    for part, (order, _) in zip(self.parts, orders, strict=False)
                )
                for size in sizes
            }
            return max(sizes, key=lambda size: (round(scores[size], 9), -size))

        size, seconds = timed(best)
        return np.sort(orders[-1][0][:size]), seconds + sum(each for _, each in orders)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its processor seconds, as the machine may be shared."""
    began = time.process_time()
    return call(), time.process_time() - began


def answers(
    rows: Rows, peers: Peers, model: Any, wanted: set[str]
) -> Iterator[tuple[str, Votes, float]]:
    """Yield each answer: its name, the columns of each of its members, and its seconds."""
    if wanted & {COLUMNS, VOTE}:
        selector = SubsetSelector(clone(model), scoring=OURS, random_state=0)
        _, seconds = timed(lambda: selector.fit(rows.X, rows.y))
        yield COLUMNS, [np.flatnonzero(selector.get_support())], seconds
        members = selector.result_.best_members(N_MEMBERS).masks
        positions = selector.result_.space.positions_by_unit
        yield VOTE, [np.sort(positions(mask)) for mask in members], seconds
    yield "all columns", [np.arange(rows.X.shape[1])], 0.0
    for name in FILTERS:
        if name in wanted:
            columns, seconds = peers.filtered(name, model)
            yield name, [columns], seconds
    for name in FIXED:
        if name in wanted:
            columns, seconds = peers.fixed(name)
            yield name, [columns] if len(columns) else [np.arange(rows.X.shape[1])], seconds


def divided(X: pd.DataFrame, y: np.ndarray, division: int) -> Rows:
    """Return rows to learn from and unseen ones, in units of the former."""
    train, test = split(y, N_TEST, seed=division)
    values = X.to_numpy(dtype=float)
    mean, spread = values[train].mean(axis=0), values[train].std(axis=0)
    varies = spread > 0
    scaled = (values[:, varies] - mean[varies]) / spread[varies]
    return Rows(scaled[train], y[train], scaled[test], y[test])


def prepared(folder: Path, names: list[str], division: int) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of each table that has few classes, with its name."""
    for name, X, y in tables(folder, names):
        if y.max() < MOST_CLASSES:
            yield name, divided(X, y, division)


def cell(table: str, model: str, division: int, rows: Rows) -> dict[str, Any]:
    """Return what a row of a result says about its table and its model."""
    return {
        "table": table,
        "model": model,
        "division": division,
        "n_columns": rows.X.shape[1],
        "n_train": len(rows.y),
    }


def run(
    folder: Path,
    out: Path,
    *,
    names: list[str],
    models: list[str],
    selectors: list[str],
    division: int,
) -> None:
    """Append the rows of each table, model and answer that has none for this division."""
    done = finished(out, ["table", "model", "division", "answer"])
    for name, rows in prepared(folder, names, division):
        peers = Peers.of(rows)
        for label in models:
            wanted = {each for each in selectors if (name, label, division, each) not in done}
            if not wanted:
                continue
            for answer, votes, seconds in answers(rows, peers, MODELS[label], wanted):
                if answer not in wanted:
                    continue
                row = {
                    **cell(name, label, division, rows),
                    "answer": answer,
                    "n_selected": len(np.unique(np.concatenate(votes))),
                    "score": round(rows.score(MODELS[label], votes), 5),
                    "seconds": round(seconds, 2),
                }
                append(out, row)


def summary(out: Path) -> pd.DataFrame:
    """Compare the answers on tables with more columns than rows, by model and over all models.

    Divisions are averaged first, and then the models for the rows of all. Ranks are among the
    answers that have a row for each table and model. Differences are those of our vote and of our
    columns to an answer, in points, with the p of Wilcoxon's test over the tables after Holm's
    correction.
    """
    found = pd.read_csv(out).query("n_columns > n_train")
    found["share"] = found["n_selected"] / found["n_columns"]
    keys = ["model", "table", "answer"]
    means = found.groupby(keys, as_index=False)[["score", "share", "seconds"]].mean()
    compared: list[pd.DataFrame] = []
    for model, part in [*means.groupby("model"), ("all", means)]:
        score = 100 * part.pivot_table(index=["table", "model"], columns="answer", values="score")
        score = score.dropna(axis=1)
        rank = score.rank(axis=1, ascending=False).mean()
        by_table = score.groupby("table").mean()
        table = pd.DataFrame({"model": model, "tables": len(by_table), "rank": rank})
        table["score"] = by_table.mean()
        for ours, label in ((VOTE, "vote"), (COLUMNS, "columns")):
            gaps = by_table.rsub(by_table[ours], axis=0).drop(columns=ours)
            p = [wilcoxon(gap).pvalue if gap.any() else 1.0 for _, gap in gaps.items()]
            table[f"{label} ahead by"] = gaps.mean()
            corrected = multipletests(p, method="holm")[1]
            table[f"p, {label}"] = pd.Series(corrected, index=gaps.columns)
        table["share of columns"] = part.groupby("answer")["share"].median()
        table["seconds"] = part.groupby("answer")["seconds"].median()
        compared.append(table.sort_values("rank").reset_index(names="answer"))
    return pd.concat(compared)


def main() -> None:
    """Run or summarise."""
    options = parser(__doc__, MODELS)
    options.add_argument("--selectors", nargs="*", default=[*ANSWERS], help="answers to run")
    options.add_argument("--division", type=int, default=0, help="seed of the rows to learn from")
    carry_out(options, run, summary)


if __name__ == "__main__":
    main()
