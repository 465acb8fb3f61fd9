"""Benchmarks and studies follow the library: nobody runs them for weeks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


X, Y = load_wine(return_X_y=True, as_frame=True)
