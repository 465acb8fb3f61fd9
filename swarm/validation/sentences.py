"""The sentences on a judgement and a headline, and the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from swarm.metrics import display_name, value_range
from swarm.problem.scoring import Scoring
from swarm.search.candidates import SEARCH
from swarm.search.elimination import ELIMINATION
from swarm.search.result import SearchResult
from swarm.validation.contenders import CONTENDERS
from swarm.validation.jackknife import MIN_GROUPS
from swarm.wording import aligned, counted, listed, listed_within

if TYPE_CHECKING:
    from swarm.validation.judgement import Judgement
    from swarm.validation.verdict import Headline, Verdict

# Names of the contenders in tables.
IN_TABLES = {
    "ensemble": "ensemble of the best subsets",
    "best_subset": "best single subset",
    "all_features": "all features, one model",
    "all_features_ensemble": "all features, same vote",
    "random_subsets": "random subsets, same vote",
}
# Columns that are named below the title; `swarm features` and `subset_` have all of them.
_MAX_NAMED = 10
# Columns that are named of the subset that another goal would keep.
_MAX_NAMED_IN_SENTENCE = 4
# A smaller subset is worth a line if it has at most this share of the columns.
_MAX_SHARE_OF_ALTERNATIVE = 0.75


def format_score(value: float, digits: int | None = None) -> str:
    """Format a metric; values near 0, such as errors in small units, have three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if digits is None and 0 < abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:z.{3 if digits is None else digits}f}"


def format_signed(value: float, digits: int | None = None) -> str:
    """Format a difference with its sign."""
    if abs(value) >= 100:
        return f"{value:+,.0f}"
    if digits is None and 0 < abs(value) < 0.0005:
        return f"{value:+.1g}"
    return f"{value:+z.{3 if digits is None else digits}f}"


def interval_digits(low: float, high: float) -> int:
    """Return the fewest decimals, three to six, at which rounding moves no bound to or across 0.

    An interval wider than rounding errors is never shown as 0 to 0.
    """
    if max(abs(low), abs(high)) < 1e-9:
        return 3

    def keeps_signs(digits: int) -> bool:
        a, b = round(low, digits), round(high, digits)
        return (a > 0) == (low > 0) and (b < 0) == (high < 0) and (a, b) != (0, 0)

    return next(filter(keeps_signs, range(3, 6)), 6)


def format_bounds(low: float, high: float) -> tuple[str, str]:
    """Format the bounds of an interval."""
    digits = interval_digits(low, high)
    return format_signed(low, digits), format_signed(high, digits)


def format_signed_interval(difference: float, low: float, high: float) -> str:
    """Format a difference with its sign, and with its interval if it has one."""
    if math.isnan(low):
        return format_signed(difference)
    return f"{format_signed(difference)} [{', '.join(format_bounds(low, high))}]"


def amount(metric: str, value: float, *, up: bool = False) -> str:
    """Format a positive difference with two digits, in points if the score is at most 1."""
    is_share = value_range(metric)[1] == 1.0
    value = 100.0 * value if is_share else value
    if value > 0.0:
        step = 10.0 ** (math.floor(math.log10(value)) - 1)
        # The divisor is rounded too: a value of two digits must not be rounded up.
        value = step * (math.ceil(value / step - 1e-6) if up else round(value / step))
    text = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
    return f"{text} {'point' if text == '1' else 'points'}" if is_share else text


def unseen_rows(n_rows: int, n_groups: int | None) -> str:
    """Name the test rows, with their groups if they have any."""
    rows = f"{n_rows:,} unseen rows"
    return rows if n_groups is None else f"{rows} of {counted(n_groups, 'group')}"


# ---------------------------------------------------------------- headline


def title(head: Headline) -> str:
    """Return the recommendation, no stronger than its evidence."""
    n_features = f"{head.n_features:,}"
    n_available = f"{head.n_available:,}"
    columns = f"{n_features} of {n_available} columns"
    if not head.beats_guessing:
        return _no_gain(head)
    if head.n_features == head.n_available:
        return f"Keep all {n_available} columns" if head.n_available > 1 else "Keep the only column"
    if head.verdict == "worse":
        verb = "is" if head.n_features == 1 else "are"
        return f"Keep all {n_available} columns: the best {n_features} {verb} worse"
    if head.verdict == "better":
        return f"Keep {columns}: better than all"
    if not head.evidence:
        return f"{columns} selected, not compared with all"
    if not head.tested:
        return f"{columns} selected, not tested on unseen rows"
    unseen = head.evidence[0]
    low, high = unseen.gain
    if head.verdict == "not worse":
        return f"Keep {columns}: at most {amount(unseen.metric, -low, up=True)} worse than all"
    start = f"Too few unseen {unseen.unit}s to tell"
    if math.isnan(low):
        return f"{start} whether {columns} are as good as all"
    loss = amount(unseen.metric, -low)
    gain = amount(unseen.metric, high).split()[0]
    return f"{start}: {columns} are between {loss} worse and {gain} better"


def _no_gain(head: Headline) -> str:
    """Return the title if no gain over guessing is known."""
    verdict = head.evidence[0]
    if head.guessing == "worse":
        return "All columns do worse than guessing: check the loss, the outliers and the labels"
    if head.guessing == "unclear":
        return f"Too few unseen {verdict.unit}s to tell the model from guessing"
    text = "No columns beat ignoring them"
    largest_gain = verdict.gain[1]
    if largest_gain <= 0.0:
        return text
    return f"{text}: at most {amount(verdict.metric, largest_gain, up=True)} better than guessing"


def chosen_columns(head: Headline, names: Sequence[str], width: int) -> str:
    """List the chosen columns on a line below the title; empty if these are all columns."""
    if head.n_features == head.n_available:
        return ""
    start = "  " if head.names_features else f"  The best {head.n_features:,}: "
    return listed_within(width, start, names, _MAX_NAMED)


def evidence(verdict: Verdict, n_features: int) -> str:
    """State both values of a verdict and their difference, or the value of all features."""
    names = {"these features": f"{n_features:,}", "all features": "all"}
    subset = names.get(verdict.subset, verdict.subset)
    text = f"{_metric_first(verdict.metric)} on {verdict.rows}: {format_score(verdict.chosen)}"
    text += f" with {subset}"
    if verdict.subset == verdict.rival:
        return f"{text}."
    rival = "by guessing" if verdict.rival == "guessing" else "with all"
    text += f", {format_score(verdict.everything)} {rival}"
    if math.isnan(verdict.low):
        hint = f" At least {MIN_GROUPS} groups could tell." if verdict.unit == "group" else ""
        return f"{text}.{hint}"
    interval = " to ".join(format_bounds(verdict.low, verdict.high))
    text += f"; {format_signed(verdict.difference)} ({interval})."
    if verdict.n_needed is not None:
        text += f" About {counted(verdict.n_needed, f'unseen {verdict.unit}')} would tell."
    return text


def alternative(result: SearchResult, scoring: Scoring) -> str:
    """Name the confirmed subset that another goal would keep, with its score on fresh folds.

    Another goal than ``size`` is compared with ``size``: the smallest subset that is not worse than
    all features. ``size`` is compared with ``score``: the subset with the lowest cost. The sentence
    is empty if that is the result too, or all features, or hardly smaller.
    """
    confirmation = result.confirmation
    if confirmation is None:
        return ""
    candidates = confirmation.candidates
    chosen = confirmation.chosen
    if confirmation.goal == "size":
        goal = "score"
        row: int | None = replace(confirmation, goal="score").chosen
    else:
        goal = "size"
        row = confirmation.smallest
    if row is None or row == chosen or (candidates.masks[row] | result.space.forbidden).all():
        return ""
    names = result.space.subset(candidates.masks[row])
    n_chosen = len(result.features)
    if goal == "size" and len(names) > _MAX_SHARE_OF_ALTERNATIVE * n_chosen:
        return ""
    score = format_score(scoring.natural(candidates.fresh_costs[row]))
    chosen_score = format_score(scoring.natural(candidates.fresh_costs[chosen]))
    return (
        f"Goal {goal!r} keeps {counted(len(names), 'column')}, "
        f"{display_name(scoring.metric)} {score} on new folds "
        f"(these {n_chosen:,}: {chosen_score}): {listed(names, _MAX_NAMED_IN_SENTENCE)}."
    )


def origin(result: SearchResult) -> str:
    """Name the origin of the result; empty if it is from the search, or all features."""
    confirmation = result.confirmation
    if confirmation is None or confirmation.origin == SEARCH:
        return ""
    if len(result.features) == result.space.n_allowed:
        return ""
    text = f"They are the first of the {confirmation.origin}"
    if confirmation.replaces_search:
        return f"{text}; nothing was searched."
    if confirmation.origin == ELIMINATION:
        text = "They are what recursive elimination leaves"
    clearly = "clearly " if confirmation.origin in confirmation.preferred else ""
    return f"{text}: no searched subset is {clearly}better."


def cost_as_score(result: SearchResult, scoring: Scoring, cost: float) -> str:
    """State the score of a cost that selects subsets, and on which folds it is measured."""
    confirmation = result.confirmation
    where = "in the search"
    if confirmation is not None and confirmation.replaces_search:
        where = f"on {confirmation.n_folds} new folds"
    return f"{display_name(scoring.metric)} {format_score(scoring.natural(cost))} {where}"


def searched(result: SearchResult, scoring: Scoring, tested: bool) -> str:
    """State the score of the result in the search, and the winner's curse."""
    score = format_score(scoring.natural(result.cost))
    subset = "all features" if len(result.features) == result.space.n_allowed else "this subset"
    confirmation = result.confirmation
    start = f"{_metric_first(scoring.metric)} of {subset}: {score}"
    if confirmation is not None and confirmation.replaces_search:
        return (
            f"{start} on {confirmation.n_folds} fresh folds, each with the ranking of its own "
            "training rows; the choice among the sizes flatters it by at most about "
            f"{format_score(confirmation.bias_of_choice)}."
        )
    text = f"{start} in the search"
    if confirmation is None:
        return f"{text}."
    fresh = format_score(scoring.natural(confirmation.cost))
    if confirmation.origin != SEARCH:
        procedure = "elimination" if confirmation.origin == ELIMINATION else "ranking"
        return (
            f"{text}, {fresh} on fresh folds, each with the {procedure} of its own training rows."
        )
    # A difference of costs is positive if the score of the search is too good.
    curse = format_signed(confirmation.cost - confirmation.searched_cost)
    text = f"{text}, {fresh} on fresh folds (winner's curse {curse})."
    if not tested or result.space.n_columns > confirmation.n_train + confirmation.n_test:
        text += " Fresh folds have the rows of the search, so they may show little of its optimism."
    return text


def _metric_first(metric: str) -> str:
    """Return the name of a metric that begins a sentence."""
    name = display_name(metric)
    return f"{name[:1].upper()}{name[1:]}"


# ---------------------------------------------------------------- judgement


def against_baseline(judgement: Judgement) -> str:
    """Compare the ensemble with all features and the same vote, in the first metric."""
    baseline = "all_features_ensemble"
    ensemble = judgement.first_metric["ensemble"]
    rival = judgement.first_metric[baseline]
    low, high = rival["difference_low"], rival["difference_high"]
    conclusion = {
        "better": f"which favours {CONTENDERS['ensemble']}",
        "worse": f"which favours {CONTENDERS[baseline]}",
    }.get(judgement.outcome(baseline), "which is not distinguishable from none")
    if math.isnan(low):
        conclusion = f"which has no interval, as {_without_interval(judgement)}"
    return (
        f"On {unseen_rows(judgement.n_rows, judgement.n_groups)} the ensemble of "
        f"{counted(ensemble['n_models'], 'subset')} "
        f"({counted(ensemble['n_features'], 'column')} together) scores "
        f"{display_name(judgement.metrics[0])} {format_score(ensemble['value'])}"
        f"{_interval(ensemble['low'], ensemble['high'])} against "
        f"{format_score(rival['value'])} for {CONTENDERS[baseline]}: a difference of "
        f"{format_score(rival['difference'])}"
        f"{_interval(low, high)}, {conclusion}."
    )


def contender_scores(judgement: Judgement) -> str:
    """State the scores of all contenders in the first metric, a line each, and what they say."""
    rows = [
        (IN_TABLES[name], f"{format_score(row['value'])}{_interval(row['low'], row['high'])}")
        for name, row in judgement.first_metric.items()
    ]
    scored = f"{_metric_first(judgement.metrics[0])} on "
    scored += f"{unseen_rows(judgement.n_rows, judgement.n_groups)}:"
    return "\n".join([scored, aligned(rows), judgement.sentence()])


def model_score(judgement: Judgement, contender: str) -> str:
    """State the score of a stored model, the columns that it needs, and whether all are better.

    The contender is `ensemble`, or the single model of `best_subset` or `all_features`.
    """
    row = judgement.first_metric[contender]
    score = f"{display_name(judgement.metrics[0])} {format_score(row['value'])} on the unseen rows"
    columns = counted(row["n_features"], "column")
    if contender == "ensemble":
        worse = ", and is worse than all columns" if judgement.loses else ""
        return f"Ensemble of {row['n_models']} models: {score}, needs {columns}{worse}."
    is_worse = contender == "best_subset" and judgement.verdict.outcome == "worse"
    worse = ", and is worse than all columns" if is_worse else ""
    subset = "all columns" if contender == "all_features" else "the subset"
    return f"Model of {subset}: {score}, needs {columns}{worse}."


def positive_class_sentence(judgement: Judgement) -> str:
    """Name the positive class with its share of the training rows; empty without one."""
    if judgement.pos_label is None:
        return ""
    return f"Positive class: {judgement.pos_label}, {judgement.pos_share:.0%} of the training rows."


def _interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" [{format_score(low)}, {format_score(high)}]"


def _without_interval(judgement: Judgement) -> str:
    if not judgement.jackknife.is_measured and judgement.n_groups is not None:
        return f"there are fewer than {MIN_GROUPS} groups"
    return "there is one row" if judgement.n_rows == 1 else "the metric is undefined on these rows"
