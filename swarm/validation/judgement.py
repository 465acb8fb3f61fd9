"""Result of an evaluation on test rows: metrics, confidence intervals, evidence and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from swarm.errors import InputError, nearest
from swarm.rounding import difference
from swarm.validation.metrics import LOWER_IS_BETTER, display_name

Verdict = Literal["better", "no clear difference", "worse"]
# In the order of the table, with their names in the verdict.
CONTENDERS = {
    "ensemble": "the ensemble",
    "best_subset": "the best single subset",
    "all_features": "all features with one model",
    "all_features_ensemble": "all features with the same vote",
    "random_subsets": "random subsets of the same sizes with the same vote",
}
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
        return float(difference(self.chosen, self.everything))

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
        name = display_name(self.metric)
        text = f"{name[:1].upper()}{name[1:]} on {self.rows}: {number(self.chosen)}"
        if self.subset == ALL:
            return f"{text} with {ALL}."
        text = f"{text}, with all {number(self.everything)}"
        if math.isnan(self.low):
            return f"{text}."
        low, high = signed(self.low), signed(self.high)
        return f"{text}; {signed(self.difference)} ({low} to {high})."


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
    return f"{value:+z.3f}" if abs(value) < 100 else f"{value:+z,.0f}"


def with_interval(difference: float, low: float, high: float) -> str:
    """Format a difference with its sign, and with its interval if it has one."""
    if math.isnan(low):
        return signed(difference)
    return f"{signed(difference)} [{signed(low)}, {signed(high)}]"


@dataclass(frozen=True, eq=False)
class Judgement:
    """Metrics of the ensemble and its baselines on held-out test rows.

    Attributes
    ----------
    table : DataFrame
        One row per contender and metric: contender, metric, value, low, high, n_features
        (distinct columns in use), n_models. For `random_subsets` the value is the mean over
        the draws, and n_features their rounded mean.
    differences : DataFrame
        One row per other contender and metric: contender, metric, difference (ensemble minus
        contender), low, high, favours ("ensemble", the contender, or "neither" where the
        interval contains 0). Differences are paired: computed on the same resamples, so that
        the difficulty of the test rows cancels out.
    predictions : DataFrame (n_rows, n_columns)
        ``y_true`` and the predictions of each contender, `random_subsets_1` and so on for the
        draws; with several labels one column per label (``ensemble.<label>``).
    costs : mapping
        Test cost of each contender, lower is better; empty without a cost function.
    cv_cost : float, optional
        Cross-validated cost of the best single subset in the search.
    optimism : float, optional
        Test cost of the best single subset minus `cv_cost`.
    task, vote : str
        "binary", "multiclass", "multilabel" or "regression"; the vote of the contenders.
    pos_label : class, optional
        Positive class of a binary target.
    pos_share : float, optional
        Its share of the training rows.
    selection : Evidence, optional
        `best_subset` against `all_features`, one model each, in the first metric.
    guessing : Guessing, optional
        A model that ignores the features, in the first metric.
    n_rows, n_groups : int
        Number of test rows, and of their groups (None without groups).
    n_resamples, level, seed
        Parameters of the bootstrap.
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    predictions: pd.DataFrame
    costs: Mapping[str, float]
    cv_cost: float | None
    optimism: float | None
    task: str
    vote: str
    pos_label: Any
    n_rows: int
    n_groups: int | None
    n_resamples: int
    level: float
    seed: int
    pos_share: float | None = None
    selection: Evidence | None = None
    guessing: Guessing | None = None

    @property
    def positive(self) -> str:
        """Name the positive class with its share of the training rows; empty without one."""
        if self.pos_label is None:
            return ""
        share = "" if self.pos_share is None else f", {self.pos_share:.0%} of the training rows"
        return f"Positive class: {self.pos_label}{share}."

    @property
    def beats_guessing(self) -> bool:
        """Whether a model that ignores the features is beaten, or not known."""
        return self.guessing is None or self.guessing.beaten

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics; the first one is that of the search and of the verdict."""
        return list(dict.fromkeys(self.table["metric"].tolist()))

    def verdict(self, metric: str | None = None, against: str = "all_features_ensemble") -> str:
        """Summarise in one sentence how the ensemble compares with one baseline.

        Parameters
        ----------
        metric : str, optional
            Default: the first metric.
        against : str
            Name of the baseline.

        Raises
        ------
        InputError
            If the metric or the baseline is not in the table.
        """
        name = self.metrics[0] if metric is None else metric
        _check("metric", name, self.metrics)
        _check("contender", against, self.differences["contender"].unique().tolist())
        own = _row(self.table, "ensemble", name)
        other = _row(self.table, against, name)
        gap = _row(self.differences, against, name)
        models, columns = int(own["n_models"]), int(own["n_features"])
        rows = unseen_rows(self.n_rows, self.n_groups)
        if math.isnan(gap["low"]):
            rest = f"which has no interval, as {self._without_interval()}"
        elif gap["favours"] == "neither":
            rest = "which is not distinguishable from none"
        else:
            rest = f"which favours {CONTENDERS[gap['favours']]}"
        return (
            f"On {rows} the ensemble of {models} subset{'s' * (models != 1)}"
            f" ({columns} column{'s' * (columns != 1)} together) scores {display_name(name)} "
            f"{number(own['value'])}{_interval(own)} against {number(other['value'])} for "
            f"{CONTENDERS[against]}: a difference of {number(gap['difference'])}"
            f"{_interval(gap)}, {rest}."
        )

    def _without_interval(self) -> str:
        if self.n_groups == 1:
            return "all rows belong to one group"
        return "there is one row" if self.n_rows == 1 else "the metric is undefined on these rows"

    def as_dict(self) -> dict[str, Any]:
        """Return everything except the predictions as JSON types, NaN as None."""
        contenders: dict[str, Any] = {}
        for row in self.table.to_dict("records"):
            name = row["contender"]
            entry = contenders.setdefault(
                name,
                {
                    "n_features": int(row["n_features"]),
                    "n_models": int(row["n_models"]),
                    "cost": _plain(self.costs.get(name)),
                    "metrics": {},
                },
            )
            entry["metrics"][row["metric"]] = {k: _plain(row[k]) for k in ("value", "low", "high")}
        differences: dict[str, Any] = {}
        for row in self.differences.to_dict("records"):
            differences.setdefault(row["contender"], {})[row["metric"]] = {
                **{k: _plain(row[k]) for k in ("difference", "low", "high")},
                "favours": row["favours"],
            }
        selection, guessing = (
            None if one is None else {key: _plain(value) for key, value in vars(one).items()}
            for one in (self.selection, self.guessing)
        )
        if selection is not None and self.selection is not None:
            selection["difference"] = _plain(self.selection.difference)
        return {
            "verdict": self.verdict(),
            "task": self.task,
            "vote": self.vote,
            "pos_label": _plain(self.pos_label),
            "pos_share": _plain(self.pos_share),
            "n_rows": self.n_rows,
            "n_groups": self.n_groups,
            "contenders": contenders,
            "differences_from_ensemble": differences,
            "best_subset_against_all_features": selection,
            "guessing": guessing,
            "cv_cost": _plain(self.cv_cost),
            "test_cost": _plain(self.costs.get("best_subset")),
            "optimism": _plain(self.optimism),
            "bootstrap": {
                "n_resamples": self.n_resamples,
                "level": self.level,
                "seed": self.seed,
                "unit": "row" if self.n_groups is None else "group",
            },
        }


def _check(what: str, name: str, known: list[str]) -> None:
    if name not in known:
        raise InputError(
            f"unknown {what} {name!r}{nearest(name, known)}; choose from {', '.join(known)}"
        )


def _row(table: pd.DataFrame, contender: str, metric: str) -> Any:
    chosen = (table["contender"] == contender) & (table["metric"] == metric)
    return table[chosen].iloc[0]


def _interval(row: Any) -> str:
    if math.isnan(row["low"]):
        return ""
    return f" [{number(row['low'])}, {number(row['high'])}]"


def _plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, NaN and infinities to None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
