"""Selectors of other packages, with adapters for those that do not follow scikit-learn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from metric import SCORING
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import (
    RFECV,
    SelectFromModel,
    SelectorMixin,
    SequentialFeatureSelector,
    f_classif,
    mutual_info_classif,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

# Sizes that are tried where a package leaves the size to the user.
N_SIZES = 10
POPULATION = 20


def folds(seed: int) -> StratifiedKFold:
    """Return the folds with which methods evaluate subsets, like those of our searches."""
    return StratifiedKFold(5, shuffle=True, random_state=seed)


def boosted() -> Any:
    """Return the model of peers that need importances or SHAP values."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=40, num_leaves=8, min_child_samples=5, n_jobs=1, random_state=0, verbosity=-1
    )


class Adapter(SelectorMixin, BaseEstimator):
    """A selector with a mask in `support_`."""

    def _get_support_mask(self) -> np.ndarray:
        return self.support_


class BestPrefix(Adapter):
    """A ranking, cut where the cross-validated score of the model is best."""

    def __init__(self, estimator: Any, rank: Callable[..., Any], seed: int = 0) -> None:
        self.estimator = estimator
        self.rank = rank
        self.seed = seed

    def fit(self, X: Any, y: Any) -> BestPrefix:
        """Select columns of X."""
        order = np.asarray(self.rank(X, y, self.seed))
        width = X.shape[1]
        sizes = np.unique(np.geomspace(1, width, min(N_SIZES, width)).round().astype(int))
        scores = [
            cross_val_score(
                self.estimator, X.iloc[:, order[:k]], y, cv=folds(self.seed), scoring=SCORING
            ).mean()
            for k in sizes
        ]
        self.support_ = np.isin(np.arange(width), order[: sizes[int(np.argmax(scores))]])
        return self


def by_information(X: Any, y: Any, seed: int) -> np.ndarray:
    return np.argsort(-mutual_info_classif(X, y, random_state=seed), kind="stable")


def by_f(X: Any, y: Any, seed: int) -> np.ndarray:
    return np.argsort(-np.nan_to_num(f_classif(X, y)[0]), kind="stable")


def by_mrmr(X: Any, y: Any, seed: int, most: int | None = None) -> np.ndarray:
    """Rank the columns, or the first ones, with the others behind them in any order."""
    import pandas as pd
    from mrmr import mrmr_classif

    target = pd.Series(y, index=X.index)
    ranked = mrmr_classif(X, target, K=most or X.shape[1], n_jobs=1, show_progress=False)
    left = [name for name in X.columns if name not in ranked]
    return np.array([X.columns.get_loc(name) for name in [*ranked, *left]])


class Boruta(Adapter):
    """BorutaPy takes arrays; tentative columns count where none is confirmed.

    `order_` ranks all columns.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Boruta:
        """Select columns of X."""
        from boruta import BorutaPy
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(max_depth=5, n_jobs=1, random_state=self.seed)
        found = BorutaPy(forest, n_estimators=50, max_iter=30, random_state=self.seed)
        found.fit(X.to_numpy(), y)
        weak = found.support_ | found.support_weak_
        self.support_ = found.support_ if found.support_.any() else weak
        # All confirmed columns have rank 1.
        importance = np.nanmean(found.importance_history_[1:], axis=0)
        self.order_ = np.lexsort((-importance, found.ranking_))
        return self


class Mlxtend(Adapter):
    """Floating selection of up to 15 columns, of which the best size is taken."""

    def __init__(self, estimator: Any, seed: int = 0) -> None:
        self.estimator = estimator
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Mlxtend:
        """Select columns of X."""
        from mlxtend.feature_selection import SequentialFeatureSelector as Floating

        found = Floating(
            self.estimator,
            k_features=(1, min(15, X.shape[1])),
            floating=True,
            scoring=SCORING,
            cv=folds(self.seed),
        ).fit(X.to_numpy(), y)
        self.support_ = np.isin(np.arange(X.shape[1]), found.k_feature_idx_)
        return self


class ShapElimination(Adapter):
    """ShapRFECV of probatus, at the number of columns with the best validation score.

    It fails on more than two classes: probatus 3.1.5 does not expect the arrays of shap 0.51.
    """

    def __init__(self, estimator: Any, seed: int = 0) -> None:
        self.estimator = estimator
        self.seed = seed

    def fit(self, X: Any, y: Any) -> ShapElimination:
        """Select columns of X."""
        from probatus.feature_elimination import ShapRFECV
        from probatus.utils import Scorer

        found = ShapRFECV(
            self.estimator,
            step=0.1,
            cv=folds(self.seed),
            scoring=Scorer("balanced_accuracy", custom_scorer=SCORING),
            n_jobs=1,
            random_state=self.seed,
        )
        # The check compares sums of floats, and fails on ordinary data.
        found.fit(X, y, check_additivity=False)
        names = found.get_reduced_features_set("best")
        self.support_ = np.isin(X.columns, names)
        return self


class PowerShap(Adapter):
    """powershap with the boosted model."""

    def __init__(self, estimator: Any, seed: int = 0) -> None:
        self.estimator = estimator
        self.seed = seed

    def fit(self, X: Any, y: Any) -> PowerShap:
        """Select columns of X."""
        from powershap import PowerShap as Powered

        found = Powered(model=self.estimator, stratify=True, show_progress=False)
        self.support_ = np.asarray(found.fit(X, y).get_support())
        return self


class Genetic(Adapter):
    """Genetic search of sklearn-genetic-opt, with as many subsets as the budget."""

    def __init__(self, estimator: Any, budget: int = 300, seed: int = 0) -> None:
        self.estimator = estimator
        self.budget = budget
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Genetic:
        """Select columns of X."""
        from sklearn_genetic import GAFeatureSelectionCV

        _seed_globals(self.seed)
        found = GAFeatureSelectionCV(
            self.estimator,
            cv=folds(self.seed),
            scoring=SCORING,
            population_size=POPULATION,
            # Each generation costs two populations.
            generations=max(1, (self.budget // POPULATION - 1) // 2),
            verbose=False,
            refit=False,
        ).fit(X, y)
        best = found.best_features_ if hasattr(found, "best_features_") else found.support_
        self.support_ = np.asarray(best, dtype=bool)
        return self


class Zoofs(Adapter):
    """Particle swarm of zoofs, with as many subsets as the budget."""

    def __init__(self, estimator: Any, budget: int = 300, seed: int = 0) -> None:
        self.estimator = estimator
        self.budget = budget
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Zoofs:
        """Select columns of X."""
        from zoofs import ParticleSwarmOptimization

        _seed_globals(self.seed)

        def objective(model: Any, X: Any, y: Any, *_: Any) -> float:
            return 1 - cross_val_score(model, X, y, cv=folds(self.seed), scoring=SCORING).mean()

        swarm = ParticleSwarmOptimization(
            objective,
            n_iteration=max(1, self.budget // POPULATION),
            population_size=POPULATION,
            minimize=True,
        )
        chosen = swarm.fit(self.estimator, X, y, X, y, verbose=False)
        self.support_ = np.isin(X.columns, list(chosen))
        return self


def _seed_globals(seed: int) -> None:
    """Seed the global generators, from which some packages draw."""
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


def _l1(task: Any) -> Any:
    model = Pipeline(
        [
            ("scaling", StandardScaler()),
            ("model", LogisticRegression(l1_ratio=1.0, C=0.1, solver="saga", max_iter=200)),
        ]
    )
    return SelectFromModel(
        model, importance_getter="named_steps.model.coef_", threshold=1e-5, prefit=False
    )


def _rfecv(task: Any) -> Any:
    return RFECV(boosted(), step=0.05, cv=folds(task.seed), scoring=SCORING)


def _sequential(task: Any) -> Any:
    return SequentialFeatureSelector(
        clone(task.model), tol=1e-3, cv=folds(task.seed), scoring=SCORING
    )


# Label: how it is made for a task, whether its subset depends on the model, and on the budget.
PEERS: dict[str, tuple[Callable[[Any], Any], bool, bool]] = {
    "SelectKBest MI": (lambda t: BestPrefix(clone(t.model), by_information, t.seed), True, False),
    "SelectKBest F": (lambda t: BestPrefix(clone(t.model), by_f, t.seed), True, False),
    "mRMR": (lambda t: BestPrefix(clone(t.model), by_mrmr, t.seed), True, False),
    "L1": (_l1, False, False),
    "RFECV": (_rfecv, False, False),
    "Boruta": (lambda t: Boruta(t.seed), False, False),
    "ShapRFECV": (lambda t: ShapElimination(boosted(), t.seed), False, False),
    "powershap": (lambda t: PowerShap(boosted(), t.seed), False, False),
    "sklearn SFS": (_sequential, True, False),
    "mlxtend SFFS": (lambda t: Mlxtend(clone(t.model), t.seed), True, False),
    "zoofs PSO": (lambda t: Zoofs(clone(t.model), t.budget, t.seed), True, True),
    "sklearn-genetic": (lambda t: Genetic(clone(t.model), t.budget, t.seed), True, True),
}
