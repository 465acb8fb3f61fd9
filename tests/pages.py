"""The contents of the documentation: blocks of code, command lines and links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = ("config-reference.md", "cli-reference.md", "strategies.md", "findings.md")

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
# This matches the target of a link or an image: [text](target).
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of the fence, and its text."""

    page: str
    language: str
    info: str
    text: str

    @property
    def title(self) -> str | None:
        """The name of the file that the block shows, if any."""
        match = re.search(r'title="([^"]+)"', self.info)
        return match[1] if match else None

    @property
    def runs(self) -> bool:
        """Whether the block is Python that runs by itself."""
        return self.language == "python" and self.title is None and "no-run" not in self.info


def pages() -> list[Path]:
    """Return every page of the site, and the pages beside it that people read first."""
    by_hand = ("README.md", "CONTRIBUTING.md", "AGENTS.md")
    return [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in by_hand)]


def blocks(page: Path) -> list[Block]:
    """Return every fenced block, in order."""
    fences = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page.name, language, info, text) for language, info, text in fences]


def command_lines(page: Path) -> list[list[str]]:
    """Return the words after `swarm` of every command line in a block."""
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
    """Return the targets of all links."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
