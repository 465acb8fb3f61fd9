"""Wrapper feature selection: search strategies on one contract, and what they need.

The first things to know: :class:`SubsetSelector` for one call, :class:`Problem`,
:class:`Search` and :func:`run` for full control.
"""

from __future__ import annotations

from swarm.archive import Archive
from swarm.budget import Budget
from swarm.ensemble import SubsetEnsemble
from swarm.evaluation.crossval import CrossValidation
from swarm.features_file import load_features
from swarm.hints import prepare_hints
from swarm.multilabel import MLkNN
from swarm.problem import Problem
from swarm.registry import make, registry
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
    "load_features",
    "make",
    "prepare_hints",
    "registry",
    "run",
]
