"""What a fitted selector shows: plots, a report, a summary, its face in a notebook, its verdict."""

from __future__ import annotations

import ast
import io
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import make_scorer, mean_squared_error, recall_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import swarm.problem.fingerprint
from conf.load import SelectConfig
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.report import ReportData
from swarm.selector.wording import in_arguments
from tests.pages import ROOT
from tests.selecting import BRIEF, TREES, WINE
from tests.small_report import Page

X, Y = WINE
TRAIN, TEST = np.arange(len(X)) % 3 > 0, np.arange(len(X)) % 3 == 0
ROWS, UNSEEN = (X[TRAIN], Y[TRAIN]), (X[TEST], Y[TEST])
_SPLIT = train_test_split(
    *load_breast_cancer(return_X_y=True, as_frame=True), random_state=0, test_size=143
)
CANCER, CANCER_UNSEEN = _SPLIT[::2], _SPLIT[1::2]


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    selector = SubsetSelector(GaussianNB(), confirm={"repeats": 1}, **{**BRIEF, "epochs": 4})
    return selector.set_params(max_size=8).fit(*ROWS)


@pytest.fixture
def axes() -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots()


# ---------------------------------------------------------------- plots


def line(axes: Any, label: str) -> Any:
    return next(one for one in axes.lines if str(one.get_label()).startswith(label))


def test_convergence_ends_at_the_lowest_cost_and_names_the_confirmed_one(
    fitted: SubsetSelector, axes: Any
) -> None:
    assert fitted.plot(ax=axes) is axes
    shown = line(axes, "best so far").get_ydata()
    assert shown.tolist() == fitted.history_["best_cost"].tolist()
    assert set(line(axes, "confirmed").get_ydata()) == {fitted.confirmation_.cost}
    assert axes.get_ylabel() == "cost (1 − accuracy)"


def test_the_selected_subset_is_marked_among_all_sizes(fitted: SubsetSelector, axes: Any) -> None:
    fitted.plot("size", ax=axes)
    star = line(axes, "selected")
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (len(fitted.subset_), fitted.cost_)
    assert line(axes, "Pareto").get_xdata().tolist() == fitted.pareto_["size"].tolist()


def test_importances_are_bars_with_the_highest_on_top(fitted: SubsetSelector, axes: Any) -> None:
    fitted.plot("importances", ax=axes)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths[::-1] == fitted.importances_.tolist()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[::-1] == list(fitted.importances_.index)


def test_a_plot_that_cannot_be_drawn_is_refused_in_a_sentence(
    fitted: SubsetSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"there are convergence, size, importances\); did you"):
        fitted.plot("convergense")
    bayes = SubsetSelector(GaussianNB(), importance="none", **BRIEF).fit(X, Y)
    with pytest.raises(InputError, match="importance='permutation'"):
        bayes.plot("importances")
    monkeypatch.setattr("swarm.checks.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'swarmselect\[report\]'"):
        fitted.plot()


# ---------------------------------------------------------------- text and notebook


def test_a_summary_has_about_ten_lines_and_the_result_prints_as_few(
    fitted: SubsetSelector,
) -> None:
    lines = fitted.summary().splitlines()
    assert 6 <= len(lines) <= 12
    assert lines[0].split()[:4] == ["features", str(len(fitted.subset_)), "of", "13:"]
    shown = lines[0].split(": ")[1].split(" and ")[0].split(", ")
    assert set(shown) <= set(fitted.subset_)
    assert len(shown) == min(8, len(fitted.subset_))
    assert "On 3 fresh folds, one model each: accuracy" in fitted.summary()
    assert len(str(fitted.result_).splitlines()) <= 7
    assert f"{fitted.cost_:.4g}" in str(fitted.result_)


def test_a_subset_that_was_picked_by_hand_claims_no_evidence(fitted: SubsetSelector) -> None:
    picked = clone(fitted).set_params(confirm=False, epochs=2).fit(X, Y).repick("parsimonious")
    assert "selected, not compared with all" in picked.summary()
    assert "confirm=True" in picked.summary()


def test_all_features_as_the_result_are_not_compared_with_themselves(
    fitted: SubsetSelector, tmp_path: Path
) -> None:
    kept = clone(fitted).set_params(min_size=13, max_size=13, epochs=2).fit(*ROWS)
    assert "verdict      Keep all 13 features" in kept.summary()
    assert re.search(r"On 3 fresh folds: accuracy [\d.]+ with all features\.", kept.summary())
    head = kept.judge(*ROWS, test=UNSEEN)
    assert re.match(r"On 60 unseen rows: accuracy [\d.]+ with all features\.", head.sentences()[0])
    assert "SWM202" not in kept.summary()
    page = kept.report(tmp_path / "a.html", *ROWS, test=UNSEEN)
    text = " ".join(" ".join(Page(page.read_text(encoding="utf-8")).texts).split())
    assert "Keep all 13 features" in text
    assert "difference +0" not in text
    assert "SWM20" not in text


def test_a_notebook_shows_the_result_above_the_diagram_of_scikit_learn(
    fitted: SubsetSelector,
) -> None:
    plain = clone(fitted)
    assert "swarm-selection" not in plain._repr_html_()
    html = fitted._repr_html_()
    assert "swarm-selection" in fitted._repr_mimebundle_()["text/html"]
    assert html.index("swarm-selection") < html.index("sk-container")
    page = Page(html)
    text = " ".join(page.texts)
    assert all(name in text for name in fitted.subset_)
    assert fitted.findings_[0].code in text
    assert "polyline" in page.tags
    assert "GaussianNB" in text
    assert "swarm-selection" not in make_pipeline(fitted)._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert "text/html" not in fitted._repr_mimebundle_()


def test_names_of_features_are_text_in_a_notebook() -> None:
    table = X.set_axis([f"<b>{i}</b>" for i in range(X.shape[1])], axis=1)
    html = SubsetSelector(GaussianNB(), **BRIEF).fit(table, Y)._repr_html_()
    panel = html[: html.index("<style")]
    assert "&lt;b&gt;" in panel
    assert "<b>" not in panel


def test_progress_in_a_notebook_without_tqdm_is_a_line_per_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr("swarm.selector.progress.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "stderr", told := io.StringIO())
    SubsetSelector(GaussianNB(), verbose=1, **BRIEF).fit(X, Y)
    assert [line.split(":")[0] for line in told.getvalue().splitlines()] == ["epoch 1", "epoch 2"]


# ---------------------------------------------------------------- errors


def sentences(file: Path) -> list[str]:
    """Texts of a module that have several words, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    left_out: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            left_out.add(id(body[0].value))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in node.values}
            parts = [p.value if isinstance(p, ast.Constant) else "X" for p in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if id(node) not in left_out else []
    return [text for text in found if " " in text]


def test_no_sentence_of_the_library_names_a_key_or_a_command_to_a_user_of_python() -> None:
    keys = set()
    for section, field in SelectConfig.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            keys |= {f"{section}.{key}" for key in getattr(kind, "model_fields", ())}
    assert {"data.drop", "space.max_size", "model.params"} <= keys
    named = re.compile(rf"\b({'|'.join(map(re.escape, keys))})\b|\bto null\b|\bor null\b")
    # A selector has no workers on other machines, no plan, and no file of features.
    elsewhere = ("evaluation/", "planning.py", "selector/wording.py")
    n_keys = 0
    for file in sorted((ROOT / "swarm").rglob("*.py")):
        if any(part in file.as_posix() for part in elsewhere):
            continue
        for text in sentences(file):
            n_keys += bool(named.search(text))
            assert not named.search(in_arguments(text)), f"{file.name}: {text}"
    assert n_keys > 15


def test_what_a_fit_refuses_and_what_it_finds_is_said_in_arguments() -> None:
    with pytest.raises(DataError, match=r"convert it with astype\('category'\), encode it"):
        SubsetSelector(TREES, **BRIEF).fit(X.assign(town=list("ab") * (len(X) // 2)), Y)
    with pytest.raises(ConfigError, match="shrink must be True or False"):
        SubsetSelector(TREES, **{**BRIEF, "strategy_params": {"shrink": 1}}).fit(X, Y)
    found = SubsetSelector(TREES, **BRIEF).fit(X.assign(same=1.0), Y).findings_
    (constant,) = [each for each in found if each.code == "SWM112"]
    assert constant.remedy == "drop it (X.drop(columns=...))"


# ---------------------------------------------------------------- report


def test_the_report_of_a_selector_has_as_much_as_there_is_data(
    fitted: SubsetSelector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ReportData] = []
    monkeypatch.setattr("swarm.selector.report.render", lambda data: told.append(data) or "page")
    assert fitted.report(tmp_path / "a.html").read_text(encoding="utf-8") == "page"
    fitted.report(tmp_path / "b.html", X[TRAIN], Y[TRAIN])
    alone, with_rows = told
    assert (alone.features, alone.cv_cost) == (fitted.subset_, fitted.cost_)
    assert (alone.distance, alone.diagnostics) == (None, None)
    assert not alone.metrics
    assert with_rows.distance is not None
    assert with_rows.diagnostics is not None
    assert with_rows.diagnostics.rows == "3 fresh folds"


def test_the_report_on_test_rows_compares_one_model_each_as_that_of_a_run(
    fitted: SubsetSelector, tmp_path: Path
) -> None:
    file = fitted.report(tmp_path / "a.html", *ROWS, test=UNSEEN)
    html = file.read_text(encoding="utf-8")
    found = re.findall(r"<h2>([^<]*)</h2>", html)
    assert found == [
        *("Findings", "The chosen features", "Test rows", "Optimism of the search"),
        *("The model of the chosen features", "The search", "Stability", "Correlated features"),
        "Work",
    ]
    text = " ".join(" ".join(Page(html).texts).split())
    assert f"On {TEST.sum()} unseen rows, one model each: accuracy" in text
    assert "(blank)" not in text
    rows = text[text.index("contender accuracy") :]
    for name in ("Chosen features", "All features", "Random subsets"):
        assert name in rows
    assert "ensemble" not in text.lower()
    for title in ("Loss when a feature is dropped", "Confusion matrix", "Learning curve"):
        assert title in text


def test_a_gain_on_fresh_folds_of_noise_is_no_verdict_and_unseen_rows_refute_it(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    features, target = rng.normal(size=(1100, 100)), rng.integers(0, 2, 1100)
    rows, new = slice(0, 100), slice(100, 1100)
    selector = SubsetSelector(GaussianNB(), epochs=15, confirm=True)
    selector.fit(features[rows], target[rows])
    assert selector.confirmation_.verdict == "better"
    assert "of 100 features selected, not tested on unseen rows" in selector.summary()
    assert "SWM205" in selector.summary()
    assert "not tested on unseen rows" in selector._repr_html_()
    head = selector.judge(features[rows], target[rows], test=(features[new], target[new]))
    unseen, fresh = head.evidence
    assert (unseen.verdict, fresh.verdict) == ("no clear difference", "better")
    assert head.verdict == "no clear difference"
    assert unseen.rows == "1,000 unseen rows"
    assert fresh.chosen - unseen.chosen > 0.1
    assert head.title.startswith("No clear gain over guessing, with ")
    page = selector.report(
        tmp_path / "a.html", features[rows], target[rows], test=(features[new], target[new])
    )
    html = page.read_text(encoding="utf-8")
    assert all(code in html for code in ("No clear gain over guessing", "SWM205", "SWM209"))


def test_another_pick_is_judged_as_it_is(fitted: SubsetSelector) -> None:
    picked = clone(fitted).fit(*ROWS).repick("parsimonious")
    head = picked.judge(*ROWS, test=UNSEEN)
    assert (head.n_features, len(head.evidence)) == (len(picked.subset_), 1)
    chosen = GaussianNB().fit(X[TRAIN][picked.subset_], Y[TRAIN])
    score = chosen.score(X[TEST][picked.subset_], Y[TEST])
    assert head.evidence[0].chosen == pytest.approx(score)
    with pytest.raises(DataError, match="X has other columns"):
        picked.judge(X.rename(columns={"ash": "dust"}), Y, test=(X, Y))


def test_the_chosen_setting_of_the_model_is_judged() -> None:
    tree = DecisionTreeClassifier(random_state=0, max_depth=1)
    fitted = SubsetSelector(tree, param_grid={"max_depth": [4, 5]}, epochs=8, cv=3)
    fitted.fit(*ROWS)
    evidence = fitted.judge(*ROWS, test=UNSEEN).evidence[0]
    model = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    columns = sorted(X.columns)
    expected = model.fit(X[TRAIN][columns], Y[TRAIN]).score(X[TEST][columns], Y[TEST])
    assert evidence.everything == pytest.approx(expected)


def test_models_are_not_judged_without_what_fit_passed_to_them() -> None:
    class Extra(GaussianNB):
        def fit(self, X: Any, y: Any, extra: Any = None) -> Any:
            return super().fit(X, y)

    extra = np.ones(TRAIN.sum())
    fitted = SubsetSelector(Extra(), **BRIEF).fit(*ROWS, extra=extra)
    with pytest.raises(InputError, match="without 'extra'"):
        fitted.judge(*ROWS, test=UNSEEN, extra=extra)


@pytest.mark.parametrize(
    ("scorer", "name", "value"),
    [
        (make_scorer(recall_score), "recall_score", recall_score),
        (
            make_scorer(mean_squared_error, greater_is_better=False),
            "negative_mean_squared_error",
            lambda truth, guess: -mean_squared_error(truth, guess),
        ),
    ],
)
def test_a_scorer_of_the_user_judges_unseen_rows(scorer: Any, name: str, value: Any) -> None:
    fitted = SubsetSelector(GaussianNB(), scoring=scorer, **BRIEF).fit(*CANCER)
    evidence = fitted.judge(*CANCER, test=CANCER_UNSEEN).evidence[0]
    columns = sorted(fitted.subset_)
    model = GaussianNB().fit(CANCER[0][columns], CANCER[1])
    assert evidence.metric == name
    assert evidence.chosen == pytest.approx(
        value(CANCER_UNSEEN[1], model.predict(CANCER_UNSEEN[0][columns]))
    )
    assert evidence.low <= evidence.chosen - evidence.everything <= evidence.high


def test_a_scorer_that_may_read_the_rows_is_named_where_another_metric_judges() -> None:
    def by_radius(model: Any, rows: Any, target: Any) -> float:
        return float(-np.abs(model.predict(rows) - target).mean())

    fitted = SubsetSelector(GaussianNB(), scoring=by_radius, **BRIEF).fit(*CANCER)
    head = fitted.judge(*CANCER, test=CANCER_UNSEEN)
    assert "143 unseen rows, in another metric than 'by_radius'" in str(head)


def test_a_fit_hashes_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[pd.DataFrame] = []
    column_bytes = swarm.problem.fingerprint._column_bytes
    monkeypatch.setattr(
        swarm.problem.fingerprint,
        "_column_bytes",
        lambda table: (hashed.append(table), column_bytes(table))[1],
    )
    SubsetSelector(GaussianNB(), **BRIEF).fit(*WINE)
    assert len(hashed) == 1


def test_rows_that_can_show_nothing_are_refused_in_one_sentence(fitted: SubsetSelector) -> None:
    gaps = X[TEST].mask(X[TEST] > 1000)
    test: Any
    for test, sentence in (
        (X[TEST], "test must be a pair of rows and their target"),
        ((X[TEST], None), "test must be a pair of rows and their target"),
        ((X[TEST], Y[TEST][:5]), "60 rows of features but 5 of the target"),
        (ROWS, "118 of 118 test rows are rows of the fit"),
        ((X[::-1], Y[::-1]), "118 of 178 test rows are rows of the fit"),
        ((X[TEST].drop(columns="ash"), Y[TEST]), "the test rows have no column 'ash'"),
        ((gaps, Y[TEST]), "column 'proline' has .* missing values, which GaussianNB does not"),
    ):
        with pytest.raises((InputError, DataError), match=sentence):
            fitted.judge(*ROWS, test=test)
    for rows, target in (UNSEEN, (X[TRAIN], 1 - Y[TRAIN])):
        with pytest.raises(DataError, match="differ from those of the fit"):
            fitted.judge(rows, target, test=UNSEEN)
    groups = SubsetSelector(KMeans(2, n_init=1), epochs=1).fit(X[TRAIN])
    with pytest.raises(InputError, match="without a target cannot be compared"):
        groups.judge(X[TRAIN], None, test=(X[TEST], None))


def test_a_report_is_refused_for_rows_that_are_not_those_of_the_fit(
    fitted: SubsetSelector, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(InputError, match="pass X and y to report"):
        fitted.report(file, test=(X, Y))
    with pytest.raises(DataError, match="X has other columns"):
        fitted.report(file, X.rename(columns={"ash": "dust"}), Y)
    with pytest.raises(InputError, match="does not exist"):
        fitted.report(tmp_path / "nowhere" / "report.html")
    assert not file.exists()
