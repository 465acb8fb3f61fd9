"""Tests of the paired comparison of a champion and a challenger."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import GaussianNB

from swarm.validation.answers import EvaluationTarget
from tasks.refresh import paired_comparison
from tasks.refresh.paired_comparison import PairedComparison


def duel(y: Any, champion: Any, challenger: Any, metric: str, **options: Any) -> PairedComparison:
    """Compare predictions of the classes, labels or numbers in `y`."""
    model = LinearRegression() if y.dtype.kind == "f" else GaussianNB()
    truth = EvaluationTarget.of(model, y, y, None)
    return paired_comparison.duel(truth, champion, challenger, metric, **options)


def test_a_duel_is_won_by_the_margin_at_the_confidence_asked() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    champion = np.where(rng.random(300) < 0.8, y, 1 - y)
    challenger = np.where(rng.random(300) < 0.9, y, 1 - y)
    comparison = duel(y, champion, challenger, "accuracy", margin=0.0, confidence=0.95)
    assert comparison.champion == accuracy_score(y, champion)
    assert comparison.gain == pytest.approx(accuracy_score(y, challenger) - comparison.champion)
    assert comparison.low < comparison.gain < comparison.high
    assert comparison.won
    wide = duel(y, champion, challenger, "accuracy", margin=0.2, confidence=0.95)
    assert not wide.won
    assert duel(y, champion, champion, "accuracy").chance == 0.5
    # A difference on a single group proves nothing.
    assert not duel(y, champion, challenger, "accuracy", groups=np.zeros(300)).won


def test_groups_and_spans_of_time_are_left_out_whole_in_a_duel() -> None:
    y = np.tile([0, 1], 100)
    groups = np.repeat(np.arange(8), 25)
    # The challenger is much better in one group of eight: significant by rows, but not by groups.
    champion = np.where(groups == 0, 1 - y, y)
    by_rows = duel(y, champion, y, "accuracy", confidence=0.95)
    by_group = duel(y, champion, y, "accuracy", confidence=0.95, groups=groups)
    in_time = duel(y, champion, y, "accuracy", confidence=0.95, time=np.arange(200))
    assert (by_rows.won, by_group.won, in_time.won) == (True, False, False)
    assert by_group.n_groups == 8
    assert (in_time.low, in_time.high) == pytest.approx((by_group.low, by_group.high))


def test_a_smaller_loss_is_a_gain_and_its_interval_is_that_of_the_confidence() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (200, 3))
    champion = np.where(rng.random(y.shape) < 0.3, 1 - y, y)
    comparison = duel(y, champion, y, "hamming_loss", confidence=0.9)
    loss = (champion != y).mean()
    assert (comparison.champion, comparison.challenger) == (pytest.approx(loss), 0.0)
    assert comparison.gain == pytest.approx(loss)
    assert comparison.won
    assert comparison.chance == pytest.approx(1.0)
    error = (champion != y).mean(axis=1).std() / np.sqrt(200)
    assert comparison.high - comparison.low == pytest.approx(2 * 1.645 * error, rel=0.1)
    assert comparison.n_groups is None
    numbers = np.arange(50, dtype=float)
    comparison = duel(numbers, numbers + 2.0, numbers + 1.0, "neg_root_mean_squared_error")
    assert comparison.gain == pytest.approx(1.0)


def test_fewer_than_five_groups_have_no_interval_and_decide_nothing() -> None:
    y = np.tile([0, 1], 10)
    five = duel(y, 1 - y, y, "accuracy", groups=np.arange(20) % 5)
    assert (five.low < five.gain, five.n_groups, five.won) == (True, 5, True)
    four = duel(y, 1 - y, y, "accuracy", groups=np.arange(20) % 4)
    assert (four.chance, four.n_groups, four.won) == (0.0, 4, False)
    record = json.loads(json.dumps(four.as_dict(), allow_nan=False))
    assert (record["low"], record["high"]) == (None, None)
    assert (record["gain"], record["won"]) == (1.0, False)


def test_a_gain_of_the_margin_is_no_gain_above_it() -> None:
    y = np.arange(100) % 2
    champion = np.where(np.arange(100) < 51, y, 1 - y)
    challenger = np.where(np.arange(100) < 52, y, 1 - y)
    comparison = duel(y, champion, challenger, "accuracy", margin=0.01, confidence=0.25)
    assert (comparison.won, comparison.chance) == (False, 0.5)
    assert duel(y, champion, challenger, "accuracy", margin=0.0099, confidence=0.25).won
    # The same holds for errors in large units, whose rounding errors are larger.
    numbers = np.arange(100.0)
    champion = numbers + np.where(np.arange(100) == 0, 1.1, 0.1)
    for unit in (1e-9, 1.0, 1e9):
        rivals = unit * champion, unit * (numbers + 0.1)
        for margin, won in ((0.01, False), (0.0099, True)):
            comparison = duel(
                unit * numbers, *rivals, "mean_absolute_error", margin=unit * margin, confidence=0.0
            )
            assert comparison.won is won


def test_equal_predictions_of_two_models_never_win() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    champion = y + rng.normal(size=200)
    for metric in ("r2", "mean_absolute_error", "neg_root_mean_squared_error"):
        comparison = duel(y, champion, champion + 1e-15 * (y - champion), metric, confidence=0.5)
        assert (comparison.gain, comparison.chance, comparison.won) == (0.0, 0.5, False)
        assert comparison.low == -comparison.high < 0
