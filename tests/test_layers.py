"""Who may import whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import swarm

ROOT = Path(__file__).resolve().parents[1]


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_the_layers_hold() -> None:
    done = _python(
        "import sys; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(no_cache=True))"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_library_loads_neither_prefect_nor_mlflow_nor_the_layers_above() -> None:
    done = _python(
        "import pkgutil, sys, swarm\n"
        "heavy = {'prefect', 'mlflow', 'matplotlib', 'ucimlrepo'}\n"
        "print('first', *sorted(heavy & set(sys.modules)))\n"
        "for module in pkgutil.walk_packages(swarm.__path__, 'swarm.'):\n"
        "    __import__(module.name)\n"
        "foreign = {'prefect', 'mlflow', 'tasks', 'flows', 'conf'}\n"
        "print('all', *sorted(foreign & set(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["first", "all"]


def test_every_public_name_can_be_imported_however_the_library_was_entered() -> None:
    """Also where a module of the same name was imported before, which sets an attribute."""
    done = _python(
        "import importlib, pkgutil, swarm\n"
        "for module in pkgutil.walk_packages(swarm.__path__, 'swarm.'):\n"
        "    importlib.import_module(module.name)\n"
        "kinds = {name: type(getattr(swarm, name)).__name__ for name in swarm.__all__}\n"
        "print(len(kinds), [name for name, kind in kinds.items() if kind == 'module'])"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(swarm.__all__)), "[]"]


def test_help_and_a_bare_import_load_no_numerical_library() -> None:
    done = _python(
        "import sys, swarm, flows.cli\n"
        "print(*sorted({'numpy', 'sklearn', 'pandas', 'prefect', 'mlflow'} & set(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
