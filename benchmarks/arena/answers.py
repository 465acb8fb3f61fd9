"""Other answers that a search could give than the product's, scored on rows that none of them saw.

Votes of more or fewer confirmed subsets; one model of the columns that they share; a vote chosen
greedily for its own cost on further folds (Caruana et al. 2004, Ensemble selection from libraries
of models); searches within folds, of which each sees four fifths of the rows with a fifth of the
budget, as a vote, or to choose among the procedures (search, two filters, all columns) by their
scores on the parts left out.

``python benchmarks/arena/answers.py --tables FOLDER --out FILE`` runs what FILE does not hold;
``--summary`` prints the means, and the differences to the confirmed subset. The columns have unit
variance in at most 300 training rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from fixed_size import carry_out, finished, parser, split, tables
from metric import OURS, balanced_accuracy
from peers import boosted, by_f
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector

N_TEST = 2000
MOST_CLASSES, N_PARTS, N_MEMBERS, N_GREEDY = 25, 5, 8, 25
# Members of the vote of searches within folds, and other numbers of folds for it.
N_WITHIN, OTHER_PARTS = 20, (3, 10)
MODELS: dict[str, tuple[Any, int]] = {
    "naive Bayes": (GaussianNB(var_smoothing=1e-6), 300),
    "5-NN": (KNeighborsClassifier(5), 300),
    "logistic regression": (LogisticRegression(max_iter=300), 150),
    "LightGBM": (boosted().set_params(deterministic=True, force_col_wise=True), 100),
}
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


def by_trees(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return the columns, the most important ones in extremely randomised trees first."""
    trees = ExtraTreesClassifier(200, n_jobs=1, random_state=seed).fit(X, y)
    return np.argsort(-trees.feature_importances_, kind="stable")


FILTERS: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "F filter": by_f,
    "extra-trees filter": by_trees,
}


def filtered(rows: Rows, model: Any, rank: Callable[..., np.ndarray]) -> Columns:
    """Return the first columns of a ranking, as many as score best with the ranking in folds."""
    width = rows.X.shape[1]
    sizes = sorted({round(width ** (i / 10)) for i in range(1, 11)} - {1})
    scores = dict.fromkeys(sizes, 0.0)
    for train, test in folds(rows.y, 5, seed=0):
        part = rows.part(train, test)
        order = rank(part.X, part.y, 0)
        for size in sizes:
            scores[size] += part.score(model, [order[:size]])
    size = max(sizes, key=lambda size: (round(scores[size], 9), -size))
    return np.sort(rank(rows.X, rows.y, 0)[:size])


def folds(y: np.ndarray, n: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield stratified folds."""
    return StratifiedKFold(n, shuffle=True, random_state=seed).split(y, y)


def searched(
    rows: Rows, model: Any, n_subsets: int, *, seed: int = 0, confirm: bool = False
) -> tuple[Columns, list[Columns], SubsetSelector]:
    """Search, and return the subset, the best members, and the selector."""
    selector = SubsetSelector(
        clone(model),
        scoring=OURS,
        budget={"distinct": n_subsets},
        confirm={"repeats": 5} if confirm else False,
        random_state=seed,
    )
    names = [f"x{i}" for i in range(rows.X.shape[1])]
    selector.fit(pd.DataFrame(rows.X, columns=names), rows.y)
    masks = selector.result_.best_members(N_MEMBERS).masks
    return np.flatnonzero(selector.get_support()), _columns(selector, masks), selector


def _columns(selector: SubsetSelector, masks: np.ndarray) -> list[Columns]:
    space = selector.result_.space
    return [np.array([int(name[1:]) for name in space.subset(mask)]) for mask in masks]


def answers(rows: Rows, model: Any, budget: int) -> Iterator[tuple[str, Votes]]:
    """Yield each answer: its name, and the columns of each of its members."""
    everything = np.arange(rows.X.shape[1])
    yield "all columns", [everything]
    single, members, selector = searched(rows, model, budget, confirm=True)
    yield "confirmed", [single]
    yield "confirmed, vote of 8", members
    candidates = _columns(selector, selector.result_.confirmation.candidates.masks)
    yield "confirmed, vote of 4", candidates[:4]
    yield "confirmed, vote of 16", candidates[:16]
    common = shared(members, 3)
    yield "shared by 3 of 8", [common if len(common) else single]
    yield "greedy vote", greedy(rows, model, candidates)
    lowest, members, _ = searched(rows, model, budget)
    yield "lowest cost", [lowest]
    yield "lowest cost, vote of 8", members
    procedures = {"search": single, "all": everything}
    for name, rank in FILTERS.items():
        procedures[name] = filtered(rows, model, rank)
        yield name, [procedures[name]]
    scores, votes = within_folds(rows, model, budget, N_PARTS, FILTERS)
    yield "search within folds, vote of 20", votes
    for n_parts in OTHER_PARTS:
        _, votes = within_folds(rows, model, budget, n_parts)
        yield f"search within {n_parts} folds, vote of 20", votes
    chosen = max(procedures, key=lambda name: scores[name])
    yield "chosen on the parts left out", [procedures[chosen]]


def shared(votes: Votes, least: int) -> Columns:
    """Return the columns that at least so many members have."""
    used, counts = np.unique(np.concatenate(votes), return_counts=True)
    return used[counts >= least]


def within_folds(
    rows: Rows,
    model: Any,
    budget: int,
    n_parts: int,
    filters: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType({}),
) -> tuple[dict[str, float], Votes]:
    """Search all rows but a part at a time, and score procedures on the part left out.

    The searches share the budget. Returns the mean score of each procedure, and the best subsets
    of all searches, equally many of each.
    """
    scores = dict.fromkeys(("search", *filters, "all"), 0.0)
    votes: list[Columns] = []
    for number, (train, test) in enumerate(folds(rows.y, n_parts, seed=7)):
        part = rows.part(train, test)
        single, members, _ = searched(part, model, budget // n_parts, seed=number)
        votes += members[: N_WITHIN // n_parts]
        found = {name: filtered(part, model, rank) for name, rank in filters.items()}
        found |= {"search": single, "all": np.arange(rows.X.shape[1])}
        for name, columns in found.items():
            scores[name] += part.score(model, [columns]) / n_parts
    return scores, votes


def greedy(rows: Rows, model: Any, candidates: Votes) -> Votes:
    """Choose members with replacement, from the best on, by the cost of the vote on new folds."""
    parts = [
        rows.part(train, test)
        for seed in (501, 502, 503)
        for train, test in folds(rows.y, 5, seed=seed)
    ]
    shares = [[part.probabilities(model, columns) for part in parts] for columns in candidates]

    def score(counts: np.ndarray) -> float:
        used = np.flatnonzero(counts)
        votes = [sum(counts[i] * shares[i][at] for i in used) for at in range(len(parts))]
        hits = [
            balanced_accuracy(part.unseen_y, vote.argmax(axis=1))
            for part, vote in zip(parts, votes, strict=True)
        ]
        return round(float(np.mean(hits)), 9)

    one_more = np.eye(len(candidates), dtype=int)
    counts = one_more[0]
    best, best_score = counts, score(counts)
    for _ in range(N_GREEDY - 1):
        scores = [score(counts + one) for one in one_more]
        at = int(np.argmax(scores))
        counts = counts + one_more[at]
        if scores[at] > best_score:
            best, best_score = counts, scores[at]
    return [columns for columns, count in zip(candidates, best, strict=True) for _ in range(count)]


def divided(X: pd.DataFrame, y: np.ndarray, division: int) -> Rows:
    """Return rows to learn from and unseen ones, in units of the former."""
    train, test = split(y, N_TEST, seed=division)
    values = X.to_numpy(dtype=float)
    mean, spread = values[train].mean(axis=0), values[train].std(axis=0)
    varies = spread > 0
    scaled = (values[:, varies] - mean[varies]) / spread[varies]
    return Rows(scaled[train], y[train], scaled[test], y[test])


def run(folder: Path, out: Path, *, names: list[str], models: list[str], division: int) -> None:
    """Append the rows of each table and model that has none for this division."""
    done = finished(out, ["table", "model", "division"])
    for (name, X, y), label in itertools.product(tables(folder, names), models):
        if (name, label, division) in done or y.max() >= MOST_CLASSES:
            continue
        rows, (model, budget) = divided(X, y, division), MODELS[label]
        found = [
            {
                "table": name,
                "model": label,
                "division": division,
                "n_columns": rows.X.shape[1],
                "n_train": len(rows.y),
                "answer": answer,
                "n_selected": len(np.unique(np.concatenate(votes))),
                "score": round(rows.score(model, votes), 5),
            }
            for answer, votes in answers(rows, model, budget)
        ]
        pd.DataFrame(found).to_csv(out, mode="a", header=not out.exists(), index=False)


def summary(out: Path) -> pd.DataFrame:
    """Return for each model and answer its mean, and its difference to the confirmed subset.

    Divisions are averaged first, and then the models for the rows of all. The differences are in
    points; their p is that of Wilcoxon's test over the tables.
    """
    rows: list[dict[str, Any]] = []
    found = pd.read_csv(out).assign(share=lambda each: each["n_selected"] / each["n_columns"])
    means = found.groupby(["model", "table", "answer"], as_index=False)[["score", "share"]].mean()
    for model, part in [*means.groupby("model"), ("all", means)]:
        score = 100 * part.pivot_table(index="table", columns="answer", values="score")
        share = part.groupby("answer")["share"].median()
        for answer, gap in score.sub(score["confirmed"], axis=0).items():
            rows.append(
                {
                    "model": model,
                    "answer": answer,
                    "tables": len(score),
                    "score": score[answer].mean(),
                    "difference": gap.mean(),
                    "p": wilcoxon(gap).pvalue if gap.any() else 1.0,
                    "share of columns": share[answer],
                }
            )
    return pd.DataFrame(rows)


def main() -> None:
    """Run or summarise."""
    options = parser(__doc__, MODELS)
    options.add_argument("--division", type=int, default=0, help="seed of the rows to learn from")
    carry_out(options, run, summary)


if __name__ == "__main__":
    main()
