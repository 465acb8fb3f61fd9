"""The answer of a search: its ensemble, what unseen rows say of it, its report and its model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conf.load import as_yaml
from conf.resolve import fold_kind
from conf.schema import SelectConfig
from flows.display.terminal import print_findings, show_stage
from flows.run.search_run import SearchRun
from swarm.arrays import Float
from swarm.ensemble import SubsetEnsemble
from swarm.findings import Finding, as_file, codes_of, unmuted
from swarm.findings.outcome import (
    dependence_findings,
    doubts,
    judgement_findings,
    search_findings,
)
from swarm.problem.hints import MOST_COLUMNS
from swarm.report import report_data
from swarm.report.data import by_column, ranked
from swarm.search.requests import importances_of, requested_evaluations
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.validation import Judgement
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.sentences import ensemble_score
from swarm.validation.verdict import Headline, headline
from swarm.wording import counted, listed
from tasks.flow_run import log_line
from tasks.models.files import is_storable
from tasks.models.registry import is_version, register_logged
from tasks.prefect_artifacts import as_code, show_answer
from tasks.refresh.decision import record_of_rows
from tasks.refresh.drift import summarise
from tasks.report import (
    ensemble_metrics,
    judgement_files,
    selection_metrics,
    write_report,
)
from tasks.steps import fit_ensemble, judge_answer, last_step, losses_on_test, register_model

# Ensembles of random subsets, as a baseline.
_RANDOM_SUBSETS = 5
# Rows on which the saved model is compared with the ensemble.
_EXAMPLE_ROWS = 50
# Columns in the description of the run, and findings on the terminal.
_MOST_COLUMNS, _MOST_FINDINGS = 40, 3


@dataclass(frozen=True)
class SelectRun:
    """Result of a select run."""

    run_id: str
    search: Search
    result: SearchResult
    ensemble: SubsetEnsemble  # fitted on the training rows
    judgement: Judgement
    losses: FeatureLosses  # without each chosen feature, on the test rows
    headline: Headline
    # reasons to doubt the data or the result, without those that are muted
    findings: tuple[Finding, ...]
    model_uri: str = ""  # empty if the estimator cannot be stored without pickle
    declined: bool = False  # whether the model was not registered as all features are better
    unsent: str = ""  # what the tracking store lacks and how to send it; empty if it has everything

    @property
    def lines(self) -> list[str]:
        """What supports the headline, a sentence each: the subset, another one, the ensemble."""
        return [*self.headline.answer(), *filter(None, [ensemble_score(self.judgement)])]

    @property
    def doubts(self) -> list[str]:
        """The findings that the headline does not say, the gravest first, without notes."""
        return [f"{each.code}: {each.text}" for each in doubts(self.headline, self.findings)]

    @property
    def shown_doubts(self) -> list[str]:
        """The gravest doubts that fit into the answer."""
        return self.doubts[: _MOST_FINDINGS - len(self.headline.notes)]

    @property
    def model_inputs(self) -> list[str]:
        """The columns that the ensemble needs, in the order of the data."""
        return _columns(self.result.space.columns, self.ensemble.subsets_)

    def markdown(self) -> str:
        """Return the answer for Prefect's page and the note of the run."""
        names = listed([as_code(name) for name in self.result.features], _MOST_COLUMNS)
        lines = "\n".join(f"- {line}" for line in (*self.lines, *self.shown_doubts))
        return f"**{self.headline.title}.** {names}\n\n{lines}"

    @property
    def registered(self) -> bool:
        """Whether the model is a version in the registry."""
        return is_version(self.model_uri)


def _columns(names: Iterable[Any], subsets: Sequence[Sequence[Hashable]]) -> list[Any]:
    """Return the names that subsets use, in their order."""
    used = {name for subset in subsets for name in subset}
    return [name for name in names if name in used]


def fit(run: SearchRun, result: SearchResult, verbosity: int) -> SubsetEnsemble:
    """Fit the ensemble of the best subsets on the training rows."""
    config, train = run.config, run.train
    masks = result.best_members(*run.ensemble_limits).masks
    subsets = [result.space.subset(mask) for mask in masks]
    used = train.features[_columns(train.features, subsets)]
    # What a refresh needs if this model becomes the champion.
    reference = json.dumps(summarise(used)).encode()
    run.log.files({"reference.json": reference, "trained_rows.npz": record_of_rows(train)})
    several = counted(len(subsets), "model")
    with show_stage(f"training an ensemble of {several}", verbosity):
        trained = fit_ensemble.after(last_step(result))
        return trained(run.search.problem, train, subsets, config.ensemble.vote)


def evaluate(
    run: SearchRun, result: SearchResult, ensemble: SubsetEnsemble, verbosity: int
) -> SelectRun:
    """Judge the ensemble and the best subset on the test rows, and drop each of its features."""
    config, log, test = run.config, run.log, run.test
    problem = run.search.problem
    # The ensemble, its baselines of as many models, and two single models.
    total = len(ensemble.subsets_) * (2 + _RANDOM_SUBSETS) + 2
    text = f"judging on {len(test.features):,} test rows"
    with show_stage(text, verbosity, total=total, unit="models") as shown:
        judgement = judge_answer.after(ensemble)(
            problem,
            run.train,
            test,
            ensemble,
            result.cost,
            split=config.split.kind,
            metrics=config.test.metrics,
            tolerance=config.test.tolerance,
            n_random=_RANDOM_SUBSETS,
            seed=config.seed,
            n_jobs=config.evaluation.n_jobs,
            on_models=shown.count,
        )
    importances = _importances(run, result)
    rows = test.rows_to_test(problem, config.split.kind)
    with show_stage("training without each chosen column", verbosity):
        losses = losses_on_test.after(judgement)(
            problem,
            result.best_mask,
            replace(rows, features=test.features[list(problem.features.columns)]),
            judgement.verdict.rows,
            ranked=ranked(result.features, by_column(importances, result.best_mask, result.space)),
            n_jobs=config.evaluation.n_jobs,
        )
    found = [
        *search_findings(result, problem.target, problem.task, judgement),
        *judgement_findings(judgement),
        *dependence_findings(losses, importances, result.space),
    ]
    late = unmuted(found, config.mute)
    findings = unmuted([*run.findings, *late])
    head = headline(result, problem.scoring, judgement)
    log.files({"findings.json": as_file(findings, config.mute)})
    log.files(judgement_files(judgement, head, test.row))
    # The metrics of the ensemble are logged with its model.
    log.metrics({0: selection_metrics(judgement)})
    print_findings(late, verbosity - 1)
    return SelectRun(
        run_id=log.run_id,
        search=run.search,
        result=result,
        ensemble=ensemble,
        judgement=judgement,
        losses=losses,
        headline=head,
        findings=findings,
    )


def _importances(run: SearchRun, result: SearchResult) -> Float:
    """Return the importances of the best subset (n_units,); NaN or 0 if there are none."""
    best = result.best_mask[None, :]
    importances: Float = importances_of(best, result, run.search.problem, run.evaluations)[0]
    return importances


def report(run: SearchRun, outcome: SelectRun) -> dict[str, bytes]:
    """Render the report and its figures."""
    config, search, log = run.config, run.search, run.log
    train, test = run.train, run.test
    problem, result, judgement = search.problem, outcome.result, outcome.judgement
    facts = {
        "strategy": config.strategy.name,
        "seed": config.seed,
        "folds": f"{problem.n_folds}, {fold_kind(config, problem.estimator)}",
        "rows": f"{len(train.features)} to search, {len(test.features)} to test",
        "ensemble": _describe_ensemble(outcome, config.ensemble.union_at_most),
        "data": log.tags["data"],
        "estimator": log.tags["estimator"],
        "scorer": log.tags["scoring"],
        "problem": log.tags["problem"],
        "run": log.run_id,
        "versions": {
            name.removeprefix("version."): text
            for name, text in log.tags.items()
            if name.startswith("version.")
        },
    }
    evaluated = [
        (mask, record.cost)
        for mask, record in requested_evaluations(result, run.evaluations)
        if record.complete
    ]
    members = result.best_members(*run.ensemble_limits)
    data = report_data(
        result,
        list(zip(members.masks, members.costs, strict=True)),
        title=f"{config.name}, {config.strategy.name}, seed {config.seed}",
        headline=outcome.headline,
        scoring=problem.scoring,
        evaluated=evaluated,
        importances=_importances(run, result),
        distance=search.hints.distance,
        judgement=judgement,
        dropped=outcome.losses,
        strategy=search.strategy,
        findings=outcome.findings,
        facts=facts,
        config=as_yaml(config),
    )
    return write_report.after(judgement)(data)


def register(run: SearchRun, outcome: SelectRun, verbosity: int) -> SelectRun:
    """Store the ensemble with its metrics, and register it unless it lost to all features."""
    config, log, ensemble = run.config, run.log, outcome.ensemble
    problem = outcome.search.problem
    # A refresh needs its challenger as a version, and compares it with the champion itself.
    always = log.tags.get("kind") == "refresh" or config.tracking.registers_always
    head, judgement = outcome.headline, outcome.judgement
    loses = head.loses or judgement.loses
    declined = run.registered_name is not None and loses and not always
    name = None if declined else run.registered_name
    description = " ".join([f"{head.title}.", *outcome.lines, judgement.sentence()])
    digest = _digest(ensemble)
    tags = log.tracking.run(log.run_id).data.tags
    is_known = tags.get("answer") == digest and "model" in tags
    # A model that could not be stored has no id.
    uri, model_id = (tags["model"], tags.get("model_id")) if is_known else ("", None)
    if not is_known and is_storable(problem.estimator):
        features = run.train.features
        # The signature and the example of a wide table would take many megabytes.
        wide = len(features.columns) > MOST_COLUMNS
        columns = _columns(features, ensemble.subsets_)
        example = (features[columns] if wide else features).head(_EXAMPLE_ROWS)
        params = _model_params(config, outcome)
        with show_stage(f"{'storing' if name is None else 'registering'} the model", verbosity):
            uri, model_id = register_model.after(outcome.judgement)(
                log.tracking,
                log.run_id,
                ensemble,
                example,
                registered_name=name,
                description=description,
                params=params,
            )
    elif name is not None and model_id is not None and not is_version(uri):
        # The run was resumed to register what it had only stored.
        uri = register_logged(log.tracking, log.run_id, model_id, name, description)
    # The tags first: a resume that finds them knows the model that its metrics belong to.
    log.tag({"answer": digest, "model": uri} | ({"model_id": model_id} if model_id else {}))
    log.metrics({0: ensemble_metrics(judgement)}, model_id)
    return replace(outcome, model_uri=uri, declined=declined)


def _digest(ensemble: SubsetEnsemble) -> str:
    """Return the hash of what a stored model follows from, besides the run's own configuration."""
    text = json.dumps([ensemble.subsets_, ensemble.vote_])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(run: SearchRun, outcome: SelectRun) -> None:
    """Write the result into the tags and the note of the run, and into Prefect's artifact."""
    config, log = run.config, run.log
    result, judgement, head = outcome.result, outcome.judgement, outcome.headline
    tags = {} if judgement.pos_label is None else {"positive_class": str(judgement.pos_label)}
    tags |= {
        "stopped": result.reason,
        "headline": head.title,
        "verdict": judgement.sentence(),
        "findings": codes_of(outcome.findings),
    }
    log.tag(tags)
    links = {
        "report": "report.html",
        "features": "features.json",
        "scores": "evaluation.csv",
        "subsets": "subsets.csv",
    }
    text = outcome.markdown()
    log.note(text, links, [config.description])
    log_line(f"{head.title}. {judgement.sentence()}")
    show_answer(config.name, text, judgement, log.tracking, log.run_id)


def _model_params(config: SelectConfig, outcome: SelectRun) -> dict[str, object]:
    """Return the parameters of the logged model: what it is made of, and what found it."""
    judgement, ensemble = outcome.judgement, outcome.ensemble
    params: dict[str, object] = {
        "estimator": config.model.estimator,
        **{f"estimator.{key}": value for key, value in config.model.params.items()},
        "vote": ensemble.vote_,
        "models": len(ensemble.subsets_),
        "columns": len(outcome.model_inputs),
        "strategy": config.strategy.name,
        "seed": config.seed,
    }
    if judgement.pos_label is not None:
        params["positive_class"] = str(judgement.pos_label)
    return params


def _describe_ensemble(outcome: SelectRun, at_most: int | float | None) -> str:
    """Describe the ensemble: its subsets, the columns that they use together, and its vote."""
    n, together = len(outcome.ensemble.subsets_), len(outcome.model_inputs)
    bound = "" if at_most is None else f" (union_at_most {at_most:g})"
    columns, vote = counted(together, "column"), outcome.ensemble.vote_
    return f"{counted(n, 'subset')}, {columns} together{bound}, {vote} vote"
