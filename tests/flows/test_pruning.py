"""Tests of pruning: it removes all of an old run, and nothing that is still needed."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import flows.run.pruning
from conf.schema import SelectConfig
from flows.cli.stored import Kind
from flows.run.answer import SelectRun
from flows.run.pruning import Pruned, moment_of, prune
from flows.select import select as flow
from swarm.errors import InputError
from tasks.refresh.champion import ALIAS, PREVIOUS, Champion, Champions
from tasks.refresh.lock import remove_free_locks, run_lock
from tests.command import Swarm
from tests.small_run import BAYES, Bench, leave_report_out, table

NAME = "small"


def configured(bench: Bench, seed: int) -> SelectConfig:
    """Return a configuration whose folds, and so whose evaluations, depend on the seed."""
    return bench.config(
        model=BAYES,
        seed=seed,
        folds={"seed": seed},
        budget={"epochs": 2},
        tracking={"register": True},
    )


def select(config: SelectConfig, run_id: str | None = None) -> SelectRun:
    return flow.fn(config, run_id, 0)


def pruned(bench: Bench, dry_run: bool = False, **options: Any) -> Pruned:
    options = {"before": None, "keep": None} | options
    kinds = get_args(Kind)[:-1]
    return prune(bench.tracking, kinds=kinds, has_prefect=False, dry_run=dry_run, **options)


def digests(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


Runs = tuple[Bench, dict[str, SelectRun]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return a store with the runs of two champions, an old run, and the last run."""
    folder = tmp_path_factory.mktemp("pruned")
    bench = Bench(folder, f"sqlite:///{folder}/mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        leave_report_out(patch)
        names = ("previous", "champion", "old", "last")
        outcomes = {name: select(configured(bench, seed)) for seed, name in enumerate(names)}
    client = bench.tracking.client
    client.set_registered_model_alias(NAME, PREVIOUS, "1")
    client.set_registered_model_alias(NAME, ALIAS, "2")
    return bench, outcomes


def test_what_is_needed_stays_and_the_rest_is_gone(
    runs: Runs, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.run.pruning, "_MAX_CLOCK_SECONDS", 0.0)
    bench, outcomes = runs
    tracking = bench.tracking
    ids = {name: outcome.run_id for name, outcome in outcomes.items()}
    hour_ago = int(1000 * (time.time() - 3600))
    ids["running"] = tracking.start_run("running", {"kind": "select"}, hour_ago)
    ids["foreign"] = tracking.start_run("foreign", {}, hour_ago)
    tracking.finish(ids["foreign"])
    # Evaluations since the start of a run that is running are kept.
    assert pruned(bench, dry_run=True, keep=1).n_evaluations == 0
    tracking.finish(ids.pop("running"), "KILLED")
    before = digests(bench.folder)
    plan = pruned(bench, dry_run=True, keep=1)
    assert digests(bench.folder) == before
    n_evaluations = bench.paid_for()

    report = pruned(bench, keep=1)
    assert [run.run.info.run_name for run, _ in report.runs] == ["table-multiswarm-2", "running"]
    assert [size for _, size in report.runs] == [size for _, size in plan.runs]
    assert report.n_evaluations == plan.n_evaluations > 0
    assert bench.paid_for() == n_evaluations - report.n_evaluations
    assert report.n_needed == 2
    expected_ids = {ids[name] for name in ("previous", "champion", "last", "foreign")}
    assert {run.info.run_id for run in bench.runs()} == expected_ids
    folders = {path.name for path in (bench.folder / "artifacts").iterdir()} - {"models"}
    assert folders == expected_ids - {ids["foreign"]}
    models = {path.name for path in (bench.folder / "artifacts" / "models").iterdir()}
    # Each run stores two models: the subset and the ensemble.
    assert len(models) == 2 * 3
    versions = tracking.client.search_model_versions(f"name = '{NAME}'")
    assert sorted(version.version for version in versions) == [1, 2, 4]

    champions = Champions(tracking)
    champion = champions.require(NAME)
    assert champion.run_id == ids["champion"]
    features = table().drop(columns="y")
    for version in (champion, Champion(NAME, "1", ids["previous"])):
        assert len(np.asarray(champions.predict(version, features).predicted)) == len(features)
    for seed, name in ((0, "previous"), (1, "champion"), (3, "last")):
        again = select(configured(bench, seed), ids[name])
        assert int(again.result.work["fits"].sum()) == 0
    # Nothing is left of the old run, so it is trained again.
    assert int(select(configured(bench, 2)).result.work["fits"].sum()) > 0


def test_runs_go_that_are_older_and_beyond_the_last(runs: Runs) -> None:
    bench, _ = runs
    now = datetime.now(UTC)
    n_runs = len(bench.runs())
    assert not pruned(bench, dry_run=True, before=now - timedelta(hours=5)).runs
    assert not pruned(bench, dry_run=True, before=now, keep=100).runs
    assert len(pruned(bench, dry_run=True, before=now).runs) > 0
    assert len(bench.runs()) == n_runs
    assert moment_of("2w", now) == now - timedelta(weeks=2)
    assert moment_of("2026-01-31", now) == datetime(2026, 1, 31).astimezone()
    for wrong in ("30", "d", "yesterday", "-3d"):
        with pytest.raises(InputError, match=wrong):
            moment_of(wrong, now)


def test_the_command_says_what_goes_and_needs_a_limit(runs: Runs, swarm: Swarm) -> None:
    bench, _ = runs
    at = ("--tracking-uri", bench.uri, "--experiment", bench.experiment)
    assert "--keep" in swarm("prune", *at).sentence
    result = swarm("prune", "--keep", "1", "--dry-run", *at)
    assert result.status == 0
    assert result.out.startswith("would remove ")


def test_the_lock_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    (tmp_path / "a.db.run-1.lock").touch()
    with run_lock(url, "2"):
        remove_free_locks(url)
        assert [file.name for file in tmp_path.iterdir()] == ["a.db.run-2.lock"]


def test_flow_runs_go_with_their_runs(prefect_server: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Completed, Running

    from flows.run.flow_runs import prune_flow_runs

    with get_client(sync_client=True) as api:
        states = {
            "old": Completed(),
            "needed": Completed(),
            "running": Running(),
            "other": Completed(),
        }
        ids = {}
        for name, state in states.items():
            tags = [] if name == "other" else ["swarm", "select"]
            run = api.create_flow_run(flow, parameters={"config": {}}, tags=tags)
            api.set_flow_run_state(run.id, Running(), force=True)
            api.set_flow_run_state(run.id, state, force=True)
            ids[name] = run.id
        later = datetime.now(UTC) + timedelta(hours=1)
        needed = {str(ids["needed"])}
        n_old = prune_flow_runs(later, needed, dry_run=True)
        assert n_old >= 1
        assert api.read_flow_run(ids["old"])
        assert prune_flow_runs(datetime.now(UTC) - timedelta(days=1), needed, dry_run=False) == 0
        assert prune_flow_runs(later, needed, dry_run=False) == n_old
        remaining = {run.id for run in api.read_flow_runs()}
    assert remaining & set(ids.values()) == {ids[name] for name in ("needed", "running", "other")}
