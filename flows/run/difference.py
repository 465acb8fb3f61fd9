"""What changed between two runs: columns, scores, data, model and configuration."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from flows.run.tracking import stored_configuration
from swarm.answers import Answers
from swarm.arrays import AnyArray
from swarm.errors import InputError, SwarmError
from swarm.json_data import plain
from swarm.metrics import display_name
from swarm.report.table import TextTable
from swarm.storage.features_file import kept_key
from swarm.validation.answers import EvaluationTarget
from swarm.validation.sentences import format_score, format_signed, format_signed_interval
from swarm.wording import counted
from tasks.prefect_artifacts import as_code
from tasks.refresh.champion import CHALLENGER, PREVIOUS, Champions
from tasks.refresh.paired_comparison import duel
from tasks.tracking import Tracking

# Scores are paired if both runs have tested this number of rows.
_MIN_ROWS = 30
# These sections of the configuration do not change an answer.
_IGNORED = ("name", "description", "tracking", "archive", "schedule", "mute", "champion", "drift")
_UNKNOWN = "not set"


@dataclass(frozen=True)
class ChangedColumn:
    """A column that one of two runs keeps, and what the score of that run loses without it.

    Attributes
    ----------
    name
        The column.
    loss, low, high
        The loss and its interval; None if it was not measured.
    in_both_tables
        Whether the other run could have kept the column.
    """

    name: str
    loss: float | None = None
    low: float | None = None
    high: float | None = None
    in_both_tables: bool = True

    def text(self) -> str:
        """Describe the loss."""
        new = "" if self.in_both_tables else ", not in the other table"
        if self.loss is None:
            return f"loss not measured{new}"
        return f"loss without it {_with_interval(self.loss, self.low, self.high)}{new}"


@dataclass(frozen=True)
class Change:
    """Something besides columns and scores that differs.

    Attributes
    ----------
    what
        The section: "data", "model" or "configuration".
    key
        Its name.
    before, after
        The values in both runs.
    """

    what: str
    key: str
    before: object
    after: object


@dataclass(frozen=True)
class Difference:
    """The difference of two runs.

    Attributes
    ----------
    before, after : dict
        Their `run`, `name` and `headline`.
    columns_in, columns_out : list of ChangedColumn
        Columns that only the later run keeps, and only the earlier one.
    n_stay : int
        How many columns both keep.
    score : dict
        Of the served models: `metric`, `before` and `after`; where both were scored on the same
        unseen rows also the `gain`, its interval from `low` to `high`, and `n_rows`.
    changes : list of Change
    """

    before: dict[str, str]
    after: dict[str, str]
    columns_in: list[ChangedColumn]
    columns_out: list[ChangedColumn]
    n_stay: int
    score: dict[str, Any]
    changes: list[Change]

    def as_dict(self) -> dict[str, Any]:
        """Return the difference and its summary as JSON types."""
        return {"summary": self.summary(), **asdict(self)}

    def summary(self) -> str:
        """Return the difference in one line."""
        moved = f"{counted(len(self.columns_in), 'column')} in, {len(self.columns_out)} out"
        return f"{moved}, {self.n_stay} stay; {self._score()}"

    def _score(self) -> str:
        before = self.score["before"]
        after = self.score["after"]
        if before is None or after is None:
            return "scores are of different metrics"
        metric = display_name(self.score["metric"])
        text = f"{metric} {format_score(before)} -> {format_score(after)}"
        if self.score["n_rows"] is None:
            return f"{text} on unseen rows that are others or too few to compare"
        gain = _with_interval(self.score["gain"], self.score["low"], self.score["high"])
        rows = counted(self.score["n_rows"], "unseen row")
        return f"{text} on the same {rows}, a gain of {gain}"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the terminal."""
        yield self.summary()
        for label, run in (("before", self.before), ("after", self.after)):
            yield f"{label:<8}{run['run'][:8]}  {run['name']}: {run['headline']}"
        for label, columns in (("in", self.columns_in), ("out", self.columns_out)):
            for column in columns:
                yield f"{label:<8}{column.name}: {column.text()}"
        for change in self.changes:
            yield f"{change.what[:6]:<8}{change.key}: {change.before} -> {change.after}"

    def markdown(self) -> str:
        """Return the difference for a comment on a pull request."""
        runs = "\n".join(
            f"- {label}: {run['headline']} (run `{run['run']}`)"
            for label, run in (("Before", self.before), ("After", self.after))
        )
        paragraphs = [f"**{self.summary()}**", runs]
        columns = [
            (as_code(column.name), label, column.text())
            for label, columns in (("in", self.columns_in), ("out", self.columns_out))
            for column in columns
        ]
        changes = [
            (
                change.what,
                as_code(change.key),
                as_code(str(change.before)),
                as_code(str(change.after)),
            )
            for change in self.changes
        ]
        for header, rows in (
            (("column", "change", "what it is worth"), columns),
            (("what differs", "key", "before", "after"), changes),
        ):
            if rows:
                paragraphs.append(TextTable(header, rows, n_left=len(header)).as_markdown())
        return "\n\n".join(paragraphs) + "\n"


def _with_interval(value: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return format_signed(value)
    return format_signed_interval(value, low, high)


def contenders(champions: Champions, name: str) -> tuple[str, str]:
    """Return the runs of a champion and of its challenger.

    The challenger is a version that waits for approval, else the last refresh; if this made the
    champion, the pair is the champion before it and this one.
    """
    champion = champions.require(name)
    waiting = champions.current(name, CHALLENGER)
    if waiting is not None:
        return champion.run_id, waiting.run_id
    experiment_id = champions.tracking.run(champion.run_id).info.experiment_id
    refreshes = Champions(replace(champions.tracking, experiment_id=experiment_id))
    for run in refreshes.runs_of(name, "FINISHED")[:1]:
        if run.info.run_id != champion.run_id:
            return champion.run_id, run.info.run_id
    earlier = champions.current(name, PREVIOUS)
    if earlier is None:
        raise InputError(
            f"{champion.uri} has neither a challenger nor a previous champion; run `swarm refresh`,"
            " or name two runs"
        )
    return earlier.run_id, champion.run_id


def compare_runs(
    tracking: Tracking, before: str, after: str, decision: dict[str, Any] | None = None
) -> Difference:
    """Compare two runs by what the tracking store has of them.

    `decision` is the ``decision.json`` of the later one if the store does not have it yet.
    """
    old = _StoredResult.read(tracking, before)
    new = _StoredResult.read(tracking, after)
    if decision is not None:
        new = replace(new, decision=decision)
    return Difference(
        before=old.identity(),
        after=new.identity(),
        columns_in=_only_in(new, old),
        columns_out=_only_in(old, new),
        n_stay=len(set(old.kept) & set(new.kept)),
        score=_score(old, new),
        changes=[
            *_changes("data", _data_facts(old), _data_facts(new)),
            *_changes("model", _model_facts(old), _model_facts(new)),
            *_configuration_changes(old, new),
        ],
    )


@dataclass(frozen=True, eq=False)
class _StoredResult:
    """What the store has of a run, an ``mlflow.entities.Run``, by the names of its files.

    `decision` is empty unless it is a refresh.
    """

    run: Any
    features: dict[str, Any]
    evaluation: dict[str, Any]
    decision: dict[str, Any]
    importances: pd.DataFrame
    predictions: pd.DataFrame
    configuration: Mapping[str, Any]

    @classmethod
    def read(cls, tracking: Tracking, run_id: str) -> Self:
        def read_json(path: str) -> dict[str, Any]:
            return json.loads(tracking.download(run_id, path).read_text("utf-8"))

        has_decision = tracking.find_artifact(run_id, "decision.json")
        return cls(
            run=tracking.run(run_id),
            features=read_json("features.json"),
            evaluation=read_json("evaluation.json"),
            decision=read_json("decision.json") if has_decision else {},
            importances=pd.read_csv(
                tracking.download(run_id, "importances.csv"), dtype={"column": str}
            ).set_index("column"),
            predictions=pd.read_parquet(tracking.download(run_id, "predictions.parquet")),
            configuration=stored_configuration(tracking, run_id),
        )

    @property
    def kept(self) -> list[str]:
        return self.features[kept_key(self.evaluation["headline"])]

    @property
    def tags(self) -> Mapping[str, str]:
        return self.run.data.tags

    @property
    def metric(self) -> str:
        return str(next(iter(self.evaluation["contenders"]["ensemble"]["metrics"])))

    def identity(self) -> dict[str, str]:
        info = self.run.info
        headline = self.evaluation["headline"]["title"]
        return {"run": info.run_id, "name": info.run_name, "headline": headline}

    def score(self, metric: str) -> float | None:
        """Return the score of the served model on the test rows of the run."""
        value = self.run.data.metrics.get(f"test/{metric}")
        return None if value is None else float(value)


def _only_in(result: _StoredResult, rival: _StoredResult) -> list[ChangedColumn]:
    """Return the columns that a result keeps and its rival does not, by decreasing loss."""
    rival_columns = set(rival.kept)
    available = set(rival.features["available"])
    columns = []
    for name in result.kept:
        if name in rival_columns:
            continue
        losses = dict.fromkeys(("loss", "low", "high"))
        # Losses are those of chosen columns, and a result that keeps all has others.
        if name in result.importances.index:
            losses = {key: plain(result.importances.loc[name, key]) for key in losses}
        columns.append(ChangedColumn(name, **losses, in_both_tables=name in available))
    return sorted(columns, key=lambda column: np.inf if column.loss is None else -column.loss)


def _score(old: _StoredResult, new: _StoredResult) -> dict[str, Any]:
    """Compare the served models, paired where the same rows were new to both."""
    paired = _decided_score(old, new) or _paired_score(old, new)
    if paired:
        return paired
    metric = new.metric
    sides = {"before": old.score(metric), "after": new.score(metric)}
    return {"metric": metric, **sides, **dict.fromkeys(("gain", "low", "high", "n_rows"))}


def _decided_score(old: _StoredResult, new: _StoredResult) -> dict[str, Any] | None:
    """Return the comparison by which the later run became the champion, or did not."""
    comparison = new.decision.get("duel")
    runs = {(new.decision.get(side) or {}).get("run") for side in ("winner", "loser")}
    if not comparison or old.run.info.run_id not in runs:
        return None
    return _score_record(comparison)


def _score_record(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return the score of a difference from the record of a paired comparison."""
    return {
        **{key: comparison[key] for key in ("metric", "gain", "low", "high", "n_rows")},
        "before": comparison["champion"],
        "after": comparison["challenger"],
    }


def _paired_score(old: _StoredResult, new: _StoredResult) -> dict[str, Any] | None:
    """Compare the predictions of rows that both have tested; None if there are too few."""
    tables = (old.predictions, new.predictions)
    # Rows of the same source are recognised by their numbers.
    if old.tags.get("data") != new.tags.get("data"):
        return None
    # Predictions of several labels have other columns.
    if not all({"row", "y_true", "served"} <= set(table) for table in tables):
        return None
    before, after = (table.set_index("row") for table in tables)
    rows = before.index.intersection(after.index)
    before = before.loc[rows]
    after = after.loc[rows]
    if len(rows) < _MIN_ROWS or not np.array_equal(before["y_true"], after["y_true"]):
        return None
    task = new.evaluation["task"]
    truth = after["y_true"].to_numpy()
    classes = np.empty(0) if task == "regression" else np.unique(truth)
    positive = next((c for c in classes if str(c) == str(new.evaluation["pos_label"])), None)
    weight, groups, time = (
        after[name].to_numpy() if name in after else None for name in ("weight", "group", "time")
    )
    target = EvaluationTarget(
        task=task,
        train=truth,
        test=truth,
        classes=classes,
        pos_label=positive,
        weight=weight,
    )
    try:
        comparison = duel(
            target,
            _answers(before, classes),
            _answers(after, classes),
            new.metric,
            groups=groups,
            time=time,
        )
    except (SwarmError, ValueError, KeyError):
        # The scorer may be one of the user, or these rows may lack a class.
        return None
    return _score_record(comparison.as_dict())


def _answers(table: pd.DataFrame, classes: AnyArray) -> Answers:
    """Return the answers of the served model; KeyError if it knows other classes."""
    predicted = table["served"].to_numpy()
    if not len(classes):
        return Answers(predicted)
    proba = None
    if any(str(name).startswith("served.proba.") for name in table):
        proba = table[[f"served.proba.{name}" for name in classes]].to_numpy()
    decision = table["served.decision"].to_numpy() if "served.decision" in table else None
    return Answers(predicted, proba, decision, classes)


def _changes(what: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Change]:
    for key in {**old, **new}:
        before = old.get(key, _UNKNOWN)
        after = new.get(key, _UNKNOWN)
        if before != after:
            yield Change(what, key, before, after)


def _data_facts(result: _StoredResult) -> dict[str, object]:
    digests = {
        f"digest of {tag.value} rows": item.dataset.digest
        for item in result.run.inputs.dataset_inputs
        for tag in item.tags
        if tag.key == "mlflow.data.context"
    }
    return {
        "source": result.tags.get("data"),
        "rows": result.features["n_rows"],
        "columns": result.features["n_available"],
        **digests,
    }


def _model_facts(result: _StoredResult) -> dict[str, object]:
    return {
        "served": result.features["served"],
        "columns it needs": result.features["n_model_inputs"],
        **{key: value for key, value in result.tags.items() if key.startswith("version.")},
    }


def _configuration_changes(old: _StoredResult, new: _StoredResult) -> Iterator[Change]:
    """Yield the keys that differ, of sections that both have."""
    configurations = (old.configuration, new.configuration)
    sections = [{key.split(".")[0] for key in keys} for keys in configurations]
    shared = set.intersection(*sections) - set(_IGNORED)
    before, after = (
        {key: value for key, value in keys.items() if key.split(".")[0] in shared}
        for keys in configurations
    )
    yield from _changes("configuration", before, after)
