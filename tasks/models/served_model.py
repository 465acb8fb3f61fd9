"""The served ensemble: needs only its own files, not this project.

MLflow copies this file into the registered model and runs it wherever the model is loaded. The
folder of the model contains ``ensemble.json`` (columns, subsets, classes, vote) and one file per
member: LightGBM's own text format, or skops. Nothing is unpickled.
"""

import json
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from numpy.typing import NDArray


class ServedEnsemble(mlflow.pyfunc.PythonModel):  # type: ignore[name-defined, misc]
    """Predict the vote of all members, from a table with at least their columns."""

    def load_context(self, context: Any) -> None:
        """Read the members from the folder of the model."""
        folder = Path(context.artifacts["ensemble"])
        self.spec = json.loads((folder / "ensemble.json").read_text(encoding="utf-8"))
        self.members = [_Member(folder, member) for member in self.spec["members"]]
        self.columns = {column["name"]: column for column in self.spec["columns"]}

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> NDArray[Any]:
        """Return one prediction per row, a row of labels for a multi-label target."""
        used = dict.fromkeys(name for member in self.members for name in member.subset)
        missing = [name for name in used if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table has no column {missing[0]!r}; the model needs it")
        frame = pd.DataFrame(
            {name: _as_trained(model_input[name], self.columns[name]) for name in used},
            index=model_input.index,
        )
        if self.spec["classes"] is None:
            mean: NDArray[Any] = np.mean([m.predict(frame) for m in self.members], axis=0)
            return mean
        labels = [np.array(c, dtype=self.spec["class_dtype"]) for c in self.spec["classes"]]
        if self.spec["vote"] == "soft":
            shares = [np.mean([m.aligned(frame, labels[0]) for m in self.members], axis=0)]
        else:
            votes = np.asarray([member.predict(frame) for member in self.members])
            several = votes if votes.ndim == 3 else votes[:, :, None]
            shares = [
                np.mean(several[:, :, i, None] == classes, axis=0)
                for i, classes in enumerate(labels)
            ]
        elected = [self._elected(s, c) for s, c in zip(shares, labels, strict=True)]
        return np.column_stack(elected) if self.spec["several"] else elected[0]

    def _elected(self, shares: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        chosen = np.argmax(shares, axis=1)
        if self.spec["vote"] == "any":
            positive = self.spec["positive"]
            chosen = np.where(shares[:, positive] > 0.0, positive, 1 - positive)
        elected: NDArray[Any] = classes[chosen]
        return elected


class _Member:
    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.subset = spec["subset"]
        self.kind = spec["kind"]
        file = folder / spec["file"]
        if self.kind == "skops":
            import skops.io

            self.model = skops.io.load(file, trusted=spec["trusted"])
            self.classes = getattr(self.model, "classes_", None)
        else:
            import lightgbm

            self.model = lightgbm.Booster(model_str=file.read_text(encoding="utf-8"))
            classes = spec["classes"]
            self.classes = None if classes is None else np.array(classes, dtype=spec["dtype"])

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        part = frame[self.subset]
        if self.kind == "skops" or self.classes is None:
            return np.asarray(self.model.predict(part))
        chosen = np.argmax(self._probabilities(part), axis=1)
        return np.asarray(self.classes[chosen])

    def aligned(self, frame: pd.DataFrame, classes: NDArray[Any]) -> NDArray[Any]:
        full = np.zeros((len(frame), len(classes)))
        positions = np.searchsorted(classes, np.asarray(self.classes))
        full[:, positions] = self._probabilities(frame[self.subset])
        return full

    def _probabilities(self, part: pd.DataFrame) -> NDArray[Any]:
        if self.kind == "skops":
            return np.asarray(self.model.predict_proba(part))
        found = np.asarray(self.model.predict(part))
        return found if found.ndim == 2 else np.vstack((1.0 - found, found)).transpose()


def _as_trained(values: pd.Series, column: dict[str, Any]) -> pd.Series:
    """Cast a column to the dtype of training; whole numbers with missing values stay floats."""
    dtype, kind = column["dtype"], column["kind"]
    if column["categories"] is not None:
        levels = pd.Index(column["categories"], dtype=column["category_dtype"])
        found = pd.Categorical(values, categories=levels, ordered=column["ordered"])
        return pd.Series(found, index=values.index)
    if values.dtype == dtype:
        return values
    if kind not in "iufb" or column["extension"]:
        return values.astype(dtype)
    try:
        numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the column {column['name']!r} has a value that is not a number ({error})"
        ) from None
    same = numbers if kind == "f" else np.where(np.isnan(numbers), 0, numbers)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = same.astype(dtype)
    exact = kind == "f" or np.array_equal(cast.astype(np.float64), numbers)
    return pd.Series(cast if exact else numbers, index=values.index)


mlflow.models.set_model(ServedEnsemble())
