"""Where selection pays: every single-label data set, three models, rows that no search saw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conf.problem_sections import FoldsSection, ModelSection, SplitSection
from conf.run_sections import BudgetSection, EvaluationSection, StrategySection
from conf.schema import SelectConfig
from flows.evidence.part import Part, Study
from flows.evidence.tables import Found, complete, find, written

__all__ = ["pays"]

_STRATEGIES = ("multiswarm", "two_d", "bpso", "genetic", "sffs", "random", "full")
_FEWER = ("multiswarm", "sffs", "random", "full")
_MODELS = {
    "nb": ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
    "knn": ModelSection(
        estimator="sklearn.neighbors.KNeighborsClassifier",
        params={"n_neighbors": 5},
        scaling="standard",
    ),
    "lightgbm": ModelSection(
        estimator="lightgbm.LGBMClassifier",
        params={"n_estimators": 40, "num_leaves": 8, "min_child_samples": 5, "verbosity": -1},
    ),
}
# What the protocol below can carry on a machine of two cores within an hour.
_LEFT_OUT = {
    "musk_v2": "has a page of its own",
    "lung_cancer": "27 whole rows leave classes of two rows to test on",
    "zoo": "classes of 4 and 5 rows have too few for folds of the training rows",
}
_MOST_ROWS = {"nb": 10_000, "knn": 1_000, "lightgbm": 600}
_MOST_COLUMNS = {"nb": 1_000, "knn": 400, "lightgbm": 100}
_FOLDS = 5


def pays(
    data: Path | None,
    work: Path,
    *,
    resamples: int = 10,
    distinct: int = 1000,
    distinct_trees: int = 200,
    resamples_trees: int = 5,
    datasets: list[str] | None = None,
) -> Study:
    """Lay out the study.

    Parameters
    ----------
    data : Path or None
        Folder of the data sets, see :func:`flows.evidence.tables.find`.
    work : Path
        Folder for the tables made from them.
    resamples, resamples_trees : int
        Splits of the rows, 70 to train and 30 to test, for the exact models and for LightGBM.
    distinct, distinct_trees : int
        Distinct subsets that each search may look at.
    datasets : list of str, optional
        Names; default: all with one target in the folder.
    """
    parts: list[Part] = []
    tables = {name: found for name, found in find(data, datasets).items() if not found.several}
    kept = {name: found for name, found in tables.items() if name not in _LEFT_OUT or datasets}
    ready = {name: _table(found, work) for name, found in kept.items()}
    for model in _MODELS:
        trees = model == "lightgbm"
        budget = BudgetSection(epochs=None, distinct=distinct_trees if trees else distinct)
        for name, (config, rows, columns, note) in ready.items():
            if rows > _MOST_ROWS[model] or columns > _MOST_COLUMNS[model]:
                continue
            changed = config.model_copy(update={"model": _MODELS[model], "budget": budget})
            parts += _parts(
                model, name, changed, resamples_trees if trees else resamples, note, trees
            )
    missing = {name: why for name, why in _LEFT_OUT.items() if name in tables and name not in kept}
    return Study("pays", parts, missing)


def _table(found: Found, work: Path) -> tuple[SelectConfig, int, int, str]:
    table, note = complete(found.read())
    data, _ = written(work, f"{found.name}-whole", table)
    config = SelectConfig(
        name=found.name,
        data=data,
        folds=FoldsSection(kind="stratified", n_folds=_FOLDS, seed=0),
        scoring="accuracy",
        evaluation=EvaluationSection(n_jobs=1),
    )
    return config, len(table), table.shape[1] - 1, note


def _parts(
    model: str, name: str, config: SelectConfig, resamples: int, note: str, costly: bool
) -> Iterator[Part]:
    strategies = {
        label: StrategySection(name=label) for label in (_FEWER if costly else _STRATEGIES)
    }
    for resample in range(resamples):
        split = SplitSection(kind="stratified", test_size=0.3, seed=resample)
        one = config.model_copy(update={"split": split})
        yield Part(
            model,
            name,
            one,
            strategies,
            (resample,),
            resample,
            judged=True,
            archived=costly,
            note=note,
        )
