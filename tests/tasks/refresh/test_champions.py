"""Tests of champions: aliases, their history in tags, and the published features."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm import load_features, load_model_inputs
from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError, InputError, StoreError
from swarm.storage.features_file import read_published
from tasks.models.registry import log_ensemble, register_logged
from tasks.refresh.champion import (
    ALIAS,
    PREVIOUS,
    ROLLED_BACK,
    Champion,
    Champions,
    publish,
    publish_features,
    require_publishable,
)
from tasks.refresh.decision import complete_change
from tasks.tracking import open_tracking
from tasks.tracking.writes import log_file

URI = "http://ann:hunter2@host"
HISTORY = {"since": "2026-01-05T00:00:00", "why": "it is better", "pending": "promoted"}
_NUMBERS = itertools.count()


class Registry:
    """A registered model whose versions come from runs that have a features file."""

    def __init__(self, champions: Champions, models: list[tuple[str, str]]) -> None:
        self.champions = champions
        self.models = models
        self.client = champions.tracking.client
        self.name = f"model {next(_NUMBERS)}"
        for run_id, model_id in models:
            register_logged(champions.tracking, run_id, model_id, self.name)

    def promote(self, version: str, expected: str | None, location: object) -> Champion | None:
        return self.champions.promote(
            self.name,
            version,
            expected=expected,
            decision="promoted",
            why=HISTORY["why"],
            when=HISTORY["since"],
            published=None if location is None else str(location),
        )

    def roll_back(self, to: str | None = None) -> tuple[Champion | None, Champion]:
        return self.champions.roll_back(self.name, to=to, when="2026-02-01T00:00:00")

    @property
    def aliases(self) -> dict[str, str]:
        versions = self.client.get_registered_model(self.name).aliases
        return {name: str(version) for name, version in versions.items()}


@pytest.fixture(scope="module")
def models(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the champions of a store, and the run ids and model ids of three models."""
    tracking = open_tracking(tracking_uri, "champions", tmp_path_factory.mktemp("champions"))
    ids = []
    for number in (1, 2, 3):
        run_id = tracking.start_run(f"run {number}", {"refresh": "one"})
        content = {"features": [f"x{number}"], "model_inputs": [f"x{number}", "y"]}
        log_file(tracking.client, run_id, "features.json", json.dumps(content).encode())
        model = tracking.client.create_logged_model(tracking.experiment_id, source_run_id=run_id)
        tracking.client.finalize_logged_model(model.model_id, "READY")
        ids.append((run_id, model.model_id))
    return Champions(tracking), ids


@pytest.fixture
def registry(models: Any) -> Registry:
    return Registry(*models)


# ------------------------------------------------------------------ promotion and rollback


def test_a_promotion_moves_both_aliases_and_records_its_history(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    champions = registry.champions
    name = registry.name
    assert champions.current(name) is None
    with pytest.raises(InputError, match=name):
        champions.require(name)
    monkeypatch.chdir(tmp_path)
    location = str(tmp_path / "out" / "features.json")
    first = registry.promote("1", None, "out/features.json")
    run_id = registry.models[0][0]
    assert first == Champion(name, "1", run_id, published=location, **HISTORY)
    assert (first, registry.aliases) == (champions.require(name), {ALIAS: "1"})
    assert first.uri == f"models:/{name}/1"
    second = registry.promote("2", "1", None)
    assert second is not None
    assert (second.over, second.run_id, second.published) == ("1", registry.models[1][0], None)
    assert registry.aliases == {ALIAS: "2", PREVIOUS: "1"}
    # The challenger was compared with another champion than the current one.
    for expected in (None, "1", "3"):
        assert registry.promote("3", expected, location) == second
    assert champions.current(name) == second
    champions.point(name, ALIAS, None)
    assert registry.promote("3", "2", location) is None
    assert registry.aliases == {PREVIOUS: "1"}


@pytest.mark.parametrize("location", ["s3://bucket/features.json", "${ROOT}/features.json"])
def test_a_location_that_is_the_same_from_every_folder_is_stored_as_it_is(
    location: str, registry: Registry
) -> None:
    registry.champions.set_location(registry.name, location)
    champion = registry.promote("1", None, location)
    assert champion is not None
    assert champion.published == location


def test_a_rollback_restores_the_previous_or_a_named_version_and_can_be_repeated(
    registry: Registry, tmp_path: Path
) -> None:
    champions = registry.champions
    name = registry.name
    registry.promote("1", None, tmp_path / "features.json")
    with pytest.raises(InputError, match=f"version 1 of '{name}'"):
        registry.roll_back()
    with pytest.raises(InputError, match="77"):
        registry.roll_back("77")
    # A rollback to the version of a pending promotion changes nothing.
    before, now = registry.roll_back("1")
    assert before == now == champions.require(name)
    second = registry.promote("2", "1", tmp_path / "features.json")
    before, now = registry.roll_back()
    assert (before, now) == (second, champions.require(name))
    assert (now.version, now.instead_of, now.pending) == ("1", "2", ROLLED_BACK)
    assert (now.since, now.why) == (HISTORY["since"], HISTORY["why"])
    assert now.restored == "2026-02-01T00:00:00"
    assert registry.aliases == {ALIAS: "1"}
    # The process died before it published, so the rollback is repeated.
    for to in (None, "1"):
        assert registry.roll_back(to) == (now, now)
    champions.complete(now)
    assert champions.require(name) == replace(now, pending=None)
    with pytest.raises(InputError, match=f"version 1 of '{name}'"):
        registry.roll_back("1")
    # Version 3 was never promoted by a refresh.
    before, now = registry.roll_back("3")
    assert before is not None
    assert (before.version, now.version, now.over, now.instead_of) == ("1", "3", "1", "1")
    assert now.since == now.restored
    assert registry.aliases == {ALIAS: "3", PREVIOUS: "1"}
    assert registry.roll_back("1")[1].over is None


@pytest.mark.parametrize("by_hand", [False, True])
def test_each_rollback_goes_further_back(by_hand: bool, registry: Registry) -> None:
    champions = registry.champions
    if by_hand:
        champions.point(registry.name, ALIAS, "1")
    else:
        registry.promote("1", None, None)
    for version, before in (("2", "1"), ("3", "2")):
        promoted = registry.promote(version, before, None)
        assert promoted is not None
        champions.complete(promoted)
    for version in ("2", "1"):
        assert registry.roll_back()[1].version == version
        champions.complete(champions.require(registry.name))
    with pytest.raises(InputError, match="--to"):
        registry.roll_back()
    assert registry.aliases == {ALIAS: "1"}


def test_a_rollback_completes_a_promotion_that_was_never_published(registry: Registry) -> None:
    """Without its run, the next refresh of the same rows would undo the rollback."""
    champions = registry.champions
    champions.complete(registry.promote("1", None, None))
    pending = registry.promote("2", "1", None)
    assert pending is not None
    champions.tracking.finish(pending.run_id, "FAILED")
    assert registry.roll_back()[1].version == "1"
    run = champions.tracking.run(pending.run_id)
    assert (run.info.status, run.data.tags["decision"]) == ("FINISHED", "promoted")
    before = champions._champion(registry.client.get_model_version(registry.name, "2"))
    assert before.pending is None
    champions.complete(champions.require(registry.name))
    with pytest.raises(InputError, match="already the champion"):
        registry.roll_back("1")


def test_what_cannot_be_published_is_not_rolled_back(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    registry.promote("1", None, tmp_path / "file" / "features.json")
    with pytest.raises(StoreError, match=r"champion\.publish"):
        registry.roll_back("2")
    registry.champions.set_location(registry.name, None)
    run_id = registry.champions.tracking.start_run("bare", {})
    register_logged(registry.champions.tracking, run_id, registry.models[0][1], registry.name)
    with pytest.raises(InputError, match=r"features\.json"):
        registry.roll_back("4")
    assert registry.aliases == {ALIAS: "1"}


# ------------------------------------------------------------------ what is published


def test_a_change_is_published_and_sent_once(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: sent.append(event))
    file = tmp_path / "features.json"
    champions = registry.champions
    name = registry.name
    registry.promote("1", None, file)
    for _ in range(2):
        complete_change(champions, champions.require(name))
    content = json.loads(file.read_text())
    (run_id, _), *_ = registry.models
    assert content == {
        "format": "swarm-features-1",
        **{"name": name, "version": "1", "model": f"models:/{name}/1", "run": run_id},
        **{"since": HISTORY["since"], "why": HISTORY["why"]},
        **{"features": ["x1"], "model_inputs": ["x1", "y"]},
    }
    (event,) = sent
    key = f"swarm.champion.{name.replace(' ', '-')}"
    assert event["event"] == "swarm.champion.promoted"
    assert event["resource"] == {"prefect.resource.id": key, "prefect.resource.name": name}
    assert event["payload"] == {
        **{"decision": "promoted", "why": HISTORY["why"], "run": run_id, "difference": ""},
        **{"name": name, "version": "1", "champion": f"{name} version 1"},
    }
    # A file of the same version is written again only if another store published it.
    file.write_text(json.dumps(content | {"features": ["kept"]}))
    publish_features(champions, champions.require(name))
    assert load_features(str(file)) == ["kept"]
    for change in ({"run": "0" * 32}, {"version": "9"}, {"name": "another"}):
        file.write_text(json.dumps(content | change))
        publish_features(champions, champions.require(name))
        assert json.loads(file.read_text()) == content
    registry.promote("2", "1", file)
    complete_change(champions, champions.require(name), events=False)
    registry.roll_back()
    complete_change(champions, champions.require(name))
    assert load_model_inputs(str(file)) == ["x1", "y"]
    assert [event["payload"]["decision"] for event in sent] == ["promoted", ROLLED_BACK]
    assert "version 2" in sent[1]["payload"]["why"]


def test_an_event_that_cannot_be_sent_holds_up_no_change(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr("prefect.events.emit_event", away)
    registry.promote("1", None, None)
    complete_change(registry.champions, registry.champions.require(registry.name))
    assert registry.champions.require(registry.name).pending is None


@pytest.mark.parametrize("where", ["path", "file://", "memory://bucket/new/features.json"])
def test_a_features_file_is_read_as_it_was_published(where: str, tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "features.json")
    location = {"path": path, "file://": f"file://{path}"}.get(where, where)
    for _ in range(2):
        # The check leaves no file.
        require_publishable(location)
        with pytest.raises(DataError, match=location):
            read_published(location)
    publish(location, {"version": "3", "features": ["a", "b ü"]})
    assert load_features(location) == ["a", "b ü"]
    require_publishable(location)
    publish(location, {"version": "4", "features": ["z"]})
    assert read_published(location)["version"] == "4"
    if location != where:
        assert [file.name for file in (tmp_path / "new").iterdir()] == ["features.json"]
    with pytest.raises(DataError, match="model_inputs"):
        load_model_inputs(location)


def test_a_file_that_cannot_be_published_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for location in (str(tmp_path / "file" / "f.json"), str(tmp_path), "nothing://x"):
        for attempt in (require_publishable, lambda where: publish(where, {"features": []})):
            with pytest.raises(StoreError, match=location):
                attempt(location)


# ------------------------------------------------------------------ the model, and its run


def test_the_registered_model_answers_as_a_consumer_would_load_it(registry: Registry) -> None:
    champions = registry.champions
    name = registry.name
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.where(X["a"] > 0, "yes", "no")
    fitted = SubsetEnsemble(GaussianNB(), [["a", "b"], ["a"]]).fit(X, y)
    run_id = champions.tracking.start_run("fitted", {})
    log_ensemble(champions.tracking, run_id, fitted, X, name)
    champion = registry.promote("4", None, None)
    assert champion is not None
    answers = champions.predict(champion, X, fitted.classes_)
    assert np.array_equal(answers.predicted, fitted.predict(X))
    np.testing.assert_allclose(answers.proba, fitted.mean_proba(X))
    assert answers.classes is fitted.classes_
    for classes in (None, np.array(["no", "yes", "?"]), np.array(["?", "yes"])):
        assert champions.predict(champion, X, classes).proba is None
    # Whole numbers and truth values are the same classes as floats.
    counted = SubsetEnsemble(GaussianNB(), [["a", "b"]]).fit(X, (X["a"] > 0).astype(int))
    log_ensemble(champions.tracking, run_id, counted, X, name)
    numbered = registry.promote("5", "4", None)
    assert numbered is not None
    for classes in ([0.0, 1.0], [False, True], [0, 1]):
        given = champions.predict(numbered, X, np.array(classes)).proba
        np.testing.assert_allclose(given, counted.mean_proba(X))
    # One array per label is no list of classes.
    assert champions.predict(champion, X, [np.array([0, 1])] * 2).proba is None
    with pytest.raises(DataError, match=rf"{champion.uri} .*'?a'?"):
        champions.predict(champion, X.drop(columns="a"))


def test_a_champion_that_was_registered_by_hand_has_the_run_of_its_model(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.client.set_registered_model_alias(registry.name, ALIAS, "2")
    champion = registry.champions.require(registry.name)
    assert champion == Champion(registry.name, "2", registry.models[1][0])
    for look_up in ("get_model_version", "get_model_version_by_alias"):
        plain = getattr(registry.client, look_up)

        def without_run(*given: Any, plain: Any = plain) -> Any:
            version = plain(*given)
            version._run_id = ""
            return version

        monkeypatch.setattr(registry.client, look_up, without_run)
    assert registry.champions.require(registry.name) == champion


def test_the_runs_of_a_champion_are_told_from_others_and_ended(models: Any) -> None:
    champions, _ = models
    tracking = champions.tracking
    mine = [tracking.start_run(f"{i}", {"refresh": "mine"}) for i in range(3)]
    tracking.start_run("another", {"refresh": "yours"})
    tracking.finish(mine[0], "FAILED")
    assert [run.info.run_id for run in champions.runs_of("mine", "RUNNING")] == mine[:0:-1]
    assert [run.info.run_id for run in champions.runs_of("mine", "FAILED")] == mine[:1]
    champions.finish_run(Champion("mine", "1", mine[1], why="so", pending="first"))
    run = tracking.run(mine[1])
    assert run.info.status == "FINISHED"
    assert {"decision": "first", "why": "so"}.items() <= run.data.tags.items()


def test_the_files_of_the_run_of_a_champion_are_read(registry: Registry) -> None:
    champions = registry.champions
    run_id, _ = registry.models[0]
    champion = Champion("any", "1", run_id)
    assert champions.features_json(champion)["features"] == ["x1"]
    with pytest.raises(InputError, match=r"reference\.json"):
        champions.reference(champion)
    assert champions.trained_rows(champion) is None
    for name, content in (("reference.json", b'{"a": 1}'), ("trained_rows.npz", b"rows")):
        log_file(champions.tracking.client, run_id, name, content)
    assert champions.reference(champion) == {"a": 1}
    assert champions.trained_rows(champion) == b"rows"


class Away:
    """A client of a store that does not answer."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError(f"{URI} is away")


CHAMPION = Champion("churn", "7", "a1b2", published=None, pending="first")
CALLS: dict[str, tuple[Callable[[Champions], object], str]] = {
    "current": (lambda c: c.current("churn"), "'churn'"),
    "set_location": (lambda c: c.set_location("churn", "x"), "'churn'"),
    "point": (lambda c: c.point("churn", ALIAS, "7"), "'churn'"),
    "finish_run": (lambda c: c.finish_run(CHAMPION), "a1b2"),
    "complete": (lambda c: c.complete(CHAMPION), "models:/churn/7"),
    "roll_back": (lambda c: c.roll_back("churn", to="7", when=""), "'churn'"),
    "answers": (lambda c: c.predict(CHAMPION, pd.DataFrame()), "models:/churn/7"),
    "runs_of": (lambda c: c.runs_of("churn", "RUNNING"), "'churn'"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_store_that_is_away_is_named_with_the_champion_and_without_its_password(
    call: str, models: Any
) -> None:
    tracking = replace(models[0].tracking, client=Away(), uri=URI)
    function, subject = CALLS[call]
    with pytest.raises(StoreError, match=subject) as caught:
        function(Champions(tracking))
    assert "***@host" in str(caught.value)
    assert "hunter2" not in str(caught.value)
