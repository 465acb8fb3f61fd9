"""The headline of a run: whether to keep the chosen columns, and the evidence for it.

The evidence compares one model of the chosen columns with one model of all columns, paired, in the
metric of the search: on test rows that no search saw, and on fresh folds of the search rows.
Terminal, report, MLflow and registration all follow this one verdict.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from swarm.problem.scoring import Scoring
from swarm.search.confirmation import Confirmation
from swarm.search.result import SearchResult, listed
from swarm.validation.judgement import ALL, Evidence, Judgement, Verdict, number, signed
from swarm.validation.metrics import display_name


@dataclass(frozen=True)
class Headline:
    """Whether the chosen columns should be kept, and the evidence for it."""

    # ``worse`` if either comparison is significantly worse; else that of the test rows. The search
    # chose on the rows of the fresh folds: alone they cannot show that a subset is better.
    verdict: Verdict
    n_features: int
    n_available: int
    # that which supports the verdict first, the test rows before the fresh folds
    evidence: tuple[Evidence, ...] = ()
    # The smallest subset that is not worse than all features; empty if it is the chosen one, or
    # nothing beats guessing.
    offer: str = ""
    searched: str = ""  # score of the chosen subset in the search, and the winner's curse
    # Whether the chosen columns were compared with all on rows that no search saw, or all features
    # cannot be fitted.
    tested: bool = True
    # Whether the chosen columns or all of them significantly beat a model that ignores the
    # features, on the test rows. True without test rows.
    beats_guessing: bool = True

    def __str__(self) -> str:
        return "\n".join([f"{self.title}.", *self.sentences()])

    @property
    def title(self) -> str:
        """One of three headlines, or the statement that their evidence is missing."""
        few, everything = f"{self.n_features:,}", f"{self.n_available:,}"
        noun = "feature" if self.n_available == 1 else "features"
        if not self.beats_guessing:
            return f"No clear gain over guessing, with {few} of {everything} {noun} or with all"
        if self.n_features == self.n_available:
            return (
                "Keep the only feature"
                if self.n_available == 1
                else f"Keep all {everything} {noun}"
            )
        if self.verdict == "better":
            return f"Keep these {few} of {everything} {noun}"
        if self.verdict == "worse":
            return f"Keep all {everything} {noun}"
        if not self.evidence:
            return f"{few} of {everything} {noun} selected, not compared with all"
        if not self.tested:
            return f"{few} of {everything} {noun} selected, not tested on unseen rows"
        return f"No clear difference: {few} of {everything} {noun} do"

    @property
    def loses(self) -> bool:
        """Whether all features are better, or nothing is known to beat guessing."""
        return self.verdict == "worse" or not self.beats_guessing

    @property
    def names_features(self) -> bool:
        """Whether the chosen columns belong behind the title."""
        return self.verdict != "worse" and self.n_features < self.n_available

    def sentences(self) -> list[str]:
        """Return the evidence, a sentence each."""
        return [one.sentence() for one in self.evidence]

    def as_dict(self) -> dict[str, Any]:
        """Return the title and the fields, NaN as None."""
        plain = asdict(self)
        for one in plain["evidence"]:
            one |= {k: None if v != v else v for k, v in one.items()}
        return {**plain, "evidence": list(plain["evidence"]), "title": self.title}


def headline(
    result: SearchResult, scoring: Scoring, judgement: Judgement | None = None
) -> Headline:
    """Combine the evidence of test rows and fresh folds."""
    confirmation = result.confirmation
    unseen = None if judgement is None else judgement.selection
    tested = unseen is not None
    found = [] if unseen is None else [unseen]
    if unseen is not None and not scoring.reads_answers:
        # The scorer may read the rows, and cannot be bootstrapped.
        found = [replace(unseen, rows=f"{unseen.rows}, in another metric than {scoring.metric!r}")]
    if confirmation is not None and confirmation.gain is not None:
        found.append(_on_fresh_folds(confirmation, scoring))
    if len(result.features) == result.space.n_allowed:
        found = [replace(one, subset=ALL) for one in found]
    if any(one.verdict == "worse" for one in found):
        verdict: Verdict = "worse"
    elif tested:
        verdict = found[0].verdict
    elif confirmation is not None and confirmation.gain is None:
        # All features cannot be fitted.
        verdict, tested = "better", True
    else:
        verdict = "no clear difference"
    found.sort(key=lambda one: one.verdict != verdict)
    beats_guessing = judgement is None or judgement.beats_guessing
    return Headline(
        verdict,
        len(result.features),
        result.space.n_allowed,
        tuple(found),
        _smallest(result) if beats_guessing else "",
        _searched(result, scoring, tested),
        tested,
        beats_guessing,
    )


def _smallest(result: SearchResult) -> str:
    """Name the smallest subset not worse than all features, if it is neither the result nor all."""
    confirmation = result.confirmation
    if confirmation is None:
        return ""
    row, masks = confirmation.smallest, confirmation.candidates.masks
    if row is None or row == confirmation.chosen:
        return ""
    # A row of all features is not worse than itself.
    if (masks[row] | result.space.forbidden).all():
        return ""
    names = result.space.subset(masks[row])
    return (
        f"Goal 'size' keeps {len(names)}, not worse than all by more than {confirmation.margin:g} "
        f"in cost at {confirmation.confidence:.0%}: {listed(names)}."
    )


def _searched(result: SearchResult, scoring: Scoring, tested: bool) -> str:
    """State the score of the result in the search, and the winner's curse."""
    found = number(scoring.natural(result.cost))
    name = display_name(scoring.metric)
    subset = "all features" if len(result.features) == result.space.n_allowed else "this subset"
    text = f"{name[:1].upper()}{name[1:]} of {subset}: {found} in the search"
    confirmation = result.confirmation
    if confirmation is None:
        return f"{text}."
    fresh = number(scoring.natural(confirmation.cost))
    # Positive if the search promised too much, whatever the sign of the metric.
    curse = signed(confirmation.cost - confirmation.searched_cost)
    text = f"{text}, {fresh} on fresh folds (winner's curse {curse})."
    if not tested or result.space.n_columns > confirmation.n_train + confirmation.n_test:
        text += " Fresh folds have the rows of the search, so they may show little of its optimism."
    return text


def _on_fresh_folds(confirmation: Confirmation, scoring: Scoring) -> Evidence:
    gain = confirmation.gain
    assert gain is not None
    # A gain is a lower cost.
    low, high = scoring.natural_difference(-gain.high, -gain.low)
    return Evidence(
        f"{confirmation.n_folds} fresh folds",
        scoring.metric,
        scoring.natural(confirmation.cost),
        scoring.natural(confirmation.baseline_cost),
        low,
        high,
    )
