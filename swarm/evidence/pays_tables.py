"""The numbers behind the page on where selection pays.

A cell is a model and a data set. Every difference is paired: both sides were trained and tested
on the rows of the same resample. A gain is the cost of the rival minus one's own, so that a
positive gain is good news.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.validation.resampled import corrected_t

__all__ = [
    "ALPHA",
    "BANDS",
    "CONTRASTS",
    "MODELS",
    "STRATEGIES",
    "average",
    "band",
    "counts",
    "duel",
    "gains",
    "holm",
    "in_order",
    "one_per_resample",
    "ranks_on_test",
]

Float = NDArray[np.float64]

ALPHA = 0.05
TEST_SHARE = 0.3
MODELS = MappingProxyType(
    {
        "nb": "Gaussian naive Bayes",
        "knn": "5-NN on standardised features",
        "lightgbm": "LightGBM",
    }
)
# Whose cost is subtracted from whose; "full." is the row of all features of the same resample.
CONTRASTS = MappingProxyType(
    {
        "subset": ("full.test_cost", "test_cost"),
        "ensemble": ("full.test_cost", "test_ensemble"),
        "vote": ("full.test_cost", "test_all_ensemble"),
        "ensemble_over_vote": ("test_all_ensemble", "test_ensemble"),
        "subset_over_random": ("test_random", "test_cost"),
        "ensemble_over_random": ("test_random", "test_ensemble"),
    }
)
# Training rows per feature: bounds of the bands, and what they are called.
BANDS = (
    (0.0, 5.0, "fewer than 5"),
    (5.0, 20.0, "5 to 20"),
    (20.0, math.inf, "20 or more"),
)
_KEY = ["part", "dataset", "resample", "strategy"]
_NUMBERS = [
    "cost",
    "size",
    "n_available",
    "evaluations",
    "seconds_algorithm",
    "seconds_evaluation",
    "test_cost",
    "test_ensemble",
    "test_all_ensemble",
    "test_random",
]
STRATEGIES = ("multiswarm", "two_d", "bpso", "genetic", "sffs", "rfe", "random")
_GAINS = ["part", "dataset", "strategy", "contrast", "n", "gain", "low", "high", "p"]


def in_order(found: Sequence[str], known: Sequence[str]) -> list[str]:
    """What was found, once each: the known first and in their order, then the rest by name."""
    names = set(found)
    return [name for name in known if name in names] + sorted(names - set(known))


def one_per_resample(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the seeds of a resample; one row per part, data set, resample and strategy.

    Parts and strategies come in a fixed order, whatever the order of the rows. Added columns:
    ``seconds`` (T1 + T2 of document 002), ``kept`` (share of the features) and ``optimism``
    (test cost minus CV cost), ``cv_gain`` (CV cost of all features minus one's own).
    """
    lacking = [name for name in [*_KEY, *_NUMBERS] if name not in rows.columns]
    if lacking:
        raise ValueError(f"rows must have the column {lacking[0]!r}")
    # A search on all rows has no test rows, so it has no place here.
    table = rows[rows["resample"] >= 0].groupby(_KEY, as_index=False, sort=True)[_NUMBERS].mean()
    if table.empty:
        return table
    table["seconds"] = table["seconds_algorithm"] + table["seconds_evaluation"]
    table["kept"] = table["size"] / table["n_available"]
    table["optimism"] = table["test_cost"] - table["cost"]
    full = table[table["strategy"] == "full"].set_index(_KEY[:3])["cost"]
    rival = table[_KEY[:3]].join(full.rename("rival"), on=_KEY[:3])["rival"]
    table["cv_gain"] = rival - table["cost"]
    parts = in_order(list(table["part"]), list(MODELS))
    strategies = ["full", *in_order(list(table["strategy"]), STRATEGIES)]
    place = pd.DataFrame(
        {
            "part": table["part"].map(parts.index),
            "dataset": table["dataset"].str.casefold(),
            "strategy": table["strategy"].map(strategies.index),
            "resample": table["resample"],
        }
    )
    order = place.sort_values(list(place.columns), kind="stable").index
    return table.loc[order].reset_index(drop=True)


def average(table: pd.DataFrame) -> pd.DataFrame:
    """Mean of each number per part, data set and strategy, with `n` resamples."""
    grouped = table.groupby(["part", "dataset", "strategy"], sort=False)
    names = [*_NUMBERS, "seconds", "kept", "optimism", "cv_gain"]
    return grouped[names].mean().assign(n=grouped.size()).reset_index()


def gains(table: pd.DataFrame, facts: Mapping[str, Any]) -> pd.DataFrame:
    """Test every contrast of every strategy on every cell.

    Parameters
    ----------
    table : DataFrame
        Of :func:`one_per_resample`.
    facts : mapping
        ``sets`` tells the rows of the data sets.

    Returns
    -------
    DataFrame
        part, dataset, strategy, contrast, n, gain, low, high, p, p_holm, verdict. The interval is
        of 95 % and for itself; `p_holm` is corrected by Holm over the data sets of one part,
        strategy and contrast. `verdict`: ``helps``, ``hurts``, ``open`` (not told apart) or
        ``untested`` (fewer than two resamples).
    """
    full = table[table["strategy"] == "full"].set_index(_KEY[:3])["test_cost"]
    searched = table[table["strategy"] != "full"]
    joined = searched.join(full.rename("full.test_cost"), on=_KEY[:3])
    found = []
    for keys, group in joined.groupby(["part", "dataset", "strategy"], sort=False):
        for contrast, (rival, own) in CONTRASTS.items():
            row = _tested((group[rival] - group[own]).to_numpy(), str(keys[1]), facts)
            if row["n"]:
                found.append(
                    dict(zip(_GAINS[:3], keys, strict=True)) | {"contrast": contrast} | row
                )
    return _judged(pd.DataFrame(found, columns=_GAINS))


def duel(table: pd.DataFrame, facts: Mapping[str, Any], own: str, rival: str) -> pd.DataFrame:
    """Test the best subsets of one strategy against those of another; columns of :func:`gains`."""
    costs = table[table["strategy"].isin([own, rival])].pivot(
        index=_KEY[:3], columns="strategy", values="test_cost"
    )
    if own not in costs or rival not in costs:
        return _judged(pd.DataFrame(columns=_GAINS))
    difference = (costs[rival] - costs[own]).rename("gain").dropna().reset_index()
    cells = difference.groupby(_KEY[:2], sort=False)["gain"]
    found = [
        dict(zip(_GAINS[:2], keys, strict=True))
        | {"strategy": own, "contrast": f"over_{rival}"}
        | _tested(group.to_numpy(), str(keys[1]), facts)
        for keys, group in cells
    ]
    return _judged(pd.DataFrame(found, columns=_GAINS))


def counts(table: pd.DataFrame) -> dict[str, int]:
    """How many cells of :func:`gains` have each verdict."""
    found = table["verdict"].value_counts()
    return {name: int(found.get(name, 0)) for name in ("helps", "hurts", "open", "untested")}


def ranks_on_test(averages: pd.DataFrame) -> tuple[pd.Series[float], int]:
    """Average rank of the strategies by mean test cost, and over how many cells.

    Only strategies that are in as many cells as any other are ranked, and only in the cells
    that all of them are in with equally many resamples: ranks of different rows would not compare.
    """
    searched = averages[(averages["strategy"] != "full") & averages["test_cost"].notna()]
    present = searched["strategy"].value_counts()
    rivals = present[present == present.max()].index
    costs, runs = (
        searched[searched["strategy"].isin(rivals)].pivot(
            index=["part", "dataset"], columns="strategy", values=name
        )
        for name in ("test_cost", "n")
    )
    even = costs.notna().all(axis=1) & (runs.nunique(axis=1) == 1)
    if not even.any():
        even = costs.notna().any(axis=1)
    # Ties of equal means must not be broken by the last bit of a sum.
    ranks = costs[even].round(12).rank(axis=1).mean()
    return ranks.sort_values(kind="stable"), int(even.sum())


def band(dataset: str, columns: float, facts: Mapping[str, Any]) -> str | None:
    """Name of the band of training rows per feature, None if the rows are not known."""
    rows = facts.get("sets", {}).get(dataset, {}).get("rows")
    if rows is None or not columns > 0:
        return None
    ratio = (1 - TEST_SHARE) * rows / columns
    return next(name for low, high, name in BANDS if low <= ratio < high)


def holm(p: Float) -> Float:
    """Holm's step-down adjusted p-values of one family, as `statsmodels` gives them.

    Written out because `multipletests` collects garbage on every call, which a page of some
    hundred small families cannot afford.
    """
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _tested(differences: Float, dataset: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    known = differences[np.isfinite(differences)]
    # Costs are shares of rows: what differs by less is equal but for rounding.
    known = np.where(np.abs(known) < 1e-12, 0.0, known)
    mean = float(known.mean()) if len(known) else math.nan
    row = {"n": len(known), "gain": mean, "low": math.nan, "high": math.nan, "p": math.nan}
    if len(known) < 2:
        return row
    # The test needs the ratio of the two only, which the share gives where rows are not known.
    rows = facts.get("sets", {}).get(dataset, {}).get("rows")
    n_test = math.ceil(TEST_SHARE * rows) if rows else TEST_SHARE
    n_train = rows - n_test if rows else 1 - TEST_SHARE
    test = corrected_t(known, n_train, n_test)
    return row | {"gain": test.mean, "low": test.low, "high": test.high, "p": test.p}


def _judged(table: pd.DataFrame) -> pd.DataFrame:
    """Correct the p-values of each family over its data sets, and give the verdicts."""
    table = table.assign(p_holm=math.nan, verdict="untested")
    for _, family in table.groupby(["part", "strategy", "contrast"], sort=False):
        index = family.index[family["p"].notna()]
        adjusted = holm(table.loc[index, "p"].to_numpy(dtype=np.float64))
        sign = np.where(table.loc[index, "gain"] > 0, "helps", "hurts")
        table.loc[index, "p_holm"] = adjusted
        table.loc[index, "verdict"] = np.where(adjusted < ALPHA, sign, "open")
    return table
