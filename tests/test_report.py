"""The report: one page that needs nothing, whatever the run was like."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.errors import InputError
from swarm.report import ReportData, figure_files, render
from swarm.report.canvas import LIGHT
from swarm.report.comparison import rivals
from swarm.report.convergence import _broken
from swarm.report.heatmap import shown_features
from swarm.report.tradeoff import pareto_front
from swarm.report.words import calibration

CONTENDERS = (
    "ensemble",
    "best_subset",
    "all_features",
    "all_features_ensemble",
    "random_subsets",
)
INF, NAN = float("inf"), float("nan")


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
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        self.styles += [given["style"]] if "style" in given else []
        self.links += re.findall(r"url\(([^)]*)\)", " ".join(given.values()))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def history(n_epochs: int) -> pd.DataFrame:
    epochs = np.arange(1, n_epochs + 1)
    columns = {
        "epoch": epochs,
        "best_cost": 0.1 / epochs,
        "best_size": np.maximum(12 - epochs, 3.0),
        "pbest_cost_mean": 0.2 / epochs,
        "size_mean": 8.0,
        "diversity": 0.3,
        "evaluations": 16.0 * epochs,
        "distinct_evaluations": 15.0 * epochs,
        "fits": 60.0 * epochs,
        "folds_pruned": 15.0,
    }
    swarms = {f"swarm_{k}_best_cost": 0.1 / epochs + 0.01 * k for k in range(4)}
    return pd.DataFrame({**columns, **swarms})


def judged(metrics: tuple[str, ...] = ("f1", "recall")) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = [
        {
            "contender": name,
            "metric": metric,
            "value": 0.95 - 0.01 * i,
            "low": 0.93 - 0.01 * i,
            "high": 0.97 - 0.01 * i,
            "n_features": 5 + i,
            "n_models": 2,
        }
        for metric in metrics
        for i, name in enumerate(CONTENDERS)
    ]
    gaps = [
        {
            "contender": name,
            "metric": metric,
            "difference": 0.01 * i,
            "low": 0.01 * i - 0.02,
            "high": 0.01 * i + 0.02,
            "favours": "ensemble" if i > 2 else "neither",
        }
        for metric in metrics
        for i, name in enumerate(CONTENDERS)
        if i > 0
    ]
    return pd.DataFrame(rows), pd.DataFrame(gaps)


def report(names: list[str], n_chosen: int = 3, n_epochs: int = 25) -> ReportData:
    rng = np.random.default_rng(0)
    distance = 1.0 - np.abs(np.corrcoef(rng.normal(size=(len(names), 40))).reshape(len(names), -1))
    figures, differences = judged()
    chosen = names[:n_chosen]
    size = rng.integers(1, len(names) + 1, 200)
    return ReportData(
        title="a run",
        verdict="On 100 unseen rows the ensemble scores f1 0.950.",
        features=chosen,
        n_available=len(names),
        subsets=[(chosen, 0.004), (names[1 : n_chosen + 1] or chosen, 0.005)],
        history=history(n_epochs),
        evaluations=pd.DataFrame({"size": size, "cost": rng.uniform(0.005, 0.3, 200)}),
        figures=figures,
        differences=differences,
        importances=pd.Series(np.arange(1.0, len(chosen) + 1), index=chosen),
        distance=pd.DataFrame(distance, index=names, columns=names),
        cv_cost=0.004,
        test_cost=0.05,
        optimism=0.046,
        regroup_every=10,
        warnings=["rows 1 and 2 are equal"],
        config_yaml="name: a\n",
        facts={"rows": 100, "seconds_training": 3.5, "archive_hits": 7, "versions": {"numpy": "2"}},
    )


def plain_report() -> ReportData:
    return report([f"column {i}" for i in range(12)])


def test_the_same_data_gives_the_same_bytes_whatever_the_settings_of_matplotlib_are() -> None:
    import matplotlib as mpl

    html, files = render(plain_report()), figure_files(plain_report())
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        before = dict(mpl.rcParams)
        assert render(plain_report()) == html
        assert figure_files(plain_report()) == files
        assert dict(mpl.rcParams) == before


@pytest.fixture(scope="module")
def html() -> str:
    return render(plain_report())


def test_the_page_refers_to_nothing_outside_itself_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    others = [link for link in page.links if not link.startswith("#")]
    assert all(link.startswith("data:image/png;base64,") for link in others)
    assert "http" not in " ".join([*page.styles, *page.links])


def test_figures_take_every_colour_from_the_page(html: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(drawings) == 5
    for drawing in drawings:
        assert set(re.findall(r"var\(--(\w+)\)", drawing)) <= set(LIGHT)
        assert not re.findall(r"(?:fill|stroke):\s*#", drawing)


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
        warnings=["<i>warn</i>"],
        config_yaml="<u>",
        facts={"<k>": "<v>", "m": {"<a>": "<b>"}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = render(data)
        figure_files(data)
    page = Page(html)
    html.encode("utf-8")
    assert not {"script", "img", "b1", "u", "k", "v"} & set(page.tags)
    text = " ".join(page.texts)
    shown = [*names[:3], "nul\ufffd bell\ufffd", *names[4:5], "two lines", *names[6:8]]
    for name in shown:
        assert name in text
    drawing = html[html.index('aria-label="Rank') :]
    assert "$x^2$ &amp;" in drawing[: drawing.index("</svg>")]
    assert '>x d="1.23456"</text>' in drawing


def table_without_intervals(data: ReportData) -> ReportData:
    return replace(
        data,
        figures=data.figures.assign(low=NAN, high=NAN),
        differences=data.differences.assign(low=NAN, high=NAN, favours="neither"),
    )


ODD = {
    "one epoch": report(["a", "b", "c", "d"], n_epochs=1),
    "no epoch": replace(plain_report(), history=pd.DataFrame()),
    "no swarms": replace(plain_report(), history=history(5)[["epoch", "best_cost"]]),
    "one evaluation": replace(
        plain_report(), evaluations=pd.DataFrame({"size": [3], "cost": [0.1]})
    ),
    "no evaluation": replace(plain_report(), evaluations=pd.DataFrame()),
    "no intervals": table_without_intervals(plain_report()),
    "no figures": replace(plain_report(), figures=pd.DataFrame(), differences=pd.DataFrame()),
    "one feature": report(["only"], n_chosen=1),
    "two features": report(["a", "b"], n_chosen=1),
    "many features": report([f"f{i}" for i in range(1000)], n_chosen=40),
    "all of many": report([f"f{i}" for i in range(1000)], n_chosen=1000),
    "equal costs": replace(
        plain_report(),
        history=history(9).assign(best_cost=0.0, pbest_cost_mean=0.0).iloc[:, :5],
        evaluations=pd.DataFrame({"size": [3] * 50, "cost": [0.0] * 50}),
        subsets=[(["column 0"], 0.0)],
        cv_cost=0.0,
        test_cost=0.0,
    ),
    "no importances": replace(plain_report(), importances=None),
    "importances of 0": replace(plain_report(), importances=pd.Series({"column 0": 0.0})),
    "infinite costs": replace(
        plain_report(),
        history=history(5).assign(best_cost=INF, pbest_cost_mean=INF)[
            ["epoch", "best_cost", "pbest_cost_mean"]
        ],
        evaluations=pd.DataFrame({"size": [3, 4], "cost": [INF, INF]}),
        subsets=[(["column 0"], INF)],
        cv_cost=INF,
        test_cost=INF,
    ),
    "some infinite": replace(
        plain_report(),
        history=history(5).assign(best_cost=[INF, INF, 0.3, 0.2, 0.2]),
        evaluations=pd.DataFrame({"size": [3, 4, 5], "cost": [INF, 0.2, 0.3]}),
        subsets=[(["column 0"], 0.2), (["column 1"], INF)],
    ),
    "costs of a regression": replace(
        plain_report(),
        history=history(5).assign(best_cost=-3e7),
        evaluations=pd.DataFrame({"size": [3, 4], "cost": [-3e7, 4e8]}),
        subsets=[(["column 0"], -3e7)],
        cv_cost=-3e7,
        test_cost=-2e7,
    ),
    "bare": ReportData(
        "t", "v", ["a"], 2, [], pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), pd.DataFrame()
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_any_run_has_a_report(case: str) -> None:
    data = ODD[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html, files = render(data), figure_files(data)
    text = " ".join(Page(html).texts)
    assert f"of {data.n_available:,} feature" in text
    assert data.verdict in text
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert len(html) < 600_000
    assert all(content.startswith(b"\x89PNG") for content in files.values())


def test_figure_files_have_one_figure_per_metric() -> None:
    assert list(figure_files(plain_report())) == [
        "figures/convergence.png",
        "figures/tradeoff.png",
        "figures/test_f1.png",
        "figures/test_recall.png",
        "figures/correlations.png",
    ]


def test_the_most_important_feature_comes_first_and_counts_span_the_subsets(html: str) -> None:
    data = plain_report()
    assert data.ranked() == ["column 2", "column 1", "column 0"]
    assert data.frequency() == {"column 2": 2, "column 1": 2, "column 0": 1, "column 3": 1}
    assert "Keep 3 of 12 features: column 2, column 1 and column 0." in html
    assert "Together they hold 4 features" in html


def test_same_vote_differences_are_said_with_their_interval_and_whether_they_are_clear(
    html: str,
) -> None:
    text = " ".join(" ".join(Page(html).texts).split())
    assert "against all features, same vote +0.030 [0.010, 0.050] the selection is better" in text
    data = plain_report()
    unclear = replace(data, differences=data.differences.assign(favours="neither", low=-0.1))
    assert next((r.bounds, r.judgement) for r in rivals(unclear)) == (
        "[−0.100, 0.050]",
        "no clear difference",
    )
    worse = replace(data, differences=data.differences.assign(favours="all_features_ensemble"))
    assert {r.judgement for r in rivals(worse)} == {"the selection is worse"}
    blind = table_without_intervals(data)
    assert {r.judgement for r in rivals(blind)} == {"cannot be said"}


def test_only_clear_differences_are_bold_in_the_table(html: str) -> None:
    assert "<strong>Δ +0.030</strong>" in html
    assert "<strong>Δ +0.010</strong>" not in html
    assert "Δ +0.010" in html


def test_optimism_is_said_in_words_both_ways(html: str) -> None:
    assert "promised 0.046 too much" in html
    assert "0.01 better than promised" in calibration(0.05, 0.04, "cost")
    assert "exactly what the test rows gave" in calibration(0.05, 0.05, "cost")


def test_the_heat_map_shows_the_chosen_and_those_nearest_to_them() -> None:
    data = report([f"f{i}" for i in range(100)], n_chosen=2)
    assert data.distance is not None
    shown = shown_features(data)
    assert len(shown) == len(set(shown)) == 60
    assert set(shown[:2]) == {"f0", "f1"}
    nearest = data.distance.loc[["f0", "f1"]].min().drop(["f0", "f1"])
    assert nearest[shown[2:]].max() <= nearest.drop(shown[2:]).min()


def test_the_line_of_a_subswarm_never_crosses_a_regrouping() -> None:
    epochs = np.arange(1.0, 26.0)
    x, y = _broken(epochs, epochs.copy(), 10)
    crossing = [
        (a, b)
        for a, b, v, w in zip(x[:-1], x[1:], y[:-1], y[1:], strict=True)
        if (a < 10.5 < b or a < 20.5 < b) and not np.isnan([v, w]).any()
    ]
    assert not crossing
    assert np.isnan(y).sum() == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=30))
def test_every_subset_is_on_the_front_or_beaten_by_it(points: list[tuple[int, int]]) -> None:
    size, cost = np.array(points, dtype=np.float64).T
    front = set(zip(*(v.tolist() for v in pareto_front(size, cost)), strict=True))
    for s, c in points:
        beaten = any(a <= s and b <= c and (a, b) != (s, c) for a, b in points)
        assert ((s, c) in front) == (not beaten)


def test_a_table_without_a_needed_column_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="'evaluations' of the report has no column 'cost'"):
        replace(plain_report(), evaluations=pd.DataFrame({"size": [1]}))
    with pytest.raises(InputError, match="no chosen feature"):
        replace(plain_report(), features=[])
