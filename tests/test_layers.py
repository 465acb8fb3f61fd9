"""What an import loads; lint-imports holds the layers themselves, in make check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def printed(code: str) -> list[str]:
    """What a fresh interpreter prints, in words."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_library_is_whole_and_loads_neither_prefect_nor_mlflow_nor_the_layers_above() -> None:
    """Public names stay those of objects where a module of the same name was imported before."""
    words = printed(
        "import pkgutil, sys, swarm\n"
        "heavy = {'prefect', 'mlflow', 'matplotlib', 'ucimlrepo'}\n"
        "print('first', *sorted(heavy & set(sys.modules)))\n"
        "for module in pkgutil.walk_packages(swarm.__path__, 'swarm.'):\n"
        "    __import__(module.name)\n"
        "foreign = {'prefect', 'mlflow', 'tasks', 'flows', 'conf'}\n"
        "print('all', *sorted(foreign & set(sys.modules)))\n"
        "kinds = {name: type(getattr(swarm, name)).__name__ for name in swarm.__all__}\n"
        "print('modules', *[name for name, kind in kinds.items() if kind == 'module'])"
    )
    assert words == ["first", "all", "modules"]


def test_help_and_a_bare_import_load_no_numerical_library() -> None:
    words = printed(
        "import sys, swarm, flows.cli\n"
        "print(*sorted({'numpy', 'sklearn', 'pandas', 'prefect', 'mlflow'} & set(sys.modules)))"
    )
    assert words == []
