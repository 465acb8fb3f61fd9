"""Stability of repeated searches of one configuration: samples, probes and assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError, DataError
from swarm.problem.space import SearchSpace
from swarm.report.stability import stability_files
from swarm.statistics.spearman import spearman_distance, unit_distance
from swarm.validation.error_control import (
    ErrorControl,
    ProbeEstimate,
    complementary_pairs,
    probe_estimate,
)
from swarm.validation.stability import (
    Frequencies,
    Stability,
    adjusted_stability,
    classify,
    consensus,
    frequencies,
    nogueira,
)
from tasks.search_cell import CellResult
from tasks.split import classes_of, split
from tasks.step import step
from tasks.table import Table

# Above this number of units there is no matrix of similarities.
_MOST_SIMILAR = 2000


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
    control : ErrorControl or None
        Stable units with a bound on false selections, if samples are complementary halves.
    probes : ProbeEstimate or None
        Estimates from noise probes, if there are any; `names` and all figures exclude the probes.
    adjusted_by_seed, adjusted_by_rows : float or None
        Stability where similar units may replace one another, see
        :mod:`swarm.validation.stability`.
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
    control: ErrorControl | None = None
    probes: ProbeEstimate | None = None
    adjusted_by_seed: float | None = None
    adjusted_by_rows: float | None = None


@dataclass(frozen=True)
class Probes:
    """Shuffled copies of units, which a search may select.

    Attributes
    ----------
    names : tuple of str
        Name of each probe: a column, or a group of columns.
    groups : dict of str to list of str
        Columns of each probe that is a group.
    """

    names: tuple[str, ...]
    groups: dict[str, list[str]]


def with_probes(table: Table, space: SearchSpace, count: int, seed: int) -> tuple[Table, Probes]:
    """Add shuffled copies of randomly chosen units to a table.

    All probes of a round, which copies each unit at most once, are shuffled by the same
    permutation of the rows: they are as correlated with one another as the units are, and
    unrelated to the target and to the units.

    Parameters
    ----------
    table : Table
    space : SearchSpace
        Of the table; fixed and forbidden units are not copied.
    count : int
        Number of probes.
    seed : int

    Raises
    ------
    ConfigError
        If there is no unit to copy.
    """
    free = np.flatnonzero(~(space.fixed | space.forbidden))
    if not len(free):
        raise ConfigError(
            "every feature is fixed or forbidden, so there is none to copy; use --probes 0"
        )
    rng = np.random.default_rng([seed, 0x9B0E])
    taken = {*table.features.columns, *space.names}
    names: list[str] = []
    groups: dict[str, list[str]] = {}
    added: dict[str, Any] = {}

    def unused(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    while len(names) < count:
        order = rng.permutation(len(table.features))
        for unit in rng.permutation(free)[: count - len(names)].tolist():
            columns = [space.columns[position] for position in space.units[unit]]
            copies = [unused(f"probe_{name}") for name in columns]
            for name, copy in zip(columns, copies, strict=True):
                added[copy] = table.features[name].iloc[order].reset_index(drop=True)
            if len(copies) == 1:
                names += copies
            else:
                group = unused(f"probe_{space.names[unit]}")
                names.append(group)
                groups[group] = copies
    features = pd.concat([table.features, pd.DataFrame(added)], axis=1)
    return replace(table, features=features), Probes(tuple(names), groups)


def scheme_of(table: Table, estimator: Any) -> str:
    """Return the split kind for drawing rows: ``"group"``, ``"stratified"`` or ``"random"``."""
    if table.groups is not None:
        return "group"
    return "random" if classes_of(table, estimator) is None else "stratified"


@step("resample")
def draw_sample(table: Table, share: float, seed: int, number: int, estimator: Any) -> Table:
    """Draw a share of the rows without replacement; see :func:`scheme_of`.

    Halves are drawn as complementary pairs: samples 0 and 1 have no row in common, and so on.

    Parameters
    ----------
    table : Table
    share : float
    seed : int
        Seed of the first pair, or of the first sample.
    number : int
        Number of the sample, from 0.
    estimator : estimator

    Raises
    ------
    DataError
        If too few rows, groups or rows of a class would be left.
    """
    kind, paired = scheme_of(table, estimator), share == 0.5
    own = seed + (number // 2 if paired else number)
    try:
        rows = split(table, kind, test_size=1 - share, seed=own, estimator=estimator)
    except DataError as error:
        raise DataError(
            f"a share of {share:g} of the rows cannot be drawn: {error}; increase --share, or set "
            "--resamples to 0"
        ) from error
    return table.take(rows.test if paired and number % 2 else rows.train)


def similarity_of(features: pd.DataFrame, space: SearchSpace) -> NDArray[np.float64] | None:
    """Return the absolute rank correlation of all units; None for a very wide table."""
    if space.n_units > _MOST_SIMILAR:
        return None
    return 1.0 - unit_distance(spearman_distance(features[list(space.columns)]), space.units)


@step("assess")
def assess(
    space: SearchSpace,
    by_seed: Sequence[CellResult],
    by_rows: Sequence[CellResult],
    thresholds: tuple[float, float],
    level: float,
    probes: Sequence[str] = (),
    *,
    false_selections: float | None = None,
    similarity: NDArray[np.float64] | None = None,
) -> Assessment:
    """Compute frequencies, classes, stability and consensus of repeated searches.

    Parameters
    ----------
    by_seed, by_rows : sequences of CellResult
        Searches on all rows, and on drawn rows; one of them may be empty.
    thresholds : (float, float)
        See :class:`Assessment`.
    level : float
        Confidence level of the intervals.
    probes : sequence of str
        Units that are noise probes; they are left out. With them the table has a column `q_value`.
    false_selections : float, optional
        Largest acceptable expected number of false selections, if the samples are complementary
        halves; a last one without its pair is left out of this error control. With it the table
        has the columns `stable` and `bound`.
    similarity : float64 (n_units, n_units), optional
        See :func:`similarity_of`; with it the adjusted stability is computed.
    """
    noise = np.isin(space.names, list(probes))
    free = ~(space.fixed | space.forbidden | noise)
    names = tuple(np.array(space.names, dtype=object)[free].tolist())
    parts = {"seeds": by_seed, "resamples": by_rows}
    drawn = {part: _masks(space, results) for part, results in parts.items() if results}
    masks = {part: every[:, free] for part, every in drawn.items()}
    basis = "resamples" if by_rows else "seeds"
    found = frequencies(masks[basis], level)
    classes = classify(found.share, *thresholds)
    agreed = space.fixed.copy()
    agreed[free] = consensus(found.share)
    columns: dict[str, Any] = {f"share_{part}": some.mean(axis=0) for part, some in masks.items()}
    columns["in_consensus"] = agreed[free]
    control = estimated = None
    pairs = len(by_rows) // 2
    if false_selections is not None and pairs:
        control = complementary_pairs(masks["resamples"][: 2 * pairs], false_selections)
        columns |= {"stable": control.stable, "bound": control.bounds}
    if len(probes):
        estimated = probe_estimate(masks[basis], drawn[basis][:, noise])
        columns["q_value"] = estimated.q_values
    table = pd.DataFrame(
        {
            "feature": names,
            "class": classes,
            "share": found.share,
            "low": found.low,
            "high": found.high,
            **columns,
        }
    )
    indices = {part: nogueira(some, level) for part, some in masks.items()}
    adjusted: dict[str, float] = {}
    if similarity is not None:
        near = similarity[np.ix_(free, free)]
        adjusted = {part: adjusted_stability(some, near) for part, some in masks.items()}
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
        control=control,
        probes=estimated,
        adjusted_by_seed=adjusted.get("seeds"),
        adjusted_by_rows=adjusted.get("resamples"),
    )


def plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, and NaN to None, as JSON needs."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def index_as_dict(found: Stability | None) -> dict[str, float] | None:
    """Return a stability index with its interval; None if there is none or it is undefined."""
    if found is None or found.index != found.index:
        return None
    names = ("index", "low", "high", "level", "n_subsets", "mean_size")
    return {name: getattr(found, name) for name in names}


def stability_metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the stability over seeds and over rows that are defined."""
    figures: dict[str, float] = {}
    for part, found, adjusted in (
        ("seeds", assessment.by_seed, assessment.adjusted_by_seed),
        ("rows", assessment.by_rows, assessment.adjusted_by_rows),
    ):
        name = f"stability_{part}"
        if found is not None and found.index == found.index:
            figures |= {name: found.index, f"{name}_low": found.low, f"{name}_high": found.high}
        if adjusted is not None and adjusted == adjusted:
            figures[f"{name}_adjusted"] = adjusted
    return figures


def assessment_files(assessment: Assessment) -> dict[str, bytes]:
    """Return the artifacts: two tables, the consensus and the figure."""
    found = assessment
    return {
        "stability.csv": found.table.to_csv(index=False).encode(),
        "searches.csv": found.searches.to_csv(index=False).encode(),
        "consensus.txt": "".join(f"{name}\n" for name in found.consensus).encode(),
        **stability_files(found.names, found.found, found.classes, found.thresholds),
    }


def _masks(space: SearchSpace, results: Sequence[CellResult]) -> NDArray[np.bool_]:
    """Return the subset of each search as a mask (n_searches, n_units)."""
    position = {name: column for column, name in enumerate(space.columns)}
    chosen = [{position[name] for name in result.features} for result in results]
    return np.array([[own.issuperset(unit) for unit in space.units] for own in chosen])
