"""Environment variables in addresses, and redaction of their values in messages."""

import os
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote as percent_encoded

from swarm.errors import DataError, as_clause
from swarm.redaction import scrub


def expand(text: str, what: str, quote: Callable[[int, str], str] | None = None) -> str:
    """Replace each ``${VAR}`` by its value from the environment; DataError if it is not set.

    Parameters
    ----------
    text : str
        Text with placeholders.
    what : str
        What the text is, for the message.
    quote : callable, optional
        Replacement for the position of a placeholder and its value. By default a value is
        percent-encoded if it is a user, a password or a query value of a URL.
    """

    def replacement(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise DataError(
                f"environment variable {match[1]!r}, used in the {what}, is not set; set it"
            )
        if quote is not None:
            return quote(match.start(), value)
        if _is_percent_encoded(text[: match.start()], text[match.end() :]):
            return percent_encoded(value, safe="")
        return value

    return re.sub(r"\$\{(\w+)\}", replacement, text)


def _is_percent_encoded(before: str, after: str) -> bool:
    """Whether readers of a URL decode what stands between `before` and `after`."""
    _, scheme, start = before.partition("://")
    in_user = "/" not in start and "@" in after
    return bool(scheme) and (in_user or "?" in start)


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the first line of an error message, without secrets and final punctuation."""
    text = str(error).strip() or type(error).__name__
    if text.startswith("(raised as a result of"):
        # SQLAlchemy says when it happened in the first line, and what happened in the second.
        text = text.partition("\n")[2] or text
    return as_clause(scrub(text, secrets))
