"""The page on Musk version 2, the worked example of document 000."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from swarm.evidence.musk_figures import difference_figure
from swarm.evidence.musk_searches import ablation_section, courses_section, modes_section
from swarm.evidence.musk_tables import (
    METRICS,
    PAIRS,
    differences,
    figure_table,
    judged,
    main_mode,
    musk_rows,
)
from swarm.evidence.musk_words import (
    METRIC_NAMES,
    MODES,
    SPLITS,
    bounds,
    gap,
    leak_sentence,
    outside,
    p_value,
    reading,
    runs_sentences,
    spread,
    worth_sentence,
)
from swarm.evidence.page import Page, markdown_table, run_line
from swarm.evidence.published_musk import FIGURES, POSITIVES, TEST_ROWS
from swarm.report.words import (
    CONTENDER_LABELS,
    CONTENDER_NAMES,
    counted,
    number,
)

__all__ = ["musk_page", "musk_rows"]

_WHO = {"all_features": "all features with one model", "ensemble": "the ensemble"}
_COLUMNS = {
    "figures": [
        "split",
        "mode",
        "seed",
        "contender",
        "metric",
        "value",
        "low",
        "high",
        "n_features",
    ],
    "epochs": ["split", "mode", "seed", "epoch", "best_cost", "best_size"],
    "runs": [
        "split",
        "mode",
        "seed",
        "epochs",
        "cost",
        "size",
        "n_available",
        "n_train",
        "n_test",
        "proxy_correlation",
    ],
    "ablation": ["strategy", "seed", "cost", "size", "distinct"],
}
_PROTOCOL = (
    "Document 000 shows its multi-swarm search on Musk version 2: LightGBM, cost 1 − recall over "
    "five folds, 16 particles in four swarms, 100 epochs, a random split with 30 % test rows, and "
    "an ensemble of the eight best subsets that calls a musk as soon as one of its models does. "
    "Its split and its search have no seed, so its numbers are one draw. The baseline it compares "
    "with is a single model on all features, which has no such vote."
)


def musk_page(
    figures: pd.DataFrame,
    epochs: pd.DataFrame,
    runs: pd.DataFrame,
    ablation: pd.DataFrame,
    facts: Mapping[str, Any],
    history: pd.DataFrame | None = None,
) -> Page:
    """Write the page from the rows there are.

    Parameters
    ----------
    figures : DataFrame
        One row per run, contender and metric: split ("random" or "group"), mode ("fast", with
        races and a cheaper model, or "exact"), seed, contender, metric, value, low, high (of a
        bootstrap of the test rows), n_features.
    epochs : DataFrame
        One row per run and epoch, from 1: split, mode, seed, epoch, best_cost, best_size. In
        fast mode the cost is that of the cheaper model.
    runs : DataFrame
        One row per run: split, mode, seed, epochs, cost (of the best subset on the full model),
        size, n_available, evaluations, distinct, fits, proxy_correlation (NaN in exact mode),
        seconds (wall), test_rows, n_train, n_test.
    ablation : DataFrame
        One row per search: strategy, seed, cost, size, distinct.
    facts : mapping
        Versions, machine and seconds, as for :func:`swarm.evidence.page.run_line`. Optional
        sentences under ``notes``: "runs", "ablation".
    history : DataFrame, optional
        strategy, seed, distinct, best_cost of the ablation, one row per epoch.

    Raises
    ------
    ValueError
        If a run or a search is in its table twice.
    """
    tables = {"figures": figures, "epochs": epochs, "runs": runs, "ablation": ablation}
    for name, columns in _COLUMNS.items():
        # A table without rows may have come without columns.
        if not len(tables[name]):
            tables[name] = pd.DataFrame(columns=columns)
    return _Musk(**tables, facts=facts, history=history).page()


class _Musk:
    """The tables of a page, the sections made from them, and the figures they show."""

    def __init__(
        self,
        figures: pd.DataFrame,
        epochs: pd.DataFrame,
        runs: pd.DataFrame,
        ablation: pd.DataFrame,
        facts: Mapping[str, Any],
        history: pd.DataFrame | None,
    ) -> None:
        self.figures, self.epochs, self.runs = figures, epochs, runs
        self.ablation, self.history = ablation, history
        self.facts, self.notes = facts, facts.get("notes", {})
        self.splits = [split for split in SPLITS if (runs["split"] == split).any()]
        self.modes = {split: main_mode(runs, split) for split in self.splits}
        self.means = {
            (split, row["contender"], row["metric"]): row
            for split in self.splits
            for row in figure_table(figures, split, self.modes[split]).to_dict("records")
        }
        none = differences(figures, "none", None)
        pairs = [differences(figures, split, self.modes[split]) for split in self.splits]
        pairs = [part for part in pairs if len(part)]
        self.pairs = pd.concat(pairs, ignore_index=True) if pairs else none
        self.tests = judged(self.pairs, runs)
        keys = ("split", "first", "second", "metric")
        self.test = {tuple(row[k] for k in keys): row for row in self.tests.to_dict("records")}
        self.drawn: dict[str, bytes] = {}

    def page(self) -> Page:
        sections = [
            "# Musk, version 2\n",
            f"{_PROTOCOL} {self.notes.get('runs', '')}".strip() + "\n",
            f"{runs_sentences(self.runs, self.ablation)} {run_line(self.facts)}\n",
            f"**{worth_sentence(self._worth())}**\n",
            self._random(),
            self._group(),
            self._picture(),
            self._leak(),
            courses_section(self.epochs, self.runs, self.figures, self.drawn),
            modes_section(self.figures, self.runs),
            ablation_section(self.ablation, self.history, self.drawn, self.notes),
        ]
        tables = {"musk_differences.csv": self.pairs, "musk_tests.csv": self.tests}
        return Page("\n".join(part for part in sections if part), self.drawn, tables)

    def _mean(self, split: str, contender: str, metric: str) -> Mapping[Any, Any] | None:
        return self.means.get((split, contender, metric))

    def _test(self, split: str, pair: tuple[str, str], metric: str) -> Mapping[Any, Any] | None:
        return self.test.get((split, *pair, metric))

    def _own_runs(self, split: str) -> pd.DataFrame:
        """Runs of the mode that a split is judged by."""
        same = (self.runs["split"] == split) & (self.runs["mode"] == self.modes[split])
        return self.runs[same]

    def _worth(self) -> dict[str, dict[str, float]]:
        found = {}
        for split in self.splits:
            test = self._test(split, PAIRS[1], "f1")
            own, ensemble = self._own_runs(split), self._mean(split, "ensemble", "f1")
            if test is not None and ensemble is not None:
                sizes = {name: own[name].mean() for name in ("size", "n_available")}
                found[split] = {**test, **sizes, "together": ensemble["n_features"]}
        return found

    def _random(self) -> str:
        text = "## The published figures, and ours on the random split\n\n"
        if "random" not in self.splits:
            return text + "No run on the random split yet.\n"
        published = [
            [f"Document: {CONTENDER_NAMES[name].lower()}"]
            + [number(FIGURES[name][metric]) for metric in METRICS]
            + ["", "1"]
            for name in FIGURES
        ]
        text += self._figure_table("random", published)
        ours = {name: self._mean("random", "ensemble", name) for name in METRICS}
        there = {name: found for name, found in ours.items() if found is not None}
        if there:
            where = outside(FIGURES["ensemble"], there)
            text += f"\nOf the published figures of the ensemble, {where}."
        f1 = there.get("f1")
        if f1 is not None and math.isfinite(f1["reach"]):
            claimed = FIGURES["ensemble"]["f1"] - FIGURES["all_features"]["f1"]
            caught = round((FIGURES["ensemble"]["recall"]) * POSITIVES) - round(
                FIGURES["all_features"]["recall"] * POSITIVES
            )
            text += (
                f" The published difference in F1, {gap(claimed)}, comes from one split: "
                f"{caught} more of the {POSITIVES} musks among {TEST_ROWS:,} test rows. In one "
                f"run of ours, the bootstrap interval of the ensemble's F1 reaches "
                f"{number(f1['reach'])} to each side on average."
            )
        return f"{text}\n\n{self._claims()}\n{self._difference_text('random')}"

    def _figure_table(self, split: str, before: list[list[str]]) -> str:
        rows = list(before)
        for name in CONTENDER_NAMES:
            found = [self._mean(split, name, metric) for metric in METRICS]
            known = [one for one in found if one is not None]
            if known:
                cells = [
                    spread(f["mean"], f["least"], f["most"], int(f["n"])) if f else "–"
                    for f in found
                ]
                counts = [f"{known[0]['n_features']:.0f}", f"{int(known[0]['n'])}"]
                rows.append([CONTENDER_NAMES[name], *cells, *counts])
        header = ["", *(METRIC_NAMES[metric] for metric in METRICS), "features", "seeds"]
        mode = MODES.get(str(self.modes[split]), "")
        said = f"Ours are the {mode} runs: mean over the seeds, with the range.\n\n"
        return said + markdown_table(header, rows)

    def _claims(self) -> str:
        """Compare the document's difference to its baseline, metric by metric."""
        rows = []
        for metric in METRICS:
            claimed = FIGURES["ensemble"][metric] - FIGURES["all_features"][metric]
            own = self._test("random", PAIRS[0], metric)
            fair = self._test("random", PAIRS[1], metric)
            cells = [_with_bounds(test) for test in (own, fair)]
            found = [
                reading(claimed, test["mean"], test["low"], test["high"]) if test else "–"
                for test in (own, fair)
            ]
            rows.append(
                [METRIC_NAMES[metric], gap(claimed), cells[0], found[0], cells[1], found[1]]
            )
        header = ["", "published", "ours", "", "ours, same vote", ""]
        text = "The ensemble minus all features with one model, and with the same vote:\n\n"
        text += markdown_table(header, rows, "lrrlrl")
        single, vote = (
            {m: self._mean("random", name, m) for m in ("recall", "precision")}
            for name in ("all_features", "all_features_ensemble")
        )
        gaps = [
            f"{gap(b['mean'] - a['mean'])} in {metric}"
            for metric in single
            if (a := single[metric]) is not None and (b := vote[metric]) is not None
        ]
        if gaps:
            text += f"\nThe vote alone, with no selection, is worth {' and '.join(gaps)}.\n"
        return text

    def _difference_text(self, split: str) -> str:
        pairs = self.pairs[(self.pairs["split"] == split) & (self.pairs["metric"] == "f1")]
        if not len(pairs):
            return ""
        seeds = sorted(pairs["seed"].unique())
        by_seed, by_metric = [], []
        for pair in PAIRS:
            own = pairs[(pairs["first"] == pair[0]) & (pairs["second"] == pair[1])]
            values = dict(zip(own["seed"], own["difference"], strict=True))
            cells = [gap(values[seed]) if seed in values else "–" for seed in seeds]
            by_seed.append([_pair_name(pair), *cells])
            tests = [self._test(split, pair, metric) for metric in METRICS]
            by_metric.append([_pair_name(pair), *(_with_p(test) for test in tests)])
        text = "Differences in F1, seed by seed:\n\n"
        text += markdown_table(["", *(f"seed {seed}" for seed in seeds)], by_seed)
        text += "\nMean differences, with 95 % intervals and p-values of the corrected resampled "
        text += f"t-test ({counted(len(seeds), 'seed')}, each with a split of its own; not "
        text += "corrected for the number of tests):\n\n"
        return text + markdown_table(["", *(METRIC_NAMES[m] for m in METRICS)], by_metric)

    def _group(self) -> str:
        text = "## By molecule\n\nHere no molecule has rows on both sides of the split.\n\n"
        if "group" not in self.splits:
            return text + "No run on this split yet.\n"
        return f"{text}{self._figure_table('group', [])}\n{self._difference_text('group')}"

    def _picture(self) -> str:
        f1 = self.pairs[self.pairs["metric"] == "f1"]
        if not len(f1):
            return ""
        tests = self.tests[self.tests["metric"] == "f1"]
        labels = {pair: _pair_name(pair) for pair in PAIRS}
        drawing = difference_figure(f1, tests, labels, "difference in F1")
        self.drawn["musk-differences.svg"] = drawing
        return (
            "![Differences in F1](figures/musk-differences.svg)\n\n"
            "A dot is a seed, a stroke the mean, a band its 95 % interval.\n"
        )

    def _leak(self) -> str:
        text = "## What the random split leaks\n\n"
        if len(self.splits) < 2:
            return text + "This needs runs on both splits.\n"
        rows = []
        for name in CONTENDER_NAMES:
            cells = []
            for metric in ("accuracy", "f1"):
                both = [self._mean(split, name, metric) for split in ("random", "group")]
                means = [math.nan if found is None else found["mean"] for found in both]
                cells += [number(means[0]), number(means[1]), gap(means[1] - means[0])]
            rows.append([CONTENDER_NAMES[name], *cells])
        header = [f"{m}, {s}" for m in ("accuracy", "F1") for s in ("random", "group", "change")]
        text += markdown_table(["", *header], rows)
        for name in ("all_features", "ensemble"):
            random, group = (self._mean(split, name, "accuracy") for split in ("random", "group"))
            if random is not None and group is not None:
                text += f"\n{leak_sentence(random, group, _WHO[name])}\n"
        return text


def _pair_name(pair: tuple[str, str]) -> str:
    first, second = (CONTENDER_LABELS[name] for name in pair)
    return f"{first} − {second[0].lower()}{second[1:]}"


def _with_bounds(test: Mapping[str, float] | None) -> str:
    if test is None:
        return "–"
    return f"{gap(test['mean'])} {bounds(test['low'], test['high'])}".rstrip()


def _with_p(test: Mapping[str, float] | None) -> str:
    if test is None or math.isnan(test["p"]):
        return _with_bounds(test)
    p = p_value(test["p"])
    return f"{_with_bounds(test)}, p {p}" if p.startswith("<") else f"{_with_bounds(test)}, p = {p}"
