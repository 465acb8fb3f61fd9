"""Formatting of numbers, names and counts in reports."""

import math
import re

from swarm.metrics import display_name
from swarm.validation.sentences import format_score, format_signed, interval_digits

# HTML and XML do not allow control characters, lone surrogates and non-characters.
_ILLEGAL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
)


def plain(text: object) -> str:
    """Return text on one line, without characters that HTML does not allow."""
    return " ".join(_ILLEGAL.sub("\ufffd", str(text)).split()) or "(blank)"


def sentence(text: object) -> str:
    """Return a clause as a sentence, with a capital letter and a full stop."""
    line = plain(text)
    return f"{line[:1].upper()}{line[1:].rstrip('.')}."


def shortened(text: object, length: int = 40) -> str:
    """Shorten text to `length` characters in the middle, as names differ most at both ends."""
    line = plain(text)
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail]}…{line[len(line) - tail :]}"


def number(value: float, digits: int | None = None) -> str:
    """Format a metric as in the verdict."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else signed(value)
    return format_score(value, digits).replace("-", "−")


def signed(value: float) -> str:
    """Format a difference with its sign."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return format_signed(value).replace("-", "−") if value else number(value)


def interval(low: float, high: float) -> str:
    """Format the bounds of an interval in brackets; empty if they are NaN."""
    if math.isnan(low) or math.isnan(high):
        return ""
    digits = interval_digits(low, high)
    return f"[{number(low, digits)}, {number(high, digits)}]"


def cost(value: float | None) -> str:
    """Format a cost with four significant digits."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.4g}".replace("-", "−")


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def metric_name(metric: str) -> str:
    """Return the display name of a metric."""
    return display_name(plain(metric))
