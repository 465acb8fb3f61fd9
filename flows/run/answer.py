"""The answer of a search: its ensemble, what unseen rows say of it, its report and its model."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from conf.load import as_yaml
from conf.resolve import fold_kind
from conf.schema import SelectConfig
from flows.display.terminal import print_findings, show_stage
from flows.run.configured import strategy_name
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
from swarm.reader import Reader
from swarm.report import report_data
from swarm.report.data import by_column, ranked
from swarm.search.columns import Neighbours, column_table
from swarm.search.requests import importances_of, measured_subsets, requested_evaluations
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.storage.exports import describe_columns
from swarm.validation import Judgement
from swarm.validation.answers import answers_of
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.sentences import model_score
from swarm.validation.verdict import Headline, headline
from swarm.wording import counted, listed
from tasks.flow_run import log_line
from tasks.models.card import score_rows
from tasks.models.files import is_storable
from tasks.models.registry import is_version, register_logged
from tasks.prefect_artifacts import as_code, show_answer
from tasks.refresh.decision import compared_predictions, labels_of, record_of_rows
from tasks.refresh.drift import summarise
from tasks.report import (
    columns_file,
    features_file,
    importances_file,
    judgement_files,
    model_metrics,
    predictions_of,
    schema_file,
    selection_metrics,
    write_report,
)
from tasks.steps import (
    fit_ensemble,
    judge_answer,
    last_step,
    losses_on_test,
    positive_of,
    register_model,
)
from tasks.table import Table

# Ensembles of random subsets are a baseline.
_RANDOM_SUBSETS = 5
# Rows on which the saved model is compared with the ensemble.
_EXAMPLE_ROWS = 50
# Columns in the description of the run.
_MAX_COLUMNS = 40
# Findings on the terminal.
_MAX_FINDINGS = 3


@dataclass(frozen=True)
class SelectRun:
    """Result of a select run.

    Attributes
    ----------
    run_id
        Id of the MLflow run.
    search, result
        The search and its result.
    ensemble
        The ensemble of the best subsets, fitted on the training rows.
    models
        The models to store by name: `subset`, one model of the columns to keep, and `ensemble`
        unless it is that model.
    served
        Name of the model that is registered.
    judgement
        The answer and its rivals on the test rows.
    losses
        Losses without each chosen feature on the test rows.
    columns
        Columns of the source that the answer and its models need; see `describe_columns`.
    headline
        The answer in one sentence.
    findings
        Reasons to doubt the data or the result, without those that are muted.
    model_uri
        URI of the served model; empty if it cannot be stored without pickle.
    declined
        Whether the served model lost, and was not registered.
    unsent
        What the tracking store lacks, and how to send it; empty if it has everything.
    """

    run_id: str
    search: Search
    result: SearchResult
    ensemble: SubsetEnsemble
    models: Mapping[str, SubsetEnsemble]
    served: str
    judgement: Judgement
    losses: FeatureLosses
    columns: list[dict[str, Any]]
    headline: Headline
    findings: tuple[Finding, ...]
    model_uri: str = ""
    declined: bool = False
    unsent: str = ""

    @property
    def lines(self) -> list[str]:
        """What supports the headline: a sentence on the subset, on another one, on each model."""
        return [*self.headline.answer(), *map(self.model_line, self.models)]

    def contender(self, model: str) -> str:
        """Return the contender that a model is on the test rows."""
        if model == "ensemble":
            return model
        return "all_features" if self.headline.keeps_all else "best_subset"

    def model_line(self, model: str) -> str:
        """State the score and the columns of a model."""
        return model_score(self.judgement, self.contender(model))

    @property
    def model(self) -> SubsetEnsemble:
        """The served model."""
        return self.models[self.served]

    @property
    def model_loses(self) -> bool:
        """Whether all features are better than the served model."""
        if self.served == "ensemble":
            return self.judgement.loses
        return self.headline.verdict == "worse" and not self.headline.keeps_all

    @property
    def doubts(self) -> list[str]:
        """The findings that the headline does not say, the gravest first, without notes."""
        findings = doubts(self.headline, self.findings)
        return [f"{finding.code}: {finding.text}" for finding in findings]

    @property
    def shown_doubts(self) -> list[str]:
        """The gravest doubts that fit into the answer."""
        return self.doubts[: _MAX_FINDINGS - len(self.headline.notes)]

    @property
    def model_inputs(self) -> list[str]:
        """The columns that the served model needs, in the order of the data."""
        return _columns(self.result.space.columns, self.model.subsets_)

    def markdown(self) -> str:
        """Return the answer for Prefect's page and the note of the run."""
        names = listed([as_code(name) for name in self.result.features], _MAX_COLUMNS)
        lines = "\n".join(f"- {line}" for line in (*self.lines, *self.shown_doubts))
        return f"**{self.headline.title}.** {names}\n\n{lines}"

    @property
    def registered(self) -> bool:
        """Whether the model is a version in the registry."""
        return is_version(self.model_uri)


def _columns(names: Iterable[str], subsets: Sequence[Sequence[str]]) -> list[str]:
    """Return the names that subsets use, in their order."""
    used = {name for subset in subsets for name in subset}
    return [name for name in names if name in used]


def fit(run: SearchRun, result: SearchResult, verbosity: int) -> SubsetEnsemble:
    """Fit the ensemble of the best subsets on the training rows."""
    masks = result.best_members(*run.ensemble_limits).masks
    subsets = [result.space.subset(mask) for mask in masks]
    with show_stage(f"training an ensemble of {counted(len(subsets), 'model')}", verbosity):
        return fit_ensemble.after(last_step(result))(
            run.search.problem, run.train, subsets, run.config.ensemble.vote
        )


def evaluate(
    run: SearchRun, result: SearchResult, ensemble: SubsetEnsemble, verbosity: int
) -> SelectRun:
    """Judge the ensemble and the best subset on the test rows, and drop each of its features."""
    config = run.config
    log = run.log
    test = run.test
    problem = run.search.problem
    # Models of the ensemble and of its baselines, and two single models, are counted.
    n_models = len(ensemble.subsets_) * (2 + _RANDOM_SUBSETS) + 2
    text = f"judging on {len(test.features):,} test rows"
    with show_stage(text, verbosity, total=n_models, unit="models") as stage:
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
            on_models=stage.count,
        )
    importances = _importances(run, result)
    by_name = by_column(importances, result.best_mask, result.space)
    rows = test.rows_to_test(problem, config.split.kind)
    with show_stage("training without each chosen column", verbosity):
        losses = losses_on_test.after(judgement)(
            problem,
            result.best_mask,
            replace(rows, features=test.features[list(problem.features.columns)]),
            judgement.verdict.rows,
            ranked=ranked(result.features, by_name),
            n_jobs=config.evaluation.n_jobs,
        )
    new_findings = unmuted(
        [
            *search_findings(result, problem.target, problem.task, judgement),
            *judgement_findings(judgement),
            *dependence_findings(losses, importances, result.space),
        ],
        config.mute,
    )
    findings = unmuted([*run.findings, *new_findings])
    head = headline(result, problem.scoring, judgement)
    models = _models_to_store(run, head, ensemble)
    outcome = SelectRun(
        run_id=log.run_id,
        search=run.search,
        result=result,
        ensemble=ensemble,
        models=models,
        served=_served(config, head, judgement, models),
        judgement=judgement,
        losses=losses,
        columns=describe_columns(
            run.train.cells, _reader(run.train, [result.features, *_subsets_of(models)])
        ),
        headline=head,
        findings=findings,
    )
    log.files(_model_files(run, outcome))
    log.files(schema_file(run.train, outcome.columns))
    log.files(importances_file(result, by_name, losses))
    log.files({"findings.json": as_file(findings, config.mute)})
    answers = {"served": answers_of(outcome.model, test.features)}
    predictions = compared_predictions(predictions_of(judgement, test.row), rows, answers)
    log.files(judgement_files(judgement, head, predictions))
    # Those of the served model are logged when it is stored.
    log.metrics({0: selection_metrics(judgement)})
    print_findings(new_findings, verbosity - 1)
    return outcome


def _subsets_of(models: Mapping[str, SubsetEnsemble]) -> list[list[str]]:
    return [list(subset) for model in models.values() for subset in model.subsets_]


def _reader(train: Table, subsets: Iterable[Iterable[str]]) -> Reader:
    """Return the reader of the columns of the source that some subsets are made of."""
    reader = Reader.learn(train.cells) if train.reader is None else train.reader
    return reader.restricted({name for subset in subsets for name in subset})


def _models_to_store(
    run: SearchRun, head: Headline, ensemble: SubsetEnsemble
) -> dict[str, SubsetEnsemble]:
    """Return one model of the columns to keep, and the ensemble if it has several."""
    problem = run.search.problem
    all_columns = problem.space.subset(~problem.space.forbidden)
    columns = all_columns if head.keeps_all else ensemble.subsets_[0]
    if columns == ensemble.subsets_[0]:
        single = SubsetEnsemble(ensemble.estimator, [columns], pos_label=positive_of(problem))
        single.with_models(ensemble.models_[:1], run.train.target)
    else:
        single = fit_ensemble(problem, run.train, [columns], "auto")
    models = {"subset": single}
    if len(ensemble.models_) > 1:
        models["ensemble"] = ensemble
    return models


def _served(
    config: SelectConfig,
    head: Headline,
    judgement: Judgement,
    models: Mapping[str, SubsetEnsemble],
) -> str:
    """Return the name of the model to register: the subset unless the ensemble is better."""
    if "ensemble" not in models:
        return "subset"
    if config.serve is not None:
        return config.serve
    rival = "all_features" if head.keeps_all else "best_subset"
    is_better = judgement.ensemble_beats(rival) and not judgement.loses
    return "ensemble" if is_better else "subset"


def _model_files(run: SearchRun, outcome: SelectRun) -> dict[str, bytes]:
    """Return what a consumer needs, and a refresh if the served model becomes the champion."""
    inputs = outcome.model_inputs
    train = run.train
    has_classes = outcome.judgement.task in ("binary", "multiclass")
    facts: dict[str, Any] = {
        "served": outcome.served,
        "model_inputs": inputs,
        "labels": labels_of(train.target, run.test.target) if has_classes else None,
        "n_rows": len(train.features) + len(run.test.features),
    }
    return {
        **features_file(outcome.result, *run.ensemble_limits, reader=train.reader, **facts),
        "reference.json": json.dumps(summarise(train.features[inputs])).encode(),
        "trained_rows.npz": record_of_rows(train),
    }


def _importances(run: SearchRun, result: SearchResult) -> Float:
    """Return the importances of the best subset (n_units,); NaN or 0 if there are none."""
    best = result.best_mask[None, :]
    return importances_of(best, result, run.search.problem, run.evaluations)[0]


def report(run: SearchRun, outcome: SelectRun) -> dict[str, bytes]:
    """Render the report and its figures."""
    config = run.config
    search = run.search
    log = run.log
    problem = search.problem
    result = outcome.result
    judgement = outcome.judgement
    facts = {
        "strategy": run.strategy,
        "seed": config.seed,
        "folds": f"{problem.n_folds}, {fold_kind(config, problem.estimator)}",
        "rows": f"{len(run.train.features)} to search, {len(run.test.features)} to test",
        "ensemble": _describe_ensemble(outcome, config.ensemble.union_at_most),
        "model": f"{outcome.served}, {counted(len(outcome.model_inputs), 'column')}",
        "models": " ".join(map(outcome.model_line, outcome.models)),
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
    columns = column_table(
        result,
        measured_subsets(result, problem, run.evaluations),
        result.best_mask,
        scoring=problem.scoring,
        neighbours=Neighbours.of(result.space, result.best_mask, search.hints.distance),
        members=members.masks,
    )
    data = report_data(
        result,
        list(zip(members.masks, members.costs, strict=True)),
        title=f"{config.name}, {run.strategy}, seed {config.seed}",
        headline=outcome.headline,
        scoring=problem.scoring,
        evaluated=evaluated,
        importances=_importances(run, result),
        distance=search.hints.distance,
        judgement=judgement,
        dropped=outcome.losses,
        strategy=search.strategy,
        findings=outcome.findings,
        columns=columns,
        facts=facts,
        config=as_yaml(config),
    )
    files: dict[str, bytes] = write_report.after(judgement)(data)
    return {**columns_file(columns, problem.scoring.metric), **files}


def register(run: SearchRun, outcome: SelectRun, verbosity: int) -> SelectRun:
    """Store the models, and register the served one with its metrics unless it lost."""
    config = run.config
    log = run.log
    served = outcome.served
    head = outcome.headline
    judgement = outcome.judgement
    # A refresh needs its challenger as a version, and compares it with the champion itself.
    always = log.tags.get("kind") == "refresh" or config.tracking.registers_always
    loses = outcome.model_loses or not head.beats_guessing
    declined = run.registered_name is not None and loses and not always
    name = None if declined else run.registered_name
    description = " ".join([f"{head.title}.", *outcome.lines, judgement.sentence()])
    digest = _digest(outcome.models)
    tags = log.tracking.run(log.run_id).data.tags
    is_known = tags.get("answer") == digest
    # Models that could not be stored have no ids.
    ids = {key: tags.get(f"model.{key}") for key in outcome.models if is_known}
    uri = tags["model"] if is_known and tags.get("served") == served else ""
    if not is_known and is_storable(outcome.search.problem.estimator):
        example = run.train.take(np.arange(min(_EXAMPLE_ROWS, len(run.train.features)))).cells
        # Nothing is missing once the served model is registered, so it is the last.
        models = sorted(outcome.models.items(), key=lambda item: item[0] == served)
        action = "storing" if name is None else "registering"
        with show_stage(f"{action} the {'models' if len(models) > 1 else 'model'}", verbosity):
            for key, model in models:
                uri, ids[key] = register_model.after(outcome.judgement)(
                    log.tracking,
                    log.run_id,
                    model,
                    example,
                    registered_name=name if key == served else None,
                    description=description,
                    name=_stored_name(config.name, key),
                    reader=run.train.reader,
                    params=_model_params(config, outcome, model),
                    card=_card(run, outcome, key),
                )
    model_id = ids.get(served)
    if model_id is not None and not is_version(uri):
        # A run that is resumed may register, or serve, what it had only stored.
        uri = f"models:/{model_id}"
        if name is not None:
            uri = register_logged(log.tracking, log.run_id, model_id, name, description)
    # A resume that finds these tags knows the model of the metrics, so they are written first.
    tags = {"model_id": model_id, **{f"model.{key}": value for key, value in ids.items()}}
    tags |= {"answer": digest, "model": uri, "served": served}
    log.tag({key: value for key, value in tags.items() if value is not None})
    log.metrics({0: model_metrics(judgement, outcome.contender(served))}, model_id)
    return replace(outcome, model_uri=uri, declined=declined)


def _stored_name(name: str, model: str) -> str:
    """Name a model by its configuration and its role; MLflow accepts no dots in it."""
    return f"{name}-{model}".replace(".", "-")


def _card(run: SearchRun, outcome: SelectRun, name: str) -> dict[str, Any]:
    """Return the facts of the README of a model."""
    config = run.config
    train = run.train
    test = run.test
    problem = run.search.problem
    judgement = outcome.judgement
    model = outcome.models[name]
    target = [train.target.name] if isinstance(train.target, pd.Series) else [*train.target.columns]
    inputs = set(_reader(train, model.subsets_).inputs)
    n_rows = f"{len(train.features):,} to train on, {len(test.features):,} unseen"
    facts = {"target": ", ".join(map(str, target)), "task": judgement.task}
    if judgement.pos_label is not None:
        facts["positive class"] = str(judgement.pos_label)
    facts |= {"data": train.source, "rows": n_rows}
    if train.time is not None and test.time is not None:
        times = pd.concat([train.time, test.time])
        facts["period"] = f"{times.min()} to {times.max()}"
    facts |= {
        "folds": f"{problem.n_folds}, {fold_kind(config, problem.estimator)}",
        "unseen rows": f"{config.split.kind} split",
        "estimator": f"{type(problem.estimator).__name__}, {counted(len(model.subsets_), 'model')}",
        "run": run.log.run_id,
    }
    return {
        "name": f"{config.name}: {name}",
        "headline": outcome.headline.title,
        "description": config.description,
        "facts": facts,
        "columns": [column for column in outcome.columns if column["name"] in inputs],
        "n_train": len(train.features),
        "n_test": judgement.n_rows,
        "level": f"{judgement.jackknife.level:.0%}",
        "scores": score_rows(judgement, outcome.contender(name)),
        "lines": [*outcome.headline.answer(), judgement.sentence()],
        "findings": [str(finding) for finding in outcome.findings],
        "has_probabilities": hasattr(model, "mean_proba"),
    }


def _digest(models: Mapping[str, SubsetEnsemble]) -> str:
    """Return the hash of what determines stored models, besides the configuration of the run."""
    text = json.dumps({name: [model.subsets_, model.vote_] for name, model in models.items()})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(run: SearchRun, outcome: SelectRun) -> None:
    """Write the result into the tags and the note of the run, and into Prefect's artifact."""
    config = run.config
    log = run.log
    judgement = outcome.judgement
    head = outcome.headline
    tags = {} if judgement.pos_label is None else {"positive_class": str(judgement.pos_label)}
    tags |= {
        "stopped": outcome.result.reason,
        "headline": head.title,
        "kept": f"{head.n_available if head.keeps_all else head.n_features} of {head.n_available}",
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
    log.describe_experiment()
    log_line(f"{head.title}. {judgement.sentence()}")
    show_answer(config.name, text, judgement, log.tracking, log.run_id)


def _model_params(
    config: SelectConfig, outcome: SelectRun, model: SubsetEnsemble
) -> dict[str, object]:
    """Return the parameters of a logged model: its parts, and the search that found it."""
    judgement = outcome.judgement
    params: dict[str, object] = {
        "estimator": config.model.estimator,
        **{f"estimator.{key}": value for key, value in config.model.params.items()},
        "vote": model.vote_,
        "models": len(model.subsets_),
        "columns": len(_columns(outcome.result.space.columns, model.subsets_)),
        "strategy": strategy_name(config, outcome.search),
        "seed": config.seed,
    }
    if judgement.pos_label is not None:
        params["positive_class"] = str(judgement.pos_label)
    return params


def _describe_ensemble(outcome: SelectRun, at_most: int | float | None) -> str:
    """Describe the ensemble: its subsets, the columns that they use together, and its vote."""
    subsets = outcome.ensemble.subsets_
    columns = counted(len({name for subset in subsets for name in subset}), "column")
    bound = "" if at_most is None else f" (union_at_most {at_most:g})"
    subset_count = counted(len(subsets), "subset")
    return f"{subset_count}, {columns} together{bound}, {outcome.ensemble.vote_} vote"
