"""The refresh flow: search a new snapshot, and promote the result if it is better.

The champion changes only in the last step, so a refresh that fails or is killed does not affect
its consumers.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from prefect import flow

from conf.check import check
from conf.load import flatten
from conf.schema import RefreshConfig
from flows.display.terminal import show_stage
from flows.run.challenge import Challenge, RefreshRun
from flows.run.configured import (
    archive_url,
    fetch_as_configured,
    prepare,
    report_needs,
    split,
    with_warm_subsets,
)
from flows.run.flow_runs import COMMAND_FLOW
from flows.run.search_run import open_run
from flows.run.tracking import tracking_as_configured
from flows.select import search_and_evaluate
from swarm.storage.archive import Archive
from tasks.flow_run import rename_flow_run
from tasks.refresh.champion import (
    CHALLENGER,
    ROLLED_BACK,
    Champion,
    Champions,
    require_publishable,
)
from tasks.refresh.decision import complete_change
from tasks.refresh.lock import champion_lock
from tasks.table import Table

# The result of a refresh depends on these sections and keys, besides its rows.
_DECISIVE = {
    *("seed", "strategy", "warm", "budget", "space", "prepare", "proxy", "prefilter", "confirm"),
    *("ensemble", "serve", "test", "split", "model", "scoring", "pos_label", "folds"),
    *("champion.margin", "champion.confidence", "champion.least_rows"),
    *("data.weights_in_score", "evaluation.importance"),
}


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
    with _lock_champion(config, verbosity) as champions:
        run = _refresh(config, champions, force, verbosity)
    rename_flow_run(f"refresh-{datetime.now(UTC).date()}-{run.decision}")
    return run


def unchanged(config: RefreshConfig) -> RefreshRun | None:
    """Return the earlier refresh if neither data nor configuration changed since, else None.

    No Prefect server is needed. None is also returned for an interrupted change, whose event goes
    to Prefect.
    """
    with _lock_champion(config, 0) as champions:
        champion = champions.current(config.name)
        if champion is not None and champion.pending:
            return None
        challenge = _challenge(config, champions, 0)
        return _check_snapshot(challenge, fetch_as_configured(config, as_task=False)).earlier


@contextmanager
def _lock_champion(config: RefreshConfig, verbosity: int) -> Iterator[Champions]:
    """Check the configuration, lock its champion, and open the registry."""
    check(config)
    url = archive_url(config.archive)
    # The archive reports its own errors before it is locked.
    Archive(url).close()
    with ExitStack() as locked:
        with show_stage(f"locking the champion {config.name!r}", verbosity):
            locked.enter_context(champion_lock(url, config.name))
        yield Champions(tracking_as_configured(config.tracking))


@dataclass(frozen=True)
class _Snapshot:
    """A new snapshot beside the champion, before any search.

    `answer` is the ``features.json`` of the champion, `config` has the subsets of a warm start,
    and `earlier` is the last refresh if nothing has changed since.
    """

    answer: dict[str, Any] | None
    config: RefreshConfig
    digest: str
    earlier: RefreshRun | None


def _challenge(config: RefreshConfig, champions: Champions, verbosity: int) -> Challenge:
    """Complete what the last change left, and return the champion to be challenged."""
    name = config.name
    for run in champions.runs_of(name, "RUNNING"):
        # This process holds the lock, so the process of the run was killed.
        champions.tracking.finish(run.info.run_id, "KILLED")
    require_publishable(config.champion.publish)
    champion = champions.current(name)
    if champion is not None:
        # A refresh that was killed while it waited for approval left its challenger.
        champions.point(name, CHALLENGER, None)
        champion = _complete(champions, champion, config.champion.publish)
    return Challenge(config, champions, champion, verbosity)


def _check_snapshot(challenge: Challenge, table: Table) -> _Snapshot:
    """Check the table against the champion's columns, and look for the same refresh."""
    champions = challenge.champions
    answer = None
    if challenge.champion is not None:
        answer = champions.features_json(challenge.champion)
        challenge.check_columns(answer, table)
    challenge.check_drift(table)
    config = with_warm_subsets(challenge.config, champions.tracking)
    digest = _digest(config, table)
    return _Snapshot(answer, config, digest, _earlier(challenge, digest))


def _earlier(challenge: Challenge, digest: str) -> RefreshRun | None:
    """Return the last refresh if it was of the same rows and configuration."""
    champion = challenge.champion
    # Refreshes before the last one may have had another champion.
    for run in challenge.champions.runs_of(challenge.config.name, "FINISHED")[:1]:
        is_same = run.data.tags.get("refresh.digest") == digest
        # A missing champion was declined at the first refresh, or its alias was removed.
        if is_same and (champion is not None or run.data.tags.get("decision") == "declined"):
            run_id = run.info.run_id
            return RefreshRun(
                decision="unchanged",
                why=f"neither data nor configuration changed since the refresh of run {run_id}",
                champion=champion,
                run_id=run_id,
                outcome=None,
                duel=None,
                drift=challenge.drift,
                findings=challenge.findings,
            )
    return None


def _refresh(
    config: RefreshConfig, champions: Champions, force: bool, verbosity: int
) -> RefreshRun:
    with show_stage("reading the data", verbosity):
        challenge = _challenge(config, champions, verbosity)
        table = fetch_as_configured(config)
        snapshot = _check_snapshot(challenge, table)
    if snapshot.earlier is not None and not force:
        return snapshot.earlier
    config = snapshot.config
    # The subsets of the champion precede those of the configuration.
    subsets = [] if snapshot.answer is None else snapshot.answer["subsets"]
    warm = [subset["features"] for subset in subsets]
    tags = {"kind": "refresh", "refresh": config.name, "refresh.digest": snapshot.digest}
    with show_stage("preparing the search", verbosity):
        rows = split(config, table)
        # The training and test rows are copies.
        del table
        data = prepare(config, rows, report_needs(config), warm=warm)
        if snapshot.answer is not None:
            challenge.check_rows(snapshot.answer, data)
    tracking = champions.tracking
    with open_run(config, data, tags=tags, registered_name=config.name, tracking=tracking) as run:
        outcome = search_and_evaluate(run, verbosity)
        result = challenge.decide(run, outcome)
        unsent = run.log.close()
    return replace(result, outcome=replace(outcome, unsent=unsent))


def _complete(champions: Champions, champion: Champion, location: str | None) -> Champion:
    """Complete what the last change of the champion left, and publish where configured now."""
    champions.set_location(champion.name, location)
    if champion.pending and champion.pending != ROLLED_BACK:
        champions.finish_run(champion)
    champion = champions.require(champion.name)
    complete_change(champions, champion)
    return champion


def _digest(config: RefreshConfig, table: Table) -> str:
    """Hash everything a refresh depends on: the rows in their roles, and the decisive keys."""
    digest = hashlib.sha256()
    roles = (table.groups, table.time, table.weight, table.part, table.fold)
    for columns in (table.features, table.target, *roles):
        if columns is None:
            digest.update(b"none")
            continue
        frame = columns.to_frame() if isinstance(columns, pd.Series) else columns
        dtypes = [[str(name), str(dtype)] for name, dtype in frame.dtypes.items()]
        digest.update(json.dumps(dtypes).encode())
        digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    keys = {
        key: value for key, value in flatten(config).items() if {key, key.split(".")[0]} & _DECISIVE
    }
    digest.update(json.dumps(keys, sort_keys=True).encode())
    return digest.hexdigest()[:32]
