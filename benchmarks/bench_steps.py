"""Steps and first positions of the swarms: fits to a cost, and scores on rows never searched.

Each cell is a data set, a model and a seed. The seed splits the rows: 60 % are searched, 40 % are
only for the score. The target is the cost that the default `multiswarm` reaches in 320 evaluations.
Every variant has twice as many, and another seed of the search than the target, the default itself
included (`multiswarm`): how long it takes to the target again is what the others are compared with.

    python benchmarks/bench_steps.py                 # runs what is missing in results/steps.csv
    python benchmarks/bench_steps.py --table         # prints the tables
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import DATA, RESULTS, show

from swarm import Budget, CrossValidation, Evaluations, Problem, Search, make, prepare_hints
from swarm.evaluation.pruning import limits_of, needed_folds
from swarm.evaluation.types import Work
from swarm.problem.space import canonical_order
from swarm.strategies.base import Strategy

ROWS = RESULTS / "steps.csv"
EVALUATIONS = 320
SETS = (
    *("wine", "zoo", "australian", "vehicle", "german_numeric"),
    *("wdbc", "ionosphere", "lung_cancer", "sonar", "lsvt"),
)
BOOSTED_SETS = ("ionosphere", "sonar")
REFERENCE = "multiswarm"
VARIANTS = {
    REFERENCE: ("multiswarm", {"step": "bpso", "init": "clusters"}),
    "recombine": ("multiswarm", {"step": "recombine", "init": "clusters"}),
    "ranked start": ("multiswarm", {"step": "bpso", "init": "ranked"}),
    "recombine, ranked start": ("multiswarm", {"step": "recombine", "init": "ranked"}),
    "bpso": ("bpso", {}),
    "bpso, recombine": ("bpso", {"step": "recombine"}),
    "ranked": ("ranked", {}),
}
MODELS = {
    "naive Bayes": lambda: make_pipeline(StandardScaler(), GaussianNB()),
    "5-NN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    "LightGBM": lambda: LGBMClassifier(
        n_estimators=20, num_leaves=8, min_child_samples=5, n_jobs=1, random_state=0, verbosity=-1
    ),
}
# Neighbours of the models whose costs are sums over features; None for naive Bayes.
NEIGHBOURS = {"naive Bayes": None, "5-NN": 5}


@dataclass(frozen=True)
class Row:
    """One search.

    Attributes
    ----------
    target : float
        Cost of the default after 320 evaluations, at another seed of the search.
    target_fits : int
        Fits that it took for these evaluations.
    fits : float
        Fits until the target was reached; missing if it was not.
    most_fits : int
        Fits of the whole search.
    cost, size, unseen : float
        Cost and number of features of the best subset after `target_fits`, and its balanced
        accuracy on the rows that were not searched.
    """

    data: str
    model: str
    seed: int
    variant: str
    target: float
    target_fits: int
    fits: float
    most_fits: int
    cost: float
    size: int
    unseen: float
    seconds: float


@dataclass(frozen=True)
class Trace:
    """A search epoch by epoch: fits and evaluations so far, the lowest cost, and its subset."""

    fits: np.ndarray
    evaluations: np.ndarray
    costs: np.ndarray
    masks: np.ndarray

    def reached(self, cost: float) -> float:
        """Fits until the cost is at most `cost`, or NaN."""
        there = self.costs <= cost + 1e-12
        return float(self.fits[there][0]) if there.any() else np.nan

    def after(self, fits: int) -> int:
        """The last epoch within so many fits, the first if that took more."""
        return max(0, int(np.searchsorted(self.fits, fits, side="right")) - 1)


class Sums:
    """Balanced errors of naive Bayes and nearest neighbours from sums over features.

    Much faster than fitted models: hundreds of searches take minutes. Features are standardised on
    the training rows of each fold. Fits are counted as the folds that pruning leaves, as in a run.
    """

    def __init__(self, problem: Problem, neighbours: int | None) -> None:
        self.n_folds = problem.n_folds
        self.neighbours = neighbours
        self.relevance = problem.relevance
        self.known: dict[bytes, np.ndarray] = {}
        self.folds = []
        features, target = problem.features.to_numpy(), np.asarray(problem.target)
        for train, test in problem.folds:
            scaler = StandardScaler().fit(features[train])
            X, Z = scaler.transform(features[train]), scaler.transform(features[test])
            classes, y = np.unique(target[train], return_inverse=True)
            members = target[test][:, None] == np.unique(target[test])
            true = np.searchsorted(classes, target[test])
            true[~np.isin(target[test], classes)] = -1
            if neighbours is None:
                model = GaussianNB().fit(X, y)
                offset = np.log(model.class_prior_)
                terms = -0.5 * (
                    np.log(2 * np.pi * model.var_)
                    + (Z[:, None, :] - model.theta_) ** 2 / model.var_
                )
            else:
                offset = np.eye(len(classes))[y]
                terms = ((Z[:, None, :] - X) ** 2).astype(np.float32)
            self.folds.append((terms, offset, true, members / members.sum(axis=0)))

    def costs(self, masks: np.ndarray) -> np.ndarray:
        """Balanced error of each mask on each fold: float64 (n, n_folds)."""
        found = np.empty((len(masks), self.n_folds))
        for fold, (terms, offset, true, share) in enumerate(self.folds):
            # One row for each mask, then one for each tested row.
            flat = masks.astype(terms.dtype) @ terms.reshape(-1, terms.shape[2]).T
            sums = flat.reshape(len(masks), *terms.shape[:2])
            if self.neighbours is None:
                predicted = (sums + offset).argmax(axis=2)
            else:
                nearest = np.argpartition(sums, self.neighbours - 1)[:, :, : self.neighbours]
                predicted = offset[nearest].sum(axis=2).argmax(axis=2)
            found[:, fold] = 1 - ((predicted == true) @ share).mean(axis=1)
        return found

    def evaluate(
        self, masks: np.ndarray, incumbents: np.ndarray, fold_order: np.ndarray
    ) -> Evaluations:
        """Evaluate masks; see :class:`swarm.evaluation.types.Evaluator`."""
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        new = {key: mask for key, mask in zip(keys, masks, strict=True) if key not in self.known}
        if new:
            self.known.update(zip(new, self.costs(np.array(list(new.values()))), strict=True))
        folds = np.array([self.known[key] for key in keys])
        limits = limits_of(incumbents)
        needed, _ = needed_folds(folds, fold_order, limits)
        costs = folds.sum(axis=1) / self.n_folds
        exact = needed.all(axis=1) & (costs <= limits)
        return Evaluations(
            costs=np.where(exact, costs, np.inf),
            fold_costs=np.where(exact[:, None], folds, np.nan),
            importances=np.where(exact[:, None], self.relevance * masks, 0.0),
            # No fold model says which features it used, so none is dropped.
            used=masks.copy(),
            censored=~exact,
            failed=np.zeros(len(masks), dtype=bool),
            needed=needed,
            exact_shrink=False,
            work=Work(),
        )


@dataclass(frozen=True)
class Table:
    """Features, classes from 0, and groups of rows, if there are any."""

    X: pd.DataFrame
    y: np.ndarray
    groups: pd.Series | None = None


def read(folder: Path, data: str) -> Table:
    """Read a data set."""
    table = pd.read_parquet(folder / f"{data}.parquet")
    groups = table.pop("group") if "group" in table else None
    y = np.unique(table.pop("target"), return_inverse=True)[1]
    # Five cells of lung_cancer are missing.
    return Table(table.astype(float).fillna(table.median()), y, groups)


class Cell:
    """A data set, a model and a split of the rows, of which at most `most_rows` are searched."""

    def __init__(self, table: Table, model: str, seed: int, most_rows: int | None = None) -> None:
        self.y, groups = table.y, table.groups
        # In the order of the units, so that masks select these columns.
        self.X = table.X.iloc[:, canonical_order(table.X.columns)]
        searched, unseen = train_test_split(
            np.arange(len(self.X)), test_size=0.4, stratify=self.y, random_state=seed
        )
        splitter = StratifiedKFold(5, shuffle=True, random_state=seed)
        if groups is not None:
            splitter = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
            parts = [test for _, test in splitter.split(self.X, self.y, groups)]
            searched, unseen = np.concatenate(parts[2:]), np.concatenate(parts[:2])
        if most_rows is not None and len(searched) > most_rows:
            if groups is None:
                y = self.y[searched]
                searched, _ = train_test_split(
                    searched, train_size=most_rows, stratify=y, random_state=seed
                )
            else:
                searched = np.random.default_rng(seed).permutation(searched)[:most_rows]
        if groups is not None:
            groups = groups.iloc[searched].reset_index(drop=True)
        self.searched, self.unseen, self.model = searched, unseen, MODELS[model]
        inside, target = self.X.iloc[searched].reset_index(drop=True), self.y[searched]
        folds = list(splitter.split(inside, target, groups))
        self.problem = Problem.build(
            inside, target, self.model(), scoring="balanced_accuracy", folds=folds
        )
        self.sums = None if model == "LightGBM" else Sums(self.problem, NEIGHBOURS[model])
        needs = ("distance", "clusters", "relevance")
        self.hints = prepare_hints(inside, self.problem.space, target, needs=needs)

    def search(self, strategy: Strategy, evaluations: int, seed: int) -> Trace:
        """Run one search."""
        kept: list[tuple] = []

        def note(record, state) -> None:
            counts = state.counts
            kept.append((counts.fits, counts.evaluations, state.best_cost, state.best_mask))

        budget = Budget(evaluations=evaluations)
        search = Search(self.problem, strategy, hints=self.hints, seed=seed, budget=budget)
        with ExitStack() as stack:
            evaluator = self.sums or stack.enter_context(CrossValidation(self.problem, n_jobs=1))
            search.driver(evaluator).run(note)
        return Trace(*map(np.array, zip(*kept, strict=True)))

    def score(self, mask: np.ndarray) -> float:
        """Balanced accuracy on the rows that were not searched."""
        X, y = self.X.loc[:, mask], self.y
        fitted = self.model().fit(X.iloc[self.searched], y[self.searched])
        return balanced_accuracy_score(y[self.unseen], fitted.predict(X.iloc[self.unseen]))

    def gap(self, n: int = 4) -> float:
        """Mean difference of costs by sums and by fitted models, of some random masks."""
        if self.sums is None:
            return 0.0
        rng = np.random.default_rng(0)
        masks = self.problem.space.repair(rng.random((n, self.X.shape[1])) < 0.5, rng)
        with CrossValidation(self.problem, n_jobs=1, exact=False) as fitted:
            answers = fitted.evaluate(masks, np.full(n, np.inf), np.arange(self.problem.n_folds))
        return float(np.abs(answers.costs - self.sums.costs(masks).mean(axis=1)).mean())


def measured(folder: Path, data: str, model: str, seed: int, variants: list[str]) -> Iterator[Row]:
    """Run some variants on one cell."""
    cell = Cell(read(folder, data), model, seed)
    # Equal distances are ordered in another way than by scikit-learn.
    if (gap := cell.gap()) > 0.05:
        raise SystemExit(f"{data}, {model}: costs differ by {gap:.4f} from those of fitted models")
    first = cell.search(make("multiswarm", {"step": "bpso"}), EVALUATIONS, seed)
    target, target_fits = float(first.costs[-1]), int(first.fits[-1])
    for variant in variants:
        started = time.perf_counter()
        trace = cell.search(make(*VARIANTS[variant]), 2 * EVALUATIONS, seed + 1000)
        there = trace.after(target_fits)
        if variant == "ranked":
            # Its answer is that at the end, which takes about as many evaluations as features.
            there = len(trace.fits) - 1
        yield Row(
            *(data, model, seed, variant, target, target_fits),
            fits=trace.reached(target),
            most_fits=int(trace.fits[-1]),
            cost=float(trace.costs[there]),
            size=int(trace.masks[there].sum()),
            unseen=cell.score(trace.masks[there]),
            seconds=time.perf_counter() - started,
        )


def fill(
    folder: Path, sets: list[str], models: list[str], variants: list[str], n_seeds: int
) -> None:
    """Append what is missing to the file of rows, cell by cell, all sets of a seed first."""
    done = set()
    if ROWS.exists():
        table = pd.read_csv(ROWS)
        done = set(zip(table.data, table.model, table.seed, table.variant, strict=True))
    else:
        with ROWS.open("w", newline="") as out:
            csv.writer(out).writerow([field.name for field in fields(Row)])
    for seed in range(n_seeds):
        for model in models:
            for data in sets:
                if model == "LightGBM" and data not in BOOSTED_SETS:
                    continue
                missing = [v for v in variants if (data, model, seed, v) not in done]
                if not missing:
                    continue
                with warnings.catch_warnings(), ROWS.open("a", newline="") as out:
                    # A class may be missing from the test rows of a fold.
                    warnings.simplefilter("ignore")
                    for row in measured(folder, data, model, seed, missing):
                        csv.writer(out).writerow(rounded(value) for value in asdict(row).values())
                print(f"{model}, seed {seed}: {data}", flush=True)


def rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def tables() -> None:
    """Print a table for each model."""
    rows = pd.read_csv(ROWS)
    for model, of_model in rows.groupby("model", sort=False):
        cells = (
            of_model.set_index(["data", "seed", "variant"])
            .unstack("variant")
            .dropna(subset=[("target_fits", REFERENCE)])
        )
        lines = [_line(cells, variant) for variant in VARIANTS if variant in cells["cost"]]
        show(
            {
                "title": f"{model}: {cells.index.get_level_values('data').nunique()} data sets",
                "columns": [
                    *("variant", "cells", "reached", "fits to target", "against multiswarm"),
                    *("cost, points", "unseen, points", "size"),
                ],
                "rows": lines,
                "notes": [
                    "reached: cells in which the target was reached within 640 evaluations",
                    "fits to target: median share of the fits of the default's 320 evaluations",
                    "against multiswarm: median ratio of fits to the target, inf where it was not "
                    "reached [95 %]",
                    "cost, unseen: mean difference to multiswarm at equal fits, points of balanced "
                    "error and of balanced accuracy on rows never searched [95 %]",
                    "intervals: bootstrap of data sets, and of seeds within them",
                ],
            }
        )


def _line(cells: pd.DataFrame, variant: str) -> list[str]:
    cells = cells[cells["cost"][variant].notna()]
    reached, size = cells["fits"][variant], cells["size"][variant]
    # The default counts with all its fits where it did not reach the target again.
    usual = cells["fits"][REFERENCE].fillna(cells["most_fits"][REFERENCE])
    share = (reached / cells["target_fits"][variant]).fillna(np.inf)
    cost = 100 * (cells["cost"][variant] - cells["cost"][REFERENCE])
    unseen = 100 * (cells["unseen"][variant] - cells["unseen"][REFERENCE])
    return [
        variant,
        str(len(cells)),
        f"{reached.notna().mean():.0%}",
        f"{share.median():.2f}",
        interval((reached / usual).fillna(np.inf), np.median, "{:.2f}"),
        interval(cost, np.mean, "{:+.2f}"),
        interval(unseen, np.mean, "{:+.2f}"),
        f"{size.mean():.1f}",
    ]


def interval(
    values: pd.Series, statistic: Callable[[np.ndarray], float], form: str, n: int = 4000
) -> str:
    """Mean or median with a bootstrap interval over data sets and seeds within them."""
    by_set = [group.to_numpy() for _, group in values.groupby(level="data")]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(n):
        sets = rng.integers(len(by_set), size=len(by_set))
        drawn.append(
            statistic(np.concatenate([rng.choice(by_set[i], len(by_set[i])) for i in sets]))
        )
    # No interpolation, as a median may be inf.
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    middle = statistic(values.to_numpy())
    return f"{form.format(middle)} [{form.format(low)}, {form.format(high)}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--folder", type=Path, default=DATA, help="where the Parquet files are")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    options = parser.parse_args()
    if not options.table:
        fill(options.folder, options.sets, options.models, options.variants, options.seeds)
    tables()


if __name__ == "__main__":
    main()
