"""What the page says: rows and sentences, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from swarm.report.comparison import figure_rows, rivals
from swarm.report.data import ReportData
from swarm.report.words import (
    cost,
    counted,
    duration,
    interval,
    metric_name,
    number,
    plain,
    shortened,
)

__all__ = [
    "answer",
    "fact_rows",
    "feature_rows",
    "promised",
    "spent",
    "tiles",
]

_NAMED_IN_ANSWER = 8
_NAME_LENGTH = 40
_CELLS = 16
_SHOWN_ELSEWHERE = ("archive_hits", "fallbacks", "seconds_training", "seconds_elsewhere")


@dataclass(frozen=True)
class FeatureRow:
    """A feature: its share of the importances, and the subsets it is in."""

    name: str
    share: float | None
    width: float
    count: int
    cells: tuple[bool, ...]


def answer(data: ReportData) -> str:
    """Say in one sentence which features to keep."""
    names = [shortened(name, _NAME_LENGTH) for name in data.ranked()]
    start = f"Keep {len(names):,} of {counted(data.n_available, 'feature')}"
    if len(names) <= _NAMED_IN_ANSWER:
        return f"{start}: {_listed(names)}."
    rest = len(names) - _NAMED_IN_ANSWER
    return f"{start}: {', '.join(names[:_NAMED_IN_ANSWER])} and {rest:,} more."


def tiles(data: ReportData) -> list[tuple[str, str, str]]:
    """Figures to see at once: value, what it is, what goes with it."""
    together = len(data.frequency())
    more = "in the one best subset"
    if len(data.subsets) > 1:
        more = f"the ensemble of {len(data.subsets):,} uses {together:,}"
    found = [(f"{len(data.features):,}", f"of {counted(data.n_available, 'feature')}", more)]
    if data.metrics:
        own = figure_rows(data.figures, data.metrics[0], "ensemble")
        found += [
            (
                number(row["value"]),
                f"test {metric_name(data.metrics[0])} of the ensemble",
                interval(row["low"], row["high"]) or "no interval",
            )
            for row in own
        ]
    found += [
        (rival.difference, f"{rival.metric} gained over all features, same vote", rival.bounds)
        for rival in rivals(data)
        if rival.is_all_features
    ]
    if data.cv_cost is not None and data.test_cost is not None:
        label = "test cost of the best subset"
        found.append((cost(data.test_cost), label, f"{cost(data.cv_cost)} in cross-validation"))
    elif data.cv_cost is not None:
        found.append((cost(data.cv_cost), "cost of the best subset", "cross-validated"))
    return found


def feature_rows(data: ReportData) -> tuple[list[FeatureRow], list[FeatureRow]]:
    """Chosen features by importance, and those that only other subsets hold."""
    weights: dict[str, float] = {}
    if data.importances is not None:
        weights = {
            str(name): float(value)
            for name, value in data.importances.items()
            if math.isfinite(value) and value > 0.0
        }
    total, most = sum(weights.values()), max(weights.values(), default=0.0)
    members = [frozenset(names) for names, _ in data.subsets]
    shown = members if len(members) <= _CELLS else []
    chosen = set(data.features)
    rows = [
        FeatureRow(
            name=plain(name),
            share=weights.get(name, 0.0) / total if total and name in chosen else None,
            width=100.0 * weights.get(name, 0.0) / most if most else 0.0,
            count=count,
            cells=tuple(name in member for member in shown),
        )
        for name, count in data.frequency().items()
    ]
    return rows[: len(chosen)], rows[len(chosen) :]


def spent(data: ReportData) -> list[tuple[str, str]]:
    """Say what the run took: number, and what it counts."""
    history, facts = data.history, data.facts
    found: list[tuple[str, str]] = []
    if len(history):
        found.append((f"{int(history['epoch'].iloc[-1]):,}", "epochs"))
    for column, label in (
        ("evaluations", "evaluations asked for"),
        ("distinct_evaluations", "of different subsets"),
        ("fits", "models trained on a fold"),
    ):
        if column in history.columns and len(history):
            found.append((f"{int(history[column].iloc[-1]):,}", label))
    if "folds_pruned" in history.columns and len(history):
        pruned = int(history["folds_pruned"].sum())
        fits = int(history["fits"].iloc[-1]) if "fits" in history.columns else 0
        share = f" ({pruned / (pruned + fits):.0%})" if pruned + fits else ""
        found.append((f"{pruned:,}", f"fits saved by pruning{share}"))
    if "archive_hits" in facts:
        found.append((f"{int(float(str(facts['archive_hits']))):,}", "answers from the archive"))
    if fallbacks := int(float(str(facts.get("fallbacks", 0)))):
        found.append((f"{fallbacks:,}", "subsets left to fitted models by the fast path"))
    for name, label in (("seconds_training", "in training"), ("seconds_elsewhere", "elsewhere")):
        if name in facts:
            found.append((duration(float(str(facts[name]))), label))
    return found


def fact_rows(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Key and value as text; a mapping inside becomes one row per key."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if name in _SHOWN_ELSEWHERE:
            continue
        if isinstance(value, Mapping):
            rows += [(f"{plain(name)}: {plain(key)}", plain(inner)) for key, inner in value.items()]
        else:
            shown = f"{value:,.6g}" if isinstance(value, float) else plain(value)
            rows.append((plain(name).replace("_", " "), shown))
    return rows


def promised(data: ReportData) -> list[tuple[str, str, float]]:
    """Cost in cross-validation and on the test rows: what it is, its text, its bar in %."""
    if data.cv_cost is None or data.test_cost is None:
        return []
    values = (data.cv_cost, data.test_cost)
    most = max(values)
    if not all(math.isfinite(v) and v >= 0.0 for v in values) or most == 0.0:
        return []
    names = ("in cross-validation", "on the test rows")
    return [(n, cost(v), 100.0 * v / most) for n, v in zip(names, values, strict=True)]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
