"""The champion, if there is one, against the challenger that a refresh finds.

A person may have to approve the promotion, by a form of a deployed run.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
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
# Champion and challenger are compared on at least so many rows that neither was trained on.
_FEWEST_ROWS = 30
# A run does not wait for a day, as the next one may start.
_MOST_WAIT_SECONDS = 12 * 3600


@dataclass(frozen=True)
class RefreshRun:
    """Result of a refresh."""

    # "first" champion, challenger "promoted", champion "replaced" as its columns are missing,
    # champion "kept", challenger "declined" though it won or there is no champion, or "unchanged"
    # data and configuration
    decision: Decision
    why: str  # one sentence
    # After the refresh; None if all features or guessing are better than the first challenger.
    champion: Champion | None
    run_id: str  # of this refresh, or of the earlier one if nothing has changed
    outcome: SelectRun | None  # result of the search, if there was one
    duel: PairedComparison | None
    drift: pd.DataFrame  # see `drift_table`
    # about drift and the comparison; `outcome` has those of the search
    findings: tuple[Finding, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)  # decision.json; empty if unchanged

    def as_dict(self) -> dict[str, Any]:
        """Return ``decision.json``, or of an unchanged refresh the decision and the champion."""
        facts = {"decision": self.decision, "why": self.why, "run": self.run_id}
        return {**facts, "winner": _side(self.champion), "loser": None, **self.record}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings, a line each."""
        return tuple(map(str, self.findings))


@dataclass
class Challenge:
    """A champion, if there is one, against the challenger that a refresh finds."""

    config: RefreshConfig
    champions: Champions
    champion: Champion | None
    verbosity: int
    misfit: str = ""  # why the champion cannot be compared on these rows; empty if it can
    drift: pd.DataFrame = field(default_factory=pd.DataFrame)  # that of the champion's columns
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
        needed = dict.fromkeys(answer["model_inputs"])
        gone = [name for name in needed if name not in table.features]
        if gone:
            uri = self.champion.uri
            self._replace(f"the table lacks {quoted(gone)}, which champion {uri} needs")
            return
        changed = [
            name
            for name in needed
            if name in self.reference and changed_type(self.reference[name], table.features[name])
        ]
        if changed:
            have = "has values" if len(changed) == 1 else "have values"
            self._replace(
                f"{quoted(changed)} {have} of another type than champion {self.champion.uri} was "
                "trained on"
            )

    def check_drift(self, table: Table) -> None:
        """Compare the champion's columns with those of its training rows."""
        limits = self.config.drift
        self.drift = drift_table(self.reference, table.features)
        if self.drift.empty:
            return
        largest = self.drift[["psi", "ks"]].max(axis=1)
        far = self.drift[difference(largest, limits.threshold) > 0.0]
        if far.empty:
            return
        worst = far.iloc[0]
        text = (
            f"{len(far)} of the champion's {len(self.drift)} columns have drifted, most "
            f"{worst['feature']!r} (PSI {worst['psi']:.2f}, KS {worst['ks']:.2f})"
        )
        if limits.action == "stop":
            raise DataError(f"{text}; check the table, or set drift.action to warn")
        self._add([make_finding("SWM301", text, list(far["feature"]))])

    def check_rows(self, answer: dict[str, Any], data: PreparedData) -> None:
        """Find out whether the champion predicts the target of these rows.

        `answer` is its ``features.json``.
        """
        champion, train, test = self.champion, data.train, data.test
        assert champion is not None
        assert test is not None
        n_rows, allowed = len(train.features) + len(test.features), self.config.champion.allow
        if 2 * n_rows < answer["n_rows"] and "fewer_rows" not in allowed:
            raise DataError(
                f"the table has {n_rows:,} rows, less than half of the {answer['n_rows']:,} of "
                f"champion {champion.uri}; check its source, or add fewer_rows to champion.allow"
            )
        if self.misfit:
            return
        target = test.target
        names: list[Any] = [target.name] if isinstance(target, pd.Series) else list(target.columns)
        # Null for a data set that has a target of its own.
        stored = stored_configuration(self.champions.tracking, champion.run_id).get("data.target")
        before = stored if isinstance(stored, list) else [stored]
        if stored is not None and before != names:
            was, now = (", ".join(map(repr, each)) for each in (before, names))
            self._replace(f"the target is {now}, but champion {champion.uri} was trained on {was}")
            return
        classes = None
        if data.problem.task in ("binary", "multiclass"):
            classes = labels_of(train.target, target)
            old, new = (set(labels or []) for labels in (answer["labels"], classes))
            if old != new:
                was, now = (quoted(sorted(each, key=str)) for each in (old, new))
                text = (
                    f"the labels of {names[0]!r} are {now}, but champion {champion.uri} was trained"
                    f" on {was}"
                )
                if not (old and old < new):
                    self._replace(text)
                    return
                if "new_labels" not in allowed:
                    raise DataError(f"{text}; correct them, or add new_labels to champion.allow")
        try:
            answers = self.champions.predict(champion, test.cells, classes)
        except DataError as error:
            self._replace(str(error))
            return
        if data.problem.task == "regression" and not np.issubdtype(
            answers.predicted.dtype, np.number
        ):
            shown = ", ".join(map(repr, answers.predicted[:3].tolist()))
            self._replace(
                f"champion {champion.uri} predicts {shown}, and the target {names[0]!r} is a number"
            )
            return
        metric = _metric(data.problem, answers)[1]
        guess = worse_than_guessing(
            data.problem, train, test, answers, metric=metric, split=self.config.split.kind
        )
        if guess is not None:
            self._replace(
                f"champion {champion.uri} does worse than guessing on {guess.n_rows} rows of this "
                f"table ({display_name(metric)} {guess.challenger:.4f} against "
                f"{guess.champion:.4f}): labels or columns have another meaning"
            )

    def decide(self, run: SearchRun, outcome: SelectRun) -> RefreshRun:
        """Compare challenger and champion on the test rows, and promote or keep."""
        config, champion = self.config, self.champion
        name, version = config.name, outcome.model_uri.rpartition("/")[2]
        with show_stage("comparing with the champion", self.verbosity):
            decision, why, duel = self._compare(run, outcome)
        if config.champion.approve and decision in ("promoted", "replaced"):
            decision, why = self._ask_approval(run, version, decision, why)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        facts = self._facts(run, outcome, duel)
        challenger, before = facts.pop("challenger"), facts.pop("champion")
        record = {"decision": decision, "why": why, "when": when, **facts}
        if champion is not None:
            self._log_difference(run, {**facts, "winner": challenger, "loser": before})
        now, changes = champion, decision not in ("kept", "declined")
        if changes:
            record |= {"winner": challenger, "loser": before}
            # The store must have everything that a rollback, a consumer or a later refresh needs.
            run.log.files(decision_files(record, self.drift))
            run.log.settle()
            now = self.champions.promote(
                name,
                version,
                expected=None if champion is None else champion.version,
                decision=decision,
                why=why,
                when=when,
                published=config.champion.publish,
            )
            if now is None or now.version != version:
                changes, decision = False, "kept"
                old, new = (
                    f"version {each.version}" if each else "none" for each in (champion, now)
                )
                why = f"the champion was changed from {old} to {new} during the refresh"
                before, now = _side(now or champion), now or champion
        if not changes:
            record |= {"decision": decision, "why": why, "winner": before, "loser": challenger}
            run.log.files(decision_files(record, self.drift))
        run.log.tag({"decision": decision, "why": why})
        show_decision(record)
        if changes and now is not None:
            complete_change(self.champions, now)
        return RefreshRun(
            decision=decision,
            why=why,
            champion=now,
            run_id=outcome.run_id,
            outcome=outcome,
            duel=duel,
            drift=self.drift,
            findings=self.findings,
            record=record,
        )

    def _log_difference(self, run: SearchRun, decision: dict[str, Any]) -> None:
        """Log what differs from the champion; nothing of it if the store lacks a part of a run."""
        assert self.champion is not None
        with contextlib.suppress(SwarmError):
            found = compare_runs(
                run.log.tracking, self.champion.run_id, run.log.run_id, decision=decision
            )
            run.log.files({"difference.json": json_file(found.as_dict())})
            run.log.tag({"difference": found.summary()})

    def _facts(
        self, run: SearchRun, outcome: SelectRun, duel: PairedComparison | None
    ) -> dict[str, Any]:
        """Return both sides of a decision, and what it was made from."""
        uri, judgement = outcome.model_uri, outcome.judgement
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
        config, champion = self.config, self.champion
        name, version = config.name, outcome.model_uri.rpartition("/")[2]
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
        if seen := int((~compared).sum()):
            why = f"{why}; {seen} test rows are left out, as the champion was trained on them"
        has_classes = run.search.problem.task in ("binary", "multiclass")
        target = run.test.take(compared).target if has_classes else None
        if lack := shortage(duel, target, config.champion.least_rows):
            return "kept", f"{why}; {lack}", duel
        return ("promoted" if duel.won else "kept"), why, duel

    def _ask_approval(
        self, run: SearchRun, version: str, decision: Decision, why: str
    ) -> tuple[Decision, str]:
        """Ask a person by the form of a deployed run; a run by hand promotes nothing."""
        name, approval = self.config.name, None
        if deployment.id:
            # Meanwhile the store should have the report, which a person may want to read.
            run.log.settle()
            self.champions.point(name, CHALLENGER, version)
            try:
                approval = ask(name, version, why)
            finally:
                self.champions.point(name, CHALLENGER, None)
        if approval is None:
            # The next refresh of the same data asks again.
            run.log.tag({"refresh.digest": "not approved yet"})
            missing = "nobody approved it in time"
            if not deployment.id:
                missing = "champion.approve is set, and only a deployed run asks for approval"
            how = promotion(name, version, run.log.tracking.option)
            return "declined", f"{why}; {missing}; {how}"
        reason = f" ({approval.reason})" if approval.reason else ""
        if approval.approve:
            return decision, f"{why}; approved by hand{reason}"
        return "declined", f"{why}; declined by hand{reason}"

    def _unseen_rows(self, champion: Champion, run: SearchRun) -> NDArray[np.bool_]:
        """Find the test rows (n_rows,) that the champion was not trained on.

        If they are too few for a comparison, return all test rows and add a finding.
        """
        test = run.test
        record = self.champions.trained_rows(champion)
        everything = np.ones(len(test.features), dtype=bool)
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
            return everything
        rest = test.take(~seen)
        lost = run.search.problem.task in ("binary", "multiclass") and set(rest.target) != set(
            test.target
        )
        if len(rest.features) >= _FEWEST_ROWS and not lost:
            return ~seen
        text = (
            f"the champion {champion.uri} was trained on {seen.sum():,} of the {len(seen):,} test "
            "rows, and the others are too few to compare on"
        )
        self._add([make_finding("SWM303", text)])
        return everything

    def _duel(
        self, champion: Champion, run: SearchRun, outcome: SelectRun, compared: NDArray[np.bool_]
    ) -> PairedComparison:
        """Compare the answers of both on test rows (n_rows,), and log them."""
        config, test = self.config, run.test
        now = answers_of(outcome.model, test.features)
        before = self.champions.predict(champion, test.cells, now.classes)
        asked, metric = _metric(run.search.problem, before)
        if now.proba is None:
            metric = asked
        if metric != asked:
            text = (
                f"{display_name(metric)} decides in place of {display_name(asked)}, as the champion"
                f" {champion.uri} has no probabilities of these classes"
            )
            self._add([make_finding("SWM302", text)])
        table = compared_predictions(
            predictions_of(outcome.judgement, test.row),
            test.rows_to_test(run.search.problem, config.split.kind),
            {"champion": before, "served": now},
        )
        # Replaces the predictions of the challenger alone.
        run.log.files({"predictions.parquet": parquet(table.assign(compared=compared))})
        return measure(
            run.search.problem,
            run.train,
            test.take(compared),
            before.take(compared),
            now.take(compared),
            metric=metric,
            split=config.split.kind,
            margin=config.champion.margin,
            confidence=config.champion.confidence,
        )


def _side(champion: Champion | None, score: float | None = None) -> dict[str, Any] | None:
    """Return a champion as a side of a decision."""
    if champion is None:
        return None
    version, run_id = champion.version, champion.run_id
    return {"version": version, "model": champion.uri, "run": run_id, "score": plain(score)}


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
        return pause_flow_run(wait_for_input=form, timeout=_MOST_WAIT_SECONDS, poll_interval=5)
    except FlowPauseTimeout:
        return None


def promotion(name: str, version: str, option: str) -> str:
    """Return the clause that says how to promote a version by hand."""
    return f"`swarm rollback {shlex.quote(name)} --to {version}{option}` promotes it"
