"""Comparison with other libraries: the same estimator, folds and number of evaluations.

The extra ``bench`` installs them; one that is missing or fails is listed with the reason.

    python benchmarks/bench_peers.py [--evaluations 600] [--seeds 3]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from tables import DATA, save

from swarm import Budget, CrossValidation, Problem, Search, make, prepare_hints

OURS = ("bpso", "multiswarm", "genetic", "two_d")
POPULATION = 30
Mask = np.ndarray
Model = Callable[[], object]


def neighbours() -> KNeighborsClassifier:
    return KNeighborsClassifier(n_neighbors=5)


def discriminant() -> LinearDiscriminantAnalysis:
    """Build a model with coefficients, for recursive elimination."""
    return LinearDiscriminantAnalysis()


class Task:
    """One data set with its folds, and a meter of evaluations for peers that call back."""

    def __init__(self, name: str, n_folds: int) -> None:
        table = pd.read_parquet(DATA / f"{name}.parquet")
        self.name = name
        self.X = table.drop(columns="target").astype(float)
        self.y = np.unique(table["target"], return_inverse=True)[1]
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        self.folds = list(splitter.split(self.X, self.y))
        self.scored = 0

    def score(self, estimator: object, X: object, y: object) -> float:
        """Accuracy, as a scorer that counts."""
        self.scored += 1
        return float((estimator.predict(X) == y).mean())

    def cost(self, mask: Mask, model: Model = neighbours) -> float:
        """Cost of a mask by scikit-learn, the same for all."""
        columns = self.X.loc[:, mask]
        return 1 - cross_val_score(model(), columns, self.y, cv=self.folds).mean()

    def search(
        self, strategy: str, params: dict, budget: Budget, seed: int = 0, model: Model = neighbours
    ):
        """Run one of our searches."""
        problem = Problem.build(self.X, self.y, model(), scoring="accuracy", folds=self.folds)
        made = make(strategy, params)
        hints = prepare_hints(
            self.X, problem.space, self.y, n_clusters=len(problem.space.names) // 3,
            needs=made.needs,
        )  # fmt: skip
        options = {"n_jobs": 1, "importances": made.uses_importances}
        with CrossValidation(problem, **options) as evaluator:
            search = Search(problem, made, hints=hints, seed=seed, budget=budget)
            return search.driver(evaluator).run()


def timed(call: Callable[[], object]) -> tuple[object, float]:
    started = time.perf_counter()
    return call(), time.perf_counter() - started


def failed(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def sequential() -> None:
    """Compare seconds and subsets of sequential selection, 10 of the 60 features of sonar."""
    task = Task("sonar", 10)
    task.search("sfs", {"size": 2}, Budget(epochs=10**6))  # compiled code is loaded once
    rows, notes = [], []
    contests = [
        ("sffs", {"size": 10}, mlxtend_sffs, neighbours, "50"),
        ("sfs", {"size": 10}, sklearn_sfs, neighbours, "-"),
        ("rfe", {}, sklearn_rfecv, discriminant, "-"),
    ]
    for strategy, params, peer, model, asked in contests:
        budget = Budget(epochs=10**6)
        result, ours = timed(
            lambda strategy=strategy, params=params, budget=budget, model=model: task.search(
                strategy, params, budget, model=model
            )
        )
        mask = result.best_mask
        try:
            theirs, seconds = timed(lambda peer=peer: peer(task))
        except Exception as error:
            notes.append(f"{peer.__name__}: {failed(error)}")
            continue
        same = "yes" if np.array_equal(mask, theirs) else "no"
        costs = f"{task.cost(mask, model):.4f}", f"{task.cost(theirs, model):.4f}"
        rows.append([strategy, peer.__name__, ours, seconds, seconds / ours, asked, same, *costs])
    notes.append(
        "rfe and RFECV: a linear discriminant, of all sizes; RFECV eliminates in each fold on its "
        "own, rfe by the mean importance over the folds"
    )
    names = ["ours", "peer", "ours s", "peer s", "ratio", "asked"]
    names += ["same subset", "our cost", "peer cost"]
    save(
        "peers_sequential",
        "Sequential selection: 10 of 60 features of sonar, 5-NN, 10 folds, one process",
        names,
        rows,
        notes,
    )


def mlxtend_sffs(task: Task) -> Mask:
    from mlxtend.feature_selection import SequentialFeatureSelector

    selector = SequentialFeatureSelector(
        neighbours(), k_features=10, forward=True, floating=True, scoring="accuracy", cv=task.folds
    )
    return as_mask(task, list(selector.fit(task.X.to_numpy(), task.y).k_feature_idx_))


def sklearn_sfs(task: Task) -> Mask:
    from sklearn.feature_selection import SequentialFeatureSelector

    selector = SequentialFeatureSelector(
        neighbours(), n_features_to_select=10, scoring="accuracy", cv=task.folds
    )
    return selector.fit(task.X, task.y).get_support()


def sklearn_rfecv(task: Task) -> Mask:
    from sklearn.feature_selection import RFECV

    selector = RFECV(discriminant(), cv=task.folds, scoring="accuracy", min_features_to_select=1)
    return selector.fit(task.X, task.y).get_support()


def as_mask(task: Task, positions: list[int]) -> Mask:
    mask = np.zeros(task.X.shape[1], dtype=bool)
    mask[positions] = True
    return mask


def zoofs(task: Task, seed: int, evaluations: int) -> Mask:
    from zoofs import ParticleSwarmOptimization

    def objective(model, X, y, X_test, y_test) -> float:
        return 1 - cross_val_score(model, X, y, cv=task.folds, scoring=task.score).mean()

    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generator)
    swarm = ParticleSwarmOptimization(
        objective, n_iteration=evaluations // POPULATION, population_size=POPULATION, minimize=True
    )
    chosen = swarm.fit(neighbours(), task.X, task.y, task.X, task.y, verbose=False)
    return task.X.columns.isin(list(chosen))


def mafese(task: Task, seed: int, evaluations: int) -> Mask:
    """Genetic search of mafese, which costs a subset by a hold-out of its own."""
    from mafese import Data, MhaSelector

    data = Data(task.X.to_numpy(), task.y)
    data.split_train_test(test_size=0.2, random_state=seed)
    selector = MhaSelector(
        problem="classification",
        obj_name="AS",
        estimator="knn",
        estimator_paras={"n_neighbors": 5},
        optimizer="BaseGA",
        optimizer_paras={"epoch": evaluations // POPULATION, "pop_size": POPULATION},
        seed=seed,
    )
    selector.fit(data.X_train, data.y_train)
    task.scored = evaluations * len(task.folds)
    return as_mask(task, list(selector.selected_feature_indexes))


def sklearn_genetic(task: Task, seed: int, evaluations: int) -> Mask:
    import random

    from sklearn_genetic import GAFeatureSelectionCV

    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generators)
    random.seed(seed)
    # Each generation costs two populations.
    generations = (evaluations // POPULATION - 1) // 2
    selector = GAFeatureSelectionCV(
        neighbours(),
        cv=task.folds,
        scoring=task.score,
        population_size=POPULATION,
        generations=generations,
        verbose=False,
    )
    return np.asarray(selector.fit(task.X, task.y).support_, dtype=bool)


def quality(evaluations: int, seeds: int) -> None:
    """Compare the cost of the subset found, measured by us on the same folds for all."""
    rows, notes = [], []
    for name in ("sonar", "wdbc"):
        task = Task(name, 5)
        everything = np.ones(task.X.shape[1], dtype=bool)
        rows.append([name, "all features", task.cost(everything), 0, 0, 1, 0.0])
        for strategy in OURS:
            found = []
            for seed in range(seeds):
                budget = Budget(evaluations=evaluations)
                result, seconds = timed(
                    lambda task=task, strategy=strategy, budget=budget, seed=seed: task.search(
                        strategy, {}, budget, seed
                    )
                )
                mask = result.best_mask
                counts = result.state.counts.evaluations
                found.append((task.cost(mask), mask.sum(), counts, seconds))
            rows.append(row(name, f"ours: {strategy}", found))
        for peer in (zoofs, mafese, sklearn_genetic):
            found = []
            try:
                for seed in range(seeds):
                    task.scored = 0
                    mask, seconds = timed(
                        lambda task=task, peer=peer, seed=seed: peer(task, seed, evaluations)
                    )
                    counts = task.scored / len(task.folds)
                    found.append((task.cost(mask), mask.sum(), counts, seconds))
            except Exception as error:
                notes.append(f"{name}, {peer.__name__}: {failed(error)}")
            else:
                rows.append(row(name, peer.__name__, found))
    notes.append("mafese costs a subset by one hold-out of its own; the others by the five folds")
    save(
        "peers_quality",
        f"Cost found by about {evaluations} evaluations, 5-NN, 5 folds, {seeds} seeds",
        ["data", "search", "mean cost", "sd", "features", "evaluations", "seconds"],
        rows,
        notes,
    )


def row(data: str, name: str, found: list[tuple[float, ...]]) -> list[object]:
    costs, sizes, counts, seconds = np.array(found, dtype=float).T
    means = [float(value.mean()) for value in (sizes, counts, seconds)]
    return [data, name, f"{costs.mean():.4f}", f"{costs.std():.4f}", *means]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("sequential", "quality"))
    options = parser.parse_args()
    if not Path(DATA / "sonar.parquet").exists():
        sys.exit(f"{DATA} is not there; it has to hold sonar.parquet and wdbc.parquet")
    warnings.simplefilter("ignore")
    if options.only != "quality":
        sequential()
    if options.only != "sequential":
        quality(options.evaluations, options.seeds)


if __name__ == "__main__":
    main()
