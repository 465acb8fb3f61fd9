"""One sentence for each error of pydantic: the key, the value, where it was set, the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from swarm.errors import nearest
from swarm.redaction import redact

Path = tuple[str, ...]


def sentences(
    error: ValidationError,
    data: Mapping[str, Any],  # the merged configuration
    model: type[BaseModel],  # which refused `data`
    origin: Callable[[Path], str],  # the file, variable or option that set a key
) -> list[str]:
    """Return a sentence for every problem, unknown keys first."""
    problems: dict[Path, list[ErrorDetails]] = {}
    reasons: list[str] = []
    refused: set[Path] = set()
    for detail in error.errors(include_url=False):
        path = _path(detail, data)
        if detail["type"] in ("contradiction", "value_error"):
            reason = detail.get("ctx", {}).get("error", detail["msg"])
            reasons.append(f"{'.'.join(path)} {reason}")
            refused.add(path)
        else:
            problems.setdefault(path, []).append(detail)
    # One member of a union has refused the value itself, so the type was not wrong.
    others = [path for path in problems if path not in refused]
    # A misspelt key often explains a missing one.
    order = sorted(others, key=lambda path: problems[path][0]["type"] != "extra_forbidden")
    texts = [_sentence(path, problems[path], model, origin(path)) for path in order]
    return [" ".join(redact(text).split()) for text in texts + reasons]


def _path(detail: ErrorDetails, data: Any) -> Path:
    """Return the location of an error without the members of unions, which are no keys."""
    if detail["type"] == "contradiction":
        return tuple(map(str, detail["loc"]))
    path = []
    for part in detail["loc"]:
        inside = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(inside, Mapping) and part in inside:
            data = inside[part]
        elif detail["type"] != "missing":
            break
        path.append(str(part))
    return tuple(path)


def _sentence(path: Path, details: list[ErrorDetails], model: type[BaseModel], origin: str) -> str:
    if any(each["type"].startswith(("greater", "less")) for each in details):
        # A number that is out of range is no attempt to write a text.
        details = [each for each in details if each["type"] != "string_type"]
    key, detail = ".".join(path), details[-1]
    section = _fields(path[:-1], model)
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key {key!r} in {origin}; {_suggestion(path, model)}"
        case "missing":
            about = (section[path[-1]].description or "").rstrip(".")
            return f"key {key!r} is missing from {origin}; add it ({about})"
        case "invalid_key":
            return f"key {key!r} in {origin} is not text; put it in quotes"
    # What pydantic says after "Input should be a valid list" or "String should match pattern".
    musts = dict.fromkeys(_must(each) for each in details)
    return f"{key} must {' or '.join(musts)}, got {shown(detail['input'])} in {origin}" + _remedy(
        detail, _fields(path, model)
    )


def _must(detail: ErrorDetails) -> str:
    if detail["type"] == "model_type":
        return "be a mapping of keys"
    return detail["msg"].partition(" should ")[2] or detail["msg"]


def _remedy(detail: ErrorDetails, below: Mapping[str, FieldInfo]) -> str:
    value = detail["input"]
    match detail["type"]:
        case "literal_error" if isinstance(value, str):
            return nearest(value, re.findall(r"'([^']*)'", detail["ctx"]["expected"]))
        case "string_type" if value is not None and not isinstance(value, list | dict):
            return "; put it in quotes"
        case "list_type" if isinstance(value, str | int | float):
            return f"; write [{value}]"
        case "model_type":
            return f"; its keys are {', '.join(below)}"
    return ""


def _suggestion(path: Path, model: type[BaseModel]) -> str:
    """Return the nearest key of the same section, or one of that name elsewhere, or all keys."""
    *section, name = path
    siblings = list(_fields(path[:-1], model))
    close = difflib.get_close_matches(name, siblings, n=1)
    near = [".".join((*section, *close))] if close else _keys_called(name, model)
    return f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(siblings)}"


def _keys_called(name: str, model: type[BaseModel], above: str = "") -> list[str]:
    """Return the dotted keys with this last part, in the sections of a model."""
    keys: list[str] = []
    for key, field in _fields((), model).items():
        keys += [above + key] if key == name else []
        # The keys below a mapping of sections have a name of the user in them.
        inside = () if get_origin(field.annotation) is dict else _sections(field.annotation)
        for section in inside:
            keys += _keys_called(name, section, f"{above}{key}.")
    return keys


def _fields(path: Path, model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by key of the section at a path; a name in a mapping is passed over."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not path:
        return fields
    inside = _sections(fields[path[0]].annotation) if path[0] in fields else iter([model])
    return _fields(path[1:], next(inside, model))


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def shown(value: Any) -> str:
    """Format `value` as in YAML, with at most 80 characters and without passwords."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    text = redact(text)
    return text if len(text) <= 80 else f"{text[:77]}..."
