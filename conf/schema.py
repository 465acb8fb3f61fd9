"""The configuration of one select run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from conf.base import Section, Seed
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
from conf.schedule_section import ScheduleSection

__all__ = ["SelectConfig"]


class SelectConfig(Section):
    """Everything that one run needs to know; only `name` and `data` have no default."""

    name: Annotated[str, Field(max_length=100)] = Field(
        pattern=r"^[._-]*[A-Za-z0-9][A-Za-z0-9._-]*$",
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
    scoring: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="scikit-learn scorer whose cost is minimised; null is accuracy for classifiers"
        " and r2 for regressors",
    )
    pos_label: bool | int | str | None = Field(
        default=None, description="Label that counts as positive; null leaves it to the scorer"
    )
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
    schedule: ScheduleSection | None = Field(
        default=None, description="When `swarm serve` runs it; null for never by itself"
    )

    @property
    def split_seed(self) -> int:
        """Seed of the split: its own, else the top one."""
        return self.seed if self.split.seed is None else self.split.seed

    @property
    def folds_seed(self) -> int:
        """Seed of the folds: their own, else the top one."""
        return self.seed if self.folds.seed is None else self.folds.seed
