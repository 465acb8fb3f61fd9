"""The data sets bundled with scikit-learn, which need no network."""

from __future__ import annotations

from swarm.errors import DataError, nearest
from tasks.sources._raw import Raw

__all__ = ["read_bundled"]


def read_bundled(name: str) -> Raw:
    """Read a bundled data set; its target column is ``target``."""
    from sklearn import datasets

    loaders = {
        "breast_cancer": datasets.load_breast_cancer,
        "diabetes": datasets.load_diabetes,
        "digits": datasets.load_digits,
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
    }
    if name not in loaders:
        known = ", ".join(loaders)
        raise DataError(f"unknown bundled data set {name!r} ({known}){nearest(name, loaders)}")
    frame = loaders[name](as_frame=True).frame
    return Raw(name=name, source=f"bundled:{name}", frame=frame, target=("target",))
