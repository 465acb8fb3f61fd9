"""The report: one page that needs nothing, whatever the run was like."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError
from swarm.report import figure_files, render
from swarm.report.canvas import LIGHT
from swarm.report.comparison import rivals
from swarm.report.content import spent
from swarm.report.convergence import _broken
from swarm.report.heatmap import shown_features
from swarm.report.words import calibration, interval, number
from tests.small_report import (
    ODD,
    Page,
    plain_report,
    report,
    table_without_intervals,
)


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
    assert len(drawings) == 7
    for drawing in drawings:
        assert set(re.findall(r"var\(--(\w+)\)", drawing)) <= set(LIGHT)
        assert not re.findall(r"(?:fill|stroke):\s*#", drawing)


def test_every_section_is_there_in_the_order_of_the_questions(html: str) -> None:
    text = [" ".join(part.split()) for part in Page(html).texts]
    wanted = [
        "The chosen features",
        "On rows that no search saw",
        "What the search promised, and what came",
        "Convergence",
        "Cost against size",
        "Fewer features, if you like",
        "Would another run choose the same?",
        "Selection frequency",
        "What says the same",
        "What it took",
        "Data, settings and versions",
        "Configuration",
    ]
    places = [text.index(title) for title in wanted]
    assert places == sorted(places)
    answer = next(i for i, part in enumerate(text) if part.startswith("Keep 3 of 12 features"))
    assert answer < places[0]


def test_subsets_that_a_fast_path_left_to_fitted_models_are_counted_where_there_are_any() -> None:
    label = "subsets left to fitted models by the fast path"
    for count in (0, 1234):
        data = replace(plain_report(), facts={"fallbacks": count})
        assert (("1,234", label) in spent(data)) == (count > 0)


def test_the_test_figures_are_those_of_the_judgement(html: str) -> None:
    data = plain_report()
    text = " ".join(" ".join(Page(html).texts).split())
    table = text[text.index("contender f1 recall features models") :]
    for row in data.figures.to_dict("records"):
        assert f"{number(row['value'])} {interval(row['low'], row['high'])}" in table
    for row in data.differences.to_dict("records"):
        assert f"Δ {row['difference']:+.3f}" in table


def test_every_figure_says_in_words_what_it_shows(html: str) -> None:
    drawings = re.findall(r"<svg[^>]*>", html)
    for drawing in drawings:
        assert 'role="img"' in drawing
        label = re.findall(r'aria-label="([^"]*)"', drawing)
        assert len(label) == 1
        assert len(label[0].split()) > 5
    labels = re.findall(r'aria-label="([^"]*)"', html)
    assert len(set(labels)) == len(labels) == len(drawings)


def test_other_rules_are_named_with_size_cost_and_error(html: str) -> None:
    text = " ".join(" ".join(Page(html).texts).split())
    assert (
        "Parsimonious , the smallest within one standard error of the lowest cost "
        "1 feature CV cost 0.0045 ± 0.002 column 0"
    ) in text


def test_stability_is_said_with_its_interval_and_what_one_run_cannot_say(html: str) -> None:
    found = plain_report().agreement
    assert found is not None
    text = " ".join(" ".join(Page(html).texts).split())
    bounds = interval(found.low, found.high)
    assert f"{number(found.index)} stability index (Nogueira) {bounds}, {found.word}" in text
    assert "One run cannot tell what another seed or other rows would have chosen" in text


def test_each_promise_is_held_against_what_came(html: str) -> None:
    text = " ".join(" ".join(Page(html).texts).split())
    assert "2 of 2 cost more on the test rows than in cross-validation" in text
    assert "the mean difference is 0.0555" in text
    with pytest.raises(InputError, match="1 test costs for 2 subsets"):
        replace(plain_report(), subset_test_costs=[0.1])


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
        "figures/calibration.png",
        "figures/frequency.png",
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


def test_a_table_without_a_needed_column_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="'evaluations' of the report has no column 'cost'"):
        replace(plain_report(), evaluations=pd.DataFrame({"size": [1]}))
    with pytest.raises(InputError, match="no chosen feature"):
        replace(plain_report(), features=[])
