"""The stages of a search on the terminal and in the log of its run."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import numpy as np

from flows.display.terminal import EpochDisplay, say, show_stage
from flows.run.search_run import SearchRun
from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.json_data import plain
from swarm.metrics import display_name, natural_name
from swarm.problem.hints import MAX_COLUMNS
from swarm.problem.scoring import Scoring
from swarm.search.fresh_folds import candidates, ranked_candidates
from swarm.search.history import EpochRecord
from swarm.search.prefilter import Prefilter, most_cut_fits
from swarm.search.result import SearchResult
from swarm.search.runner import Stages
from swarm.storage.records import Record
from swarm.validation.sentences import format_score
from swarm.wording import counted
from tasks.tracking.curves import fresh_score


def named_score(cost: float, scoring: Scoring) -> str:
    """Describe a cost in the user's metric."""
    return f"{display_name(scoring.metric)} {format_score(scoring.natural(cost))}"


class SearchDisplay:
    """Shows each stage of a search while it lasts, and prints and logs its result."""

    def __init__(self, run: SearchRun, verbosity: int) -> None:
        self.run = run
        self.log = run.log
        self.verbosity = verbosity
        self._on_fit: Callable[[Bool, Record], None] = lambda mask, record: None

    @property
    def remedy(self) -> str:
        """What follows Ctrl-C, and how to complete the search."""
        remedy = "all evaluations so far are in the archive"
        if self.run.resume_command:
            remedy = f"`{self.run.resume_command}` completes the search"
        return f"continuing with the best subsets so far; {remedy}"

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        self._on_fit(mask, record)

    @contextmanager
    def stage(self, text: str, total: int | None = None) -> Iterator[None]:
        """Show a stage while it lasts."""
        with show_stage(text, self.verbosity, total=total) as line:
            self._on_fit = line.fit
            yield

    def prefilter(self, plan: Prefilter) -> AbstractContextManager[None]:
        """Show how the units are ranked."""
        if self.run.config.prefilter == "auto":
            text = f"prefilter: on, as the table has more than {MAX_COLUMNS:,} columns"
            say(text, self.verbosity)
        return self.stage(f"ranking the units with at most {most_cut_fits(plan):,} fits")

    def log_prefilter(self, stages: Stages) -> None:
        """Print and log what a prefilter kept."""
        cut = stages.cut
        assert cut is not None
        say(cut.sentence(), self.verbosity)
        self.log.tag({"prefilter": f"{cut.n_kept} of {len(cut.kept)} units"})

    @contextmanager
    def epochs(self, stages: Stages) -> Iterator[Callable[[EpochRecord], None]]:
        """Show and log the epochs; yield a callback for each epoch."""
        search = stages.search
        minimum, maximum = search.strategy.evaluations_in(search.problem.space)
        doing = "measuring" if maximum == 1 else "searching"
        say(f"{doing}: run {self.log.run_id} in {self.log.tracking.label}", self.verbosity)
        self.log.tag({"evaluation": stages.search_evaluator.method})
        if maximum == 1:
            # A strategy that evaluates one subset does not search, and its score says nothing.
            with self.stage("training the model on each fold"):
                yield lambda record: self.log.epoch(record, search.problem.scoring)
            return
        if minimum == maximum and search.prefilter is None:
            say(f"evaluations in total: {maximum:,}", self.verbosity)
        score = partial(named_score, scoring=search.problem.scoring)
        with EpochDisplay(search.budget, score, self.verbosity) as bar:
            self._on_fit = bar.fit

            def on_epoch(record: EpochRecord) -> None:
                self.log.epoch(record, search.problem.scoring)
                bar.epoch(record)

            yield on_epoch

    def confirmation(self, stages: Stages, result: SearchResult) -> AbstractContextManager[None]:
        """Show how the best subsets are evaluated on fresh folds."""
        assert stages.search.confirmation is not None
        fresh = stages.fresh_evaluator
        full = stages.full_evaluator
        searched = candidates(result, full, stages.search.confirmation)
        ranked = ranked_candidates(result).masks
        # The baseline, the shared features and rankings may not have been searched.
        n_fits = _missing_fits(fresh, np.vstack([searched, ~result.space.forbidden]))
        n_fits += _missing_fits(full, np.vstack([searched, ranked]))
        subsets = counted(len(searched) + len(ranked), "subset")
        return self.stage(f"confirming {subsets} on {fresh.n_folds} new folds", n_fits)

    def log_proxy(self, result: SearchResult) -> None:
        """Log how well the proxy guided the search."""
        measured = result.measured
        assert measured is not None
        scoring = self.run.search.problem.scoring
        name = natural_name(scoring.name)
        metrics = {
            f"proxy/best_{name}": scoring.natural(float(measured.search_costs.min())),
            f"proxy/full_{name}": scoring.natural(float(measured.costs.min())),
        }
        # MLflow's charts have no place for an undefined correlation.
        if result.correlation is not None and not math.isnan(result.correlation):
            metrics["proxy/rank_correlation"] = result.correlation
        self.log.metrics({0: metrics})

    def log_confirmation(self, result: SearchResult) -> None:
        """Log the costs on fresh folds."""
        confirmation = result.confirmation
        if confirmation is None:
            say(f"{result.interrupted_step} was interrupted: {self.remedy}", self.verbosity)
            return
        scoring = self.run.search.problem.scoring
        name = fresh_score(scoring.name)
        metrics = {
            name: scoring.natural(confirmation.cost),
            "fresh/winners_curse": confirmation.cost - confirmation.searched_cost,
        }
        if confirmation.gain is not None:
            metrics |= {
                f"{name}_all_features": scoring.natural(confirmation.baseline_cost),
                "fresh/gain": confirmation.gain.mean,
                "fresh/gain_low": plain(confirmation.gain.low),
                "fresh/gain_high": plain(confirmation.gain.high),
            }
        self.log.metrics({0: metrics})
        self.log.tag(
            {"confirmed": confirmation.verdict or "not compared", "origin": confirmation.origin}
        )


def _missing_fits(evaluator: CrossValidation, masks: Bool) -> int:
    """Count the fold models that are missing for an evaluation of masks (n, n_units)."""
    if not evaluator.fits_models:
        return 0
    return sum(int((~record.has_cost).sum()) for record in evaluator.evaluations.lookup(masks))
