"""What the README shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from flows.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_prints_a_cost_and_features(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    cost, _, names = capsys.readouterr().out.strip().partition(" ")
    assert 0 <= float(cost) < 0.05
    assert "'" in names


def test_every_command_is_documented_and_every_documented_command_has_help():
    documented = set(re.findall(r"^\| `swarm ([a-z]+(?: [a-z-]+)?)\b", README, flags=re.MULTILINE))
    documented = {name.strip() for name in documented}
    there = {command.callback.__name__ for command in app.registered_commands}
    for group in app.registered_groups:
        commands = group.typer_instance.registered_commands
        there |= {f"{group.name} {command.name}" for command in commands}
    assert documented == there
    for name in there:
        shown = CliRunner().invoke(app, [*name.split(), "--help"])
        assert shown.exit_code == 0
        assert "Usage" in shown.output


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
