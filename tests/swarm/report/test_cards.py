"""Tests of cards in a notebook: they have the styles of reports, which apply to nothing else."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pandas as pd
import pytest
import sklearn
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetEnsemble, SubsetSelector
from swarm.findings import Findings, make_finding
from swarm.report.cards import card_of, scoped
from swarm.validation import Rows, judge
from swarm.validation.comparison import compare
from tests.selecting import BRIEF, WINE
from tests.swarm.report.test_report import Page

X, Y = WINE
TRAIN = X.index % 3 > 0


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    odd = X[TRAIN].assign(constant=1.0, **{"<b>twin": X["alcohol"]})
    return SubsetSelector(GaussianNB(), size=(None, 8), **BRIEF).fit(odd, Y[TRAIN])


def text_of(html: str) -> str:
    # A browser may break a long name at these marks.
    return " ".join(" ".join(Page(html.replace("<wbr>", "")).texts).split())


def test_a_fitted_selector_is_a_card_and_scikit_learns_diagram_before(
    fitted: SubsetSelector,
) -> None:
    bundle: Any = fitted._repr_mimebundle_()
    html = bundle["text/html"]
    assert html == fitted._repr_html_()
    text = text_of(html)
    assert fitted._selection.headline().title in text
    assert all(name in text for name in fitted.subset_)
    shares = [float(share) for share in re.findall(r"width:([\d.]+)%", html)]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == len(fitted.subset_)
    assert 'role="img"' in html
    codes = re.findall(r"SWM\d{3}", text)
    assert codes == [finding.code for finding in fitted.findings_]
    assert bundle["text/plain"].splitlines()[0] == f"{fitted._selection.headline().title}."
    assert "<b>twin" not in html
    before: Any = SubsetSelector(GaussianNB())._repr_mimebundle_()
    assert "swarm-card" not in before["text/html"]
    assert "sk-" in before["text/html"]
    with sklearn.config_context(display="text"):
        assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted)}
        assert not hasattr(fitted, "_repr_html_")


def test_without_the_packages_of_reports_there_is_text(
    fitted: SubsetSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.report.cards.find_spec", lambda name: None)
    assert "swarm-card" not in fitted._repr_html_()
    assert fitted.findings_._repr_html_() is None
    monkeypatch.setattr("swarm.report.cards.find_spec", lambda name: name == "jinja2" or None)
    assert "<svg" not in fitted._repr_html_()


def test_verdicts_findings_and_comparisons_are_cards_and_texts(fitted: SubsetSelector) -> None:
    rows = fitted.subset_, Rows(X[TRAIN], Y[TRAIN]), Rows(X[~TRAIN], Y[~TRAIN])
    columns = [name for name in rows[0] if name in X]
    plain = SubsetSelector(GaussianNB(), **BRIEF).fit(X[TRAIN], Y[TRAIN])
    head = plain.judge(X[TRAIN], Y[TRAIN], test=(X[~TRAIN], Y[~TRAIN]))
    judgement = judge(SubsetEnsemble(GaussianNB(), [columns, list(X)[:4]]), *rows[1:], n_random=1)
    cells = pd.DataFrame(
        [
            {"dataset": "a", "strategy": name, "seed": seed, "cost": cost + seed / 100, "size": 2}
            | {"evaluations": 4, "distinct": 4}
            for name, cost in (("one", 0.2), ("other", 0.3))
            for seed in range(4)
        ]
    )
    cards: list[tuple[Any, str]] = [
        (head, head.title),
        (judgement, judgement.sentence()),
        (fitted.findings_, fitted.findings_[-1].code),
        (fitted.findings_[0], fitted.findings_[0].code),
        (compare(cells, {"a": (0.4, 3)}), "one"),
    ]
    for card, text in cards:
        html = card._repr_html_()
        assert text in text_of(html)
        assert html.count("<style>") == 1
        assert card._repr_mimebundle_() == {"text/plain": str(card), "text/html": html}
        assert text in str(card)
    assert "best single subset" in str(judgement)
    assert str(Findings()) == "no findings"
    assert card_of(object()) is None


def test_findings_are_a_tuple_that_can_be_stored() -> None:
    findings = Findings([make_finding("SWM112", "x")])
    stored = pickle.loads(pickle.dumps(findings))
    assert stored == findings == (findings[0],)
    assert str(stored).startswith("warning SWM112: x")


def test_the_styles_of_a_card_apply_to_nothing_else() -> None:
    css = "/* a, b */ :root { --x: 1; } body, p { y: 2 }\n@media print { td, .z > i { w: 3 } }"
    inside = " ".join(scoped(css, ".s").split())
    assert inside == ".s, .s p { y: 2 } @media print { .s td, .s .z > i { w: 3 } }"
    html: Any = card_of(make_finding("SWM112", "x"))
    style = re.sub(r"/\*.*?\*/", "", html.split("<style>")[1].split("</style>")[0], flags=re.S)
    rules = [rule for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style) if rule.strip()]
    assert len(rules) > 50
    for rule in rules:
        assert all(".swarm-card" in selector for selector in rule.split(",")), rule
    assert "http" not in style
