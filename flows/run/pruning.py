"""Removal of old runs: their artifacts, models, evaluations and flow runs."""

import re
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import make_url

from conf.yaml_text import parse
from swarm.errors import InputError
from swarm.storage.archive import Archive
from tasks.flow_run import FLOW_RUN_TAG
from tasks.refresh.lock import remove_free_locks
from tasks.secrets import expand
from tasks.tracking import Tracking
from tasks.tracking.overview import describe_experiment
from tasks.tracking.removal import StoredRun, remove, size_of, stored_runs

# The clocks of two machines may differ by this time.
_MAX_CLOCK_SECONDS = 60.0


@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be.

    Attributes
    ----------
    before
        Start time before which runs are removed; None if there are too few runs.
    runs
        The removed runs with the bytes of their artifacts.
    n_needed
        Number of earlier runs that stay.
    n_evaluations, evaluation_bytes
        The removed evaluations of the archives.
    n_flow_runs
        Number of removed flow runs; None if there was no Prefect server.
    """

    before: datetime | None
    runs: Sequence[tuple[StoredRun, int]] = ()
    n_needed: int = 0
    n_evaluations: int = 0
    evaluation_bytes: int = 0
    n_flow_runs: int | None = None


def moment_of(text: str, now: datetime) -> datetime:
    """Return the time of a date, or of an age such as ``30d``; InputError for another text."""
    if age := re.fullmatch(r"(\d{1,5})([hdw])", text):
        unit = {"h": "hours", "d": "days", "w": "weeks"}[age[2]]
        return now - timedelta(**{unit: int(age[1])})
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise InputError(
            f"--older-than must be an age such as 30d, 12h or 8w, or a date such as 2026-01-31,"
            f" got {text!r}"
        ) from None


def prune(
    tracking: Tracking,
    *,
    before: datetime | None,
    keep: int | None,
    kinds: Collection[str],
    has_prefect: bool,
    dry_run: bool,
) -> Pruned:
    """Remove the runs of an experiment that started before a time, but the last few.

    Runs that are needed stay: see :func:`tasks.tracking.removal.stored_runs`.
    """
    all_runs = stored_runs(tracking)
    runs = [
        stored
        for stored in all_runs
        if stored.run.info.experiment_id == tracking.experiment_id
        and stored.run.data.tags.get("kind") in kinds
    ]
    moments = [] if before is None else [before.timestamp()]
    if keep is not None:
        if len(runs) <= keep:
            return Pruned(None)
        moments.append(runs[keep - 1].seconds[0])
    moment = min(moments)
    earlier = [stored for stored in runs if stored.seconds[0] < moment]
    old = [stored for stored in earlier if not stored.is_needed]
    old_ids = {stored.run.info.run_id for stored in old}
    kept = [stored for stored in all_runs if stored.run.info.run_id not in old_ids]
    archives = _archives(tracking, old)
    spans = [stored.seconds for stored in kept if "kind" in stored.run.data.tags]

    def is_used(created: float, used: float) -> bool:
        """Whether a kept run, or somebody since, may have opened a problem."""
        return used >= moment or any(
            created <= (end or time.time()) + _MAX_CLOCK_SECONDS
            and used >= start - _MAX_CLOCK_SECONDS
            for start, end in spans
        )

    sizes = [sum(size_of(tracking, uri) for uri in stored.locations) for stored in old]
    n_evaluations = 0
    n_bytes = 0
    for url in archives:
        with closing(Archive(url)) as archive:
            n_pruned, n_pruned_bytes = archive.prune(is_used, dry_run)
        n_evaluations += n_pruned
        n_bytes += n_pruned_bytes
        if not dry_run:
            remove_free_locks(url)
    if old and not dry_run:
        # Evaluations are found by their runs after an interruption, so the runs go last.
        for stored in old:
            remove(tracking, stored)
        describe_experiment(tracking.client, tracking.experiment_id)
    n_flow_runs = None
    if has_prefect:
        from flows.run.flow_runs import prune_flow_runs

        needed = {stored.run.data.tags.get(FLOW_RUN_TAG, "") for stored in kept}
        n_flow_runs = prune_flow_runs(datetime.fromtimestamp(moment).astimezone(), needed, dry_run)
    return Pruned(
        before=datetime.fromtimestamp(moment).astimezone(),
        runs=list(zip(old, sizes, strict=True)),
        n_needed=len(earlier) - len(old),
        n_evaluations=n_evaluations,
        evaluation_bytes=n_bytes,
        n_flow_runs=n_flow_runs,
    )


def _archives(tracking: Tracking, runs: list[StoredRun]) -> list[str]:
    """Return the URLs of the archives of runs, by their configurations."""
    urls: dict[str, None] = {}
    for stored in runs:
        run_id = stored.run.info.run_id
        # A run without a configuration was killed before it opened its archive.
        if tracking.find_artifact(run_id, "config.yaml"):
            text = tracking.download(run_id, "config.yaml").read_text(encoding="utf-8")
            section = parse(text, f"the configuration of run {run_id}")["archive"]
            urls[expand(section["url"], "address of the archive")] = None
    return [url for url in urls if _exists(url)]


def _exists(url: str) -> bool:
    """Whether an archive is there; an SQLite file may have been deleted, and is not created."""
    address = make_url(url)
    if address.get_backend_name() != "sqlite":
        return True
    return bool(address.database) and Path(str(address.database)).expanduser().is_file()
