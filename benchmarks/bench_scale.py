"""Scaling with rows, columns, particles, workers, archived evaluations and epochs.

Prints the figures on scaling of docs/performance.md, with the exponent of the growth where it has
several sizes, and the limit that is hard to beat beside it. All but the table of workers runs on
one thread. `--long` adds the largest sizes: a million evaluations, 2,000 epochs.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from filled_archive import fill
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from swarm import CrossValidation, Problem, SearchSpace, prepare_hints
from swarm.evaluation.types import Evaluations, Work
from swarm.problem.hints import Hints
from swarm.search.budget import Budget
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.strategies.base import Proposal
from swarm.strategies.multiswarm import MultiSwarm

ROWS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--only", default=None, help="the name of one table, e.g. archive")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    sections = {
        "archive": lambda: archived([10_000, 100_000] + [1_000_000] * options.long),
        "epochs": lambda: epochs(2000 if options.long else 500),
        "rows": lambda: rows([10_000, 40_000] + [160_000] * options.long),
        "columns": lambda: columns(options.columns),
        "particles": particles,
        "fits": fits,
        "workers": workers,
    }
    for name, section in sections.items():
        if options.only in (None, name):
            section()


def archived(counts: list[int]) -> None:
    """Measure one problem of 60 units: what a search does with an archive that holds much."""
    print("\narchive (60 units, 5 folds; seconds, the last column bytes)")
    head("rows", "add 500", "open", "look up", "a row")
    posed = Problem.build(*labelled(400, 60), GaussianNB(), folds=5)
    masks = np.random.default_rng(9).random((500, 60)) < 0.5
    figures = []
    with TemporaryDirectory() as folder:
        path, held = Path(folder) / "archive.db", 0
        archive = Archive(f"sqlite:///{path}")
        # The first call compiles statements.
        fill(archive, posed, 500)
        for count in counts:
            fill(archive, posed, count - held - 500, seed=count)
            added = seconds_of(lambda: fill(archive, posed, 500, seed=count + 1))  # noqa: B023
            held = count
            archive.close()
            opened = seconds_of(lambda: Archive(f"sqlite:///{path}").open_problem(posed))
            archive = Archive(f"sqlite:///{path}")
            known = archive.open_problem(posed)
            found = seconds_of(lambda: known.lookup(masks))  # noqa: B023
            figures.append((count, added, opened, found))
            line(*figures[-1], path.stat().st_size / count)
    growth(figures)


def epochs(count: int) -> None:
    """Measure a tenth of the epochs at a time: the time of an epoch should stay the same."""
    print(f"\nepochs (naive Bayes, 60 units, 16 particles; ms of an epoch, {count} epochs)")
    head("epoch", "ms")
    posed = Problem.build(*labelled(400, 60), GaussianNB(), folds=5)
    needs = MultiSwarm().needs
    hints = prepare_hints(posed.features, posed.space, posed.target, posed.task, needs=needs)
    with CrossValidation(posed) as evaluator:
        budget = Budget(epochs=count)
        search = Search(posed, MultiSwarm(), hints=hints, budget=budget).driver(evaluator)
        state, figures, part = search.start(), [], count // 10
        for end in range(part, count + 1, part):
            started = time.perf_counter()
            while state.epoch < end:
                state, _ = search.step(state)
            figures.append((end, 1000 * (time.perf_counter() - started) / part))
            line(*figures[-1])
    growth(figures[1:])


def rows(counts: list[int]) -> None:
    """Measure preparing and one subset, beside reading the file and LightGBM on the same folds."""
    print("\nrows (100 columns, 2 folds, LightGBM of 20 trees; seconds)")
    head("rows", "read", "build", "identify", "subset", "LightGBM")
    figures = []
    with TemporaryDirectory() as folder, threadpool_limits(1):
        for count in counts:
            features, target = labelled(count, 100)
            path = Path(folder) / "table.parquet"
            features.to_parquet(path)
            read = seconds_of(lambda: pd.read_parquet(path))  # noqa: B023
            model = LGBMClassifier(n_estimators=20, num_leaves=16, verbosity=-1, n_jobs=1)
            started = time.perf_counter()
            posed = Problem.build(features, target, model, folds=2)
            built = time.perf_counter() - started
            named = seconds_of(posed.fingerprint)
            everything = np.ones((1, 100), dtype=bool)
            with CrossValidation(posed, exact=False, backend="sequential") as evaluator:
                spent = seconds_of(
                    lambda: evaluator.evaluate(everything, np.full(1, np.inf), np.arange(2))  # noqa: B023
                )
            started = time.perf_counter()
            for train, test in posed.folds:
                fitted = clone(model).fit(features.iloc[train], target.iloc[train])
                fitted.predict(features.iloc[test])
            alone = time.perf_counter() - started
            figures.append((count, read, built, named, spent, alone))
            line(*figures[-1])
    growth(figures)


def growth(figures: Sequence[tuple[float, ...]]) -> None:
    """Print the exponent b of a fit of a * size ** b for each column of seconds."""
    sizes, *columns = np.array(figures, dtype=float).T
    slopes = [float(np.polyfit(np.log(sizes), np.log(column), 1)[0]) for column in columns]
    line("exponent", *slopes)


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def labelled(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, pd.Series]:
    features = table(n_rows, n_columns)
    noise = np.random.default_rng(1).normal(size=n_rows)
    return features, (features.iloc[:, :10].sum(axis=1) + noise > 0).astype(int)


def columns(counts: Iterable[int]) -> None:
    print(f"\ncolumns ({ROWS} rows, 16 particles; seconds, MiB above the start)")
    head("columns", "data", "hints", "epoch", "first", "peak")
    for count in counts:
        # The most memory a process ever had is only told of a new one.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            line(*fresh.submit(wide, count).result())


def wide(count: int) -> tuple[float, ...]:
    before = peak()
    features = table(ROWS, count)
    space = SearchSpace.build(list(features.columns))
    with threadpool_limits(1):
        started = time.perf_counter()
        hints = prepare_hints(features, space)
        spent = time.perf_counter() - started
        epochs = own_work(space, hints, 16)
    size = features.memory_usage().sum() / 2**20
    return count, size, spent, float(np.median(epochs[3:])), epochs.max(), peak() - before


def particles() -> None:
    print("\nparticles (5000 columns; seconds of an epoch)")
    head("particles", "epoch")
    features = table(500, 5000)
    space = SearchSpace.build(list(features.columns))
    hints = prepare_hints(features, space)
    for count in (16, 32, 64):
        line(count, float(np.median(own_work(space, hints, count)[3:])))


def fits() -> None:
    print("\nfits (seconds of one evaluation: LightGBM, 20 trees of 16 leaves, one thread)")
    head("rows", "columns", "folds", "seconds")
    cases = [(2000, 100, 5), (20_000, 100, 5), (2000, 1000, 5), (2000, 100, 10)]
    for rows, width, folds in cases:
        with CrossValidation(problem(rows, width, folds), exact=False) as evaluator:
            started = time.perf_counter()
            evaluator.evaluate(
                np.ones((1, width), dtype=bool), np.array([np.inf]), np.arange(folds)
            )
            line(rows, width, folds, time.perf_counter() - started)


def workers() -> None:
    print("\nworkers (12 evaluations, 2000 rows; seconds to start, seconds to train, times faster)")
    head("backend", "workers", "start", "train", "faster")
    posed = problem(ROWS, 200, 5)
    masks = np.random.default_rng(0).random((13, 200)) < 0.5
    alone = 0.0
    for backend in ("loky", "dask"):
        if backend == "dask" and find_spec("distributed") is None:
            print(f"{backend:>10}  not installed")
            continue
        for count in (1, 2) if backend == "loky" else (2,):
            with CrossValidation(posed, n_jobs=count, backend=backend, exact=False) as evaluator:
                started = time.perf_counter()
                # One mask for each worker starts them all.
                evaluator.evaluate(masks[:1], np.full(1, np.inf), np.arange(5))
                ready = time.perf_counter()
                evaluator.evaluate(masks[1:], np.full(12, np.inf), np.arange(5))
                spent = time.perf_counter() - ready
            alone = alone or spent
            line(backend, count, ready - started, spent, alone / spent)
    # What the machine has to give: two processes that know nothing of each other.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        apart = sum(pool.map(unaided, [masks[1:7], masks[7:]])) / 2
    line("apart", 2, 0.0, apart, alone / apart)


def unaided(masks: np.ndarray) -> float:
    """Seconds of evaluating masks in this process alone."""
    with CrossValidation(problem(ROWS, 200, 5), exact=False, backend="sequential") as evaluator:
        evaluator.evaluate(~masks[:1], np.full(1, np.inf), np.arange(5))
        started = time.perf_counter()
        evaluator.evaluate(masks, np.full(len(masks), np.inf), np.arange(5))
        return time.perf_counter() - started


def table(n_rows: int, n_columns: int) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(n_columns)], copy=False)


def problem(n_rows: int, n_columns: int, folds: int) -> Problem:
    features, target = labelled(n_rows, n_columns)
    model = LGBMClassifier(n_estimators=20, num_leaves=16, verbosity=-1)
    return Problem.build(features, target, model, folds=folds)


def own_work(space: SearchSpace, hints: Hints, n_particles: int, epochs: int = 10) -> np.ndarray:
    """Seconds of propose plus observe: float64 (epochs,). Models use a tenth of a wide subset."""
    strategy = MultiSwarm(n_particles=n_particles, init="clusters")
    state = strategy.start(space, hints, np.random.default_rng(0))
    spent = np.zeros(epochs)
    for epoch in range(epochs):
        started = time.perf_counter()
        state, proposal = strategy.propose(state, np.random.default_rng([0, epoch]))
        middle = time.perf_counter()
        answers = answered(proposal, epoch)
        spent[epoch] = middle - started
        middle = time.perf_counter()
        state = strategy.observe(state, proposal, answers)
        spent[epoch] += time.perf_counter() - middle
    return spent


def answered(proposal: Proposal, epoch: int) -> Evaluations:
    """Costs by chance, a fifth of which are better than before; as few units used as by trees."""
    rng = np.random.default_rng([1, epoch])
    n, n_units = proposal.masks.shape
    costs = np.where(rng.random(n) < 0.2, 0.5 - 0.01 * epoch, 0.9) if epoch else np.full(n, 0.5)
    used = proposal.masks & (rng.random((n, n_units)) < min(1.0, 500 / n_units))
    blank = Evaluations(
        costs=costs,
        fold_costs=np.tile(costs[:, None], 5),
        importances=rng.random((n, n_units)) * used,
        used=used,
        censored=np.zeros(n, dtype=bool),
        failed=np.zeros(n, dtype=bool),
        needed=np.ones((n, 5), dtype=bool),
        exact_shrink=True,
        work=Work(),
        first_error=None,
    )
    return replace(blank, used=np.where(used.any(axis=1, keepdims=True), used, proposal.masks))


def peak() -> float:
    """Most memory this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def head(*names: str) -> None:
    print("".join(f"{name:>10}" for name in names))


def line(*values: object) -> None:
    shown = [f"{v:.2f}" if isinstance(v, float) and v < 100 else v for v in values]
    print("".join(f"{round(v) if isinstance(v, float) else v:>10}" for v in shown), flush=True)


if __name__ == "__main__":
    main()
