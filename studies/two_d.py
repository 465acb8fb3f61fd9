"""The comparison of Hafiz et al. (2018) again, and what is left of its gains on unseen rows.

The paper minimises the mean error over 10 stratified folds of naive Bayes and of 5-NN, with 6,000
evaluations a run and 40 runs; the parameters of its table 2 are the strategies' defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import spearmanr, ttest_1samp

from conf.sections import (
    BudgetSection,
    EvaluationSection,
    FoldsSection,
    ModelSection,
    SplitSection,
    StrategySection,
)
from studies import page as pages
from studies.runner import Part, configured, rows_of
from studies.tables import complete, find, read, with_folds, written
from swarm.validation.comparison import critical_difference, holm

# Our names of the algorithms, and those of the paper, in its order.
ALGORITHMS = {
    "genetic": "GA",
    "ant_colony": "ACO",
    "bpso": "BPSO",
    "catfish": "CBPSO",
    "erfs": "ErFS",
    "pso42": "PSO-42",
    "chaotic": "chBPSO",
    "two_d": "2D-UPSO",
}
CLASSIFIERS = {"nb": "naive Bayes", "knn": "5-NN"}
_TIMED = ["genetic", "ant_colony", "bpso", "two_d"]
_SETS = pd.read_csv(pages.PUBLISHED / "two_d_sets.csv", index_col="dataset")
_RESAMPLED = ("vehicle", "german_numeric", "wdbc", "ionosphere", "sonar")
_RUNS = {"nb": 40, "knn": 10, "nested": 20}
_MODELS = {
    "nb": ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
    "knn": ModelSection(
        estimator="sklearn.neighbors.KNeighborsClassifier", params={"n_neighbors": 5}
    ),
}
# Distances cost a square of the rows: more than this many, and 5-NN is left out.
_MOST_ROWS = 1000
_KEYS = ["part", "dataset", "strategy"]


def parts(
    data: Path,
    work: Path,
    only: list[str] | None = None,
    *,
    runs: int = 40,
    runs_knn: int = 10,
    resamples: int = 20,
    evaluations: int = 6000,
) -> list[Part]:
    """Lay out the searches: both models on all rows, then naive Bayes on resamples."""
    strategies = {name: StrategySection(name=name) for name in (*ALGORITHMS, "full")}
    listed = []
    there = find(data, multilabel=False, only=only, first=_SETS.index, without=("musk_v2",))
    for name, path in there.items():
        table, note = complete(read(path))
        source, folds = written(work / "tables", name, with_folds(table, 10))
        config = configured(
            name,
            data=source,
            folds=folds,
            budget=BudgetSection(epochs=None, evaluations=evaluations),
            evaluation=EvaluationSection(n_jobs=1, importance="none"),
        )
        for kind, seeds in (("nb", runs), ("knn", runs_knn)):
            if seeds and (kind == "nb" or len(table) <= _MOST_ROWS):
                own = config.model_copy(update={"model": _MODELS[kind]})
                listed.append(Part(kind, name, own, strategies, tuple(range(seeds)), note=note))
        if name in _RESAMPLED:
            # The column of folds covers all rows; training rows get folds of their own.
            source = source.model_copy(update={"drop": ["fold"]})
            for resample in range(resamples):
                sections = {
                    "model": _MODELS["nb"],
                    "data": source,
                    "folds": FoldsSection(kind="stratified", n_folds=10, seed=0),
                    "split": SplitSection(kind="stratified", test_size=0.3, seed=resample),
                }
                own = config.model_copy(update=sections)
                part = Part("nested", name, own, strategies, (resample,), resample, note=note)
                listed.append(part)
    return sorted(listed, key=lambda part: list(_RUNS).index(part.name))


def summary_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures of the paper's tables 3 to 9, ours and published, a row per part, set, algorithm."""
    both = rows[rows["part"].isin(list(CLASSIFIERS))]
    searches = both[both["strategy"].isin(list(ALGORITHMS))]
    table = searches.groupby(_KEYS).agg(
        runs=("cost", "size"),
        mean=("cost", "mean"),
        sd=("cost", "std"),
        size=("size", "mean"),
        n_available=("n_available", "max"),
        t1=("seconds_algorithm", "mean"),
        t2=("seconds_evaluation", "mean"),
        distinct=("distinct", "mean"),
    )
    full = both[both["strategy"] == "full"].set_index(_KEYS[:2])["cost"]
    table = table.join(full.rename("full"))
    table["improvement"] = 100 * (table["full"] - table["mean"]) / table["full"]
    table["rank"], table["size_rank"] = _ranks(table["mean"]), _ranks(table["size"])
    table["sign"] = _signs(searches)
    published = pd.read_csv(pages.PUBLISHED / "two_d.csv").set_index(_KEYS)
    table = table.join(published.add_prefix("published_")).reset_index()
    datasets = [*_SETS.index, *sorted(set(table["dataset"]))]
    return pages.in_order(table, part=CLASSIFIERS, dataset=datasets, strategy=ALGORITHMS)


def _ranks(values: pd.Series[float]) -> pd.Series[float]:
    """Rank the algorithms where all have runs; equal ones share the smallest rank, as published."""
    wide = values.unstack("strategy").dropna()
    # Means of folds differ in their last bits.
    return wide.round(10).rank(axis=1, method="min").stack()


def _signs(searches: pd.DataFrame) -> pd.Series[str]:
    """Paired t-tests of 2D-UPSO by seed, 95 %: better, worse, every pair equal, or undecided."""
    wide = searches.pivot(index=[*_KEYS[:2], "seed"], columns="strategy", values="cost")
    signs = {}
    for other in [name for name in wide if name != "two_d"]:
        pairs = (wide[other] - wide["two_d"]).dropna().round(10)
        for (part, dataset), gaps in pairs.groupby(level=[0, 1]):
            if len(gaps) < 2:
                continue
            undecided = gaps.nunique() > 1 and ttest_1samp(gaps, 0.0).pvalue >= 0.05
            sign = ("+" if gaps.mean() > 0 else "-") if gaps.any() else "="
            signs[part, dataset, other] = "?" if undecided else sign
    return pd.Series(signs, dtype=object)


def gains_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Gains over all features on resamples: in cross-validation, and on the test rows."""
    nested = rows[rows["part"] == "nested"].set_index(["dataset", "strategy", "resample"])
    costs = nested[["cost", "test_cost"]]
    full = costs.xs("full", level="strategy")
    searched = costs.drop(index="full", level="strategy")
    aligned = full.reindex(searched.index.droplevel("strategy")).set_axis(searched.index)
    gains = aligned - searched
    table = pages.corrected_gains(gains["test_cost"]).rename(columns={"mean": "test_gain"})
    table.insert(0, "cv_gain", gains["cost"].groupby(level=[0, 1]).mean())
    table["p_holm"] = holm(table["p"])[0]
    order = pd.MultiIndex.from_product([_RESAMPLED, list(ALGORITHMS)], names=table.index.names)
    return table.reindex(order.intersection(table.index)).reset_index()


def section_of(out: Path) -> pages.Section:
    """Fill the section in."""
    rows = rows_of("two-d", out).read()
    summary, gains = summary_of(rows), gains_of(rows)
    nb, knn = (_classifier(summary[summary["part"] == part]) for part in CLASSIFIERS)
    values = {
        "nb": nb,
        "knn": knn,
        "missing": pages.unfinished(rows, _RUNS),
        "gains": gains,
    }
    columns = ["average", "published", "rank", "improvement", "kept"]
    ranks = {
        part: pd.DataFrame({name: found[name] for name in columns})
        for part, found in zip(CLASSIFIERS, (nb, knn), strict=True)
    }
    tables = {
        "two_d_summary": summary,
        "two_d_nested": gains,
        "two_d_ranks": pd.concat(ranks, names=["part", "strategy"]).reset_index(),
    }
    return pages.Section(values, tables)


def _classifier(table: pd.DataFrame) -> dict[str, Any]:
    """What one classifier's rows say of the paper's claims; counts are (of, n)."""

    def wide(name: str) -> pd.DataFrame:
        frame = table.pivot(index="dataset", columns="strategy", values=name)
        return frame.reindex(index=table["dataset"].unique(), columns=list(ALGORITHMS))

    def ranked(name: str) -> pd.Series[float]:
        """Average over the data sets where every algorithm has runs."""
        return wide(name).loc[rank.index].rank(axis=1, method="min").mean()

    def lowest(frame: pd.DataFrame) -> tuple[int, int]:
        """On how many sets 2D-UPSO has the lowest value, alone or with others."""
        whole = frame.dropna().round(10)
        return int((whole["two_d"] == whole.min(axis=1)).sum()), len(whole)

    rank, mean = wide("rank").dropna(), wide("mean").round(10)
    average, published = rank.mean(), ranked("published_rank")
    # Nemenyi's test has mean ranks for ties.
    nemenyi = mean.loc[rank.index].rank(axis=1).mean()
    critical = critical_difference(len(ALGORITHMS), len(rank))
    behind = nemenyi[nemenyi - nemenyi["two_d"] > critical].rename(ALGORITHMS).index
    t2 = wide("t2")[_TIMED].dropna()
    improvement, signs = wide("improvement"), table[table["sign"].notna()]
    return {
        "average": average,
        "published": published,
        "rank": average.round(10).rank(method="min").astype(int),
        "improvement": improvement.loc[rank.index].mean() / 100,
        "kept": (wide("size") / wide("n_available")).loc[rank.index].mean(),
        "improves": (int((improvement["two_d"] > 0).sum()), int(improvement["two_d"].count())),
        "beats": {
            name: (int((own["sign"] == "+").sum()), len(own))
            for name, own in signs.groupby("strategy")
        },
        "smallest": lowest(wide("size")),
        "t2": lowest(t2),
        "agreed": spearmanr(average, published),
        "agreed_size": spearmanr(ranked("size"), ranked("published_size_rank")),
        "behind": ", ".join(behind),
    }


if __name__ == "__main__":
    pages.command("two-d", section_of, parts)
