"""The data of a report: the search, its answer, the picks of other rules, and their agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float
from swarm.errors import InputError
from swarm.problem.space import SearchSpace
from swarm.search.picks import pick
from swarm.search.result import SearchResult
from swarm.storage.records import costs_of
from swarm.strategies.operators.sequential import is_better, standard_error
from swarm.validation.diagnostics import Diagnostics
from swarm.validation.headline import Headline
from swarm.validation.stability import interpret_index, nogueira

_COLUMNS = {
    "history": ("epoch", "best_cost"),
    "evaluations": ("size", "cost"),
    "figures": ("contender", "metric", "value", "low", "high", "n_features", "n_models"),
    "differences": ("contender", "metric", "difference", "low", "high", "favours"),
}
# Features in the heat map, the chosen ones among them, and pairs in the table beside it.
_MOST, _MOST_CHOSEN, _MOST_PAIRS = 60, 40, 10
RULES = {
    "best": ("Best", "the result of this search"),
    "lowest": ("Lowest", "the lowest cost of all evaluated subsets, not confirmed"),
    "parsimonious": ("Parsimonious", "the smallest within one standard error of the lowest cost"),
    "knee": ("Knee", "further features lower the cost clearly less"),
}
# If features have prices.
PRICED_RULES = {
    rule: (title, text.replace("smallest", "cheapest")) for rule, (title, text) in RULES.items()
}


@dataclass(frozen=True)
class Pick:
    """A subset and the rule that picks it.

    Attributes
    ----------
    rule : str
        A key of :data:`RULES`.
    features : names
    cost : float
        Cross-validated cost.
    error : float
        Standard error of the cost over the folds.
    """

    rule: str
    features: tuple[str, ...]
    cost: float
    error: float


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of the final subsets of a search.

    Attributes
    ----------
    shares : DataFrame
        One row per unit of any final subset, by decreasing frequency: ``held``, the share of the
        final subsets with the unit, ``near``, its share of the evaluated subsets about as good
        as the best, and ``chosen``.
    n_held, n_near : int
        Number of distinct final subsets, and of subsets about as good as the best.
    index, low, high : float
        Nogueira's stability index of the final subsets and its confidence interval; NaN for
        fewer than two subsets.
    word : str
        Interpretation of the index.
    level : float
        Confidence level of the interval.
    overlap : float
        Mean Jaccard index of pairs of final subsets; NaN for fewer than two.
    chance : float
        Mean share of all units in a final subset: the expected frequency of a unit in random
        subsets of these sizes.
    """

    shares: pd.DataFrame
    n_held: int
    n_near: int
    index: float
    low: float
    high: float
    word: str
    level: float
    overlap: float
    chance: float

    @classmethod
    def of(cls, space: SearchSpace, best: Bool, held: Bool, near: Bool) -> Agreement:
        """Measure the agreement of the final subsets of a search.

        The index ignores units that are fixed or forbidden.

        Parameters
        ----------
        space : SearchSpace
        best : bool (n_units,)
            Best subset of the search.
        held : bool (n_held, n_units)
            Distinct final subsets, at least one.
        near : bool (n_near, n_units)
            Subsets whose cost is within one standard error of the best; may be empty. Those that
            the space does not allow are left out.
        """
        nan, level, names = float("nan"), 0.95, space.names
        near, free = near[space.obeys(near)], ~(space.fixed | space.forbidden)
        share = held.mean(axis=0)
        beside = near.mean(axis=0) if len(near) else np.full(len(names), nan)
        order = np.lexsort((-np.nan_to_num(beside), ~best, -share))
        order = order[(share[order] > 0) | best[order]]
        table = pd.DataFrame(
            {"held": share[order], "near": beside[order], "chosen": best[order]},
            index=pd.Index([str(names[i]) for i in order]),
        )
        index = low = high = overlap = nan
        if len(held) > 1 and free.any():
            found = nogueira(held[:, free], level)
            index, low, high, overlap = found.index, found.low, found.high, _overlap(held)
        return cls(
            shares=table,
            n_held=len(held),
            n_near=len(near),
            index=index,
            low=low,
            high=high,
            word=interpret_index(index),
            level=level,
            overlap=overlap,
            chance=float(share.mean()),
        )


def _overlap(masks: Bool) -> float:
    """Return the mean Jaccard index of all pairs."""
    counts = masks.astype(np.int64)
    both = counts @ counts.T
    sizes = counts.sum(axis=1)
    either = sizes[:, None] + sizes[None, :] - both
    pairs = np.triu_indices(len(masks), 1)
    return float((both[pairs] / np.maximum(either[pairs], 1)).mean())


@dataclass(frozen=True, eq=False)
class ReportData:
    """The data of the report of one select run.

    Parameters
    ----------
    title : str
        Name of the run.
    verdict : str
        One sentence, see :meth:`swarm.validation.Judgement.verdict`.
    features : names
        The best subset.
    n_available : int
        Number of features the search could choose from.
    subsets : (names, cost) pairs
        Subsets of the ensemble with their cross-validated cost, best first.
    confirmation : mapping, optional
        Costs on fresh folds, see :meth:`swarm.search.confirmation.Confirmation.as_dict`, and
        their summary under the key `sentence`.
    headline : Headline, optional
        Default: as the confirmation says, without figures.
    subset_test_costs : float (n_subsets,), optional
        Cost of one model per subset on the test rows.
    picks : list of Pick
        The best subset, and the subsets that other rules pick.
    agreement : Agreement, optional
        Agreement of the final subsets of this search.
    history : DataFrame
        One row per epoch: ``epoch``, ``best_cost``, and optionally ``best_size``,
        ``pbest_cost_mean``, ``size_mean``, ``diversity``, ``evaluations``,
        ``distinct_evaluations``, ``fits``, ``folds_pruned`` and ``swarm_0_best_cost``, ...
    evaluations : DataFrame
        One row per distinct mask evaluated on all folds: ``size``, ``cost``, and with prices
        ``price``.
    prices : mapping of name to float
        What each feature costs to obtain, as its share of the price of its group; empty if size
        is all that counts.
    figures, differences : DataFrame
        ``Judgement.table`` and ``Judgement.differences``. A missing `low` means no interval.
    importances : Series, optional
        Importances of the best subset, by feature name; non-negative, on any scale.
    distance : DataFrame (n_features, n_features), optional
        ``1 - |Spearman correlation|`` by feature name.
    cv_cost, test_cost : float, optional
        Cost of the best subset in cross-validation, and on the test rows.
    optimism : float, optional
        Test cost minus cross-validated cost of the best subset.
    cost_label : str
        Name of the cost, for example ``1 − F1``.
    level : float
        Confidence level of the intervals.
    regroup_every : int, optional
        Epochs between regroupings of the subswarms.
    warnings : list of str
        Of runs from before findings were numbered.
    findings : list of mapping
        See :meth:`swarm.findings.Finding.as_dict`.
    diagnostics : Diagnostics, optional
        Of the model of the chosen features.
    config_yaml : str
    positive : str
        Sentence that names the positive class, see :attr:`swarm.validation.Judgement.positive`;
        empty unless there are two classes.
    facts : mapping
        Further facts, shown by their key: data source, rows, strategy, seed, a mapping of
        package versions. ``seconds_training``, ``seconds_elsewhere``, ``archive_hits`` and
        ``fallbacks`` are shown in the section on work.

    Raises
    ------
    InputError
        If there is no feature, or a table lacks a column.
    """

    title: str
    verdict: str
    features: Sequence[str]
    n_available: int
    subsets: Sequence[tuple[Sequence[str], float]]
    history: pd.DataFrame
    evaluations: pd.DataFrame
    figures: pd.DataFrame
    differences: pd.DataFrame
    importances: pd.Series | None = None
    distance: pd.DataFrame | None = None
    cv_cost: float | None = None
    test_cost: float | None = None
    optimism: float | None = None
    confirmation: Mapping[str, Any] | None = None
    headline: Headline | None = None
    subset_test_costs: Sequence[float] = ()
    picks: Sequence[Pick] = ()
    agreement: Agreement | None = None
    cost_label: str = "cost"
    level: float = 0.95
    regroup_every: int | None = None
    warnings: Sequence[str] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    config_yaml: str = ""
    positive: str = ""
    diagnostics: Diagnostics | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("there is no chosen feature to report on; give at least one")
        for name, needed in _COLUMNS.items():
            table = getattr(self, name)
            for column in needed:
                if len(table) and column not in table.columns:
                    raise InputError(
                        f"the table {name!r} of the report has no column {column!r}; "
                        f"it needs {', '.join(needed)}"
                    )
        if len(self.subset_test_costs) not in (0, len(self.subsets)):
            raise InputError(
                f"there are {len(self.subset_test_costs)} test costs for {len(self.subsets)} "
                "subsets; give one each, or none"
            )

    def head(self) -> Headline:
        """Return the headline; that of an earlier version follows its confirmation."""
        if self.headline is not None:
            return self.headline
        verdict: Any = "better" if self.confirmation is None else self.confirmation["verdict"]
        searched = "" if self.confirmation is None else str(self.confirmation["sentence"])
        return Headline(verdict, len(self.features), self.n_available, searched=searched)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the one of the verdict first."""
        return list(dict.fromkeys(self.figures["metric"].tolist())) if len(self.figures) else []

    def frequency(self) -> dict[str, int]:
        """Number of subsets with each feature, those of the best subset first, by importance."""
        counts = dict.fromkeys(self.ranked(), 0)
        for names, _ in self.subsets:
            for name in dict.fromkeys(names):
                counts[name] = counts.get(name, 0) + 1
        chosen = len(set(self.features))
        others = sorted(list(counts)[chosen:], key=lambda name: -counts[name])
        return {name: counts[name] for name in [*list(counts)[:chosen], *others]}

    def ranked(self) -> list[str]:
        """Features of the best subset, by decreasing importance."""
        names = list(dict.fromkeys(self.features))
        if self.importances is None:
            return names
        known = {str(name): float(value) for name, value in self.importances.items()}
        return sorted(names, key=lambda name: -known.get(name, 0.0))

    def price(self, names: Sequence[str]) -> float:
        """What some features cost to obtain; without prices their number."""
        return round(sum(self.prices[name] for name in names), 9) if self.prices else len(names)

    def cost_pairs(self) -> tuple[Float, Float]:
        """Finite costs of the ensemble's subsets in cross-validation and on the test rows."""
        if not self.subset_test_costs:
            return np.empty(0), np.empty(0)
        cv = np.array([cost for _, cost in self.subsets], dtype=np.float64)
        test = np.array(self.subset_test_costs, dtype=np.float64)
        both = np.isfinite(cv) & np.isfinite(test)
        return cv[both], test[both]

    def shown_features(self) -> list[str]:
        """Up to 40 chosen features by importance, then those nearest to them; at most 60."""
        if self.distance is None:
            return []
        columns = {str(name): i for i, name in enumerate(self.distance.columns)}
        chosen = [name for name in self.ranked() if name in columns][:_MOST_CHOSEN]
        if not chosen:
            return []
        positions = [columns[name] for name in chosen]
        nearest = self._distances()[positions].min(axis=0)
        others = np.argsort(nearest, kind="stable")
        others = others[~np.isin(others, positions)]
        names = list(columns)
        return chosen + [names[i] for i in others[: _MOST - len(chosen)]]

    def distances(self, names: list[str]) -> Float:
        """Distances ``1 - |rank correlation|`` (n, n) between the named features."""
        assert self.distance is not None
        columns = {str(name): i for i, name in enumerate(self.distance.columns)}
        rows = [columns[name] for name in names]
        return self._distances()[np.ix_(rows, rows)]

    def nearest_left_out(self) -> list[tuple[str, str, float]]:
        """For each chosen feature the most similar one left out and |rho|, the strongest first."""
        if self.distance is None:
            return []
        columns = [str(name) for name in self.distance.columns]
        chosen = set(self.features)
        out = [i for i, name in enumerate(columns) if name not in chosen]
        if not out:
            return []
        values = self._distances()
        found = []
        for i, name in enumerate(columns):
            if name in chosen:
                nearest = out[int(np.argmin(values[i, out]))]
                found.append((name, columns[nearest], 1.0 - float(values[i, nearest])))
        return sorted(found, key=lambda one: -one[2])[:_MOST_PAIRS]

    def _distances(self) -> Float:
        """Return all distances, 1 where the correlation is undefined."""
        assert self.distance is not None
        values: Float = self.distance.to_numpy(dtype=np.float64)
        return np.where(np.isnan(values), 1.0, values)


def work_of(result: SearchResult) -> dict[str, object]:
    """Return what a search took, as :attr:`ReportData.facts`."""
    work, counts = result.work, result.state.counts
    training = float(work["training_seconds"].sum())
    return {
        "ended by": result.reason,
        "evaluations": counts.evaluations,
        "distinct evaluations": counts.distinct,
        "fits": counts.fits,
        "archive_hits": int(work["hits"].sum()),
        "fallbacks": int(work["fallbacks"].sum()),
        "seconds_training": training,
        "seconds_elsewhere": max(0.0, float(work["seconds"].sum()) - training),
    }


# ---------------------------------------------------------------- picks


def pick_by_rules(space: SearchSpace, best: Bool, masks: Bool, fold_costs: Float) -> list[Pick]:
    """Pick a subset by every rule in :data:`RULES`; the result of the search comes first.

    Parameters
    ----------
    space : SearchSpace
    best : bool (n_units,)
        Best subset of the search.
    masks : bool (n, n_units)
        Subsets that were trained on every fold. Those that the space does not allow are left out.
    fold_costs : float64 (n, n_folds)
        Their fold costs; inf if a fit failed.

    Returns
    -------
    list of Pick
        Empty if `best` is not among `masks` or has no finite cost. ``lowest`` is included if a
        subset costs less than `best`, ``knee`` if the Pareto front has a knee.
    """
    allowed = space.obeys(masks)
    masks, fold_costs = masks[allowed], fold_costs[allowed]
    prices = space.price(masks)
    at = np.flatnonzero((masks == best).all(axis=1)) if len(masks) else np.empty(0, dtype=int)
    costs = costs_of(fold_costs) if len(masks) else np.empty(0)
    if not at.size or not np.isfinite(costs[at[0]]):
        return []
    finite = np.isfinite(costs)
    errors = np.zeros(len(costs))
    errors[finite] = [standard_error(row) for row in fold_costs[finite]]
    chosen = {"best": int(at[0])}
    lowest = pick("best", prices, costs, errors)
    if is_better(costs[lowest], costs[at[0]]):
        chosen["lowest"] = lowest
    chosen["parsimonious"] = pick("parsimonious", prices, costs, errors)
    bend = pick("knee", prices, costs, errors)
    # If the front has no knee, the rule picks its end.
    if bend != lowest:
        chosen["knee"] = bend
    return [
        Pick(rule, tuple(space.subset(masks[row])), float(costs[row]), float(errors[row]))
        for rule, row in chosen.items()
    ]


def one_se_limit(found: Sequence[Pick]) -> float:
    """Return the lowest cost plus its standard error over the folds; NaN without picks."""
    by_rule = {one.rule: one for one in found}
    least = by_rule.get("lowest", by_rule.get("best"))
    return float("nan") if least is None else least.cost + least.error
