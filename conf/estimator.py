"""Build estimators and selectors of a configuration, importing only from allowed packages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from conf.schema import ComparedStrategySection
from conf.sections import ModelSection, StepSection
from swarm.errors import ConfigError, nearest
from swarm.search.settings import expanded

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# scikit-learn's message about a refused parameter.
_TOLD = re.compile(r"The '(\w+)' parameter of \w+ must be (.*)\. Got (.*) instead\.")
_PACKAGES = ("sklearn", "lightgbm", "swarm")
# Parameters of scikit-learn that take estimators, which plain values cannot express.
_OBJECTS = {"base_estimator", "estimator", "estimators", "final_estimator", "regressor", "steps"}
_OWN = tuple(f"{package}." for package in _PACKAGES)
_TRANSFORMERS = (
    *("sklearn.impute.SimpleImputer", "sklearn.impute.KNNImputer"),
    *("sklearn.preprocessing.OneHotEncoder", "sklearn.preprocessing.OrdinalEncoder"),
    *("sklearn.preprocessing.TargetEncoder", "sklearn.preprocessing.KBinsDiscretizer"),
    *("sklearn.preprocessing.StandardScaler", "sklearn.preprocessing.MinMaxScaler"),
    *("sklearn.preprocessing.MaxAbsScaler", "sklearn.preprocessing.RobustScaler"),
    *("sklearn.preprocessing.PowerTransformer", "sklearn.preprocessing.QuantileTransformer"),
)
# A category may be missing from the training rows of a fold, which scikit-learn refuses by default.
_UNKNOWN_CATEGORIES: Mapping[str, Mapping[str, Any]] = {
    "OneHotEncoder": {"handle_unknown": "ignore"},
    "OrdinalEncoder": {
        "handle_unknown": "use_encoded_value",
        "unknown_value": -1,
        "encoded_missing_value": -1,
    },
}


@dataclass(frozen=True)
class _Wanted:
    """A class of a configuration: its keys, what it must be, and an example.

    Attributes
    ----------
    key, params_key, allow_key : str
        Keys of the path, the parameters and the additional packages, for messages.
    methods : tuple of str
        Methods that the class must have.
    otherwise : str
        What to say of a class without them.
    example : str
    """

    key: str
    params_key: str
    allow_key: str
    methods: tuple[str, ...]
    otherwise: str
    example: str


_MODEL = _Wanted(
    "model.estimator",
    "model.params",
    "model.allow",
    ("fit", "predict", "get_params", "set_params"),
    "has no fit, predict and get_params; name a classifier or regressor that follows scikit-learn",
    "lightgbm.LGBMClassifier",
)


def build_estimator(model: ModelSection) -> BaseEstimator:
    """Build the unfitted estimator of `model`, in a pipeline if it has steps or scaling.

    Raises
    ------
    ConfigError
        A step is none of the transformers that are allowed, or refuses its parameters. The path,
        or its class, is outside the allowed packages, cannot be imported, is not a
        classifier or regressor, or a parameter is unknown or refused by the estimator. LightGBM
        models also accept native parameters and their aliases. Parameters are plain values:
        nothing in them is imported.
    """
    kind = _import(_MODEL, model.estimator, model.allow)
    _refuse_unknown(_MODEL, model.estimator, model.params, kind)
    estimator = _made(_MODEL, model.estimator, kind, model.params)
    if model.early_stopping is not None:
        estimator = _stopping(model, kind)
    before = [*_transformers(model.steps), *_scaler(model.scaling)]
    if not before:
        return estimator
    from sklearn.pipeline import Pipeline

    return Pipeline([*before, ("model", estimator)])


def settings_of(model: ModelSection, seed: int) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """Return the settings of ``model.search``, or a sample of them, and their number."""
    return expanded(dict(model.search), seed)


def build_setting(model: ModelSection, setting: Mapping[str, Any]) -> BaseEstimator:
    """Build the unfitted estimator with a setting of ``model.search``.

    Raises
    ------
    ConfigError
        As for :func:`build_estimator`.
    """
    with named_as("model.search", setting):
        return build_estimator(with_params(model, setting))


def with_params(model: ModelSection, params: Mapping[str, Any]) -> ModelSection:
    """Return the section with further parameters, which replace those of the same names."""
    return model.model_copy(update={"params": {**model.params, **params}})


@contextmanager
def named_as(key: str, params: Mapping[str, Any]) -> Iterator[None]:
    """Name parameters by the section that they come from in errors of ``model.params``."""
    try:
        yield
    except ConfigError as error:
        names = "|".join(map(re.escape, params))
        text = re.sub(rf"\bmodel\.params(?=\.(?:{names})\b)", key, str(error))
        if text == str(error):
            raise
        raise ConfigError(text.replace("model.params={}", f"{key}={{}}")) from None


def build_selector(label: str, section: ComparedStrategySection, model: ModelSection) -> Any:
    """Build the unfitted feature selector of a comparison.

    A parameter `estimator` is `section.estimator`, or `model` if that is null. A string
    `score_func` is a function of ``sklearn.feature_selection``.

    Raises
    ------
    ConfigError
        As for :func:`build_estimator`, or the class is not a selector, or takes no estimator
        although one is given.
    """
    path = section.selector
    if path is None:
        raise ValueError(f"{label} is not a selector")
    prefix = f"strategies.{label}"
    wanted = _Wanted(
        f"{prefix}.selector",
        f"{prefix}.params",
        f"{prefix}.allow",
        ("fit", "get_params", "set_params"),
        "has no fit and get_params; name a feature selector that follows scikit-learn",
        "sklearn.feature_selection.RFECV",
    )
    kind = _import(wanted, path, section.allow)
    if not any(hasattr(kind, name) for name in ("get_support", "transform")):
        raise ConfigError(
            f"{wanted.key} {path!r} has no get_support and no transform; name a feature selector,"
            f" such as {wanted.example}"
        )
    _refuse_unknown(wanted, path, section.params, kind)
    params = _with_function(wanted, section.params)
    takes_one = "estimator" in inspect.signature(kind).parameters
    if section.estimator is not None and not takes_one:
        raise ConfigError(
            f"{prefix}.estimator is set but {path} has no parameter estimator; remove it"
        )
    if takes_one:
        try:
            params["estimator"] = build_estimator(section.estimator or model)
        except ConfigError as error:
            raise ConfigError(f"{prefix}.estimator: {error}") from None
    return _made(wanted, path, kind, params)


def _with_function(wanted: _Wanted, params: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the name of a score function by the function."""
    name = params.get("score_func")
    if not isinstance(name, str):
        return dict(params)
    from sklearn import feature_selection

    own = name.rpartition(".")[2]
    known = sorted(
        each
        for each in feature_selection.__all__
        if inspect.isfunction(getattr(feature_selection, each))
    )
    if own not in known or name not in (own, f"sklearn.feature_selection.{own}"):
        hint = nearest(own, known) or f"; known are {', '.join(known)}"
        raise ConfigError(
            f"{wanted.params_key}.score_func must be a function of sklearn.feature_selection,"
            f" got {name!r}{hint}"
        )
    return {**params, "score_func": getattr(feature_selection, own)}


def _made(wanted: _Wanted, path: str, kind: type[Any], params: Mapping[str, Any]) -> Any:
    try:
        made = kind(**params)
        if hasattr(kind, "_parameter_constraints"):
            made._validate_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        if told := _TOLD.fullmatch(reason):
            key, must, got = told.groups()
            raise ConfigError(f"{wanted.params_key}.{key} must be {must}, got {got}") from None
        plain = {key: value for key, value in params.items() if key not in _OBJECTS}
        raise ConfigError(
            f"{path} cannot be made with {wanted.params_key} {plain!r}:"
            f" {_one_line(error)}; correct {wanted.params_key}"
        ) from None
    return made


def _transformers(sections: Sequence[StepSection]) -> list[tuple[str, Any]]:
    """Return the steps before a model, by name.

    Without a step for categories all of them see all columns, in a plain pipeline, for which there
    may be a fast path. Otherwise numbers and categories have a chain of steps each.
    """
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import Pipeline

    chains: dict[str, list[tuple[str, Any]]] = {"numbers": [], "categories": []}
    for number, section in enumerate(sections):
        is_encoder = section.transformer.endswith("Encoder")
        kind = section.columns or ("categories" if is_encoder else "numbers")
        chains[kind].append((f"step_{number}", _transformer(number, section)))
    if not chains["categories"]:
        return chains["numbers"]
    numbers = Pipeline(chains["numbers"]) if chains["numbers"] else "passthrough"
    both = [
        ("numbers", numbers, make_column_selector(dtype_exclude="category")),
        (
            "categories",
            Pipeline(chains["categories"]),
            make_column_selector(None, dtype_include="category"),
        ),
    ]
    # Models without support for sparse matrices are trained too.
    return [
        ("columns", ColumnTransformer(both, sparse_threshold=0, verbose_feature_names_out=False))
    ]


def _transformer(number: int, section: StepSection) -> Any:
    path, key = section.transformer, f"model.steps.{number}"
    if path not in _TRANSFORMERS:
        hint = nearest(path, _TRANSFORMERS) or f"; known are {', '.join(_TRANSFORMERS)}"
        raise ConfigError(f"{key}.transformer {path!r} is not supported as a step{hint}")
    wanted = _Wanted(
        f"{key}.transformer",
        f"{key}.params",
        "model.allow",
        ("fit", "transform"),
        "has no fit and transform",
        _TRANSFORMERS[0],
    )
    kind = _import(wanted, path, ())
    _refuse_unknown(wanted, path, section.params, kind)
    params = {**_UNKNOWN_CATEGORIES.get(kind.__name__, {}), **section.params}
    return _made(wanted, path, kind, params)


def _stopping(model: ModelSection, kind: type[Any]) -> Any:
    """Return the estimator with its own early stopping."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    assert model.early_stopping is not None
    rounds, share = model.early_stopping.rounds, model.early_stopping.share
    if kind in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        own = {"early_stopping": True, "n_iter_no_change": rounds, "validation_fraction": share}
    elif kind in (LGBMClassifier, LGBMRegressor):
        from swarm.early_stopping import EarlyStoppingLGBMClassifier, EarlyStoppingLGBMRegressor

        classifies = kind is LGBMClassifier
        kind = EarlyStoppingLGBMClassifier if classifies else EarlyStoppingLGBMRegressor
        own = {"early_stopping_rounds": rounds, "validation_fraction": share}
    else:
        raise ConfigError(
            f"model.early_stopping supports LightGBM and scikit-learn's HistGradientBoosting, got"
            f" {model.estimator}; set it to null, or model.estimator to one of them"
        )
    twice = sorted(set(own) & set(model.params))
    if twice:
        raise ConfigError(
            f"model.params.{twice[0]} is set by model.early_stopping too; remove one of them"
        )
    return _made(_MODEL, model.estimator, kind, {**model.params, **own})


def _scaler(scaling: str) -> list[tuple[str, Any]]:
    """Return the scaler as a step, if there is one."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    scalers = {"standard": StandardScaler, "minmax": MinMaxScaler}
    return [("scaling", scalers[scaling]())] if scaling in scalers else []


def _import(wanted: _Wanted, path: str, allow: Sequence[str]) -> type[Any]:
    prefixes = [*_PACKAGES, *(each.rstrip(".") for each in allow)]
    if not _within(path.rpartition(".")[0], prefixes):
        raise ConfigError(
            f"{wanted.key} {path!r} is outside {', '.join(prefixes)}; add its package to"
            f" {wanted.allow_key} if you trust it"
        )
    if "__" in path:
        raise ConfigError(
            f"{wanted.key} {path!r} contains a name with two underscores;"
            " use the public path of the class"
        )
    module, _, name = path.rpartition(".")
    try:
        found = import_module(module)
        kind = getattr(found, name, None)
    except Exception as error:
        raise ConfigError(
            f"{wanted.key} {path!r} cannot be imported,"
            f" {type(error).__name__}: {_one_line(error)};"
            " correct the path or install its package"
        ) from None
    if not inspect.isclass(kind):
        classes = [each for each, value in vars(found).items() if inspect.isclass(value)]
        public = [*getattr(found, "__all__", []), *classes]
        hint = nearest(name, public) or f"; name a class, such as {wanted.example}"
        raise ConfigError(f"{wanted.key} {path!r} is not a class of {module}{hint}")
    # A module may re-export classes of packages that are not allowed.
    if path.startswith(_OWN) and not _within(kind.__module__, prefixes):
        raise ConfigError(
            f"{wanted.key} {path!r} is a class of {kind.__module__}, which is outside"
            f" {', '.join(prefixes)}; add its package to {wanted.allow_key} if you trust it"
        )
    if not all(callable(getattr(kind, each, None)) for each in wanted.methods):
        raise ConfigError(f"{wanted.key} {path!r} {wanted.otherwise}")
    return kind


def _within(module: str, packages: list[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".").replace(". ", "; ")


def _refuse_unknown(wanted: _Wanted, path: str, params: Mapping[str, Any], kind: type[Any]) -> None:
    from lightgbm import LGBMModel

    known = inspect.signature(kind).parameters
    given = [key for key in params if key in _OBJECTS and params[key] is not None]
    if given and _within(kind.__module__, ["sklearn"]):
        raise ConfigError(
            f"{wanted.params_key}.{given[0]} takes estimators, but parameters can only be plain"
            f" values; build it in a class of your own, in a package of {wanted.allow_key}"
        )
    names = [name for name, each in known.items() if each.kind is not each.VAR_KEYWORD]
    if len(names) < len(known):
        # LightGBM ignores unknown parameters, with at most a warning.
        native = _native_parameters() if issubclass(kind, LGBMModel) else []
        if not native:
            return
        names += native
    for key in params:
        if key not in names:
            listed = ", ".join(known) if len(names) == len(known) else "LightGBM's own parameters"
            # Those of a shipped configuration stay if only the estimator is overridden.
            hint = nearest(key, names) or (
                f"; known are {listed} ({wanted.params_key}={{}} removes those of another model)"
            )
            raise ConfigError(f"unknown parameter '{wanted.params_key}.{key}' of {path}{hint}")


def _native_parameters() -> list[str]:
    """Return the names and aliases of LightGBM's parameters; empty if it does not list them."""
    from lightgbm import basic

    try:
        aliases = basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:  # not part of its public interface
        return []
    return [name for names in aliases.values() for name in names]
