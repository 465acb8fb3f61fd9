"""The stages of a run, their names, and the likely seconds of those after the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarm.arrays import Bool
    from swarm.storage.records import Record

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
    confirm_fits, confirm_all_fits : int
        Fold models of the confirmation, on the full model and on fresh folds: those of subsets, and
        those of all features.
    ensemble_fits, contender_fits, contender_all_fits : int
        Models on all training rows: those of the ensemble, those of its baselines of a subset, and
        those of all features.
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
    confirm_all_fits: int = 0
    ensemble_fits: int = 0
    contender_fits: int = 0
    contender_all_fits: int = 0
    report_fits: int = 0
    has_model: bool = True
    workers: int = 1
    start_seconds: float = 0.0

    def seconds(self, stage: Stage, per_fit: float, per_all_fit: float) -> float:
        """Return the likely seconds of a stage after the search.

        Parameters
        ----------
        stage : Stage
        per_fit, per_all_fit : float
            Wall time of a model of a subset, and of one of all features, divided by the number of
            workers.
        """
        if stage is Stage.CONFIRM:
            return self.confirm_fits * per_fit + self.confirm_all_fits * per_all_fit
        if stage is Stage.JUDGE:
            contenders = self.contender_fits * per_fit + self.contender_all_fits * per_all_fit
            return _JUDGE + self.ensemble_fits * per_fit * self.workers + self._trained(contenders)
        if stage is Stage.REPORT:
            return _REPORT + self._trained(self.report_fits * per_fit)
        return _REGISTER * self.has_model

    def _trained(self, together: float) -> float:
        """Return the seconds of models that are trained in parallel where that is faster."""
        return min(together * self.workers, _SERIAL + self.start_seconds + together)


@dataclass
class FitSeconds:
    """The training time of a fold model: a line over the number of its units, by least squares."""

    _n: float = 0.0
    _x: float = 0.0
    _y: float = 0.0
    _xx: float = 0.0
    _xy: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any time has been learnt."""
        return self._y > 0

    def learn(self, n_units: int, seconds: float, n_fits: int) -> None:
        """Learn the mean training time of some models of a subset."""
        self._n += n_fits
        self._x += n_fits * n_units
        self._y += n_fits * seconds
        self._xx += n_fits * n_units**2
        self._xy += n_fits * n_units * seconds

    def of(self, n_units: float) -> float:
        """Return the likely seconds of a model; 1 if nothing has been learnt."""
        if not self.is_known:
            return 1.0
        spread = self._xx - self._x**2 / self._n
        slope = (self._xy - self._x * self._y / self._n) / spread if spread > 0 else 0.0
        # More units never take less time, and none takes less than nothing.
        slope = min(max(slope, 0.0), self._y / self._x)
        return (self._y - slope * self._x) / self._n + slope * n_units


class Forecast:
    """The likely seconds of the stages after a search, from the pace of its fits.

    Parameters
    ----------
    workload : Workload
    n_units : int
        Units of all features.
    """

    def __init__(self, workload: Workload, n_units: int = 0) -> None:
        self._workload = workload
        self._n_units = n_units
        self._per_fit = 0.0
        # Mean units of the models of that pace.
        self._pace_units = float(n_units)
        self.fit_seconds = FitSeconds()

    @property
    def has_learned(self) -> bool:
        """Whether the pace is known."""
        return self._per_fit > 0

    def learn(self, per_fit: float, n_units: float | None = None) -> None:
        """Learn the wall time of a model, divided by the number of workers, and its mean units."""
        self._per_fit = per_fit
        self._pace_units = self._n_units if n_units is None else n_units

    def fitted(self, mask: Bool, record: Record) -> None:
        """Learn the training time of the folds of a mask, of which at least one was trained."""
        n_fits = int(record.known.sum())
        self.fit_seconds.learn(int(mask.sum()), record.seconds / n_fits, n_fits)

    def recall(self, masks: Bool, records: Sequence[Record]) -> None:
        """Learn the training time of masks that are in the archive."""
        for mask, record in zip(masks, records, strict=True):
            if record.known.any():
                self.fitted(mask, record)

    def guess_pace(self, n_units: float) -> None:
        """Derive the pace from training times, if all epochs came from the archive."""
        if not self.has_learned and self.fit_seconds.is_known:
            self.learn(self.fit_seconds.of(n_units) / self._workload.workers, n_units)

    def correct(self, ratio: float) -> None:
        """Learn the pace anew: wall time over the training time that was expected."""
        self._per_fit = ratio * self.fit_seconds.of(self._pace_units)

    def of(self, stage: Stage) -> float:
        """Return the seconds of a stage; 0 if it is not one after the search."""
        if stage not in AFTER:
            return 0.0
        larger = self.fit_seconds.of(self._n_units) / self.fit_seconds.of(self._pace_units)
        return self._workload.seconds(stage, self._per_fit, self._per_fit * larger)

    def after(self, stage: Stage) -> float:
        """Return the seconds of the stages after `stage`."""
        first = AFTER.index(stage) + 1 if stage in AFTER else 0
        return sum(self.of(each) for each in AFTER[first:])
