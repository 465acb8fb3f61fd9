"""The artifacts of a select run: its result, byte-identical if it is run again, and its report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.ensemble import SubsetEnsemble
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.report import ReportData, draw_figures, render
from swarm.report.data import Agreement, Pick, one_se_limit, pick_by_rules, work_of
from swarm.report.serialization import report_text
from swarm.search.asked import asked_evaluations
from swarm.search.confirmation import Confirmation
from swarm.search.prefilter import MANY_COLUMNS, Cut
from swarm.search.result import SearchResult
from swarm.search.runner import FinishedSearch
from swarm.search.tuning import TuningResult
from swarm.storage.archive import KnownEvaluations
from swarm.storage.records import Record
from swarm.validation import Judgement
from swarm.validation.answers import answers_of
from swarm.validation.diagnostics import Diagnostics, Unseen, diagnose
from swarm.validation.headline import Headline
from swarm.validation.metrics import cost_label
from tasks.step import step
from tasks.table import Table
from tasks.tracking.run_log import json_file, parquet

Mask = NDArray[np.bool_]
Finished = tuple[Mask, Record]


def answer_files(
    result: SearchResult,
    known: KnownEvaluations,
    n_models: int,
    union_at_most: int | float | None = None,
) -> dict[str, bytes]:
    """Return features, subsets, history and evaluations of a search, by artifact path.

    ``features.json``, ``subsets.csv``, ``confirmation.csv`` (of a confirmed search),
    ``prefilter.csv`` (with a prefilter), ``settings.csv`` (with a choice of settings of the model)
    and ``history.parquet`` depend only on configuration, seed and data. So do the evaluations in
    ``archive.parquet``, but for the seconds that they took; those with other settings are left out.
    """
    masks, costs = result.best_members(n_models, union_at_most)
    together = result.space.subset(np.logical_or.reduce(masks, axis=0))
    features = {
        "features": result.features,
        "n_features": len(result.features),
        "n_available": result.space.n_columns,
        **({} if result.price is None else {"price": result.price}),
        "cost": result.cost,
        "subsets": [
            {"features": result.space.subset(mask), "cost": float(cost)}
            for mask, cost in zip(masks, costs, strict=True)
        ],
        "together": {
            "features": together,
            "n_features": len(together),
            "at_most": union_at_most,
        },
    }
    confirmation = result.confirmation
    confirmed: dict[str, bytes] = {}
    if confirmation is not None:
        features["confirmation"] = {
            **confirmation.as_dict(),
            "smallest_within_margin": _smallest(confirmation, result.space),
        }
        confirmed["confirmation.csv"] = _confirmed(confirmation, result.space)
    if result.cut is not None:
        features["prefilter"] = _cut_figures(result.cut)
        confirmed["prefilter.csv"] = _ranking(result.cut, result.space)
    if result.tuning is not None:
        features["model"] = _chosen_setting(result.tuning)
        confirmed["settings.csv"] = _settings(result.tuning)
    return {
        **confirmed,
        "features.json": json_file(features),
        "subsets.csv": _subsets(result).to_csv(index=False).encode(),
        "history.parquet": parquet(result.history),
        "archive.parquet": parquet(_evaluation_table(result, known)),
    }


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


def _chosen_setting(tuning: TuningResult) -> dict[str, Any]:
    """Return the setting of the model, and the rounds in which it was chosen."""
    rounds = [{"settings": each.n_settings, "subsets": each.n_subsets} for each in tuning.rounds]
    return {
        "setting": tuning.params,
        "settings": len(tuning.settings),
        "combinations": tuning.n_grid,
        "rounds": rounds,
        "fits": tuning.fits,
    }


def _settings(tuning: TuningResult) -> bytes:
    """Return a row per setting, with its lowest cost in each round that it took part in."""
    costs = {f"cost_round_{number}": row for number, row in enumerate(tuning.costs, 1)}
    chosen = np.arange(len(tuning.settings)) == tuning.chosen
    table = pd.DataFrame([dict(setting) for setting in tuning.settings], dtype=object)
    return table.assign(**costs, chosen=chosen).to_csv(index=False).encode()


def _ranking(cut: Cut, space: SearchSpace) -> bytes:
    """Return a row per unit, those that were kept first, each part by importance."""
    order = np.lexsort((-cut.importances, ~cut.kept))
    table = pd.DataFrame(
        {
            "unit": [space.names[unit] for unit in order],
            "importance": cut.importances[order],
            "kept": cut.kept[order],
        }
    )
    # Six digits of each of many thousand units say enough.
    digits = "%.6g" if len(table) > MANY_COLUMNS else None
    return table.to_csv(index=False, float_format=digits).encode()


def _smallest(confirmation: Confirmation, space: SearchSpace) -> list[str] | None:
    """Features of the smallest subset that is not worse than all features, if there is one."""
    row = confirmation.smallest_within_margin(confirmation.baseline)
    return None if row is None else space.subset(confirmation.masks[row])


def _confirmed(confirmation: Confirmation, space: SearchSpace) -> bytes:
    """Return a row per confirmed subset, the lowest cost on fresh folds first."""
    table = pd.DataFrame(
        {
            "cost": confirmation.costs,
            "searched_cost": confirmation.searched,
            "size": confirmation.sizes,
            **({} if confirmation.prices is None else {"price": confirmation.prices}),
            "chosen": np.arange(len(confirmation.masks)) == confirmation.chosen,
            "features": [json.dumps(space.subset(mask)) for mask in confirmation.masks],
        }
    )
    return table.to_csv(index=False).encode()


def _evaluation_table(result: SearchResult, known: KnownEvaluations) -> pd.DataFrame:
    """Return one row per distinct mask that the search evaluated.

    Columns: size, cost, folds, failed, seconds, the fold costs, features. `cost` is missing if
    pruning skipped some of the folds.
    """
    rows = [
        {
            "size": int(mask.sum()),
            "cost": record.cost if record.complete else np.nan,
            "folds": int(record.known.sum()),
            "failed": record.failed,
            "seconds": record.seconds,
            **{f"fold_{i}": cost for i, cost in enumerate(record.fold_costs)},
            "features": json.dumps(result.space.subset(mask)),
        }
        for mask, record in asked_evaluations(result, known)
    ]
    return pd.DataFrame(rows)


def judgement_files(judgement: Judgement, head: Headline) -> dict[str, bytes]:
    """Return ``evaluation.json`` and ``predictions.parquet``."""
    return {
        "evaluation.json": json_file({"headline": head.as_dict(), **judgement.as_dict()}),
        "predictions.parquet": parquet(judgement.predictions.reset_index(drop=True)),
    }


def _subsets(result: SearchResult) -> pd.DataFrame:
    """Return pbest positions and costs, a column of 0 and 1 per unit, best first.

    Of a wide table only the units that are in any of them. A unit with the name of one of the first
    two columns gets the prefix ``feature_``.
    """
    members = result.state.strategy.members
    # In the order of the search, with costs as in the other files.
    order = np.lexsort((members.masks.sum(axis=1), members.costs))
    costs = result.space.without_penalty(members.masks, members.costs)
    names = list(result.space.names)
    for taken in ("cost", "group"):
        if taken in names:
            place, free = names.index(taken), f"feature_{taken}"
            while free in names:
                free = f"feature_{free}"
            names[place] = free
    masks = members.masks[order]
    if len(names) > MANY_COLUMNS:
        kept = np.flatnonzero(masks.any(axis=0))
        masks, names = masks[:, kept], [names[unit] for unit in kept]
    table = pd.DataFrame(masks.astype(int), columns=names)
    table.insert(0, "cost", costs[order])
    table.insert(1, "group", members.group[order])
    return table


@step("report")
def write_report(data: ReportData) -> dict[str, bytes]:
    """Render the HTML page and the figures: bytes by artifact path.

    ``report.json`` contains everything that the page shows, so that `swarm report` can render it
    again.
    """
    drawings = draw_figures(data)
    files = {
        "report.html": render(data, drawings).encode(),
        "report.json": report_text(data).encode(),
    }
    for drawing in drawings.values():
        files |= drawing.files()
    return files


@step("diagnose")
def diagnose_answer(
    problem: Problem,
    result: SearchResult,
    train: Table,
    test: Table,
    ensemble: SubsetEnsemble,
    n_jobs: int,
) -> Diagnostics:
    """Train and score the models of the diagnostics on the test rows; `train` has the problem's."""
    rows = Unseen(
        np.arange(len(train.features)),
        test.features[list(problem.features.columns)],
        np.asarray(test.target),
        test.weight_in_score(problem),
    )
    several = len(ensemble.models_) > 1 and problem.task != "multilabel"
    return diagnose(
        problem,
        result.best_mask,
        [rows],
        f"{len(test.features):,} unseen rows",
        ensemble=answers_of(ensemble, test.features) if several else None,
        n_jobs=n_jobs,
    )


def costs_on_test(problem: Problem, ensemble: SubsetEnsemble, test: Table) -> list[float]:
    """Return the cost of each model of a fitted ensemble on the test rows."""
    weight = test.weight_in_score(problem)
    return [
        problem.scoring.cost(model, rows, test.target, weight)
        for model, rows in ensemble.members(test.features)
    ]


def report_data(
    search: FinishedSearch,
    judgement: Judgement,
    hints: Hints,
    n_models: int,
    union_at_most: int | float | None = None,
    **described: Any,
) -> ReportData:
    """Collect the data of the report from a search and its evaluation on the test rows.

    `described` are the title, the headline and further fields of the data.
    """
    result, known = search.result, search.known
    space, confirmation = result.space, result.confirmation
    masks, costs = result.best_members(n_models, union_at_most)
    finished, useful = _finished(result, known)
    picks = _picks(result, finished)
    evaluations = pd.DataFrame(
        {
            "size": [int(mask.sum()) for mask, _ in finished],
            "cost": [record.cost for _, record in finished],
        }
    )
    prices: dict[str, float] = {}
    if space.unit_prices is not None:
        masks_of = np.array([mask for mask, _ in finished]).reshape(-1, space.n_units)
        evaluations["price"] = space.price(masks_of)
        for unit, price in zip(space.units, space.unit_prices.tolist(), strict=True):
            prices |= {space.columns[position]: price / len(unit) for position in unit}
    distance = None
    # A wide table has no distance matrix.
    if isinstance(hints.distance, np.ndarray) and space.n_units == space.n_columns:
        names = list(space.columns)
        distance = pd.DataFrame(hints.distance, index=names, columns=names)
    return ReportData(
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
        importances=_importances(result, useful, known),
        distance=distance,
        cv_cost=judgement.cv_cost,
        test_cost=judgement.costs.get("best_subset"),
        optimism=judgement.optimism,
        confirmation=None
        if confirmation is None
        else {**confirmation.as_dict(), "sentence": confirmation.sentence()},
        picks=picks,
        agreement=_agreement(result, finished, one_se_limit(picks)),
        cost_label=cost_label(search.problem.scoring),
        level=judgement.level,
        positive=judgement.positive,
        prices=prices,
        **described,
    )


def _finished(
    result: SearchResult, known: KnownEvaluations
) -> tuple[list[Finished], list[Finished]]:
    """Return the complete evaluations of a search, and those of them that have importances.

    Their importances are left out, which take most of the memory.
    """
    finished, useful, blank = [], [], known.blank
    for mask, record in asked_evaluations(result, known):
        if not record.complete:
            continue
        kept = mask, replace(record, importances=blank.importances, used=blank.used)
        finished.append(kept)
        if record.importance.any():
            useful.append(kept)
    return finished, useful


def _picks(result: SearchResult, finished: Sequence[Finished]) -> list[Pick]:
    """Pick subsets by each rule among all feasible subsets with a known cost."""
    known = {mask.tobytes() for mask, _ in finished}
    # A shrunk pbest has the fold costs of the subset that it was shrunk from.
    shrunk = [(m, _origin(m, c, finished)) for m, c in zip(*result.best_members(), strict=True)]
    rows = [*finished, *((m, o[1]) for m, o in shrunk if o and m.tobytes() not in known)]
    if not rows:
        return []
    masks = np.array([mask for mask, _ in rows])
    folds = np.array([record.fold_costs for _, record in rows])
    # If one fold failed, the cost is inf even if other folds are unknown.
    folds[[record.failed for _, record in rows]] = np.inf
    return pick_by_rules(result.space, result.best_mask, masks, folds)


def _agreement(result: SearchResult, finished: Sequence[Finished], high: float) -> Agreement:
    """Measure the agreement of the final subsets of the strategy."""
    held, _ = result.best_members()
    near = [mask for mask, record in finished if record.cost <= high]
    masks = np.array(near, dtype=bool).reshape(-1, result.space.n_units)
    return Agreement.of(result.space, result.best_mask, held, masks)


def _origin(mask: Mask, cost: float, finished: Sequence[Finished]) -> Finished | None:
    """Return the evaluation of a subset, or of the subset that it was shrunk from."""
    for wider, record in finished:
        # A penalty that was added and subtracted again changes the last digits.
        if (
            math.isclose(record.cost, cost, rel_tol=0.0, abs_tol=1e-12)
            and not (mask & ~wider).any()
        ):
            return wider, record
    return None


def _importances(
    result: SearchResult, useful: Sequence[Finished], known: KnownEvaluations
) -> pd.Series | None:
    """Return the importances of the best subset from its evaluation, None if unknown."""
    origin = _origin(result.best_mask, result.cost, useful)
    if origin is None:
        return None
    record = known.lookup(origin[0][None, :])[0]
    units = np.flatnonzero(result.best_mask)
    names = [result.space.names[unit] for unit in units]
    return pd.Series(record.importance[units], index=names)


def run_facts(tags: Mapping[str, str], result: SearchResult) -> dict[str, object]:
    """Return the facts of the report: what was searched, and the work that it needed."""
    head = "version."
    return {
        "data": tags["data"],
        "estimator": tags["estimator"],
        "scorer": tags["scoring"],
        "problem": tags["problem"],
        **dict(result.outcomes),
        **work_of(result),
        "versions": {k.removeprefix(head): v for k, v in tags.items() if k.startswith(head)},
    }


def ensemble_metrics(judgement: Judgement) -> dict[str, float]:
    """Return the metrics of the ensemble on the test rows: ``test/f1`` and so on."""
    rows = judgement.table[judgement.table["contender"] == "ensemble"].to_dict("records")
    return {f"test/{row['metric']}": float(row["value"]) for row in rows}


def baseline_metrics(judgement: Judgement) -> dict[str, float]:
    """Return all other metrics on the test rows: ``test_baselines/f1_all_features`` and so on."""
    rows = judgement.table[judgement.table["contender"] != "ensemble"].to_dict("records")
    metrics = {
        f"test_baselines/{row['metric']}_{row['contender']}": float(row["value"]) for row in rows
    }
    if judgement.selection is not None:
        found = judgement.selection
        own = f"best_subset_minus_all_{found.metric}"
        metrics[own] = found.difference
        if found.low == found.low:
            metrics |= {f"{own}_low": found.low, f"{own}_high": found.high}
    if judgement.optimism is not None:
        metrics["test/optimism"] = judgement.optimism
    return metrics
