"""Wrapper feature selection: search strategies on one contract, and what they need.

The first things to know: :class:`SubsetSelector` for one call, :class:`Problem`,
:class:`Search` and :func:`run` for full control.

Names are imported when they are first used, so that ``import swarm`` and the command line's help
do not wait for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm.archive import Archive
    from swarm.budget import Budget
    from swarm.catalogue import make, registry
    from swarm.ensemble import SubsetEnsemble
    from swarm.evaluation.crossval import CrossValidation
    from swarm.features_file import load_features
    from swarm.hints import prepare_hints
    from swarm.multilabel import MLkNN
    from swarm.problem import Problem
    from swarm.result import SearchResult
    from swarm.search import Search, run
    from swarm.selector import SubsetSelector
    from swarm.space import SearchSpace
    from swarm.strategy import Hints

__all__ = [
    "Archive",
    "Budget",
    "CrossValidation",
    "Hints",
    "MLkNN",
    "Problem",
    "Search",
    "SearchResult",
    "SearchSpace",
    "SubsetEnsemble",
    "SubsetSelector",
    "__version__",
    "load_features",
    "make",
    "prepare_hints",
    "registry",
    "run",
]

_HOMES = {
    "Archive": "swarm.archive",
    "Budget": "swarm.budget",
    "CrossValidation": "swarm.evaluation.crossval",
    "Hints": "swarm.strategy",
    "MLkNN": "swarm.multilabel",
    "Problem": "swarm.problem",
    "Search": "swarm.search",
    "SearchResult": "swarm.result",
    "SearchSpace": "swarm.space",
    "SubsetEnsemble": "swarm.ensemble",
    "SubsetSelector": "swarm.selector",
    "load_features": "swarm.features_file",
    "make": "swarm.catalogue",
    "prepare_hints": "swarm.hints",
    "registry": "swarm.catalogue",
    "run": "swarm.search",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("swarmselect")
    if name not in _HOMES:
        raise AttributeError(f"module 'swarm' has no attribute {name!r}")

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
