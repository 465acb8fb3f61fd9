"""Claims on configurations written out: YAML, schema, what differs."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from conf.load import (
    SelectConfig,
    as_yaml,
    difference,
    from_yaml,
    json_schema,
)
from conf.text import render
from tests.test_config import WINE, read

# ---------------------------------------------------------------- out again

texts = st.text(max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False)
    | texts
    | st.sampled_from(
        ["1e-3", "null", "yes", "1_000", "0x1f", "12:30", "2020-01-01", "~", "<<", "a\x85b\u2028"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.text("abcdefghijk_", min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(
    params=st.dictionaries(texts, values, max_size=4),
    drop=st.lists(st.text(min_size=1, max_size=10), max_size=3),
    seed=st.integers(0, 2**32 - 1),
    pos_label=st.none() | st.booleans() | st.integers() | texts,
    seconds=st.none() | st.floats(1e-9, 1e9),
)
def test_any_configuration_written_as_yaml_is_read_back_the_same(
    params: dict[str, Any], drop: list[str], seed: int, pos_label: Any, seconds: float | None
) -> None:
    config = SelectConfig.model_validate(
        {
            "name": "a",
            "seed": seed,
            "pos_label": pos_label,
            "data": {"source": "bundled", "name": "wine", "drop": drop},
            "model": {"params": params},
            "budget": {"seconds": seconds},
        }
    )
    again = from_yaml(as_yaml(config), env={})
    assert again == config
    assert difference(config, again) == []


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(names, scalars, max_size=3), st.integers(1, 99), st.floats(0.01, 0.99))
def test_any_override_arrives_and_the_last_one_wins(
    params: dict[str, Any], epochs: int, size: float
) -> None:
    given_params = [f"strategy.params.{key}={render(value)}" for key, value in params.items()]
    config = read(
        WINE, "budget.epochs=100", *given_params, f"split.test_size={size!r}",
        f"budget.epochs={epochs}",
    )  # fmt: skip
    assert config.strategy.params == params
    assert (config.budget.epochs, config.split.test_size) == (epochs, size)


def test_differences_name_the_key_and_both_values() -> None:
    old = read(WINE, "model.params={a: 1, nan: .nan}")
    new = read(WINE, "model.params={b: true, nan: .nan}", "scoring=recall")
    assert difference(old, old) == []
    assert difference(old, new) == [
        "model.params.a: 1 -> not set",
        'scoring: null -> "recall"',
        "model.params.b: not set -> true",
    ]


def test_every_key_has_a_description_in_the_schema() -> None:
    schema = json_schema()
    objects = [schema, *schema["$defs"].values()]
    bare = [
        (each.get("title"), key)
        for each in objects
        for key, value in each.get("properties", {}).items()
        if not value.get("description")
    ]
    assert bare == []
    assert all(each["additionalProperties"] is False for each in objects if "properties" in each)
    assert "register" in schema["$defs"]["TrackingSection"]["properties"]


def test_seeds_that_are_not_given_are_the_top_one() -> None:
    config = read(WINE, "seed=5", "folds.seed=6")
    assert (config.split_seed, config.folds_seed) == (5, 6)
    assert read(WINE, "tracking.register=false").tracking.register is False
