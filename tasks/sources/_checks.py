"""Validation of columns for their roles."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from swarm.errors import DataError
from swarm.findings.columns import is_text
from tasks.sources._raw import Raw, some

__all__ = [
    "check_cells",
    "check_complete",
    "check_features",
    "check_target",
    "label_end_of",
    "part_of",
    "time_of",
    "weight_of",
]

# Share of the rows; more classes have too few rows each to be learned.
_MOST_CLASSES = 0.5


def check_cells(role: str, column: pd.Series) -> None:
    """Refuse a column with several values per cell, such as lists in a Parquet file."""
    if column.dtype != object:
        return
    for row, value in enumerate(column.tolist()):
        if isinstance(value, (list, tuple, dict, set, np.ndarray)):
            shown = str(value).replace("\n", " ")
            shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
            raise DataError(
                f"{role} column {column.name!r} has several values in one cell ({shown} in row "
                f"{row}); use one value per row, or drop the column"
            )


def check_complete(role: str, column: pd.Series) -> None:
    """Refuse missing values."""
    gaps = int(column.isna().sum())
    if gaps:
        raise DataError(
            f"{role} column {column.name!r} is missing in {gaps} rows; fill or drop them first"
        )


def check_target(target: pd.Series | pd.DataFrame, raw: Raw) -> pd.Series | pd.DataFrame:
    """Refuse a target that cannot be learned; cast multi-label columns to int."""
    labels = target.to_frame() if isinstance(target, pd.Series) else target
    for name, label in labels.items():
        gaps = int(label.isna().sum())
        if gaps:
            raise DataError(
                f"target {name!r} is missing in {gaps} of {len(label)} rows; "
                "fill them, or set data.on_missing_target to drop"
            )
        if _infinite(label):
            raise DataError(
                f"target {name!r} has {_infinite(label)} infinite values; replace or drop them"
            )
        if label.nunique() < 2:
            value = label.tolist()[0]
            raise DataError(
                f"target {name!r} is constant ({value!r} in every row); choose another target"
            )
        n_values = label.nunique()
        if is_text(label) and n_values > 2 and n_values > _MOST_CLASSES * len(label):
            raise DataError(
                f"target {name!r} has {n_values:,} different texts in {len(label):,} rows: an "
                "identifier, not classes; choose another target"
            )
    if isinstance(target, pd.Series):
        return target
    other = [str(name) for name, label in labels.items() if not label.isin([0, 1]).all()]
    if other:
        raise DataError(
            f"{raw.source!r} has several targets ({some(labels.columns)}) but {some(other)} "
            "is not 0/1 as required of labels; set 'target' to one column"
        )
    return labels.astype("int64")


def check_features(features: pd.DataFrame) -> None:
    """Refuse columns without any value, and infinite values."""
    without = features.isna().all()
    empty = list(without.index[without.to_numpy()])
    if empty:
        raise DataError(f"feature {some(empty)} has no value in any row; drop it")
    # All at once: column by column takes seconds for 20,000 columns.
    plain = [isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in features.dtypes]
    infinite = np.isinf(features.loc[:, plain]).sum().to_dict()
    for name, extension in features.dtypes[[not p for p in plain]].items():
        if not isinstance(extension, np.dtype):
            infinite[name] = _infinite(features[name])
    bad = [str(name) for name, count in infinite.items() if count]
    if bad:
        raise DataError(
            f"feature {some(bad)} has infinite values ({sum(infinite.values())} in all); "
            "replace or drop them"
        )


def weight_of(column: pd.Series) -> pd.Series:
    """Return the sample weights as float."""
    if not is_numeric_dtype(column):
        raise DataError(f"weight column {column.name!r} is not numeric; choose another")
    weight = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), name=column.name)
    for what, wrong in (
        ("missing", weight.isna()),
        ("negative", weight < 0),
        ("infinite", np.isinf(weight)),
    ):
        if wrong.any():
            raise DataError(
                f"weight column {column.name!r} is {what} in {int(wrong.sum())} rows; "
                "weights must be finite and >= 0"
            )
    if not weight.any():
        raise DataError(f"weight column {column.name!r} is 0 in every row; choose another")
    return weight


def time_of(column: pd.Series) -> pd.Series:
    """Return numbers or timestamps; text must be ISO 8601, so that its order is that of time."""
    check_complete("time", column)
    if is_numeric_dtype(column) or is_datetime64_any_dtype(column):
        return column
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"time column {column.name!r} has values such as {column.tolist()[0]!r}; "
            "use numbers or ISO dates like 2024-01-31"
        ) from error


def label_end_of(horizon: pd.Series, time: pd.Series) -> pd.Series:
    """Return the time at which each label is known: the time of its row and a duration.

    For times that are numbers, durations are numbers in their unit; for dates numbers of days,
    timedeltas, or texts such as ``36h``.
    """
    name = horizon.name
    check_complete("horizon", horizon)
    dated = is_datetime64_any_dtype(time)
    plain = is_numeric_dtype(horizon)
    if not dated and not plain:
        raise DataError(
            f"horizon column {name!r} is not numeric, but the time column {time.name!r} is; give "
            "both in the same unit"
        )
    try:
        spans = pd.to_timedelta(horizon, unit="D" if plain else None) if dated else horizon
        ends = time + spans
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"horizon column {name!r} has values such as {horizon.tolist()[0]!r} that are no "
            "durations; use numbers of days, or texts such as 36h"
        ) from error
    if (ends < time).any() or ends.isna().any() or _infinite(horizon):
        value = horizon[(ends < time) | ends.isna()].tolist() or [np.inf]
        raise DataError(
            f"horizon column {name!r} has the value {value[0]!r}; durations must be finite and >= 0"
        )
    return pd.Series(ends, name=name)


def part_of(column: pd.Series) -> pd.Series:
    """Refuse values other than train and test."""
    wrong = column[~column.isin(["train", "test"])]
    if len(wrong):
        raise DataError(
            f"part column {column.name!r} has {wrong.tolist()[0]!r} in {len(wrong)} rows; "
            "it must hold 'train' or 'test'"
        )
    return column.astype(str)


def _infinite(column: pd.Series) -> int:
    """Count the infinite values of a numeric column."""
    if not is_numeric_dtype(column):
        return 0
    return int(np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan)).sum())
