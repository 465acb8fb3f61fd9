"""Document 000's worked example, Musk version 2: by a random split, and by molecules never seen.

Every run is a select run of a shipped configuration, with all that MLflow keeps of one. Beside
them is an ablation, at equal distinct evaluations, on the cheaper model that the fast runs search
on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from conf.load import load_select
from conf.problem_sections import ModelSection, SplitSection
from conf.run_sections import BudgetSection, EvaluationSection, StrategySection
from conf.schema import SelectConfig
from flows.evidence.part import Part, Study
from flows.evidence.run import Places
from flows.evidence.tables import find
from flows.progress import say
from flows.select import Outcome, select
from swarm.errors import DataError
from swarm.evidence.page import duration

__all__ = ["MuskRun", "ablation", "musk_runs", "not_run", "run_musk", "stored"]

_NAME = "musk_v2"
_TABLES = ("figures", "epochs", "runs")
_KEY = ["split", "mode", "seed"]
_VARIANTS: dict[str, dict[str, Any]] = {
    "whole": {},
    "no_local_search": {"local_search": False},
    "no_regrouping": {"regroup_every": 0},
    "no_shrink": {"shrink": False},
    "bernoulli_init": {"init": "bernoulli"},
}


@dataclass(frozen=True)
class MuskRun:
    """One select run.

    Attributes
    ----------
    split : str
        ``"random"`` as in the document, or ``"group"``: by molecules.
    mode : str
        ``"fast"`` with races on a cheaper model, or ``"exact"``.
    seed : int
        Of the split, the folds and the search.
    config : SelectConfig
    """

    split: str
    mode: str
    seed: int
    config: SelectConfig

    @property
    def digest(self) -> str:
        """Names what the figures depend on."""
        dumped = self.config.model_dump(mode="json")
        kept = ("split", "model", "scoring", "folds", "strategy", "budget", "proxy", "ensemble")
        text = json.dumps([{key: dumped[key] for key in kept}, dumped["evaluation"]["racing"]])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def musk_runs(
    data: Path | None, work: Path, *, seeds: int, epochs: int, epochs_group: int, epochs_exact: int
) -> list[MuskRun]:
    """Lay the runs out.

    Parameters
    ----------
    data : Path or None
        Folder with ``musk_v2.parquet``: columns `target`, `group` (the molecule) and features;
        None fetches it from the UCI repository.
    work : Path
        Folder of the archive and of MLflow's store.
    seeds : int
        Fast runs of each split; the exact run has seed 0.
    epochs, epochs_group, epochs_exact : int
        Of fast runs by the random split, by molecules, and of the exact run; 0 for no such run.

    Raises
    ------
    DataError
        If the folder has no such table.
    """
    given = [
        f"data={_source(data)}",
        f"archive.url=sqlite:///{work / 'musk.db'}",
        f"tracking.uri=sqlite:///{work / 'mlflow.db'}",
        f"tracking.artifacts={work / 'artifacts'}",
        "tracking.register=false",
        "evaluation.n_jobs=-1",
    ]
    by_molecule = ["split.kind=group", "folds.kind=stratified_group"]
    runs = []

    def add(split: str, mode: str, seed: int, n_epochs: int) -> None:
        if n_epochs == 0:
            return
        own = [f"seed={seed}", f"budget.epochs={n_epochs}", f"name=musk-{split}-{mode}-{seed}"]
        own += by_molecule if split == "group" else []
        config = load_select("musk_fast" if mode == "fast" else "musk", [*given, *own])
        runs.append(MuskRun(split, mode, seed, config))

    for seed in range(seeds):
        add("random", "fast", seed, epochs)
        add("group", "fast", seed, epochs_group)
    add("random", "exact", 0, epochs_exact)
    return runs


def _source(data: Path | None) -> str:
    """The section `data` of Musk, as text."""
    if data is None:
        return "{source: uci, id: 75, group: molecule_name}"
    found = find(data, [_NAME])
    if _NAME not in found:
        raise DataError(
            f"the folder {str(data)!r} has no {_NAME}.parquet; name another with --data, or leave"
            " --data out to fetch it from the UCI repository"
        )
    path = json.dumps(str(found[_NAME].path))
    return f"{{source: file, path: {path}, target: target, group: group}}"


def not_run(runs: list[MuskRun], whole: list[MuskRun], places: Places, workers: int) -> str:
    """Say what is missing of the protocol in full, and how long it would take; empty for nothing.

    The time is that of the training alone, from the mean of an epoch of the runs that were made.
    """
    asked = {tuple(_key(run)): run.config.budget.epochs or 0 for run in runs}
    done = stored(places)["runs"]
    told, seconds = [], 0.0
    for split, mode in dict.fromkeys((run.split, run.mode) for run in whole):
        full = [run for run in whole if (run.split, run.mode) == (split, mode)]
        epochs = full[0].config.budget.epochs or 0
        missing = sum(epochs - min(epochs, asked.get(tuple(_key(run)), 0)) for run in full)
        own = done[(done["split"] == split) & (done["mode"] == mode)] if len(done) else done
        if missing == 0:
            continue
        told.append(f"{missing} of the {epochs * len(full)} epochs of the {mode} runs by {split}")
        if len(own):
            seconds += missing * float(own["seconds"].sum() / own["epochs"].sum()) / workers
    if not told:
        return ""
    return f"{', '.join(told)}; about {duration(seconds)} of training more on this machine."


def run_musk(runs: list[MuskRun], places: Places, verbosity: int = 1) -> None:
    """Run what has no figures yet; each run's tables are written when it ends."""
    for number, run in enumerate(runs, start=1):
        done = stored(places)["runs"]
        if not done.empty and (done[[*_KEY, "plan"]] == [*_key(run), run.digest]).all(axis=1).any():
            continue
        say(f"run {number}/{len(runs)}: {run.split} split, {run.mode}, seed {run.seed}", verbosity)
        outcome = select(run.config, None, verbosity)
        _keep(run, outcome, places)


def stored(places: Places) -> dict[str, pd.DataFrame]:
    """Read the tables ``figures``, ``epochs`` and ``runs``; empty where there are none."""
    tables = {}
    for name in _TABLES:
        path = _path(places, name)
        tables[name] = pd.read_csv(path) if path.exists() else pd.DataFrame()
    return tables


def ablation(data: Path | None, work: Path, *, seeds: int, distinct: int, left: str = "") -> Study:
    """Lay the ablation out: parts of the algorithm switched off, one at a time.

    Parameters
    ----------
    seeds, distinct : int
        Searches of each variant, and distinct evaluations of a search.
    left : str
        What was not run, see :func:`not_run`.
    """
    runs = musk_runs(data, work, seeds=1, epochs=1, epochs_group=0, epochs_exact=0)
    config = runs[0].config
    proxy = config.proxy
    assert proxy is not None
    params = {**config.model.params, **proxy.params}
    changed = config.model_copy(
        update={
            "name": "musk-ablation",
            "model": ModelSection(estimator=config.model.estimator, params=params),
            "proxy": None,
            "split": SplitSection(kind="random", test_size=0.3, seed=0),
            "folds": config.folds.model_copy(update={"seed": 0}),
            "budget": BudgetSection(epochs=None, distinct=distinct),
            "evaluation": EvaluationSection(n_jobs=1),
        }
    )
    strategies = {
        label: StrategySection(name="multiswarm", params={**config.strategy.params, **given})
        for label, given in _VARIANTS.items()
    }
    part = Part(
        "ablation", "musk", changed, strategies, tuple(range(seeds)), resample=0, archived=True
    )
    notes = {
        "runs": (
            "Ours have the document's model, cost, swarm and vote. Fast runs search on a cheaper "
            "LightGBM (63 bins, 40 trees) and give subsets up by races; their 16 best subsets "
            "are measured on the full model. Each seed has a split, folds and a search of its own."
        ),
        "ablation": (
            f"Every search of the ablation looks at {distinct} distinct subsets of the training "
            "rows of one random split, with the cheaper model, without races."
        ),
    }
    if left:
        notes["not_run"] = left
    return Study("musk", [part], notes=notes)


def _key(run: MuskRun) -> list[Any]:
    return [run.split, run.mode, run.seed]


def _path(places: Places, name: str) -> Path:
    return places.out / "results" / f"musk-{name}.csv"


def _keep(run: MuskRun, outcome: Outcome, places: Places) -> None:
    """Add the tables of a run to those that are stored, in the place of its earlier ones."""
    for name, table in _tables(run, outcome).items():
        path = _path(places, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            before = pd.read_csv(path)
            others = (before[_KEY] != _key(run)).any(axis=1)
            table = pd.concat([before[others], table], ignore_index=True)
        table = table.sort_values(_KEY, kind="stable", ignore_index=True)
        beside = path.with_suffix(".part")
        table.to_csv(beside, index=False, lineterminator="\n")
        beside.replace(path)


def _tables(run: MuskRun, outcome: Outcome) -> dict[str, pd.DataFrame]:
    result, judgement = outcome.result, outcome.judgement
    key = dict(zip(_KEY, _key(run), strict=True))
    figures = judgement.table.drop(columns="n_models").assign(**key)
    history = result.history
    epochs = history[["epoch", "best_cost", "best_size"]].assign(**key)
    n_test = len(judgement.predictions)
    row = {
        **key,
        "epochs": result.state.epoch,
        "cost": result.cost,
        "size": len(result.features),
        "n_available": result.space.n_columns,
        "evaluations": result.state.counts.evaluations,
        "distinct": result.state.counts.distinct,
        "fits": result.state.counts.fits,
        "proxy_correlation": result.confirmed.correlation if result.confirmed else float("nan"),
        "seconds": round(outcome.training_seconds, 1),
        "n_train": outcome.n_train,
        "n_test": n_test,
        "plan": run.digest,
    }
    tables = {"figures": figures, "epochs": epochs, "runs": pd.DataFrame([row])}
    return {name: _front(table) for name, table in tables.items()}


def _front(table: pd.DataFrame) -> pd.DataFrame:
    return table[[*_KEY, *(name for name in table.columns if name not in _KEY)]]
