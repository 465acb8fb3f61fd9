"""What estimators and scorers are, as values of JSON: equal for equal settings, code and versions.

The code of an installed package is that of its version. Other code, of a notebook or a module of
one's own, is described by its bytecode, together with the functions, classes, values and
collections that it names in its own module. Not seen is what may be state: the lists and
dictionaries of a class, and those that a function may change. Neither is what code reaches in
another way, such as ``helpers.score`` of an imported module.
"""

from __future__ import annotations

import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_STATE = (list, set, dict, np.ndarray, pd.DataFrame, pd.Series)
# What changes a collection, an array or an object.
_MUTATORS = frozenset(
    {"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}
)
_STORES = frozenset({"STORE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR"})
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


def describe(value: Any) -> object:
    """Describe a setting, an estimator or a scorer; ConfigError without a stable name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [describe(item) for item in sorted(value, key=repr)]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in sorted(value.items())}
    if hasattr(value, "get_params") and not isinstance(value, type):
        params = value.get_params(deep=False)
        return {"class": _identity(type(value)), "params": describe(params)}
    if isinstance(value, partial):
        return {"partial": [describe(part) for part in (value.func, value.args, value.keywords)]}
    if isinstance(value, MethodType) and not isinstance(value.__self__, type):
        owner = _identity(type(value.__self__))
        return {"method": value.__name__, "class": owner, "state": describe(_state_of(value))}
    name = getattr(value, "__qualname__", "")
    if name and "<" not in name:
        return _identity(value)
    kind = type(value)
    ours = kind.__module__.startswith("sklearn.") or is_dataclass(value)
    if (ours or hasattr(value, "fit")) and hasattr(value, "__dict__"):
        # Splitters, column selectors, scorers and plain classes: settings without get_params.
        return {"class": _identity(kind), "state": describe(vars(value))}
    raise ConfigError(
        f"{value!r} has no stable name, so its results cannot be archived; "
        "define it by name in a module"
    )


def _identity(kind: Any) -> list[str]:
    """Return the name of a class or function, versions, and a digest of code without a version."""
    identity = [f"{kind.__module__}.{kind.__qualname__}"]
    # Base classes without `fit` do not change a model.
    bases = [base for base in getattr(kind, "__mro__", ()) if hasattr(base, "fit")]
    for package in sorted({base.__module__.partition(".")[0] for base in bases}):
        version = getattr(sys.modules.get(package), "__version__", None)
        identity += [f"{package}=={version}"] if version else []
    code = "\n".join(_code(kind))
    return [*identity, hashlib.sha256(code.encode()).hexdigest()] if code else identity


def _code(kind: Any) -> Iterator[str]:
    """Yield what a class or function does by code that no installed package has."""
    # Values by their ids, which are used again for others once a value is gone.
    waiting, seen = [kind], dict[int, Any]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, _PLAIN):
            yield repr(value)
            continue
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            yield f"{type(value).__name__} of {len(value)}"
            is_set = isinstance(value, (set, frozenset))
            waiting += sorted(value, key=repr) if is_set else value
            waiting += value.values() if isinstance(value, dict) else ()
        elif isinstance(value, pd.DataFrame):
            waiting += [list(value.columns), *(value.iloc[:, i] for i in range(value.shape[1]))]
        elif isinstance(value, (np.ndarray, pd.Series)):
            yield _array_digest(np.asarray(value))
        elif isinstance(value, partial):
            waiting += [value.func, value.args, value.keywords]
        elif isinstance(value, MethodType):
            waiting += [value.__func__, _state_of(value)]
        elif hasattr(value, "_score_func"):  # made by make_scorer
            waiting += [type(value), dict(vars(value))]
        elif hasattr(value, "get_params") and not isinstance(value, type):
            waiting += [type(value), value.get_params(deep=False)]
        elif isinstance(value, type):
            for base in value.__mro__:
                if not _is_installed(base.__module__):
                    members = sorted(vars(base).items())
                    own = [m for m in members if not m[0].startswith("__") or callable(m[1])]
                    yield repr([name for name, _ in own])
                    waiting += [member for _, member in own if not isinstance(member, _STATE)]
        elif isinstance(value, property):
            waiting += [value.fget, value.fset]
        elif isinstance(value, FunctionType) and not _is_installed(value.__module__):
            yield from _bytecode(value.__code__)
            waiting += _reached_by(value)
        # Of a decorated function, and of class and static methods.
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            waiting.append(wrapped)


def _array_digest(values: NDArray[Any]) -> str:
    plain = values if values.dtype.kind in "biufcmM" else values.astype(str)
    digest = hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()
    return f"{values.dtype} {values.shape} {digest}"


def _state_of(method: MethodType) -> dict[str, Any]:
    """Return the attributes of the owner of a method, none if the method may change them."""
    return {} if _may_change(method.__func__) else dict(getattr(method.__self__, "__dict__", {}))


def _may_change(function: Any) -> bool:
    """Whether a function may change what it names; code that cannot be read may not."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    stores = any(instruction.opname in _STORES for instruction in dis.get_instructions(code))
    return stores or not _MUTATORS.isdisjoint(_names(code))


def _bytecode(code: CodeType) -> Iterator[str]:
    """Yield what a code object does, without lines and file names."""
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bytecode(constant)
        else:
            # The order of a set changes between processes.
            plain = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            yield repr(plain)


def _reached_by(function: FunctionType) -> Iterator[Any]:
    """Yield the defaults of a function, and the values of its closure and of globals it names."""
    skipped = _STATE if _may_change(function) else ()
    yield from (value for value in _named_by(function) if not isinstance(value, skipped))


def _named_by(function: FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_installed(module: str) -> bool:
    """Whether a module is one of an installed package, or of the standard library."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module == "__main__":
        return module in sys.builtin_module_names
    path = Path(file)
    in_package = not _PACKAGE_FOLDERS.isdisjoint(path.parts)
    return in_package or path.is_relative_to(sysconfig.get_path("stdlib"))
