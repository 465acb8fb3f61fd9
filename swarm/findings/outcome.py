"""Findings of a finished search and of its evaluation on test rows."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float
from swarm.findings.registry import Finding, make_finding
from swarm.metrics import display_name
from swarm.problem.space import SearchSpace
from swarm.rounding import difference
from swarm.search.result import SearchResult
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.judgement import Judgement
from swarm.validation.sentences import format_score
from swarm.validation.stability import interpret_index, nogueira
from swarm.validation.verdict import Headline

# See the reason of SWM205.
_ROWS_PER_LOG_SUBSET = 50
# Shares of the importances; the second one applies if others can replace the column: see SWM211.
_MAX_IMPORTANCE = 0.5
_MAX_IMPORTANCE_REPLACED = 2 / 3
_MIN_UNITS = 4
# A headline without a gain on unseen rows implies these findings.
_IMPLIED_BY_NO_GAIN = frozenset({"SWM202", "SWM203", "SWM205", "SWM209", "SWM210"})


def search_findings(
    result: SearchResult,
    target: NDArray[Any],
    task: str,
    judgement: Judgement | None = None,
) -> list[Finding]:
    """Return the reasons to doubt the result of a search, from the training rows."""
    # A significant gain on the test rows refutes the doubt that there were too few rows.
    is_proven = judgement is not None and judgement.verdict.outcome == "better"
    return [
        *([make_finding("SWM201", result.proxy_warning)] if result.proxy_warning else []),
        *_confirmation(result),
        *([] if is_proven else _too_few_rows(result, target, task)),
        *_agreement(result),
        *_size_bound(result),
    ]


def judgement_findings(judgement: Judgement) -> list[Finding]:
    """Return the reasons to doubt the result of a search, from the test rows."""
    rows = judgement.first_metric
    if rows["all_features"]["n_features"] == rows["best_subset"]["n_features"]:
        # Nothing was selected.
        return [*_guessing(judgement)]
    return [*_optimism(judgement), *_random(judgement), *_guessing(judgement)]


def dependence_findings(
    losses: FeatureLosses, importances: Float, space: SearchSpace
) -> list[Finding]:
    """Return the column that the result depends on; importances (n_units,) of the chosen subset.

    If importances are unknown, the loss without the column decides alone.
    """
    unit = losses.indispensable
    if unit is None:
        return _important(importances, space)
    importance = dict(zip(space.names, importances.tolist(), strict=True))[unit.name]
    share = importance / (np.nansum(importances) or math.nan)
    if share <= _MAX_IMPORTANCE:
        return []
    clause = "" if math.isnan(share) else f"has {share:.0%} of the importance, and "
    text = (
        f"{unit.name!r} {clause}without it all other columns lose {unit.lost:.0%} of the gain over "
        f"guessing: {display_name(losses.metric)} {format_score(unit.others)} instead of "
        f"{format_score(unit.chosen)} on {losses.rows}"
    )
    return [make_finding("SWM211", text, space.subset(space.mask([unit.name])))]


def _important(importances: Float, space: SearchSpace) -> list[Finding]:
    """Return the column that has most of the importance, though others can replace it."""
    shares = np.nan_to_num(importances) / (np.nansum(importances) or math.nan)
    first = int(np.argmax(shares))
    if np.isfinite(importances).sum() < _MIN_UNITS or not shares[first] > _MAX_IMPORTANCE_REPLACED:
        return []
    name = space.names[first]
    text = f"{name!r} has {shares[first]:.0%} of the importance, though others can replace it"
    return [make_finding("SWM211", text, space.subset(space.mask([name])))]


def doubts(head: Headline, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings to show with a headline, without notes and implied ones."""
    implied = _IMPLIED_BY_NO_GAIN if head.tested and head.verdict != "better" else frozenset()
    return [
        finding
        for finding in findings
        if finding.severity != "note" and finding.code not in implied
    ]


def _confirmation(result: SearchResult) -> Iterator[Finding]:
    confirmation = result.confirmation
    if confirmation is None:
        return
    gain = confirmation.gain
    # All features gain nothing over themselves.
    is_fine = _is_everything(result) or confirmation.verdict == "better"
    if gain is not None and not is_fine:
        yield make_finding(
            "SWM202",
            f"on {confirmation.n_folds} new folds the gain over all columns is {gain.mean:+z.4f} "
            f"({gain.low:+z.4f} to {gain.high:+z.4f})",
        )
    if confirmation.missed:
        yield make_finding(
            "SWM210",
            f"the goal of confirm is size, and {confirmation.reason_missed()}",
        )


def _is_everything(result: SearchResult) -> bool:
    return len(result.features) == result.space.n_allowed


def _too_few_rows(result: SearchResult, target: NDArray[Any], task: str) -> Iterator[Finding]:
    tried = result.state.counts.distinct
    rows = len(target)
    counted = f"{rows:,} rows"
    if task in ("binary", "multiclass") and target.ndim == 1:
        counts = np.unique(target, return_counts=True)[1]
        rows = min(rows, int(counts.min()) * len(counts))
        if rows < len(target):
            counted += f" with {counts.min():,} of the rarest class"
    if tried >= 2 and rows < _ROWS_PER_LOG_SUBSET * math.log(tried):
        yield make_finding("SWM205", f"{tried:,} subsets were compared on {counted}")


def _agreement(result: SearchResult) -> Iterator[Finding]:
    # Rankings agree neither with one another nor with the search.
    table = result.candidates
    masks = table.masks[table.origin == "search"]
    free = ~(result.space.fixed | result.space.forbidden)
    if len(masks) < 2 or not free.any() or _is_everything(result):
        return
    index = nogueira(masks[:, free]).index
    if not math.isnan(index) and interpret_index(index) == "poor":
        yield make_finding(
            "SWM206",
            f"the {len(masks):,} final subsets hardly agree: stability {index:.2f} of 1",
        )


def _size_bound(result: SearchResult) -> Iterator[Finding]:
    space = result.space
    size = int(result.best_mask.sum())
    if space.min_size == space.max_size:
        return
    if size == space.max_size and size < int((~space.forbidden).sum()):
        yield make_finding("SWM207", f"the subset has {size:,} units, as many as max_size allows")
    elif size == space.min_size and size > max(1, int(space.fixed.sum())):
        yield make_finding("SWM207", f"the subset has {size:,} units, as few as min_size allows")


def _optimism(judgement: Judgement) -> Iterator[Finding]:
    costs = judgement.costs
    optimism = judgement.optimism
    if optimism is None or not {"best_subset", "all_features"} <= set(costs):
        return
    gain = difference(costs["all_features"], costs["best_subset"])
    if not (math.isfinite(optimism) and math.isfinite(gain)):
        return
    if optimism > 0 and difference(optimism, gain) >= 0:
        yield make_finding(
            "SWM203",
            f"on the test rows the subset scores {optimism:.4f} worse than in the search, and "
            f"{abs(gain):.4f} {'better' if gain > 0 else 'worse'} than all columns",
        )


def _random(judgement: Judgement) -> Iterator[Finding]:
    row = judgement.first_metric["random_subsets"]
    low, high = row["difference_low"], row["difference_high"]
    outcome = judgement.outcome("random_subsets")
    if outcome == "better":
        return
    # The interval has no width if all draws are the selection, such as all features.
    if math.isnan(row["difference"]) or difference(high, low) == 0:
        return
    interval = "" if math.isnan(low) else f" ({low:+z.3f} to {high:+z.3f})"
    yield make_finding(
        "SWM204",
        f"{'worse than' if outcome == 'worse' else 'no clear gain over'} random: "
        f"{display_name(judgement.metrics[0])} {row['difference']:+z.3f}{interval}",
    )


def _guessing(judgement: Judgement) -> Iterator[Finding]:
    guess = judgement.guessing
    rows = judgement.first_metric
    if guess is None or guess.outcome == "beaten":
        return
    metric = display_name(judgement.metrics[0])
    conclusion = {
        "worse": "which is significantly worse",
        "unclear": "which these rows cannot tell apart",
        "not beaten": "and no gain that matters is possible",
    }[guess.outcome]
    yield make_finding(
        "SWM209",
        f"on {judgement.n_rows:,} test rows a model that ignores the features has "
        f"{metric} {format_score(guess.value)}, {_selection(judgement)} "
        f"{format_score(rows['ensemble']['value'])} and one model of all features "
        f"{format_score(rows['all_features']['value'])}, {conclusion}",
    )


def _selection(judgement: Judgement) -> str:
    n_models = judgement.first_metric["ensemble"]["n_models"]
    return "the ensemble" if n_models > 1 else "the selection"
