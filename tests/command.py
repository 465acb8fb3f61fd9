"""What the `swarm` command said, run in the process of the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main

ROOT = Path(__file__).resolve().parents[1]

# First words of the lines that announce a stage.
STAGES = ("starting", "connecting", "locking", "reading", "preparing", "evaluating")


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
