"""Check a configuration before any data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from conf.estimator import (
    build_estimator,
    build_selector,
    build_setting,
    named_as,
    settings_of,
    with_params,
)
from conf.resolve import fold_windows, kind_of_folds
from conf.schema import CompareConfig, SelectConfig
from conf.sections import CsvSection, ModelSection
from swarm.errors import ConfigError, InputError, nearest
from swarm.findings.registry import check_mute
from swarm.problem.time_folds import TIME_KINDS
from swarm.search.options import check_options
from swarm.search.settings import described
from swarm.strategies.catalogue import make

# Names that every supported version of LightGBM and scikit-learn has. Importing these packages
# takes two seconds of processor time, so a configuration that uses only these names is checked
# without them; any other name is checked against the installed packages.

# Whether a model is a classifier. LightGBM checks the values of parameters in `fit` only.
LIGHTGBM_MODELS = {"lightgbm.LGBMClassifier": True, "lightgbm.LGBMRegressor": False}

LIGHTGBM_PARAMETERS = frozenset(
    {
        *("bagging_fraction", "bagging_freq", "boosting", "boosting_type", "cat_l2", "cat_smooth"),
        *("class_weight", "colsample_bytree", "deterministic", "extra_trees", "feature_fraction"),
        *("feature_fraction_bynode", "force_col_wise", "force_row_wise", "importance_type"),
        *("is_unbalance", "lambda_l1", "lambda_l2", "learning_rate", "linear_tree", "max_bin"),
        *("max_cat_threshold", "max_cat_to_onehot", "max_depth", "min_child_samples"),
        *("min_child_weight", "min_data_in_leaf", "min_gain_to_split", "min_split_gain"),
        *("min_sum_hessian_in_leaf", "n_estimators", "n_jobs", "num_iterations", "num_leaves"),
        *("num_threads", "objective", "path_smooth", "random_state", "reg_alpha", "reg_lambda"),
        *("scale_pos_weight", "seed", "subsample", "subsample_for_bin", "subsample_freq"),
        *("verbose", "verbosity"),
    }
)

SCORERS = frozenset(
    {
        *("accuracy", "average_precision", "balanced_accuracy", "f1", "f1_macro", "f1_micro"),
        *("f1_samples", "f1_weighted", "jaccard", "matthews_corrcoef"),
        *("neg_brier_score", "neg_hamming_loss", "neg_log_loss", "neg_mean_absolute_error"),
        *("neg_mean_absolute_percentage_error", "neg_mean_squared_error"),
        *("neg_median_absolute_error", "neg_root_mean_squared_error", "precision"),
        *("precision_macro", "precision_micro", "precision_weighted", "r2", "recall"),
        *("recall_macro", "recall_micro", "recall_weighted", "roc_auc", "roc_auc_ovo"),
        *("roc_auc_ovr", "subset_accuracy"),
    }
)

# Packages that the task runners of a comparison need.
_RUNNERS = {"dask": "prefect_dask", "ray": "prefect_ray"}


def check(config: SelectConfig | CompareConfig) -> None:
    """Check what depends on several keys or on installed packages.

    Parameters
    ----------
    config : SelectConfig, RefreshConfig or CompareConfig
        Returned by :func:`conf.load.load`.

    Raises
    ------
    ConfigError
        The first problem: columns with two roles, a split or folds without the column they need,
        an estimator, scorer or strategy that cannot be used, a vote that does not fit the
        estimator, features that are both fixed and forbidden, or a missing package of a task
        runner. In a comparison, every strategy and every data set is checked.
    """
    first = next(_problems(config), None)
    if first is not None:
        raise first


def problems_of(config: SelectConfig | CompareConfig) -> list[str]:
    """Return every problem that :func:`check` may raise; of a comparison the first."""
    return [str(problem) for problem in _problems(config)]


def _problems(config: SelectConfig | CompareConfig) -> Iterator[InputError]:
    """Yield the problems in the order in which they are checked."""
    yield from _raised(check_mute, config.mute)
    if isinstance(config, CompareConfig):
        yield from _raised(_check_compare, config)
        return
    for sentences in (_columns_have_one_role, _roles_have_their_columns, _csv_is_of_a_file):
        yield from map(ConfigError, sentences(config))
    yield from map(ConfigError, _features_are_not_contradictory(config))
    try:
        traits = _traits(config.model)
    except ConfigError as error:
        yield error
    else:
        yield from map(ConfigError, _estimator_suits(config, traits))
        if config.model.search:
            yield from _raised(_settings_suit, config)
        kind = kind_of_folds(config, classes=traits.classifies is not False)
        yield from map(ConfigError, _windows_suit(config, kind))
        if config.proxy is not None:
            yield from _raised(_proxy_suits, config.model, config.proxy.params)
    yield from map(ConfigError, _workers_can_be_reached(config))
    yield from map(ConfigError, _scorers_exist(config))
    yield from _raised(_strategy_can_be_made, config)


def _strategy_can_be_made(config: SelectConfig) -> None:
    strategy = make(config.strategy.name, config.strategy.params)
    check_options(
        strategy,
        repeats=config.folds.repeats,
        rotate=config.folds.rotate,
        racing=config.evaluation.racing,
        noise_floor=config.budget.noise_floor,
        importance=config.evaluation.importance,
        rows=config.budget.rows,
        asynchronous=config.evaluation.asynchronous,
        proxy=config.proxy is not None,
        tuning=bool(config.model.search),
        warm=config.warm is not None,
    )


def _proxy_suits(model: ModelSection, params: Mapping[str, Any]) -> None:
    with named_as("proxy.params", params):
        _traits(with_params(model, params))


def _settings_suit(config: SelectConfig) -> None:
    """Check every setting of the model like the model itself."""
    for setting in settings_of(config.model, config.seed)[0]:
        estimator = build_setting(config.model, setting)
        traits = _Traits(_classifies(estimator), hasattr(estimator, "predict_proba"))
        for told in _estimator_suits(config, traits):
            raise ConfigError(f"with the setting {described(setting)}: {told}")


def _raised(checks: Callable[..., object], *arguments: Any) -> Iterator[InputError]:
    """Yield the error of a check that stops at its first problem."""
    try:
        checks(*arguments)
    except InputError as error:
        yield error


def _check_compare(config: CompareConfig) -> None:
    _selectors_can_be_compared(config)
    for label in config.strategies:
        if config.is_selector(label):
            continue
        strategy = config.strategy(label)
        try:
            make(strategy.name, strategy.params)
        except ConfigError as error:
            raise ConfigError(f"strategies.{label}: {error}") from None
    first = next(iter(config.strategies))
    for name in config.datasets:
        try:
            select = config.as_select(name, first)
            if select.folds.rotate:
                raise ConfigError(
                    f"folds.rotate {select.folds.rotate} changes the folds during a search, but"
                    " comparisons follow the best cost on the same folds; set it to 0"
                )
            if select.space.cost_weight:
                raise ConfigError(
                    f"space.cost_weight {select.space.cost_weight:g} adds the price of a subset to"
                    " its cost, but comparisons compare costs; set it to 0"
                )
            if select.budget.rows is not None:
                raise ConfigError(
                    f"budget.rows {select.budget.rows!r} evaluates most subsets on a part of the"
                    " rows, but comparisons compare evaluations on all of them; set budget.rows to"
                    " null"
                )
            if select.evaluation.asynchronous:
                raise ConfigError(
                    "evaluation.asynchronous lets the result depend on the speed of the workers,"
                    " but comparisons compare strategies alone; set it to false"
                )
            _refuse_settings("model", select.model)
            check(select)
            for label, section in config.strategies.items():
                if config.is_selector(label):
                    if section.estimator is not None:
                        _refuse_settings(f"strategies.{label}.estimator", section.estimator)
                    build_selector(label, section, select.model)
        except ConfigError as error:
            raise ConfigError(f"data set {name!r}: {error}") from None
    kind, address = config.runner.kind, config.runner.address
    if address is not None and kind not in _RUNNERS:
        raise ConfigError(
            f"runner.address {address!r} is for the task runners dask and ray, got {kind!r};"
            " set runner.kind, or remove the address"
        )
    package = _RUNNERS.get(kind)
    if package is not None and find_spec(package) is None:
        name = package.replace("_", "-")
        raise ConfigError(
            f"runner.kind {kind!r} needs the package {name}, which is not"
            f" installed; run `pip install {name}`, or set runner.kind to 'threads'"
        )


def _refuse_settings(key: str, model: ModelSection) -> None:
    if model.search:
        raise ConfigError(
            f"{key}.search chooses settings of the model in every search, but comparisons compare"
            " costs of one model; remove it"
        )


def _selectors_can_be_compared(config: CompareConfig) -> None:
    """Refuse settings that selectors of other packages do not support."""
    own = [label for label in config.strategies if config.is_selector(label)]
    if config.resample:
        for name in config.datasets:
            split = config.own_split(name)
            if split is None or split.kind in ("time", "column"):
                kind = "null" if split is None else f"kind {split.kind!r}"
                raise ConfigError(
                    f"resample needs a split that a seed can change, got {kind} for data set"
                    f" {name!r}; set split.kind to 'random', 'stratified' or 'group'"
                )
    if not own:
        return
    for name, section in config.datasets.items():
        where = f"strategies.{own[0]} is a selector"
        if config.own_split(name) is None:
            raise ConfigError(
                f"{where}, which is judged on test rows, but data set {name!r} has none; set split"
            )
        if section.data.weight is not None:
            raise ConfigError(
                f"{where}, and selectors are not given sample weights, but data set {name!r} has"
                " data.weight; remove one of them"
            )
        space = section.space or config.space
        if space.fixed or space.groups or space.min_size > 1 or space.max_size is not None:
            raise ConfigError(
                f"{where}, which cannot obey space.fixed, groups, min_size or max_size of data set"
                f" {name!r}; remove one of them"
            )


def _columns_have_one_role(config: SelectConfig) -> Iterator[str]:
    data = config.data
    targets = [data.target] if isinstance(data.target, str) else data.target or []
    named: list[tuple[str, str | None]] = [("data.target", name) for name in targets]
    named += [(f"data.{role}", getattr(data, role)) for role in ("group", "time", "weight", "part")]
    named.append(("data.horizon", data.horizon if isinstance(data.horizon, str) else None))
    named.append(("folds.column", config.folds.column))
    roles: dict[str, str] = {}
    for role, name in named:
        if name is None:
            continue
        if name in roles:
            yield f"column {name!r} is both {roles[name]} and {role}; remove it from one of them"
            continue
        roles[name] = role
    for key, columns in (("data.drop", data.drop), ("data.categorical", data.categorical)):
        for name in columns:
            if name in roles:
                yield f"column {name!r} is both {roles[name]} and in {key}; remove it from {key}"


def _roles_have_their_columns(config: SelectConfig) -> Iterator[str]:
    needs = {"group": "group", "stratified_group": "group", "time": "time", "purged": "time"}
    for key, kind, role in (
        ("split.kind", config.split.kind, {**needs, "column": "part"}.get(config.split.kind)),
        ("folds.kind", config.folds.kind, needs.get(config.folds.kind)),
    ):
        if role is not None and getattr(config.data, role) is None:
            yield f"{key} {kind!r} needs data.{role}, which is null; set it to a column"


def _windows_suit(config: SelectConfig, kind: str) -> Iterator[str]:
    """Refuse gaps, windows and an embargo that folds or split of a kind cannot have."""
    folds, split = config.folds, config.split
    misfit = fold_windows(config).misfit(kind)
    if misfit is not None:
        yield f"folds.{misfit}"
    if folds.kind == "auto" and kind in TIME_KINDS and folds.repeats > 1:
        yield (
            f"folds.repeats {folds.repeats} needs folds that depend on a seed, but folds.kind"
            f" 'auto' is {kind!r} here; set folds.repeats to 1, or use folds of another kind"
        )
    for key, value in (("gap", split.gap), ("max_train_size", split.max_train_size)):
        if value and split.kind != "time":
            yield (
                f"split.{key} {value} is for split kind 'time', got kind {split.kind!r};"
                " set split.kind to 'time', or leave it out"
            )


def _csv_is_of_a_file(config: SelectConfig) -> Iterator[str]:
    data = config.data
    if data.source != "file" and data.csv != CsvSection():
        yield f"data.csv is for source file, got source {data.source!r}; remove it"


def _features_are_not_contradictory(config: SelectConfig) -> Iterator[str]:
    groups = config.space.groups

    def columns(names: list[str]) -> dict[str, str]:
        return {column: name for name in names for column in groups.get(name, [name])}

    fixed, forbidden = columns(config.space.fixed), columns(config.space.forbidden)
    for column, name in fixed.items():
        if column in forbidden:
            other = forbidden[column]
            both = repr(name) if name == other else f"{name!r} and {other!r}"
            yield (
                f"space.fixed and space.forbidden both cover {column!r}, by {both};"
                " remove it from one of them"
            )


class _Traits(NamedTuple):
    """What checks need to know of an estimator; `classifies` is None if it does not regress."""

    classifies: bool | None
    has_probabilities: bool


def _traits(model: ModelSection) -> _Traits:
    """Return the traits of an estimator; those of a usual model of LightGBM without importing it.

    Raises
    ------
    ConfigError
        As :func:`conf.estimator.build_estimator`.
    """
    known = LIGHTGBM_MODELS.get(model.estimator)
    is_plain = not model.steps and model.early_stopping is None
    if known is not None and is_plain and LIGHTGBM_PARAMETERS.issuperset(model.params):
        return _Traits(known, known)
    estimator = build_estimator(model)
    return _Traits(_classifies(estimator), hasattr(estimator, "predict_proba"))


def _estimator_suits(config: SelectConfig, traits: _Traits) -> Iterator[str]:
    path, vote = config.model.estimator, config.ensemble.vote
    classifies = traits.classifies
    if classifies is None:
        yield (
            f"model.estimator {path!r} is neither a classifier nor a regressor compatible with"
            " scikit-learn; name one that is"
        )
        return
    if classifies:
        if vote == "mean":
            yield (
                f"ensemble.vote 'mean' needs a regressor, got the classifier {path};"
                " set it to 'hard', 'soft', 'any' or 'auto'"
            )
        if vote == "soft" and not traits.has_probabilities:
            yield (
                f"ensemble.vote 'soft' needs probabilities, which {path} with these model.params"
                " does not provide; set it to 'hard'"
            )
        return
    refused: list[tuple[str, object, str]] = []
    if vote in ("hard", "soft", "any"):
        refused.append(("ensemble.vote", vote, "'mean' or 'auto'"))
    if config.pos_label is not None:
        refused.append(("pos_label", config.pos_label, "null"))
    for key, kind in (("split.kind", config.split.kind), ("folds.kind", config.folds.kind)):
        if kind.startswith("stratified"):
            refused.append((key, kind, "'group'" if kind.endswith("group") else "'random'"))
    for key, value, remedy in refused:
        yield f"{key} {value!r} needs a classifier, got the regressor {path}; set it to {remedy}"


def _classifies(estimator: Any) -> bool | None:
    """Whether it is a classifier; None if it is no regressor either."""
    from sklearn.base import is_classifier, is_regressor

    try:
        classifies, regresses = is_classifier(estimator), is_regressor(estimator)
    except (AttributeError, TypeError):  # no tags: not derived from scikit-learn's base classes
        return None
    return bool(classifies) if classifies or regresses else None


def _workers_can_be_reached(config: SelectConfig) -> Iterator[str]:
    backend, address = config.evaluation.backend, config.evaluation.address
    if address is not None and backend not in ("dask", "ray"):
        yield (
            f"evaluation.address {address!r} is for the backends dask and ray, got {backend!r};"
            " set evaluation.backend, or remove the address"
        )
    timeout = config.evaluation.timeout_seconds
    if timeout is not None and backend != "loky":
        yield (
            f"evaluation.timeout_seconds {timeout:g} needs workers that can be killed and replaced,"
            f" got evaluation.backend {backend!r}; set it to 'loky', or the timeout to null"
        )
    if backend in ("dask", "ray") and find_spec(backend) is None:
        yield (
            f"evaluation.backend {backend!r} needs a package that is not installed;"
            f" install swarmselect[{backend}]"
        )
    device = config.evaluation.device
    if device != "cpu" and not config.evaluation.exact:
        yield (
            f"evaluation.device {device!r} computes without models, which evaluation.exact turns"
            " off; remove one of them"
        )
    if device != "cpu" and find_spec("array_api_compat") is None:
        yield (
            f"evaluation.device {device!r} needs a package that is not installed;"
            " install swarmselect[gpu], and PyTorch or CuPy"
        )


def _scorers_exist(config: SelectConfig) -> Iterator[str]:
    named = [("scoring", config.scoring)]
    named += [("test.metrics", metric) for metric in config.test.metrics or []]
    champion = getattr(config, "champion", None)
    if champion is not None:
        named.append(("champion.metric", champion.metric))
    unusual = [(key, name) for key, name in named if name is not None and name not in SCORERS]
    if not unusual:
        return
    from swarm.problem.scoring import scorer_names
    from swarm.validation.metrics import metric_names

    for key, name in unusual:
        known = scorer_names() if key == "scoring" else metric_names()
        if name not in known:
            usual = ", ".join(sorted(SCORERS)[:6])
            hint = nearest(name, known) or f"; name one of scikit-learn's, such as {usual}"
            yield f"unknown scorer {name!r} in {key}{hint}"
