"""A report rendered again from the data that a run stores: the same page, without the run."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli import app
from swarm.errors import InputError
from swarm.problem.space import SearchSpace
from swarm.report.comparison import ComparisonData, render_comparison
from swarm.report.data import Agreement, one_se_limit, pick_by_rules
from swarm.report.serialization import comparison_of, comparison_text, report_of, report_text
from swarm.validation.comparison import compare
from swarm.validation.stability import nogueira
from tests.small_report import CASES, Page, rendered
from tests.small_run import Bench


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "swarm-report-9"}'])
def test_data_of_another_version_are_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(InputError, match=r"not 'swarm-report-1'; use the stored page"):
        report_of(text)
    with pytest.raises(InputError, match="use the stored page"):
        report_of('{"format": "swarm-report-1", "report": {"picks": [], "agreement": null}}')


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
        dict.fromkeys(datasets, "1 - f1"),
        dict.fromkeys(datasets, own),
        {"numpy": "2"},
    )


def test_the_page_of_a_comparison_is_self_contained_and_can_be_made_again() -> None:
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
    assert text.index("lowest average rank by mean cost: multiswarm") < text.index("Friedman")
    assert "<script>wine" in text
    first = data.comparison.summary.iloc[0]
    assert f"{first['mean_cost']:.5f} {first['sd_cost']:.5f}" in text
    assert render_comparison(comparison_of(comparison_text(data))) == html


def masks(*rows: str) -> np.ndarray:
    return np.array([[bit == "1" for bit in row] for row in rows])


def test_picks_follow_the_rules_and_name_a_cheaper_subset_of_another_search() -> None:
    found = masks("1110", "1000", "1111", "1100")
    folds = np.array([[0.1, 0.3], [0.5, 0.7], [0.1, 0.2], [0.9, 0.7]])

    space = SearchSpace.build(list("abcd"))
    answer = pick_by_rules(space, found[0], found, folds)
    assert [one.rule for one in answer] == ["best", "lowest", "parsimonious", "knee"]
    assert [len(one.features) for one in answer] == [3, 4, 3, 3]
    assert one_se_limit(answer) == pytest.approx(0.15 + 0.05)
    assert answer[0].error == pytest.approx(0.1)
    alone = pick_by_rules(space, found[2], found, folds)
    assert [one.rule for one in alone] == ["best", "parsimonious", "knee"]
    straight = pick_by_rules(space, found[2], found[1:], folds[1:])
    assert [one.rule for one in straight] == ["best", "parsimonious"]
    assert pick_by_rules(space, found[0], found[1:], folds[1:]) == []
    assert np.isnan(one_se_limit([]))


def test_agreement_counts_only_what_could_differ() -> None:
    held = masks("11100", "11010", "11001")
    free = np.array([False, True, True, True, True])
    found = Agreement.of(SearchSpace.build(list("abcde"), fixed=["a"]), held[0], held, held[:1])
    assert found.index == nogueira(held[:, free]).index
    assert found.overlap == pytest.approx(0.5)
    assert list(found.shares.index[:3]) == ["a", "b", "c"]
    assert found.shares.loc["c"].tolist() == [pytest.approx(1 / 3), 1.0, True]
    assert found.chance == pytest.approx(0.6)


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
def test_the_command_renders_a_report_again_or_downloads_it(bench: Bench) -> None:
    data = CASES["bare"]
    both = {"report.json": report_text(data), "report.html": "old"}
    run_id = run_with(bench, both)
    html, told = asked(bench, run_id)
    assert html == rendered("bare")
    assert "out.html (rendered again)" in told
    assert asked(bench, run_id, "--stored")[0] == "old"
    foreign = run_with(bench, {**both, "report.json": '{"format": "swarm-report-9"}'})
    html, told = asked(bench, foreign)
    assert html == "old"
    assert "as stored" in told
    parent = run_with(bench, {"comparison.json": comparison_text(compared())}, kind="compare")
    assert asked(bench, parent)[0] == render_comparison(compared())
    with pytest.raises(InputError, match="swarm resume"):
        asked(bench, run_with(bench, {}))


def test_a_place_that_cannot_be_written_is_refused_before_anything(tmp_path: Path) -> None:
    for out, told in ((tmp_path, "is a folder"), (tmp_path / "no" / "r.html", "does not exist")):
        with pytest.raises(InputError, match=told):
            CliRunner().invoke(app, ["report", "x", "--out", str(out)], catch_exceptions=False)
