"""Tests of `swarm refresh`: when the champion changes, and what is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import flows.refresh
import swarm
from conf.load import as_yaml, from_yaml
from conf.schema import RefreshConfig
from conf.yaml_text import render
from flows.display.summary import print_refresh
from flows.refresh import refresh, unchanged
from flows.run.challenge import RefreshRun
from flows.run.difference import compare_runs, contenders
from swarm.answers import Answers
from swarm.errors import ConfigError, DataError, InputError, StoreError
from swarm.storage.features_file import read_published
from swarm.validation.answers import EvaluationTarget
from tasks.models.registry import register_logged
from tasks.refresh.champion import ALIAS, CHALLENGER, PREVIOUS, Champions
from tasks.refresh.decision import complete_change
from tasks.refresh.paired_comparison import duel
from tests.command import Swarm
from tests.small_run import BAYES, Bench, leave_report_out

# Prefect takes longer to start a flow than such a search takes.
pytestmark = pytest.mark.usefixtures("plain")


def snapshot(
    folder: Path, day: str, weeks: int, moved: int | None = None, seed: int = 5
) -> pd.DataFrame:
    """Store and return rows of some weeks; from week `moved` on, other columns decide the label."""
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
        self.bench = bench
        self.name = f"champion-{bench.experiment}"
        self.snapshots = bench.folder / "snapshots"
        self.published = bench.folder / "published" / "features.json"

    def config(self, *, target: str = "y", **sections: Any) -> RefreshConfig:
        data = {"source": "file", "path": str(self.snapshots / "rows_{date}.parquet")}
        # The tables are small.
        champion = {"publish": str(self.published), "margin": 0.01, "least_rows": 30}
        sections["champion"] = champion | sections.get("champion", {})
        defaults = {
            "name": self.name,
            "model": BAYES,
            "split": {"kind": "time"},
            # Folds in time would be trained before the relation changes and scored after it.
            "folds": {"kind": "stratified"},
            "budget": {"epochs": 3},
            "confirm": None,
            "ensemble": {"n_models": 2},
        }
        mapping = self.bench.mapping(**(defaults | sections))
        mapping["data"] = {**data, "target": target, "time": "week"}
        config = from_yaml(render(mapping), env={})
        assert isinstance(config, RefreshConfig)
        return config

    def refresh(self, force: bool = False, **sections: Any) -> RefreshRun:
        return refresh.fn(self.config(**sections), force, 0)

    def alias(self, name: str) -> str | None:
        """The version that an alias points to."""
        model = self.bench.tracking.client.get_registered_model(self.name)
        version = model.aliases.get(name)
        return None if version is None else str(version)

    def model(self, version: str) -> str:
        """Id of the logged model that a version was registered from."""
        model = self.bench.tracking.client.get_model_version(self.name, version)
        return str(model.source).removeprefix("models:/")

    @property
    def champions(self) -> Champions:
        return Champions(self.bench.tracking)

    def rows(self) -> pd.DataFrame:
        """The rows of the first snapshot."""
        return pd.read_parquet(self.snapshots / "rows_2026-01-05.parquet")

    def record(self, run_id: str) -> dict[str, Any]:
        return dict(json.loads(self.bench.artifact(run_id, "decision.json")))


def audited(desk: Desk, run_id: str, won: bool, n_rows: int) -> pd.DataFrame:
    """Check that the decision of a refresh follows from its artifacts; return its predictions."""
    table = desk.bench.table(run_id, "predictions.parquet")
    record = desk.record(run_id)["duel"]
    evaluation = json.loads(desk.bench.artifact(run_id, "evaluation.json"))
    rows = table[table["compared"]]

    def answers(name: str) -> Answers:
        classes = np.unique(table["y_true"])
        proba = rows[[f"{name}.proba.{label}" for label in classes]].to_numpy()
        return Answers(rows[name].to_numpy(), proba, None, classes)

    truth = rows["y_true"].to_numpy()
    target = EvaluationTarget.of(GaussianNB(), truth, truth, evaluation["pos_label"])
    options = {name: record[name] for name in ("margin", "confidence")}
    both = answers("champion"), answers("served")
    again = duel(target, *both, record["metric"], time=rows.get("time"), **options)
    assert again.as_dict() == {key: record[key] for key in again.as_dict()}
    assert (again.won, record["n_rows"]) == (won, n_rows)
    return table


First = tuple[Desk, RefreshRun]


@pytest.fixture(scope="module", autouse=True)
def unheard() -> Iterator[None]:
    """Send no events: Prefect would start a server to take them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prefect.events.emit_event", lambda **_: None)
        yield


@pytest.fixture
def desk(bench: Bench) -> Desk:
    return Desk(bench)


@pytest.fixture
def champion(desk: Desk, first: First) -> None:
    """Make the model of `first` version 1 of the desk, and the rows of `first` its snapshot."""
    first_desk, first_run = first
    register_logged(desk.bench.tracking, first_run.run_id, first_desk.model("1"), desk.name)
    snapshot(desk.snapshots, "2026-01-05", 3)
    history = {"decision": "first", "why": first_run.why, "when": "2026-01-05T00:00:00"}
    published = str(desk.published)
    promoted = desk.champions.promote(desk.name, "1", expected=None, published=published, **history)
    assert promoted is not None
    complete_change(desk.champions, promoted)
    # The first refresh of this desk is recorded, too.
    digest = desk.bench.tracking.run(first_run.run_id).data.tags["refresh.digest"]
    tags = {"refresh": desk.name, "refresh.digest": digest}
    desk.bench.tracking.finish(desk.bench.tracking.start_run("first", tags))


@pytest.fixture(scope="module")
def first(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> First:
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
    assert (desk.alias(ALIAS), desk.alias(PREVIOUS), desk.alias(CHALLENGER)) == ("1", None, None)
    assert desk.champions.require(desk.name).why == done.why
    features = swarm.load_features(str(desk.published))
    assert features == done.outcome.result.features
    inputs = swarm.load_model_inputs(str(desk.published))
    assert inputs == done.outcome.model_inputs
    assert set(desk.champions.reference(done.champion)) == set(inputs)
    rows = desk.rows()
    assert desk.champions.predict(done.champion, rows[inputs]).predicted.shape == (len(rows),)
    record = desk.record(done.run_id)
    # The record names the file that was read, not the pattern that matched it.
    assert record["data"].endswith("rows_2026-01-05.parquet")
    tags = desk.bench.tracking.run(done.run_id).data.tags
    assert tags["decision"] == record["decision"] == "first"
    version = desk.bench.tracking.client.get_model_version(desk.name, "1")
    expected_tags = {"run": done.run_id, "data": record["data"]}
    expected_tags |= {key: tags[key] for key in ("config", "config.digest", "problem")}
    assert expected_tags.items() <= version.tags.items()


def test_the_same_data_and_configuration_are_not_searched_again(first: First) -> None:
    desk, done = first
    n_runs = len(desk.bench.runs())
    published = desk.published.read_bytes()
    again = desk.refresh()
    assert (again.decision, again.run_id, again.outcome) == ("unchanged", done.run_id, None)
    repeated = unchanged(desk.config())
    assert repeated is not None
    assert (repeated.why, repeated.champion, repeated.findings) == (
        again.why,
        again.champion,
        again.findings,
    )
    pd.testing.assert_frame_equal(repeated.drift, again.drift)
    for change in ({"seed": 9}, {"split": {"kind": "time", "gap": 1}}, {"folds": {"kind": "time"}}):
        assert unchanged(desk.config(**change)) is None
    assert len(desk.bench.runs()) == n_runs
    # A forced search starts with the champion's own subsets, and nothing is better than itself.
    forced = desk.refresh(force=True)
    assert (forced.decision, forced.champion.version) == ("kept", "1")
    audited(desk, forced.run_id, won=False, n_rows=54)
    assert desk.published.read_bytes() == published
    start = desk.bench.table(forced.run_id, "epochs/0001.parquet")
    assert start["cost"].min() <= desk.champions.features_json(done.champion)["cost"] + 1e-12


def test_a_command_that_finds_nothing_new_starts_no_server(
    first: First, swarm: Swarm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk, _ = first
    last = desk.refresh().run_id
    (tmp_path / "again.yaml").write_text(as_yaml(desk.config()))
    monkeypatch.setattr("flows.cli.flows.use_running_prefect", lambda: False)
    monkeypatch.setattr("flows.cli.flows.starting_prefect", None)
    said = swarm("refresh", str(tmp_path / "again.yaml"))
    assert (said.status, last in said.out) == (0, True)
    printed = json.loads(swarm("refresh", str(tmp_path / "again.yaml"), "--json", "--quiet").out)
    assert (printed["decision"], printed["run"], printed["winner"]["version"]) == (
        "unchanged",
        last,
        "1",
    )


def full(*_: object, **__: object) -> None:
    raise OSError("disk full")


def test_a_change_that_was_interrupted_is_completed_by_the_next_refresh(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: sent.append(event["payload"]))
    snapshot(desk.snapshots, "2026-01-05", 3)
    desk.published.parent.write_text("no folder")
    with pytest.raises(StoreError, match=r"champion\.publish"):
        desk.refresh()
    assert not desk.bench.made_anything()
    desk.published.parent.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("fsspec.implementations.local.LocalFileSystem.mv", full)
        with pytest.raises(StoreError, match="disk full"):
            desk.refresh()
    assert (desk.bench.statuses(), sent) == (["FAILED"], [])
    # The event of the promotion is still to be sent.
    assert unchanged(desk.config()) is None
    hidden = desk.snapshots.rename(tmp_path / "hidden")
    # The change is completed without new rows.
    with pytest.raises(InputError):
        desk.refresh()
    assert read_published(str(desk.published))["version"] == "1"
    hidden.rename(desk.snapshots)
    # A run whose process was killed still has the status RUNNING.
    left = desk.bench.tracking.start_run("killed", {"refresh": desk.name})
    for _ in range(2):
        done = desk.refresh()
        assert desk.bench.tracking.run(left).info.status == "KILLED"
        assert (done.decision, done.champion.version) == ("unchanged", "1")
        assert read_published(str(desk.published))["version"] == "1"
        assert [(event["decision"], event["version"]) for event in sent] == [("first", "1")]
        run = desk.bench.tracking.run(done.run_id)
        record = desk.record(done.run_id)
        assert (run.info.status, run.data.tags["decision"]) == ("FINISHED", "first")
        assert (record["decision"], record["why"]) == ("first", run.data.tags["why"])


def test_a_first_challenger_that_does_not_beat_guessing_is_promoted_by_hand_only(
    desk: Desk, swarm: Swarm, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    frame["y"] = (np.arange(len(frame)) % 5 > 0).astype(int)
    frame.to_parquet(desk.snapshots / "rows_2026-01-05.parquet")
    done = desk.refresh(scoring="accuracy")
    assert (done.decision, done.champion) == ("declined", None)
    assert f"swarm rollback {desk.name} --to 1" in done.why
    assert (desk.alias(ALIAS), desk.published.exists()) == (None, False)
    print_refresh(done, desk.config(scoring="accuracy"), quiet=True)
    assert str(desk.published) not in capsys.readouterr().out
    record = desk.record(done.run_id)
    assert (record["decision"], record["winner"]) == ("declined", None)
    assert record["loser"]["version"] == "1"
    # The same rows are not searched and registered again.
    again = desk.refresh(scoring="accuracy")
    assert (again.decision, again.champion) == ("unchanged", None)
    promoted = swarm("rollback", desk.name, "--to", "1", "--tracking-uri", desk.bench.uri)
    assert (promoted.status, desk.alias(ALIAS), desk.alias(PREVIOUS)) == (0, "1", None)
    assert read_published(str(desk.published))["version"] == "1"
    kept = desk.refresh(scoring="accuracy")
    assert (kept.decision, kept.champion is not None) == ("unchanged", True)


@pytest.mark.usefixtures("champion")
def test_a_better_challenger_takes_over_and_can_be_rolled_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: sent.append(event["payload"]))
    before = swarm.load_features(str(desk.published))
    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    # A run by hand cannot ask for approval: nothing changes, and the next refresh searches again.
    unasked = desk.refresh(champion={"approve": True})
    assert (unasked.decision, unasked.champion.version) == ("declined", "1")
    assert f"swarm rollback {desk.name} --to 2 --t" in unasked.why
    assert (desk.alias(ALIAS), desk.alias(CHALLENGER)) == ("1", None)
    second = desk.refresh()
    assert second.decision == "promoted", second.why
    assert second.duel is not None
    assert second.duel.gain > 0.1
    assert (second.champion.version, second.champion.over) == ("3", "1")
    assert (desk.alias(ALIAS), desk.alias(PREVIOUS)) == ("3", "1")
    assert {"x6", "x7"} <= set(swarm.load_features(str(desk.published)))
    record = desk.record(second.run_id)
    assert record == second.as_dict()
    for side, version, score in (
        ("winner", "3", second.duel.challenger),
        ("loser", "1", second.duel.champion),
    ):
        assert (record[side]["version"], record[side]["score"]) == (version, score)
        assert record[side]["model"] == f"models:/{desk.name}/{version}"
    for run in (unasked, second):
        audited(desk, run.run_id, won=True, n_rows=288)
    changed = json.loads(desk.bench.artifact(second.run_id, "difference.json"))
    assert {"x6", "x7"} <= {column["name"] for column in changed["columns_in"]}
    scored = second.duel.as_dict() | {
        "before": second.duel.champion, "after": second.duel.challenger,
    }  # fmt: skip
    assert changed["score"] == {key: scored[key] for key in changed["score"]}
    assert [event["difference"] for event in sent] == [changed["summary"]]
    # The runs that made it the champion are compared, though both snapshots number rows alike.
    run_ids = contenders(desk.champions, desk.name)
    assert run_ids[1] == second.run_id
    assert compare_runs(desk.bench.tracking, *run_ids).as_dict() == changed
    # The features are published where the configuration says now, though nothing is decided.
    earlier = desk.published.read_bytes()
    moved = desk.bench.folder / "moved.json"
    repeated = desk.refresh(champion={"publish": str(moved)})
    assert (repeated.decision, read_published(str(moved))["version"]) == ("unchanged", "3")
    _, restored = desk.champions.roll_back(desk.name, to=None, when="2026-02-03T00:00:00")
    complete_change(desk.champions, restored)
    assert [event["difference"] for event in sent] == [changed["summary"], ""]
    assert swarm.load_features(str(moved)) == before
    assert desk.published.read_bytes() == earlier
    # The same snapshot does not undo what the operator did.
    assert desk.refresh(champion={"publish": None}).decision == "unchanged"
    champion = desk.champions.require(desk.name)
    assert (champion.version, champion.published) == ("1", None)
    # The first table is not the latest one: the champion is compared on it again.
    desk.champions.roll_back(desk.name, to="3", when="2026-02-04T00:00:00")
    snapshot(desk.snapshots, "2026-03-02", 3)
    monkeypatch.setattr(flows.refresh, "split", full)
    with pytest.raises(OSError, match="disk full"):
        desk.refresh()


@pytest.mark.usefixtures("champion")
def test_a_rollback_can_be_repeated_from_any_folder_until_the_features_are_published(
    desk: Desk, swarm: Swarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.champions.set_location(desk.name, "out/features.json")
    first = desk.champions.require(desk.name)
    complete_change(desk.champions, first)
    # Version 2 was never promoted.
    register_logged(desk.bench.tracking, first.run_id, desk.model("1"), desk.name)
    monkeypatch.chdir(desk.snapshots)
    out = tmp_path / "out" / "features.json"
    store = ("--tracking-uri", desk.bench.uri)
    command = ("rollback", desk.name, "--to", "2", *store)
    with monkeypatch.context() as patch:
        patch.setattr("fsspec.implementations.local.LocalFileSystem.mv", full)
        assert swarm(*command).status == 2
    assert (desk.alias(ALIAS), read_published(str(out))["version"]) == ("2", "1")
    repeated = swarm(*command)
    assert (repeated.status, read_published(str(out))["version"]) == (0, "2")
    assert str(out) in repeated.out
    assert "version 2" in swarm(*command).sentence
    described = json.loads(swarm("champion", desk.name, "--json", *store).out)
    published = json.loads(out.read_text())
    assert (described["version"], described["instead_of"]) == ("2", "1")
    for key, option in (("features", []), ("model_inputs", ["--model-inputs"])):
        printed = swarm("features", desk.name, "--champion", *option, *store).out.split()
        assert described[key] == published[key] == printed


@pytest.mark.usefixtures("champion")
def test_a_champion_that_is_changed_during_a_refresh_stands_and_another_refresh_declines(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that shares the registry but not the lock may roll the champion back."""
    register_logged(
        desk.bench.tracking, desk.champions.require(desk.name).run_id, desk.model("1"), desk.name
    )
    search = flows.refresh.search_and_evaluate

    def rollback(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        with pytest.raises(StoreError, match=desk.name):
            desk.refresh()
        desk.champions.roll_back(desk.name, to="2", when="2026-02-02T00:00:00")
        return outcome

    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    monkeypatch.setattr(flows.refresh, "search_and_evaluate", rollback)
    kept = desk.refresh()
    assert (kept.decision, kept.champion.version) == ("kept", "2")
    assert "version 1 to version 2" in kept.why
    record = desk.record(kept.run_id)
    assert (record["winner"]["version"], record["loser"]["version"]) == ("2", "3")
    assert kept.duel is not None
    assert kept.duel.won
    assert desk.champions.require(desk.name).version == "2"


@pytest.mark.usefixtures("champion")
def test_an_interrupted_search_promotes_nothing_and_is_repeated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = flows.refresh.search_and_evaluate

    def interrupted(started: Any, verbosity: int) -> Any:
        outcome = search(started, verbosity)
        return replace(outcome, result=replace(outcome.result, reason="interrupted"))

    snapshot(desk.snapshots, "2026-02-02", 16, moved=1)
    with monkeypatch.context() as patch:
        patch.setattr(flows.refresh, "search_and_evaluate", interrupted)
        kept = desk.refresh()
    assert (kept.decision, kept.champion.version, desk.alias(ALIAS)) == ("kept", "1", "1")
    assert "interrupted" in kept.why
    assert unchanged(desk.config()) is None


@pytest.mark.usefixtures("champion")
def test_a_table_without_a_column_that_tells_rows_apart_is_compared_with_a_warning(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion = desk.champions.require(desk.name)
    inputs = desk.champions.features_json(champion)["model_inputs"]
    frame = desk.rows()
    gone = next(name for name in frame if name.startswith("x") and name not in inputs)
    frame.drop(columns=gone).to_parquet(desk.snapshots / "rows_2026-02-02.parquet")
    brief = {"split": {"kind": "random", "seed": 1}, "budget": {"epochs": 1}}
    compared = desk.refresh(**brief)
    assert [finding.code for finding in compared.findings] == ["SWM303"]
    assert "lacks a column" in compared.findings[0].text
    # A champion whose run has no record of its rows is compared with a warning, too.
    monkeypatch.setattr(Champions, "trained_rows", lambda *_: None)
    unrecorded = desk.refresh(force=True, **brief)
    assert [finding.code for finding in unrecorded.findings] == ["SWM303"]
    assert "no record" in unrecorded.findings[0].text


@pytest.mark.usefixtures("champion")
def test_test_rows_that_the_champion_was_trained_on_are_left_out(desk: Desk) -> None:
    """A random split puts them there, and they favour the champion."""
    frame = desk.rows()
    split = {"kind": "random", "seed": 1}
    brief = {"budget": {"epochs": 1}}
    moved = desk.refresh(split=split | {"test_size": 0.7}, scoring="roc_auc", **brief)
    assert moved.duel is not None
    assert 30 <= moved.duel.n_rows < 126
    assert f" {126 - moved.duel.n_rows} test rows" in moved.why
    table = audited(desk, moved.run_id, moved.decision == "promoted", moved.duel.n_rows)
    assert len(table) == 126
    assert table["y_true"].tolist() == frame["y"].iloc[table["row"]].tolist()
    # Too few of 30 test rows are left, so all are compared, with a warning.
    few = desk.refresh(split=split | {"test_size": 30 / 180}, **brief)
    assert few.duel is not None
    assert few.duel.n_rows == 30
    assert [finding.code for finding in few.findings] == ["SWM303"]


@pytest.mark.usefixtures("champion")
def test_a_column_of_the_champion_that_is_gone_is_named_before_any_training(desk: Desk) -> None:
    frame = desk.rows()
    used = swarm.load_features(str(desk.published))
    frame.drop(columns=used[0]).to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
    with pytest.raises(DataError, match=f"'{used[0]}'.*models:/{desk.name}/1.*champion.on_missing"):
        desk.refresh()
    assert len(desk.bench.runs()) == 1
    replaced = desk.refresh(champion={"on_missing": "replace"})
    assert (replaced.decision, replaced.champion.over) == ("replaced", "1")
    assert used[0] not in swarm.load_features(str(desk.published))
    # The same rows do not undo a rollback, though they lack the column.
    desk.champions.roll_back(desk.name, to="1", when="2026-01-13T00:00:00")
    again = desk.refresh(champion={"on_missing": "replace"})
    assert (again.decision, again.champion.version) == ("unchanged", "1")


@pytest.mark.usefixtures("champion")
def test_a_table_that_the_champion_cannot_be_compared_on_is_refused_before_the_search(
    desk: Desk,
) -> None:
    """Recoded labels or another target: any challenger would beat such a champion."""
    frame = desk.rows()
    for table, words, sections in (
        (frame.rename(columns={"y": "z"}), "'z'.*'y'", {"target": "z"}),
        (frame.assign(y=frame["y"].map({0: "stays", 1: "leaves"})), "'y'.*'leaves'.* 0, 1", {}),
        (frame.assign(y=frame["y"] + 1), "'y'.* 1, 2, .* 0, 1", {}),
        (frame.assign(y=1 - frame["y"]), "worse than guessing", {}),
    ):
        table.to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
        with pytest.raises(DataError, match=f"{words}.*champion.on_missing"):
            desk.refresh(**sections)
        assert len(desk.bench.runs()) == 1


@pytest.mark.usefixtures("champion")
def test_columns_that_drifted_are_told_or_stop_the_refresh(desk: Desk) -> None:
    frame = desk.rows()
    used = swarm.load_features(str(desk.published))[0]
    frame[used] += 3.0
    # A new class is no recoding: the champion is compared, if that is allowed.
    frame.loc[::5, "y"] = 2
    frame.to_parquet(desk.snapshots / "rows_2026-01-12.parquet")
    with pytest.raises(DataError, match=f"'{used}'.*drift.action"):
        desk.refresh(drift={"action": "stop"})
    with pytest.raises(DataError, match=r"'y'.* 0, 1, 2,.*new_labels to champion\.allow"):
        desk.refresh()
    compared = desk.refresh(champion={"allow": ["new_labels"]})
    assert compared.duel is not None
    assert [finding.code for finding in compared.findings] == ["SWM301"]
    table = desk.bench.table(compared.run_id, "drift.csv")
    assert table.loc[0, "feature"] == used
    assert table.loc[0, "psi"] > 1
    assert (table.loc[1:, "psi"] < 0.2).all()


def test_a_refresh_refuses_what_it_could_not_publish_or_store(desk: Desk) -> None:
    for key, value in (("margin", -1.0), ("publish", "ftp://me:secret@host/features.json")):
        with pytest.raises(ConfigError, match=rf"champion\.{key}") as caught:
            desk.config(champion={key: value})
        assert "secret" not in str(caught.value)
    # A refresh has to store its model, whatever tracking.register is.
    snapshot(desk.snapshots, "2026-01-05", 3)
    with pytest.raises(ConfigError, match="OwnBayes"):
        desk.refresh(model={"estimator": "tests.fakes.OwnBayes", "allow": ["tests."]})
    assert not desk.bench.made_anything()
