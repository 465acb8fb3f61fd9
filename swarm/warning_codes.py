"""The warnings of a run, each with a code that does not change from version to version.

Numbers from 101 are about data and folds, from 201 about the search, from 301 about a champion.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["WARNINGS", "coded"]

WARNINGS = MappingProxyType(
    {
        "SWM101": "rows of one group are in both the training and the test rows",
        "SWM102": "a class is missing from the training or from the test rows",
        "SWM103": "the fold column has gaps",
        "SWM104": "a class is missing from the training rows of a fold that tests it",
        "SWM201": "the proxy ranks subsets differently from the full model",
        "SWM301": "columns of the champion have drifted",
        "SWM302": "the champion has no record of its training rows to compare with",
    }
)


def coded(code: str, text: str) -> str:
    """Return a warning with its code in front.

    Examples
    --------
    >>> coded("SWM103", "the fold column has gaps")
    'SWM103: the fold column has gaps'
    """
    if code not in WARNINGS:
        raise KeyError(code)
    return f"{code}: {text}"
