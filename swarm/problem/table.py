"""Tables as they were given: their labels, rows and columns, and their values as numbers.

Models, scorers and splitters see rows and columns that scikit-learn takes from the table itself;
:func:`as_frame` is for fast paths, rankings and findings alone.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from swarm.arrays import AnyArray, Int, Positions
from swarm.errors import DataError

# Tables are converted in blocks of at most these columns and cells.
_COLUMNS_PER_BLOCK = 256
_CELLS_PER_BLOCK = 1 << 22
# Characters that LightGBM does not allow in the names of columns.
_REFUSED_BY_LIGHTGBM = str.maketrans(dict.fromkeys('",:[]{}\n\r\0', "_"))


def labels_of(X: object) -> list[Any] | None:
    """Return the labels of the columns of a table; None for an array or a sparse matrix."""
    columns = getattr(X, "columns", None)
    return None if columns is None else list(columns)


def names_of(X: Any) -> list[str]:
    """Return the labels as text; columns of arrays are named x0, x1, ..."""
    labels = labels_of(X)
    return numbered(X.shape[1]) if labels is None else [str(label) for label in labels]


def dtypes_of(X: Any) -> list[Any]:
    """Return the dtypes of the columns, by pandas."""
    if isinstance(X, pd.DataFrame):
        return X.dtypes.tolist()
    if is_polars(X):
        return _from_polars(X.head(0)).dtypes.tolist()
    if X.dtype == object and not issparse(X):
        return pd.DataFrame(X).infer_objects().dtypes.tolist()
    return [X.dtype] * X.shape[1]


def numbered(count: int) -> list[str]:
    """Return the names of columns without labels."""
    return [f"x{position}" for position in range(count)]


def take_columns(X: Any, positions: Positions) -> Any:
    """Return the columns at some positions, in their order."""
    return _safe_indexing(X, np.asarray(positions, dtype=np.intp), axis=1)


def keys_of(X: Any, names: Sequence[str]) -> list[Any]:
    """Return the labels of columns in a table, or their positions in an array."""
    labels = labels_of(X)
    keys = range(X.shape[1]) if labels is None else labels
    key_of = dict(zip(names_of(X), keys, strict=True))
    return [key_of[name] for name in names]


def take_rows(rows: Any, positions: Int) -> Any:
    """Return some rows of a table, a target, or another argument with a value for each row."""
    # Scikit-learn's cross-validation takes rows of sparse matrices in CSR format.
    return owned(_safe_indexing(rows.tocsr() if issparse(rows) else rows, positions))


def owned(taken: Any) -> Any:
    """Return rows or columns that share no memory with the table that they were taken from.

    Those of pandas may share it, and a model such as a scaler with ``copy=False`` changes its
    input.
    """
    return taken.copy() if isinstance(taken, (pd.DataFrame, pd.Series)) else taken


def sliceable(X: Any) -> Any:
    """Return X itself, a list as an array, and a sparse matrix in a format with columns."""
    refuse_masked("X", X)
    if type(X).__name__ == "LazyFrame":
        raise DataError("a LazyFrame has no rows before it is collected; pass its collect()")
    if issparse(X):
        return X if X.format in ("csr", "csc", "lil") else X.tocsr()
    is_table = isinstance(X, pd.DataFrame) or is_polars(X)
    if hasattr(X, "to_pandas") and not is_table:
        name = type(X).__name__
        raise DataError(f"X is a {name}, whose columns cannot be taken; pass X.to_pandas()")
    return X if is_table or isinstance(X, np.ndarray) else np.asarray(X)


def refuse_masked(name: str, value: object) -> None:
    """Raise DataError for an array with a mask, which models do not read."""
    if isinstance(value, np.ma.MaskedArray):
        raise DataError(
            f"{name} is a masked array, whose mask models ignore; fill its masked values, or drop "
            "their rows"
        )


def is_polars(table: Any) -> bool:
    """Whether a table is a polars DataFrame; does not import polars."""
    return type(table).__module__.split(".")[0] == "polars" and hasattr(table, "to_pandas")


def as_frame(X: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return a table as one of pandas with some names and rows from 0, for statistics."""
    if issparse(X):
        _refuse_larger_than_memory(X)
        frame = pd.DataFrame(X.toarray(), copy=False)
    elif isinstance(X, np.ndarray):
        frame = pd.DataFrame(X, copy=False)
        frame = frame.infer_objects() if X.dtype == object else frame
    else:
        frame = X if isinstance(X, pd.DataFrame) else _from_polars(X)
        if not frame.index.equals(pd.RangeIndex(len(frame))):
            frame = frame.reset_index(drop=True)
    return frame if list(frame.columns) == list(names) else frame.set_axis(list(names), axis=1)


def _from_polars(table: Any) -> pd.DataFrame:
    """Return a table of polars as one of pandas, with nullable booleans rather than objects."""
    frame = table.to_pandas()
    booleans = [name for name, dtype in table.schema.items() if str(dtype) == "Boolean"]
    return frame.astype(dict.fromkeys(booleans, "boolean"))


def container_of(value: object) -> list[str]:
    """Return the class and the dtype of a table or a target, which a model may look at."""
    cls = type(value)
    dtype = getattr(value, "dtype", "")
    return [f"{cls.__module__.split('.')[0]}.{cls.__name__}", str(dtype)]


def names_for_lightgbm(X: object) -> dict[Any, str]:
    """Return new names for the columns of a table if LightGBM rejects one, else nothing.

    LightGBM looks at the names when it is fitted; it predicts by position.
    """
    labels = labels_of(X)
    if labels is None:
        return {}
    names = [str(label) for label in labels]
    plain = [name.translate(_REFUSED_BY_LIGHTGBM) or "_" for name in names]
    if plain == names and len(names) == len({name.replace(" ", "_") for name in names}):
        return {}
    unique: dict[str, Any] = {}
    for label, name in zip(labels, plain, strict=True):
        new = name.replace(" ", "_")
        while new in unique:
            new += "_"
        unique[new] = label
    return {label: name for name, label in unique.items()}


def renamed(X: Any, names: Mapping[Any, str]) -> Any:
    """Return a table with other labels."""
    if not names:
        return X
    new = list(names.values())
    return X.set_axis(new, axis=1) if isinstance(X, pd.DataFrame) else X.rename(names)


def is_plain(dtype: Any) -> bool:
    """Whether a type is one of NumPy's numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def has_plain_dtypes(table: pd.DataFrame) -> bool:
    """Whether all columns have one of NumPy's numbers of at most 8 bytes."""
    return all(is_plain(dtype) and dtype.itemsize <= 8 for dtype in table.dtypes)


def block_width(n_rows: int) -> int:
    """Number of columns that are converted at once."""
    return max(1, min(_COLUMNS_PER_BLOCK, _CELLS_PER_BLOCK // max(1, n_rows)))


def has_several_values(column: pd.Series) -> bool:
    """Whether a cell of a column is a list or another collection."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.dtype.type in (list, dict)
    return column.dtype == object and any(map(is_collection, column.tolist()))


def is_collection(cell: object) -> bool:
    """Whether a cell is a list or another collection."""
    return isinstance(cell, (list, tuple, dict, set, np.ndarray))


def plain_target(y: ArrayLike) -> AnyArray:
    """Return a target as an array of a plain dtype, a column as (n_rows,)."""
    target = np.asarray(y)
    target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    return np.array(target.tolist()) if target.dtype == object else target


def _refuse_larger_than_memory(values: Any) -> None:
    needed = int(np.prod(values.shape, dtype=np.int64)) * values.dtype.itemsize
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the system does not tell
        return
    if needed > memory:
        raise DataError(
            f"the sparse matrix of {values.shape[0]} rows and {values.shape[1]} columns takes "
            f"{needed / 1e9:.0f} GB once dense, and the machine has {memory / 1e9:.0f} GB; drop "
            "columns that are almost constant, for example with VarianceThreshold"
        )
