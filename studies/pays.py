"""Where selection pays: every single-label data set, three models, rows that no search saw."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from conf.sections import BudgetSection, FoldsSection, ModelSection, SplitSection, StepSection
from studies import page as pages
from studies.runner import Part, configured, facts_of, rows_of, section
from studies.tables import complete, find, read, written
from swarm.validation.comparison import holm

MODELS = {
    "nb": "Gaussian naive Bayes",
    "knn": "5-NN on standardised features",
    "lightgbm": "LightGBM",
}
_STRATEGIES = ("multiswarm", "two_d", "bpso", "genetic", "sffs", "random", "full")
_FEWER = ("multiswarm", "sffs", "random", "full")
_SECTIONS = {
    "nb": ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
    "knn": ModelSection(
        estimator="sklearn.neighbors.KNeighborsClassifier",
        params={"n_neighbors": 5},
        steps=[StepSection(transformer="sklearn.preprocessing.StandardScaler")],
    ),
    "lightgbm": ModelSection(
        estimator="lightgbm.LGBMClassifier",
        params={"n_estimators": 40, "num_leaves": 8, "min_child_samples": 5, "verbosity": -1},
    ),
}
# Rows and columns that two cores can carry within an hour.
_MOST = {"nb": (10_000, 1_000), "knn": (1_000, 400), "lightgbm": (600, 100)}
# Musk has a study of its own; the others have too few rows of a class to test on.
_LEFT_OUT = ("musk_v2", "lung_cancer", "zoo")
_RUNS = {"nb": 10, "knn": 10, "lightgbm": 5}
_KEYS = ["part", "dataset", "strategy"]
# Whose cost is subtracted from whose; "full" is the cost of all features on the same test rows.
_CONTRASTS = {
    "subset": ("full", "test_cost"),
    "ensemble": ("full", "test_ensemble"),
    "vote": ("full", "test_all_ensemble"),
    "ensemble_over_vote": ("test_all_ensemble", "test_ensemble"),
    "subset_over_random": ("test_random", "test_cost"),
    "ensemble_over_random": ("test_random", "test_ensemble"),
}


def parts(
    data: Path,
    work: Path,
    only: list[str] | None = None,
    *,
    resamples: int = 10,
    resamples_trees: int = 5,
    distinct: int = 1000,
    distinct_trees: int = 200,
) -> list[Part]:
    """Lay out the searches; each resample is a part of its own."""
    listed = []
    for name, path in find(data, multilabel=False, only=only, without=_LEFT_OUT).items():
        table, note = complete(read(path))
        source, _ = written(work / "tables", f"{name}-whole", table)
        folds = FoldsSection(kind="stratified", n_folds=5, seed=0)
        for model, (most_rows, most_columns) in _MOST.items():
            if len(table) > most_rows or table.shape[1] - 1 > most_columns:
                continue
            trees = model == "lightgbm"
            strategies = {label: section(label) for label in (_FEWER if trees else _STRATEGIES)}
            limit = distinct_trees if trees else distinct
            for resample in range(resamples_trees if trees else resamples):
                own = configured(
                    name,
                    data=source,
                    folds=folds,
                    model=_SECTIONS[model],
                    budget=BudgetSection(epochs=None, distinct=limit),
                    split=SplitSection(kind="stratified", test_size=0.3, seed=resample),
                )
                part = Part(model, name, own, strategies, (resample,), resample, True, trees, note)
                listed.append(part)
    return sorted(listed, key=lambda part: list(_MOST).index(part.name))


def gains_of(rows: pd.DataFrame, sizes: dict[str, int]) -> pd.DataFrame:
    """Test every contrast of every strategy on every data set and model.

    The interval is of 95 % and for itself; `p_holm` is corrected over the data sets of one part,
    strategy and contrast. `verdict` is ``helps``, ``hurts`` or ``open``, by `p_holm` below 0.05.
    """
    costs = rows.set_index([*_KEYS, "resample"])
    full = costs.xs("full", level="strategy")["test_cost"]
    costs = costs.drop(index="full", level="strategy")
    costs["full"] = full.reindex(costs.index.droplevel("strategy")).to_numpy()
    pairs = {name: costs[rival] - costs[own] for name, (rival, own) in _CONTRASTS.items()}
    # The best subset of one strategy against that of random search.
    plain = costs["test_cost"].xs("random", level="strategy")
    rival = plain.reindex(costs.index.droplevel("strategy")).to_numpy()
    pairs["over_random_search"] = (rival - costs["test_cost"]).drop(index="random", level=2)
    gains = pd.concat(pairs, names=["contrast"])
    tested = {name: math.ceil(0.3 * n) for name, n in sizes.items()}
    split = {name: (n - tested[name], tested[name]) for name, n in sizes.items()}
    table = pages.corrected_gains(gains, split).rename(columns={"mean": "gain"}).reset_index()
    families = table.groupby(["part", "strategy", "contrast"])["p"]
    table["p_holm"] = families.transform(lambda p: holm(p)[0])
    table["verdict"] = "open"
    clear = table["p_holm"] < 0.05
    table.loc[clear, "verdict"] = table["gain"].gt(0).map({True: "helps", False: "hurts"})
    datasets = sorted(set(table["dataset"]))
    return pages.in_order(table, part=MODELS, dataset=datasets, strategy=_STRATEGIES)


def averages_of(rows: pd.DataFrame, sizes: dict[str, int]) -> pd.DataFrame:
    """Mean costs, sizes and seconds over the resamples, a row per part, data set and strategy."""
    table = rows.assign(
        seconds=rows["seconds_algorithm"] + rows["seconds_evaluation"],
        kept=rows["size"] / rows["n_available"],
        optimism=rows["test_cost"] - rows["cost"],
    )
    tests = ["test_cost", "test_ensemble", "test_all_ensemble", "test_random"]
    numbers = ["n_available", "size", "kept", "cost", *tests, "optimism", "evaluations", "seconds"]
    means = table.groupby(_KEYS)[numbers].mean().reset_index()
    full = means[means["strategy"] == "full"].set_index(_KEYS[:2])["cost"]
    means["cv_gain"] = means.join(full.rename("full"), on=_KEYS[:2])["full"] - means["cost"]
    per_feature = 0.7 * means["dataset"].map(sizes) / means["n_available"]
    bands = ["fewer than 5", "5 to 20", "20 or more"]
    means["band"] = pd.cut(per_feature, [0, 5, 20, float("inf")], right=False, labels=bands)
    return means


def section_of(out: Path) -> pages.Section:
    """Fill the section in."""
    rows, facts = rows_of("pays", out).read(), facts_of("pays", out)
    sizes = {name: int(one["rows"]) for name, one in facts["sets"].items()}
    gains, means = gains_of(rows, sizes), averages_of(rows, sizes)
    # By test cost, of the strategies that are in all cells.
    searched = means[means["strategy"] != "full"]
    wide = searched.pivot(index=_KEYS[:2], columns="strategy", values="test_cost").dropna(axis=1)
    # Ties of equal means must not be broken by the last bit of a sum.
    ranks = wide.round(12).rank(axis=1).mean().sort_values(kind="stable")
    best = str(ranks.index[0])
    cells = gains.merge(means, on=_KEYS)
    own = cells[cells["strategy"] == best]
    subsets = own[own["contrast"] == "subset"]
    counted = cells.groupby(["part", "strategy", "contrast"], sort=False)
    counts = {name: _counts(group) for name, group in counted}
    values = {
        "models": MODELS,
        "best": best,
        "n": rows.groupby("part")["resample"].nunique(),
        "subsets": subsets,
        "everything": gains[gains["contrast"].isin(["subset", "ensemble"])],
        "counts": counts,
        "contrasts": {name: _counts(group) for name, group in own.groupby("contrast")},
        "bands": {name: _counts(group) for name, group in subsets.groupby("band", observed=True)},
        "secom": float(subsets.loc[subsets["dataset"] == "secom", "test_cost"].iloc[0]),
        "missing": pages.unfinished(rows, _RUNS),
    }
    names = ["part", "strategy", "contrast"]
    table = pd.DataFrame.from_dict(counts, orient="index").drop(columns="sets")
    table = table.rename_axis(names).reset_index()
    tables = {
        "pays_gains": gains,
        "pays_means": means.drop(columns="band"),
        "pays_counts": table,
    }
    return pages.Section(values, tables)


def _counts(cells: pd.DataFrame) -> dict[str, Any]:
    """Verdicts of some cells, and means over them."""
    verdicts = {name: int((cells["verdict"] == name).sum()) for name in ("helps", "hurts", "open")}
    means = cells[["gain", "cv_gain", "kept"]].mean()
    return {**verdicts, "n": len(cells), "sets": sorted(set(cells["dataset"])), **means}


if __name__ == "__main__":
    pages.command("pays", section_of, parts)
