"""Progress: what a person sees at which level, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pandas as pd
import pytest

from flows.progress import cell_display, display, show_stage
from flows.stages import FitSeconds, Forecast, Stage, Workload
from flows.terminal import enable_logs, hide_warnings, show_warnings_once
from swarm.evaluation.types import Work
from swarm.search.budget import Budget
from swarm.search.history import EpochRecord
from swarm.storage.records import Record
from tasks.search_cell import Cell, CellResult


def record(epoch: int, hits: int = 1, size: int = 4, fits: int = 30) -> EpochRecord:
    metrics = {"best_cost": 0.25, "best_size": float(size), "fits": 30.0 * epoch}
    metrics |= {"evaluations": 10.0 * epoch, "distinct_evaluations": 8.0 * epoch}
    metrics |= {"folds_pruned": 2.0, "failed_evaluations": 0.0}
    return EpochRecord(epoch, metrics, {}, Work(hits=hits, fits=fits))


HALF = np.array([True, False])


def trained(folds: int, seconds: float = 0.0) -> Record:
    """A mask of which all folds were trained."""
    return Record(np.zeros(folds), np.zeros((folds, 2)), np.ones((folds, 2), dtype=bool), seconds)


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


def epochs_shown(capsys, budget: Budget, n: int, verbosity: int, every: float = 1.0) -> list[str]:
    """Lines on stderr of a search of which each epoch takes `every` seconds."""
    now = [0.0]
    with display(budget, verbosity, clock=lambda: now[0]) as shown:
        for epoch in range(1, n + 1):
            now[0] += every
            shown.epoch(record(epoch))
    told = capsys.readouterr()
    assert told.out == ""
    return told.err.splitlines()


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
    capsys, budget, n, verbosity, every, epochs
):
    lines = epochs_shown(capsys, budget, n, verbosity, every)
    assert [line.split(":")[0] for line in lines] == [f"epoch {i}/{budget.epochs}" for i in epochs]
    if verbosity == 1:
        assert "left" not in lines[-1]
    if verbosity == 2:
        assert lines[-1].endswith(
            "best cost 0.25000 with 4 features, 30 evaluations, 90 fits, 6 folds pruned, "
            "3 from the archive"
        )


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (Budget(epochs=100), "0:00:57"),
        (Budget(evaluations=2000), "0:05:57"),
        (Budget(distinct=1600, epochs=10_000), "0:05:57"),
        (Budget(fits=6000), "0:05:57"),
        (Budget(seconds=450.0), "0:03:27"),
    ],
)
def test_the_nearest_limit_of_any_kind_tells_the_time_ahead(capsys, budget, left):
    lines = epochs_shown(capsys, budget, 100, verbosity=1, every=3.0)
    # The last line but one is that of epoch 81, of the 200 (or 100 or 150) that are allowed.
    assert lines[-2].startswith("epoch 81")
    assert lines[-2].endswith(f"about {left} left")


def test_what_the_archive_answers_in_no_time_does_not_promise_a_fast_end(capsys):
    now = [0.0]
    with display(Budget(epochs=100), 1, clock=lambda: now[0]) as shown:
        for epoch in range(1, 41):
            # Twenty epochs at once, as when a run is resumed, then ten seconds each.
            now[0] += 0.01 if epoch <= 20 else 10.0
            shown.epoch(record(epoch, fits=0 if epoch <= 20 else 30))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 1/100")
    assert "left" not in lines[0]
    # The first line after those of the archive.
    assert lines[1].startswith("epoch 26/100")
    assert lines[1].endswith("about 0:12:20 left")


def run_of_a_minute(clock: list[float], verbosity: int) -> Iterator[tuple[float, float]]:
    """Run 10 epochs of 4 s after 8 s for the workers, 8 s to confirm, and 15 s after that.

    Yields seconds and ETA as a bar tells them after each epoch.
    """
    work = Workload(confirm_fits=60, ensemble_fits=5, contender_fits=5, workers=2)
    forecast = Forecast(work)
    with display(Budget(epochs=10), verbosity, lambda: clock[0], forecast) as shown:
        clock[0] += 8.0
        for epoch in range(1, 11):
            for _ in range(6):
                clock[0] += 4.0 / 6
                shown.fit(HALF, trained(5, seconds=4.0 / 6))
            shown.epoch(record(epoch))
            yield clock[0], shown.ahead() or 0.0


def test_the_eta_is_right_after_the_first_epoch_and_includes_the_stages_after_the_search():
    """Of 72 s, an ETA from the time until then told three times too much."""
    clock = [0.0]
    told = list(run_of_a_minute(clock, verbosity=2))
    per_fit = 4.0 / 30
    # 60 fits with both workers; 10 with one, the metrics, the figures, and the messages.
    ahead = 60 * per_fit + 10 * 2 * per_fit + 2.0 + 6.0 + 4.0
    end = clock[0] + ahead
    for seconds, eta in told:
        assert eta == pytest.approx(end - seconds, rel=0.02), seconds


def test_a_long_epoch_is_not_silent(capsys):
    now = [0.0]
    with display(Budget(epochs=2), 1, clock=lambda: now[0]) as shown:
        for _ in range(15):
            now[0] += 10.0
            shown.fit(HALF, trained(5))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["epoch 1/2 under way: 30 fits", "epoch 1/2 under way: 60 fits"]


# Fits, and the ETA, after one and two minutes.
TWO_MINUTES = ((10, "0:04:00"), (20, "0:03:00"))


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_stage_is_announced_as_it_starts_and_every_minute(capsys, verbosity):
    now = [0.0]
    text = "confirming 2 [best] subsets"
    with show_stage(Stage.CONFIRM, verbosity, text=text, total=50, clock=lambda: now[0]) as shown:
        told = capsys.readouterr()
        assert told.err.splitlines() == [text] * (verbosity > 0)
        for _ in range(4):
            now[0] += 30.0
            shown.fit(HALF, trained(5))
    told = capsys.readouterr()
    lines = [f"{text}: {n} of 50 fits, about {left} left" for n, left in TWO_MINUTES]
    assert told.err.splitlines() == lines * (verbosity > 0)
    assert told.out == ""


def test_a_model_of_all_features_that_takes_longer_does_not_spoil_the_eta(capsys):
    """The fits on all 1,000 units come first, and take 100 times as long as the others."""
    judged = Workload(has_model=False, contender_all_fits=1)
    forecast, now = Forecast(judged, n_units=1000), [0.0]
    small, everything = np.arange(1000) < 10, np.ones(1000, dtype=bool)
    for mask, seconds in ((small, 5.0), (~small, 495.0)):
        forecast.fitted(mask, trained(5, seconds))
    given = {"total": 50, "work": 45 * 1.0 + 5 * 100.0, "forecast": forecast}
    with show_stage(Stage.CONFIRM, 1, **given, clock=lambda: now[0]) as shown:
        # Half as long as it was expected to, and so will the model that follows.
        now[0] += 250.0
        shown.fit(everything, trained(5, seconds=250.0))
        after = 50.0 + 2.0 + 6.0
        assert forecast.after(Stage.CONFIRM) == pytest.approx(after, rel=0.01)
        assert shown.ahead() == pytest.approx(45.0 / 2 + after, rel=0.01)
    assert ": 5 of 50 fits, about 0:01:2" in capsys.readouterr().err


def test_a_confirmation_after_archived_epochs_takes_its_eta_from_the_times_in_the_archive():
    forecast = Forecast(Workload(confirm_fits=100, workers=2), n_units=1000)
    masks = np.arange(1000) < np.array([[10], [30]])
    forecast.recall(masks, [trained(5, seconds=5.0), trained(0)])
    forecast.guess_pace(20)
    assert forecast.of(Stage.CONFIRM) == pytest.approx(100 * 1.0 / 2)
    forecast.learn(0.25)
    forecast.guess_pace(20)
    assert forecast.of(Stage.CONFIRM) == pytest.approx(100 * 0.25)


def test_while_subsets_are_searched_the_eta_has_the_longer_fits_on_all_features():
    forecast = Forecast(Workload(confirm_fits=100, confirm_all_fits=10), n_units=1000)
    for size, seconds in ((10, 1.0), (30, 3.0)):
        forecast.fitted(np.arange(1000) < size, trained(5, seconds))
    forecast.learn(0.2, 20)
    assert forecast.of(Stage.CONFIRM) == pytest.approx(100 * 0.2 + 10 * 10.0)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        # A line; no fewer seconds for more units; no fewer than none; nothing known.
        (((10, 2.0), (20, 3.0)), 102.0 - 1.0),
        (((10, 3.0), (20, 2.0)), 2.5),
        (((10, 1.0), (20, 4.0)), 1000 / 6),
        ((), 1.0),
    ],
)
def test_the_time_of_a_model_is_a_line_over_its_units(measured, expected):
    line = FitSeconds()
    for n_units, seconds in measured:
        line.learn(n_units, seconds, 5)
    assert line.of(1000) == pytest.approx(expected)


def test_before_the_epochs_no_end_of_the_run_is_promised(capsys):
    """What ranks units or compares settings knows neither the epochs nor the stages after them."""
    forecast, now = Forecast(Workload(contender_fits=10)), [0.0]
    given = {"text": "ranking", "total": 9, "forecast": forecast, "clock": lambda: now[0]}
    with show_stage(Stage.SEARCH, **given) as shown:
        now[0] += 90.0
        shown.fit(HALF, trained(3))
    assert capsys.readouterr().err.splitlines() == ["ranking", "ranking: 3 of 9 fits"]
    forecast.learn(1.0)
    assert shown.ahead() == pytest.approx(180.0 + forecast.after(Stage.SEARCH))


def test_on_a_terminal_a_stage_shows_its_time_and_what_is_left_of_the_run(monkeypatch):
    forecast = Forecast(Workload(contender_fits=10))
    forecast.learn(0.1)
    with (
        terminal(monkeypatch) as seen,
        show_stage(Stage.JUDGE, total=4, unit="models", forecast=forecast) as shown,
    ):
        shown.count(2)
        time.sleep(0.6)
        shown.count()
        time.sleep(0.6)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", seen[0]) if line.strip()]
    # The report, and the model, follow.
    assert re.fullmatch(r"judging on the test rows 0:00:00, about 0:00:1\d left", lines[0])
    assert "3 of 4 models" in lines
    assert re.fullmatch(r"judging on the test rows 0:00:01", lines[-1])


def test_searches_of_a_comparison_are_counted_and_failures_said(capsys):
    for verbosity, expected in ((0, 0), (1, 2), (2, 3)):
        with cell_display(4, 1, verbosity) as shown:
            shown.finished(result(0))
            shown.failed(Cell("wine", "bpso", 1), "the disk is gone")
            shown.finished(result(2))
        lines = capsys.readouterr().err.splitlines()
        if verbosity:
            assert "3/4 wine-bpso-1 failed: the disk is gone" in lines
            assert lines[-1].startswith("4/4 wine-bpso-2: cost 0.12500 with 1 feature, 16 distinct")
        assert len(lines) >= expected


@contextmanager
def terminal(monkeypatch, columns: int = 80) -> Iterator[list[str]]:
    """Put a real terminal under stderr; in the end the list holds what it was sent, as text."""
    master, slave = pty.openpty()
    sent: list[bytes] = []
    seen: list[str] = []

    def listen() -> None:
        # Reading fails once the other end is closed.
        with suppress(OSError):
            while part := os.read(master, 65536):
                sent.append(part)

    thread = threading.Thread(target=listen)
    thread.start()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(slave, "w") as screen, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        yield seen
    thread.join(timeout=10)
    os.close(master)
    seen.append(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(sent).decode()))


def epochs_on_a_terminal(monkeypatch, verbosity: int) -> str:
    with terminal(monkeypatch) as seen, display(Budget(epochs=5), verbosity) as shown:
        for epoch in range(1, 5):
            time.sleep(0.15)
            shown.epoch(record(epoch))
        time.sleep(0.3)
    return seen[0]


def test_on_a_terminal_a_bar_shows_epoch_and_time_ahead_and_cuts_nothing_off(monkeypatch):
    seen = epochs_on_a_terminal(monkeypatch, 1)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", seen) if line.strip()]
    bar = next(line for line in lines if line.startswith("epoch 4/5"))
    assert re.search(r"0:00:0\d, about 0:00:0\d left", bar)
    text = " ".join(lines[-3:])
    for word in ("best cost 0.25000 with 4 features", "40 evaluations", "120 fits", "8 folds"):
        assert word in text
    assert "4 from the archive" in " ".join(text.split())
    assert "…" not in seen
    assert max(map(len, lines)) <= 80
    # When it is over nothing is ahead.
    final = [line for line in lines if line.startswith("epoch 4/5")][-1]
    assert "left" not in final
    assert epochs_on_a_terminal(monkeypatch, 0) == ""


def test_on_a_terminal_a_comparison_shows_searches_and_time_ahead(monkeypatch):
    with terminal(monkeypatch) as parts, cell_display(3, 0) as shown:
        for seed in range(2):
            time.sleep(0.15)
            shown.finished(result(seed))
        time.sleep(0.3)
    seen = parts[0]
    assert re.search(r"searches 2/3 .*about 0:00:0\d left", seen)
    assert "wine-bpso-1: cost 0.12500 with 1 feature" in seen
    assert "…" not in seen


def test_logs_of_the_machinery_come_with_vv_and_not_before(monkeypatch):
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
    monkeypatch.setenv("PREFECT_SERVER_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "WARNING")
    for count in (0, 1):
        enable_logs(count)
        assert os.environ["PREFECT_LOGGING_LEVEL"] == "CRITICAL"
    enable_logs(2)
    assert os.environ["PREFECT_LOGGING_LEVEL"] == "INFO"
    # What the user chose stays.
    assert os.environ["PREFECT_SERVER_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["MLFLOW_LOGGING_LEVEL"] == "WARNING"


@pytest.fixture
def own_warnings(monkeypatch):
    """Give back the filters, and what shows warnings."""
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def warn(n: int) -> None:
    warnings.warn(f"failed to converge after {n} iterations\nmore\nand more", stacklevel=1)


def test_what_every_fit_warns_of_is_said_once_in_a_line(own_warnings, capsys):
    show_warnings_once()
    for n in range(9):
        warn(n)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "note: UserWarning: failed to converge after 0 iterations (shown once; -vv shows all)"
    ]
    assert os.environ["PYTHONWARNINGS"] == "ignore"
    # A worker that loky replaces, as its memory has grown, is nothing to worry about.
    warnings.warn(
        "A worker stopped while some jobs were given to the executor. Or so.", stacklevel=1
    )
    assert capsys.readouterr().err == ""


def test_quiet_says_no_warning_and_vv_every_one(own_warnings, capsys):
    said = []
    warnings.showwarning = lambda *given, **_: said.append(given)
    show_warnings_once()
    enable_logs(2)
    assert "PYTHONWARNINGS" not in os.environ
    warn(0)
    warn(1)
    assert len(said) == 2
    hide_warnings(True)
    warn(2)
    assert len(said) == 2
    assert capsys.readouterr().err == ""
