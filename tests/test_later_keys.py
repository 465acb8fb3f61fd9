"""Keys that the configuration has gained leave earlier runs as they were."""

from __future__ import annotations

from conf.compare_schema import CompareConfig
from conf.later_keys import later_values, without_later_keys
from conf.load import flatten
from conf.schema import SelectConfig

_DATA = {"source": "bundled", "name": "wine"}


def test_every_later_key_exists_and_has_its_value_by_default():
    select = flatten(SelectConfig.model_validate({"name": "a", "data": _DATA}))
    compare = CompareConfig.model_validate(
        {"name": "a", "datasets": {"a": {"data": _DATA}}, "strategies": {"random": {}}}
    )
    defaults = {**flatten(compare), **select}
    assert {key: defaults[key] for key in later_values()} == later_values()


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
    # What was given is not changed.
    assert dumped["folds"]["rotate"] == 0
