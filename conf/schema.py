"""The configurations of a select run, a refresh and a comparison."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, ValidationError, field_validator

from conf.base import (
    Contradiction,
    Description,
    FindingCode,
    Fraction,
    Location,
    Name,
    NotNegative,
    Params,
    PositiveCount,
    PosLabel,
    Scoring,
    Section,
    Seed,
    Text,
    Workers,
)
from conf.sections import (
    BudgetSection,
    ConfirmSection,
    DataSection,
    EnsembleSection,
    EvaluationSection,
    FoldsSection,
    HoldoutSection,
    ModelSection,
    PrepareSection,
    ProxySection,
    SpaceSection,
    SplitSection,
    StrategySection,
)
from conf.stores import ArchiveSection, ScheduleSection, TrackingSection

# A data set may override these sections.
_OVERRIDABLE = ("split", "model", "scoring", "pos_label", "folds", "space", "prepare")

# The labels of data sets and strategies are parts of the names of files, metrics and runs.
Entry = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
Label = bool | int | str
Subset = Annotated[list[Text], Field(min_length=1)]


class SelectConfig(Section):
    """The configuration of one run; only `name` and `data` are required."""

    name: Name
    description: Description = None
    seed: Seed = 0
    """Seed of everything that has no seed of its own"""
    data: DataSection
    split: SplitSection = SplitSection()
    model: ModelSection = ModelSection()
    scoring: Scoring = None
    pos_label: PosLabel = None
    folds: FoldsSection = FoldsSection()
    space: SpaceSection = SpaceSection()
    prepare: PrepareSection = PrepareSection()
    strategy: StrategySection = StrategySection()
    warm: list[Subset] | Location | None = None
    """Subsets of columns that the strategy evaluates first: a list, the best first, the path or
    fsspec URL of a features.json, or the id of a run in the tracking store; null starts without"""
    budget: BudgetSection = BudgetSection()
    evaluation: EvaluationSection = EvaluationSection()
    proxy: ProxySection | None = None
    prefilter: Literal["auto", "always"] | None = "auto"
    """Rank all units by the importances of the model, and search the first ones, as many as have
    the lowest cost on fresh folds, but at least 20: always, or by auto for tables of more than
    5,000 columns; null searches all, which a strategy that compares pairs of columns refuses above
    5,000"""
    confirm: ConfirmSection | None = ConfirmSection()
    ensemble: EnsembleSection = EnsembleSection()
    serve: Literal["subset", "ensemble"] | None = None
    """Which of the two stored models is registered, and becomes champion: subset, one model of the
    columns to keep, or ensemble, the vote of the best subsets; null is the subset unless the
    ensemble beats it on the test rows by more than the standard error of their difference, and is
    not worse than all columns"""
    test: HoldoutSection = HoldoutSection()
    tracking: TrackingSection = TrackingSection()
    archive: ArchiveSection = ArchiveSection()
    mute: list[FindingCode] = []
    """Codes of findings that are not reported, such as SWM112"""
    schedule: ScheduleSection | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield columns with two roles, kinds without their column, and gaps of other kinds."""
        yield from self._columns_with_two_roles()
        split = self.split
        folds = self.folds
        roles = {"group": "group", "stratified_group": "group", "time": "time"}
        for key, kind, role in (
            ("split.kind", split.kind, {**roles, "column": "part"}.get(split.kind)),
            ("folds.kind", folds.kind, roles.get(folds.kind)),
        ):
            if role is not None and getattr(self.data, role) is None:
                yield key, f"{kind!r} needs data.{role}, which is null; set it to a column"
        if self.data.part is not None and split.kind != "column":
            yield (
                "data.part",
                f"is for split kind 'column', got kind {split.kind!r}; set split.kind",
            )
        # Targets with and without classes have the same folds in time.
        for section, gap, resolved_kind in (
            ("split", split.gap, split.kind),
            ("folds", folds.gap, self.kind_of_folds(classes=True)),
        ):
            if gap and resolved_kind != "time":
                text = f"{gap} is for kind 'time', got kind {resolved_kind!r}"
                yield f"{section}.gap", f"{text}; set {section}.kind to 'time', or leave it out"

    def _columns_with_two_roles(self) -> Iterator[Contradiction]:
        data = self.data
        targets = [data.target] if isinstance(data.target, str) else data.target or []
        roles = dict.fromkeys(targets, "data.target")
        named = {"data.group": data.group, "data.time": data.time, "data.weight": data.weight}
        named |= {"data.part": data.part, "folds.column": self.folds.column}
        for key, name in named.items():
            if name in roles:
                yield key, f"{name!r} is also {roles[name]}; remove it from one of them"
            elif name is not None:
                roles[name] = key
        for key, columns in (("data.drop", data.drop), ("data.categorical", data.categorical)):
            for name in columns:
                if name in roles:
                    yield key, f"has {name!r}, which is also {roles[name]}; remove it from one"

    def kind_of_folds(self, *, classes: bool) -> str:
        """Return the kind of the folds, ``auto`` resolved for targets with or without classes."""
        if self.folds.kind != "auto":
            return self.folds.kind
        if self.split.kind == "time":
            return "time"
        if self.data.group is not None:
            # A target of several columns has no classes to stratify by.
            is_multilabel = isinstance(self.data.target, list)
            return "stratified_group" if classes and not is_multilabel else "group"
        return "stratified" if classes else "random"

    @property
    def split_seed(self) -> int:
        """Seed of the split: its own, else the top one."""
        return self.seed if self.split.seed is None else self.split.seed

    @property
    def folds_seed(self) -> int:
        """Seed of the folds: their own, else the top one."""
        return self.seed if self.folds.seed is None else self.folds.seed


class ChampionSection(Section):
    """The champion, and when a challenger replaces it."""

    margin: NotNegative = 0.0
    """Minimum gain of a challenger on the test rows, in units of the metric of the search"""
    confidence: Fraction = 0.95
    """Confidence that the gain exceeds the margin"""
    least_rows: PositiveCount = 100
    """Minimum number of test rows to promote a challenger on, with ten of each class; on fewer, or
    if they give no interval, the champion is kept"""
    approve: bool = False
    """Ask before a challenger that won replaces the champion: a deployed run pauses for at most
    twelve hours and shows the comparison in a form; a run by hand keeps the champion, and prints
    the command that promotes the challenger"""
    publish: Location | None = None
    """Path or fsspec URL of the published features.json; null publishes none"""
    on_missing: Literal["stop", "replace"] = "stop"
    """If the champion cannot be compared, as the table lacks its columns, or has other types,
    target or labels, or as it does worse than guessing: stop, or replace it by the challenger"""
    allow: list[Literal["new_labels", "fewer_rows"]] = []
    """What else does not stop a refresh: new_labels, labels besides all those of the champion;
    fewer_rows, a table of less than half as many rows as that of the champion"""


class DriftSection(Section):
    """Drift of the champion's columns."""

    threshold: Annotated[FiniteFloat, Field(gt=0)] = 0.2
    """Threshold of the population stability index (PSI) and of the Kolmogorov-Smirnov distance
    (KS)"""
    action: Literal["warn", "stop"] = "warn"
    """Action above a threshold: log a warning, or stop before the search"""


class RefreshConfig(SelectConfig):
    """A select run whose result becomes the champion if it is better."""

    champion: ChampionSection
    drift: DriftSection = DriftSection()


class DatasetSection(Section):
    """One data set; a section set here replaces the top-level section as a whole."""

    data: DataSection
    split: SplitSection | None = None
    model: ModelSection | None = None
    scoring: Text | None = None
    """Scorer whose cost is minimised; null uses the top-level one"""
    pos_label: Label | None = None
    """Positive label; null uses the top-level one"""
    folds: FoldsSection | None = None
    space: SpaceSection | None = None
    prepare: PrepareSection | None = None


class ComparedStrategySection(Section):
    """One of the compared strategies."""

    name: Text | None = None
    """Name of a registered strategy; null uses the label"""
    params: Params = {}
    """Parameters of the strategy; others keep their defaults"""


class CompareBudgetSection(BudgetSection):
    """When each search ends: at the first limit that is reached, equal for all searches."""

    epochs: PositiveCount | None = None
    """Maximum number of epochs"""
    distinct: PositiveCount | None = 600
    """Maximum number of distinct evaluations"""


class CompareEvaluationSection(EvaluationSection):
    """How subsets are evaluated; searches run in parallel, so each has one worker by default."""

    n_jobs: Workers = 1
    """Workers of each search; -1 for one per core"""


class RunnerSection(Section):
    """The task runner, which runs searches in parallel."""

    kind: Literal["threads", "processes", "dask", "ray"] = "threads"
    """Prefect task runner; dask needs the package prefect-dask, ray prefect-ray"""
    workers: PositiveCount = 2
    """Number of searches that run at once"""
    address: str | None = None
    """Address of the Dask or Ray scheduler; null starts local processes"""


class CompareConfig(Section):
    """The configuration of one comparison."""

    name: Name
    description: Description = None
    datasets: Annotated[dict[Entry, DatasetSection], Field(min_length=1)]
    strategies: Annotated[dict[Entry, ComparedStrategySection], Field(min_length=1)]
    seeds: Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1)] = 3
    """Seeds of the searches: a list, or a number n for 0 to n - 1"""
    reference: str | None = None
    """Label of the strategy that all others are tested against; null tests all pairs"""
    resample: bool = False
    """Whether each seed has its own test rows: seed s draws them by split.seed + s"""
    split: SplitSection | None = None
    """The test rows, for a test cost; null searches on all rows"""
    model: ModelSection = ModelSection()
    scoring: Scoring = None
    pos_label: PosLabel = None
    folds: FoldsSection = FoldsSection()
    space: SpaceSection = SpaceSection()
    prepare: PrepareSection = PrepareSection()
    budget: CompareBudgetSection = CompareBudgetSection()
    evaluation: CompareEvaluationSection = CompareEvaluationSection()
    runner: RunnerSection = RunnerSection()
    tracking: TrackingSection = TrackingSection()
    archive: ArchiveSection = ArchiveSection()
    mute: list[FindingCode] = []
    """Codes of findings that are not reported, such as SWM112"""
    schedule: ScheduleSection | None = None

    @field_validator("strategies", mode="before")
    @classmethod
    def _bare_labels_have_defaults(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {label: {} if section is None else section for label, section in value.items()}

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield names of one file, repeated seeds, unknown references, and refused data sets."""
        for key in ("datasets", "strategies"):
            # Some file systems ignore case.
            for label, following in pairwise(sorted(getattr(self, key), key=str.lower)):
                if label.lower() == following.lower():
                    text = f"has {label!r} and {following!r}, which would name one file"
                    yield key, f"{text}; rename one"
        for seed in {seed for seed in self.seed_list if self.seed_list.count(seed) > 1}:
            yield "seeds", f"contains {seed} twice, which would count one search twice; remove one"
        if self.reference is not None and self.reference not in self.strategies:
            labels = ", ".join(self.strategies)
            yield "reference", f"must be a label of strategies, {labels}, got {self.reference!r}"
        runner = self.runner
        if runner.address is not None and runner.kind not in ("dask", "ray"):
            text = f"{runner.address!r} is for dask and ray, got {runner.kind!r}"
            yield "runner.address", f"{text}; set runner.kind, or remove the address"
        for name in self.datasets:
            yield from self._clashes(name)

    def _clashes(self, dataset: str) -> Iterator[Contradiction]:
        """Yield what a search on a data set would refuse."""
        try:
            self.as_select(dataset, next(iter(self.strategies)))
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                key = ".".join(map(str, detail["loc"]))
                yield f"datasets.{dataset}", f"cannot be searched: {key} {detail['msg']}"
        split = self.split_of(dataset)
        kind = "null" if split is None else split.kind
        if self.resample and kind in ("null", "time", "column"):
            text = f"needs a split that a seed can change, got {kind!r} for {dataset!r}"
            yield "resample", f"{text}; set split.kind to 'random', 'stratified' or 'group'"

    @property
    def seed_list(self) -> list[int]:
        """Seeds of the searches as a list."""
        return list(self.seeds) if isinstance(self.seeds, list) else list(range(self.seeds))

    def strategy(self, label: str) -> StrategySection:
        """Return the strategy behind a label."""
        section = self.strategies[label]
        return StrategySection(name=section.name or label, params=section.params)

    def shift(self, seed: int) -> int:
        """Return what the seed of a search adds to the seed of the split."""
        return seed if self.resample else 0

    def split_of(self, dataset: str) -> SplitSection | None:
        """Return the split of a data set, or None if all rows are searched."""
        return self.datasets[dataset].split or self.split

    def as_select(self, dataset: str, label: str, seed: int = 0) -> SelectConfig:
        """Return one search as a select configuration, with the sections of its data set.

        The seed of the folds does not depend on `seed`: all searches on a data set share one
        problem, unless each seed has test rows of its own.
        """
        section = self.datasets[dataset]
        sections = {
            name: getattr(self, name) if getattr(section, name) is None else getattr(section, name)
            for name in _OVERRIDABLE
        }
        folds = sections["folds"]
        split = sections["split"] or SplitSection()
        return SelectConfig(
            name=f"{dataset}-{label}-{seed}",
            seed=seed,
            data=section.data,
            strategy=self.strategy(label),
            budget=self.budget,
            evaluation=self.evaluation,
            tracking=self.tracking,
            archive=self.archive,
            # A comparison is of costs on the folds of the search, not on fresh ones.
            confirm=None,
            **{
                **sections,
                "folds": folds.model_copy(update={"seed": folds.seed or 0}),
                "split": split.model_copy(update={"seed": (split.seed or 0) + self.shift(seed)}),
            },
        )
