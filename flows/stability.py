"""The stability flow: repeat a search over seeds and over samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from prefect import flow

from conf.schema import SelectConfig
from flows.display.study_table import NARROW
from flows.display.terminal import warnings_of
from flows.run.flow_runs import COMMAND_FLOW
from flows.study import read_rows, repeated_search, run_study
from swarm.errors import ConfigError
from swarm.json_data import records
from swarm.report.stability import stability_files
from swarm.report.table import TextTable
from swarm.validation.stability import (
    CORE,
    NOISE,
    Assessment,
    assess,
    classify,
    describe_index,
    index_record,
)
from tasks.parts import Part, draw_sample
from tasks.split import rows_of
from tasks.study import run_cell

_SCHEMES = {
    "group": "whole groups",
    "stratified_group": "whole groups",
    "stratified": "rows, with the classes in proportion",
    "random": "rows, at random",
}
# Rows of the printed table of features.
_MOST_ROWS = 30
_CLASSES = ("core", "optional", "noise")


@dataclass(frozen=True)
class Repetitions:
    """The searches of a stability study."""

    seeds: int = 10  # on all training rows, with the seed of the configuration and those after it
    resamples: int = 10  # on samples of the training rows, each with its own seed as well
    share: float = 0.5  # of the rows, or of the groups, in a sample without replacement
    core: float = CORE  # a feature is core if at least this share of the searches select it
    noise: float = NOISE  # and noise if at most this share do

    def __post_init__(self) -> None:
        for name in ("seeds", "resamples"):
            value = getattr(self, name)
            if value == 1 or value < 0:
                raise ConfigError(
                    f"{name} must be 0 or at least 2, as a single search has no stability, "
                    f"got {value}"
                )
        if not self.seeds and not self.resamples:
            raise ConfigError("seeds and resamples are both 0; set one of them to 2 or more")
        if not 0 < self.share < 1:
            raise ConfigError(f"share must be between 0 and 1, got {self.share:g}; 0.5 is common")
        classify(np.empty(0), self.core, self.noise)


@dataclass(frozen=True)
class StabilityRun:
    """Result of a stability study."""

    run_id: str
    assessment: Assessment
    scheme: str  # how rows were sampled
    warnings: tuple[str, ...] = ()
    artifacts: ClassVar[str] = "stability.csv and figures"

    @property
    def headline(self) -> str:
        """The classes of the features, and the stability index over samples, else over seeds."""
        found = self.assessment
        counts = [f"{found.count(name)} {name}" for name in _CLASSES]
        over = found.by_seed if found.by_rows is None else found.by_rows
        text = f"{', '.join(counts)} features"
        # The index is NaN if every search selected all features.
        if over is None or over.index != over.index:
            return text
        return f"{text}; stability index {over.index:.2f}"

    def sentence(self) -> str:
        """Describe the stability of the selection in a few sentences."""
        found, (core, noise) = self.assessment, self.assessment.thresholds
        by_rows, by_seed, n_core = found.by_rows, found.by_seed, found.count("core")
        sentences = []
        if by_rows is not None:
            sentences.append(describe_index(by_rows, f"samples of {self.scheme}"))
        if by_seed is not None:
            sentences.append(describe_index(by_seed, "seeds on all training rows"))
        sentences.append(
            f"Of {len(found.table)} features {n_core} {'is' if n_core == 1 else 'are'} core (in at "
            f"least {core:.0%} of the searches over {'seeds' if by_rows is None else 'samples'}), "
            f"{found.count('optional')} optional and {found.count('noise')} noise (in at most "
            f"{noise:.0%})."
        )
        if by_rows is not None and by_seed is not None:
            if by_rows.high < by_seed.low:
                sentences.append("The selection depends on the rows far more than on the seed.")
            elif by_seed.high < 0.75:
                sentences.append(
                    "Searches on the same rows disagree too: use a larger budget, or the features "
                    "may be redundant."
                )
        return " ".join(sentences)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data; undefined values are null."""
        found = self.assessment
        return {
            "run": self.run_id,
            "draws": self.scheme,
            "basis": "seeds" if found.by_rows is None else "resamples",
            "core_from": found.thresholds[0],
            "noise_to": found.thresholds[1],
            "stability_over_seeds": index_record(found.by_seed),
            "stability_over_rows": index_record(found.by_rows),
            "consensus": found.consensus,
            "features": records(found.table),
        }

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the MLflow run that are defined."""
        found = self.assessment
        counts = {f"features_{name}": float(found.count(name)) for name in _CLASSES}
        return {
            **counts,
            "consensus_size": float(len(found.consensus)),
            **stability_metrics(found),
        }

    def tables(self, width: int) -> list[TextTable]:
        """Return the table of selection frequencies."""
        found, rows = self.assessment, self.assessment.table.head(_MOST_ROWS).to_dict("records")
        # A narrow terminal has no place for the shares over seeds, which stability.csv has too.
        both = found.by_seed is not None and found.by_rows is not None and width > NARROW
        cells = [
            [
                str(row["feature"]),
                str(row["class"]),
                f"{row['share']:.0%}",
                f"{row['low']:.0%} to {row['high']:.0%}",
                *([f"{row['share_seeds']:.0%}"] if both else []),
            ]
            for row in rows
        ]
        over_seeds = ["over seeds"] if both else []
        header = ["feature", "class", "selected", "95 % interval", *over_seeds]
        return [TextTable(header, cells, n_left=2)]

    def sentences(self) -> list[str]:
        """Return what is printed below the table."""
        more, consensus = len(self.assessment.table) - _MOST_ROWS, self.assessment.consensus
        return [
            *([f"and {more} more in stability.csv, none more frequent"] if more > 0 else []),
            self.sentence(),
            f"Consensus of {len(consensus)}: {', '.join(consensus)}",
        ]


def stability_metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the stability over seeds and over rows that are defined."""
    metrics: dict[str, float] = {}
    for part, found in (("seeds", assessment.by_seed), ("rows", assessment.by_rows)):
        if index := index_record(found):
            name = f"stability_{part}"
            metrics |= {f"{name}_{end}": index[end] for end in ("low", "high")}
            metrics[name] = index["index"]
    return metrics


def stability(
    config: SelectConfig, repetitions: Repetitions | None = None, verbosity: int = 1
) -> StabilityRun:
    """Repeat a search, and measure how often each feature is selected.

    After an interruption, finished searches are replayed from the archive.

    Parameters
    ----------
    config : SelectConfig
    repetitions : Repetitions, optional
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per search.

    Raises
    ------
    InputError
        For bad input, before any search is started.
    """
    return run_study(_stability, config, repetitions or Repetitions(), verbosity)


@flow(name="stability", **COMMAND_FLOW)
def _stability(config: SelectConfig, plan: Repetitions, verbosity: int, stop: Path) -> StabilityRun:
    if config.proxy is not None:
        raise ConfigError("stability does not support a proxy; add --set proxy=null")
    table, estimator = read_rows("stability", config, hold_out=True, verbosity=verbosity)
    everything = Part("all rows", np.arange(len(table.features)))
    samples = [
        draw_sample(table, plan.share, config.seed, number, estimator)
        for number in range(plan.resamples)
    ]
    scheme = (
        f"{plan.share:.0%} of the {_SCHEMES[rows_of(table, estimator).kind]}, without replacement"
    )
    with repeated_search(
        "stability",
        config,
        table,
        [*enumerate([everything] * plan.seeds), *enumerate(samples)],
        settings=vars(plan),
        tags={"draws": scheme},
        stop=stop,
        verbosity=verbosity,
        step=run_cell,
    ) as (log, whole, results):
        chosen = [result.features for result in results]
        subsets = {"seeds": chosen[: plan.seeds], "resamples": chosen[plan.seeds :]}
        found = assess(whole.problem.space, subsets, (plan.core, plan.noise))
        searches = pd.DataFrame([result.row() for result in results])
        run = StabilityRun(log.run_id, found, scheme, warnings_of(whole.findings))
        log.files(
            {
                "stability.csv": found.table.to_csv(index=False).encode(),
                "searches.csv": searches.to_csv(index=False).encode(),
                "consensus.txt": "".join(f"{name}\n" for name in found.consensus).encode(),
                **stability_files(found),
            }
        )
        log.metrics({0: run.metrics()})
        log.tag({"headline": run.headline})
        log.note(run.sentence(), {"features": "stability.csv", "figure": "figures/stability.svg"})
    return run
