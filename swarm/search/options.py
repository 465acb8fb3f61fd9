"""Which options of a search go together, checked before any data is read."""

from __future__ import annotations

from typing import Literal

from swarm.errors import ConfigError
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import STRATEGIES, name_of, strategy_class


def check_options(
    strategy: Strategy,
    *,
    repeats: int = 1,
    rotate: int = 0,
    racing: float | None = None,
    noise_floor: int | None = None,
    importance: str = "",
    rows: int | Literal["auto"] | None = None,
    asynchronous: bool = False,
    proxy: bool = False,
    tuning: bool = False,
    warm: bool = False,
) -> None:
    """Raise ConfigError if the strategy, or another option, does not allow one of the options.

    Parameters
    ----------
    strategy : Strategy
    repeats, rotate, racing, noise_floor
        As in :class:`swarm.search.driver.Search` and :class:`swarm.search.budget.Budget`.
    importance : str
        Source of the importances.
    rows : int, "auto" or None
        Number of rows of the smallest part; None for a search on all rows.
    asynchronous, proxy, tuning, warm : bool
        Whether epochs do not wait for all answers, the search runs on a cheaper model, a setting of
        the model is chosen, and the search starts from saved subsets.
    """
    name, given = name_of(strategy), f"budget.rows {rows!r}"
    restarts = strategy.takes_warm_start and not strategy.ends_by_itself
    if warm and not strategy.takes_warm_start:
        raise ConfigError(
            f"strategy {name!r} takes no warm start; use another strategy, or remove warm"
        )
    if tuning and not restarts:
        raise ConfigError(
            f"strategy {name!r} cannot start from given subsets, from which settings of the model "
            "are compared in short searches; use another strategy, or remove model.search"
        )
    if tuning and rotate:
        raise ConfigError(
            f"settings of the model are compared on the same folds, which rotate {rotate} changes "
            "during the search; set rotate to 0, or remove model.search"
        )
    if tuning and proxy:
        raise ConfigError(
            "with a proxy the search runs on a cheaper model than the one whose settings are "
            "chosen; remove the proxy, or model.search"
        )
    if rows is not None and strategy.ends_by_itself:
        raise ConfigError(
            f"{given} leaves most subsets without a cost on all rows, but {name!r} compares the "
            "costs of all that it proposes; use another strategy, or set budget.rows to null"
        )
    if rows is not None and repeats > 1:
        raise ConfigError(
            f"{given} selects the subsets of an epoch on parts of the rows, which repeats "
            f"{repeats} does on one partition after the other; set repeats to 1, or budget.rows to "
            "null"
        )
    if rows is not None and proxy:
        raise ConfigError(
            f"{given} evaluates on parts of the rows first, and a proxy on a cheaper model; "
            "remove the proxy, or set budget.rows to null"
        )
    if rows is not None and tuning:
        raise ConfigError(
            f"settings of the model are compared on all rows, but {given} evaluates on parts of "
            "them first; remove model.search, or set budget.rows to null"
        )
    if asynchronous and not strategy.takes_late_answers:
        takers = [each for each in STRATEGIES if strategy_class(each).takes_late_answers]
        raise ConfigError(
            "with evaluation.asynchronous costs arrive after the epoch of their subsets, which "
            f"{name!r} does not support; use one of {', '.join(takers)}, or set "
            "evaluation.asynchronous to false"
        )
    if asynchronous and racing is not None:
        raise ConfigError(
            f"racing {racing:g} compares subsets with incumbents of the same epoch, which "
            "evaluation.asynchronous does not wait for; set racing to null, or "
            "evaluation.asynchronous to false"
        )
    if asynchronous and repeats > 1:
        raise ConfigError(
            f"repeats {repeats} evaluates an epoch on one fold partition after the other, which "
            "evaluation.asynchronous does not wait for; set repeats to 1, or "
            "evaluation.asynchronous to false"
        )
    if asynchronous and rows is not None:
        raise ConfigError(
            f"{given} selects the subsets of an epoch on parts of the rows, which "
            "evaluation.asynchronous does not wait for; set budget.rows to null, or "
            "evaluation.asynchronous to false"
        )
    if rotate and repeats < 2:
        raise ConfigError(
            f"rotate {rotate} changes the fold partition, but there is only one; set repeats to 2 "
            "or more, or rotate to 0"
        )
    if rotate and not restarts:
        raise ConfigError(
            f"rotate {rotate} starts the strategy again from its members, which {name!r} does not "
            "support; use another strategy, or set rotate to 0"
        )
    if rotate and racing is not None:
        raise ConfigError(
            f"rotate {rotate} evaluates on one partition at a time, where racing {racing:g} has no "
            "costs of incumbents to compare with; set one of them to 0 or null"
        )
    if rotate and noise_floor is not None:
        raise ConfigError(
            f"rotate {rotate} changes the folds, over which noise_floor {noise_floor} compares the "
            "best subsets of several epochs; set one of them to 0 or null"
        )
    if rotate and importance == "refit":
        raise ConfigError(
            f"rotate {rotate} evaluates on one partition at a time, but importance 'refit' needs "
            "the cost on all; use another source of importances, or set rotate to 0"
        )
