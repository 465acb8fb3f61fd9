"""The decision whether the chosen columns should be kept.

It compares one model of the chosen columns with one model of all columns, paired, in the metric of
the search: on test rows that no search saw, and on fresh folds of the search rows. Terminal,
report, MLflow and registration all follow this one decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from swarm.arrays import Bool
from swarm.metrics import is_lower_better
from swarm.notebook import Drawn
from swarm.problem.scoring import Scoring
from swarm.rounding import difference
from swarm.search.confirmation import Confirmation
from swarm.search.result import SearchResult
from swarm.statistics.resampled import Outcome, outcome_of
from swarm.validation import sentences

if TYPE_CHECKING:
    from swarm.validation.judgement import Judgement

CHOSEN, ALL, ENSEMBLE, GUESSING = "these features", "all features", "the ensemble", "guessing"
# What the unseen rows tell: better than all features, worse by at most what is tolerated, worse, or
# nothing; ``unclear`` without unseen rows, too.
Answer = Literal["better", "not worse", "unclear", "worse"]
# Whether the features predict the target: ``not beaten`` if a gain that matters is excluded,
# ``worse`` if all features do significantly worse than a model that ignores them.
GuessOutcome = Literal["beaten", "not beaten", "unclear", "worse"]


def outcome_in(metric: str, low: float, high: float) -> Outcome:
    """Return what the interval of a difference in a metric says."""
    return outcome_of(-high, -low) if is_lower_better(metric) else outcome_of(low, high)


@dataclass(frozen=True)
class Verdict:
    """One model of the chosen columns against one model of all of them, or against guessing.

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
    tolerance : float
        Loss against all columns, or gain over guessing, that does not matter.
    n_units : int
        Number of test rows, or of their groups; 0 for other rows.
    unit : str
        "row" or "group".
    subset : str
        What the chosen columns are called; `ALL` if they are all.
    rival : str
        `ALL` or `GUESSING`.
    """

    rows: str
    metric: str
    chosen: float
    everything: float
    low: float
    high: float
    tolerance: float = 0.0
    n_units: int = 0
    unit: str = "row"
    subset: str = CHOSEN
    rival: str = ALL

    @property
    def difference(self) -> float:
        """Chosen minus everything."""
        return float(difference(self.chosen, self.everything))

    @property
    def gain(self) -> tuple[float, float]:
        """The interval of the improvement, whatever the sign of the metric."""
        is_error = is_lower_better(self.metric)
        return (-self.high, -self.low) if is_error else (self.low, self.high)

    @property
    def answer(self) -> Answer:
        """Which loss against all columns is excluded."""
        if self.outcome != "no clear difference":
            return self.outcome
        return "not worse" if -self.gain[0] <= self.tolerance else "unclear"

    @property
    def n_needed(self) -> int | None:
        """How many units would decide, if the difference stays as it is; None if it is decided."""
        low, high = self.gain
        middle, reach = (low + high) / 2.0, (high - low) / 2.0
        if self.rival == GUESSING:
            is_open, distance = low <= 0 and high >= self.tolerance, self.tolerance - middle
            distance = max(distance, middle)
        else:
            is_open, distance = self.answer == "unclear", max(self.tolerance + middle, -middle)
        if not is_open or math.isnan(reach) or not self.n_units or distance <= 0:
            return None
        needed = self.n_units * (reach / distance) ** 2
        step = int(10 ** max(0, math.floor(math.log10(needed)) - 1))
        return math.ceil(needed / step - 1e-6) * step

    @property
    def outcome(self) -> Outcome:
        """How the chosen columns compare with all."""
        return outcome_in(self.metric, self.low, self.high)


@dataclass(frozen=True)
class Guessing:
    """Contenders against a model that ignores the features."""

    verdicts: Mapping[str, Verdict]  # by contender

    @property
    def value(self) -> float:
        """The metric of guessing."""
        return self.verdicts["all_features"].everything

    @property
    def outcome(self) -> GuessOutcome:
        """Whether any contender beats guessing."""
        verdicts = self.verdicts.values()
        if any(verdict.outcome == "better" for verdict in verdicts):
            return "beaten"
        if self.verdicts["all_features"].outcome == "worse":
            return "worse"
        # Also if there is no interval.
        is_excluded = all(verdict.gain[1] < verdict.tolerance for verdict in verdicts)
        return "not beaten" if is_excluded else "unclear"

    @property
    def shown(self) -> Verdict:
        """The verdict of the contender that may gain most, or of all features that do worse."""
        if self.outcome == "worse":
            return self.verdicts["all_features"]
        return max(self.verdicts.values(), key=lambda verdict: verdict.gain[1])


@dataclass(frozen=True)
class Headline(Drawn):
    """Whether the chosen columns should be kept, and the evidence for it."""

    # ``worse`` if either comparison is significantly worse; else that of the test rows. The search
    # chose on the rows of the fresh folds: alone they cannot show that a subset is better.
    verdict: Answer
    n_features: int
    n_available: int
    # that against guessing first unless it is beaten, then that which supports the verdict, the
    # test rows before the fresh folds
    evidence: tuple[Verdict, ...] = ()
    # The subset that another goal would keep; empty if there is none, or nothing beats guessing.
    alternative: str = ""
    # Which ranking the chosen columns are of; empty if of the search, or nothing beats guessing.
    origin: str = ""
    searched: str = ""  # score of the chosen subset in the search, and the winner's curse
    # Whether the chosen columns were compared with all on rows that no search saw.
    tested: bool = True
    guessing: GuessOutcome = "beaten"  # also without test rows

    def __str__(self) -> str:
        return "\n".join([f"{self.title}.", *self.sentences(), *filter(None, [self.origin])])

    @property
    def title(self) -> str:
        """The recommendation, or the statement that its evidence is missing."""
        return sentences.title(self)

    @property
    def beats_guessing(self) -> bool:
        """Whether the chosen columns or all of them are known to beat guessing."""
        return self.guessing == "beaten"

    @property
    def keeps_all(self) -> bool:
        """Whether the recommendation is to keep all columns."""
        is_all = self.n_features == self.n_available
        return self.beats_guessing and (is_all or self.verdict == "worse")

    @property
    def is_told(self) -> bool:
        """Whether the test rows tell how the chosen columns compare with all."""
        return self.tested and self.verdict != "unclear"

    @property
    def loses(self) -> bool:
        """Whether all features are better, or nothing is known to beat guessing."""
        return self.verdict == "worse" or not self.beats_guessing

    @property
    def names_features(self) -> bool:
        """Whether the chosen columns belong behind the title."""
        is_kept = self.is_told or not self.tested
        return is_kept and not self.loses and self.n_features < self.n_available

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
            # The scorer may read the rows, and cannot be computed without some.
            rows = f"{unseen.rows}, in another metric than {scoring.metric!r}"
            unseen = replace(unseen, rows=rows)
        verdicts.append(unseen)
    confirmation = result.confirmation if is_best else None
    if confirmation is not None and confirmation.gain is not None:
        verdicts.append(_on_fresh_folds(confirmation, scoring))
    is_everything = n_features == result.space.n_allowed
    if is_everything:
        verdicts = [replace(verdict, subset=ALL) for verdict in verdicts]
    tested = judgement is not None
    outcome: Answer = "unclear"
    if is_everything:
        outcome = "not worse"
    elif any(verdict.outcome == "worse" for verdict in verdicts):
        outcome = "worse"
        verdicts.sort(key=lambda verdict: verdict.outcome != "worse")
    elif tested:
        outcome = verdicts[0].answer
    guessing: GuessOutcome = "beaten"
    if judgement is not None and judgement.guessing is not None:
        guessing = judgement.guessing.outcome
        if guessing != "beaten":
            verdicts.insert(0, judgement.guessing.shown)
    has_notes = is_best and guessing == "beaten"
    return Headline(
        verdict=outcome,
        n_features=n_features,
        n_available=result.space.n_allowed,
        evidence=tuple(verdicts),
        alternative=sentences.alternative(result, scoring) if has_notes else "",
        origin=sentences.origin(result) if has_notes else "",
        searched=sentences.searched(result, scoring, tested) if is_best else "",
        tested=tested,
        guessing=guessing,
    )


def _on_fresh_folds(confirmation: Confirmation, scoring: Scoring) -> Verdict:
    gain = confirmation.gain
    assert gain is not None
    # A gain is a lower cost.
    low, high = scoring.natural_difference(-gain.high, -gain.low)
    if math.isinf(low):
        low = high = math.nan
    return Verdict(
        rows=f"{confirmation.n_folds} new folds of the same rows",
        metric=scoring.metric,
        chosen=scoring.natural(confirmation.cost),
        everything=scoring.natural(confirmation.baseline_cost),
        low=low,
        high=high,
    )
