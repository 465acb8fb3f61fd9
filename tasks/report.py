"""The report of a select run, as artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from swarm.archive import KnownEvaluations
from swarm.evaluation.scoring import Scoring
from swarm.evaluation.types import Record
from swarm.judgement import Judgement
from swarm.problem import Problem
from swarm.report import ReportData, figure_files, render
from swarm.result import SearchResult
from swarm.strategy import Hints

__all__ = ["final_metrics", "report_data", "run_facts", "write_report"]


@task(name="report", cache_policy=NO_CACHE, persist_result=False)
def write_report(data: ReportData) -> dict[str, bytes]:
    """Render the HTML page and the figures: bytes by artifact path."""
    return {"report.html": render(data).encode(), **figure_files(data)}


def report_data(
    title: str,
    problem: Problem,
    result: SearchResult,
    judgement: Judgement,
    known: KnownEvaluations,
    hints: Hints,
    n_models: int,
    *,
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
    # Of a wide table there is no matrix to draw.
    if isinstance(hints.distance, np.ndarray) and space.n_units == space.n_columns:
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
        cost_label=_cost_label(problem.scoring),
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
        if (best & ~mask).any() or record.cost != result.cost:
            continue
        values = record.importance
        if values.any():
            units = np.flatnonzero(best)
            return pd.Series(values[units], index=[result.space.names[u] for u in units])
    return None


def run_facts(tags: Mapping[str, str], result: SearchResult) -> dict[str, object]:
    """What a run with these tags searched, and what it took."""
    work, counts = result.work, result.state.counts
    training = float(work["training_seconds"].sum())
    versions = {key: value for key, value in tags.items() if key.startswith("version.")}
    return {
        "data": tags["data"],
        "estimator": tags["estimator"],
        "scorer": tags["scoring"],
        "problem": tags["problem"],
        "ended by": result.reason,
        "evaluations": counts.evaluations,
        "distinct evaluations": counts.distinct,
        "fits": counts.fits,
        "archive_hits": int(work["hits"].sum()),
        "seconds_training": training,
        "seconds_elsewhere": max(0.0, float(work["seconds"].sum()) - training),
        "versions": {key.removeprefix("version."): value for key, value in versions.items()},
    }


def final_metrics(judgement: Judgement) -> dict[str, float]:
    """Test figures as metrics: ``test_f1`` of the ensemble, ``test_f1_all_features``, ..."""
    metrics: dict[str, float] = {}
    for row in judgement.table.to_dict("records"):
        suffix = "" if row["contender"] == "ensemble" else f"_{row['contender']}"
        metrics[f"test_{row['metric']}{suffix}"] = float(row["value"])
    if judgement.optimism is not None:
        metrics["optimism"] = judgement.optimism
    return metrics


def _cost_label(scoring: Scoring) -> str:
    name = scoring.name.removeprefix("neg_")
    return f"1 - {name}" if scoring.upper == 1.0 else name
