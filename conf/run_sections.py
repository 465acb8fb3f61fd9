"""Sections that define how a search is run, evaluated, logged and repeated."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, FiniteFloat, field_validator, model_validator

from conf.base import (
    Column,
    Count,
    Fraction,
    Location,
    NotNegative,
    Params,
    PositiveCount,
    Section,
    Text,
    Workers,
    sentence,
)
from swarm.errors import nearest

__all__ = [
    "ArchiveSection",
    "BudgetSection",
    "ConfirmSection",
    "EnsembleSection",
    "EvaluationSection",
    "HoldoutSection",
    "PrefilterSection",
    "ProxySection",
    "RetriesSection",
    "Schedule",
    "StrategySection",
    "TrackingSection",
    "WarmSection",
]


Importance = Literal["auto", "fold", "refit", "permutation", "mutual_information", "none"]


class StrategySection(Section):
    """The search algorithm."""

    name: Text = "multiswarm"
    """Name of a registered strategy"""
    params: Params = {}
    """Parameters of the strategy; others keep their defaults"""


class BudgetSection(Section):
    """When a search ends: at the first limit that is reached."""

    epochs: PositiveCount | None = 30
    """Maximum number of epochs"""
    evaluations: PositiveCount | None = None
    """Maximum number of evaluations; repeated masks count"""
    distinct: PositiveCount | None = None
    """Maximum number of distinct evaluations"""
    fits: PositiveCount | None = None
    """Maximum number of fitted models"""
    seconds: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """Maximum duration of the search in seconds"""
    patience: PositiveCount | None = None
    """Early stopping: end after this many epochs without a better cost"""
    noise_floor: PositiveCount | None = None
    """Early stopping: end when the gain of the best subset over this many epochs is within its
    standard error over the folds"""
    rows: PositiveCount | Literal["auto"] | None = None
    """Evaluate all subsets of an epoch on this many rows first, a quarter of them on four times the
    rows, and so on, and only those that survive on all; auto takes 10,000 from 100,000 training
    rows on; null evaluates all on all rows"""

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        limits = ("epochs", "evaluations", "distinct", "fits", "seconds")
        if all(getattr(self, key) is None for key in limits):
            raise sentence(
                "budget must limit epochs, evaluations, distinct, fits or seconds, got null for"
                " all of them; set one, such as budget.epochs to 30"
            )
        return self


class EvaluationSection(Section):
    """How subsets are evaluated."""

    importance: Importance = "auto"
    """Source of feature importances: the fold models, a refit on all training rows, permutation,
    mutual information or none; auto uses the fold models if they have importances"""
    pruning: bool = True
    """Skip the remaining folds of a subset that cannot win; the result is unchanged"""
    racing: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    """Discard a subset once its probability of winning, given the folds so far, is below this;
    faster, but may discard a subset that would have won; null disables racing"""
    exact: bool = True
    """Use a fast path that computes costs without fitting models, where there is one (such as for
    nearest neighbours and Gaussian naive Bayes); the costs are the same"""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where fast paths compute matrix products; cuda needs PyTorch or CuPy and the extra gpu; the
    costs are the same"""
    asynchronous: bool = False
    """Give a worker that is idle the next subset without waiting for the epoch; the result depends
    on the order of answers, which the archive records for a replay"""
    n_jobs: Workers = -1
    """Number of workers; -1 for one per core"""
    backend: Literal["loky", "threading", "sequential", "dask", "ray"] = "loky"
    """Workers: processes, threads, none, or those of a Dask or Ray cluster"""
    address: Location | None = None
    """Address of the Dask or Ray scheduler; null starts n_jobs local processes"""
    timeout_seconds: Annotated[FiniteFloat, Field(gt=0, le=604_800)] | None = None
    """Timeout of one fit in seconds; a fit that exceeds it counts as failed and its worker is
    replaced; needs the backend loky; null for no timeout"""


class ProxySection(Section):
    """A cheaper model that guides the search."""

    params: Params
    """Arguments of the estimator that differ from model.params, such as fewer trees"""
    best: PositiveCount = 16
    """Number of best subsets that are evaluated on the full model"""
    probes: Count = 12
    """Number of subsets, good and bad, that are evaluated on both models to measure their rank
    correlation"""


class WarmSection(Section):
    """Saved subsets that a search starts from."""

    subsets: list[Annotated[list[Column], Field(min_length=1)]] = []
    """Subsets of columns, the best first"""
    file: Location | None = None
    """Path or fsspec URL of a features.json, published by a refresh or of a run"""
    run: Text | None = None
    """Id of a run in the tracking store, whose subsets are used"""

    @model_validator(mode="after")
    def _has_subsets(self) -> Self:
        if not self.subsets and self.file is None and self.run is None:
            raise sentence(
                "warm has no subsets to start from; set warm.subsets, warm.file or warm.run, or"
                " warm to null"
            )
        return self


class PrefilterSection(Section):
    """Units that are left out before the search."""

    when: Literal["always", "auto"] = "always"
    """Which tables are cut: always, or auto, from 5,001 columns on"""
    least: PositiveCount = 20
    """Smallest number of units to keep"""


class ConfirmSection(Section):
    """Evaluation of the best subsets on folds that the search did not use."""

    best: PositiveCount = 20
    """Number of best subsets that are evaluated on fresh folds"""
    repeats: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of fresh fold partitions"""
    goal: Literal["score", "balanced", "size"] = "score"
    """Which of them is the result: score, the lowest cost; balanced, the smallest that is not worse
    than the lowest cost by more than margin; size, the smallest that is not worse than all features
    by more than margin"""
    margin: NotNegative = 0.005
    """Difference in cost that does not matter"""
    confidence: Annotated[FiniteFloat, Field(gt=0.5, lt=1)] = 0.95
    """Confidence with which a subset is within the margin, and level of the interval of the gain
    over all features"""
    min_gain: NotNegative = 0.0
    """With the goal score: standard errors by which the result has to beat all features on fresh
    folds; otherwise all features are the result. 0: no condition"""


class EnsembleSection(Section):
    """The ensemble of models of the best subsets."""

    n_models: PositiveCount = 8
    """Number of best subsets, with one model each"""
    union_at_most: PositiveCount | Fraction | None = None
    """Maximum number of columns, or share of all columns, that the subsets use together: the best
    subset, then each next one that stays within it; null for no limit"""
    vote: Literal["hard", "soft", "any", "mean", "auto"] = "auto"
    """How predictions are combined: hard (majority), soft (mean probability), any (positive if any
    model predicts it) or mean; auto is soft for classifiers with probabilities, hard for others,
    and mean for regressors"""


class HoldoutSection(Section):
    """How the result is evaluated on the test rows."""

    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    """Metrics on the test rows: names of metrics or scikit-learn scorers; null uses the defaults of
    the task; that of the search always comes first"""
    bootstrap: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Number of bootstrap resamples of each confidence interval"""
    confidence: Fraction = 0.95
    """Level of the confidence intervals"""
    random_subsets: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of ensembles of random subsets of the same sizes, as a baseline"""
    explain: bool = True
    """Whether the report explains the model of the chosen features, by up to 32 more models on the
    test rows"""


class TrackingSection(Section):
    """The MLflow tracking store."""

    # pydantic's metaclass already defines `register`.
    model_config = ConfigDict(serialize_by_alias=True)

    uri: Location = "sqlite:///mlruns/mlflow.db"
    """MLflow tracking URI; ${NAME} is replaced by an environment variable when used"""
    artifacts: Location = "mlruns/artifacts"
    """Folder or URL for the artifacts of a new experiment"""
    experiment: Text = "swarm"
    """MLflow experiment"""
    spool: Text = "mlruns/spool"
    """Ignored: earlier versions kept a queue here"""
    register_model: bool | Literal["auto"] = Field(default=False, alias="register")
    """Register the ensemble under the name of the run; auto does so unless all features are better;
    a refresh always registers its own"""
    system_metrics: bool = False
    """Log the use of processor, memory, disk and network of this machine every ten seconds;
    MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true does so for every run"""

    @property
    def register(self) -> bool:
        """Whether the ensemble may be registered: the key ``tracking.register``."""
        return self.register_model is not False

    @property
    def registers_always(self) -> bool:
        """Whether the ensemble is registered even if all features are better."""
        return self.register_model is True


class ArchiveSection(Section):
    """The cache of evaluations."""

    url: Location = "sqlite:///mlruns/archive.db"
    """SQLAlchemy URL of the archive; ${NAME} is replaced by an environment variable when used"""


class RetriesSection(Section):
    """Retries of an epoch."""

    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """Attempts per epoch before the run fails"""
    delay_seconds: Annotated[FiniteFloat, Field(ge=0, le=3600)] = 1.0
    """Seconds between attempts"""


class ScheduleSection(Section):
    """When ``swarm serve`` runs this configuration."""

    cron: Text
    """Cron expression: minute, hour, day of month, month and day of week; '0 4 * * 1' is every
    Monday at 4"""
    timezone: Text = "UTC"
    """Time zone of the cron expression, such as Europe/Berlin"""

    @field_validator("cron")
    @classmethod
    def _can_be_scheduled(cls, value: str) -> str:
        # Imported here, as it is slow and only schedules need it.
        from prefect.client.schemas.schedules import CronSchedule

        try:
            # A sixth field would be seconds, and @reboot is not a time.
            if len(value.split()) != 5:
                raise ValueError(value)
            CronSchedule(cron=value)
        except ValueError:
            raise sentence(
                "schedule.cron must be five fields (minute, hour, day of month, month, day of"
                f" week) such as '0 4 * * 1' for Mondays at 4, got {value!r}"
            ) from None
        return value

    @field_validator("timezone")
    @classmethod
    def _is_on_the_map(cls, value: str) -> str:
        from zoneinfo import available_timezones

        known = available_timezones()
        if value not in known:
            hint = nearest(value, sorted(known)) or "; set it to UTC"
            raise sentence(
                "schedule.timezone must be a name of the time zone database, such as"
                f" Europe/Berlin, got {value!r}{hint}"
            )
        return value


Schedule = Annotated[
    ScheduleSection | None,
    Field(description="When `swarm serve` runs this configuration; null for no schedule"),
]
