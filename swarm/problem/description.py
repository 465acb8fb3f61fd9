"""Names of code in the archive: estimators, scorers and settings as JSON values.

Code of an installed package is named by package and version, other code by the text of the file of
its module, so that any edit is a new name; modules that it imports are not read. Lambdas, and what
is defined in a function, a notebook or ``__main__``, have no name without a ``__version__``.
"""

import copyreg
import hashlib
import json
import os
import sys
from collections.abc import Callable
from datetime import date, time, timedelta
from functools import cache, partial
from importlib import metadata
from operator import methodcaller
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from swarm.errors import ConfigError

_distributions = cache(metadata.packages_distributions)
# The import spec and the digest of the text, by module: an edit counts when the module is imported
# again.
_TEXTS: dict[str, tuple[object, str]] = {}


class Unnamed(ConfigError):
    """A class, function or setting without a name, whose evaluations cannot be stored."""


def describe(value: object, strict: bool = True) -> object:
    """Return a JSON value that is equal for equal settings, code and versions.

    Raises Unnamed if a part has no name; unless `strict`, such a part is ``{"unnamed": its
    qualified name}``, which is enough to compare models within one session.
    """
    try:
        return _describe(value, strict, is_cloned=True)
    except RecursionError:
        if strict:
            raise _unnamed(value, "refers to itself") from None
        return {"unnamed": _label(value)}


def _describe(value: object, strict: bool, is_cloned: bool = False) -> object:
    """Describe a part; the fitted state counts, except of what is cloned for each fit."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return _compound(value, partial(_describe, strict=strict), is_cloned)
    except Unnamed:
        if strict:
            raise
        return {"unnamed": _label(value)}


def _compound(value: Any, of: Callable[..., object], is_cloned: bool) -> object:
    """Describe a value that is no scalar of JSON; `of` describes its parts."""
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        is_plain = value.dtype.kind in "biufcmMSU"
        content = _sha256(value.tobytes()) if is_plain else of(value.tolist())
        return {"array": [str(value.dtype), list(value.shape), content]}
    if isinstance(value, (pd.DataFrame, pd.Series)):
        # Equal tables may differ in the blocks of their state.
        frame = pd.DataFrame(value)
        columns = [frame.iloc[:, i].array for i in range(frame.shape[1])]
        return {type(value).__name__: of([frame.index, frame.columns, columns])}
    if isinstance(value, (pd.Index, pd.api.extensions.ExtensionArray)):
        dtype: Any = value.dtype
        categories = [dtype.categories, dtype.ordered] if hasattr(dtype, "categories") else []
        return {"values": [str(dtype), of([np.asarray(value), *categories])]}
    if isinstance(value, bytes):
        return {"bytes": _sha256(value)}
    if value is pd.NA or isinstance(value, (date, time, timedelta)):
        return {"value": repr(value)}
    if isinstance(value, (list, tuple)):
        return [of(item, is_cloned=is_cloned) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(of, value), key=json.dumps)}
    if isinstance(value, dict):
        return {"dict": sorted(([of(k), of(v)] for k, v in value.items()), key=json.dumps)}
    if isinstance(value, MethodType):
        if getattr(value.__self__, value.__name__, None) != value:
            raise _unnamed(value, "is no method of its object")
        return {"method": value.__name__, "of": of(value.__self__)}
    if isinstance(value, np.ufunc) or hasattr(value, "__qualname__"):
        return _identity(value, _version(value))
    return _instance(value, of, is_cloned)


def _instance(value: Any, of: Callable[..., object], is_cloned: bool) -> dict[str, object]:
    """Describe an object by its class and its parameters, or its state as :mod:`copy` reads it."""
    cls = type(value)
    version = _version(value)
    about = {"class": of(cls) if version is None else _identity(cls, version)}
    if version is not None:
        # The version also covers parts without a name.
        of = partial(of, strict=False)
    if "_metadata_request" in getattr(value, "__dict__", ()):
        # A request refers back to its owner, but its text does not.
        about["request"] = repr(value._metadata_request)
    # Estimators that define how they are cloned, such as FrozenEstimator, keep their state.
    clone = getattr(cls, "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
    if is_cloned and hasattr(value, "get_params") and clone is BaseEstimator.__sklearn_clone__:
        params = value.get_params(deep=False)
        return about | {"params": {k: of(v, is_cloned=True) for k, v in sorted(params.items())}}
    try:
        state = [*copyreg.dispatch_table.get(cls, methodcaller("__reduce_ex__", 4))(value)]
    except RecursionError:
        raise
    except Exception as error:
        raise _unnamed(value, "cannot be described") from error
    if len(state) > 2 and isinstance(state[2], dict):
        state[2] = {name: v for name, v in state[2].items() if name != "_metadata_request"}
    if state[0] is copyreg.__newobj__:  # type: ignore[attr-defined]
        # Leave out the constructor, a detail of Python, and the class, which is described already.
        state[:2] = [state[1][1:]]
    # The items of a container come as iterators.
    return about | {"state": of([list(p) if hasattr(p, "__next__") else p for p in state])}


def _identity(code: Any, version: str | None) -> list[str]:
    """Return the name of a class or function, its version, and the sources of it and its bases."""
    # Ufuncs of SciPy do not know their module.
    default = "scipy.special" if isinstance(code, np.ufunc) else "builtins"
    module = getattr(code, "__module__", None) or default
    name = getattr(code, "__qualname__", None) or code.__name__
    bases = [base for base in getattr(code, "__mro__", ())[1:] if base is not object]
    sources = {
        _source(base, base.__module__) if _version(base) is None else f"{base} {_version(base)}"
        for base in bases
    }
    if version is not None:
        return [f"{module}.{name}", "version", version, *sorted(sources)]
    if "<" in name:
        raise _unnamed(code, "is a lambda or is defined in a function")
    sources.add(_source(code, module))
    # Code from before a reload has the name of the new code, a wrapper that of what it wraps.
    namesake: Any = sys.modules[module]
    for attribute in name.split("."):
        namesake = getattr(namesake, attribute, None)
    if namesake != code:
        raise _unnamed(code, "is not the object that an import by its name returns")
    return [f"{module}.{name}", *sorted(sources)]


def _source(code: object, module: str) -> str:
    """Return ``package==version``, or ``module:digest`` of the text of another module."""
    file = getattr(sys.modules.get(module), "__file__", None)
    top = module.partition(".")[0]
    if file is not None and {"site-packages", "dist-packages"} & {*Path(file).parts}:
        version = getattr(sys.modules.get(top), "__version__", None)
        if not isinstance(version, str):
            version = ",".join(sorted(map(metadata.version, {*_distributions().get(top, ())})))
        return f"{top}=={version}"
    is_stdlib = file is None or Path(file).is_relative_to(Path(os.__file__).parent)
    if top in sys.stdlib_module_names and is_stdlib:
        return f"python=={sys.version_info.major}.{sys.version_info.minor}"
    if file is None or not Path(file).is_file() or module in ("__main__", "__mp_main__"):
        raise _unnamed(code, "is defined in a notebook or in __main__")
    spec = sys.modules[module].__spec__
    if module not in _TEXTS or _TEXTS[module][0] is not spec:
        _TEXTS[module] = spec, _sha256(Path(file).read_bytes().replace(b"\r\n", b"\n"))
    return f"{module}:{_TEXTS[module][1]}"


def _version(value: object) -> str | None:
    """The ``__version__`` that an author gave a class, a function or an object."""
    version = getattr(value, "__dict__", {}).get("__version__")
    return version if isinstance(version, str) else None


def _unnamed(value: object, reason: str) -> Unnamed:
    return Unnamed(
        f"{_label(value)!r} {reason}, so its evaluations are not stored; "
        "give it a __version__, or define it in a module"
    )


def _label(value: object) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
