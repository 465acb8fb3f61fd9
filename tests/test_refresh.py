"""Refresh: the champion changes only for a better challenger, and what is published is whole."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prefect.client.orchestration import get_client

import flows.refresh
import swarm
from conf.load import from_yaml, render
from conf.schema import RefreshConfig
from flows.approval import ask
from flows.refresh import RefreshRun, refresh
from swarm.errors import ConfigError, DataError, InputError, StoreError
from tasks.models.registry import register_logged
from tasks.refresh.champion import ALIAS, Champions, publish_features, published_version
from tasks.refresh.lock import champion_lock
from tests.command import Swarm
from tests.small_run import BAYES, Bench, leave_report_out

pytestmark = pytest.mark.usefixtures("prefect_server", "plain")


def snapshot(
    folder: Path, day: str, weeks: int, moved: int | None = None, seed: int = 5
) -> pd.DataFrame:
    """Rows of so many weeks; from week `moved` other columns tell the label."""
    rng = np.random.default_rng(seed)
    n = 60 * weeks
    values = rng.normal(size=(n, 8)).round(4)
    late = np.arange(n) >= 60 * (weeks if moved is None else moved)
    signal = np.where(late, values[:, 6] - values[:, 7], values[:, 0] + values[:, 1])
    frame = pd.DataFrame(values, columns=[f"x{i}" for i in range(8)])
    frame["y"] = (signal + rng.normal(scale=0.3, size=n) > 0).astype(int)
    frame["week"] = np.arange(n)
    folder.mkdir(exist_ok=True)
    frame.to_parquet(folder / f"rows_{day}.parquet")
    return frame


class Desk:
    """What an operator has: snapshots, a configuration, and the champion's name."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.name = bench, f"champion-{bench.experiment}"
        self.snapshots = bench.folder / "snapshots"
        self.published = bench.folder / "published" / "features.json"

    def config(self, *, target: str = "y", **sections: Any) -> RefreshConfig:
        data = {"source": "file", "path": str(self.snapshots / "rows_{date}.parquet")}
        champion = {"name": self.name, "publish": str(self.published), "margin": 0.01}
        sections["champion"] = champion | sections.get("champion", {})
        defaults = {
            "model": BAYES,
            "split": {"kind": "time"},
            # Folds in time would ask what predicts after the relation changed within the rows.
            "folds": {"kind": "stratified"},
            "budget": {"epochs": 5},
            "test": {"bootstrap": 200},
        }
        mapping = self.bench.mapping(**(defaults | sections))
        mapping["data"] = {**data, "target": target, "time": "week"}
        config = from_yaml(render(mapping), env={})
        assert isinstance(config, RefreshConfig)
        return config

    def refresh(self, force: bool = False, **sections: Any) -> RefreshRun:
        return refresh(self.config(**sections), force, 0)

    @property
    def champions(self) -> Champions:
        return Champions(self.bench.tracking)

    def artifact(self, run_id: str, name: str) -> bytes:
        return self.bench.artifact(run_id, name)


First = tuple[Desk, RefreshRun]


@pytest.fixture
def desk(bench: Bench) -> Desk:
    return Desk(bench)


@pytest.fixture(scope="module")
def first(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> First:
    """A champion that no refresh has replaced."""
    desk = Desk(Bench(tmp_path_factory.mktemp("first"), tracking_uri))
    snapshot(desk.snapshots, "2026-01-05", 3)
    with pytest.MonkeyPatch.context() as patch:
        leave_report_out(patch)
        return desk, desk.refresh()


def test_the_first_answer_is_the_champion_and_is_published(first: First) -> None:
    desk, done = first
    assert (done.decision, done.champion.version, done.champion.over) == ("first", "1", None)
    assert done.outcome is not None
    alias = desk.bench.tracking.client.get_model_version_by_alias(desk.name, ALIAS)
    assert str(alias.version) == "1"
    assert swarm.load_features(str(desk.published)) == done.outcome.result.features
    record = json.loads(desk.artifact(done.run_id, "decision.json"))
    assert record["decision"] == "first"
    assert record["data"].endswith("rows_2026-01-05.parquet")
    tags = desk.bench.tracking.run(done.run_id).tags
    assert tags["decision"] == "first"
    # The name of the file that was read, not the pattern that found it.
    with get_client(sync_client=True) as api:
        flow_run = api.read_flow_run(tags["prefect.flow_run"])
    assert flow_run.name == "rows_2026-01-05/multiswarm/seed 0"
    assert set(flow_run.tags) == {"swarm", "refresh", f"champion:{desk.name}"}
    told = desk.champions.required(desk.name)
    assert told.since.startswith("20")
    assert told.why == done.why


def test_the_same_data_and_configuration_are_not_searched_again(first: First) -> None:
    desk, done = first
    runs, before = len(desk.bench.runs()), time.monotonic()
    again = desk.refresh()
    assert time.monotonic() - before < 10
    assert (again.decision, again.run_id, again.outcome) == ("unchanged", done.run_id, None)
    assert len(desk.bench.runs()) == runs
    # Asked for by force, the champion's own subsets come first, and nothing is better than itself.
    published = desk.published.read_bytes()
    forced = desk.refresh(force=True)
    assert (forced.decision, forced.champion.version) == ("kept", "1")
    assert forced.duel is not None
    assert not forced.duel.won
    assert desk.published.read_bytes() == published
    assert json.loads(desk.artifact(forced.run_id, "decision.json"))["decision"] == "kept"
    answer = desk.champions.answer(done.champion)
    start = pd.read_parquet(io.BytesIO(desk.artifact(forced.run_id, "epochs/0001.parquet")))
    assert start["cost"].min() <= answer["cost"] + 1e-12


def test_a_crash_between_promotion_and_publication_is_mended(first: First) -> None:
    desk, _ = first
    content = desk.published.read_bytes()
    stale = json.loads(content) | {"version": "0", "features": ["old"]}
    desk.published.write_text(json.dumps(stale))
    # A run that was killed looks as if it still ran.
    left = desk.bench.tracking.start_run("killed", {"refresh": desk.name})
    assert desk.refresh().decision == "unchanged"
    assert desk.published.read_bytes() == content
    assert desk.bench.tracking.run(left).status == "KILLED"


@pytest.mark.parametrize("yes", [True, False])
def test_a_command_asks_for_approval_on_its_terminal(
    yes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", lambda *_, **__: yes)
    answer = ask("churn", "4", "accuracy 0.9 against 0.8", None, 60)
    assert (answer.approved, answer.answered) == (yes, True)
    assert "version 4 of churn would replace the champion: accuracy" in capsys.readouterr().err


def test_a_better_challenger_takes_over_and_can_be_rolled_back(desk: Desk) -> None:
    snapshot(desk.snapshots, "2026-01-05", 3)
    first = desk.refresh()
    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    # Nobody is there to be asked: nothing changes, and the next refresh asks again.
    unasked = desk.refresh(champion={"approve": True})
    assert (unasked.decision, unasked.champion.version) == ("declined", "1")
    how = f"approval is required, and there is no terminal; `swarm rollback {desk.name} --to 2`"
    assert how in unasked.why
    assert desk.champions.required(desk.name).version == "1"
    second = desk.refresh()
    assert second.decision == "promoted", second.why
    assert second.duel is not None
    assert second.duel.won
    assert second.duel.gain > 0.1
    assert (second.champion.version, second.champion.over) == ("3", "1")
    assert {"x6", "x7"} <= set(swarm.load_features(str(desk.published)))
    record = json.loads(desk.artifact(second.run_id, "decision.json"))
    assert record["duel"]["n_rows"] == 288
    assert record["before"] == {"version": "1"}
    # Back again: the alias and what is published.
    before, now = desk.champions.roll_back(desk.name, to=None, when="2026-02-03T00:00:00")
    assert (before.version, now.version) == ("3", "1")
    assert (now.restored, now.instead_of) == ("2026-02-03T00:00:00", "3")
    assert now.why == first.why
    publish_features(desk.champions, now, before.published)
    assert first.outcome is not None
    assert swarm.load_features(str(desk.published)) == first.outcome.result.features
    # The same snapshot does not undo what the operator did.
    assert desk.refresh().decision == "unchanged"
    assert desk.champions.required(desk.name).version == "1"
    with pytest.raises(InputError, match="first champion, there is no previous one"):
        desk.champions.roll_back(desk.name, to=None, when="")
    with pytest.raises(InputError, match="has no version '77'"):
        desk.champions.roll_back(desk.name, to="77", when="")


def test_a_rollback_can_be_repeated_from_any_folder_until_the_features_are_published(
    desk: Desk, swarm: Swarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: sent.append(event["payload"]))
    snapshot(desk.snapshots, "2026-01-05", 3)
    monkeypatch.chdir(tmp_path)
    champion = {"champion": {"publish": "out/features.json"}}
    desk.refresh(**champion)
    # Version 2 was never promoted.
    assert desk.refresh(force=True, **champion).decision == "kept"
    sent.clear()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    out, store = tmp_path / "out", ("--tracking-uri", desk.bench.uri)

    def full(*_: object) -> None:
        raise OSError("disk full")

    def broken(*command: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("tasks.refresh.champion.write_atomically", full)
            assert "cannot publish to" in swarm("rollback", *command, *store).err

    def version() -> str | None:
        return published_version(str(out / "features.json"))

    features = desk.bench.tracking.download(desk.bench.runs()[0].info.run_id, "features.json")
    features.rename(features.with_suffix(".away"))
    assert "has no artifact" in swarm("rollback", desk.name, "--to", "2", *store).sentence
    features.with_suffix(".away").rename(features)
    assert desk.champions.required(desk.name).version == "1"

    broken(desk.name, "--to", "2")
    repeated = swarm("rollback", desk.name, "--to", "2", *store)
    assert repeated.out.splitlines() == [
        f"{desk.name}: version 2 is already the champion",
        f"features published to {out / 'features.json'}",
    ]
    assert (repeated.status, version()) == (0, "2")
    assert "already the champion" in swarm("rollback", desk.name, "--to", "2", *store).sentence
    told = json.loads(swarm("champion", desk.name, "--json", *store).out)
    assert (told["over"], told["instead_of"], told["since"]) == ("1", "1", told["restored"])
    assert told["why"] == "rolled back from version 1"
    assert told["published"] == str(out / "features.json")

    broken(desk.name)
    assert swarm("rollback", desk.name, *store).status == 0
    assert version() == "1"
    assert (
        ", in place of version 2\nwhy       there was no"
        in swarm("champion", desk.name, *store).out
    )
    assert [(event["decision"], event["version"]) for event in sent] == [
        ("rolled_back", "2"),
        ("rolled_back", "1"),
    ]


def test_a_champion_that_is_changed_during_a_refresh_stands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rollback, or by a machine that shares the registry but not the lock."""
    search, client = flows.refresh.carry_out, desk.bench.tracking.client

    def first_of_another_machine(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        model = client.get_model_version(desk.name, "1").source.removeprefix("models:/")
        register_logged(desk.bench.tracking, outcome.run_id, model, desk.name)
        desk.champions.promote(desk.name, "2", expected=None, why="", when="", published=None)
        return outcome

    def rollback(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        desk.champions.roll_back(desk.name, to="1", when="2026-02-02T00:00:00")
        return outcome

    snapshot(desk.snapshots, "2026-01-05", 3)
    monkeypatch.setattr(flows.refresh, "carry_out", first_of_another_machine)
    first = desk.refresh()
    assert (first.decision, first.champion.version) == ("kept", "2")
    assert first.why == "the champion was changed from none to version 2 during the refresh"
    assert not desk.published.exists()
    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    monkeypatch.setattr(flows.refresh, "carry_out", rollback)
    kept = desk.refresh()
    assert (kept.decision, kept.champion.version) == ("kept", "1")
    assert kept.why == "the champion was changed from version 2 to version 1 during the refresh"
    assert kept.duel is not None
    assert kept.duel.won
    assert desk.champions.required(desk.name).version == "1"


def test_test_rows_that_the_champion_was_trained_on_are_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random split of a table that grows puts them there, and they favour the champion."""
    leave_report_out(monkeypatch)
    split = {"kind": "random", "test_size": 0.4}
    snapshot(desk.snapshots, "2026-01-05", 5)
    desk.refresh(split=split)
    # The same rows in another split: of 120 test rows some were test rows before, too.
    moved = desk.refresh(split=split | {"seed": 1})
    assert moved.duel is not None
    assert 30 <= moved.duel.n_rows < 120
    assert moved.why.endswith(
        f"; {120 - moved.duel.n_rows} test rows are left out, as the champion was trained on them"
    )
    # Of 30 test rows too few are left: all are compared, with a warning.
    few = desk.refresh(split=split | {"seed": 1, "test_size": 0.1})
    assert few.duel is not None
    assert few.duel.n_rows == 30
    assert [finding.code for finding in few.findings] == ["SWM303"]


@pytest.mark.slow
def test_a_column_of_the_champion_that_is_gone_is_named_before_any_training(desk: Desk) -> None:
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    done = desk.refresh()
    used = swarm.load_features(str(desk.published))
    frame.drop(columns=used[0]).to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
    with pytest.raises(DataError, match=f"lacks '{used[0]}', which champion models:/"):
        desk.refresh()
    assert len(desk.bench.runs()) == 1
    replaced = desk.refresh(champion={"on_missing": "replace"})
    assert (replaced.decision, replaced.champion.over) == ("replaced", done.champion.version)
    assert used[0] not in swarm.load_features(str(desk.published))


def test_a_table_that_the_champion_cannot_be_compared_on_is_refused_before_the_search(
    desk: Desk,
) -> None:
    """Recoded labels, another target, another type: any challenger would beat such a champion."""
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    frame["y"] = np.where(frame["y"] == 1, "yes", "no")
    frame.to_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    done = desk.refresh()
    used = swarm.load_features(str(desk.published))[0]
    champion = f"champion models:/{desk.name}/1"

    def refused(frame: pd.DataFrame, message: str, **sections: Any) -> None:
        frame.to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
        with pytest.raises(DataError, match=f"{message}.*; correct the table, or set champion.on_"):
            desk.refresh(**sections)
        assert len(desk.bench.runs()) == 1

    whole = frame.assign(**{used: (10 * frame[used]).astype("int64")})
    refused(whole, f"{champion} cannot predict the test rows .Incompatible .* column {used}")
    refused(frame.rename(columns={"y": "z"}), f"'z', but {champion} was trained on 'y'", target="z")
    recoded = frame.assign(y=frame["y"].map({"no": "stays", "yes": "leaves"}))
    refused(recoded, f"{champion} predicts 'no', 'yes', and the target 'y' has none of these")
    replaced = desk.refresh(champion={"on_missing": "replace"})
    assert (replaced.decision, replaced.champion.over) == ("replaced", done.champion.version)
    assert "the target 'y' has none of these" in replaced.why
    # A class that is new is no recoding.
    recoded.loc[::5, "y"] = "pauses"
    recoded.to_parquet(desk.snapshots / "rows_2026-01-19.parquet")
    assert desk.refresh().duel is not None


@pytest.mark.slow
def test_columns_that_drifted_are_told_or_stop_the_refresh(desk: Desk) -> None:
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    desk.refresh()
    used = swarm.load_features(str(desk.published))[0]
    frame[used] += 3.0
    frame.to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
    with pytest.raises(DataError, match=f"drifted, most '{used}' .PSI"):
        desk.refresh(drift={"action": "stop"})
    told = desk.refresh()
    assert any("drifted" in text for text in told.warnings)
    table = pd.read_csv(io.BytesIO(desk.artifact(told.run_id, "drift.csv")))
    assert table.loc[0, "feature"] == used
    assert table.loc[0, "psi"] > 1
    assert (table.loc[1:, "psi"] < 0.2).all()


@pytest.mark.slow
def test_of_two_refreshes_at_once_the_second_declines_or_waits(desk: Desk) -> None:
    snapshot(desk.snapshots, "2026-01-05", 3)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with champion_lock(desk.bench.archive, desk.name, 0.0):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(10)
    with pytest.raises(StoreError, match=f"another refresh of '{desk.name}' is still running"):
        desk.refresh()
    assert not desk.bench.made_anything()
    threading.Timer(2.0, leave.set).start()
    assert desk.refresh(champion={"wait_seconds": 60.0}).decision == "first"
    thread.join()


def test_a_refresh_is_told_from_other_configurations(desk: Desk) -> None:
    from conf.load import load_refresh

    path = desk.bench.file()
    with pytest.raises(ConfigError, match="is not a refresh, as it has no key 'champion'"):
        load_refresh(path)
    with pytest.raises(ConfigError, match=r"champion\.margin"):
        desk.config(champion={"margin": -1.0})
    with pytest.raises(ConfigError, match="password or a token"):
        desk.config(champion={"publish": "ftp://me:secret@host/features.json"})


@pytest.mark.slow
def test_a_refresh_chooses_the_setting_anew_and_registers_models_that_have_it(desk: Desk) -> None:
    model = {**BAYES, "params": {}, "search": {"var_smoothing": [1e-9, 100.0]}}
    budget = {"epochs": 12}
    snapshot(desk.snapshots, "2026-01-05", 3)
    first = desk.refresh(model=model, budget=budget)
    assert first.outcome is not None
    assert first.outcome.result.tuning.params == {"var_smoothing": 1e-9}
    assert {m.var_smoothing for m in first.outcome.ensemble.models_} == {1e-9}
    again = desk.refresh(model=model, budget=budget)
    assert (again.decision, again.outcome) == ("unchanged", None)
    snapshot(desk.snapshots, "2026-01-12", 8, moved=2)
    second = desk.refresh(model=model, budget=budget)
    assert (second.decision, second.champion.version) == ("promoted", "2")
    found = json.loads(desk.artifact(second.run_id, "features.json"))
    assert found["model"]["setting"] == {"var_smoothing": 1e-9}
    # Other values are another configuration, which is searched though the rows are the same.
    wider = {**model, "search": {"var_smoothing": [1e-9, 1e-3, 100.0]}}
    assert desk.refresh(model=wider, budget={"epochs": 20}).outcome is not None
