"""Tests that follow the pages and examples step by step, each in a folder (make docs-test)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages import DOCS, ROOT, blocks, command_lines

# Commands use the server of the tests: starting a private one would take most of their time.
pytestmark = [
    pytest.mark.docs,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("prefect_server"),
]

EXAMPLES = ROOT / "examples"


def do(arguments: list[str], folder: Path, **environment: str) -> str:
    """Run Python with `arguments` in `folder`, and return all of its output."""
    from prefect.settings import PREFECT_API_URL

    variables = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", **environment}
    variables["PREFECT_API_URL"] = str(PREFECT_API_URL.value())
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    return process.stdout


def test_the_first_page_leads_from_a_table_to_a_report(tmp_path: Path) -> None:
    page = DOCS / "start.md"
    python = [block for block in blocks(page) if block.runs]
    run_id = ""
    do(["-c", python[0].text], tmp_path)
    for block in blocks(page):
        if block.language == "yaml" and block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    for words in command_lines(page):
        arguments = [run_id if word == "RUN_ID" else word for word in words]
        output = do(["-m", "flows.cli", *arguments], tmp_path)
        if words[0] == "select":
            run_id = re.search(r"swarm features ([0-9a-f]{8})", output)[1]  # type: ignore[index]
            answer = re.search(r"of 24 columns.*\n  (.*)\n", output)[1]  # type: ignore[index]
            for deciding in ("signal_00", "signal_01", "age", "plan"):
                assert deciding in answer
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<svg") > 2
    for block in (b for b in blocks(page) if b.language == "python" and b is not python[0]):
        do(["-c", block.text], tmp_path)


def installed(page: Path, folder: Path) -> dict[str, str]:
    """Install the package of the page on strategies in a folder; return the environment."""
    for block in (block for block in blocks(page) if block.title and "/" not in block.title):
        (folder / str(block.title)).write_text(block.text, encoding="utf-8")
    # It is installed without an index, as its dependencies are in this environment.
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    do(["-m", "pip", "install", *options, "--target", str(folder / "site"), "."], folder)
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "site")])}


def test_the_page_on_strategies_adds_one_in_a_package_of_its_own(tmp_path: Path) -> None:
    page = DOCS / "add-a-strategy.md"
    environment = installed(page, tmp_path)
    lines = [block.text.splitlines() for block in blocks(page) if block.language == "bash"]
    install, record, contract = lines[0]
    assert install == "python -m pip install ."
    assert record.startswith("REFRESH_GOLDEN=1 python ")
    # The module in the folder is renamed, so that the installed one is tested.
    (tmp_path / "swarm_climb.py").rename(tmp_path / "kept.py")
    quiet = ["-p", "no:cacheprovider"]
    do([*record.split()[2:], *quiet], tmp_path, REFRESH_GOLDEN="1", **environment)
    output = do([*contract.split()[1:], *quiet], tmp_path, **environment)
    assert int(re.search(r"(\d+) passed", output)[1]) >= 30  # type: ignore[index]
    assert "skipped" not in output
    assert "(package swarm-climb)" in do(
        ["-m", "flows.cli", "strategies", "climb"], tmp_path, **environment
    )
    (select,) = command_lines(page)
    few = ["--set", "budget.epochs=2"]
    assert "swarm report" in do(["-m", "flows.cli", *select, *few], tmp_path, **environment)
    (tmp_path / "kept.py").rename(tmp_path / "swarm_climb.py")
    wide = ["--line-length", "100", "swarm_climb.py", "test_climb.py"]
    do(["-m", "ruff", "check", *wide], tmp_path)
    do(["-m", "ruff", "format", "--check", *wide], tmp_path)


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
        ("own_flow", None, r"\d+ of 30 columns, 69 rows predicted\n9\d% of them are right"),
        ("weekly_refresh", None, r"(?s)first:.*promoted:.*version 3 -> version 1"),
    ],
)
def test_an_example_does_what_it_says(
    name: str, data: str | None, says: str, tmp_path: Path, shared_data: Callable[[str], Path]
) -> None:
    options = [] if data is None else ["--data", str(shared_data(data))]
    output = do([str(EXAMPLES / f"{name}.py"), *options], tmp_path)
    assert re.search(says, output), output


def printed(cell: Any) -> str:
    """Return what a cell of a notebook printed."""
    streams = [output for output in cell.outputs if output.output_type == "stream"]
    return "".join(output.text for output in streams)


@pytest.mark.parametrize("file", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda f: f.stem)
def test_a_notebook_runs_again_and_prints_what_it_is_stored_with(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = nbformat.read(file, as_version=4)
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    before = [printed(cell) for cell in cells]
    assert all(cell.execution_count for cell in cells)
    client = NotebookClient(stored, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert [printed(cell) for cell in cells] == before
