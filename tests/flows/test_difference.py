"""Tests of `swarm diff`: two runs on the same rows, and on different rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flows.run.difference import compare_runs
from flows.select import select
from tasks.step import step
from tests.command import Swarm
from tests.small_run import BAYES, OTHERS, Bench, table


@pytest.fixture(scope="module")
def runs(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, list[str]]:
    """Return four runs: all columns, two columns fewer, another split, and another table."""
    bench = Bench(tmp_path_factory.mktemp("diff"), tracking_uri)
    table(1).to_csv(bench.folder / "other.csv", index=False)
    quick = {"model": BAYES, "budget": {"epochs": 2}, "scoring": "roc_auc"}
    changes: list[dict[str, Any]] = [
        {},
        {"data": {"drop": [*OTHERS, "x0", "x3"]}},
        {"split": {"seed": 5, "test_size": 0.5}},
        {"data": {"path": str(bench.folder / "other.csv")}},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.run.answer.write_report", step("report")(lambda data: {}))
        return bench, [
            select(bench.config(**quick, **change), None, 0).run_id for change in changes
        ]


def test_columns_scores_data_and_configuration_are_compared(runs: Any, swarm: Swarm) -> None:
    bench, (before, after, *_) = runs
    difference = json.loads(swarm("diff", before, after, "--json", "--tracking-uri", bench.uri).out)
    answers = [json.loads(bench.artifact(run, "features.json")) for run in (before, after)]
    old = set(answers[0]["features"])
    new = set(answers[1]["features"])
    assert {column["name"] for column in difference["columns_in"]} == new - old
    assert {column["name"] for column in difference["columns_out"]} == old - new
    assert difference["n_stay"] == len(old & new)
    # The target depends on x0, and the later table lacks it.
    gone = next(column for column in difference["columns_out"] if column["name"] == "x0")
    losses = bench.table(before, "importances.csv").set_index("column")["loss"]
    assert (gone["loss"], gone["in_both_tables"]) == (losses["x0"], False)
    score = difference["score"]
    assert score["n_rows"] == 36
    scores = [bench.tracking.run(run).data.metrics["test/roc_auc"] for run in (before, after)]
    assert [score["before"], score["after"]] == pytest.approx(scores)
    assert score["gain"] == pytest.approx(scores[1] - scores[0])
    assert score["low"] < score["gain"] < score["high"]
    changed = {(change["what"], change["key"]) for change in difference["changes"]}
    assert {("data", "columns"), ("configuration", "data.drop")} <= changed
    assert not any(key.startswith("budget") for _, key in changed)


def test_other_rows_are_not_paired(runs: Any) -> None:
    bench, (before, _, resplit, other) = runs
    shared = compare_runs(bench.tracking, before, resplit).score
    tested = [set(bench.table(run, "predictions.parquet")["row"]) for run in (before, resplit)]
    n_shared = len(tested[0] & tested[1])
    assert shared["n_rows"] == (n_shared if n_shared >= 30 else None)
    assert compare_runs(bench.tracking, before, other).score["n_rows"] is None


def test_the_text_begins_with_the_summary_and_markdown_has_every_column(
    runs: Any, swarm: Swarm
) -> None:
    bench, (before, after, *_) = runs
    at = ("--tracking-uri", bench.uri)
    difference = compare_runs(bench.tracking, before, after)
    text = swarm("diff", before[:8], after[:8], *at).out
    assert text.startswith(difference.summary())
    page = swarm("diff", before, after, *at, "--markdown").out
    assert page.startswith(f"**{difference.summary()}**")
    for column in (*difference.columns_in, *difference.columns_out):
        assert f"| `{column.name}` |" in page
    assert swarm("diff", before, *at).status == 2
    same = compare_runs(bench.tracking, before, before)
    assert (same.columns_in, same.columns_out, same.changes) == ([], [], [])
    assert same.score["gain"] == 0.0
