"""The strategy that a configuration names, built from the registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conf.run_sections import StrategySection
from swarm.errors import ConfigError, nearest

if TYPE_CHECKING:
    from swarm.strategy import Strategy

__all__ = ["build_strategy"]


def build_strategy(
    section: StrategySection, strategies: Mapping[str, type] | None = None
) -> Strategy:
    """Build the strategy of `section`.

    Parameters
    ----------
    section : StrategySection
        Its name and parameters.
    strategies : mapping of str to dataclass, optional
        The strategies to choose from, by default all registered ones.

    Raises
    ------
    ConfigError
        An unknown name or parameter, or a value that the strategy refuses.
    """
    if strategies is None:
        from swarm.registry import registry

        strategies = registry()
    if section.name not in strategies:
        hint = nearest(section.name, strategies) or "; choose one of them"
        raise ConfigError(
            f"strategy.name must be one of {', '.join(strategies)}, got {section.name!r}{hint}"
        )
    kind: Any = strategies[section.name]
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for key in section.params:
        if key not in known:
            hint = nearest(key, known) or f"; it knows {', '.join(known) or 'no parameters'}"
            raise ConfigError(
                f"unknown parameter 'strategy.params.{key}' of strategy {section.name!r}{hint}"
            )
    try:
        strategy: Strategy = kind(**section.params)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        if reason.split(" ")[0] in known:
            raise ConfigError(f"strategy.params.{reason}; correct it") from None
        raise ConfigError(
            f"strategy.params {section.params!r} do not suit strategy {section.name!r}: {reason};"
            " correct them"
        ) from None
    return strategy
