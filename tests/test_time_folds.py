"""Folds in time: which row is trained on, tested, left out by a gap, purged or under embargo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

from conf.load import load_as
from conf.resolve import fold_kind
from conf.schema import RefreshConfig
from flows import refresh
from flows.configured import fetch_as_configured, prepare_as_configured
from swarm import PurgedKFold, PurgedTimeSeriesSplit, SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.problem.folds import make_folds
from swarm.problem.time_folds import TimeWindows
from tasks.nested import outer_folds, outer_kind
from tasks.sources import fetch
from tasks.split import split
from tests.command import Swarm
from tests.small_run import BAYES, Bench, table


def drawn(
    kind: str, n_folds: int = 3, time: Any = range(12), ends: Any = None, **windows: Any
) -> Any:
    """Folds as text, a letter for each row: training, test, or ``.`` for neither."""
    times, target = np.asarray(time), np.zeros(len(time))
    ends = None if ends is None else np.asarray(ends)
    given: Any = {"time": times, "windows": TimeWindows(**windows), "label_end": ends}
    lines = []
    for train, test in make_folds(kind, target, "regression", n_folds=n_folds, **given):
        rows = np.full(len(time), ".")
        rows[train], rows[test] = "a", "T"
        lines.append("".join(rows))
    return lines


UNEVEN = [0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("kind", "options", "folds"),
    [
        ("time", {}, "aaaTTT...... aaaaaaTTT... aaaaaaaaaTTT"),
        ("time", {"gap": 2}, "a..TTT...... aaaa..TTT... aaaaaaa..TTT"),
        ("time", {"max_train_size": 2, "gap": 1}, "aa.TTT...... ...aa.TTT... ......aa.TTT"),
        # Counted from the end.
        ("time", {"test_size": 2}, "aaaaaaTT.... aaaaaaaaTT.. aaaaaaaaaaTT"),
        ("time", {"horizon": 1}, "aa.TTT...... aaaaa.TTT... aaaaaaaa.TTT"),
        # The longer of gap and horizon counts, not their sum; a window is filled up after purging.
        ("time", {"horizon": 1, "gap": 2}, "a..TTT...... aaaa..TTT... aaaaaaa..TTT"),
        ("time", {"horizon": 2, "max_train_size": 3}, "a..TTT...... .aaa..TTT... ....aaa..TTT"),
        (
            "time",
            {"ends": [0, 6, 2, 3, 8, 5, 6, 7, 8, 9, 10, 11]},
            "a.aTTT...... a.aa.aTTT... aaaaaaaaaTTT",
        ),
        ("time", {"time": UNEVEN, "n_folds": 2}, "aaTT.. aaaaTT"),
        # A label of the first time of the test is not known before it.
        ("time", {"time": UNEVEN, "n_folds": 2, "ends": UNEVEN}, "aaTT.. aaa.TT"),
        ("purged", {}, "TTTTaaaaaaaa aaaaTTTTaaaa aaaaaaaaTTTT"),
        ("purged", {"horizon": 1, "embargo": 2}, "TTTT...aaaaa aaa.TTTT...a aaaaaaa.TTTT"),
        # A training label that envelops the test rows, and a test label that reaches behind them.
        (
            "purged",
            {"ends": [9, 1, 2, 3, 4, 9, 6, 7, 8, 9, 10, 11]},
            "TTTT......aa .aaaTTTT..aa .aaaa.aaTTTT",
        ),
    ],
)
def test_windows_purging_and_embargo_leave_out_these_rows(
    kind: str, options: dict[str, Any], folds: str
) -> None:
    assert " ".join(drawn(kind, **options)) == folds


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Times with ties, ends of labels, and windows."""
    n = draw(st.integers(12, 40))
    time = np.array(draw(st.lists(st.integers(0, 60), min_size=n, max_size=n)))
    ahead = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    return time, time + ahead, {"n_folds": draw(st.integers(2, 4))}


def folds_or_none(kind: str, time: Any, **options: Any) -> list[Any]:
    try:
        return make_folds(kind, np.zeros(len(time)), "regression", time=time, **options)
    except DataError:
        return []


@settings(max_examples=50, deadline=None)
@given(labelled(), st.integers(0, 4), st.integers(0, 5), st.integers(1, 12))
def test_no_label_of_a_training_row_overlaps_one_that_is_tested(
    rows: tuple[np.ndarray, np.ndarray, dict[str, Any]], gap: int, embargo: int, most: int
) -> None:
    time, end, options = rows
    forward, both = (
        folds_or_none(kind, time, label_end=end, windows=windows, **options)
        for kind, windows in (
            ("time", TimeWindows(gap=gap, max_train_size=most)),
            ("purged", TimeWindows(embargo=embargo)),
        )
    )
    place = np.empty(len(time), dtype=int)
    place[np.argsort(time, kind="stable")] = np.arange(len(time))
    for train, test in [*forward, *both]:
        overlap = (time[train][:, None] <= end[test]) & (end[train][:, None] >= time[test])
        assert not overlap.any()
        assert not np.intersect1d(train, test).size
        for part in (train, test):
            assert (np.diff(place[part]) > 0).all()
    for train, test in forward:
        assert place[train].max() + gap < place[test].min()
        assert len(train) <= most
    for train, test in both:
        after = train[place[train] > place[test].max()]
        later = np.sort(place[time > end[test].max()])
        assert place[after].tolist() == later[embargo:].tolist()


def test_without_a_horizon_folds_are_those_of_scikit_learn() -> None:
    n = 30
    X, time = np.zeros((n, 1)), np.random.default_rng(n).permutation(n)
    order = np.argsort(time, kind="stable")
    for gap, most, size in [(0, None, None), (1, None, None), (2, 4, None), (0, 5, 2), (1, 2, 3)]:
        windows = TimeWindows(gap, most, size)
        theirs = TimeSeriesSplit(3, gap=gap, max_train_size=most, test_size=size)
        own = make_folds("time", np.zeros(n), "regression", n_folds=3, time=time, windows=windows)
        splitter = PurgedTimeSeriesSplit(3, gap=gap, max_train_size=most, test_size=size)
        for made, found, wanted in zip(own, splitter.split(X), theirs.split(X), strict=True):
            for side in range(2):
                assert made[side].tolist() == order[wanted[side]].tolist()
                assert made[side].dtype == np.int64
                assert found[side].tolist() == wanted[side].tolist()
    for found, wanted in zip(PurgedKFold(3).split(X), KFold(3).split(X), strict=True):
        assert [side.tolist() for side in found] == [side.tolist() for side in wanted]


@pytest.mark.parametrize(
    ("kind", "windows", "named"),
    [
        ("random", {"gap": 3}, "gap 3 .*'time'.*'random'"),
        ("purged", {"gap": 3}, "gap 3 .*'time'.*'purged'.*horizon.*embargo"),
        ("time", {"embargo": 2}, "embargo 2 .*'purged'.*'time'"),
        ("purged", {"max_train_size": 9}, "max_train_size 9 .*'time'"),
        ("time", {"gap": -1}, "gap"),
        ("time", {"gap": 3}, "fold 1 of 3 .*training rows"),
        ("time", {"test_size": 4}, "12 rows .*3 folds .*4 test rows"),
        ("purged", {"embargo": 8, "horizon": 8}, "training rows"),
    ],
)
def test_meaningless_windows_are_refused(kind: str, windows: dict[str, int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        drawn(kind, **windows)


def test_a_selector_searches_on_purged_folds_and_in_outer_ones() -> None:
    frame = table()
    X, y = frame[[f"x{i}" for i in range(8)]], frame["y"]
    times = np.column_stack([frame["when"], frame["when"] + 7])
    splitter = PurgedTimeSeriesSplit(3, max_train_size=40)
    selector = SubsetSelector(GaussianNB(), cv=splitter, budget=1)
    fitted = clone(selector).fit(X, y, groups=times)
    folds = list(splitter.split(X, y, times))
    # The same folds as a list, and the same horizon in rows.
    listed = clone(selector).set_params(cv=folds).fit(X, y)
    in_rows = PurgedTimeSeriesSplit(3, max_train_size=40, horizon=7)
    assert listed.subset_ == fitted.subset_
    assert listed.cost_ == fitted.cost_
    assert clone(selector).set_params(cv=in_rows).fit(X, y).cost_ == fitted.cost_
    with pytest.raises(ConfigError, match="confirm"):
        clone(selector).set_params(confirm=True).fit(X, y)


def timed(bench: Bench, **sections: Any) -> Any:
    data = {"time": "when", "drop": ["number", "kind", "who", "side", "fold"]}
    sections["data"] = data | sections.get("data", {})
    return bench.config(**({"model": BAYES, "split": {"kind": "time"}} | sections))


def test_windows_at_their_defaults_change_no_folds_and_no_fingerprint(bench: Bench) -> None:
    config = timed(bench, folds={"kind": "time"})
    problem = prepare_as_configured(config, fetch_as_configured(config)).problem
    folds = tuple(TimeSeriesSplit(3).split(problem.features))
    assert problem.fingerprint() == replace(problem, folds=folds).fingerprint()
    changed = timed(bench, folds={"kind": "time", "gap": 1})
    other = prepare_as_configured(changed, fetch_as_configured(changed)).problem
    assert other.fingerprint() != problem.fingerprint()


def test_automatic_folds_follow_split_horizon_and_groups(bench: Bench) -> None:
    model = GaussianNB()
    grouped = {"group": "who", "drop": ["number", "kind", "side", "fold"]}
    for sections, wanted in (
        ({"split": {"kind": "random"}}, "stratified"),
        ({}, "time"),
        ({"data": {"horizon": 3}}, "time"),
        ({"data": {"horizon": 3}, "split": {"kind": "random"}}, "purged"),
        ({"data": grouped, "split": {"kind": "random"}}, "stratified_group"),
        ({"data": grouped}, "time"),
        ({"folds": {"kind": "random"}}, "random"),
    ):
        assert fold_kind(timed(bench, **sections), model) == wanted


def test_gaps_and_horizons_apply_to_the_split_and_to_outer_folds(bench: Bench) -> None:
    config = timed(bench, split={"kind": "time", "test_size": 0.25, "gap": 4, "max_train_size": 50})
    data = prepare_as_configured(config, fetch_as_configured(config))
    assert data.train.time is not None
    assert data.test is not None
    assert data.train.time.tolist() == list(range(36, 86))
    assert data.test.time.tolist() == list(range(90, 120))
    ahead = timed(bench, data={"horizon": 9})
    assert prepare_as_configured(ahead, fetch_as_configured(ahead)).train.time.max() == 83 - 9
    rows, model = fetch_as_configured(ahead), GaussianNB()
    assert outer_kind(rows, "random", "purged", model) == "purged"
    windows = TimeWindows(horizon=9, embargo=2)
    folds = outer_folds(rows, "purged", 3, 1, 0, model, windows)
    middle = folds[1]
    assert middle.test.tolist() == list(range(40, 80))
    assert middle.train.tolist() == [*range(31), *range(91, 120)]
    with pytest.raises(ConfigError, match="--repeats"):
        outer_folds(rows, "purged", 3, 2, 0, model)


def test_durations_are_numbers_days_or_texts(tmp_path: Path) -> None:
    file = str(tmp_path / "table.csv")
    days = pd.date_range("2024-03-01", periods=6)
    frame = pd.DataFrame({"a": range(6), "y": [0, 1] * 3, "day": days, "n": range(6)})
    frame = frame.assign(ahead=[1, 2, 3, 0, 1, 2], text="36h", zoned="2024-03-01T00:00:00+02:00")
    frame.to_csv(file, index=False)

    def ends(time: str, horizon: str) -> list[Any]:
        made = fetch("file", path=file, target="y", time=time, horizon=horizon)
        assert horizon not in made.features
        assert made.label_end is not None
        return made.take(np.array([2, 0])).label_end.tolist()

    assert ends("n", "ahead") == [5, 1]
    assert [str(end) for end in ends("day", "ahead")] == [
        "2024-03-06 00:00:00+00:00",
        "2024-03-02 00:00:00+00:00",
    ]
    assert str(ends("day", "text")[1]) == "2024-03-02 12:00:00+00:00"
    made = fetch("file", path=file, target="y", time="day", horizon="ahead")
    assert split(made, "time", test_size=0.3).train.tolist() == [0, 1, 3]
    frame.assign(ahead=[1, -2, 3, 0, 1, 2]).to_csv(file, index=False)
    for time, horizon, sentence in (
        ("n", "ahead", "has the value -2; durations must be finite and >= 0"),
        ("n", "text", "is not numeric, but the time column 'n' is"),
        ("day", "zoned", "that are no durations"),
        (None, "ahead", "needs the times of the rows"),
    ):
        with pytest.raises(DataError, match=sentence):
            fetch("file", path=file, target="y", time=time, horizon=horizon)


def dated(folder: Path) -> Path:
    """Rows with a date each and a target that looks ahead a number of days."""
    days = pd.date_range("2024-01-01", periods=120).strftime("%Y-%m-%d")
    file = folder / "dated.csv"
    table()[[f"x{i}" for i in range(8)] + ["y"]].assign(day=days, ahead=7).to_csv(file, index=False)
    return file


def test_overlapping_targets_and_folds_that_ignore_time_are_findings(
    bench: Bench, swarm: Swarm
) -> None:
    file = dated(bench.folder)
    data = {"path": str(file), "time": "day", "horizon": "ahead", "drop": []}

    def codes(**sections: Any) -> set[str]:
        config = bench.file(model=BAYES, **({"data": data} | sections))
        told = json.loads(swarm("check", config, "--json").out)
        assert not [each for each in told["findings"] if each["severity"] == "error"]
        return {each["code"] for each in told["findings"]}

    in_time = {"kind": "time"}
    assert not {"SWM107", "SWM108", "SWM109"} & codes(split=in_time)
    assert {"SWM108", "SWM109"} <= codes(split=in_time, folds={"kind": "random"})
    assert {"SWM107", "SWM108"} <= codes(folds={"kind": "purged", "embargo": 3})
    undeclared = {**data, "time": None, "horizon": None, "dates": {"day": "%Y-%m-%d"}}
    assert "SWM107" in codes(data=undeclared)


def test_every_key_of_folds_and_splits_makes_another_refresh() -> None:
    rows = fetch_as_configured(load_as(RefreshConfig, "refresh"))
    in_time = ["data.time=mean area", "split.kind=time"]
    digests = {
        refresh._digest(load_as(RefreshConfig, "refresh", ["folds={kind: auto}", *changed]), rows)
        for changed in (
            ["data.group=mean area"],
            ["data.time=mean area", "folds={kind: purged, embargo: 1}"],
            in_time,
            [*in_time, "folds.gap=1"],
            [*in_time, "split.max_train_size=9"],
            [*in_time, "data.horizon=2"],
        )
    }
    assert len(digests) == 6
