"""Tests of the report: one self-contained page, whatever the run was like."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from swarm.problem.scoring import resolve_scoring
from swarm.problem.space import SearchSpace
from swarm.report import ReportData, draw_figures, render
from swarm.report.contenders import contender_rows, is_single, paired_differences
from swarm.report.data import by_column, confirmed_scores
from swarm.report.drawing import Drawing, scores_for_costs
from swarm.search.candidates import Candidates
from swarm.validation import Judgement
from swarm.validation.contenders import CONTENDERS
from swarm.validation.jackknife import Jackknife
from swarm.validation.verdict import Headline, Verdict

INF = float("inf")
NAN = float("nan")


class Page(HTMLParser):
    """Tags, ids, references and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        attributes = {name: value or "" for name, value in attrs}
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [
            attributes[name] for name in ("href", "src", "xlink:href") if name in attributes
        ]
        self.styles += [attributes["style"]] if "style" in attributes else []
        self.links += re.findall(r"url\(([^)]*)\)", " ".join(attributes.values()))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def history(n_epochs: int = 25) -> pd.DataFrame:
    epochs = np.arange(1, n_epochs + 1)
    falling = {name: 0.1 / epochs for name in ("best_cost", "pbest_cost_mean")}
    growing = {name: 60.0 * epochs for name in ("evaluations", "distinct_evaluations", "fits")}
    swarms = {f"swarm_{k}_best_cost": 0.1 / epochs + 0.01 * k for k in range(4)}
    flat = {"best_size": 3.0, "size_mean": 8.0, "diversity": 0.3, "folds_pruned": 15.0}
    return pd.DataFrame({"epoch": epochs, **falling, **growing, **swarms, **flat})


def judgement(n_models: int = 2, cost: float = 0.05, **changes: float) -> Judgement:
    """Return scores of every contender, and differences from the ensemble, in two metrics."""
    position = np.tile(np.arange(len(CONTENDERS)), 2)
    names = {"contender": np.take(list(CONTENDERS), position)}
    names["metric"] = np.repeat(["f1", "recall"], len(CONTENDERS))
    value = 0.95 - 0.01 * position
    gap = 0.01 * position
    table = pd.DataFrame({**names, "value": value, "low": value - 0.02, "high": value + 0.02})
    table = table.assign(n_features=5 + position, n_models=n_models, difference=gap)
    table = table.assign(difference_low=gap - 0.02, difference_high=gap + 0.02).assign(**changes)
    return Judgement(
        table=table,
        predictions=pd.DataFrame(),
        verdict=Verdict("100 unseen rows", "f1", 0.95, 0.93, -0.01, 0.05),
        guessing=None,
        costs={"best_subset": cost},
        cv_cost=0.004 if np.isfinite(cost) else cost,
        task="binary",
        vote="majority",
        pos_label=1,
        pos_share=0.5,
        jackknife=Jackknife(100),
    )


WORK = pd.DataFrame({"hits": [7], "fallbacks": [0], "training_seconds": [3.5], "seconds": [4.0]})
F1 = resolve_scoring("f1", None, np.array([0, 1]), "binary")


def report(names: list[str], n_chosen: int = 3) -> ReportData:
    rng = np.random.default_rng(0)
    distance = 1.0 - np.abs(np.corrcoef(rng.normal(size=(len(names), 40))).reshape(len(names), -1))
    chosen = names[:n_chosen]
    subsets = [(chosen, 0.004), (names[1 : n_chosen + 1] or chosen, 0.005)]
    size = rng.integers(1, len(names) + 1, 200)
    return ReportData(
        title="a run",
        headline=Headline("better", len(chosen), len(names)),
        n_available=len(names),
        subsets=subsets,
        history=history(),
        work=WORK,
        evaluations=pd.DataFrame({"size": size, "cost": rng.uniform(0.005, 0.3, 200)}),
        scoring=F1,
        judgement=judgement(),
        importances=pd.Series(np.arange(1.0, len(chosen) + 1), index=chosen),
        distance=pd.DataFrame(distance, index=names, columns=names),
        regroup_every=10,
        config="name: a\n",
        facts={"rows": 100, "versions": {"numpy": "2"}},
    )


PLAIN = report([f"column {i}" for i in range(12)])
BLIND = replace(
    PLAIN, judgement=judgement(low=NAN, high=NAN, difference_low=NAN, difference_high=NAN)
)
CASES = {
    "plain": PLAIN,
    "no intervals": BLIND,
    "one feature": report(["only"], n_chosen=1),
    "one model": replace(
        PLAIN,
        history=history(1).assign(pbest_cost_mean=INF),
        evaluations=pd.DataFrame({"size": [3, 4], "cost": [0.1, INF]}),
        subsets=[(["column 0"], 0.1)],
        judgement=judgement(n_models=1, cost=INF),
    ),
    "confirmed after a proxy": replace(
        report(["a", "b", "c"]),
        has_proxy=True,
        confirmed=pd.DataFrame(
            {
                "size": [1, 2, 3, 3],
                "score": [0.8, 0.9, 0.7, 0.85],
                "low": [0.7, 0.8, 0.6, 0.8],
                "high": [0.9, 0.95, 0.8, 0.9],
                "kind": ["search", "chosen", "ranking", "all"],
            }
        ),
    ),
    "no rows": replace(PLAIN, importances=None, distance=None, judgement=None),
}


@cache
def drawings_of(case: str) -> dict[str, Drawing]:
    """Return the figures of a case, drawn once a session because drawing takes longest."""
    return draw_figures(CASES[case])


@cache
def page_of(case: str) -> str:
    """Return the page of a case."""
    return render(CASES[case], drawings_of(case))


def test_the_same_data_gives_the_same_bytes_whatever_the_settings_of_matplotlib_are() -> None:
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        before = dict(mpl.rcParams)
        assert draw_figures(CASES["one feature"]) == drawings_of("one feature")
        assert dict(mpl.rcParams) == before


def test_the_page_refers_to_nothing_outside_itself_and_runs_nothing() -> None:
    page = Page(page_of("plain"))
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    outside = [link for link in page.links if not link.startswith("#")]
    assert all(link.startswith("data:image/png;base64,") for link in outside)
    assert "http" not in " ".join([*page.styles, *page.links])


def test_foreign_names_are_text_and_nothing_else() -> None:
    names = [
        "<script>alert(1)</script>",
        "</svg><img src=x onerror=alert(1)>",
        "$x^2$ & \"y\" 'z'",
        "nul\x00 bell\x07",
        "年齢",
        "two\nlines",
        'x d="1.23456"',
        "{{ 7 * 7 }}",
        "",
    ]
    data = replace(
        report(names, n_chosen=8),
        title="<b>title\ud800</b>",
        config="<u>",
        facts={"<k>": "<v>", "m": {"<a>": "<b>"}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = render(data)
    page = Page(html)
    html.encode("utf-8")
    assert not {"script", "img", "b1", "u", "k", "v"} & set(page.tags)
    text = " ".join(page.texts)
    shown_names = [*names[:3], "nul\ufffd bell\ufffd", *names[4:5], "two lines", *names[6:8]]
    for name in shown_names:
        assert name in text
    drawing = html[html.index('aria-label="Rank') :]
    assert "$x^2$ &amp;" in drawing[: drawing.index("</svg>")]
    assert '>x d="1.23456" •</text>' in drawing


@pytest.mark.parametrize("case", CASES)
def test_any_run_has_a_report(case: str) -> None:
    data = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = page_of(case)
        drawings = drawings_of(case)
    text = " ".join(Page(html).texts)
    assert data.headline.title in text
    is_vote = data.judgement is not None and not is_single(data.judgement)
    assert ("On 100 unseen rows the ensemble" in text) == is_vote
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert len(html) < 600_000
    assert all(drawing.png.startswith(b"\x89PNG") for drawing in drawings.values())


def test_a_difference_is_only_said_where_it_is_clear() -> None:
    unclear = replace(PLAIN, judgement=judgement(difference_low=-0.1))
    assert next((row.bounds, row.judgement) for row in paired_differences(unclear.judgement)) == (
        "[−0.100, 0.050]",
        "no clear difference",
    )
    worse = replace(PLAIN, judgement=judgement(difference_low=-0.2, difference_high=-0.1))
    assert {row.judgement for row in paired_differences(worse.judgement)} == {
        "the selection is worse"
    }
    assert {row.judgement for row in paired_differences(BLIND.judgement)} == {
        "no interval, so no conclusion"
    }


def test_a_single_model_is_compared_without_contenders_that_equal_another() -> None:
    single = replace(PLAIN, judgement=judgement(n_models=1))
    names = [row["name"] for row in contender_rows(single.judgement)]
    assert names == ["Chosen features", "All features", "Random subsets"]
    assert len(contender_rows(PLAIN.judgement)) == len(CONTENDERS)


# The costs of four folds differ by this much.
WAVE = 0.01 * np.array([1.0, -1.0, 0.5, -0.5])


def confirmed_result(table: Candidates, space: SearchSpace) -> Any:
    """Return a result with these candidates, the first of which is chosen."""
    facts = {"baseline": 0.4 + WAVE, "chosen": 0, "n_train": 80.0, "n_test": 20.0}
    return SimpleNamespace(confirmation=SimpleNamespace(candidates=table, **facts), space=space)


@pytest.mark.parametrize(("scorer", "sign"), [("roc_auc", -1), ("neg_mean_absolute_error", 1)])
def test_confirmed_scores_are_in_the_metric_of_the_scorer_with_all_features_last(
    scorer: str, sign: int
) -> None:
    task = "binary" if scorer == "roc_auc" else "regression"
    scoring = resolve_scoring(scorer, None, np.array([0, 1] * 5), task)
    masks = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)
    table = Candidates.build(
        masks, np.full(3, 0.2), fresh_fold_costs=np.array([[0.2], [0.3], [INF]]) + WAVE
    )
    table = replace(table, origin=np.array(["search", "extra-trees ranking", "search"]))
    # A group counts as its columns.
    space = SearchSpace.build([*"abcde"], groups={"pair": ["a", "e"]}, forbidden=["d"])
    scores = confirmed_scores(confirmed_result(table, space), scoring)
    assert scores is not None
    # A subset that failed on a fold has no score.
    assert scores["kind"].tolist() == ["chosen", "ranking", "all"]
    assert scores["size"].tolist() == [3, 2, 4]
    start = 1.0 if sign < 0 else 0.0
    assert scores["score"].tolist() == pytest.approx([start + sign * c for c in (0.2, 0.3, 0.4)])
    assert (scores["low"] < scores["score"]).all()
    assert (scores["score"] < scores["high"]).all()
    unconfirmed: Any = SimpleNamespace(confirmation=None)
    assert confirmed_scores(unconfirmed, scoring) is None


def test_the_columns_of_a_group_have_equal_parts_of_its_importance() -> None:
    space = SearchSpace.build([*"abcde"], groups={"pair": ["a", "e"]})
    masks = space.mask(["a", "e", "b"])
    values = np.where(masks, np.array([6.0 if name == "pair" else 4.0 for name in space.names]), 0)
    importances = by_column(values, masks, space)
    assert importances.to_dict() == {"a": 3.0, "e": 3.0, "b": 4.0}
    data = replace(PLAIN, subsets=[(["a", "b", "e"], 0.1)], importances=importances)
    assert data.ranked() == ["b", "a", "e"]


def test_a_search_with_a_proxy_says_whose_scores_the_epochs_show() -> None:
    assert (
        "of the proxy over 25 epochs" in drawings_of("confirmed after a proxy")["convergence"].svg
    )
    assert "of the proxy" not in drawings_of("plain")["convergence"].svg


@pytest.mark.parametrize(
    ("scorer", "label", "inverted"), [("f1", "0.9", True), ("neg_log_loss", "0.1", False)]
)
def test_an_axis_shows_scores_with_better_ones_on_top(
    scorer: str, label: str, inverted: bool
) -> None:
    axes = Figure().subplots()
    axes.set_ylim(0.05, 0.3)
    scores_for_costs(axes, resolve_scoring(scorer, None, np.array([0, 1]), "binary"))
    assert axes.yaxis.get_major_formatter()(0.1, 0) == label
    assert axes.yaxis_inverted() == inverted
