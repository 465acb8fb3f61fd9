"""Settings of the process that are part of a fit, wherever it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context, get_config

T = TypeVar("T")
# Options of scikit-learn that change a result, with their defaults.
_IN_RESULTS = {"transform_output": "default", "enable_metadata_routing": False}


@dataclass(frozen=True)
class Settings:
    """Configuration of scikit-learn, NumPy's handling of errors, and filters of warnings.

    Attributes
    ----------
    sklearn : mapping
        Result of ``sklearn.get_config()``.
    numpy : mapping
        Result of ``numpy.geterr()``.
    filters : tuple
        The entries of ``warnings.filters``.
    """

    sklearn: Mapping[str, Any]
    numpy: Mapping[str, Any]
    filters: tuple[Any, ...]

    @classmethod
    def current(cls) -> Settings:
        """Return the settings that are in force now."""
        return cls(get_config(), np.geterr(), tuple(warnings.filters))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the settings of scikit-learn and NumPy, in this thread."""
        with config_context(**self.sklearn), np.errstate(**self.numpy):
            yield

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Raise the warnings that the filters turn into errors, and ignore all others.

        Warnings would repeat for every mask of a search. The filters apply to the whole process.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for action, message, category, module, line in reversed(self._errors()):
                warnings.filterwarnings(
                    "error" if action == "error" else "ignore",
                    _text(message),
                    category,
                    _text(module),
                    line,
                )
            yield

    def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a function under these settings."""
        with self.applied():
            return function(*arguments, **options)

    def in_results(self) -> dict[str, Any]:
        """Return what changes a result and is not the default, by name."""
        changed: dict[str, Any] = {
            name: self.sklearn[name]
            for name, default in _IN_RESULTS.items()
            if self.sklearn.get(name, default) != default
        }
        if raised := sorted(name for name, action in self.numpy.items() if action == "raise"):
            changed["errstate"] = raised
        if filters := self._errors():
            changed["warnings"] = [
                [action, _text(message), category.__name__, _text(module), line]
                for action, message, category, module, line in filters
            ]
        return changed

    def _errors(self) -> list[Any]:
        """Return the filters up to the last one that raises."""
        raising = [place for place, entry in enumerate(self.filters) if entry[0] == "error"]
        return list(self.filters[: raising[-1] + 1]) if raising else []


def _text(pattern: Any) -> str:
    """Return the text of a filter's regular expression, which may be compiled or missing."""
    return getattr(pattern, "pattern", pattern) or ""
