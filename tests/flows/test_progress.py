"""Tests of progress: what is shown at which verbosity, on a terminal and elsewhere."""

from __future__ import annotations

import os
import re
import sys
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from flows.display.terminal import (
    CellDisplay,
    EpochDisplay,
    enable_logs,
    hide_warnings,
    show_stage,
    show_warnings_once,
)
from swarm.evaluation.types import Work
from swarm.search.budget import Budget
from swarm.search.history import EpochRecord
from swarm.storage.records import Record
from tasks.study import Cell, CellResult
from tests.fakes import Terminal


def record(epoch: int) -> EpochRecord:
    metrics = {"best_cost": 0.25, "best_size": 4.0, "fits": 30.0 * epoch}
    metrics |= {"evaluations": 10.0 * epoch, "distinct_evaluations": 8.0 * epoch}
    metrics |= {"folds_pruned": 2.0, "failed_evaluations": 0.0}
    return EpochRecord(epoch, metrics, {}, Work(hits=1, fits=30))


HALF = np.array([True, False])


def trained(folds: int) -> Record:
    """Return the record of a mask that was trained on all folds."""
    return Record(np.zeros(folds), np.zeros((folds, 2)), np.ones((folds, 2), dtype=bool), 0.0)


def result(seed: int) -> CellResult:
    counts = {"epochs": 2, "evaluations": 20, "distinct": 16, "fits": 60}
    return CellResult(
        Cell("wine", "bpso", seed),
        problem="",
        cost=0.125,
        size=1,
        features=["a"],
        n_available=13,
        test_cost=None,
        reason="epochs",
        seconds_algorithm=0.0,
        seconds_evaluation=0.0,
        history=pd.DataFrame(),
        **counts,
    )


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """Replace the clock of every display by a list that contains its time in seconds."""
    seconds = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: seconds[0])
    return seconds


def score(cost: float) -> str:
    return f"accuracy {1 - cost:.2f}"


@pytest.mark.parametrize(
    ("budget", "n", "verbosity", "every", "epochs"),
    [
        (Budget(epochs=3), 3, 0, 1.0, ()),
        (Budget(epochs=3), 3, 2, 1.0, (1, 2, 3)),
        (Budget(epochs=100), 100, 1, 3.0, (1, 21, 41, 61, 81, 100)),
        (Budget(epochs=100, patience=3), 7, 1, 1.0, (1, 7)),
    ],
    ids=["quiet", "verbose", "a line a minute", "an early end"],
)
def test_a_line_an_epoch_or_a_minute_and_always_one_of_the_last(
    capsys, now, budget, n, verbosity, every, epochs
):
    with EpochDisplay(budget, score, verbosity) as display:
        for epoch in range(1, n + 1):
            now[0] += every
            display.epoch(record(epoch))
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"epoch {i}/{budget.epochs}" for i in epochs]
    if lines:
        assert lines[-1].endswith(": accuracy 0.75 with 4 columns")


def test_a_long_epoch_is_not_silent(capsys, now):
    with EpochDisplay(Budget(epochs=2), score, 1) as display:
        for _ in range(15):
            now[0] += 10.0
            display.fit(HALF, trained(5))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["epoch 1/2 under way: 30 fits", "epoch 1/2 under way: 60 fits"]


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_stage_is_announced_as_it_starts_and_every_minute(capsys, now, verbosity):
    text = "confirming 2 [best] subsets"
    with show_stage(text, verbosity, total=50) as display:
        printed = capsys.readouterr()
        assert printed.err.splitlines() == [text] * (verbosity > 0)
        for _ in range(4):
            now[0] += 30.0
            display.fit(HALF, trained(5))
    printed = capsys.readouterr()
    lines = [f"{text}: {n} of 50 fits" for n in (10, 20)]
    assert printed.err.splitlines() == lines * (verbosity > 0)
    assert printed.out == ""


def test_searches_of_a_comparison_are_counted_and_failures_said(capsys):
    for verbosity, expected in ((0, 0), (1, 2), (2, 3)):
        with CellDisplay(4, 1, verbosity) as display:
            display.finish(result(0), score(0.125))
            display.fail(Cell("wine", "bpso", 1), "the [disk] is gone")
            display.finish(result(2), score(0.125))
        lines = capsys.readouterr().err.splitlines()
        if verbosity:
            assert "3/4 wine-bpso-1 failed: the [disk] is gone" in lines
            assert lines[-1] == "4/4 wine-bpso-2: accuracy 0.88 with 1 column"
        assert len(lines) >= expected


def test_on_a_terminal_bars_show_what_is_done_and_cut_nothing_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with EpochDisplay(Budget(epochs=5), score) as display:
        display.epoch(record(4))
    # The bar shows the limit that is nearest.
    with EpochDisplay(Budget(epochs=5, fits=130), score) as display:
        display.epoch(record(4))
        display.fit(HALF, trained(3))
    with show_stage("judging on the test rows", total=4, unit="models") as display:
        display.count(3)
    with CellDisplay(3, 0) as display:
        display.finish(result(1), score(0.125))
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()))
    assert max(len(line.rstrip()) for line in lines) <= 80
    text = " ".join(" ".join(lines).split())
    for words in (
        "accuracy 0.75 with",
        "4/5 epochs",
        "120/130 fits, +3 fits",
        "judging on the test rows",
        "3/4 models",
        "1/3 searches",
    ):
        assert words in text
    assert "…" not in text


@pytest.fixture
def own_warnings():
    """Restore the filters and the display of warnings, and the variables of the logs."""
    with mock.patch.dict(os.environ), warnings.catch_warnings():
        os.environ.pop("PYTHONWARNINGS", None)
        warnings.simplefilter("always")
        yield


def warn(n: int) -> None:
    warnings.warn(f"failed to converge after {n} iterations\nmore\nand more", stacklevel=1)


def test_what_every_fit_warns_of_is_said_once_in_a_line(own_warnings, capsys):
    show_warnings_once()
    for n in range(9):
        warn(n)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "note: UserWarning: failed to converge after 0 iterations (shown once; -vv shows all)"
    ]
    assert os.environ["PYTHONWARNINGS"] == "ignore"
    # The warning of loky that it replaces a worker whose memory has grown is hidden.
    warnings.warn(
        "A worker stopped while some jobs were given to the executor. Or so.", stacklevel=1
    )
    assert capsys.readouterr().err == ""


def test_quiet_says_no_warning_and_vv_every_one(own_warnings, capsys):
    warned = []
    warnings.showwarning = lambda *arguments, **_: warned.append(arguments)
    show_warnings_once()
    enable_logs(2)
    assert "PYTHONWARNINGS" not in os.environ
    warn(0)
    warn(1)
    assert len(warned) == 2
    hide_warnings(True)
    warn(2)
    assert len(warned) == 2
    assert capsys.readouterr().err == ""
