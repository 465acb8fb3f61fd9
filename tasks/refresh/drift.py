"""Data drift: changes in the distribution of columns since a model was trained on them.

A summary of each column is stored instead of its rows: quantiles of numbers, relative frequencies
of categories.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from scipy import stats

from swarm.arrays import Float

# Longer numeric columns are summarised by quantiles: the KS statistic is exact to within 1/256.
_MAX_QUANTILES = 257
# The population stability index has a bin per decile of the reference.
_N_BINS = 10
# Empty bins get this share, as the logarithm of 0 is infinite.
_MIN_SHARE = 1e-4
# The most frequent categories have a bin each, and all rarer ones share a bin.
_MAX_CATEGORIES = 50


def summarise(features: pd.DataFrame) -> dict[str, Any]:
    """Summarise every column in a form that can be stored as JSON.

    A summary has ``missing`` (share of the rows), and ``quantiles`` of numbers or ``shares`` of
    categories.
    """
    return {str(name): _summary(features[name]) for name in features}


def drift_table(reference: Mapping[str, Any], features: pd.DataFrame) -> pd.DataFrame:
    """Compare columns with their summaries: a row for each column of both, by decreasing PSI.

    The population stability index (PSI) is ``sum (p - q) ln(p / q)`` over deciles of the reference,
    or over categories, and missing values; KS is the Kolmogorov-Smirnov statistic, or the total
    variation.
    """
    rows = [
        {"feature": name, **_shift(reference[name], features[name])}
        for name in map(str, features.columns)
        if name in reference
    ]
    columns = ["feature", "psi", "ks", "missing_before", "missing_now"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("psi", ascending=False, kind="stable", ignore_index=True)


def changed_type(before: Mapping[str, Any], values: pd.Series) -> bool:
    """Whether a column has numbers where its summary has names, or the other way round.

    Truth values in place of other numbers than 0 and 1 are a changed type, too.
    """
    present = values.dropna()
    if present.empty:
        return False
    if types.is_bool_dtype(present.dtype):
        return not set(before.get("quantiles", ())) <= {0.0, 1.0}
    is_numeric = types.is_numeric_dtype(present.dtype)
    if "quantiles" in before:
        return not is_numeric and not all(map(_is_number, as_levels(present).unique()))
    levels = set(as_levels(present).unique())
    was_numeric = all(map(_is_number, before["shares"]))
    return was_numeric != all(map(_is_number, levels)) and levels.isdisjoint(before["shares"])


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def as_levels(present: pd.Series) -> pd.Series:
    """Return values as text: truth values and whole floats have the text of integers.

    Such a column changes its type with the first gap, and between sources.
    """
    plain = present.astype(object).infer_objects()
    if types.is_bool_dtype(plain) or (types.is_float_dtype(plain) and (plain % 1 == 0).all()):
        plain = plain.astype("int64")
    return plain.astype(str)


def _summary(values: pd.Series) -> dict[str, Any]:
    present = values.dropna()
    summary: dict[str, Any] = {"missing": float(values.isna().mean()) if len(values) else 0.0}
    if types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype):
        numbers = present.to_numpy(dtype=np.float64)
        quantiles = np.sort(numbers)
        if len(quantiles) > _MAX_QUANTILES:
            quantiles = np.quantile(quantiles, np.linspace(0.0, 1.0, _MAX_QUANTILES))
        return {**summary, "quantiles": quantiles.tolist()}
    shares = as_levels(present).value_counts(normalize=True).sort_index()
    shares = shares.sort_values(ascending=False, kind="stable").head(_MAX_CATEGORIES)
    return {**summary, "shares": {str(key): float(share) for key, share in shares.items()}}


def _shift(before: Mapping[str, Any], values: pd.Series) -> dict[str, float]:
    missing = float(values.isna().mean()) if len(values) else 0.0
    present = values.dropna()
    if "quantiles" in before:
        expected, observed, ks = _shift_of_numbers(before["quantiles"], present)
    else:
        expected, observed = _shift_of_categories(before["shares"], present)
        ks = float(np.abs(expected - observed).sum() / 2.0)
    missing_before = float(before["missing"])
    expected = np.append(expected * (1.0 - missing_before), missing_before)
    observed = np.append(observed * (1.0 - missing), missing)
    return {
        "psi": _stability_index(expected, observed),
        "ks": ks,
        "missing_before": missing_before,
        "missing_now": missing,
    }


def _shift_of_numbers(quantiles: Sequence[float], present: pd.Series) -> tuple[Float, Float, float]:
    """Return the shares of the deciles, before and now, and the KS statistic."""
    numbers = pd.to_numeric(present, errors="coerce").dropna().to_numpy(dtype=np.float64)
    reference = np.asarray(quantiles, dtype=np.float64)
    if not len(numbers) or not len(reference):
        expected = np.array([float(len(reference) > 0)])
        observed = np.array([float(len(numbers) > 0)])
        return expected, observed, 0.0 if len(numbers) == len(reference) else 1.0
    edges = np.unique(
        reference[np.linspace(0, len(reference) - 1, _N_BINS + 1).round().astype(int)][1:-1]
    )
    expected = np.bincount(np.searchsorted(edges, reference), minlength=len(edges) + 1)
    observed = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    with np.errstate(divide="ignore"):
        # The p-value, which is not used, divides by zero if there are very few values.
        ks = float(stats.ks_2samp(reference, numbers, method="asymp").statistic)
    return expected / expected.sum(), observed / observed.sum(), ks


def _shift_of_categories(shares: Mapping[str, float], present: pd.Series) -> tuple[Float, Float]:
    now = as_levels(present).value_counts(normalize=True)
    expected = np.array([*shares.values(), max(0.0, 1.0 - sum(shares.values()))])
    listed = [float(now.get(name, 0.0)) for name in shares]
    observed = np.array([*listed, max(0.0, 1.0 - sum(listed)) if len(now) else 0.0])
    return expected, observed


def _stability_index(expected: Float, observed: Float) -> float:
    p = np.maximum(observed, _MIN_SHARE)
    q = np.maximum(expected, _MIN_SHARE)
    return float(((p - q) * np.log(p / q)).sum())
