"""Tests that every error of the source is one sentence that says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import swarm.errors
from swarm.errors import SwarmError
from tests import ROOT

PACKAGES = ("swarm", "tasks", "flows", "conf")
ERRORS = {
    name
    for name, cls in vars(swarm.errors).items()
    if isinstance(cls, type) and issubclass(cls, SwarmError)
}
# A remedy, or what would be right, follows the fault.
REMEDY = re.compile(r"; |\bmust\b|\bneeds?\b|\brequires?\b|there (is|are)|it has|belongs in")
# This mark stands for a value, which is unknown here.
VALUE = "\N{OBJECT REPLACEMENT CHARACTER}"


def text_of(node: ast.expr) -> str | None:
    """Return the sentence with a mark for each value; None if it is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) or VALUE for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (text_of(node.left) or VALUE) + (text_of(node.right) or VALUE)
    return None


def errors() -> Iterator[tuple[str, str]]:
    """Yield the place and the sentence of every error that is raised with a sentence."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
                    text = text_of(node.args[0]) if node.args else None
                    if text is not None:
                        yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def test_every_error_is_one_sentence_that_says_what_to_do() -> None:
    raised = list(errors())
    assert len(raised) > 200
    for place, text in raised:
        # The last lines of a log may follow.
        assert "\n" not in text.removesuffix(f":\n{VALUE}"), place
        assert ". " not in text, place
        assert not text.endswith("."), place
        assert text == text.strip(), place
        # A value may be the remedy.
        assert REMEDY.search(text) or text.endswith(VALUE), f"{place}: {text}"
