"""Warnings of a run, each with a code that is stable across versions.

Codes from 101 concern data and folds, from 201 the search, from 301 a champion.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["WARNINGS", "coded"]

WARNINGS = MappingProxyType(
    {
        "SWM101": "a group has rows in both the training and the test set",
        "SWM102": "a class is missing from the training or the test set",
        "SWM103": "the fold column has gaps",
        "SWM104": "a class occurs in the test rows of a fold but not in its training rows",
        "SWM201": "the proxy ranks subsets differently from the full model",
        "SWM301": "columns of the champion have drifted",
        "SWM302": "the champion has no training statistics to compare with",
    }
)


def coded(code: str, text: str) -> str:
    """Prefix a warning with its code.

    Examples
    --------
    >>> coded("SWM103", "the fold column has gaps")
    'SWM103: the fold column has gaps'
    """
    if code not in WARNINGS:
        raise KeyError(code)
    return f"{code}: {text}"
