"""The decision whether the chosen columns should be kept.

It compares one model of the chosen columns with one model of all columns, paired, in the metric of
the search: on test rows that no search saw, and on fresh folds of the search rows. Terminal,
report, MLflow and registration all follow this one decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from swarm.arrays import Bool
from swarm.metrics import is_lower_better
from swarm.problem.scoring import Scoring
from swarm.rounding import difference
from swarm.search.confirmation import Confirmation
from swarm.search.result import SearchResult
from swarm.statistics.resampled import Outcome, outcome_of
from swarm.validation import sentences

if TYPE_CHECKING:
    from swarm.validation.judgement import Judgement

CHOSEN, ALL = "these features", "all features"


def outcome_in(metric: str, low: float, high: float) -> Outcome:
    """Return what the interval of a difference in a metric says."""
    return outcome_of(-high, -low) if is_lower_better(metric) else outcome_of(low, high)


@dataclass(frozen=True)
class Verdict:
    """One model of the chosen columns against one model of all of them.

    Attributes
    ----------
    rows : str
        What both were scored on.
    metric : str
        Natural name.
    chosen, everything : float
        Its values.
    low, high : float
        Confidence interval of the difference, chosen minus everything; NaN if there is none.
    subset : str
        What the chosen columns are called; `ALL` if they are all.
    """

    rows: str
    metric: str
    chosen: float
    everything: float
    low: float
    high: float
    subset: str = CHOSEN

    @property
    def difference(self) -> float:
        """Chosen minus everything."""
        return float(difference(self.chosen, self.everything))

    @property
    def outcome(self) -> Outcome:
        """How the chosen columns compare with all."""
        return outcome_in(self.metric, self.low, self.high)


@dataclass(frozen=True)
class Headline:
    """Whether the chosen columns should be kept, and the evidence for it."""

    # ``worse`` if either comparison is significantly worse; else that of the test rows. The search
    # chose on the rows of the fresh folds: alone they cannot show that a subset is better.
    verdict: Outcome
    n_features: int
    n_available: int
    # that which supports the verdict first, the test rows before the fresh folds
    evidence: tuple[Verdict, ...] = ()
    # The subset that another goal would keep; empty if there is none, or nothing beats guessing.
    alternative: str = ""
    # Which ranking the chosen columns are of; empty if of the search, or nothing beats guessing.
    origin: str = ""
    searched: str = ""  # score of the chosen subset in the search, and the winner's curse
    # Whether the chosen columns were compared with all on rows that no search saw.
    tested: bool = True
    # Whether the chosen columns or all of them significantly beat a model that ignores the
    # features, on the test rows. True without test rows.
    beats_guessing: bool = True

    def __str__(self) -> str:
        return "\n".join([f"{self.title}.", *self.sentences(), *filter(None, [self.origin])])

    @property
    def title(self) -> str:
        """The recommendation, or the statement that its evidence is missing."""
        return sentences.title(self)

    @property
    def loses(self) -> bool:
        """Whether all features are better, or nothing is known to beat guessing."""
        return self.verdict == "worse" or not self.beats_guessing

    @property
    def names_features(self) -> bool:
        """Whether the chosen columns belong behind the title."""
        return not self.loses and self.n_features < self.n_available

    def answer(self) -> list[str]:
        """Return the sentences under the title: evidence, origin and alternative, if any."""
        return [*self.sentences()[:1], *self.notes]

    @property
    def notes(self) -> list[str]:
        """The sentences of the answer that are no evidence."""
        return [text for text in (self.origin, self.alternative) if text]

    def sentences(self) -> list[str]:
        """Return the evidence, a sentence each."""
        return [sentences.evidence(verdict, self.n_features) for verdict in self.evidence]


def headline(
    result: SearchResult,
    scoring: Scoring,
    judgement: Judgement | None = None,
    chosen: Bool | None = None,
) -> Headline:
    """Combine the verdicts on test rows and on fresh folds.

    `chosen` is the mask of another subset than the best one of the search, of which only test rows
    say something.
    """
    chosen = result.best_mask if chosen is None else chosen
    is_best = bool((chosen == result.best_mask).all())
    n_features = len(result.space.subset(chosen))
    verdicts = []
    if judgement is not None:
        unseen = judgement.verdict
        if not scoring.reads_answers:
            # The scorer may read the rows, and cannot be bootstrapped.
            rows = f"{unseen.rows}, in another metric than {scoring.metric!r}"
            unseen = replace(unseen, rows=rows)
        verdicts.append(unseen)
    confirmation = result.confirmation if is_best else None
    if confirmation is not None and confirmation.gain is not None:
        verdicts.append(_on_fresh_folds(confirmation, scoring))
    if n_features == result.space.n_allowed:
        verdicts = [replace(verdict, subset=ALL) for verdict in verdicts]
    tested = judgement is not None
    outcome: Outcome = "no clear difference"
    if any(verdict.outcome == "worse" for verdict in verdicts):
        outcome = "worse"
    elif tested:
        outcome = verdicts[0].outcome
    verdicts.sort(key=lambda verdict: verdict.outcome != outcome)
    beats_guessing = judgement is None or judgement.beats_guessing
    has_notes = is_best and beats_guessing
    return Headline(
        verdict=outcome,
        n_features=n_features,
        n_available=result.space.n_allowed,
        evidence=tuple(verdicts),
        alternative=sentences.alternative(result, scoring) if has_notes else "",
        origin=sentences.origin(result) if has_notes else "",
        searched=sentences.searched(result, scoring, tested) if is_best else "",
        tested=tested,
        beats_guessing=beats_guessing,
    )


def _on_fresh_folds(confirmation: Confirmation, scoring: Scoring) -> Verdict:
    gain = confirmation.gain
    assert gain is not None
    # A gain is a lower cost.
    low, high = scoring.natural_difference(-gain.high, -gain.low)
    return Verdict(
        rows=f"{confirmation.n_folds} new folds of the same rows",
        metric=scoring.metric,
        chosen=scoring.natural(confirmation.cost),
        everything=scoring.natural(confirmation.baseline_cost),
        low=low,
        high=high,
    )
