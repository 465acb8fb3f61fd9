"""The sections that say how a search is run, judged, recorded and repeated."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, FiniteFloat, model_validator

from conf.base import Count, Fraction, Location, Params, PositiveCount, Section, Workers, sentence

__all__ = [
    "ArchiveSection",
    "BudgetSection",
    "EnsembleSection",
    "EvaluationSection",
    "HoldoutSection",
    "ProxySection",
    "RetriesSection",
    "StrategySection",
    "TrackingSection",
]


Importance = Literal["auto", "fold", "refit", "permutation", "mutual_information", "none"]


class StrategySection(Section):
    """The search algorithm."""

    name: Annotated[str, Field(min_length=1)] = Field(
        default="multiswarm", description="Name of a registered strategy"
    )
    params: Params = Field(
        default={}, description="Parameters of the strategy; the others keep defaults"
    )


class BudgetSection(Section):
    """When a search ends: at the first limit that is reached."""

    epochs: PositiveCount | None = Field(default=30, description="Most epochs")
    evaluations: PositiveCount | None = Field(
        default=None, description="Most evaluations asked for; a repeated mask counts"
    )
    distinct: PositiveCount | None = Field(default=None, description="Most distinct evaluations")
    fits: PositiveCount | None = Field(default=None, description="Most models trained")
    seconds: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        default=None, description="Most seconds of searching"
    )
    patience: PositiveCount | None = Field(
        default=None, description="Epochs without a better cost that end the search"
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        limits = ("epochs", "evaluations", "distinct", "fits", "seconds")
        if all(getattr(self, key) is None for key in limits):
            raise sentence(
                "budget must limit epochs, evaluations, distinct, fits or seconds, got null for"
                " all of them; set one, such as budget.epochs to 30"
            )
        return self


class EvaluationSection(Section):
    """How subsets are evaluated."""

    importance: Importance = Field(
        default="auto",
        description="Where feature importances come from: the fold models, one more fit on all"
        " training rows, permutation, mutual information or nowhere; auto takes the fold models'"
        " where the model has importances",
    )
    pruning: bool = Field(
        default=True,
        description="Skip the folds of a subset that can no longer win; the search stays the same",
    )
    racing: Annotated[float, Field(gt=0, lt=0.5)] | None = Field(
        default=None,
        description="Give a subset up once its chance to win, by the folds seen so far, is below"
        " this; faster, but a subset that would have won is lost now and then; null for never",
    )
    exact: bool = Field(
        default=True,
        description="Spare the models where costs follow without them, as those of nearest"
        " neighbours and Gaussian naive Bayes do; the costs stay the same",
    )
    n_jobs: Workers = Field(
        default=-1, description="Workers that evaluate subsets; -1 for one per core"
    )
    backend: Literal["loky", "threading", "sequential", "dask", "ray"] = Field(
        default="loky",
        description="Kind of workers: processes, threads, none, or those of a Dask or Ray cluster",
    )
    address: Location | None = Field(
        default=None,
        description="Scheduler of the Dask or Ray cluster; null starts n_jobs processes here",
    )
    timeout_seconds: Annotated[FiniteFloat, Field(gt=0, le=604_800)] | None = Field(
        default=None,
        description="Seconds that one fit may take; one that takes longer counts as failed and its"
        " worker is replaced; needs the backend loky; null for no limit",
    )


class ProxySection(Section):
    """A cheaper model to search on."""

    params: Params = Field(
        description="Arguments of the estimator that differ from model.params, such as fewer trees"
    )
    best: PositiveCount = Field(
        default=16, description="Number of best subsets that are measured on the full model"
    )
    probes: Count = Field(
        default=12,
        description="Number of subsets, good or bad, that are measured on both models to tell how"
        " well they agree",
    )


class EnsembleSection(Section):
    """The models of the best subsets, and how they agree."""

    n_models: PositiveCount = Field(default=8, description="Number of best subsets, one model each")
    vote: Literal["hard", "soft", "any", "mean", "auto"] = Field(
        default="auto",
        description="How predictions are joined: the majority, the mean probability, the positive"
        " class as soon as any model says so, or the mean; auto is hard for classifiers and mean"
        " for regressors",
    )


class HoldoutSection(Section):
    """How the answer is judged on the test rows."""

    metrics: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="Scorers reported on the test rows; null takes the usual ones"
    )
    bootstrap: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000, description="Resamples behind each interval"
    )
    confidence: Fraction = Field(default=0.95, description="Confidence of the intervals")
    random_subsets: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=5, description="Ensembles of random subsets of the same sizes to compare with"
    )


class TrackingSection(Section):
    """Where MLflow keeps the runs."""

    # `register` itself is taken: every pydantic class has it from its metaclass.
    model_config = ConfigDict(serialize_by_alias=True)

    uri: Location = Field(
        default="sqlite:///mlruns/mlflow.db",
        description="MLflow tracking URI; ${NAME} is replaced by an environment variable when used",
    )
    artifacts: Location = Field(
        default="mlruns/artifacts", description="Folder or URL of a new experiment's artifacts"
    )
    experiment: Annotated[str, Field(min_length=1)] = Field(
        default="swarm", description="MLflow experiment"
    )
    spool: Annotated[str, Field(min_length=1)] = Field(
        default="mlruns/spool", description="Read and not used: earlier versions kept a queue here"
    )
    register_model: bool = Field(
        default=True,
        alias="register",
        description="Register the ensemble under the name of the run",
    )

    @property
    def register(self) -> bool:
        """Whether the ensemble is registered: the key ``tracking.register``."""
        return self.register_model


class ArchiveSection(Section):
    """Where evaluations are kept for good."""

    url: Location = Field(
        default="sqlite:///mlruns/archive.db",
        description="SQLAlchemy URL of the archive; ${NAME} is replaced by an environment variable"
        " when used",
    )


class RetriesSection(Section):
    """How often an epoch is tried."""

    attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Attempts at one epoch before the run fails"
    )
    delay_seconds: Annotated[FiniteFloat, Field(ge=0, le=3600)] = Field(
        default=1.0, description="Seconds between two attempts"
    )
