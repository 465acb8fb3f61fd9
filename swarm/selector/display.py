"""What a fitted selector shows: plots, a summary, a report, its verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from swarm.checks import require_package
from swarm.errors import InputError, check_known
from swarm.findings import Findings
from swarm.findings.outcome import doubts
from swarm.metrics import display_name
from swarm.problem.scoring import Scoring
from swarm.problem.table import as_frame, take_columns
from swarm.protocols import Estimator
from swarm.report.cards import card_of
from swarm.report.data import by_column, ranked
from swarm.report.formatting import shortened
from swarm.search.result import SearchResult
from swarm.selector.inputs import checked_table
from swarm.selector.report import data_of, headline_of, page_of
from swarm.selector.results import (
    EvaluatedSubsets,
    Selection,
    add_interval_columns,
    best_by_size,
    reason_not_comparable,
)
from swarm.statistics.resampled import CONFIDENCE
from swarm.storage.exports import describe_columns, export_columns, format_of
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of
from swarm.validation.sentences import chosen_columns, cost_as_score
from swarm.validation.verdict import Headline
from swarm.wording import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from swarm.selector.selector import SubsetSelector

_MAX_BARS = 20
# Limits of the summary: characters of a line, and findings that it names.
_MAX_WIDTH = 80
_MAX_FINDINGS = 3


class SelectionDisplay:
    """Adds plots, a summary and a report to a selector."""

    # The selector has these attributes.
    _evaluated: EvaluatedSubsets
    _selection: Selection
    results_: pd.DataFrame
    result_: SearchResult
    findings_: Findings
    interrupted_: bool
    estimator: Estimator
    strategy_: Strategy
    cv: Any
    confirm: Any
    random_state: int

    @property
    def _selector(self) -> SubsetSelector:
        return cast("SubsetSelector", self)

    def plot(self, kind: str = "convergence", *, ax: Axes | None = None) -> Axes:
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
        _PLOTS[kind](self._selection, ax)
        return ax

    @property
    def columns_(self) -> pd.DataFrame:
        """Why each column is in or out, from the measured subsets, see :func:`column_table`."""
        check_is_fitted(self, "subset_")
        return self._selection.columns()

    def metric_table(self, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Return the best measured subset of each size, without any evaluation.

        Parameters
        ----------
        confidence : float
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
        """Write the report of the selection as one HTML file, like the report of a run.

        The page needs no network and runs no scripts. It has the result, the search and its
        stability; if the rows are passed, also the correlations of the features and the loss when a
        feature is dropped; if test rows are passed, also the comparison with all features and with
        random subsets. The models of these sections are fitted here: for the losses up to 14.

        Parameters
        ----------
        file : path
            File to write, for example ``"report.html"``.
        X, y : optional
            Rows that `fit` was called with. If there are no test rows, the model is scored on a
            fold partition that the search did not use, if `cv` can be drawn again.
        test : (X_test, y_test), optional
            Rows that `fit` has not seen, and with `weights_in_score` their weights. Needs `X` and
            `y`.
        **params
            Parameters of `fit`: ``groups``, ``sample_weight`` and others.

        Returns
        -------
        Path
            Absolute path of the file.

        Raises
        ------
        ConfigError
            If jinja2 or matplotlib is not installed.
        InputError
            If test rows are given without `X` and `y`, or `X` has other columns than in `fit`.
        """
        check_is_fitted(self, "subset_")
        path = Path(file).expanduser().absolute()
        if path.is_dir():
            raise InputError(f"{path} is a folder; pass the file to write")
        if not path.parent.is_dir():
            raise InputError(f"folder {path.parent} does not exist; create it, or pass another")
        path.write_text(page_of(self._selector, X, y, test, params), encoding="utf-8")
        return path

    def export(
        self,
        file: str | Path,
        X: Any = None,
        *,
        as_: str | None = None,
        table: str = "data",
    ) -> Path:
        """Write the names of the selected columns for another program, as `swarm features --as`.

        Parameters
        ----------
        file : path
            File to write, for example ``"columns.txt"``.
        X : table, optional
            For pandera: the rows that `fit` was called with, whose types, ranges and categories
            the schema has.
        as_ : {"txt", "json", "yaml", "sql", "pandera", "feast"}, optional
            Format. Default: by the ending, .txt, .json, .yaml, .sql, or .py for pandera.
        table : str
            Name of the table in SQL and pandera, and of the feature view of Feast.

        Returns
        -------
        Path
            Absolute path of the file.

        Raises
        ------
        InputError
            If the format is unknown, or X is missing for pandera.
        """
        check_is_fitted(self, "subset_")
        path = Path(file).expanduser().absolute()
        names = self._selection.names
        form = format_of(path.name) if as_ is None else as_
        columns: list[dict[str, Any]] = []
        if X is not None:
            chosen = self.result_.space.positions(self._selection.mask)
            rows = take_columns(checked_table(self._selector, X), chosen)
            columns = describe_columns(as_frame(rows, names))
        elif form == "pandera":
            raise InputError("a schema of pandera needs the rows of the fit; pass X to export")
        text = export_columns(names, form, table=table, columns=columns)
        path.write_text(text, encoding="utf-8")
        return path

    def judge(
        self,
        X: Any,
        y: Any,
        test: tuple[Any, ...],
        *,
        tolerance: float | None = None,
        **params: Any,
    ) -> Headline:
        """Compare the selected features with all features on rows that `fit` has not seen.

        One model of each is fitted on the rows of the fit, and the difference of their scores is
        reported with a confidence interval. Only such rows can show that a selection is better: the
        search chose on its own rows, which fresh folds share.

        The metric is the metric of the search. A callable `scoring` may read the rows, so that the
        first default metric of the task replaces it, unless it comes from ``make_scorer``.

        Parameters
        ----------
        X, y
            Rows that `fit` was called with.
        test : (X_test, y_test)
            Rows that `fit` has not seen, with `weights_in_score` their weights, and their groups if
            `fit` had groups. If the folds of the fit are in time, the rows are in order of time.
        tolerance : float, optional
            Loss against all features, in units of the metric, that does not matter. Default: 0.05
            of a metric of at most 1, or of the error of guessing, but at most half of the gain of
            all features over guessing.
        **params
            Parameters of `fit`: ``groups``, ``sample_weight`` and others.

        Returns
        -------
        swarm.validation.verdict.Headline
            ``print`` shows the headline and its evidence; ``verdict`` is ``"better"``, ``"not
            worse"`` than is tolerated, ``"worse"``, or ``"unclear"`` if the rows do not decide.

        Raises
        ------
        DataError
            If `X`, `y` or the weights differ from the fit, or the test rows have values that the
            estimator does not support.
        InputError
            If the test rows have no target, more than a tenth of them are rows of the fit, or `fit`
            passed parameters to its models.
        ValueError
            If the test rows have other columns than `X`, or in another order, as in `transform`.
        """
        check_is_fitted(self, "subset_")
        return headline_of(self._selector, X, y, test, params, tolerance=tolerance)

    def summary(self) -> None:
        """Print the selection in at most twelve lines of 80 characters.

        They are the answer and its scores in the metric of the search, then what to look at and to
        do. A notebook shows a card instead if the selector is the last line of a cell.
        """
        check_is_fitted(self, "subset_")
        print(self._summary_text())

    def _summary_text(self) -> str:
        return "\n".join(line for line in self._summary_lines() if line)

    @property
    def _repr_html_(self) -> Any:
        """Return its card, or scikit-learn's diagram of a selector that is not fitted.

        Like scikit-learn's, it is a property whose value is called, and raises if the configuration
        is to show text.
        """
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: self._card() or diagram()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the card for a notebook, and its text for a terminal."""
        card = self._card()
        if card is None:
            return super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return {"text/plain": self._summary_text(), "text/html": card}

    def _card(self) -> str | None:
        """Return the card; None if it is not fitted, is to be a text, or jinja2 is missing."""
        if not hasattr(self, "subset_") or get_config()["display"] != "diagram":
            return None
        return card_of(data_of(self._selector))

    def _summary_lines(self) -> Iterator[str]:
        """Yield the lines of the summary; notes are cut to one row."""
        selection = self._selection
        result, scoring = self.result_, self._evaluated.scoring
        head = selection.headline()
        importances = by_column(selection.importances, selection.mask, result.space)
        names = [shortened(name) for name in ranked(selection.names, importances)]
        yield f"{head.title}."
        yield chosen_columns(head, names, _MAX_WIDTH)
        yield _cut(f"  Score: {cost_as_score(result, scoring, selection.cost)}.")
        is_confirmed = self.confirm or result.confirmation is not None
        if not is_confirmed and isinstance(self.cv, int) and self.cv > 1:
            yield "  confirm=True scores the best subsets again, on new folds of the same rows."
        for text in head.sentences():
            yield textwrap.fill(f"  {text}", _MAX_WIDTH, subsequent_indent="    ")
        yield from (_cut(f"  {text}") for text in head.notes)
        smaller = selection.smaller()
        if smaller is not None:
            columns = counted(len(smaller.names), "column")
            score = cost_as_score(result, scoring, smaller.cost)
            yield _cut(f"Smaller  repick('parsimonious') keeps {columns}: {score}")
        counts = result.state.counts
        work = f"{counted(counts.distinct, 'subset')}, {counted(counts.fits, 'model')}"
        if result.confirmation is not None and result.confirmation.replaces_search:
            work = f"{counted(len(result.confirmation.candidates), 'subset')} on new folds"
        ended = "; interrupted" if self.interrupted_ else ""
        yield _cut(f"Search   {name_of(self.strategy_)}, seed {self.random_state}: {work}{ended}")
        titles = [f"{finding.code} {finding.title}" for finding in doubts(head, self.findings_)]
        if titles:
            text = f"Look at  {listed(titles, _MAX_FINDINGS)}, in findings_"
            yield textwrap.fill(text, _MAX_WIDTH, subsequent_indent=" " * 9)
        can_judge = reason_not_comparable(self.estimator, self._evaluated.task) is None
        judged = "judge(X, y, test=(X_test, y_test)), " if can_judge else ""
        yield f"Next     {judged}plot(), report('report.html')"


def _cut(line: str) -> str:
    """Cut a line after the last word that fits into a row."""
    return line if len(line) <= _MAX_WIDTH else f"{textwrap.wrap(line, _MAX_WIDTH - 1)[0]}…"


# ---------------------------------------------------------------- plots


def _label(scoring: Scoring, axes: Axes, x: str) -> None:
    """Label the axes; the lower one has whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(x)
    axes.set_ylabel(display_name(scoring.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def _convergence(selection: Selection, axes: Axes) -> None:
    """Draw the best score by epoch, and the score on fresh folds."""
    scoring = selection.evaluated.scoring
    history = selection.evaluated.result.history
    confirmation = selection.evaluated.result.confirmation
    scores = scoring.natural(history["best_cost"].where(np.isfinite(history["best_cost"])))
    marker = "o" if len(history) == 1 else None
    axes.plot(history["epoch"], scores, drawstyle="steps-post", marker=marker, label="best so far")
    if confirmation is not None and selection.is_best:
        label = f"confirmed, on {confirmation.n_folds} fresh folds"
        axes.axhline(scoring.natural(confirmation.cost), linestyle=":", label=label)
    _label(scoring, axes, "epoch")


def _size(selection: Selection, axes: Axes) -> None:
    """Draw all measured subsets, the best of each size, the Pareto front and the selected one."""
    evaluated = selection.evaluated
    natural = evaluated.scoring.natural
    table = evaluated.table[np.isfinite(evaluated.table["cost"])]
    front = evaluated.table.iloc[evaluated.front]
    best = best_by_size(table)
    scores = natural(best["cost"])
    error = best["se"].fillna(0.0)
    label = "± standard error of the best of each size"
    axes.plot(
        table["size"], natural(table["cost"]), ".", color="0.6", alpha=0.5, label="measured subset"
    )
    axes.fill_between(best.index, scores - error, scores + error, alpha=0.15, label=label)
    axes.step(front["size"], natural(front["cost"]), ".-", where="post", label="Pareto front")
    size = int(selection.mask.sum())
    axes.plot([size], [natural(selection.cost)], "*", markersize=14, label="selected")
    # A few bad subsets would flatten the good ones.
    costs = table["cost"]
    ends = natural(costs.min()), natural(max(costs.quantile(0.95), best["cost"].max()))
    margin = 0.1 * (max(ends) - min(ends) or 1.0)
    axes.set_ylim(min(ends) - margin, max(ends) + margin)
    _label(evaluated.scoring, axes, "features")


def _importances(selection: Selection, axes: Axes) -> None:
    """Draw a bar per selected feature, the most important at the top."""
    values = selection.ranked_units().dropna()
    if values.empty:
        raise InputError(
            "there are no importances to plot; fit the selector with importance='permutation'"
        )
    bars = values.head(_MAX_BARS)[::-1]
    axes.barh([shortened(str(name)) for name in bars.index], bars.to_numpy())
    axes.set_xlabel("importance")
    if len(bars) < len(values):
        axes.set_title(f"{len(bars)} most important of {len(values):,} features")


_PLOTS: dict[str, Callable[[Selection, Axes], None]] = {
    "convergence": _convergence,
    "size": _size,
    "importances": _importances,
}
