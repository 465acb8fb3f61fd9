"""Names and values in the shape and size that MLflow accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

__all__ = ["PARAM_LENGTH", "TAG_LENGTH", "accepted_key", "batches", "cut"]

T = TypeVar("T")

PARAM_LENGTH = 6000
TAG_LENGTH = 8000
KEY_LENGTH = 250


def batches(items: Iterable[T], size: int = 100) -> Iterator[list[T]]:
    """Yield `items` in lists of at most `size`; 100 is what MLflow takes of params and tags."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def accepted_key(name: str) -> str:
    """Return `name` with every character that MLflow refuses in a key replaced by ``_``."""
    return re.sub(r"[^\w.\- :/]", "_", name)[:KEY_LENGTH]


def cut(value: object, length: int) -> str:
    """Return a value as text, strings as they are and others as JSON, cut to `length`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 3] + "..."
