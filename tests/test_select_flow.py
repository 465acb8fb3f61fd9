"""The select flow: one run, a record that can be believed, and the same answer every time."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.estimator import build_estimator
from conf.load import as_yaml, flatten, from_yaml
from conf.schema import SelectConfig
from flows.select import Outcome, select
from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.folds import Fold
from swarm.search import Search
from tasks.run_fields import accepted_key
from tasks.steps import fetch_data, prepare_search, run_epoch, split_rows
from tasks.table import Table
from tests.small_run import BAYES, N_ROWS, OTHERS, Bench, table

CONTENDERS = {
    "ensemble",
    "best_subset",
    "all_features",
    "all_features_ensemble",
    "random_subsets",
}


@pytest.fixture(autouse=True)
def _server(prefect_server: str) -> None:
    """Every flow of this file runs on the server of the session."""


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures out: drawing them takes longer than all the rest of a small run."""
    monkeypatch.setattr("flows.select.write_report", lambda data: {})


@pytest.fixture(scope="module")
def first(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, SelectConfig, Outcome]:
    """One undisturbed run of four epochs, with nothing left out."""
    bench = Bench(tmp_path_factory.mktemp("first"), tracking_uri)
    config = bench.config(description="eight columns")
    return bench, config, select(config, None, 0)


def run_of(bench: Bench, run_id: str) -> Any:
    return bench.tracking.client.get_run(run_id)


def frame_of(data: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(data))


def fits(outcome: Outcome) -> int:
    return int(outcome.result.work["fits"].sum())


def prepared_by_hand(config: SelectConfig) -> tuple[Table, Table, Any]:
    """Training rows, test rows and the problem, without the flow."""
    options = config.data.model_dump(exclude={"source"})
    whole = fetch_data.fn(config.data.source, {**options, "fold": config.folds.column})
    rows = split_rows.fn(whole, config.split.kind, config.split.test_size, config.split_seed)
    train, test = whole.take(rows.train), whole.take(rows.test)
    prepared = prepare_search.fn(
        train,
        build_estimator(config.model),
        scoring=config.scoring,
        pos_label=config.pos_label,
        folds={"kind": config.folds.kind, "n_folds": config.folds.n_folds, "seed": 0},
        space=config.space.model_dump(),
        importance=config.evaluation.importance,
        n_clusters=None,
        seed=config.seed,
    )
    return train, test, prepared.problem


def test_a_run_leaves_one_finished_run_in_mlflow(first):
    bench, config, outcome = first
    assert bench.statuses() == ["FINISHED"]
    run = run_of(bench, outcome.run_id)
    assert run.data.params == {
        accepted_key(key): value if isinstance(value, str) else json.dumps(value)
        for key, value in flatten(config).items()
    }
    tags = run.data.tags
    assert (tags["strategy"], tags["seed"], tags["task"]) == ("multiswarm", "0", "binary")
    assert tags["data"].startswith("file:")
    assert tags["estimator"] == "LGBMClassifier"
    assert tags["stopped"] == "epochs"
    assert tags["model"] == outcome.model_uri
    assert tags["verdict"] == outcome.judgement.verdict()
    assert tags["mlflow.note.content"] == "eight columns"
    assert len(tags["problem"]) == 32
    assert {"version.lightgbm", "version.numpy", "version.prefect"} <= set(tags)
    assert "error" not in tags
    (entry,) = run.inputs.dataset_inputs
    assert entry.dataset.name == "table"
    assert outcome.unsent == 0
    assert not list((bench.folder / "spool").glob("*"))


def test_every_metric_has_one_point_per_epoch(first):
    bench, _, outcome = first
    epochs = [1, 2, 3, 4]
    names = [*outcome.result.records[0].metrics, "work_fits", "work_hits", "work_seconds"]
    assert {"best_cost", "diversity", "swarm_0_best_cost", "swarm_1_best_cost"} <= set(names)
    for name in names:
        assert bench.steps(outcome.run_id, name) == epochs, name
    last = run_of(bench, outcome.run_id).data.metrics
    assert last["best_cost"] == outcome.result.cost
    assert bench.steps(outcome.run_id, "optimism") == [4]


def test_a_run_leaves_every_artifact_that_it_promises(first):
    bench, config, outcome = first
    run_id = outcome.run_id
    listed = {entry.path for entry in bench.tracking.client.list_artifacts(run_id)}
    assert listed == {
        "archive.parquet",
        "config.yaml",
        "epochs",
        "evaluation.json",
        "features.json",
        "figures",
        "history.parquet",
        "predictions.parquet",
        "report.html",
        "subsets.csv",
    }
    assert bench.artifact(run_id, "config.yaml").decode() == as_yaml(config)
    for record in outcome.result.records:
        kept = frame_of(bench.artifact(run_id, f"epochs/{record.epoch:04d}.parquet"))
        assert kept["mask"].tolist() == record.particles["mask"].tolist()
    history = frame_of(bench.artifact(run_id, "history.parquet"))
    assert history["epoch"].tolist() == [1, 2, 3, 4]
    figures = bench.tracking.client.list_artifacts(run_id, "figures")
    assert len(figures) > 3
    assert {Path(entry.path).suffix for entry in figures} == {".png"}
    assert all(entry.file_size > 1000 for entry in figures)
    page = bench.artifact(run_id, "report.html").decode()
    assert all(name in page for name in outcome.result.features)
    subsets = pd.read_csv(io.BytesIO(bench.artifact(run_id, "subsets.csv")))
    assert subsets.columns.tolist() == ["cost", "group", *(f"x{i}" for i in range(8))]
    assert len(subsets) == 4
    assert subsets["cost"].is_monotonic_increasing


def test_the_chosen_features_are_the_ones_that_were_measured(first):
    bench, _, outcome = first
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert answer["features"] == outcome.result.features
    assert answer["cost"] == outcome.result.cost
    assert answer["n_available"] == 8
    assert answer["subsets"][0] == {"features": answer["features"], "cost": answer["cost"]}
    paid = frame_of(bench.artifact(outcome.run_id, "archive.parquet"))
    known = {row.features: row.cost for row in paid.dropna(subset="cost").itertuples()}
    assert known, "no subset was evaluated to the end"
    assert answer["cost"] == min(known.values())


def test_the_evaluation_compares_five_contenders_with_intervals_and_tells_the_optimism(first):
    bench, _, outcome = first
    found = json.loads(bench.artifact(outcome.run_id, "evaluation.json"))
    assert set(found["contenders"]) == CONTENDERS
    for contender in found["contenders"].values():
        assert contender["metrics"]
        for metric in contender["metrics"].values():
            assert metric["low"] <= metric["value"] <= metric["high"]
    assert set(found["differences_from_ensemble"]) == CONTENDERS - {"ensemble"}
    assert found["optimism"] == pytest.approx(found["test_cost"] - outcome.result.cost)
    assert found["bootstrap"]["n_resamples"] == 50
    assert found["verdict"] == outcome.judgement.verdict()


def test_contenders_are_trained_on_training_rows_and_judged_on_test_rows_only(first):
    bench, config, outcome = first
    train, test, problem = prepared_by_hand(config)
    kept = frame_of(bench.artifact(outcome.run_id, "predictions.parquet"))
    assert kept["y_true"].tolist() == test.target.tolist()
    assert len(kept) + len(train.features) == N_ROWS
    model = problem.estimator.fit(train.features, train.target)
    assert kept["all_features"].tolist() == model.predict(test.features).tolist()
    best = outcome.result.features
    model = problem.estimator.fit(train.features[best], train.target)
    assert kept["best_subset"].tolist() == model.predict(test.features[best]).tolist()
    assert outcome.judgement.costs["best_subset"] == pytest.approx(
        1 - model.score(test.features[best], test.target)
    )


def test_the_registered_model_predicts_as_the_ensemble_in_a_fresh_process(first):
    bench, config, outcome = first
    _, test, _ = prepared_by_hand(config)
    whole = bench.folder / "whole.parquet"
    # As wide as the data of a user: every column, in another order, the target too.
    table().iloc[:, ::-1].to_parquet(whole)
    code = (
        "import json, sys, mlflow, pandas as pd\n"
        "mlflow.set_tracking_uri(sys.argv[1])\n"
        "model = mlflow.pyfunc.load_model(sys.argv[2])\n"
        "print(json.dumps(model.predict(pd.read_parquet(sys.argv[3])).tolist()))\n"
        "assert 'swarm' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, bench.uri, outcome.model_uri, str(whole)]
    done = subprocess.run(
        command, cwd=bench.folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    predicted = np.array(json.loads(done.stdout.splitlines()[-1]))
    assert outcome.model_uri.startswith("models:/small/")
    rows = [table()["x0"].tolist().index(value) for value in test.features["x0"]]
    assert predicted[rows].tolist() == outcome.judgement.predictions["ensemble"].tolist()


def test_the_ensemble_is_made_of_the_subsets_in_features_json(first):
    bench, _, outcome = first
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    (model,) = run_of(bench, outcome.run_id).outputs.model_outputs
    place = bench.tracking.client.get_logged_model(model.model_id).artifact_location
    folder = Path(place.removeprefix("file://"))
    (spec,) = folder.rglob("ensemble.json")
    members = [member["subset"] for member in json.loads(spec.read_text())["members"]]
    assert members == [subset["features"] for subset in answer["subsets"]]


@pytest.mark.usefixtures("plain")
def test_the_same_run_again_trains_nothing_and_gives_the_same_bytes(first):
    bench, config, outcome = first
    again = select(config, None, 0)
    assert fits(outcome) > 0
    assert fits(again) == 0
    assert again.run_id != outcome.run_id
    assert bench.answer(again.run_id) == bench.answer(outcome.run_id)
    last = run_of(bench, again.run_id).data.metrics
    assert last["fits"] == run_of(bench, outcome.run_id).data.metrics["fits"] > 0


@pytest.mark.usefixtures("plain")
def test_two_workers_give_the_same_bytes_as_one(first, bench):
    reference, _, outcome = first
    two = select(bench.config(evaluation={"n_jobs": 2}), None, 0)
    assert fits(two) > 0
    assert bench.answer(two.run_id) == reference.answer(outcome.run_id)


@pytest.mark.usefixtures("plain")
def test_an_epoch_that_fails_twice_is_the_same_epoch_again(first, bench, monkeypatch):
    reference, _, outcome = first
    step, calls = Search.step, []

    def shaky(self: Search, state: Any) -> Any:
        calls.append(state.epoch + 1)
        moved = step(self, state)
        if calls.count(2) in (1, 2) and calls[-1] == 2:
            raise OSError("the network is away")
        return moved

    monkeypatch.setattr(Search, "step", shaky)
    disturbed = select(bench.config(), None, 0)
    assert calls == [1, 2, 2, 2, 3, 4]
    assert bench.statuses() == ["FINISHED"]
    assert bench.answer(disturbed.run_id) == reference.answer(outcome.run_id)
    for name in ("best_cost", "fits", "work_fits"):
        assert bench.steps(disturbed.run_id, name) == [1, 2, 3, 4]
    tags = run_of(bench, disturbed.run_id).data.tags
    assert tags["answer"] == run_of(reference, outcome.run_id).data.tags["answer"]


def test_a_search_that_fails_leaves_a_failed_run_with_its_reason(bench, monkeypatch):
    def broken(self: Search, state: Any) -> Any:
        raise EvaluationError("nothing can be trained here")

    monkeypatch.setattr(Search, "step", broken)
    with pytest.raises(EvaluationError, match="nothing can be trained"):
        select(bench.config(retries={"attempts": 2}), None, 0)
    (run,) = bench.runs()
    assert run.info.status == "FAILED"
    assert run.data.tags["error"] == "nothing can be trained here"


def test_a_run_whose_record_cannot_be_started_is_not_left_running(bench):
    (bench.folder / "spool").write_text("in the way")
    with pytest.raises(OSError, match="spool"):
        select(bench.config(), None, 0)
    assert "RUNNING" not in bench.statuses()


@pytest.mark.usefixtures("plain")
def test_a_failed_run_can_be_resumed_and_forgets_its_error(first, bench, monkeypatch):
    reference, _, outcome = first
    step = Search.step

    def broken(self: Search, state: Any) -> Any:
        if state.epoch == 2:
            raise RuntimeError("out of disk")
        return step(self, state)

    config = bench.config(retries={"attempts": 1})
    monkeypatch.setattr(Search, "step", broken)
    with pytest.raises(RuntimeError, match="out of disk"):
        select(config, None, 0)
    monkeypatch.setattr(Search, "step", step)
    (run,) = bench.runs()
    resumed = select(config, run.info.run_id, 0)
    assert resumed.run_id == run.info.run_id
    assert bench.statuses() == ["FINISHED"]
    assert "error" not in run_of(bench, run.info.run_id).data.tags
    assert bench.steps(run.info.run_id) == [1, 2, 3, 4]
    assert bench.answer(run.info.run_id) == reference.answer(outcome.run_id)


@pytest.mark.usefixtures("plain")
def test_resuming_with_a_larger_budget_extends_the_run(first, bench):
    reference, _, outcome = first
    short = select(bench.config(budget={"epochs": 2}), None, 0)
    assert bench.steps(short.run_id) == [1, 2]
    longer = select(bench.config(), short.run_id, 0)
    assert bench.statuses() == ["FINISHED"]
    assert longer.result.state.epoch == 4
    for name in ("best_cost", "work_fits"):
        assert bench.steps(short.run_id, name) == [1, 2, 3, 4]
    assert bench.answer(short.run_id) == reference.answer(outcome.run_id)
    kept = from_yaml(bench.artifact(short.run_id, "config.yaml").decode(), env={})
    assert kept.budget.epochs == 4


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"seed": 7}, "seed"),
        ({"strategy": {"params": {"n_particles": 6}}}, "strategy.params.n_particles"),
        ({"space": {"forbidden": ["x7"]}}, "space.forbidden"),
        ({"prepare": {"n_clusters": 3}}, "prepare.n_clusters"),
        ({"strategy": {"name": "random", "params": {}}}, "strategy"),
    ],
    ids=["seed", "parameter", "constraint", "clusters", "strategy"],
)
def test_a_resumed_search_must_be_the_same_search(first, sections, named):
    bench, _, outcome = first
    with pytest.raises(ConfigError) as told:
        select(bench.config(**sections), outcome.run_id, 0)
    assert named in str(told.value)
    assert len(str(told.value).splitlines()) == 1
    assert run_of(bench, outcome.run_id).info.status == "FINISHED"


def test_a_resumed_run_whose_data_changed_is_refused(first):
    bench, _, outcome = first
    changed = bench.folder / "changed.csv"
    table(seed=1).to_csv(changed, index=False)
    with pytest.raises(ConfigError, match=r"started with data.path '.*table.csv' but now"):
        select(bench.config(data={"path": str(changed)}), outcome.run_id, 0)
    table().head(100).to_csv(changed, index=False)
    with pytest.raises(ConfigError, match="started with rows '84' but now it is '70'"):
        select(bench.config(data={"path": str(changed)}), outcome.run_id, 0)
    assert run_of(bench, outcome.run_id).info.status == "FINISHED"


@pytest.mark.usefixtures("plain")
def test_a_regression_runs_from_end_to_end(bench):
    model = {"estimator": "sklearn.linear_model.LinearRegression"}
    config = bench.config(
        data={"target": "number", "drop": ["y", *OTHERS[1:]]},
        split={"kind": "random"},
        folds={"kind": "random"},
        model=model,
        space={"fixed": ["x0", "x1", "x2"]},
        budget={"epochs": 2},
    )
    outcome = select(config, None, 0)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.judgement.task == "regression"
    assert outcome.judgement.metrics[0] == "r2"
    figures = outcome.judgement.table.set_index(["contender", "metric"])["value"]
    assert figures["ensemble", "r2"] > 0.5


@pytest.mark.usefixtures("plain")
def test_several_classes_run_and_a_split_that_leaks_groups_is_warned_about(bench):
    config = bench.config(
        data={"target": "kind", "group": "who", "drop": ["y", "number", *OTHERS[3:]]},
        split={"kind": "random"},
        model=BAYES,
        budget={"epochs": 2},
    )
    outcome = select(config, None, 0)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.judgement.task == "multiclass"
    assert set(outcome.judgement.predictions["ensemble"]) <= {"low", "mid", "high"}
    (warning,) = outcome.warnings
    assert "rows of one group on both sides" in warning
    assert "split kind 'group'" in warning


SPLITS = {
    "random": {},
    "stratified": {},
    "group": {"group": "who"},
    "time": {"time": "when"},
    "column": {"part": "side"},
}
FOLDS = {
    "stratified": {},
    "random": {},
    "group": {"group": "who"},
    "stratified_group": {"group": "who"},
    "time": {"time": "when"},
    "column": {},
}


def roles(given: dict[str, str], *more: str) -> dict[str, Any]:
    return {**given, "drop": [name for name in OTHERS if name not in (*given.values(), *more)]}


@pytest.mark.parametrize("kind", SPLITS)
def test_every_kind_of_split_keeps_its_column_out_of_the_features(bench, kind):
    config = bench.config(data=roles(SPLITS[kind]), split={"kind": kind})
    train, test, problem = prepared_by_hand(config)
    assert list(problem.features.columns) == [f"x{i}" for i in range(8)]
    assert len(train.features) + len(test.features) == N_ROWS
    if kind == "group":
        assert not set(train.groups) & set(test.groups)
    if kind == "time":
        assert train.time.max() < test.time.min()
    if kind == "column":
        assert len(test.features) == 30


@pytest.mark.parametrize("kind", FOLDS)
def test_every_kind_of_folds_gives_an_epoch_and_keeps_its_column_out(bench, kind):
    column = "fold" if kind == "column" else None
    config = bench.config(
        data=roles(FOLDS[kind], *([column] if column else [])),
        folds={"kind": kind, "column": column},
        model=BAYES,
    )
    train, _, problem = prepared_by_hand(config)
    assert list(problem.features.columns) == [f"x{i}" for i in range(8)]
    assert problem.n_folds == 3
    rows: list[Fold] = list(problem.folds)
    assert all(not set(inner) & set(tested) for inner, tested in rows)
    if column:
        assert all(train.fold.iloc[tested].nunique() == 1 for _, tested in rows)
    _, record = run_epoch.fn(search := one_epoch(problem, config), search.start())
    assert np.isfinite(record.metrics["best_cost"])


def one_epoch(problem: Any, config: SelectConfig) -> Search:
    from swarm.budget import Budget
    from swarm.evaluation.crossval import CrossValidation
    from swarm.hints import prepare_hints
    from swarm.registry import make

    return Search(
        make(config.strategy.name, config.strategy.params),
        problem.space,
        CrossValidation(problem),
        prepare_hints(problem.features, problem.space),
        0,
        Budget(epochs=1),
    )


@pytest.mark.parametrize("source", ["csv", "parquet", "sql", "bundled"])
def test_every_source_comes_through_the_fetch_of_the_flow(bench, source):
    from flows.select import _fetched

    if source == "bundled":
        whole = _fetched(bench.config(data={"source": "bundled", "name": "wine", **_BARE}))
        assert whole.features.shape == (178, 13)
        assert whole.source == "bundled:wine"
        return
    data: dict[str, Any] = {}
    if source == "parquet":
        data["path"] = str(bench.folder / "table.parquet")
        table().to_parquet(data["path"])
    if source == "sql":
        with sqlite3.connect(bench.folder / "table.db") as connection:
            table().to_sql("samples", connection, index=False)
        url = f"sqlite:///{bench.folder}/table.db"
        data = {"source": "sql", "url": url, "path": None, "query": "select * from samples"}
    whole = _fetched(bench.config(data=data, folds={"kind": "column", "column": "fold"}))
    assert list(whole.features.columns) == [f"x{i}" for i in range(8)]
    assert whole.features.to_numpy() == pytest.approx(table().iloc[:, :8].to_numpy())
    assert whole.target.tolist() == table()["y"].tolist()
    assert whole.fold is not None


_BARE = {"path": None, "target": None, "drop": []}
