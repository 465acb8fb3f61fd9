"""The report of a fitted selector: the page of a run, as far as there is data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from swarm.arrays import Int
from swarm.ensemble import SubsetEnsemble
from swarm.errors import DataError, InputError
from swarm.findings import unmuted
from swarm.findings.outcome import judgement_findings
from swarm.findings.rows import hash_rows, is_distinguished
from swarm.problem.hints import MOST_COLUMNS, prepare_hints
from swarm.problem.inputs import check_columns, check_rows, check_target, checked_weights
from swarm.problem.problem import Problem
from swarm.problem.scoring import positive_class
from swarm.problem.table import as_frame, labels_of, plain_target, take_columns, take_rows
from swarm.report import ReportData, render
from swarm.report.data import by_column, confirmed_scores, work_of
from swarm.rows import complete_groups
from swarm.search.fresh_folds import fresh_problem
from swarm.selector.defaults import n_jobs_of
from swarm.selector.inputs import checked_table
from swarm.selector.plan import pose
from swarm.selector.results import headline_of_pick, reason_not_comparable
from swarm.strategies.catalogue import name_of
from swarm.validation import Judgement, Rows, judge
from swarm.validation.drop_column import feature_losses
from swarm.validation.sentences import positive_class_sentence
from swarm.validation.verdict import ALL, Headline, headline

# Share of test rows that may equal rows of the fit: tables have copies of rows.
_MOST_COPIES = 0.1


def headline_of(
    selector: Any, X: Any, y: Any, test: tuple[Any, ...], params: dict[str, Any]
) -> Headline:
    """Compare the selected features with all on test rows; parameters as of :func:`page_of`."""
    problem = _posed(selector, X, y, params)
    judgement = _judgement(selector, problem, _test_rows(selector, problem, test), n_random=1)
    return _headline_on_test(selector, judgement)


def page_of(
    selector: Any, X: Any, y: Any, test: tuple[Any, ...] | None, params: dict[str, Any]
) -> str:
    """Render the report of a fitted selector, with the sections that the rows allow."""
    data = _search_data(selector)
    if X is None:
        if test is not None or y is not None:
            raise InputError(
                "a report on test rows needs the rows of the fit too; pass X and y to report"
            )
        return render(data)
    problem = _posed(selector, X, y, params)
    data = replace(data, distance=_distance(problem))
    if test is not None:
        unseen = _test_rows(selector, problem, test)
        data = _judged(selector, data, problem, unseen)
        named, train = f"{unseen.n_rows:,} unseen rows", None
    else:
        unseen, named, train = _fold(problem)
    chosen = problem.space.mask(selector._names)
    ranked = list(selector._importances.index)
    jobs = n_jobs_of(selector)
    losses = feature_losses(problem, chosen, unseen, named, train=train, ranked=ranked, n_jobs=jobs)
    return render(replace(data, dropped=losses))


def _fold(problem: Problem) -> tuple[Rows, str, Int]:
    """Return the test rows of a fold, if possible of one that no search used, and the others."""
    fresh = fresh_problem(problem, 1)
    # The last one: of folds in time it has the most rows to train on.
    train, test = (problem if fresh is None else fresh).folds[-1]
    groups = _groups(problem)
    groups = None if groups is None else np.asarray(groups)[test]
    weight = problem.score_weight(test)
    rows = Rows(take_rows(problem.X, test), take_rows(problem.y, test), groups, weight)
    return rows, f"a {'fold of the search' if fresh is None else 'fresh fold'}", train


def _groups(problem: Problem) -> Any:
    """Return the groups of the rows of the fit, None without."""
    assert problem.division is not None
    rows = problem.division.rows
    return rows.groups if rows.is_grouped else None


def _search_data(selector: Any) -> ReportData:
    """Return what the selector itself knows."""
    result, scoring = selector.result_, selector._evaluated.scoring
    table = selector.results_
    measured = table[table["cost"].notna()]
    importances = by_column(selector._importances.dropna(), result.space)
    return ReportData(
        title=f"SubsetSelector, {name_of(selector.strategy)}, seed {selector.random_state}",
        verdict="",
        features=list(selector._names),
        n_available=result.space.n_allowed,
        subsets=[(list(selector._names), float(selector.cost_))],
        history=result.history,
        evaluations=measured[["size", "cost"]].reset_index(drop=True),
        has_proxy=result.measured is not None,
        figures=pd.DataFrame(),
        importances=None if importances.empty else importances,
        cv_cost=float(selector.cost_),
        headline=headline_of_pick(selector),
        scoring=scoring,
        confirmed=confirmed_scores(result, scoring) if selector.picked_ == "best" else None,
        findings=[each.as_dict() for each in selector.findings_],
        config_yaml=repr(selector),
        facts=_facts(selector),
    )


def _facts(selector: Any) -> dict[str, object]:
    return {
        "strategy": name_of(selector.strategy),
        "seed": selector.random_state,
        "estimator": type(selector.estimator).__name__,
        "scorer": selector._evaluated.scoring.name,
        "folds": selector._evaluated.n_folds,
        **work_of(selector.result_),
    }


# ---------------------------------------------------------------- rows


def _posed(selector: Any, X: Any, y: Any, params: dict[str, Any]) -> Problem:
    """Build the problem of the fit again."""
    # Of a clone, since reading the table sets attributes.
    problem, _ = pose(clone(selector), X, y, params)
    if problem.space.columns != selector.result_.space.columns:
        raise DataError(
            "X has other columns than the table of the fit; pass the rows that fit was called with"
        )
    if not problem.matches_data(selector._digests):
        raise DataError(
            "X, y or sample_weight differ from those of the fit; pass what fit was called with"
        )
    if problem.settings.in_results() != selector._settings:
        raise InputError(
            "settings of scikit-learn, NumPy or warnings differ from those of the fit: "
            f"{selector._settings or 'the defaults'}; set the same"
        )
    if not problem.matches_models(selector._digests):
        raise InputError(
            "the estimator, the scorer or another parameter of the models was changed after the "
            "fit; fit the selector again"
        )
    return problem


def _test_rows(selector: Any, problem: Problem, test: tuple[Any, ...]) -> Rows:
    """Return test rows as a table with the columns of the problem, with what belongs to them."""
    reason = reason_not_comparable(problem.estimator, problem.task)
    if reason is not None:
        raise InputError(reason)
    names = ["X_test", "y_test"]
    names += ["sample_weight"] * problem.weights_in_score
    names += ["groups"] * (_groups(problem) is not None)
    complete = isinstance(test, (tuple, list)) and len(test) == len(names)
    if not complete or any(part is None for part in test[1:]):
        raise InputError(
            "test must be rows, their target, and their weights and groups if those of the fit "
            f"counted; pass ({', '.join(names)})"
        )
    given = dict(zip(names, test, strict=True))
    rows = _columns_of_fit(problem, checked_table(clone(selector), given["X_test"], reset=True))
    target = given["y_test"]
    check_target(target)
    check_rows(rows, plain_target(target))
    check_columns(rows, problem.estimator)
    seen = _seen(problem, rows, target)
    if seen:
        raise InputError(
            f"{seen:,} of {rows.shape[0]:,} test rows are rows of the fit; pass rows that fit has "
            "not seen"
        )
    weight, groups = given.get("sample_weight"), given.get("groups")
    if weight is not None:
        weight = checked_weights(weight, rows.shape[0], problem.estimator)
    if groups is not None:
        groups = complete_groups(groups)
        if len(groups) != rows.shape[0]:
            raise DataError(
                f"there are {rows.shape[0]:,} test rows but {len(groups):,} groups; pass one "
                "for each row"
            )
    return Rows(rows, target, groups=groups, weight=weight)


def _columns_of_fit(problem: Problem, table: Any) -> Any:
    """Return the columns of the fit in a table of test rows, in their order."""
    labels, given = labels_of(problem.X), labels_of(table)
    if labels == given and table.shape[1] == problem.space.n_columns:
        return table
    if labels is None or given is None:
        raise DataError(
            f"the test rows have {table.shape[1]:,} columns as {type(table).__name__}, and those "
            f"of the fit {problem.space.n_columns:,} as {type(problem.X).__name__}; pass the same"
        )
    place = {label: position for position, label in enumerate(given)}
    missing = [label for label in labels if label not in place]
    if missing:
        raise DataError(
            f"the test rows have no column {missing[0]!r}; pass a table like that of the fit"
        )
    return take_columns(table, [place[label] for label in labels])


def _seen(problem: Problem, rows: Any, target: Any) -> int:
    """Count the test rows that are rows of the fit, unless so few are that they may be copies."""
    fitted, tested = problem.features, as_frame(rows, problem.space.columns)
    hashes = [
        hash_rows(pd.concat([features, pd.DataFrame(labels)], axis=1))
        for features, labels in ((fitted, problem.target), (tested, plain_target(target)))
    ]
    fitted_rows = np.unique(hashes[0])
    if not is_distinguished(fitted, len(fitted_rows)):
        # Rows of a few categories are equal by chance, but not whole tables.
        return len(tested) if tested.equals(fitted) else 0
    seen = int(np.isin(hashes[1], fitted_rows).sum())
    return seen if seen > _MOST_COPIES * len(tested) else 0


def _distance(problem: Problem) -> pd.DataFrame | None:
    space = problem.space
    if space.n_units != space.n_columns or space.n_columns > MOST_COLUMNS:
        return None
    hints = prepare_hints(problem.features, space, needs=("distance",))
    names = list(space.names)
    return pd.DataFrame(hints.distance, index=names, columns=names)


def _judged(
    selector: Any,
    data: ReportData,
    problem: Problem,
    test: Rows,
) -> ReportData:
    """Add the comparison on test rows, of one model of the selected features."""
    judgement = _judgement(selector, problem, test)
    doubts = unmuted(judgement_findings(judgement), selector.mute)
    return replace(
        data,
        findings=[*data.findings, *(each.as_dict() for each in doubts)],
        headline=_headline_on_test(selector, judgement),
        figures=_without_copies(judgement.table),
        test_cost=judgement.costs.get("best_subset"),
        level=judgement.bootstrap.level,
        positive=positive_class_sentence(judgement),
        facts={
            **data.facts,
            "rows": f"{len(problem.target):,} of the fit, {judgement.n_rows:,} to test",
        },
    )


def _judgement(
    selector: Any,
    problem: Problem,
    test: Rows,
    n_random: int = 5,
) -> Judgement:
    scoring, binary = problem.scoring, problem.task == "binary"
    if problem.other_fit_params or problem.score_params:
        name = next(iter([*problem.other_fit_params, *problem.score_params]))
        raise InputError(
            f"models are compared on test rows without {name!r}, which fit passed to its models; "
            "set it on the estimator, or score the test rows by hand"
        )
    return judge(
        SubsetEnsemble(
            problem.estimator,
            [selector._names],
            pos_label=positive_class(scoring, problem.target) if binary else None,
        ),
        Rows(problem.X, problem.y, weight=problem.weight),
        test,
        space=problem.space,
        scoring=scoring,
        cv_cost=float(selector.cost_),
        n_random=n_random,
        seed=int(selector.random_state),
        n_jobs=n_jobs_of(selector),
    )


def _headline_on_test(selector: Any, judgement: Judgement) -> Headline:
    """Return the headline of a fitted selector on test rows."""
    if selector.picked_ == "best":
        return headline(selector.result_, selector._evaluated.scoring, judgement)
    verdict = judgement.verdict
    if len(selector.subset_) == selector.result_.space.n_allowed:
        verdict = replace(verdict, subset=ALL)
    return replace(
        headline_of_pick(selector),
        verdict=verdict.outcome,
        evidence=(verdict,),
        beats_guessing=judgement.beats_guessing,
    )


def _without_copies(table: pd.DataFrame) -> pd.DataFrame:
    """Drop the contenders that equal another one because there is a single model."""
    return table[~table["contender"].isin(["best_subset", "all_features_ensemble"])].reset_index(
        drop=True
    )
