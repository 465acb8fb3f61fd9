"""What changed between two runs: columns, scores, data, model and configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from flows.run.tracking import stored_configuration
from swarm.answers import Answers
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

# Rows that both runs have tested, without which their scores are not paired.
_FEWEST_ROWS = 30
# Sections of the configuration that do not change an answer.
_NEVER = ("name", "description", "tracking", "archive", "schedule", "mute", "champion", "drift")
_UNKNOWN = "not set"


@dataclass(frozen=True)
class ChangedColumn:
    """A column that one of two runs keeps, and what the score of that run loses without it."""

    name: str
    loss: float | None = None  # None: not measured
    low: float | None = None
    high: float | None = None
    in_both_tables: bool = True  # whether the other run could have kept it

    def text(self) -> str:
        """Describe the loss."""
        new = "" if self.in_both_tables else ", not in the other table"
        if self.loss is None:
            return f"loss not measured{new}"
        return f"loss without it {_with_interval(self.loss, self.low, self.high)}{new}"


@dataclass(frozen=True)
class Change:
    """Something else that differs: its section, its name, and its values in both runs."""

    what: str  # "data", "model" or "configuration"
    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Difference:
    """The difference of two runs.

    Attributes
    ----------
    before, after : dict
        Their `run`, `name` and `headline`.
    columns_in, columns_out : list of ChangedColumn
        Those that only the later run keeps, and only the earlier one.
    n_stay : int
        How many columns both keep.
    score : dict
        Of the served models: `metric`, `before` and `after`; where both were scored on the same
        unseen rows also the `gain`, its interval from `low` to `high`, and `n_rows`.
    changes : list of Change
    """

    before: dict[str, Any]
    after: dict[str, Any]
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
        before, after = (self.score[side] for side in ("before", "after"))
        if before is None or after is None:
            return "scores are of different metrics"
        metric = display_name(self.score["metric"])
        text = f"{metric} {format_score(before)} -> {format_score(after)}"
        if self.score["n_rows"] is None:
            return f"{text} on different unseen rows"
        gain = _with_interval(*(self.score[key] for key in ("gain", "low", "high")))
        rows = counted(self.score["n_rows"], "unseen row")
        return f"{text} on the same {rows}, a gain of {gain}"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the terminal."""
        yield self.summary()
        for label, run in (("before", self.before), ("after", self.after)):
            yield f"{label:<8}{run['run'][:8]}  {run['name']}: {run['headline']}"
        for label, columns in (("in", self.columns_in), ("out", self.columns_out)):
            for each in columns:
                yield f"{label:<8}{each.name}: {each.text()}"
        for change in self.changes:
            yield f"{change.what[:6]:<8}{change.key}: {change.before} -> {change.after}"

    def markdown(self) -> str:
        """Return the difference for a comment on a pull request."""
        sides = ((label, run) for label, run in (("Before", self.before), ("After", self.after)))
        parts = [
            f"**{self.summary()}**",
            "\n".join(f"- {label}: {run['headline']} (run `{run['run']}`)" for label, run in sides),
        ]
        columns = [
            (as_code(each.name), label, each.text())
            for label, columns in (("in", self.columns_in), ("out", self.columns_out))
            for each in columns
        ]
        changes = [
            (each.what, as_code(each.key), *(as_code(str(v)) for v in (each.before, each.after)))
            for each in self.changes
        ]
        for header, rows in (
            (("column", "change", "what it is worth"), columns),
            (("what differs", "key", "before", "after"), changes),
        ):
            if rows:
                parts.append(TextTable(header, rows, n_left=len(header)).as_markdown())
        return "\n\n".join(parts) + "\n"


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
    home = champions.tracking.run(champion.run_id).info.experiment_id
    refreshes = Champions(replace(champions.tracking, experiment_id=home))
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
    old, new = _Stored.read(tracking, before), _Stored.read(tracking, after)
    if decision is not None:
        new = replace(new, decision=decision)
    return Difference(
        before=old.identity(),
        after=new.identity(),
        columns_in=_only_in(new, old),
        columns_out=_only_in(old, new),
        n_stay=len(set(old.kept) & set(new.kept)),
        score=_score(old, new),
        changes=[*_data(old, new), *_model(old, new), *_configuration(old, new)],
    )


@dataclass(frozen=True, eq=False)
class _Stored:
    """What the store has of a run."""

    run: Any  # an mlflow.entities.Run
    features: dict[str, Any]  # features.json
    evaluation: dict[str, Any]
    decision: dict[str, Any]  # of a refresh; else empty
    importances: pd.DataFrame  # by column
    predictions: pd.DataFrame
    configuration: Mapping[str, Any]  # by dotted key

    @classmethod
    def read(cls, tracking: Tracking, run_id: str) -> _Stored:
        def text(path: str) -> dict[str, Any]:
            read: dict[str, Any] = json.loads(tracking.download(run_id, path).read_text("utf-8"))
            return read

        decided = tracking.find_artifact(run_id, "decision.json")
        return cls(
            run=tracking.run(run_id),
            features=text("features.json"),
            evaluation=text("evaluation.json"),
            decision=text("decision.json") if decided else {},
            importances=pd.read_csv(
                tracking.download(run_id, "importances.csv"), dtype={"column": str}
            ).set_index("column"),
            predictions=pd.read_parquet(tracking.download(run_id, "predictions.parquet")),
            configuration=stored_configuration(tracking, run_id),
        )

    @property
    def kept(self) -> list[str]:
        names: list[str] = self.features[kept_key(self.evaluation["headline"])]
        return names

    @property
    def tags(self) -> Mapping[str, str]:
        tags: Mapping[str, str] = self.run.data.tags
        return tags

    @property
    def metric(self) -> str:
        return str(next(iter(self.evaluation["contenders"]["ensemble"]["metrics"])))

    def identity(self) -> dict[str, Any]:
        info = self.run.info
        headline = self.evaluation["headline"]["title"]
        return {"run": info.run_id, "name": info.run_name, "headline": headline}

    def score(self, metric: str) -> float | None:
        """Return the score of the served model on the test rows of the run."""
        value = self.run.data.metrics.get(f"test/{metric}")
        return None if value is None else float(value)


def _only_in(one: _Stored, other: _Stored) -> list[ChangedColumn]:
    """Return the columns that only the first keeps, by decreasing loss."""
    theirs, available = set(other.kept), set(other.features["available"])
    found = []
    for name in one.kept:
        if name in theirs:
            continue
        losses = dict.fromkeys(("loss", "low", "high"))
        # Of columns that are kept as fewer are worse, most are not among the chosen ones.
        if name in one.importances.index:
            losses = {key: plain(one.importances.loc[name, key]) for key in losses}
        found.append(ChangedColumn(name, **losses, in_both_tables=name in available))
    return sorted(found, key=lambda each: np.inf if each.loss is None else -each.loss)


def _score(old: _Stored, new: _Stored) -> dict[str, Any]:
    """Compare the served models, paired where the same rows were new to both."""
    metric = new.metric
    paired = _of_decision(old, new) or _of_predictions(old, new)
    if paired:
        return paired
    sides = {"before": old.score(metric), "after": new.score(metric)}
    return {"metric": metric, **sides, **dict.fromkeys(("gain", "low", "high", "n_rows"))}


def _of_decision(old: _Stored, new: _Stored) -> dict[str, Any] | None:
    """Return the comparison by which the later run became the champion, or did not."""
    fought = new.decision.get("duel")
    runs = {(new.decision.get(side) or {}).get("run") for side in ("winner", "loser")}
    if not fought or old.run.info.run_id not in runs:
        return None
    sides = {"before": fought["champion"], "after": fought["challenger"]}
    return {**{key: fought[key] for key in ("metric", "gain", "low", "high", "n_rows")}, **sides}


def _of_predictions(old: _Stored, new: _Stored) -> dict[str, Any] | None:
    """Compare the predictions of rows that both have tested; None if there are too few."""
    tables = [each.predictions for each in (old, new)]
    # Rows have their numbers in the source.
    if old.tags.get("data") != new.tags.get("data") or not all("row" in each for each in tables):
        return None
    if not all({"y_true", "served"} <= set(each) for each in tables):
        # Several labels have a column each.
        return None
    before, after = (each.set_index("row") for each in tables)
    rows = before.index.intersection(after.index)
    before, after = before.loc[rows], after.loc[rows]
    if len(rows) < _FEWEST_ROWS or not np.array_equal(before["y_true"], after["y_true"]):
        return None
    task, truth = new.evaluation["task"], after["y_true"].to_numpy()
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
        first, second = _answers(before, classes), _answers(after, classes)
        found = duel(target, first, second, new.metric, groups=groups, time=time).as_dict()
    except (SwarmError, ValueError, KeyError):
        # A scorer of one's own, or a class that these rows do not have.
        return None
    sides = {"before": found["champion"], "after": found["challenger"]}
    return {**{key: found[key] for key in ("metric", "gain", "low", "high", "n_rows")}, **sides}


def _answers(table: pd.DataFrame, classes: Any) -> Answers:
    """Return the answers of the served model; KeyError if it knows other classes."""
    predicted = table["served"].to_numpy()
    if not len(classes):
        return Answers(predicted)
    proba = None
    if any(str(name).startswith("served.proba.") for name in table):
        proba = table[[f"served.proba.{name}" for name in classes]].to_numpy()
    decision = table["served.decision"].to_numpy() if "served.decision" in table else None
    return Answers(predicted, proba, decision, classes)


def _changes(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in {**old, **new}:
        before, after = old.get(key, _UNKNOWN), new.get(key, _UNKNOWN)
        if before != after:
            yield Change(what, key, before, after)


def _data(old: _Stored, new: _Stored) -> Iterator[Change]:
    def facts(run: _Stored) -> dict[str, Any]:
        sets = {
            f"digest of {tag.value} rows": each.dataset.digest
            for each in run.run.inputs.dataset_inputs
            for tag in each.tags
            if tag.key == "mlflow.data.context"
        }
        rows = {"rows": run.features["n_rows"], "columns": run.features["n_available"]}
        return {"source": run.tags.get("data"), **rows, **sets}

    yield from _changes("data", facts(old), facts(new))


def _model(old: _Stored, new: _Stored) -> Iterator[Change]:
    def facts(run: _Stored) -> dict[str, Any]:
        versions = {key: run.tags[key] for key in run.tags if key.startswith("version.")}
        inputs = {"columns it needs": run.features["n_model_inputs"]}
        return {"served": run.features["served"], **inputs, **versions}

    yield from _changes("model", facts(old), facts(new))


def _configuration(old: _Stored, new: _Stored) -> Iterator[Change]:
    """Yield the keys that differ, of sections that both have."""
    sections = [{key.split(".")[0] for key in each.configuration} for each in (old, new)]
    shared = set.intersection(*sections) - set(_NEVER)
    kept = (
        {key: each.configuration[key] for key in each.configuration if key.split(".")[0] in shared}
        for each in (old, new)
    )
    yield from _changes("configuration", *kept)
