"""Selectors of other packages, judged on rows that none of them saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import (
    RFECV,
    SelectFromModel,
    SelectKBest,
    SelectorMixin,
    SequentialFeatureSelector,
)
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, EvaluationError, InputError
from swarm.validation.selectors import ALL_FEATURES, compare_selectors, select

X, Y = load_wine(return_X_y=True, as_frame=True)
rows: list[list[int]] = []


class Fixed(SelectorMixin, BaseEstimator):
    """Selects the given columns, and notes the rows that it was given in `rows`."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any) -> Fixed:
        rows.append(list(X.index))
        self.support_ = np.isin(X.columns, self.columns)
        return self

    def _get_support_mask(self) -> Any:
        return self.support_


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        (SelectKBest(k=3), 0),
        (SelectFromModel(RidgeClassifier()), 1),
        (SequentialFeatureSelector(GaussianNB(), n_features_to_select=2, cv=3), (13 + 12) * 3),
        # One model in each fold; on all rows that of the elimination, and that of the selector.
        (RFECV(RidgeClassifier(), cv=3, min_features_to_select=13), 3 + 2),
        # A pipeline counts once.
        (SelectFromModel(make_pipeline(StandardScaler(), RidgeClassifier()),
                         importance_getter="named_steps.ridgeclassifier.coef_"), 1),
    ],
)  # fmt: skip
def test_the_fits_of_a_selector_are_counted_whatever_it_does_with_its_model(selector, fits):
    assert select(selector, X, Y).fits == fits


def test_fits_that_nobody_can_count_are_missing_and_not_zero():
    in_processes = SequentialFeatureSelector(GaussianNB(), n_features_to_select=1, cv=2, n_jobs=2)
    assert select(in_processes, X, Y).fits is None
    assert select(Fixed(["alcohol"]), X, Y).fits is None


def test_a_counted_model_selects_what_the_plain_one_selects():
    plain = RFECV(RandomForestClassifier(10, random_state=0), cv=3).fit(X, Y)
    assert select(plain, X, Y).mask.tolist() == plain.get_support().tolist()
    assert type(plain.estimator) is RandomForestClassifier


def test_our_own_selector_keeps_its_fast_path_and_tells_its_fits():
    own = SubsetSelector(GaussianNB(), cv=3, distinct=20)
    found = select(own, X, Y)
    assert found.fits == own.fit(X, Y).n_fits_
    assert found.mask.tolist() == own.get_support().tolist()
    confirmed = SubsetSelector(
        GaussianNB(), cv=3, distinct=20, confirm={"best": 4, "repeats": 2}
    ).fit(X, Y)
    # All features too, on two partitions of three folds.
    n_subsets = len(confirmed.confirmation_.masks)
    assert confirmed.n_fits_ == found.fits + (n_subsets + 1) * 2 * 3


def test_every_selector_gets_the_training_rows_and_is_judged_on_the_others():
    splits = list(StratifiedKFold(3).split(X, Y))
    rows.clear()
    chosen = ["alcohol", "flavanoids"]
    compared = compare_selectors({"own": Fixed(chosen)}, X, Y, GaussianNB(), splits)
    assert rows == [list(train) for train, _ in splits]
    cells = compared.cells.set_index(["selector", "resample"])
    for number, (train, test) in enumerate(splits):
        for label, columns in (("own", chosen), (ALL_FEATURES, list(X.columns))):
            model = GaussianNB().fit(X.iloc[train][columns], Y.iloc[train])
            expected = model.score(X.iloc[test][columns], Y.iloc[test])
            assert cells.loc[(label, number), "score"] == pytest.approx(expected)
    summary = compared.summary.set_index("selector")
    assert summary.loc["own", "stability"] == 1
    assert np.isnan(summary.loc[ALL_FEATURES, "p"])
    gain = cells.loc["own", "score"].mean() - cells.loc[ALL_FEATURES, "score"].mean()
    assert summary.loc["own", "difference"] == pytest.approx(gain)
    assert summary.loc["own", "low"] < gain < summary.loc["own", "high"]


def test_a_selector_without_a_model_gets_that_of_the_problem():
    compared = compare_selectors(
        {"auto": SubsetSelector(None, cv=3, distinct=8)}, X, Y, GaussianNB(), 2
    )
    assert compared.cells.query("selector == 'auto'")["fits"].gt(0).all()


REFUSED: dict[str, tuple[dict[str, Any], type[InputError], str]] = {
    "none": ({"selectors": {}}, ConfigError, "at least one entry"),
    "a class": ({"selectors": {"a": SelectKBest}}, ConfigError, "is the class SelectKBest"),
    "no selector": ({"selectors": {"a": 3}}, ConfigError, "has no fit"),
    "label of the baseline": ({"selectors": {ALL_FEATURES: SelectKBest()}}, ConfigError, "rename"),
    "unknown reference": ({"reference": "b"}, ConfigError, "got 'b'"),
    "one resample": ({"resamples": 1}, ConfigError, "at least 2"),
    "test rows that were seen": (
        {"resamples": [(np.arange(9), np.arange(8, 20))] * 2},
        DataError,
        "1 in both",
    ),
    "rows without a target": ({"y": Y[:-1]}, DataError, "178 rows but y has 177"),
    "array": ({"X": X.to_numpy()}, DataError, "pandas DataFrame"),
    "scorer": ({"scoring": "acuracy"}, ConfigError, "unknown scorer 'acuracy'"),
    "level": ({"alpha": 0}, ConfigError, "alpha"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_trained(case: str):
    changed, kind, word = REFUSED[case]
    given = {"selectors": {"a": Fixed([])}, "X": X, "y": Y, "model": GaussianNB(), **changed}
    rows.clear()
    with pytest.raises(kind, match=word) as caught:
        compare_selectors(**given)
    assert not rows
    assert "\n" not in str(caught.value)


def test_a_selector_that_selects_nothing_is_an_error_that_names_it():
    with pytest.raises(
        EvaluationError, match=r"selector 'empty' failed on resample 0, .*no column"
    ):
        compare_selectors({"empty": Fixed([])}, X, Y, GaussianNB(), 2)
