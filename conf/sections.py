"""The sections of a configuration: their keys, defaults, descriptions and bounds."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from conf.base import (
    ClassPath,
    Column,
    Contradiction,
    Count,
    Fraction,
    Importance,
    Location,
    NotNegative,
    Params,
    PositiveCount,
    Section,
    Seed,
    Text,
    Workers,
)


class CsvSection(Section):
    """How a text file is written, and which cells of it or of an Excel file are missing."""

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Character between two columns; null is a tab for .tsv, else the one of comma, semicolon, tab
    and | that divides the first lines into most columns"""
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
    name: Text | PositiveCount | None = None
    """Name of the bundled data set, or name or id of the UCI data set, such as 75"""
    path: Location | None = None
    """File or fsspec URL for source file, relative to the current directory: text (.csv, .tsv or
    .txt, also compressed), Excel (.xlsx, its first sheet) or Parquet; ${NAME} is replaced by an
    environment variable when the file is read"""
    url: Location | None = None
    """SQLAlchemy URL of a SQLite or PostgreSQL database, for source sql; ${NAME} is replaced by an
    environment variable when the connection is made"""
    query: Text | None = None
    """One SELECT that returns the table; whatever would write is refused"""
    target: Column | Annotated[list[Column], Field(min_length=1)] | None = None
    """Column to predict, or a list of 0/1 label columns; null uses the target of the data set, for
    bundled and uci only"""
    on_missing_target: Literal["stop", "drop"] = "stop"
    """What to do with rows whose target is missing: stop, or drop them, such as the newest rows of
    a scheduled refresh"""
    drop: list[Column] = []
    """Columns to ignore: names, patterns such as lag_*, or types such as dtype:category (number,
    category, text, date or boolean). A pattern or type has to match a column, and matches none that
    has a role such as target or group; a column that is named like a pattern is that column"""
    categorical: list[Column] = []
    """Columns passed to the model as categories"""
    dates: dict[Column, str | None] = {}
    """Columns of dates and their format, such as %d.%m.%Y; null for ISO 8601, ISO8601 for the same
    with hours. Each is replaced by the features NAME_year, NAME_month, NAME_day and NAME_weekday,
    and NAME_hour if the format has hours; times with an offset are converted to UTC"""
    csv: CsvSection = CsvSection()
    group: Column | None = None
    """Column of group ids, for rows that belong together; never a feature"""
    time: Column | None = None
    """Column that orders the rows in time; never a feature"""
    weight: Column | None = None
    """Column of sample weights; never a feature"""
    weights_in_score: bool = False
    """Whether the sample weights count in the scores of folds and test rows too, not in training
    alone; needs data.weight and a scorer that takes weights"""
    part: Column | None = None
    """Column with train or test for each row; never a feature"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield keys that the source needs or does not read, and roles that need others."""
        keys = {
            "bundled": ("name",),
            "file": ("path", "target"),
            "uci": ("name",),
            "sql": ("url", "query", "target"),
        }[self.source]
        missing = [f"data.{key}" for key in keys if getattr(self, key) is None]
        if missing:
            pronoun = "it" if len(missing) == 1 else "them"
            yield "source", f"{self.source!r} needs {' and '.join(missing)}; set {pronoun}"
        if self.source != "file" and self.csv != CsvSection():
            yield "csv", f"is for source file, got source {self.source!r}; remove it"
        if self.weights_in_score and self.weight is None:
            yield "weights_in_score", "needs sample weights; set data.weight"


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


class StepSection(Section):
    """A transformer before the model, fitted on the training rows of each fold."""

    transformer: Literal[
        "sklearn.impute.SimpleImputer",
        "sklearn.impute.KNNImputer",
        "sklearn.preprocessing.OneHotEncoder",
        "sklearn.preprocessing.OrdinalEncoder",
        "sklearn.preprocessing.TargetEncoder",
        "sklearn.preprocessing.KBinsDiscretizer",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.preprocessing.MinMaxScaler",
        "sklearn.preprocessing.MaxAbsScaler",
        "sklearn.preprocessing.RobustScaler",
        "sklearn.preprocessing.PowerTransformer",
        "sklearn.preprocessing.QuantileTransformer",
    ]
    """Import path of an imputer, encoder or scaler of scikit-learn"""
    params: Params = {}
    """Arguments of the transformer"""
    columns: Literal["numbers", "categories"] | None = None
    """Columns that it transforms: numbers or categories; null is categories for encoders, and
    numbers for others"""


class ModelSection(Section):
    """The model that evaluates every subset."""

    estimator: ClassPath = "lightgbm.LGBMClassifier"
    """Import path of a scikit-learn compatible classifier or regressor, under sklearn, lightgbm,
    swarm or a prefix in model.allow"""
    params: Params = {}
    """Arguments of the estimator"""
    steps: list[StepSection] = []
    """Imputers, encoders and scalers before the model, in this order, fitted on the training rows
    of each fold, so that models take missing values and categories; a StandardScaler is recommended
    for models that depend on distances"""
    early_stopping: PositiveCount | None = None
    """Number of trees without an improvement on a fifth of the training rows, which a boosted model
    holds out, after which its training ends, in the folds and in the ensemble alike; its number of
    trees is then the maximum; null trains all"""
    allow: list[Text] = []
    """Additional packages or modules from which the estimator, and a function in scoring, may be
    imported"""


class FoldsSection(Section):
    """The cross-validation that determines the cost of a subset."""

    kind: Literal["auto", "stratified", "random", "group", "stratified_group", "time", "column"] = (
        "auto"
    )
    """How the training rows are divided into folds; auto is time if split.kind is time, else by
    group with data.group, else stratified for classifiers and random for regressors; group and
    stratified_group need data.group, time (trained on earlier rows) needs data.time, column needs
    folds.column"""
    n_folds: Annotated[int, Field(ge=2)] = 5
    """Number of folds"""
    shuffle: bool = True
    """Whether to shuffle the rows before the division"""
    seed: Seed | None = None
    """Seed of the shuffle; null uses the top-level seed"""
    column: Column | None = None
    """Column with the fold in which each row is tested, for kind column; rows without a value are
    always trained on, so a single fold is a hold-out; never a feature"""
    gap: Count = 0
    """Rows left out between training and test rows, for kind time"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the column that the kind needs."""
        if self.kind == "column" and self.column is None:
            yield "column", "must name the column with the folds for kind 'column', got null"
        if self.kind != "column" and self.column is not None:
            yield "column", f"is for kind 'column', got kind {self.kind!r}; set folds.kind"


class SpaceSection(Section):
    """Constraints on the subsets."""

    fixed: list[Column] = []
    """Features or groups in every subset, by name, pattern or type as in data.drop"""
    forbidden: list[Column] = []
    """Features or groups in no subset, by name, pattern or type"""
    groups: dict[Column, Column | Annotated[list[Column], Field(min_length=1)]] = {}
    """Columns of each group by name, or a pattern such as addr_*; they are selected together or not
    at all"""
    min_size: PositiveCount = 1
    """Minimum number of units in a subset"""
    max_size: PositiveCount | None = None
    """Maximum number of units in a subset; null for no limit"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield sizes in the wrong order, and columns that are fixed and forbidden."""
        min_size = self.min_size
        if self.max_size is not None and self.max_size < min_size:
            yield "max_size", f"must be at least space.min_size {min_size}, got {self.max_size}"
        fixed = self._names_by_column(self.fixed)
        forbidden = self._names_by_column(self.forbidden)
        for column in [column for column in fixed if column in forbidden]:
            by = " and ".join(dict.fromkeys((repr(fixed[column]), repr(forbidden[column]))))
            yield "forbidden", f"and space.fixed both cover {column!r}, by {by}; remove one of them"

    def _names_by_column(self, names: list[str]) -> dict[str, str]:
        """Return the item of `fixed` or `forbidden` that covers each column."""
        by_column: dict[str, str] = {}
        for name in names:
            columns = self.groups.get(name, name)
            by_column |= dict.fromkeys([columns] if isinstance(columns, str) else columns, name)
        return by_column


class PrepareSection(Section):
    """What is computed before the search."""

    n_clusters: PositiveCount | None = None
    """Number of clusters of similar features from which the initial positions are drawn, at most
    the number of units; null uses twice the square root of the number of units, rounded up, and at
    most 50"""


class StrategySection(Section):
    """The search algorithm."""

    name: Text = "auto"
    """Name of a registered strategy; auto is multiswarm, or without params rankings where columns
    outnumber the training rows more than ten times"""
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

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the section if nothing ends a search."""
        limits = ("epochs", "evaluations", "distinct", "fits", "seconds")
        if all(getattr(self, key) is None for key in limits):
            yield "", f"must limit one of {', '.join(limits)}, got null for all; set budget.epochs"


class EvaluationSection(Section):
    """How subsets are evaluated."""

    importance: Importance = "auto"
    """Source of feature importances: the fold models, permutation, mutual information or
    none; auto uses the fold models if they have importances"""
    n_jobs: Workers = -1
    """Number of workers; -1 for one per core"""
    backend: Literal["loky", "threading", "sequential", "dask"] = "loky"
    """Workers: processes, threads, none, or those of a Dask cluster"""
    address: Location | None = None
    """Address of the Dask scheduler; null starts n_jobs local processes"""
    timeout_seconds: Annotated[FiniteFloat, Field(gt=0, le=604_800)] | None = None
    """Timeout of one fit in seconds; a fit that exceeds it counts as failed and its worker is
    replaced; needs the backend loky; null for no timeout"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield keys that are for another backend."""
        remedy = f"got evaluation.backend {self.backend!r}; set that, or leave this out"
        if self.address is not None and self.backend != "dask":
            yield "address", f"{self.address!r} is for the backend 'dask', {remedy}"
        if self.timeout_seconds is not None and self.backend != "loky":
            seconds = f"{self.timeout_seconds:g}"
            yield "timeout_seconds", f"{seconds} is for the backend 'loky', {remedy}"


class ProxySection(Section):
    """A cheaper model, or a part of the rows, that guides the search; null searches without.

    The best subsets are evaluated on the full model and all rows.
    """

    params: Params = {}
    """Arguments of the estimator that differ from model.params, such as fewer trees"""
    rows: Fraction | None = None
    """Share of the training rows, stratified, and by whole groups with data.group; null for all"""
    best: PositiveCount = 16
    """Number of best subsets that are evaluated on the full model and all rows"""
    probes: Count = 12
    """Number of subsets, good and bad, that are evaluated on both to measure their rank
    correlation"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the section if its search would be that of the full model."""
        if not self.params and self.rows is None:
            yield "", "needs params or rows to be cheaper than the full model; set one of them"


class ConfirmSection(Section):
    """Evaluation of the best subsets on fresh folds, which selects among them.

    Null takes the lowest cost on the folds of the search.
    """

    best: PositiveCount = 20
    """Number of best subsets that are evaluated on fresh folds; where columns outnumber training
    rows, half of them are the highest-ranked columns by the F statistic and by extremely
    randomised trees, in up to nine sizes each, up to all columns; strategy rankings evaluates all
    of these sizes, and no others"""
    repeats: Annotated[int, Field(ge=1, le=100)] | None = None
    """Number of fresh fold partitions; null for five, or two where rankings replace the search,
    one if the table has more than 16 million cells"""
    goal: Literal["score", "balanced", "size"] = "balanced"
    """Which of them is the result: score, the lowest cost; balanced, the smallest that is not worse
    than the lowest cost by more than margin; size, the smallest that is not worse than all features
    by more than margin"""
    margin: NotNegative = 0.25
    """Mean difference in cost that does not matter, in standard errors of the paired difference
    over the fresh folds"""


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
    tolerance: Annotated[float, Field(ge=0)] | None = None
    """Loss against all columns that does not matter, in units of the metric of the search; null is
    0.05 of a score of at most 1, or of the error of guessing, but at most half of what all columns
    gain over guessing"""
