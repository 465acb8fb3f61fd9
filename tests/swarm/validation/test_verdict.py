"""Tests of the headline: it follows the evidence, in the metric of the search."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from swarm.findings import make_finding
from swarm.findings.outcome import doubts
from swarm.problem.scoring import resolve_scoring
from swarm.problem.space import SearchSpace
from swarm.search.candidates import Candidates
from swarm.search.confirmation import Confirmation
from swarm.validation.sentences import (
    amount,
    chosen_columns,
    format_score,
    format_signed,
    model_score,
)
from swarm.validation.sentences import evidence as sentence
from swarm.validation.verdict import Guessing, Headline, Verdict, headline

SPACE = SearchSpace.build([f"x{i}" for i in range(6)])
AUC = resolve_scoring("roc_auc", None, np.array([0, 1] * 5), "binary")
RMSE = resolve_scoring("neg_root_mean_squared_error", None, np.arange(9.0), "regression")


def unseen(low: float, high: float, metric: str = "roc_auc", **changes: Any) -> Verdict:
    middle = 0.8 if math.isnan(low) else 0.8 + (low + high) / 2
    options = {"tolerance": 0.05, "n_units": 90, **changes}
    return Verdict("90 unseen rows", metric, middle, 0.8, low, high, **options)


def guessed(low: float, high: float) -> Guessing:
    """Return verdicts of all features and of the best subset against guessing."""
    verdict = replace(unseen(low, high), rival="guessing")
    return Guessing(
        {"all_features": replace(verdict, subset="all features"), "best_subset": verdict}
    )


def result_of(space: SearchSpace, size: int, confirmation: Any = None) -> Any:
    """Return the result of a search whose best subset has the first columns."""
    columns = list(space.columns[:size])
    return SimpleNamespace(
        features=columns,
        best_mask=space.mask(columns),
        space=space,
        confirmation=confirmation,
        cost=0.15,
    )


def headline_of(
    scoring: Any,
    evidence: Verdict | None,
    gain: float | None,
    sizes: tuple[int, ...] = (4, 2),
    n_rows: int = 100,
    guessing: Guessing | None = None,
    goal: Any = "score",
    origin: str = "search",
) -> Headline:
    """Return the headline of a subset that costs `gain` less than all features on fresh folds."""
    confirmation = None
    if gain is not None:
        wave = 0.01 * np.array([1, -1] * 5)
        costs = np.array([0.2 + 0.001 * i + (0.1 + 2 * i) * wave for i in range(len(sizes))])
        masks = np.array([np.arange(6) < size for size in sizes])
        confirmation = Confirmation(
            Candidates.build(
                masks,
                np.full(len(sizes), 0.15),
                fresh_fold_costs=costs,
                origin=np.full(len(sizes), origin),
            ),
            0.2 + gain + wave,
            0.9 * n_rows,
            0.1 * n_rows,
            goal,
            0.25,
            n_fits=0,
        )
    result = result_of(SPACE, sizes[0], confirmation)
    judgement: Any = None
    if evidence is not None:
        judgement = SimpleNamespace(verdict=evidence, guessing=guessing)
    return headline(result, scoring, judgement)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (-0.089, -0.0004, "(-0.0890 to -0.0004)"),
        (0.00002, 0.05, "(+0.00002 to +0.05000)"),
        (-0.0004, 0.05, "(+0.000 to +0.050)"),
        (-0.0004, 0.0002, "(-0.0004 to +0.0002)"),
        (-1e-17, 0.0, "(+0.000 to +0.000)"),
    ],
)
def test_an_interval_without_0_is_shown_without_it(low: float, high: float, shown: str) -> None:
    assert shown in sentence(unseen(low, high), 4)


@pytest.mark.parametrize(
    ("value", "shown", "change"),
    [
        (0.5, "0.500", "+0.500"),
        (0.0042, "0.0042", "+0.004"),
        (0.000142, "0.000142", "+0.0001"),
        (-0.0, "0.000", "+0.000"),
        (1234.5, "1,234", "+1,234"),
    ],
)
def test_errors_in_small_units_are_not_shown_as_0(value: float, shown: str, change: str) -> None:
    assert (format_score(value), format_signed(value)) == (shown, change)


@pytest.mark.parametrize(
    ("evidence", "gain", "title", "first"),
    [
        (unseen(0.01, 0.05), 0.1, "Keep 4 of 6 columns: better than all", "90 unseen rows"),
        (
            unseen(-0.0112, 0.05),
            0.1,
            "Keep 4 of 6 columns: at most 1.2 points worse than all",
            "90 unseen rows",
        ),
        (
            unseen(-0.07, 0.031),
            0.1,
            "Too few unseen rows to tell: 4 of 6 columns are between 7 points worse and 3.1 better",
            "90 unseen rows",
        ),
        (
            None,
            0.1,
            "4 of 6 columns selected, not tested on unseen rows",
            "10 new folds of the same rows",
        ),
        (unseen(-0.23, -0.07), 0.1, "Keep all 6 columns: the best 4 are worse", "90 unseen rows"),
        (
            unseen(-0.01, 0.05),
            -0.1,
            "Keep all 6 columns: the best 4 are worse",
            "10 new folds of the same rows",
        ),
        (None, -0.1, "Keep all 6 columns: the best 4 are worse", "10 new folds of the same rows"),
        (
            unseen(math.nan, math.nan),
            None,
            "Too few unseen rows to tell whether 4 of 6 columns are as good as all",
            None,
        ),
    ],
)
def test_the_title_follows_the_evidence_and_the_first_figure_supports_it(
    evidence: Verdict | None, gain: float | None, title: str, first: str | None
) -> None:
    head = headline_of(AUC, evidence, gain)
    assert head.title == title
    assert head.names_features == (not title.startswith(("Keep all", "Too few")))
    assert first is None or head.evidence[0].rows == first
    assert head.evidence[0].answer == head.verdict or not head.tested
    assert head.verdict != "better" or head.tested
    assert str(head).splitlines() == [f"{title}.", *head.sentences()]


def test_all_features_are_not_compared_with_themselves() -> None:
    for evidence in (None, unseen(0.0, 0.0)):
        for gain in (None, 0.0):
            head = headline_of(AUC, evidence, gain, sizes=(6, 2))
            assert head.title == "Keep all 6 columns"
            assert "ROC AUC of all features: 0.850 in the search" in head.searched
            assert all("0.800 with all." in text for text in head.sentences())
            assert len(head.evidence) == (evidence is not None) + (gain is not None)
            assert not head.names_features


def test_forbidden_columns_do_not_count_among_all_features() -> None:
    space = SearchSpace.build(SPACE.columns, forbidden=["x5"])
    assert headline(result_of(space, 5), AUC).title == "Keep all 5 columns"
    assert headline(result_of(SearchSpace.build(["x0"]), 1), AUC).title == "Keep the only column"


def test_evidence_is_told_in_the_metric_of_the_search_with_its_own_sign() -> None:
    (fresh,) = headline_of(AUC, None, 0.1).evidence
    assert (fresh.chosen, fresh.everything) == pytest.approx((0.8, 0.7))
    assert fresh.low < 0.1 < fresh.high
    beginning = "ROC AUC on 10 new folds of the same rows: 0.800 with 4, 0.700 with all; +0.100 (+"
    assert sentence(fresh, 4).startswith(beginning)
    (error,) = headline_of(RMSE, None, 0.1).evidence
    assert (error.chosen, error.everything) == pytest.approx((0.2, 0.3))
    assert error.low < -0.1 < error.high < 0
    assert error.outcome == "better"
    assert (
        "RMSE on 10 new folds of the same rows: 0.200 with 4, 0.300 with all; -0.100 (-"
        in sentence(error, 4)
    )
    assert (
        "RMSE of this subset: 0.150 in the search, 0.200" in headline_of(RMSE, None, 0.1).searched
    )
    assert "AUC of this subset: 0.850 in the search, 0.800" in headline_of(AUC, None, 0.1).searched
    assert "(winner's curse +0.050)" in headline_of(AUC, None, 0.1).searched


def test_with_more_columns_than_rows_fresh_folds_are_not_trusted_to_show_the_optimism() -> None:
    doubt = "Fresh folds have the rows of the search"
    evidence = unseen(0.01, 0.05)
    assert doubt in headline_of(AUC, evidence, 0.1, n_rows=5).searched
    assert doubt not in headline_of(AUC, evidence, 0.1, n_rows=6).searched
    assert doubt in headline_of(AUC, None, 0.1).searched


def test_columns_that_a_ranking_proposed_are_told_to_be_its_first() -> None:
    head = headline_of(AUC, unseen(0.01, 0.05), 0.1, origin="extra-trees ranking")
    note = "They are the first of the extra-trees ranking: no searched subset is better."
    assert head.answer()[1] == note
    assert str(head).endswith(note)
    # The ranking of a fold has not seen its test rows, so there is no winner's curse.
    assert "0.800 on fresh folds, each with the ranking of its own" in head.searched
    assert "winner's curse" not in head.searched
    searched = headline_of(AUC, unseen(0.01, 0.05), 0.1)
    assert (searched.origin, len(searched.notes), len(head.notes)) == ("", 1, 2)
    no_gain = guessed(-0.02, 0.01)
    guessing_head = headline_of(AUC, unseen(0.01, 0.05), 0.1, guessing=no_gain, origin="a ranking")
    assert guessing_head.notes == []


@pytest.mark.parametrize(
    ("bounds", "outcome", "title"),
    [
        ((-0.02, 0.0211), "not beaten", "ignoring them: at most 2.2 points better than guessing"),
        (
            (-0.3, -0.01),
            "worse",
            "worse than guessing: check the loss, the outliers and the labels",
        ),
        ((-0.02, 0.2), "unclear", "Too few unseen rows to tell the model from guessing"),
        ((math.nan, math.nan), "unclear", "Too few unseen rows to tell the model from guessing"),
    ],
)
def test_nothing_is_kept_for_a_gain_over_all_features_without_one_over_guessing(
    bounds: tuple[float, float], outcome: str, title: str
) -> None:
    for evidence in (unseen(0.01, 0.05), unseen(-0.01, 0.05)):
        beaten = headline_of(AUC, evidence, 0.1, guessing=guessed(0.01, 0.3))
        head = headline_of(AUC, evidence, 0.1, guessing=guessed(*bounds))
        assert (head.guessing, head.loses) == (outcome, True)
        assert head.title.endswith(title)
        assert "by guessing" in head.sentences()[0]
        assert (beaten.names_features, head.names_features) == (True, False)
        assert beaten.alternative
        assert head.alternative == ""


def test_a_contender_beats_guessing_though_all_features_do_worse_than_it() -> None:
    guessing = guessed(-0.3, -0.01)
    assert guessing.outcome == "worse"
    better = replace(guessing.verdicts["best_subset"], low=0.01, high=0.1)
    verdicts = {**guessing.verdicts, "best_subset": better}
    assert Guessing(verdicts).outcome == "beaten"


@pytest.mark.parametrize(
    ("low", "high", "rival", "needed"),
    [
        # Four times the rows halve the width, which shows a loss of 2 points to be within 5.
        (-0.08, 0.04, "all features", 360),
        # Half the width excludes 0 for a loss of 4 points.
        (-0.12, 0.04, "all features", 360),
        (-0.04, 0.04, "all features", None),
        (-0.12, -0.04, "all features", None),
        # Half the width excludes 0 for a gain of 4 points, and a gain of 5 if there is none.
        (-0.04, 0.12, "guessing", 360),
        (-0.1, 0.1, "guessing", 360),
        (0.01, 0.1, "guessing", None),
        (-0.1, 0.04, "guessing", None),
        (math.nan, math.nan, "guessing", None),
    ],
)
def test_rows_that_would_tell_are_named_unless_these_do(
    low: float, high: float, rival: str, needed: int | None
) -> None:
    verdict = replace(unseen(low, high), rival=rival)
    assert verdict.n_needed == needed
    assert ("About 360 unseen rows would tell." in sentence(verdict, 4)) == (needed is not None)
    groups = replace(verdict, unit="group", n_units=9)
    assert ("About 36 unseen groups" in sentence(groups, 4)) == (needed is not None)


@pytest.mark.parametrize(
    ("metric", "value", "up", "shown"),
    [
        ("accuracy", 0.0712, False, "7.1 points"),
        ("accuracy", 0.0712, True, "7.2 points"),
        ("accuracy", 0.12, True, "12 points"),
        ("r2", 0.01, False, "1 point"),
        ("accuracy", 0.0, True, "0 points"),
        ("accuracy", 0.00012, True, "0.012 points"),
        ("root_mean_squared_error", 1234.5, True, "1,300"),
        ("root_mean_squared_error", 0.0123, False, "0.012"),
        ("log_loss", 3.0, True, "3"),
    ],
)
def test_bounds_have_two_digits_in_points_of_a_share_and_are_no_tighter_than_they_are(
    metric: str, value: float, up: bool, shown: str
) -> None:
    assert amount(metric, value, up=up) == shown


@pytest.mark.parametrize(
    ("gain", "sizes", "kept"),
    [
        # The alternative is the smallest subset that is not worse than all features.
        (0.0, (4, 2), 2),
        (0.0, (2, 4), None),
        # A subset that is hardly smaller is no alternative.
        (0.0, (5, 4), None),
        # Nor are all features, though they are not worse than themselves.
        (0.0, (4, 6), None),
        (-0.3, (4, 2), None),
        (None, (4, 2), None),
    ],
)
def test_the_subset_of_another_goal_is_named_unless_it_is_the_answer(
    gain: float | None, sizes: tuple[int, ...], kept: int | None
) -> None:
    alternative = headline_of(AUC, unseen(0.01, 0.05), gain, sizes).alternative
    if kept is None:
        assert alternative == ""
    else:
        assert f"keeps {kept} columns, ROC AUC 0.799 on new folds" in alternative
        assert f"(these {sizes[0]}: 0.800): x0, x1." in alternative


def test_the_smallest_set_is_told_with_the_one_of_the_lowest_cost() -> None:
    alternative = headline_of(AUC, unseen(0.01, 0.05), 0.1, goal="size").alternative
    assert alternative.startswith("Goal 'score' keeps 4 columns, ROC AUC 0.800")
    # The two differ by less than can be seen under the default goal.
    assert "'score'" not in headline_of(AUC, unseen(0.01, 0.05), 0.1, goal="balanced").alternative


def test_all_features_that_cannot_be_fitted_are_no_alternative() -> None:
    head = headline_of(AUC, None, math.inf)
    # If all features cannot be fitted, there is nothing to compare with and no gain.
    assert head.title == "4 of 6 columns selected, not compared with all"
    assert head.evidence == ()


def test_the_columns_are_listed_below_the_title_unless_they_are_all() -> None:
    better = headline_of(AUC, unseen(0.01, 0.05), None)
    names = [f"column {i}" for i in range(4)]
    assert chosen_columns(better, names, 80) == "  column 0, column 1, column 2, column 3"
    assert chosen_columns(better, names, 30) == "  column 0 and 3 more"
    worse = headline_of(AUC, unseen(-0.23, -0.07), None)
    assert chosen_columns(worse, names, 50) == "  The best 4: column 0, column 1 and 2 more"
    everything = headline_of(AUC, None, None, sizes=(6, 2))
    assert chosen_columns(everything, names, 80) == ""


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        (unseen(0.01, 0.05), {"SWM112", "SWM205"}),
        (unseen(-0.01, 0.05), {"SWM112"}),
        (None, {"SWM112", "SWM205"}),
    ],
)
def test_doubts_are_not_what_a_headline_without_a_gain_says(
    evidence: Verdict | None, shown: set[str]
) -> None:
    findings = [make_finding("SWM112", "a"), make_finding("SWM205", "b")]
    findings.append(replace(make_finding("SWM204", "c"), severity="note"))
    assert {finding.code for finding in doubts(headline_of(AUC, evidence, None), findings)} == shown


@pytest.mark.parametrize("loses", [False, True])
def test_a_model_has_a_sentence_with_its_columns_which_says_if_all_are_better(loses: bool) -> None:
    row = {"value": 0.8, "n_models": 3, "n_features": 5}
    names = ("ensemble", "best_subset", "all_features")
    judgement: Any = SimpleNamespace(
        first_metric=dict.fromkeys(names, row),
        metrics=["roc_auc"],
        loses=loses,
        verdict=SimpleNamespace(outcome="worse" if loses else "no clear difference"),
    )
    for name in names:
        sentence_of_model = model_score(judgement, name)
        assert "ROC AUC 0.800 on the unseen rows, needs 5 columns" in sentence_of_model
        assert ("worse than all columns" in sentence_of_model) == (loses and name != "all_features")
