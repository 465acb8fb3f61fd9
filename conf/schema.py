"""The configuration of one select run."""

from __future__ import annotations

from conf.base import FindingCode, Name, PosLabel, Scoring, Section, Seed
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
    ConfirmSection,
    EnsembleSection,
    EvaluationSection,
    HoldoutSection,
    PrefilterSection,
    ProxySection,
    RetriesSection,
    StrategySection,
    TrackingSection,
    WarmSection,
)
from conf.schedule_section import Schedule

__all__ = ["SelectConfig"]


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
