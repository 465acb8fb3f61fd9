"""What an import loads; lint-imports holds the layers themselves, in make check."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.command import ROOT, imported_by
from tests.small_run import Bench

# Each of these packages costs more processor time than the command may take.
HEAVY = {"sklearn", "pandas", "scipy", "numba", "sqlalchemy", "mlflow", "prefect", "lightgbm"}
WORKFLOW = {"mlflow", "prefect"}
WRITERS = {"prefect", "sklearn", "lightgbm", "swarm.problem.problem"}
UNNEEDED = {
    "--help": {*HEAVY, "numpy"},
    "select --help": HEAVY,
    "config show default": HEAVY,
    "config check default": HEAVY,
    "features RUN_ID --tracking-uri STORE": HEAVY,
    "runs --experiment EXPERIMENT --tracking-uri STORE": WRITERS,
    "check small.yaml": WORKFLOW,
    "init table.csv --target y": WORKFLOW,
}


@pytest.mark.parametrize("command", UNNEEDED)
def test_a_command_imports_no_more_than_it_needs(command: str, bench: Bench) -> None:
    bench.file()
    run_id = bench.tracking.start_run("a run", {"kind": "select"})
    bench.tracking.client.log_dict(run_id, {"features": ["x1"]}, "features.json")
    names = {"RUN_ID": run_id, "STORE": bench.uri, "EXPERIMENT": bench.experiment}
    words = [names.get(word, word) for word in command.split()]
    imported = imported_by(*words, folder=bench.folder)
    assert "swarm" in imported
    assert not imported & UNNEEDED[command]


def test_the_library_is_whole_and_loads_neither_prefect_nor_mlflow_nor_the_layers_above() -> None:
    """Public names stay those of objects where a module of the same name was imported before."""
    code = (
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
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["first", "all", "modules"]
