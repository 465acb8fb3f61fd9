"""Stability of repeated searches of one configuration: resampling and assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import DataError
from swarm.problem.space import SearchSpace
from swarm.problem.target import task_of
from swarm.report.stability import stability_files
from swarm.validation.stability import (
    Frequencies,
    Stability,
    classify,
    consensus,
    frequencies,
    nogueira,
)
from tasks.search_cell import CellResult
from tasks.split import split
from tasks.step import step
from tasks.table import Table

__all__ = ["Assessment", "assess", "assessment_files", "scheme_of", "subsample"]


@dataclass(frozen=True)
class Assessment:
    """Stability of repeated searches.

    Attributes
    ----------
    by_seed, by_rows : Stability or None
        Nogueira's index of the searches that differ only in their seed, and of those that
        differ in seed and rows; None without such searches.
    basis : str
        Searches on which frequencies, classes and consensus are based: ``"resamples"`` if there
        are any, otherwise ``"seeds"``.
    names : tuple of str
        Units that are neither fixed nor forbidden.
    found : Frequencies
        Selection frequencies of the units.
    classes : tuple of str
        ``"core"``, ``"optional"`` or ``"noise"`` for each unit.
    thresholds : (float, float)
        Shares from which a unit is core, and up to which it is noise.
    consensus : tuple of str
        Features of more than half of the searches, and the fixed ones.
    table : DataFrame
        One row per unit, by decreasing frequency.
    searches : DataFrame
        One row per search.
    """

    by_seed: Stability | None
    by_rows: Stability | None
    basis: str
    names: tuple[str, ...]
    found: Frequencies
    classes: tuple[str, ...]
    thresholds: tuple[float, float]
    consensus: tuple[str, ...]
    table: pd.DataFrame
    searches: pd.DataFrame


def scheme_of(table: Table, estimator: Any) -> str:
    """Return the split kind for drawing rows: ``"group"``, ``"stratified"`` or ``"random"``."""
    if table.groups is not None:
        return "group"
    if not isinstance(table.target, pd.Series):
        return "random"
    classes = task_of(table.target, estimator) in ("binary", "multiclass")
    return "stratified" if classes else "random"


@step("resample")
def subsample(table: Table, share: float, seed: int, estimator: Any) -> Table:
    """Draw a share of the rows without replacement; see :func:`scheme_of`.

    Raises
    ------
    DataError
        If too few rows, groups or rows of a class would be left.
    """
    kind = scheme_of(table, estimator)
    try:
        rows = split(table, kind, test_size=1 - share, seed=seed, estimator=estimator)
    except DataError as error:
        raise DataError(
            f"a share of {share:g} of the rows cannot be drawn: {error}; increase --share, or set "
            "--resamples to 0"
        ) from error
    return table.take(rows.train)


@step("assess")
def assess(
    space: SearchSpace,
    by_seed: Sequence[CellResult],
    by_rows: Sequence[CellResult],
    thresholds: tuple[float, float],
    level: float,
) -> Assessment:
    """Assess the stability of the searches.

    Parameters
    ----------
    space : SearchSpace
    by_seed, by_rows : sequences of CellResult
        Searches on all rows, and on drawn rows; one of them may be empty.
    thresholds : (float, float)
        See :class:`Assessment`.
    level : float
        Confidence level of the intervals.
    """
    free = ~(space.fixed | space.forbidden)
    names = tuple(np.array(space.names, dtype=object)[free].tolist())
    parts = {"seeds": by_seed, "resamples": by_rows}
    masks = {
        part: np.array([_mask(space, result.features)[free] for result in results])
        for part, results in parts.items()
        if results
    }
    basis = "resamples" if by_rows else "seeds"
    found = frequencies(masks[basis], level)
    classes = classify(found.share, *thresholds)
    agreed = space.fixed.copy()
    agreed[free] = consensus(found.share)
    columns = {f"share_{part}": some.mean(axis=0) for part, some in masks.items()}
    table = pd.DataFrame(
        {
            "feature": names,
            "class": classes,
            "share": found.share,
            "low": found.low,
            "high": found.high,
            **columns,
            "in_consensus": agreed[free],
        }
    )
    indices = {part: nogueira(some, level) for part, some in masks.items()}
    return Assessment(
        by_seed=indices.get("seeds"),
        by_rows=indices.get("resamples"),
        basis=basis,
        names=names,
        found=found,
        classes=classes,
        thresholds=thresholds,
        consensus=tuple(space.subset(agreed)),
        table=table.sort_values("share", ascending=False, kind="stable", ignore_index=True),
        searches=pd.DataFrame([result.row() for result in (*by_seed, *by_rows)]),
    )


def assessment_files(assessment: Assessment) -> dict[str, bytes]:
    """Return the artifacts: two tables, the consensus and the figure."""
    listed = "".join(f"{name}\n" for name in assessment.consensus)
    found = assessment
    return {
        "stability.csv": found.table.to_csv(index=False).encode(),
        "searches.csv": found.searches.to_csv(index=False).encode(),
        "consensus.txt": listed.encode(),
        **stability_files(found.names, found.found, found.classes, found.thresholds),
    }


def _mask(space: SearchSpace, features: Sequence[str]) -> NDArray[np.bool_]:
    chosen = {space.columns.index(name) for name in features}
    return np.array([chosen.issuperset(unit) for unit in space.units])
