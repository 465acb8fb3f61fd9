"""The report of a fitted selector, and its verdict on test rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.arrays import Float, Int
from swarm.ensemble import SubsetEnsemble
from swarm.errors import InputError
from swarm.findings import unmuted
from swarm.findings.outcome import dependence_findings, judgement_findings
from swarm.problem.hints import MAX_COLUMNS, unit_distances
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.problem.table import take_rows
from swarm.report import ReportData, render, report_data
from swarm.report.data import by_column, ranked
from swarm.search.fresh_folds import fresh_problem
from swarm.selector.defaults import n_jobs_of
from swarm.selector.unseen import groups_of, pose_again, time_of, unseen_rows
from swarm.strategies.catalogue import name_of
from swarm.validation import Judgement, Rows, judge
from swarm.validation.drop_column import FeatureLosses, feature_losses
from swarm.validation.verdict import Headline

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector


def headline_of(
    selector: SubsetSelector,
    X: Any,
    y: Any,
    test: tuple[Any, ...],
    params: dict[str, Any],
    *,
    tolerance: float | None,
) -> Headline:
    """Compare the selected features with all features on test rows."""
    problem = pose_again(selector, X, y, params)
    rows = unseen_rows(selector, problem, test)
    judgement = _judgement(selector, problem, rows, n_random=1, tolerance=tolerance)
    return selector._selection.headline(judgement)


def page_of(
    selector: SubsetSelector,
    X: Any,
    y: Any,
    test: tuple[Any, ...] | None,
    params: dict[str, Any],
) -> str:
    """Render the report of a fitted selector, with the sections that the rows allow."""
    if X is None:
        if test is not None or y is not None:
            raise InputError(
                "a report on test rows needs the rows of the fit too; pass X and y to report"
            )
        return render(data_of(selector))
    problem = pose_again(selector, X, y, params)
    judgement: Judgement | None = None
    train: Int | None = None
    if test is None:
        unseen, description, train = _last_fold(problem)
    else:
        unseen = unseen_rows(selector, problem, test)
        judgement = _judgement(selector, problem, unseen)
        description = judgement.verdict.rows
    selection = selector._selection
    losses = feature_losses(
        problem,
        selection.mask,
        unseen,
        description,
        train=train,
        ranked=ranked(
            selection.names, by_column(selection.importances, selection.mask, problem.space)
        ),
        n_jobs=n_jobs_of(selector),
    )
    return render(data_of(selector, problem, judgement, losses))


def data_of(
    selector: SubsetSelector,
    problem: Problem | None = None,
    judgement: Judgement | None = None,
    losses: FeatureLosses | None = None,
) -> ReportData:
    """Return the data of the report; sections on missing arguments are left out."""
    selection = selector._selection
    evaluated = selector._evaluated
    strategy = name_of(selector.strategy_)
    findings = list(selector.findings_)
    rows: list[str] = []
    distance: Float | None = None
    if problem is not None:
        rows.append(f"{problem.n_rows:,} to search")
        if problem.space.n_columns <= MAX_COLUMNS:
            distance = unit_distances(problem.features, problem.space)
    if judgement is not None:
        rows.append(f"{judgement.n_rows:,} to test")
        findings += judgement_findings(judgement)
    if losses is not None:
        space = selector.result_.space
        findings += dependence_findings(losses, selection.importances, space)
    facts = {
        "strategy": strategy,
        "seed": selector.random_state,
        "folds": evaluated.n_folds,
        "rows": ", ".join(rows) or "not passed",
        "estimator": type(selector.estimator).__name__,
        "scorer": evaluated.scoring.name,
    }
    costs = evaluated.table["cost"].to_numpy()
    measured = np.flatnonzero(~np.isnan(costs))
    return report_data(
        selector.result_,
        [(selection.mask, selection.cost)],
        title=f"SubsetSelector, {strategy}, seed {selector.random_state}",
        headline=selection.headline(judgement),
        scoring=evaluated.scoring,
        evaluated=[(evaluated.masks[row], costs[row]) for row in measured],
        importances=selection.importances,
        distance=distance,
        judgement=judgement,
        strategy=selector.strategy_,
        findings=unmuted(findings, selector.mute),
        dropped=losses,
        columns=selection.columns(),
        facts=facts,
        config=repr(selector),
    )


def _last_fold(problem: Problem) -> tuple[Rows, str, Int]:
    """Return the test rows of the last fold, what they are, and its training rows.

    No search has used the fold, if `problem` can be divided again. The last one of folds in time
    has the most rows to train on.
    """
    fresh = fresh_problem(problem, 1)
    train, test = (problem if fresh is None else fresh).folds[-1]
    groups = groups_of(problem)
    groups = None if groups is None else groups[test]
    weight = problem.score_weight(test)
    rows = Rows(
        take_rows(problem.X, test),
        take_rows(problem.y, test),
        groups,
        weight,
        time=time_of(problem, len(test)),
    )
    return rows, f"a {'fold of the search' if fresh is None else 'fresh fold'}", train


def _judgement(selector: SubsetSelector, problem: Problem, test: Rows, **options: Any) -> Judgement:
    """Judge one model of the selected features on test rows."""
    if problem.other_fit_params or problem.score_params:
        name = next(iter([*problem.other_fit_params, *problem.score_params]))
        raise InputError(
            f"models are compared on test rows without {name!r}, which fit passed to its models; "
            "set it on the estimator, or score the test rows by hand"
        )
    positive = None
    if problem.task == "binary":
        positive = positive_class(problem.scoring, problem.target)
    return judge(
        SubsetEnsemble(problem.estimator, [selector._selection.names], pos_label=positive),
        Rows(problem.X, problem.y, weight=problem.weight),
        test,
        space=problem.space,
        scoring=problem.scoring,
        cv_cost=float(selector.cost_),
        **options,
        seed=int(selector.random_state),
        n_jobs=n_jobs_of(selector),
    )
