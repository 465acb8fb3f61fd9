"""Validation of the parameters of a selector, before the data are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.checks import require
from swarm.errors import ConfigError, DataError, check_known
from swarm.findings.registry import check_mute
from swarm.problem.inputs import check_estimator
from swarm.problem.scoring import Scoring
from swarm.protocols import Estimator
from swarm.search.candidates import PICKS

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector

_CONFIRM_OPTIONS = ("best", "repeats", "rankings", "goal", "margin")
_PREFILTER_OPTIONS = {"when": "always", "least": 20}
_PROXY_OPTIONS: dict[str, Any] = {
    "estimator": None,
    "params": {},
    "rows": None,
    "best": 16,
    "probes": 12,
}
_INTEGER = (int, np.integer)
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "n_jobs": ((*_INTEGER, type(None)), "a whole number"),
    "verbose": (_INTEGER, "a whole number"),
    "strategy_params": ((Mapping, type(None)), "a mapping of names to values"),
    "callbacks": ((Iterable,), "a sequence of callables"),
}


def check_parameters(selector: SubsetSelector, y: Any) -> None:
    """Reject a missing target, and parameters with which a fit could not be repeated."""
    check_estimator(selector.estimator, selector.scoring)
    if y is None:
        raise DataError(
            f"{type(selector).__name__} requires y to be passed, but the target y is None"
        )
    _check_values(selector)
    check_mute(selector.mute)
    _check_scoring(selector.scoring)
    check_known("pick", selector.pick, PICKS)
    _check_confirm(selector.confirm, selector.pick)
    prefilter_options(selector.prefilter)
    proxy_options(selector.proxy)


def _check_values(selector: SubsetSelector) -> None:
    seed = selector.random_state
    cv_class = selector.cv.__name__ if isinstance(selector.cv, type) else ""
    exhaustible = ("cv", "fixed", "forbidden", "callbacks")
    refusals = [
        (
            not isinstance(seed, _INTEGER),
            f"random_state must be an integer, got {seed!r}; "
            "with a generator a fit could not be repeated",
        ),
        (
            isinstance(seed, _INTEGER) and not 0 <= seed < 2**32,
            f"random_state must be at least 0 and below 2**32, got {seed}",
        ),
        (
            bool(cv_class),
            "cv must be a number of folds, pairs of rows or a splitter, got the class "
            f"{cv_class}; pass an object, {cv_class}()",
        ),
        *(
            (
                isinstance(getattr(selector, name), Iterator),
                f"{name} is an iterator, which one fit would exhaust; pass list({name})",
            )
            for name in exhaustible
        ),
        *(
            (
                not isinstance(getattr(selector, name), types),
                f"{name} must be {expected}, got {getattr(selector, name)!r}",
            )
            for name, (types, expected) in _TYPES.items()
        ),
        (
            isinstance(selector.mute, str),
            f"mute must be a sequence of codes, got {selector.mute!r}",
        ),
    ]
    for is_refused, message in refusals:
        if is_refused:
            raise ConfigError(message)
    for callback in selector.callbacks:
        if not callable(callback):
            raise ConfigError(
                f"callbacks must be callables of a record and a state, got {callback!r}; "
                "pass functions"
            )


def _check_confirm(confirm: bool | str | Mapping[str, Any], pick: str) -> None:
    is_auto = isinstance(confirm, str) and confirm == "auto"
    if isinstance(confirm, Mapping):
        check_options("confirm", confirm, _CONFIRM_OPTIONS)
    elif not is_auto and not isinstance(confirm, bool):
        raise ConfigError(
            f"confirm must be 'auto', True, False or a mapping of options, got {confirm!r}"
        )
    if not is_auto and confirm is not False and pick != "best":
        raise ConfigError(
            f"confirm and pick={pick!r} both select a subset; use confirm with a goal, "
            "such as {'goal': 'balanced'}, or pick alone"
        )


def prefilter_options(prefilter: bool | str | Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of a prefilter with their defaults; None if there is none."""
    if prefilter is False:
        return None
    if prefilter is True:
        prefilter = {}
    elif prefilter == "auto":
        prefilter = {"when": "auto"}
    if not isinstance(prefilter, Mapping):
        raise ConfigError(
            f"prefilter must be True, False, 'auto' or a mapping of options, got {prefilter!r}"
        )
    check_options("prefilter", prefilter, tuple(_PREFILTER_OPTIONS))
    options = {**_PREFILTER_OPTIONS, **prefilter}
    require("prefilter when", options["when"], one_of=("always", "auto"))
    require("prefilter least", options["least"], at_least=1, whole=True)
    return options


def proxy_options(proxy: Estimator | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a proxy with their defaults; None if there is none."""
    if proxy is None:
        return None
    values = dict(proxy) if isinstance(proxy, Mapping) else {"estimator": proxy}
    check_options("proxy", values, tuple(_PROXY_OPTIONS))
    options = {**_PROXY_OPTIONS, **values}
    if not values.keys() & {"estimator", "params", "rows"}:
        raise ConfigError("proxy needs one of the options estimator, params and rows")
    require("proxy best", options["best"], at_least=1, whole=True)
    require("proxy probes", options["probes"], at_least=0, whole=True)
    if options["rows"] is not None:
        require("proxy rows", options["rows"], above=0, below=1)
    return options


def check_options(parameter: str, options: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Reject an option of a parameter that is none of `names`."""
    for name in options:
        check_known(f"{parameter} option", name, names)


def _check_scoring(scoring: object) -> None:
    if not (scoring is None or isinstance(scoring, (str, Scoring)) or callable(scoring)):
        raise ConfigError(
            f"scoring must be the name of one scorer or a callable, got {scoring!r}; "
            "a search optimises a single score"
        )
    module = getattr(scoring, "__module__", None) or ""
    is_metric = module.startswith("sklearn.metrics.") and not hasattr(scoring, "_score_func")
    name = getattr(scoring, "__name__", None)
    if is_metric and name is not None and not module.startswith("sklearn.metrics._scorer"):
        raise ConfigError(
            f"scoring is the metric {name}, which takes no estimator; pass "
            f"make_scorer({name}), or the name of a scorer"
        )
