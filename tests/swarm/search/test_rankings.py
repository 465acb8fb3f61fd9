"""The first units of rankings are candidates of the confirmation beside the best of the search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from swarm import MLkNN, SubsetSelector
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.rows import Rows, derived_seed, divide
from swarm.search.packing import unpack_masks
from swarm.search.rankings import MOST_PREFIXES, prefixes
from swarm.statistics.lowest import first_of

# Two of forty columns decide.
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(150, 40))).add_prefix("x")
CLASSES = (TABLE["x7"] + TABLE["x31"] > 0).astype(int)
FEW = {"best": 8, "repeats": 2}


def ranked(features: pd.DataFrame, target: Any, model: Any, **options: Any) -> Any:
    problem = Problem.build(features, target, model, **options)
    return problem.space, prefixes(problem, np.ones(problem.space.n_units, dtype=bool), seed=0)


def test_each_ranking_starts_with_the_columns_that_decide_at_sizes_up_to_half() -> None:
    space, table = ranked(TABLE, CLASSES, GaussianNB())
    names = ["mutual-information ranking", "extra-trees ranking"]
    assert list(dict.fromkeys(table.origin)) == names
    for name in names:
        rows = table.take(table.origin == name)
        deciding = space.mask(["x7", "x31"])
        assert (rows.masks[:, deciding].sum(axis=1) == np.minimum(rows.sizes, 2)).all()
        assert (np.diff(rows.sizes) > 0).all()
        assert rows.sizes[-1] == 20
        # Each contains the one before it.
        assert not (rows.masks[:-1] & ~rows.masks[1:]).any()
    assert len(np.unique(table.masks, axis=0)) == len(table) <= MOST_PREFIXES


def test_prefixes_obey_every_constraint_and_a_group_is_one_unit() -> None:
    columns = list(TABLE.columns)
    space = SearchSpace.build(
        columns,
        groups={"pair": ["x0", "x31"]},
        fixed=["x5"],
        forbidden=["x7"],
        min_size=2,
        max_size=4,
    )
    space, table = ranked(TABLE, CLASSES, GaussianNB(), space=space)
    assert space.obeys(table.masks).all()
    assert set(table.sizes) == {2, 3, 4}
    subsets = [set(space.subset(mask)) for mask in table.masks]
    assert {"x5", "x0", "x31"} in subsets
    assert all("x5" in each and "x7" not in each for each in subsets)
    assert all(("x0" in each) == ("x31" in each) for each in subsets)
    exact = SearchSpace.build(columns, min_size=3, max_size=3)
    assert set(ranked(TABLE, CLASSES, GaussianNB(), space=exact)[1].sizes) == {3}


def test_units_that_a_prefilter_drops_are_not_ranked() -> None:
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    kept = problem.space.mask(["x1", "x2", "x3", "x7", "x8", "x9"])
    table = prefixes(problem, kept, seed=0)
    assert not (table.masks & ~kept).any()
    assert table.masks[:, problem.space.mask(["x7"])].all()


def multilabel() -> tuple[pd.DataFrame, Any, Any]:
    X, y = make_multilabel_classification(120, 12, n_classes=3, random_state=0)
    return pd.DataFrame(X).add_prefix("x"), y, MLkNN()


def gaps() -> tuple[pd.DataFrame, Any, Any]:
    holes = TABLE.mask(np.random.default_rng(1).random(TABLE.shape) < 0.2)
    return holes, CLASSES, DecisionTreeClassifier(max_depth=3)


def categories() -> tuple[pd.DataFrame, Any, Any]:
    model = lgb.LGBMClassifier(n_estimators=5, n_jobs=1, verbosity=-1)
    return TABLE.assign(x7=pd.cut(TABLE["x7"], 4, labels=list("abcd"))), CLASSES, model


def sparse() -> tuple[pd.DataFrame, Any, Any]:
    return TABLE.where(TABLE > 0, 0.0).astype("Sparse[float64]"), CLASSES, GaussianNB()


@pytest.mark.parametrize("build", [multilabel, gaps, categories, sparse])
def test_every_kind_of_table_is_ranked(build: Any) -> None:
    space, table = ranked(*build())
    assert set(table.origin) == {"mutual-information ranking", "extra-trees ranking"}
    if build is not multilabel:
        assert table.masks[:, space.mask(["x7"])].mean() > 0.8


def test_a_ranking_that_cannot_read_a_column_is_left_out() -> None:
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    kept = ~problem.space.forbidden
    for cells, names in (
        ([[1]] * len(TABLE), set()),
        (np.where(np.arange(len(TABLE)) == 3, np.inf, TABLE["x3"]), {"extra-trees ranking"}),
    ):
        unreadable = replace(problem, X=TABLE.assign(x3=cells))
        assert set(prefixes(unreadable, kept, seed=0).origin) == names


def test_a_long_table_is_ranked_by_some_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.search.rankings._MOST_ROWS", 100)
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    tables = [prefixes(problem, ~problem.space.forbidden, seed) for seed in (0, 0, 1)]
    deciding = problem.space.mask(["x7", "x31"])
    assert all(table.masks[table.sizes > 4][:, deciding].all() for table in tables)
    assert np.array_equal(tables[0].masks, tables[1].masks)
    assert not np.array_equal(tables[0].masks, tables[2].masks)


def test_units_are_ordered_by_importance_with_fixed_ones_first_and_forbidden_ones_last() -> None:
    space = SearchSpace.build(list("abcde"), fixed=["d"], forbidden=["a"])
    order = space.in_order(np.array([9.0, 1.0, 3.0, 0.0, 3.0]))
    assert [space.names[unit] for unit in order] == ["d", "c", "e", "b", "a"]
    masks = first_of(np.array([order, order]), np.array([1, 3]))
    assert [space.subset(mask) for mask in masks] == [["d"], ["c", "d", "e"]]


def fitted(**options: Any) -> SubsetSelector:
    X, y = make_classification(60, 160, n_informative=3, n_redundant=0, random_state=1)
    confirm = {**FEW, **options.pop("confirm", {})}
    options = {"strategy": "random", "budget": 1, "cv": 4, "confirm": confirm, **options}
    return SubsetSelector(GaussianNB(), **options).fit(pd.DataFrame(X).add_prefix("x"), y)


@pytest.fixture(scope="module")
def short() -> SubsetSelector:
    """A search of one epoch of random subsets, which a ranking beats."""
    return fitted()


def test_a_ranking_that_is_best_is_the_answer(short: SubsetSelector) -> None:
    found = short.confirmation_
    assert found.origin.endswith("ranking")
    best = found.candidates.masks[found.chosen]
    assert short.subset_ == short.result_.space.subset(best)
    assert short.result_.candidates.origin[0] == found.origin
    # Its cost on the folds of the search is that of the table of all evaluations.
    row = short.results_[short.results_["features"] == tuple(short.subset_)]
    assert row["cost"].tolist() == [short.cost_] == [found.searched_cost]
    assert short.importances_.index.tolist()
    assert f"They are the first of the {found.origin}" in " ".join(short.summary().split())


def test_rankings_replace_half_of_the_searched_subsets_at_as_many_fits_on_fresh_folds(
    short: SubsetSelector,
) -> None:
    alone = fitted(confirm={"rankings": False})
    assert set(alone.confirmation_.candidates.origin) == {"search"}
    assert alone.result_.prefixes is None
    counts = pd.Series(short.confirmation_.candidates.origin).str.endswith("ranking").sum()
    assert counts == FEW["best"] // 2
    # The ninth is what half of the searched ones share.
    sizes = [len(each.confirmation_.candidates) for each in (alone, short)]
    assert set(sizes) <= {8, 9}
    # All prefixes on five of the eight fresh folds, four of them on three more and on the folds of
    # the search, in place of four subsets of the search.
    measured = 5 * len(short.result_.prefixes) + 4 * 3 + 4 * 4
    replaced = 8 * (sizes[0] - (sizes[1] - 4))
    assert short.n_fits_ - alone.n_fits_ == measured - replaced
    # The search itself is the same.
    assert short.history_.equals(alone.history_)


def test_the_best_prefixes_on_a_few_fresh_folds_are_measured_on_all(short: SubsetSelector) -> None:
    table = short.result_.prefixes
    few = table.fresh_fold_costs[:, :5].mean(axis=1)
    complete = ~np.isnan(table.fresh_fold_costs).any(axis=1)
    assert complete.sum() == FEW["best"] // 2
    assert few[complete].max() <= few[~complete].min()
    confirmed = short.confirmation_.candidates
    of_rankings = confirmed.masks[confirmed.origin != "search"]
    assert {mask.tobytes() for mask in of_rankings} == {
        mask.tobytes() for mask in table.masks[complete]
    }


def test_a_prefix_costs_on_a_fold_what_the_ranking_of_its_training_rows_costs() -> None:
    X, y = make_classification(60, 70, n_informative=2, n_redundant=0, random_state=1)
    features = pd.DataFrame(X).add_prefix("x")
    confirm = {"best": 4, "repeats": 2}
    found = SubsetSelector(GaussianNB(), budget=1, strategy="random", cv=4, confirm=confirm)
    table = found.fit(features, y).result_.prefixes
    folds = [
        fold
        for repeat in (1, 2)
        for fold in divide(
            Rows(None, y, task="binary"), "stratified", 4, seed=derived_seed(0, repeat)
        )
    ]
    model = ExtraTreesClassifier(50, random_state=0)
    for row in np.flatnonzero(table.origin == "extra-trees ranking").tolist():
        for (train, test), cost in zip(folds, table.fresh_fold_costs[row], strict=True):
            if np.isnan(cost):
                continue
            order = np.argsort(-model.fit(X[train], y[train]).feature_importances_, kind="stable")
            first = np.sort(order[: table.sizes[row]])
            fitted = GaussianNB().fit(X[np.ix_(train, first)], y[train])
            assert cost == pytest.approx(1 - fitted.score(X[np.ix_(test, first)], y[test]))


def test_rankings_compete_only_where_units_outnumber_rows() -> None:
    X, y = make_classification(60, 61, random_state=0)
    for width, groups in ((61, None), (60, None), (61, {"pair": ["x0", "x1"]})):
        features = pd.DataFrame(X[:, :width]).add_prefix("x")
        options = {"budget": 1, "strategy": "random", "confirm": FEW, "groups": groups}
        found = SubsetSelector(GaussianNB(), **options).fit(features, y)
        n_units = width - (groups is not None)
        assert (found.result_.prefixes is not None) == (n_units > 60)


def test_a_strategy_with_a_rule_of_its_own_has_no_rival() -> None:
    found = fitted(strategy="sfs", size=3, budget="auto", confirm={"repeats": 1})
    assert found.result_.prefixes is None
    assert found.confirmation_.candidates.origin.tolist() == ["search"]


def test_what_a_ranking_proposed_is_no_smaller_subset_to_pick(short: SubsetSelector) -> None:
    """Rankings of all rows have seen the test rows of the folds of the search."""
    candidates = short.confirmation_.candidates
    ranked = {
        tuple(short.result_.space.subset(mask))
        for mask in candidates.masks[candidates.origin != "search"]
    }
    proposed = unpack_masks(short.result_.state.requests, short.result_.space.n_units)
    ranked -= {tuple(short.result_.space.subset(mask)) for mask in proposed}
    assert ranked & set(short.results_["features"])
    assert not ranked & set(short.pareto_["features"])
