"""The configurations of a select run, a refresh and a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, field_validator, model_validator

from conf.base import (
    ClassPath,
    FindingCode,
    Fraction,
    Location,
    Name,
    NotNegative,
    Params,
    PositiveCount,
    PosLabel,
    Prefix,
    Scoring,
    Section,
    Seed,
    Text,
    Workers,
    sentence,
)
from conf.sections import (
    ArchiveSection,
    BudgetSection,
    ConfirmSection,
    DataSection,
    EnsembleSection,
    EvaluationSection,
    FoldsSection,
    HoldoutSection,
    ModelSection,
    PrefilterSection,
    PrepareSection,
    ProxySection,
    RetriesSection,
    Schedule,
    SpaceSection,
    SplitSection,
    StrategySection,
    TrackingSection,
    WarmSection,
)

# Names become parts of file names, metric names and run names.
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
# Sections that a data set may override.
_OWN = ("split", "model", "scoring", "pos_label", "folds", "space", "prepare")

Label = bool | int | str
Threshold = Annotated[FiniteFloat, Field(gt=0)]


class SelectConfig(Section):
    """The configuration of one run; only `name` and `data` are required."""

    name: Name
    """Name of the run and of the registered model: letters, digits, dots, underscores and
    hyphens"""
    description: str | None = None
    """Purpose of the run, stored with the run"""
    seed: Seed = 0
    """Seed of everything that has no seed of its own"""
    data: DataSection
    """The table and the roles of its columns"""
    split: SplitSection = SplitSection()
    """The test rows, which no search sees"""
    model: ModelSection = ModelSection()
    """Model that evaluates the subsets"""
    scoring: Scoring = None
    pos_label: PosLabel = None
    folds: FoldsSection = FoldsSection()
    """Folds of the cross-validation"""
    space: SpaceSection = SpaceSection()
    """Constraints on the subsets"""
    prepare: PrepareSection = PrepareSection()
    """Preparation of the search"""
    strategy: StrategySection = StrategySection()
    """Search algorithm"""
    warm: WarmSection | None = None
    """Saved subsets that the strategy evaluates first; null starts without"""
    budget: BudgetSection = BudgetSection()
    """When the search ends"""
    evaluation: EvaluationSection = EvaluationSection()
    """How subsets are evaluated"""
    proxy: ProxySection | None = None
    """Cheaper model that guides the search; the best subsets are evaluated on the full model; null
    searches on the full model"""
    prefilter: PrefilterSection | None = PrefilterSection(when="auto")
    """Rank all units by the importances of the model, and search the first ones, as many as have
    the lowest cost on fresh folds; by default for tables of more than 5,000 columns; null searches
    all"""
    confirm: ConfirmSection | None = ConfirmSection()
    """Evaluation of the best subsets on fresh folds, which selects among them; null takes the
    lowest cost on the folds of the search"""
    ensemble: EnsembleSection = EnsembleSection()
    """Ensemble of models of the best subsets"""
    test: HoldoutSection = HoldoutSection()
    """How the result is evaluated on the test rows"""
    tracking: TrackingSection = TrackingSection()
    """MLflow tracking store"""
    archive: ArchiveSection = ArchiveSection()
    """Cache of evaluations"""
    retries: RetriesSection = RetriesSection()
    """Retries of an epoch"""
    mute: list[FindingCode] = []
    """Codes of findings that are not reported, such as SWM112"""
    schedule: Schedule = None

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

    name: Text | None = None
    """Name in the model registry; null uses the name of the run"""
    metric: Text | None = None
    """Metric or scorer on the test rows that decides; null uses the scorer of the search"""
    margin: NotNegative = 0.0
    """Minimum gain of a challenger, in units of the metric"""
    confidence: Fraction = 0.95
    """Share of bootstrap resamples in which the gain must exceed the margin"""
    approve: bool = False
    """Ask before a challenger that won replaces the champion: a deployed run pauses and shows the
    comparison in a form, a command asks on the terminal"""
    approve_seconds: Annotated[int, Field(ge=1, le=82_800)] = 43_200
    """Seconds to wait for an approval; after them the champion is kept"""
    publish: Location | None = None
    """Path or fsspec URL of the published features.json; null publishes none"""
    wait_seconds: NotNegative = 0.0
    """Seconds to wait for another refresh of the same champion; 0 fails at once"""
    on_missing: Literal["stop", "replace"] = "stop"
    """If the champion cannot be compared, as the table lacks its columns, or has other types or
    another target: stop, or replace it by the challenger"""


class DriftSection(Section):
    """Thresholds for the drift of the champion's columns."""

    psi: Threshold = 0.2
    """Threshold of the population stability index (PSI)"""
    ks: Threshold = 0.2
    """Threshold of the Kolmogorov-Smirnov distance (KS)"""
    action: Literal["warn", "stop"] = "warn"
    """Action above a threshold: log a warning, or stop before the search"""


class RefreshConfig(SelectConfig):
    """A select run whose result becomes the champion if it is better."""

    champion: ChampionSection
    """The champion, and when a challenger replaces it"""
    drift: DriftSection = DriftSection()
    """Thresholds for the drift of the champion's columns"""

    @property
    def champion_name(self) -> str:
        """Name in the model registry."""
        return self.champion.name or self.name


class DatasetSection(Section):
    """One data set; a section set here replaces the top-level section as a whole."""

    data: DataSection
    """Where the table comes from, and what its columns are"""
    split: SplitSection | None = None
    """Test rows; null uses the top-level section"""
    model: ModelSection | None = None
    """Model that evaluates the subsets; null uses the top-level section"""
    scoring: Text | None = None
    """Scorer whose cost is minimised; null uses the top-level one"""
    pos_label: Label | None = None
    """Positive label; null uses the top-level one"""
    folds: FoldsSection | None = None
    """Folds of the cross-validation; null uses the top-level section"""
    space: SpaceSection | None = None
    """Constraints on the subsets; null uses the top-level section"""
    prepare: PrepareSection | None = None
    """Preparation of the searches; null uses the top-level section"""


class ComparedStrategySection(Section):
    """One of the compared strategies, or a feature selector compared with them."""

    name: Text | None = None
    """Name of a registered strategy; null uses the label"""
    selector: ClassPath | None = None
    """Import path of a feature selector that follows scikit-learn, compared in place of a strategy,
    under sklearn, lightgbm, swarm or a prefix in allow"""
    params: Params = {}
    """Parameters of the strategy or the selector; others keep their defaults"""
    estimator: ModelSection | None = None
    """Model inside the selector; null uses the model of the data set"""
    allow: list[Prefix] = []
    """Additional packages or modules from which the selector may be imported"""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.selector is not None and self.name is not None:
            raise sentence(
                f"name {self.name!r} is a strategy and selector {self.selector!r} is compared in"
                " place of one; remove one of them"
            )
        for key in ("estimator", "allow"):
            if self.selector is None and getattr(self, key):
                raise sentence(f"{key} belongs to a selector, which is null; set selector")
        return self


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
    """Name of the comparison: letters, digits, dots, underscores and hyphens"""
    description: str | None = None
    """Purpose of the comparison, stored with the run"""
    datasets: dict[str, DatasetSection]
    """Data sets by name"""
    strategies: dict[str, ComparedStrategySection]
    """Strategies by label"""
    seeds: Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1)] = 3
    """Seeds of the searches: a list, or a number n for 0 to n - 1"""
    reference: str | None = None
    """Label of the strategy that all others are tested against; null tests all pairs"""
    resample: bool = False
    """Whether each seed has its own test rows: seed s draws them by split.seed + s"""
    alpha: Fraction = 0.05
    """Significance level of the tests"""
    split: SplitSection | None = None
    """Test rows, for a test cost; null searches on all rows"""
    model: ModelSection = ModelSection()
    """Model that evaluates the subsets"""
    scoring: Scoring = None
    pos_label: PosLabel = None
    folds: FoldsSection = FoldsSection()
    """Folds of the cross-validation, the same for all searches"""
    space: SpaceSection = SpaceSection()
    """Constraints on the subsets"""
    prepare: PrepareSection = PrepareSection()
    """Preparation of the searches"""
    budget: CompareBudgetSection = CompareBudgetSection()
    """When each search ends"""
    evaluation: CompareEvaluationSection = CompareEvaluationSection()
    """How subsets are evaluated"""
    runner: RunnerSection = RunnerSection()
    """Task runner of the searches"""
    tracking: TrackingSection = TrackingSection()
    """MLflow tracking store"""
    archive: ArchiveSection = ArchiveSection()
    """Cache of evaluations, shared by all searches"""
    retries: RetriesSection = RetriesSection()
    """Retries of a search"""
    mute: list[FindingCode] = []
    """Codes of findings that are not reported, such as SWM112"""
    schedule: Schedule = None

    @field_validator("strategies", mode="before")
    @classmethod
    def _bare_labels_have_defaults(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {label: {} if section is None else section for label, section in value.items()}

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        for key, names in (("datasets", self.datasets), ("strategies", self.strategies)):
            _refuse_names(key, list(names))
        if isinstance(self.seeds, list):
            repeated = [seed for seed in self.seeds if self.seeds.count(seed) > 1]
            if repeated:
                raise sentence(
                    f"seeds contains {repeated[0]} twice, so that one search would count twice;"
                    " remove one of them"
                )
        if self.reference is not None and self.reference not in self.strategies:
            raise sentence(
                f"reference must be a label of strategies, {', '.join(self.strategies)},"
                f" got {self.reference!r}"
            )
        return self

    @property
    def seed_list(self) -> list[int]:
        """Seeds of the searches as a list."""
        return list(self.seeds) if isinstance(self.seeds, list) else list(range(self.seeds))

    def is_selector(self, label: str) -> bool:
        """Whether a label is that of a feature selector rather than of a strategy."""
        return self.strategies[label].selector is not None

    @property
    def is_judged_on_test(self) -> bool:
        """Whether ranks and tests are about the test rows: they are with selectors or resamples.

        A search minimises its cross-validated cost and a selector need not, so that this cost
        would favour searches.
        """
        return self.resample or any(self.is_selector(label) for label in self.strategies)

    def strategy(self, label: str) -> StrategySection:
        """Return the strategy behind a label; for a selector the one without a search."""
        rival = self.strategies[label]
        if rival.selector is not None:
            return StrategySection(name="full")
        return StrategySection(name=rival.name or label, params=rival.params)

    def shift(self, seed: int) -> int:
        """Return what the seed of a search adds to the seed of the split."""
        return seed if self.resample else 0

    def own_split(self, dataset: str) -> SplitSection | None:
        """Return the split of a data set, or None if all rows are searched."""
        return self.datasets[dataset].split or self.split

    def as_select(self, dataset: str, label: str, seed: int = 0) -> SelectConfig:
        """Return one search as a select configuration, with the sections of its data set.

        The seed of the folds does not depend on `seed`: all searches on a data set share one
        problem, unless each seed has test rows of its own.
        """
        section = self.datasets[dataset]
        own = {
            name: getattr(self, name) if getattr(section, name) is None else getattr(section, name)
            for name in _OWN
        }
        folds, split = own["folds"], own["split"] or SplitSection()
        return SelectConfig(
            name=f"{dataset}-{label}-{seed}",
            seed=seed,
            data=section.data,
            strategy=self.strategy(label),
            budget=self.budget,
            evaluation=self.evaluation,
            tracking=self.tracking,
            archive=self.archive,
            retries=self.retries,
            # Strategies are compared by what they find on the same folds.
            confirm=None,
            **{
                **own,
                "folds": folds.model_copy(update={"seed": folds.seed or 0}),
                "split": split.model_copy(update={"seed": (split.seed or 0) + self.shift(seed)}),
            },
        )


def _refuse_names(key: str, names: list[str]) -> None:
    if not names:
        raise sentence(f"{key} must have at least one entry, got none; add one")
    seen: dict[str, str] = {}
    for name in names:
        if not _NAME.match(name):
            raise sentence(
                f"{key} must have names of at most 40 letters, digits, '.', '_' or '-' that begin"
                f" with a letter or digit, as files are named after them, got {name!r}"
            )
        # Some file systems ignore case.
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise sentence(
                f"{key} has {other!r} and {name!r}, which would name one file; rename one"
            )
