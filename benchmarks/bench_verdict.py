"""How often the words and intervals of a headline are right.

*Searches* are end to end: a `SubsetSelector` is fitted on 150 rows and judged on unseen ones, and
the truth is the difference of the same two models on 20,000 other rows. *Duels* compare drawn
answers, whose true difference is known: by groups, in time, and on few rows.

Differences are gains, chosen columns minus all. Those of a root mean squared error are shares of
the error of guessing the mean. Rows stay as they are when intervals or sentences change: delete
them first.

    python benchmarks/bench_verdict.py               # runs what is missing in results/verdict*.csv
    python benchmarks/bench_verdict.py --table       # prints the rates of each case
    python benchmarks/write_page.py                  # writes the short form into docs/trust.md
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.signal import lfilter
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.validation.answers import EvaluationTarget
from tasks.refresh.paired_comparison import duel

RESULTS = Path(__file__).parent / "results"
N_COLUMNS, N_TRAIN, N_TRUTH = 12, 150, 20_000
WEIGHTS = np.array([0.9, 0.8, 0.7, 0.5, 0.4, 0.3])
# True differences that a headline may not deny: a loss, and a gain of all columns over guessing.
LOSS, GAIN = 0.03, 0.05
RMSE = "neg_root_mean_squared_error"

# ---------------------------------------------------------------- searches


@dataclass(frozen=True)
class Problem:
    """Rows of one kind, and how they are searched."""

    draw: Callable[[np.random.Generator, int], tuple[Any, ...]]  # X, y and, if any, groups
    n_unseen: tuple[int, ...] = (40, 150, 1000)
    size: int | None = None  # of the subset
    cv: Any = 5


def _classes(rng: np.random.Generator, logit: np.ndarray) -> np.ndarray:
    return (rng.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(int)


def half(rng: np.random.Generator, n: int, intercept: float = 0.0) -> tuple[Any, ...]:
    X = rng.normal(size=(n, N_COLUMNS))
    return X, _classes(rng, X[:, :6] @ WEIGHTS + intercept)


def rare(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return half(rng, n, intercept=-2.3)


def every(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    X = rng.normal(size=(n, N_COLUMNS))
    return X, _classes(rng, X @ np.full(N_COLUMNS, 0.45))


def four_classes(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    X = rng.normal(size=(n, N_COLUMNS))
    weights = np.random.default_rng(0).normal(size=(6, 4))
    return X, np.argmax(X[:, :6] @ weights + rng.gumbel(size=(n, 4)), axis=1)


def numbers(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    X = rng.normal(size=(n, N_COLUMNS))
    return X, X[:, :6] @ WEIGHTS + 1.5 * rng.normal(size=n)


def heavy_tails(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    X = rng.normal(size=(n, N_COLUMNS))
    return X, X[:, :6] @ WEIGHTS + rng.standard_t(3, size=n)


def grouped(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    """Groups of ten rows, each with weights of its own."""
    groups = np.arange(n) // 10
    own = 0.6 * rng.normal(size=(n // 10, N_COLUMNS))[groups]
    X = rng.normal(size=(n, N_COLUMNS)) + 0.7 * rng.normal(size=(n // 10, N_COLUMNS))[groups]
    return X, _classes(rng, X[:, :6] @ WEIGHTS + (X * own).sum(axis=1)), groups


def in_time(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    X = autocorrelated(rng, n, 0.8, N_COLUMNS)
    return X, _classes(rng, X[:, :6] @ WEIGHTS + autocorrelated(rng, n, 0.7))


def autocorrelated(rng: np.random.Generator, n: int, rho: float, *shape: int) -> np.ndarray:
    """Draw stationary AR(1) series (n, *shape) of variance 1."""
    noise = rng.normal(size=(n + 100, *shape))
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=0)[100:]


PROBLEMS = {
    "6 of 12 columns informative": Problem(half),
    "12 informative, 6 kept": Problem(every, (100,), size=6),
    "12 informative, 8 kept": Problem(every, (200,), size=8),
    "four classes": Problem(four_classes),
    "rare class": Problem(rare),
    "numbers": Problem(numbers),
    "heavy-tailed numbers": Problem(heavy_tails),
    "groups of 10 rows": Problem(grouped, (30, 50, 80, 150), cv=GroupKFold(5)),
    "in time": Problem(in_time, (200, 1000), cv=TimeSeriesSplit(3)),
}
_TREES = {
    "n_estimators": 20,
    "num_leaves": 7,
    "min_child_samples": 10,
    "deterministic": True,
    "force_row_wise": True,
    "n_jobs": 1,
    "verbose": -1,
}
MODELS: dict[str, Any] = {
    "naive Bayes": GaussianNB(),
    "logistic regression": LogisticRegression(),
    "LightGBM": LGBMClassifier(**_TREES),
    "ridge": Ridge(),
    "LightGBM regression": LGBMRegressor(**_TREES),
}
SEARCHES = (
    ("6 of 12 columns informative", "naive Bayes", "accuracy"),
    ("12 informative, 6 kept", "naive Bayes", "accuracy"),
    ("12 informative, 8 kept", "naive Bayes", "accuracy"),
    ("6 of 12 columns informative", "logistic regression", "accuracy"),
    ("6 of 12 columns informative", "LightGBM", "accuracy"),
    ("6 of 12 columns informative", "logistic regression", "roc_auc"),
    ("6 of 12 columns informative", "LightGBM", "roc_auc"),
    ("four classes", "naive Bayes", "accuracy"),
    ("four classes", "logistic regression", "balanced_accuracy"),
    ("rare class", "naive Bayes", "f1"),
    ("rare class", "logistic regression", "f1"),
    ("numbers", "ridge", "r2"),
    ("numbers", "LightGBM regression", RMSE),
    ("heavy-tailed numbers", "ridge", "r2"),
    ("heavy-tailed numbers", "ridge", RMSE),
    ("groups of 10 rows", "naive Bayes", "accuracy"),
    ("in time", "logistic regression", "accuracy"),
)
N_SEARCHES = 200
CASE = ["problem", "model", "metric", "n_rows"]
KEY = [*CASE, "seed"]


def search(problem: str, model: str, metric: str, seed: int) -> list[dict[str, Any]]:
    """Search once, and judge the result on the first unseen rows, for each number of them."""
    rows, estimator = PROBLEMS[problem], MODELS[model]
    rng = np.random.default_rng([7, seed])
    X, y, *groups = rows.draw(rng, N_TRAIN)
    unseen = rows.draw(rng, max(rows.n_unseen))
    X_truth, y_truth, *_ = rows.draw(rng, N_TRUTH)
    params = {"groups": groups[0]} if groups else {}
    # Other models have no fast path: few fits, and few columns, so that some searches lose much.
    options = {"strategy": "ranked", "size": (1, 8)}
    if model == "naive Bayes":
        options = {"size": rows.size}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selector = SubsetSelector(
            estimator,
            budget=6,
            cv=rows.cv,
            scoring=metric,
            confirm=False,
            random_state=seed,
            **options,
        ).fit(X, y, **params)
        chosen = selector.get_support()
        scorer = get_scorer(metric)
        few = scorer(clone(estimator).fit(X[:, chosen], y), X_truth[:, chosen], y_truth)
        everything = scorer(clone(estimator).fit(X, y), X_truth, y_truth)
        guess = max(scorer(blind.fit(X, y), X_truth, y_truth) for blind in _blind(estimator, y))
        heads = {
            n: selector.judge(X, y, test=tuple(each[:n] for each in unseen), **params)
            for n in rows.n_unseen
        }
    found = []
    for n_rows, head in heads.items():
        verdict = next(one for one in head.evidence if one.n_units and one.rival != "guessing")
        low, high = verdict.low, verdict.high
        if metric == RMSE:
            low, high = -high / -guess, -low / -guess
        scale = -guess if metric == RMSE else 1.0
        figures = {
            "true": (few - everything) / scale,
            "low": low,
            "high": high,
            "true_gain": (everything - guess) / scale,
        }
        found.append(
            {
                **dict(zip(KEY, (problem, model, metric, n_rows, seed), strict=True)),
                "n_features": int(chosen.sum()),
                **{name: round(float(value), 5) for name, value in figures.items()},
                "guessing": head.guessing,
                "verdict": head.verdict,
            }
        )
    return found


def _blind(estimator: Any, y: np.ndarray) -> Iterator[Any]:
    """Yield models that ignore the columns."""
    if not is_classifier(estimator):
        yield DummyRegressor()
        return
    yield DummyClassifier(strategy="prior")
    for label in np.unique(y):
        yield DummyClassifier(strategy="constant", constant=label)


def rates_of_searches(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what was right and wrong, for each case."""
    by = rows.groupby(CASE)
    cases = [(*setting, n) for setting in SEARCHES for n in PROBLEMS[setting[0]].n_unseen]
    return pd.DataFrame(
        [
            {**dict(zip(CASE, case, strict=True)), **_rates(by.get_group(case))}
            for case in cases
            if case in by.groups
        ]
    )


def _rates(rows: pd.DataFrame) -> dict[str, float]:
    """Return what was right and wrong in searches of one case, or of several.

    Searches that keep all columns have no difference to find: they count for guessing alone.
    """
    some = rows[rows["n_features"] < N_COLUMNS]
    lost = some[some["true"] <= -LOSS]
    gains = rows[rows["true_gain"] >= GAIN]
    guesses = gains["guessing"] == "not beaten"
    better = (some["verdict"] == "better") & (some["guessing"] == "beaten")
    return {
        "runs": len(some),
        "held": _held(some, some["true"]),
        "no_interval": some["low"].isna().mean(),
        "no_width": (some["low"] == some["high"]).mean(),
        "losses": len(lost),
        "denied": int(denies(lost).sum()),
        "wrongly_better": int((better & (some["true"] <= 0)).sum()),
        "gains": len(gains),
        "wrongly_guessing": int(guesses.sum()),
    }


def denies(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether a headline says less than the true loss: none, or at most so many points."""
    bound = (rows["verdict"] == "not worse") & (rows["low"] > rows["true"])
    return ((rows["verdict"] == "better") | bound) & (rows["guessing"] == "beaten")


def _held(rows: pd.DataFrame, true: Any) -> float:
    """Return the share of intervals, where there are any, that hold the true difference."""
    held = (rows["low"] <= true) & (true <= rows["high"])
    return float(held[rows["low"].notna()].mean())


# ---------------------------------------------------------------- duels


@dataclass(frozen=True)
class Duel:
    """Answers whose true difference is known: how they are drawn, and the rate that is wanted."""

    draw: Callable[[np.random.Generator], dict[str, Any]]  # arguments of `duel`
    true: float = 0.0
    aim: tuple[str, float] | None = None


def _of_errors(differences: np.ndarray, **options: Any) -> dict[str, Any]:
    """Return predictions of 0 whose absolute errors differ by so much."""
    zeros = np.zeros(len(differences))
    truth = EvaluationTarget.of(LinearRegression(), zeros, zeros, None)
    answers = (zeros + 1000.0, 1000.0 - differences)
    return _arguments(truth, *answers, "mean_absolute_error", **options)


def _of_classes(
    differences: np.ndarray, rng: np.random.Generator, n_classes: int, metric: str, **options: Any
) -> dict[str, Any]:
    """Return classes of which the challenger has one more right (1), one more wrong (-1), or 0."""
    n = len(differences)
    y = rng.integers(0, n_classes, n)
    truth = EvaluationTarget.of(GaussianNB(), np.arange(n_classes), y, None)
    both = (differences == 0) & (rng.random(n) < 0.8)
    wrong = (y + rng.integers(1, n_classes, n)) % n_classes
    champion = np.where(both | (differences < 0), y, wrong)
    challenger = np.where(both | (differences > 0), y, wrong)
    return _arguments(truth, champion, challenger, metric, **options)


def _arguments(
    truth: EvaluationTarget, champion: Any, challenger: Any, metric: str, **options: Any
) -> dict[str, Any]:
    answers = {"champion": champion, "challenger": challenger}
    return {"truth": truth, **answers, "metric": metric, **options}


def _groups(n_groups: int, equal: bool, accuracy: bool) -> Duel:
    """One random effect for each group and none on average: 20 rows each, or 5 to 60."""

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        sizes = np.full(n_groups, 20) if equal else rng.integers(5, 61, n_groups)
        groups = np.repeat(np.arange(n_groups), sizes)
        effect = rng.normal(size=n_groups)[groups]
        if not accuracy:
            return _of_errors(effect + 0.3 * rng.normal(size=len(groups)), groups=groups)
        # Three rows in ten differ, most of them in one direction within a group.
        sign = np.where(rng.random(len(groups)) < 1 / (1 + np.exp(-2 * effect)), 1, -1)
        differences = np.where(rng.random(len(groups)) < 0.3, sign, 0)
        return _of_classes(differences, rng, 2, "accuracy", groups=groups)

    return Duel(draw, aim=("claimed", 0.07) if n_groups >= 5 else ("no_interval", 1.0))


def _time(n_rows: int, rho: float) -> Duel:
    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return _of_errors(autocorrelated(rng, n_rows, rho), time=np.arange(n_rows))

    return Duel(draw, aim=("claimed", 0.08) if rho <= 0.5 and n_rows >= 200 else None)


def _few_classes(n_rows: int, discordant: float, true: float, n_classes: int, metric: str) -> Duel:
    shares = [(discordant - true) / 2, 1 - discordant, (discordant + true) / 2]

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return _of_classes(rng.choice([-1, 0, 1], n_rows, p=shares), rng, n_classes, metric)

    return Duel(draw, true, ("held", 0.93))


def _few_errors(n_rows: int, noise: str, true: float) -> Duel:
    def draw(rng: np.random.Generator) -> dict[str, Any]:
        drawn = {
            "normal": rng.normal(size=n_rows),
            "heavy-tailed": rng.standard_t(3, size=n_rows),
            "skewed": rng.exponential(size=n_rows) - 1,
        }
        return _of_errors(drawn[noise] + true)

    return Duel(draw, true, ("held", 0.93))


def _few_numbers(n_rows: int, noise: str, true: float) -> Duel:
    """Predictions that explain half of the variance, and more by `true`."""

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = (2, n_rows)
        # The errors have a variance of 1. With fewer degrees of freedom their kurtosis would not
        # be finite, and R2 would have no known error.
        errors = rng.standard_t(5, shape) / np.sqrt(5 / 3) if noise else rng.normal(size=shape)
        y = rng.normal(size=n_rows)
        champion, challenger = y + errors * np.sqrt([[0.5], [0.5 - true]])
        truth = EvaluationTarget.of(LinearRegression(), y, y, None)
        return _arguments(truth, champion, challenger, "r2")

    return Duel(draw, true, ("held", 0.93))


def _duels() -> Iterator[tuple[str, Duel]]:
    for n_groups in (3, 5, 8, 15, 30):
        yield f"{n_groups} groups of 20 rows", _groups(n_groups, True, False)
        yield f"{n_groups} groups of 5 to 60 rows", _groups(n_groups, False, False)
        yield f"{n_groups} groups of 20 rows, accuracy", _groups(n_groups, True, True)
    for n_rows in (100, 200, 1000):
        for rho in (0, 0.5, 0.9):
            yield f"{n_rows} rows in time, correlation {rho}", _time(n_rows, rho)
    for n_rows in (25, 40, 80, 150):
        for percent, true in ((10, 0.0), (10, 0.02), (2, 0.0), (30, 0.0)):
            case = f"{n_rows} rows, {percent} % differ, true difference {true:g}"
            yield case, _few_classes(n_rows, percent / 100, true, 2, "accuracy")
        for metric in ("accuracy", "balanced_accuracy"):
            case = f"{n_rows} rows of four classes, 10 % differ, {metric}"
            yield case, _few_classes(n_rows, 0.1, 0.0, 4, metric)
        case = f"{n_rows} rows, equal predictions"
        yield case, _few_classes(n_rows, 0.0, 0.0, 2, "accuracy")
        for noise in ("normal", "heavy-tailed", "skewed"):
            yield f"{n_rows} rows, absolute errors, {noise}", _few_errors(n_rows, noise, 0.0)
        for noise in ("", ", heavy-tailed"):
            for true in (0.0, 0.1):
                case = f"{n_rows} rows, R2{noise}, true difference {true:g}"
                yield case, _few_numbers(n_rows, noise, true)


DUELS = dict(_duels())
N_DUELS = 1000


def rates_of_duels(case: str, n_runs: int = N_DUELS) -> dict[str, Any]:
    """Draw a case so often, and return how often a difference is claimed and the true one held."""
    kind, intervals = DUELS[case], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(n_runs):
            drawn = kind.draw(np.random.default_rng([seed, *case.encode()]))
            met = duel(**drawn)
            intervals.append((met.low, met.high))
    rows = pd.DataFrame(intervals, columns=["low", "high"])
    return {
        "case": case,
        "runs": n_runs,
        "claimed": float(((rows["low"] > 0) | (rows["high"] < 0)).mean()),
        "held": _held(rows, kind.true),
        "no_interval": float(rows["low"].isna().mean()),
        "no_width": float((rows["low"] == rows["high"]).mean()),
    }


# ---------------------------------------------------------------- tables


def missed(rates: Any, aim: tuple[str, float] | None) -> str:
    """Say how rates miss their aim, if they do; no interval may have the width 0."""
    if aim is None:
        return ""
    rate, wanted = aim
    if rates[rate] > wanted if rate == "claimed" else rates[rate] < wanted:
        return ", **missed**"
    return ", **width 0**" if rates["no_width"] > 0 else ""


def table(searches: pd.DataFrame, duels: pd.DataFrame) -> str:
    """Return the rates of all cases as a Markdown table."""
    lines = [
        "| case | runs | holds the truth | claimed where there is none | no interval | width 0 | "
        "losses of 3 points or more: denied | better, wrongly | gains of 5 points or more: "
        "guesses | aim |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for _, row in rates_of_searches(searches).iterrows():
        case = f"{row['problem']}, {row['model']}, {row['metric']}, {row['n_rows']} rows"
        words = [f"{row['losses']}: {row['denied']}", str(row["wrongly_better"])]
        words.append(f"{row['gains']}: {row['wrongly_guessing']}")
        # Below five groups there is no verdict.
        few = row["problem"] == "groups of 10 rows" and row["n_rows"] < 50
        lines.append(_line(case, row, "", words, ("no_interval", 1.0) if few else ("held", 0.93)))
    for _, row in duels.iterrows():
        kind = DUELS[row["case"]]
        claimed = "" if kind.true else f"{row['claimed']:.1%}"
        lines.append(_line(row["case"], row, claimed, ["", "", ""], kind.aim))
    return "\n".join(lines)


_AIMS = {"held": "at least {:.0%} hold", "claimed": "at most {:.0%} claimed"}


def _line(case: str, row: Any, claimed: str, words: list[str], aim: Any) -> str:
    wanted = _AIMS.get(aim[0], "no interval").format(aim[1]) if aim else ""
    shares = [f"{row['no_interval']:.1%}", f"{row['no_width']:.1%}"]
    return _row(
        [
            case,
            str(row["runs"]),
            _share(row["held"]),
            claimed,
            *shares,
            *words,
            wanted + missed(row, aim),
        ]
    )


def _share(rate: float) -> str:
    return "-" if np.isnan(rate) else f"{rate:.1%}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


# Rows of the short form: what is said of metrics, and the duels that it shows.
_METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy, four classes",
    "roc_auc": "ROC AUC",
    "f1": "F1 of a rare class",
    "r2": "R2",
    RMSE: "root mean squared error",
}
_SHOWN = [
    *(f"{n_groups} groups of 20 rows" for n_groups in (5, 8, 15)),
    *(f"200 rows in time, correlation {rho}" for rho in (0, 0.5, 0.9)),
]


def short_form() -> str:
    """Return the two tables of docs/trust.md."""
    searches, duels = stored()
    alone = searches[~searches["problem"].isin(["groups of 10 rows", "in time"])]
    sizes = (40, 150, 1000)
    lines = [
        _row(["metric", *(f"{n:,} unseen rows" for n in sizes), "true losses", "denied"]),
        "|---|--:|--:|--:|--:|--:|",
    ]
    for metric, name in _METRICS.items():
        own = alone[alone["metric"] == metric]
        held = [_share(_rates(own[own["n_rows"] == n])["held"]) for n in sizes]
        rates = _rates(own)
        lines.append(_row([name, *held, f"{rates['losses']:,}", f"{rates['denied']:,}"]))
    lines += ["", "| rows that depend on each other | a difference is claimed |", "|---|--:|"]
    claimed = duels.set_index("case")["claimed"]
    lines += [_row([case, f"{claimed[case]:.1%}"]) for case in _SHOWN if case in claimed]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- runs


def stored(folder: Path = RESULTS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the rows of searches and of duels."""
    return tuple(
        pd.read_csv(folder / name) if (folder / name).exists() else pd.DataFrame(columns=columns)
        for name, columns in (("verdict.csv", KEY), ("verdict_duels.csv", ["case", "runs"]))
    )


def _run(jobs: list[Any], path: Path, rows: pd.DataFrame, n_jobs: int) -> pd.DataFrame:
    """Run jobs, and write the rows of each as it ends."""
    for found in Parallel(n_jobs, return_as="generator")(jobs):
        added = pd.DataFrame(found if isinstance(found, list) else [found])
        added.to_csv(path, mode="a", header=not path.exists(), index=False)
        rows = pd.concat([rows, added], ignore_index=True) if len(rows) else added
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the rows")
    options = parser.parse_args()
    searches, duels = stored(options.out)
    if not options.table:
        done = set(searches[KEY].itertuples(index=False, name=None))
        jobs = [
            delayed(search)(*setting, seed)
            for seed in range(N_SEARCHES)
            for setting in SEARCHES
            if any((*setting, n, seed) not in done for n in PROBLEMS[setting[0]].n_unseen)
        ]
        searches = _run(jobs, options.out / "verdict.csv", searches, options.jobs)
        jobs = [delayed(rates_of_duels)(case) for case in DUELS if case not in set(duels["case"])]
        duels = _run(jobs, options.out / "verdict_duels.csv", duels, options.jobs)
    print(table(searches, duels))


if __name__ == "__main__":
    main()
