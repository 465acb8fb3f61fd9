"""Tests of the ensemble of a model on several subsets."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import swarm.ensemble
from swarm import SubsetSelector
from swarm.ensemble import SubsetEnsemble, with_one_thread
from swarm.errors import DataError, InputError
from swarm.multilabel import MLkNN
from swarm.reader import with_model_dtypes
from tests.stored import served


class Echo(ClassifierMixin, BaseEstimator):
    """Predict the values of its only column."""

    def fit(self, X: pd.DataFrame, y: Any) -> Echo:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        return X.iloc[:, 0].to_numpy()

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return np.array([[0.4, 0.6] if c == "yes" else [1.0, 0.0] for c in self.predict(X)])


class Tied(ClassifierMixin, BaseEstimator):
    """Predict True with a probability of 0.5."""

    def fit(self, X: pd.DataFrame, y: Any) -> Tied:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        return np.ones(len(X), dtype=bool)

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return np.full((len(X), 2), 0.5)


@pytest.fixture
def votes() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "a": ["yes", "yes", "no", "no"],
            "b": ["yes", "yes", "yes", "no"],
            "c": ["yes", "no", "no", "no"],
            "d": ["no", "no", "no", "no"],
        }
    )


Y = ["no", "yes", "no", "yes"]
KNN = KNeighborsClassifier(3)
VOTES = ("hard", "soft", "any")


@pytest.mark.parametrize(
    ("vote", "columns", "y", "pos_label", "expected"),
    [
        ("hard", "abc", Y, None, ["yes", "yes", "no", "no"]),
        ("hard", "abcd", Y, None, ["yes", "no", "no", "no"]),  # A tie goes to the first class.
        ("auto", "abc", Y, None, ["yes", "no", "no", "no"]),
        ("soft", "abc", Y, None, ["yes", "no", "no", "no"]),
        ("any", "abcd", Y, None, ["yes", "yes", "yes", "no"]),
        ("any", "ab", Y, "no", ["yes", "yes", "no", "no"]),
        # The rarer class is positive, whatever its place in the alphabet.
        ("any", "ab", ["no", "yes", "yes", "yes"], None, ["yes", "yes", "no", "no"]),
        ("any", "ab", ["no", "no", "no", "yes"], None, ["yes", "yes", "yes", "no"]),
    ],
)
def test_every_vote_elects_what_it_says(
    votes: pd.DataFrame, vote: str, columns: str, y: Any, pos_label: Any, expected: list[str]
) -> None:
    ensemble = SubsetEnsemble(Echo(), [[c] for c in columns], vote, pos_label).fit(votes, y)
    assert ensemble.predict(votes).tolist() == expected


def test_auto_is_soft_only_where_members_have_probabilities(numbers: Any) -> None:
    X, y = numbers

    def vote(model: Any) -> str:
        return SubsetEnsemble(model, [["a"]]).resolve_vote()

    def logistic(y_true: Any, raw: Any) -> Any:
        p = 1 / (1 + np.exp(-raw))
        return p - y_true, p * (1 - p)

    assert vote(KNN) == vote(make_pipeline(StandardScaler(), KNN)) == "soft"
    assert vote(LinearSVC()) == vote(make_pipeline(StandardScaler(), LinearSVC())) == "hard"
    raw = LGBMClassifier(objective=logistic, n_estimators=3, verbose=-1)
    assert vote(raw) == "hard"
    assert vote(LinearRegression()) == "mean"
    # A single member with a probability of 0.5 predicts by itself: argmax would be False.
    ensemble = SubsetEnsemble(Tied(), [["a"]]).fit(X, y)
    assert ensemble.predict(X).all()


@pytest.mark.parametrize("model", [KNN, MLkNN(3)])
def test_labels_have_a_soft_vote_each_however_a_model_returns_probabilities(
    numbers: Any, model: Any
) -> None:
    X, _ = numbers
    y = pd.DataFrame({"p": X["a"] > 0, "q": X["b"] > 0, "never": False}).astype(int)
    subsets = [["a", "b"], ["a", "c"], ["b", "c"]]
    ensemble = SubsetEnsemble(model, subsets).fit(X, y)
    assert ensemble.vote_ == "soft"
    probabilities = [clone(model).fit(X[subset], y).predict_proba(X[subset]) for subset in subsets]
    if isinstance(probabilities[0], list):
        probabilities = [
            np.column_stack([label[:, 1] for label in member[:2]]) for member in probabilities
        ]
    mean = np.mean([member[:, :2] for member in probabilities], axis=0)
    np.testing.assert_allclose(
        np.column_stack([share[:, 1] for share in ensemble.predict_proba(X)[:2]]), mean
    )
    assert (ensemble.predict(X)[:, :2] == (mean > 0.5)).all()
    assert not ensemble.predict(X)[:, 2].any()


def test_probabilities_are_shares_of_votes_or_mean_probabilities(votes: pd.DataFrame) -> None:
    subsets = [["a"], ["b"], ["c"]]
    hard = SubsetEnsemble(Echo(), subsets, "hard").fit(votes, Y)
    np.testing.assert_allclose(hard.predict_proba(votes)[:, 1], [1, 2 / 3, 1 / 3, 0])
    soft = SubsetEnsemble(Echo(), subsets, "soft").fit(votes, Y)
    np.testing.assert_allclose(soft.predict_proba(votes)[:, 1], [0.6, 0.4, 0.2, 0])


@pytest.fixture
def numbers() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 6)), columns=list("abcdef"))
    return table, pd.Series(table["a"] + table["b"] > 0, name="y")


def test_members_equal_the_estimator_on_their_own_columns(numbers: Any) -> None:
    X, y = numbers
    subsets = [["a", "c"], ["b"], ["f", "a", "b"]]
    estimator = DecisionTreeClassifier(max_depth=3, random_state=0)
    ensemble = SubsetEnsemble(estimator, subsets).fit(X, y)
    for model, subset in zip(ensemble.models_, subsets, strict=True):
        expected = clone(estimator).fit(X[subset], y)
        assert (expected.predict(X[subset]) == model.predict(X[subset])).all()
        assert model.feature_names_in_.tolist() == subset
    assert ensemble.n_features_in_ == 6
    assert ensemble.feature_names_in_.tolist() == list("abcdef")
    assert not hasattr(estimator, "classes_")
    # Prediction needs only the columns of the subsets, in any order.
    assert (ensemble.predict(X) == ensemble.predict(X[["f", "b", "c", "a"]])).all()
    with pytest.raises(DataError, match="no column 'b'"):
        ensemble.predict(X[["a", "c", "f"]])


@pytest.mark.parametrize("container", ["array", "sparse", "polars", "whole numbers", "tuples"])
def test_subsets_are_labels_of_a_table_or_positions_in_an_array(
    numbers: Any, container: str
) -> None:
    X, y = numbers
    values = X.to_numpy()
    years = [2021, 0, 7, 3, 1, 2]
    pairs = [(name, 1) for name in X]
    table, names = {
        "array": lambda: (values, range(6)),
        "sparse": lambda: (csr_array(values), range(6)),
        "polars": lambda: (pytest.importorskip("polars").from_pandas(X), list(X)),
        "whole numbers": lambda: (X.set_axis(years, axis=1), years),
        "tuples": lambda: (X.set_axis(pd.Index(pairs), axis=1), pairs),
    }[container]()
    subsets = [[names[2], names[0]], [names[1]]]
    model = LogisticRegression()
    ensemble = SubsetEnsemble(model, subsets).fit(table, y)
    for member, positions in zip(ensemble.models_, [[2, 0], [1]], strict=True):
        expected = clone(model).fit(values[:, positions], y)
        np.testing.assert_allclose(member.coef_, expected.coef_, rtol=1e-5)
    assert {type(rows) for _, rows in ensemble.members(table)} == {type(table)}
    assert ensemble.feature_names_in_.tolist() == list(names)
    assert ensemble.subsets_ == subsets


def test_regressors_vote_by_their_mean_and_the_score_is_that_of_scikit_learn(numbers: Any) -> None:
    X, y = numbers
    votes = SubsetEnsemble(KNN, [["a"], ["b"], ["c"]]).fit(X, y)
    assert votes.score(X, y) == (votes.predict(X) == y).mean() < 1
    target = 2 * X["a"] - X["b"]
    subsets = [["a"], ["a", "b"]]
    ensemble = SubsetEnsemble(LinearRegression(), subsets).fit(X, target)
    expected = np.mean(
        [LinearRegression().fit(X[s], target).predict(X[s]) for s in subsets], axis=0
    )
    np.testing.assert_allclose(ensemble.predict(X), expected)
    assert ensemble.score(X, target) == pytest.approx(r2_score(target, expected))
    assert is_regressor(ensemble)
    assert not hasattr(ensemble, "predict_proba")


def test_weights_and_rows_reach_the_members(numbers: Any) -> None:
    X, y = numbers
    rng = np.random.default_rng(1)
    weight = rng.random(120)
    rows = [np.arange(0, 90), np.arange(30, 120)]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    ensemble = SubsetEnsemble(model, [["a"], ["b"]]).fit(X, y, weight, rows)
    fit_params = {"logisticregression__sample_weight": weight[30:]}
    expected = clone(model).fit(X[["b"]].iloc[30:], y.iloc[30:], **fit_params)
    probabilities = ensemble.models_[1].predict_proba(X[["b"]])
    assert np.array_equal(probabilities, expected.predict_proba(X[["b"]]))


def test_a_member_that_never_met_a_class_gives_it_no_probability(numbers: Any) -> None:
    X, y = numbers
    rows = [np.flatnonzero(y), np.arange(120)]
    ensemble = SubsetEnsemble(DecisionTreeClassifier(), [["a"], ["a"]], "soft")
    shares = ensemble.fit(X, y, rows=rows).predict_proba(X)
    np.testing.assert_allclose(shares[:, 1], np.where(y, 1.0, 0.5))


@pytest.mark.parametrize(
    ("model", "subsets", "vote", "given", "message"),
    [
        (KNN, [["a"], ["alpa"]], "hard", {}, "no column 'alpa'; did you mean 'alpha'"),
        (KNN, [["a"], []], "hard", {}, "subset is empty"),
        (KNN, [], "hard", {}, "or there is none"),
        (KNN, [["alpha", "a", "a"]], "hard", {}, "names a column twice"),
        (KNN, [["a"]], "any", {"y": list("abcabc")}, "needs exactly 2 classes, but y has 3"),
        (LinearSVC(), [["a"]], "soft", {}, "LinearSVC has no predict_proba"),
        (KNN, [["a"]], "sofd", {}, "did you mean 'soft'"),
        (KNN, [["a"]], "auto", {"X": np.zeros((6, 2))}, "no column 'a'"),
        (KNN, [["a"]], "auto", {"y": [0, 1] * 2 + [1]}, "6 rows .* 5"),
        (KNN, [["a"]], "mean", {}, "'mean' .*hard, soft or any"),
        *(
            (LinearRegression(), [["a"]], vote, {"y": np.arange(6) / 7}, f"'{vote}' .*use mean")
            for vote in VOTES
        ),
    ],
)
def test_what_cannot_vote_is_refused(
    model: Any, subsets: Any, vote: str, given: dict[str, Any], message: str
) -> None:
    X = pd.DataFrame({"a": range(6), "alpha": range(6)})
    with pytest.raises((InputError, DataError), match=message):
        SubsetEnsemble(model, subsets, vote).fit(**{"X": X, "y": list("ababab"), **given})


def test_a_positive_class_that_is_none_of_the_classes_is_refused(numbers: Any) -> None:
    with pytest.raises(InputError, match=r"pos_label 'yes' .*False, True"):
        SubsetEnsemble(KNN, [["a"], ["b"]], "any", "yes").fit(*numbers)


def test_lightgbm_members_get_one_thread_unless_said_otherwise() -> None:
    assert with_one_thread(LGBMClassifier()).n_jobs == 1
    assert with_one_thread(LGBMClassifier(n_jobs=2)).n_jobs == 2
    assert with_one_thread(KNeighborsClassifier()).n_jobs is None
    nested = with_one_thread(make_pipeline(StandardScaler(), LGBMClassifier()))
    assert nested[-1].n_jobs == 1
    # A class among the parameters is no nested estimator.
    assert with_one_thread(Named(cat_features=LGBMClassifier)).cat_features is LGBMClassifier


def test_labels_are_voted_on_one_by_one(numbers: Any) -> None:
    X, _ = numbers
    y = pd.DataFrame({"p": X["a"] > 0, "q": X["b"] > 0}).astype(int)
    subsets = [["a", "b"], ["a", "c"], ["b", "c"]]
    ensemble = SubsetEnsemble(KNN, subsets, "hard").fit(X, y)
    votes = np.array(
        [clone(KNN).fit(X[subset], y).predict(X[subset]) for subset in subsets], dtype=int
    )
    assert (ensemble.predict(X) == (votes.sum(axis=0) >= 2)).all()
    assert [share.shape for share in ensemble.predict_proba(X)] == [(120, 2), (120, 2)]
    joined = SubsetEnsemble(KNN, subsets, "any").fit(X, y)
    assert (joined.predict(X) == votes.any(axis=0)).all()


def test_a_table_with_two_columns_of_a_name_is_refused() -> None:
    X = pd.DataFrame(np.eye(4), columns=list("aabc"))
    with pytest.raises(DataError, match="two columns 'a'"):
        SubsetEnsemble(KNN, [["a"]]).fit(X, [0, 1, 0, 1])


def test_the_docstring_example_holds() -> None:
    assert doctest.testmod(swarm.ensemble).failed == 0


class Named(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Stands in for CatBoost, which refuses names in `cat_features` that no column has."""

    def __init__(self, cat_features: Any = None) -> None:
        self.cat_features = cat_features

    def fit(self, X: Any, y: Any) -> Any:
        assert set(self.cat_features) <= set(X.columns)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_a_model_that_names_columns_is_given_those_of_its_subset() -> None:
    X = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2], "c": [0, 1, 0, 1]})
    estimator = Named(cat_features=["a", "b"])
    ensemble = SubsetEnsemble(estimator, [["a", "c"], ["c"], ["c", "b"]], vote="hard")
    models = ensemble.fit(X, [0, 1, 0, 1]).models_
    assert [model.cat_features for model in models] == [["a"], [], ["b"]]
    assert estimator.cat_features == ["a", "b"]


ODD = ["a b", "a_b", "\u00fc[1]", 'q"uote', "b,c", "{json}: <x>"]


def odd_table() -> tuple[pd.DataFrame, pd.Series]:
    """Return columns whose names LightGBM refuses, one of them categorical."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, len(ODD))), columns=ODD)
    y = (X['q"uote'] + X["{json}: <x>"] > 0).astype(int)
    return X.assign(**{"b,c": pd.Categorical(rng.choice(["u", "v"], 120))}), y


@pytest.mark.parametrize("nested", [False, True])
def test_lightgbm_takes_any_column_name_and_its_models_are_those_of_plain_names(
    nested: bool, tmp_path: Path
) -> None:
    X, y = odd_table()
    # A model around LightGBM refuses other names in `predict` than in `fit`.
    light = LGBMClassifier(n_estimators=5, verbosity=-1)
    model = BaggingClassifier(light, 2, random_state=0) if nested else light
    X, names = (X.drop(columns="b,c"), ODD[:4]) if nested else (X, ODD[2:])
    plain_names = [f"x{i}" for i in range(X.shape[1])]
    renamed = dict(zip(X.columns, plain_names, strict=True))
    ensemble = SubsetEnsemble(model, [list(X.columns), names]).fit(X, y)
    plain_ensemble = SubsetEnsemble(model, [plain_names, [renamed[column] for column in names]])
    plain_ensemble.fit(X.rename(columns=renamed), y)
    expected = plain_ensemble.predict_proba(X.rename(columns=renamed))
    assert np.array_equal(ensemble.predict_proba(X), expected)
    probabilities = served(ensemble, X, tmp_path, probabilities=True)
    np.testing.assert_allclose(probabilities.to_numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("categories", ["interval", "timestamp", "period"])
def test_categories_that_json_lacks_are_served_as_they_were_trained(
    categories: str, tmp_path: Path
) -> None:
    X, y = odd_table()
    bins = pd.cut(X.iloc[:, 2], 4)
    days = pd.date_range("2024", periods=4)
    names = {"timestamp": days, "period": days.to_period("D")}
    bins = bins if categories == "interval" else bins.cat.rename_categories(list(names[categories]))
    X = pd.DataFrame({"a": X.iloc[:, 0], "bin": bins})
    trained = with_model_dtypes(X)
    model = LGBMClassifier(n_estimators=5, verbosity=-1)
    ensemble = SubsetEnsemble(model, [["a", "bin"]]).fit(trained, y)
    expected = ensemble.predict_proba(trained)
    for rows in (X, trained, X.astype({"bin": object})):
        probabilities = served(ensemble, rows, tmp_path, like=trained, probabilities=True)
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


def test_a_selector_answers_in_the_names_of_the_table_whatever_lightgbm_refuses() -> None:
    X, y = odd_table()
    model = LGBMClassifier(n_estimators=5, verbosity=-1)
    options: dict[str, Any] = {"budget": 2, "cv": 3, "fixed": ['q"uote'], "random_state": 0}
    rows, labels = X.iloc[:90], y[:90]
    selector = SubsetSelector(model, **options).fit(rows, labels, categorical_feature=["b,c"])
    assert 'q"uote' in selector.subset_
    assert set(selector.subset_) <= set(ODD)
    selector.fit(rows, labels).judge(rows, labels, test=(X.iloc[90:], y[90:]))
