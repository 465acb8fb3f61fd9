"""Parameters of an estimator with an entry per column: restricted to a subset, or refused.

All constructor parameters are read, at any depth: of the steps of a pipeline, of the transformers
of a ``ColumnTransformer`` or ``FeatureUnion``, and of the estimators inside a meta-estimator.

- Parameters that are known to be by column (:data:`BY_COLUMN`) are restricted to the columns of the
  subset, and positions are changed to those in the subset. Positions are those of the table that
  the user gave. They need an estimator that receives the columns of the table, or of a transformer
  of a ``ColumnTransformer``, perhaps after steps with one column for each column, such as a scaler.
  Behind other steps, or inside a meta-estimator that is not scikit-learn's, only names are allowed.
- Any other parameter is refused if it names columns (a string in a list, all keys of a mapping), or
  if a list, array or mapping has as many entries as there are columns. Strings that are not in a
  list never count, nor do estimators, grids, and parameters that are known to be about something
  else (:data:`_NOT_BY_COLUMN`). A tuple of two or three numbers is taken for a range. For
  scikit-learn, every parameter that accepts an array is in one of the two lists or refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from swarm.errors import ConfigError
from swarm.problem.inner_estimators import (
    estimators_in,
    input_of,
    is_estimator,
    keeps_each_column,
    package_of,
    params_of,
)

# Kinds of values: ``list`` of columns, ``entries`` of one per column in their order or by name,
# ``groups`` of columns, and ``never`` for what cannot be restricted.
COLUMN_LISTS = ("categorical_feature", "cat_features", "categorical_features")
_LIGHTGBM = {
    "list": ("categorical_feature", "cat_feature", "categorical_column", "cat_column"),
    "entries": (
        *("monotone_constraints", "mc", "monotone_constraint", "monotonic_cst"),
        *("feature_contri", "feature_contrib", "fc", "fp", "feature_penalty"),
        *("max_bin_by_feature", "cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled"),
    ),
    "groups": ("interaction_constraints",),
    "never": (
        *("forcedsplits_filename", "fs", "forced_splits_filename", "forced_splits_file"),
        *("forced_splits", "forcedbins_filename", "ignore_column", "ignore_feature", "blacklist"),
    ),
}
_KINDS_OF: dict[str, dict[str, tuple[str, ...]]] = {
    "": {"list": COLUMN_LISTS},
    "sklearn": {
        "list": COLUMN_LISTS,
        "entries": (
            *("monotonic_cst", "categories", "drop", "n_bins", "min_categories"),
            *("min_value", "max_value", "length_scale"),
        ),
        "rows": ("length_scale_bounds",),
        "groups": ("interaction_cst",),
        "transformers": ("transformers",),
    },
    "lightgbm": {**_LIGHTGBM, "list": (*_LIGHTGBM["list"], *COLUMN_LISTS)},
    "xgboost": {
        "entries": ("monotone_constraints", "feature_weights", "feature_types"),
        "groups": ("interaction_constraints",),
    },
    "catboost": {
        "list": ("cat_features", "text_features", "embedding_features", "ignored_features"),
        "entries": ("monotone_constraints", "feature_weights"),
    },
}
BY_COLUMN = {
    package: {name: kind for kind, names in kinds.items() for name in names}
    for package, kinds in _KINDS_OF.items()
}
# Of any class: classes of the target, grids, and lists for the training as a whole.
_NOT_BY_COLUMN = frozenset(
    {
        *("class_weight", "classes", "class_prior", "priors", "sampling_strategy", "cv"),
        *("scoring", "metric", "metrics", "eval_metric", "eval_at", "label_gain", "callbacks"),
        *("hidden_layer_sizes", "alphas", "l1_ratios", "Cs", "feature_range", "quantile_range"),
        *("ngram_range", "steps", "estimators", "transformer_list", "random_state"),
    }
)
# Of scikit-learn's classes alone.
_NOT_BY_COLUMN_IN_SKLEARN = frozenset(
    {
        *("chain_method", "constant", "degree", "dtype", "fun_args", "input_type", "l1_ratio"),
        *("n_clusters", "order", "outlier_label", "patch_size", "response_method", "solver"),
        *("stack_method", "stop_words", "thresholds", "transform_input", "transformer_weights"),
        *("weights", "weights_init", "solver_options"),
    }
)
_GRIDS = ("param_grid", "param_distributions", "search_spaces")
# Mappings of keyword arguments: their keys are no columns, but their values may be by column.
_KEYWORDS = ("metric_params", "kernel_params", "kw_args", "inv_kw_args")


def column_params(estimator: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the parameters that are by column, such as ``model__monotonic_cst``.

    One that is, or may be, by column and cannot be restricted to a subset is a ConfigError.
    """
    return tuple(path for path, _, _ in _Changes(columns, columns, columns).of(estimator))


def for_columns(
    estimator: Any,
    # all columns in the order of the user's table, which positions refer to
    columns: Sequence[str],
    subset: Sequence[str],  # in the order of the table that the clone is fitted on
    names: Sequence[str] | None = None,  # names of these columns in that table; None: `subset`
) -> Any:
    """Return a clone with the parameters that are by column restricted to those of a subset."""
    from sklearn.base import clone

    model = clone(estimator, safe=False)
    changes = _Changes(columns, subset, subset if names is None else names)
    for _, owner, values in list(changes.of(model)):
        if hasattr(owner, "set_params"):
            owner.set_params(**values)
        else:
            owner.__dict__.update(values)
    return model


def restrict_columns(
    value: Any,  # names or positions among all columns, or a mask of them
    columns: Sequence[str],
    subset: Sequence[str],
) -> list[Any]:
    """Return the columns of `value` in a subset, by name or new position; ValueError if unknown."""
    place = {name: position for position, name in enumerate(subset)}
    pairs = _columns_in(value, columns)
    return [name if named else place[name] for name, named in pairs if name in place]


def listed_columns(value: Any, columns: Sequence[str]) -> list[str]:
    """Return the names of the columns in a list of names or positions, or in a mask."""
    return [name for name, _ in _columns_in(value, columns)]


def dropped_columns(estimator: Any, columns: Sequence[str]) -> list[str]:
    """Return the columns that a ``ColumnTransformer`` in front drops, as far as that is known."""
    steps = getattr(estimator, "steps", None)
    first = steps[0][1] if steps else estimator
    if not _has_transformers(first) or first.remainder != "drop":
        return []
    used = set[str]()
    for _, transformer, chosen in first.transformers:
        if callable(chosen):
            return []
        used.update([] if transformer == "drop" else listed_columns(chosen, columns))
    return [name for name in columns if name not in used]


def _columns_in(value: Any, columns: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the names of the columns in a value, and whether each is given by name."""
    place = {name: position for position, name in enumerate(columns)}
    if isinstance(value, slice):
        names = isinstance(value.start, str), isinstance(value.stop, str)
        missing = [b for b in (value.start, value.stop) if isinstance(b, str) and b not in place]
        if missing:
            raise ValueError(repr(missing[0]))
        start = place[value.start] if names[0] else value.start
        # Unlike positions, names are included.
        stop = place[value.stop] + 1 if names[1] else value.stop
        return [(name, any(names)) for name in list(columns)[start : stop : value.step]]
    values = [value] if np.ndim(value) == 0 else list(value)
    if len(values) == len(columns) and all(isinstance(v, (bool, np.bool_)) for v in values):
        return [(name, False) for name, on in zip(columns, values, strict=True) if on]
    pairs = []
    for item in values:
        if isinstance(item, (int, np.integer)):
            if not -len(columns) <= item < len(columns):
                raise ValueError(f"the position {int(item)}")
            pairs.append((columns[int(item)], False))
        elif item in place:
            pairs.append((item, True))
        else:
            raise ValueError(repr(item))
    return pairs


@dataclass(frozen=True)
class _View:
    """Columns that an estimator receives: of the whole table, and of a subset."""

    whole: Sequence[str]
    subset: Sequence[str]
    is_known: bool = True  # if not, they may be others, and only names mean the same columns
    has_names: bool = True  # if not, the estimator receives an array


# Name of a parameter, its estimator, and the new values of parameters of the estimator.
_Change = tuple[str, Any, dict[str, Any]]


class _Changes:
    """What to change in an estimator for a subset of the columns."""

    def __init__(self, columns: Sequence[str], subset: Sequence[str], names: Sequence[str]) -> None:
        self.columns = list(columns)
        self.column_set = set(columns)
        self.names = dict(zip(subset, names, strict=True))
        self.view = _View(self.columns, list(subset))

    def of(self, estimator: Any) -> Iterator[_Change]:
        """Yield the changes at any depth; see :func:`column_params` for what it raises."""
        yield from self._within(estimator, "", self.view)

    def _within(self, node: Any, prefix: str, view: _View) -> Iterator[_Change]:
        kinds = BY_COLUMN[package_of(node)]
        for name, value in params_of(node).items():
            parameter = _Parameter(f"{prefix}{name}", type(node).__name__, view)
            kind = kinds.get(name)
            if value is None or is_estimator(value):
                continue
            if kind is not None:
                new = self._restricted(kind, value, node, parameter)
                if new is not value:
                    yield parameter.path, node, self._values(node, name, new, view)
            elif name in _GRIDS:
                self._check_grid(value, parameter)
            elif not _is_about_else(node, name):
                self._check_unknown(name, value, parameter)
        for label, inner, seen in self._parts(node, view):
            yield from self._within(inner, f"{prefix}{label}__", seen)

    def _parts(self, node: Any, view: _View) -> Iterator[tuple[str, Any, _View]]:
        """Yield the estimators inside an estimator with their names and what they receive."""
        unknown = _View(self.columns, self.view.subset, is_known=False)
        if getattr(node, "steps", None):
            for name, step in node.steps:
                if step in ("passthrough", None):
                    continue
                yield name, step, view
                if not keeps_each_column(step):
                    view = unknown
        elif _has_transformers(node):
            yield from self._transformers(node, view, unknown)
        elif type(node).__name__ != "FrozenEstimator":
            for name, value in params_of(node).items():
                kind = input_of(node, name)
                for label, inner in estimators_in(name, value) if kind != "target" else ():
                    seen = replace(view, has_names=False) if kind == "array" else view
                    yield label, inner, unknown if kind == "unknown" else seen

    def _transformers(
        self, node: Any, view: _View, unknown: _View
    ) -> Iterator[tuple[str, Any, _View]]:
        rest: list[str] | None = list(view.whole)
        for name, transformer, chosen in node.transformers:
            if callable(chosen):
                rest, seen = None, unknown
            else:
                whole = [column for column, _ in _columns_in(chosen, view.whole)]
                subset, columns = set(view.subset), set(whole)
                seen = _View(whole, [column for column in whole if column in subset])
                rest = (
                    None if rest is None else [column for column in rest if column not in columns]
                )
            if is_estimator(transformer):
                yield name, transformer, seen
        if is_estimator(node.remainder):
            seen = unknown
            if rest is not None and view.is_known:
                others = set(rest)
                seen = _View(rest, [column for column in view.subset if column in others])
            yield "remainder", node.remainder, seen

    # ------------------------------------------------------------ parameters that are known

    def _restricted(self, kind: str, value: Any, node: Any, parameter: _Parameter) -> Any:
        """Return the value for the subset; the value itself if it is not by column."""
        view = parameter.view
        if isinstance(value, str):
            parsed = _parsed(value, kind)
            if parsed is None and (package_of(node) in ("sklearn", "") or value in ("", "auto")):
                return value
            if kind != "never" and parsed is None:
                raise parameter.refused("has columns in a text", "give them as a list")
            value = parsed
        if kind == "never":
            raise parameter.refused("refers to columns by position", "leave it out")
        if kind == "transformers":
            return [
                (name, each, chosen if callable(chosen) else self._listed(chosen, parameter, True))
                for name, each, chosen in value
            ]
        if kind == "list":
            return self._listed(value, parameter)
        if kind == "groups":
            return self._groups(value, node, parameter)
        if isinstance(value, Mapping):
            place = {name: position for position, name in enumerate(view.subset)}
            keys = list(zip(value, self._columns(list(value), parameter), strict=True))
            return {
                self.names[column] if named else place[column]: value[key]
                for key, (column, named) in keys
                if column in place
            }
        if np.ndim(_shallow(value)) == 0 or (kind == "rows" and np.ndim(value) < 2):
            return value
        return _picked(value, parameter)

    def _columns(self, value: Any, parameter: _Parameter) -> list[tuple[str, bool]]:
        view = parameter.view
        try:
            pairs = _columns_in(value, view.whole)
        except ValueError as error:
            raise parameter.refused(
                f"has {error}, which is none of the columns that it receives",
                f"choose from {', '.join(map(repr, view.whole[:10]))}"
                f"{', ...' if len(view.whole) > 10 else ''}",
            ) from None
        if not view.has_names and any(named for _, named in pairs):
            raise parameter.refused(
                "names columns, but the ensemble around it passes on an array", "give positions"
            )
        by_name = all(named for _, named in pairs) and not isinstance(value, slice)
        if not view.is_known and not by_name:
            raise parameter.refused(
                "has positions of columns behind a step that may change them", "give names"
            )
        return pairs

    def _listed(self, value: Any, parameter: _Parameter, several: bool = False) -> list[Any]:
        """Return the columns of the subset; a single one is refused where there are `several`."""
        if several and isinstance(value, (str, int, np.integer)):
            # The transformer would get a series instead of a table.
            raise parameter.refused(
                f"has the single column {value!r}, which a subset may lack",
                f"give a list, [{value!r}]",
            )
        place = {name: position for position, name in enumerate(parameter.view.subset)}
        pairs = self._columns(value, parameter)
        return [
            self.names[name] if named else place[name] for name, named in pairs if name in place
        ]

    def _groups(self, value: Any, node: Any, parameter: _Parameter) -> Any:
        package = package_of(node)
        for group in value:
            if package == "lightgbm" and not isinstance(group, list):
                raise parameter.refused(
                    f"has the group {group!r}, which LightGBM ignores", "give a list of lists"
                )
        pairs = [(type(group), self._listed(list(group), parameter)) for group in value]
        groups = [kind(group) for kind, group in pairs if group]
        if package == "xgboost" and not groups and len(value):
            # Columns in no group interact with none, and no groups at all with all.
            return [[position] for position in range(len(parameter.view.subset))]
        return groups

    def _values(self, node: Any, name: str, new: Any, view: _View) -> dict[str, Any]:
        if name == "interaction_constraints" and package_of(node) == "lightgbm" and not new:
            # LightGBM never uses columns that are in no group, but without groups all of them.
            aliases = [alias for alias in _FEATURE_PENALTIES if alias in params_of(node)]
            return {name: None, (aliases or _FEATURE_PENALTIES)[0]: [0.0] * len(view.subset)}
        return {name: new}

    # ------------------------------------------------------------ all others

    def _check_grid(self, grids: Any, parameter: _Parameter) -> None:
        for grid in [grids] if isinstance(grids, Mapping) else grids:
            for key, values in grid.items():
                name = key.rpartition("__")[2]
                candidates = values if isinstance(values, (Sequence, np.ndarray)) else ()
                by_column = any(name in kinds for kinds in BY_COLUMN.values())
                for candidate in candidates:
                    inner = self._within(candidate, f"{parameter.path}[{key!r}]__", self.view)
                    by_column = by_column or (is_estimator(candidate) and any(True for _ in inner))
                    if by_column and (np.ndim(_shallow(candidate)) or is_estimator(candidate)):
                        raise parameter.refused(
                            f"has values of {key!r} with an entry per column",
                            "leave them out of the grid",
                        )
                    if name not in _NOT_BY_COLUMN:
                        self._check_unknown(name, candidate, parameter)

    def _check_unknown(self, name: str, value: Any, parameter: _Parameter) -> None:
        n_columns = len(parameter.view.whole)
        looks = self._looks(value, n_columns, skip_keys=name in _KEYWORDS)
        if looks and not name.endswith("_bounds"):
            raise parameter.refused(
                f"{looks}, so that its meaning for a subset of the columns is unclear",
                "leave it out, or let the class set it from the columns that fit receives",
            )

    def _looks(self, value: Any, n_columns: int, skip_keys: bool = False) -> str:
        """Return in what a value looks as if it were by column, or ""."""
        if isinstance(value, Mapping):
            keys = list(value)
            if not skip_keys and keys and all(_is_in(key, self.column_set) for key in keys):
                return "has names of columns as keys"
            texts = all(isinstance(key, str) for key in keys)
            if not skip_keys and not texts and len(keys) == n_columns > 1:
                return f"has as many keys as there are columns ({n_columns})"
            inner = (self._looks(each, n_columns) for each in value.values())
            return next(filter(None, inner), "")
        if hasattr(value, "columns") and not isinstance(value, type):
            return "is a table"
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and n_columns > 1 and n_columns in shape:
            return f"is an array with an entry per column, of shape {shape}"
        if isinstance(value, np.ndarray) or hasattr(value, "iloc"):
            value = list(np.ravel(value)) if np.size(value) < 10 * n_columns else []
        if not isinstance(value, (list, tuple, set, frozenset)):
            return ""
        items = list(value)
        if any(is_estimator(part) for item in items for part in (item, *_parts_of(item))):
            return ""
        named = [item for item in items if isinstance(item, str) and item in self.column_set]
        if named:
            return f"names the column {named[0]!r}"
        is_range = isinstance(value, tuple) and len(items) <= 3
        if len(items) == n_columns > 1 and not (is_range and all(map(np.isscalar, items))):
            return f"has as many entries as there are columns ({n_columns})"
        inner = (self._looks(item, n_columns) for item in items)
        return next(filter(None, inner), "")


_FEATURE_PENALTIES = ("feature_contri", "feature_contrib", "fc", "fp", "feature_penalty")


@dataclass(frozen=True)
class _Parameter:
    """A parameter of an estimator, for messages."""

    path: str
    owner: str
    view: _View

    def refused(self, reason: str, remedy: str) -> ConfigError:
        return ConfigError(f"the parameter {self.path!r} of {self.owner} {reason}; {remedy}")


def _is_about_else(node: Any, name: str) -> bool:
    return name in _NOT_BY_COLUMN or (
        package_of(node) == "sklearn" and name in _NOT_BY_COLUMN_IN_SKLEARN
    )


def _has_transformers(node: Any) -> bool:
    return package_of(node) == "sklearn" and hasattr(node, "transformers")


def _is_in(key: Any, columns: set[str]) -> bool:
    return isinstance(key, str) and key in columns


def _parts_of(item: Any) -> tuple[Any, ...]:
    return item if isinstance(item, tuple) else ()


def _shallow(value: Any) -> Any:
    """Return a value of which NumPy can tell whether it is a list, however ragged its items are."""
    return [None] * len(value) if isinstance(value, (list, tuple, set, frozenset)) else value


def _picked(value: Any, parameter: _Parameter) -> Any:
    """Return the entries of the columns of the subset, in a value with one per column."""
    view = parameter.view
    if not view.is_known:
        raise parameter.refused(
            "has an entry per column behind a step that may change the columns",
            "leave it out, or give it to the first step",
        )
    if len(value) != len(view.whole):
        raise parameter.refused(
            f"has {len(value)} entries for {len(view.whole)} columns", "give one per column"
        )
    place = {name: position for position, name in enumerate(view.whole)}
    at = [place[name] for name in view.subset]
    if hasattr(value, "iloc"):
        return value.iloc[at]
    if isinstance(value, np.ndarray):
        return value[at]
    return type(value)(value[position] for position in at)


def _parsed(text: str, kind: str) -> list[Any] | None:
    """Return the list in a text such as ``(1,0,-1)``, or None."""
    try:
        parsed: list[Any] = json.loads(f"[{text.replace('(', '[').replace(')', ']')}]")
    except ValueError:
        return None
    inner = parsed[0] if len(parsed) == 1 else None
    nested = isinstance(inner, list) and (
        kind != "groups" or any(isinstance(i, list) for i in inner)
    )
    return (inner if nested else parsed) or None
