"""Feature selection as a scikit-learn meta-estimator."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
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
from swarm.problem.problem import Importance, Problem
from swarm.problem.space import Groups
from swarm.problem.table import is_polars, take_columns
from swarm.protocols import Estimator, Scorer, Splitter
from swarm.rows import Fold
from swarm.search.history import EpochRecord
from swarm.search.runner import run
from swarm.search.search import Search
from swarm.search.state import SearchState
from swarm.selector.checks import check_parameters
from swarm.selector.defaults import bounds_of_answer, budget_of, epochs_of
from swarm.selector.display import SelectionDisplay
from swarm.selector.inputs import checked_table, output_container, router_of
from swarm.selector.plan import pose, search_of
from swarm.selector.progress import OnEpoch, print_line, progress
from swarm.selector.results import EvaluatedSubsets
from swarm.selector.unseen import ProblemMark, groups_of
from swarm.storage.archive import Archive
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of
from swarm.wording import counted


class SubsetSelector(
    SelectionDisplay,
    SelectorMixin,  # type: ignore[misc]
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Select the features with which an estimator has the best cross-validated score.

    By default a fit searches for 30 epochs, some hundred subsets on five folds each, and scores the
    20 best on 25 new folds, which choose among them. If columns outnumber rows more than ten times,
    it scores up to 17 sizes of two rankings on ten folds instead. Runs of the command line do the
    same.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator; it is cloned, not modified. Categorical columns need one whose
        tags (``input_tags.categorical``) or parameters indicate that it supports them.
    strategy : str or Strategy, default="auto"
        Search algorithm: a name from the page *Choose a strategy*, or an instance of a class
        derived from :class:`swarm.strategies.base.Strategy`. ``"auto"`` is ``"multiswarm"``, or
        ``"rankings"`` if columns outnumber rows more than ten times and no option is for a search
        (`strategy_params`, `warm`, `proxy` or ``prefilter=True``).
    budget : int, "auto", mapping or None, default="auto"
        When the search ends: a number of epochs, or a mapping of the limits of
        :class:`swarm.search.budget.Budget`, of which the first that is reached ends it. ``"auto"``:
        30 epochs, or no limit (None) for a strategy that terminates by itself.
    scoring : str or callable, optional
        A scorer as in scikit-learn. Default: the estimator's ``score``, that is accuracy for most
        classifiers and r2 for most regressors.
    cv : int, splitter or list of (train, test), default=5
        Folds: a number of shuffled ones, which are stratified for classifiers, a splitter such as
        ``TimeSeriesSplit``, or pairs of row positions; a single pair is a hold-out. 0, False or
        None: models are scored on the rows that they were trained on, which favours overfitting.

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

    Other Parameters
    ----------------
    strategy_params : mapping, optional
        *Search*: parameters that differ from the defaults of the strategy, see the page
        *Strategies*.
    warm : path, masks or lists of features, optional
        *Search*: subsets that the strategy evaluates first, the best first: a ``features.json``,
        masks (n, n_features), or lists of names or positions. Strategies without a warm start
        refuse it.
    proxy : estimator or mapping, optional
        *Search*: a cheaper estimator to search on, or a mapping of `estimator` or `params`, `rows`
        (a share of the rows), `best` (16) and `probes` (12). The best subsets are then measured on
        `estimator` and all rows, see :mod:`swarm.search.proxy`.
    prefilter : bool, "auto" or mapping, default="auto"
        *Search*: rank all features by importance and search only the first ones, always (True) or
        for more than 5,000 columns (``"auto"``). A mapping has the options `when` (``"always"`` or
        ``"auto"``) and `least`, the smallest number of units to keep (20), see
        :mod:`swarm.search.prefilter`.
    size : int, (min, max), "best", "parsimonious" or "auto", optional
        *Space*: number of features to select; an end of the pair may be None. The strings are for
        sequential strategies: the cheapest size on the path, the smallest within one standard error
        of it, or half of the features (with ``strategy_params={"tol": ...}`` as many as improve the
        cost by `tol` each).
    fixed, forbidden, groups : lists of features, optional
        *Space*: features that are always, never or only together selected; a group counts once.
        They are given by name, by position, or several by a pattern (``"lag_*"``) or a type
        (``"dtype:category"``). See :meth:`swarm.problem.space.SearchSpace.build`.
    weights_in_score : bool, default=False
        *Scores*: whether ``sample_weight`` counts in the scores of the folds too, and not only in
        training.
    importance : str, default="auto"
        *Scores*: source of the importances, see :meth:`swarm.problem.problem.Problem.build`.
    pick : "best" or "parsimonious", default="best"
        *Choice*: the best subset of the search, or the smallest within one standard error of the
        lowest cost, which usually costs some score on unseen rows; see :meth:`repick`.
    confirm : "auto", bool or mapping, default="auto"
        *Choice*: evaluate the best subsets on fold partitions that the search never used, and
        select among them. True or a mapping of `best` (20), `repeats` (5, or 2 if nothing is
        searched), `rankings`, `goal` and `margin` of
        :class:`swarm.search.confirmation.ConfirmationPlan` needs a number of folds or a shuffled
        splitter; ``"auto"`` confirms if `cv` is one and `pick` is ``"best"``.
    pruning : bool, default=True
        *Computation*: stop training subsets that cannot win any more. The selected subset is the
        same; without pruning `results_` has every cost.
    n_jobs : int, default=1
        *Computation*: number of workers; -1 for one per core.
    random_state : int, default=0
        *Computation*: seed of the search, of shuffled folds and of every random state that is not
        set.
    archive : str or Path, optional
        *Computation*: SQLAlchemy URL, or ``Path`` of an SQLite file, of a persistent cache, with
        which a second fit of the same problem trains nothing. See :mod:`swarm.problem.description`
        for code of your own.
    mute : sequence of str, default=()
        *Output*: codes of findings that are not reported, such as ``["SWM112"]``, see the page
        *Findings*.
    callbacks : sequence of callable, default=()
        *Output*: called after every epoch with its record and the state of the search; one that
        raises :class:`swarm.search.driver.StopSearch` ends it with the best subset so far.
    verbose : int, default=0
        *Output*: 0 for none, 1 for a progress bar of tqdm, 2 for a line per epoch.

    Attributes
    ----------
    subset_ : list
        Labels of the selected columns in the order of X, so that a table has ``X[subset_]``; x0,
        x1, ... for an array. Models are trained on them in this order.
    support_ : bool (n_features_in_,)
        Whether each column of X is selected, as from ``get_support()``.
    cost_ : float
        Cost of the selected subset on the folds of the search; with ``"rankings"``, on fresh folds
        whose training rows are ranked anew.
    confirmation_ : Confirmation or None
        Costs of the best subsets and of all features on fresh folds, the gain over all features
        with its interval, and the estimated bias of the choice; see
        :class:`swarm.search.confirmation.Confirmation`.
    prefilter_ : Cut or None
        The units that the prefilter kept, their importances, and the costs of the sizes that were
        tried; see :class:`swarm.search.prefilter.Cut`.
    findings_ : tuple of Finding
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
        not needed are NaN, and so is the cost then; a subset whose fit failed costs inf. With
        ``"rankings"``, costs and errors are those on fresh folds, and the folds are NaN. With a
        proxy, the subsets are those that were measured on `estimator`. If dropping features that no
        fold model used changes no model, subsets are listed without them.
    pareto_ : DataFrame
        The Pareto front of size and cost: the rows of `results_` within the constraints that no
        other dominates, the smallest first.
    history_ : DataFrame
        One row per epoch.
    strategy_ : Strategy
        The strategy that ran.
    picked_ : str
        The rule that selected `subset_`.
    interrupted_ : bool
        Whether Ctrl-C ended the search, or its confirmation.
    n_fits_ : int
        Number of models on a fold that prefilter, search, proxy and confirmation needed, those of
        fast paths and cached ones included.
    result_ : SearchResult
        The result of the search; its best subset is that of ``pick="best"``.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str (n_features_in_,)
        Names of the columns of X, if all of them are text.
    """

    def __init__(
        self,
        estimator: Estimator,
        *,
        strategy: str | Strategy = "auto",
        strategy_params: Mapping[str, object] | None = None,
        budget: int | str | Mapping[str, float | None] | None = "auto",
        warm: str | Path | Bool | Sequence[Sequence[str | int]] | None = None,
        proxy: Estimator | Mapping[str, Any] | None = None,
        prefilter: bool | str | Mapping[str, Any] = "auto",
        size: int | str | tuple[int | None, int | None] | None = None,
        fixed: Iterable[str | int] | None = (),
        forbidden: Iterable[str | int] | None = (),
        groups: Groups | None = None,
        scoring: str | Scorer | None = None,
        cv: int | Splitter | Sequence[Fold] | None = 5,
        weights_in_score: bool = False,
        importance: Importance = "auto",
        pick: str = "best",
        confirm: bool | str | Mapping[str, Any] = "auto",
        pruning: bool = True,
        n_jobs: int | None = 1,
        random_state: int = 0,
        archive: str | Path | None = None,
        mute: Sequence[str] = (),
        callbacks: Sequence[OnEpoch] = (),
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

        Ctrl-C ends the search: the selector is fitted with the best subset so far, measured on the
        estimator after a proxy, and a warning is issued. KeyboardInterrupt is raised if no subset
        was evaluated yet, and within scikit-learn's model selection, such as ``cross_val_score``
        or ``GridSearchCV``, which would otherwise continue with its next fit.

        Parameters
        ----------
        X : pandas or polars DataFrame, array or sparse matrix (n_rows, n_features)
            Features. Models see the columns of a subset as they are.
        y : array-like (n_rows,) or (n_rows, n_labels)
            Target. For a classifier, integers are classes, however many there are. Several columns
            are labels if all values are 0 or 1, else several outputs.
        **params : dict
            ``groups`` (n_rows,) is passed to the splitter; a number of folds divides no group.
            ``sample_weight`` (n_rows,) and all others are passed to the estimator's ``fit``: those
            with a value for each row are split with the rows, and those with names of columns are
            restricted to a subset, see :mod:`swarm.problem.column_params`. With scikit-learn's
            metadata routing enabled they go where they were requested.

        Returns
        -------
        self

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
        problem = search.problem
        strategy = search.strategy
        self.strategy_ = strategy
        epochs = epochs_of(budget)
        epochs_to_finish = strategy.epochs_in(problem.space)
        if epochs_to_finish is not None:
            epochs = min(epochs or epochs_to_finish, epochs_to_finish)
        smallest, largest = strategy.evaluations_in(problem.space)
        if 1 < smallest == largest and epochs is not None and search.prefilter is None:
            work = f"{counted(largest, 'evaluation')}, {counted(epochs, 'epoch')}"
            print_line(f"{name_of(strategy)}: {work}", self.verbose)
        with progress(self.verbose, epochs) as show_epoch:
            findings = [*label_findings(X, {"y": y, **params}), *_data_findings(problem)]
            self._warn_of_leaks(findings, problem)
            evaluated = self._evaluate(search, show_epoch, findings)
        if evaluated.result.interrupted and within_model_selection():
            raise KeyboardInterrupt
        for outcome in (evaluated.result.cut, evaluated.result.confirmation):
            if outcome is not None:
                print_line(outcome.sentence(), self.verbose)
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
            The rule, as the parameter of the class.

        Returns
        -------
        self
            The selector, with `subset_`, `cost_`, `importances_` and `picked_` of that subset.
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
            Rows with the columns of the fit.

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
            Rows as from :meth:`transform`.

        Returns
        -------
        table, array or sparse matrix (n_rows, n_features)
            A table becomes a pandas table, in which the selected columns keep their dtypes and the
            others are whole numbers.
        """
        check_is_fitted(self, "subset_")
        X = X.to_pandas() if is_polars(X) else X
        if not isinstance(X, pd.DataFrame) or output_container(self) == "default":
            return super().inverse_transform(X)
        labels = pd.Index(self._evaluated.labels)
        selected = labels[self.get_support()]
        if X.shape[1] != len(selected):
            raise DataError(
                f"X has {X.shape[1]:,} columns but {len(selected):,} were selected; pass what "
                "transform returned"
            )
        return X.set_axis(selected, axis=1).reindex(columns=labels, fill_value=0)

    @property
    def n_fits_(self) -> int:
        """Number of models on a fold that the answer needed, cached ones included."""
        check_is_fitted(self, "subset_")
        n_fits = self.result_.state.counts.fits
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
        show_epoch: OnEpoch,
        findings: Sequence[Finding],
    ) -> EvaluatedSubsets:
        """Run the search, and read its evaluations."""
        problem = search.problem
        url = f"sqlite:///{self.archive}" if isinstance(self.archive, Path) else self.archive
        archive = Archive() if url is None else Archive(url)

        def on_epoch(record: EpochRecord, state: SearchState) -> None:
            for callback in (show_epoch, *self.callbacks):
                callback(record, state)

        with closing(archive):
            result = run(search, archive, on_epoch=on_epoch, salvage=True, trial=True)
            self._mark = ProblemMark.of(problem)
            doubts = search_findings(result, problem.target, problem.task)
            self.findings_ = unmuted([*doubts, *findings], self.mute)
            if result.proxy_warning:
                warnings.warn(
                    f"{result.proxy_warning}; use a proxy closer to the estimator, or none",
                    stacklevel=3,
                )
            space = problem.space
            searched = space if result.cut is None else space.restricted(result.cut.kept)
            bounds = bounds_of_answer(search.strategy, searched)
            distance = search.hints.distance
            if distance is None:
                distance = distances_of(problem.features, space)
            evaluations = archive.open_problem(problem)
            return EvaluatedSubsets.of(result, problem, evaluations, bounds, distance)

    def _select(self, evaluated: EvaluatedSubsets, pick: str) -> None:
        """Set the attributes of the subset that a rule picks."""
        result = evaluated.result
        selection = evaluated.select(pick)
        self._evaluated = evaluated
        self._selection = selection
        self.result_ = result
        self.history_ = result.history
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
        """Warn of columns that predict the target alone, as they would decide the search."""
        forbidden = set(problem.space.subset(problem.space.forbidden))
        for finding in unmuted(findings, self.mute):
            if finding.code == "SWM114" and forbidden.isdisjoint(finding.columns):
                warnings.warn(str(finding), stacklevel=3)

    def _warn_of_end(self) -> None:
        """Warn of an interrupted search, and of one that did not reach the requested sizes."""
        state = self.result_.state
        row = self._evaluated.pick(self.picked_)
        size = None if row is None else int(self.results_["size"].iloc[row])
        lowest, highest = self._evaluated.bounds
        missed_sizes = ""
        if size is not None and not lowest <= size <= highest:
            sizes = f"size {lowest}" if lowest == highest else f"sizes {lowest} to {highest}"
            missed_sizes = f"; the search did not reach the requested {sizes}"
        if not (self.interrupted_ or missed_sizes):
            return
        step = self.result_.interrupted_step or "the search"
        end = "was interrupted" if self.interrupted_ else f"ended ({self.result_.reason})"
        warnings.warn(
            f"{step} {end} after {state.epoch} finished epochs: the selector is "
            f"fitted with the best of {len(self.results_)} subsets, which has "
            f"{len(self.subset_)} features and cost {self.cost_:.6g}{missed_sizes}",
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
    """Findings about the rows, which do not depend on the search."""
    scoring = problem.scoring
    groups = groups_of(problem)
    return [
        *target_findings(problem.target, problem.task, scoring.name, scoring.pos_label),
        *column_findings(
            problem.features,
            problem.target,
            problem.task,
            groups=None if groups is None else pd.Series(groups, name="groups"),
        ),
    ]
