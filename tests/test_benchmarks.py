"""Benchmarks and studies follow the library: nobody runs them for weeks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_wine

_ROOT = Path(__file__).parents[1]
_SCRIPTS = sorted(
    [
        *_ROOT.glob("benchmarks/*.py"),
        *_ROOT.glob("benchmarks/arena/*.py"),
        *_ROOT.glob("studies/*.py"),
    ]
)


@pytest.mark.slow
def test_every_benchmark_and_study_can_be_imported() -> None:
    assert len(_SCRIPTS) > 15
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    for folder in sorted({script.parent for script in _SCRIPTS}):
        names = [script.stem for script in _SCRIPTS if script.parent == folder]
        ended = subprocess.run(
            [sys.executable, "-c", code, *names],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{_ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_selectors_at_fixed_sizes_are_scored_on_unseen_rows_and_compared(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.assign(label=y).to_parquet(tmp_path / "wine.parquet")
    out = tmp_path / "rows.csv"
    command = [sys.executable, "fixed_size.py", "--tables", str(tmp_path), "--out", str(out)]
    command += ["--models", "logistic regression", "--seconds", "1"]
    command += ["--selectors", "all columns", "F", "ours"]
    folder = _ROOT / "benchmarks" / "arena"
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rows = pd.read_csv(out)
    assert rows["selector"].tolist() == ["all columns", "F", "ours"] * 2
    assert rows["n_selected"].tolist() == [13, 10, 10, 13, 2, 2]
    assert (rows["score"] > 0.8).all()
    assert "mean rank" in ended.stdout
