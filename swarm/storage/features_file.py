"""Read the published lists of selected features and of model inputs."""

import json
from collections.abc import Mapping
from typing import Any

from swarm.errors import DataError, as_clause
from swarm.redaction import cause_without_secrets, redact, scrub, secrets_of

FORMAT = "swarm-features-1"


def load_features(uri: str) -> list[str]:
    """Read the selected features of a champion or of a run: the columns of the source to keep.

    For features that are parts of a date, this is the column of the date. The registered model may
    need more columns, see :func:`load_model_inputs`.

    Parameters
    ----------
    uri : str
        Path or fsspec URL of a ``features.json``, published by a refresh or an artifact of a run.

    Returns
    -------
    list of str
        Names of columns, in the order of the data.

    Raises
    ------
    DataError
        If the file cannot be read, or does not contain a list of features.

    Examples
    --------
    >>> load_features("mlruns/champion/features.json")  # doctest: +SKIP
    ['mean radius', 'worst texture']
    """
    content = read_published(uri)
    return list(content.get("raw_features", content["features"]))


def load_model_inputs(uri: str) -> list[str]:
    """Read the columns of the source that the model of a champion or of a run needs.

    They are the columns of :func:`load_features`, unless the model is an ensemble, which uses the
    columns of all its subsets, or a model of all columns.

    Parameters
    ----------
    uri : str
        Path or fsspec URL of a ``features.json``, as for :func:`load_features`.

    Returns
    -------
    list of str
        Names of columns, in the order of the data.

    Raises
    ------
    DataError
        If the file cannot be read, or belongs to a search without a model.

    Examples
    --------
    >>> load_model_inputs("mlruns/champion/features.json")  # doctest: +SKIP
    ['mean radius', 'mean texture', 'worst area', 'worst texture']
    """
    content = read_published(uri)
    inputs = content.get("raw_model_inputs", content.get("model_inputs"))
    if inputs is None:
        raise DataError(
            f"{redact(str(uri))!r} has no model_inputs, as its search had no model; give a file "
            "published by `swarm refresh`, or of a run of `swarm select`"
        )
    return list(inputs)


def load_subsets(uri: str) -> list[list[str]]:
    """Read the best subset, then those of its ensemble, as :func:`load_features` does."""
    return subsets_of(read_published(uri))


def subsets_of(content: Mapping[str, Any]) -> list[list[str]]:
    """Return the subsets in a features file, the best first."""
    subsets = [content["features"]]
    subsets += [member["features"] for member in content.get("subsets", ())]
    return [list(subset) for subset in dict.fromkeys(map(tuple, subsets))]


def kept_key(headline: Mapping[str, Any]) -> str:
    """Return the key of the columns to keep: all that are available if fewer are worse."""
    loses = headline["verdict"] == "worse" and headline["beats_guessing"]
    return "available" if loses else "features"


def read_published(uri: str) -> dict[str, Any]:
    """Read a complete features file; see :func:`load_features`."""
    import fsspec

    address = redact(str(uri))
    try:
        with fsspec.open(str(uri), "rt", encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        raise DataError(
            f"there is no features file at {address!r}; publish one with `swarm refresh`"
        ) from None
    except (OSError, ValueError, ImportError) as error:
        secrets = secrets_of(str(uri))
        reason = as_clause(scrub(str(error) or type(error).__name__, secrets))
        raise DataError(
            f"cannot read features from {address!r} ({reason}); give a features.json"
        ) from cause_without_secrets(error, secrets)
    names = content.get("features") if isinstance(content, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(
            f"{address!r} is not a features file; give one published by `swarm refresh`"
        )
    return dict(content)
