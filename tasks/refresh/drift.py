"""Data drift: changes in the distribution of columns since a model was trained on them.

A summary of each column is stored instead of its rows: quantiles of numbers, relative frequencies
of categories.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from scipy import stats

from swarm.arrays import Float

# Quantiles of a longer numeric column in its summary: the KS statistic is exact to within 1/256.
_QUANTILES = 257
# Bins of the population stability index: deciles of the reference.
_BINS = 10
# Share of an empty bin, as the logarithm of 0 is infinite.
_LEAST = 1e-4
# The most frequent categories have a bin each; the others share one.
_CATEGORIES = 50


def summarise(features: pd.DataFrame) -> dict[str, Any]:
    """Summarise every column in a form that can be stored as JSON.

    Each has ``missing`` (share of the rows), and ``quantiles`` of numbers or ``shares`` of
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

    Or truth values in place of other numbers than 0 and 1.
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
    kinds = {all(map(_is_number, some)) for some in (before["shares"], levels)}
    return len(kinds) == 2 and levels.isdisjoint(before["shares"])


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def as_levels(present: pd.Series) -> pd.Series:
    """Return values as text: that of truth values and whole floats is that of integers.

    A column of them changes its type with the first gap, and between sources.
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
        if len(quantiles) > _QUANTILES:
            quantiles = np.quantile(quantiles, np.linspace(0.0, 1.0, _QUANTILES))
        return {**summary, "quantiles": quantiles.tolist()}
    shares = as_levels(present).value_counts(normalize=True).sort_index()
    shares = shares.sort_values(ascending=False, kind="stable").head(_CATEGORIES)
    return {**summary, "shares": {str(key): float(share) for key, share in shares.items()}}


def _shift(before: Mapping[str, Any], values: pd.Series) -> dict[str, float]:
    missing = float(values.isna().mean()) if len(values) else 0.0
    present = values.dropna()
    if "quantiles" in before:
        expected, observed, ks = _of_numbers(before["quantiles"], present)
    else:
        expected, observed = _of_categories(before["shares"], present)
        ks = float(np.abs(expected - observed).sum() / 2.0)
    gone = np.array([before["missing"], missing])
    expected = np.append(expected * (1.0 - gone[0]), gone[0])
    observed = np.append(observed * (1.0 - gone[1]), gone[1])
    index = _stability(expected, observed)
    return {"psi": index, "ks": ks, "missing_before": float(gone[0]), "missing_now": missing}


def _of_numbers(quantiles: Sequence[float], present: pd.Series) -> tuple[Float, Float, float]:
    """Return the shares of the deciles, before and now, and the KS statistic."""
    numbers = pd.to_numeric(present, errors="coerce").dropna().to_numpy(dtype=np.float64)
    reference = np.asarray(quantiles, dtype=np.float64)
    if not len(numbers) or not len(reference):
        same = len(numbers) == len(reference)
        whole = [np.array([float(len(values) > 0)]) for values in (reference, numbers)]
        return whole[0], whole[1], 0.0 if same else 1.0
    edges = np.unique(
        reference[np.linspace(0, len(reference) - 1, _BINS + 1).round().astype(int)][1:-1]
    )
    expected = np.bincount(np.searchsorted(edges, reference), minlength=len(edges) + 1)
    observed = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    with np.errstate(divide="ignore"):
        # The p-value of very few values, which is not used.
        ks = float(stats.ks_2samp(reference, numbers, method="asymp").statistic)
    return expected / expected.sum(), observed / observed.sum(), ks


def _of_categories(shares: Mapping[str, float], present: pd.Series) -> tuple[Float, Float]:
    now = as_levels(present).value_counts(normalize=True)
    expected = np.array([*shares.values(), max(0.0, 1.0 - sum(shares.values()))])
    listed = [float(now.get(name, 0.0)) for name in shares]
    observed = np.array([*listed, max(0.0, 1.0 - sum(listed)) if len(now) else 0.0])
    return expected, observed


def _stability(expected: Float, observed: Float) -> float:
    p, q = np.maximum(observed, _LEAST), np.maximum(expected, _LEAST)
    return float(((p - q) * np.log(p / q)).sum())
