"""The stages of a run, their names, and the likely seconds of those after the search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["AFTER", "Forecast", "Stage", "Workload"]

# Seconds without the models: metrics and their intervals, figures, and messages to MLflow.
_JUDGE, _REPORT, _REGISTER = 2.0, 6.0, 4.0
# Contenders are trained serially for this long, see swarm.validation.holdout.
_SERIAL = 3.0


class Stage(Enum):
    """A stage of a run: its name in a plan, and the line that announces it in a run."""

    START = "starting", "starting Prefect; the first time takes up to a minute"
    READ = "reading", "reading the data"
    PREPARE = "preparing", "preparing the search"
    SEARCH = "searching", "searching"
    CONFIRM = "confirming", "confirming the best subsets"
    JUDGE = "judging", "judging on the test rows"
    REPORT = "reporting", "writing the report"
    REGISTER = "registering", "registering the model"

    def __init__(self, label: str, line: str) -> None:
        self.label = label
        self.line = line


# The stages after the search, in their order.
AFTER = (Stage.CONFIRM, Stage.JUDGE, Stage.REPORT, Stage.REGISTER)


@dataclass(frozen=True)
class Workload:
    """What a run has to do after its search.

    Attributes
    ----------
    confirm_fits : int
        Fold models of the confirmation, on the full model and on fresh folds.
    ensemble_fits, contender_fits : int
        Models on all training rows: those of the ensemble, and those of its baselines.
    report_fits : int
        Models on all training rows that take as long as those of the report.
    has_model : bool
        Whether a model is stored.
    workers : int
        Workers that train at the same time.
    start_seconds : float
        To start the workers.
    """

    confirm_fits: int = 0
    ensemble_fits: int = 0
    contender_fits: int = 0
    report_fits: int = 0
    has_model: bool = True
    workers: int = 1
    start_seconds: float = 0.0

    def seconds(self, stage: Stage, per_fit: float) -> float:
        """Return the likely seconds of a stage after the search.

        Parameters
        ----------
        stage : Stage
        per_fit : float
            Wall time of a model, divided by the number of workers.
        """
        if stage is Stage.CONFIRM:
            return self.confirm_fits * per_fit + self.start_seconds * bool(self.confirm_fits)
        if stage is Stage.JUDGE:
            alone = per_fit * self.workers
            return _JUDGE + self.ensemble_fits * alone + self._trained(self.contender_fits, per_fit)
        if stage is Stage.REPORT:
            return _REPORT + self._trained(self.report_fits, per_fit)
        return _REGISTER * self.has_model

    def _trained(self, n_fits: int, per_fit: float) -> float:
        """Return the seconds of models that are trained in parallel where that is faster."""
        together = _SERIAL + self.start_seconds + n_fits * per_fit
        return min(n_fits * per_fit * self.workers, together)


class Forecast:
    """The likely seconds of the stages after a search, from the pace of its fits.

    Parameters
    ----------
    workload : Workload
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._per_fit = 0.0

    @property
    def has_learned(self) -> bool:
        """Whether the pace is known."""
        return self._per_fit > 0

    def learn(self, per_fit: float) -> None:
        """Learn the wall time of a model, divided by the number of workers."""
        self._per_fit = per_fit

    def of(self, stage: Stage) -> float:
        """Return the seconds of a stage; 0 if it is not one after the search."""
        return self._workload.seconds(stage, self._per_fit) if stage in AFTER else 0.0

    def after(self, stage: Stage) -> float:
        """Return the seconds of the stages after `stage`."""
        first = AFTER.index(stage) + 1 if stage in AFTER else 0
        return sum(self.of(each) for each in AFTER[first:])
