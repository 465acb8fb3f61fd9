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

CHOSEN = "these features"
ALL = "all features"
ENSEMBLE = "the ensemble"
GUESSING = "guessing"
# The chosen features against all on unseen rows: ``not worse`` if the loss is at most the
# tolerance, ``unclear`` also without unseen rows.
Answer = Literal["better", "not worse", "unclear", "worse"]
# The features against guessing: ``not beaten`` if a gain that matters is excluded, ``worse`` if all
# features do significantly worse than a model that ignores them.
GuessOutcome = Literal["beaten", "not beaten", "unclear", "worse"]


def outcome_in(metric: str, low: float, high: float) -> Outcome:
    """Return the outcome of the interval of a difference in a metric."""
    return outcome_of(-high, -low) if is_lower_better(metric) else outcome_of(low, high)


@dataclass(frozen=True)
class Verdict:
    """One model of the chosen columns against one model of all of them, or against guessing.

    Attributes
    ----------
    rows : str
        What both were scored on.
    metric : str
        Natural name of the metric.
    chosen, everything : float
        Values of the metric.
    low, high : float
        Confidence interval of the difference, chosen minus everything; NaN if there is none.
    tolerance : float
        Loss against all columns, or gain over guessing, that does not matter.
    n_units : int
        Number of test rows, or of their groups; 0 for other rows.
    unit : str
        ``row`` or ``group``.
    subset : str
        Name of the chosen columns in sentences; `ALL` for all columns.
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
        """Confidence interval of the improvement."""
        is_error = is_lower_better(self.metric)
        return (-self.high, -self.low) if is_error else (self.low, self.high)

    @property
    def answer(self) -> Answer:
        """The outcome, with ``not worse`` if a loss that matters is excluded."""
        if self.outcome != "no clear difference":
            return self.outcome
        return "not worse" if -self.gain[0] <= self.tolerance else "unclear"

    @property
    def n_needed(self) -> int | None:
        """Number of units that would decide an equal difference; None if it is decided."""
        low, high = self.gain
        middle = (low + high) / 2.0
        reach = (high - low) / 2.0
        if self.rival == GUESSING:
            is_open = low <= 0 and high >= self.tolerance
            distance = max(self.tolerance - middle, middle)
        else:
            is_open = self.answer == "unclear"
            distance = max(self.tolerance + middle, -middle)
        if not is_open or math.isnan(reach) or not self.n_units or distance <= 0:
            return None
        n_units = self.n_units * (reach / distance) ** 2
        step = int(10 ** max(0, math.floor(math.log10(n_units)) - 1))
        return math.ceil(n_units / step - 1e-6) * step

    @property
    def outcome(self) -> Outcome:
        """How the chosen columns compare with all."""
        return outcome_in(self.metric, self.low, self.high)


@dataclass(frozen=True)
class Guessing:
    """Contenders against a model that ignores the features.

    Attributes
    ----------
    verdicts : mapping
        Verdict of each contender.
    """

    verdicts: Mapping[str, Verdict]

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
        # A comparison with NaN is false: without an interval the outcome is unclear.
        is_excluded = all(verdict.gain[1] < verdict.tolerance for verdict in verdicts)
        return "not beaten" if is_excluded else "unclear"

    @property
    def shown(self) -> Verdict:
        """The verdict of the contender that may gain most, or of all features if these lose."""
        if self.outcome == "worse":
            return self.verdicts["all_features"]
        return max(self.verdicts.values(), key=lambda verdict: verdict.gain[1])


@dataclass(frozen=True)
class Headline(Drawn):
    """Whether the chosen columns should be kept, and the evidence for it.

    Attributes
    ----------
    verdict : str
        ``worse`` if either comparison is significantly worse, else the answer of the test rows. The
        search chose on the rows of the fresh folds: alone they cannot show that a subset is better.
    n_features, n_available : int
        Number of chosen columns, and of columns that are not forbidden.
    evidence : tuple of Verdict
        The verdict against guessing unless it is beaten, then the comparisons, first the one that
        decides, test rows before fresh folds.
    alternative : str
        The subset that another goal would keep; empty without one, or if nothing beats guessing.
    origin : str
        The ranking that the chosen columns are from; empty if they are from the search, or nothing
        beats guessing.
    searched : str
        Score of the chosen subset in the search, and the winner's curse.
    tested : bool
        Whether the chosen columns were compared with all on rows that no search saw.
    guessing : str
        Outcome against guessing; ``beaten`` without test rows.
    """

    verdict: Answer
    n_features: int
    n_available: int
    evidence: tuple[Verdict, ...] = ()
    alternative: str = ""
    origin: str = ""
    searched: str = ""
    tested: bool = True
    guessing: GuessOutcome = "beaten"

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
        """Whether the chosen columns are listed below the title."""
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
        """Return a sentence for each verdict."""
        return [sentences.evidence(verdict, self.n_features) for verdict in self.evidence]


def headline(
    result: SearchResult,
    scoring: Scoring,
    judgement: Judgement | None = None,
    chosen: Bool | None = None,
) -> Headline:
    """Combine the verdicts on test rows and on fresh folds.

    `chosen` is the mask of another subset than the best one of the search, for which only test rows
    are evidence.
    """
    chosen = result.best_mask if chosen is None else chosen
    is_best = bool((chosen == result.best_mask).all())
    n_features = len(result.space.subset(chosen))
    verdicts = []
    if judgement is not None:
        unseen = judgement.verdict
        if not scoring.reads_answers:
            # A scorer that may read the rows cannot be jackknifed: another metric is tested.
            rows = f"{unseen.rows}, in another metric than {scoring.metric!r}"
            unseen = replace(unseen, rows=rows)
        verdicts.append(unseen)
    confirmation = result.confirmation if is_best else None
    if confirmation is not None and confirmation.gain is not None:
        verdicts.append(_on_fresh_folds(confirmation, scoring))
    has_all = n_features == result.space.n_allowed
    if has_all:
        verdicts = [replace(verdict, subset=ALL) for verdict in verdicts]
    tested = judgement is not None
    outcome: Answer = "unclear"
    if has_all:
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
