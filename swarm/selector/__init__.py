"""The scikit-learn face: select features by one ``fit``."""

from __future__ import annotations

from swarm.selector.selector import SubsetSelector

__all__ = ["SubsetSelector"]
