"""What a fitted selector shows: plots, a summary, a report, its verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from swarm.checks import require_package
from swarm.errors import InputError, check_known
from swarm.search.result import aligned, counts_of, listed
from swarm.selector.results import EvaluatedSubsets, best_by_size, with_interval
from swarm.strategies.catalogue import name_of
from swarm.validation.metrics import cost_label, display_name
from swarm.validation.sentences import number
from swarm.validation.verdict import Headline, headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from swarm.problem.scoring import Scoring

_MOST_BARS = 20
_NAME_LENGTH = 40


class SelectionDisplay:
    """Adds plots, a summary and a report to a selector."""

    _evaluated: EvaluatedSubsets
    results_: pd.DataFrame

    def plot(self, kind: str = "convergence", *, ax: Any = None) -> Axes:
        """Plot the search or its result, in Matplotlib's current style.

        Parameters
        ----------
        kind : {"convergence", "size", "importances"}
            ``convergence``: the lowest cost by epoch, and the confirmed one if there is one.
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
        axes = _axes(ax)
        _PLOTS[kind](self, axes)
        return axes

    def metric_table(self, confidence: float = 0.95) -> pd.DataFrame:
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
        return best_by_size(with_interval(self.results_, n_folds, confidence))

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
        from swarm.selector.report import page_of

        path = Path(file).expanduser().absolute()
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
            Rows that `fit` has not seen, and with `weights_in_score` their weights.
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
        from swarm.selector.report import headline_of

        return headline_of(self, X, y, test, params)

    def summary(self) -> str:
        """Summarise the selection in about ten lines of text.

        Returns
        -------
        str
            Names on the left, one fact a line: ``print(selector.summary())``.
        """
        check_is_fitted(self, "subset_")
        return aligned(_rows(self))


def head_of(selector: Any) -> Headline:
    """Return the headline of a fitted selector; another pick than the best has no evidence."""
    if selector.picked_ == "best":
        return headline(selector.result_, _scoring(selector))
    n_columns = selector.result_.space.n_columns
    return Headline("no clear difference", len(selector.subset_), n_columns)


def _scoring(selector: Any) -> Scoring:
    scoring: Scoring = selector._evaluated.scoring
    return scoring


# ---------------------------------------------------------------- plots


def _axes(ax: Any) -> Axes:
    """Return the axes to draw on, by default those of a new figure."""
    require_package("matplotlib", "report", "a plot")
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
    axes: Axes = ax
    return axes


def _label(axes: Axes, x: str, y: str) -> None:
    """Label the axes, that of whole numbers below."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _convergence(selector: Any, axes: Axes) -> None:
    """Draw the lowest cost, the mean of the solutions that the strategy keeps, and fresh folds."""
    history = selector.history_
    best = history["best_cost"].where(np.isfinite(history["best_cost"]))
    mean = history["pbest_cost_mean"].where(np.isfinite(history["pbest_cost_mean"]))
    marker = "o" if len(history) == 1 else None
    line = axes.plot(
        history["epoch"], best, drawstyle="steps-post", marker=marker, label="best so far"
    )[0]
    if not np.allclose(mean, best, equal_nan=True):
        style: Any = {"linestyle": "--", "linewidth": 1.0, "color": "0.5"}
        axes.plot(history["epoch"], mean, label="mean of the current subsets", **style)
        # The first epochs are far off, and would flatten the rest of the curve.
        top = np.nanmax([best.max(), mean.quantile(0.9)])
        low = np.nanmin(best)
        axes.set_ylim(low - 0.05 * (top - low or 1.0), top + 0.05 * (top - low or 1.0))
    confirmation = selector.confirmation_
    if confirmation is not None:
        label = f"confirmed, on {confirmation.n_folds} fresh folds"
        axes.axhline(confirmation.cost, color=line.get_color(), linestyle=":", label=label)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, confirmation.cost), max(high, confirmation.cost * 1.01))
    _label(axes, "epoch", f"cost ({cost_label(_scoring(selector))})")
    axes.legend()


def _size(selector: Any, axes: Axes) -> None:
    """Draw all measured subsets, the best of each size, the Pareto front and the selected one."""
    table = selector.results_
    known = table[np.isfinite(table["cost"])]
    dot: Any = {"linestyle": "none", "marker": ".", "color": "0.6", "alpha": 0.5}
    axes.plot(known["size"], known["cost"], **dot, label="measured subset")
    best = selector.metric_table()
    best = best[np.isfinite(best["cost"])]
    error = best["se"].fillna(0.0)
    label = "± standard error of the best of each size"
    axes.fill_between(
        best.index, best["cost"] - error, best["cost"] + error, alpha=0.15, label=label
    )
    front = selector.pareto_
    axes.plot(
        front["size"], front["cost"], drawstyle="steps-post", marker=".", label="Pareto front"
    )
    star: Any = {"linestyle": "none", "marker": "*", "markersize": 14, "label": "selected"}
    axes.plot([len(selector.importances_)], [selector.cost_], **star)
    # A few bad subsets would flatten the good ones.
    low, high = known["cost"].min(), known["cost"].quantile(0.95)
    shown = max(high, float(best["cost"].max()), selector.cost_)
    axes.set_ylim(low - 0.1 * (shown - low or 1.0), shown + 0.1 * (shown - low or 1.0))
    _label(axes, "features", f"cost ({cost_label(_scoring(selector))})")
    axes.legend()


def _importances(selector: Any, axes: Axes) -> None:
    """Draw a bar per selected feature, the most important at the top."""
    values = selector.importances_.dropna()
    if values.empty:
        raise InputError(
            "there are no importances to plot; fit the selector with importance='permutation'"
        )
    shown = values.head(_MOST_BARS)[::-1]
    axes.barh([_shortened(name) for name in shown.index], shown.to_numpy())
    axes.set_xlabel("importance")
    if len(shown) < len(values):
        axes.set_title(f"{len(shown)} most important of {len(values):,} features")


_PLOTS: dict[str, Callable[[Any, Any], None]] = {
    "convergence": _convergence,
    "size": _size,
    "importances": _importances,
}


# ---------------------------------------------------------------- text


def _rows(selector: Any) -> list[tuple[str, str]]:
    """Return the lines of the summary: name and text."""
    result, confirmation = selector.result_, selector.confirmation_
    scoring, head = _scoring(selector), head_of(selector)
    ranked = _ranked(selector)
    rows = [("features", f"{len(ranked):,} of {result.space.n_columns:,}: {listed(ranked)}")]
    rows.append(("verdict", head.title))
    name = display_name(scoring.metric)
    found = number(scoring.natural(selector.cost_))
    rows.append(("score", f"{name} {found} in the search (cost {selector.cost_:.4g})"))
    rows += [("fresh folds", sentence) for sentence in head.sentences()]
    if confirmation is None:
        rows.append(("fresh folds", "none; confirm=True evaluates the best subsets on them"))
    others = [f"{rule}, {size} features, {name} {value}" for rule, size, value in _picks(selector)]
    rows += [("repick", other) for other in others]
    rows += result.outcomes
    work = f"{name_of(selector.strategy)}, seed {selector.random_state}, {counts_of(result)}"
    rows.append(("search", f"{work}; ended by {result.reason}"))
    codes = [f"{each.code} {each.title}" for each in selector.findings_]
    rows.append(("findings", "; ".join(codes) if codes else "none"))
    rows.append(
        ("next", "transform(X), plot(), report('report.html'), judge(X, y, test=(X_test, y_test))")
    )
    return rows


def _picks(selector: Any) -> list[tuple[str, int, str]]:
    """Return rule, size and score of the smaller subsets that :meth:`repick` would select."""
    found = []
    evaluated = selector._evaluated
    for rule in ("parsimonious", "knee"):
        row = evaluated.pick(rule)
        if row is None or not math.isfinite(evaluated.cost(row)):
            continue
        features = evaluated.table["features"].iloc[row]
        if len(features) >= len(selector.subset_):
            continue
        value = number(_scoring(selector).natural(evaluated.cost(row)))
        found.append((rule, len(features), value))
    return found


def _ranked(selector: Any) -> list[str]:
    """Return the selected features by importance; in the order of X without importances."""
    known = selector.importances_.dropna()
    groups = set(known.index) - set(selector.subset_)
    if known.empty or groups:
        return list(selector.subset_)
    return [*known.index, *(name for name in selector.subset_ if name not in known.index)]


def _shortened(name: object) -> str:
    text = str(name)
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
