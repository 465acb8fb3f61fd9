"""The report of a select run as artifacts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.ensemble import SubsetEnsemble
from swarm.findings import Finding
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.report import ReportData, draw_figures, render
from swarm.report.agreement import Agreement, agreement
from swarm.report.data import work_of
from swarm.report.picks import Pick, one_se_limit, pick_by_rules
from swarm.report.serialization import report_text
from swarm.search.asked import asked_evaluations
from swarm.search.result import SearchResult
from swarm.storage.archive import KnownEvaluations
from swarm.storage.records import Record
from swarm.validation import Judgement
from swarm.validation.answers import answers_of
from swarm.validation.diagnostics import Diagnostics, Unseen, diagnose
from swarm.validation.headline import Headline
from swarm.validation.metrics import cost_label
from tasks.step import step
from tasks.table import Table

Mask = NDArray[np.bool_]
Finished = tuple[Mask, Record]

__all__ = [
    "costs_on_test",
    "diagnose_answer",
    "final_metrics",
    "report_data",
    "run_facts",
    "write_report",
]


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
    """Train and score the models of the diagnostics on the test rows.

    `train` has the rows of the problem.
    """
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
    title: str,
    problem: Problem,
    result: SearchResult,
    judgement: Judgement,
    known: KnownEvaluations,
    hints: Hints,
    n_models: int,
    *,
    headline: Headline,
    regroup_every: int | None,
    findings: Sequence[Finding],
    config_yaml: str,
    facts: Mapping[str, object],
    subset_test_costs: Sequence[float] = (),
    union_at_most: int | float | None = None,
    diagnostics: Diagnostics | None = None,
) -> ReportData:
    """Collect the data of the report from a search and its evaluation on the test rows."""
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
        title=title,
        headline=headline,
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
        subset_test_costs=subset_test_costs,
        picks=picks,
        agreement=_agreement(result, finished, one_se_limit(picks)),
        cost_label=cost_label(problem.scoring),
        level=judgement.level,
        regroup_every=regroup_every,
        findings=[each.as_dict() for each in findings],
        config_yaml=config_yaml,
        positive=judgement.positive,
        diagnostics=diagnostics,
        facts=facts,
        prices=prices,
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
    space, allowed = result.space, result.space.obeys(masks)
    masks, folds = masks[allowed], folds[allowed]
    return pick_by_rules(result.best_mask, masks, folds, space.subset, space.price(masks))


def _agreement(result: SearchResult, finished: Sequence[Finished], high: float) -> Agreement:
    """Measure the agreement of the final subsets of the strategy."""
    space = result.space
    held, _ = result.best_members()
    near = [mask for mask, record in finished if record.cost <= high]
    masks = np.array(near, dtype=bool).reshape(-1, space.n_units)
    free = ~(space.fixed | space.forbidden)
    return agreement(space.names, result.best_mask, held, masks[space.obeys(masks)], free)


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
    versions = {key: value for key, value in tags.items() if key.startswith("version.")}
    return {
        "data": tags["data"],
        "estimator": tags["estimator"],
        "scorer": tags["scoring"],
        "problem": tags["problem"],
        **dict(result.outcomes),
        **work_of(result),
        "versions": {key.removeprefix("version."): value for key, value in versions.items()},
    }


def final_metrics(judgement: Judgement) -> dict[str, float]:
    """Return the test metrics: ``test_f1``, ``baseline_f1_all_features`` and so on."""
    metrics: dict[str, float] = {}
    for row in judgement.table.to_dict("records"):
        name = f"test_{row['metric']}"
        if row["contender"] != "ensemble":
            name = f"baseline_{row['metric']}_{row['contender']}"
        metrics[name] = float(row["value"])
    if judgement.selection is not None:
        found = judgement.selection
        own = f"best_subset_minus_all_{found.metric}"
        metrics |= {own: found.difference}
        if found.low == found.low:
            metrics |= {f"{own}_low": found.low, f"{own}_high": found.high}
    if judgement.optimism is not None:
        metrics["optimism"] = judgement.optimism
    return metrics
