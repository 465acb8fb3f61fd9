"""The corrected resampled t-test of a mean difference over train/test resamples.

Resamples of one data set share rows, so their differences are not independent and the ordinary
paired t-test has an inflated type I error. Source: Nadeau and Bengio (2003), Inference for the
generalization error, Machine Learning 52.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from swarm.arrays import Float
from swarm.rounding import rounding_error

# Level of the confidence intervals in results.
CONFIDENCE = 0.95
Outcome = Literal["better", "no clear difference", "worse"]


def outcome_of(low: float, high: float) -> Outcome:
    """Conclude from the interval of a gain, which is significant if it excludes 0."""
    if low > 0:
        return "better"
    return "worse" if high < 0 else "no clear difference"


@dataclass(frozen=True)
class CorrectedTTest:
    """Two-sided test that the mean difference is 0.

    Attributes
    ----------
    mean : float
    low, high : float
        Bounds of the confidence interval.
    p : float
    error : float
        Standard error of the mean.
    """

    mean: float
    low: float
    high: float
    p: float
    error: float


def corrected_t(
    differences: Sequence[float] | Float, n_train: float, n_test: float, level: float = CONFIDENCE
) -> CorrectedTTest:
    """Test paired differences of J resamples (J,) by the corrected resampled t-test.

    The variance of the mean is ``(1 / J + n_test / n_train) s**2``, with J - 1 degrees of freedom.
    Equal differences, which scores of few rows have by chance, give no variance to infer from: the
    interval is unbounded unless all are 0, `p` is 1, and `error` 0.
    """
    from scipy.stats import t

    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(f"differences must be finite numbers, at least two, got {differences!r}")
    for name, rows in (("n_train", n_train), ("n_test", n_test)):
        if not (rows > 0 and math.isfinite(rows)):
            raise ValueError(f"{name} must be > 0, got {rows!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    n = len(values)
    mean = float(values.mean())
    error = math.sqrt(1 / n + n_test / n_train) * float(values.std(ddof=1))
    # The standard error may underflow to 0.
    if np.ptp(values) <= rounding_error(np.abs(values).max()) or error == 0.0:
        mean = float(values[0])
        reach = math.inf if values.any() else 0.0
        return CorrectedTTest(mean=mean, low=mean - reach, high=mean + reach, p=1.0, error=0.0)
    reach = float(t.isf((1 - level) / 2, n - 1)) * error
    p = float(2 * t.sf(abs(mean) / error, n - 1))
    return CorrectedTTest(mean=mean, low=mean - reach, high=mean + reach, p=p, error=error)
