"""The refresh flow: search a new snapshot, and promote the result if it is better.

The champion changes only in the last step, so a refresh that fails or is killed does not affect
its consumers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from prefect import flow

from conf.check import check
from conf.estimator import build_estimator
from conf.later_keys import without_later_keys
from conf.load import flatten
from conf.resolve import fold_kind
from conf.schema import RefreshConfig
from flows.approval import ask
from flows.configured import PreparedData, archive_url, fetched, prepare_run, with_warm_subsets
from flows.flow_runs import COMMAND_FLOW
from flows.progress import show_stage, tell
from flows.select import Outcome, Started, carry_out, start
from flows.stages import Stage
from flows.tracking import stored_configuration, tracking_as_configured
from swarm.errors import DataError
from swarm.findings import Finding, found, unmuted
from swarm.storage.archive import Archive
from swarm.validation.answers import answers_of
from swarm.validation.drift import drift_table
from swarm.validation.holdout import judged_metrics
from swarm.validation.metrics import METRICS, default_metrics, natural_name
from swarm.validation.paired_comparison import PairedComparison
from tasks.refresh.champion import Champion, Champions, publish_features
from tasks.refresh.decision import (
    announce,
    decision_files,
    find_trained_rows,
    measure,
    record_of_rows,
)
from tasks.refresh.lock import champion_lock
from tasks.sources._raw import some
from tasks.table import Table, formerly_named

Decision = Literal["first", "promoted", "replaced", "kept", "declined", "unchanged"]
# Sections that affect a search and its evaluation, besides those of the problem.
_TELLING = (
    "seed",
    "strategy",
    "warm",
    "budget",
    "space",
    "prepare",
    "proxy",
    "prefilter",
    "confirm",
    "ensemble",
    "test",
)
_DECIDING = (
    "champion.metric",
    "champion.margin",
    "champion.confidence",
    "evaluation.racing",
    "evaluation.asynchronous",
)
# Champion and challenger are compared on at least so many rows that neither was trained on.
_FEWEST_ROWS = 30


@dataclass(frozen=True)
class RefreshRun:
    """Result of a refresh.

    Attributes
    ----------
    decision : str
        ``first`` champion, challenger ``promoted``, champion ``replaced`` as its columns are
        missing, champion ``kept``, challenger ``declined`` though it won, or ``unchanged`` data and
        configuration.
    why : str
        One sentence.
    champion : Champion
        After the refresh.
    run_id : str
        The run of this refresh, or of the earlier one if nothing has changed.
    outcome : Outcome or None
        Result of the search; None if there was none.
    duel : Duel or None
    drift : DataFrame
        See :func:`swarm.validation.drift.drift_table`.
    findings : tuple of Finding
        Those about drift and the comparison; `outcome` has those of the search.
    """

    decision: Decision
    why: str
    champion: Champion
    run_id: str
    outcome: Outcome | None
    duel: PairedComparison | None
    drift: pd.DataFrame
    findings: tuple[Finding, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings, a line each."""
        return tuple(map(str, self.findings))


@flow(name="refresh", **COMMAND_FLOW)
def refresh(config: RefreshConfig, force: bool = False, verbosity: int = 1) -> RefreshRun:
    """Search the newest table, and promote the result if it beats the champion on the test rows.

    Parameters
    ----------
    config : RefreshConfig
    force : bool
        Search even if neither data nor configuration has changed since an earlier refresh.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per epoch.

    Raises
    ------
    InputError
        For bad input, a missing column of the champion, or drift if set to stop.
    StoreError
        If another refresh of this champion is running, or a store is unavailable.
    """
    check(config)
    url = archive_url(config.archive)
    # Opened first, so that the archive reports its own errors before it is locked.
    Archive(url).close()
    name = config.champion_name
    with ExitStack() as locked:
        with show_stage(Stage.READ, verbosity, text=f"locking the champion {name!r}"):
            locked.enter_context(champion_lock(url, name, config.champion.wait_seconds))
        return _refreshed(config, force, verbosity)


def _refreshed(config: RefreshConfig, force: bool, verbosity: int) -> RefreshRun:
    name = config.champion_name
    with show_stage(Stage.READ, verbosity):
        tracking = tracking_as_configured(config.tracking)
        champions = Champions(tracking)
        for run in champions.runs_of(name, "RUNNING"):
            # This process holds the lock, so the other one was killed.
            tracking.finish(run.info.run_id, "KILLED")
        table = fetched(config)
    contest = _Contest(config, champions, champions.current(name), verbosity)
    champion, answer = contest.champion, None
    if champion is not None:
        answer = champions.answer(champion)
        # Repairs a crash between promotion and publication.
        publish_features(champions, champion, config.champion.publish, only_if_stale=True)
        contest.look_for_columns(answer, table)
    contest.look_for_drift(table)
    config = with_warm_subsets(config, tracking)
    digest = _digest(config, table)
    if champion is not None and not contest.misfit and not force:
        for run in champions.runs_of(name, "FINISHED"):
            if run.data.tags.get("refresh.digest") == digest:
                earlier = run.info.run_id
                why = f"neither data nor configuration changed since the refresh of run {earlier}"
                told = contest.drift, contest.findings
                return RefreshRun("unchanged", why, champion, earlier, None, None, *told)
    # The champion first, then the saved subsets of the configuration.
    warm = [] if answer is None else [subset["features"] for subset in answer["subsets"]]
    tags = {"kind": "refresh", "refresh": name, "refresh.digest": digest}
    with show_stage(Stage.PREPARE, verbosity):
        data = prepare_run(config, table, warm)
        # Its training and test rows are copies.
        del table
        contest.look_at_rows(data)
        started = start(config, data, tags=tags, registered=name, tracking=tracking)
    with closing(started.archive), started.log as log:
        outcome = carry_out(started, verbosity)
        with show_stage(Stage.REGISTER, verbosity, text="comparing with the champion"):
            done = contest.decided(started, outcome)
        unsent = log.close()
    return replace(done, outcome=replace(outcome, unsent=unsent))


@dataclass
class _Contest:
    """A champion, if there is one, against the challenger that a refresh finds.

    Attributes
    ----------
    misfit : str
        Why the champion cannot be compared on these rows; empty if it can.
    drift : DataFrame
        That of the champion's columns.
    findings : tuple of Finding
    """

    config: RefreshConfig
    champions: Champions
    champion: Champion | None
    verbosity: int
    misfit: str = ""
    drift: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: tuple[Finding, ...] = ()

    def add(self, findings: Sequence[Finding]) -> None:
        """Print findings, and keep them."""
        kept = unmuted(findings, self.config.mute)
        tell(kept, self.verbosity)
        self.findings = (*self.findings, *kept)

    def replace(self, misfit: str) -> None:
        """Replace the champion without a comparison, or raise as configured."""
        if self.config.champion.on_missing == "stop":
            raise DataError(f"{misfit}; correct the table, or set champion.on_missing to replace")
        self.misfit = misfit

    def look_for_columns(self, answer: dict[str, Any], table: Table) -> None:
        """Find out whether the table has the columns that the champion needs."""
        assert self.champion is not None
        needed = {name: None for subset in answer["subsets"] for name in subset["features"]}
        gone = [name for name in needed if name not in formerly_named(table.features, needed)]
        if gone:
            uri = self.champion.uri
            self.replace(f"the table lacks {some(gone)}, which champion {uri} needs")

    def look_for_drift(self, table: Table) -> None:
        """Compare the champion's columns with those of its training rows."""
        champion, limits = self.champion, self.config.drift
        reference = None if champion is None else self.champions.reference(champion)
        if reference is None:
            self.drift = drift_table({}, table.features)
            if champion is not None:
                text = f"the champion {champion.uri} has no record of its training rows"
                self.add([found("SWM302", text)])
            return
        self.drift = drift_table(reference, formerly_named(table.features, reference))
        far = self.drift[(self.drift["psi"] > limits.psi) | (self.drift["ks"] > limits.ks)]
        if far.empty:
            return
        worst = far.iloc[0]
        text = (
            f"{len(far)} of the champion's {len(self.drift)} columns have drifted, most "
            f"{worst['feature']!r} (PSI {worst['psi']:.2f}, KS {worst['ks']:.2f})"
        )
        if limits.action == "stop":
            raise DataError(f"{text}; check the table, or set drift.action to warn")
        self.add([found("SWM301", text, list(far["feature"]))])

    def look_at_rows(self, data: PreparedData) -> None:
        """Find out whether the champion predicts the target of these rows."""
        champion = self.champion
        if champion is None or self.misfit:
            return
        assert data.test is not None
        target = data.test.target
        names: list[Any] = [target.name] if isinstance(target, pd.Series) else list(target.columns)
        # Null for a data set that has a target of its own.
        stored = stored_configuration(self.champions.tracking, champion.run_id).get("data.target")
        before = stored if isinstance(stored, list) else [stored]
        if stored is not None and before != names:
            was, now = (", ".join(map(repr, each)) for each in (before, names))
            self.replace(f"the target is {now}, but champion {champion.uri} was trained on {was}")
            return
        try:
            predicted = self.champions.answers(champion, data.test.features).predicted
        except DataError as error:
            self.replace(str(error))
            return
        labels = set(predicted.ravel().tolist())
        if data.problem.task == "regression":
            same = np.issubdtype(predicted.dtype, np.number)
        else:
            # A class may appear or disappear; if none is left, they were recoded.
            known = np.concatenate([np.ravel(part.target) for part in (data.train, data.test)])
            same = not labels.isdisjoint(known.tolist())
        if not same:
            shown = ", ".join(map(repr, sorted(labels, key=str)[:3]))
            self.replace(
                f"champion {champion.uri} predicts {shown}, and the target {names[0]!r} has none of"
                " these"
            )

    def decided(self, started: Started, outcome: Outcome) -> RefreshRun:
        """Compare challenger and champion on the test rows, and promote or keep."""
        # Before a promotion, as every later refresh needs it.
        started.log.files({"trained_rows.npz": record_of_rows(started.train)})
        config, champion, duel = self.config, self.champion, None
        decision: Decision
        if champion is None:
            decision, why = "first", f"there was no champion {config.champion_name!r} before"
        elif self.misfit:
            decision, why = "replaced", self.misfit
        else:
            test = self.unseen(champion, started)
            duel = self.met(champion, started, outcome, test)
            decision, why = ("promoted" if duel.won else "kept"), duel.verdict()
            if seen := len(started.test.features) - len(test.features):
                why = f"{why}; {seen} test rows are left out, as the champion was trained on them"
        version = outcome.model_uri.rpartition("/")[2]
        if config.champion.approve and decision in ("promoted", "replaced"):
            # Meanwhile the store should have the report, which a person may want to read.
            started.log.settle()
            name, seconds = config.champion_name, config.champion.approve_seconds
            answer = ask(name, version, why, duel, seconds)
            why = f"{why}; {answer.why}"
            if not answer.approved:
                decision = "declined"
            if not answer.answered:
                # The next refresh of the same data asks again.
                started.log.tag({"refresh.digest": "not approved yet"})
        when = datetime.now(UTC).isoformat(timespec="seconds")
        now = champion
        if decision not in ("kept", "declined"):
            # The store must have everything that a rollback or a consumer needs.
            started.log.settle()
            now = self.champions.promote(
                config.champion_name,
                version,
                expected=None if champion is None else champion.version,
                why=why,
                when=when,
                published=config.champion.publish,
            )
            if now is not None and now.version == version:
                publish_features(self.champions, now, now.published)
            else:
                decision = "kept"
                old, new = (
                    f"version {each.version}" if each else "none" for each in (champion, now)
                )
                why = f"the champion was changed from {old} to {new} during the refresh"
                now = now or champion
        assert now is not None
        record = {
            "decision": decision,
            "why": why,
            "when": when,
            "champion": {"name": now.name, "version": now.version, "run": now.run_id},
            "challenger": {"version": version, "run": outcome.run_id, "cost": outcome.result.cost},
            "before": None if champion is None else {"version": champion.version},
            "duel": None if duel is None else duel.as_dict(),
            "data": started.train.source,
            "rows": {"searched": len(started.train.features), "tested": len(started.test.features)},
            "warnings": list(map(str, self.findings)),
        }
        started.log.files(decision_files(record, self.drift))
        started.log.tag({"decision": decision, "why": why})
        announce(record)
        told = self.drift, self.findings
        return RefreshRun(decision, why, now, outcome.run_id, outcome, duel, *told)

    def unseen(self, champion: Champion, started: Started) -> Table:
        """Return the test rows that the champion was not trained on.

        If they are too few for a comparison, all test rows, and there is a finding.
        """
        test = started.test
        record = self.champions.trained_rows(champion)
        seen = None if record is None else find_trained_rows(record, test)
        if seen is None or not seen.any():
            return test
        rest = test.take(~seen)
        lost = started.plan.problem.task in ("binary", "multiclass") and set(rest.target) != set(
            test.target
        )
        if len(rest.features) >= _FEWEST_ROWS and not lost:
            return rest
        text = (
            f"the champion {champion.uri} was trained on {seen.sum():,} of the {len(seen):,} test "
            "rows, and the others are too few to compare on"
        )
        self.add([found("SWM303", text)])
        return test

    def met(
        self, champion: Champion, started: Started, outcome: Outcome, test: Table
    ) -> PairedComparison:
        """Compare the answers of both on test rows."""
        config, task = self.config, started.plan.problem.task
        now = answers_of(outcome.ensemble, test.features)
        before = self.champions.answers(champion, test.features, now.classes)
        # That of the search, unless one is configured.
        searched = judged_metrics(None, task, started.plan.problem.scoring)[0]
        metric = natural_name(config.champion.metric or searched)
        if metric not in METRICS[task] and now.proba is not None and before.proba is None:
            # A champion of an earlier version has labels only, which would be scored as certain.
            metric = default_metrics(task)[0]
        return measure(
            started.plan.problem,
            started.train,
            test,
            before,
            now,
            metric=metric,
            margin=config.champion.margin,
            confidence=config.champion.confidence,
            n_resamples=config.test.bootstrap,
            seed=config.seed,
        )


def _digest(config: RefreshConfig, table: Table) -> str:
    """Hash everything a refresh depends on: the rows in their roles, and the decisive keys."""
    told = hashlib.sha256()
    parts = (table.features, table.target, table.groups, table.time, table.weight, table.part)
    # A role that earlier versions did not have leaves no trace where it is not used.
    ends = () if table.label_end is None else (table.label_end,)
    for part in (*parts, table.fold, *ends):
        if part is None:
            told.update(b"none")
            continue
        frame = part.to_frame() if isinstance(part, pd.Series) else part
        told.update(json.dumps([[str(n), str(t)] for n, t in frame.dtypes.items()]).encode())
        told.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    # Data and configuration of an earlier version without later keys have not changed.
    dumped = without_later_keys(config.model_dump(mode="json", by_alias=True))
    keys = {
        key: value
        for key, value in flatten(dumped).items()
        if key.split(".")[0] in (*_TELLING, "split", "model", "scoring", "pos_label", "folds")
        or key in (*_DECIDING, "evaluation.importance")
    }
    if config.data.weights_in_score:
        keys["data.weights_in_score"] = True
    if keys["folds.kind"] == "auto":
        # The default of an earlier version, which meant the same for classifiers and regressors.
        kind = fold_kind(config, build_estimator(config.model))
        keys["folds.kind"] = "stratified" if kind == "random" else kind
    if config.data.horizon is not None:
        keys["data.horizon"] = config.data.horizon
    told.update(json.dumps(keys, sort_keys=True).encode())
    return told.hexdigest()[:32]
