"""Tests of deployments: what a Prefect server schedules, runs, shows and refuses."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from prefect import flow, runtime
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from conf.check import check
from conf.load import load
from conf.schema import SelectConfig
from flows import deployed
from flows.cli.servers import serve
from swarm.errors import ConfigError, EvaluationError, StoreError, TransientError
from tasks.flow_run import rename_flow_run
from tasks.prefect_artifacts import show_table
from tests import ROOT
from tests.servers import happens
from tests.tasks.models.test_served import serving

WEEKLY = ['schedule.cron="0 4 * * 1"']
CRON = {"cron": "0 4 * * 1", "timezone": "Europe/Berlin"}


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("configs", "settings", "sentence"),
    [
        (["default"], [], "schedule.cron"),
        (["default", "default"], WEEKLY, "'select/breast_cancer'"),
        (["default"], WEEKLY, "PREFECT_API_URL"),
    ],
    ids=["schedule", "twins", "server"],
)
@pytest.mark.usefixtures("prefect_server")
def test_serve_refuses_in_one_sentence(configs, settings, sentence, monkeypatch):
    # `serve` logs to the server, here and in the processes that it starts.
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises((ConfigError, StoreError)) as caught,
    ):
        serve(configs, settings)
    assert sentence in str(caught.value)


# ---------------------------------------------------------------- a run on a real server


def test_the_scheduler_of_prefect_makes_runs_of_a_cron_schedule():
    """Where the installed versions do not fit, Prefect logs errors and schedules no run."""
    schedule = CronSchedule(**CRON)
    times = asyncio.run(schedule.get_dates(2, start=datetime(2026, 11, 29, tzinfo=UTC)))
    assert [time.isoformat() for time in times] == [
        "2026-11-30T04:00:00+01:00",
        "2026-12-07T04:00:00+01:00",
    ]


def test_the_schedule_is_on_the_deployment(bench, api):
    deployed.deployment_of(bench.config(name="scheduled", schedule=CRON)).apply()
    deployment = api.read_deployment_by_name("select/scheduled")
    (schedule,) = deployment.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == tuple(CRON.values())
    assert schedule.active
    assert deployment.concurrency_options.collision_strategy == "ENQUEUE"
    assert deployment.global_concurrency_limit.limit == 1
    assert set(deployment.tags) == {"swarm", "select"}
    sections = deployment.parameter_openapi_schema["definitions"]
    assert sections["BudgetSection"]["properties"]["epochs"]["description"]


@pytest.mark.slow
def test_a_deployed_run_finishes_and_leaves_its_artifacts(bench, prefect_server, api):
    from prefect.client.schemas.filters import FlowRunFilter

    with serving(bench, prefect_server, bench.mapping(), CRON) as served:
        flow_run_id = served.trigger("select/small")
        assert happens(lambda: api.read_flow_run(flow_run_id).state.is_final(), 120)
        flow_run = api.read_flow_run(flow_run_id)
        artifacts = api.read_artifacts(flow_run_filter=FlowRunFilter(id={"any_": [flow_run_id]}))
    assert flow_run.state.is_completed(), flow_run.state.message
    assert flow_run.name == "table/multiswarm/seed 0"
    assert set(flow_run.tags) == {"swarm", "select"}
    (run,) = bench.runs()
    assert (run.info.status, run.data.tags["verdict"]) == ("FINISHED", flow_run.state.message)
    shown = {artifact.key: artifact.data for artifact in artifacts}
    assert set(shown) == {"small-figures", "small-answer"}
    rows = json.loads(shown["small-figures"])
    assert len(rows) == 5
    assert {"f1", "accuracy"} <= set(rows[0])
    features = json.loads(bench.artifact(run.info.run_id, "features.json"))["features"]
    assert all(f"`{name}`" in shown["small-answer"] for name in features)
    assert run.info.run_id in shown["small-answer"]


# ---------------------------------------------------------------- parameters, retries


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"budgt": 3}, "'budget'?"), ({"scoring": "f11"}, "'f1'?"), ({"champion": {}}, "'refresh'")],
    ids=["key", "scorer", "kind"],
)
def test_a_bad_parameter_is_refused_with_the_sentence_of_a_file(bench, change, sentence):
    state = deployed.select.fn(bench.mapping(**change))
    assert state.is_failed()
    assert sentence in state.message
    assert not bench.made_anything()


def test_a_parameter_is_not_overridden_by_the_environment(bench, monkeypatch):
    monkeypatch.setenv("SWARM_BUDGET__EPOCHS", "9")
    config = deployed.read_parameter(bench.mapping(), SelectConfig)
    assert config == bench.config()
    assert config.budget.epochs == 4


VERDICT = SimpleNamespace(judgement=SimpleNamespace(sentence=lambda: "all is well"))


@pytest.mark.parametrize(
    ("answers", "message", "delays"),
    [
        ([OSError("away"), StoreError("still away"), VERDICT], "all is well", [30.0, 120.0]),
        ([StoreError("the store is away")] * 4, "the store is away", [30.0, 120.0, 480.0]),
        ([ConfigError("no such column")], "no such column", []),
        ([EvaluationError("16 of 16 fits failed")], "16 of 16 fits failed", []),
        ([TransientError("3 fits failed"), VERDICT], "all is well", [30.0]),
    ],
    ids=["passes", "stays", "bad input", "bad model", "bad machine"],
)
def test_what_may_pass_is_tried_again_after_a_growing_while_and_bad_input_is_not(
    bench, monkeypatch, answers, message, delays
):
    waited: list[float] = []
    attempt = Mock(side_effect=answers)
    monkeypatch.setattr("flows.select.select", SimpleNamespace(fn=attempt))
    monkeypatch.setattr(deployed, "sleep", waited.append)
    # The flow is called outside a flow run, which has no log.
    monkeypatch.setattr(deployed, "get_run_logger", Mock())
    state = deployed.select.fn(bench.mapping())
    assert (state.is_completed(), state.message) == (answers[-1] is VERDICT, message)
    assert waited == delays


# ---------------------------------------------------------------- what is shown costs nothing


@pytest.mark.usefixtures("prefect_server")
def test_a_flow_run_is_renamed_by_what_it_decided(api, monkeypatch):
    name = "refresh-2026-11-29-kept"

    @flow(flow_run_name="rows/multiswarm/seed 0")
    def deciding() -> str:
        rename_flow_run(name)
        return str(runtime.flow_run.id)

    assert api.read_flow_run(deciding()).name == name
    monkeypatch.setattr("tasks.flow_run.get_client", Mock(side_effect=OSError("away")))
    assert api.read_flow_run(deciding()).name == "rows/multiswarm/seed 0"
    rename_flow_run("outside of any")


@pytest.mark.usefixtures("prefect_server")
def test_a_prefect_server_that_is_away_does_not_stop_a_run(monkeypatch):
    monkeypatch.setattr("tasks.prefect_artifacts._PATIENCE_SECONDS", 0.2)

    @flow
    def showing() -> bool:
        with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
            return show_table("figures", [{"f1": float("nan")}], "figures")

    assert not showing()
    # Outside a flow run there is nobody to show anything to.
    monkeypatch.setattr("tasks.prefect_artifacts.get_client", pytest.fail)
    assert not show_table("figures", [], "figures")


# ---------------------------------------------------------------- prefect.yaml


def test_prefect_yaml_deploys_what_ships():
    project = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    shipped = {"select": "default", "refresh": "refresh", "compare": "compare"}
    assert len(project["deployments"]) == len(shipped)
    for deployment in project["deployments"]:
        flow = deployment["entrypoint"].removeprefix("flows/deployed.py:")
        assert callable(getattr(deployed, flow))
        config = load(shipped[flow], env={})
        deployed_config = deployed.read_parameter(deployment["parameters"]["config"], type(config))
        check(deployed_config)
        assert deployed_config == config
