"""The scikit-learn interface: feature selection as a meta-estimator."""

from __future__ import annotations

from swarm.selector.selector import SubsetSelector

__all__ = ["SubsetSelector"]
