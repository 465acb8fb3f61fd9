"""The configuration of one select run."""

from __future__ import annotations

from pydantic import Field

from conf.base import Name, PosLabel, Scoring, Section, Seed
from conf.problem_sections import (
    DataSection,
    FoldsSection,
    ModelSection,
    PrepareSection,
    SpaceSection,
    SplitSection,
)
from conf.run_sections import (
    ArchiveSection,
    BudgetSection,
    EnsembleSection,
    EvaluationSection,
    HoldoutSection,
    ProxySection,
    RetriesSection,
    StrategySection,
    TrackingSection,
)
from conf.schedule_section import Schedule

__all__ = ["SelectConfig"]


class SelectConfig(Section):
    """Everything that one run needs to know; only `name` and `data` have no default."""

    name: Name = Field(
        description="Name of the run and of the registered model: letters, digits, dots,"
        " underscores and hyphens",
    )
    description: str | None = Field(
        default=None, description="What the run is for, kept with the run"
    )
    seed: Seed = Field(
        default=0, description="Seed of everything random that has no seed of its own"
    )
    data: DataSection = Field(description="Where the table comes from, and what its columns are")
    split: SplitSection = Field(default=SplitSection(), description="Rows kept aside for the test")
    model: ModelSection = Field(default=ModelSection(), description="Model that judges the subsets")
    scoring: Scoring = None
    pos_label: PosLabel = None
    folds: FoldsSection = Field(
        default=FoldsSection(), description="Folds that give each subset its cost"
    )
    space: SpaceSection = Field(default=SpaceSection(), description="Subsets that may be proposed")
    prepare: PrepareSection = Field(
        default=PrepareSection(), description="Preparation of the search"
    )
    strategy: StrategySection = Field(default=StrategySection(), description="Search algorithm")
    budget: BudgetSection = Field(default=BudgetSection(), description="When the search ends")
    evaluation: EvaluationSection = Field(
        default=EvaluationSection(), description="How subsets are evaluated"
    )
    proxy: ProxySection | None = Field(
        default=None,
        description="Cheaper model to search on, the best subsets being measured on the full one;"
        " null searches on the full one",
    )
    ensemble: EnsembleSection = Field(
        default=EnsembleSection(), description="Models of the best subsets"
    )
    test: HoldoutSection = Field(default=HoldoutSection(), description="How the answer is judged")
    tracking: TrackingSection = Field(
        default=TrackingSection(), description="Where MLflow keeps the runs"
    )
    archive: ArchiveSection = Field(
        default=ArchiveSection(), description="Where evaluations are kept"
    )
    retries: RetriesSection = Field(
        default=RetriesSection(), description="How often an epoch is tried"
    )
    schedule: Schedule = None

    @property
    def split_seed(self) -> int:
        """Seed of the split: its own, else the top one."""
        return self.seed if self.split.seed is None else self.split.seed

    @property
    def folds_seed(self) -> int:
        """Seed of the folds: their own, else the top one."""
        return self.seed if self.folds.seed is None else self.folds.seed
