"""Stability: the index of Nogueira, Sechidis and Brown, and what `swarm stability` makes of it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from flows.cli import app
from swarm.errors import InputError
from swarm.problem.space import SearchSpace
from swarm.validation.stability import (
    assess,
    classify,
    consensus,
    describe_index,
    frequencies,
    index_record,
    nogueira,
)
from tasks.parts import draw_sample
from tasks.table import Table
from tests.small_run import BAYES, Bench


def kappa(masks):
    """Fleiss' kappa written from its own definition (subsets rate units yes or no)."""
    n, d = masks.shape
    votes = np.stack([masks.sum(axis=0), n - masks.sum(axis=0)], axis=1)
    agreement = ((votes**2).sum(axis=1) - n).mean() / (n * (n - 1))
    chance = ((votes.sum(axis=0) / (n * d)) ** 2).sum()
    return (agreement - chance) / (1 - chance)


def test_the_index_is_fleiss_kappa_as_the_paper_proves():
    masks = np.random.default_rng(0).random((7, 12)) < 0.4
    assert nogueira(masks).index == pytest.approx(kappa(masks))
    assert nogueira(masks).mean_size == masks.sum(axis=1).mean()


@pytest.mark.parametrize("stable", [False, True])
def test_the_variance_is_that_of_the_delta_method_by_brute_force(stable):
    # Perturbing the weight of one subset moves the index as the paper's phi_i says.
    rng = np.random.default_rng(4)
    masks = rng.random((300, 9)) < (np.array([0.95] * 2 + [0.05] * 7) if stable else 0.35)
    # Sizes differ.
    masks |= stable & (rng.random((300, 1)) < 0.2) & (np.arange(9) < 6)

    def weighted(weights):
        p = weights @ masks
        return 1 - (p * (1 - p)).mean() / (p.mean() * (1 - p.mean()))

    n, step = len(masks), 1e-6
    even = np.full(n, 1 / n)
    moved = [weighted((1 - step) * even + step * row) - weighted(even) for row in np.eye(n)]
    expected = np.sum(np.square(np.array(moved) / step)) / n**2
    assert (nogueira(masks).index > 0.5) == stable
    assert nogueira(masks).variance == pytest.approx(expected, rel=0.02)


def test_the_index_is_bounded_and_reaches_its_lowest_where_two_subsets_are_complements():
    opposite = nogueira(np.array([[True, False] * 4, [False, True] * 4]))
    assert opposite.index == pytest.approx(-1.0)
    same = nogueira(np.tile([True, False, True, False, False], (6, 1)))
    assert (same.index, same.low, same.high) == pytest.approx((1.0, 1.0, 1.0))
    assert np.isnan(nogueira(np.ones((4, 3), dtype=bool)).index), "everything is in every subset"
    rng = np.random.default_rng(2)
    for n in (2, 3, 9):
        indices = [nogueira(rng.random((n, 5)) < 0.5).index for _ in range(300)]
        assert -1 / (n - 1) - 1e-9 <= np.nanmin(indices)
        assert np.nanmax(indices) <= 1 + 1e-9


@pytest.mark.parametrize(
    "masks", [np.ones((1, 3), bool), np.ones((3, 0), bool), np.ones(4, bool), np.full((2, 2), 0.5)]
)
def test_what_is_no_sample_of_subsets_is_refused(masks):
    with pytest.raises(InputError, match=r"subset|masks"):
        nogueira(masks)


def test_wilsons_interval_as_published():
    # Newcombe 1998, table I, 15 of 148 and 0 of 20, without continuity correction.
    masks = np.zeros((148, 1), dtype=bool)
    masks[:15] = True
    found = frequencies(masks)
    assert (found.low[0], found.high[0]) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    never = frequencies(np.zeros((20, 1), dtype=bool))
    assert (never.low[0], never.high[0]) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_features_are_core_optional_or_noise_by_their_share():
    share = np.array([1.0, 0.8, 0.79, 0.5, 0.21, 0.2, 0.0])
    expected = ("core", "core", "optional", "optional", "optional", "noise", "noise")
    assert classify(share) == expected
    assert classify(np.array([0.1 * 8])) == ("core",)
    assert consensus(share).tolist() == [True, True, True, False, False, False, False]
    assert consensus(np.array([0.2, 0.5, 0.5])).tolist() == [False, True, True]


def test_an_assessment_is_of_the_free_units_over_other_rows_if_there_are_any():
    space = SearchSpace.build([*"abcde"], groups={"pair": ["b", "c"]}, fixed=["a"], forbidden=["e"])
    seeds = [["a", "b", "c"]] * 2
    found = assess(space, {"seeds": seeds, "resamples": []})
    assert found.table[["feature", "class", "share"]].to_numpy().tolist() == [
        ["pair", "core", 1.0],
        ["d", "noise", 0.0],
    ]
    assert (found.consensus, found.by_rows, found.by_seed.index) == (["a", "b", "c"], None, 1.0)
    rows = [["a", "d"], ["a", "b", "c", "d"], ["a", "d"], ["a"]]
    found = assess(space, {"seeds": seeds, "resamples": rows}, (0.75, 0.25))
    assert found.table["feature"].tolist() == ["d", "pair"]
    assert found.table["share_seeds"].tolist() == [0.0, 1.0]
    assert [found.count(name) for name in ("core", "optional", "noise")] == [1, 0, 1]
    assert (found.consensus, found.by_rows.n_subsets) == (["a", "d"], 4)


def test_an_index_that_is_undefined_is_no_record():
    same = nogueira(np.ones((4, 3), dtype=bool))
    assert (index_record(same), index_record(None)) == (None, None)
    assert "all features or none" in describe_index(same, "seeds")
    found = nogueira(np.eye(3, dtype=bool))
    assert index_record(found)["index"] == found.index
    assert "Over 3 seeds" in describe_index(found, "seeds")


PLANTED = ["p0", "p1", "p2"]
TINY = ("--seeds", "3", "--resamples", "4")


@pytest.fixture
def planted(bench: Bench) -> str:
    """Configuration of a search on a table where three of nine features tell the class."""
    rng = np.random.default_rng(3)
    signal, noise = rng.normal(size=(400, 3)), rng.normal(size=(400, 6))
    frame = pd.DataFrame(np.hstack([signal, noise]), columns=[*PLANTED, *"qrstuv"])
    frame["y"] = (signal.sum(axis=1) + rng.normal(scale=0.2, size=400) > 0).astype(int)
    frame["who"] = np.arange(400) // 4
    frame.to_csv(bench.folder / "planted.csv", index=False)
    data = {"source": "file", "path": str(bench.folder / "planted.csv"), "target": "y"}
    return bench.file(data={**data, "drop": ["who"]}, model=BAYES, budget={"epochs": 12})


def swarm(*arguments: str) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.mark.slow
def test_planted_features_are_core_and_the_archive_answers_the_second_time(
    prefect_server, bench, planted, capsys, narrow
):
    swarm("stability", planted, *TINY, "--json", "-q")
    told = json.loads(capsys.readouterr().out)
    classes = {row["feature"]: row["class"] for row in told["features"]}
    assert [name for name in classes if classes[name] == "core"] == PLANTED
    assert set(PLANTED) <= set(told["consensus"])
    for part, count in (("seeds", 3), ("rows", 4)):
        index = told[f"stability_over_{part}"]
        assert (index["n_subsets"], index["level"]) == (count, 0.95)
        assert index["low"] <= index["index"] <= index["high"]

    run = bench.tracking.run(told["run"])
    assert (run.info.status, run.data.tags["kind"]) == ("FINISHED", "stability")
    assert run.data.metrics["stability_rows"] == told["stability_over_rows"]["index"]
    children = bench.children(told["run"])
    assert {child.info.status for child in children} == {"FINISHED"}
    parts = [child.data.tags["part"] for child in children]
    assert sorted(parts) == ["all rows"] * 3 + [f"draw {i}" for i in range(1, 5)]
    table = bench.table(told["run"], "stability.csv")
    assert table.set_index("feature")["class"].to_dict() == classes
    searches = bench.table(told["run"], "searches.csv")
    assert searches["features"].str.contains('"p0"').sum() == 7
    assert b"<svg" in bench.artifact(told["run"], "figures/stability.svg")

    before = bench.paid_for()
    swarm("stability", planted, *TINY, "-q")
    lines = narrow()
    assert all(name in " ".join(lines) for name in PLANTED)
    assert bench.paid_for() == before


def test_groups_are_drawn_whole_and_anew_whatever_their_sizes_and_classes() -> None:
    groups = pd.Series(np.repeat(np.arange(30), np.arange(3, 33)))
    table = Table("t", "", pd.DataFrame({"a": groups}), groups % 3 == 0, groups=groups)
    drawn = [groups[draw_sample(table, 0.6, 0, i, GaussianNB()).train] for i in range(5)]
    for some in drawn:
        assert some.nunique() == 18
        assert len(some) == groups.isin(some).sum()
    assert len({tuple(some) for some in drawn}) == 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--seeds", "1"], "seeds"),
        (["--seeds", "0", "--resamples", "0"], "both 0"),
        (["--share", "1"], "share"),
        (["--core", "0.2", "--noise", "0.4"], "noise.*core"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_searched(
    bench, planted, given, words
):
    with pytest.raises(InputError, match=words):
        swarm("stability", planted, *given)
    assert not bench.made_anything()
