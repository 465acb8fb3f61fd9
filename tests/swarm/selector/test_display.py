"""Tests of what a fitted selector shows: plots, a summary, a report and a verdict."""

from __future__ import annotations

import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.report import ReportData
from tests.selecting import BRIEF, WINE, summary_of
from tests.swarm.report.test_report import Page
from tests.swarm.validation.test_drop_column import churn

X, Y = WINE
TEST = np.arange(len(X)) % 3 == 0
TRAIN = ~TEST
ROWS = (X[TRAIN], Y[TRAIN])
UNSEEN = (X[TEST], Y[TEST])
_SPLIT = train_test_split(
    *load_breast_cancer(return_X_y=True, as_frame=True), random_state=0, test_size=143
)
CANCER = _SPLIT[::2]
CANCER_UNSEEN = _SPLIT[1::2]


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    selector = SubsetSelector(GaussianNB(), confirm={"repeats": 1}, **{**BRIEF, "budget": 4})
    return selector.set_params(size=(None, 8)).fit(*ROWS)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[ReportData]:
    """Collect the data of the reports of a test instead of drawing them."""
    collected: list[ReportData] = []
    monkeypatch.setattr(
        "swarm.selector.report.render", lambda data: collected.append(data) or "page"
    )
    return collected


# ---------------------------------------------------------------- plots


def test_each_plot_is_drawn_on_the_axes_that_are_given(fitted: SubsetSelector) -> None:
    from matplotlib.figure import Figure

    for plot in ("convergence", "size", "importances"):
        ax = Figure().subplots()
        assert fitted.plot(plot, ax=ax) is ax
        assert ax.get_ylabel() or ax.patches, plot


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


# ---------------------------------------------------------------- text


def test_the_summary_has_the_columns_and_the_score_in_the_metric_of_the_search() -> None:
    def fit_and_summarise(scoring: str) -> tuple[SubsetSelector, str]:
        selector = SubsetSelector(GaussianNB(), scoring=scoring, size=(None, 8), **BRIEF)
        selector.fit(*ROWS)
        return selector, summary_of(selector)

    selector, text = fit_and_summarise("accuracy")
    assert f"accuracy {1 - selector.cost_:.3f}" in text
    shown_columns = text.splitlines()[1].split(" and ")[0].strip().split(", ")
    assert set(shown_columns) <= set(selector.subset_)
    selector, text = fit_and_summarise("neg_log_loss")
    assert f"log loss {selector.cost_:.3f}" in text
    for word in ("cost", "epoch", "fresh", "hint"):
        assert word not in text


def test_the_summary_fits_a_screen_whatever_the_names_and_findings() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 90)
    table = rng.normal(size=(90, 60)) + target[:, None] * (np.arange(60) % 7 == 0)
    names = [f"{i}_{'a very long name of a column' * 4}" for i in range(60)]
    frame = pd.DataFrame(table, columns=names).assign(constant=1.0, leak=target)
    with warnings.catch_warnings(action="ignore"):
        selector = SubsetSelector(GaussianNB(), budget=4, confirm=True, size=(8, None))
        selector.fit(frame, target)
    for rule in ("best", "parsimonious"):
        lines = summary_of(selector.repick(rule)).splitlines()
        assert len(lines) <= 12
        assert max(map(len, lines)) <= 80
        (look,) = (line for line in lines if line.startswith("Look at"))
        assert look.split()[2] == "SWM114", "the leak is not the first finding"


# ---------------------------------------------------------------- report


def test_the_report_of_a_selector_has_as_much_as_there_is_data(
    fitted: SubsetSelector, tmp_path: Path, reports: list[ReportData]
) -> None:
    assert fitted.report(tmp_path / "a.html").read_text(encoding="utf-8") == "page"
    fitted.report(tmp_path / "b.html", X[TRAIN], Y[TRAIN])
    basic, with_rows = reports
    assert basic.subsets == [(fitted.subset_, fitted.cost_)]
    assert (basic.distance, basic.dropped, basic.judgement) == (None, None, None)
    assert with_rows.distance is not None
    assert with_rows.dropped is not None
    assert with_rows.dropped.rows == "a fresh fold"
    assert set(with_rows.dropped.losses.index) == set(fitted.subset_)


def test_the_report_on_test_rows_compares_one_model_each_as_that_of_a_run(
    fitted: SubsetSelector, tmp_path: Path
) -> None:
    html = fitted.report(tmp_path / "a.html", *ROWS, test=UNSEEN).read_text(encoding="utf-8")
    headings = re.findall(r"<h2>([^<]*)</h2>", html)
    assert {"The chosen features", "Test rows"} <= set(headings)
    assert '<figure id="dropped">' in html
    text = " ".join(" ".join(Page(html).texts).split())
    assert f"Accuracy on {TEST.sum()} unseen rows: " in text
    rows = text[text.index("contender accuracy") :]
    assert all(name in rows for name in ("Chosen features", "All features", "Random subsets"))
    assert "ensemble" not in text.lower()


def test_a_gain_on_fresh_folds_of_noise_is_no_verdict_and_unseen_rows_refute_it(
    tmp_path: Path, reports: list[ReportData]
) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2100, 100))
    target = rng.integers(0, 2, 2100)
    rows = slice(0, 100)
    new = slice(100, 2100)
    selector = SubsetSelector(GaussianNB(), budget=15, confirm=True)
    selector.fit(features[rows], target[rows])
    assert selector.confirmation_.verdict == "better"
    assert "of 100 columns selected, not tested on unseen rows" in summary_of(selector)
    assert "SWM205" in summary_of(selector)
    test = (features[new], target[new])
    head = selector.judge(features[rows], target[rows], test=test)
    guess, unseen, fresh = head.evidence
    assert (unseen.outcome, fresh.outcome) == ("no clear difference", "better")
    assert guess.rival == "guessing"
    assert unseen.rows == "2,000 unseen rows"
    assert fresh.chosen - unseen.chosen > 0.1
    assert head.title.startswith("No columns beat ignoring them")
    selector.report(tmp_path / "a.html", features[rows], target[rows], test=test)
    assert reports[0].headline.title == head.title
    assert {"SWM205", "SWM209"} <= {finding["code"] for finding in reports[0].findings}


def test_the_report_says_if_the_result_depends_on_one_column_unless_it_is_muted(
    tmp_path: Path, reports: list[ReportData]
) -> None:
    features, target = churn()
    selector = SubsetSelector(LogisticRegression(), scoring="roc_auc", **BRIEF)
    selector.fit(features, target)
    selector.report(tmp_path / "a.html", features, target)
    selector.set_params(mute=["SWM211"]).report(tmp_path / "a.html", features, target)
    codes = [[entry["code"] for entry in data.findings] for data in reports]
    assert ("SWM211" in codes[0], "SWM211" in codes[1]) == (True, False)
    (finding,) = (entry for entry in reports[0].findings if entry["code"] == "SWM211")
    assert finding["columns"] == ["calls"]


def test_another_pick_is_judged_and_drawn_without_the_confirmation(fitted: SubsetSelector) -> None:
    def labels() -> str:
        return " ".join(picked.plot("convergence").get_legend_handles_labels()[1])

    picked = clone(fitted).fit(*ROWS)
    assert "confirmed" in labels()
    picked.repick("parsimonious")
    assert "confirmed" not in labels()
    head = picked.judge(*ROWS, test=UNSEEN)
    assert (head.n_features, len(head.evidence)) == (len(picked.subset_), 1)
    chosen = GaussianNB().fit(X[TRAIN][picked.subset_], Y[TRAIN])
    score = chosen.score(X[TEST][picked.subset_], Y[TEST])
    assert head.evidence[0].chosen == pytest.approx(score)


def test_models_are_not_judged_without_what_fit_passed_to_them() -> None:
    class Extra(GaussianNB):
        def fit(self, X: Any, y: Any, extra: Any = None) -> Any:
            return super().fit(X, y)

    extra = np.ones(TRAIN.sum())
    fitted = SubsetSelector(Extra(), **BRIEF).fit(*ROWS, extra=extra)
    with pytest.raises(InputError, match="without 'extra'"):
        fitted.judge(*ROWS, test=UNSEEN, extra=extra)


def test_a_scorer_that_may_read_the_rows_is_named_where_another_metric_judges() -> None:
    def by_radius(model: Any, rows: Any, target: Any) -> float:
        return float(-np.abs(model.predict(rows) - target).mean())

    fitted = SubsetSelector(GaussianNB(), scoring=by_radius, **BRIEF).fit(*CANCER)
    head = fitted.judge(*CANCER, test=CANCER_UNSEEN)
    assert "143 unseen rows, in another metric than 'by_radius'" in str(head)


@pytest.mark.parametrize(
    ("rows", "test", "words"),
    [
        (ROWS, X[TEST], "test must be rows, their target"),
        (ROWS, (X[TEST], Y[TEST][:5]), "60 rows .* 5 of the target"),
        (ROWS, (X[::-1], Y[::-1]), "118 of 178 test rows are rows of the fit"),
        (ROWS, (X[TEST].drop(columns="ash"), Y[TEST]), r"yet now missing:\n- ash"),
        (ROWS, (X[TEST].mask(X[TEST] > 1000), Y[TEST]), "'proline' has .* missing"),
        (UNSEEN, UNSEEN, "differ from those of the fit"),
        ((X.rename(columns={"ash": "dust"}), Y), UNSEEN, "X has other columns"),
        ((X[TRAIN], 1 - Y[TRAIN]), UNSEEN, "differ from those of the fit"),
    ],
)
def test_rows_that_can_show_nothing_are_refused(
    fitted: SubsetSelector, rows: Any, test: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        fitted.judge(*rows, test=test)


class Own(BaseEstimator):
    """A classifier without the tag of one."""

    def fit(self, X: Any, y: Any) -> Any:
        self.model_ = GaussianNB().fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


@pytest.mark.parametrize(
    ("model", "target", "words"),
    [
        (Own(), Y, "Own is neither a classifier nor a regressor"),
        (DecisionTreeClassifier(), np.column_stack([Y, Y]), "several outputs"),
    ],
)
def test_what_cannot_be_judged_says_why_and_is_not_recommended(
    model: Any, target: Any, words: str
) -> None:
    fitted = SubsetSelector(model, **BRIEF).fit(X[TRAIN], target[TRAIN])
    assert "judge" not in summary_of(fitted)
    with pytest.raises(InputError, match=words):
        fitted.judge(X[TRAIN], target[TRAIN], test=(X[TEST], target[TEST]))


def test_test_rows_of_one_class_are_judged() -> None:
    fitted = SubsetSelector(GaussianNB(), **BRIEF).fit(*ROWS)
    evidence = fitted.judge(*ROWS, test=(X[TEST][:15], Y[TEST][:15])).evidence[0]
    model = GaussianNB().fit(ROWS[0][fitted.subset_], ROWS[1])
    assert evidence.chosen == pytest.approx(model.score(X[TEST][:15][fitted.subset_], Y[TEST][:15]))


class ByPosition(ClassifierMixin, BaseEstimator):
    """Indexes arrays, which tables do not support."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == label, :].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[((X[:, None, :] - self.means_) ** 2).sum(axis=2).argmin(axis=1)]


def test_a_model_that_was_searched_on_arrays_is_judged_on_arrays(tmp_path: Path) -> None:
    train = ROWS[0].to_numpy()
    new = UNSEEN[0].to_numpy()
    fitted = SubsetSelector(ByPosition(), **BRIEF).fit(train, ROWS[1])
    evidence = fitted.judge(train, ROWS[1], test=(new, UNSEEN[1])).evidence[0]
    columns = fitted.get_support()
    model = ByPosition().fit(train[:, columns], ROWS[1].to_numpy())
    assert evidence.chosen == pytest.approx(model.score(new[:, columns], UNSEEN[1]))
    page = fitted.report(tmp_path / "a.html", train, ROWS[1], test=(new, UNSEEN[1]))
    assert "unseen rows" in page.read_text(encoding="utf-8")


def test_other_models_than_those_of_the_fit_are_not_judged() -> None:
    fitted = SubsetSelector(GaussianNB(), **BRIEF).fit(*ROWS)
    fitted.set_params(estimator__var_smoothing=0.1)
    with pytest.raises(InputError, match="changed after the fit"):
        fitted.judge(*ROWS, test=UNSEEN)
    fitted.set_params(estimator__var_smoothing=1e-9)
    assert fitted.judge(*ROWS, test=UNSEEN).verdict
    fitted.set_params(scoring="f1_macro")
    with pytest.raises(InputError, match="changed after the fit"):
        fitted.report("page.html", *ROWS)


def test_test_rows_of_a_fit_with_groups_are_resampled_by_group(tmp_path: Path) -> None:
    # There are ten copies of each of thirty patients, whose names are numbers and text.
    names = np.array([n if n % 2 else f"p{n}" for n in range(30)], dtype=object)
    patients = np.repeat(names, 10)[:, None]
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(60, 4)), 10, axis=0) + 0.05 * rng.normal(size=(600, 4))
    target = np.repeat(rng.integers(0, 2, 60), 10)
    train = (rows[:300], target[:300])
    test = (rows[300:], target[300:])
    fitted = SubsetSelector(KNeighborsClassifier(), budget=1, cv=3).fit(*train, groups=patients)
    judge = partial(fitted.judge, *train, groups=patients)
    assert judge(test=(*test, patients)).evidence[0].rows == "300 unseen rows of 30 groups"
    fitted.report(tmp_path / "page.html", *train, groups=patients)
    with pytest.raises(InputError, match=r"pass \(X_test, y_test, groups\)"):
        judge(test=test)
    with pytest.raises(DataError, match="300 test rows but 5 groups"):
        judge(test=(*test, patients[:5]))


def test_a_report_is_refused_for_rows_that_are_not_those_of_the_fit(
    fitted: SubsetSelector, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(InputError, match="pass X and y to report"):
        fitted.report(file, test=(X, Y))
    with pytest.raises(InputError, match="does not exist"):
        fitted.report(tmp_path / "nowhere" / "report.html")
    assert not file.exists()


@pytest.mark.parametrize(("cv", "advised"), [(3, True), (TimeSeriesSplit(3), False), (0, False)])
def test_the_summary_advises_a_confirmation_only_where_folds_can_be_drawn_again(
    cv: Any, advised: bool
) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(y))
    selector = SubsetSelector(GaussianNB(), budget=1, cv=cv, confirm=False)
    selector.fit(X.iloc[order], y.iloc[order])
    assert ("confirm=True" in summary_of(selector)) == advised
