"""Strategies from elsewhere: as objects, and by entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import swarm
from conf.check import check
from conf.load import load
from flows.cli import app
from swarm.errors import ConfigError
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catalogue import catalogue
from swarm.strategies.sequential import ForwardSelection
from tests.selecting import WINE

DRAWS = """
from dataclasses import dataclass

from swarm.strategies.random import RandomSearch


@dataclass(frozen=True)
class Draws(RandomSearch):
    \"\"\"Random subsets, from another package.\"\"\"
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package as pip would: a module, and metadata with an entry point."""
    number = iter(range(100))

    def installed(name: str, *, package: str = "swarm-draws", module: str = DRAWS) -> str:
        folder = tmp_path / package
        title = f"draws_{next(number)}_{tmp_path.name.replace('-', '_')}"
        info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[swarmselect.strategies]\n{name} = {title}:Draws\n"
        )
        (folder / f"{title}.py").write_text(module)
        monkeypatch.syspath_prepend(str(folder))
        return title

    return installed


def test_parameters_and_a_size_reach_an_object_and_a_size_is_refused_twice() -> None:
    selector = swarm.SubsetSelector(GaussianNB(), strategy=BinaryPso(), budget=1)
    by_name = clone(selector).set_params(strategy="bpso")
    for each in (selector, by_name):
        each.set_params(strategy_params={"n_particles": 6}).fit(*WINE)
    assert by_name.results_.equals(selector.results_)
    selector = swarm.SubsetSelector(GaussianNB(), strategy=ForwardSelection(), size=2)
    assert len(selector.fit(*WINE).subset_) == 2
    selector.set_params(strategy=ForwardSelection(size=3))
    with pytest.raises(ConfigError, match="size"):
        selector.fit(*WINE)


class TestAnEntryPoint:
    def test_it_makes_a_name_that_everything_knows(self, install: Install) -> None:
        install("draws")
        assert "draws" in swarm.registry()
        assert type(swarm.make("draws", {"batch_size": 3})).__name__ == "Draws"
        by_name = swarm.SubsetSelector(GaussianNB(), strategy="draws", budget=2).fit(*WINE)
        same = swarm.SubsetSelector(GaussianNB(), strategy="random", budget=2).fit(*WINE)
        assert by_name.results_.equals(same.results_)
        assert "Random subsets, from another package (package swarm-draws)" in told("strategies")
        assert "batch_size" in told("strategies", "draws")
        named = "strategy.name=draws"
        check(load("default", [named, "strategy.params={batch_size: 3}"]))
        with pytest.raises(ConfigError, match=r"'n_ants' .*'draws'"):
            check(load("default", [named, "strategy.params={n_ants: 3}"]))

    @pytest.mark.parametrize(
        "module",
        ["raise RuntimeError('two\\nlines')", "Draws = 3", ""],
    )
    def test_one_that_is_broken_says_so_and_leaves_the_others_alone(
        self, module: str, install: Install
    ) -> None:
        install("draws", module=module)
        with pytest.raises(ConfigError, match=r"'draws' .*swarm-draws"):
            swarm.make("draws")
        swarm.make("bpso")
        lines = {entry.name: entry.line for entry in catalogue()}
        assert "swarm-draws" in lines["draws"]
        assert "swarm-draws" not in lines["bpso"]

    def test_a_name_that_is_taken_is_refused(self, install: Install) -> None:
        install("bpso", package="one")
        install("draws", package="two")
        install("draws", package="three")
        for name, packages in (("bpso", "swarmselect and one"), ("draws", "three and two")):
            with pytest.raises(ConfigError, match=f"'{name}' .*{packages}"):
                swarm.make(name)
        swarm.make("random")


def told(*words: str) -> str:
    """What a command prints, with its lines joined; its error is raised."""
    done = CliRunner().invoke(app, words, env={"COLUMNS": "300"}, catch_exceptions=False)
    assert done.exit_code == 0
    return " ".join(done.output.split())
