"""Claims on what a fitted selector tells: every subset that was paid for, and picks from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import t
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from tests.selecting import FEW, WINE

FOLDS = StratifiedKFold(4)
TREES = LGBMClassifier(n_estimators=8, num_leaves=4, verbosity=-1, n_jobs=1, random_state=0)


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    return SubsetSelector(TREES, cv=FOLDS, epochs=4, strategy_params=FEW).fit(*WINE)


def test_each_subset_has_one_row_which_is_its_cross_validation(fitted: SubsetSelector) -> None:
    X, y = WINE
    table = fitted.results_
    assert table["features"].is_unique
    assert len(table) <= fitted.result_.state.counts.distinct
    answer = table[table["features"] == tuple(fitted.subset_)]
    assert answer["cost"].tolist() == [fitted.cost_] == [table["cost"].min()]
    rows = table.dropna(subset="cost")
    assert len(rows) > 4
    for _, row in rows.iloc[::4].iterrows():
        assert row["size"] == len(row["features"])
        features = [name for name in fitted.result_.space.columns if name in row["features"]]
        costs = 1 - cross_val_score(TREES, X[features], y, cv=FOLDS)
        told = row[[f"fold_{fold}" for fold in range(4)]].to_numpy(dtype=float)
        assert told == pytest.approx(costs)
        assert row["cost"] == pytest.approx(costs.mean())
        assert row["sd"] == pytest.approx(costs.std(ddof=1))
        assert row["se"] == pytest.approx(costs.std(ddof=1) / 2)
        assert row["ci_high"] - row["cost"] == pytest.approx(row["se"] * t.ppf(0.975, 3))
        assert row["cost"] - row["ci_low"] == pytest.approx(row["se"] * t.ppf(0.975, 3))


def test_folds_that_were_not_needed_are_not_told_even_if_an_archive_knows_them(
    tmp_path: Any,
) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    pruned = SubsetSelector(TREES, cv=FOLDS, epochs=4, strategy_params=FEW)
    whole = clone(pruned).set_params(pruning=False, archive=url).fit(*WINE)
    assert whole.results_["cost"].notna().all()
    alone, helped = clone(pruned).fit(*WINE), clone(pruned).set_params(archive=url).fit(*WINE)
    assert alone.results_["cost"].isna().any()
    assert helped.result_.work["fits"].sum() == 0
    pd.testing.assert_frame_equal(alone.results_, helped.results_, check_exact=True)
    assert whole.subset_ == alone.subset_


def test_repick_changes_the_answer_and_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = SubsetSelector(GaussianNB(), strategy="sfs", cv=FOLDS).fit(*WINE)
    asked = clone(selector).set_params(pick="parsimonious").fit(*WINE)
    sized = clone(selector).set_params(size="parsimonious").fit(*WINE)
    params = {name: repr(value) for name, value in selector.get_params().items()}
    monkeypatch.setattr(CrossValidation, "evaluate", lambda *_: pytest.fail("evaluated"))
    best, limit = selector.subset_, selector.cost_ + selector.pareto_["se"].iloc[-1]
    selector.repick("parsimonious")
    assert selector.subset_ == asked.subset_ == sized.subset_
    assert selector.cost_ == asked.cost_ == sized.cost_
    assert selector.picked_ == asked.picked_ == "parsimonious"
    within = selector.results_[selector.results_["cost"] <= limit]
    assert len(selector.subset_) == within["size"].min() < len(best)
    assert selector.get_feature_names_out().tolist() == selector.subset_
    assert selector.importances_.index.isin(selector.subset_).all()
    assert selector.repick("knee").subset_ in selector.pareto_["features"].map(list).tolist()
    assert selector.repick("best").subset_ == best
    assert {name: repr(value) for name, value in selector.get_params().items()} == params
    with pytest.raises(ConfigError, match="unknown pick 'cheapest'"):
        selector.repick("cheapest")


def test_importances_are_the_mean_of_the_fold_models(fitted: SubsetSelector) -> None:
    X, y = WINE[0][fitted.result_.features], WINE[1]
    models = [clone(TREES).fit(X.iloc[train], y.iloc[train]) for train, _ in FOLDS.split(X, y)]
    mean = np.mean([model.feature_importances_ for model in models], axis=0)
    expected = pd.Series(mean, index=X.columns)
    assert fitted.importances_.to_dict() == pytest.approx(expected.to_dict())
    assert fitted.importances_.is_monotonic_decreasing


@pytest.mark.parametrize("strategy", ["sfs", "sbfs"])
def test_picks_stay_within_the_sizes_that_were_asked_for(strategy: str) -> None:
    options = {"strategy": strategy, "cv": FOLDS, "fixed": ["ash"]}
    selector = SubsetSelector(GaussianNB(), size=(3, 6), **options).fit(*WINE)
    assert selector.pareto_["size"].between(3, 6).all()
    for rule in ("best", "parsimonious", "knee"):
        assert 3 <= len(selector.repick(rule).subset_) <= 6
        assert "ash" in selector.subset_
    exact = SubsetSelector(GaussianNB(), size=4, **options).fit(*WINE)
    assert len(exact.repick("parsimonious").subset_) == len(exact.subset_) == 4


def test_a_size_bounds_every_strategy() -> None:
    for strategy, size in (("multiswarm", 4), ("random", (2, np.int64(3))), ("rfe", np.int64(5))):
        selector = SubsetSelector(GaussianNB(), strategy=strategy, size=size, epochs=20).fit(*WINE)
        least, largest = size if isinstance(size, tuple) else (size, size)
        assert least <= len(selector.subset_) <= largest


def test_a_path_is_walked_to_its_end_and_other_limits_replace_the_default() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 33)), rng.integers(0, 2, 60)
    path = SubsetSelector(GaussianNB(), strategy="sfs", cv=2).fit(X, y)
    assert len(path.history_) == 33
    counted = SubsetSelector(GaussianNB(), strategy="random", cv=2, distinct=400).fit(X, y)
    assert len(counted.results_) == 400


@pytest.mark.filterwarnings("ignore")  # too few iterations, and so a poor guide
def test_with_a_proxy_the_answer_and_every_row_is_of_the_full_model() -> None:
    X, y = WINE
    selector = SubsetSelector(
        LogisticRegression(max_iter=50), cv=FOLDS, proxy=GaussianNB(), epochs=2, strategy_params=FEW
    )
    selector.fit(X, y)
    scores = cross_val_score(LogisticRegression(max_iter=50), X[selector.subset_], y, cv=FOLDS)
    assert selector.cost_ == pytest.approx(1 - scores.mean())
    assert selector.results_["cost"].min() == selector.cost_
    assert (selector.importances_ > 0).all()


def test_a_regressor_is_measured_by_r2_also_on_few_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.clip(np.round(X[:, 0] + 3), 1, 5)
    y[0] = 9  # too rare for stratified folds
    selector = SubsetSelector(Ridge(), strategy="sfs", size=1).fit(X, y)
    assert selector.subset_ == ["x0"]
    assert selector.result_.cost == selector.cost_ < 0.6
