"""What is refused before anything else is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from swarm.errors import ConfigError, DataError
from swarm.problem.models import tags_of
from swarm.problem.scoring import Scoring
from swarm.search.picks import check_pick

__all__ = ["refuse_early"]


def refuse_early(selector: Any, y: Any) -> None:
    """Refuse a missing target, and parameters with which a fit could not be repeated.

    Raises
    ------
    DataError
        If y is None and the estimator needs it.
    ConfigError
        If a parameter is no integer, no callable, used up by a first fit, or unknown.
    """
    tags = tags_of(selector.estimator)
    if y is None and (tags is None or tags.target_tags.required):
        raise DataError(
            f"{type(selector).__name__} requires y to be passed, but the target y is None"
        )
    if not isinstance(selector.random_state, (int, np.integer)):
        raise ConfigError(
            f"random_state must be an integer, got {selector.random_state!r}; "
            "generators never repeat"
        )
    scoring = selector.scoring
    if not (scoring is None or isinstance(scoring, (str, Scoring)) or callable(scoring)):
        raise ConfigError(
            f"scoring must be the name of one scorer or a callable, got {scoring!r}; "
            "a search minimises one cost"
        )
    for name in ("cv", "fixed", "forbidden", "callbacks"):
        if isinstance(getattr(selector, name), Iterator):
            raise ConfigError(
                f"{name} is an iterator, which one fit would use up; give list({name})"
            )
    for callback in selector.callbacks:
        if not callable(callback):
            raise ConfigError(
                f"callbacks must be callables of a record and a state, got {callback!r}; "
                "callbacks of scikit-learn go to set_callbacks"
            )
    check_pick(selector.pick)
