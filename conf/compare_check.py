"""What can be known to be wrong with a comparison before any data is read."""

from __future__ import annotations

from importlib.util import find_spec

from conf.check import check
from conf.compare_schema import CompareConfig
from swarm.errors import ConfigError
from swarm.strategies.catalogue import make

__all__ = ["check_compare"]

_PACKAGES = {"dask": "prefect_dask", "ray": "prefect_ray"}


def check_compare(config: CompareConfig) -> None:
    """Check what takes several keys, or the installed packages, to know.

    Raises
    ------
    ConfigError
        The first problem: a strategy or a parameter that does not exist, a task runner that is
        not installed, or what :func:`conf.check.check` finds wrong with a data set.
    """
    for label in config.strategies:
        strategy = config.strategy(label)
        try:
            make(strategy.name, strategy.params)
        except ConfigError as error:
            raise ConfigError(f"strategies.{label}: {error}") from None
    first = next(iter(config.strategies))
    for name in config.datasets:
        try:
            check(config.as_select(name, first))
        except ConfigError as error:
            raise ConfigError(f"data set {name!r}: {error}") from None
    package = _PACKAGES.get(config.runner.kind)
    if package is not None and find_spec(package) is None:
        raise ConfigError(
            f"runner.kind {config.runner.kind!r} needs the package {package.replace('_', '-')},"
            f" which is not installed; run `pip install {package.replace('_', '-')}`, or set"
            " runner.kind to 'threads'"
        )
