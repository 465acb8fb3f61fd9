"""Stability of repeated searches of one configuration: samples and assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import DataError
from swarm.problem.space import SearchSpace
from swarm.report.stability import stability_files
from swarm.rows import hold_out
from swarm.validation.stability import (
    Frequencies,
    Stability,
    classify,
    consensus,
    frequencies,
    interpret_index,
    nogueira,
)
from tasks.search_cell import CellResult
from tasks.split import rows_of
from tasks.step import step
from tasks.table import Table


@dataclass(frozen=True)
class Assessment:
    """Stability of repeated searches."""

    # Nogueira's index of the searches that differ only in their seed, if any
    by_seed: Stability | None
    by_rows: Stability | None  # that of the searches that differ in seed and rows, if any
    # searches of frequencies, classes, consensus: "resamples" if there are any, else "seeds"
    basis: str
    names: tuple[str, ...]  # units that are neither fixed nor forbidden
    frequencies: Frequencies  # of the units
    classes: tuple[str, ...]  # "core", "optional" or "noise" for each unit
    thresholds: tuple[float, float]  # shares from which a unit is core, and up to which it is noise
    consensus: tuple[str, ...]  # features of more than half of the searches, and the fixed ones
    table: pd.DataFrame  # one row per unit, by decreasing frequency
    searches: pd.DataFrame  # one row per search

    def figures(self) -> dict[str, bytes]:
        """Draw the frequencies of the units."""
        return stability_files(self.names, self.frequencies, self.classes, self.thresholds)


def scheme_of(table: Table, estimator: Any) -> str:
    """Return the kind by which samples of the rows are drawn."""
    return rows_of(table, estimator).kind


@step("resample")
def draw_sample(table: Table, share: float, seed: int, number: int, estimator: Any) -> Table:
    """Draw a share of the rows without replacement, see `scheme_of`; DataError if too few are left.

    `seed` is that of sample 0.
    """
    rows = rows_of(table, estimator)
    try:
        sample, _ = hold_out(rows, rows.kind, 1 - share, seed=seed + number)
    except DataError as error:
        raise DataError(
            f"a share of {share:g} of the rows cannot be drawn: {error}; increase --share, or set "
            "--resamples to 0"
        ) from error
    return table.take(sample)


@step("assess")
def assess(
    space: SearchSpace,
    by_seed: Sequence[CellResult],  # searches on all rows; may be empty if there are others
    # searches on samples of the rows; may be empty if there are others
    by_rows: Sequence[CellResult],
    thresholds: tuple[float, float],  # see `Assessment`
) -> Assessment:
    """Compute frequencies, classes, stability and consensus of repeated searches."""
    free = ~(space.fixed | space.forbidden)
    names = tuple(np.array(space.names, dtype=object)[free].tolist())
    parts = {"seeds": by_seed, "resamples": by_rows}
    masks = {part: _masks(space, results)[:, free] for part, results in parts.items() if results}
    basis = "resamples" if by_rows else "seeds"
    per_unit = frequencies(masks[basis])
    classes = classify(per_unit.share, *thresholds)
    agreed = space.fixed.copy()
    agreed[free] = consensus(per_unit.share)
    table = pd.DataFrame(
        {
            "feature": names,
            "class": classes,
            "share": per_unit.share,
            "low": per_unit.low,
            "high": per_unit.high,
            **{f"share_{part}": some.mean(axis=0) for part, some in masks.items()},
            "in_consensus": agreed[free],
        }
    )
    indices = {part: nogueira(some) for part, some in masks.items()}
    return Assessment(
        by_seed=indices.get("seeds"),
        by_rows=indices.get("resamples"),
        basis=basis,
        names=names,
        frequencies=per_unit,
        classes=classes,
        thresholds=thresholds,
        consensus=tuple(space.subset(agreed)),
        table=table.sort_values("share", ascending=False, kind="stable", ignore_index=True),
        searches=pd.DataFrame([result.row() for result in (*by_seed, *by_rows)]),
    )


def index_as_dict(stability: Stability | None) -> dict[str, float] | None:
    """Return a stability index with its interval; None if there is none or it is undefined."""
    if stability is None or stability.index != stability.index:
        return None
    names = ("index", "low", "high", "level", "n_subsets", "mean_size")
    return {name: getattr(stability, name) for name in names}


def describe_index(stability: Stability, over: str) -> str:
    """State the stability index of the subsets selected over `over`, with its interpretation."""
    index = stability.index
    if index != index:
        return f"Over {stability.n_subsets} {over}, every search selected all features or none."
    return (
        f"Over {stability.n_subsets} {over}, the stability index is {index:.2f} "
        f"[{stability.low:.2f}, {stability.high:.2f}] ({interpret_index(index)}; 1: always the "
        "same features, 0: chance)."
    )


def stability_metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the stability over seeds and over rows that are defined."""
    figures: dict[str, float] = {}
    for part, stability in (("seeds", assessment.by_seed), ("rows", assessment.by_rows)):
        if index := index_as_dict(stability):
            name = f"stability_{part}"
            figures |= {name: index["index"]}
            figures |= {f"{name}_{end}": index[end] for end in ("low", "high")}
    return figures


def assessment_files(assessment: Assessment) -> dict[str, bytes]:
    """Return the artifacts: two tables, the consensus and the figure."""
    return {
        "stability.csv": assessment.table.to_csv(index=False).encode(),
        "searches.csv": assessment.searches.to_csv(index=False).encode(),
        "consensus.txt": "".join(f"{name}\n" for name in assessment.consensus).encode(),
        **assessment.figures(),
    }


def _masks(space: SearchSpace, results: Sequence[CellResult]) -> NDArray[np.bool_]:
    """Return the subset of each search as a mask (n_searches, n_units)."""
    position = {name: column for column, name in enumerate(space.columns)}
    subsets = [{position[name] for name in result.features} for result in results]
    return np.array([[subset.issuperset(unit) for unit in space.units] for subset in subsets])
