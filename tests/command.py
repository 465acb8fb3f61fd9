"""The `swarm` command in the process of the tests, and its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main

ROOT = Path(__file__).resolve().parents[1]

# The lines that announce a stage begin with these words.
STAGES = ("starting", "connecting", "locking", "reading", "preparing", "evaluating")


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The sentence that bad input ends in, after the lines of the stages before it."""
        assert self.status == 2, self
        assert self.out == ""
        *stages, line = self.err.splitlines()
        assert all(stage.startswith(STAGES) for stage in stages), stages
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
        output = capsys.readouterr()
        return Said(status, output.out, output.err)

    return run
