"""The served ensemble: needs only its own files, not this project.

MLflow copies this file into the registered model and runs it wherever the model is loaded. The
folder of the model contains ``ensemble.json`` (columns, subsets, classes, vote), ``reader.py``, the
code by which the cells of the training table were read, and one file per member: LightGBM's own
text format, or skops. Nothing is unpickled.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from numpy.typing import NDArray


class ServedEnsemble(mlflow.pyfunc.PythonModel):  # type: ignore[name-defined, misc]
    """Predict the vote of all members, from rows with the cells of the training table."""

    def load_context(self, context: Any) -> None:
        """Read the members from the folder of the model."""
        folder = Path(context.artifacts["ensemble"])
        self.spec = json.loads((folder / "ensemble.json").read_text(encoding="utf-8"))
        self.members = [_Member(folder, member) for member in self.spec["members"]]
        self.reader = _reader(folder, self.spec["reader"])

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> NDArray[Any] | pd.DataFrame:
        """Return one prediction per row, or a table with a column per label.

        The input is a table, or what makes one, such as a list of dicts in a request. Columns that
        the model does not need are ignored.

        With ``params={"probabilities": True}`` return the mean probability over the members, in a
        column per class, or per label; shares of votes if members have none.
        """
        frame = self.reader.read(pd.DataFrame(model_input))
        probabilities = bool((params or {}).get("probabilities", False))
        if self.spec["classes"] is None:
            if probabilities:
                raise ValueError("a regressor has no probabilities; call predict without params")
            # Most models do not accept an empty batch.
            if not len(frame):
                return np.zeros(0)
            return np.mean([member.predict(frame) for member in self.members], axis=0)
        labels = [
            np.array(classes, dtype=self.spec["class_dtype"]) for classes in self.spec["classes"]
        ]
        if probabilities:
            return self._probabilities(frame, labels)
        elected = self._elected(frame, labels)
        if not self.spec["several"]:
            return elected
        return pd.DataFrame(elected, columns=self.spec["labels"], index=frame.index)

    def _elected(self, frame: pd.DataFrame, labels: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the classes that the vote elects: (n_rows,) or (n_rows, n_labels)."""
        if not len(frame):
            return labels[0][:0].reshape((0, len(labels)) if self.spec["several"] else 0)
        if len(self.members) == 1:
            return self.members[0].predict(frame)
        shares = self._shares(frame, labels, soft=self.spec["vote"] == "soft")
        elected = [self._elect(*pair) for pair in zip(shares, labels, strict=True)]
        return np.column_stack(elected) if self.spec["several"] else elected[0]

    def _shares(
        self, frame: pd.DataFrame, labels: list[NDArray[Any]], *, soft: bool
    ) -> list[NDArray[Any]]:
        """Average the probabilities of each label's classes, or the votes for them."""
        if not len(frame):
            return [np.zeros((0, len(classes))) for classes in labels]
        if soft:
            by_member = [member.align(frame, labels) for member in self.members]
            return [np.mean(by_label, axis=0) for by_label in zip(*by_member, strict=True)]
        votes = np.asarray([member.predict(frame) for member in self.members])
        if votes.ndim == 2:
            votes = votes[:, :, None]
        return [
            np.mean(votes[:, :, i, None] == classes, axis=0) for i, classes in enumerate(labels)
        ]

    def _probabilities(self, frame: pd.DataFrame, labels: list[NDArray[Any]]) -> pd.DataFrame:
        shares = self._shares(frame, labels, soft=self.spec["probabilities"])
        if not self.spec["several"]:
            return pd.DataFrame(shares[0], columns=list(map(str, labels[0])), index=frame.index)
        columns = {
            name: share[:, -1] if classes[-1] else np.zeros(len(frame))
            for name, share, classes in zip(self.spec["labels"], shares, labels, strict=True)
        }
        return pd.DataFrame(columns, index=frame.index)

    def _elect(self, shares: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        chosen = np.argmax(shares, axis=1)
        if self.spec["vote"] == "any":
            positive = self.spec["positive"]
            chosen = np.where(shares[:, positive] > 0.0, positive, 1 - positive)
        return classes[chosen]


class _Member:
    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.subset = spec["subset"]
        # Names that the model accepts, if it does not accept the names of the table.
        self.names = spec.get("names")
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
        # Labels of a model that was fitted to codes of them.
        self.labels = None
        if "labels" in spec:
            self.labels = self.classes = np.array(spec["labels"], dtype=spec["label_dtype"])

    def _columns(self, frame: pd.DataFrame) -> pd.DataFrame:
        columns = frame[self.subset]
        return columns if self.names is None else columns.set_axis(self.names, axis=1)

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        columns = self._columns(frame)
        if self.kind == "skops" or self.classes is None:
            predicted = np.asarray(self.model.predict(columns))
            return predicted if self.labels is None else self.labels[predicted.astype(np.int64)]
        chosen = np.argmax(self._probabilities(columns), axis=1)
        return np.asarray(self.classes[chosen])

    def align(self, frame: pd.DataFrame, labels: list[NDArray[Any]]) -> list[NDArray[np.float64]]:
        """Return the probabilities of each label's classes, 0 if the model has not seen them."""
        probabilities = self._probabilities(self._columns(frame))
        if isinstance(probabilities, list):
            class_lists = list(self.classes or [])
        elif len(labels) > 1:
            # The probabilities have a column per label, for the class 1.
            class_lists = [np.array([0, 1])] * len(labels)
            probabilities = [
                np.column_stack([1.0 - positive, positive])
                for positive in np.transpose(probabilities)
            ]
        else:
            class_lists = [np.asarray(self.classes)]
            probabilities = [probabilities]
        aligned = []
        for shares, seen, classes in zip(probabilities, class_lists, labels, strict=True):
            is_class = np.isin(seen, classes)
            full = np.zeros((len(frame), len(classes)))
            full[:, np.searchsorted(classes, seen[is_class])] = np.asarray(shares)[:, is_class]
            aligned.append(full)
        return aligned

    def _probabilities(self, columns: pd.DataFrame) -> Any:
        if self.kind == "skops":
            return self.model.predict_proba(columns)
        output = np.asarray(self.model.predict(columns))
        return output if output.ndim == 2 else np.vstack((1.0 - output, output)).transpose()


def _reader(folder: Path, data: dict[str, Any]) -> Any:
    """Load the reader of cells from the code that is stored with the model."""
    spec = importlib.util.spec_from_file_location("swarm_model_reader", folder / "reader.py")
    loader = None if spec is None else spec.loader
    if spec is None or loader is None:
        raise ImportError(f"cannot load {folder / 'reader.py'}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up; models of different versions share the name.
    sys.modules[spec.name] = module
    loader.exec_module(module)
    return module.Reader.from_dict(data)


mlflow.models.set_model(ServedEnsemble())
