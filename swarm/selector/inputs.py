"""The arguments of ``fit`` as scikit-learn accepts them: the table and the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.metrics import check_scoring
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import validate_data

from swarm.errors import DataError
from swarm.problem.inputs import takes_fit_param
from swarm.problem.models import allows_missing, encloses_estimators
from swarm.problem.table import labels_of, names_of, sliceable

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector


def checked_table(selector: SubsetSelector, X: Any, reset: bool = False) -> Any:
    """Return X in a form whose rows and columns can be taken, after scikit-learn's checks.

    With `reset` the attributes `n_features_in_` and `feature_names_in_` are set, otherwise X is
    compared with them.
    """
    table = sliceable(X)
    labels = labels_of(table)
    if labels is not None:
        label, count = Counter(labels).most_common(1)[0] if labels else ("", 0)
        if count > 1:
            raise DataError(f"column {label!r} appears more than once; rename or drop one")
        if len({isinstance(label, str) for label in labels}) > 1:
            raise DataError(
                "some columns have names that are not text; rename them: "
                "X.columns = X.columns.astype(str)"
            )
        validate_data(selector, table, reset=reset, skip_check_array=True)
        return table
    # The encoder of a pipeline may accept text in an array.
    is_encoded = table.dtype.kind in "OUS" and encloses_estimators(selector.estimator)
    validate_data(
        selector,
        table,
        reset=reset,
        dtype=None if is_encoded or not reset else "numeric",
        accept_sparse=True,
        ensure_all_finite="allow-nan" if allows_missing(selector.estimator) else True,
        ensure_min_samples=2 if reset else 1,
    )
    return table


def names_of_constraint(selector: SubsetSelector, X: Any, name: str) -> Any:
    """Return a constraint of the selector with labels of X as the names of the search space.

    Numbers are positions; they are refused if they may be labels as well.
    """
    value = getattr(selector, name)
    labels = labels_of(X)
    is_text = labels is None or all(isinstance(label, str) for label in labels)
    if is_text or isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    names = dict(zip(labels or (), names_of(X), strict=True))
    has_numbers = labels != list(range(len(names))) and any(map(_is_number, names))

    def name_of(item: Any) -> Any:
        if _is_number(item) and has_numbers:
            raise DataError(
                f"{name} may mean names or positions, as columns have numbers for names; rename "
                "them: X.columns = X.columns.astype(str)"
            )
        if isinstance(item, str) and item in names.values():
            raise DataError(
                f"{name} has the text {item!r}, but no column has a name of text; pass its label"
            )
        is_label = not _is_number(item) and isinstance(item, Hashable) and item in names
        return names[item] if is_label else item

    if isinstance(value, Mapping):
        listed = {
            group: [members] if isinstance(members, str) else members
            for group, members in value.items()
        }
        return {group: list(map(name_of, members)) for group, members in listed.items()}
    if name in ("groups", "warm"):
        return [list(map(name_of, members)) for members in value]
    return list(map(name_of, value))


def _is_number(item: object) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def output_container(selector: SubsetSelector) -> str | None:
    """Return the container that ``set_output`` or scikit-learn's configuration sets, else None."""
    container = getattr(selector, "_sklearn_output_config", {}).get("transform")
    configured = get_config()["transform_output"]
    return container or (None if configured == "default" else configured)


# ---------------------------------------------------------------- metadata


def route_fit_metadata(
    selector: SubsetSelector, arguments: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    """Return weights, groups for the splitter, and other parameters of ``fit`` and of the scorer.

    With scikit-learn's metadata routing each argument goes where it was requested, weights of
    ``fit`` too. Without it `groups` go to the splitter and all others to ``fit``, and an argument
    that ``fit`` does not accept raises TypeError.
    """
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if not get_config()["enable_metadata_routing"]:
        weight = arguments.pop("sample_weight", None)
        groups = arguments.pop("groups", None)
        for name in arguments:
            if not takes_fit_param(selector.estimator, name):
                raise TypeError(
                    f"{type(selector).__name__}.fit() got an unexpected keyword argument {name!r}, "
                    f"which {type(selector.estimator).__name__}.fit() does not accept either"
                )
        return weight, groups, arguments, {}
    if not arguments:
        return None, None, {}, {}
    router = router_of(selector)
    if selector.scoring is None:
        # The method `score` of the estimator may request parameters.
        scorer = check_scoring(selector.estimator)
        mapping = MethodMapping().add(caller="fit", callee="score")
        score_router = MetadataRouter(owner=selector).add(scorer=scorer, method_mapping=mapping)
        if score_router.consumes("fit", arguments):
            router.add(scorer=scorer, method_mapping=mapping)
    router.validate_metadata(params=arguments, method="fit")
    routed = router.route_params(params=arguments, caller="fit")
    split = dict(routed.splitter.split) if "splitter" in routed else {}
    score = dict(routed.scorer.score) if "scorer" in routed else {}
    return None, split.pop("groups", None), dict(routed.estimator.fit), score


def router_of(selector: SubsetSelector) -> MetadataRouter:
    """Route the arguments of ``fit`` to the estimator, the splitter and the scorer."""

    def mapping(callee: str) -> MethodMapping:
        fit = MethodMapping().add(caller="fit", callee=callee)
        return fit.add(caller="fit_transform", callee=callee)

    router = MetadataRouter(owner=selector)
    router.add(estimator=selector.estimator, method_mapping=mapping("fit"))
    if hasattr(selector.cv, "get_metadata_routing"):
        router.add(splitter=selector.cv, method_mapping=mapping("split"))
    if hasattr(selector.scoring, "get_metadata_routing"):
        router.add(scorer=selector.scoring, method_mapping=mapping("score"))
    return router
