"""The data sets of the studies: found in a folder, and written once in the form they ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from conf.problem_sections import DataSection, FoldsSection
from swarm.errors import DataError

__all__ = ["Found", "binned", "complete", "find", "with_folds", "written"]

_LABEL = "label_"
_FOLD = "fold"
_BINS = 10
_BUNDLED = {"wine": "load_wine", "wdbc": "load_breast_cancer"}


@dataclass(frozen=True)
class Found:
    """A table in the form of the benchmark data: `target` or `label_...` columns, maybe `group`.

    Attributes
    ----------
    name : str
    path : Path or None
        A Parquet file; None for a table that is bundled with scikit-learn.
    several : bool
        Whether it has labels rather than a target.
    """

    name: str
    path: Path | None
    several: bool

    def read(self) -> pd.DataFrame:
        """Return the table without its groups."""
        if self.path is not None:
            return pd.read_parquet(self.path).drop(columns="group", errors="ignore")
        from sklearn import datasets

        bundled = getattr(datasets, _BUNDLED[self.name])(as_frame=True)
        return pd.DataFrame(bundled.data.assign(target=bundled.target))


def find(folder: Path | None, wanted: Sequence[str] | None = None) -> dict[str, Found]:
    """Find the tables in a folder, by name.

    Parameters
    ----------
    folder : Path or None
        None: those of document 002 that are bundled with scikit-learn.
    wanted : sequence of str, optional
        In this order; default: all there are, by name. Those that are not there are left out.

    Raises
    ------
    DataError
        If there is no such folder, or no table in it.
    """
    import pyarrow.parquet

    if folder is None:
        found = {name: Found(name, None, False) for name in _BUNDLED}
        return {name: found[name] for name in (wanted or _BUNDLED) if name in found}
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {str(folder)!r} with the data sets; name one with --data"
        )
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        names = pyarrow.parquet.read_schema(path).names
        several = any(name.startswith(_LABEL) for name in names)
        if several or "target" in names:
            found[path.stem] = Found(path.stem, path, several)
    if not found:
        raise DataError(
            f"the folder {str(folder)!r} has no Parquet file with a column 'target' or columns"
            " 'label_...'; name another with --data"
        )
    chosen = found if wanted is None else [name for name in wanted if name in found]
    return {name: found[name] for name in chosen}


def complete(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Leave nothing missing, as document 002 did: rows go, or cells take their neighbours' mean.

    Rows with a missing cell go where they are fewer than a fifth (its 27 rows of lung cancer);
    otherwise columns that are constant or more than half empty go, and the 5 nearest rows give
    the cells.

    Returns
    -------
    table : DataFrame
    note : str
        What was done; empty for nothing.
    """
    holes = table.isna().any(axis=1)
    if not holes.any():
        return table, ""
    if holes.mean() < 0.2:
        return table[~holes].reset_index(drop=True), f"{int(holes.sum())} rows with gaps left out"
    from sklearn.impute import KNNImputer

    features = table.drop(columns="target")
    useless = features.isna().mean().gt(0.5) | features.nunique().lt(2)
    kept = features.loc[:, ~useless]
    filled = pd.DataFrame(
        KNNImputer(n_neighbors=5).fit_transform(kept), columns=kept.columns, index=kept.index
    )
    note = f"{int(features.isna().sum().sum())} missing cells filled by the 5 nearest rows"
    if useless.any():
        note += f", {int(useless.sum())} empty or constant columns left out"
    return filled.assign(target=table["target"]), note


def with_folds(table: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Add a column of stratified folds, classes of fewer rows than folds included."""
    import warnings

    from sklearn.model_selection import StratifiedKFold

    folds = np.empty(len(table), dtype=np.int64)
    with warnings.catch_warnings():
        # A class of 4 rows is in 4 of the 10 folds, as in the document.
        warnings.simplefilter("ignore", UserWarning)
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        for number, (_, test) in enumerate(splits.split(table, table["target"])):
            folds[test] = number
    return table.assign(**{_FOLD: folds})


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """Cut every feature of more than 10 values into 10 bins of equal width (document 004, 5)."""
    features = [name for name in table.columns if not name.startswith(_LABEL)]
    cut = {}
    for name in features:
        values = table[name]
        if values.nunique() <= _BINS:
            continue
        low, high = float(values.min()), float(values.max())
        steps = np.floor((values - low) / (high - low) * _BINS)
        cut[name] = np.minimum(steps, _BINS - 1).astype(np.int64)
    return pd.DataFrame({name: cut.get(name, table[name]) for name in table.columns})


def written(folder: Path, name: str, table: pd.DataFrame) -> tuple[DataSection, FoldsSection]:
    """Write a table once, and give the sections that read it.

    Parameters
    ----------
    folder : Path
    name : str
        Of the file, before a digest of its rows: a stale file is never read.
    table : DataFrame
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
    if _FOLD not in table.columns:
        return data, FoldsSection()
    return data, FoldsSection(kind="column", column=_FOLD)
