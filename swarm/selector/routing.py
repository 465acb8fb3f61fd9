"""Metadata routing: the arguments of `fit` beyond X and y."""

from __future__ import annotations

from typing import Any

from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from swarm.errors import ConfigError
from swarm.problem.inputs import takes_fit_param

__all__ = ["router_of", "sent"]

try:
    from sklearn.utils.metadata_routing import _routing_enabled
except ImportError:  # private, so it may be moved

    def _routing_enabled() -> bool:
        from sklearn import get_config

        return bool(get_config().get("enable_metadata_routing", False))


def sent(selector: Any, given: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return sample weights, groups for the splitter, and other arguments of the estimator's fit.

    With scikit-learn's metadata routing each goes where it was requested; without it `groups` go
    to the splitter and all others to ``fit``. Weights and groups that are not given are None.

    Raises
    ------
    TypeError
        If the estimator's ``fit`` does not accept an argument.
    ConfigError
        If the splitter requests anything but groups, or the scorer anything.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if not _routing_enabled():
        weight, groups = given.pop("sample_weight", None), given.pop("groups", None)
        for name in given:
            if not takes_fit_param(selector.estimator, name):
                raise TypeError(
                    f"{type(selector).__name__}.fit() got an unexpected keyword argument {name!r}, "
                    f"which {type(selector.estimator).__name__}.fit() does not accept either"
                )
        return weight, groups, given
    if not given:
        return None, None, {}
    routed = process_routing(selector, "fit", **given)
    fit = dict(routed.estimator.fit)
    split = dict(routed.splitter.split) if "splitter" in routed else {}
    score = dict(routed.scorer.score) if "scorer" in routed else {}
    weight, groups = fit.pop("sample_weight", None), split.pop("groups", None)
    for place, left in (("split", split), ("score", score)):
        if left:
            raise ConfigError(
                f"{min(left)!r} cannot be passed on to {place!r}: only the estimator's fit takes "
                "parameters, and the splitter groups; remove the other requests"
            )
    return weight, groups, fit


def router_of(selector: Any) -> MetadataRouter:
    """Route the arguments of ``fit`` to the estimator, the splitter and the scorer."""

    def to(callee: str) -> MethodMapping:
        return (
            MethodMapping()
            .add(caller="fit", callee=callee)
            .add(caller="fit_transform", callee=callee)
        )

    router = MetadataRouter(owner=selector)
    router.add(estimator=selector.estimator, method_mapping=to("fit"))
    if hasattr(selector.cv, "get_metadata_routing"):
        router.add(splitter=selector.cv, method_mapping=to("split"))
    if hasattr(selector.scoring, "get_metadata_routing"):
        router.add(scorer=selector.scoring, method_mapping=to("score"))
    return router
