"""The pages and examples are done, step by step, in a folder of their own (make docs-test)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT, blocks, command_lines

pytestmark = [pytest.mark.docs, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples"


def do(arguments: list[str], folder: Path, **environment: str) -> str:
    """Run Python with `arguments` in `folder`, and give all that it said."""
    given = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=given,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_ten_minutes_are_enough_from_a_table_to_a_report(tmp_path: Path) -> None:
    page = DOCS / "start.md"
    began = time.monotonic()
    python, said, run_id = [block for block in blocks(page) if block.runs], "", ""
    do(["-c", python[0].text], tmp_path)
    for block in blocks(page):
        if block.language == "yaml" and block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    for words in command_lines(page):
        given = [run_id if word == "RUN_ID" else word for word in words]
        said = do(["-m", "flows.cli", *given], tmp_path)
        if words[0] == "select":
            run_id = re.search(r"^run +([0-9a-f]{32}) ", said, flags=re.MULTILINE)[1]  # type: ignore[index]
            answer = re.search(r"ended by epochs\):\n(.*?)\nOn ", said, flags=re.DOTALL)[1]  # type: ignore[index]
            for deciding in ("signal_00", "signal_01", "age", "plan"):
                assert deciding in answer
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<svg") > 2
    for block in (b for b in blocks(page) if b.language == "python" and b is not python[0]):
        do(["-c", block.text], tmp_path)
    assert time.monotonic() - began < 600


def test_the_page_on_strategies_adds_one_that_keeps_the_contract(tmp_path: Path) -> None:
    page = DOCS / "add-a-strategy.md"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "swarm", tmp_path / "swarm", ignore=ignored)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=ignored)
    # It asks for servers, which no strategy needs.
    (tmp_path / "tests" / "conftest.py").unlink()
    file, registration = (block for block in blocks(page) if block.title)
    assert file.title is not None
    (tmp_path / file.title).write_text(file.text, encoding="utf-8")
    imported, line = registration.text.split("\n\n")
    known = tmp_path / str(registration.title)
    text = known.read_text(encoding="utf-8")
    first = "from swarm.strategies.ant_colony"
    known.write_text(
        text.replace(first, f"{imported}\n{first}").replace("}\n", f"{line}}}\n", 1),
        encoding="utf-8",
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    lines = [
        text
        for block in blocks(page)
        if block.language == "bash"
        for text in block.text.splitlines()
    ]
    for line in lines:
        words = re.findall(r'"[^"]*"|\S+', line)
        environment = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        rest = [word.strip('"') for word in words if not re.match(r"[A-Z_]+=", word)]
        assert rest.pop(0) == "python"
        said = do([*rest, "-p", "no:cacheprovider"], tmp_path, **environment)
    assert int(re.search(r"(\d+) passed", said)[1]) >= 25  # type: ignore[index]
    do(["-m", "ruff", "check", str(file.title)], tmp_path)
    do(["-m", "ruff", "format", "--check", str(file.title)], tmp_path)


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material")
    arguments = ["-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path / "site"), "--strict", "-q"]
    do(["-m", "mkdocs", "build", *arguments], tmp_path)
    built = list((tmp_path / "site").rglob("*.html"))
    assert len(built) >= len(list(DOCS.glob("*.md")))
    loaded = re.compile(
        r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(https?://[^"' >]+)"""
    )
    for file in built:
        assert not loaded.findall(file.read_text(encoding="utf-8")), file.name


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("breast_cancer", None, r"the best subset +F1 0\.9\d\d on 143 unseen rows"),
        ("emotions", "emotions", r"mlaco: \d+ columns, cost 0\.\d+ in the search"),
        ("musk_by_group", "musk_v2", r"the subset +F1 0\.\d+ on \d+ molecules never seen"),
        ("weekly_refresh", None, r"(?s)first:.*promoted:.*version 3 -> version 1"),
    ],
)
def test_an_example_does_what_it_says(
    name: str, data: str | None, says: str, tmp_path: Path, shared_data: Callable[[str], Path]
) -> None:
    given = [] if data is None else ["--data", str(shared_data(data))]
    began = time.monotonic()
    said = do([str(EXAMPLES / f"{name}.py"), *given], tmp_path)
    assert re.search(says, said), said
    print(f"\n{name}: {time.monotonic() - began:.0f} s")


@pytest.mark.parametrize("name", ["musk_by_group", "emotions"])
def test_an_example_without_its_data_says_so_and_ends(name: str, tmp_path: Path) -> None:
    # A proxy that nobody listens to stands for no network.
    nowhere = "http://127.0.0.1:9"
    said = do(
        [str(EXAMPLES / f"{name}.py")],
        tmp_path,
        https_proxy=nowhere,
        http_proxy=nowhere,
        SCIKIT_LEARN_DATA=str(tmp_path),
    )
    assert "give a file with --data" in said
    assert "Traceback" not in said
