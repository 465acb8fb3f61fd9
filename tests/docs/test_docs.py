"""Tests that the documentation agrees with the code, and that its links work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from conf.load import from_yaml
from flows.cli import app
from swarm.strategies.catalogue import STRATEGIES
from tests.pages import DOCS, GENERATED, ROOT, blocks, command_lines, links, pages

BY_HAND = [page for page in pages() if page.name not in GENERATED]
# `test_docs_followed.py` follows these pages word by word.
FOLLOWED = ("start.md", "from-mlxtend.md", "README.md")
RUN = [page for page in BY_HAND if page.name not in FOLLOWED and any(b.runs for b in blocks(page))]
WITH_COMMANDS = [page for page in BY_HAND if command_lines(page)]


@pytest.mark.slow
def test_the_example_of_the_readme_prints_what_stands_under_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (block,) = [block for block in blocks(ROOT / "README.md") if block.runs]
    exec(compile(block.text, "README.md", "exec"), {"__name__": "readme"})
    said = capsys.readouterr().out
    assert f"```text\n{said}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_strategy_has_its_formula() -> None:
    formulas = yaml.safe_load((DOCS / "formulas.yaml").read_text(encoding="utf-8"))
    assert set(formulas) == set(STRATEGIES)


def test_every_page_is_in_the_navigation_once() -> None:
    def leaves(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        children = entry.values() if isinstance(entry, dict) else entry
        return [leaf for child in children for leaf in leaves(child)]

    listed = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    written = [
        page.relative_to(DOCS).as_posix()
        for extension in ("md", "ipynb")
        for page in DOCS.rglob(f"*.{extension}")
    ]
    assert sorted(listed) == sorted(written)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        assert file.exists(), f"{page.name} links to {target}"
        # The site has only the files of its folder.
        assert page.parent != DOCS or file.is_relative_to(DOCS), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    from markdown.extensions.toc import slugify

    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {slugify(re.sub(r"[`*]", "", title), "-") for title in titles}


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        if block.runs:
            exec(compile(block.text, page.name, "exec"), names)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_can_be_given(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.title and block.language == "yaml":
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    for words in command_lines(page):
        assert parses(words), f"{page.name}: swarm {' '.join(words)}"
        if words[0] in ("config", "strategies") and not {"NAME", "CONFIG", "my.yaml"} & {*words}:
            result = CliRunner().invoke(app, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output


def parses(words: list[str]) -> bool:
    """Return whether there is a command with these options and arguments; raise its error."""
    command: Any = typer.main.get_command(app)
    if words == ["--help"]:
        return True
    name = "swarm"
    while hasattr(command, "commands"):
        if words[0] not in command.commands:
            return False
        name, *words = words
        command = command.commands[name]
    command.make_context(name, list(words))
    return True


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: page.name)
def test_every_configuration_of_a_page_is_one(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml" and block.title:
            from_yaml(block.text, block.title, (), {})
