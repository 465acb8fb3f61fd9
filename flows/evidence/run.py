"""The evidence flow: searches of a study that have no row yet are run, then its page is written."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import flow

from flows.compare_progress import CellDisplay, cell_display
from flows.configured import evaluation_options
from flows.evidence.part import Part, Study
from flows.opaque import opaque
from flows.preparing import ground_as_configured
from flows.progress import say
from swarm.evidence.page import duration
from swarm.evidence.projection import projected_seconds
from swarm.evidence.rows import KEY, Rows
from tasks.compare_cell import Cell, CellPlan, CellResult, Ground, search_worth_retrying
from tasks.evidence import Judged, Trial, ground_facts, run_trials

__all__ = ["Places", "facts_of", "run_study"]

_PACKAGES = ("swarmselect", "numpy", "scikit-learn", "lightgbm")
# Up to this many units searches meet the same subsets again and again, and share them in a file.
_SHARED_UNITS = 18


@dataclass(frozen=True)
class Places:
    """Where a study reads and writes.

    Attributes
    ----------
    out : Path
        Pages, with ``results`` and ``figures`` beside them.
    work : Path
        Archives and prepared tables: nothing that has to be kept.
    """

    out: Path
    work: Path

    def rows(self, study: str) -> Rows:
        """Rows of a study."""
        return Rows(self.out / "results" / f"{study}.csv")

    def facts(self, study: str) -> Path:
        """What was measured beside the rows."""
        return self.out / "results" / f"{study}.json"


def facts_of(places: Places, study: str) -> dict[str, Any]:
    """Read the facts of a study; empty where it was never run."""
    path = places.facts(study)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def run_study(
    study: Study,
    places: Places,
    *,
    whole: Study | None = None,
    workers: int = 2,
    verbosity: int = 1,
) -> pd.DataFrame:
    """Run what is missing of a study, and return its rows.

    A first round runs one seed of everything, so that the time of the whole can be told early.

    Parameters
    ----------
    study : Study
    places : Places
    whole : Study, optional
        The protocol in full, where `study` is less: what is missing of it, and how long that
        would take, is kept with the facts.
    workers : int
        Searches at a time.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per search.
    """
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory(prefix="swarm-evidence-") as folder,
    ):
        warnings.simplefilter("ignore")
        _run(study, places, workers, verbosity, Path(folder) / "stop")
    rows = places.rows(study.name).tidy()
    facts = facts_of(places, study.name)
    facts["whole"] = _left(study if whole is None else whole, rows, workers)
    _save(places.facts(study.name), facts)
    return rows


@flow(name="evidence", validate_parameters=False, persist_result=False)
def _run(study: Study, places: Places, workers: int, verbosity: int, stop: Path) -> None:
    rows = places.rows(study.name)
    facts = _with_machine(facts_of(places, study.name))
    facts |= {"missing": dict(study.missing), "notes": dict(study.notes)}
    grounds = _Grounds()
    planned = {key for part in study.parts for key in part.searches()}
    done = rows.done()
    shared = places.work / f"{study.name}.db"
    rounds = [_first(study.parts), study.parts]
    # A row that another protocol left counts until its search is asked for.
    known = planned & {key[:-1] for key in done}
    with cell_display(len(planned), len(known), verbosity) as shown:
        for number, parts in enumerate(rounds):
            for part in parts:
                ground, train, digests = grounds.of(part)
                facts["sets"][part.dataset] = {**ground_facts(ground), "note": part.note}
                trials = [
                    trial
                    for trial in _trials(part, digests, ground, shared, stop)
                    if trial.key not in done
                ]
                if not trials:
                    continue
                started = time.monotonic()
                _side_by_side(part, trials, ground, train, rows, shown, done, workers)
                spent = facts["seconds"].get(part.name, 0.0)
                facts["seconds"][part.name] = round(spent + time.monotonic() - started, 1)
                _save(places.facts(study.name), facts)
            if number == 0:
                kinds = [(part, dataset, label) for part, dataset, _, label, _ in planned]
                ahead = projected_seconds(kinds, rows.read(), workers)
                facts["projected_seconds"] = round(ahead, 1)
                say(f"about {duration(ahead)} for all {len(planned)} searches", verbosity)
    _save(places.facts(study.name), facts)


def _side_by_side(
    part: Part,
    trials: Sequence[Trial],
    ground: Ground,
    train: Any,
    rows: Rows,
    shown: CellDisplay,
    done: set[tuple[Any, ...]],
    workers: int,
) -> None:
    """Run the searches of a part as one task; what a first try has kept, a retry leaves out."""

    def keep(trial: Trial, result: CellResult, row: Mapping[str, Any]) -> None:
        rows.append(row)
        done.add(trial.key)
        shown.finished(result)

    judged = Judged(train) if part.judged else None
    named = run_trials.with_options(
        task_run_name=part.title, retries=1, retry_condition_fn=search_worth_retrying
    )
    named(opaque(trials), opaque(ground), opaque(judged), opaque(keep), opaque(done), workers)


class _Grounds:
    """Tables, split and prepared, one at a time."""

    def __init__(self) -> None:
        self._last: tuple[tuple[int, tuple[str, ...]], tuple[Ground, Any]] | None = None

    def of(self, part: Part) -> tuple[Ground, Any, dict[str, str]]:
        """Ground of a part, its training rows, and the digest of each strategy."""
        # Parts that are the same but for their seeds share the object.
        key = (id(part.config), part.needs)
        if self._last is None or self._last[0] != key:
            ground, train, _ = ground_as_configured(
                part.config, needs=part.needs, split=part.resample >= 0
            )
            self._last = (key, (ground, train))
        ground, train = self._last[1]
        fingerprint = ground.prepared.problem.fingerprint()
        digests = {label: part.digest(label, fingerprint) for label in part.strategies}
        return ground, train, digests


def _trials(
    part: Part, digests: Mapping[str, str], ground: Ground, shared: Path, stop: Path
) -> list[Trial]:
    in_file = part.archived or ground.prepared.problem.space.n_units <= _SHARED_UNITS
    trials = []
    for label, strategy in part.strategies.items():
        plan = CellPlan(
            strategy=strategy.name,
            params=strategy.params,
            budget=part.config.budget.model_dump(),
            archive=f"sqlite:///{shared}" if in_file else "sqlite://",
            evaluation=evaluation_options(part.config.evaluation),
            racing=part.config.evaluation.racing,
            stop=str(stop),
        )
        for seed in part.seeds_of(label):
            cell = Cell(part.dataset, label, seed)
            trials.append(Trial(part.name, cell, part.resample, plan, digests[label]))
    return trials


def _first(parts: Sequence[Part]) -> list[Part]:
    """One seed of everything; of resamples, the first."""
    return [replace(part, seeds=part.seeds[:1]) for part in parts if part.resample < 1]


def _left(whole: Study, rows: pd.DataFrame, workers: int) -> dict[str, Any]:
    """What is missing of a protocol, by part and data set, and the time it would take."""
    planned = {key for part in whole.parts for key in part.searches()}
    there = set(rows[list(KEY)].itertuples(index=False, name=None))
    missing = sorted(planned - there)
    kinds = [(part, dataset, label) for part, dataset, _, label, _ in missing]
    counts: dict[str, int] = {}
    for part, dataset, _ in kinds:
        counts[f"{part}: {dataset}"] = counts.get(f"{part}: {dataset}", 0) + 1
    return {
        "searches": len(planned),
        "missing": counts,
        "seconds": round(projected_seconds(kinds, rows, workers), 1),
    }


def _with_machine(facts: dict[str, Any]) -> dict[str, Any]:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "sets": {},
        "seconds": {},
        **facts,
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in _PACKAGES},
        },
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(gib),
            "processor": _processor(),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _save(path: Path, facts: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
