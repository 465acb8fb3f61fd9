"""The artifacts of a select run: its result, byte-identical if it is run again, and its report."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from swarm.json_data import json_file
from swarm.problem.hints import MAX_COLUMNS
from swarm.problem.space import SearchSpace
from swarm.reader import Reader
from swarm.report import ReportData, draw_figures, render
from swarm.report.columns import column_records
from swarm.search.confirmation import Confirmation
from swarm.search.prefilter import Cut
from swarm.search.requests import requested_evaluations
from swarm.search.result import SearchResult
from swarm.storage.archive import ProblemEvaluations
from swarm.validation import Judgement
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.records import headline_record, judgement_record
from swarm.validation.verdict import Headline
from tasks.files import parquet
from tasks.step import step
from tasks.table import Table
from tasks.tracking.curves import unseen_score


def search_files(result: SearchResult, evaluations: ProblemEvaluations) -> dict[str, bytes]:
    """Return subsets, history and evaluations of a search, by artifact path.

    They depend on configuration, seed and data alone, but for the seconds in ``archive.parquet``,
    which leaves out evaluations with other settings.
    """
    stage_files: dict[str, bytes] = {}
    if result.confirmation is not None:
        stage_files["confirmation.csv"] = _confirmation_file(result.confirmation, result.space)
    if result.cut is not None:
        stage_files["prefilter.csv"] = _ranking_file(result.cut, result.space)
    return {
        **stage_files,
        "subsets.csv": _subsets(result).to_csv(index=False).encode(),
        "history.parquet": parquet(result.history),
        "archive.parquet": parquet(_evaluation_table(result, evaluations)),
    }


def features_file(
    result: SearchResult,
    n_models: int,
    union_at_most: int | float | None = None,
    *,
    reader: Reader | None = None,
    model_inputs: Sequence[str],
    **model: Any,
) -> dict[str, bytes]:
    """Return ``features.json``: the columns to keep, the subsets, and the columns of the model.

    Keys with ``raw`` have the columns of the source, such as a date, in place of the features that
    the reader makes of them. `model` has facts about the served model, as JSON types.
    """
    members = result.best_members(n_models, union_at_most)
    confirmation = result.confirmation
    columns = {
        "features": result.features,
        "model_inputs": list(model_inputs),
        "available": result.space.subset(~result.space.forbidden),
    }
    features: dict[str, Any] = {
        "n_features": len(result.features),
        "n_available": result.space.n_columns,
        "cost": result.cost,
        "subsets": [
            {"features": result.space.subset(mask), "cost": float(cost), "origin": str(origin)}
            for mask, cost, origin in zip(members.masks, members.costs, members.origin, strict=True)
        ],
        **columns,
        "n_model_inputs": len(model_inputs),
        **{
            f"raw_{key}": names if reader is None else reader.sources(names)
            for key, names in columns.items()
        },
        **model,
        "union_at_most": union_at_most,
    }
    if confirmation is not None:
        smallest = None
        if confirmation.smallest is not None:
            smallest = result.space.subset(confirmation.candidates.masks[confirmation.smallest])
        features["confirmation"] = {
            **confirmation.as_dict(),
            "smallest_within_margin": smallest,
        }
    if result.cut is not None:
        features["prefilter"] = _cut_figures(result.cut)
    return {"features.json": json_file(features)}


def columns_file(columns: pd.DataFrame, metric: str) -> dict[str, bytes]:
    """Return ``columns.json``: why each column is in or out; the archive may be pruned."""
    return {"columns.json": json_file({"metric": metric, "columns": column_records(columns)})}


def schema_file(train: Table, columns: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return ``schema.json``: the columns of the source as they are in the training rows.

    `columns` comes from :func:`swarm.storage.exports.describe_columns`.
    """
    csv = None if train.reader is None else train.reader.csv
    return {"schema.json": json_file({"csv": csv, "columns": columns})}


def importances_file(
    result: SearchResult, importances: pd.Series, losses: FeatureLosses
) -> dict[str, bytes]:
    """Return ``importances.csv``: what each chosen column is worth, columns of a group together.

    `importances` are by column. A loss, with its interval, is that of the score on the test rows
    without the feature or group; the least important ones have none.
    """
    space = result.space
    rows = [
        {"column": space.columns[position], "feature": space.names[unit]}
        for unit in np.flatnonzero(result.best_mask)
        for position in space.units[unit]
    ]
    table = pd.DataFrame(rows)
    table["importance"] = table["column"].map(importances)
    table = table.sort_values("importance", ascending=False, kind="stable")
    for name in ("loss", "low", "high"):
        table[name] = table["feature"].map(losses.losses.get(name, pd.Series(dtype=float)))
    return {"importances.csv": table.to_csv(index=False).encode()}


def _cut_figures(cut: Cut) -> dict[str, Any]:
    """Return how many units a prefilter kept, and the cost of each number that was tried."""
    costs = [{"kept": int(n), "cost": float(c)} for n, c in zip(cut.sizes, cut.costs, strict=True)]
    return {
        "kept": cut.n_kept,
        "units": len(cut.kept),
        "ranked_by": cut.source,
        "fits": cut.n_fits,
        "n_folds": cut.n_folds,
        "costs": costs,
    }


def _ranking_file(cut: Cut, space: SearchSpace) -> bytes:
    """Return a row per unit, by importance: units that pass the prefilter first."""
    order = np.lexsort((-cut.importances, ~cut.kept))
    table = pd.DataFrame(
        {
            "unit": [space.names[unit] for unit in order],
            "importance": cut.importances[order],
            "kept": cut.kept[order],
        }
    )
    # Six digits are enough for each of many thousand units.
    digits = "%.6g" if len(table) > MAX_COLUMNS else None
    return table.to_csv(index=False, float_format=digits).encode()


def _confirmation_file(confirmation: Confirmation, space: SearchSpace) -> bytes:
    """Return a row per confirmed subset, the lowest cost on fresh folds first."""
    candidates = confirmation.candidates
    table = pd.DataFrame(
        {
            "cost": candidates.fresh_costs,
            "searched_cost": candidates.costs,
            "size": candidates.sizes,
            "origin": candidates.origin,
            "chosen": np.arange(len(candidates)) == confirmation.chosen,
            "features": [json.dumps(space.subset(mask)) for mask in candidates.masks],
        }
    )
    return table.to_csv(index=False).encode()


def _evaluation_table(result: SearchResult, evaluations: ProblemEvaluations) -> pd.DataFrame:
    """Return a row per distinct mask of the search, without a cost if pruning skipped folds."""
    rows = [
        {
            "size": int(mask.sum()),
            "cost": record.cost if record.complete else np.nan,
            "folds": int(record.has_cost.sum()),
            "failed": record.failed,
            "seconds": record.seconds,
            **{f"fold_{i}": cost for i, cost in enumerate(record.fold_costs)},
            "features": json.dumps(result.space.subset(mask)),
        }
        for mask, record in requested_evaluations(result, evaluations)
    ]
    return pd.DataFrame(rows)


def judgement_files(
    judgement: Judgement, head: Headline, predictions: pd.DataFrame
) -> dict[str, bytes]:
    """Return ``evaluation.json``, its metrics as a table, and ``predictions.parquet``."""
    record = {"headline": headline_record(head), **judgement_record(judgement)}
    return {
        "evaluation.csv": judgement.table.to_csv(index=False).encode(),
        "evaluation.json": json_file(record),
        "predictions.parquet": parquet(predictions),
    }


def predictions_of(judgement: Judgement, row: pd.Series | None) -> pd.DataFrame:
    """Return the predictions of all contenders, with the numbers of the rows in the source."""
    table = judgement.predictions.reset_index(drop=True)
    if row is not None:
        table.insert(0, "row", row)
    return table


def _subsets(result: SearchResult) -> pd.DataFrame:
    """Return pbest positions and costs, a column of 0 and 1 per unit, best first.

    A wide table has columns only for units that are in any of the subsets.
    """
    members = result.state.strategy.members
    order = np.lexsort((members.masks.sum(axis=1), members.costs))
    names = list(result.space.names)
    for reserved in ("cost", "group"):
        if reserved in names:
            free = f"feature_{reserved}"
            while free in names:
                free = f"feature_{free}"
            names[names.index(reserved)] = free
    masks = members.masks[order]
    if len(names) > MAX_COLUMNS:
        used = np.flatnonzero(masks.any(axis=0))
        masks = masks[:, used]
        names = [names[unit] for unit in used]
    table = pd.DataFrame(masks.astype(int), columns=names)
    table.insert(0, "cost", members.costs[order])
    table.insert(1, "group", members.group[order])
    return table


@step("report")
def write_report(data: ReportData) -> dict[str, bytes]:
    """Render the HTML page and the figures: bytes by artifact path."""
    drawings = draw_figures(data)
    files = {"report.html": render(data, drawings).encode()}
    for drawing in drawings.values():
        files |= drawing.files()
    return files


def model_metrics(judgement: Judgement, contender: str) -> dict[str, float]:
    """Return the metrics of a contender on the test rows: ``test/f1`` and so on."""
    rows = judgement.table[judgement.table["contender"] == contender].to_dict("records")
    return {f"test/{row['metric']}": float(row["value"]) for row in rows}


def selection_metrics(judgement: Judgement) -> dict[str, float]:
    """Return the test score of the best subset, its gain over all features, and the optimism."""
    verdict = judgement.verdict
    name = f"test/best_subset_minus_all_{verdict.metric}"
    metrics = {unseen_score(verdict.metric): verdict.chosen, name: verdict.difference}
    if not math.isnan(verdict.low):
        metrics |= {f"{name}_low": verdict.low, f"{name}_high": verdict.high}
    if judgement.optimism is not None:
        metrics["test/optimism"] = judgement.optimism
    return metrics
