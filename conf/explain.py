"""One sentence for each error of pydantic: the key, the value, where it was set, the remedy."""

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
    data: Mapping[str, Any],
    model: type[BaseModel],
    origin: Callable[[Path], str],
) -> list[str]:
    """Return a sentence for every problem, unknown keys first.

    Parameters
    ----------
    error
        What pydantic raised.
    data
        The merged configuration.
    model
        The configuration class that refused `data`.
    origin
        Returns the file, variable or option that set a key.
    """
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
    # A member of a union that refused the value itself accepted its type.
    paths = [path for path in problems if path not in refused]
    # A misspelt key often explains a missing one.
    paths.sort(key=lambda path: problems[path][0]["type"] != "extra_forbidden")
    texts = [_sentence(path, problems[path], model, origin(path)) for path in paths]
    return [" ".join(redact(text).split()) for text in texts + reasons]


def _path(detail: ErrorDetails, data: Any) -> Path:
    """Return the location of an error without the members of unions, which are no keys."""
    if detail["type"] == "contradiction":
        return tuple(map(str, detail["loc"]))
    path = []
    for key in detail["loc"]:
        section = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(section, Mapping) and key in section:
            data = section[key]
        elif detail["type"] != "missing":
            break
        path.append(str(key))
    return tuple(path)


def _sentence(path: Path, details: list[ErrorDetails], model: type[BaseModel], origin: str) -> str:
    if any(detail["type"].startswith(("greater", "less")) for detail in details):
        # A number that is out of range is no attempt to write a text.
        details = [detail for detail in details if detail["type"] != "string_type"]
    key = ".".join(path)
    detail = details[-1]
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key {key!r} in {origin}; {_suggestion(path, model)}"
        case "missing":
            description = _fields(path[:-1], model)[path[-1]].description or ""
            return f"key {key!r} is missing from {origin}; add it ({description.rstrip('.')})"
        case "invalid_key":
            return f"key {key!r} in {origin} is not text; put it in quotes"
    expected = " or ".join(dict.fromkeys(map(_expected, details)))
    remedy = _remedy(detail, _fields(path, model))
    return f"{key} must {expected}, got {shown(detail['input'])} in {origin}{remedy}"


def _expected(detail: ErrorDetails) -> str:
    """Return what pydantic says after "Input should", such as "be a valid list"."""
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
    """Suggest the nearest key of the same section, or one of that name elsewhere, or all keys."""
    *section, name = path
    siblings = list(_fields(path[:-1], model))
    nearest_siblings = difflib.get_close_matches(name, siblings, n=1)
    keys = [".".join((*section, key)) for key in nearest_siblings] or _keys_called(name, model)
    return f"did you mean {keys[0]!r}?" if keys else f"known keys are {', '.join(siblings)}"


def _keys_called(name: str, model: type[BaseModel], above: str = "") -> list[str]:
    """Return the dotted keys with this last part, in the sections of a model."""
    keys: list[str] = []
    for key, field in _fields((), model).items():
        keys += [above + key] if key == name else []
        # The keys below a mapping of sections have a name of the user in them.
        sections = () if get_origin(field.annotation) is dict else _sections(field.annotation)
        for section in sections:
            keys += _keys_called(name, section, f"{above}{key}.")
    return keys


def _fields(path: Path, model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by key of the section at a path; a name in a mapping is passed over."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not path:
        return fields
    sections = _sections(fields[path[0]].annotation) if path[0] in fields else iter([model])
    return _fields(path[1:], next(sections, model))


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


def shown(value: object) -> str:
    """Format `value` as in YAML, with at most 80 characters and without passwords."""
    words = {None: "null", True: "true", False: "false"}
    text = redact(words[value] if value is None or isinstance(value, bool) else repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."
