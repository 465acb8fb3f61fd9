"""Data sets by name: those of scikit-learn, and the UCI Machine Learning Repository."""

from typing import Any
from urllib.error import HTTPError

import pandas as pd
from pandas.api.types import is_numeric_dtype

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
    response = _fetch_uci(name)
    metadata = response["metadata"]
    variables = response["variables"]
    label = f"UCI data set {metadata['name']!r} (id {metadata['uci_id']})"
    if twice := duplicates(variables["name"]):
        raise DataError(f"duplicate column names in the {label}: {quoted(twice)}; use a file")
    frame: pd.DataFrame = response["data"]["original"]
    roles = dict(zip(variables["name"], variables["role"], strict=True))
    types = dict(zip(variables["name"], variables["type"], strict=True))
    features = [column for column in frame.columns if roles.get(column) == "Feature"]
    return Raw(
        name=str(metadata["name"]),
        source=f"uci:{metadata['uci_id']}",
        frame=frame,
        target=tuple(column for column in frame.columns if roles.get(column) == "Target"),
        aside=tuple(column for column in frame.columns if roles.get(column) != "Feature"),
        categorical=tuple(
            column
            for column in features
            if types[column] == "Categorical" and not is_numeric_dtype(frame[column])
        ),
    )


def _fetch_uci(name: str | int) -> Any:
    import ucimlrepo.fetch as client

    key = "id" if isinstance(name, int) else "name"
    wanted = f"{key} {name!r}"
    try:
        return client.fetch_ucirepo(**{key: name})
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
