"""Environment variables in addresses, and keeping what they hold out of messages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from swarm.errors import DataError

__all__ = ["expand", "reason", "scrub"]


def expand(text: str, what: str, quote: Callable[[int, str], str] | None = None) -> str:
    """Replace each ``${VAR}`` by its value from the environment.

    `quote` gets the position of the placeholder and the value, and gives what is put there.
    Raises DataError naming the variable if it is not set.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise DataError(
                f"environment variable {match[1]!r}, used in the {what}, is not set; set it"
            )
        return quote(match.start(), found) if quote else found

    return re.sub(r"\$\{(\w+)\}", value, text)


def scrub(message: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a message by ``***``."""
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        message = message.replace(secret, "***")
    return message


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Say in part of a sentence why something failed, without secrets."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = scrub(lines[0] if lines else type(error).__name__, secrets)
    return text.rstrip(".;: ")
