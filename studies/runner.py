"""Run the searches of a study that have no row yet.

A study is a list of parts: a configuration without its strategy, the strategies, and the seeds. Its
searches are those of ``swarm compare``; but thousands of searches of a second each get one row each
in place of a task and an MLflow run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from joblib import Parallel, cpu_count, delayed, parallel_config
from prefect import flow
from threadpoolctl import threadpool_limits

from conf.schema import SelectConfig
from conf.sections import EvaluationSection, StrategySection
from flows.display.search_display import named_score
from flows.display.terminal import CellDisplay
from flows.run.configured import (
    PreparedData,
    fetch_as_configured,
    prepare_as_configured,
    search_as_configured,
)
from flows.run.prefect_server import start_prefect
from swarm import validation
from swarm.ensemble import SubsetEnsemble
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.strategies.catalogue import make, strategy_class
from tasks.files import write_atomically
from tasks.study import Cell, CellResult, search_cell

KEY = ("part", "dataset", "resample", "strategy", "seed")
_SECONDS = ("seconds_algorithm", "seconds_evaluation")
_TESTED = ("test_cost", "test_ensemble", "test_all_ensemble", "test_random")
_COUNTS = ("size", "n_available", "evaluations", "distinct", "fits", "epochs")
COLUMNS = (*KEY, "cost", *_COUNTS, "reason", *_SECONDS, *_TESTED, "plan")
_TYPES = {
    **dict.fromkeys(COLUMNS, "str"),
    **dict.fromkeys(("resample", "seed", *_COUNTS), "int64"),
    **dict.fromkeys(("cost", *_SECONDS, *_TESTED), "float64"),
}
# Up to this many units searches meet the same subsets again and again, and share them in a file.
_SHARED_UNITS = 18
_N_MODELS, _N_RANDOM = 8, 3


def section(name: str) -> StrategySection:
    """Return a strategy at its defaults, but the multi-swarm as in its source."""
    source = {"step": "bpso", "init": "clusters"}
    return StrategySection(name=name, params=source if name == "multiswarm" else {})


@dataclass(frozen=True)
class Rows:
    """The CSV file of a study: a row per search.

    A row is written and synchronised as soon as its search ends, so that a study that is killed
    loses the searches under way and no other. Two studies must not write to one file at once.
    """

    path: Path

    def read(self) -> pd.DataFrame:
        """Every row, the last one of a search where there are several; columns `COLUMNS`."""
        content = self._whole_lines() or _text(pd.DataFrame(columns=list(COLUMNS)), True).encode()
        # Numbers go through text, as some versions of pandas lose their last bit on reading.
        table = pd.read_csv(BytesIO(content), dtype="str").astype(_TYPES)
        return table.drop_duplicates(list(KEY), keep="last", ignore_index=True)

    def done(self) -> set[tuple[Any, ...]]:
        """Key and plan of every search that has a row."""
        return set(self.read()[[*KEY, "plan"]].itertuples(index=False, name=None))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add the row of a search, and wait until it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self._whole_lines()
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            # The last line is torn where its writer was killed.
            file.truncate(len(whole))
            file.seek(len(whole))
            file.write(_text(pd.DataFrame([row]), header=not whole).encode())
            file.flush()
            os.fsync(file.fileno())

    def tidy(self) -> None:
        """Write the file anew in the order of its keys, each search once."""
        table = self.read().sort_values(list(KEY), kind="stable")
        write_atomically(self.path, _text(table, header=True), 0o644)

    def _whole_lines(self) -> bytes:
        content = self.path.read_bytes() if self.path.exists() else b""
        return content[: content.rfind(b"\n") + 1]


def _text(table: pd.DataFrame, header: bool) -> str:
    # Times differ from machine to machine anyway; three digits keep the file small.
    table = table.assign(**{name: table[name].map("{:.3f}".format) for name in _SECONDS})
    return table.to_csv(index=False, header=header, columns=list(COLUMNS), lineterminator="\n")


def rows_of(study: str, out: Path) -> Rows:
    """Rows of a study."""
    return Rows(out / "results" / f"{study}.csv")


def stored(path: Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table of another form; no row where there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(columns))


def facts_of(study: str, out: Path) -> dict[str, Any]:
    """Read what was measured beside the rows: data sets, wall seconds, versions, machine."""
    path = out / "results" / f"{study}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def save_facts(study: str, out: Path, facts: Mapping[str, Any]) -> None:
    """Write what `facts_of` reads, whole or not at all, with the versions and the machine."""
    names = ("swarmselect", "numpy", "scikit-learn", "lightgbm")
    versions = {"Python": platform.python_version(), **{name: version(name) for name in names}}
    memory = round(psutil.virtual_memory().total / 2**30)
    told = {"versions": versions, "machine": {"cores": cpu_count(), "memory_gib": memory}}
    text = json.dumps({**facts, **told}, indent=1, ensure_ascii=False) + "\n"
    write_atomically(out / "results" / f"{study}.json", text, 0o644)


def configured(name: str, **sections: Any) -> SelectConfig:
    """Configure searches of one process by accuracy, without a confirmation."""
    common = {"scoring": "accuracy", "evaluation": EvaluationSection(n_jobs=1), "confirm": None}
    return SelectConfig(name=name, **{**common, **sections})


@dataclass(frozen=True)
class Part:
    """One protocol on one data set, with its strategies by label."""

    # Name of the protocol; parts of several data sets share it.
    name: str
    dataset: str
    # All but the strategy and the seed of the searches.
    config: SelectConfig
    strategies: Mapping[str, StrategySection]
    seeds: tuple[int, ...]
    # Number of the split into training and test rows; -1 searches on all rows.
    resample: int = -1
    # Whether ensembles and their rivals are fitted and scored on the test rows.
    judged: bool = False
    # Whether evaluations are kept in a file: those of costly models are.
    archived: bool = False
    # What pages say of the data set.
    note: str = ""

    def seeds_of(self, label: str) -> tuple[int, ...]:
        """Seeds of a strategy: one for those that draw nothing."""
        fixed = strategy_class(self.strategies[label].name).is_deterministic
        return self.seeds[:1] if fixed else self.seeds

    def digest(self, label: str, fingerprint: str) -> str:
        """Name what a search depends on besides its seed: another digest, another search.

        Stored rows carry it. `fingerprint` is that of the problem: rows, model, folds.
        """
        sections = (self.strategies[label], self.config.budget, self.config.prepare)
        dumped = [fingerprint, *(one.model_dump(mode="json") for one in sections), self.judged]
        return hashlib.sha256(json.dumps(dumped).encode()).hexdigest()[:12]

    @property
    def needs(self) -> tuple[str, ...]:
        """Hints that its strategies need."""
        rivals = self.strategies.values()
        names = (name for rival in rivals for name in make(rival.name, rival.params).needs)
        return tuple(dict.fromkeys(names))


def run_study(
    study: str, parts: Sequence[Part], out: Path, work: Path, workers: int = 2, verbosity: int = 1
) -> None:
    """Run the searches that have no row yet; the same call goes on after a kill.

    Rows go to the folder ``results`` in `out`. `work` has archives, nothing that has to be kept.
    `workers` searches run at a time; rows do not depend on it.
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
    rows, facts = rows_of(study, out), {"sets": {}, "seconds": {}, **facts_of(study, out)}
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
    with CellDisplay(len(planned), len(known), verbosity) as shown:
        for part in parts:
            table = fetch_as_configured(part.config)
            data = prepare_as_configured(
                part.config, table, needs=part.needs, seed=0, hold_out=part.resample >= 0
            )
            missing = [(key, search) for key, search in _searches(part, data) if key not in done]
            facts["sets"][part.dataset] = {"rows": len(table.features), "note": part.note}
            if not missing:
                continue
            started = time.monotonic()
            in_file = part.archived or data.problem.space.n_units <= _SHARED_UNITS
            archive = f"sqlite:///{work / study}.db" if in_file else "sqlite://"
            with parallel_config("loky", inner_max_num_threads=1):
                jobs = Parallel(workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")
                found = jobs(
                    delayed(_row)(key, search, data, archive, part.judged)
                    for key, search in missing
                )
                for result, row in found:
                    rows.append(row)
                    shown.finish(result, named_score(result.cost, data.problem.scoring))
            spent = facts["seconds"].get(part.name, 0.0) + time.monotonic() - started
            facts["seconds"][part.name] = round(spent, 1)
            save_facts(study, out, facts)


def _searches(part: Part, data: PreparedData) -> Iterator[tuple[tuple[Any, ...], Search]]:
    """Key of the row of each search, and the search."""
    fingerprint = data.problem.fingerprint()
    for label, strategy in part.strategies.items():
        config = part.config.model_copy(update={"strategy": strategy})
        digest = part.digest(label, fingerprint)
        for seed in part.seeds_of(label):
            key = (part.name, part.dataset, part.resample, label, seed, digest)
            yield key, search_as_configured(config, data, seed)


def _row(
    key: tuple[Any, ...], search: Search, data: PreparedData, archive: str, judged: bool
) -> tuple[CellResult, dict[str, Any]]:
    """Run a search in whatever process this is, and make its row."""
    known = dict(zip((*KEY, "plan"), key, strict=True))
    cell = Cell(known["dataset"], known["strategy"], known["seed"])
    with threadpool_limits(1):
        result, searched = search_cell(cell, search, archive, test=data.test)
        costs = _test_costs(searched, data, cell.seed) if judged else {}
    values = {**vars(result), **costs, **known}
    return result, {name: values.get(name, float("nan")) for name in COLUMNS}


def _test_costs(search: SearchResult, data: PreparedData, seed: int) -> dict[str, float]:
    """Costs on the test rows of the ensemble, and of what it has to beat."""
    problem, train, test = data.problem, data.train, data.test
    assert test is not None
    masks = search.best_members(_N_MODELS).masks
    answer = validation.judge(
        # The rows of the studies are those of a majority vote.
        SubsetEnsemble(problem.estimator, [search.space.subset(mask) for mask in masks], "hard"),
        validation.Rows(train.features, train.target),
        validation.Rows(test.features, test.target),
        space=problem.space,
        scoring=problem.scoring,
        n_random=_N_RANDOM,
        # The intervals of the studies come from the resamples.
        level=None,
        seed=seed,
    )
    names = ("ensemble", "all_features_ensemble", "random_subsets")
    return dict(zip(_TESTED[1:], (answer.costs[name] for name in names), strict=True))
