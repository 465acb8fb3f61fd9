"""The report of a select run, as artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from swarm.archive import KnownEvaluations
from swarm.evaluation.types import Record
from swarm.judgement import Judgement
from swarm.report import ReportData, figure_files, render
from swarm.search import SearchResult
from swarm.strategy import Hints

__all__ = ["report_data", "write_report"]


@task(name="report", cache_policy=NO_CACHE, persist_result=False)
def write_report(data: ReportData) -> dict[str, bytes]:
    """Render the HTML page and the figures: bytes by artifact path."""
    return {"report.html": render(data).encode(), **figure_files(data)}


def report_data(
    title: str,
    result: SearchResult,
    judgement: Judgement,
    known: KnownEvaluations,
    hints: Hints,
    n_models: int,
    cost_label: str,
    regroup_every: int | None,
    warnings: Sequence[str],
    config_yaml: str,
    facts: Mapping[str, object],
) -> ReportData:
    """Gather what the report shows from a search and its judgement."""
    space = result.space
    masks, costs = result.best_members(n_models)
    finished = [(mask, record) for mask, record in known.all() if record.complete]
    evaluations = pd.DataFrame(
        {
            "size": [int(mask.sum()) for mask, _ in finished],
            "cost": [record.cost for _, record in finished],
        }
    )
    distance = None
    if hints.distance is not None and space.n_units == space.n_columns:
        names = list(space.columns)
        distance = pd.DataFrame(hints.distance, index=names, columns=names)
    return ReportData(
        title=title,
        verdict=judgement.verdict(),
        features=result.features,
        n_available=space.n_columns,
        subsets=[
            (space.subset(mask), float(cost)) for mask, cost in zip(masks, costs, strict=True)
        ],
        history=result.history,
        evaluations=evaluations,
        figures=judgement.table,
        differences=judgement.differences,
        importances=_importances(result, finished),
        distance=distance,
        cv_cost=judgement.cv_cost,
        test_cost=judgement.costs.get("best_subset"),
        optimism=judgement.optimism,
        cost_label=cost_label,
        level=judgement.level,
        regroup_every=regroup_every,
        warnings=list(warnings),
        config_yaml=config_yaml,
        facts=facts,
    )


def _importances(
    result: SearchResult, finished: Sequence[tuple[np.ndarray, Record]]
) -> pd.Series | None:
    """Importances of the best subset, from the evaluation it was found or shrunk from."""
    best = result.best_mask
    for mask, record in finished:
        if not (mask & best).sum() == best.sum() or record.cost != result.cost:
            continue
        values = record.importance
        if values.any():
            units = np.flatnonzero(best)
            return pd.Series(values[units], index=[result.space.names[u] for u in units])
    return None
