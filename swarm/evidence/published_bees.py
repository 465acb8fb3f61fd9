"""The figures that document 004 publishes: its tables 2 and 3, and what they say of each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = [
    "BUDGET",
    "MULTI_LABEL",
    "NAMES",
    "PUBLISHED",
    "RUNS",
    "Published",
    "Tested",
    "implied_runs",
    "welch_p",
]

# Section 5: fitness calls of a search, and searches of each algorithm on each data set.
BUDGET = 500
RUNS = 30
# The document's names of its algorithms, in the order of its tables.
NAMES: Mapping[str, str] = MappingProxyType({"mlaco": "ACO", "memetic": "MA", "bee_colony": "BCOi"})
MULTI_LABEL = tuple(NAMES)
# Of the normal law, for the document's intervals of level 0.95.
_Z = 1.959963984540054


@dataclass(frozen=True)
class Tested:
    """A cell of table 3: BCOi against another algorithm.

    Attributes
    ----------
    p : float
    low, high : float
        Interval of the location parameter, accuracy of BCOi minus that of the other.
    """

    p: float
    low: float
    high: float


@dataclass(frozen=True)
class Published:
    """What is published about a data set.

    Attributes
    ----------
    instances, features, labels : int
        Table 2, as printed.
    accuracy : mapping of str to (mean, sd)
        Table 2, by our name of the strategy.
    tests : mapping of str to Tested
        Table 3, by our name of the other strategy.
    """

    instances: int
    features: int
    labels: int
    accuracy: Mapping[str, tuple[float, float]]
    tests: Mapping[str, Tested]

    @property
    def order(self) -> tuple[str, ...]:
        """Strategies by their mean accuracy, the best first."""
        return tuple(sorted(self.accuracy, key=lambda name: -self.accuracy[name][0]))


def _published(
    counts: tuple[int, int, int],
    accuracy: tuple[tuple[float, float], tuple[float, float], tuple[float, float]],
    against_aco: tuple[float, float, float],
    against_ma: tuple[float, float, float],
) -> Published:
    return Published(
        *counts,
        accuracy=MappingProxyType(dict(zip(MULTI_LABEL, accuracy, strict=True))),
        tests=MappingProxyType({"mlaco": Tested(*against_aco), "memetic": Tested(*against_ma)}),
    )


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "emotions": _published(
            (593, 72, 6),
            ((0.2574, 0.0107), (0.3054, 0.0066), (0.3115, 0.0095)),
            (0.0001717, 0.04438175, 0.06411505),
            (0.1609, -0.00155461, 0.01450039),
        ),
        "birds": _published(
            (645, 260, 19),
            ((0.5108, 0.0039), (0.5012, 0.0045), (0.5158, 0.0068)),
            (0.06312, -0.0004934487, 0.0107584934),
            (0.0005501, 0.008805312, 0.020857824),
        ),
        "yeast": _published(
            (2417, 130, 14),
            ((0.1586, 0.0037), (0.1747, 0.0073), (0.1759, 0.0079)),
            (0.0003197, 0.009839083, 0.024617684),
            (0.4268, -0.006605605, 0.007226751),
        ),
        "scene": _published(
            (2407, 294, 6),
            ((0.4153, 0.0151), (0.5099, 0.0052), (0.5279, 0.0110)),
            (0.0001242, 0.1034662, 0.1247954),
            (0.001345, 0.01040258, 0.02699941),
        ),
    }
)


def implied_runs(published: Published, other: str) -> float:
    """Runs of each algorithm that would give the interval of table 3 with the SDs of table 2.

    The half width of a 95 % interval of the difference of two means of n runs is
    ``1.96 sqrt((sd_a**2 + sd_b**2) / n)``; that of the rank-sum test's interval is nearly the same
    for values near the normal law.
    """
    test = published.tests[other]
    half = (test.high - test.low) / 2
    return _variances(published, other) * (_Z / half) ** 2


def welch_p(published: Published, other: str, runs: int) -> float:
    """P-value of Welch's t-test from the means and SDs of table 2."""
    from scipy.stats import ttest_ind_from_stats

    ours, theirs = published.accuracy["bee_colony"], published.accuracy[other]
    return float(ttest_ind_from_stats(*ours, runs, *theirs, runs, equal_var=False).pvalue)


def _variances(published: Published, other: str) -> float:
    return math.fsum(published.accuracy[name][1] ** 2 for name in ("bee_colony", other))
