"""The evaluator against the naive one of document 000, on Musk version 2.

Naive: ``cross_val_score`` plus one refit for the importances, in one process. Ours: the same
masks with the same refit (costs must be identical), then with the importances of the fold
models, then a whole search with pruning. All in one run, one after the other, so that the
ratios hold on a noisy machine.

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
from sklearn.model_selection import cross_val_score, train_test_split

from swarm import Budget, CrossValidation, Problem, Search, SearchSpace, make, prepare_hints, run
from swarm.evaluation.folds import make_folds
from swarm.operators.initialise import bernoulli, one_per_cluster

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "musk_v2.parquet"


def model() -> lightgbm.LGBMClassifier:
    """Build the model of document 000."""
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
    features: pd.DataFrame, target: np.ndarray, masks: np.ndarray
) -> tuple[np.ndarray, float]:
    """Evaluate masks as document 000 does: five fits for the cost, a sixth for importances.

    Returns the fold costs (n_masks, n_folds) and the seconds.
    """
    started = time.perf_counter()
    costs = []
    for mask in masks:
        columns = features.iloc[:, np.flatnonzero(mask)]
        scores = cross_val_score(model(), columns, target, scoring="recall", cv=5)
        costs.append(1 - scores)
        model().fit(columns, target)
    return np.array(costs), time.perf_counter() - started


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
    folds = make_folds("stratified", target, "binary", n_folds=5, shuffle=False)
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

    def ours(importance: str) -> tuple[np.ndarray, float]:
        problem = Problem.build(
            features,
            target,
            model(),
            space=space,
            scoring="recall",
            folds=folds,
            importance=importance,
        )
        with CrossValidation(problem, n_jobs=arguments.jobs) as evaluator:
            # The workers start and get the data once; a search does that once for all epochs.
            evaluator.evaluate(masks[:2] & ~masks[2:4] | masks[4:6], unlimited[:2], order)
            started = time.perf_counter()
            answers = evaluator.evaluate(masks, unlimited, order)
            return answers.fold_costs, time.perf_counter() - started

    expected, naive_seconds = naive(features, target, masks)
    refit_costs, refit_seconds = ours("refit")
    fold_costs, fold_seconds = ours("fold")
    print(f"{arguments.masks} masks, {arguments.jobs} workers, {len(target)} training rows")
    print(f"{'':34}{'seconds':>9}{'ratio':>8}  fold costs identical")
    rows = [
        ("naive, one process", naive_seconds, expected),
        ("ours, refit for importances", refit_seconds, refit_costs),
        ("ours, importances of the folds", fold_seconds, fold_costs),
    ]
    for name, seconds, costs in rows:
        equal = bool(np.array_equal(costs, expected))
        print(f"{name:34}{seconds:9.1f}{naive_seconds / seconds:8.2f}  {equal}")

    problem = Problem.build(features, target, model(), space=space, scoring="recall", folds=folds)
    with CrossValidation(problem, n_jobs=arguments.jobs) as evaluator:
        search = Search(
            make("multiswarm"), space, evaluator, hints, 0, Budget(epochs=arguments.epochs)
        )
        started = time.perf_counter()
        result = run(search)
        wall = time.perf_counter() - started
    work = result.work
    busy = work["training_seconds"].sum() / arguments.jobs
    per_mask = naive_seconds / arguments.masks
    evaluations = result.state.counts.evaluations
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nsearch of {arguments.epochs} epochs, {evaluations} evaluations, pruning on")
    print(f"  fits                       {work['fits'].sum()}")
    print(f"  folds pruned               {int(result.history['folds_pruned'].sum())}")
    print(f"  wall time                  {wall:.1f} s")
    print(f"  training, per worker       {busy:.1f} s")
    print(f"  outside training           {wall - busy:.1f} s = {(wall - busy) / wall:.1%}")
    print(f"  of it outside evaluation   {wall - work['seconds'].sum():.2f} s")
    print(
        f"  naive would take           {per_mask * evaluations:.0f} s, "
        f"{per_mask * evaluations / wall:.2f} x"
    )
    print(f"  peak memory of the parent  {peak:.2f} GiB")


if __name__ == "__main__":
    main()
