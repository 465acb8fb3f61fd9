"""The data of a report: the search and its answer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float
from swarm.findings import Finding
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.search.requests import only_ranked
from swarm.search.result import SearchResult
from swarm.statistics.resampled import corrected_t
from swarm.strategies.base import Strategy
from swarm.validation import Judgement
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.verdict import Headline

# Limits of the heat map, and of the table of pairs beside it.
_MAX_FEATURES = 60
_MAX_CHOSEN = 40
_MAX_PAIRS = 10


@dataclass(frozen=True, eq=False)
class ReportData:
    """The data of a report, see :func:`report_data`.

    Parameters
    ----------
    title : str
        Name of the run.
    headline : Headline
    n_available : int
        Number of columns of the table.
    subsets : (names, cost) pairs
        The chosen subset with its cross-validated cost, then the other members of the ensemble.
    history, work : DataFrame
        See :class:`swarm.search.result.SearchResult`.
    evaluations : DataFrame
        One row per distinct mask evaluated on all folds: ``size`` and ``cost``.
    scoring : Scoring
        The scorer of the search.
    has_proxy : bool
        Whether `history` has the costs of a proxy.
    importances : Series, optional
        Importances of the chosen subset, by feature name; non-negative, on any scale.
    distance : DataFrame (n_features, n_features), optional
        ``1 - |Spearman correlation|`` by feature name, 1 where it is undefined.
    judgement : Judgement, optional
        The comparison on test rows.
    confirmed : DataFrame, optional
        See :func:`confirmed_scores`.
    dropped : FeatureLosses, optional
        What the score loses without each chosen feature.
    columns : DataFrame, optional
        Why each column is in or out, see :func:`swarm.search.columns.column_table`.
    regroup_every : int, optional
        Epochs between regroupings of the subswarms.
    findings : list of mapping
        See :meth:`swarm.findings.Finding.as_dict`.
    facts : mapping
        Facts by the key under which they are shown, such as data source, strategy and a mapping of
        package versions.
    config : str
        The configuration, or the parameters of the selector.
    """

    title: str
    headline: Headline
    n_available: int
    subsets: Sequence[tuple[Sequence[str], float]]
    history: pd.DataFrame
    work: pd.DataFrame
    evaluations: pd.DataFrame
    scoring: Scoring
    has_proxy: bool = False
    importances: pd.Series | None = None
    distance: pd.DataFrame | None = None
    judgement: Judgement | None = None
    confirmed: pd.DataFrame | None = None
    dropped: FeatureLosses | None = None
    columns: pd.DataFrame | None = None
    regroup_every: int | None = None
    findings: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    config: str = ""

    @property
    def features(self) -> list[str]:
        """The chosen subset."""
        return list(self.subsets[0][0])

    def frequency(self) -> dict[str, int]:
        """Number of subsets with each feature: the best subset by importance, then the others."""
        counts = Counter(name for names, _ in self.subsets for name in names)
        names = [*self.ranked(), *(name for name, _ in counts.most_common())]
        return {name: counts[name] for name in names}

    def ranked(self) -> list[str]:
        """Features of the chosen subset, by decreasing importance."""
        return ranked(self.features, self.importances)

    def shown_features(self) -> list[str]:
        """Up to 40 chosen features by importance, then the features nearest to them; at most 60."""
        if self.distance is None:
            return []
        chosen = self.ranked()[:_MAX_CHOSEN]
        distances = self.distance.loc[chosen].min().drop(chosen).sort_values(kind="stable")
        return [*chosen, *distances.index[: _MAX_FEATURES - len(chosen)]]

    def nearest_left_out(self) -> list[tuple[str, str, float]]:
        """For each chosen feature the most similar one left out and |rho|, the strongest first."""
        if self.distance is None or len(self.features) == len(self.distance):
            return []
        is_chosen = self.distance.index.isin(self.features)
        distance = self.distance.loc[is_chosen, ~is_chosen]
        strength = (1.0 - distance.min(axis=1)).sort_values(ascending=False, kind="stable")
        nearest = distance.idxmin(axis=1).to_dict()
        strongest = strength[:_MAX_PAIRS].to_dict()
        return [(str(name), str(nearest[name]), rho) for name, rho in strongest.items()]


def report_data(
    result: SearchResult,
    subsets: Sequence[tuple[Bool, float]],
    *,
    title: str,
    headline: Headline,
    scoring: Scoring,
    evaluated: Sequence[tuple[Bool, float]],
    importances: Float,
    distance: Float | None = None,
    judgement: Judgement | None = None,
    strategy: Strategy | None = None,
    findings: Sequence[Finding] = (),
    **described: Any,
) -> ReportData:
    """Collect the data of the report of a run or of a selector.

    Parameters
    ----------
    result : SearchResult
    subsets : (mask, cost) pairs
        The chosen subset, then the other members of the ensemble.
    title, headline, scoring, judgement
        See :class:`ReportData`.
    evaluated : (mask, cost) pairs
        Subsets that were evaluated on all folds.
    importances : float (n_units,)
        Importances of the chosen subset, NaN or 0 if there are none.
    distance : float (n_units, n_units), optional
        Spearman distances of the units.
    strategy : Strategy, optional
    findings : sequence of Finding
    **described
        Further fields of the data; facts about the search itself are added.
    """
    space = result.space
    chosen = subsets[0][0]
    is_shown = ~only_ranked(np.array([mask for mask, _ in evaluated], dtype=bool), result)
    is_best = bool((chosen == result.best_mask).all())
    distance_table = None
    # Pairs of units are pairs of columns unless a unit is a group.
    if distance is not None and space.n_units == space.n_columns:
        # A constant column has no correlation.
        distance_table = pd.DataFrame(distance, space.names, space.names).fillna(1.0)
    by_name = by_column(importances, chosen, space)
    facts = described.pop("facts")
    return ReportData(
        title=title,
        headline=headline,
        n_available=space.n_columns,
        subsets=[(space.subset(mask), float(cost)) for mask, cost in subsets],
        history=result.history,
        work=result.work,
        evaluations=pd.DataFrame(
            [(int(mask.sum()), cost) for mask, cost in compress(evaluated, is_shown)],
            columns=["size", "cost"],
        ),
        scoring=scoring,
        has_proxy=result.measured is not None,
        importances=by_name if by_name.sum() > 0 else None,
        distance=distance_table,
        judgement=judgement,
        confirmed=confirmed_scores(result, scoring) if is_best else None,
        regroup_every=getattr(strategy, "regroup_every", None),
        findings=[finding.as_dict() for finding in findings],
        facts={**facts, **dict(result.outcomes), "ended by": result.reason},
        **described,
    )


def ranked(names: Sequence[str], importances: pd.Series | None) -> list[str]:
    """Return names by decreasing importance; names without one last, in their order."""
    weights = {} if importances is None else importances.dropna().to_dict()
    return sorted(names, key=lambda name: -weights.get(name, 0.0))


def by_column(importances: Float, chosen: Bool, space: SearchSpace) -> pd.Series:
    """Return the importances of the chosen units (n_units,) by column; groups share theirs."""
    return pd.Series(
        {
            space.columns[position]: float(importances[unit]) / len(space.units[unit])
            for unit in np.flatnonzero(chosen)
            for position in space.units[unit]
        },
        dtype=np.float64,
    )


def confirmed_scores(result: SearchResult, scoring: Scoring) -> pd.DataFrame | None:
    """Return the scores on fresh folds of all confirmed subsets, and of all features.

    A row has ``size`` in columns, ``score`` in the metric of the scorer, its interval from ``low``
    to ``high``, and ``kind``: ``"chosen"``, ``"all"``, or the origin of the subset, ``"search"`` or
    ``"ranking"``. None without a confirmation.
    """
    confirmation = result.confirmation
    if confirmation is None:
        return None
    candidates = confirmation.candidates
    space = result.space
    fold_costs = np.vstack([candidates.fresh_fold_costs, confirmation.baseline])
    masks = np.vstack([candidates.masks, ~space.forbidden])
    kinds = ["search" if origin == "search" else "ranking" for origin in candidates.origin]
    kinds[confirmation.chosen] = "chosen"
    kinds.append("all")
    rows = []
    for mask, costs, kind in zip(masks, fold_costs, kinds, strict=True):
        if not np.isfinite(costs).all() or len(costs) < 2:
            continue
        test = corrected_t(costs, confirmation.n_train, confirmation.n_test)
        # Equal costs have an unbounded interval.
        low, high = sorted(
            scoring.natural(bound if np.isfinite(bound) else test.mean)
            for bound in (test.low, test.high)
        )
        rows.append(
            {
                "size": len(space.subset(mask)),
                "score": scoring.natural(test.mean),
                "low": low,
                "high": high,
                "kind": kind,
            }
        )
    return pd.DataFrame(rows) if rows else None
