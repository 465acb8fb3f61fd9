"""Tests of why a column is in or out: scores are of measured subsets, on folds of one kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.problem.hints import unit_distances
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.columns import Neighbours, column_table
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import fresh_problem
from swarm.search.proxy import Proxy
from swarm.search.requests import measured_subsets
from swarm.search.result import SearchResult
from swarm.search.runner import run
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.storage.records import costs_of
from swarm.strategies.catalogue import make

GROUPS = {"pair": ["x1", "x2"]}
TREES = LGBMClassifier(n_estimators=3, num_leaves=3, n_jobs=1, verbosity=-1)


def problem(estimator: Any = None, n_columns: int = 8, **constraints: Any) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, n_columns))).add_prefix("x")
    X["x4"] = X["x0"] + 0.1 * rng.normal(size=90)
    y = (X["x0"] + X["x3"] + rng.normal(size=90) > 0).astype(int)
    space = SearchSpace.build(list(X), **constraints)
    return Problem.build(X, y, estimator or GaussianNB(), folds=3, space=space)


def search_and_confirm(
    posed: Problem, confirmed: bool = True, **options: Any
) -> tuple[SearchResult, Any]:
    """Search with random masks, and confirm the five best of them."""
    fresh = fresh_problem(posed, 1)
    assert fresh is not None
    archive = Archive()
    search = Search(
        posed,
        make("random", {"batch_size": 10}),
        budget=Budget(epochs=3),
        confirmation=ConfirmationPlan(fresh, 5) if confirmed else None,
        **options,
    )
    result = run(search, archive)
    return result, measured_subsets(result, posed, archive.open_problem(posed))


def table_of(posed: Problem, result: SearchResult, measured: Any, **options: Any) -> pd.DataFrame:
    neighbours = Neighbours.of(
        posed.space, result.best_mask, unit_distances(posed.features, posed.space)
    )
    options = {"scoring": posed.scoring, "neighbours": neighbours, **options}
    return column_table(result, measured, result.best_mask, **options)


@pytest.mark.parametrize("estimator", [GaussianNB(), TREES])
def test_each_row_is_what_the_subsets_of_its_kind_say(estimator: Any) -> None:
    posed = problem(estimator, groups=GROUPS, fixed=["x3"], forbidden=["x5"])
    result, measured = search_and_confirm(posed)
    space = posed.space
    table = table_of(posed, result, measured)
    assert sorted(table.index) == sorted(space.columns)
    confirmation = result.confirmation
    assert confirmation is not None
    fresh = confirmation.candidates
    subsets_on = {
        "fresh folds": (fresh.masks, fresh.fresh_costs),
        "search folds": (measured.masks, costs_of(measured.fold_costs)),
    }
    for name, row in table.iterrows():
        unit = space.unit_of[space.columns.index(str(name))]
        assert (row["status"] == "chosen") == result.best_mask[unit]
        scores_on = {}
        for folds, (masks, costs) in subsets_on.items():
            finite = np.isfinite(costs)
            scores_on[folds] = [
                1.0 - min(costs[finite & (masks[:, unit] == inside)], default=math.nan)
                for inside in (True, False)
            ]
        scores = [row["score_with"], row["score_without"]]
        assert scores == pytest.approx(scores_on[row["scored_on"]], nan_ok=True)
        # Scores are of fresh folds, unless these lack a side that the search has.
        lacks = any(
            math.isnan(fresh_score) and not math.isnan(search_score)
            for fresh_score, search_score in zip(
                scores_on["fresh folds"], scores_on["search folds"], strict=True
            )
        )
        assert (row["scored_on"] == "search folds") == lacks
    unused = table[(table["n_subsets"] > 0) & table["score_with"].isna()]
    assert (unused["note"] == "no model used it").all()
    pair = table.loc[GROUPS["pair"]]
    assert pair["group"].tolist() == ["pair", "pair"]
    assert pair["n_subsets"].nunique() == 1
    assert table.loc["x3", "note"] == "fixed"
    assert math.isnan(table.loc["x3", "score_without"])
    assert "x5" not in set(table["nearest"])
    assert table.loc["x5", ["note", "n_subsets"]].tolist() == ["forbidden", 0]


def test_a_swap_has_the_cost_of_that_very_subset_and_fresh_folds_come_first() -> None:
    posed = problem()
    result, measured = search_and_confirm(posed, confirmed=False)
    chosen = np.zeros(8, dtype=bool)
    chosen[[0, 3]] = True
    # x4 is a copy of x0 with some noise.
    neighbours = Neighbours.of(posed.space, chosen, unit_distances(posed.features, posed.space))
    assert posed.space.names[neighbours.units[4]] == "x0"
    assert posed.space.names[neighbours.units[0]] == "x4"
    swapped = chosen.copy()
    swapped[[0, 4]] = [False, True]
    costs = np.append(measured.fold_costs, [[0.1, 0.2, 0.3]], axis=0)
    with_swap = type(measured)(np.vstack([measured.masks, swapped]), costs, measured.counts)
    table = column_table(result, with_swap, chosen, scoring=posed.scoring, neighbours=neighbours)
    for name, nearest in (("x4", "x0"), ("x0", "x4")):
        row = table.loc[name]
        assert row["nearest"] == nearest
        assert row["score_swapped"] == pytest.approx(0.8)
        assert row["swapped_on"] == "search folds"
    assert table.loc["x4", "correlation"] > 0.9
    without_distances = column_table(
        result,
        measured,
        chosen,
        scoring=posed.scoring,
        neighbours=Neighbours.of(posed.space, chosen, None),
    )
    assert (without_distances["nearest"] == "").all()
    assert without_distances["correlation"].isna().all()


def test_members_come_behind_the_chosen_columns_and_the_order_is_by_what_is_gained() -> None:
    posed = problem()
    result, measured = search_and_confirm(posed)
    table = table_of(posed, result, measured, members=result.best_members(3).masks)
    rank = {"chosen": 0, "ensemble": 1, "out": 2}
    assert table["status"].map(rank).is_monotonic_increasing
    in_members = set(posed.space.subset(result.best_members(3).masks.any(axis=0)))
    assert set(table.index[table["status"] != "out"]) == in_members
    for _, columns in table.groupby("status"):
        gain = (columns["score_with"] - columns["score_without"]).dropna().to_numpy()
        assert (np.diff(gain) <= 1e-12).all()


def test_costs_of_a_proxy_are_no_scores() -> None:
    posed = problem()
    cheap = posed.with_estimator(LogisticRegression())
    proxy = Proxy(cheap, n_best=2, n_probes=0)
    result, measured = search_and_confirm(posed, confirmed=False, proxy=proxy)
    table = table_of(posed, result, measured)
    assert len(measured.masks) == 2
    measured_scores = np.sort(1.0 - costs_of(measured.fold_costs))
    scores = table[["score_with", "score_without"]].to_numpy()
    assert set(scores[~np.isnan(scores)]) <= set(measured_scores)
    unknown = table[table["n_subsets"] == 0]
    assert len(unknown)
    assert (unknown["note"] == "tried on the proxy only").all()
    assert unknown["score_with"].isna().all()


def test_what_was_never_tried_or_is_never_used_is_said() -> None:
    posed = problem(TREES, n_columns=30, max_size=2)
    result, measured = search_and_confirm(posed, confirmed=False)
    table = table_of(posed, result, measured)
    tried = set()
    for mask in np.unpackbits(
        np.array([[*key] for key in result.state.requests], dtype=np.uint8), axis=1, count=30
    ):
        tried |= set(posed.space.subset(mask.astype(bool)))
    assert set(table.index[table["note"] == "never tried"]) == set(posed.space.columns) - tried
    assert 0 < len(tried) < 30


def test_rankings_in_place_of_a_search_have_scores_on_fresh_folds_alone() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 500))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=40) > 0).astype(int)
    table = SubsetSelector(GaussianNB(), cv=3, confirm={"repeats": 2}).fit(X, y).columns_
    assert (table["scored_on"] == "fresh folds").all()
    assert (table["n_subsets"] > 0).all()
    assert (table["nearest"] != "").any()


def test_columns_that_a_prefilter_left_out_say_so() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 60))).add_prefix("x")
    y = (X["x0"] + rng.normal(size=90) > 0).astype(int)
    prefilter = {"when": "always", "least": 5}
    selector = SubsetSelector(GaussianNB(), cv=3, budget=1, confirm=False, prefilter=prefilter)
    selector.fit(X, y)
    table = selector.columns_
    kept = selector.prefilter_.kept
    assert not kept.all()
    left_out = table[table["note"] == "left out by the prefilter"]
    names = np.array(selector.result_.space.names)[~kept]
    assert set(left_out.index) == set(names)
