"""A study of seconds: one small table, two strategies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from conf.problem_sections import DataSection, FoldsSection, ModelSection
from conf.run_sections import BudgetSection, EvaluationSection, StrategySection
from conf.schema import SelectConfig

__all__ = ["small_config", "small_table"]


def small_table(n_rows: int = 60, n_columns: int = 6) -> pd.DataFrame:
    """Two columns that tell the target, and noise."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        rng.normal(size=(n_rows, n_columns)), columns=[f"x{i}" for i in range(n_columns)]
    )
    target = (table["x0"] + table["x1"] + 0.5 * rng.normal(size=n_rows) > 0).astype(int)
    return table.assign(target=target)


def small_config(folder: Path) -> tuple[SelectConfig, dict[str, StrategySection]]:
    """Give a configuration of it, and its strategies."""
    path = folder / "small.parquet"
    small_table().to_parquet(path, index=False)
    config = SelectConfig(
        name="small",
        data=DataSection(source="file", path=str(path), target="target"),
        model=ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
        scoring="accuracy",
        folds=FoldsSection(kind="stratified", n_folds=3, seed=0),
        budget=BudgetSection(epochs=None, evaluations=40),
        evaluation=EvaluationSection(n_jobs=1),
    )
    return config, {name: StrategySection(name=name) for name in ("bpso", "full")}
