"""The list of strategies that a person chooses from."""

from __future__ import annotations

import pytest

from flows.strategy_list import print_strategies
from swarm.errors import ConfigError
from swarm.strategies.catalogue import catalogue, make, registry


def test_every_strategy_has_a_line_and_a_text_for_each_parameter() -> None:
    entries = catalogue()
    assert [entry.name for entry in entries] == sorted(registry())
    for entry in entries:
        assert 10 < len(entry.line) < 100, entry
        made = make(entry.name)
        for parameter in entry.parameters:
            assert parameter.text, f"{entry.name}.{parameter.name} is not documented"
            assert getattr(made, parameter.name) == parameter.default


def test_all_are_listed_and_each_with_inherited_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_strategies("catfish")
    text = capsys.readouterr().out
    for word in ("n_particles", "velocity_bound", "refresh_gap", "30", "0.1"):
        assert word in text
    print_strategies()
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text for name in registry())


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown strategy 'catfsh'.*did you mean 'catfish'"):
        print_strategies("catfsh")
