"""Document 004: BCOi, MA and ACO on labels, 500 evaluations, 30 runs; and single-label swarms.

Its section 5 gives the protocol: features in 10 bins, the share of rows whose labels are all
right, ML-kNN on the testing part of the data, 500 evaluations, parameters of its table 1, which
are the strategies' defaults. It does not say how many features a subset has, so there are several
parts: the strategies choose (``free``), or every subset has a half, a quarter or a tenth of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from conf.problem_sections import ModelSection, SpaceSection
from conf.run_sections import BudgetSection, EvaluationSection, StrategySection
from conf.schema import SelectConfig
from flows.evidence.part import Part, Study
from flows.evidence.tables import Found, binned, find, written
from swarm.errors import DataError

__all__ = ["bees"]

_ORDER = ("emotions", "birds", "yeast", "scene")
_RIVALS = ("mlaco", "memetic", "bee_colony")
_SWARMS = ("bpso", "two_d", "multiswarm", "genetic", "random")
_SHARES = {"half": 1 / 2, "quarter": 1 / 4, "tenth": 1 / 10}
# Rows that the publishers of a data set train on come first in its table.
_PUBLISHED_TRAIN = {"emotions": 391, "scene": 1211}
_TEST = "test"


def bees(
    data: Path | None,
    work: Path,
    *,
    runs: int = 30,
    runs_others: int = 10,
    evaluations: int = 500,
    datasets: list[str] | None = None,
) -> Study:
    """Lay out the study.

    Parameters
    ----------
    data : Path or None
        Folder of the data sets, see :func:`flows.evidence.tables.find`.
    work : Path
        Folder for the tables made from them.
    runs : int
        Runs of the document's three algorithms where they choose the size of their subsets.
    runs_others : int
        Runs where the size is fixed, and of the single-label swarms.
    evaluations : int
        Of each run.
    datasets : list of str, optional
        Names; default: those of the document, then whatever else with labels the folder has.
    """
    there = {name: found for name, found in find(data, datasets).items() if found.several}
    if not there:
        raise DataError(
            "there is no table with columns 'label_...' to search on; name a folder that has one"
            " with --data"
        )
    names = [name for name in _ORDER if name in there]
    names += [name for name in there if name not in names]
    parts = [
        part for name in names for part in _parts(there[name], work, runs, runs_others, evaluations)
    ]
    at_hand = find(data)
    missing = {name: "not at hand" for name in _ORDER if name not in at_hand}
    return Study("bees", sorted(parts, key=_by_part), missing)


def _by_part(part: Part) -> int:
    return ("free", *_SHARES).index(part.name)


def _parts(
    found: Found, work: Path, runs: int, runs_others: int, evaluations: int
) -> Iterator[Part]:
    table = binned(found.read())
    tested, note = _tested(found.name, len(table))
    data, folds = written(work, f"{found.name}-binned", table.assign(fold=tested))
    n_features = sum(not name.startswith("label_") for name in table.columns)
    config = SelectConfig(
        name=found.name,
        data=data,
        folds=folds,
        model=ModelSection(estimator="swarm.MLkNN"),
        scoring="subset_accuracy",
        budget=BudgetSection(epochs=None, evaluations=evaluations),
        evaluation=EvaluationSection(n_jobs=1),
    )
    rivals = {name: StrategySection(name=name) for name in _RIVALS}
    swarms = {name: StrategySection(name=name) for name in _SWARMS}
    full = {"full": StrategySection(name="full")}
    yield Part("free", found.name, config, rivals | full, tuple(range(runs)), note=note)
    yield Part("free", found.name, config, swarms, tuple(range(runs_others)), note=note)
    for share, part in _SHARES.items():
        size = max(1, round(n_features * part))
        exactly = config.model_copy(update={"space": SpaceSection(min_size=size, max_size=size)})
        sized = {
            name: StrategySection(name=name, params={"size": size} if name != "memetic" else {})
            for name in _RIVALS
        }
        yield Part(share, found.name, exactly, sized, tuple(range(runs_others)), note=note)


def _tested(name: str, n_rows: int) -> tuple[pd.Series, str]:
    """Say which rows are the testing part: those of the publishers, or a third at random."""
    tested = np.full(n_rows, None, dtype=object)
    if name in _PUBLISHED_TRAIN:
        first = _PUBLISHED_TRAIN[name]
        tested[first:] = _TEST
        return pd.Series(tested), f"tested on the {n_rows - first} rows that are published for it"
    drawn = np.random.default_rng(0).permutation(n_rows)[: n_rows // 3]
    tested[drawn] = _TEST
    return pd.Series(tested), f"tested on {len(drawn)} rows drawn at random"
