"""Run the searches of a study that have no row yet.

A study is a list of parts: a configuration without its strategy, the strategies, and the seeds. Its
searches are those of ``swarm compare``; but thousands of searches of a second each get one row each
in place of a task and an MLflow run.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from prefect import flow
from threadpoolctl import threadpool_limits

from conf.later_keys import without_later_keys
from conf.run_sections import StrategySection
from conf.schema import SelectConfig
from flows.compare_progress import cell_display
from flows.configured import PreparedData, fetched, plan_as_configured, prepare_as_configured
from flows.prefect_server import start_prefect
from studies.rows import COLUMNS, KEY, Rows
from swarm.planning import this_machine
from swarm.search.result import SearchResult
from swarm.search.runner import SearchPlan
from swarm.strategies.catalogue import make, strategy_class
from swarm.validation import judge
from tasks.files import write_atomically
from tasks.search_cell import Cell, CellResult, search_cell

__all__ = ["Part", "environment", "facts_of", "rows_of", "run_study", "save_facts", "section"]

_PACKAGES = ("swarmselect", "numpy", "scikit-learn", "lightgbm")
# Up to this many units searches meet the same subsets again and again, and share them in a file.
_SHARED_UNITS = 18
_N_MODELS, _N_RANDOM = 8, 3
_AS_IN_SOURCE = {"step": "bpso", "init": "clusters"}


def section(name: str) -> StrategySection:
    """Return a strategy at its defaults, but the multi-swarm as in its source."""
    return StrategySection(name=name, params=_AS_IN_SOURCE if name == "multiswarm" else {})


@dataclass(frozen=True)
class Part:
    """One protocol on one data set.

    Attributes
    ----------
    name : str
        Name of the protocol; parts of several data sets share it.
    dataset : str
    config : SelectConfig
        All but the strategy and the seed of the searches.
    strategies : mapping of label to StrategySection
    seeds : tuple of int
    resample : int
        Number of the split into training and test rows; -1 searches on all rows.
    judged : bool
        Whether ensembles and their rivals are fitted and scored on the test rows.
    archived : bool
        Whether evaluations are kept in a file: those of costly models are.
    note : str
        What pages say of the data set.
    """

    name: str
    dataset: str
    config: SelectConfig
    strategies: Mapping[str, StrategySection]
    seeds: tuple[int, ...]
    resample: int = -1
    judged: bool = False
    archived: bool = False
    note: str = ""

    def seeds_of(self, label: str) -> tuple[int, ...]:
        """Seeds of a strategy: one for those that draw nothing."""
        fixed = strategy_class(self.strategies[label].name).is_deterministic
        return self.seeds[:1] if fixed else self.seeds

    def digest(self, label: str, fingerprint: str) -> str:
        """Name what a search depends on besides its seed: another digest, another search.

        Stored rows carry it, so it must not change.

        Parameters
        ----------
        label : str
            Of the strategy.
        fingerprint : str
            Of the problem: rows, model, folds.
        """
        config = without_later_keys(self.config.model_dump(mode="json"))
        strategy = self.strategies[label].model_dump(mode="json")
        if strategy["params"] == _AS_IN_SOURCE:
            # These were the defaults.
            strategy["params"] = {}
        dumped = [
            fingerprint,
            strategy,
            config["budget"],
            self.config.evaluation.racing,
            config["prepare"],
            self.judged,
        ]
        return hashlib.sha256(json.dumps(dumped).encode()).hexdigest()[:12]

    @property
    def needs(self) -> tuple[str, ...]:
        """Hints that its strategies need."""
        rivals = self.strategies.values()
        names = (name for rival in rivals for name in make(rival.name, rival.params).needs)
        return tuple(dict.fromkeys(names))


def rows_of(study: str, out: Path) -> Rows:
    """Rows of a study."""
    return Rows(out / "results" / f"{study}.csv")


def facts_of(study: str, out: Path) -> dict[str, Any]:
    """Read what was measured beside the rows: data sets, wall seconds, versions, machine."""
    path = out / "results" / f"{study}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def run_study(
    study: str, parts: Sequence[Part], out: Path, work: Path, workers: int = 2, verbosity: int = 1
) -> None:
    """Run the searches that have no row yet; the same call goes on after a kill.

    Parameters
    ----------
    study : str
        Name of its files.
    parts : sequence of Part
    out : Path
        Folder of the pages, with ``results`` in it.
    work : Path
        Folder of archives: nothing that has to be kept.
    workers : int
        Searches at a time; rows do not depend on it.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per search.
    """
    start_prefect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _run(study, parts, out, work, workers, verbosity)
    rows_of(study, out).tidy()


@flow(name="study", validate_parameters=False, persist_result=False)
def _run(
    study: str, parts: Sequence[Part], out: Path, work: Path, workers: int, verbosity: int
) -> None:
    rows, facts = rows_of(study, out), facts_of(study, out)
    facts = {"sets": {}, "seconds": {}, **facts}
    work.mkdir(parents=True, exist_ok=True)
    done = rows.done()
    planned = {
        (part.name, part.dataset, part.resample, label, seed)
        for part in parts
        for label in part.strategies
        for seed in part.seeds_of(label)
    }
    # A row that another protocol left counts until its search is due.
    known = planned & {key[:-1] for key in done}
    with cell_display(len(planned), len(known), verbosity) as shown:
        for part in parts:
            table = fetched(part.config)
            data = prepare_as_configured(
                part.config, table, needs=part.needs, seed=0, split=part.resample >= 0
            )
            missing = [(key, plan) for key, plan in _searches(part, data) if key not in done]
            facts["sets"][part.dataset] = {"rows": len(table.features), "note": part.note}
            if not missing:
                continue
            started = time.monotonic()
            archive = _archive(part, data, work / f"{study}.db")
            for result, row in _side_by_side(missing, data, archive, part.judged, workers):
                rows.append(row)
                shown.finished(result)
            spent = facts["seconds"].get(part.name, 0.0) + time.monotonic() - started
            facts["seconds"][part.name] = round(spent, 1)
            save_facts(study, out, facts | environment())


def _archive(part: Part, data: PreparedData, shared: Path) -> str:
    in_file = part.archived or data.problem.space.n_units <= _SHARED_UNITS
    return f"sqlite:///{shared}" if in_file else "sqlite://"


def _searches(part: Part, data: PreparedData) -> Iterator[tuple[tuple[Any, ...], SearchPlan]]:
    """Key of the row of each search, with its plan."""
    fingerprint = data.problem.fingerprint()
    for label, strategy in part.strategies.items():
        config = part.config.model_copy(update={"strategy": strategy})
        digest = part.digest(label, fingerprint)
        for seed in part.seeds_of(label):
            key = (part.name, part.dataset, part.resample, label, seed, digest)
            yield key, plan_as_configured(config, data, seed)


def _side_by_side(
    searches: Sequence[tuple[tuple[Any, ...], SearchPlan]],
    data: PreparedData,
    archive: str,
    judged: bool,
    workers: int,
) -> Iterator[tuple[CellResult, dict[str, Any]]]:
    with parallel_config("loky", inner_max_num_threads=1):
        jobs = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")
        yield from jobs(delayed(_row)(key, plan, data, archive, judged) for key, plan in searches)


def _row(
    key: tuple[Any, ...], plan: SearchPlan, data: PreparedData, archive: str, judged: bool
) -> tuple[CellResult, dict[str, Any]]:
    """Run a search in whatever process this is, and make its row.

    `judged` says whether ensembles are scored on the test rows.
    """
    known = dict(zip((*KEY, "plan"), key, strict=True))
    cell = Cell(known["dataset"], known["strategy"], known["seed"])
    with threadpool_limits(1):
        result, finished = search_cell(cell, plan, archive, test=data.test)
        search = finished.result
        costs = _test_costs(search, data, cell.seed) if judged else {}
    values = {**vars(result), **costs, **known}
    return result, {name: values.get(name, float("nan")) for name in COLUMNS}


def _test_costs(search: SearchResult, data: PreparedData, seed: int) -> dict[str, float]:
    """Costs on the test rows of the ensemble, and of what it has to beat."""
    problem, train, test = data.problem, data.train, data.test
    assert test is not None
    masks, _ = search.best_members(_N_MODELS)
    answer = judge(
        problem.estimator,
        (train.features, train.target),
        (test.features, test.target),
        [search.space.subset(mask) for mask in masks],
        best=search.features,
        # The rows of the studies are those of a majority vote.
        vote="hard",
        space=problem.space,
        cost_of=problem.scoring.cost,
        n_random=_N_RANDOM,
        # The intervals of the studies come from the resamples, not from a bootstrap.
        n_resamples=1,
        seed=seed,
    )
    return {
        "test_ensemble": answer.costs["ensemble"],
        "test_all_ensemble": answer.costs["all_features_ensemble"],
        "test_random": answer.costs["random_subsets"],
    }


def environment() -> dict[str, Any]:
    """Versions and machine that a study is run with."""
    machine = this_machine()
    packages = {name: version(name) for name in _PACKAGES}
    return {
        "versions": {"Python": platform.python_version(), **packages},
        "machine": {
            "cores": machine.cores,
            "memory_gib": round((machine.memory or 0) / 2**30),
        },
    }


def save_facts(study: str, out: Path, facts: Mapping[str, Any]) -> None:
    """Write what `facts_of` reads, whole or not at all."""
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    write_atomically(out / "results" / f"{study}.json", text, 0o644)
