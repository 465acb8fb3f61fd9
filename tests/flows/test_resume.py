"""Tests of retries and resumes: a search ends byte-identical, and another one is refused."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from conf.load import from_yaml
from conf.schema import SelectConfig
from flows.run.answer import SelectRun, _digest
from flows.run.configured import archive_url
from flows.select import select as flow
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError, EvaluationError, StoreError
from swarm.search.driver import Driver
from tasks.refresh.lock import run_lock
from tasks.steps import fit_ensemble, run_epoch
from tests.small_run import BAYES, Bench, leave_report_out, table

pytestmark = pytest.mark.usefixtures("plain")

First = tuple[Bench, SelectConfig, SelectRun]


def select(config: SelectConfig, run_id: str | None = None) -> SelectRun:
    """Search without Prefect, which only the tests of retries need."""
    return flow.fn(config, run_id, 0)


@pytest.fixture(scope="module")
def first(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> First:
    """One undisturbed run of four epochs."""
    bench = Bench(tmp_path_factory.mktemp("undisturbed"), tracking_uri)
    config = bench.config()
    with pytest.MonkeyPatch.context() as patch:
        leave_report_out(patch)
        return bench, config, select(config)


def assert_the_same(bench: Bench, run_id: str, first: First) -> None:
    reference, _, outcome = first
    assert bench.tracking.run(run_id).info.status == "FINISHED"
    assert bench.answer(run_id) == reference.answer(outcome.run_id)
    run = bench.tracking.run(run_id).data
    expected = reference.tracking.run(outcome.run_id).data
    assert run.tags["answer"] == expected.tags["answer"]
    assert "error" not in run.tags
    for name in ("epoch/n_features", "epoch/diversity", "spent/fits", "work/fits"):
        assert bench.steps(run_id, name) == [1, 2, 3, 4]
    assert on_test_rows(run.metrics) == on_test_rows(expected.metrics)


def on_test_rows(metrics: dict[str, float]) -> dict[str, float]:
    return {key: value for key, value in metrics.items() if "test" in key}


def test_the_same_run_again_trains_nothing_and_gives_the_same_bytes(first: First) -> None:
    bench, config, outcome = first
    again = select(config)
    fits = [int(run.result.work["fits"].sum()) for run in (outcome, again)]
    assert (fits[0] > 0, fits[1]) == (True, 0)
    assert again.run_id != outcome.run_id
    assert_the_same(bench, again.run_id, first)
    metrics = bench.tracking.run(again.run_id).data.metrics
    expected = bench.tracking.run(outcome.run_id).data.metrics
    assert metrics["spent/fits"] == expected["spent/fits"] > 0


@pytest.mark.usefixtures("prefect_server")
def test_a_step_that_fails_twice_is_the_same_step_again_and_an_error_that_stays_is_raised_once(
    first: First, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Driver.step
    fit = SubsetEnsemble.fit
    epochs: list[int] = []
    fits: list[int] = []

    def shaky(self: Driver, state: Any) -> Any:
        epochs.append(state.epoch + 1)
        new_state = step(self, state)
        if epochs.count(2) in (1, 2) and epochs[-1] == 2:
            raise OSError("the network is away")
        return new_state

    def shaky_fit(self: SubsetEnsemble, *args: Any, **options: Any) -> Any:
        fits.append(1)
        if len(fits) < 3:
            raise ConnectionError("the network is away")
        return fit(self, *args, **options)

    for step_task in (run_epoch, fit_ensemble):
        monkeypatch.setattr(step_task.task, "retry_delay_seconds", 0.0)
    monkeypatch.setattr(Driver, "step", shaky)
    monkeypatch.setattr(SubsetEnsemble, "fit", shaky_fit)
    disturbed = flow(bench.config(), None, 0)
    assert epochs == [1, 2, 2, 2, 3, 4]
    assert len(fits) >= 3
    assert_the_same(bench, disturbed.run_id, first)
    epochs.clear()

    def broken(self: Driver, state: Any) -> Any:
        epochs.append(1)
        raise EvaluationError("16 of 16 evaluations failed; stop")

    monkeypatch.setattr(Driver, "step", broken)
    with pytest.raises(EvaluationError, match="16 of 16"):
        flow(bench.config(), None, 0)
    assert len(epochs) == 1


def test_a_larger_budget_extends_a_run_that_forgets_the_error_of_a_first_try(
    first: First, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = select(bench.config(budget={"epochs": 2}))
    assert bench.steps(short.run_id) == [1, 2]
    step = Driver.step

    def broken(self: Driver, state: Any) -> Any:
        if state.epoch == 3:
            raise EvaluationError("nothing can be trained here; stop")
        return step(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "step", broken)
        with pytest.raises(EvaluationError, match="nothing can be trained"):
            select(bench.config(), short.run_id)
    failed = bench.tracking.run(short.run_id)
    assert failed.info.status == "FAILED"
    assert failed.data.tags["error"] == "nothing can be trained here; stop"
    assert select(bench.config(), short.run_id).result.state.epoch == 4
    assert_the_same(bench, short.run_id, first)
    config = from_yaml(bench.artifact(short.run_id, "config.yaml").decode(), env={})
    run = bench.tracking.run(short.run_id).data
    assert (config.budget.epochs, run.tags["budget.epochs"]) == (4, "4")
    assert run.params["budget.epochs"] == "2"


def test_a_resume_never_overwrites_a_run_by_fewer_epochs_or_beside_another_process(
    first: First, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, config, outcome = first
    url = archive_url(config.archive)
    with pytest.raises(ConfigError, match=r"budget\.epochs is 2.* 4 epochs"):
        select(reference.config(budget={"epochs": 2}), outcome.run_id)
    with run_lock(url, outcome.run_id), pytest.raises(StoreError, match=outcome.run_id):
        select(config, outcome.run_id)
    tags = reference.tracking.run(outcome.run_id).data.tags
    assert tags["stopped"] == "epochs"
    assert "error" not in tags

    # A new run is locked from its start.
    def locked(*_: Any) -> None:
        run_lock(url, str(bench.runs()[0].info.run_id)).__enter__()

    monkeypatch.setattr(Driver, "step", locked)
    with pytest.raises(StoreError, match="another process"):
        select(bench.config(archive={"url": url}))


def test_a_resume_with_a_smaller_budget_is_refused_and_with_the_same_it_is_not(
    bench: Bench,
) -> None:
    run_id = select(bench.config(model=BAYES, budget={"epochs": None, "fits": 40})).run_id
    spent = bench.tracking.values(run_id)

    def totals(name: str) -> list[int]:
        return [int(value) for _, value in sorted(spent[f"spent/{name}"].items())]

    # The last epoch began below the limit of fits, and may have exceeded it.
    least = {
        "evaluations": totals("evaluations")[-1],
        "distinct": totals("distinct_evaluations")[-1],
        "fits": totals("fits")[-2] + 1,
    }
    for name, needed in least.items():
        with pytest.raises(ConfigError, match=rf"budget\.{name} is {needed - 1}"):
            select(bench.config(model=BAYES, budget={"epochs": None, name: needed - 1}), run_id)
    again = bench.config(model=BAYES, budget={"epochs": None, **least})
    assert select(again, run_id).run_id == run_id
    assert bench.tracking.run(run_id).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"seed": 7}, "seed"),
        ({"space": {"forbidden": ["x7"]}}, "space.forbidden"),
        ({"prepare": {"n_clusters": 3}}, "prepare.n_clusters"),
        ({"strategy": {"name": "random", "params": {}}}, "strategy"),
        ({"warm": [["x0"]]}, "warm"),
        ({"data": {"path": "changed.csv"}}, "data.path"),
        ({"data": {"path": "shorter.csv"}}, "rows '84'.*'70'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_resumed_search_must_be_the_same_search_of_the_same_data(
    first: First, sections: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, _, outcome = first
    monkeypatch.chdir(bench.folder)
    table(seed=1).to_csv("changed.csv", index=False)
    table().head(100).to_csv("shorter.csv", index=False)
    with pytest.raises(ConfigError, match=named):
        select(bench.config(**sections), outcome.run_id)
    assert bench.tracking.run(outcome.run_id).info.status == "FINISHED"


def test_a_resume_with_another_vote_does_not_keep_the_stored_model(first: First) -> None:
    models = first[2].models
    stored = _digest(models)
    ensemble = copy(models["ensemble"])
    assert _digest({**models, "ensemble": ensemble}) == stored
    ensemble.vote_ = "any"
    assert _digest({**models, "ensemble": ensemble}) != stored
