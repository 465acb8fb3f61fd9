"""The settings of a model from which :mod:`swarm.search.tuning` chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swarm.errors import ConfigError, nearest

# Values by name of parameter.
Setting = Mapping[str, Any]

# More settings are sampled to this number.
MOST_SETTINGS = 32
# Keeps the generator of the sample apart from those of the search.
_SAMPLE_SEED = 11


def described(setting: Setting) -> str:
    """Return a setting as text: ``learning_rate 0.1, num_leaves 8``."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())


def expanded(grid: Any, seed: int, most: int = MOST_SETTINGS) -> tuple[tuple[Setting, ...], int]:
    """Return the combinations of a grid, or a sample of them, and their number.

    Parameters
    ----------
    grid : mapping of str to sequence, or sequence of such mappings
        As scikit-learn's `ParameterGrid`: the values of each parameter.
    seed : int
        Of the sample.
    most : int
        A larger grid is sampled to this number.

    Raises
    ------
    ConfigError
        If the grid has another form, or no values for a parameter.
    """
    from sklearn.model_selection import ParameterGrid

    try:
        every = ParameterGrid(grid)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"the settings must be lists of values by parameter: {reason}") from None
    count = len(every)
    if not any(every.param_grid):
        raise ConfigError("there are no settings to choose from; name a parameter and its values")
    rows: Sequence[int] = range(count)
    if count > most:
        rng = np.random.default_rng([seed, _SAMPLE_SEED])
        rows = sorted(rng.choice(count, most, replace=False).tolist())
    # Values may be NumPy scalars, such as those of `numpy.logspace`.
    return tuple(
        {k: v.item() if isinstance(v, np.generic) else v for k, v in sorted(every[row].items())}
        for row in rows
    ), count


def check_names(names: Sequence[str], estimator: Any, key: str) -> None:
    """Raise ConfigError if an estimator has no such parameter, with the nearest one.

    Parameters
    ----------
    names : sequence of str
    estimator : estimator
    key : str
        What the user called the grid, for the message.
    """
    known = sorted(estimator.get_params(deep=True))
    for name in names:
        if name in known:
            continue
        # The step of a pipeline that has the parameter.
        within = [each for each in known if each.endswith(f"__{name}")]
        hint = f"; did you mean {within[0]!r}?" if within else nearest(name, known)
        raise ConfigError(
            f"{key} names an unknown parameter {name!r} of {type(estimator).__name__}"
            f"{hint or '; its get_params() lists them all'}"
        )
