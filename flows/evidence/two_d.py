"""Document 002: eight algorithms, naive Bayes and 5-NN, 6,000 evaluations; and what is left of it.

Its section 5 gives the protocol: the mean error over 10 stratified folds is minimised, 6,000
evaluations a run, 40 runs, parameters of its table 2, which are the strategies' defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.problem_sections import FoldsSection, ModelSection, SplitSection
from conf.run_sections import BudgetSection, EvaluationSection, StrategySection
from conf.schema import SelectConfig
from flows.evidence.part import Part, Study
from flows.evidence.tables import Found, complete, find, with_folds, written

__all__ = ["ALGORITHMS", "RESAMPLED", "two_d"]

ALGORITHMS = (
    "genetic",
    "ant_colony",
    "bpso",
    "catfish",
    "erfs",
    "pso42",
    "chaotic",
    "two_d",
)
# Data sets of the document's table 1, in its order.
_ORDER = (
    "wine",
    "australian",
    "zoo",
    "vehicle",
    "german_numeric",
    "wdbc",
    "ionosphere",
    "lung_cancer",
    "sonar",
    "ozone",
    "libras",
    "hill_valley_with_noise",
    "musk_v1",
    "arrhythmia",
    "lsvt",
    "secom",
)
RESAMPLED = ("vehicle", "german_numeric", "wdbc", "ionosphere", "sonar")
_FOLDS = 10
_MODELS = {
    "nb": ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
    "knn": ModelSection(
        estimator="sklearn.neighbors.KNeighborsClassifier", params={"n_neighbors": 5}
    ),
}
# Distances cost a square of the rows: more than this many, and 5-NN is left out.
_MOST_ROWS = 1000
# Its own table, not part of the document, and too large for the protocol.
_NOT_HERE = ("musk_v2",)


@dataclass(frozen=True)
class _Ready:
    found: Found
    config: SelectConfig
    rows: int
    note: str


def two_d(
    data: Path | None,
    work: Path,
    *,
    runs: int = 40,
    runs_knn: int = 10,
    resamples: int = 20,
    evaluations: int = 6000,
    datasets: list[str] | None = None,
) -> Study:
    """Lay out the study.

    Parameters
    ----------
    data : Path or None
        Folder of the data sets, see :func:`flows.evidence.tables.find`.
    work : Path
        Folder for the tables made from them.
    runs, runs_knn : int
        Runs of each algorithm with naive Bayes and with 5-NN.
    resamples : int
        Splits into training and test rows of the nested part.
    evaluations : int
        Of each run.
    datasets : list of str, optional
        Names; default: those of the document, then whatever else the folder has.
    """
    there = find(data, datasets)
    names = [name for name in _ORDER if name in there]
    names += [name for name in there if name not in (*_ORDER, *_NOT_HERE) or datasets]
    single = [there[name] for name in dict.fromkeys(names) if not there[name].several]
    ready = [_ready(found, work, evaluations) for found in single]
    parts = list(_parts(ready, runs, runs_knn, resamples))
    at_hand = find(data)
    missing = {name: "not at hand" for name in _ORDER if name not in at_hand}
    return Study("two-d", parts, missing)


def _ready(found: Found, work: Path, evaluations: int) -> _Ready:
    table, note = complete(found.read())
    data, folds = written(work, found.name, with_folds(table, _FOLDS))
    config = SelectConfig(
        name=found.name,
        data=data,
        folds=folds,
        scoring="accuracy",
        budget=BudgetSection(epochs=None, evaluations=evaluations),
        evaluation=EvaluationSection(n_jobs=1, importance="none"),
    )
    return _Ready(found, config, len(table), note)


def _parts(ready: list[_Ready], runs: int, runs_knn: int, resamples: int) -> Iterator[Part]:
    for kind, seeds in (("nb", runs), ("knn", runs_knn)):
        for one in ready:
            if seeds == 0 or (kind == "knn" and one.rows > _MOST_ROWS):
                continue
            config = _changed(one.config, model=_MODELS[kind])
            yield _part(kind, one, config, tuple(range(seeds)))
    for one in ready:
        if one.found.name not in RESAMPLED:
            continue
        for resample in range(resamples):
            config = _changed(
                one.config,
                model=_MODELS["nb"],
                # The column of folds covers all rows; training rows get folds of their own.
                data=one.config.data.model_copy(update={"drop": ["fold"]}),
                folds=FoldsSection(kind="stratified", n_folds=_FOLDS, seed=0),
                split=SplitSection(kind="stratified", test_size=0.3, seed=resample),
            )
            yield _part("nested", one, config, (resample,), resample)


def _part(
    kind: str, one: _Ready, config: SelectConfig, seeds: tuple[int, ...], resample: int = -1
) -> Part:
    strategies = {name: StrategySection(name=name) for name in (*ALGORITHMS, "full")}
    return Part(kind, one.found.name, config, strategies, seeds, resample, note=one.note)


def _changed(config: SelectConfig, **sections: Any) -> SelectConfig:
    return config.model_copy(update=sections)
