"""Hand large objects to Prefect's tasks without having them walked through."""

from __future__ import annotations

from typing import TypeVar, cast

from prefect.utilities.annotations import quote

__all__ = ["opaque"]

T = TypeVar("T")


def opaque(value: T) -> T:
    """Keep Prefect from looking for futures inside `value`; the task receives `value` itself."""
    return cast(T, quote(value))
