"""Pages of comparisons, what reports are computed from, and the command that writes a page."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli import app
from swarm.errors import InputError
from swarm.problem.scoring import resolve_scoring
from swarm.report.comparison import ComparisonData, render_comparison
from swarm.validation.comparison import compare
from tests.small_run import Bench
from tests.test_report import Page

F1 = resolve_scoring("f1_macro", None, np.arange(3), "multiclass")


def compared(name: str = "wine") -> ComparisonData:
    rng = np.random.default_rng(0)
    strategies, datasets = ("multiswarm", "random", "full"), (name, "zoo")
    keys = ["dataset", "strategy", "seed"]
    cells = pd.DataFrame(list(product(datasets, strategies, (0, 1))), columns=keys)
    best = 0.1 + 0.01 * cells["strategy"].map(strategies.index)
    cells = cells.assign(cost=best + 0.001 * rng.random(len(cells)), size=4.0, evaluations=20.0)
    cells = cells.assign(distinct=16.0, seconds_algorithm=0.1, seconds_evaluation=2.0)
    history = pd.DataFrame({"epoch": [1, 2], "distinct_evaluations": [8.0, 16.0]})
    own = {
        strategy: [history.assign(best_cost=[0.3, 0.1 + 0.01 * i])] * 2
        for i, strategy in enumerate(strategies)
    }
    everything = {dataset: (0.15, 13) for dataset in datasets}
    return ComparisonData(
        "three",
        "why",
        {"seeds": "0, 1"},
        compare(cells, everything),
        everything,
        dict.fromkeys(datasets, F1),
        dict.fromkeys(datasets, own),
        {"numpy": "2"},
    )


def test_the_page_of_a_comparison_is_self_contained() -> None:
    data = compared("<script>wine")
    html = render_comparison(data)
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "base", "img"} & set(page.tags)
    assert set(page.links) <= {f"#{name}" for name in page.ids}
    assert "http" not in " ".join([*page.styles, *page.links])
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("svg") == 3
    assert len(html) < 400_000
    text = " ".join(" ".join(page.texts).split())
    assert text.index("lowest average rank by mean score: multiswarm") < text.index("Friedman")
    assert "<script>wine" in text
    first = data.comparison.summary.iloc[0]
    assert f"{first['mean_cost']:.5f} {first['sd_cost']:.5f}" in text


def run_with(bench: Bench, files: dict[str, str], **tags: str) -> str:
    tracking = bench.tracking
    run_id = tracking.start_run("r", tags)
    for name, text in files.items():
        tracking.client.log_text(run_id, text, name)
    tracking.finish(run_id)
    return run_id


def asked(bench: Bench, run_id: str, *options: str) -> tuple[str, str]:
    out = bench.folder / "out.html"
    out.unlink(missing_ok=True)
    command = ["report", run_id, "--tracking-uri", bench.uri, "--out", str(out), *options]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    return out.read_text(encoding="utf-8"), done.stdout


@pytest.mark.slow
def test_the_command_writes_the_page_of_a_run_or_says_why_there_is_none(bench: Bench) -> None:
    run_id = run_with(bench, {"report.html": "a page"})
    html, told = asked(bench, run_id)
    assert html == "a page"
    assert "out.html" in told
    parent = run_with(bench, {"comparison.html": "a comparison"}, kind="compare")
    assert asked(bench, parent)[0] == "a comparison"
    lacking = run_with(bench, {})
    with pytest.raises(InputError, match=f"`swarm resume {lacking} --tracking-uri {bench.uri}`"):
        asked(bench, lacking)


def test_a_place_that_cannot_be_written_is_refused_before_anything(tmp_path: Path) -> None:
    for out, told in ((tmp_path, "is a folder"), (tmp_path / "no" / "r.html", "does not exist")):
        with pytest.raises(InputError, match=told):
            CliRunner().invoke(app, ["report", "x", "--out", str(out)], catch_exceptions=False)
