"""Tests of the statistics of a comparison: known answers, brute force, and false claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import mannwhitneyu, wilcoxon

from swarm.report.comparison import sentences
from swarm.report.comparison_figures import cliques
from swarm.statistics.resampled import corrected_t
from swarm.validation.comparison import compare, critical_difference, holm
from swarm.validation.location import rank_sum, signed_rank
from swarm.validation.stability import interpret_index, nogueira

# These are the examples of Hollander and Wolfe whose answers R documents for wilcox.test.
DEPRESSION = (
    np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]),
    np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]),
)
PERMEABILITY = (
    [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46],
    [1.15, 0.88, 0.90, 0.74, 1.21],
)
small_values = st.integers(-3, 3).map(float)


@pytest.fixture(autouse=True, scope="module")
def uncollected() -> Iterator[None]:
    """Skip the garbage collection that statsmodels runs with every correction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda *_: 0)
        yield


def two_sided(sums: list[float], observed: float) -> float:
    below = sum(value <= observed + 1e-9 for value in sums) / len(sums)
    above = sum(value >= observed - 1e-9 for value in sums) / len(sums)
    return min(1.0, 2 * min(below, above))


def ranked(values: np.ndarray) -> np.ndarray:
    return pd.Series(values).rank().to_numpy()


# ---------------------------------------------------------------- location


def test_the_tests_give_the_documented_answers():
    x, y = DEPRESSION
    shift = signed_rank(x - y)
    assert (shift.p, shift.estimate) == pytest.approx((0.0390625, 0.46))
    assert (shift.low, shift.high) == pytest.approx((0.010, 0.786))
    shift = rank_sum(*PERMEABILITY)
    assert (shift.p, shift.estimate) == pytest.approx((0.2544, 0.305), abs=5e-5)
    assert (shift.low, shift.high) == pytest.approx((-0.15, 0.76))


@settings(max_examples=30, deadline=None)
@given(st.lists(small_values, min_size=1, max_size=8))
def test_signed_ranks_with_ties_are_exact_by_every_choice_of_signs(values):
    nonzero = np.array([v for v in values if v])
    ranks = ranked(np.abs(nonzero))
    signs = itertools.product([0, 1], repeat=len(nonzero))
    sums = [float(np.dot(ranks, chosen)) for chosen in signs]
    expected = two_sided(sums, float(ranks[nonzero > 0].sum()))
    assert signed_rank(values).p == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(small_values, min_size=1, max_size=5), st.lists(small_values, min_size=1, max_size=5)
)
def test_rank_sums_with_ties_are_exact_by_every_choice_of_ranks(x, y):
    ranks = ranked(np.array(x + y))
    sums = [float(sum(chosen)) for chosen in itertools.combinations(ranks, len(x))]
    assert rank_sum(x, y).p == pytest.approx(two_sided(sums, float(ranks[: len(x)].sum())))


@pytest.mark.parametrize("n", [5, 30, 70])
def test_scipy_agrees_without_ties(n):
    x, y = np.random.default_rng(n).normal([0.0, 0.4], size=(n, 2)).T
    assert rank_sum(x, y).p == pytest.approx(mannwhitneyu(x, y, method="exact").pvalue)
    assert signed_rank(x - y).p == pytest.approx(wilcoxon(x - y, method="exact").pvalue)


@pytest.mark.parametrize("n", [7, 40])
def test_the_interval_holds_exactly_the_shifts_that_the_test_does_not_refuse(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(0.7, size=n)
    shift = rank_sum(x, y)
    for edge, outwards in ((shift.low, -1e-6), (shift.high, 1e-6)):
        assert rank_sum(x - (edge - outwards), y).p > 0.05
        assert rank_sum(x - (edge + outwards), y).p <= 0.05


def test_few_values_have_a_smallest_p_and_no_bound_of_the_shift():
    # The normal approximation would give 0.047 here.
    shift = rank_sum([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert shift.p == pytest.approx(0.1)
    assert (shift.low, shift.high) == (-math.inf, math.inf)
    # For a value among sixty the smallest p is 2 / 61: nothing bounds a shift at 99 percent.
    shift = rank_sum([0.5], np.arange(60.0), 0.99)
    assert (shift.low, shift.high) == (-math.inf, math.inf)


def test_no_difference_is_no_evidence():
    assert signed_rank([0.0, 0.0]).p == signed_rank([0.0] * 70).p == 1.0
    assert rank_sum([1.0, 1.0], [1.0, 1.0]).p == rank_sum([1.0] * 40, [1.0] * 40).p == 1.0
    # Zeros do not make few differences a large sample.
    few = [0.1, 0.1, 0.1, 0.1, 0.1]
    assert signed_rank([0.0] * 60 + few).p == signed_rank(few).p == 0.0625
    with pytest.raises(ValueError, match="finite"):
        rank_sum([1.0, math.inf], [1.0])


@pytest.mark.parametrize(("n", "level"), [(9, 0.95), (61, 0.8)])
def test_the_interval_of_paired_differences_is_that_of_its_test(n, level):
    differences = np.random.default_rng(n).normal(0.2, size=n)
    shift = signed_rank(differences, level)
    walsh = np.sort([(a + b) / 2 for i, a in enumerate(differences) for b in differences[i:]])
    assert shift.estimate == pytest.approx(np.median(walsh))
    position = np.searchsorted(walsh, shift.low)
    assert (walsh[position], walsh[-position - 1]) == (shift.low, shift.high)
    for edge, outwards in ((shift.low, -1e-9), (shift.high, 1e-9)):
        assert signed_rank(differences - (edge - outwards)).p > 1 - level
        assert signed_rank(differences - (edge + outwards)).p <= 1 - level
    wide, narrow = rank_sum(differences, [0.0] * n, 0.95), rank_sum(differences, [0.0] * n, 0.8)
    assert wide.low < narrow.low <= narrow.estimate <= narrow.high < wide.high


# ---------------------------------------------------------------- comparison


def cells_of(costs: dict[str, dict[str, list[float]]]) -> pd.DataFrame:
    rows = [
        (dataset, strategy, seed, cost, 2 + seed)
        for dataset, costs_of_strategies in costs.items()
        for strategy, costs_of_seeds in costs_of_strategies.items()
        for seed, cost in enumerate(costs_of_seeds)
    ]
    table = pd.DataFrame(rows, columns=["dataset", "strategy", "seed", "cost", "size"])
    return table.assign(evaluations=20, distinct=10)


WINE = {"a": [0.2, 0.1, 0.3], "b": [0.3, 0.2, 0.1], "c": [0.5, 0.5, 0.5]}


def test_the_table_holds_the_columns_of_hafiz_et_al():
    comparison = compare(cells_of({"wine": WINE}), {"wine": (0.5, 10)})
    row = comparison.summary.set_index("strategy").loc["a"]
    assert row["mean_cost"] == pytest.approx(0.2)
    assert row["sd_cost"] == pytest.approx(0.1)
    assert row["best_cost"] == 0.1
    assert row["improvement"] == pytest.approx(60.0)  # equation 22
    assert (row["mean_size"], row["size_reduction"]) == pytest.approx((3.0, 70.0))
    below = compare(cells_of({"wine": WINE}).assign(test_cost=0.25), {"wine": (-0.5, 10)}).summary
    assert below.set_index("strategy").loc["a", "improvement"] == pytest.approx(-140.0)
    assert below["mean_test_cost"].tolist() == [0.25] * 3


def test_subsets_of_a_comparison_by_test_rows_have_their_stability() -> None:
    cells = cells_of({"wine": {"a": [0.2, 0.1], "b": [0.3, 0.2]}}).assign(test_cost=0.25)
    # A name may have spaces.
    cells["features"] = ['["x", "the y"]', '["the y", "z"]', '["x"]', '["x"]']
    options = {"judged_by": "test_cost"}
    summary = compare(cells, {"wine": (0.5, 10)}, **options).summary.set_index("strategy")
    masks = np.zeros((2, 10), dtype=bool)
    masks[0, [0, 1]] = masks[1, [1, 2]] = True
    assert summary["stability"].to_dict() == pytest.approx({"a": nogueira(masks).index, "b": 1.0})
    # A column that every subset has by definition is no sign of stability.
    with_fixed = compare(cells, {"wine": (0.5, 10)}, **options, fixed={"wine": ["the y"]}).summary
    assert with_fixed["stability"][0] == pytest.approx(nogueira(masks[:, [0, *range(2, 10)]]).index)
    single_seed = compare(cells[cells["seed"] == 0], {"wine": (0.5, 10)}, **options).summary
    assert single_seed["stability"].isna().all()
    assert "stability" not in compare(cells, {"wine": (0.5, 10)}).summary


def test_costs_that_are_equal_but_for_the_last_digits_or_their_order_tie():
    noisy = np.nextafter(WINE["a"], 1).tolist()
    cells = cells_of({name: {"a": WINE["a"], "b": noisy} for name in ("wine", "zoo", "iris")})
    tied = compare(cells, dict.fromkeys(("wine", "zoo", "iris"), (0.5, 10)))
    assert (tied.ranks == 1.5).all(axis=None)
    assert tied.within["p"].tolist() == [1.0] * 3
    assert rank_sum(WINE["a"], noisy).p == 1.0
    differences = [0.3 - 0.1, 0.5 - 0.3, 0.7 - 0.5, -(0.4 - 0.2)]
    assert signed_rank(differences).p == signed_rank([0.2, 0.2, 0.2, -0.2]).p
    comparison = compare(cells_of({"wine": WINE}), {"wine": (0.5, 10)})
    assert comparison.ranks["wine"].to_dict() == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_friedman_and_nemenyi_give_the_answers_of_demsar():
    # Demsar (2006): table 6 has four classifiers on 14 data sets, and table 5 the values of q.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    for k, q in ((2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)):
        assert critical_difference(k, 10) == pytest.approx(
            q * math.sqrt(k * (k + 1) / 60), rel=1e-3
        )
    rng = np.random.default_rng(0)
    costs = {f"d{i}": {s: [float(rng.random())] for s in "abcd"} for i in range(14)}
    comparison = compare(cells_of(costs), {f"d{i}": (1.0, 9) for i in range(14)})
    friedman = comparison.friedman
    average = comparison.ranks["average"]
    assert friedman is not None
    chi2 = 12 * 14 / (4 * 5) * float((average**2).sum() - 4 * 25 / 4)
    assert friedman.chi2 == pytest.approx(chi2)
    assert friedman.f == pytest.approx(13 * chi2 / (14 * 3 - chi2))
    assert friedman.p == pytest.approx(stats.chi2.sf(friedman.chi2, 3))
    assert friedman.f_p == pytest.approx(stats.f.sf(friedman.f, 3, 39))


def test_strategies_that_are_always_or_never_apart_are_told_so():
    distinct_costs = {name: {"a": [0.1], "b": [0.2], "c": [0.3]} for name in "xy"}
    significant = compare(
        cells_of(distinct_costs), dict.fromkeys(distinct_costs, (1.0, 9)), alpha=0.1
    )
    assert significant.friedman is not None
    assert (significant.friedman.f, significant.friedman.f_p) == (math.inf, 0.0)
    assert " inf" not in " ".join(sentences(significant))
    assert significant.critical_difference == critical_difference(3, 2, 0.1)
    equal_costs = {name: {"a": [0.1], "b": [0.1], "c": [0.1]} for name in "xy"}
    tied = compare(cells_of(equal_costs), dict.fromkeys(equal_costs, (1.0, 9)))
    assert (tied.friedman, tied.critical_difference) == (None, None)
    assert "same mean cost on every data set" in tied.test_notes["friedman"]


def test_strategies_are_tested_across_data_sets_by_their_mean_costs():
    costs = {f"d{i}": {"a": [0.1 * i, 0.2], "b": [0.4, 0.3 + 0.1 * i]} for i in range(8)}
    comparison = compare(cells_of(costs), dict.fromkeys(costs, (1.0, 9)), alpha=0.1)
    differences = [(0.1 * i + 0.2 - 0.4 - 0.3 - 0.1 * i) / 2 for i in range(8)]
    shift = signed_rank(differences, 0.9)
    (row,) = comparison.across.to_dict("records")
    assert (row["first"], row["second"]) == ("a", "b")
    assert row["shift"] == pytest.approx(shift.estimate)
    assert (row["low"], row["high"]) == pytest.approx((shift.low, shift.high))
    assert row["p"] == row["p_holm"] == pytest.approx(2 / 2**8)
    assert row["significant"]
    assert (comparison.datasets, comparison.strategies) == ([f"d{i}" for i in range(8)], ["a", "b"])
    assert "across" not in comparison.test_notes


def test_what_cannot_become_significant_is_said_with_its_reason():
    def notes(n_datasets, names, n_seeds=1, alpha=0.05):
        costs_of_strategies = {
            name: [0.1 * i + 0.01 * s for s in range(n_seeds)] for i, name in enumerate(names)
        }
        costs = {f"d{i}": costs_of_strategies for i in range(n_datasets)}
        return compare(cells_of(costs), dict.fromkeys(costs, (1.0, 9)), alpha=alpha).test_notes

    assert "0.25:" in notes(3, "ab")["across"]
    # 2 / C(8, 4) is 1/35 for one pair, and too much for three.
    assert "within" not in notes(1, "ab", 4)
    assert "0.029, 0.086 after" in notes(1, "abc", 4)["within"]
    assert "within" not in notes(1, "abc", 4, alpha=3 / 35)
    assert "needs at least" in notes(1, "ab")["across"]
    assert notes(2, "a", 2)["within"] == notes(2, "a")["across"]
    # A corrected p is at most 1.
    assert "0.5, 1 after" in notes(2, "abc")["across"]
    assert "got 2 and 2" in notes(2, "ab")["friedman"]


def test_resamples_of_the_rows_are_tested_with_their_correction():
    costs = {"a": [0.1, 0.2, 0.15], "b": [0.3, 0.25, 0.35]}
    comparison = compare(cells_of({"x": costs}), {"x": (1.0, 9)}, resampled={"x": (80.0, 20.0)})
    expected = corrected_t(np.subtract(costs["a"], costs["b"]), 80.0, 20.0)
    (row,) = comparison.within.to_dict("records")
    assert (row["p"], row["shift"]) == pytest.approx((expected.p, expected.mean))
    assert comparison.is_resampled


def test_holm_keeps_the_names_of_a_family():
    adjusted, significant = holm(pd.Series([0.04, 0.01], index=["b", "a"]))
    assert adjusted.to_dict() == pytest.approx({"b": 0.04, "a": 0.02})
    assert significant.all()


def test_holm_corrects_each_data_set_by_itself():
    costs = {"a": [0.1, 0.11, 0.12, 0.13, 0.14], "b": [0.5, 0.51, 0.52, 0.53, 0.54]}
    costs["c"] = [0.9, 0.91, 0.92, 0.93, 0.94]
    comparison = compare(cells_of({"x": costs, "y": costs}), {"x": (1.0, 9), "y": (1.0, 9)})
    assert comparison.within["p"].to_numpy() == pytest.approx(2 / 252)
    assert comparison.within["p_holm"].to_numpy() == pytest.approx(6 / 252)
    assert comparison.within["significant"].all()
    to_reference = compare(cells_of({"x": costs}), {"x": (1.0, 9)}, reference="b")
    within = to_reference.within
    assert within[["first", "second"]].to_numpy().tolist() == [["b", "a"], ["b", "c"]]
    assert within["shift"].tolist() == pytest.approx([0.4, -0.4])
    # The empty table has the columns that are read from it.
    assert to_reference.across.empty
    assert {"first", "second", "shift", "low", "high", "p", "p_holm"} <= set(to_reference.across)


def test_a_missing_or_repeated_search_is_refused():
    cells = cells_of({"wine": WINE})
    for broken in (cells.iloc[:-1], pd.concat([cells.iloc[:-1], cells.iloc[:1]])):
        with pytest.raises(ValueError, match="cells"):
            compare(broken, {"wine": (0.5, 10)})
    with pytest.raises(ValueError, match="'size'"):
        compare(cells.drop(columns="size"), {"wine": (0.5, 10)})


# ---------------------------------------------------------------- stability of subsets


def test_the_interval_of_the_stability_index_is_clipped_to_its_range():
    masks = np.random.default_rng(0).random((12, 9)) < np.linspace(0.05, 0.95, 9)
    stability = nogueira(masks)
    assert stability.high - stability.index == pytest.approx(
        1.959964 * math.sqrt(stability.variance)
    )
    alike = nogueira(np.array([[1, 1, 0, 0]] * 5 + [[1, 0, 1, 0]], dtype=bool))
    assert (alike.high, alike.level, alike.n_subsets) == (1.0, 0.95, 6)
    assert alike.index + 1.959964 * math.sqrt(alike.variance) > 1
    assert math.isnan(nogueira(np.zeros((3, 2), dtype=bool)).index)


def test_an_index_is_read_by_the_benchmarks_of_its_paper():
    words = [interpret_index(index) for index in (math.nan, 0.75, 0.7499, 0.4, 0.3999, -1.0)]
    assert words == ["undefined", "excellent", *["intermediate to good"] * 2, "poor", "poor"]


# ---------------------------------------------------------------- figures


def test_cliques_are_the_longest_runs_within_the_difference_however_it_is_rounded():
    assert cliques(np.array([1.0, 1.5, 2.4, 3.0, 5.0]), 1.5) == [(0, 2), (1, 3)]
    assert 1.2 + 0.6 < 1.8
    assert cliques(np.array([1.2, 1.8]), 0.6) == [(0, 1)]
    assert cliques(np.array([1.2, 1.8 + 1e-7]), 0.6) == []
