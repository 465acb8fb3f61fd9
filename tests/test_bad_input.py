"""Bad input, whatever it is, ends in one sentence before anything is trained.

The sentence names the thing, the value and the remedy; the exit status is 2, and no run is left
behind. Prefect is passed by here, as it takes longer to start a flow than to refuse its input;
`test_cli.py` has a few of these through it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from conf.text import render
from flows.cli import main
from swarm.errors import ConfigError
from swarm.problem.hints import Hints
from swarm.search.budget import Budget
from swarm.search.runner import SearchPlan
from tests.bad_inputs import ARGUMENTS, CONFIGURATIONS, MODELS, RUNS
from tests.small_run import Bench


@pytest.fixture
def swarm(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run the `swarm` command in this process without Prefect, and give its one sentence."""
    from prefect import Flow

    def direct(self: Any, *args: Any, **options: Any) -> Any:
        return self.fn(*args, **options)

    def trained(*_: Any, **__: Any) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr(Flow, "__call__", direct)
    server = SimpleNamespace(wait=lambda quiet: None)
    monkeypatch.setattr("flows.cli.launch_prefect", lambda: nullcontext(server))
    monkeypatch.setattr("flows.cli_stability.launch_prefect", lambda: nullcontext(server))
    monkeypatch.setattr("swarm.evaluation.workers.fit_mask", trained)
    monkeypatch.setenv("DB_SECRET", "s3cret")
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    monkeypatch.chdir(bench.folder)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["swarm", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert ended.value.code == 2, told
        assert told.out == ""
        (line,) = told.err.splitlines()
        assert line.startswith("swarm: "), line
        assert "Traceback" not in line
        assert "s3cret" not in line
        return line.removeprefix("swarm: ")

    return run


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_a_bad_configuration_is_one_sentence(
    swarm: Callable[..., str], bench: Bench, case: str
) -> None:
    sections, named = CONFIGURATIONS[case]
    path = bench.file(**sections)
    line = swarm("select", path)
    assert all(name in line for name in named), line
    assert swarm("config", "check", path) == line
    assert not bench.made_anything()


@pytest.mark.parametrize("case", [*RUNS, *MODELS])
def test_bad_data_or_a_bad_store_is_one_sentence(
    swarm: Callable[..., str], bench: Bench, case: str
) -> None:
    frame, sections, named = {**RUNS, **MODELS}[case]
    path = bench.file(**sections)
    if frame is not None and sections.get("data", {}).get("path") == "table.parquet":
        frame.to_parquet(bench.folder / "table.parquet", index=False)
    elif frame is not None:
        frame.to_csv(bench.folder / "table.csv", index=False)
    os.mkfifo(bench.folder / "pipe.csv")
    (bench.folder / "broken.parquet").write_bytes(b"PAR1 and then nothing of the kind at all")
    others = sa.create_engine(f"sqlite:///{bench.folder}/others.db")
    with others.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (name TEXT)")
    others.dispose()
    before = (bench.folder / "others.db").read_bytes()
    line = swarm("select", path)
    assert all(name in line for name in named), line
    assert not bench.made_anything()
    assert (bench.folder / "others.db").read_bytes() == before
    assert not (bench.folder / "made.db").exists()


@pytest.mark.parametrize("case", MODELS)
def test_a_plan_refuses_the_same_models(swarm: Callable[..., str], bench: Bench, case: str) -> None:
    frame, sections, named = MODELS[case]
    path = bench.file(**sections)
    if frame is not None:
        frame.to_csv(bench.folder / "table.csv", index=False)
    line = swarm("plan", path)
    assert all(name in line for name in named), line


def test_stability_and_a_comparison_try_the_model_before_there_is_a_run(
    swarm: Callable[..., str], bench: Bench
) -> None:
    sections = {"model": {"estimator": "sklearn.naive_bayes.MultinomialNB"}}
    line = swarm("stability", bench.file(**sections))
    assert "MultinomialNB cannot be fitted" in line
    mapping = bench.mapping(**sections)
    data = {key: mapping.pop(key) for key in ("data",)}
    for key in ("strategy", "ensemble", "test", "split"):
        del mapping[key]
    rivals = {"random": {}, "full": {}}
    mapping |= {"datasets": {"small": data}, "strategies": rivals, "seeds": 1}
    mapping["budget"] = {"distinct": 4}
    path = bench.folder / "compare.yaml"
    path.write_text(render(mapping), encoding="utf-8")
    line = swarm("compare", str(path))
    assert line.startswith("data set 'small': MultinomialNB cannot be fitted"), line
    assert not bench.made_anything()


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_bad_argument_is_one_sentence(swarm: Callable[..., str], case: str) -> None:
    Path("no.yaml").write_text("name: [unclosed\ndata: 3", encoding="utf-8")
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00name")
    Path("list.yaml").write_text("- 1\n- 2\n", encoding="utf-8")
    Path("empty.yaml").write_text("# nothing\n", encoding="utf-8")
    arguments, named = ARGUMENTS[case]
    line = swarm("select", *arguments)
    assert all(name in line for name in named), line


def test_a_population_beyond_the_memory_is_one_sentence() -> None:
    class Greedy:
        def start(self, *_: object) -> None:
            raise MemoryError

    problem: Any = SimpleNamespace(space=SimpleNamespace(n_units=20_000))
    greedy: Any = Greedy()
    plan = SearchPlan(problem, greedy, Hints(), Budget(epochs=1))
    with pytest.raises(ConfigError, match=r"memory for 20,000 units.* reduce the population"):
        plan.check()


def test_there_are_at_least_120_kinds_of_bad_input() -> None:
    assert len(CONFIGURATIONS) + len(RUNS) + len(MODELS) + len(ARGUMENTS) >= 120
