"""Tests of rankings: their first units replace a search, or compete with its best subsets."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from swarm import MLkNN, SubsetSelector
from swarm.errors import ConfigError
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.rows import Rows, derived_seed, divide
from swarm.search.budget import Budget
from swarm.search.packing import unpack_masks
from swarm.search.pose import pose_search
from swarm.search.rankings import MAX_PREFIXES, Rankings
from swarm.search.runner import run
from swarm.statistics.lowest import first_of
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.rankings import RankingSizes
from tests.selecting import summary_of

# The classes depend on two of forty columns.
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(150, 40))).add_prefix("x")
CLASSES = (TABLE["x7"] + TABLE["x31"] > 0).astype(int)
FEW = {"best": 8, "repeats": 2}


def ranked(features: pd.DataFrame, target: Any, model: Any, **options: Any) -> Any:
    problem = Problem.build(features, target, model, **options)
    return problem.space, prefixes(problem)


def prefixes(problem: Problem, units: Any = None, seed: int = 0) -> Any:
    rankings = Rankings.of(problem, ~problem.space.forbidden if units is None else units, seed)
    assert rankings is not None
    return rankings.prefixes()


def test_each_ranking_starts_with_the_columns_that_decide_at_sizes_up_to_all() -> None:
    space, table = ranked(TABLE, CLASSES, GaussianNB())
    names = ["F ranking", "extra-trees ranking"]
    assert list(dict.fromkeys(table.origin)) == names
    for name in names:
        nested = table.take(table.origin == name)
        deciding = space.mask(["x7", "x31"])
        assert (nested.masks[:, deciding].sum(axis=1) == np.minimum(nested.sizes, 2)).all()
        assert (np.diff(nested.sizes) > 0).all()
        # The subset of all columns is listed once, under the first ranking.
        assert nested.sizes[-1] == {"F ranking": 40, "extra-trees ranking": 28}[name]
        # Each prefix contains the one before it.
        assert not (nested.masks[:-1] & ~nested.masks[1:]).any()
    assert len(np.unique(table.masks, axis=0)) == len(table) <= MAX_PREFIXES


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
    assert all("x5" in subset and "x7" not in subset for subset in subsets)
    assert all(("x0" in subset) == ("x31" in subset) for subset in subsets)
    exact = SearchSpace.build(columns, min_size=3, max_size=3)
    assert set(ranked(TABLE, CLASSES, GaussianNB(), space=exact)[1].sizes) == {3}


def test_units_that_a_prefilter_drops_are_not_ranked() -> None:
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    kept_units = problem.space.mask(["x1", "x2", "x3", "x7", "x8", "x9"])
    table = prefixes(problem, kept_units)
    assert not (table.masks & ~kept_units).any()
    assert table.masks[:, problem.space.mask(["x7"])].all()


def multilabel() -> tuple[pd.DataFrame, Any, Any]:
    X, y = make_multilabel_classification(120, 12, n_classes=3, random_state=0)
    return pd.DataFrame(X).add_prefix("x"), y, MLkNN()


def gaps() -> tuple[pd.DataFrame, Any, Any]:
    table = TABLE.mask(np.random.default_rng(1).random(TABLE.shape) < 0.2)
    return table, CLASSES, DecisionTreeClassifier(max_depth=3)


def categories() -> tuple[pd.DataFrame, Any, Any]:
    model = lgb.LGBMClassifier(n_estimators=5, n_jobs=1, verbosity=-1)
    return TABLE.assign(x7=pd.cut(TABLE["x7"], 4, labels=list("abcd"))), CLASSES, model


def sparse() -> tuple[pd.DataFrame, Any, Any]:
    return TABLE.where(TABLE > 0, 0.0).astype("Sparse[float64]"), CLASSES, GaussianNB()


@pytest.mark.parametrize("build", [multilabel, gaps, categories, sparse])
def test_every_kind_of_table_is_ranked(build: Any) -> None:
    space, table = ranked(*build())
    assert set(table.origin) == {"F ranking", "extra-trees ranking"}
    if build is not multilabel:
        assert table.masks[:, space.mask(["x7"])].mean() > 0.8


def test_cells_without_a_number_prevent_rankings_and_infinite_ones_do_not() -> None:
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    units = ~problem.space.forbidden
    assert Rankings.of(replace(problem, X=TABLE.assign(x3=[[1]] * len(TABLE))), units, 0) is None
    infinite = replace(problem, X=TABLE.assign(x3=TABLE["x3"].where(TABLE.index != 3, np.inf)))
    assert set(prefixes(infinite).origin) == {"F ranking", "extra-trees ranking"}


def test_a_ranking_of_a_fold_reads_its_training_rows_alone() -> None:
    problem = Problem.build(TABLE, CLASSES, GaussianNB())
    train, test = problem.folds[0]
    features = TABLE.copy()
    classes = CLASSES.copy()
    features.iloc[test] = np.random.default_rng(5).normal(size=(len(test), 40)) * 100
    classes.iloc[test] = 1 - classes.iloc[test]
    changed_problem = Problem.build(features, classes, GaussianNB(), folds=[(train, test)])
    masks = []
    for ranked_problem in (problem, changed_problem):
        rankings = Rankings.of(ranked_problem, ~ranked_problem.space.forbidden, 0)
        assert rankings is not None
        masks.append(rankings.prefixes_of(prefixes(problem), train))
    assert np.array_equal(*masks)


def test_a_long_table_is_ranked_by_some_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.search.rankings._MAX_ROWS", 100)
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
    confirmation = short.confirmation_
    assert confirmation.origin.endswith("ranking")
    best = confirmation.candidates.masks[confirmation.chosen]
    assert short.subset_ == short.result_.space.subset(best)
    assert short.result_.candidates.origin[0] == confirmation.origin
    # Its cost on the folds of the search is that of the table of all evaluations.
    row = short.results_[short.results_["features"] == tuple(short.subset_)]
    assert row["cost"].tolist() == [short.cost_] == [confirmation.searched_cost]
    assert short.importances_.index.tolist()
    assert f"They are the first of the {confirmation.origin}" in " ".join(summary_of(short).split())


def test_rankings_replace_half_of_the_searched_subsets_at_as_many_fits_on_fresh_folds(
    short: SubsetSelector,
) -> None:
    searched = fitted(confirm={"rankings": False})
    assert set(searched.confirmation_.candidates.origin) == {"search"}
    assert searched.result_.rivals is None
    n_ranked = pd.Series(short.confirmation_.candidates.origin).str.endswith("ranking").sum()
    assert n_ranked == FEW["best"] // 2
    # The ninth candidate has the units that half of the searched ones share.
    n_candidates = [len(selector.confirmation_.candidates) for selector in (searched, short)]
    assert set(n_candidates) <= {8, 9}
    # All prefixes are trained on five of the eight fresh folds. Four are also trained on the other
    # three and on the folds of the search, in place of four subsets of the search.
    n_ranking_fits = 5 * len(short.result_.rivals) + 4 * 3 + 4 * 4
    n_replaced_fits = 8 * (n_candidates[0] - (n_candidates[1] - 4))
    # Prefixes of both rankings may be the same.
    assert 0 < short.n_fits_ - searched.n_fits_ <= n_ranking_fits - n_replaced_fits
    # The search itself is the same.
    assert short.history_.equals(searched.history_)


def test_the_best_prefixes_on_a_few_fresh_folds_are_measured_on_all(short: SubsetSelector) -> None:
    prefixes = short.result_.rivals
    first_costs = prefixes.fresh_fold_costs[:, :5].mean(axis=1)
    complete = ~np.isnan(prefixes.fresh_fold_costs).any(axis=1)
    assert complete.sum() == FEW["best"] // 2
    assert first_costs[complete].max() <= first_costs[~complete].min()
    candidates = short.confirmation_.candidates
    ranked_masks = candidates.masks[candidates.origin != "search"]
    assert {mask.tobytes() for mask in ranked_masks} == {
        mask.tobytes() for mask in prefixes.masks[complete]
    }


def test_a_prefix_costs_on_a_fold_what_the_ranking_of_its_training_rows_costs() -> None:
    X, y = make_classification(60, 70, n_informative=2, n_redundant=0, random_state=1)
    features = pd.DataFrame(X).add_prefix("x")
    confirm = {"best": 4, "repeats": 2}
    selector = SubsetSelector(GaussianNB(), budget=1, strategy="random", cv=4, confirm=confirm)
    rivals = selector.fit(features, y).result_.rivals
    folds = [
        fold
        for repeat in (1, 2)
        for fold in divide(
            Rows(None, y, task="binary"), "stratified", 4, seed=derived_seed(0, repeat)
        )
    ]
    model = ExtraTreesClassifier(200, random_state=0)
    for row in np.flatnonzero(rivals.origin == "extra-trees ranking").tolist():
        for (train, test), cost in zip(folds, rivals.fresh_fold_costs[row], strict=True):
            if np.isnan(cost):
                continue
            order = np.argsort(-model.fit(X[train], y[train]).feature_importances_, kind="stable")
            columns = np.sort(order[: rivals.sizes[row]])
            fitted = GaussianNB().fit(X[np.ix_(train, columns)], y[train])
            assert cost == pytest.approx(1 - fitted.score(X[np.ix_(test, columns)], y[test]))


def test_rankings_compete_only_where_units_outnumber_rows() -> None:
    X, y = make_classification(60, 61, random_state=0)
    for width, groups in ((61, None), (60, None), (61, {"pair": ["x0", "x1"]})):
        features = pd.DataFrame(X[:, :width]).add_prefix("x")
        options = {"budget": 1, "strategy": "random", "confirm": FEW, "groups": groups}
        selector = SubsetSelector(GaussianNB(), **options).fit(features, y)
        n_units = width - (groups is not None)
        assert (selector.result_.rivals is not None) == (n_units > 60)


def test_a_strategy_with_a_rule_of_its_own_has_no_rival() -> None:
    selector = fitted(strategy="sfs", size=3, budget="auto", confirm={"repeats": 1})
    assert selector.result_.rivals is None
    assert selector.confirmation_.candidates.origin.tolist() == ["search"]


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


# ---------------------------------------------------------------- rankings without a search


def few_rows(n_units: int = 520, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return fifty rows whose classes differ in three of many columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, n_units))
    y = np.arange(50) % 2
    X[:, :3] += 1.5 * y[:, None]
    return pd.DataFrame(X).add_prefix("x"), y


class SignOfSum(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts whether the sum of the columns is positive; all of them are needed."""

    def fit(self, X: Any, y: Any) -> SignOfSum:
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X: Any) -> Any:
        return (np.asarray(X).sum(axis=1) > 0).astype(int)


@pytest.fixture(scope="module")
def wide() -> SubsetSelector:
    """A fit with all defaults of a table with ten times as many columns as rows."""
    return SubsetSelector(GaussianNB()).fit(*few_rows())


def test_by_default_rankings_replace_the_search_where_columns_outnumber_rows_many_times(
    wide: SubsetSelector,
) -> None:
    assert isinstance(wide.strategy_, RankingSizes)
    X, y = few_rows()
    for options in (
        {"strategy": "multiswarm"},
        {"strategy_params": {"n_particles": 4, "n_swarms": 2}},
        {"warm": [["x0"]]},
        {"proxy": {"rows": 0.5}},
        {"prefilter": True},
        {"cv": 0},
    ):
        selector = SubsetSelector(GaussianNB(), budget=1, confirm=False).set_params(**options)
        assert not isinstance(selector.fit(X, y).strategy_, RankingSizes)
    narrow = SubsetSelector(GaussianNB(), budget=1).fit(X.iloc[:, :500], y)
    assert isinstance(narrow.strategy_, MultiSwarm)


def test_exactly_k_columns_of_many_more_than_rows_are_the_first_of_a_ranking() -> None:
    trees = DecisionTreeClassifier(random_state=0)
    selector = SubsetSelector(trees, size=5).fit(*few_rows())
    assert isinstance(selector.strategy_, RankingSizes)
    assert len(selector.subset_) == 5
    candidates = selector.confirmation_.candidates
    shared = selector.columns_.loc[selector.result_.space.subset(candidates.masks.all(axis=0))]
    assert len(shared)
    assert set(shared["scored_on"]) == {"fresh folds"}
    assert shared["score_with"].notna().all()
    # Elimination does not compete, although the model has importances.
    assert set(candidates.origin) == {"F ranking", "extra-trees ranking"}


def test_every_size_of_every_ranking_is_measured_on_all_fresh_folds(wide: SubsetSelector) -> None:
    candidates = wide.confirmation_.candidates
    assert {3, 7, 12, 23, 43, 80, 149, 278, 520} == set(candidates.sizes)
    assert candidates.fresh_fold_costs.shape[1] == 10
    assert np.isfinite(candidates.fresh_fold_costs).all()
    assert set(candidates.origin) == {"F ranking", "extra-trees ranking"}


def test_its_cost_is_that_of_rankings_within_the_folds_also_in_the_table(
    wide: SubsetSelector,
) -> None:
    confirmation = wide.confirmation_
    assert (
        wide.cost_ == confirmation.cost == confirmation.candidates.fresh_costs[confirmation.chosen]
    )
    assert {"x0", "x1", "x2"} & set(wide.subset_)
    row = wide.results_[wide.results_["features"] == tuple(wide.subset_)]
    assert row["cost"].tolist() == [wide.cost_]
    assert len(wide.results_) == len(confirmation.candidates)
    smallest = clone(wide).set_params(pick="parsimonious").fit(*few_rows())
    assert len(smallest.subset_) <= len(wide.subset_)
    assert smallest.cost_ <= confirmation.candidates.fresh_costs[0] + confirmation.errors[0] + 1e-9


def test_a_report_and_a_summary_of_rankings_show_no_search(
    wide: SubsetSelector, tmp_path: Path
) -> None:
    page = Path(wide.report(tmp_path / "report.html", *few_rows())).read_text()
    assert "Convergence" not in page
    assert "Work of the search" not in page
    assert "in the search" not in summary_of(wide)
    # Rankings are measured on fresh folds, with or without a confirmation.
    unconfirmed = clone(wide).set_params(confirm=False).fit(*few_rows())
    assert "confirm=True" not in summary_of(unconfirmed)


def test_the_vote_has_the_sizes_of_both_rankings_within_one_standard_error(
    wide: SubsetSelector,
) -> None:
    confirmation = wide.confirmation_
    members = wide.result_.best_members()
    costs = confirmation.candidates.fresh_fold_costs
    assert costs.shape[1] == 10
    near = costs.mean(axis=1) <= costs[0].mean() + costs[0].std(ddof=1) / np.sqrt(5) + 1e-9
    assert 1 < near.sum() < len(costs)
    assert np.array_equal(members.masks[0], confirmation.candidates.masks[confirmation.chosen])
    assert set(members.origin) == {"F ranking", "extra-trees ranking"}
    assert {mask.tobytes() for mask in members.masks} == {
        mask.tobytes() for mask in confirmation.candidates.masks[near]
    }


def test_where_all_columns_win_the_answer_keeps_all() -> None:
    X = np.random.default_rng(0).normal(size=(60, 620))
    selector = SubsetSelector(SignOfSum()).fit(pd.DataFrame(X), (X.sum(axis=1) > 0).astype(int))
    assert len(selector.subset_) == 620
    assert summary_of(selector).startswith("Keep all 620 columns")
    assert "They are the first" not in summary_of(selector)


def test_folds_that_cannot_be_drawn_again_measure_the_rankings() -> None:
    X, y = few_rows()
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    selector = SubsetSelector(GaussianNB(), cv=folds).fit(X, y)
    assert isinstance(selector.strategy_, RankingSizes)
    assert selector.confirmation_.candidates.fresh_fold_costs.shape[1] == 4
    with pytest.raises(ConfigError, match="two folds"):
        SubsetSelector(GaussianNB(), strategy="rankings", cv=folds[:1]).fit(X, y)


def test_a_second_fit_trains_nothing_and_workers_change_nothing(tmp_path: Path) -> None:
    X, y = few_rows()
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1)
    options: dict[str, Any] = {"confirm": {"repeats": 1}, "cv": 3}
    serial = SubsetSelector(model, archive=tmp_path / "a.db", **options).fit(X, y)
    trained_masks = list[Any]()
    problem = Problem.build(X, y, model, folds=3)
    search = pose_search(
        problem,
        make("rankings"),
        budget=Budget(epochs=1),
        seed=0,
        evaluation={},
        confirm={"repeats": 1},
    )
    with closing(Archive(f"sqlite:///{tmp_path / 'a.db'}")) as archive:
        repeated = run(search, archive, on_fit=lambda mask, record: trained_masks.append(mask))
    assert not trained_masks
    parallel = SubsetSelector(model, n_jobs=2, **options).fit(X, y)
    for result in (repeated, parallel.result_):
        assert np.array_equal(result.candidates.masks, serial.result_.candidates.masks)
        assert np.array_equal(
            result.confirmation.candidates.fresh_fold_costs,
            serial.confirmation_.candidates.fresh_fold_costs,
        )


# ---------------------------------------------------------------- a given size


def test_at_a_given_size_what_the_model_eliminates_competes_and_is_preferred() -> None:
    X, y = few_rows(400)
    model = LogisticRegression(max_iter=200)
    selector = SubsetSelector(model, size=6, budget=1, confirm=FEW).fit(X, y)
    candidates = selector.confirmation_.candidates
    assert set(candidates.sizes) == {6}
    assert {"recursive elimination", "F ranking", "extra-trees ranking"} <= set(candidates.origin)
    assert selector.confirmation_.preferred == ("recursive elimination",)
    # Half of the columns are eliminated at a time, on the training rows of each fresh fold.
    eliminated = candidates.origin == "recursive elimination"
    fold_costs = candidates.fresh_fold_costs[eliminated][0]
    fresh_folds = divide(Rows(None, y, task="binary"), "stratified", 5, seed=derived_seed(0, 1))
    train, test = next(iter(fresh_folds))

    def eliminate(rows: Any) -> Any:
        columns = np.arange(X.shape[1])
        while len(columns) > 6:
            model.fit(X.iloc[rows, columns], y[rows])
            order = np.argsort(-np.abs(model.coef_[0]), kind="stable")
            columns = np.sort(columns[order[: max(6, len(columns) // 2)]])
        return columns

    columns = eliminate(train)
    fitted = model.fit(X.iloc[train, columns], y[train])
    assert fold_costs[0] == pytest.approx(1 - fitted.score(X.iloc[test, columns], y[test]))
    mask = candidates.masks[eliminated][0]
    assert selector.result_.space.subset(mask) == [f"x{c}" for c in eliminate(np.arange(50))]


def test_a_model_without_importances_eliminates_nothing_and_narrow_tables_do() -> None:
    X, y = few_rows(400)
    bayes = SubsetSelector(GaussianNB(), size=3, budget=1, confirm=FEW).fit(X, y)
    assert "recursive elimination" not in bayes.confirmation_.candidates.origin
    narrow = SubsetSelector(LogisticRegression(), size=3, budget=1, confirm=FEW)
    origin = narrow.fit(X.iloc[:, :20], y).confirmation_.candidates.origin
    assert set(origin) == {"search", "recursive elimination"}


# ---------------------------------------------------------------- bias of the choice


def test_on_noise_the_cost_and_the_bias_of_the_choice_are_nearer_to_that_of_unseen_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Ten trees are enough where there is nothing to find.
    monkeypatch.setattr("swarm.search.rankings._N_TREES", 10)
    biases = []
    corrected_biases = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 620))
        y = np.arange(60) % 2
        repeats = 1 + seed % 2
        selector = SubsetSelector(GaussianNB(), confirm={"repeats": repeats, "goal": "score"})
        selector.fit(pd.DataFrame(X).add_prefix("x"), y)
        assert selector.confirmation_.bias_of_choice >= 0
        # The cost on unseen rows is one half.
        biases.append(0.5 - selector.cost_)
        corrected_biases.append(0.5 - selector.cost_ - selector.confirmation_.bias_of_choice)
    assert abs(np.mean(corrected_biases)) < abs(np.mean(biases))
