"""Build the estimator of a configuration, importing only from allowed packages."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from conf.problem_sections import ModelSection
from swarm.errors import ConfigError, nearest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["build_estimator"]

# scikit-learn's message about a refused parameter.
_TOLD = re.compile(r"The '(\w+)' parameter of \w+ must be (.*)\. Got (.*) instead\.")
_PACKAGES = ("sklearn", "lightgbm", "swarm")
# Parameters of scikit-learn that take estimators, which plain values cannot express.
_OBJECTS = {"base_estimator", "estimator", "estimators", "final_estimator", "regressor", "steps"}
_OWN = tuple(f"{package}." for package in _PACKAGES)


def build_estimator(model: ModelSection) -> BaseEstimator:
    """Build the unfitted estimator of `model`, in a pipeline if its features are scaled.

    Raises
    ------
    ConfigError
        The path, or its class, is outside the allowed packages, cannot be imported, is not a
        classifier or regressor, or a parameter is unknown or refused by the estimator. LightGBM
        models also accept native parameters and their aliases. Parameters are plain values:
        nothing in them is imported.
    """
    kind = _import(model)
    _refuse_unknown(model, kind)
    try:
        estimator = kind(**model.params)
        if hasattr(kind, "_parameter_constraints"):
            estimator._validate_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        if told := _TOLD.fullmatch(reason):
            key, wanted, got = told.groups()
            raise ConfigError(f"model.params.{key} must be {wanted}, got {got}") from None
        raise ConfigError(
            f"{model.estimator} cannot be made with model.params {model.params!r}:"
            f" {_one_line(error)}; correct model.params"
        ) from None
    return _scaled(estimator, model.scaling)


def _scaled(estimator: BaseEstimator, scaling: str) -> BaseEstimator:
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    scalers = {"standard": StandardScaler, "minmax": MinMaxScaler}
    if scaling not in scalers:
        return estimator
    return Pipeline([("scaling", scalers[scaling]()), ("model", estimator)])


def _import(model: ModelSection) -> type[Any]:
    path, prefixes = model.estimator, [*_PACKAGES, *(each.rstrip(".") for each in model.allow)]
    if not _within(path.rpartition(".")[0], prefixes):
        raise ConfigError(
            f"model.estimator {path!r} is outside {', '.join(prefixes)}; add its package to"
            " model.allow if you trust it"
        )
    if "__" in path:
        raise ConfigError(
            f"model.estimator {path!r} contains a name with two underscores;"
            " use the public path of the class"
        )
    module, _, name = path.rpartition(".")
    try:
        found = import_module(module)
        kind = getattr(found, name, None)
    except Exception as error:
        raise ConfigError(
            f"model.estimator {path!r} cannot be imported,"
            f" {type(error).__name__}: {_one_line(error)};"
            " correct the path or install its package"
        ) from None
    if not inspect.isclass(kind):
        classes = [each for each, value in vars(found).items() if inspect.isclass(value)]
        public = [*getattr(found, "__all__", []), *classes]
        hint = nearest(name, public) or "; name a class, such as lightgbm.LGBMClassifier"
        raise ConfigError(f"model.estimator {path!r} is not a class of {module}{hint}")
    # A module may re-export classes of packages that are not allowed.
    if path.startswith(_OWN) and not _within(kind.__module__, prefixes):
        raise ConfigError(
            f"model.estimator {path!r} is a class of {kind.__module__}, which is outside"
            f" {', '.join(prefixes)}; add its package to model.allow if you trust it"
        )
    needed = ("fit", "predict", "get_params", "set_params")
    if not all(callable(getattr(kind, each, None)) for each in needed):
        raise ConfigError(
            f"model.estimator {path!r} has no fit, predict and get_params; name a classifier or"
            " regressor that follows scikit-learn"
        )
    return kind


def _within(module: str, packages: list[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".").replace(". ", "; ")


def _refuse_unknown(model: ModelSection, kind: type[Any]) -> None:
    from lightgbm import LGBMModel

    known = inspect.signature(kind).parameters
    given = [key for key in model.params if key in _OBJECTS and model.params[key] is not None]
    if given and _within(kind.__module__, ["sklearn"]):
        raise ConfigError(
            f"model.params.{given[0]} takes estimators, but parameters can only be plain values;"
            " build it in a class of your own, in a package of model.allow"
        )
    names = [name for name, each in known.items() if each.kind is not each.VAR_KEYWORD]
    if len(names) < len(known):
        # LightGBM ignores unknown parameters, with at most a warning.
        native = _native_parameters() if issubclass(kind, LGBMModel) else []
        if not native:
            return
        names += native
    for key in model.params:
        if key not in names:
            listed = ", ".join(known) if len(names) == len(known) else "LightGBM's own parameters"
            hint = nearest(key, names) or f"; known are {listed}"
            raise ConfigError(f"unknown parameter 'model.params.{key}' of {model.estimator}{hint}")


def _native_parameters() -> list[str]:
    """Return the names and aliases of LightGBM's parameters; empty if it does not list them."""
    from lightgbm import basic

    try:
        aliases = basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:  # not part of its public interface
        return []
    return [name for names in aliases.values() for name in names]
