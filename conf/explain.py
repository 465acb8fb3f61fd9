"""Explain a pydantic error in one sentence with the key, the value and the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from swarm.errors import nearest
from swarm.redaction import redact

_OUT_OF_RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping of keys",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "invalid-json-value": "text, a number, true, false, null, a list or a mapping",
    "list_type": "a list",
    "model_type": "a mapping of keys",
    "recursion_loop": "nested less deeply and not inside itself",
    "string_type": "text",
    "too_short": "a list that is not empty",
}
_SHORTER = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}


def explain(
    error: ValidationError,
    data: Mapping[str, Any],
    model: type[BaseModel],
    origin: Callable[[tuple[str, ...]], str],
) -> str:
    """Return one sentence for the first problem, with the number of others.

    See :func:`sentences` for the parameters.
    """
    first, *others = sentences(error, data, model, origin).values()
    return first + (f" (and {len(others)} more)" if others else "")


def sentences(
    error: ValidationError,
    data: Mapping[str, Any],
    model: type[BaseModel],
    origin: Callable[[tuple[str, ...]], str],
) -> dict[tuple[str, ...], str]:
    """Return one sentence for every problem, by the path of its key.

    Parameters
    ----------
    error : ValidationError
        The error of pydantic.
    data : Mapping
        The merged configuration.
    model : type of BaseModel
        The model that refused `data`.
    origin : callable
        Returns the file, variable or option that set the key at a path.
    """
    problems: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        problems.setdefault(_path(detail, data), []).append(detail)
    # Unknown keys first: a misspelt key often explains a missing one.
    order = sorted(problems, key=lambda path: problems[path][0]["type"] != "extra_forbidden")
    told = {path: _sentence(path, problems[path], model, origin(path)) for path in order}
    return {path: " ".join(redact(text).split()) for path, text in told.items()}


def _path(detail: ErrorDetails, data: Any) -> tuple[str, ...]:
    """Return the part of the location that is a path in the data, without members of unions."""
    path = []
    for part in detail["loc"]:
        inside = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(inside, Mapping) and part in inside:
            data = inside[part]
        elif detail["type"] != "missing":
            break
        path.append(str(part))
    return tuple(path)


def _sentence(
    path: tuple[str, ...], details: list[ErrorDetails], model: type[BaseModel], origin: str
) -> str:
    if any(each["type"] in _OUT_OF_RANGE for each in details):
        # A number that is out of range is no attempt to write a text.
        details = [each for each in details if each["type"] != "string_type"]
    key, detail = ".".join(path), details[-1]
    match detail["type"]:
        case "sentence":
            return detail["msg"]
        case "value_error":
            return f"{key} {detail['ctx']['error']}"
        case "extra_forbidden":
            return f"unknown key {key!r} in {origin}; {_suggestion(path, model)}"
        case "missing":
            field = _section(path[:-1], model).model_fields[path[-1]]
            about = (field.description or "").rstrip(".")
            return f"key {key!r} is missing from {origin}; add it ({about})"
        case "invalid_key":
            return f"key {key!r} in {origin} is not text; put it in quotes"
    expected = " or ".join(dict.fromkeys(_expected(each) for each in details))
    remedy = _remedy(detail)
    if detail["type"] == "model_type":
        remedy = f"; its keys are {', '.join(_keys(_section(path, model)))}"
    return f"{key} must be {expected}, got {shown(detail['input'])} in {origin}{remedy}"


def _expected(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "string_pattern_mismatch" if detail["loc"] == ("name",):
            return "letters, digits, '.', '_' or '-'"
        case "string_pattern_mismatch":
            return "a dotted Python name"
        case "string_too_short":
            return "text that is not empty"
        case "string_too_long":
            return f"at most {detail['ctx']['max_length']} characters long"
        case kind if kind in _EXPECTED:
            return _EXPECTED[kind]
    text = detail["msg"].removeprefix("Input should be ").rstrip(".")
    for wordy, short in _SHORTER.items():
        text = text.replace(wordy, short)
    return text


def _remedy(detail: ErrorDetails) -> str:
    value = detail["input"]
    match detail["type"]:
        case "literal_error" if isinstance(value, str):
            return nearest(value, re.findall(r"'([^']*)'", detail["ctx"]["expected"]))
        case "string_type" if value is not None and not isinstance(value, list | dict):
            return "; put it in quotes"
        case "list_type" if isinstance(value, str | int | float):
            return f"; write [{value}]"
    return ""


def _suggestion(path: tuple[str, ...], model: type[BaseModel]) -> str:
    section, name = path[:-1], path[-1]
    siblings = _keys(_section(section, model))
    elsewhere = [known for known in _paths(model) if known[-1] == name]
    if close := difflib.get_close_matches(name, siblings, n=1):
        return f"did you mean {'.'.join((*section, close[0]))!r}?"
    if elsewhere:
        return f"did you mean {'.'.join(elsewhere[0])!r}?"
    return f"known keys are {', '.join(siblings)}"


def _keys(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _section(path: tuple[str, ...], model: type[BaseModel]) -> type[BaseModel]:
    """Return the section at a path, also inside a mapping of sections."""
    keys = list(path)
    while keys:
        key = keys.pop(0)
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        annotation = fields[key].annotation if key in fields else None
        below = next(_kinds(annotation), None)
        if below is None:
            break
        model = below
        if get_origin(annotation) is dict and keys:
            keys.pop(0)
    return model


def _kinds(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


def _paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field, sections included."""
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        yield path
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, path)


def shown(value: Any) -> str:
    """Format `value` as in YAML, with at most 80 characters and without passwords."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    text = redact(text)
    return text if len(text) <= 80 else f"{text[:77]}..."
