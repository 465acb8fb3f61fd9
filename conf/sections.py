"""The sections of a configuration: their keys, defaults, descriptions and bounds."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, FiniteFloat, field_validator, model_validator

from conf.base import (
    ClassPath,
    Column,
    Count,
    Fraction,
    Importance,
    Location,
    NotNegative,
    Params,
    PositiveCount,
    Prefix,
    Section,
    Seed,
    Text,
    Values,
    Workers,
    sentence,
)
from swarm.errors import nearest


class CsvSection(Section):
    """How a CSV file is written."""

    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Character between two columns"""
    decimal: Literal[".", ","] = "."
    """Decimal mark of numbers"""
    encoding: Text = "utf-8"
    """Encoding of the file, such as utf-8, cp1252 or utf-16"""
    na_values: list[str] = []
    """Further marks of missing values, besides empty cells, NA and null"""


class DataSection(Section):
    """The table and the roles of its columns."""

    source: Literal["bundled", "file", "uci", "sql"]
    """Source of the table: a data set bundled with scikit-learn, a file, the UCI repository or an
    SQL query"""
    name: Text | None = None
    """Name of the bundled data set, or of the UCI data set if id is not set"""
    id: PositiveCount | None = None
    """Id of the UCI data set"""
    path: Location | None = None
    """CSV or Parquet file or fsspec URL for source file, relative to the current directory; ${NAME}
    is replaced by an environment variable when the file is read"""
    url: Location | None = None
    """SQLAlchemy URL for source sql; ${NAME} is replaced by an environment variable when the
    connection is made"""
    query: Text | None = None
    """SQL query that returns the table; it must be read-only"""
    target: Column | Annotated[list[Column], Field(min_length=1)] | None = None
    """Column to predict, or a list of 0/1 label columns; null uses the target of the data set, for
    bundled and uci only"""
    on_missing_target: Literal["stop", "drop"] = "stop"
    """What to do with rows whose target is missing: stop, or drop them, such as the newest rows of
    a scheduled refresh"""
    drop: list[Column] = []
    """Columns to ignore"""
    categorical: list[Column] = []
    """Columns passed to the model as categories"""
    dates: dict[Column, str | None] = {}
    """Columns of dates and their format, such as %d.%m.%Y; null for ISO 8601. Each is replaced by
    the features NAME_year, NAME_month, NAME_day and NAME_weekday, and NAME_hour if the format has
    hours"""
    csv: CsvSection = CsvSection()
    """How a CSV file is written"""
    categorical_support: bool = False
    """Whether the model supports categories although neither its tags nor its parameters declare
    it; not needed for LightGBM, CatBoost and XGBoost"""
    group: Column | None = None
    """Column of group ids, for rows that belong together; never a feature"""
    time: Column | None = None
    """Column that orders the rows in time; never a feature"""
    horizon: PositiveCount | Column | None = None
    """How far the target of a row looks ahead, such as the sales of the next week: a number of
    rows, or a column with durations, in the unit of data.time or for dates in days or as text such
    as 36h; null if it is known at once. Splits and folds in time leave out training rows whose
    target is not known before the test rows; never a feature"""
    weight: Column | None = None
    """Column of sample weights; never a feature"""
    weights_in_score: bool = False
    """Whether the sample weights count in the scores of folds and test rows too, not in training
    alone; needs data.weight and a scorer that takes weights"""
    part: Column | None = None
    """Column with train or test for each row; never a feature"""

    @model_validator(mode="after")
    def _horizon_has_times(self) -> Self:
        if self.horizon is not None and self.time is None:
            raise sentence(
                f"data.horizon {self.horizon!r} needs the order of the rows; set data.time"
            )
        return self

    @model_validator(mode="after")
    def _score_has_weights(self) -> Self:
        if self.weights_in_score and self.weight is None:
            raise sentence("data.weights_in_score needs sample weights; set data.weight")
        return self

    @model_validator(mode="after")
    def _source_has_what_it_needs(self) -> Self:
        if self.source == "uci":
            if self.id is None and self.name is None:
                raise sentence("data.source 'uci' needs a data set; set data.id or data.name")
            return self
        needed = {
            "bundled": ("name",),
            "file": ("path", "target"),
            "sql": ("url", "query", "target"),
        }[self.source]
        missing = [f"data.{key}" for key in needed if getattr(self, key) is None]
        if missing:
            raise sentence(
                f"data.source {self.source!r} needs {' and '.join(missing)};"
                f" set {'it' if len(missing) == 1 else 'them'}"
            )
        return self


class SplitSection(Section):
    """The test rows, which no search sees."""

    kind: Literal["random", "stratified", "group", "time", "column"] = "random"
    """How the test rows are chosen: at random, stratified by class, by whole groups (data.group),
    the latest ones (data.time) or by the column data.part"""
    test_size: Fraction = 0.3
    """Share of the rows, or of the groups, in the test set"""
    seed: Seed | None = None
    """Seed of the split; null uses the top-level seed"""
    gap: Count = 0
    """Rows left out between the training rows and the test rows, for kind time"""
    max_train_size: PositiveCount | None = None
    """Maximum number of training rows, the latest ones, for kind time; null uses all earlier
    rows"""


class StepSection(Section):
    """A transformer before the model, fitted on the training rows of each fold."""

    transformer: ClassPath
    """Import path of an imputer, encoder or scaler of scikit-learn, such as
    sklearn.impute.SimpleImputer"""
    params: Params = {}
    """Arguments of the transformer"""
    columns: Literal["numbers", "categories"] | None = None
    """Columns that it transforms: numbers or categories; null is categories for encoders, and
    numbers for others"""


class EarlyStoppingSection(Section):
    """When a boosted model has enough trees."""

    rounds: PositiveCount = 20
    """Number of trees without an improvement after which training ends"""
    share: Fraction = 0.2
    """Share of the training rows of each model that are held out to measure it"""


class ModelSection(Section):
    """The model that evaluates every subset."""

    estimator: ClassPath = "lightgbm.LGBMClassifier"
    """Import path of a scikit-learn compatible classifier or regressor, under sklearn, lightgbm,
    swarm or a prefix in model.allow"""
    params: Params = {}
    """Arguments of the estimator"""
    search: dict[str, Values] = {}
    """Values of arguments of the estimator, a list each, such as num_leaves: [8, 31], in place of
    those in model.params; one combination is chosen before the search, with subsets that are
    searched in rounds for all of them (a sample of more than 32), in about half of the budget"""
    steps: list[StepSection] = []
    """Imputers, encoders and scalers before the model, in this order, fitted on the training rows
    of each fold, so that models take missing values and categories"""
    early_stopping: EarlyStoppingSection | None = None
    """End the training of a boosted model on rows that it holds out, in the folds and in the
    ensemble alike; its number of trees is then the maximum; null trains all"""
    scaling: Literal["none", "standard", "minmax"] = "none"
    """Scaling of the features, fitted on the training rows of each fold: none, standard (mean 0,
    standard deviation 1) or minmax (range 0 to 1); recommended for models that depend on distances;
    after the steps"""
    allow: list[Prefix] = []
    """Additional packages or modules from which the estimator may be imported"""


class FoldsSection(Section):
    """The cross-validation that determines the cost of a subset."""

    kind: Literal[
        "auto", "stratified", "random", "group", "stratified_group", "time", "purged", "column"
    ] = "auto"
    """How the training rows are divided into folds; auto is time if split.kind is time, else purged
    with data.horizon, else by group with data.group, else stratified for classifiers and random for
    regressors; group and stratified_group need data.group, time (trained on earlier rows) and
    purged (on both sides) need data.time, column needs folds.column"""
    n_folds: Annotated[int, Field(ge=2)] = 5
    """Number of folds"""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of fold partitions; the cost of a subset is its mean over the folds of all, but only
    subsets that may be the best are evaluated on more than the first"""
    rotate: Count = 0
    """With repeats: search on one partition at a time and change it every so many epochs, then
    evaluate the best subsets of each on all; 0 uses all partitions together"""
    shuffle: bool = True
    """Whether to shuffle the rows before the division"""
    seed: Seed | None = None
    """Seed of the shuffle; null uses the top-level seed"""
    column: Column | None = None
    """Column with the fold in which each row is tested, for kind column; rows without a value are
    always trained on, so a single fold is a hold-out; never a feature"""
    gap: Count = 0
    """Rows left out between training and test rows, for kind time"""
    max_train_size: PositiveCount | None = None
    """Maximum number of training rows of a fold, the latest ones (a rolling window), for kind time;
    null uses all earlier rows (an expanding window)"""
    test_size: PositiveCount | None = None
    """Number of test rows of a fold, for kind time; null divides the rows by folds.n_folds + 1"""
    embargo: Count = 0
    """Rows left out after the test rows and their targets, for kind purged"""

    @model_validator(mode="after")
    def _partitions_can_be_drawn(self) -> Self:
        if self.repeats > 1 and (self.kind in ("time", "purged", "column") or not self.shuffle):
            given = f"kind {self.kind!r}" if self.shuffle else "shuffle false"
            raise sentence(
                f"folds.repeats {self.repeats} needs folds that depend on a seed, got {given};"
                " set folds.repeats to 1, or use folds of another kind"
            )
        if self.rotate and self.repeats == 1:
            raise sentence(
                f"folds.rotate {self.rotate} changes the fold partition, but there is only one;"
                " set folds.repeats to 2 or more, or folds.rotate to 0"
            )
        return self

    @model_validator(mode="after")
    def _column_is_there(self) -> Self:
        if self.kind == "column" and self.column is None:
            raise sentence(
                "folds.kind 'column' needs folds.column; set it to the column with the folds"
            )
        return self


class SpaceSection(Section):
    """Constraints on the subsets."""

    fixed: list[Column] = []
    """Features or groups in every subset"""
    forbidden: list[Column] = []
    """Features or groups in no subset"""
    groups: dict[Column, Annotated[list[Column], Field(min_length=1)]] = {}
    """Columns of each group by name; they are selected together or not at all"""
    min_size: PositiveCount = 1
    """Minimum number of units in a subset"""
    max_size: PositiveCount | None = None
    """Maximum number of units in a subset; null for no limit"""

    costs: dict[Column, NotNegative] = {}
    """What a feature, or a group as a whole, costs to obtain, such as money or time; 1 for all
    others; of subsets that are equally good the cheapest wins, where it is the smallest without
    costs"""
    cost_weight: NotNegative = 0.0
    """How much worse a subset may be for each unit of cost that it saves: the search minimises the
    cross-validated cost plus this times the cost of the features"""

    @model_validator(mode="after")
    def _sizes_are_in_order(self) -> Self:
        if self.max_size is not None and self.max_size < self.min_size:
            raise sentence(
                f"space.max_size must be at least space.min_size {self.min_size},"
                f" got {self.max_size}"
            )
        return self


class PrepareSection(Section):
    """What is computed before the search."""

    n_clusters: PositiveCount | None = None
    """Number of clusters of similar features from which the initial positions are drawn, at most
    the number of units; null uses twice the square root of the number of units, rounded up, and at
    most 50"""


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
