"""Infer the task from the target."""

import warnings
from typing import Literal

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.multiclass import type_of_target

from swarm.arrays import AnyArray
from swarm.errors import DataError
from swarm.problem.models import is_a

Task = Literal["binary", "multiclass", "regression", "multilabel"]


def task_of(target: pd.Series | pd.DataFrame | AnyArray, estimator: object = None) -> Task:
    """Infer the task from the values of the target and, for whole numbers, from the estimator.

    - several columns of 0 and 1: multilabel
    - fractions: regression
    - whole numbers with more than 20 distinct values that are also more than 20 % of the rows:
      regression, or multiclass if the estimator is a classifier
    - other numbers with more than two distinct values: regression if the estimator is a regressor
    - anything else: binary up to two distinct values, else multiclass

    Raises
    ------
    DataError
        For missing values, dates and mixed types.
    """
    if bool(np.any(pd.isna(target))):
        raise DataError("the target has missing values; drop or fill them first")
    values = target.to_numpy() if isinstance(target, pd.Series | pd.DataFrame) else target
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 1 and values.dtype.kind in "iuf" and _are_quantities(values):
        is_whole = values.dtype.kind != "f" or bool((np.floor(values) == values).all())
        return "multiclass" if is_whole and is_a(is_classifier, estimator) else "regression"
    if values.dtype.kind in "mM":
        raise DataError(f"a target of type {values.dtype} cannot be predicted; use numbers")
    with warnings.catch_warnings():
        # Short tables often have more classes than half of the samples.
        warnings.simplefilter("ignore", UserWarning)
        # Sums of very large numbers overflow; their range is checked later.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            target_type = type_of_target(values)
        except (TypeError, ValueError) as error:
            raise DataError(f"the target cannot be predicted ({error}); use one type") from error
    tasks: dict[str, Task] = {
        "binary": "binary",
        "multiclass": "multiclass",
        "continuous": "regression",
        "multilabel-indicator": "multilabel",
    }
    if target_type not in tasks:
        raise DataError(
            f"a target of kind {target_type!r} cannot be predicted; "
            "use one column of classes or numbers, or several columns of 0 and 1"
        )
    # Grades and counts are numbers to a regressor.
    is_number = target_type == "multiclass" and values.dtype.kind in "iuf"
    return "regression" if is_number and is_a(is_regressor, estimator) else tasks[target_type]


def _are_quantities(values: AnyArray) -> bool:
    """Whether numbers are quantities rather than class labels."""
    if values.dtype.kind == "f" and not (np.floor(values) == values).all():
        return False
    distinct = len(np.unique(values))
    return distinct > 20 and distinct > 0.2 * len(values)
