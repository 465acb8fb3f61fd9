"""Environment variables in addresses, and redaction of their values in messages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote as percent_encoded

from swarm.errors import DataError, as_clause
from swarm.redaction import scrub


def expand(text: str, what: str, quote: Callable[[int, str], str] | None = None) -> str:
    """Replace each ``${VAR}`` by its value from the environment; DataError if it is not set.

    `quote` receives the position of the placeholder and the value, and returns the replacement. By
    default a value is percent-encoded if it is a user, a password or a query value of a URL.
    """

    def value(match: re.Match[str]) -> str:
        setting = os.environ.get(match[1])
        if setting is None:
            raise DataError(
                f"environment variable {match[1]!r}, used in the {what}, is not set; set it"
            )
        if quote is not None:
            return quote(match.start(), setting)
        before, after = text[: match.start()], text[match.end() :]
        return percent_encoded(setting, safe="") if _escaped_at(before, after) else setting

    return re.sub(r"\$\{(\w+)\}", value, text)


def _escaped_at(before: str, after: str) -> bool:
    """Whether the text between the two parts of a URL is percent-decoded by its readers."""
    _, scheme, start = before.partition("://")
    in_user = "/" not in start and "@" in after
    return bool(scheme) and (in_user or "?" in start)


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the first line of an error message, without secrets and final punctuation."""
    text = str(error).strip() or type(error).__name__
    if text.startswith("(raised as a result of"):
        # SQLAlchemy puts when it happened before what happened.
        text = text.partition("\n")[2] or text
    return as_clause(scrub(text, secrets))
