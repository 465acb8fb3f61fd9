"""What others are told while a selector is fitted: scikit-learn's callbacks, and a person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from swarm.search.history import EpochRecord

if TYPE_CHECKING:
    from swarm.search.driver import SearchState

__all__ = ["CallbackSupport", "FitTasks", "Stop", "progress", "tell", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the method as it is."""
        return method


Tell = Callable[[EpochRecord, "SearchState"], None]
Step = Callable[["SearchState"], "tuple[SearchState, EpochRecord]"]


class Stop(KeyboardInterrupt):
    """A callback of scikit-learn has asked to stop: the driver ends as it does after Ctrl-C."""


class FitTasks:
    """Tells the callbacks of scikit-learn of the fit and of each epoch.

    Parameters
    ----------
    selector : estimator
    X, y
        What ``fit`` was given.
    metadata : dict
        What else it was given.
    epochs : int or None
        How many epochs there are at most, None if unknown.

    Attributes
    ----------
    asked_to_stop : bool
        Whether a callback has asked the search to end.
    """

    def __init__(
        self, selector: Any, X: Any, y: Any, metadata: dict[str, Any], epochs: int | None
    ) -> None:
        self._selector = selector
        self._data = {"X": X, "y": y, "metadata": metadata}
        begin = getattr(selector, "_init_callback_context", None)
        self._fit = None if begin is None else begin(max_subtasks=epochs)
        self.asked_to_stop = False
        if self._fit is not None:
            self._fit.call_on_fit_task_begin(estimator=selector, **self._data)

    def around(self, step: Step, fitted: Callable[[SearchState], dict[str, Any] | None]) -> Step:
        """Wrap a step of the search; `fitted` gives the attributes of a selector at a state."""
        fit = self._fit
        if fit is None:
            return step

        def told(state: SearchState) -> tuple[SearchState, EpochRecord]:
            task = fit.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self._selector, **self._data)
            after, record = step(state)
            self.asked_to_stop |= task.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=lambda: fitted(after),
                **self._data,
            )
            return after, record

        return told

    def stop_if_asked(self, record: EpochRecord, state: SearchState) -> None:
        """Raise :class:`Stop` after the epoch in which a callback asked for it."""
        if self.asked_to_stop:
            raise Stop

    def end(self, attributes: dict[str, Any]) -> None:
        """Tell that the selector is fitted."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(
                estimator=self._selector,
                reconstruction_attributes=attributes,
                **self._data,
            )


def tell(line: str, verbose: int) -> None:
    """Show a line unless `verbose` is 0."""
    if verbose > 0:
        print(line, file=sys.stderr)


@contextmanager
def progress(verbose: int, epochs: int | None) -> Iterator[Tell]:
    """Show epochs as they finish.

    Parameters
    ----------
    verbose
        0 shows nothing, 1 one live line where there is a terminal, 2 also a line for every epoch
        where there is none. Without the package rich there is a line in place of the live one.
    epochs : int or None
        How many there are at most.
    """
    terminal = verbose > 0 and sys.stderr.isatty()
    if terminal and find_spec("rich") is not None:
        yield from _bar(epochs)
    elif terminal or verbose > 1:
        yield lambda record, _: print(f"epoch {record.epoch}: {_said(record)}", file=sys.stderr)
    else:
        yield lambda record, _: None


def _bar(epochs: int | None) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as LeftColumn

    of = f"/{epochs}" if epochs else ""
    columns = (
        TextColumn("[bold]epoch {task.completed:.0f}" + of),
        BarColumn(bar_width=20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        LeftColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        number = shown.add_task("first subsets", total=epochs)
        yield lambda record, _: shown.update(
            number, completed=record.epoch, description=_said(record)
        )


def _said(record: EpochRecord) -> str:
    metrics, work = record.metrics, record.work
    return (
        f"best cost {metrics['best_cost']:.5f} with {metrics['best_size']:.0f} features, "
        f"{metrics['evaluations']:.0f} evaluations, {metrics['fits']:.0f} fits, "
        f"{metrics['folds_pruned']:.0f} folds pruned, {work.hits} from the archive"
    )
