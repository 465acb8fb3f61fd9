"""Lint the English of pages, docstrings, comments and messages.

Usage: ``python docs/lint_prose.py [PATH ...]``, by default over the whole project. The checks are
those of proselint that suit technical prose, and `WORDS`: private expressions, each with the
term that people search for. Code in pages and docstrings is left out.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from proselint.checks import __register__ as CHECKS
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, types
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("swarm", "tasks", "flows", "conf", "studies", "benchmarks", "examples", "docs")
PAGES = ("README.md",)
# Typographic quotes, dates and units are not for code and tables.
OFF = (
    "dates_times",
    "lexical_illusions",
    "needless_variants",
    "restricted",
    "social_awareness",
    "typography",
    "uncomparables",
    "weasel_words",
)

WORDS = {
    "cannot be told from": "is not significantly different from",
    "comes to": "totals, is",
    "deaf to": "ignores",
    "for ever": "permanently",
    "gone on with": "resumed",
    "hang on": "depend on",
    "hangs on": "depends on",
    "in a word": "briefly",
    "is stood for by": "is sampled to",
    "is told from": "is estimated from",
    "judged by": "evaluated by",
    "not told apart": "not significantly different",
    "nothing was said": "the default",
    "the model that counts": "the full model",
    "the time ahead": "the ETA",
    "to the same bytes": "byte-identical",
    "told apart": "distinguished",
    "whoever paid": "cached folds included",
}


class Blank:
    """Text with everything but prose replaced by spaces, so that positions stay."""

    def __init__(self, text: str) -> None:
        self.characters = [c if c == "\n" else " " for c in text]
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def keep(self, line: int, column: int, text: str) -> None:
        """Put prose back at its place; lines count from 1."""
        for number, part in enumerate(text.split("\n")):
            start = self.starts[line - 1 + number] + (column if number == 0 else 0)
            self.characters[start : start + len(part)] = part

    def __str__(self) -> str:
        return re.sub(r"``[^`]*``|`[^`\n]*`|https?://\S+", _spaces, "".join(self.characters))


def prose_of(path: Path) -> str:
    """Return the prose of a file, every character at its own place."""
    text = path.read_text(encoding="utf-8")
    blank = Blank(text)
    if path.suffix == ".py":
        for line, column, part in _python(text):
            blank.keep(line, column, part)
        return re.sub(r"^\s*(?:>>>|\.\.\.).*$", _spaces, str(blank), flags=re.M)
    blank.keep(1, 0, re.sub(r"^(`{3,}|~{3,}).*?^\1 *$", _spaces, text, flags=re.M | re.S))
    return str(blank)


def _python(text: str) -> Iterator[tuple[int, int, str]]:
    """Comments, docstrings, and strings that read like sentences, with where they start."""
    documented = {
        node.body[0].lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        sentence = token.type == tokenize.STRING and token.string.count(" ") > 2
        if token.type == tokenize.COMMENT or sentence or token.start[0] in documented:
            yield *token.start, token.string


def _spaces(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def main(arguments: list[str]) -> int:
    """Print what is found, a line each, and return how much that is."""
    registry = CheckRegistry()
    registry.register_many(tuple(c for c in CHECKS if not c.path.startswith(OFF)))
    message = "Say '{}' instead of '{}'."
    registry.register(Check(types.PreferredForms(WORDS), path="words", message=message))
    config = {**DEFAULT, "checks": {**DEFAULT["checks"], "words": True}}
    paths = [Path(name) for name in arguments] or [
        *(ROOT / name for name in PAGES),
        *(
            p
            for place in PLACES
            for kind in ("py", "md")
            for p in (ROOT / place).rglob(f"*.{kind}")
        ),
    ]
    found = 0
    for path in sorted(paths):
        for each in LintFile(path, prose_of(path)).lint(config):
            line, column = each.pos
            print(f"{path}:{line}:{column}: {each.check_result.message}")
            found += 1
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
