"""The library stands alone, and calls are readable; lint-imports holds the layers themselves."""

from __future__ import annotations

import ast
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


def test_no_call_has_more_than_five_positional_arguments() -> None:
    """But for those that take a list of equal things: columns of a table, lines of text."""
    lists = {"sa.Table", "echo"}
    crowded = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for layer in ("swarm", "tasks", "flows", "conf")
        for path in sorted((ROOT / layer).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and len(node.args) > 5 and ast.unparse(node.func) not in lists
    ]
    assert not crowded
