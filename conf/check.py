"""Check what a configuration names, before data is read: a model, scorers, a strategy, packages.

Keys that contradict others are found as they are read, by `contradictions` of the sections.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from conf.estimator import build_estimator, build_scorer, with_params
from conf.schema import CompareConfig, SelectConfig
from swarm.errors import ConfigError, InputError
from swarm.findings.registry import check_mute
from swarm.problem.models import has_method, is_a
from swarm.protocols import Estimator
from swarm.search.warm_start import check_warm_start
from swarm.strategies.catalogue import make


def check(config: SelectConfig | CompareConfig) -> None:
    """Raise the first problem of a configuration, in a comparison of any strategy and data set."""
    for problem in _problems(config):
        raise problem


def problems_of(config: SelectConfig | CompareConfig) -> list[str]:
    """Return every problem that :func:`check` may raise, for a comparison only the first."""
    return [str(problem) for problem in _problems(config)]


def _problems(config: SelectConfig | CompareConfig) -> Iterator[InputError]:
    """Yield the problems in the order in which they are checked."""
    yield from _error_of(check_mute, config.mute)
    if isinstance(config, CompareConfig):
        yield from _error_of(_check_compare, config)
        return
    try:
        yield from map(ConfigError, _misfits(config, build_estimator(config.model)))
    except ConfigError as error:
        yield error
    if config.proxy is not None:
        proxy_model = with_params(config.model, config.proxy.params)
        yield from _error_of(build_estimator, proxy_model, "proxy.params")
    if config.evaluation.backend == "dask" and find_spec("dask") is None:
        yield ConfigError(
            "evaluation.backend 'dask' needs a package that is not installed; install"
            " swarmselect[dask]"
        )
    yield from _unknown_scorers(config)
    yield from _error_of(_check_strategy, config)


def _error_of(function: Callable[..., object], *arguments: object) -> Iterator[InputError]:
    """Yield the error of a check that stops at its first problem."""
    try:
        function(*arguments)
    except InputError as error:
        yield error


def _check_compare(config: CompareConfig) -> None:
    for label in config.strategies:
        strategy = config.strategy(label)
        try:
            make(strategy.name, strategy.params)
        except ConfigError as error:
            raise ConfigError(f"strategies.{label}: {error}") from None
    label = next(iter(config.strategies))
    for name in config.datasets:
        try:
            check(config.as_select(name, label))
        except ConfigError as error:
            raise ConfigError(f"data set {name!r}: {error}") from None
    kind = config.runner.kind
    if kind in ("dask", "ray") and find_spec(f"prefect_{kind}") is None:
        raise ConfigError(
            f"runner.kind {kind!r} needs the package prefect-{kind}, which is not installed;"
            f" run `pip install prefect-{kind}`, or set runner.kind to 'threads'"
        )


def _check_strategy(config: SelectConfig) -> None:
    strategy = make(config.strategy.name, config.strategy.params)
    if config.warm is not None:
        check_warm_start(strategy)


def _misfits(config: SelectConfig, estimator: Estimator) -> Iterator[str]:
    """Yield why an object is no estimator, or which settings it cannot have."""
    from sklearn.base import is_classifier, is_regressor

    path = config.model.estimator
    vote = config.ensemble.vote
    if is_a(is_classifier, estimator):
        if vote == "mean":
            yield (
                f"ensemble.vote 'mean' needs a regressor, got the classifier {path};"
                " set it to 'hard', 'soft', 'any' or 'auto'"
            )
        if vote == "soft" and not has_method(estimator, "predict_proba"):
            yield (
                f"ensemble.vote 'soft' needs probabilities, which {path} with these model.params"
                " does not provide; set it to 'hard'"
            )
    elif is_a(is_regressor, estimator):
        split = config.split.kind
        folds = config.folds.kind
        other_folds = "'group'" if folds.endswith("group") else "'random'"
        for key, value, needs_classes, remedy in (
            ("ensemble.vote", vote, vote in ("hard", "soft", "any"), "'mean' or 'auto'"),
            ("pos_label", config.pos_label, config.pos_label is not None, "null"),
            ("split.kind", split, split == "stratified", "'random'"),
            ("folds.kind", folds, folds.startswith("stratified"), other_folds),
        ):
            if needs_classes:
                yield (
                    f"{key} {value!r} needs a classifier, got the regressor {path};"
                    f" set it to {remedy}"
                )
    else:
        yield (
            f"model.estimator {path!r} is neither a classifier nor a regressor compatible with"
            " scikit-learn; name one that is"
        )


def _unknown_scorers(config: SelectConfig) -> Iterator[InputError]:
    from swarm.metrics import metric_names
    from swarm.problem.scoring import check_scorer_name

    yield from _error_of(build_scorer, config.scoring, config.model.allow)
    for metric in config.test.metrics or []:
        yield from _error_of(check_scorer_name, metric, "test.metrics", metric_names())
