"""A search on parts of the rows (`budget.rows`) against one on all rows.

    python benchmarks/bench_rows.py [--rows 500000] [--seeds 2]

Two made tables of 100 columns of which some are known to matter, with a fifth as many rows more to
judge on:

- steps: two classes, the log-odds a sum of 15 columns of decreasing weight, some of them through a
  threshold, among columns that are correlated with them and columns of noise; log loss;
- friedman: a number, Friedman's first function of five columns with one interaction, and 95 of
  noise; the squared error.

LightGBM of five trees on one thread, trained on one half of the rows and tested on the other, and
the default strategy and budget, 30 epochs. Seconds are those of the processor from the prepared
problem to the answer; the drawing of the parts is included, and so is their comparison with all
rows, which `compared` has apart. Rows are appended to ``results/rows.csv``; what is there is not
repeated.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import make_friedman1
from tables import RESULTS, show

from swarm.problem.hints import prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.plan import SearchPlan
from swarm.search.result import SearchResult
from swarm.search.row_parts import row_parts
from swarm.search.runner import SearchHooks, run_search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make

N_COLUMNS, N_TRUE, EPOCHS, TREES = 100, 15, 30, 5
ROWS = RESULTS / "rows.csv"
FIGURES = ("seconds", "compared", "fits", "on_all", "cost", "unseen", "size", "true", "n_true")
COLUMNS = ("data", "n_rows", "seed", "rows", *FIGURES, "correlation")
Table = tuple[pd.DataFrame, np.ndarray, list[str], Any, str]


def steps(n_rows: int, seed: int) -> Table:
    """Return two classes that depend on 15 columns, 45 that resemble those, and 40 of noise."""
    rng = np.random.default_rng([seed, 1])
    values = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    near = np.arange(N_TRUE, 4 * N_TRUE)
    values[:, near] = 0.7 * values[:, near % N_TRUE] + 0.7 * values[:, near]
    odds = np.zeros(n_rows)
    for number in range(N_TRUE):
        column = values[:, number]
        odds += 0.8 * 0.85**number * (np.sign(column - 0.3) if number % 3 == 2 else column)
    target = (rng.random(n_rows) < 1 / (1 + np.exp(1.5 - odds))).astype(np.int64)
    model = LGBMClassifier(n_estimators=TREES, learning_rate=0.3, **_quiet())
    return _table(values, rng), target, _names(N_TRUE), model, "neg_log_loss"


def friedman(n_rows: int, seed: int) -> Table:
    """Return a number that depends on five columns, two of which interact, and 95 of noise."""
    values, target = make_friedman1(n_rows, N_COLUMNS, noise=2.0, random_state=seed)
    model = LGBMRegressor(n_estimators=TREES, learning_rate=0.3, **_quiet())
    table = _table(values.astype(np.float32), np.random.default_rng(seed))
    return table, target, _names(5), model, "neg_mean_squared_error"


DATA = {"steps": steps, "friedman": friedman}


def _quiet() -> dict[str, Any]:
    return {"n_jobs": 1, "random_state": 0, "verbosity": -1}


def _names(count: int) -> list[str]:
    return [f"c{number:02d}" for number in range(count)]


def _table(values: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    table = pd.DataFrame(values, columns=_names(N_COLUMNS))
    return table[list(rng.permutation(table.columns))]


class Case:
    """A table and what both of its searches share."""

    def __init__(self, name: str, n_rows: int, seed: int) -> None:
        table, target, self.true, self.model, scoring = DATA[name](n_rows + n_rows // 5, seed)
        self.named = {"data": name, "n_rows": n_rows, "seed": seed}
        self.unseen, self.truth = table.iloc[n_rows:], target[n_rows:]
        drawn = np.random.default_rng(seed).permutation(n_rows)
        halves = np.sort(drawn[: n_rows // 2]), np.sort(drawn[n_rows // 2 :])
        self.problem = Problem.build(
            table.iloc[:n_rows],
            target[:n_rows],
            self.model,
            folds=[halves],
            scoring=scoring,
            seed=seed,
        )
        self.strategy = make("multiswarm")
        self.hints = prepare_hints(
            self.problem.features,
            self.problem.space,
            self.problem.target,
            self.problem.task,
            needs=self.strategy.needs,
        )

    def measured(self, rows: int | str | None) -> dict[str, Any]:
        """Search, and judge the answer on rows that no search has seen."""
        problem, ends = self.problem, list[float]()

        def ended(result: SearchResult) -> SearchResult:
            ends.append(time.process_time())
            return result

        began = time.process_time()
        plan = SearchPlan(
            problem,
            self.strategy,
            self.hints,
            Budget(epochs=EPOCHS),
            self.named["seed"],
            evaluation={"n_jobs": 1},
            parts=row_parts(problem, rows),
        )
        result = run_search(plan, Archive(), SearchHooks(ended=ended)).result
        ends.append(time.process_time())
        chosen, parts = result.features, result.parts
        model = self.model.fit(problem.features[chosen], problem.target)
        unseen = problem.scoring.cost(model, self.unseen[chosen], self.truth)
        return {
            **self.named,
            "rows": rows or "",
            "seconds": round(ends[1] - began, 1),
            "compared": round(ends[1] - ends[0], 1),
            "fits": result.state.counts.fits,
            "on_all": result.state.counts.distinct if parts is None else parts.subsets[-1],
            "cost": f"{result.cost:.6g}",
            "unseen": f"{unseen:.6g}",
            "size": len(chosen),
            "true": len(set(chosen) & set(self.true)),
            "n_true": len(self.true),
            "correlation": "" if parts is None else f"{parts.correlations[0]:.3f}",
        }


def fill(n_rows: int, seeds: int, rows: int | str) -> None:
    """Append what is missing to the file of results."""
    done = set()
    if ROWS.exists():
        table = pd.read_csv(ROWS, dtype=str, keep_default_na=False)
        done = {tuple(row) for row in table[["data", "n_rows", "seed", "rows"]].to_numpy()}
    else:
        with ROWS.open("w", newline="") as out:
            csv.writer(out).writerow(COLUMNS)
    for seed in range(seeds):
        for name in DATA:
            wanted = (rows, None)
            missing = [
                w for w in wanted if (name, str(n_rows), str(seed), str(w or "")) not in done
            ]
            case = Case(name, n_rows, seed) if missing else None
            for given in missing:
                found = case.measured(given)
                with ROWS.open("a", newline="") as out:
                    csv.DictWriter(out, COLUMNS).writerow(found)
                print(found, flush=True)


def tables() -> None:
    """Print both searches of each table and seed side by side."""
    rows = pd.read_csv(ROWS, keep_default_na=False)
    lines, ratios = [], []
    for (name, n_rows, seed), both in rows.groupby(["data", "n_rows", "seed"], sort=False):
        whole = both[both["rows"] == ""]
        for _, row in both.iterrows():
            share = row["seconds"] / whole["seconds"].iloc[0] if len(whole) else float("nan")
            if row["rows"] != "":
                ratios.append(share)
            lines.append(
                [
                    name,
                    f"{n_rows:,}",
                    str(seed),
                    row["rows"] or "all",
                    f"{row['seconds']:.0f}",
                    f"{row['compared']:.0f}",
                    f"{share:.2f}",
                    str(row["on_all"]),
                    f"{float(row['cost']):.5f}",
                    f"{float(row['unseen']):.5f}",
                    f"{row['true']} of {row['n_true']}",
                    str(row["size"]),
                    str(row["correlation"]),
                ]
            )
    heads = ["table", "rows", "seed", "budget.rows", "processor s", "compared", "share"]
    heads += [
        "subsets on all rows",
        "cost",
        "cost on unseen rows",
        "true columns",
        "size",
        "rank correlation",
    ]
    show(
        {
            "title": "Searches on parts of the rows, and on all rows",
            "columns": heads,
            "rows": lines,
            "notes": [f"share of the processor time, mean of {len(ratios)}: {np.mean(ratios):.2f}"],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", default="auto", help="budget.rows: auto or a number")
    options = parser.parse_args()
    if not options.table:
        warnings.simplefilter("ignore")
        part = options.part if options.part == "auto" else int(options.part)
        fill(options.rows, options.seeds, part)
    tables()


if __name__ == "__main__":
    sys.exit(main())
