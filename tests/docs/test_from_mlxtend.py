"""The examples of mlxtend's documentation: their code runs, and both find the same."""

from __future__ import annotations

import re
import warnings

import pytest

from tests import ROOT

pytest.importorskip("mlxtend")

PAGE = ROOT / "docs" / "from-mlxtend.md"
FILES = (PAGE, ROOT / "tests" / "from_mlxtend.md")
PARTS = [re.split(r"^## ", file.read_text(), flags=re.MULTILINE) for file in FILES]
EXAMPLES = {part.splitlines()[0]: part for _, *parts in PARTS for part in parts}


def blocks(part: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)


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
        for block in (*blocks(PARTS[1][0]), *code):
            exec(compile(block, f"{PAGE.name}: {title}", "exec"), names)
