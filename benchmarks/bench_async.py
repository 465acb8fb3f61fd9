"""Asynchronous epochs against epochs that wait for their slowest fit, on a virtual clock.

    python benchmarks/bench_async.py [--seeds 5] [--table]

Workers are simulated events: no time is spent on them. The time of a mask is log-normal around one
second (sigma 1.5, so that one in a hundred takes more than half a minute), the same in both
kinds of epochs. Two questions:

- utilisation: the default strategy with as many particles as workers on planted costs of 200 units;
- cost: naive Bayes on two data sets of scikit-learn, the same budget of distinct subsets, 16
  workers, one half of the rows to search on and the other to judge on.

Rows are appended to ``results/async.csv``; what is there is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from tables import RESULTS, show

from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluator
from swarm.problem.hints import prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.result import SearchResult
from swarm.search.steady import Steady
from swarm.storage.archive import AnswerOrder, Archive
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import make
from swarm.testing.planted import make_search, plain_space, planted
from swarm.testing.simulated import SimulatedBatches, SimulatedStream, heavy_tailed

SIGMA, N_UNITS, DISTINCT = 1.5, 200, 600
SETS = {"breast_cancer": load_breast_cancer, "digits": load_digits}
ROWS = RESULTS / "async.csv"
CASE = ("question", "data", "workers", "particles", "epochs", "distinct", "seed", "epochs_are")
FIGURES = ("until_last_begins", "whole", "seconds", "subsets", "ran_epochs", "cost", "unseen")
# Workers and epochs; with a thousand workers three seeds say enough.
SIZES = ((16, 30), (16, 100), (16, 300), (1000, 30), (1000, 100))


def swarm_of(n_particles: int) -> Strategy:
    """Return the default strategy with so many particles, four in a swarm."""
    return make("multiswarm", {"n_particles": n_particles, "n_swarms": n_particles // 4})


def searched(search: Search, n_workers: int, seed: int, is_asynchronous: bool) -> Any:
    """Run a search on simulated workers; return its result and the figures of the workers."""
    seconds = heavy_tailed(SIGMA, seed)
    if not is_asynchronous:
        batches = SimulatedBatches(search.evaluator, n_workers, seconds)
        result = run(replace(search, evaluator=batches))
        return result, {"whole": batches.utilisation(), "seconds": batches.clock}
    stream = SimulatedStream(n_workers, seconds)
    result = run(replace(search, steady=Steady(stream, AnswerOrder(Archive(), "benchmark"))))
    return result, {
        "until_last_begins": stream.utilisation(until_last_begins=True),
        "whole": stream.utilisation(),
        "seconds": stream.clock,
    }


def on_planted(n_workers: int, epochs: int, seed: int) -> Search:
    """Return the search whose workers are counted."""
    evaluator = planted(plain_space(N_UNITS), seed)
    return make_search(swarm_of(n_workers), evaluator, seed=seed, epochs=epochs)


def on_data(name: str, seed: int) -> tuple[Search, Any]:
    """Return a search on one half of the rows, and what judges its result on the other."""
    X, y = SETS[name](return_X_y=True, as_frame=True)
    X = X.loc[:, X.nunique() > 1]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    problem = Problem.build(X, y, GaussianNB(), folds=5, seed=seed, importance="none")
    strategy = swarm_of(16)
    hints = prepare_hints(X, problem.space, problem.target, problem.task, needs=strategy.needs)
    evaluator: Evaluator = CrossValidation(problem)
    search = Search(strategy, problem.space, evaluator, hints, seed, Budget(distinct=DISTINCT))

    def unseen(result: SearchResult) -> float:
        columns = list(result.features)
        model = GaussianNB().fit(X[columns], y)
        return 1.0 - accuracy_score(y_test, model.predict(X_test[columns]))

    return search, unseen


def cases(n_seeds: int) -> Iterator[dict[str, Any]]:
    for is_asynchronous in (False, True):
        word = "asynchronous" if is_asynchronous else "waiting"
        for workers, epochs in SIZES:
            for seed in range(n_seeds if workers < 100 else min(3, n_seeds)):
                yield dict(
                    zip(
                        CASE,
                        ("utilisation", "planted", workers, workers, epochs, "", seed, word),
                        strict=True,
                    )
                )
        for name in SETS:
            for seed in range(n_seeds):
                yield dict(zip(CASE, ("cost", name, 16, 16, "", DISTINCT, seed, word), strict=True))


def measured(case: dict[str, Any]) -> dict[str, Any]:
    seed, is_asynchronous = case["seed"], case["epochs_are"] == "asynchronous"
    unseen = None
    if case["question"] == "utilisation":
        search = on_planted(case["workers"], case["epochs"], seed)
    else:
        search, unseen = on_data(case["data"], seed)
    result, figures = searched(search, case["workers"], seed, is_asynchronous)
    figures = {name: round(float(value), 4) for name, value in figures.items()}
    figures |= {
        "subsets": result.state.counts.distinct,
        "ran_epochs": result.state.epoch,
        "cost": round(result.cost, 6),
    }
    if unseen is not None:
        figures["unseen"] = round(unseen(result), 6)
    return figures


def kept() -> list[dict[str, str]]:
    if not ROWS.exists():
        return []
    with ROWS.open(newline="") as file:
        return list(csv.DictReader(file))


def fill(n_seeds: int) -> None:
    done = {tuple(row[name] for name in CASE) for row in kept()}
    for case in cases(n_seeds):
        if tuple(str(case[name]) for name in CASE) in done:
            continue
        row = {**case, **measured(case)}
        is_new = not ROWS.exists()
        with ROWS.open("a", newline="") as file:
            writer = csv.DictWriter(file, [*CASE, *FIGURES])
            if is_new:
                writer.writeheader()
            writer.writerow(row)
        print(row, flush=True)


def spread(rows: list[dict[str, str]], name: str, digits: int) -> str:
    """Return the mean and the range of a figure over the seeds."""
    values = [float(row[name]) for row in rows if row[name]]
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{np.mean(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def tables() -> None:
    rows, groups = kept(), dict[tuple[str, ...], list[dict[str, str]]]()
    for row in rows:
        key = tuple(row[name] for name in CASE if name != "seed")
        groups.setdefault(key, []).append(row)
    digits = {"until_last_begins": 3, "whole": 3, "seconds": 0, "cost": 4, "unseen": 4}
    show(
        {
            "title": "Epochs that wait, and asynchronous ones: mean over the seeds (range)",
            "columns": [*(name for name in CASE if name != "seed"), "n", *digits],
            "rows": [
                [*key, str(len(some)), *(spread(some, name, d) for name, d in digits.items())]
                for key, some in sorted(groups.items())
            ],
            "notes": [],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if not options.table:
        fill(options.seeds)
    tables()


if __name__ == "__main__":
    sys.exit(main())
