"""The report: one page that needs nothing, whatever the run was like."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError
from swarm.report import draw_figures, render
from swarm.report.contenders import paired_differences
from swarm.report.drawing import LIGHT, styled
from swarm.report.figures import _figures, with_gaps
from swarm.report.formatting import interval, number
from swarm.report.page import optimism_sentence, work_counts
from swarm.report.serialization import report_of, report_text
from tests.small_report import (
    CASES,
    Page,
    drawn,
    plain_report,
    rendered,
    report,
    table_without_intervals,
)


def test_the_same_data_gives_the_same_bytes_whatever_the_settings_of_matplotlib_are() -> None:
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        before = dict(mpl.rcParams)
        assert draw_figures(CASES["one feature"]) == drawn("one feature")
        assert dict(mpl.rcParams) == before


@pytest.fixture
def html() -> str:
    return rendered("plain")


@pytest.fixture
def text(html: str) -> str:
    return " ".join(" ".join(Page(html).texts).split())


def test_the_page_refers_to_nothing_outside_itself_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    others = [link for link in page.links if not link.startswith("#")]
    assert all(link.startswith("data:image/png;base64,") for link in others)
    assert "http" not in " ".join([*page.styles, *page.links])


def test_figures_take_every_colour_from_the_page_and_say_what_they_show(html: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(drawings) == 7
    for drawing in drawings:
        assert set(re.findall(r"var\(--(\w+)\)", drawing)) <= set(LIGHT)
        assert not re.findall(r"(?:fill|stroke):\s*#", drawing)
        assert 'role="img"' in drawing
    labels = re.findall(r'aria-label="([^"]*)"', html)
    assert len(set(labels)) == len(labels) == len(drawings)
    assert all(len(label.split()) > 5 for label in labels)


def test_nothing_of_a_figure_is_cut_off() -> None:
    names = [f"{i} a name far longer than there is room for in a figure" for i in range(12)]
    with styled():
        for name, _, figure in _figures(report(names)):
            figure.draw_without_rendering()
            drawn = figure.get_tightbbox()
            width, height = figure.get_size_inches()
            assert min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.02, name


def test_a_long_name_may_break_after_its_underscores_and_not_in_the_title() -> None:
    names = [f"support_calls_of_{i}" for i in range(12)]
    page = render(replace(report(names), title="calls_of_2024"))
    assert "<title>calls_of_2024</title>" in page
    assert "<li>\n<span>support_<wbr>calls_<wbr>of_<wbr>0</span>" in page


def test_every_section_is_there_in_the_order_of_the_questions(html: str) -> None:
    text = [" ".join(part.split()) for part in Page(html).texts]
    wanted = [
        "The chosen features",
        "Test rows",
        "Optimism of the search",
        "Convergence",
        "Cost against size",
        "Alternatives with fewer features",
        "Stability",
        "Selection frequency",
        "Correlated features",
        "Work",
        "Data, settings and versions",
        "Configuration",
    ]
    places = [text.index(title) for title in wanted]
    assert places == sorted(places)
    answer = next(
        i for i, part in enumerate(text) if part.startswith("Keep these 3 of 12 features")
    )
    assert answer < places[0]


def test_subsets_that_a_fast_path_left_to_fitted_models_are_counted_where_there_are_any() -> None:
    label = "fallbacks of the fast path to fitted models"
    for count in (0, 1234):
        data = replace(plain_report(), facts={"fallbacks": count})
        assert (("1,234", label) in work_counts(data)) == (count > 0)


def test_the_test_figures_are_those_of_the_judgement(text: str) -> None:
    data = plain_report()
    table = text[text.index("contender F1 recall features models") :]
    for row in data.figures.to_dict("records"):
        assert f"{number(row['value'])} {interval(row['low'], row['high'])}" in table
    for row in data.differences.to_dict("records"):
        assert f"Δ {row['difference']:+.3f}" in table


@pytest.mark.parametrize(
    "phrase",
    [
        "Parsimonious , the smallest within one standard error of the lowest cost "
        "1 feature CV cost 0.0045 ± 0.002 column 0",
        "One run does not show what another seed or other rows would select",
        "2 of 2 cost more on the test rows than in cross-validation; the mean difference is 0.0555",
        "Keep these 3 of 12 features column 2, column 1 and column 0",
        "The ensemble needs 4 features to predict",
        "against all features, same vote +0.030 [0.010, 0.050] the selection is better",
        "Optimism: +0.046. Some optimism is expected",
    ],
)
def test_the_page_says(text: str, phrase: str) -> None:
    assert phrase in text


def test_stability_is_said_with_its_interval(text: str) -> None:
    found = plain_report().agreement
    assert found is not None
    bounds = interval(found.low, found.high)
    assert f"{number(found.index)} stability index (Nogueira) {bounds}, {found.word}" in text


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
    page = Page(html)
    html.encode("utf-8")
    assert not {"script", "img", "b1", "u", "k", "v"} & set(page.tags)
    text = " ".join(page.texts)
    shown = [*names[:3], "nul\ufffd bell\ufffd", *names[4:5], "two lines", *names[6:8]]
    for name in shown:
        assert name in text
    drawing = html[html.index('aria-label="Rank') :]
    assert "$x^2$ &amp;" in drawing[: drawing.index("</svg>")]
    assert '>x d="1.23456" •</text>' in drawing


@pytest.mark.parametrize("case", CASES)
def test_any_run_has_a_report_and_its_stored_data_make_the_same_page(case: str) -> None:
    data = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html, drawings = rendered(case), drawn(case)
    text = " ".join(Page(html).texts)
    assert f"of {data.n_available:,} feature" in text
    assert data.verdict in text
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert len(html) < 600_000
    assert all(drawing.png.startswith(b"\x89PNG") for drawing in drawings.values())
    stored = report_text(data)
    stored.encode()
    assert not re.search("NaN|Infinity", stored)
    assert len(stored) < 300_000
    again = report_of(stored)
    assert report_text(again) == stored
    # Drawing takes long: the case whose distances are stored in part is drawn again.
    assert render(again, None if case == "many features" else drawings) == html


def test_there_is_one_figure_per_metric() -> None:
    assert [path for drawing in drawn("plain").values() for path in drawing.files()] == [
        "figures/convergence.png",
        "figures/tradeoff.png",
        "figures/test_f1.png",
        "figures/test_recall.png",
        "figures/calibration.png",
        "figures/frequency.png",
        "figures/correlations.png",
    ]


def test_the_most_important_feature_comes_first_and_counts_span_the_subsets() -> None:
    data = plain_report()
    assert data.ranked() == ["column 2", "column 1", "column 0"]
    assert data.frequency() == {"column 2": 2, "column 1": 2, "column 0": 1, "column 3": 1}


def test_a_difference_is_only_said_and_bold_where_it_is_clear(html: str) -> None:
    data = plain_report()
    unclear = replace(data, differences=data.differences.assign(favours="neither", low=-0.1))
    assert next((r.bounds, r.judgement) for r in paired_differences(unclear)) == (
        "[−0.100, 0.050]",
        "no clear difference",
    )
    worse = replace(data, differences=data.differences.assign(favours="all_features_ensemble"))
    assert {r.judgement for r in paired_differences(worse)} == {"the selection is worse"}
    blind = table_without_intervals(data)
    assert {r.judgement for r in paired_differences(blind)} == {"no interval, so no conclusion"}
    assert "<strong>Δ +0.030</strong>" in html
    assert "<strong>Δ +0.010</strong>" not in html
    assert "Δ +0.010" in html


def test_optimism_has_a_sign() -> None:
    lucky = replace(plain_report(), cv_cost=0.05, test_cost=0.04)
    assert "Optimism: −0.01 (20%). There is no sign" in optimism_sentence(lucky)
    exact = replace(plain_report(), cv_cost=0.05, test_cost=0.05)
    assert optimism_sentence(exact).endswith("Optimism: 0 (0%).")


def test_the_heat_map_shows_the_chosen_and_those_nearest_to_them() -> None:
    data = report([f"f{i}" for i in range(100)], n_chosen=2)
    assert data.distance is not None
    shown = data.shown_features()
    assert len(shown) == len(set(shown)) == 60
    assert set(shown[:2]) == {"f0", "f1"}
    nearest = data.distance.loc[["f0", "f1"]].min().drop(["f0", "f1"])
    assert nearest[shown[2:]].max() <= nearest.drop(shown[2:]).min()


def test_the_line_of_a_subswarm_never_crosses_a_regrouping() -> None:
    epochs = np.arange(1.0, 26.0)
    x, y = with_gaps(epochs, epochs.copy(), 10)
    crossing = [
        (a, b)
        for a, b, v, w in zip(x[:-1], x[1:], y[:-1], y[1:], strict=True)
        if (a < 10.5 < b or a < 20.5 < b) and not np.isnan([v, w]).any()
    ]
    assert not crossing
    assert np.isnan(y).sum() == 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"evaluations": pd.DataFrame({"size": [1]})}, "'evaluations' .* has no column 'cost'"),
        ({"features": []}, "no chosen feature"),
        ({"subset_test_costs": [0.1]}, "1 test costs for 2 subsets"),
    ],
)
def test_data_that_do_not_fit_together_are_refused(changed: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(plain_report(), **changed)
