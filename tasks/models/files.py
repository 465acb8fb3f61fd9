"""An ensemble as plain files: LightGBM text, skops and JSON, without pickle."""

import json
import shutil
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swarm import reader as reader_code
from swarm.arrays import AnyArray
from swarm.ensemble import SubsetEnsemble, has_probabilities
from swarm.errors import StoreError
from swarm.problem.codes import Decoded
from swarm.problem.models import is_lightgbm
from swarm.problem.table import names_for_lightgbm
from swarm.reader import Reader
from tasks.secrets import reason

_PLAIN = ("lightgbm.sklearn.LGBMClassifier", "lightgbm.sklearn.LGBMRegressor")
_STOPPING = (
    "swarm.early_stopping.EarlyStoppingLGBMClassifier",
    "swarm.early_stopping.EarlyStoppingLGBMRegressor",
)
TRUSTED_PACKAGES = ("sklearn", "lightgbm", "xgboost", "catboost", "imblearn", "numpy", "scipy")
TRUSTED_TYPES = (
    "collections.OrderedDict",
    "collections.defaultdict",
    "functools.partial",
    "pandas.DataFrame",
    "pandas.Series",
    # A model with estimators of this project needs the project's package, except for estimators of
    # LightGBM that are no step of a pipeline.
    "swarm.multilabel.MLkNN",
    *_STOPPING,
)


def is_storable(estimator: object) -> bool:
    """Whether an estimator and its pipeline steps belong to packages that can be stored."""
    steps = [step for _, step in getattr(estimator, "steps", [])]
    models = [step for step in (estimator, *steps) if not isinstance(step, str | None)]
    names = [f"{type(m).__module__.partition('.')[0]}.{type(m).__name__}" for m in models]
    trusted = [f"{name.partition('.')[0]}.{name.rpartition('.')[2]}" for name in TRUSTED_TYPES]
    return all(name.partition(".")[0] in TRUSTED_PACKAGES or name in trusted for name in names)


def write_ensemble(
    ensemble: SubsetEnsemble,
    reader: Reader,
    example: pd.DataFrame,
    folder: Path,
) -> list[str]:
    """Write a fitted ensemble into an empty folder.

    Parameters
    ----------
    ensemble : SubsetEnsemble
    reader : Reader
        Reader of the columns that the ensemble needs.
    example : DataFrame
        Rows of the training table.
    folder : Path

    Returns
    -------
    list of str
        Packages that are needed to load it.

    Raises
    ------
    StoreError
        If a member, a class label or a category cannot be stored safely.
    """
    packages: list[str] = []
    members = []
    for number, (model, subset) in enumerate(zip(ensemble.models_, ensemble.subsets_, strict=True)):
        coded: dict[str, Any] = {}
        if isinstance(model, Decoded):
            labels = np.asarray(model.classes_)
            coded = {"labels": _plain(labels, "class"), "label_dtype": labels.dtype.str}
            model = model.model
        spec = {**_write_member(model, folder, number), **coded}
        packages += spec.pop("packages")
        names = [str(name) for name in subset]
        accepted = names_for_lightgbm(example[subset]) if is_lightgbm(model) else {}
        renamed = {"names": list(accepted.values())} if accepted else {}
        members.append({"subset": names, **renamed, **spec})
    for column in reader.columns:
        for dtype in column.features.values():
            if isinstance(dtype, pd.CategoricalDtype):
                _plain(dtype.categories, "category")
    # The model reads cells with the code that read the training table.
    shutil.copy(reader_code.__file__, folder / "reader.py")
    spec = {
        "format": 1,
        "members": members,
        "reader": reader.as_dict(),
        **_voting(ensemble),
    }
    text = json.dumps(spec, indent=1, allow_nan=False)
    (folder / "ensemble.json").write_text(text, encoding="utf-8")
    return list(dict.fromkeys(packages))


def _voting(ensemble: SubsetEnsemble) -> dict[str, Any]:
    vote = getattr(ensemble, "vote_", ensemble.vote)
    class_labels = getattr(ensemble, "classes_", None)
    if class_labels is None:
        return {"vote": vote, "classes": None, "several": False}
    is_multilabel = isinstance(class_labels, list)
    label_lists = class_labels if is_multilabel else [class_labels]
    classes = [np.asarray(labels) for labels in label_lists]
    return {
        "vote": vote,
        "classes": [_plain(labels, "class") for labels in classes],
        "class_dtype": classes[0].dtype.str,
        "several": is_multilabel,
        "labels": ensemble.labels_ if is_multilabel else None,
        "positive": int(ensemble.positive_),
        "probabilities": has_probabilities(ensemble.estimator),
    }


def _plain(labels: AnyArray | pd.Index, what: str) -> list[Any]:
    """Return labels as JSON types; StoreError, which says `what` they are, for other types."""
    plain = np.asarray(labels).tolist()
    for label in plain:
        if not isinstance(label, (str, bool, int, float)):
            raise StoreError(
                f"the {what} {label!r} is a {type(label).__name__}, which cannot be stored in the "
                "model's files; use text, whole numbers or booleans"
            )
    return plain


def _is_plain_lightgbm(model: object) -> bool:
    """Whether LightGBM's text is complete: it lacks other subclasses and custom objectives."""
    cls = type(model)
    has_objective = callable(getattr(model, "objective", None))
    return f"{cls.__module__}.{cls.__name__}" in (*_PLAIN, *_STOPPING) and not has_objective


def _write_member(model: Any, folder: Path, number: int) -> dict[str, Any]:
    if _is_plain_lightgbm(model):
        file = folder / f"member_{number:03d}.txt"
        file.write_text(model.booster_.model_to_string(), encoding="utf-8")
        classes = getattr(model, "classes_", None)
        return {
            "kind": "lightgbm",
            "file": file.name,
            "classes": None if classes is None else _plain(classes, "class"),
            "dtype": None if classes is None else np.asarray(classes).dtype.str,
            "packages": ["lightgbm"],
        }
    file = folder / f"member_{number:03d}.skops"
    trusted = _write_skops(model, file)
    packages = [name.partition(".")[0] for name in trusted]
    needed = [name for name in packages if name in (*TRUSTED_PACKAGES, "swarm")]
    return {
        "kind": "skops",
        "file": file.name,
        "trusted": trusted,
        "packages": ["skops", "scikit-learn", *map(_distribution, needed)],
    }


def _write_skops(model: Any, file: Path) -> list[str]:
    """Write a model, and return the types that its reader has to trust."""
    import skops.io

    model_name = type(model).__name__
    advice = "use an estimator of scikit-learn or LightGBM"
    try:
        skops.io.dump(model, file)
        needed = [str(name) for name in skops.io.get_untrusted_types(file=file)]
    except Exception as error:
        raise StoreError(f"skops cannot store {model_name} ({reason(error)}); {advice}") from error
    strange = [
        name
        for name in needed
        if name not in TRUSTED_TYPES and name.partition(".")[0] not in TRUSTED_PACKAGES
    ]
    if strange:
        raise StoreError(
            f"{model_name} contains {strange[0]}, whose package is not trusted when a model is "
            f"loaded; {advice}"
        )
    try:
        skops.io.load(file, trusted=needed)
    except Exception as error:
        raise StoreError(
            f"skops stored {model_name} but cannot load it again ({reason(error)}); {advice}"
        ) from error
    return needed


def _distribution(package: str) -> str:
    names = {"sklearn": "scikit-learn", "imblearn": "imbalanced-learn", "swarm": "swarmselect"}
    # The distribution of XGBoost may be xgboost-cpu.
    return names.get(package) or packages_distributions().get(package, [package])[0]
