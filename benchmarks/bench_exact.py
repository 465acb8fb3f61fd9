"""Masks evaluated without models, and statistics of all pairs, against what they replace.

Ours and the peer take turns in one process, so that the ratios hold on a noisy machine; the
median of the turns is shown. Set OMP_NUM_THREADS=1 for one thread each.

    OMP_NUM_THREADS=1 python benchmarks/bench_exact.py [--data DIRECTORY] [--jobs 1] [name ...]
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, make_multilabel_classification
from sklearn.linear_model import Ridge
from sklearn.metrics import mutual_info_score
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import save

from swarm import Problem
from swarm.fastpaths import evaluate_masks, exact_path
from swarm.multilabel import MLkNN
from swarm.statistics.information import mutual_information
from swarm.statistics.spearman import spearman_distance

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
N_FOLDS = 10
TURNS = 5


@dataclass(frozen=True)
class Row:
    """One line of the table; milliseconds per mask, or of the whole where there are no masks."""

    what: str
    ours: float
    peer: float
    asked: float | None = None
    note: str = ""
    ratio: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", self.peer / self.ours)

    @property
    def reached(self) -> bool:
        """Whether the peer takes as many times as long as was asked."""
        return self.asked is None or self.ratio >= self.asked


@dataclass(frozen=True)
class Case:
    """Masks of a problem: how many we evaluate, and how many of them the peer."""

    data: str
    model: Any
    masks: int
    peer_masks: int
    asked: float | None = None
    number: bool = False
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "GaussianNB, wdbc": Case("wdbc", GaussianNB(), 300, 3, 300),
    "GaussianNB by ROC AUC, wdbc": Case(
        "wdbc", GaussianNB(), 300, 3, options={"scoring": "roc_auc"}
    ),
    "GaussianNB by F1, wdbc": Case("wdbc", GaussianNB(), 300, 3, options={"scoring": "f1_macro"}),
    "scaled GaussianNB, wdbc": Case("wdbc", make_pipeline(StandardScaler(), GaussianNB()), 300, 3),
    "k-NN, wdbc": Case("wdbc", KNeighborsClassifier(5), 100, 30, 50),
    "k-NN by balanced accuracy, wdbc": Case(
        "wdbc", KNeighborsClassifier(5), 100, 3, options={"scoring": "balanced_accuracy"}
    ),
    "k-NN, sonar": Case("sonar", KNeighborsClassifier(5), 300, 3, 50),
    "weighted k-NN, wdbc": Case("wdbc", KNeighborsClassifier(5, weights="distance"), 100, 3),
    "ML-kNN, emotions": Case(
        "emotions", MLkNN(), 20, 10, 50, options={"scoring": "neg_hamming_loss"}
    ),
    "Ridge, wdbc": Case("wdbc", Ridge(), 300, 3, number=True, options={"scoring": "r2"}),
}


def rows(directory: Path = DATA, names: Sequence[str] = (), jobs: int = 1) -> list[Row]:
    """Measure everything, or what has one of `names` in its own."""
    chosen = [key for key in CASES if not names or any(name in key for name in names)]
    found = [evaluated(key, CASES[key], directory, jobs) for key in chosen]
    for key, measured in (("mutual information", information), ("Spearman distance", spearman)):
        if not names or any(name in key for name in names):
            found.append(measured())
    return found


def evaluated(what: str, case: Case, directory: Path, jobs: int) -> Row:
    features, target, note = load(case.data, directory)
    if case.number:
        target = target.astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = _folds(features, target)
        problem = Problem.build(features, target, case.model, folds=folds, **case.options)
        path, reason = exact_path(problem)
        if path is None:
            raise SystemExit(f"{what}: {reason}")
        masks = np.random.default_rng(0).random((case.masks, features.shape[1])) < 0.5
        masks[~masks.any(axis=1), 0] = True
        values, truth = features.to_numpy(dtype=float), np.asarray(target)

        def peer() -> None:
            for mask in masks[: case.peer_masks]:
                cross_val_score(
                    problem.estimator,
                    values[:, problem.space.positions(mask)],
                    truth,
                    cv=list(problem.folds),
                    scoring=problem.scoring.scorer,
                )

        folds = range(problem.n_folds)
        found = evaluate_masks(path, masks, folds, jobs).costs
        doubtful = float(np.isnan(found).any(axis=1).mean())
        note = ", ".join(part for part in (note, f"{doubtful:.0%} fitted" * (doubtful > 0)) if part)
        ours, theirs = in_turn(lambda: evaluate_masks(path, masks, folds, jobs).costs, peer)
    return Row(what, ours / case.masks, theirs / case.peer_masks, case.asked, note)


def information(n_rows: int = 2400, n_columns: int = 300, pairs: int = 150) -> Row:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 10, (n_rows, n_columns))
    table, target = pd.DataFrame(codes.astype(float)), rng.integers(0, 2, n_rows)
    first, second = rng.integers(0, n_columns, (2, pairs))

    def peer() -> None:
        for i, j in zip(first, second, strict=True):
            mutual_info_score(codes[:, i], codes[:, j])

    ours, theirs = in_turn(lambda: mutual_information(table, target, "binary"), peer, 3)
    all_pairs = n_columns * (n_columns + 1) // 2
    note = f"peer extrapolated from {pairs} of {all_pairs} pairs"
    return Row(
        f"mutual information, {n_columns} columns", ours, theirs * all_pairs / pairs, 100, note
    )


def spearman(n_rows: int = 5000, n_columns: int = 10_000) -> Row:
    values = np.random.default_rng(2).normal(size=(n_rows, n_columns))
    table = pd.DataFrame(values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours, theirs = in_turn(lambda: spearman_distance(table), lambda: values.T @ values, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    note = f"peer: the bare product; peak grew by {(peak - before) / 2**20:.1f} GiB"
    return Row(f"Spearman distance, {n_columns:,} columns", ours, theirs, 0.5, note)


def in_turn(
    ours: Callable[[], object], peer: Callable[[], object], turns: int = TURNS
) -> tuple[float, float]:
    """Milliseconds of each, the median of turns taken one after the other."""
    spent: list[tuple[float, float]] = []
    for _ in range(turns):
        marks = [time.perf_counter()]
        for run in (ours, peer):
            run()
            marks.append(time.perf_counter())
        spent.append((marks[1] - marks[0], marks[2] - marks[1]))
    own, other = np.median(np.array(spent), axis=0) * 1e3
    return float(own), float(other)


def load(name: str, directory: Path) -> tuple[pd.DataFrame, Any, str]:
    """Features, target and a word on what stands in for data that are not there."""
    path = directory / f"{name}.parquet"
    if path.exists():
        data = pd.read_parquet(path)
        labels = [column for column in data if column.startswith("label_")]
        if labels:
            return data.drop(columns=labels), data[labels], ""
        return data.drop(columns="target"), data["target"], ""
    if name == "emotions":
        made, target = make_multilabel_classification(593, 72, n_classes=6, random_state=0)
        return pd.DataFrame(made), pd.DataFrame(target), "made data"
    cancer = load_breast_cancer(as_frame=True)
    return cancer.data, cancer.target, "" if name == "wdbc" else "scikit-learn's breast cancer"


def _folds(features: pd.DataFrame, target: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold

    return list(KFold(N_FOLDS, shuffle=True, random_state=0).split(features, target))


def shown(found: Sequence[Row]) -> str:
    """Format the table."""
    lines = [f"{'what':34}{'ours ms':>11}{'peer ms':>12}{'ratio':>9}{'asked':>8}  "]
    for row in found:
        asked = "" if row.asked is None else f"{row.asked:g}"
        flag = "" if row.reached else "falls short"
        note = ", ".join(part for part in (flag, row.note) if part)
        lines.append(
            f"{row.what:34}{row.ours:11.3f}{row.peer:12.2f}{row.ratio:9.1f}{asked:>8}  {note}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluation without models against fitting.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=1, help="threads of ours")
    parser.add_argument("names", nargs="*", help="parts of the names of what to measure")
    given = parser.parse_args()
    found = rows(given.data, given.names, given.jobs)
    if given.names:
        print(shown(found))
        return
    save(
        "exact",
        "Masks without models against cross_val_score, and statistics of all pairs",
        ["subject", "ours ms", "peer ms", "ratio", "asked", "note"],
        [
            [row.what, row.ours, row.peer, row.ratio, _asked(row.asked), row.note or "-"]
            for row in found
        ],
        [
            "10 folds, random masks of half the columns, one thread; milliseconds a mask, or of "
            "all pairs; medians of turns taken one after the other",
            "GaussianNB, k-NN, ML-kNN: labels and costs are scikit-learn's, bit for bit; the "
            "others within 1e-8 (tests/swarm/fastpaths/test_fuzz_exact.py)",
        ],
    )


def _asked(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:g}"


if __name__ == "__main__":
    main()
