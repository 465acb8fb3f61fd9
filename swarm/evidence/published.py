"""Figures that document 002 prints, as they are printed: its tables 1 and 3 to 9.

They are typed in from the text of the document. No value of these tables is garbled there, so none
is left out; Table 2 holds parameters and is not here.
"""

from __future__ import annotations

import io
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import pandas as pd

__all__ = [
    "ALGORITHMS",
    "CLASSIFIERS",
    "DATASETS",
    "SIGNS",
    "TABLES",
    "at",
    "published",
    "shown",
    "wide",
]

# Our label of a strategy, and the document's name of the algorithm, in the document's order.
ALGORITHMS = MappingProxyType(
    {
        "genetic": "GA",
        "ant_colony": "ACO",
        "bpso": "BPSO",
        "catfish": "CBPSO",
        "erfs": "ErFS",
        "pso42": "PSO-42",
        "chaotic": "chBPSO",
        "two_d": "2D-UPSO",
    }
)
# Our name of a data set, and the document's, in the document's order.
DATASETS = MappingProxyType(
    {
        "wine": "Wine",
        "australian": "Australian",
        "zoo": "Zoo",
        "vehicle": "Vehicle",
        "german_numeric": "German",
        "wdbc": "WDBC",
        "ionosphere": "Ionosphere",
        "lung_cancer": "Lung Cancer",
        "sonar": "Sonar",
        "ozone": "Ozone",
        "libras": "Libras",
        "hill_valley_with_noise": "Hill",
        "musk_1": "Musk-1",
        "arrhythmia": "Arrhythmia",
        "lsvt": "LSVT",
        "secom": "SECOM",
    }
)
# Our part, and the document's classifier.
CLASSIFIERS = MappingProxyType({"nb": "naive Bayes", "knn": "5-NN"})
# Number of the table by part and by what it tells.
TABLES = MappingProxyType(
    {
        ("nb", "error"): 3,
        ("knn", "error"): 4,
        ("nb", "size"): 6,
        ("knn", "size"): 7,
        ("nb", "time"): 8,
        ("knn", "time"): 9,
    }
)
SIGNS = 5
_OURS = {theirs: ours for ours, theirs in (*DATASETS.items(), *ALGORITHMS.items())}


@cache
def _read() -> pd.DataFrame:
    text = (
        resources.files("swarm.evidence")
        .joinpath("published_two_d.csv")
        .read_text(encoding="utf-8")
    )
    table = pd.read_csv(io.StringIO(text), dtype={"value": str})
    for column in ("dataset", "algorithm"):
        table[column] = table[column].map(lambda name: _OURS.get(name, name))
    return table


def published() -> pd.DataFrame:
    """Read all printed figures.

    Returns
    -------
    DataFrame
        Columns table (int), dataset, algorithm (both by our names, ``all`` where a figure is of
        none), quantity, and value (str): as printed, since its digits say how exact it is.
    """
    return _read().copy()


def shown(table: int, quantity: str) -> pd.DataFrame:
    """One quantity of one table as printed.

    Parameters
    ----------
    table : int
        Number in document 002.
    quantity : str
        Such as ``mean``; a pair that the table does not have gives an empty frame.

    Returns
    -------
    DataFrame of str (n_datasets, n_algorithms)
        By our names, in the document's order.
    """
    return _shown(table, quantity).copy()


@cache
def _shown(table: int, quantity: str) -> pd.DataFrame:
    figures = _read()
    part = figures[(figures["table"] == table) & (figures["quantity"] == quantity)]
    frame = part.pivot(index="dataset", columns="algorithm", values="value")
    return frame.loc[part["dataset"].unique(), part["algorithm"].unique()]


@cache
def _wide(table: int, quantity: str) -> pd.DataFrame:
    return _shown(table, quantity).astype("float64")


def at(frame: pd.DataFrame, row: str, column: str) -> Any:
    """One cell of a frame."""
    cells: Any = frame.loc
    return cells[row, column]


def wide(table: int, quantity: str) -> pd.DataFrame:
    """One quantity of one table as numbers; see `shown`."""
    return _wide(table, quantity).copy()
