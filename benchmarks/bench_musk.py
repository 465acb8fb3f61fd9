"""The evaluator against the naive one of the worked example, on Musk version 2.

Naive: ``cross_val_score`` plus one refit for the importances, in one process. Ours: the same
masks with the importances of the fold models (costs must be identical), then a whole search with
pruning, and after it LightGBM alone: ``train`` on a ready matrix and ``predict``, for the very
fits that the search made. All in one run, one after the other, so that the ratios hold on a noisy
machine.

    python benchmarks/bench_musk.py [--data musk_v2.parquet] [--masks 24] [--epochs 10]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.model_selection import cross_val_score, train_test_split
from tables import DATA as FOLDER
from tables import save

from swarm import Budget, CrossValidation, Problem, Search, SearchSpace, make, prepare_hints
from swarm.evaluation.fitting import Job, fit_mask
from swarm.rows import Rows, divide
from swarm.strategies.operators.initialise import bernoulli, one_per_cluster

DATA = FOLDER / "musk_v2.parquet"


def model() -> lightgbm.LGBMClassifier:
    """Build the model of the worked example."""
    return lightgbm.LGBMClassifier(
        objective="binary",
        num_leaves=16,
        n_estimators=100,
        learning_rate=0.1,
        random_state=42,
        n_jobs=1,
        verbosity=-1,
        importance_type="gain",
    )


def naive(
    features: pd.DataFrame, target: np.ndarray, subsets: list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Evaluate subsets as in the worked example: five fits for the cost, a sixth for importances.

    Returns the fold costs (n_subsets, n_folds) and the seconds.
    """
    started = time.perf_counter()
    costs = []
    for positions in subsets:
        columns = features.iloc[:, positions]
        scores = cross_val_score(model(), columns, target, scoring="recall", cv=5)
        costs.append(1 - scores)
        model().fit(columns, target)
    return np.array(costs), time.perf_counter() - started


def native(
    matrix: np.ndarray, target: np.ndarray, fits: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Seconds of binning, boosting and prediction by LightGBM alone, summed over `fits`.

    A fit is positions of columns, training rows and test rows. Slicing the matrix is not counted.
    """
    params = {
        "objective": "binary",
        "num_leaves": 16,
        "learning_rate": 0.1,
        "seed": 42,
        "num_threads": 1,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,
    }
    spent = np.zeros(3)
    for columns, train, test in fits:
        rows, tested = matrix[np.ix_(train, columns)], matrix[np.ix_(test, columns)]
        times = [time.perf_counter()]
        data = lightgbm.Dataset(rows, target[train], params=params).construct()
        times.append(time.perf_counter())
        booster = lightgbm.train(params, data, 100)
        times.append(time.perf_counter())
        booster.predict(tested)
        times.append(time.perf_counter())
        spent += np.diff(times)
    return spent


def one_fit(
    problem: Problem, masks: np.ndarray, matrix: np.ndarray, repeats: int = 2
) -> list[list[object]]:
    """Compare processor seconds of a fit in a worker and of LightGBM alone, taking turns.

    The least of `repeats` for each mask; our columns are binned beforehand, as in all but the
    first epoch of a search.
    """
    unknown, order = np.full(problem.n_folds, np.nan), np.arange(problem.n_folds)
    fit_mask(problem, Job(0, np.ones_like(masks[0]), unknown, order, np.inf))
    spent = np.zeros(2)
    for mask in masks:
        fits = [(problem.space.positions(mask), *fold) for fold in problem.folds]
        turns = np.zeros((repeats, 2))
        for turn in turns:
            started = time.process_time()
            fit_mask(problem, Job(0, mask, unknown, order, np.inf))
            middle = time.process_time()
            native(matrix, problem.target, fits)
            turn[:] = middle - started, time.process_time() - middle
        spent += turns.min(axis=0)
    ours, alone = (float(value) for value in spent / len(masks) / problem.n_folds)
    return [
        ["one fit, scoring and importances included", ours, alone, ours / alone, "at most 1.10"]
    ]


def noting(evaluator: CrossValidation) -> list[tuple[np.ndarray, int]]:
    """Return a list that fills with the mask and the fold of every fit the workers make."""
    made: list[tuple[np.ndarray, int]] = []
    run_jobs = evaluator.workers.run

    def noted(jobs):
        for job, trained in run_jobs(jobs):
            made.extend((job.mask, fold) for fold in np.flatnonzero(trained.has_cost))
            yield job, trained

    evaluator.workers.run = noted
    return made


def main() -> None:
    """Run the comparison and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--masks", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if not arguments.data.exists():
        sys.exit(f"{arguments.data} is not there; give the Musk table by --data")
    table = pd.read_parquet(arguments.data)
    everything = table.drop(columns=["group", "target"])
    features, _, target, _ = train_test_split(
        everything, table["target"].to_numpy(), train_size=0.7, shuffle=True, random_state=0
    )
    features = features.reset_index(drop=True)
    folds = divide(Rows(target, "binary"), "stratified", 5, shuffle=False)
    space = SearchSpace.build(list(features.columns))
    hints = prepare_hints(features, space, n_clusters=50)
    rng = np.random.default_rng(0)
    half = arguments.masks // 2
    masks = np.vstack(
        [
            one_per_cluster(half, space, hints.clusters, rng),
            bernoulli(arguments.masks - half, space, rng),
        ]
    )
    unlimited, order = np.full(len(masks), np.inf), np.arange(5)

    def ours() -> tuple[np.ndarray, float]:
        problem = Problem.build(
            features,
            target,
            model(),
            space=space,
            scoring="recall",
            folds=folds,
        )
        with CrossValidation(problem, n_jobs=arguments.jobs) as evaluator:
            # The workers start and get the data once; a search does that once for all epochs.
            evaluator.evaluate(masks[:2] & ~masks[2:4] | masks[4:6], unlimited[:2], order)
            started = time.perf_counter()
            answers = evaluator.evaluate(masks, unlimited, order)
            return answers.fold_costs, time.perf_counter() - started

    expected, naive_seconds = naive(features, target, [space.positions(each) for each in masks])
    fold_costs, fold_seconds = ours()
    rows = [
        ("naive, one process", naive_seconds, expected),
        ("ours, importances of the folds", fold_seconds, fold_costs),
    ]
    save(
        "musk_naive",
        f"Musk: {arguments.masks} subsets, {arguments.jobs} workers, {len(target)} training rows",
        ["evaluator", "seconds", "ratio", "fold costs identical"],
        [
            [name, seconds, naive_seconds / seconds, bool(np.array_equal(costs, expected))]
            for name, seconds, costs in rows
        ],
    )

    problem = Problem.build(features, target, model(), space=space, scoring="recall", folds=folds)
    with CrossValidation(problem, n_jobs=arguments.jobs) as evaluator:
        made = noting(evaluator)
        strategy = make("multiswarm", {"step": "bpso", "init": "clusters"})
        search = Search(problem, strategy, hints=hints, budget=Budget(epochs=arguments.epochs))
        started = time.perf_counter()
        result = search.driver(evaluator).run()
        wall = time.perf_counter() - started
    matrix = features.to_numpy(dtype=np.float64)
    save(
        "musk_fit",
        "Musk: one fit in a worker against LightGBM alone, processor seconds",
        ["subject", "ours s", "peer s", "ours / peer", "asked"],
        one_fit(problem, masks[:10], matrix),
    )
    fits = [(space.positions(mask), *folds[fold]) for mask, fold in made]
    pool = Parallel(n_jobs=arguments.jobs)
    parts = pool(
        delayed(native)(matrix, target, fits[i :: arguments.jobs]) for i in range(arguments.jobs)
    )
    binning, boosting, predicting = np.sum(parts, axis=0) / arguments.jobs
    limit = binning + boosting + predicting
    work = result.work
    busy = work["training_seconds"].sum() / arguments.jobs
    evaluations = result.state.counts.evaluations
    naive_all = naive_seconds / arguments.masks * evaluations
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    first = "wall time against LightGBM's for the same fits / workers"
    second = "wall time against naive evaluation in one process"
    save(
        "musk_limit",
        f"Musk: a search of {arguments.epochs} epochs against LightGBM alone, "
        f"{arguments.jobs} workers",
        ["subject", "ours s", "peer s", "ours / peer", "asked"],
        [
            [first, wall, limit, wall / limit, "at most 1.10"],
            [second, wall, naive_all, wall / naive_all, "-"],
        ],
        [
            f"{evaluations} evaluations, {len(fits)} fits, "
            f"{int(result.history['folds_pruned'].sum())} folds pruned; "
            f"peak memory of the parent {peak:.2f} GiB",
            "the wall time holds the start of the workers, which bin each column once",
        ],
    )
    outside = wall - work["seconds"].sum()
    seconds = [
        ("training in the workers, mean of them", busy),
        ("workers idle or answers on their way", wall - busy - outside),
        ("strategy, history and archive of the search", outside),
        ("for comparison, LightGBM alone: binning", binning),
        ("for comparison, LightGBM alone: boosting", boosting),
        ("for comparison, LightGBM alone: prediction", predicting),
    ]
    save(
        "musk_profile",
        "Musk: where the seconds of that search go",
        ["part", "seconds", "share of wall time"],
        [[name, value, f"{value / wall:.1%}"] for name, value in seconds],
    )


if __name__ == "__main__":
    main()
