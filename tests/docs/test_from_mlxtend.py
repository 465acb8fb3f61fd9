"""Tests of the examples of mlxtend's documentation: both libraries find the same."""

from __future__ import annotations

import re
import warnings

import pytest

from tests import ROOT

pytest.importorskip("mlxtend")

PAGE = ROOT / "docs" / "from-mlxtend.md"
FILES = (PAGE, ROOT / "tests" / "from_mlxtend.md")
SECTIONS = [re.split(r"^## ", file.read_text(), flags=re.MULTILINE) for file in FILES]
EXAMPLES = {section.splitlines()[0]: section for _, *sections in SECTIONS for section in sections}


def blocks(section: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


def test_every_example_of_the_document_is_there() -> None:
    numbers = [int(re.match(r"Example (\d+)", title)[1]) for title in EXAMPLES]  # type: ignore[index]
    assert sorted(numbers) == sorted([*range(1, 14), 13, 14])


@pytest.mark.parametrize("title", EXAMPLES)
@pytest.mark.docs
def test_both_find_the_same(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    code = blocks(EXAMPLES[title])
    assert any("import SequentialFeatureSelector as SFS" in block for block in code)
    assert any("import SubsetSelector" in block and "assert " in block for block in code)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in (*blocks(SECTIONS[1][0]), *code):
            exec(compile(block, f"{PAGE.name}: {title}", "exec"), names)
