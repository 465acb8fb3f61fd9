"""Whether what a search gains in cross-validation is still there on rows it never saw."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.evidence.page import markdown_table
from swarm.evidence.published import ALGORITHMS, DATASETS
from swarm.evidence.two_d_tables import algorithms_of, datasets_of

__all__ = ["gains_of", "nested_section"]

LEVEL = 0.95
# Share of the rows that a resample keeps for testing.
_TEST_SHARE = 0.3
_HEADER = (
    "Data set",
    "Algorithm",
    "n",
    "All: CV",
    "All: test",
    "CV gain",
    "Test gain",
    "95 % interval",
    "p",
)


def gains_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Gain of each algorithm over all features, in cross-validation and on the test rows.

    Parameters
    ----------
    rows : DataFrame
        Rows of the part ``nested``; a resample without a row of ``full`` or without a test cost
        is left out.

    Returns
    -------
    DataFrame
        One row per data set and algorithm with two resamples or more: dataset, strategy,
        resamples, full_cv, full_test, cv_gain, test_gain (drops of the mean error), and low, high,
        p of the corrected resampled t-test of the test gain, p_holm over all of them.
    """
    from statsmodels.stats.multitest import multipletests

    from swarm.validation.resampled import corrected_t

    means: Any = rows.groupby(["dataset", "strategy", "resample"])[["cost", "test_cost"]].mean()
    found: list[dict[str, Any]] = []
    for dataset in datasets_of(rows):
        for strategy in algorithms_of(rows):
            if not {(dataset, "full"), (dataset, strategy)} <= set(means.index.droplevel(2)):
                continue
            full, best = means.loc[(dataset, "full")], means.loc[(dataset, strategy)]
            gain = (full - best).dropna().sort_index()
            if len(gain) < 2:
                continue
            differences = gain["test_cost"].to_numpy()
            # The test asks for the ratio of the two only, which is the same on every data set.
            judged = corrected_t(differences, 1 - _TEST_SHARE, _TEST_SHARE, LEVEL)
            found.append(
                {
                    "dataset": dataset,
                    "strategy": strategy,
                    "resamples": len(gain),
                    "full_cv": float(full["cost"].loc[gain.index].mean()),
                    "full_test": float(full["test_cost"].loc[gain.index].mean()),
                    "cv_gain": float(gain["cost"].mean()),
                    "test_gain": judged.mean,
                    "low": judged.low,
                    "high": judged.high,
                    "p": judged.p,
                }
            )
    if not found:
        return pd.DataFrame()
    gains = pd.DataFrame(found)
    return gains.assign(p_holm=multipletests(gains["p"].to_numpy(), 1 - LEVEL, method="holm")[1])


def nested_section(gains: pd.DataFrame, figure: str) -> str:
    """Write the section of the page.

    Parameters
    ----------
    gains : DataFrame
        See `gains_of`; may be empty.
    figure : str
        Name of the file of the figure.
    """
    title = "## Does the gain survive on held-out rows\n\n"
    if gains.empty:
        return title + "There are no searches on resamples yet.\n"
    low, high = int(gains["resamples"].min()), int(gains["resamples"].max())
    count = f"{low}" if low == high else f"{low} to {high}"
    start = (
        "The document judges a subset by the error that the search has minimised. Here each data"
        f" set is split {count} times at random, 70 % and 30 % of each class; the search sees only"
        " the 70 %, with naive Bayes and 10 folds, and one model of its best subset is then tried"
        " on the 30 %. A gain is the error of all features less that of the subset. Intervals"
        " (95 %) and p of the test gain are those of the corrected resampled t-test (Nadeau and"
        " Bengio 2003), since resamples share rows.\n\n"
    )
    table = markdown_table(
        _HEADER,
        [
            [
                DATASETS.get(row["dataset"], row["dataset"]),
                ALGORITHMS[row["strategy"]],
                row["resamples"],
                f"{row['full_cv']:.4f}",
                f"{row['full_test']:.4f}",
                f"{row['cv_gain']:+.4f}",
                f"{row['test_gain']:+.4f}",
                f"{row['low']:+.4f} to {row['high']:+.4f}",
                "< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}",
            ]
            for row in gains.to_dict("records")
        ],
        "llrrrrrrr",
    )
    picture = (
        f"\n![Gain on the test rows against the gain in cross-validation](figures/{figure})\n\n"
        "A dot is one algorithm on one data set; on the dashed line nothing of the gain is lost.\n"
    )
    return title + start + survival(gains) + "\n\n" + table + picture


def survival(gains: pd.DataFrame) -> str:
    """Say what is left of the gain, and on how many pairs it can be told from none."""
    cv, test, n = float(gains["cv_gain"].mean()), float(gains["test_gain"].mean()), len(gains)
    alpha = 1 - LEVEL
    clear = gains["p"] < alpha
    up, down = (
        int((clear & (gains["test_gain"] > 0)).sum()),
        int((clear & (gains["test_gain"] < 0)).sum()),
    )
    holm = int((gains["p_holm"] < alpha).sum())
    left = (
        f"**Of the mean gain in cross-validation ({cv:.4f}), {100 * test / cv:.0f} % is left on the"
        f" test rows ({test:+.4f}).**"
        if cv > 0
        else f"There is no mean gain in cross-validation ({cv:+.4f}; on the test rows {test:+.4f})."
    )
    return (
        f"{left} The test gain can be told from none on {up + down} of {n} pairs of data set and"
        f" algorithm ({up} better than all features, {down} worse), and on {holm} once p is"
        f" corrected for {n} tests (Holm). On {int((gains['test_gain'] < gains['cv_gain']).sum())}"
        f" of {n} pairs the test gain is smaller than the gain in cross-validation."
    )
