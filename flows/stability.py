"""The stability flow: repeat a search over seeds and over samples of the rows."""

import math
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
_MAX_ROWS = 30
_CLASSES = ("core", "optional", "noise")


@dataclass(frozen=True)
class Repetitions:
    """The searches of a stability study.

    Attributes
    ----------
    seeds
        Searches on all training rows, with the seed of the configuration and those after it.
    resamples
        Searches on samples of the training rows, each with its own seed as well.
    share
        Share of the rows, or of the groups, in a sample without replacement.
    core
        A feature is core if at least this share of the searches select it.
    noise
        A feature is noise if at most this share of the searches select it.
    """

    seeds: int = 10
    resamples: int = 10
    share: float = 0.5
    core: float = CORE
    noise: float = NOISE

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
    """Result of a stability study.

    Attributes
    ----------
    run_id
        Id of the MLflow run.
    assessment
        The stability of the selection, and the classes of the features.
    scheme
        How rows were sampled.
    warnings
        The findings that are more than notes, a line each.
    artifacts
        What to look at among the artifacts of the run.
    """

    run_id: str
    assessment: Assessment
    scheme: str
    warnings: tuple[str, ...] = ()
    artifacts: ClassVar[str] = "stability.csv and figures"

    @property
    def headline(self) -> str:
        """The classes of the features, and the stability index over samples, else over seeds."""
        assessment = self.assessment
        counts = [f"{assessment.count(name)} {name}" for name in _CLASSES]
        index = assessment.by_seed if assessment.by_rows is None else assessment.by_rows
        text = f"{', '.join(counts)} features"
        # The index is NaN if every search selected all features.
        if index is None or math.isnan(index.index):
            return text
        return f"{text}; stability index {index.index:.2f}"

    def sentence(self) -> str:
        """Describe the stability of the selection in a few sentences."""
        assessment = self.assessment
        core, noise = assessment.thresholds
        by_rows = assessment.by_rows
        by_seed = assessment.by_seed
        n_core = assessment.count("core")
        sentences = []
        if by_rows is not None:
            sentences.append(describe_index(by_rows, f"samples of {self.scheme}"))
        if by_seed is not None:
            sentences.append(describe_index(by_seed, "seeds on all training rows"))
        sentences.append(
            f"Of {len(assessment.table)} features {n_core} {'is' if n_core == 1 else 'are'} core "
            f"(in at least {core:.0%} of the searches over "
            f"{'seeds' if by_rows is None else 'samples'}), {assessment.count('optional')} "
            f"optional and {assessment.count('noise')} noise (in at most {noise:.0%})."
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
        assessment = self.assessment
        core, noise = assessment.thresholds
        return {
            "run": self.run_id,
            "draws": self.scheme,
            "basis": "seeds" if assessment.by_rows is None else "resamples",
            "core_from": core,
            "noise_to": noise,
            "stability_over_seeds": index_record(assessment.by_seed),
            "stability_over_rows": index_record(assessment.by_rows),
            "consensus": assessment.consensus,
            "features": records(assessment.table),
        }

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the MLflow run that are defined."""
        assessment = self.assessment
        counts = {f"features_{name}": float(assessment.count(name)) for name in _CLASSES}
        return {
            **counts,
            "consensus_size": float(len(assessment.consensus)),
            **stability_metrics(assessment),
        }

    def tables(self, width: int) -> list[TextTable]:
        """Return the table of selection frequencies."""
        assessment = self.assessment
        has_both = assessment.by_seed is not None and assessment.by_rows is not None
        # A narrow terminal has no place for the shares over seeds, which stability.csv has too.
        shows_seeds = has_both and width > NARROW
        cells = [
            [
                str(row["feature"]),
                str(row["class"]),
                f"{row['share']:.0%}",
                f"{row['low']:.0%} to {row['high']:.0%}",
                *([f"{row['share_seeds']:.0%}"] if shows_seeds else []),
            ]
            for row in assessment.table.head(_MAX_ROWS).to_dict("records")
        ]
        header = ["feature", "class", "selected", "95 % interval"]
        if shows_seeds:
            header.append("over seeds")
        return [TextTable(header, cells, n_left=2)]

    def sentences(self) -> list[str]:
        """Return what is printed below the table."""
        consensus = self.assessment.consensus
        sentences = [
            self.sentence(),
            f"Consensus of {len(consensus)}: {', '.join(consensus)}",
        ]
        n_more = len(self.assessment.table) - _MAX_ROWS
        if n_more > 0:
            sentences.insert(0, f"and {n_more} more in stability.csv, none more frequent")
        return sentences


def stability_metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the stability over seeds and over rows that are defined."""
    metrics: dict[str, float] = {}
    for name, index in (
        ("stability_seeds", assessment.by_seed),
        ("stability_rows", assessment.by_rows),
    ):
        if record := index_record(index):
            metrics[f"{name}_low"] = record["low"]
            metrics[f"{name}_high"] = record["high"]
            metrics[name] = record["index"]
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
    all_rows = Part("all rows", np.arange(len(table.features)))
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
        [*enumerate([all_rows] * plan.seeds), *enumerate(samples)],
        settings=vars(plan),
        tags={"draws": scheme},
        stop=stop,
        verbosity=verbosity,
        step=run_cell,
    ) as (log, whole, results):
        features = [result.features for result in results]
        subsets = {"seeds": features[: plan.seeds], "resamples": features[plan.seeds :]}
        assessment = assess(whole.problem.space, subsets, (plan.core, plan.noise))
        searches = pd.DataFrame([result.row() for result in results])
        run = StabilityRun(log.run_id, assessment, scheme, warnings_of(whole.findings))
        log.files(
            {
                "stability.csv": assessment.table.to_csv(index=False).encode(),
                "searches.csv": searches.to_csv(index=False).encode(),
                "consensus.txt": "".join(f"{name}\n" for name in assessment.consensus).encode(),
                **stability_files(assessment),
            }
        )
        log.metrics({0: run.metrics()})
        log.tag({"headline": run.headline})
        log.note(run.sentence(), {"features": "stability.csv", "figure": "figures/stability.svg"})
    return run
