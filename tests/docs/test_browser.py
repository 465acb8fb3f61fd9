"""Tests in a real browser: the reports, and the runs on MLflow's pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.load import from_yaml
from conf.yaml_text import render
from flows.cli import servers as cli_servers
from flows.compare import compare
from flows.select import select
from tasks.tracking import runs_page
from tests.browser import NoBrowser, opened, problems, requests, resized, settled
from tests.servers import free_port
from tests.small_run import BAYES, Bench

pytestmark = pytest.mark.browser

PAGES = ("report", "comparison")
# This returns headings that overlap, beyond rounding, elements neither around nor within them.
COVERED = """
const box = e => e.getBoundingClientRect();
const shown = s => [...document.querySelectorAll(s)].filter(e => e.checkVisibility());
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
return shown('h1, h2, h3').flatMap(h => shown('h1, h2, h3, p, table, figure, svg')
  .filter(e => !e.contains(h) && !h.contains(e) && meet(box(h), box(e)))
  .map(e => h.innerText + ' / ' + e.tagName));
"""
# This returns elements that stick out of the window, unless a box around them scrolls.
WIDER = """
const scrolls = e => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)
                           && e !== document.body && e !== document.documentElement
                           || scrolls(e.parentElement));
return [...document.body.querySelectorAll('*')]
  .filter(e => !e.closest('svg') || e.tagName === 'svg')
  .filter(e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => !scrolls(e.parentElement)).map(e => e.tagName + ' ' + e.className);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        with opened(tmp_path_factory.mktemp("profile")) as driver:
            yield driver
    except NoBrowser as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def runs(
    browser: Any,
    prefect_server: str,
    tracking_uri: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Bench, list[str], dict[str, Path]]:
    """Return a bench, two runs that differ in strategy, and the pages of a run and a comparison."""
    bench = Bench(tmp_path_factory.mktemp("seen"), tracking_uri)
    rivals = {"multiswarm": {"n_particles": 4, "n_swarms": 2}, "bpso": {"n_particles": 4}}
    ids = [
        select(bench.config(model=BAYES, strategy={"name": name, "params": params}), None, 0).run_id
        for name, params in rivals.items()
    ]
    config = from_yaml(render(bench.other("compared").comparison()), env={})
    compared = compare(config, False, 0).run_id
    pages = {
        "report": bench.tracking.download(ids[0], "report.html"),
        "comparison": bench.tracking.download(compared, "comparison.html"),
    }
    return bench, ids, pages


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_window_suits_its_reader_and_asks_nothing_of_the_network(
    browser: Any, runs: Any, page: str, width: int, scheme: str
) -> None:
    resized(browser, width, scheme=scheme)
    browser.get("about:blank")
    requests(browser)
    problems(browser)
    browser.get(runs[2][page].as_uri())
    assert requests(browser) == [runs[2][page].as_uri()]
    assert problems(browser) == []

    def value_of(expression: str) -> Any:
        return browser.execute_script(f"return {expression}")

    assert value_of("document.querySelectorAll('svg').length") > 1
    assert value_of("document.documentElement.scrollWidth") <= width
    assert browser.execute_script(WIDER) == []
    assert value_of("document.querySelectorAll('h1, h2, h3').length") > 3
    assert browser.execute_script(COVERED) == [], "headings overlap"
    red = int(value_of("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert (red > 200) if scheme == "light" else (red < 60)


@pytest.fixture(scope="module")
def mlflow(runs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start MLflow by `swarm up`, and yield the address of its pages."""
    bench, _, _ = runs
    port = free_port()
    folder = tmp_path_factory.mktemp("up")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        try:
            cli_servers.up(bench.uri, port, free_port())
            yield f"http://127.0.0.1:{port}/#"
        finally:
            cli_servers.down()


def test_the_last_answer_is_above_the_runs_without_scrolling_or_a_banner(
    browser: Any, runs: Any, mlflow: str
) -> None:
    bench, (_, run_id), _ = runs
    run = bench.tracking.run(run_id)
    resized(browser, 1440, 900)
    browser.get(mlflow.removesuffix("/#") + runs_page(bench.tracking.experiment_id))
    link = f"[...document.links].find(a => a.hash.endsWith('/runs/{run_id}'))"
    settled(browser, f"!!{link}")
    line = f"{link}.parentElement"
    answer = browser.execute_script(f"return {line}.innerText")
    score = bench.tracking.run(run_id).data.metrics["test/best_subset_accuracy"]
    for words in (run.info.run_name, run.data.tags["headline"], f"{score:.3f}", "bpso"):
        assert words in answer
    box = browser.execute_script(
        f"const b = {line}.getBoundingClientRect(); return [b.right, b.bottom]"
    )
    assert box[0] <= 1440
    assert box[1] <= 200
    assert "shared view" not in browser.execute_script("return document.body.innerText")


def test_the_report_opens_from_the_note_on_a_runs_page(
    browser: Any, runs: Any, mlflow: str
) -> None:
    bench, (run_id, _), _ = runs
    resized(browser, 1440)
    browser.get(f"{mlflow}/experiments/{bench.tracking.experiment_id}/runs/{run_id}")
    link = "[...document.links].find(a => a.innerText === 'report')"
    settled(browser, f"!!{link}")
    assert "unseen rows" in browser.execute_script("return document.body.innerText")
    address = browser.execute_script(f"return {link}.getAttribute('href')")
    browser.get(mlflow.removesuffix("#") + address)
    frame = "document.querySelector('iframe')"
    settled(browser, f"{frame} && ({frame}.src || {frame}.srcdoc)")
    browser.switch_to.frame(0)
    try:
        settled(browser, "document.querySelectorAll('svg').length > 1")
        title = browser.execute_script("return document.querySelector('h1').innerText")
    finally:
        browser.switch_to.default_content()
    assert "columns" in title
