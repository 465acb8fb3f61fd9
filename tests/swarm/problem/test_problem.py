"""Tests of problems: bad input is refused in one sentence before any fit, good input is read."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from swarm.errors import ConfigError, DataError, InputError, SpaceError
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.statistics import information
from tests.fakes import evaluated


class Spy(GaussianNB):
    """Counts the rows of its fits."""

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


def table(**columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd")).assign(**columns)


LABELS = np.arange(30) % 2


def build(X: Any = None, y: Any = None, model: Any = None, **options: Any) -> Problem:
    return Problem.build(
        table() if X is None else X,
        LABELS if y is None else y,
        Spy() if model is None else model,
        **options,
    )


def cell(value: Any, name: str = "b") -> pd.DataFrame:
    X = table()
    X.loc[3, name] = value
    return X


WITHOUT_ONE = [(np.arange(10, 30), np.arange(10)), (np.arange(20), np.arange(20, 30))]
GENERATOR = KFold(3, shuffle=True, random_state=np.random.RandomState(0))
ONE_HOT = make_pipeline(OneHotEncoder(), LogisticRegression())
SCORED = {"model": GaussianNB(), "weight": np.ones(30), "weights_in_score": True}
NUMBERS = np.linspace(0.1, 0.9, 30)
LATE_ONE = {"y": np.repeat([0, 1], [10, 20]), "folds": WITHOUT_ONE}
THREE = np.r_[np.arange(26) % 2, 2, 2, 2, 2]
UNSEEN = {"y": THREE, "folds": [(np.arange(26), np.arange(10, 30))], "model": GaussianNB()}
UNTESTED = {
    "y": THREE,
    "folds": [(np.arange(30), np.arange(30)), (np.arange(4, 30), np.arange(4))],
    "model": GaussianNB(),
}
# Both sides have the same number of classes, but not the same classes.
SWAPPED = {
    "y": np.r_[np.arange(20) % 2, [2] * 5, [3] * 5],
    "folds": [(np.arange(25), np.r_[0:10, 25:30])],
    "model": GaussianNB(),
}
REFUSED: dict[type[InputError], list[tuple[dict[str, Any], str]]] = {
    DataError: [
        ({"X": table()[:29]}, "29 rows.*30 of the target"),
        ({"y": np.r_[np.nan, np.nan, LABELS[2:]]}, "target is missing in 2 rows"),
        ({"y": np.ones(30)}, "target is constant \\(1.0\\)"),
        ({"y": np.where(LABELS == 1, np.inf, 0.5)}, "15 infinite values"),
        (LATE_ONE, "training rows of fold 0.*single class 1"),
        ({"y": np.repeat([0, 1], 15), "folds": KFold(2)}, "fold 0.*class 1"),
        ({"scoring": "roc_auc_ovr", **UNSEEN}, "training rows of fold 0 lack the class 2.*'roc"),
        ({"scoring": "neg_log_loss", **UNTESTED}, "test rows of fold 1 lack the class 2.*'neg"),
        ({"scoring": "neg_log_loss", **SWAPPED}, "training rows of fold 0 lack the class 3"),
        ({"folds": GroupKFold(4), "groups": LABELS}, "GroupKFold cannot split.*4"),
        ({"folds": []}, "at least 1 fold, got none"),
        ({"folds": [([], [1, 2]), ([1, 2], [3, 4])]}, "fold 0 has no training or no test rows"),
        ({"folds": [([0, 1], [30, 2]), ([2, 3], [4, 5])]}, "fold 0 has row 30 .* 0 to 29"),
        ({"X": table(b="x")}, "'b'.*str.*categorical"),
        ({"X": table(b=pd.Timestamp("2024-01-01"))}, "'b' has datetime64.*not numbers"),
        (
            {"X": table().astype(object), "model": SpyLight()},
            "'a', 'b', .* object values.*infer_objects",
        ),
        ({"X": cell(-np.inf)}, "'b' has 1 infinite values.*clip"),
        ({"X": table(c=np.nan), "model": SpyLight()}, "'c' has no values"),
        ({"X": cell(np.nan)}, "'b' has 1 missing values.*Spy.*impute"),
        ({"X": table(b=pd.Categorical(["u", "v"] * 15))}, "'b' has categories.*Spy.*encode"),
        ({"space": SearchSpace.build(list("abce"))}, "the columns of the data"),
        ({"weight": np.ones(7)}, "shape \\(7,\\).*\\(30,\\)"),
        ({"weight": -np.ones(30)}, "not negative"),
        ({"weight": np.zeros(30)}, "weight is zero"),
    ],
    ConfigError: [
        ({"folds": "stratified"}, "got 'stratified'"),
        ({"scoring": "r2"}, "'r2' is for numbers.*Spy.*accuracy"),
        ({"folds": GENERATOR}, "random_state of KFold"),
        ({"scoring": "recall", "pos_label": "yes"}, "'recall'.*pos_label is 'yes'.*one of 0, 1"),
        ({"scoring": "acuracy"}, "'acuracy'; did you mean 'accuracy'"),
        ({"scoring": "f1", "y": np.arange(30) % 3}, "'f1' is for .* multiclass; use 'f1_macro'"),
        ({"scoring": "subset_accuracy"}, "a multi-label target but the target is binary; use"),
        ({"importance": "gini"}, "'gini'.*permutation"),
        ({"model": ONE_HOT, "importance": "fold"}, "creates new columns.*'permutation'"),
        ({"model": KNeighborsClassifier(), "importance": "fold"}, "none; use 'permutation'"),
        ({"weights_in_score": True}, "needs sample weights and there are none"),
        ({**SCORED, "scoring": lambda model, rows, y: 0.5}, "does not support sample weights"),
        ({**SCORED, "scoring": "roc_auc_ovo", "y": np.arange(30) % 3}, "'roc_auc_ovo' does not"),
        (
            {**SCORED, "scoring": "neg_max_error", "y": NUMBERS, "model": LinearRegression()},
            "'neg_max_error' does",
        ),
        ({"model": LGBMClassifier}, "must be an object with fit"),
        ({"model": NoWeights(), "weight": np.ones(30)}, "NoWeights does not support sample weigh"),
    ],
    SpaceError: [({"X": table().set_axis(list("abca"), axis=1)}, "'a' appears more than once")],
}


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [(error, *case) for error, cases in REFUSED.items() for case in cases],
    ids=[words for cases in REFUSED.values() for _, words in cases],
)
def test_bad_input_is_one_sentence_before_any_fit(
    error: type[InputError], options: dict[str, Any], words: str
) -> None:
    Spy.fits.clear()
    with pytest.raises(InputError, match=words) as caught:
        build(**options)
    assert type(caught.value) is error
    assert not Spy.fits


def test_gaps_categories_and_text_go_to_models_that_take_them() -> None:
    X = cell(np.nan).assign(c=pd.Categorical(["u", "v", "w"] * 10))
    for model in (LGBMClassifier(), SpyLight(), HistGradientBoostingClassifier()):
        assert build(X=X, model=model).features["c"].dtype == "category"
    assert build(X=cell(np.nan), model=make_pipeline(StandardScaler(), Spy())).task == "binary"
    build(X=table(b=list("xyz") * 10), model=make_pipeline(OneHotEncoder(), Spy()))


def test_the_table_is_kept_and_features_have_the_names_of_units_and_rows_from_0() -> None:
    X = table().set_axis([3, 1, 20, 0], axis=1).set_axis(range(5, 35))
    problem = build(X=X)
    assert problem.X is X
    assert problem.space.columns == tuple(problem.features) == ("3", "1", "20", "0")
    assert problem.space.names == ("0", "1", "3", "20")
    assert problem.features.index.equals(pd.RangeIndex(30))
    assert np.array_equal(problem.features, X)


@pytest.mark.parametrize(
    ("model", "importance"),
    [
        (LGBMClassifier(), "fold"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "fold"),
        (make_pipeline(FunctionTransformer(np.abs), LogisticRegression()), "fold"),
        (ONE_HOT, "mutual_information"),
    ],
)
def test_importances_come_from_the_model_where_it_has_one_for_each_column(
    model: Any, importance: str
) -> None:
    assert build(model=model).importance == importance


def test_a_target_may_be_a_list_a_column_or_a_table_of_one() -> None:
    series = pd.Series(LABELS, index=np.arange(30) + 9)
    for target in (LABELS.tolist(), series, LABELS[:, None], series.to_frame()):
        problem = build(y=target)
        assert problem.y is target
        assert np.array_equal(problem.target, LABELS)
        assert problem.target.dtype == LABELS.dtype
    assert build(y=pd.Categorical(["n", "y"] * 15)).task == "binary"
    assert build(y=pd.Series(["n", "y"] * 15, dtype="str")).target.shape == (30,)


def test_test_rows_of_one_class_are_refused_only_if_the_scorer_has_no_score_for_them() -> None:
    y = np.repeat([0, 1, 2], 10)
    sorted_folds = KFold(3)
    build(y=y, model=GaussianNB(), folds=sorted_folds, scoring="accuracy")
    build(y=y, model=GaussianNB(), folds=LeaveOneOut(), scoring="f1_macro")
    build(y=y, model=GaussianNB(), folds=LeaveOneGroupOut(), groups=y, scoring="accuracy")
    build(y=y, model=LinearRegression(), folds=sorted_folds, scoring="neg_mean_squared_error")
    build(y=LABELS, model=GaussianNB(), folds=LeaveOneOut(), scoring=lambda model, X, y: 0.5)
    with pytest.raises(DataError, match=r"test rows of fold 0.*class 0.*'roc_auc'"):
        build(y=LABELS, model=GaussianNB(), folds=LeaveOneOut(), scoring="roc_auc")
    with pytest.raises(DataError, match="'neg_log_loss' is undefined"):
        build(y=y, model=GaussianNB(), folds=sorted_folds, scoring="neg_log_loss")


def test_folds_may_be_masks_or_whole_floats() -> None:
    pairs = list(KFold(3).split(LABELS))
    masks = [[np.isin(np.arange(30), rows) for rows in pair] for pair in pairs]
    floats = [[rows.astype(float) for rows in pair] for pair in pairs]
    assert len({build(folds=folds).fingerprint() for folds in (pairs, masks, floats)}) == 1
    with pytest.raises(DataError, match="fold 0 has row -1 but the rows are 0 to 29"):
        build(folds=[(np.arange(29), np.array([-1]))])


def test_mutual_information_is_estimated_only_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    neighbour_information = information.neighbour_information

    def count_calls(*arguments: Any) -> Any:
        calls.append(arguments)
        return neighbour_information(*arguments)

    monkeypatch.setattr(information, "neighbour_information", count_calls)
    problem = build(model=KNeighborsClassifier(3))
    assert problem.importance == "mutual_information"
    masks = np.ones((1, 4), dtype=bool)
    without_importances = evaluated(problem, masks, importances=False)
    assert not calls
    assert not without_importances.importances.any()
    answers = [evaluated(problem, masks) for _ in range(2)]
    assert len(calls) == 1
    assert answers[0].costs == without_importances.costs
    assert np.array_equal(
        answers[0].importances[0], neighbour_information(table(), LABELS, "binary", 0)
    )
    # Wide tables are binned instead.
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 5001))).add_prefix("c")
    wide_problem = Problem.build(wide, (wide["c3"] > 0).astype(int), GaussianNB(), folds=3)
    assert wide_problem.features.columns[np.argmax(wide_problem.relevance)] == "c3"
    assert len(calls) == 1


class Witness(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the tables of its fits."""

    tables: ClassVar[list[pd.DataFrame]] = []

    def fit(self, X: Any, y: Any) -> Any:
        self.tables.append(X)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_no_model_is_fitted_on_invented_rows() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(500, 3)), columns=["c", "a", "b"])
    y = np.zeros(500, dtype=int)
    y[[301, 402]] = 1
    Witness.tables.clear()
    Problem.build(X, y, Witness(), folds=2)
    for table in Witness.tables:
        assert table.equals(X.loc[table.index])
        # Both classes have a row, without which a model would fail.
        assert {301, 402} <= set(table.index)
    assert Problem.build(X, y, LogisticRegression(), folds=2).importance == "fold"
