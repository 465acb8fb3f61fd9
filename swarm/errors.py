"""Exceptions of the project.

Each message is one sentence: what is wrong, the value, and what to do about it.

::

    SwarmError (Exception)
    |-- InputError (ValueError)           invalid input, rejected before training; exit status 2
    |   |-- ConfigError                   a configuration key or value
    |   |-- DataError                     a table, a column, a target, a split
    |   `-- SpaceError                    constraints on the features that contradict each other
    |-- EvaluationError (RuntimeError)    an invalid cost, or too many failed fits
    |   `-- TransientError                a worker, a connection or a file failed, not a subset
    `-- StoreError (OSError)              a store that is unreachable or has another format
"""

import difflib
from collections.abc import Collection, Iterable

from swarm.wording import listed

# Longer lists of names are cut to a few.
_MAX_LISTED = 40
_N_FEW = 10


class SwarmError(Exception):
    """Base class of all exceptions of the project."""


class InputError(SwarmError, ValueError):
    """Invalid input, rejected before any model is trained."""


class ConfigError(InputError):
    """An invalid configuration key or value."""


class DataError(InputError):
    """An invalid table, column, target or split."""


class SpaceError(InputError):
    """Constraints on the features that contradict each other."""


class EvaluationError(SwarmError, RuntimeError):
    """An invalid cost, or too many failed fits."""


class TransientError(EvaluationError):
    """A worker, a connection, a file or the memory failed, and another attempt may succeed."""


class StoreError(SwarmError, OSError):
    """An archive, database or tracking server that is unreachable or has another format."""


def describe(error: BaseException) -> str:
    """Return the type of an exception, and the first line of its message if it has one."""
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])


def as_clause(message: str) -> str:
    """Return the first line of a message of another package as a clause of a sentence."""
    return message.strip().partition("\n")[0].strip().replace(". ", ": ").rstrip(".;: ")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(str(name), list(map(str, names)), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def suggestion(name: str, names: Collection[str]) -> str:
    """Return what :func:`nearest` does, or the first known names if none is close."""
    return nearest(name, names) or f"; there are {listed(names, _N_FEW)}"


def check_known(
    what: str, name: object, names: Collection[str], error: type[InputError] = ConfigError
) -> None:
    """Raise an error that names the known values, or the nearest, unless `name` is one of them."""
    if name in names:
        return
    if len(names) <= _MAX_LISTED:
        hint = nearest(str(name), names)
        raise error(f"unknown {what} {name!r} (there are {', '.join(names)}){hint}")
    raise error(f"unknown {what} {name!r}{suggestion(str(name), names)}")
