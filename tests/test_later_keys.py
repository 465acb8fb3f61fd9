"""Keys that the configuration has gained leave earlier runs as they were."""

from __future__ import annotations

from conf.later_keys import earlier_values, later_values, without_later_keys
from conf.load import flatten, from_yaml
from conf.schema import CompareConfig, SelectConfig
from conf.text import render

_DATA = {"source": "bundled", "name": "wine"}


def test_every_later_key_exists_and_has_its_value_by_default():
    select = flatten(SelectConfig.model_validate({"name": "a", "data": _DATA}))
    compare = CompareConfig.model_validate(
        {"name": "a", "datasets": {"a": {"data": _DATA}}, "strategies": {"random": {}}}
    )
    defaults = {**flatten(compare), **select}
    # A table that is not wide is searched alike with the default and with what it replaced.
    before = {key: value for key, value in later_values().items() if key != "prefilter"}
    assert {key: defaults[key] for key in before} == before
    assert defaults["prefilter.when"] == "auto"
    assert later_values()["prefilter"] is None


def test_a_later_key_is_left_out_only_at_its_value():
    config = SelectConfig.model_validate(
        {"name": "a", "data": {**_DATA, "dates": {"signed": None}}, "folds": {"repeats": 2}}
    )
    dumped = config.model_dump(mode="json")
    left = without_later_keys(dumped)
    assert left["data"]["dates"] == {"signed": None}
    assert left["folds"]["repeats"] == 2
    assert "csv" not in left["data"]
    assert "rotate" not in left["folds"]
    assert "prefilter" not in left
    assert "prefilter" not in without_later_keys({**dumped, "prefilter": None})
    assert "prefilter" in without_later_keys({**dumped, "prefilter": {"when": "auto", "least": 5}})
    # What was given is not changed.
    assert dumped["folds"]["rotate"] == 0


def test_a_stored_configuration_without_a_later_default_means_what_it_meant():
    stored = {"name": "a", "data": _DATA}
    assert earlier_values(stored) == ["prefilter=null"]
    assert earlier_values({**stored, "prefilter": None}) == []
    assert from_yaml(render(stored), "it", earlier_values(stored), {}).prefilter is None
    assert from_yaml(render(stored), "it", (), {}).prefilter.when == "auto"
