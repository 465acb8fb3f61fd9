"""Stability selection with error control, and false selections estimated by noise probes.

**Complementary pairs stability selection**: R. D. Shah and R. J. Samworth, Variable selection with
error control: another look at stability selection, JRSS B 75(1), 2013. A search is repeated on B
random pairs of disjoint halves of the rows; a unit is stable if at least the share tau of the 2B
searches selected it. The bound counts units whose selection probability on half of the rows is at
most the average ``q / d``, q being the mean size of d units: those that are selected no more often
than by chance. It assumes nothing about the model, the search or the correlations of columns.

**Probes**: columns whose rows are shuffled, so that no probe tells anything about the target. How
often a search selects them estimates how often it selects columns without information: Y. Wu, D. D.
Boos and L. A. Stefanski, Controlling variable selection by the addition of pseudovariables, JASA
102(477), 2007. Among the stable units the share of false ones is estimated as in J. Hedou et al.,
Discovery of sparse, reliable omic biomarkers with Stabl, Nature Biotechnology 42, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.checks import require
from swarm.errors import InputError

# Shares are multiples of 1 / (2 B), and must count as such despite rounding.
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorControl:
    """Stable units, with a bound on the expected number of false ones among them.

    Attributes
    ----------
    n_pairs : int
        Number of complementary pairs, B.
    n_units : int
        Units that may be selected, d.
    mean_size : float
        Mean number of units that a search selected, q.
    wanted : float
        Largest acceptable expected number of false selections.
    threshold : float
        Smallest share of the searches with a bound of at most `wanted`; NaN if there is none.
    bound : float
        Bound at the threshold; NaN without a threshold.
    lowest : float
        The lowest bound of all thresholds, that at a share of 1.
    bounds : float64 (d,)
        For each unit, the bound if its own share were the threshold; NaN for a share of at most a
        half, which has no bound.
    stable : bool (d,)
        Units whose share reaches the threshold.
    """

    n_pairs: int
    n_units: int
    mean_size: float
    wanted: float
    threshold: float
    bound: float
    lowest: float
    bounds: Float
    stable: Bool

    def __post_init__(self) -> None:
        read_only(self.bounds, self.stable)


@dataclass(frozen=True, eq=False)
class ProbeEstimate:
    """False selections, estimated from the probes that were selected.

    Attributes
    ----------
    n_probes : int
    probe_rate : float
        Mean share of the searches that selected a probe.
    false_share : float
        Estimated share of false selections among the selected units of one search, at most 1: if
        every unit were selected as often as a probe, over the mean number that is.
    shares : float64 (n_probes,)
        Share of the searches that selected each probe.
    q_values : float64 (d,)
        For each unit, the smallest estimated share of false ones, at most 1, among the units that
        are selected at least as often as a threshold, over all thresholds that keep the unit. The
        estimate at a threshold is ``(1 + probes) / units``, with probes counted per unit.
    """

    n_probes: int
    probe_rate: float
    false_share: float
    shares: Float
    q_values: Float

    def __post_init__(self) -> None:
        read_only(self.shares, self.q_values)


def false_selection_bound(threshold: float, mean_size: float, n_units: int, n_pairs: int) -> float:
    """Bound the expected number of stable units that are selected no more often than by chance.

    The smallest of three bounds, each ``C q`` with ``theta = q / d``: ``C = theta / (2 tau - 1)``
    (theorem 1), ``C(tau, B) theta`` (theorem 2, which assumes that the share of pairs of which both
    halves select such a unit is unimodal, and ``theta <= 1 / sqrt(3)``), and Markov's inequality,
    ``C = 1 / tau``.

    Parameters
    ----------
    threshold : float
        tau, above 1/2 and at most 1.
    mean_size : float
        q, the mean number of selected units.
    n_units : int
        d.
    n_pairs : int
        B.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    require("threshold", threshold, above=0.5, at_most=1)
    require("n_units", n_units, at_least=1, whole=True)
    require("n_pairs", n_pairs, at_least=1, whole=True)
    require("mean_size", mean_size, at_least=0, at_most=n_units)
    theta = mean_size / n_units
    factors = [theta / (2 * threshold - 1), 1 / threshold]
    if theta <= 3**-0.5:
        factors.append(_unimodal(threshold, theta, n_pairs) * theta)
    return mean_size * min(factors)


def _unimodal(tau: float, theta: float, n_pairs: int) -> float:
    """Return C(tau, B) of theorem 2; inf where it does not apply."""
    start = min(0.5 + theta**2, 0.5 + 1 / (2 * n_pairs) + 0.75 * theta**2)
    if tau <= start + _MARGIN:
        return float("inf")
    if tau <= 0.75 + _MARGIN:
        room = 2 * tau - 1 - 1 / (2 * n_pairs)
        return 1 / (2 * room) if room > 0 else float("inf")
    return 4 * (1 - tau + 1 / (2 * n_pairs)) / (1 + 1 / n_pairs)


def complementary_pairs(masks: Bool, wanted: float = 1.0) -> ErrorControl:
    """Find the units that are stable over complementary pairs of samples.

    Parameters
    ----------
    masks : bool (2 B, d)
        Subsets of the searches. Rows 0 and 1 are those of two disjoint halves, and so on. Leave out
        fixed and forbidden units.
    wanted : float
        Largest acceptable expected number of false selections.

    Raises
    ------
    InputError
        If there are no units, or the masks are not pairs.
    """
    chosen = np.asarray(masks, dtype=bool)
    if chosen.ndim != 2 or chosen.shape[1] == 0 or len(chosen) < 2 or len(chosen) % 2:
        raise InputError(f"masks must be pairs of subsets, got shape {chosen.shape}")
    require("wanted", wanted, above=0)
    count, n_units = chosen.shape
    n_pairs, size = count // 2, float(chosen.sum(axis=1).mean())
    share = chosen.mean(axis=0)
    grid = np.arange(n_pairs + 1, count + 1) / count
    each = [false_selection_bound(tau, size, n_units, n_pairs) for tau in grid.tolist()]
    # A unit that reaches a threshold reaches every lower one, so bounds may only fall.
    bounds = np.minimum.accumulate(each)
    enough = np.flatnonzero(bounds <= wanted)
    threshold = float(grid[enough[0]]) if len(enough) else float("nan")
    own = np.full(n_units, np.nan)
    position = np.rint(share * count).astype(int) - n_pairs - 1
    own[position >= 0] = bounds[position[position >= 0]]
    return ErrorControl(
        n_pairs=n_pairs,
        n_units=n_units,
        mean_size=size,
        wanted=wanted,
        threshold=threshold,
        bound=float(bounds[enough[0]]) if len(enough) else float("nan"),
        lowest=float(bounds[-1]),
        bounds=own,
        stable=share >= threshold - _MARGIN,
    )


def probe_estimate(masks: Bool, probes: Bool) -> ProbeEstimate:
    """Estimate false selections from the probes that the same searches selected.

    Parameters
    ----------
    masks : bool (M, d)
        Selected units of each search.
    probes : bool (M, n_probes)
        Selected probes of each search.

    Raises
    ------
    InputError
        If there are no searches, units or probes.
    """
    real, noise = np.asarray(masks, dtype=bool), np.asarray(probes, dtype=bool)
    if len(real) != len(noise) or 0 in (*real.shape, *noise.shape):
        raise InputError(
            f"masks and probes must have a row per search, got shapes {real.shape}, {noise.shape}"
        )
    n_units, n_probes = real.shape[1], noise.shape[1]
    shares, own = noise.mean(axis=0), real.mean(axis=0)
    rate, size = float(shares.mean()), float(real.sum(axis=1).mean())
    above = (own[None, :] >= own[:, None] - _MARGIN).sum(axis=1)
    beyond = (shares[None, :] >= own[:, None] - _MARGIN).sum(axis=1)
    estimates = np.minimum(1.0, (1 + beyond) * (n_units / n_probes) / above)
    kept = own[None, :] <= own[:, None] + _MARGIN
    return ProbeEstimate(
        n_probes=n_probes,
        probe_rate=rate,
        false_share=min(1.0, rate * n_units / size) if size else 0.0,
        shares=shares,
        q_values=np.where(kept, estimates[None, :], 1.0).min(axis=1),
    )
