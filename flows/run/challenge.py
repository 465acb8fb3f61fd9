"""The champion, if there is one, against the challenger that a refresh finds.

A person may have to approve the promotion, by a form of a deployed run.
"""

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.runtime import deployment
from pydantic import Field

from conf.schema import RefreshConfig
from flows.display.terminal import print_findings, show_stage
from flows.run.answer import SelectRun
from flows.run.configured import PreparedData
from flows.run.difference import compare_runs
from flows.run.search_run import SearchRun
from flows.run.tracking import stored_configuration
from swarm.answers import Answers
from swarm.arrays import Bool
from swarm.errors import DataError, SwarmError
from swarm.findings import Finding, make_finding, unmuted
from swarm.json_data import json_file, plain
from swarm.metrics import METRICS, default_metrics, display_name, judged_metrics, natural_name
from swarm.problem.problem import Problem
from swarm.rounding import difference
from swarm.validation.answers import answers_of
from swarm.wording import quoted
from tasks.files import parquet
from tasks.refresh.champion import CHALLENGER, Champion, Champions
from tasks.refresh.decision import (
    compared_predictions,
    complete_change,
    decision_files,
    find_trained_rows,
    labels_of,
    measure,
    shortage,
    show_decision,
    worse_than_guessing,
)
from tasks.refresh.drift import changed_type, drift_table
from tasks.refresh.paired_comparison import PairedComparison
from tasks.report import predictions_of
from tasks.table import Table

Decision = Literal["first", "promoted", "replaced", "kept", "declined", "unchanged"]
# Rows that neither champion nor challenger was trained on, for a comparison.
_MIN_ROWS = 30
# A run does not wait for a day, as the next one may start.
_MAX_WAIT_SECONDS = 12 * 3600


@dataclass(frozen=True)
class RefreshRun:
    """Result of a refresh.

    Attributes
    ----------
    decision
        "first" champion, challenger "promoted", champion "replaced" as it cannot be compared,
        champion "kept", challenger "declined" though it won or there is no champion, or
        "unchanged" data and configuration.
    why
        The reason in one sentence.
    champion
        The champion after the refresh; None if all features or guessing are better than the first
        challenger.
    run_id
        Id of the run of this refresh, or of the earlier one if nothing has changed.
    outcome
        Result of the search, if there was one.
    duel
        The comparison on test rows, if there was one.
    drift
        Drift of the champion's columns; see `drift_table`.
    findings
        Findings about drift and the comparison; `outcome` has those of the search.
    record
        Content of ``decision.json``; empty if nothing has changed.
    """

    decision: Decision
    why: str
    champion: Champion | None
    run_id: str
    outcome: SelectRun | None
    duel: PairedComparison | None
    drift: pd.DataFrame
    findings: tuple[Finding, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return ``decision.json``; an unchanged refresh has the decision and the champion."""
        facts = {"decision": self.decision, "why": self.why, "run": self.run_id}
        return {**facts, "winner": _side(self.champion), "loser": None, **self.record}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings, a line each."""
        return tuple(map(str, self.findings))


@dataclass
class Challenge:
    """A champion, if there is one, against the challenger that a refresh finds.

    Attributes
    ----------
    config
        The configuration of the refresh.
    champions
        The champions of the tracking store.
    champion
        The present champion, if there is one.
    verbosity
        0 for silence, 1 for progress, 2 for a line per epoch.
    misfit
        Why the champion cannot be compared on these rows; empty if it can.
    drift
        Drift of the champion's columns.
    findings
        Findings about drift and the comparison.
    """

    config: RefreshConfig
    champions: Champions
    champion: Champion | None
    verbosity: int
    misfit: str = ""
    drift: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: tuple[Finding, ...] = ()

    @cached_property
    def reference(self) -> dict[str, Any]:
        """The summary of the champion's training columns; empty without a champion."""
        return {} if self.champion is None else self.champions.reference(self.champion)

    def _add(self, findings: Sequence[Finding]) -> None:
        """Print findings, and keep them."""
        findings = unmuted(findings, self.config.mute)
        print_findings(findings, self.verbosity)
        self.findings = unmuted([*self.findings, *findings])

    def _replace(self, misfit: str) -> None:
        """Replace the champion without a comparison, or raise as configured."""
        if self.config.champion.on_missing == "stop":
            raise DataError(f"{misfit}; correct the table, or set champion.on_missing to replace")
        self.misfit = misfit

    def check_columns(self, answer: dict[str, Any], table: Table) -> None:
        """Find out whether the table has the columns that the champion needs."""
        assert self.champion is not None
        uri = self.champion.uri
        inputs = dict.fromkeys(answer["model_inputs"])
        missing = [name for name in inputs if name not in table.features]
        if missing:
            self._replace(f"the table lacks {quoted(missing)}, which champion {uri} needs")
            return
        changed = [
            name
            for name in inputs
            if name in self.reference and changed_type(self.reference[name], table.features[name])
        ]
        if changed:
            have = "has values" if len(changed) == 1 else "have values"
            self._replace(
                f"{quoted(changed)} {have} of another type than champion {uri} was trained on"
            )

    def check_drift(self, table: Table) -> None:
        """Compare the champion's columns with those of its training rows."""
        limits = self.config.drift
        self.drift = drift_table(self.reference, table.features)
        if self.drift.empty:
            return
        largest = self.drift[["psi", "ks"]].max(axis=1)
        drifted = self.drift[difference(largest, limits.threshold) > 0.0]
        if drifted.empty:
            return
        worst = drifted.iloc[0]
        text = (
            f"{len(drifted)} of the champion's {len(self.drift)} columns have drifted, most "
            f"{worst['feature']!r} (PSI {worst['psi']:.2f}, KS {worst['ks']:.2f})"
        )
        if limits.action == "stop":
            raise DataError(f"{text}; check the table, or set drift.action to warn")
        self._add([make_finding("SWM301", text, list(drifted["feature"]))])

    def check_rows(self, answer: dict[str, Any], data: PreparedData) -> None:
        """Find out whether the champion predicts the target of these rows.

        `answer` is its ``features.json``.
        """
        champion = self.champion
        assert champion is not None
        assert data.test is not None
        n_rows = len(data.train.features) + len(data.test.features)
        if 2 * n_rows < answer["n_rows"] and "fewer_rows" not in self.config.champion.allow:
            raise DataError(
                f"the table has {n_rows:,} rows, less than half of the {answer['n_rows']:,} of "
                f"champion {champion.uri}; check its source, or add fewer_rows to champion.allow"
            )
        if self.misfit:
            return
        misfit = next(self._misfits(champion, answer, data, data.test), None)
        if misfit is not None:
            self._replace(misfit)

    def _misfits(
        self, champion: Champion, answer: dict[str, Any], data: PreparedData, test: Table
    ) -> Iterator[str]:
        """Yield why a champion cannot be compared; after a reason, the next ones mean nothing."""
        uri = champion.uri
        target = test.target
        names = [target.name] if isinstance(target, pd.Series) else list(target.columns)
        # This key is null for a data set that has a target of its own.
        stored = stored_configuration(self.champions.tracking, champion.run_id).get("data.target")
        stored_names = stored if isinstance(stored, list) else [stored]
        if stored is not None and stored_names != names:
            yield (
                f"the target is {', '.join(map(repr, names))}, but champion {uri} was"
                f" trained on {', '.join(map(repr, stored_names))}"
            )
        classes = None
        if data.problem.task in ("binary", "multiclass"):
            classes = labels_of(data.train.target, target)
            old = set(answer["labels"] or [])
            new = set(classes or [])
            text = (
                f"the labels of {names[0]!r} are {quoted(sorted(new, key=str))}, but champion"
                f" {uri} was trained on {quoted(sorted(old, key=str))}"
            )
            has_new_alone = bool(old) and old < new
            if old != new and not has_new_alone:
                yield text
            if has_new_alone and "new_labels" not in self.config.champion.allow:
                raise DataError(f"{text}; correct them, or add new_labels to champion.allow")
        try:
            answers = self.champions.predict(champion, test.cells, classes)
        except DataError as error:
            yield str(error)
            return
        predicted = answers.predicted
        if data.problem.task == "regression" and not np.issubdtype(predicted.dtype, np.number):
            examples = ", ".join(map(repr, predicted[:3].tolist()))
            yield f"champion {uri} predicts {examples}, and the target {names[0]!r} is a number"
        _, metric = _metric(data.problem, answers)
        guess = worse_than_guessing(
            data.problem, data.train, test, answers, metric=metric, split=self.config.split.kind
        )
        if guess is not None:
            yield (
                f"champion {uri} does worse than guessing on {guess.n_rows} rows of this "
                f"table ({display_name(metric)} {guess.challenger:.4f} against "
                f"{guess.champion:.4f}): labels or columns have another meaning"
            )

    def decide(self, run: SearchRun, outcome: SelectRun) -> RefreshRun:
        """Compare challenger and champion on the test rows, and promote or keep."""
        config = self.config
        champion = self.champion
        version = outcome.model_uri.rpartition("/")[2]
        with show_stage("comparing with the champion", self.verbosity):
            decision, why, duel = self._compare(run, outcome)
        if config.champion.approve and decision in ("promoted", "replaced"):
            decision, why = self._ask_approval(run, version, decision, why)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        facts = self._facts(run, outcome, duel)
        challenger_side = facts.pop("challenger")
        champion_side = facts.pop("champion")
        record = {"decision": decision, "why": why, "when": when, **facts}
        if champion is not None:
            self._log_difference(run, {**facts, "winner": challenger_side, "loser": champion_side})
        new_champion = champion
        promotes = decision not in ("kept", "declined")
        if promotes:
            record |= {"winner": challenger_side, "loser": champion_side}
            # The store must have everything that a rollback, a consumer or a later refresh needs.
            run.log.files(decision_files(record, self.drift))
            run.log.settle()
            new_champion = self.champions.promote(
                config.name,
                version,
                expected=None if champion is None else champion.version,
                decision=decision,
                why=why,
                when=when,
                published=config.champion.publish,
            )
            if new_champion is None or new_champion.version != version:
                promotes = False
                decision = "kept"
                why = (
                    f"the champion was changed from {_version(champion)} to"
                    f" {_version(new_champion)} during the refresh"
                )
                new_champion = new_champion or champion
                champion_side = _side(new_champion)
        if not promotes:
            record |= {"decision": decision, "why": why}
            record |= {"winner": champion_side, "loser": challenger_side}
            run.log.files(decision_files(record, self.drift))
        run.log.tag({"decision": decision, "why": why})
        show_decision(record)
        if promotes and new_champion is not None:
            complete_change(self.champions, new_champion)
        return RefreshRun(
            decision=decision,
            why=why,
            champion=new_champion,
            run_id=outcome.run_id,
            outcome=outcome,
            duel=duel,
            drift=self.drift,
            findings=self.findings,
            record=record,
        )

    def _log_difference(self, run: SearchRun, decision: dict[str, Any]) -> None:
        """Log what differs from the champion, unless the store lacks a part of a run."""
        assert self.champion is not None
        with contextlib.suppress(SwarmError):
            changes = compare_runs(
                run.log.tracking, self.champion.run_id, run.log.run_id, decision=decision
            )
            run.log.files({"difference.json": json_file(changes.as_dict())})
            run.log.tag({"difference": changes.summary()})

    def _facts(
        self, run: SearchRun, outcome: SelectRun, duel: PairedComparison | None
    ) -> dict[str, Any]:
        """Return both sides of a decision, and its reasons."""
        uri = outcome.model_uri
        judgement = outcome.judgement
        score = judgement.first_metric[outcome.contender(outcome.served)]["value"]
        return {
            "name": self.config.name,
            "run": outcome.run_id,
            "metric": judgement.metrics[0] if duel is None else duel.metric,
            "challenger": {
                "version": uri.rpartition("/")[2],
                "model": uri,
                "run": outcome.run_id,
                "score": plain(score if duel is None else duel.challenger),
            },
            "champion": _side(self.champion, None if duel is None else duel.champion),
            "duel": None if duel is None else duel.as_dict(),
            "data": run.train.source,
            "rows": {"searched": len(run.train.features), "tested": len(run.test.features)},
            "warnings": list(map(str, self.findings)),
        }

    def _compare(
        self, run: SearchRun, outcome: SelectRun
    ) -> tuple[Decision, str, PairedComparison | None]:
        """Return the decision before any approval, its reason, and the comparison, if any."""
        config = self.config
        champion = self.champion
        name = config.name
        version = outcome.model_uri.rpartition("/")[2]
        if outcome.result.interrupted:
            # The next refresh of the same data searches again.
            run.log.tag({"refresh.digest": "interrupted"})
            why = "the search was interrupted; the next refresh continues it"
            return "declined" if champion is None else "kept", why, None
        if champion is None and outcome.headline.loses:
            self.champions.set_location(name, config.champion.publish)
            how = promotion(name, version, run.log.tracking.option)
            return "declined", f"{outcome.headline.title}; {how}", None
        if champion is None:
            return "first", f"there was no champion {name!r} before", None
        if self.misfit:
            return "replaced", self.misfit, None
        compared = self._unseen_rows(champion, run)
        duel = self._duel(champion, run, outcome, compared)
        why = duel.verdict()
        if n_seen := int((~compared).sum()):
            why = f"{why}; {n_seen} test rows are left out, as the champion was trained on them"
        has_classes = run.search.problem.task in ("binary", "multiclass")
        target = run.test.take(compared).target if has_classes else None
        if reason := shortage(duel, target, config.champion.least_rows):
            return "kept", f"{why}; {reason}", duel
        return ("promoted" if duel.won else "kept"), why, duel

    def _ask_approval(
        self, run: SearchRun, version: str, decision: Decision, why: str
    ) -> tuple[Decision, str]:
        """Ask a person by the form of a deployed run; a run by hand promotes nothing."""
        name = self.config.name
        approval = None
        if deployment.id:
            # A person who decides may want to read the report in the store.
            run.log.settle()
            self.champions.point(name, CHALLENGER, version)
            try:
                approval = ask(name, version, why)
            finally:
                self.champions.point(name, CHALLENGER, None)
        if approval is None:
            # The next refresh of the same data asks again.
            run.log.tag({"refresh.digest": "not approved yet"})
            cause = "nobody approved it in time"
            if not deployment.id:
                cause = "champion.approve is set, and only a deployed run asks for approval"
            how = promotion(name, version, run.log.tracking.option)
            return "declined", f"{why}; {cause}; {how}"
        reason = f" ({approval.reason})" if approval.reason else ""
        if approval.approve:
            return decision, f"{why}; approved by hand{reason}"
        return "declined", f"{why}; declined by hand{reason}"

    def _unseen_rows(self, champion: Champion, run: SearchRun) -> Bool:
        """Find the test rows (n_rows,) that the champion was not trained on.

        If they are too few for a comparison, return all test rows and add a finding.
        """
        test = run.test
        record = self.champions.trained_rows(champion)
        all_rows = np.ones(len(test.features), dtype=bool)
        seen = None if record is None else find_trained_rows(record, test)
        if seen is None and self.config.split.kind != "time":
            why = "its run has no record of them"
            if record is not None:
                why = "rows are equal by chance, or the table lacks a column of its training rows"
            text = (
                f"test rows that the champion {champion.uri} was trained on cannot be recognised:"
                f" {why}"
            )
            self._add([make_finding("SWM303", text)])
        if seen is None or not seen.any():
            return all_rows
        unseen = test.take(~seen)
        has_classes = run.search.problem.task in ("binary", "multiclass")
        lacks_class = has_classes and set(unseen.target) != set(test.target)
        if len(unseen.features) >= _MIN_ROWS and not lacks_class:
            return ~seen
        text = (
            f"the champion {champion.uri} was trained on {seen.sum():,} of the {len(seen):,} test "
            "rows, and the others are too few to compare on"
        )
        self._add([make_finding("SWM303", text)])
        return all_rows

    def _duel(
        self, champion: Champion, run: SearchRun, outcome: SelectRun, compared: Bool
    ) -> PairedComparison:
        """Compare the answers of both on test rows (n_rows,), and log them."""
        config = self.config
        test = run.test
        new_answers = answers_of(outcome.model, test.features)
        old_answers = self.champions.predict(champion, test.cells, new_answers.classes)
        search_metric, metric = _metric(run.search.problem, old_answers)
        if new_answers.proba is None:
            metric = search_metric
        if metric != search_metric:
            text = (
                f"{display_name(metric)} decides in place of {display_name(search_metric)}, as the"
                f" champion {champion.uri} has no probabilities of these classes"
            )
            self._add([make_finding("SWM302", text)])
        table = compared_predictions(
            predictions_of(outcome.judgement, test.row),
            test.rows_to_test(run.search.problem, config.split.kind),
            {"champion": old_answers, "served": new_answers},
        )
        # This file replaces the predictions of the challenger alone.
        run.log.files({"predictions.parquet": parquet(table.assign(compared=compared))})
        return measure(
            run.search.problem,
            run.train,
            test.take(compared),
            old_answers.take(compared),
            new_answers.take(compared),
            metric=metric,
            split=config.split.kind,
            margin=config.champion.margin,
            confidence=config.champion.confidence,
        )


def _side(champion: Champion | None, score: float | None = None) -> dict[str, Any] | None:
    """Return a champion as a side of a decision."""
    if champion is None:
        return None
    return {
        "version": champion.version,
        "model": champion.uri,
        "run": champion.run_id,
        "score": plain(score),
    }


def _version(champion: Champion | None) -> str:
    return "none" if champion is None else f"version {champion.version}"


def _metric(problem: Problem, champion: Answers) -> tuple[str, str]:
    """Return the metric of the search, and the one in which a champion is compared."""
    metric = natural_name(judged_metrics(None, problem.task, problem.scoring)[0])
    is_computed = problem.task == "regression" or metric in METRICS[problem.task]
    if is_computed or champion.proba is not None:
        return metric, metric
    # Labels alone would be scored as certain.
    return metric, default_metrics(problem.task)[0]


class Approval(RunInput):
    """The form on the page of a paused run."""

    approve: bool = Field(default=False, description="Let the challenger replace the champion")
    reason: str = Field(default="", description="Stored with the decision")


def ask(name: str, version: str, why: str) -> Approval | None:
    """Pause the flow run until the form is sent, in Prefect's page or by its client.

    `why` is the evidence in one sentence. None if nobody has answered in time.
    """
    text = f"Shall version {version} of **{name}** replace the champion?\n\n{why}."
    form = Approval.with_initial_data(description=text)
    try:
        return pause_flow_run(wait_for_input=form, timeout=_MAX_WAIT_SECONDS, poll_interval=5)
    except FlowPauseTimeout:
        return None


def promotion(name: str, version: str, option: str) -> str:
    """Return the clause that says how to promote a version by hand."""
    return f"`swarm rollback {shlex.quote(name)} --to {version}{option}` promotes it"
