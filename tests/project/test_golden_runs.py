"""Tests that whole searches keep their answers: the shipped example, and five other kinds.

The answers are in ``tests/golden/runs/<name>.json``. Record them, or record them again after an
intended change, with::

    REFRESH_GOLDEN=1 python -m pytest tests/project/test_golden_runs.py -m "slow or not slow"
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, make_multilabel_classification
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.naive_bayes import GaussianNB

from swarm import MLkNN, SubsetSelector
from tests import ROOT
from tests.command import Swarm

GOLDEN = ROOT / "tests" / "golden" / "runs"

# Every search records these columns of an epoch, equal on all machines.
HISTORY = [
    "epoch", "best_cost", "best_size", "pbest_cost_mean", "pbest_cost_median", "size_mean",
    "diversity", "evaluations", "distinct_evaluations", "fits", "folds_pruned",
    "failed_evaluations",
]  # fmt: skip


def digest(history: pd.DataFrame) -> str:
    columns = [*HISTORY, *sorted(history.filter(regex=r"^swarm_\d+_best_cost$"))]
    return hashlib.sha256(history[columns].round(12).to_csv(index=False).encode()).hexdigest()


def check(name: str, now: dict[str, Any]) -> None:
    now = json.loads(json.dumps(now), parse_float=lambda number: round(float(number), 12))
    golden = GOLDEN / f"{name}.json"
    if os.environ.get("REFRESH_GOLDEN"):
        golden.write_text(json.dumps(now, indent=2) + "\n")
    assert json.loads(golden.read_text()) == now


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_default_configuration_gives_its_recorded_answer(
    swarm: Swarm, prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = swarm("select", "default", "--json", "--quiet")
    assert run.status == 0, run.err
    answer = json.loads(run.out)
    (history,) = tmp_path.rglob("history.parquet")
    check(
        "default",
        {
            "features": answer["features"],
            "cost": answer["cost"],
            "confirmed_cost": answer["confirmation"]["cost"],
            "confirmed_verdict": answer["confirmation"]["verdict"],
            "test_costs": {
                name: contender["cost"]
                for name, contender in answer["evaluation"]["contenders"].items()
            },
            "history_sha256": digest(pd.read_parquet(history)),
        },
    )


def regression() -> tuple[SubsetSelector, pd.DataFrame, Any, dict[str, Any]]:
    """Forward selection with real fits, pruned."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = lgb.LGBMRegressor(n_estimators=5, num_leaves=4, n_jobs=1, verbosity=-1)
    return SubsetSelector(model, strategy="sffs", cv=4, confirm={"best": 5, "repeats": 2}), X, y, {}


def labels() -> tuple[SubsetSelector, pd.DataFrame, Any, dict[str, Any]]:
    """Bees on several labels, by the fast path of nearest neighbours."""
    X, y = make_multilabel_classification(240, 24, n_classes=5, random_state=0)
    selector = SubsetSelector(MLkNN(), strategy="bee_colony", budget=4, confirm=True)
    return selector, pd.DataFrame(X).add_prefix("x"), y, {}


def groups() -> tuple[SubsetSelector, pd.DataFrame, Any, dict[str, Any]]:
    """Rows of forty groups that share an offset, which no fold may divide."""
    rng = np.random.default_rng(0)
    group = rng.integers(40, size=300)
    X = rng.normal(size=(300, 20)) + rng.normal(size=(40, 20))[group]
    y = (X[:, 0] - X[:, 1] + X[:, 2] + rng.normal(size=300) > 0).astype(int)
    cv = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    selector = SubsetSelector(GaussianNB(), cv=cv, budget=12, confirm={"goal": "balanced"})
    return selector, pd.DataFrame(X).add_prefix("x"), y, {"groups": group}


def wide() -> tuple[SubsetSelector, pd.DataFrame, Any, dict[str, Any]]:
    """More columns than rows, of which rankings know as much as the search."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 150))
    y = (X[:, :4].sum(axis=1) + rng.normal(size=80) > 0).astype(int)
    selector = SubsetSelector(GaussianNB(), budget=12, confirm=True)
    return selector, pd.DataFrame(X).add_prefix("x"), y, {}


def genes() -> tuple[SubsetSelector, pd.DataFrame, Any, dict[str, Any]]:
    """Many more columns than rows, where rankings replace the search."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 600))
    y = (X[:, :4].sum(axis=1) + rng.normal(size=64) > 0).astype(int)
    return SubsetSelector(GaussianNB()), pd.DataFrame(X).add_prefix("x"), y, {}


@pytest.mark.parametrize("build", [regression, labels, groups, wide, genes])
def test_a_search_gives_its_recorded_answer(build: Callable[[], Any]) -> None:
    selector, X, y, of_rows = build()
    # The test rows of grouped rows are whole groups.
    unit = of_rows.get("groups", np.arange(len(X)))
    test = unit >= np.quantile(unit, 0.75)
    seen = {name: values[~test] for name, values in of_rows.items()}
    selector.fit(X[~test], y[~test], **seen)
    unseen = [values[test] for values in of_rows.values()]
    head = selector.judge(X[~test], y[~test], (X[test], y[test], *unseen), **seen)
    check(
        build.__name__,
        {
            "features": selector.subset_,
            "cost": selector.cost_,
            "n_fits": selector.n_fits_,
            "confirmed_cost": selector.confirmation_.cost,
            "confirmed_verdict": selector.confirmation_.verdict,
            "verdict": head.verdict,
            "history_sha256": digest(selector.history_),
        },
    )
