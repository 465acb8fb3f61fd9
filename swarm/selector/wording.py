"""Sentences of the library in the words of Python.

Most sentences name no configuration key. Those that do, because `swarm check` and the flows report
them too, are reworded here for the arguments of :class:`swarm.SubsetSelector`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from swarm.errors import SwarmError
from swarm.findings import Finding

P = ParamSpec("P")
T = TypeVar("T")

# The first rules are whole clauses, as an argument may need another remedy than a key.
_CLAUSES = {
    "list it in data.categorical, data.dates or data.drop": (
        "convert it with astype('category'), replace it by numbers, or drop it"
    ),
    "declare it categorical (data.categorical)": "convert it with astype('category')",
    "list it in data.dates, which replaces it by year, month, day and weekday": (
        "replace it by numbers, such as its year, month, day and weekday"
    ),
    "drop it (data.drop)": "drop it (X.drop(columns=...))",
    "drop the others (data.drop)": "drop the others (X.drop(columns=...))",
    "set data.group to the column and use split and folds by group, or drop the column": (
        "pass the column as groups to fit, with cv=GroupKFold() or another splitter of groups, "
        "or drop the column"
    ),
    "set folds.kind to 'time', or to 'auto', which follows the split": "pass cv=TimeSeriesSplit()",
    "set folds.kind to 'time' or 'purged'": "pass cv=TimeSeriesSplit() or cv=PurgedKFold()",
    "set folds.kind to 'group' or 'stratified_group'": (
        "pass cv=GroupKFold() or cv=StratifiedGroupKFold()"
    ),
    "set split.kind and folds.kind to 'time', with the column as data.time": (
        "sort the rows by the column, and pass cv=TimeSeriesSplit()"
    ),
    "set pos_label to": "pass scoring=make_scorer(..., pos_label=...) with",
    "make proxy.params more like model.params": (
        "make the parameters of the proxy more like those of the estimator"
    ),
    "remove the proxy, or model.search": "pass proxy=None or param_grid=None",
    "remove model.search": "pass param_grid=None",
    "correct model.params": "correct the parameters of the estimator",
    "confirm.goal: size selects it": "confirm={'goal': 'size'} selects it",
    "set epochs, evaluations, distinct": "set epochs, distinct",
    "`data.horizon` says that targets look ahead": "the targets look ahead",
    "name a group column": "pass groups to fit",
    "use another split.kind or a larger split.test_size": "split them otherwise",
    "name what they share in data.group": "pass what they share as groups to fit",
    "run swarm stability": "repeat the search with other values of random_state",
    "correct the configuration": "correct the arguments",
    "correct the data, or the keys that describe it": "correct the data",
}
_KEYS = {
    "confirm.goal is size": "confirm={'goal': 'size'} is given",
    "(confirm.margin)": "(confirm={'margin': ...})",
    "budget.distinct": "distinct",
    "budget.rows": "rows",
    "evaluation.asynchronous": "asynchronous",
    "evaluation.device": "device",
    "evaluation.importance": "importance",
    "model.estimator: lightgbm.": "such as ",
    "space.forbidden": "forbidden",
    "space.max_size": "max_size",
    "space.min_size": "min_size",
    "strategy.params": "strategy_params",
    "`data.group` is set": "groups are given",
    "`data.group` is not set": "no groups are given",
}
_CONSTANTS = {"null": "None", "true": "True", "false": "False"}
_CONSTANT = re.compile(r"(?<=\bto )(?:null|true|false)\b|(?<=\bor )null\b|\btrue or false\b")
_SAID = re.compile("|".join(map(re.escape, [*_CLAUSES, *_KEYS])))
_FOLDS = re.compile(r"^folds must be ")


def in_arguments(text: str) -> str:
    """Return a sentence with the arguments of the selector in place of configuration keys."""
    known = {**_CLAUSES, **_KEYS}
    text = _SAID.sub(lambda found: known[found[0]], text)
    text = _CONSTANT.sub(lambda found: _in_python(found[0]), text)
    return _FOLDS.sub("cv must be ", text)


def _in_python(constants: str) -> str:
    return " ".join(_CONSTANTS.get(word, word) for word in constants.split())


def findings_in_arguments(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings whose text and remedy name arguments."""
    return tuple(
        replace(each, text=in_arguments(each.text), remedy=in_arguments(each.remedy))
        for each in findings
    )


def raises_in_arguments(method: Callable[P, T]) -> Callable[P, T]:
    """Reword the message of any error of the project that a method raises."""

    @wraps(method)
    def reworded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except SwarmError as error:
            # In place: a new exception would show the same error twice.
            if error.args and isinstance(error.args[0], str):
                first: Any = in_arguments(error.args[0])
                error.args = (first, *error.args[1:])
            raise

    return reworded
