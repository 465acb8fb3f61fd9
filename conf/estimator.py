"""Build estimators and scorers of a configuration, importing only from allowed packages."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conf.sections import ModelSection, StepSection
from swarm.errors import ConfigError, as_clause, nearest
from swarm.protocols import Estimator

if TYPE_CHECKING:
    from swarm.problem.scoring import Scoring

# scikit-learn refuses a parameter in these words.
_CONSTRAINT = re.compile(r"The '(\w+)' parameter of \w+ must be (.*)\. Got (.*) instead\.")
_PACKAGES = ("sklearn", "lightgbm", "swarm")
# These parameters of scikit-learn take estimators, which plain values cannot express.
_OBJECTS = {"base_estimator", "estimator", "estimators", "final_estimator", "regressor", "steps"}
# A category may be missing from the training rows of a fold, which scikit-learn refuses by default.
_UNKNOWN_CATEGORIES: Mapping[str, Mapping[str, Any]] = {
    "OneHotEncoder": {"handle_unknown": "ignore"},
    "OrdinalEncoder": {
        "handle_unknown": "use_encoded_value",
        "unknown_value": -1,
        "encoded_missing_value": -1,
    },
}
# Share of the training rows on which early stopping measures a model.
_HELD_OUT = 0.2


def build_estimator(model: ModelSection, key: str = "model.params") -> Estimator:
    """Build the unfitted estimator of `model`, in a pipeline if it has steps.

    ConfigError if a class is not allowed, or refuses its parameters, which errors call `key`.
    LightGBM models accept native parameters and aliases. Parameters are plain values: nothing in
    them is imported.
    """
    estimator_class = _import(model.estimator, model.allow)
    _refuse_unknown(key, model.estimator, model.params, estimator_class)
    estimator = _make(key, model.estimator, estimator_class, model.params)
    if model.early_stopping is not None:
        estimator = _with_early_stopping(model, model.early_stopping, estimator_class)
    if not model.steps:
        return estimator
    from sklearn.pipeline import Pipeline

    return Pipeline([*_transformers(model.steps), ("model", estimator)])


def build_scorer(scoring: str | None, allow: Sequence[str]) -> str | Scoring | None:
    """Return the scorer of an import path in an allowed package; a plain name is one already.

    ConfigError if a name is unknown, or a path is no ``scorer(estimator, X, y)``.
    """
    from swarm.problem.scoring import Scoring, check_scorer_name

    if scoring is None:
        return None
    if "." not in scoring:
        check_scorer_name(scoring, "scoring")
        return scoring
    key = f"scoring {scoring!r}"
    module, _, name = scoring.rpartition(".")
    content, scorer = _from_module(key, scoring, _allowed(allow), allow)
    if not callable(scorer):
        functions = [name for name, value in vars(content).items() if callable(value)]
        raise ConfigError(
            f"{key} is not a function of {module}{nearest(name, functions) or '; name one'}"
        )
    if not _takes_estimator(scorer):
        raise ConfigError(
            f"{key} must be called with an estimator, X and y, got the parameters"
            f" {inspect.signature(scorer)}; make a scorer of a metric in its module:"
            f" {name}_scorer = sklearn.metrics.make_scorer({name})"
        )
    return Scoring(name, scorer, upper=None)


def _takes_estimator(scorer: Callable[..., Any]) -> bool:
    """Whether a function can be a scorer, and is no metric of true and predicted values."""
    try:
        signature = inspect.signature(scorer)
        signature.bind("estimator", "X", "y")
    except (TypeError, ValueError):
        return False
    return not next(iter(signature.parameters)).startswith("y")


def with_params(model: ModelSection, params: Mapping[str, Any]) -> ModelSection:
    """Return the section with further parameters, which replace those of the same names."""
    return model.model_copy(update={"params": {**model.params, **params}})


def _make(key: str, path: str, model_class: type[Any], params: Mapping[str, Any]) -> Any:
    """Return an instance; errors name the key of its parameters."""
    try:
        model = model_class(**params)
        if hasattr(model_class, "_parameter_constraints"):
            model._validate_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        if constraint := _CONSTRAINT.fullmatch(reason):
            name, must, got = constraint.groups()
            raise ConfigError(f"{key}.{name} must be {must}, got {got}") from None
        plain_params = {name: value for name, value in params.items() if name not in _OBJECTS}
        raise ConfigError(
            f"{path} cannot be made with {key} {plain_params!r}: {_one_line(error)}; correct {key}"
        ) from None
    return model


def _transformers(sections: Sequence[StepSection]) -> list[tuple[str, Any]]:
    """Return the steps before a model, by name.

    Steps see all columns, in a plain pipeline that may have a fast path, unless one is for
    categories: numbers and categories then have a chain of steps each.
    """
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import Pipeline

    chains: dict[str, list[tuple[str, Any]]] = {"numbers": [], "categories": []}
    for number, section in enumerate(sections):
        is_encoder = section.transformer.endswith("Encoder")
        columns = section.columns or ("categories" if is_encoder else "numbers")
        chains[columns].append((f"step_{number}", _transformer(number, section)))
    if not chains["categories"]:
        return chains["numbers"]
    numbers = Pipeline(chains["numbers"]) if chains["numbers"] else "passthrough"
    categories = Pipeline(chains["categories"])
    transformer = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_exclude="category")),
            ("categories", categories, make_column_selector(None, dtype_include="category")),
        ],
        # Some models do not support sparse matrices.
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )
    return [("columns", transformer)]


def _transformer(number: int, section: StepSection) -> Any:
    path = section.transformer
    key = f"model.steps.{number}.params"
    module, _, name = path.rpartition(".")
    transformer_class = getattr(import_module(module), name)
    _refuse_unknown(key, path, section.params, transformer_class)
    params = {**_UNKNOWN_CATEGORIES.get(name, {}), **section.params}
    return _make(key, path, transformer_class, params)


def _with_early_stopping(
    model: ModelSection, n_rounds: int, estimator_class: type[Any]
) -> Estimator:
    """Return the estimator with its own early stopping after rounds without an improvement."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if estimator_class in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        params = {
            "early_stopping": True,
            "n_iter_no_change": n_rounds,
            "validation_fraction": _HELD_OUT,
        }
    elif estimator_class in (LGBMClassifier, LGBMRegressor):
        from swarm.early_stopping import EarlyStoppingLGBMClassifier, EarlyStoppingLGBMRegressor

        estimator_class = (
            EarlyStoppingLGBMClassifier
            if estimator_class is LGBMClassifier
            else EarlyStoppingLGBMRegressor
        )
        params = {"early_stopping_rounds": n_rounds, "validation_fraction": _HELD_OUT}
    else:
        raise ConfigError(
            f"model.early_stopping supports LightGBM and scikit-learn's HistGradientBoosting, got"
            f" {model.estimator}; set it to null, or model.estimator to one of them"
        )
    repeated = sorted(set(params) & set(model.params))
    if repeated:
        raise ConfigError(
            f"model.params.{repeated[0]} is set by model.early_stopping too; remove one of them"
        )
    return _make("model.params", model.estimator, estimator_class, {**model.params, **params})


def _import(path: str, allow: Sequence[str]) -> type[Any]:
    """Return the class of a model, from a package that is allowed."""
    key = f"model.estimator {path!r}"
    prefixes = [*_PACKAGES, *_allowed(allow)]
    content, estimator_class = _from_module(key, path, prefixes, allow)
    module, _, name = path.rpartition(".")
    if not inspect.isclass(estimator_class):
        classes = [name for name, value in vars(content).items() if inspect.isclass(value)]
        public = [*getattr(content, "__all__", []), *classes]
        hint = nearest(name, public) or "; name a class, such as lightgbm.LGBMClassifier"
        raise ConfigError(f"{key} is not a class of {module}{hint}")
    # A module may re-export classes of packages that are not allowed.
    origin = estimator_class.__module__
    if _within(module, _PACKAGES) and not _within(origin, prefixes):
        raise ConfigError(f"{key} is a class of {origin}, which is {_outside(prefixes)}")
    methods = ("fit", "predict", "get_params", "set_params")
    if not all(callable(getattr(estimator_class, method, None)) for method in methods):
        raise ConfigError(
            f"{key} has no fit, predict and get_params; name a classifier or regressor that follows"
            " scikit-learn"
        )
    return estimator_class


def _from_module(
    key: str, path: str, prefixes: Sequence[str], allow: Sequence[str]
) -> tuple[ModuleType, Any]:
    """Return the module of an import path within `prefixes`, and the object, None if missing."""
    module, _, name = path.rpartition(".")
    if not _within(module, prefixes):
        raise ConfigError(f"{key} is {_outside(prefixes)}")
    if "__" in path:
        raise ConfigError(f"{key} contains a name with two underscores; use its public path")
    remedy = "correct the path or install its package"
    if _within(module, _allowed(allow)):
        search_in(Path.cwd())
        remedy = (
            "run the command in its folder, add that to PYTHONPATH, move it beside the "
            "configuration (which a resumed run does not know), or install it"
        )
    try:
        content = import_module(module)
        return content, getattr(content, name, None)
    except Exception as error:
        reason = f"{type(error).__name__}: {_one_line(error)}"
        raise ConfigError(f"{key} cannot be imported, {reason}; {remedy}") from None


def _allowed(allow: Sequence[str]) -> list[str]:
    return [package.rstrip(".") for package in allow]


def _outside(prefixes: Sequence[str]) -> str:
    outside = f"outside {', '.join(prefixes)}" if prefixes else "of no allowed package"
    return f"{outside}; add its package to model.allow if you trust it"


def search_in(folder: Path) -> None:
    """Let modules that a configuration allows be found in a folder too, after all others.

    Worker processes inherit this.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _within(module: str, packages: Sequence[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _one_line(error: Exception) -> str:
    return as_clause(" ".join(str(error).split()))


def _refuse_unknown(key: str, path: str, params: Mapping[str, Any], model_class: type[Any]) -> None:
    """Refuse parameters that a class does not have; keyword arguments are known for LightGBM."""
    from lightgbm import LGBMModel

    parameters = inspect.signature(model_class).parameters
    objects = [name for name in params if name in _OBJECTS and params[name] is not None]
    if objects and _within(model_class.__module__, ["sklearn"]):
        raise ConfigError(
            f"{key}.{objects[0]} takes estimators, but parameters can only be plain values; build "
            "it in a class of your own, in a package of model.allow"
        )
    names = [name for name, param in parameters.items() if param.kind is not param.VAR_KEYWORD]
    listed = ", ".join(parameters)
    if len(names) < len(parameters):
        # LightGBM ignores unknown parameters, with at most a warning.
        native = _native_parameters() if issubclass(model_class, LGBMModel) else []
        if not native:
            return
        names += native
        listed = "LightGBM's own parameters"
    for name in [name for name in params if name not in names]:
        # An override of the estimator alone leaves the parameters of a shipped configuration.
        hint = nearest(name, names) or (
            f"; known are {listed} ({key}={{}} removes those of another model)"
        )
        raise ConfigError(f"unknown parameter '{key}.{name}' of {path}{hint}")


def _native_parameters() -> list[str]:
    """Return the names and aliases of LightGBM's parameters; empty if it does not list them."""
    from lightgbm import basic

    try:
        aliases = basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:
        # The list is not part of LightGBM's public interface.
        return []
    return [name for names in aliases.values() for name in names]
