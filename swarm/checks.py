"""Validate parameters, with uniform error messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from swarm.errors import ConfigError

# Largest number of masks per proposal: far above any real use, far below what fills the memory.
MAX_POPULATION = 100_000
_WHOLE = (int, np.integer)
_NUMBERS = (float, np.floating, *_WHOLE)


def require(
    name: str,
    value: object,
    *,
    above: float | None = None,
    below: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: Sequence[object] | None = None,
    whole: bool = False,
    truth: bool = False,
) -> None:
    """Raise ConfigError ``"velocity_bound must be > 0, got -1.0"`` unless `value` is in range."""
    if one_of is not None:
        if value not in one_of:
            raise ConfigError(
                f"{name} must be one of {', '.join(map(repr, one_of))}, got {value!r}"
            )
        return
    if truth:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be a boolean, got {value!r}")
        return
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise ConfigError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value!r}")
    if whole and not isinstance(value, _WHOLE):
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    if above is not None and not value > above:
        raise ConfigError(f"{name} must be > {above}, got {value!r}")
    if below is not None and not value < below:
        raise ConfigError(f"{name} must be < {below}, got {value!r}")
    if at_least is not None and not value >= at_least:
        raise ConfigError(f"{name} must be >= {at_least}, got {value!r}")
    if at_most is not None and not value <= at_most:
        raise ConfigError(f"{name} must be <= {at_most}, got {value!r}")


def require_package(module: str, extra: str, what: str) -> None:
    """Raise ConfigError unless a package is installed, with the extra that installs it.

    `what` needs it: the subject of the error message.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{what} needs the package {module!r}, which is not installed; run"
            f" `pip install 'swarmselect[{extra}]'`"
        )
