"""The data of a report: the search and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.search.result import SearchResult
from swarm.statistics.resampled import corrected_t
from swarm.validation.drop_column import FeatureLosses
from swarm.validation.verdict import Headline

# Features in the heat map, the chosen ones among them, and pairs in the table beside it.
_MOST, _MOST_CHOSEN, _MOST_PAIRS = 60, 40, 10


@dataclass(frozen=True, eq=False)
class ReportData:
    """The data of the report of one select run.

    Parameters
    ----------
    title : str
        Name of the run.
    verdict : str
        One sentence, see :meth:`swarm.validation.Judgement.sentence`.
    features : names
        The best subset.
    n_available : int
        Number of features the search could choose from.
    subsets : (names, cost) pairs
        Subsets of the ensemble with their cross-validated cost, best first.
    headline : Headline
    history : DataFrame
        One row per epoch: ``epoch``, ``best_cost``, and optionally ``best_size``,
        ``pbest_cost_mean``, ``size_mean``, ``diversity``, ``evaluations``,
        ``distinct_evaluations``, ``fits``, ``folds_pruned`` and ``swarm_0_best_cost``, ...
    has_proxy : bool
        Whether the costs in `history` are those of a proxy.
    evaluations : DataFrame
        One row per distinct mask evaluated on all folds: ``size`` and ``cost``.
    scoring : Scoring
        The scorer of the search.
    figures : DataFrame
        ``Judgement.table``. A missing `low` means no interval.
    importances : Series, optional
        Importances of the best subset, by feature name; non-negative, on any scale.
    distance : DataFrame (n_features, n_features), optional
        ``1 - |Spearman correlation|`` by feature name.
    cv_cost, test_cost : float, optional
        Cost of the best subset in cross-validation, and on the test rows.
    level : float
        Confidence level of the intervals.
    regroup_every : int, optional
        Epochs between regroupings of the subswarms.
    findings : list of mapping
        See :meth:`swarm.findings.Finding.as_dict`.
    dropped : FeatureLosses, optional
        What the score loses without each chosen feature.
    confirmed : DataFrame, optional
        See :func:`confirmed_scores`.
    config_yaml : str
    positive : str
        Sentence that names the positive class; empty unless there are two classes, see
        :func:`swarm.validation.sentences.positive_class_sentence`.
    facts : mapping
        Further facts, shown by their key: data source, rows, strategy, seed, a mapping of
        package versions. ``seconds_training``, ``seconds_elsewhere``, ``archive_hits`` and
        ``fallbacks`` are shown in the section on work.
    """

    title: str
    verdict: str
    headline: Headline
    features: Sequence[str]
    n_available: int
    subsets: Sequence[tuple[Sequence[str], float]]
    history: pd.DataFrame
    evaluations: pd.DataFrame
    scoring: Scoring
    figures: pd.DataFrame
    importances: pd.Series | None = None
    distance: pd.DataFrame | None = None
    cv_cost: float | None = None
    test_cost: float | None = None
    level: float = 0.95
    has_proxy: bool = False
    regroup_every: int | None = None
    findings: Sequence[Mapping[str, Any]] = ()
    config_yaml: str = ""
    positive: str = ""
    dropped: FeatureLosses | None = None
    confirmed: pd.DataFrame | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

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
        importances = {str(name): float(value) for name, value in self.importances.items()}
        return sorted(names, key=lambda name: -importances.get(name, 0.0))

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
        pairs = []
        for i, name in enumerate(columns):
            if name in chosen:
                nearest = out[int(np.argmin(values[i, out]))]
                pairs.append((name, columns[nearest], 1.0 - float(values[i, nearest])))
        return sorted(pairs, key=lambda one: -one[2])[:_MOST_PAIRS]

    def _distances(self) -> Float:
        """Return all distances, 1 where the correlation is undefined."""
        assert self.distance is not None
        values: Float = self.distance.to_numpy(dtype=np.float64)
        return np.where(np.isnan(values), 1.0, values)


def by_column(importances: pd.Series, space: SearchSpace) -> pd.Series:
    """Return importances by column from those by unit; the columns of a group have equal parts."""
    positions = dict(zip(space.names, space.units, strict=True))
    return pd.Series(
        {
            space.columns[position]: float(value) / len(positions[str(name)])
            for name, value in importances.items()
            for position in positions[str(name)]
        },
        dtype=np.float64,
    )


def confirmed_scores(result: SearchResult, scoring: Scoring) -> pd.DataFrame | None:
    """Return the scores on fresh folds of all confirmed subsets, and of all features.

    One row each: ``size`` in columns, ``score`` in the metric of the scorer, its interval from
    ``low`` to ``high``, and ``kind``, which is ``"chosen"``, ``"all"``, or else where the subset
    comes from: ``"search"`` or ``"ranking"``. None without a confirmation.
    """
    confirmation = result.confirmation
    if confirmation is None:
        return None
    table, space = confirmation.candidates, result.space
    fresh = np.vstack([table.fresh_fold_costs, confirmation.baseline])
    masks = np.vstack([table.masks, ~space.forbidden])
    rows = []
    for row, (mask, costs) in enumerate(zip(masks, fresh, strict=True)):
        if not np.isfinite(costs).all() or len(costs) < 2:
            continue
        test = corrected_t(costs, confirmation.n_train, confirmation.n_test)
        low, high = sorted(map(scoring.natural, (test.low, test.high)))
        is_all = row == len(table)
        other = "search" if is_all or table.origin[row] == "search" else "ranking"
        rows.append(
            {
                "size": len(space.subset(mask)),
                "score": scoring.natural(test.mean),
                "low": low,
                "high": high,
                "kind": "all" if is_all else "chosen" if row == confirmation.chosen else other,
            }
        )
    return pd.DataFrame(rows) if rows else None


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
