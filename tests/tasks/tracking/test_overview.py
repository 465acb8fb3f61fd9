"""Tests of the answers of the last runs above MLflow's table of runs."""

from __future__ import annotations

from tasks.tracking.overview import describe_experiment
from tasks.tracking.writes import NOTE
from tests.small_run import Bench


def finished(bench: Bench, number: int, **tags: str) -> str:
    """Create a run with an answer, and return its id."""
    tracking = bench.tracking
    answer = {"headline": f"Keep {number} of 99 columns", "kept": f"{number} of 99"}
    all_tags = {"scoring": "roc_auc", "strategy": "bpso", **answer, **tags}
    run_id = tracking.start_run(f"wine-{number}", all_tags, start_ms=1000 * number)
    tracking.client.log_metric(run_id, "test/best_subset_roc_auc", number / 100)
    return run_id


def note(bench: Bench) -> str:
    """Describe the experiment of a bench, and return its note."""
    tracking = bench.tracking
    describe_experiment(tracking.client, tracking.experiment_id)
    return str(tracking.client.get_experiment(tracking.experiment_id).tags.get(NOTE, ""))


def test_the_last_answer_comes_first_and_the_table_has_ten(bench: Bench) -> None:
    bench.tracking.start_run("without an answer", {})
    runs = [finished(bench, number) for number in range(1, 13)]
    first, _, header, _, *rows = note(bench).splitlines()
    page = f"#/experiments/{bench.tracking.experiment_id}/runs/{runs[-1]}"
    assert first == f"[wine-12]({page}): ROC AUC 0.120. Keep 12 of 99 columns"
    assert header.count("|") == 6
    shown = [row for row in rows if row.startswith("|")]
    assert [row.split("]")[0] for row in shown] == [f"| [wine-{i}" for i in range(12, 2, -1)]
    assert "| ROC AUC 0.110 on unseen rows | 11 of 99 | bpso |" in shown[1]
    # The next run writes the note again.
    finished(bench, 13)
    assert note(bench).startswith("[wine-13]")


def test_a_description_of_a_user_stays(bench: Bench) -> None:
    tracking = bench.tracking
    tracking.client.set_experiment_tag(tracking.experiment_id, NOTE, "Wines of the north")
    finished(bench, 1)
    assert note(bench) == "Wines of the north"


def test_a_store_that_refuses_it_is_ignored() -> None:
    describe_experiment(None, "1")
