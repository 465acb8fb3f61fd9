"""Validate parameters, with uniform error messages."""

import math
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from swarm.errors import ConfigError

# Masks of a proposal: far more than any real use, and far fewer than fill the memory.
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
    requirements = [
        (math.isfinite(value), "finite"),
        (not whole or isinstance(value, _WHOLE), "a whole number"),
        (above is None or value > above, f"> {above}"),
        (below is None or value < below, f"< {below}"),
        (at_least is None or value >= at_least, f">= {at_least}"),
        (at_most is None or value <= at_most, f"<= {at_most}"),
    ]
    for is_met, requirement in requirements:
        if not is_met:
            raise ConfigError(f"{name} must be {requirement}, got {value!r}")


def require_package(module: str, extra: str, what: str) -> None:
    """Raise ConfigError unless a package is installed, with the extra that installs it.

    `what` is the subject of the message, which needs the package.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{what} needs the package {module!r}, which is not installed; run"
            f" `pip install 'swarmselect[{extra}]'`"
        )
