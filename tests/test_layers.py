"""The library stands alone; lint-imports holds the layers themselves, in make check."""

from __future__ import annotations

import subprocess
import sys

from tests.command import ROOT


def test_the_library_works_without_prefect_and_mlflow_and_its_names_are_not_modules() -> None:
    """Public names stay those of objects where a module of the same name was imported before."""
    code = (
        "import pkgutil, sys, types\n"
        "sys.modules |= dict.fromkeys(('prefect', 'mlflow', 'tasks', 'flows', 'conf'))\n"
        "import swarm\n"
        "for module in pkgutil.walk_packages(swarm.__path__, 'swarm.'):\n"
        "    __import__(module.name)\n"
        "public = {name: getattr(swarm, name) for name in swarm.__all__}\n"
        "print(*[name for name, each in public.items() if isinstance(each, types.ModuleType)])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split()
