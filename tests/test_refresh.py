"""Refresh: the champion changes only for a better challenger, and what is published is whole."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prefect.client.orchestration import get_client
from sklearn.naive_bayes import GaussianNB

import flows.refresh
import swarm
from conf.load import from_yaml
from conf.schema import RefreshConfig
from conf.yaml_text import render
from flows.challenge import RefreshRun, ask
from flows.refresh import refresh
from swarm.errors import ConfigError, DataError, InputError, StoreError
from swarm.validation.answers import Answers, EvaluationTarget
from tasks.models.registry import register_logged
from tasks.refresh.champion import (
    ALIAS,
    CHALLENGER,
    PREVIOUS,
    Champions,
)
from tasks.refresh.decision import complete_change
from tasks.refresh.lock import champion_lock
from tasks.refresh.paired_comparison import PairedComparison, duel
from tests.command import Swarm
from tests.published import published_version
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
        champion = {"publish": str(self.published), "margin": 0.01}
        sections["champion"] = champion | sections.get("champion", {})
        defaults = {
            "name": self.name,
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

    def alias(self, name: str) -> str | None:
        """The version that an alias points to."""
        model = self.bench.tracking.client.get_registered_model(self.name)
        found = model.aliases.get(name)
        return None if found is None else str(found)

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
    features = swarm.load_features(str(desk.published))
    assert features == done.outcome.result.features
    # The columns to keep are not those that the model needs.
    inputs = swarm.load_model_inputs(str(desk.published))
    assert set(features) < set(inputs)
    rows = pd.read_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    assert desk.champions.answers(done.champion, rows[inputs]).predicted.shape == (len(rows),)
    for lost in inputs:
        with pytest.raises(DataError, match=f"cannot predict.*{lost}"):
            desk.champions.answers(done.champion, rows[inputs].drop(columns=lost))
    record = json.loads(desk.artifact(done.run_id, "decision.json"))
    assert record["decision"] == "first"
    assert record["data"].endswith("rows_2026-01-05.parquet")
    tags = desk.bench.tracking.run(done.run_id).data.tags
    assert tags["decision"] == "first"
    # The name of the file that was read, not the pattern that found it.
    with get_client(sync_client=True) as api:
        flow_run = api.read_flow_run(tags["prefect.flow_run"])
    assert flow_run.name == "rows_2026-01-05/multiswarm/seed 0"
    assert set(flow_run.tags) == {"swarm", "refresh", f"champion:{desk.name}"}
    version = desk.bench.tracking.client.get_model_version(desk.name, "1")
    assert version.tags["run"] == done.run_id
    assert version.tags["data"] == record["data"]
    for key in ("config", "config.digest", "problem"):
        assert version.tags[key] == tags[key]
    assert (desk.alias(PREVIOUS), desk.alias(CHALLENGER)) == (None, None)
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
    # Of another store, whose versions have the same numbers.
    stale = json.loads(content) | {"run": "0" * 32, "features": ["old"]}
    desk.published.write_text(json.dumps(stale))
    # A run that was killed looks as if it still ran.
    left = desk.bench.tracking.start_run("killed", {"refresh": desk.name})
    assert desk.refresh().decision == "unchanged"
    assert desk.published.read_bytes() == content
    assert desk.bench.tracking.run(left).info.status == "KILLED"


def test_a_change_that_was_interrupted_is_completed_by_the_next_refresh(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: sent.append(event["payload"]))
    snapshot(desk.snapshots, "2026-01-05", 3)
    desk.published.parent.write_text("no folder")
    with pytest.raises(StoreError, match=r"cannot publish to .*check champion\.publish"):
        desk.refresh()
    assert not desk.bench.made_anything()
    desk.published.parent.unlink()

    def full(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("tasks.refresh.champion.write_atomically", full)
        with pytest.raises(StoreError, match="disk full"):
            desk.refresh()
    assert (desk.bench.statuses(), sent) == (["FAILED"], [])
    for _ in range(2):
        done = desk.refresh()
        assert (done.decision, done.champion.version) == ("unchanged", "1")
        assert published_version(str(desk.published)) == "1"
        assert [(event["decision"], event["version"]) for event in sent] == [("first", "1")]
        run = desk.bench.tracking.run(done.run_id)
        assert (run.info.status, run.data.tags["decision"]) == ("FINISHED", "first")
        record = json.loads(desk.artifact(done.run_id, "decision.json"))
        assert (record["decision"], record["why"]) == ("first", run.data.tags["why"])


def test_a_first_challenger_that_does_not_beat_guessing_is_promoted_by_hand_only(
    desk: Desk, swarm: Swarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_report_out(monkeypatch)
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    frame["y"] = (np.arange(len(frame)) % 5 > 0).astype(int)
    frame.to_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    done = desk.refresh(scoring="accuracy")
    assert (done.decision, done.champion) == ("declined", None)
    assert done.outcome is not None
    assert done.why.startswith(done.outcome.headline.title)
    assert f"`swarm rollback {desk.name} --to 1" in done.why
    assert (desk.alias(ALIAS), desk.published.exists()) == (None, False)
    record = json.loads(desk.artifact(done.run_id, "decision.json"))
    assert (record["decision"], record["champion"]) == ("declined", None)
    # Nor is it searched and registered again.
    again = desk.refresh(scoring="accuracy")
    assert (again.decision, again.champion) == ("unchanged", None)
    store = ("--tracking-uri", desk.bench.uri)
    assert "there is no champion" in swarm("rollback", desk.name, *store).err
    promoted = swarm("rollback", desk.name, "--to", "1", *store)
    assert f"{desk.name}: no champion -> version 1" in promoted.out
    assert (desk.alias(ALIAS), desk.alias(PREVIOUS)) == ("1", None)
    assert published_version(str(desk.published)) == "1"
    assert desk.champions.required(desk.name).why == "promoted by hand"
    kept = desk.refresh(scoring="accuracy")
    assert (kept.decision, kept.champion is not None) == ("unchanged", True)


@pytest.mark.parametrize("yes", [True, False])
def test_a_command_asks_for_approval_on_its_terminal(
    yes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", lambda *_, **__: yes)
    answer = ask("churn", "4", "accuracy 0.9 against 0.8")
    assert (answer.approved, answer.answered) == (yes, True)
    assert "version 4 of churn would replace the champion: accuracy" in capsys.readouterr().err


def test_a_better_challenger_takes_over_and_can_be_rolled_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[str | None] = []

    def asked(*given: Any, **options: Any) -> Any:
        waiting.append(desk.alias(CHALLENGER))
        return ask(*given, **options)

    monkeypatch.setattr("flows.challenge.ask", asked)
    snapshot(desk.snapshots, "2026-01-05", 3)
    first = desk.refresh()
    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    # Nobody is there to be asked: nothing changes, and the next refresh asks again.
    unasked = desk.refresh(champion={"approve": True})
    assert (unasked.decision, unasked.champion.version) == ("declined", "1")
    how = f"approval is required, and there is no terminal; `swarm rollback {desk.name} --to 2 --t"
    assert how in unasked.why
    assert desk.champions.required(desk.name).version == "1"
    assert (waiting, desk.alias(CHALLENGER)) == (["2"], None)
    second = desk.refresh()
    assert second.decision == "promoted", second.why
    assert second.duel is not None
    assert second.duel.won
    assert second.duel.gain > 0.1
    assert (second.champion.version, second.champion.over) == ("3", "1")
    assert (desk.alias(ALIAS), desk.alias(PREVIOUS)) == ("3", "1")
    assert {"x6", "x7"} <= set(swarm.load_features(str(desk.published)))
    record = json.loads(desk.artifact(second.run_id, "decision.json"))
    assert record["duel"]["n_rows"] == 288
    assert record["before"] == {"version": "1"}
    # Published where the configuration says now, though there is nothing to decide.
    earlier, moved = desk.published.read_bytes(), desk.bench.folder / "moved.json"
    unchanged = desk.refresh(champion={"publish": str(moved)})
    assert (unchanged.decision, published_version(str(moved))) == ("unchanged", "3")
    # Back again: the alias and what is published.
    before, now = desk.champions.roll_back(desk.name, to=None, when="2026-02-03T00:00:00")
    assert (before.version, now.version) == ("3", "1")
    assert (desk.alias(ALIAS), desk.alias(PREVIOUS)) == ("1", None)
    assert (now.restored, now.instead_of) == ("2026-02-03T00:00:00", "3")
    assert now.why == first.why
    complete_change(desk.champions, now)
    assert first.outcome is not None
    assert swarm.load_features(str(moved)) == first.outcome.result.features
    assert desk.published.read_bytes() == earlier
    # The same snapshot does not undo what the operator did.
    assert desk.refresh(champion={"publish": None}).decision == "unchanged"
    champion = desk.champions.required(desk.name)
    assert (champion.version, champion.published) == ("1", None)
    with pytest.raises(InputError, match="first champion, there is no previous one"):
        desk.champions.roll_back(desk.name, to=None, when="")
    with pytest.raises(InputError, match="has no version '77'"):
        desk.champions.roll_back(desk.name, to="77", when="")
    # The first table again, which is not the last one: its champion is compared on it.
    _, now = desk.champions.roll_back(desk.name, to="3", when="2026-02-04T00:00:00")
    snapshot(desk.snapshots, "2026-03-02", 3)
    assert desk.refresh().duel is not None


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
    published = json.loads((out / "features.json").read_text())
    for key, option in (("features", []), ("model_inputs", ["--model-inputs"])):
        printed = swarm("features", desk.name, "--champion", *option, *store).out.split()
        assert told[key] == published[key] == printed

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
    # What cannot be published moves nothing.
    shutil.rmtree(out)
    out.write_text("no folder")
    assert "cannot publish to" in swarm("rollback", desk.name, "--to", "2", *store).sentence
    assert desk.champions.required(desk.name).version == "1"


def test_a_champion_that_is_changed_during_a_refresh_stands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rollback, or by a machine that shares the registry but not the lock."""
    search, client = flows.refresh.search_and_evaluate, desk.bench.tracking.client

    def first_of_another_machine(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        model = client.get_model_version(desk.name, "1").source.removeprefix("models:/")
        register_logged(desk.bench.tracking, outcome.run_id, model, desk.name)
        none = {"decision": "", "why": "", "when": "", "published": None}
        desk.champions.promote(desk.name, "2", expected=None, **none)
        return outcome

    def rollback(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        desk.champions.roll_back(desk.name, to="1", when="2026-02-02T00:00:00")
        return outcome

    snapshot(desk.snapshots, "2026-01-05", 3)
    monkeypatch.setattr(flows.refresh, "search_and_evaluate", first_of_another_machine)
    first = desk.refresh()
    assert (first.decision, first.champion.version) == ("kept", "2")
    assert first.why == "the champion was changed from none to version 2 during the refresh"
    assert not desk.published.exists()
    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    monkeypatch.setattr(flows.refresh, "search_and_evaluate", rollback)
    kept = desk.refresh()
    assert (kept.decision, kept.champion.version) == ("kept", "1")
    assert kept.why == "the champion was changed from version 2 to version 1 during the refresh"
    assert kept.duel is not None
    assert kept.duel.won
    assert desk.champions.required(desk.name).version == "1"


def audited(desk: Desk, run_id: str) -> tuple[pd.DataFrame, PairedComparison]:
    """The predictions of a refresh, and its comparison made again from its artifacts alone."""
    table = pd.read_parquet(io.BytesIO(desk.artifact(run_id, "predictions.parquet")))
    record = json.loads(desk.artifact(run_id, "decision.json"))["duel"]
    evaluation = json.loads(desk.artifact(run_id, "evaluation.json"))
    rows = table[table["compared"]]

    def answers(name: str) -> Answers:
        classes = np.unique(table["y_true"])
        proba = rows[[f"{name}.proba.{each}" for each in classes]].to_numpy()
        return Answers(rows[name].to_numpy(), proba, None, classes)

    truth = rows["y_true"].to_numpy()
    target = EvaluationTarget.of(GaussianNB(), truth, truth, evaluation["pos_label"])
    options = {name: record[name] for name in ("margin", "confidence", "n_resamples", "seed")}
    both = answers("champion"), answers("challenger")
    return table, duel(target, *both, record["metric"], **options)


def test_test_rows_that_the_champion_was_trained_on_are_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random split of a table that grows puts them there, and they favour the champion."""
    leave_report_out(monkeypatch)
    split = {"kind": "random", "test_size": 0.4}
    snapshot(desk.snapshots, "2026-01-05", 5)
    desk.refresh(split=split)
    frame = pd.read_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    # The same rows in another split: of 120 test rows some were test rows before, too.
    moved = desk.refresh(split=split | {"seed": 1}, champion={"metric": "roc_auc"})
    assert moved.duel is not None
    assert 30 <= moved.duel.n_rows < 120
    assert moved.why.endswith(
        f"; {120 - moved.duel.n_rows} test rows are left out, as the champion was trained on them"
    )
    # The decision follows from the artifacts of the run alone.
    table, again = audited(desk, moved.run_id)
    assert again.as_dict() == moved.duel.as_dict()
    assert again.won == (moved.decision == "promoted")
    assert len(table) == 120
    assert table["y_true"].tolist() == frame["y"].iloc[table["row"]].tolist()
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
    """Recoded labels or another target: any challenger would beat such a champion."""
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    frame["y"] = np.where(frame["y"] == 1, "yes", "no")
    frame.to_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    done = desk.refresh()
    champion = f"champion models:/{desk.name}/1"

    def refused(frame: pd.DataFrame, message: str, **sections: Any) -> None:
        frame.to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
        with pytest.raises(DataError, match=f"{message}.*; correct the table, or set champion.on_"):
            desk.refresh(**sections)
        assert len(desk.bench.runs()) == 1

    refused(frame.rename(columns={"y": "z"}), f"'z', but {champion} was trained on 'y'", target="z")
    recoded = frame.assign(y=frame["y"].map({"no": "stays", "yes": "leaves"}))
    refused(recoded, f"{champion} predicts 'no', 'yes', and the target 'y' has none of these")
    replaced = desk.refresh(champion={"on_missing": "replace"})
    assert (replaced.decision, replaced.champion.over) == ("replaced", done.champion.version)
    assert "the target 'y' has none of these" in replaced.why
    # A class that is new is no recoding, and whole values are no other type.
    recoded.loc[::5, "y"] = "pauses"
    recoded = recoded.astype({name: "int64" for name in recoded if name.startswith("x")})
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
def test_of_two_refreshes_at_once_the_second_declines(desk: Desk) -> None:
    snapshot(desk.snapshots, "2026-01-05", 3)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with champion_lock(desk.bench.archive, desk.name):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(10)
    with pytest.raises(StoreError, match=f"another refresh of '{desk.name}' is still running"):
        desk.refresh()
    assert not desk.bench.made_anything()
    leave.set()
    thread.join()
    assert desk.refresh().decision == "first"


def test_a_refresh_is_told_from_other_configurations(desk: Desk) -> None:
    from conf.load import load_as
    from conf.schema import RefreshConfig

    path = desk.bench.file()
    with pytest.raises(ConfigError, match="is for `swarm select`, not for `swarm refresh`"):
        load_as(RefreshConfig, path)
    with pytest.raises(ConfigError, match=r"champion\.margin"):
        desk.config(champion={"margin": -1.0})
    with pytest.raises(ConfigError, match="password or a token"):
        desk.config(champion={"publish": "ftp://me:secret@host/features.json"})
    # Unlike a search it has to store its model, whatever tracking.register is.
    snapshot(desk.snapshots, "2026-01-05", 3)
    with pytest.raises(ConfigError, match="a refresh has to store its model"):
        desk.refresh(model={"estimator": "tests.fakes.OwnBayes", "allow": ["tests."]})
    assert not desk.bench.made_anything()
