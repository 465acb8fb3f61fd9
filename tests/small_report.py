"""Data of reports that need no run, ordinary and odd, their pages, and a parser of pages."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd

from swarm.problem.space import SearchSpace
from swarm.report import ReportData, draw_figures, render
from swarm.report.data import Agreement, Pick
from swarm.report.drawing import Drawing
from swarm.validation.contenders import CONTENDERS

INF, NAN = float("inf"), float("nan")


class Page(HTMLParser):
    """Tags, ids, references and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        self.styles += [given["style"]] if "style" in given else []
        self.links += re.findall(r"url\(([^)]*)\)", " ".join(given.values()))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def history(n_epochs: int) -> pd.DataFrame:
    epochs = np.arange(1, n_epochs + 1)
    columns = {
        "epoch": epochs,
        "best_cost": 0.1 / epochs,
        "best_size": np.maximum(12 - epochs, 3.0),
        "pbest_cost_mean": 0.2 / epochs,
        "size_mean": 8.0,
        "diversity": 0.3,
        "evaluations": 16.0 * epochs,
        "distinct_evaluations": 15.0 * epochs,
        "fits": 60.0 * epochs,
        "folds_pruned": 15.0,
    }
    swarms = {f"swarm_{k}_best_cost": 0.1 / epochs + 0.01 * k for k in range(4)}
    return pd.DataFrame({**columns, **swarms})


def judged(metrics: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    place = np.tile(np.arange(len(CONTENDERS)), len(metrics))
    names = {
        "contender": np.take(list(CONTENDERS), place),
        "metric": np.repeat(metrics, len(CONTENDERS)),
    }
    value, gap = 0.95 - 0.01 * place, 0.01 * place
    table = pd.DataFrame(
        {**names, "value": value, "low": value - 0.02, "high": value + 0.02}
    ).assign(n_features=5 + place, n_models=2)
    gaps = pd.DataFrame({**names, "difference": gap, "low": gap - 0.02, "high": gap + 0.02}).assign(
        favours=np.where(place > 2, "ensemble", "neither")
    )
    return table, gaps[place > 0].reset_index(drop=True)


def report(
    names: list[str],
    n_chosen: int = 3,
    n_epochs: int = 25,
    metrics: tuple[str, ...] = ("f1",),
) -> ReportData:
    rng = np.random.default_rng(0)
    distance = 1.0 - np.abs(np.corrcoef(rng.normal(size=(len(names), 40))).reshape(len(names), -1))
    figures, differences = judged(metrics)
    chosen = names[:n_chosen]
    subsets = [(chosen, 0.004), (names[1 : n_chosen + 1] or chosen, 0.005)]
    held = np.array([[name in members for name in names] for members, _ in subsets])
    size = rng.integers(1, len(names) + 1, 200)
    return ReportData(
        title="a run",
        verdict="On 100 unseen rows the ensemble scores F1 0.950.",
        features=chosen,
        n_available=len(names),
        subsets=subsets,
        history=history(n_epochs),
        evaluations=pd.DataFrame({"size": size, "cost": rng.uniform(0.005, 0.3, 200)}),
        figures=figures,
        differences=differences,
        importances=pd.Series(np.arange(1.0, len(chosen) + 1), index=chosen),
        distance=pd.DataFrame(distance, index=names, columns=names),
        cv_cost=0.004,
        test_cost=0.05,
        optimism=0.046,
        subset_test_costs=[0.05, 0.07],
        picks=[
            Pick("best", tuple(chosen), 0.004, 0.001),
            Pick("parsimonious", tuple(chosen[:1]), 0.0045, 0.002),
            Pick("knee", tuple(chosen[:1]), 0.0045, 0.002),
        ],
        agreement=Agreement.of(SearchSpace.build(names), held[0], held, held[:1]),
        regroup_every=10,
        warnings=["rows 1 and 2 are equal"],
        config_yaml="name: a\n",
        facts={"rows": 100, "seconds_training": 3.5, "archive_hits": 7, "versions": {"numpy": "2"}},
    )


def plain_report() -> ReportData:
    return report([f"column {i}" for i in range(12)], metrics=("f1", "recall"))


def table_without_intervals(data: ReportData) -> ReportData:
    return replace(
        data,
        figures=data.figures.assign(low=NAN, high=NAN),
        differences=data.differences.assign(low=NAN, high=NAN, favours="neither"),
    )


# One metric, one figure less to draw.
_SMALL = report([f"column {i}" for i in range(12)])
CASES = {
    "plain": plain_report(),
    "first epoch": replace(
        report(["a", "b", "c", "d"], n_epochs=1),
        evaluations=pd.DataFrame({"size": [3], "cost": [0.1]}),
        picks=(),
        importances=None,
    ),
    "no epoch": replace(
        _SMALL,
        history=pd.DataFrame(),
        evaluations=pd.DataFrame(),
        figures=pd.DataFrame(),
        differences=pd.DataFrame(),
        importances=pd.Series({"column 0": 0.0}),
    ),
    "no intervals, all fixed": replace(
        table_without_intervals(_SMALL),
        history=history(5)[["epoch", "best_cost"]],
        agreement=Agreement.of(
            SearchSpace.build(["a", "b"], fixed=["a", "b"]),
            np.array([True, True]),
            np.ones((3, 2), dtype=bool),
            np.ones((1, 2), dtype=bool),
        ),
    ),
    "one feature": report(["only"], n_chosen=1),
    "many features": report([f"f{i}" for i in range(1000)], n_chosen=40),
    "equal costs": replace(
        _SMALL,
        history=history(9).assign(best_cost=0.0, pbest_cost_mean=0.0).iloc[:, :5],
        evaluations=pd.DataFrame({"size": [3] * 50, "cost": [0.0] * 50}),
        subsets=[(["column 0"], 0.0)],
        subset_test_costs=(),
        cv_cost=0.0,
        test_cost=0.0,
    ),
    "infinite costs, one subset": replace(
        _SMALL,
        history=history(5).assign(best_cost=INF, pbest_cost_mean=INF)[
            ["epoch", "best_cost", "pbest_cost_mean"]
        ],
        evaluations=pd.DataFrame({"size": [3, 4], "cost": [INF, INF]}),
        subsets=[(["column 0"], INF)],
        subset_test_costs=[INF],
        cv_cost=INF,
        test_cost=INF,
        agreement=Agreement.of(
            SearchSpace.build(["column 0", "b"]),
            np.array([True, False]),
            np.array([[True, False]]),
            np.empty((0, 2), dtype=bool),
        ),
    ),
    "some infinite": replace(
        _SMALL,
        history=history(5).assign(best_cost=[INF, INF, 0.3, 0.2, 0.2]),
        evaluations=pd.DataFrame({"size": [3, 4, 5], "cost": [INF, 0.2, 0.3]}),
        subsets=[(["column 0"], 0.2), (["column 1"], INF)],
        subset_test_costs=[0.3, INF],
    ),
    "costs of a regression": replace(
        _SMALL,
        history=history(5).assign(best_cost=-3e7),
        evaluations=pd.DataFrame({"size": [3, 4], "cost": [-3e7, 4e8]}),
        subsets=[(["column 0"], -3e7)],
        subset_test_costs=(),
        cv_cost=-3e7,
        test_cost=-2e7,
    ),
    "bare": ReportData(
        "t", "v", ["a"], 2, [], pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), pd.DataFrame()
    ),
}


@cache
def drawn(case: str) -> dict[str, Drawing]:
    """Figures of a case, drawn once a session: drawing takes longer than all the rest."""
    return draw_figures(CASES[case])


@cache
def rendered(case: str) -> str:
    """Page of a case."""
    return render(CASES[case], drawn(case))
