"""Numbers and sentences of the report."""

from __future__ import annotations

import math
import re
from types import MappingProxyType

__all__ = [
    "CONTENDER_LABELS",
    "CONTENDER_NAMES",
    "CONTENDER_NOTES",
    "LOWER_IS_BETTER",
    "calibration",
    "cost",
    "counted",
    "duration",
    "interval",
    "metric_name",
    "number",
    "plain",
    "shortened",
    "signed",
]

CONTENDER_NAMES = MappingProxyType(
    {
        "ensemble": "Ensemble of subsets",
        "best_subset": "Best single subset",
        "all_features": "All features",
        "all_features_ensemble": "All features, same vote",
        "random_subsets": "Random subsets, same vote",
    }
)
# Where room is scarce.
CONTENDER_LABELS = MappingProxyType(
    {
        "ensemble": "Ensemble",
        "best_subset": "Best subset",
        "all_features": "All features",
        "all_features_ensemble": "All, same vote",
        "random_subsets": "Random, same vote",
    }
)
CONTENDER_NOTES = MappingProxyType(
    {
        "ensemble": "The answer of this run: one model per chosen subset, and their vote.",
        "best_subset": "One model on the best subset: what the selection gives without a vote.",
        "all_features": "One model on every feature: what there is without any selection.",
        "all_features_ensemble": (
            "Every feature, with as many models and the same vote: a vote alone changes the "
            "figures, so this is the rival that tells what the selection is worth."
        ),
        "random_subsets": (
            "Subsets of the same sizes drawn by chance, with the same vote: where they do as "
            "well, it hardly matters which features are kept."
        ),
    }
)
LOWER_IS_BETTER = frozenset({"hamming_loss"})

# What neither HTML nor XML can hold: controls, lone surrogates, non-characters.
_ILLEGAL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
)


def plain(text: object) -> str:
    """Text on one line, without characters that HTML cannot hold."""
    return " ".join(_ILLEGAL.sub("\ufffd", str(text)).split()) or "(blank)"


def shortened(text: object, length: int) -> str:
    """Text of at most `length` characters: names differ most often at both ends."""
    line = plain(text)
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail]}…{line[len(line) - tail :]}"


def number(value: float) -> str:
    """Test figure, as the verdict writes it."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else signed(value)
    text = f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return text.replace("-", "−")


def signed(value: float) -> str:
    """Difference with its sign."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    return f"+{number(value)}" if value > 0 else number(value)


def interval(low: float, high: float) -> str:
    """Bounds in brackets; empty where there are none."""
    return "" if math.isnan(low) or math.isnan(high) else f"[{number(low)}, {number(high)}]"


def cost(value: float | None) -> str:
    """Cost with four significant digits."""
    if value is None or not math.isfinite(value):
        return "not finite" if value is not None else "–"
    return f"{value:.4g}".replace("-", "−")


def counted(count: float, noun: str) -> str:
    """``1 feature``, ``1,000 features``."""
    whole = int(count)
    return f"{whole:,} {noun}" if whole == 1 else f"{whole:,} {noun}s"


def duration(seconds: float) -> str:
    """Time span in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def metric_name(metric: str) -> str:
    """Metric as a reader calls it."""
    return plain(metric).removeprefix("neg_").replace("_", " ")


def calibration(cv_cost: float, test_cost: float, label: str) -> str:
    """Say what the search promised and what the test rows gave."""
    name = f" ({plain(label)})" if label != "cost" else ""
    start = (
        f"Cross-validation put the cost{name} of the best subset at {cost(cv_cost)}; on the "
        f"test rows it is {cost(test_cost)}."
    )
    gap = test_cost - cv_cost
    if not math.isfinite(gap):
        return start
    share = f", {abs(gap / cv_cost):.0%} of it" if abs(gap) < 2.0 * abs(cv_cost) else ""
    if gap > 0:
        return (
            f"{start} The search promised {cost(gap)} too much{share}. Some of that is to be "
            "expected: a search keeps what looked best on the folds it looked at. Believe the "
            "test figures, not the cost of the search."
        )
    if gap < 0:
        return (
            f"{start} That is {cost(-gap)} better than promised{share}: no sign that the search "
            "fitted its own folds, but test rows can also be easier by chance."
        )
    return f"{start} The search promised exactly what the test rows gave."
