"""Tests of the compare flow: nested runs, equal budgets, and reproducible tables."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from conf.load import from_yaml
from conf.schema import CompareConfig
from conf.yaml_text import render
from flows.compare import ComparisonRun, FailedSearches, compare
from flows.display.study_table import print_study
from flows.run.configured import archive_url
from swarm.errors import ConfigError, StoreError
from swarm.problem.scoring import Scoring
from swarm.strategies.catalogue import registry
from tasks.refresh.lock import run_lock
from tasks.split import split
from tasks.study import CellResult, CellRuns, run_cell
from tasks.table import Table
from tests.small_run import Bench

BUNDLED = {"source": "bundled"}
# These artifacts depend on configuration and data only.
SAME = ("cells.csv", "summary.csv", "ranks.csv", "tests_over_datasets.csv", "tests_over_seeds.csv")
STRATEGIES = ["multiswarm", "random", "full"]
SEARCHES = sorted(f"wine-{label}-{seed}" for label in STRATEGIES for seed in (0, 1))

pytestmark = pytest.mark.usefixtures("prefect_server")


def comparison(bench: Bench, **sections: Any) -> CompareConfig:
    return from_yaml(render(bench.comparison(**sections)), env={})


@pytest.fixture(scope="module")
def first(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, ComparisonRun]:
    """One undisturbed comparison."""
    bench = Bench(tmp_path_factory.mktemp("compared"), tracking_uri)
    return bench, compare(comparison(bench), verbosity=0)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures out: drawing them takes longer than all the rest."""
    monkeypatch.setattr("tasks.comparison.draw_comparison", lambda *_: {})


def same(bench: Bench, compared: ComparisonRun) -> dict[str, bytes]:
    """Return the artifacts that depend on configuration and data only."""
    return {name: bench.artifact(compared.run_id, name) for name in SAME}


def page_of(bench: Bench, compared: ComparisonRun) -> str:
    """Return the page of a comparison, without the points where a name may be broken."""
    page = bench.artifact(compared.run_id, "comparison.html").decode()
    return " ".join(page.replace("<wbr>", "").split())


def test_a_comparison_is_one_run_with_a_finished_child_for_each_search(first):
    bench, compared = first
    parent = bench.tracking.run(compared.run_id)
    assert (parent.info.status, parent.data.tags["kind"]) == ("FINISHED", "compare")
    assert parent.data.params["budget.distinct"] == "16"
    runs = bench.children(compared.run_id)
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert sorted(run.info.run_name for run in runs) == SEARCHES
    assert len({run.data.tags["problem"] for run in runs}) == 1
    for run in runs:
        answer = json.loads(bench.artifact(run.info.run_id, "features.json"))
        assert 1 - answer["cost"] == run.data.metrics["epoch/best_accuracy"]
        assert len(answer["features"]) == run.data.metrics["epoch/n_features"]
        steps = bench.steps(run.info.run_id, "spent/distinct_evaluations")
        assert steps == list(range(1, answer["epochs"] + 1))


def test_a_comparison_leaves_tables_a_page_and_figures(first):
    bench, compared = first
    listed = {entry.path for entry in bench.tracking.client.list_artifacts(compared.run_id)}
    assert {"config.yaml", "comparison.html", "cells_seconds.csv", "figures", *SAME} <= listed
    figures = bench.tracking.client.list_artifacts(compared.run_id, "figures")
    drawn = [f"figures/{name}" for name in ("ranks", "convergence_wine")]
    assert {entry.path for entry in figures} == {
        f"{path}.{extension}" for path in drawn for extension in ("svg", "png")
    }
    page = page_of(bench, compared)
    assert all(word in page for word in STRATEGIES)
    cells = compared.data.cells
    features = cells[cells["strategy"] == "random"]["features"].map(json.loads)
    chosen = re.search(r"random</t[hd]> ?<td[^>]*>2 of 2: ([^;<]+); 1 of 2: ([^<]+)</td>", page)
    shared = set.intersection(*map(set, features))
    assert set(chosen[1].split(", ")) == shared
    assert set(chosen[2].split(", ")) == set().union(*features) - shared


def test_every_search_has_the_same_budget_and_measures_against_all_features(first):
    _, compared = first
    spent = compared.data.cells.set_index("strategy")["distinct"]
    assert set(spent[["multiswarm", "random"]]) == {16}
    assert set(spent["full"]) == {1}
    wine = compared.data.datasets["wine"]
    expected = (wine.cost, wine.n_features)
    summary = compared.data.comparison.summary.set_index("strategy")
    assert (summary.loc["full", "mean_cost"], summary.loc["full", "mean_size"]) == expected
    assert summary.loc["full", "improvement"] == 0
    assert (summary["seconds_evaluation"] > 0).all()


def test_the_summary_promises_nothing_and_fits_a_terminal_of_80_columns(first, bench, narrow):
    _, compared = first
    print_study(compared, comparison(bench))
    rows = narrow()
    assert all(name in " ".join(rows) for name in STRATEGIES)
    said = " ".join(" ".join(rows).split())
    wine = compared.data.datasets["wine"]
    assert f"wine: accuracy {1 - wine.cost:.4f} with all {wine.n_features} features" in said
    means = compared.data.comparison.summary.set_index(["dataset", "strategy"])["mean_cost"]
    assert f"random {1 - means['wine', 'random']:.4f}" in said
    assert "no difference, however clear, can be significant" in said


def test_a_search_finds_the_same_again_and_whatever_its_rivals(first, bench, undrawn):
    first_bench, compared = first
    before = first_bench.paid_for()
    again = compare(comparison(first_bench), verbosity=0)
    assert again.run_id != compared.run_id
    assert first_bench.paid_for() == before
    assert same(first_bench, again) == same(first_bench, compared)
    rival = {"random": {"params": {"batch_size": 4}}}
    alone = compare(comparison(bench, strategies=rival, seeds=[1]), verbosity=0)
    cells = compared.data.cells.set_index(["strategy", "seed"])
    assert alone.data.cells["features"].tolist() == [cells.loc[("random", 1), "features"]]


def on_cluster(kind: str) -> Any:
    missing = find_spec(f"prefect_{kind}") is None
    return pytest.param(kind, marks=pytest.mark.skipif(missing, reason=f"no prefect-{kind}"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", on_cluster("dask"), on_cluster("ray")])
def test_other_task_runners_find_what_threads_find(kind, first, bench, undrawn):
    config = comparison(bench, runner={"kind": kind, "workers": 2})
    other = compare(config, verbosity=0)
    assert same(bench, other) == same(*first)


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_cluster_that_does_not_answer_is_one_sentence_before_anything_is_read(
    kind, bench, monkeypatch
):
    pytest.importorskip(f"prefect_{kind}")
    monkeypatch.setattr("tasks.task_runner.CLUSTER_TIMEOUT", 1.0)
    runner = {"kind": kind, "address": "127.0.0.1:9"}
    with pytest.raises(ConfigError, match=r"runner\.address '127\.0\.0\.1:9'"):
        compare(comparison(bench, runner=runner), verbosity=0)
    assert not bench.made_anything()


def interrupt_after(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when `n` searches have been logged."""
    plain = CellRuns.end
    results: list[CellResult] = []

    def end(self: CellRuns, result: CellResult, scoring: Scoring) -> None:
        plain(self, result, scoring)
        results.append(result)
        if len(results) == n:
            raise KeyboardInterrupt

    monkeypatch.setattr(CellRuns, "end", end)


@pytest.mark.slow
def test_an_interrupted_comparison_goes_on_to_the_same_tables(first, bench, undrawn):
    config = comparison(bench)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(3, patch)
        with pytest.raises(KeyboardInterrupt):
            compare(config, verbosity=0)
    statuses = bench.statuses()
    assert "RUNNING" not in statuses
    assert statuses.count("FINISHED") == 3
    parent = next(run for run in bench.runs() if run.data.tags.get("kind") == "compare")
    assert parent.info.status == "KILLED"
    with (
        run_lock(archive_url(config.archive), parent.info.run_id),
        pytest.raises(StoreError, match="another process"),
    ):
        compare(config, verbosity=0)
    assert bench.tracking.run(parent.info.run_id).info.status == "KILLED"
    fresh = compare(config, new=True, verbosity=0)
    assert (fresh.run_id != parent.info.run_id, fresh.read_back) == (True, 0)
    assert len(bench.children(fresh.run_id)) == 6
    # Another task runner with fewer workers resumes the same comparison.
    other = comparison(bench, runner={"kind": "threads", "workers": 1})
    resumed = compare(other, verbosity=0)
    assert (resumed.run_id, resumed.read_back) == (parent.info.run_id, 3)
    assert "error" not in bench.tracking.run(resumed.run_id).data.tags
    assert sorted(run.info.run_name for run in bench.children(resumed.run_id)) == SEARCHES
    assert same(bench, resumed) == same(*first)


def test_searches_of_other_data_are_run_again(bench, undrawn):
    frame = pd.read_csv(bench.mapping()["data"]["path"])
    data = {"small": {"data": bench.mapping()["data"]}}
    config = comparison(bench, datasets=data, strategies={"full": {}}, seeds=1)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            compare(config, verbosity=0)
    frame.assign(x0=np.roll(frame["x0"], 1)).to_csv(data["small"]["data"]["path"], index=False)
    assert compare(config, verbosity=0).read_back == 0


def test_a_failing_search_lets_the_others_finish_and_is_tried_again(bench, undrawn, monkeypatch):
    strategies = {"random": {"params": {"batch_size": 4}}, "full": {}}
    config = comparison(bench, strategies=strategies, seeds=1)
    monkeypatch.setattr(run_cell.task, "retry_delay_seconds", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        tries = []

        def break_down(*_: object) -> None:
            tries.append(1)
            raise OSError("the disk is gone")

        patch.setattr(registry()["random"], "start", break_down)
        with pytest.raises(
            FailedSearches, match=r"1 of 2.*disk is gone.*strategies\.random"
        ) as caught:
            compare(config, verbosity=0)
        assert len(tries) == 3
    assert sorted(bench.statuses()) == ["FAILED", "FAILED", "FINISHED"]
    partial = caught.value.compared
    assert partial is not None
    assert partial.data.comparison.summary["strategy"].tolist() == ["full"]
    assert "random" not in bench.artifact(partial.run_id, "summary.csv").decode()
    print_study(partial, config)
    whole = compare(config, verbosity=0)
    assert whole.read_back == 1
    assert "random" in bench.artifact(whole.run_id, "summary.csv").decode()
    assert bench.tracking.run(whole.run_id).data.metrics


def test_rows_kept_aside_give_a_test_cost(bench, undrawn):
    split_off = {"kind": "stratified", "test_size": 0.4}
    config = comparison(bench, split=split_off, strategies={"full": {}}, seeds=1)
    compared = compare(config, verbosity=0)
    features, target = load_wine(return_X_y=True, as_frame=True)
    rows = split(Table("wine", "", features, target), "stratified", test_size=0.4, seed=0)
    model = GaussianNB().fit(features.iloc[rows.train], target.iloc[rows.train])
    expected = 1 - model.score(features.iloc[rows.test], target.iloc[rows.test])
    assert compared.data.cells["test_cost"].tolist() == [pytest.approx(expected)]
    assert "mean_test_cost" in compared.data.comparison.summary
    assert compared.data.datasets["wine"].test_cost == pytest.approx(expected)


@pytest.mark.slow
def test_each_seed_is_judged_on_test_rows_of_its_own(bench, capsys):
    strategies = {"random": {"params": {"batch_size": 4}}, "full": {}}
    sections = {"split": {"kind": "stratified"}, "resample": True, "seeds": 3}
    config = comparison(bench, strategies=strategies, **sections)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            compare(config, verbosity=0)
    compared = compare(config, verbosity=0)
    assert compared.read_back == 5
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = GaussianNB()
    cells = compared.data.cells
    for seed in range(3):
        rows = split(Table("wine", "", X, y), "stratified", seed=seed, estimator=model)
        cells_of_seed = cells[cells["seed"] == seed].set_index("strategy")
        for label in strategies:
            columns = json.loads(cells_of_seed.loc[label, "features"])
            fitted = model.fit(X.iloc[rows.train][columns], y.iloc[rows.train])
            error = 1 - fitted.score(X.iloc[rows.test][columns], y.iloc[rows.test])
            assert cells_of_seed.loc[label, "test_cost"] == pytest.approx(error)
    summary = compared.data.comparison.summary.set_index("strategy")
    assert summary["rank"].tolist() == summary["mean_test_cost"].rank().tolist()
    page = page_of(bench, compared)
    assert all(word in page for word in (*strategies, "stability", "mean test score", "t-tests"))
    print_study(compared, config)
    assert "on the test rows" in capsys.readouterr().out
