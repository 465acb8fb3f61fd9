"""The file of selected features: the best subset, the inputs of the model, the subsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import DataError
from swarm.storage.features_file import load_features, load_model_inputs, load_subsets


def written(folder: Path, content: Any) -> str:
    file = folder / "features.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def test_a_file_has_features_inputs_and_each_subset_once_the_best_first(tmp_path: Path) -> None:
    subsets = [{"features": ["a", "b c"], "cost": 0.1}, {"features": ["d"], "cost": 0.2}]
    content = {"features": ["a", "b c"], "model_inputs": ["a", "b c", "d"], "subsets": subsets}
    file = written(tmp_path, content)
    assert load_features(file) == ["a", "b c"]
    assert load_model_inputs(file) == ["a", "b c", "d"]
    assert load_subsets(file) == [["a", "b c"], ["d"]]
    bare = written(tmp_path, {"features": ["a"]})
    assert load_subsets(bare) == [["a"]]
    with pytest.raises(DataError, match="model_inputs"):
        load_model_inputs(bare)


@pytest.mark.parametrize("content", ["", "[1]", {"features": "a"}, {"features": [1]}, {}])
def test_anything_else_is_refused_by_its_name(content: Any, tmp_path: Path) -> None:
    file = written(tmp_path, content)
    for address in (file, f"{file}x", "nowhere://file"):
        with pytest.raises(DataError, match=address):
            load_features(address)
