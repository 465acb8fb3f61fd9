"""Data sets by name: those of scikit-learn, and the UCI Machine Learning Repository."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError

import pandas as pd

from swarm.errors import DataError, StoreError, check_known
from swarm.wording import quoted
from tasks.secrets import reason
from tasks.sources.raw import Raw, duplicates


def read_bundled(name: str) -> Raw:
    """Read a data set of scikit-learn, which needs no network; its target column is ``target``."""
    from sklearn import datasets

    loaders = {
        "breast_cancer": datasets.load_breast_cancer,
        "diabetes": datasets.load_diabetes,
        "digits": datasets.load_digits,
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
    }
    check_known("bundled data set", name, loaders, DataError)
    frame = loaders[name](as_frame=True).frame
    return Raw(name=name, source=f"bundled:{name}", frame=frame, target=("target",))


def read_uci(name: str | int) -> Raw:
    """Read a data set by name or id, with the target and the features that it declares.

    Other columns (ids) can have a role but are never features. Non-numeric features of the type
    Categorical are categorical.
    """
    answer = _ask(name)
    metadata, variables = answer["metadata"], answer["variables"]
    label = f"UCI data set {metadata['name']!r} (id {metadata['uci_id']})"
    if twice := duplicates(variables["name"]):
        raise DataError(f"duplicate column names in the {label}: {quoted(twice)}; use a file")
    frame: pd.DataFrame = answer["data"]["original"]
    role = dict(zip(variables["name"], variables["role"], strict=True))
    kind = dict(zip(variables["name"], variables["type"], strict=True))
    features = [c for c in frame.columns if role.get(c) == "Feature"]
    return Raw(
        name=str(metadata["name"]),
        source=f"uci:{metadata['uci_id']}",
        frame=frame,
        target=tuple(c for c in frame.columns if role.get(c) == "Target"),
        aside=tuple(c for c in frame.columns if role.get(c) != "Feature"),
        categorical=tuple(
            c
            for c in features
            if kind[c] == "Categorical" and not pd.api.types.is_numeric_dtype(frame[c])
        ),
    )


def _ask(name: str | int) -> Any:
    import ucimlrepo.fetch as client

    is_id = isinstance(name, int)
    wanted = f"id {name}" if is_id else f"name {name!r}"
    try:
        return client.fetch_ucirepo(**{"id" if is_id else "name": name})
    except client.DatasetNotFoundError as error:
        raise DataError(
            f"no usable UCI data set with {wanted}: {reason(error)}; "
            "look it up at archive.ics.uci.edu"
        ) from error
    except ConnectionError as error:
        # The client raises the same error for an unreachable server and for status 404.
        if isinstance(error.__context__, HTTPError) and error.__context__.code == 404:
            raise DataError(
                f"no UCI data set with {wanted}; look it up at archive.ics.uci.edu"
            ) from error
        detail = reason(error.__context__ or error)
        raise StoreError(
            f"cannot reach the UCI repository for {wanted}: {detail}; "
            "check the network, or use a file"
        ) from error
    except Exception as error:
        raise DataError(
            f"cannot read the UCI data set with {wanted}: {reason(error)}; use a file instead"
        ) from error
