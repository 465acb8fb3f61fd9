"""The data of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.errors import InputError
from swarm.report.agreement import Agreement
from swarm.report.picks import Pick
from swarm.search.result import SearchResult
from swarm.validation.diagnostics import Diagnostics
from swarm.validation.headline import Headline

__all__ = ["ReportData", "work_of"]

_COLUMNS = {
    "history": ("epoch", "best_cost"),
    "evaluations": ("size", "cost"),
    "figures": ("contender", "metric", "value", "low", "high", "n_features", "n_models"),
    "differences": ("contender", "metric", "difference", "low", "high", "favours"),
}


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
