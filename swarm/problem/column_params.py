"""Parameters of an estimator and of its ``fit`` that refer to columns: restricted, or refused.

All parameters are read, at any depth. Positions are those of the columns of the user's table, so
the estimator has to receive these columns; names are restricted wherever they occur. Whatever else
has an entry per column, or seems to have one, is refused: its meaning for a subset is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from swarm.arrays import Positions
from swarm.errors import ConfigError
from swarm.problem.models import estimators_in, is_estimator, is_lightgbm, params_of
from swarm.problem.table import labels_of
from swarm.protocols import Estimator

_Names = Sequence[Any] | None
_Params = Mapping[str, Any]
_Map = Mapping[Any, Any] | None
_NAMES_OF_KIND = {
    "list": """categorical_feature cat_feature categorical_column cat_column cat_features
        categorical_features text_features embedding_features ignored_features""",
    "entries": "monotone_constraints mc monotone_constraint monotonic_cst",
    "groups": "interaction_constraints interaction_cst",
    "refused list": """categories drop n_bins min_categories min_value max_value length_scale
        max_bin_by_feature feature_contri feature_contrib fc fp feature_penalty feature_weights
        feature_types cegb_penalty_feature_lazy cegb_penalty_feature_coupled
        first_feature_use_penalties per_object_feature_penalties""",
    "refused": """forcedsplits_filename fs forced_splits_filename forced_splits_file forced_splits
        forcedbins_filename ignore_column ignore_feature blacklist per_float_feature_quantization
        per_feature_ctr input_borders""",
    "grid": "param_grid param_distributions search_spaces",
    # These have an entry per class, label, row or step, or concern the training as a whole.
    "ignored": """class_weight class_weights classes class_names class_prior priors cv scoring
        sampling_strategy metric metrics eval_metric custom_metric custom_loss eval_at label_gain
        callbacks hidden_layer_sizes alphas l1_ratio l1_ratios Cs feature_range quantile_range
        quantile_alpha ngram_range steps estimators transformer_list random_state weights
        weights_init stop_words vocabulary thresholds constant degree fun_args n_clusters order
        outlier_label patch_size response_method solver_options transform_input
        transformer_weights length_scale_bounds""",
}
_KIND_OF = {name: kind for kind, names in _NAMES_OF_KIND.items() for name in names.split()}
# The keys of these mappings are names of arguments, even if columns have the same names.
_KEYWORDS = ("metric_params", "kernel_params", "kw_args", "inv_kw_args")
# Parameters of scikit-learn's meta-estimators whose estimators receive the same columns, and
# classes for which that is not true.
_PASSED_ON = re.compile("steps|transformer_list|(base_)?estimator|estimators|regressor|classifier")
_CHANGING = re.compile("ClassifierChain|RegressorChain|RFE|RFECV|Sequential.*|IterativeImputer")
# A text such as ``name:a,b``, ``0,1`` or ``(1,0,-1)``, unlike ``auto``.
_TEXT_OF_COLUMNS = re.compile(r"[:,]|^\W*\d")
# A model or an evaluation set has all columns, and the rows of a ranker's groups cannot be split.
_EVALUATION = ("eval_set", "eval_X", "X_val")
_OF_ALL_COLUMNS = ("init_model", "xgb_model", "group", "eval_group", *_EVALUATION)
_PER_COLUMN = "has an entry per column, which a subset of the columns cannot have"
_LEAVE_OUT_OR_FIND = "leave it out, or let the class find them from the columns that fit receives"


def column_params(estimator: Estimator, names: _Names, n_columns: int) -> tuple[str, ...]:
    """Return the paths (like ``model__monotonic_cst``) of parameters that are restricted.

    Raises ConfigError for one that is by column and cannot be restricted.
    """
    columns = _Columns.of(names, n_columns, range(n_columns))
    return tuple(path for path, _, _ in columns.changes(estimator))


def for_columns(
    estimator: Estimator, names: _Names, n_columns: int, positions: Positions, renamed: _Map = None
) -> Any:
    """Return a clone whose parameters by column are those of the columns at `positions`.

    `positions` are ascending; `renamed` has the names under which the clone gets the columns.
    """
    model = clone(estimator, safe=False)
    for _, owner, params in list(_Columns.of(names, n_columns, positions, renamed).changes(model)):
        getattr(owner, "set_params", vars(owner).update)(**params)
    return model


def check_fit_params(params: _Params, names: _Names, n_columns: int, n_rows: int) -> None:
    """Raise ConfigError for a parameter of fit that is by column and cannot be restricted."""
    columns = _Columns.of(names, n_columns, range(n_columns))
    for path, value in params.items():
        name = path.rpartition("__")[2]
        parameter = replace(columns, path=path, owner="fit")
        if value is not None and name in _OF_ALL_COLUMNS:
            remedy = "leave it out"
            if name in _EVALUATION:
                remedy += "; for early stopping, let the estimator hold out rows itself"
            raise parameter.refused("cannot be cross-validated for subsets of the columns", remedy)
        has_columns = columns.position_of.keys() <= set(labels_of(value) or ())
        is_by_row = _shape(value)[:1] == (n_rows,) and not (columns.position_of and has_columns)
        is_restricted = columns.of_fit(path, value) is not value
        if not is_by_row and not is_restricted and parameter.value(name, value) is not value:
            raise parameter.refused("names a column, which is unclear for a subset without it")


def fit_params_for(
    params: _Params, names: _Names, n_columns: int, positions: Positions, renamed: _Map = None
) -> dict[str, Any]:
    """Return the parameters of fit restricted to the columns at `positions`, with all rows."""
    columns = _Columns.of(names, n_columns, positions, renamed)
    return {path: columns.of_fit(path, value) for path, value in params.items()}


def dropped_columns(estimator: object, names: _Names, n_columns: int) -> list[int]:
    """Return positions of the columns that a ``ColumnTransformer`` in front certainly drops.

    It is the estimator itself or the first step of a pipeline. With a callable, no column is
    certain to be dropped.
    """
    if steps := estimators_in("steps", getattr(estimator, "steps", None)):
        return dropped_columns(steps[0][1], names, n_columns)
    if not isinstance(estimator, ColumnTransformer) or estimator.remainder != "drop":
        return []
    columns = _Columns.of(names, n_columns, ())
    used: set[int] = set()
    for _, transformer, chosen in estimator.transformers:
        if callable(chosen):
            return []
        if transformer != "drop":
            used.update(map(columns.position, columns.listed(chosen)))
    return [position for position in range(n_columns) if position not in used]


@dataclass(frozen=True)
class _Columns:
    """Columns of a table, those of a subset, and the values of a parameter for them.

    `position_of` has positions in the table by name (empty without names), `place_of` places in
    the subset by position in the table. `in_table` is false if the owner of the parameter may
    receive other columns than those of the table.
    """

    n_columns: int
    position_of: Mapping[Any, int]
    place_of: Mapping[int, int]
    renamed: Mapping[Any, Any]
    path: str = "transformers"
    owner: str = "ColumnTransformer"
    in_table: bool = True

    @classmethod
    def of(
        cls, names: _Names, n_columns: int, positions: Positions, renamed: _Map = None
    ) -> _Columns:
        position_of = {name: at for at, name in enumerate(() if names is None else names)}
        place_of = {int(position): place for place, position in enumerate(positions)}
        return cls(n_columns, position_of, place_of, renamed or {})

    def refused(self, reason: str, remedy: str = "leave it out") -> ConfigError:
        return ConfigError(f"the parameter {self.path!r} of {self.owner} {reason}; {remedy}")

    def changes(self, node: object, prefix: str = "") -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Yield path, owner and new values of the parameters by column, at any depth."""
        for name, value in params_of(node).items():
            parameter = replace(self, path=prefix + name, owner=type(node).__name__)
            inside = estimators_in(name, value)
            receives = self.in_table and _passes_columns(node, name)
            for label, inner in inside:
                yield from replace(self, in_table=receives).changes(inner, f"{prefix}{label}__")
                # Only the first step receives the columns of the table.
                receives = receives and name != "steps"
            if name == "transformers" and isinstance(node, ColumnTransformer):
                new = parameter.transformers(value)
            else:
                new = value if inside else parameter.value(name, value)
            params = {name: new}
            if name == "interaction_constraints" and new is not value and new in ([], "[]"):
                # All columns interact without groups. Columns in no group are never used by
                # LightGBM, and used without interactions by XGBoost.
                params = {name: str([[place] for place in self.place_of.values()])}
                if is_lightgbm(node):
                    params = {name: None, "feature_contri": [0.0] * len(self.place_of)}
            if new is not value:
                yield parameter.path, node, params

    def value(self, name: Any, value: Any) -> Any:
        """Return the value for the subset, which is the same object if it is not by column."""
        kind = _KIND_OF.get(name, "")
        is_list = _is_list(value)
        is_text = isinstance(value, str)
        is_sized = is_list or is_text or isinstance(value, Mapping)
        is_empty = value is None or (is_sized and not len(value))
        if is_empty or isinstance(value, type) or kind == "ignored":
            return value
        is_number = isinstance(value, (int, float))
        if (kind == "refused" and not is_number) or (kind == "refused list" and is_list):
            raise self.refused(_PER_COLUMN, _LEAVE_OUT_OR_FIND)
        has_columns = kind and is_text and _TEXT_OF_COLUMNS.search(value)
        if has_columns or (kind == "list" and not is_sized):
            raise self.refused(f"has columns in {value!r}, which is no list", "give a list")
        if kind == "grid":
            return self.grids(value)
        if kind and isinstance(value, Mapping):
            return self.chosen(value)
        restrict = {"list": self.chosen, "entries": self.entries, "groups": self.groups}
        if is_list and kind in restrict:
            return restrict[kind](value)
        return self.unlisted(name, value)

    def position(self, item: Any) -> int:
        """Return the position in the table of a column that is given by name or position."""
        if _is_position(item) and not self.in_table:
            raise self.refused("has positions, perhaps of other columns than X has", "give names")
        if _is_position(item) and -self.n_columns <= item < self.n_columns:
            return int(item) % self.n_columns
        if _is_position(item) or not self.is_label(item):
            column = f"position {item}" if _is_position(item) else f"column {item!r}"
            raise self.refused(f"has the {column}, which X does not have", "name columns of X")
        return self.position_of[item]

    def is_label(self, item: object) -> bool:
        try:
            return item in self.position_of
        except TypeError:  # unhashable
            return False

    def is_name(self, item: object) -> bool:
        """Whether a value can be nothing but the label of a column, unlike a number."""
        return isinstance(item, (str, tuple)) and self.is_label(item)

    def listed(self, chosen: Any) -> Any:
        """Return columns in a list as they are, and those of a slice or mask by position."""
        if isinstance(chosen, slice):
            # Unlike positions, the last name is included.
            start, stop = (
                self.position(end) + place if isinstance(end, str) else end
                for place, end in enumerate((chosen.start, chosen.stop))
            )
            return list(range(self.n_columns)[start : stop : chosen.step])
        if not _is_list(chosen):
            return [chosen]
        is_mask = all(isinstance(item, (bool, np.bool_)) for item in chosen)
        if is_mask and len(chosen) == self.n_columns:
            return np.flatnonzero(list(chosen)).tolist()
        return chosen

    def chosen(self, value: Any) -> Any:
        """Return the columns of the subset in a list, a mask or the keys of a mapping."""
        items = value if isinstance(value, Mapping) else self.listed(value)
        pairs = [
            (item, place if _is_position(item) else self.renamed.get(item, item))
            for item in items
            if (place := self.place_of.get(self.position(item))) is not None
        ]
        if isinstance(value, Mapping):
            return {new: value[item] for item, new in pairs}
        return _like(items, [new for _, new in pairs])

    def groups(self, value: Any) -> list[Any]:
        """Return groups of columns without those that have none in the subset."""
        if not all(map(_is_list, value)):
            raise self.refused("has a group that is no list", "give a list of lists")
        return [group for group in map(self.chosen, value) if len(group)]

    def entries(self, value: Any) -> Any:
        """Return the entries of the columns of the subset in a list with one per column."""
        self.position(0)  # refuses positions if the columns may be others
        if len(value) != self.n_columns:
            raise self.refused(f"has {len(value)} entries for {self.n_columns} columns")
        items = list(value)
        return _like(value, [items[position] for position in self.place_of])

    def transformers(self, value: Any) -> Any:
        """Return the transformers of a ``ColumnTransformer``, without those of a lost column."""
        if all(callable(chosen) for _, _, chosen in value):
            return value
        new = []
        for name, transformer, chosen in value:
            columns = chosen if callable(chosen) else self.chosen(chosen)
            if isinstance(chosen, str) or _is_position(chosen):
                new += [(name, transformer, column) for column in columns]
            else:
                new.append((name, transformer, columns))
        return new

    def grids(self, value: Any) -> Any:
        """Return a grid, or a list of them, as it is; refuse one with candidates by column."""
        for grid in [value] if isinstance(value, Mapping) else value:
            for path, candidates in grid.items():
                name = path.rpartition("__")[2]
                for candidate in candidates if _is_list(candidates) else ():
                    is_changed = self.value(name, candidate) is not candidate
                    if is_changed or (is_estimator(candidate) and any(self.changes(candidate))):
                        raise self.refused(f"has candidates of {path!r} that are by column")
        return value

    def unlisted(self, name: Any, value: Any) -> Any:
        """Restrict a list or mapping of names; return or refuse any other value."""
        if self.is_name(value):
            return value
        is_mapping = isinstance(value, Mapping)
        sizes = _shape(value)
        has_objects = getattr(getattr(value, "dtype", None), "kind", "O") in "OUT"
        items = list(value) if is_mapping or (_is_list(value) and has_objects) else []
        names = [item for item in items if self.is_name(item) and name not in _KEYWORDS]
        if is_mapping:
            inside = replace(self, in_table=False)
            new = {key: inside.value(key, item) for key, item in value.items()}
            value = value if all(new[key] is value[key] for key in items) else new
            sizes = () if all(isinstance(key, str) for key in items) else (len(items),)
        elif isinstance(value, tuple) and len(value) <= 3:
            # A range of numbers is no list.
            sizes = () if all(isinstance(item, (int, float)) for item in items) else sizes
        if names and len(names) == len(items):
            return self.chosen(value)
        named = [] if is_mapping else [i for i in items if self.value(None, i) is not i]
        if named or (names and not is_mapping):
            column = f"the column {names[0]!r}" if names else "a column inside of an item"
            raise self.refused(f"names {column}, which is unclear for a subset without it")
        is_table = len(sizes) == 2 and hasattr(value, "columns")
        if is_table or (self.n_columns > 1 and self.n_columns in sizes):
            raise self.refused(_PER_COLUMN, _LEAVE_OUT_OR_FIND)
        return value

    def of_fit(self, path: str, value: Any) -> Any:
        """Return the value of a parameter of fit, which is the same object if not by column."""
        name = path.rpartition("__")[2]
        parameter = replace(self, path=path, owner="fit")
        if name == "feature_name" and _is_list(value):
            names = parameter.entries(value)
            return _like(names, [self.renamed.get(name, name) for name in names])
        if _KIND_OF.get(name, "ignored") == "ignored":
            return value
        # Steps in front may change the columns.
        return replace(parameter, in_table="__" not in path).value(name, value)


def _passes_columns(node: Any, name: str) -> bool:
    """Whether the estimators in a parameter receive the columns that their owner does."""
    cls = type(node)
    if not cls.__module__.startswith("sklearn.") or _CHANGING.fullmatch(cls.__name__):
        return False
    # Bagging may draw columns: max_features is a share as 1.0, and a single column as 1.
    draws = getattr(node, "bootstrap_features", None)
    takes_all = draws is None or (not draws and repr(node.max_features) == "1.0")
    return takes_all and _PASSED_ON.fullmatch(name) is not None


def _is_position(item: object) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _is_list(value: object) -> bool:
    is_array = isinstance(value, np.ndarray) and value.ndim > 0
    return is_array or isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "to_list")


def _shape(value: Any) -> tuple[Any, ...]:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return shape
    return (len(value),) if _is_list(value) else ()


def _like(value: Any, items: list[Any]) -> Any:
    """Return items in a container of the type of `value`."""
    if isinstance(value, np.ndarray):
        return np.fromiter(items, object if value.dtype.kind in "OUT" else value.dtype)
    return pd.Index(items) if hasattr(value, "to_list") else type(value)(items)
