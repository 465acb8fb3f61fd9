"""Tests that the library works alone, and that calls are readable."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.command import ROOT


def test_the_library_works_without_prefect_and_mlflow_and_its_names_are_not_modules() -> None:
    """A public name is an object, even where a module of the same name is imported."""
    code = (
        "import pkgutil, sys, types\n"
        "sys.modules |= dict.fromkeys(('prefect', 'mlflow', 'tasks', 'flows', 'conf'))\n"
        "import swarm\n"
        "for module in pkgutil.walk_packages(swarm.__path__, 'swarm.'):\n"
        "    __import__(module.name)\n"
        "public = {name: getattr(swarm, name) for name in swarm.__all__}\n"
        "print(*[name for name, value in public.items() if isinstance(value, types.ModuleType)])"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert not process.stdout.split()


def test_no_call_has_more_than_five_positional_arguments() -> None:
    """Calls that take a list of equal things, such as columns or lines, are exempt."""
    lists = {"sa.Table", "echo"}
    crowded = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for layer in ("swarm", "tasks", "flows", "conf")
        for path in sorted((ROOT / layer).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and len(node.args) > 5 and ast.unparse(node.func) not in lists
    ]
    assert not crowded
