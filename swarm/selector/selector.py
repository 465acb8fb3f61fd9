"""Feature selection as a scikit-learn meta-estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import check_is_fitted

from swarm.arrays import Bool
from swarm.errors import DataError
from swarm.findings import Finding, unmuted
from swarm.findings.outcome import search_findings
from swarm.findings.rows import label_findings
from swarm.findings.table import column_findings, target_findings
from swarm.interrupts import within_model_selection
from swarm.problem.hints import distances_of
from swarm.problem.models import allows_missing, tags_of, takes_categorical
from swarm.problem.problem import Problem
from swarm.problem.space import Groups
from swarm.problem.table import is_polars, take_columns
from swarm.search.history import EpochRecord
from swarm.search.runner import run
from swarm.search.search import Search
from swarm.search.state import SearchState
from swarm.selector.checks import check_parameters
from swarm.selector.defaults import bounds_of_answer, budget_of, epochs_of
from swarm.selector.display import SelectionDisplay
from swarm.selector.inputs import checked_table, output_container, router_of
from swarm.selector.plan import pose, search_of
from swarm.selector.progress import print_line, progress
from swarm.selector.results import EvaluatedSubsets
from swarm.selector.unseen import groups_of
from swarm.storage.archive import Archive
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of


class SubsetSelector(
    SelectionDisplay,
    SelectorMixin,  # type: ignore[misc]
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Select the features with which an estimator has the best cross-validated score.

    By default a fit searches for 30 epochs, some hundred subsets on five folds each, and scores the
    20 best on 25 new folds, which choose among them; where columns outnumber rows more than ten
    times, it searches nothing, and scores up to 17 sizes of two rankings on ten folds. Runs of the
    command line do the same.

    The parameters are, in this order, those of the search (`strategy` to `prefilter`), of its space
    (`size` to `groups`), of the folds and scores (`scoring` to `importance`), of the choice among
    the evaluated subsets (`pick`, `confirm`), and of the computation (`pruning` to `verbose`).

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator; it is cloned, not modified. Categorical columns need one whose
        tags (``input_tags.categorical``) or parameters indicate that it supports them. Parameters
        that name columns, such as CatBoost's ``cat_features``, are restricted to those of a subset.
    strategy : str or Strategy
        Search algorithm: a name in :func:`swarm.strategies.catalogue.registry`, or an instance of a
        class derived from :class:`swarm.strategies.base.Strategy`. ``"auto"``: ``"rankings"`` where
        the columns outnumber the rows more than ten times and no option is for a search
        (`strategy_params`, `warm`, `proxy`, ``prefilter=True`` or a given `size`); else
        ``"multiswarm"``.
    strategy_params : mapping, optional
        Parameters that differ from the defaults of the strategy, or from those of the object.
    budget : int, "auto", mapping or None
        When the search ends: a number of epochs, or a mapping of limits, of which the first that is
        reached ends it: `epochs`, `evaluations`, `distinct`, `fits`, `seconds` and `patience` of
        :class:`swarm.search.budget.Budget`. ``"auto"``: 30 epochs, or no limit if the strategy
        terminates by itself. None: no limit, for such strategies only.
    warm : path, masks or lists of features, optional
        Subsets that the strategy evaluates first, the best first: a ``features.json`` of a run or
        of a refresh, masks (n, n_features), or lists of names or positions. Strategies without a
        warm start are refused.
    proxy : estimator or mapping, optional
        What the search runs on in place of `estimator` and all rows: a cheaper estimator, or a
        mapping of options: `estimator`, or `params`, those of `estimator` that make it cheaper;
        `rows`, the share of the rows, stratified, and by whole `groups` if given to :meth:`fit`;
        `best` (16), the number of best subsets that are then measured on `estimator` itself and
        all rows, and `probes` (12), the number of others by which the ranks of both models are
        compared; see :mod:`swarm.search.proxy`.
    prefilter : bool, "auto" or mapping, default="auto"
        Rank all features by the importances of the model, keep the first ones, and search only
        those. Their number is the one with the lowest cost on fresh folds, where possible; see
        :mod:`swarm.search.prefilter`. True: always; ``"auto"``: for more than 5,000 columns,
        the largest number that most strategies search. A mapping has the options `when`,
        ``"always"`` or ``"auto"``, and `least`, the smallest number of units to keep (20).
    size : int, (min, max), "best", "parsimonious" or "auto", optional
        Number of features to select; a group counts once. An end of the pair may be None, which
        leaves it open. The strings are for sequential strategies: ``"best"``, the
        cheapest of all sizes on the path; ``"parsimonious"``, the smallest within one standard
        error of it; ``"auto"``, half of the features, or with ``strategy_params={"tol": ...}`` as
        many as improve the cost by at least `tol` each.
    fixed, forbidden, groups
        Constraints, see :meth:`swarm.problem.space.SearchSpace.build`. Features are given by name,
        by position, or several by a pattern (``"lag_*"``) or a type (``"dtype:category"``); columns
        without names are named ``x0``, ``x1``, ... A group counts once.
    scoring : str or callable, optional
        Default: accuracy, or r2 for a regressor.
    cv : int, splitter or list of (train, test)
        Folds; a number means shuffled by `random_state`, and stratified for classifiers. A single
        pair is a hold-out. 0, False or None: no cross-validation, every model is scored on the
        rows it was trained on, which favours models that overfit. For rows in order of time:
        scikit-learn's ``TimeSeriesSplit``, or splitters of other packages that purge and embargo.
    weights_in_score : bool
        Whether ``sample_weight`` counts in the scores of the folds too, and not in training alone.
    importance : str
        Source of the importances, see :meth:`swarm.problem.problem.Problem.build`.
    pick : "best" or "parsimonious"
        Which of the measured subsets to select: the best of the search, or the smallest within one
        standard error of the lowest cost; see :meth:`repick`. This usually costs some score on
        unseen rows; `confirm` with a goal tests the loss.
    confirm : "auto", bool or mapping, default="auto"
        Evaluate the best subsets again on fold partitions that the search never used, and select
        among them: always, or by ``"auto"`` where `cv` can be drawn again and `pick` is ``"best"``.
        True or a mapping of options: `best`, the number of subsets (20), `repeats`, the number of
        partitions (5, or 2 where nothing is searched), and `rankings`, `goal` and `margin` of
        :class:`swarm.search.confirmation.ConfirmationPlan`. Needs a `cv` that can be drawn again:
        a number of folds or a shuffled splitter.
    pruning : bool
        Stop training subsets that cannot win any more. Does not change the selected subset; without
        pruning `results_` has every cost.
    n_jobs : int, optional
        Number of workers; -1 for one per core.
    random_state : int
        Seed of the search, of shuffled folds and of every random state that is not set.
    archive : str or Path, optional
        SQLAlchemy URL, or ``Path`` of an SQLite file, of a persistent cache of evaluations, so that
        a second fit of the same problem trains nothing. A scorer or model of your own whose code
        changed is another problem, see :mod:`swarm.problem.description` for what counts. Default:
        no persistent cache.
    mute : sequence of str
        Codes of findings that are not reported, such as ``["SWM112"]``.
    callbacks : sequence of callable
        Called after every epoch with its record and the state of the search; one that raises
        :class:`swarm.search.driver.StopSearch` ends it with the best subset so far.
    verbose : int
        0: no output; 1: a progress bar of tqdm; 2: a line per epoch.

    Attributes
    ----------
    subset_ : list
        Labels of the selected columns in the order of X, so that a table has ``X[subset_]``; x0,
        x1, ... for an array. Models are trained on them in this order.
    support_ : bool (n_features_in_,)
        Whether each column of X is selected, as from ``get_support()``.
    cost_ : float
        Cost of the selected subset on the folds of the search; of ``"rankings"``, on fresh folds
        with the ranking of their own training rows.
    confirmation_ : Confirmation or None
        With `confirm`: costs of the best subsets and of all features on fresh folds, the gain over
        all features with its interval, and the estimated bias of the choice; see
        :class:`swarm.search.confirmation.Confirmation`.
    prefilter_ : Cut or None
        With `prefilter`: which units were kept, their importances, and the costs of the sizes
        that were tried; see :class:`swarm.search.prefilter.Cut`.
    findings_ : Findings
        Numbered reasons to doubt the data or the result, such as an ID-like column or a gain that
        fresh folds do not confirm, the gravest first; see :mod:`swarm.findings`. A column that
        predicts the target almost perfectly alone is a warning of `fit` too.
    importances_ : Series
        Importances of the selected units, the highest first; NaN if the models have none.
    results_ : DataFrame
        One row for each distinct subset, in the order of the search: `features`, `size` (a
        group counts once), `cost`, and over its folds the standard deviation `sd`, the standard
        error `se` of the cost and the bounds `ci_low` and `ci_high` of its 95 % confidence interval
        (Student, ``n_folds - 1`` degrees of freedom), then the cost of each fold. Folds that were
        not needed are NaN, and so is the cost then; a subset whose fit failed costs inf. Of
        ``"rankings"``, costs and errors are those on fresh folds, and the folds are NaN. With a
        proxy: the subsets that were measured on `estimator`. If dropping features that no fold
        model used changes no model, subsets are listed without them.
    pareto_ : DataFrame
        The Pareto front of size and cost: the rows of `results_` within the constraints that no
        other dominates, the smallest first.
    history_ : DataFrame
        One row per epoch.
    strategy_ : Strategy
        The strategy that ran.
    columns_ : DataFrame
        Why each column is in or out, the chosen ones first: in how many measured subsets it was,
        the best score of a subset with it and without it, and on which folds, the nearest column on
        the other side of the choice (of at most 5,000 columns), and the score if the two change
        places, where that was measured; see :func:`swarm.search.columns.column_table`.
    picked_ : str
        The rule that selected `subset_`.
    interrupted_ : bool
        Whether Ctrl-C ended the search, or its confirmation.
    n_fits_ : int
        Number of models on a fold that the prefilter, the search, also of a proxy, and the
        confirmation needed, those of fast paths and cached ones included.
    result_ : SearchResult
        The result of the search; its best subset is that of ``pick="best"``.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from swarm import SubsetSelector
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> selector = SubsetSelector(GaussianNB(), budget=3).fit(X, y)
    >>> selector.transform(X).shape[1] == len(selector.subset_)
    True
    >>> len(selector.subset_) >= len(selector.repick("parsimonious").subset_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        strategy: str | Strategy = "auto",
        strategy_params: Mapping[str, object] | None = None,
        budget: int | str | Mapping[str, float | None] | None = "auto",
        warm: Any = None,
        proxy: Any = None,
        prefilter: bool | str | Mapping[str, Any] = "auto",
        size: int | str | tuple[int | None, int | None] | None = None,
        fixed: Iterable[str | int] | None = (),
        forbidden: Iterable[str | int] | None = (),
        groups: Groups | None = None,
        scoring: str | Callable[..., float] | None = None,
        cv: Any = 5,
        weights_in_score: bool = False,
        importance: str = "auto",
        pick: str = "best",
        confirm: bool | str | Mapping[str, Any] = "auto",
        pruning: bool = True,
        n_jobs: int | None = 1,
        random_state: int = 0,
        archive: str | Path | None = None,
        mute: Sequence[str] = (),
        callbacks: Sequence[Callable[..., Any]] = (),
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.strategy_params = strategy_params
        self.budget = budget
        self.warm = warm
        self.proxy = proxy
        self.prefilter = prefilter
        self.size = size
        self.fixed = fixed
        self.forbidden = forbidden
        self.groups = groups
        self.scoring = scoring
        self.cv = cv
        self.weights_in_score = weights_in_score
        self.importance = importance
        self.pick = pick
        self.confirm = confirm
        self.pruning = pruning
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.archive = archive
        self.mute = mute
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search for the best subset.

        Ctrl-C ends the search: the selector is fitted with the best subset so far, and a warning is
        issued. KeyboardInterrupt is raised only if no subset was evaluated yet, and within
        scikit-learn's model selection, such as ``cross_val_score`` or ``GridSearchCV``, which would
        go on with its next fit otherwise. With a proxy the best subsets are still measured on the
        estimator before `fit` returns.

        Parameters
        ----------
        X : pandas or polars DataFrame, array or sparse matrix (n_rows, n_features)
            Models see rows of their columns of it, as they are.
        y : (n_rows,) or (n_rows, n_labels)
            For a classifier integers are classes, however many there are. Several columns are
            labels if all values are 0 or 1, else several outputs.
        **params
            ``groups`` (n_rows,), passed to the splitter; a number of folds divides no group.
            ``sample_weight`` (n_rows,) and all others, passed to the estimator's ``fit``: those
            with a value for each row are split with the rows, and those with names of columns are
            restricted to a subset, see :mod:`swarm.problem.column_params`. With scikit-learn's
            metadata routing enabled they go where they were requested.

        Raises
        ------
        InputError
            If a fit would fail or a cost be meaningless; raised before any training.
        TypeError
            If the estimator's ``fit`` does not accept a parameter.
        EvaluationError
            If more than a tenth of the evaluations, and five, fail, or a cost is NaN.
        """
        check_parameters(self, y)
        budget = budget_of(self)
        search = search_of(self, *pose(self, X, y, params), budget)
        self.strategy_ = search.strategy
        strategy, space, epochs = search.strategy, search.problem.space, epochs_of(budget)
        until_finished = strategy.epochs_in(space)
        if until_finished is not None:
            epochs = min(epochs or until_finished, until_finished)
        least, most = strategy.evaluations_in(space)
        if least == most and epochs is not None and search.prefilter is None:
            print_line(
                f"{name_of(strategy)}: {most:,} evaluations, {epochs:,} epochs", self.verbose
            )
        with progress(self.verbose, epochs) as shown:
            known = [*label_findings(X, {"y": y, **params}), *_data_findings(search.problem)]
            self._warn_of_leaks(known, search.problem)
            evaluated = self._evaluate(search, shown, known)
        if evaluated.result.interrupted and within_model_selection():
            raise KeyboardInterrupt
        for each in (evaluated.result.cut, evaluated.result.confirmation):
            if each is not None:
                print_line(each.sentence(), self.verbose)
        self._select(evaluated, self.pick)
        size = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
        if "parsimonious" in [rule for rule in (self.pick, size) if isinstance(rule, str)]:
            self._warn_without_error()
        self._warn_of_end()
        return self

    def repick(self, pick: str) -> Self:
        """Select another of the measured subsets, without any evaluation.

        Parameters
        ----------
        pick : "best" or "parsimonious"

        Returns
        -------
        self
            With `subset_`, `cost_`, `importances_` and `picked_` of that subset.
        """
        check_is_fitted(self, "subset_")
        self._select(self._evaluated, pick)
        if pick == "parsimonious":
            self._warn_without_error()
        return self

    def transform(self, X: Any) -> Any:
        """Reduce X to the selected features.

        Parameters
        ----------
        X : table, array or sparse matrix (n_rows, n_features)

        Returns
        -------
        table, array or sparse matrix (n_rows, n_selected)
            The columns as they are, in a container of the kind of X unless ``set_output`` was
            called.
        """
        check_is_fitted(self, "subset_")
        return take_columns(checked_table(self, X), self.get_support(indices=True))

    def inverse_transform(self, X: Any) -> Any:
        """Insert columns of zeros in place of the features that were not selected.

        Parameters
        ----------
        X : table, array or sparse matrix (n_rows, n_selected)

        Returns
        -------
        table, array or sparse matrix (n_rows, n_features)
            Of a table a pandas table, in which the selected columns keep their dtypes and the
            others are whole numbers.
        """
        check_is_fitted(self, "subset_")
        X = X.to_pandas() if is_polars(X) else X
        if not isinstance(X, pd.DataFrame) or output_container(self) == "default":
            return super().inverse_transform(X)
        names = pd.Index(self._evaluated.labels)
        chosen = names[self.get_support()]
        if X.shape[1] != len(chosen):
            raise DataError(
                f"X has {X.shape[1]:,} columns but {len(chosen):,} were selected; pass what "
                "transform returned"
            )
        selected = X.set_axis(chosen, axis=1)
        return selected.reindex(columns=names, fill_value=0)

    @property
    def n_fits_(self) -> int:
        """Number of models on a fold that the answer needed, cached ones included."""
        check_is_fitted(self, "subset_")
        n_fits: int = self.result_.state.counts.fits
        if self.prefilter_ is not None:
            n_fits += self.prefilter_.n_fits
        if self.result_.measured is not None:
            n_fits += len(self.result_.measured) * self._evaluated.n_folds
        if self.confirmation_ is not None:
            n_fits += self.confirmation_.n_fits
        return n_fits + self.result_.n_rival_fits

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing of ``sample_weight``, ``groups`` and other parameters."""
        return router_of(self)

    def _evaluate(
        self,
        search: Search,
        shown: Callable[[EpochRecord, SearchState], None],
        findings: Sequence[Finding],
    ) -> EvaluatedSubsets:
        """Run the search, and read its evaluations."""
        problem = search.problem
        url = f"sqlite:///{self.archive}" if isinstance(self.archive, Path) else self.archive
        archive = Archive() if url is None else Archive(url)

        def on_epoch(record: EpochRecord, state: SearchState) -> None:
            for callback in (shown, *self.callbacks):
                callback(record, state)

        with closing(archive):
            result = run(search, archive, on_epoch=on_epoch, salvage=True, trial=True)
            self._digests = problem.model_and_data_digests()
            self._settings = problem.settings.in_results()
            doubts = search_findings(result, problem.target, problem.task)
            self.findings_ = unmuted([*doubts, *findings], self.mute)
            if result.proxy_warning:
                warnings.warn(
                    f"{result.proxy_warning}; use a proxy closer to the estimator, or none",
                    stacklevel=3,
                )
            space, cut = problem.space, result.cut
            searched = space if cut is None else space.restricted(cut.kept)
            bounds = bounds_of_answer(search.strategy, searched)
            distance = search.hints.distance
            if distance is None:
                distance = distances_of(problem.features, space)
            evaluations = archive.open_problem(problem)
            return EvaluatedSubsets.of(result, problem, evaluations, bounds, distance)

    def _select(self, evaluated: EvaluatedSubsets, pick: str) -> None:
        result, selection = evaluated.result, evaluated.select(pick)
        self._evaluated, self._selection = evaluated, selection
        self.result_, self.history_ = result, result.history
        self.results_ = evaluated.table
        self.pareto_ = evaluated.table.iloc[evaluated.front]
        self.picked_ = pick
        self.interrupted_ = result.interrupted
        self.confirmation_ = result.confirmation
        self.prefilter_ = result.cut
        self.support_ = selection.mask[result.space.unit_of]
        self.subset_ = selection.labels
        self.cost_ = selection.cost
        self.importances_ = selection.ranked_units()

    def _warn_of_leaks(self, findings: Sequence[Finding], problem: Problem) -> None:
        """Warn of columns that predict the target alone, before the search that they decide."""
        forbidden = set(problem.space.subset(problem.space.forbidden))
        for each in unmuted(findings, self.mute):
            if each.code == "SWM114" and forbidden.isdisjoint(each.columns):
                warnings.warn(str(each), stacklevel=3)

    def _warn_of_end(self) -> None:
        """Warn of an interrupted search, and of one that did not reach the requested sizes."""
        state = self.result_.state
        row = self._evaluated.pick(self.picked_)
        size = None if row is None else int(self.results_["size"].iloc[row])
        lowest, highest = self._evaluated.bounds
        missed = ""
        if size is not None and not lowest <= size <= highest:
            wanted = f"size {lowest}" if lowest == highest else f"sizes {lowest} to {highest}"
            missed = f"; the search did not reach the requested {wanted}"
        if not (self.interrupted_ or missed):
            return
        ended = "was interrupted" if self.interrupted_ else f"ended ({self.result_.reason})"
        what = self.result_.interrupted_step or "the search"
        warnings.warn(
            f"{what} {ended} after {state.epoch} finished epochs: the selector is "
            f"fitted with the best of {len(self.results_)} subsets, which has "
            f"{len(self.subset_)} features and cost {self.cost_:.6g}{missed}",
            stacklevel=3,
        )

    def _warn_without_error(self) -> None:
        if self._evaluated.n_folds == 1:
            warnings.warn(
                "'parsimonious' picks the best subset: with a single fold a cost has no standard "
                "error; use two folds or more",
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = tags_of(self.estimator)
        tags.target_tags.required = True
        tags.target_tags.multi_output = inner is not None and inner.target_tags.multi_output
        tags.input_tags.sparse = inner is None or inner.input_tags.sparse
        tags.input_tags.allow_nan = allows_missing(self.estimator)
        tags.input_tags.categorical = takes_categorical(self.estimator)
        return tags

    def _get_support_mask(self) -> Bool:
        check_is_fitted(self, "subset_")
        return self.support_


def _data_findings(problem: Problem) -> list[Finding]:
    """Return what is odd about the rows, whatever the search."""
    target, task, scoring = problem.target, problem.task, problem.scoring
    groups = groups_of(problem)
    return [
        *target_findings(target, task, scoring.name, scoring.pos_label),
        *column_findings(
            problem.features,
            target,
            task,
            groups=None if groups is None else pd.Series(groups, name="groups"),
        ),
    ]
