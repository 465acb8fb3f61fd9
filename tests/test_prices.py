"""What columns cost to obtain: ties, the Pareto front and the penalty of a search."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.problem.space import SearchSpace
from swarm.report.figures import _tradeoff as tradeoff
from swarm.selector.report import _picks
from tests.small_report import plain_report
from tests.test_confirmation import around, confirmation

X, y = load_wine(return_X_y=True, as_frame=True)
FEW = X.iloc[:, :6]
PRICES = {"alcohol": 4.0, "ash": 0.5, "magnesium": 2.0}


def price(names: Any) -> float:
    return sum(PRICES.get(name, 1.0) for name in names)


def searched(table: pd.DataFrame = FEW, **options: Any) -> SubsetSelector:
    options = {"strategy": "exhaustive", "cv": 4, **options}
    return SubsetSelector(GaussianNB(), **options).fit(table, y)


def test_the_result_minimises_the_cost_plus_the_weighted_price() -> None:
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    every = [names for n in range(1, 6) for names in combinations(FEW.columns[:5], n)]
    costs = {
        names: 1 - cross_val_score(GaussianNB(), X[list(names)], y, cv=folds).mean()
        for names in every
    }
    best = min(every, key=lambda names: costs[names] + 0.02 * price(names))
    for pruning in (True, False):
        found = searched(FEW.iloc[:, :5], costs=PRICES, cost_weight=0.02, pruning=pruning)
        assert set(found.subset_) == set(best)
        assert found.cost_ == pytest.approx(costs[best])
        paid = found.history_["best_cost"].iloc[-1]
        assert paid == pytest.approx(costs[best] + 0.02 * price(best))
    # The price has an effect here.
    assert set(best) != set(min(every, key=lambda names: costs[names]))


def test_of_equal_columns_the_cheapest_is_selected() -> None:
    table = FEW.assign(copy=FEW["alcohol"])
    dear = searched(table, costs={"copy": 3.0, "alcohol": 2.0})
    cheap = searched(table, costs={"copy": 1.5, "alcohol": 2.0})
    assert "alcohol" in dear.subset_
    assert set(cheap.subset_) == set(dear.subset_) - {"alcohol"} | {"copy"}


def test_the_front_is_of_price_and_cost() -> None:
    found = searched(costs=PRICES, pruning=False)
    table, front = found.results_, found.pareto_
    assert table["price"].tolist() == [price(names) for names in table["features"]]
    for row in front.itertuples():
        beats = (table["price"] <= row.price) & (table["cost"] <= row.cost)
        equal = (table["price"] == row.price) & (table["cost"] == row.cost)
        assert not (beats & ~equal).any()
    near = table[table["cost"] <= found.cost_ + table["se"][table["cost"].idxmin()]]
    assert price(found.repick("parsimonious").subset_) == near["price"].min()


def test_the_report_of_a_selector_picks_by_price_as_its_rules_do() -> None:
    picks = []
    for options in ({}, {"costs": {"ash": 9.0}}):
        found = searched(pruning=False, **options)
        (reported,) = (set(one.features) for one in _picks(found) if one.rule == "parsimonious")
        assert reported == set(found.repick("parsimonious").subset_)
        picks.append(reported)
    assert picks[0] != picks[1]


@pytest.mark.parametrize(
    "options", [{"racing": 0.2}, {"repeats": 2}, {"repeats": 2, "rotate": 2}, {"confirm": True}]
)
def test_free_columns_change_nothing(options: dict[str, Any]) -> None:
    # A weight puts the penalty into every way to evaluate; with prices of 0 it adds nothing.
    options |= {"strategy": "bpso", "epochs": 6, "strategy_params": {"n_particles": 8}}
    plain = searched(**options)
    free = searched(costs=dict.fromkeys(FEW.columns, 0), cost_weight=1.0, **options)
    assert free.subset_ == plain.subset_
    assert free.cost_ == plain.cost_
    assert free.history_.equals(plain.history_)


def test_a_penalty_reaches_all_partitions_and_the_confirmation() -> None:
    options: dict[str, Any] = {"repeats": 2, "confirm": {"best": 5, "repeats": 2}, "epochs": 8}
    found = searched(strategy="bpso", costs=PRICES, cost_weight=0.05, **options)
    assert found.confirmation_ is not None
    paid = found.confirmation_.costs + 0.05 * found.confirmation_.prices
    assert (np.diff(paid) >= 0).all()
    table = found.results_
    row = table[table["features"] == tuple(found.subset_)].iloc[0]
    assert found.cost_ == pytest.approx(row["cost"])


def test_the_cheapest_within_the_margin_is_confirmed() -> None:
    found = confirmation(
        [around(0.10), around(0.101), around(0.102)], [5, 2, 4], around(0.2), goal="balanced"
    )
    assert found.chosen == 1
    assert replace(found, prices=np.array([5.0, 9.0, 3.0])).chosen == 2


def test_a_group_has_one_price() -> None:
    space = SearchSpace.build(["a", "b", "c"], groups={"panel": ["a", "c"]}, costs={"panel": 0.3})
    assert space.price(np.array([[True, False], [False, True], [True, True]])).tolist() == [
        0.3,
        1.0,
        1.3,
    ]
    # In another order of columns too.
    turned = space.reordered([2, 1, 0])
    assert turned.price(turned.mask(["a", "c"])[None, :]).tolist() == [0.3]
    assert space.restricted(np.array([True, False])).unit_prices.tolist() == [0.3]


def test_the_report_draws_prices_in_place_of_sizes() -> None:
    plain = plain_report()
    names = {name for subset, _ in plain.subsets for name in subset}
    names |= {name for pick in plain.picks for name in pick.features}
    data = replace(
        plain,
        prices=dict.fromkeys(names, 2.5),
        evaluations=plain.evaluations.assign(price=2.5 * plain.evaluations["size"]),
    )
    before, after = (tradeoff(each).axes[0] for each in (plain, data))
    assert (before.get_xlabel(), after.get_xlabel()) == (
        "features in the subset",
        "price of the subset",
    )
    for one, other in zip(before.lines, after.lines, strict=True):
        if one.get_label() in ("best subset", "in the ensemble", "1-SE pick", "knee"):
            assert other.get_xdata().tolist() == [2.5 * x for x in one.get_xdata()]
