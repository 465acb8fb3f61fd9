"""A paired comparison of one model of the chosen columns with one model of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from swarm.validation.metrics import LOWER_IS_BETTER, display_name

__all__ = [
    "ALL",
    "CHOSEN",
    "Evidence",
    "Guessing",
    "Verdict",
    "number",
    "signed",
    "unseen_rows",
    "with_interval",
]

Verdict = Literal["better", "no clear difference", "worse"]
CHOSEN, ALL = "these features", "all features"


@dataclass(frozen=True)
class Evidence:
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
        return self.chosen - self.everything

    @property
    def verdict(self) -> Verdict:
        """Which of the two is better, if the interval excludes 0."""
        low, high = self.low, self.high
        if self.metric in LOWER_IS_BETTER:
            low, high = -high, -low
        if low > 0:
            return "better"
        return "worse" if high < 0 else "no clear difference"

    def sentence(self) -> str:
        """State both values and their difference; of all features, their value alone."""
        value = f"{display_name(self.metric)} {number(self.chosen)} with {self.subset}"
        if self.subset == ALL:
            return f"On {self.rows}: {value}."
        text = f"On {self.rows}, one model each: {value}, {number(self.everything)} with all"
        if math.isnan(self.low):
            return f"{text}."
        return f"{text}; difference {self.difference_and_interval()}."

    def difference_and_interval(self) -> str:
        """Return the difference with its sign and interval."""
        return with_interval(self.difference, self.low, self.high)


@dataclass(frozen=True)
class Guessing:
    """A model that ignores the features, on the test rows.

    It predicts the most frequent class with the shares of the classes as probabilities, or the
    mean of the target.

    Attributes
    ----------
    metric : str
        Natural name.
    value : float
        Its value.
    beaten : bool
        Whether the ensemble, the best subset or all features are significantly better. True if
        there are no intervals.
    """

    metric: str
    value: float
    beaten: bool


def unseen_rows(n_rows: int, n_groups: int | None) -> str:
    """Name the test rows, with their groups if they have any."""
    rows = f"{n_rows:,} unseen rows"
    return rows if n_groups is None else f"{rows} of {n_groups:,} group{'s' * (n_groups != 1)}"


def number(value: float) -> str:
    """Format a metric."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"


def signed(value: float) -> str:
    """Format a difference with its sign."""
    return f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.0f}"


def with_interval(difference: float, low: float, high: float) -> str:
    """Format a difference with its sign, and with its interval if it has one."""
    if math.isnan(low):
        return signed(difference)
    return f"{signed(difference)} [{signed(low)}, {signed(high)}]"
