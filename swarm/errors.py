"""Every error the project raises on purpose.

Each message is one sentence: what is wrong, which value, what to do about it.

::

    SwarmError (Exception)
    |-- InputError (ValueError)           bad input, refused before any training; exit status 2
    |   |-- ConfigError                   a configuration key or value
    |   |-- DataError                     a table, a column, a target, a split
    |   `-- SpaceError                    constraints on the features that contradict each other
    |-- EvaluationError (RuntimeError)    a cost that cannot be believed, or too many failed fits
    `-- StoreError (OSError)              a store that is out of reach or not ours
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "DataError",
    "EvaluationError",
    "InputError",
    "SpaceError",
    "StoreError",
    "SwarmError",
    "nearest",
]


class SwarmError(Exception):
    """Base of every error raised on purpose."""


class InputError(SwarmError, ValueError):
    """Input that is refused before any model is trained."""


class ConfigError(InputError):
    """A configuration key or value that cannot be used."""


class DataError(InputError):
    """A table, column, target or split that cannot be used."""


class SpaceError(InputError):
    """Constraints on the features that contradict each other."""


class EvaluationError(SwarmError, RuntimeError):
    """A cost that cannot be believed, or too many fits that failed."""


class StoreError(SwarmError, OSError):
    """An archive, database or tracking server that is out of reach or not ours."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
