"""The data sets of the studies: found in a folder, and written once in the form they ask for."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
from sklearn.impute import KNNImputer
from sklearn.model_selection import StratifiedKFold

from conf.sections import DataSection, FoldsSection
from swarm.errors import DataError

_LABEL = "label_"
_BINS = 10


def find(
    folder: Path | None,
    *,
    multilabel: bool,
    only: Sequence[str] | None = None,
    first: Sequence[str] = (),
    without: Sequence[str] = (),
) -> dict[str, Path]:
    """Find the tables with a column `target`, or those with columns ``label_...``, by name.

    Those `without` are left out unless `only` asks for them.
    """
    found = {}
    for path in sorted(folder.glob("*.parquet")) if folder is not None else ():
        names = pyarrow.parquet.read_schema(path).names
        has_labels = any(name.startswith(_LABEL) for name in names)
        if has_labels == multilabel and (has_labels or "target" in names):
            found[path.stem] = path
    kept = [name for name in found if (name in only if only else name not in without)]
    if not kept:
        what = "columns 'label_...'" if multilabel else "a column 'target'"
        raise DataError(
            f"there is no Parquet table with {what} in {str(folder)!r}; name a folder with --data"
        )
    return {name: found[name] for name in (*first, *kept) if name in kept}


def read(path: Path) -> pd.DataFrame:
    """Read a table without its groups."""
    return pd.read_parquet(path).drop(columns="group", errors="ignore")


def complete(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Leave nothing missing: rows go, or cells take the mean of their neighbours.

    Rows with a missing cell go where they are fewer than a fifth, as in Hafiz et al. (27 rows of
    lung cancer are left); otherwise columns that are constant or more than half empty go, and the
    5 nearest rows give the cells. The note says what was done; it is empty for nothing.
    """
    holes = table.isna().any(axis=1)
    if not holes.any():
        return table, ""
    if holes.mean() < 0.2:
        return table[~holes].reset_index(drop=True), f"{int(holes.sum())} rows with gaps left out"
    features = table.drop(columns="target")
    useless = features.isna().mean().gt(0.5) | features.nunique().lt(2)
    kept = features.loc[:, ~useless]
    filled = KNNImputer(n_neighbors=5).set_output(transform="pandas").fit_transform(kept)
    note = f"{int(features.isna().sum().sum())} missing cells filled by the 5 nearest rows"
    if useless.any():
        note += f", {int(useless.sum())} empty or constant columns left out"
    return filled.assign(target=table["target"]), note


def with_folds(table: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Add a column of stratified folds, classes of fewer rows than folds included."""
    folds = np.empty(len(table), dtype=np.int64)
    with warnings.catch_warnings():
        # A class of 4 rows is in 4 of the 10 folds.
        warnings.simplefilter("ignore", UserWarning)
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        for number, (_, test) in enumerate(splits.split(table, table["target"])):
            folds[test] = number
    return table.assign(fold=folds)


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """Cut every feature of more than 10 values into 10 bins of equal width."""
    cut = table.copy()
    for name in table.columns:
        values = table[name]
        if name.startswith(_LABEL) or values.nunique() <= _BINS:
            continue
        low, high = float(values.min()), float(values.max())
        steps = np.floor((values - low) / (high - low) * _BINS)
        cut[name] = np.minimum(steps, _BINS - 1).astype(np.int64)
    return cut


def written(folder: Path, name: str, table: pd.DataFrame) -> tuple[DataSection, FoldsSection]:
    """Write a table once, and give the sections that read it; a column `fold` gives the folds.

    A digest of its rows is in the name of the file, so that a stale one is never read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(pd.util.hash_pandas_object(table).to_numpy().tobytes()).hexdigest()[:8]
    path = folder / f"{name}-{digest}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        table.to_parquet(part, index=False)
        part.replace(path)
    labels = [str(column) for column in table.columns if str(column).startswith(_LABEL)]
    data = DataSection(source="file", path=str(path), target=labels or "target")
    if "fold" not in table.columns:
        return data, FoldsSection()
    return data, FoldsSection(kind="column", column="fold")
