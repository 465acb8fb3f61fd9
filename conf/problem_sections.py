"""The sections that say what is to be solved: table, split, model, folds, features."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from conf.base import Column, Fraction, Location, Params, PositiveCount, Section, Seed, sentence

__all__ = [
    "DataSection",
    "FoldsSection",
    "ModelSection",
    "PrepareSection",
    "SpaceSection",
    "SplitSection",
]


class DataSection(Section):
    """Where the table comes from, and what its columns are."""

    source: Literal["bundled", "file", "uci", "sql"] = Field(
        description="Where the table comes from: a data set bundled with scikit-learn, a file,"
        " the UCI repository or an SQL query"
    )
    name: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Name of the bundled data set, or of the UCI data set when it has no id",
    )
    id: PositiveCount | None = Field(default=None, description="Number of the UCI data set")
    path: Location | None = Field(
        default=None,
        description="CSV or Parquet file or fsspec URL for source file, relative to the current"
        " directory; ${NAME} is replaced by an environment variable when the file is read",
    )
    url: Location | None = Field(
        default=None,
        description="SQLAlchemy URL for source sql; ${NAME} is replaced by an environment variable"
        " when the connection is made",
    )
    query: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="SQL query whose rows are the table; it may only read"
    )
    target: Column | Annotated[list[Column], Field(min_length=1)] | None = Field(
        default=None,
        description="Column to predict, or a list of 0/1 label columns; null takes the data set's"
        " own, which only bundled and uci have",
    )
    drop: list[Column] = Field(default=[], description="Columns that are left out altogether")
    categorical: list[Column] = Field(
        default=[], description="Columns given to the model as categories"
    )
    categorical_support: bool = Field(
        default=False,
        description="Whether the model takes categories though neither its tags nor its parameters"
        " say so; those of LightGBM, CatBoost and XGBoost do",
    )
    group: Column | None = Field(
        default=None, description="Column of ids of rows that belong together; never a feature"
    )
    time: Column | None = Field(
        default=None, description="Column that orders the rows in time; never a feature"
    )
    weight: Column | None = Field(
        default=None, description="Column of sample weights; never a feature"
    )
    part: Column | None = Field(
        default=None, description="Column that says train or test for each row; never a feature"
    )

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
    """Which rows are kept aside for the test, where no search ever sees them."""

    kind: Literal["random", "stratified", "group", "time", "column"] = Field(
        default="random",
        description="How the test rows are chosen: at random, with the classes in proportion, by"
        " whole groups (data.group), the latest ones (data.time) or as data.part says",
    )
    test_size: Fraction = Field(
        default=0.3, description="Share of the rows, or of the groups, kept for the test"
    )
    seed: Seed | None = Field(
        default=None, description="Seed of the split; null takes the top seed"
    )


class ModelSection(Section):
    """The model that every subset is judged by."""

    estimator: str = Field(
        default="lightgbm.LGBMClassifier",
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        description="Import path of a scikit-learn compatible classifier or regressor, under"
        " sklearn, lightgbm, swarm or a prefix of model.allow",
    )
    params: Params = Field(default={}, description="Arguments of the estimator")
    scaling: Literal["none", "standard", "minmax"] = Field(
        default="none",
        description="What is done to the features before the estimator, learned from training rows"
        " alone: nothing, mean 0 and deviation 1, or the range from 0 to 1; models that measure"
        " distances need one of the latter",
    )
    allow: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\.?$")]] = Field(
        default=[], description="Further packages or modules the estimator may be imported from"
    )


class FoldsSection(Section):
    """The cross-validation that gives each subset its cost."""

    kind: Literal["stratified", "random", "group", "stratified_group", "time", "column"] = Field(
        default="stratified",
        description="How the training rows are cut into folds; group and stratified_group need"
        " data.group, time needs data.time, column needs folds.column",
    )
    n_folds: Annotated[int, Field(ge=2)] = Field(default=5, description="Number of folds")
    shuffle: bool = Field(default=True, description="Whether rows are shuffled before they are cut")
    seed: Seed | None = Field(
        default=None, description="Seed of the shuffle; null takes the top seed"
    )
    column: Column | None = Field(
        default=None,
        description="Column that holds the fold each row is tested in, for kind column; rows"
        " without one are always trained on, so that a single fold is a hold-out; never a feature",
    )

    @model_validator(mode="after")
    def _column_is_there(self) -> Self:
        if self.kind == "column" and self.column is None:
            raise sentence("folds.kind 'column' needs folds.column; set it to the column of folds")
        return self


class SpaceSection(Section):
    """Which subsets may be proposed at all."""

    fixed: list[Column] = Field(
        default=[], description="Features or groups that are in every subset"
    )
    forbidden: list[Column] = Field(
        default=[], description="Features or groups that are in no subset"
    )
    groups: dict[Column, Annotated[list[Column], Field(min_length=1)]] = Field(
        default={},
        description="Name of a group to its columns, which are chosen together or not at all",
    )
    min_size: PositiveCount = Field(default=1, description="Fewest units in a subset")
    max_size: PositiveCount | None = Field(
        default=None, description="Most units in a subset; null for no limit"
    )

    @model_validator(mode="after")
    def _sizes_are_in_order(self) -> Self:
        if self.max_size is not None and self.max_size < self.min_size:
            raise sentence(
                f"space.max_size must be at least space.min_size {self.min_size},"
                f" got {self.max_size}"
            )
        return self


class PrepareSection(Section):
    """What is computed once before the search."""

    n_clusters: PositiveCount | None = Field(
        default=None,
        description="Clusters of similar features that first positions are drawn from, at most as"
        " many as there are units; null takes twice the square root of the number of units, rounded"
        " up, and at most 50",
    )
