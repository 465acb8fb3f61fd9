"""Validation of the parameters of a selector, before the data are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from swarm.checks import require
from swarm.errors import ConfigError, DataError, nearest
from swarm.findings.registry import check_mute
from swarm.problem.inputs import check_estimator
from swarm.problem.models import tags_of
from swarm.problem.scoring import Scoring
from swarm.search.picks import check_pick
from swarm.search.settings import check_names, expanded

__all__ = ["check_parameters", "prefilter_options"]

_CONFIRM_OPTIONS = ("best", "repeats", "goal", "margin", "confidence", "min_gain")
_PREFILTER_OPTIONS = {"when": "always", "least": 20}
_WHEN = ("always", "auto")


def check_parameters(selector: Any, y: Any) -> None:
    """Reject a missing target, and parameters with which a fit could not be repeated.

    Raises
    ------
    DataError
        If y is None and the estimator requires it.
    ConfigError
        If a parameter has the wrong type, is an iterator, or is unknown.
    """
    check_estimator(selector.estimator, selector.scoring, "unsupervised" if y is None else "")
    tags = tags_of(selector.estimator)
    if y is None and (tags is None or tags.target_tags.required):
        raise DataError(
            f"{type(selector).__name__} requires y to be passed, but the target y is None"
        )
    if not isinstance(selector.random_state, (int, np.integer)):
        raise ConfigError(
            f"random_state must be an integer, got {selector.random_state!r}; "
            "with a generator a fit could not be repeated"
        )
    if selector.random_state < 0:
        raise ConfigError(f"random_state must be at least 0, got {selector.random_state}")
    n_jobs = 1 if selector.n_jobs is None else selector.n_jobs
    for name, value in (("n_jobs", n_jobs), ("verbose", selector.verbose)):
        if not isinstance(value, (int, np.integer)):
            raise ConfigError(f"{name} must be a whole number, got {value!r}")
    if not isinstance(selector.strategy_params, (Mapping, type(None))):
        raise ConfigError(
            f"strategy_params must be a mapping of names to values, got "
            f"{selector.strategy_params!r}"
        )
    if isinstance(selector.mute, str):
        raise ConfigError(f"mute must be a sequence of codes, got {selector.mute!r}")
    check_mute(selector.mute)
    scoring = selector.scoring
    if not (scoring is None or isinstance(scoring, (str, Scoring)) or callable(scoring)):
        raise ConfigError(
            f"scoring must be the name of one scorer or a callable, got {scoring!r}; "
            "a search optimises a single score"
        )
    module = getattr(scoring, "__module__", None) or ""
    if module.startswith("sklearn.metrics.") and not hasattr(scoring, "_score_func"):
        named = getattr(scoring, "__name__", None)
        if named is not None and not module.startswith("sklearn.metrics._scorer"):
            raise ConfigError(
                f"scoring is the metric {named}, which takes no estimator; pass "
                f"make_scorer({named}), or the name of a scorer"
            )
    for name in ("cv", "fixed", "forbidden", "callbacks"):
        if isinstance(getattr(selector, name), Iterator):
            raise ConfigError(
                f"{name} is an iterator, which one fit would exhaust; pass list({name})"
            )
    if not isinstance(selector.callbacks, Iterable):
        raise ConfigError(f"callbacks must be a sequence of callables, got {selector.callbacks!r}")
    for callback in selector.callbacks:
        if not callable(callback):
            raise ConfigError(
                f"callbacks must be callables of a record and a state, got {callback!r}; "
                "pass scikit-learn callbacks to set_callbacks"
            )
    for name, least in (("repeats", 1), ("rotate", 0)):
        value = getattr(selector, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if not isinstance(selector.asynchronous, (bool, np.bool_)):
        raise ConfigError(f"asynchronous must be True or False, got {selector.asynchronous!r}")
    rows = selector.rows
    is_count = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool) and rows >= 1
    if rows is not None and rows != "auto" and not is_count:
        raise ConfigError(
            f"rows must be a whole number of at least 1, 'auto' or None, got {rows!r}"
        )
    check_pick(selector.pick)
    if selector.param_grid is not None:
        settings, _ = expanded(selector.param_grid, int(selector.random_state))
        names = dict.fromkeys(name for setting in settings for name in setting)
        check_names(list(names), selector.estimator, "param_grid")
    _check_confirm(selector)
    prefilter_options(selector.prefilter)


def prefilter_options(prefilter: Any) -> dict[str, Any] | None:
    """Return the options of a prefilter with their defaults; None if there is none.

    Raises
    ------
    ConfigError
        If the value or an option is unknown or out of range.
    """
    if prefilter is False:
        return None
    if prefilter is True or prefilter == "auto":
        prefilter = {} if prefilter is True else {"when": "auto"}
    if not isinstance(prefilter, Mapping):
        raise ConfigError(
            f"prefilter must be True, False, 'auto' or a mapping of options, got {prefilter!r}"
        )
    for name in prefilter:
        if name not in _PREFILTER_OPTIONS:
            raise ConfigError(
                f"unknown option {name!r} of prefilter (there are "
                f"{', '.join(_PREFILTER_OPTIONS)}){nearest(str(name), tuple(_PREFILTER_OPTIONS))}"
            )
    options = {**_PREFILTER_OPTIONS, **prefilter}
    try:
        require("prefilter when", options["when"], one_of=_WHEN)
        require("prefilter least", options["least"], at_least=1, whole=True)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return options


def _check_confirm(selector: Any) -> None:
    confirm = selector.confirm
    if not isinstance(confirm, (bool, Mapping)):
        raise ConfigError(f"confirm must be True, False or a mapping of options, got {confirm!r}")
    for name in [] if isinstance(confirm, bool) else confirm:
        if name not in _CONFIRM_OPTIONS:
            raise ConfigError(
                f"unknown option {name!r} of confirm (there are {', '.join(_CONFIRM_OPTIONS)})"
                f"{nearest(str(name), _CONFIRM_OPTIONS)}"
            )
    if confirm and selector.pick != "best":
        raise ConfigError(
            f"confirm and pick={selector.pick!r} both select a subset; use confirm with a goal, "
            "such as {'goal': 'balanced'}, or pick alone"
        )
