"""Contract tests for strategies of any package, and the planted problems that they run on.

Requires the extra ``swarmselect[testing]``. Nothing else in the library imports this package.
"""

import pytest

# Failed assertions of the contract then show the compared values.
pytest.register_assert_rewrite("swarm.testing.contract")

from swarm.testing.contract import StrategyContract  # noqa: E402
from swarm.testing.planted import (  # noqa: E402
    Planted,
    constant,
    hints_for,
    make_driver,
    plain_space,
    planted,
    spaces,
)

__all__ = [
    "Planted",
    "StrategyContract",
    "constant",
    "hints_for",
    "make_driver",
    "plain_space",
    "planted",
    "spaces",
]
