"""Tests that benchmarks and studies still run, as nobody runs them for weeks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from tests import ROOT

_SCRIPTS = sorted(
    [
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("benchmarks/arena/*.py"),
        *ROOT.glob("studies/*.py"),
    ]
)


@pytest.mark.slow
def test_every_benchmark_and_study_can_be_imported() -> None:
    assert len(_SCRIPTS) > 15
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    for folder in sorted({script.parent for script in _SCRIPTS}):
        names = [script.stem for script in _SCRIPTS if script.parent == folder]
        process = subprocess.run(
            [sys.executable, "-c", code, *names],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr


def run_at_fixed_sizes(script: str, folder: Path, out: Path, *options: str) -> str:
    """Run a benchmark of selectors at fixed sizes on the tables of a folder; return its summary."""
    command = [sys.executable, script, "--tables", str(folder), "--out", str(out), *options]
    process = subprocess.run(
        [*command, "--models", "logistic regression", "--seconds", "1"],
        cwd=ROOT / "benchmarks" / "arena",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
def test_selectors_at_fixed_sizes_are_scored_on_unseen_rows_and_compared(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.assign(label=y).to_parquet(tmp_path / "wine.parquet")
    out = tmp_path / "rows.csv"
    selectors = ["--selectors", "all columns", "F", "RFECV", "ours"]
    summary = run_at_fixed_sizes("fixed_size.py", tmp_path, out, *selectors)
    rows = pd.read_csv(out)
    assert rows["selector"].tolist() == selectors[1:] * 3
    assert rows["n_selected"].tolist() == [13, 10, 10, 10, 13, 2, 2, 2, 13, 6, 6, 6]
    assert (rows["score"] > 0.8).all()
    assert "mean rank" in summary

    late = ["--selectors", "SFS", "--longest", "0.001"]
    run_at_fixed_sizes("fixed_size.py", tmp_path, out, *late)
    before = out.read_text()
    rows = pd.read_csv(out)[-3:]
    assert rows["selector"].tolist() == ["SFS", "SFS", "SFS"]
    assert rows["score"].isna().all()
    run_at_fixed_sizes("fixed_size.py", tmp_path, out, *late)
    assert out.read_text() == before


@pytest.mark.slow
def test_the_share_of_real_columns_is_that_of_the_selected_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    X = pd.DataFrame(y[:, None] + rng.normal(scale=0.3, size=(120, 12)))
    X.add_prefix("c").assign(label=y).to_parquet(tmp_path / "real.parquet")
    out = tmp_path / "rows.csv"
    options = ["--parts", "2", "--sizes", "10"]
    selectors = ["--selectors", "all columns", "F", "random"]
    summary = run_at_fixed_sizes("fixed_noise.py", tmp_path, out, *options, *selectors)
    rows = pd.read_csv(out).set_index("selector")
    assert (rows["n_columns"] == 24).all()
    assert rows.loc["F", "real"].tolist() == [1.0, 1.0]
    assert rows.loc["all columns", "real"].tolist() == [0.5, 0.5]
    for _, row in rows.loc["random"].iterrows():
        names = row["columns"].split()
        assert len(names) == 10
        assert row["real"] == sum(not name.startswith("noise") for name in names) / 10
    assert (rows["score"] > 0.8)[["F", "all columns"]].all()
    assert "stability" in summary
