"""The figures of tables 3 to 9 of document 002, from the rows of our searches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.evidence.published import ALGORITHMS, DATASETS, TABLES, wide

__all__ = [
    "TIMED",
    "Tables",
    "algorithms_of",
    "average_ranks",
    "datasets_of",
    "ranks",
    "sign",
    "tables_of",
    "tidy",
]

# Algorithms of tables 8 and 9.
TIMED = ("genetic", "ant_colony", "bpso", "two_d")
# Costs that differ by less are equal: means of folds differ in their last bits.
_DIGITS = 10


@dataclass(frozen=True)
class Tables:
    """What one part says; every frame is float (n_datasets, n_algorithms) but `signs`.

    A cell without runs is NaN. Data sets and algorithms are in the document's order, data sets
    that the document does not have at the end.

    Attributes
    ----------
    runs : DataFrame
        How many runs a cell is the mean of.
    mean, sd : DataFrame
        Of the classification error; the SD of one run is NaN.
    improvement : DataFrame
        PI, equation 22, in percent of the error of all features.
    rank : DataFrame
        By improvement; only data sets with every algorithm have ranks.
    size, reduction, size_rank : DataFrame
        Mean number of features, and Xi of section 6.2, in percent.
    t1, t2, t, t_rank : DataFrame (n_datasets, 4 at most)
        Mean seconds of the search without its evaluations, of these, and of both.
    signs : DataFrame of str (n_datasets, n_algorithms - 1)
        Paired t-tests of 2D-UPSO, see `sign`.
    distinct : DataFrame
        Mean number of subsets that were really evaluated.
    everything : Series (n_datasets,)
        J(U), the error of all features.
    available : Series (n_datasets,)
        Number of all features.
    """

    runs: pd.DataFrame
    mean: pd.DataFrame
    sd: pd.DataFrame
    improvement: pd.DataFrame
    rank: pd.DataFrame
    size: pd.DataFrame
    reduction: pd.DataFrame
    size_rank: pd.DataFrame
    t1: pd.DataFrame
    t2: pd.DataFrame
    t: pd.DataFrame
    t_rank: pd.DataFrame
    signs: pd.DataFrame
    distinct: pd.DataFrame
    everything: pd.Series
    available: pd.Series

    @property
    def datasets(self) -> list[str]:
        """Data sets with runs."""
        return [str(name) for name in self.mean.index]

    @property
    def algorithms(self) -> list[str]:
        """Algorithms with runs."""
        return [str(name) for name in self.mean.columns]

    @property
    def ranked(self) -> list[str]:
        """Data sets with runs of every algorithm."""
        return [str(name) for name in self.mean.dropna().index]

    @property
    def shared(self) -> list[str]:
        """Ranked data sets that the document has, too."""
        return [name for name in self.ranked if name in DATASETS]


def datasets_of(rows: pd.DataFrame) -> list[str]:
    """Data sets of the rows: the document's in its order, then the others by name."""
    there = {str(name) for name in rows["dataset"]}
    return [name for name in DATASETS if name in there] + sorted(there - set(DATASETS))


def algorithms_of(rows: pd.DataFrame) -> list[str]:
    """Algorithms of the document that have rows, in its order."""
    there = set(rows["strategy"])
    return [name for name in ALGORITHMS if name in there]


def ranks(values: pd.DataFrame) -> pd.DataFrame:
    """Rank the columns of each row: the lowest is 1, equal ones share the smallest rank.

    So does the document: two algorithms with the best value are both ranked 1, the next one 3.
    Rows with a gap have no ranks.
    """
    whole = values.where(values.notna().all(axis=1))
    return whole.round(_DIGITS).rank(axis=1, method="min")


def average_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Average ranks over the data sets, and the overall rank by them.

    Parameters
    ----------
    frame : DataFrame (n_datasets, n_algorithms)
        Ranks; rows without are left out.

    Returns
    -------
    DataFrame (n_algorithms, 2)
        Columns average and overall.
    """
    average = frame.dropna().mean()
    return pd.DataFrame({"average": average, "overall": average.round(_DIGITS).rank(method="min")})


def sign(ours: NDArray[np.float64], theirs: NDArray[np.float64], level: float = 0.95) -> str:
    """Entry of Table 5 for paired errors.

    Parameters
    ----------
    ours, theirs : float (n_pairs,)
        Errors of 2D-UPSO, and of the other in the runs with the same seeds.
    level : float
        Confidence of the two-sided paired t-test.

    Returns
    -------
    str
        ``+`` if 2D-UPSO is better, ``-`` if it is worse, ``=`` if every pair is equal, ``?`` if the
        test does not tell; empty with fewer than two pairs.
    """
    from scipy.stats import t

    if len(ours) < 2:
        return ""
    differences = np.round(theirs - ours, _DIGITS)
    if not differences.any():
        return "="
    mean, sd = float(differences.mean()), float(differences.std(ddof=1))
    if sd > 0:
        statistic = abs(mean) / sd * math.sqrt(len(differences))
        if 2 * float(t.sf(statistic, len(differences) - 1)) >= 1 - level:
            return "?"
    return "+" if mean > 0 else "-"


def tables_of(rows: pd.DataFrame) -> Tables:
    """Make the tables of one part.

    Parameters
    ----------
    rows : DataFrame
        Rows of the study with one `part`.
    """
    searches = rows[rows["strategy"].isin(list(ALGORITHMS))]
    order, columns = datasets_of(searches), algorithms_of(searches)
    cells = searches.assign(
        seconds=searches["seconds_algorithm"] + searches["seconds_evaluation"]
    ).groupby(["dataset", "strategy"])

    def frame(values: pd.Series, names: list[str]) -> pd.DataFrame:
        return values.unstack("strategy").reindex(index=order, columns=names)

    full = rows[rows["strategy"] == "full"].groupby("dataset")["cost"].mean().reindex(order)
    available = searches.groupby("dataset")["n_available"].max().reindex(order)
    mean, size = frame(cells["cost"].mean(), columns), frame(cells["size"].mean(), columns)
    timed = [name for name in TIMED if name in columns]
    t1, t2, t = (
        frame(cells[name].mean(), timed)
        for name in ("seconds_algorithm", "seconds_evaluation", "seconds")
    )
    gain = mean.rsub(full, axis=0).div(full.where(full > 0), axis=0) * 100
    return Tables(
        runs=frame(cells.size(), columns).fillna(0),
        mean=mean,
        sd=frame(cells["cost"].std(ddof=1), columns),
        improvement=gain,
        rank=ranks(mean),
        size=size,
        reduction=size.rsub(available, axis=0).div(available, axis=0) * 100,
        size_rank=ranks(size),
        t1=t1,
        t2=t2,
        t=t,
        t_rank=ranks(t),
        signs=_signs(searches, order, [name for name in columns if name != "two_d"]),
        distinct=frame(cells["distinct"].mean(), columns),
        everything=full,
        available=available,
    )


def _signs(searches: pd.DataFrame, order: list[str], others: list[str]) -> pd.DataFrame:
    signs = pd.DataFrame("", index=order, columns=others)
    for dataset in order:
        here = searches[searches["dataset"] == dataset]
        costs = here.pivot_table(index="seed", columns="strategy", values="cost")
        for other in others:
            if "two_d" in costs and other in costs:
                pairs = costs[["two_d", other]].dropna().to_numpy(dtype=np.float64)
                signs.loc[dataset, other] = sign(pairs[:, 0], pairs[:, 1])
    return signs


def tidy(parts: Mapping[str, Tables]) -> pd.DataFrame:
    """All figures with the published ones beside them: one row per part, data set, algorithm.

    Published columns begin with ``published_``; they are NaN where the document has none.
    """
    listed = []
    for part, tables in parts.items():
        theirs = {
            ("error", "mean"): "mean",
            ("error", "sd"): "sd",
            ("error", "improvement"): "improvement",
            ("error", "rank"): "rank",
            ("size", "size"): "size",
            ("size", "reduction"): "reduction",
            ("size", "rank"): "size_rank",
            ("time", "t1"): "t1",
            ("time", "t2"): "t2",
            ("time", "t"): "t",
            ("time", "rank"): "t_rank",
        }
        columns = {"runs": tables.runs} | {name: getattr(tables, name) for name in theirs.values()}
        columns |= {"sign": tables.signs, "distinct": tables.distinct}
        columns |= {
            f"published_{name}": wide(TABLES[part, kind], quantity)
            for (kind, quantity), name in theirs.items()
        }
        index = [(data, name) for data in tables.datasets for name in tables.algorithms]
        stacked = {
            name: [
                values.loc[data, algorithm]
                if data in values.index and algorithm in values.columns
                else math.nan
                for data, algorithm in index
            ]
            for name, values in columns.items()
        }
        start = {
            "part": part,
            "dataset": [data for data, _ in index],
            "strategy": [name for _, name in index],
        }
        listed.append(pd.DataFrame(start | stacked))
    return pd.concat(listed, ignore_index=True) if listed else pd.DataFrame()
