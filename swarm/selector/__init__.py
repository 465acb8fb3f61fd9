"""The scikit-learn interface: feature selection as a meta-estimator."""

from swarm.selector.selector import SubsetSelector

__all__ = ["SubsetSelector"]
