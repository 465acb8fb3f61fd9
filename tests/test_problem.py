"""Claims on problems: bad input ends in one sentence before any fit, good input is understood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from swarm.errors import ConfigError, DataError, InputError, SpaceError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.statistics import relevance as relevance_module


class Spy(GaussianNB):
    """Counts fits on more rows than the look for importances takes."""

    fits: ClassVar[list[int]] = []

    def fit(self, X: Any, y: Any, **options: Any) -> Spy:
        self.fits.append(len(X))
        return super().fit(X, y, **options)


class SpyLight(LGBMClassifier):
    def fit(self, X: Any, y: Any, **options: Any) -> SpyLight:
        Spy.fits.append(len(X))
        return super().fit(X, y, **options)


class NoWeights(KNeighborsClassifier):
    def fit(self, X: Any, y: Any) -> NoWeights:
        Spy.fits.append(len(X))
        return super().fit(X, y)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))


def labels() -> np.ndarray[Any, Any]:
    return np.arange(30) % 2


def build(X: Any = None, y: Any = None, model: Any = None, **options: Any) -> Problem:
    return Problem.build(
        table() if X is None else X,
        labels() if y is None else y,
        Spy() if model is None else model,
        **options,
    )


def space(**options: Any) -> SearchSpace:
    return SearchSpace.build(list("abcd"), **options)


def cell(value: Any, name: str = "b") -> pd.DataFrame:
    X = table()
    X.loc[3, name] = value
    return X


def seldom() -> np.ndarray[Any, Any]:
    y = labels()
    y[:] = 0
    y[:3] = 1
    return y


WITHOUT_ONE = [(np.arange(10, 30), np.arange(10)), (np.arange(20), np.arange(20, 30))]
BAD: dict[str, tuple[type[InputError], Callable[[], Any], list[str]]] = {
    "fewer rows than labels": (
        DataError,
        lambda: build(X=table()[:29]),
        ["29 rows", "30 of the target"],
    ),
    "no rows": (DataError, lambda: build(X=table()[:0], y=labels()[:0]), ["no rows"]),
    "target missing": (
        DataError,
        lambda: build(y=pd.Series(labels()).where(lambda y: y.index > 1)),
        ["target is missing in 2 rows"],
    ),
    "target constant": (DataError, lambda: build(y=np.ones(30)), ["target is constant (1.0)"]),
    "target of mixed types": (
        DataError,
        lambda: build(y=np.array(["a", 1] * 15, dtype=object)),
        ["target"],
    ),
    "target infinite": (
        DataError,
        lambda: build(y=np.where(labels() == 1, np.inf, 0.5)),
        ["15 infinite values"],
    ),
    "one class in the rows to test": (
        DataError,
        lambda: build(y=np.repeat([0, 1], [10, 20]), folds=WITHOUT_ONE),
        ["training rows of fold 0", "single class 1"],
    ),
    "one class in a fold of a splitter": (
        DataError,
        lambda: build(y=np.repeat([0, 1], 15), folds=KFold(2)),
        ["fold 0", "class 1"],
    ),
    "fewer rows than folds": (DataError, lambda: build(folds=31), ["30 rows", "31 folds"]),
    "fewer rows of a class than folds": (
        DataError,
        lambda: build(y=seldom()),
        ["class 1 has 3 rows", "5 folds"],
    ),
    "fewer groups than folds": (
        DataError,
        lambda: build(folds=GroupKFold(4), groups=labels()),
        ["GroupKFold cannot split", "4"],
    ),
    "no groups": (DataError, lambda: build(folds=GroupKFold(4)), ["GroupKFold", "groups"]),
    "one fold": (ConfigError, lambda: build(folds=1), ["at least 2 folds, got 1"]),
    "no ready folds": (DataError, lambda: build(folds=[]), ["at least 1 fold, got none"]),
    "folds by name": (ConfigError, lambda: build(folds="stratified"), ["got 'stratified'"]),
    "empty fold": (
        DataError,
        lambda: build(folds=[([], [1, 2]), ([1, 2], [3, 4])]),
        ["fold 0 has no training or no test rows"],
    ),
    "fold beyond the rows": (
        DataError,
        lambda: build(folds=[([0, 1], [30, 2]), ([2, 3], [4, 5])]),
        ["fold 0 has row 30", "30 rows"],
    ),
    "generator in a splitter": (
        ConfigError,
        lambda: build(folds=KFold(3, shuffle=True, random_state=np.random.RandomState(0))),
        ["random_state of KFold"],
    ),
    "duplicate columns": (
        SpaceError,
        lambda: build(X=table().set_axis(list("abca"), axis=1)),
        ["'a' appears more than once"],
    ),
    "text column": (
        DataError,
        lambda: build(X=table().assign(b="x")),
        ["'b'", "str", "categorical"],
    ),
    "date column": (
        DataError,
        lambda: build(X=table().assign(b=pd.Timestamp("2024-01-01"))),
        ["'b' has datetime64"],
    ),
    "infinite value": (
        DataError,
        lambda: build(X=cell(-np.inf)),
        ["'b' has 1 infinite values", "clip"],
    ),
    "infinite value for a pipeline": (
        DataError,
        lambda: build(X=cell(np.inf), model=make_pipeline(StandardScaler(), Spy())),
        ["'b' has 1 infinite"],
    ),
    "infinite nullable value": (
        DataError,
        lambda: build(X=cell(np.inf).astype("Float64")),
        ["'b' has 1 infinite"],
    ),
    "column without a value": (
        DataError,
        lambda: build(X=table().assign(c=np.nan), model=SpyLight()),
        ["'c' has no values"],
    ),
    "missing value the model cannot take": (
        DataError,
        lambda: build(X=cell(np.nan)),
        ["'b' has 1 missing values", "Spy", "impute"],
    ),
    "category the model cannot take": (
        DataError,
        lambda: build(X=table().assign(b=pd.Categorical(["u", "v"] * 15))),
        ["'b' is categorical", "Spy", "encode"],
    ),
    "name LightGBM cannot take": (
        DataError,
        lambda: build(X=table().set_axis(list("ab:d"), axis=1), model=SpyLight()),
        ["column ':'", "rename"],
    ),
    "more units than there are": (
        SpaceError,
        lambda: build(space=space(max_size=5)),
        ["max_size 5", "4 units"],
    ),
    "fixed and forbidden": (
        SpaceError,
        lambda: build(space=space(fixed=["a", "b"], forbidden=["b"])),
        ["'b' is both fixed and forbidden"],
    ),
    "half a group fixed": (
        SpaceError,
        lambda: build(space=space(groups={"pair": ["a", "b"]}, fixed=["b"])),
        ["splits the group 'pair'", "lacks 'a'"],
    ),
    "unknown feature": (
        SpaceError,
        lambda: build(
            X=table().rename(columns={"a": "alpha"}),
            space=SearchSpace.build(["alpha", "b", "c", "d"], fixed=["alhpa"]),
        ),
        ["'alhpa'", "did you mean 'alpha'"],
    ),
    "space of another table": (
        DataError,
        lambda: build(space=SearchSpace.build(list("abce"))),
        ["differ from those of the data"],
    ),
    "unknown scorer": (
        ConfigError,
        lambda: build(scoring="acuracy"),
        ["'acuracy'", "roc_auc", "did you mean 'accuracy'"],
    ),
    "no positive class": (
        ConfigError,
        lambda: build(y=np.array(["n", "y"] * 15), scoring="recall"),
        ["no pos_label", "'n', 'y'"],
    ),
    "positive class that is not there": (
        ConfigError,
        lambda: build(scoring="recall", pos_label="yes"),
        ["'yes'", "0, 1"],
    ),
    "scorer of two classes for more": (
        ConfigError,
        lambda: build(y=np.arange(30) % 3, scoring="f1"),
        ["'f1_macro'"],
    ),
    "unknown importance": (
        ConfigError,
        lambda: build(importance="gini"),
        ["'gini'", "permutation"],
    ),
    "importance of a model that has none": (
        ConfigError,
        lambda: build(importance="fold"),
        ["Spy has none", "'permutation'"],
    ),
    "importance of made columns": (
        ConfigError,
        lambda: build(
            model=make_pipeline(OneHotEncoder(), LogisticRegression()), importance="fold"
        ),
        ["creates new columns", "'permutation'"],
    ),
    "generator in the estimator": (
        ConfigError,
        lambda: build(model=SpyLight(random_state=np.random.RandomState(0))),
        ["random_state", "integer"],
    ),
    "class instead of an estimator": (
        ConfigError,
        lambda: build(model=LGBMClassifier),
        ["must be an object with fit"],
    ),
    "weights of another length": (
        DataError,
        lambda: build(weight=np.ones(7)),
        ["shape (7,)", "(30,)"],
    ),
    "negative weight": (DataError, lambda: build(weight=-np.ones(30)), ["not negative"]),
    "weights of zero": (DataError, lambda: build(weight=np.zeros(30)), ["weight is zero"]),
    "weights the model cannot take": (
        ConfigError,
        lambda: build(model=NoWeights(), weight=np.ones(30)),
        ["NoWeights does not support sample weights"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_before_any_fit(name: str) -> None:
    kind, make, words = BAD[name]
    Spy.fits.clear()
    with pytest.raises(InputError) as caught:
        make()
    said = str(caught.value)
    assert type(caught.value) is kind, said
    assert "\n" not in said
    assert not said.endswith(".")
    for word in words:
        assert word in said, said
    # The look for importances fits 20 made-up rows, never the table.
    assert 30 not in Spy.fits
    assert not [rows for rows in Spy.fits if rows != 20]


def test_missing_values_and_categories_go_to_models_that_take_them() -> None:
    X = cell(np.nan).assign(c=pd.Categorical(["u", "v", "w"] * 10))
    for model in (LGBMClassifier(), SpyLight(), HistGradientBoostingClassifier()):
        assert build(X=X, model=model).features["c"].dtype == "category"
    assert build(X=cell(np.nan), model=make_pipeline(StandardScaler(), Spy())).task == "binary"


def test_text_columns_go_to_pipelines() -> None:
    X = table().assign(b=list("xyz") * 10)
    build(X=X, model=make_pipeline(OneHotEncoder(), Spy()))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (LGBMClassifier(), "fold"),
        (SpyLight(), "fold"),
        (LogisticRegression(), "fold"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "fold"),
        (make_pipeline(FunctionTransformer(np.abs), LogisticRegression()), "fold"),
        (make_pipeline(OneHotEncoder(), LogisticRegression()), "mutual_information"),
        (KNeighborsClassifier(), "mutual_information"),
    ],
)
def test_importances_come_from_the_model_where_it_has_one_for_each_column(
    model: Any, kind: str
) -> None:
    assert build(model=model).importance == kind


def test_a_target_may_be_a_list_a_column_or_a_table_of_one() -> None:
    series = pd.Series(labels(), index=np.arange(30) + 9)
    shapes = [labels().tolist(), series, labels()[:, None], series.to_frame()]
    prints = {build(y=target).fingerprint() for target in shapes}
    assert prints == {build().fingerprint()}
    assert build(y=pd.Categorical(["n", "y"] * 15)).task == "binary"
    assert build(y=pd.Series(["n", "y"] * 15, dtype="str")).target.shape == (30,)


def test_folds_of_a_number_are_stratified_for_classes_and_shuffled_by_the_seed() -> None:
    problem = build(folds=5, seed=1)
    assert all(labels()[test].mean() == 0.5 for _, test in problem.folds)
    assert build(folds=5, seed=1).folds[0][1].tolist() == problem.folds[0][1].tolist()
    assert build(folds=5, seed=2).folds[0][1].tolist() != problem.folds[0][1].tolist()
    regression = build(y=np.linspace(0.1, 0.9, 30), model=LinearRegression(), folds=5)
    assert regression.task == "regression"


def test_the_estimator_given_is_not_changed() -> None:
    model = LGBMClassifier()
    before = model.get_params()
    problem = build(model=model)
    assert model.get_params() == before
    assert problem.estimator is not model


def test_test_rows_of_one_class_are_refused_only_if_the_scorer_has_no_score_for_them() -> None:
    y = np.repeat([0, 1, 2], 10)
    sorted_folds = KFold(3)
    build(y=y, model=GaussianNB(), folds=sorted_folds, scoring="accuracy")
    build(y=y, model=GaussianNB(), folds=LeaveOneOut(), scoring="f1_macro")
    build(y=y, model=GaussianNB(), folds=LeaveOneGroupOut(), groups=y, scoring="accuracy")
    build(y=y, model=LinearRegression(), folds=sorted_folds, scoring="neg_mean_squared_error")
    build(y=labels(), model=GaussianNB(), folds=LeaveOneOut(), scoring=lambda model, X, y: 0.5)
    with pytest.raises(DataError, match=r"test rows of fold 0 have the single class 0.*'roc_auc'"):
        build(y=labels(), model=GaussianNB(), folds=LeaveOneOut(), scoring="roc_auc")
    with pytest.raises(DataError, match="'neg_log_loss' is undefined"):
        build(y=y, model=GaussianNB(), folds=sorted_folds, scoring="neg_log_loss")


def test_mutual_information_is_computed_only_for_strategies_that_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []
    real = relevance_module.relevance

    def counted(*arguments: Any) -> Any:
        computed.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(relevance_module, "relevance", counted)
    problem = build(model=KNeighborsClassifier(3))
    assert problem.importance == "mutual_information"
    masks, order = np.ones((1, 4), dtype=bool), np.arange(problem.n_folds)
    with CrossValidation(problem, importances=False) as evaluator:
        silent = evaluator.evaluate(masks, np.array([np.inf]), order)
    assert not computed
    assert not silent.importances.any()
    with CrossValidation(problem) as evaluator:
        told = [evaluator.evaluate(masks, np.array([np.inf]), order) for _ in range(2)]
    assert len(computed) == 1
    assert told[0].costs == silent.costs
    assert np.array_equal(told[0].importances[0], real(table(), labels(), "binary", 0))
