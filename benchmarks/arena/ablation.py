"""Rules on top of rankings that are made inside the folds, on the tables where they were chosen.

Which size of which ranking is the answer, and which sizes vote. The rules see the scores on folds;
the rows have the scores on rows that neither the rankings nor the folds have seen.

``python benchmarks/arena/ablation.py --tables FOLDER --out FILE`` runs what FILE does not hold;
``--summary`` prints means, and differences to the best size of the better ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from answers import MODELS, Peers, Rows, cell, prepared
from fixed_size import append, carry_out, finished, parser
from metric import balanced_accuracy

F, TREES = "F filter", "extra-trees filter"
BEST, REFERENCE = "best size of {}", "best size of the better"
N_MEMBERS, REPEATS = 8, 2


def scores(
    rows: Rows, peers: Peers, model: object, name: str, sizes: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each size of a ranking its scores on the folds, and its unseen probabilities."""
    folds = [
        [part.score(model, [peers.order(name, fold)[0][:size]]) for size in sizes]
        for fold, part in enumerate(peers.parts)
    ]
    order = peers.order(name, -1)[0]
    return np.array(folds).T, np.array([rows.probabilities(model, order[:k]) for k in sizes])


def rules(rows: Rows, peers: Peers, model: object) -> Iterator[tuple[str, float]]:
    """Yield each rule with the balanced accuracy on unseen rows."""
    width = rows.X.shape[1]
    sizes = sorted({round(width ** (i / 10)) for i in range(2, 11)})
    both = {name: scores(rows, peers, model, name, sizes) for name in (F, TREES)}

    def score(shares: np.ndarray) -> float:
        return balanced_accuracy(rows.unseen_y, shares.argmax(axis=1))

    means = {name: of_folds.mean(axis=1).round(9) for name, (of_folds, _) in both.items()}
    yield "all columns", score(both[F][1][-1])
    for name, mean in means.items():
        yield BEST.format(name), score(both[name][1][mean.argmax()])
    # All columns are the last size of both.
    mean = np.concatenate([means[F], means[TREES][:-1]])
    shares = np.concatenate([both[F][1], both[TREES][1][:-1]])
    of_folds = np.concatenate([both[F][0], both[TREES][0][:-1]])
    best = int(mean.argmax())
    yield REFERENCE, score(shares[best])
    # Repeats of the same rows are no more independent than one.
    error = of_folds[best].std(ddof=1) / 5**0.5
    for n_errors in (0.5, 1.0, 2.0):
        close = mean >= mean[best] - n_errors * error
        yield f"vote within {n_errors:g} SE", score(shares[close].mean(axis=0))
    first = np.argsort(-mean, kind="stable")[:N_MEMBERS]
    yield f"vote of the best {N_MEMBERS}", score(shares[first].mean(axis=0))
    yield "vote of all sizes", score(shares.mean(axis=0))


def run(folder: Path, out: Path, *, names: list[str], models: list[str], division: int) -> None:
    """Append the rows of each table and model that has none for this division."""
    done = finished(out, ["table", "model", "division"])
    for name, rows in prepared(folder, names, division):
        peers = Peers.of(rows, REPEATS)
        for label in models:
            if (name, label, division) in done:
                continue
            for rule, score in rules(rows, peers, MODELS[label]):
                scored = {"rule": rule, "score": round(score, 5)}
                append(out, cell(name, label, division, rows) | scored)


def summary(out: Path) -> pd.DataFrame:
    """Return the mean of each rule by model, and its difference to the reference in points."""
    found = pd.read_csv(out)
    score = 100 * found.pivot_table(index=["table", "model"], columns="rule", values="score")
    means = score.groupby("model").mean().T
    gaps = score.sub(score[REFERENCE], axis=0).groupby("table").mean()
    means["all"], means["difference"] = score.mean(), gaps.mean()
    means["standard error"] = gaps.sem()
    return means.sort_values("all", ascending=False).reset_index()


def main() -> None:
    """Run or summarise."""
    options = parser(__doc__, [name for name in MODELS if name != "LightGBM"])
    options.add_argument("--division", type=int, default=0, help="seed of the rows to learn from")
    carry_out(options, run, summary)


if __name__ == "__main__":
    main()
