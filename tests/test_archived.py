"""Evidence about columns from the evaluations in the archive."""

from __future__ import annotations

import json

import numpy as np
import pytest

from flows.cli import app
from swarm.errors import DataError
from swarm.statistics.resampled import corrected_t
from swarm.validation.archived import archived_evidence
from tests.small_run import BAYES, Bench

NAMES = ["a", "b", "c"]
MASKS = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool)
COSTS = np.array(
    [[0.2, 0.3, 0.1], [0.1, 0.2, 0.1], [0.2, 0.4, 0.2], [0.5, 0.6, 0.4], [0.1, np.nan, 0.2]]
)
FREE = np.ones(3, dtype=bool)


def evidence(masks=MASKS, costs=COSTS, free=FREE):
    return archived_evidence(NAMES, masks, costs, free, 60, 30)


def test_effects_are_differences_of_subsets_that_differ_in_one_unit():
    found = evidence().table.set_index("feature")
    # Without and with b: {a} and {a, b} on all folds, {a, c} and {a, b, c} on two of them.
    by_fold = [np.mean([0.1, 0.1]), 0.1, np.mean([0.0, 0.0])]
    wanted = corrected_t(by_fold, 60, 30)
    assert found.loc["b", "n_pairs"] == 2
    assert found.loc["b", ["effect", "low", "high"]].tolist() == pytest.approx(
        [wanted.mean, wanted.low, wanted.high]
    )
    assert found.loc["a", "n_pairs"] == 1
    assert found.loc["a", "effect"] == pytest.approx(np.mean([0.4, 0.4, 0.3]))
    # c: {a} and {a, c}, {a, b} and {a, b, c}.
    assert found.loc["c", "effect"] == pytest.approx(np.mean([0.0, -0.1, -0.1]))


def test_winners_are_the_best_subsets_under_random_weights_of_the_folds():
    found = evidence()
    # {a, b} is the best on every fold.
    assert found.table.set_index("feature")["winner_share"].to_dict() == {"a": 1, "b": 1, "c": 0}
    assert (found.n_subsets, found.n_complete, found.n_winners) == (5, 4, 1)
    # Two subsets that are the best on one fold each win equally often.
    masks, costs = np.eye(3, dtype=bool)[:2], np.array([[0.1, 0.2], [0.2, 0.1]])
    shares = evidence(masks, costs).table.set_index("feature")["winner_share"]
    assert shares["a"] + shares["b"] == pytest.approx(1.0)
    assert shares["a"] == pytest.approx(0.5, abs=0.05)


def test_units_without_a_pair_have_no_effect_and_fixed_ones_no_row():
    found = evidence(MASKS[[0, 3]], COSTS[[0, 3]], np.array([False, True, True])).table
    assert found["feature"].tolist() == ["b", "c"]
    assert found["effect"].isna().all()
    assert found["n_pairs"].tolist() == [0, 0]
    with pytest.raises(DataError, match="completely evaluated"):
        evidence(MASKS[[0, 4]], COSTS[[0, 4]])


def test_failed_subsets_are_left_out():
    costs = COSTS.copy()
    costs[0] = np.inf
    found = evidence(costs=costs)
    assert found.n_complete == 3
    assert found.table.set_index("feature").loc["c", "n_pairs"] == 1


def test_the_command_searches_nothing_and_needs_no_run(bench: Bench, capsys):
    path = bench.file(model=BAYES, folds={"n_folds": 3, "seed": 0}, scoring="accuracy")
    with pytest.raises(DataError, match="no evaluations of this problem"):
        app(["stability", path, "--archive"], standalone_mode=False)

    from flows.configured import fetched, plan_as_configured, prepare_as_configured
    from swarm.search.runner import run_search
    from swarm.storage.archive import Archive

    config = bench.config(model=BAYES, folds={"n_folds": 3, "seed": 0}, scoring="accuracy")
    data = prepare_as_configured(config, fetched(config))
    archive = Archive(bench.archive)
    run_search(plan_as_configured(config, data), archive)
    archive.close()
    before = bench.paid_for()
    app(["stability", path, "--archive", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert bench.paid_for() == before
    assert not bench.made_anything()
    rows = {row["feature"]: row for row in told["features"]}
    assert set(rows) == {f"x{i}" for i in range(8)}
    assert told["n_complete"] > 5
    informative = np.mean([rows[f"x{i}"]["winner_share"] for i in range(3)])
    assert informative > np.mean([rows[f"x{i}"]["winner_share"] for i in range(3, 8)])
    app(["stability", path, "--archive"], standalone_mode=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "It is no selection probability" in said
