"""What the `swarm` command said, run in the process of the tests, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main

ROOT = Path(__file__).resolve().parents[1]

# First words of the lines that announce a stage.
STAGES = ("starting", "connecting", "locking", "reading", "preparing", "timing", "evaluating")


@dataclass(frozen=True)
class Said:
    """Output of a command, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one sentence that bad input ends in, after the stages that came before it."""
        assert self.status == 2, self
        assert self.out == ""
        *stages, line = self.err.splitlines()
        assert all(each.startswith(STAGES) for each in stages), stages
        assert line.startswith("swarm: "), line
        assert "Traceback" not in line
        return line.removeprefix("swarm: ")


Swarm = Callable[..., Said]


def command_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swarm:
    """Return a function that runs `swarm` with arguments."""

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["swarm", *arguments])
        capsys.readouterr()
        status: Any = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        told = capsys.readouterr()
        return Said(status, told.out, told.err)

    return run


def imported_by(*arguments: str, folder: Path = ROOT) -> set[str]:
    """Names of the modules that a command imports, in a process of its own."""
    code = (
        "import sys\nfrom flows.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code, ended.code\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", code, *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())
