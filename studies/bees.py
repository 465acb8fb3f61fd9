"""The multi-label comparison of Matijević (2022) again, and single-label swarms on the same budget.

The paper's section 5: features in 10 bins, the share of rows whose labels are all right, ML-kNN on
one testing part, 500 evaluations, 30 runs; the parameters of its table 1 are the strategies'
defaults. It does not say how many features a subset has, so there are several parts: the strategies
choose (``free``), or every subset has a half, a quarter or a tenth of the features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conf.sections import BudgetSection, ModelSection, SpaceSection, StrategySection
from studies import page as pages
from studies.runner import Part, configured, facts_of, rows_of, section
from studies.tables import binned, find, read, written
from swarm.validation.location import rank_sum

# Our names of the paper's algorithms, and its own.
NAMES = {"mlaco": "ACO", "memetic": "MA", "bee_colony": "BCOi"}
_SWARMS = ("bpso", "two_d", "multiswarm", "genetic", "random")
_SHARES = {"tenth": 1 / 10, "quarter": 1 / 4, "half": 1 / 2}
_PARTS = (*_SHARES, "free")
_SETS = ("emotions", "birds", "yeast", "scene")
_RUNS, _RUNS_OTHERS = 30, 10
# Rows that the publishers of a data set train on come first in its table.
_PUBLISHED_TRAIN = {"emotions": 391, "scene": 1211}


def parts(
    data: Path,
    work: Path,
    only: list[str] | None = None,
    *,
    runs: int = _RUNS,
    runs_others: int = _RUNS_OTHERS,
    evaluations: int = 500,
) -> list[Part]:
    """Lay out the searches; `runs_others` are those of fixed sizes and of single-label swarms."""
    rivals = {name: StrategySection(name=name) for name in (*NAMES, "full")}
    swarms = {name: section(name) for name in _SWARMS}
    many, few = tuple(range(runs)), tuple(range(runs_others))
    listed = []
    for name, path in find(data, multilabel=True, only=only, first=_SETS).items():
        table = binned(read(path))
        tested, note = _test_rows(name, len(table))
        source, folds = written(work / "tables", f"{name}-binned", table.assign(fold=tested))
        config = configured(
            name,
            data=source,
            folds=folds,
            model=ModelSection(estimator="swarm.MLkNN"),
            scoring="subset_accuracy",
            budget=BudgetSection(epochs=None, evaluations=evaluations),
        )
        listed.append(Part("free", name, config, rivals, many, note=note))
        listed.append(Part("free", name, config, swarms, few, note=note))
        for kind, share in _SHARES.items():
            size = max(1, round(sum(not column.startswith("label_") for column in table) * share))
            space = SpaceSection(min_size=size, max_size=size)
            sized = {
                rival: StrategySection(
                    name=rival, params={} if rival == "memetic" else {"size": size}
                )
                for rival in NAMES
            }
            own = config.model_copy(update={"space": space})
            listed.append(Part(kind, name, own, sized, few, note=note))
    return sorted(listed, key=lambda part: ("free", *_SHARES).index(part.name))


def _test_rows(name: str, n_rows: int) -> tuple[pd.Series[Any], str]:
    """Say which rows are the testing part: those of the publishers, or a third at random."""
    rows = np.arange(n_rows)[_PUBLISHED_TRAIN.get(name, n_rows) :]
    note = f"tested on the {len(rows)} rows that are published for it"
    if not len(rows):
        rows = np.random.default_rng(0).permutation(n_rows)[: n_rows // 3]
        note = f"tested on {len(rows)} rows drawn at random"
    return pd.Series("test", rows, dtype=object).reindex(range(n_rows), fill_value=None), note


def summary_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy, its SD, and sizes, a row per part, data set and strategy."""
    table = rows.assign(accuracy=1.0 - rows["cost"])
    cells = table.groupby(["part", "dataset", "strategy"])
    summary = cells.agg(
        runs=("cost", "size"),
        accuracy=("accuracy", "mean"),
        sd=("accuracy", "std"),
        size=("size", "mean"),
        smallest=("size", "min"),
        largest=("size", "max"),
        n_available=("n_available", "first"),
    )
    # Ties must stay ties, whatever the last bit of a mean.
    rounded = summary["accuracy"].round(12).groupby(level=[0, 1])
    return summary.assign(rank=rounded.rank(ascending=False)).reset_index()


def tests_of(rows: pd.DataFrame) -> pd.DataFrame:
    """BCOi against every strategy with two runs or more, by Wilcoxon's rank sum, uncorrected."""
    found = []
    for (part, dataset), own in rows.groupby(["part", "dataset"]):
        runs = {name: 1.0 - cell["cost"].to_numpy() for name, cell in own.groupby("strategy")}
        bees = runs.pop("bee_colony")
        for other, theirs in runs.items():
            if min(len(bees), len(theirs)) < 2:
                continue
            shift = rank_sum(bees, theirs)
            # With many ties the estimate may be 0 although the ranks lie apart.
            towards = shift.estimate or float(bees.mean() - theirs.mean())
            sign = int(np.sign(towards)) if shift.p < 0.05 else 0
            found.append({"part": part, "dataset": dataset, "other": other} | vars(shift))
            found[-1] |= {"sign": sign, "n": len(bees), "n_other": len(theirs)}
    return pages.in_order(pd.DataFrame(found), part=_PARTS, dataset=_SETS)


def section_of(out: Path) -> pages.Section:
    """Fill the section in."""
    rows, facts = rows_of("bees", out).read(), facts_of("bees", out)
    summary, tests = summary_of(rows), tests_of(rows)
    published = pd.read_csv(pages.PUBLISHED / "bees.csv")
    ours = summary[summary["strategy"].isin(list(NAMES))]
    free = summary[summary["part"] == "free"]
    three = tests["other"].isin(list(NAMES))
    datasets = [name for name in _SETS if name in facts["sets"]]
    values = {
        "names": NAMES,
        "datasets": datasets,
        "cells": summary.set_index(["dataset", "part", "strategy"]).sort_index(),
        "means": ours.pivot(index=["part", "dataset"], columns="strategy", values="accuracy"),
        "published": published.set_index(["dataset", "strategy"]),
        "ranks": free.groupby("strategy")["rank"].mean().sort_values(kind="stable"),
        "tests": tests,
        "three": tests[three],
        "single": tests[~three].set_index("other"),
        "missing": pages.unfinished(
            rows[rows["strategy"].isin(list(NAMES))],
            dict.fromkeys(_SHARES, _RUNS_OTHERS) | {"free": _RUNS},
        ),
    }
    return pages.Section(values, {"bees_summary": summary, "bees_tests": tests})


if __name__ == "__main__":
    pages.command("bees", section_of, parts)
