"""The runs on Musk as tables: figures, paired differences, courses of cost, and the ablation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from swarm.evidence.rows import COLUMNS
from swarm.validation.resampled import corrected_t

__all__ = [
    "METRICS",
    "PAIRS",
    "PARTS",
    "ablation_table",
    "both_modes",
    "differences",
    "figure_table",
    "judged",
    "main_mode",
    "musk_rows",
    "paired_t",
]

# The metrics that document 000 prints for the musks.
METRICS = ("f1", "accuracy", "recall", "precision")
# What is compared: the first minus the second. The first pair is the document's own.
PAIRS = (
    ("ensemble", "all_features"),
    ("ensemble", "all_features_ensemble"),
    ("ensemble", "random_subsets"),
    ("ensemble", "best_subset"),
    ("best_subset", "all_features"),
)
# Strategies of the ablation, in the order of its table.
PARTS = ("whole", "no_local_search", "no_regrouping", "no_shrink", "bernoulli_init", "random")

_JUDGED = ["split", "mode", "first", "second", "metric", "n", "mean", "low", "high", "p"]


def main_mode(runs: pd.DataFrame, split: str) -> str | None:
    """Say in which mode most seeds of a split were run; "fast" where there are as many."""
    counts = runs.loc[runs["split"] == split, "mode"].value_counts()
    if not len(counts):
        return None
    return str(max(counts.index, key=lambda mode: (counts[mode], mode == "fast")))


def figure_table(figures: pd.DataFrame, split: str, mode: str | None) -> pd.DataFrame:
    """Mean and range over the seeds for each contender and metric.

    Parameters
    ----------
    figures : DataFrame
        One row per run, contender and metric.
    split, mode : str

    Returns
    -------
    DataFrame
        contender, metric, n (seeds with a figure), mean, least, most, reach (mean half width of
        the bootstrap intervals of single runs), n_features (mean).
    """
    known = _of(figures, split, mode).dropna(subset=["value"])
    known = known.assign(reach=(known["high"] - known["low"]) / 2)
    return known.groupby(["contender", "metric"], sort=False, as_index=False).agg(
        n=("value", "size"),
        mean=("value", "mean"),
        least=("value", "min"),
        most=("value", "max"),
        reach=("reach", "mean"),
        n_features=("n_features", "mean"),
    )


def differences(figures: pd.DataFrame, split: str, mode: str | None) -> pd.DataFrame:
    """Difference of each pair of contenders on the test rows of each seed.

    Returns
    -------
    DataFrame
        split, mode, first, second, metric, seed, difference (first minus second), for the
        seeds that have both.

    Raises
    ------
    ValueError
        If a run has two values for one contender and metric.
    """
    columns = ["split", "mode", "first", "second", "metric", "seed", "difference"]
    wide = _of(figures, split, mode).pivot(
        index=["metric", "seed"], columns="contender", values="value"
    )
    parts = []
    for first, second in PAIRS:
        if first in wide and second in wide:
            part = (wide[first] - wide[second]).dropna().rename("difference").reset_index()
            part = part.assign(split=split, mode=mode, first=first, second=second)
            parts.append(part[part["metric"].isin(METRICS)][columns])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def judged(pairs: pd.DataFrame, runs: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Test the mean difference of each pair and metric by the corrected resampled t-test.

    Parameters
    ----------
    pairs : DataFrame
        As from :func:`differences`. Each seed has a split of its own.
    runs : DataFrame
        One row per run, for the rows trained on and tested on.
    level : float
        Confidence of the interval.

    Returns
    -------
    DataFrame
        split, mode, first, second, metric, n, mean, low, high, p. With less than two seeds, or
        without the numbers of rows, there is neither interval nor p.
    """
    rows = []
    keys = ["split", "mode", "first", "second", "metric"]
    for names, part in pairs.groupby(keys, sort=False):
        split, mode, *_ = names
        there = _of(runs, str(split), str(mode))
        there = there[there["seed"].isin(part["seed"])]
        n_train, n_test = there["n_train"].mean(), there["n_test"].mean()
        values = part["difference"].to_numpy(dtype=np.float64)
        found: tuple[float, ...] = (float(values.mean()), math.nan, math.nan, math.nan)
        if len(values) > 1 and math.isfinite(n_train) and math.isfinite(n_test):
            test = corrected_t(values, float(n_train), float(n_test), level)
            found = (test.mean, test.low, test.high, test.p)
        rows.append((*names, len(values), *found))
    return pd.DataFrame(rows, columns=_JUDGED)


def both_modes(figures: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Put runs of the same split and seed in both modes under one another, the exact one first.

    Returns
    -------
    DataFrame
        The rows of `runs`, with ``ensemble_f1``, ``ensemble_accuracy``, ``best_subset_f1`` and
        ``best_subset_accuracy``.
    """
    keys = ["split", "seed"]
    double = runs.groupby(keys)["mode"].transform("nunique") > 1
    there = runs[double].sort_values([*keys, "mode"], kind="stable").reset_index(drop=True)
    for contender in ("ensemble", "best_subset"):
        for metric in ("f1", "accuracy"):
            own = figures[(figures["contender"] == contender) & (figures["metric"] == metric)]
            own = own[[*keys, "mode", "value"]].rename(columns={"value": f"{contender}_{metric}"})
            there = there.merge(own, on=[*keys, "mode"], how="left", validate="one_to_one")
    return there


def paired_t(values: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of paired differences with Student's interval; NaN bounds below two of them.

    Parameters
    ----------
    values : float (n,)
        Differences that share nothing but their design, such as those of seeds on one split.
    level : float

    Returns
    -------
    tuple of float
        Mean, low and high.
    """
    from scipy.stats import t

    known: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    mean = float(known.mean()) if len(known) else math.nan
    if len(known) < 2:
        return mean, math.nan, math.nan
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    reach = float(t.isf((1 - level) / 2, len(known) - 1)) * error
    return mean, mean - reach, mean + reach


def ablation_table(ablation: pd.DataFrame) -> pd.DataFrame:
    """Cost of the whole search and of the searches that lack a part.

    Parameters
    ----------
    ablation : DataFrame
        One row per search, with strategy, seed, cost, size and distinct.

    Returns
    -------
    DataFrame
        strategy, n, mean, sd, size, distinct_least, distinct_most; difference to "whole" with
        low and high over the n_paired seeds that both have, and n_worse, how many of these seeds
        cost more than "whole".

    Raises
    ------
    ValueError
        If a strategy has a seed twice.
    """
    wide = ablation.pivot(index="seed", columns="strategy", values="cost")
    known = [name for name in PARTS if name in wide]
    rows = []
    for name in [*known, *(str(c) for c in wide if c not in known)]:
        own = ablation[(ablation["strategy"] == name) & ablation["cost"].notna()]
        row = {
            "strategy": name,
            "n": len(own),
            "mean": own["cost"].mean(),
            "sd": own["cost"].std(ddof=1),
            "size": own["size"].mean(),
            "distinct_least": own["distinct"].min(),
            "distinct_most": own["distinct"].max(),
        }
        if name != "whole" and "whole" in wide:
            gaps = (wide[name] - wide["whole"]).dropna()
            difference, low, high = paired_t(gaps)
            row |= {"n_paired": len(gaps), "n_worse": int((gaps > 0).sum())}
            row |= {"difference": difference, "low": low, "high": high}
        rows.append(row)
    extra = ["n_paired", "n_worse", "difference", "low", "high"]
    columns = ["strategy", "n", "mean", "sd", "size", "distinct_least", "distinct_most", *extra]
    return pd.DataFrame(rows, columns=columns)


def musk_rows(figures: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Give the runs the columns of the other studies, for the page over all data sets.

    Test costs are 1 - F1, whatever the search minimised: its own cost, 1 - recall, can be had
    by calling everything a musk. Of a split the runs of its main mode are taken.

    Returns
    -------
    DataFrame
        Two rows per run. "multiswarm": the cross-validated cost (1 - recall) of the best subset
        on the full model, and the test costs. "full": one model on all features, which no run
        cross-validates: it has no cost. `part` is the split, `resample` the seed.
    """
    values = figures[figures["metric"] == "f1"].pivot(
        index=["split", "mode", "seed"], columns="contender", values="value"
    )
    by_run = values.to_dict("index")
    rows = []
    for split in runs["split"].unique():
        for run in _of(runs, split, main_mode(runs, split)).to_dict("records"):
            f1 = by_run.get((split, run["mode"], run["seed"]), {})
            common = {
                "part": split,
                "dataset": "musk",
                "resample": run["seed"],
                "seed": run["seed"],
                "n_available": run["n_available"],
                "reason": "",
                "seconds_algorithm": math.nan,
                "plan": "",
            }
            chosen = {
                **{name: run[name] for name in ("cost", "size", *_COUNTS)},
                "strategy": "multiswarm",
                "seconds_evaluation": run["seconds"],
                **{column: 1 - f1.get(name, math.nan) for column, name in _TEST_COSTS.items()},
            }
            everything = {
                **dict.fromkeys(_COUNTS, 0),
                "strategy": "full",
                "size": run["n_available"],
                "test_cost": 1 - f1.get("all_features", math.nan),
            }
            rows += [common | chosen, common | everything]
    return pd.DataFrame(rows).reindex(columns=list(COLUMNS))


_COUNTS = ("evaluations", "distinct", "fits", "epochs")
_TEST_COSTS = {
    "test_cost": "best_subset",
    "test_ensemble": "ensemble",
    "test_all_ensemble": "all_features_ensemble",
    "test_random": "random_subsets",
}


def _of(rows: pd.DataFrame, split: str, mode: str | None) -> pd.DataFrame:
    return rows[(rows["split"] == split) & (rows["mode"] == mode)]
