"""Wrapper feature selection: search strategies with a common interface.

Start with :class:`SubsetSelector`. :class:`Problem`, :class:`Search` and :func:`run` give full
control.

Names are imported on first use, so that ``import swarm`` and the command line's help do not wait
for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm.ensemble import SubsetEnsemble
    from swarm.evaluation.crossval import CrossValidation
    from swarm.evaluation.types import Evaluations
    from swarm.multilabel import MLkNN
    from swarm.problem.hints import Hints, prepare_hints
    from swarm.problem.problem import Problem
    from swarm.problem.space import SearchSpace
    from swarm.search.budget import Budget
    from swarm.search.result import SearchResult
    from swarm.search.runner import run
    from swarm.search.search import Search
    from swarm.selector import SubsetSelector
    from swarm.storage.archive import Archive
    from swarm.storage.features_file import load_features, load_model_inputs
    from swarm.strategies.base import Members, Proposal, Strategy
    from swarm.strategies.catalogue import make, registry

__all__ = [
    "Archive",
    "Budget",
    "CrossValidation",
    "Evaluations",
    "Hints",
    "MLkNN",
    "Members",
    "Problem",
    "Proposal",
    "Search",
    "SearchResult",
    "SearchSpace",
    "Strategy",
    "SubsetEnsemble",
    "SubsetSelector",
    "__version__",
    "load_features",
    "load_model_inputs",
    "make",
    "prepare_hints",
    "registry",
    "run",
]

_HOMES = {
    "Archive": "swarm.storage.archive",
    "Budget": "swarm.search.budget",
    "CrossValidation": "swarm.evaluation.crossval",
    "Evaluations": "swarm.evaluation.types",
    "Hints": "swarm.problem.hints",
    "MLkNN": "swarm.multilabel",
    "Members": "swarm.strategies.base",
    "Problem": "swarm.problem.problem",
    "Proposal": "swarm.strategies.base",
    "Search": "swarm.search.search",
    "SearchResult": "swarm.search.result",
    "SearchSpace": "swarm.problem.space",
    "Strategy": "swarm.strategies.base",
    "SubsetEnsemble": "swarm.ensemble",
    "SubsetSelector": "swarm.selector",
    "load_features": "swarm.storage.features_file",
    "load_model_inputs": "swarm.storage.features_file",
    "make": "swarm.strategies.catalogue",
    "prepare_hints": "swarm.problem.hints",
    "registry": "swarm.strategies.catalogue",
    "run": "swarm.search.runner",
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
