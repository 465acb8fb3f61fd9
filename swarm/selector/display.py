"""What a fitted selector shows: plots, a summary, a report, its verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from swarm.checks import require_package
from swarm.errors import InputError, check_known
from swarm.metrics import display_name
from swarm.report.formatting import shortened
from swarm.search.result import SearchResult
from swarm.selector.report import headline_of, page_of
from swarm.selector.results import (
    EvaluatedSubsets,
    add_interval_columns,
    best_by_size,
    headline_of_pick,
    reason_not_comparable,
)
from swarm.statistics.resampled import CONFIDENCE
from swarm.strategies.catalogue import name_of
from swarm.validation.sentences import format_score
from swarm.validation.verdict import Headline
from swarm.wording import counted, listed, listed_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 20
# Of the summary: characters of a line, and findings that it names.
_WIDTH, _MOST_FINDINGS = 80, 3


class SelectionDisplay:
    """Adds plots, a summary and a report to a selector."""

    _evaluated: EvaluatedSubsets
    results_: pd.DataFrame

    def plot(self, kind: str = "convergence", *, ax: Any = None) -> Axes:
        """Plot the search or its result, in Matplotlib's current style.

        Parameters
        ----------
        kind : {"convergence", "size", "importances"}
            ``convergence``: the lowest cost by epoch, and the confirmed one of ``pick="best"``.
            ``size``: cost against size of all measured subsets, with the Pareto front and the
            selected subset; the band is the standard error of the best of each size.
            ``importances``: importances of the selected features, at most 20.
        ax : matplotlib Axes, optional
            Axes to draw on. Default: a new figure.

        Returns
        -------
        matplotlib Axes
            Its figure is ``ax.figure``.

        Raises
        ------
        ConfigError
            If the kind is unknown, or matplotlib is not installed.
        InputError
            If there are no importances to plot.
        """
        check_is_fitted(self, "subset_")
        check_known("kind of plot", kind, _PLOTS)
        require_package("matplotlib", "report", "a plot")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        axes: Axes = ax
        _PLOTS[kind](self, axes)
        return axes

    def metric_table(self, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Return the best measured subset of each size, without any evaluation.

        Parameters
        ----------
        confidence
            Level of the confidence interval from `ci_low` to `ci_high`, above 0 and below 1.

        Returns
        -------
        DataFrame
            One row for each size, which is the index; the other columns are those of `results_`.
            With pruning, subsets that lost may have no cost and are excluded.

        Raises
        ------
        ConfigError
            If `confidence` is out of range.
        """
        check_is_fitted(self, "subset_")
        n_folds = self._evaluated.n_folds
        return best_by_size(add_interval_columns(self.results_, n_folds, confidence))

    def report(
        self,
        file: str | Path,
        X: Any = None,
        y: Any = None,
        *,
        test: tuple[Any, ...] | None = None,
        **params: Any,
    ) -> Path:
        """Write the report of the selection as one HTML file, as that of a run.

        The page needs no network and runs no scripts. From the fitted selector alone it has the
        result, the search and its stability; with the rows also the correlations of the features
        and the loss when a feature is dropped, and with test rows the comparison with all features
        and with random subsets. The models of these sections are fitted here: for the losses up to
        13 on test rows, and as many for each fold in cross-validation.

        Parameters
        ----------
        file : path
            File to write, for example ``"report.html"``.
        X, y : optional
            Rows that `fit` was called with. Without test rows the model is scored on a fold
            partition that the search did not use, if `cv` can be drawn again.
        test : (X_test, y_test), optional
            Rows that `fit` has not seen, and with `weights_in_score` their weights. Needs `X` and
            `y`.
        **params
            As for `fit`: ``groups``, ``sample_weight`` and others.

        Returns
        -------
        Path
            Absolute path of the file.

        Raises
        ------
        ConfigError
            If jinja2 or matplotlib is not installed.
        InputError
            If test rows are given without `X` and `y`, or `X` has other columns than that of
            `fit`.
        """
        check_is_fitted(self, "subset_")
        path = Path(file).expanduser().absolute()
        if path.is_dir():
            raise InputError(f"{path} is a folder; pass the file to write")
        if not path.parent.is_dir():
            raise InputError(f"folder {path.parent} does not exist; create it, or pass another")
        path.write_text(page_of(self, X, y, test, params), encoding="utf-8")
        return path

    def judge(self, X: Any, y: Any, test: tuple[Any, ...], **params: Any) -> Headline:
        """Compare the selected features with all features on rows that `fit` has not seen.

        One model of each is fitted on the rows of the fit, and the difference of their scores is
        reported with a confidence interval, in the metric of the search (in the first default
        metric of the task if `scoring` is a callable, unless of ``make_scorer``, since it may read
        the rows). Only such rows can show that a selection is better: the search chose on its own
        rows, which fresh folds share.

        Parameters
        ----------
        X, y
            Rows that `fit` was called with.
        test : (X_test, y_test)
            Rows that `fit` has not seen, with `weights_in_score` their weights, and their groups if
            `fit` had groups: the interval is that of a bootstrap of whole groups.
        **params
            As for `fit`: ``groups``, ``sample_weight`` and others.

        Returns
        -------
        swarm.validation.verdict.Headline
            ``print`` shows the headline and its evidence; ``verdict`` is ``"better"``, ``"no clear
            difference"`` or ``"worse"``.

        Raises
        ------
        DataError
            If `X`, `y` or the weights are not those of the fit, or the test rows have other columns
            or values that the estimator does not support.
        InputError
            If the test rows have no target, more than a tenth of them are rows of the fit, or `fit`
            passed parameters to its models.
        """
        check_is_fitted(self, "subset_")
        return headline_of(self, X, y, test, params)

    def summary(self) -> str:
        """Summarise the selection in at most twelve lines of 80 characters.

        Returns
        -------
        str
            The answer and its scores in the metric of the search, then what to look at and to do:
            ``print(selector.summary())``.
        """
        check_is_fitted(self, "subset_")
        return "\n".join(_lines(self))


# ---------------------------------------------------------------- plots


def _label(selector: Any, axes: Axes, x: str) -> None:
    """Label the axes, that of whole numbers below."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(x)
    axes.set_ylabel(display_name(selector._evaluated.scoring.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def _convergence(selector: Any, axes: Axes) -> None:
    """Draw the best score by epoch, and the score on fresh folds."""
    history, confirmation = selector.history_, selector.confirmation_
    natural = selector._evaluated.scoring.natural
    scores = natural(history["best_cost"].where(np.isfinite(history["best_cost"])))
    marker = "o" if len(history) == 1 else None
    axes.plot(history["epoch"], scores, drawstyle="steps-post", marker=marker, label="best so far")
    if confirmation is not None and selector.picked_ == "best":
        label = f"confirmed, on {confirmation.n_folds} fresh folds"
        axes.axhline(natural(confirmation.cost), linestyle=":", label=label)
    _label(selector, axes, "epoch")


def _size(selector: Any, axes: Axes) -> None:
    """Draw all measured subsets, the best of each size, the Pareto front and the selected one."""
    table, best, front = selector.results_, selector.metric_table(), selector.pareto_
    table, best = (each[np.isfinite(each["cost"])] for each in (table, best))
    natural, error = selector._evaluated.scoring.natural, best["se"].fillna(0.0)
    scores, best_scores = natural(table["cost"]), natural(best["cost"])
    label = "± standard error of the best of each size"
    axes.plot(table["size"], scores, ".", color="0.6", alpha=0.5, label="measured subset")
    axes.fill_between(best.index, best_scores - error, best_scores + error, alpha=0.15, label=label)
    axes.step(front["size"], natural(front["cost"]), ".-", where="post", label="Pareto front")
    n_units = len(selector._importances)
    axes.plot([n_units], [natural(selector.cost_)], "*", markersize=14, label="selected")
    # A few bad subsets would flatten the good ones.
    costs = table["cost"]
    ends = natural(costs.min()), natural(max(costs.quantile(0.95), best["cost"].max()))
    margin = 0.1 * (max(ends) - min(ends) or 1.0)
    axes.set_ylim(min(ends) - margin, max(ends) + margin)
    _label(selector, axes, "features")


def _importances(selector: Any, axes: Axes) -> None:
    """Draw a bar per selected feature, the most important at the top."""
    values = selector._importances.dropna()
    if values.empty:
        raise InputError(
            "there are no importances to plot; fit the selector with importance='permutation'"
        )
    bars = values.head(_MOST_BARS)[::-1]
    axes.barh([shortened(str(name)) for name in bars.index], bars.to_numpy())
    axes.set_xlabel("importance")
    if len(bars) < len(values):
        axes.set_title(f"{len(bars)} most important of {len(values):,} features")


_PLOTS: dict[str, Callable[[Any, Any], None]] = {
    "convergence": _convergence,
    "size": _size,
    "importances": _importances,
}


# ---------------------------------------------------------------- text


def _lines(selector: Any) -> Iterator[str]:
    """Yield the lines of the summary, at most 12."""
    result, scoring = selector.result_, selector._evaluated.scoring
    head, names = headline_of_pick(selector), _by_importance(selector)
    metric = shortened(display_name(scoring.metric))
    yield f"{head.title}."
    if len(names) < head.n_available:
        best = "" if head.names_features else f"The best {len(names)}: "
        yield listed_within(_WIDTH, f"  {best}", [shortened(name) for name in names])
    yield f"  Score in the search: {metric} {format_score(scoring.natural(selector.cost_))}."
    if not selector.confirm and isinstance(selector.cv, int) and selector.cv > 1:
        # Other folds may not be drawn again.
        yield "  confirm=True scores the best subsets again, on new folds of the same rows."
    for sentence in [*head.sentences(), *filter(None, [head.origin])]:
        yield from _wrapped(f"  {sentence}", indent=4)
    smaller = _smaller_pick(selector)
    if smaller is not None:
        columns = counted(smaller[0], "column")
        score = f"{metric} {format_score(scoring.natural(smaller[1]))} in the search"
        yield from _wrapped(f"Smaller  repick('parsimonious') keeps {columns}: {score}")
    yield from _wrapped(f"Search   {_search(selector, result)}")
    grave = [each for each in selector.findings_ if each.severity != "note"]
    if grave:
        titles = [f"{each.code} {each.title}" for each in grave]
        yield from _wrapped(f"Look at  {listed(titles, _MOST_FINDINGS)}, in findings_")
    steps = "plot(), report('report.html')"
    if reason_not_comparable(selector.estimator, selector._evaluated.task) is None:
        steps = f"judge(X, y, test=(X_test, y_test)), {steps}"
    yield f"Next     {steps}"


def _search(selector: Any, result: SearchResult) -> str:
    """Describe the search, and that it was interrupted if it was."""
    counts = result.state.counts
    work = f"{counted(counts.distinct, 'subset')}, {counted(counts.fits, 'model')}"
    ended = "; interrupted" if result.interrupted else ""
    return f"{name_of(selector.strategy)}, seed {selector.random_state}: {work}{ended}"


def _wrapped(text: str, indent: int = 9) -> list[str]:
    """Wrap a sentence of the summary."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=" " * indent)


def _smaller_pick(selector: Any) -> tuple[int, float] | None:
    """Return size and cost of the smaller subset that :meth:`repick` would select, if any."""
    evaluated = selector._evaluated
    row = evaluated.pick("parsimonious")
    if row is None or not math.isfinite(evaluated.cost(row)):
        return None
    size = len(evaluated.table["features"].iloc[row])
    return (size, evaluated.cost(row)) if size < len(selector.subset_) else None


def _by_importance(selector: Any) -> list[str]:
    """Return the selected features by importance; in the order of X without importances."""
    names = [name for name in selector._importances.dropna().index if name in selector._names]
    if len(names) < selector._importances.notna().sum():  # units are groups
        return list(selector._names)
    return [*names, *(name for name in selector._names if name not in names)]
