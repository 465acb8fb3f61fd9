"""What the pages of the documentation hold: blocks of code, command lines, links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = ("config-reference.md", "cli-reference.md", "strategies.md", "findings.md")

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
# [text](target), but no image's alternative text, and nothing inside of a block of code.
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what else stands on the fence, and its text."""

    page: str
    language: str
    info: str
    text: str

    @property
    def title(self) -> str | None:
        """The file that the block says it is."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else None

    @property
    def runs(self) -> bool:
        """Whether it is Python that stands for itself."""
        return self.language == "python" and self.title is None and "no-run" not in self.info


def pages() -> list[Path]:
    """Every page of the site, and those beside it that people read first."""
    by_hand = ("README.md", "CONTRIBUTING.md", "AGENTS.md")
    return [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in by_hand)]


def blocks(page: Path) -> list[Block]:
    """Give every fenced block, in order."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page.name, language, info, text) for language, info, text in found]


def command_lines(page: Path) -> list[list[str]]:
    """Give every command line of the project in a block, in words; `swarm` itself left out."""
    lines = []
    for block in blocks(page):
        if block.language not in ("console", "bash"):
            continue
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            prompt, _, rest = line.partition("$ ")
            if block.language == "console" and (prompt or not rest):
                continue
            words = shlex.split(rest if block.language == "console" else line, comments=True)
            while words and (
                "=" in words[0] or words[0] in ("docker", "compose", "exec", "worker")
            ):
                words = words[1:]
            if words and words[0] in ("swarm", ".venv/bin/swarm"):
                lines.append(words[1:])
    return lines


def links(page: Path) -> list[str]:
    """Give the targets of all links."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
