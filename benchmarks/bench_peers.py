"""Comparison with other libraries: the same estimator, folds and number of evaluations.

Every selection is in a process of its own, with two jobs where a library has them. The extra
``bench`` installs the libraries; one that is missing or fails is listed with the reason.

    python benchmarks/bench_peers.py [--evaluations 600] [--seeds 3]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from joblib.externals.loky import get_reusable_executor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from tables import DATA, save

from swarm import Budget, CrossValidation, Problem, Search, make, prepare_hints

OURS = ("bpso", "multiswarm", "genetic", "two_d")
POPULATION = 30
JOBS = 2
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
        options = {"n_jobs": JOBS, "importances": made.uses_importances}
        with CrossValidation(problem, **options) as evaluator:
            search = Search(problem, made, hints=hints, seed=seed, budget=budget)
            return search.driver(evaluator).run()


@dataclass(frozen=True)
class Selected:
    """A selection, and what it took with all processes that it started."""

    mask: Mask
    evaluations: float  # subsets costed by cross-validation
    seconds: float
    processor: float
    peak: float  # MB


def measured(select: Callable[..., tuple[Mask, float]], *arguments: Any) -> Selected:
    """Select in a new process, with compiled code loaded and libraries imported before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measured, select, arguments).result()


def _measured(select: Callable[..., tuple[Mask, float]], arguments: tuple[Any, ...]) -> Selected:
    warnings.simplefilter("ignore")
    select(*arguments, short=True)
    before, began = sum(_processor()), time.perf_counter()
    mask, evaluations = select(*arguments)
    seconds = time.perf_counter() - began
    peak = sum(_peak_of(process) for process in _family())
    spent = sum(_processor()) - before
    # Else its workers keep this process alive for five minutes.
    get_reusable_executor().shutdown()
    return Selected(mask, evaluations, seconds, spent, peak)


def _family() -> list[psutil.Process]:
    """Return this process and those that it started and that have not ended."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def _processor() -> Iterator[float]:
    for process in _family():
        times = process.cpu_times()
        yield times.user + times.system + times.children_user + times.children_system


def _peak_of(process: psutil.Process) -> float:
    """Return the most memory that a process has used, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def failed(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def sequential() -> None:
    """Compare seconds and subsets of sequential selection, 10 of the 60 features of sonar."""
    task = Task("sonar", 10)
    rows, notes = [], []
    contests = [
        ("sffs", {"size": 10}, mlxtend_sffs, neighbours, "50"),
        ("sfs", {"size": 10}, sklearn_sfs, neighbours, "-"),
        ("rfe", {}, sklearn_rfecv, discriminant, "-"),
    ]
    for strategy, params, peer, model, asked in contests:
        ours = measured(stepwise, strategy, params, model)
        try:
            theirs = measured(peer)
        except Exception as error:
            notes.append(f"{peer.__name__}: {failed(error)}")
            continue
        same = "yes" if np.array_equal(ours.mask, theirs.mask) else "no"
        costs = [f"{task.cost(found.mask, model):.4f}" for found in (ours, theirs)]
        ratio = theirs.seconds / ours.seconds
        spent = [ours.processor, theirs.processor, ours.peak, theirs.peak]
        seconds = [ours.seconds, theirs.seconds, ratio, asked]
        rows.append([strategy, peer.__name__, *seconds, same, *costs, *spent])
    notes.append(
        "rfe and RFECV: a linear discriminant, of all sizes; RFECV eliminates in each fold on its "
        "own, rfe by the mean importance over the folds"
    )
    names = ["ours", "peer", "ours s", "peer s", "ratio", "asked"]
    names += ["same subset", "our cost", "peer cost"]
    names += ["our processor s", "peer processor s", "our MB", "peer MB"]
    save(
        "peers_sequential",
        "Sequential selection: 10 of 60 features of sonar, 5-NN, 10 folds, two jobs",
        names,
        rows,
        notes,
    )


def stepwise(
    strategy: str, params: dict[str, Any], model: Model, short: bool = False
) -> tuple[Mask, float]:
    budget = Budget(evaluations=60) if short else Budget(epochs=10**6)
    task = Task("sonar", 10)
    result = task.search(strategy, params, budget, model=model)
    return task.X.columns.isin(result.features), result.state.counts.evaluations


def mlxtend_sffs(short: bool = False) -> tuple[Mask, float]:
    from mlxtend.feature_selection import SequentialFeatureSelector

    task = Task("sonar", 10)
    selector = SequentialFeatureSelector(
        neighbours(),
        k_features=1 if short else 10,
        forward=True,
        floating=True,
        scoring="accuracy",
        cv=task.folds,
        n_jobs=JOBS,
    )
    return as_mask(task, list(selector.fit(task.X.to_numpy(), task.y).k_feature_idx_)), 0.0


def sklearn_sfs(short: bool = False) -> tuple[Mask, float]:
    from sklearn.feature_selection import SequentialFeatureSelector

    task = Task("sonar", 10)
    size = 1 if short else 10
    selector = SequentialFeatureSelector(
        neighbours(), n_features_to_select=size, scoring="accuracy", cv=task.folds, n_jobs=JOBS
    )
    return selector.fit(task.X, task.y).get_support(), 0.0


def sklearn_rfecv(short: bool = False) -> tuple[Mask, float]:
    from sklearn.feature_selection import RFECV

    task = Task("sonar", 10)
    least = task.X.shape[1] - 1 if short else 1
    selector = RFECV(
        discriminant(), cv=task.folds, scoring="accuracy", min_features_to_select=least, n_jobs=JOBS
    )
    return selector.fit(task.X, task.y).get_support(), 0.0


def as_mask(task: Task, positions: list[int]) -> Mask:
    mask = np.zeros(task.X.shape[1], dtype=bool)
    mask[positions] = True
    return mask


def searched(
    strategy: str, name: str, seed: int, evaluations: int, short: bool = False
) -> tuple[Mask, float]:
    budget = Budget(evaluations=POPULATION if short else evaluations)
    task = Task(name, 5)
    result = task.search(strategy, {}, budget, seed)
    return task.X.columns.isin(result.features), result.state.counts.evaluations


def zoofs(name: str, seed: int, evaluations: int, short: bool = False) -> tuple[Mask, float]:
    from zoofs import ParticleSwarmOptimization

    task = Task(name, 5)

    def objective(model, X, y, X_test, y_test) -> float:
        return 1 - cross_val_score(model, X, y, cv=task.folds, scoring=task.score).mean()

    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generator)
    epochs = 1 if short else evaluations // POPULATION
    swarm = ParticleSwarmOptimization(
        objective, n_iteration=epochs, population_size=POPULATION, minimize=True
    )
    chosen = swarm.fit(neighbours(), task.X, task.y, task.X, task.y, verbose=False)
    return task.X.columns.isin(list(chosen)), task.scored / 5


def mafese(name: str, seed: int, evaluations: int, short: bool = False) -> tuple[Mask, float]:
    """Genetic search of mafese, which costs a subset by a hold-out of its own."""
    from mafese import Data, MhaSelector

    task = Task(name, 5)
    data = Data(task.X.to_numpy(), task.y)
    data.split_train_test(test_size=0.2, random_state=seed)
    epochs = 1 if short else evaluations // POPULATION
    selector = MhaSelector(
        problem="classification",
        obj_name="AS",
        estimator="knn",
        estimator_paras={"n_neighbors": 5},
        optimizer="BaseGA",
        optimizer_paras={"epoch": epochs, "pop_size": POPULATION},
        seed=seed,
    )
    selector.fit(data.X_train, data.y_train)
    return as_mask(task, list(selector.selected_feature_indexes)), evaluations


def sklearn_genetic(
    name: str, seed: int, evaluations: int, short: bool = False
) -> tuple[Mask, float]:
    import random

    from sklearn_genetic import GAFeatureSelectionCV

    task = Task(name, 5)
    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generators)
    random.seed(seed)
    # Each generation costs two populations.
    generations = 1 if short else (evaluations // POPULATION - 1) // 2
    selector = GAFeatureSelectionCV(
        neighbours(),
        cv=task.folds,
        scoring="accuracy",
        population_size=POPULATION,
        generations=generations,
        n_jobs=JOBS,
        verbose=False,
    )
    mask = np.asarray(selector.fit(task.X, task.y).support_, dtype=bool)
    return mask, (2 * generations + 1) * POPULATION


def quality(evaluations: int, seeds: int) -> None:
    """Compare the cost of the subset found, measured by us on the same folds for all."""
    rows, notes, spent = [], [], ["seconds", "processor s", "MB"]
    contests = [(f"ours: {strategy}", searched, (strategy,)) for strategy in OURS]
    contests += [(peer.__name__, peer, ()) for peer in (zoofs, mafese, sklearn_genetic)]
    for name in ("sonar", "wdbc"):
        task = Task(name, 5)
        everything = np.ones(task.X.shape[1], dtype=bool)
        rows.append([name, "all features", task.cost(everything), 0, everything.sum(), 1, 0, 0, 0])
        for label, select, given in contests:
            try:
                found = [measured(select, *given, name, seed, evaluations) for seed in range(seeds)]
            except Exception as error:
                notes.append(f"{name}, {label}: {failed(error)}")
            else:
                rows.append(row(task, label, found))
    notes.append("mafese costs a subset by one hold-out of its own; the others by the five folds")
    notes.append("zoofs and mafese have no jobs; ours needs none here, nor starts any")
    save(
        "peers_quality",
        f"Cost found by about {evaluations} evaluations, 5-NN, 5 folds, {seeds} seeds",
        ["data", "search", "mean cost", "sd", "features", "evaluations", *spent],
        rows,
        notes,
    )


def row(task: Task, label: str, found: list[Selected]) -> list[object]:
    costs = np.array([task.cost(each.mask) for each in found])
    columns = [
        (each.mask.sum(), each.evaluations, each.seconds, each.processor, each.peak)
        for each in found
    ]
    means = [float(value) for value in np.mean(columns, axis=0)]
    return [task.name, label, f"{costs.mean():.4f}", f"{costs.std():.4f}", *means]


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
