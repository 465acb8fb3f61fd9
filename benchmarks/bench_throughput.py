"""Cells of a comparison on two workers against one, and against two independent processes.

A cell takes some seconds, as short ones of real comparisons do; the Prefect task around it takes a
tenth to a quarter of one, whatever its size.

Usage: ``python benchmarks/bench_throughput.py [--kinds processes dask]``. Rounds alternate between
the ways, so that a busy machine slows all of them; ratios are the medians over the rounds. Workers
are started and warmed before the clock, as a comparison starts them once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from bench_scale import head, line, table
from lightgbm import LGBMClassifier
from prefect import flow
from prefect.testing.utilities import prefect_test_harness
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from swarm import Problem, prepare_hints
from swarm.search.budget import Budget
from swarm.search.search import Search
from swarm.strategies.catalogue import make
from tasks.study import Cell, run_cell, search_cell
from tasks.task_runner import as_they_finish, one_server, reachable_cluster, task_runner

MODELS = {
    "naive Bayes": (GaussianNB(), 20_000, 60, 1200),
    "LightGBM": (LGBMClassifier(n_estimators=20, verbosity=-1, n_jobs=1), 2000, 50, 96),
}
CELLS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["threads", "processes", "dask"])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("Throughput of two workers, times that of one")
    print("seconds of the cells on one worker, on two, and apart; then the ratios of these")
    print(f"{'model':>12}{'kind':>10}", end="")
    head("one", "two", "apart", "two x", "apart x", "share")
    with prefect_test_harness(server_startup_timeout=120):
        for name, kind in product(options.models, options.kinds):
            if kind == "dask" and find_spec("prefect_dask") is None:
                print(f"{name:>12}{kind:>10}  not installed")
                continue
            with threadpool_limits(1), reachable_cluster(kind, None):
                rounds = compared.with_options(task_runner=task_runner(kind, 2))(
                    name, options.rounds
                )
            one, two, alone = np.array(rounds).T
            ratios = [one / two, one / alone, alone / two]
            print(f"{name:>12}{kind:>10}", end="")
            line(*(float(np.median(each)) for each in (one, two, alone, *ratios)))


@flow(validate_parameters=False, persist_result=False)
def compared(name: str, rounds: int) -> list[tuple[float, float, float]]:
    """Seconds of the cells on one worker, on two, and in two independent processes."""
    plan = planned(name)
    with (
        one_server(),
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        through_runner(plan, Path(folder) / "warm", 2)
        apart(pool, plan, Path(folder) / "warm-apart")
        return [
            (
                through_runner(plan, Path(folder) / f"{each}-one", 1),
                through_runner(plan, Path(folder) / f"{each}-two", 2),
                apart(pool, plan, Path(folder) / f"{each}-apart"),
            )
            for each in range(rounds)
        ]


def planned(name: str) -> Search:
    model, n_rows, n_columns, distinct = MODELS[name]
    features = table(n_rows, n_columns)
    noise = np.random.default_rng(1).normal(size=n_rows)
    target = (features.iloc[:, :10].sum(axis=1) + noise > 0).astype(int)
    problem = Problem.build(features, target, model, folds=5)
    hints = prepare_hints(features, problem.space)
    strategy = make("random", {"batch_size": 8})
    return Search(problem, strategy, hints=hints, budget=Budget(distinct=distinct))


def through_runner(plan: Search, folder: Path, at_once: int) -> float:
    def submit(number: int):
        return run_cell.submit(*cell(plan, folder, number, "shared"))

    folder.mkdir()
    started = time.perf_counter()
    for _, future in as_they_finish(range(CELLS), submit, at_once, lambda: None):
        future.result()
    return time.perf_counter() - started


def apart(pool: ProcessPoolExecutor, plan: Search, folder: Path) -> float:
    """Seconds of two processes that know nothing of each other, each with half of the cells."""
    folder.mkdir()
    halves = [range(first, CELLS, 2) for first in range(2)]
    started = time.perf_counter()
    list(pool.map(alone, [plan] * 2, [folder] * 2, halves))
    return time.perf_counter() - started


def alone(plan: Search, folder: Path, numbers: range) -> None:
    with threadpool_limits(1):
        for number in numbers:
            search_cell(*cell(plan, folder, number, f"of-{numbers[0]}"))


def cell(plan: Search, folder: Path, number: int, archive: str) -> tuple[Cell, Search, str, Path]:
    """Arguments of a search with a seed of its own."""
    own = replace(plan, seed=number)
    return Cell("made", "random", number), own, f"sqlite:///{folder}/{archive}.db", folder / "stop"


if __name__ == "__main__":
    main()
