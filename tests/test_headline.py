"""Claims on the headline: it says what the evidence says, in the metric of the search."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from swarm.problem.scoring import resolve_scoring
from swarm.problem.space import SearchSpace
from swarm.search.candidates import Candidates
from swarm.search.confirmation import Confirmation
from swarm.validation.sentences import evidence as sentence
from swarm.validation.verdict import Headline, Verdict, headline

SPACE = SearchSpace.build([f"x{i}" for i in range(6)])
AUC = resolve_scoring("roc_auc", None, np.array([0, 1] * 5), "binary")
RMSE = resolve_scoring("neg_root_mean_squared_error", None, np.arange(9.0), "regression")


def unseen(low: float, high: float, metric: str = "roc_auc") -> Verdict:
    return Verdict("90 unseen rows", metric, 0.8 + (low + high) / 2, 0.8, low, high)


def told(
    scoring: Any,
    evidence: Verdict | None,
    gain: float | None,
    sizes: tuple[int, ...] = (4, 2),
    n_rows: int = 100,
    beats_guessing: bool = True,
) -> Headline:
    """Headline of a subset that costs `gain` less than all features on fresh folds."""
    confirmation = None
    if gain is not None:
        wave = 0.01 * np.array([1, -1] * 5)
        costs = np.array([0.2 + 0.001 * i + 0.1 * wave for i in range(len(sizes))])
        masks = np.array([np.arange(6) < size for size in sizes])
        confirmation = Confirmation(
            Candidates.build(masks, np.full(len(sizes), 0.15), fresh=costs),
            0.2 + gain + wave,
            0.9 * n_rows,
            0.1 * n_rows,
            "score",
            0.05,
            0.95,
        )
    result: Any = SimpleNamespace(
        features=SPACE.columns[: sizes[0]], space=SPACE, confirmation=confirmation, cost=0.15
    )
    judgement: Any = None
    if evidence is not None:
        judgement = SimpleNamespace(verdict=evidence, beats_guessing=beats_guessing)
    return headline(result, scoring, judgement)


@pytest.mark.parametrize(
    ("evidence", "gain", "title", "first"),
    [
        (unseen(0.01, 0.05), 0.1, "Keep these 4 of 6 features", "90 unseen rows"),
        (unseen(-0.01, 0.05), 0.1, "No clear difference: 4 of 6 features do", "90 unseen rows"),
        (None, 0.1, "4 of 6 features selected, not tested on unseen rows", "10 fresh folds"),
        (None, 0.0, "4 of 6 features selected, not tested on unseen rows", "10 fresh folds"),
        (unseen(-0.01, 0.05), 0.0, "No clear difference: 4 of 6 features do", "90 unseen rows"),
        (unseen(-0.23, -0.07), 0.1, "Keep all 6 features", "90 unseen rows"),
        (unseen(-0.01, 0.05), -0.1, "Keep all 6 features", "10 fresh folds"),
        (unseen(0.01, 0.05), None, "Keep these 4 of 6 features", "90 unseen rows"),
        (None, -0.1, "Keep all 6 features", "10 fresh folds"),
        (unseen(math.nan, math.nan), None, "No clear difference: 4 of 6 features do", None),
    ],
)
def test_the_title_follows_the_evidence_and_the_first_figure_supports_it(
    evidence: Verdict | None, gain: float | None, title: str, first: str | None
) -> None:
    head = told(AUC, evidence, gain)
    assert head.title == title
    assert head.names_features == (not title.startswith("Keep all"))
    assert first is None or head.evidence[0].rows == first
    assert head.evidence[0].outcome == head.verdict or not head.tested
    assert head.verdict != "better" or head.tested
    assert str(head).splitlines() == [f"{title}.", *head.sentences()]


def test_all_features_are_not_compared_with_themselves() -> None:
    for evidence in (None, unseen(0.0, 0.0)):
        for gain in (None, 0.0):
            head = told(AUC, evidence, gain, sizes=(6, 2))
            assert head.title == "Keep all 6 features"
            assert all("0.800 with all features." in text for text in head.sentences())
            assert len(head.evidence) == (evidence is not None) + (gain is not None)
            assert not head.names_features


def test_forbidden_columns_do_not_count_among_all_features() -> None:
    space = SearchSpace.build(SPACE.columns, forbidden=["x5"])
    result: Any = SimpleNamespace(
        features=SPACE.columns[:5], space=space, confirmation=None, cost=0.15
    )
    assert headline(result, AUC).title == "Keep all 5 features"
    result.space = SearchSpace.build(["x0"])
    result.features = ["x0"]
    assert headline(result, AUC).title == "Keep the only feature"


def test_evidence_is_told_in_the_metric_of_the_search_with_its_own_sign() -> None:
    (fresh,) = told(AUC, None, 0.1).evidence
    assert (fresh.chosen, fresh.everything) == pytest.approx((0.8, 0.7))
    assert fresh.low < 0.1 < fresh.high
    said = "ROC AUC on 10 fresh folds: 0.800, with all 0.700; +0.100 (+"
    assert sentence(fresh).startswith(said)
    (error,) = told(RMSE, None, 0.1).evidence
    assert (error.chosen, error.everything) == pytest.approx((0.2, 0.3))
    assert error.low < -0.1 < error.high < 0
    assert error.outcome == "better"
    assert "RMSE on 10 fresh folds: 0.200, with all 0.300; -0.100 (-" in sentence(error)
    assert "RMSE of this subset: 0.150 in the search, 0.200" in told(RMSE, None, 0.1).searched
    assert "AUC of this subset: 0.850 in the search, 0.800" in told(AUC, None, 0.1).searched
    assert "(winner's curse +0.050)" in told(AUC, None, 0.1).searched


def test_with_more_columns_than_rows_fresh_folds_are_not_trusted_to_show_the_optimism() -> None:
    doubt, evidence = "Fresh folds have the rows of the search", unseen(0.01, 0.05)
    assert doubt in told(AUC, evidence, 0.1, n_rows=5).searched
    assert doubt not in told(AUC, evidence, 0.1, n_rows=6).searched
    assert doubt in told(AUC, None, 0.1).searched


def test_nothing_is_kept_for_a_gain_over_all_features_without_one_over_guessing() -> None:
    for evidence in (unseen(0.01, 0.05), unseen(-0.01, 0.05)):
        beaten = told(AUC, evidence, 0.1)
        head = told(AUC, evidence, 0.1, beats_guessing=False)
        assert head.title == "No clear gain over guessing, with 4 of 6 features or with all"
        assert beaten.offer
        assert head.offer == ""


def test_the_smallest_subset_that_is_not_worse_is_offered_unless_it_is_the_answer() -> None:
    offer = told(AUC, None, 0.0).offer
    assert "not worse than all by more than 0.05 in cost" in offer
    assert "keeps 2" in offer
    assert "x0, x1." in offer
    assert told(AUC, None, 0.0, (2, 4)).offer == ""
    # Nor are all features, which are not worse than themselves.
    assert told(AUC, None, 0.0, (4, 6)).offer == ""
    assert told(AUC, None, -0.3).offer == ""
    assert told(AUC, unseen(0.01, 0.05), None).offer == ""


def test_all_features_that_cannot_be_fitted_are_no_alternative() -> None:
    head = told(AUC, None, math.inf)
    assert head.title == "Keep these 4 of 6 features"
    assert head.evidence == ()
