"""Nested estimates of the shipped configurations: ``swarm nested`` on each of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from conf.load import load_select
from studies.page import Page, interval, signed, write_page
from studies.runner import environment, save_facts
from swarm.validation.contenders import CONTENDERS
from swarm.validation.metrics import display_name

STUDY = "nested"
# Outer folds, and the column of molecules: by which rows are divided, or which is left out.
PROTOCOLS: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (5, {}),
    "musk": (3, {"group": "group"}),
    "musk_grouped": (3, {"group": "group"}),
    "musk_fast": (3, {"drop": ["group"]}),
}


def rows_of(name: str, metric: str, told: dict[str, Any]) -> pd.DataFrame:
    """Return a row per contender from what ``swarm nested NAME --json`` prints."""
    scores = pd.DataFrame(told["metrics"])
    own = scores[scores["metric"] == metric].set_index("contender")
    gains = pd.DataFrame(told["gains"])
    over = gains[gains["baseline"] == "all_features"].set_index("contender")
    facts = {
        "configuration": name,
        "outer_folds": told["outer_folds"],
        "n_folds": told["n_folds"],
        "n_test": round(told["n_test"]),
        "metric": metric,
        "stability": told["stability"]["index"],
        "optimism": told["optimism"]["mean"],
        "training_seconds": sum(told["seconds"].values()),
    }
    table = own[["value", "low", "high"]].rename(columns={"value": "score"})
    table["f1"] = scores[scores["metric"] == "f1"].set_index("contender")["value"]
    table["n_features"] = pd.DataFrame(told["costs"]).set_index("contender")["n_features"]
    # Both metrics here are 1 - cost, so that a gain is a difference of scores.
    table = table.join(over[["gain", "low", "high", "p"]].add_prefix("difference_"))
    return table.rename_axis("contender").reset_index().assign(**facts)


def page_of(out: Path) -> Page:
    """Fill the page in from the stored rows."""
    rows = pd.read_csv(out / "results" / f"{STUDY}.csv")
    single = pd.read_csv(out / "results" / "musk-figures.csv")
    single = single[single["mode"].eq("fast") & single["contender"].isin(CONTENDERS)]
    found: dict[str, Any] = {}
    for name in PROTOCOLS:
        own = rows[rows["configuration"] == name].set_index("contender").loc[list(CONTENDERS)]
        found[name] = {
            "first": own.iloc[0].to_dict(),
            "score": own["score"].to_dict(),
            "f1": own["f1"].to_dict(),
            "gain": own[["difference_gain", "difference_low", "difference_high"]]
            .rename(columns=lambda column: column.removeprefix("difference_"))
            .to_dict("index"),
            "table": _table(own),
        }
    recall = single[single["metric"] == "recall"].groupby(["split", "contender"])["value"].mean()
    values = {
        "of": found,
        "single": {split: recall[split].to_dict() for split in ("group", "random")},
        "hours": rows.groupby("configuration")["training_seconds"].first().sum() / 3600,
    }
    return Page(values, {}, {})


def _table(own: pd.DataFrame) -> pd.DataFrame:
    metric = display_name(str(own["metric"].iloc[0]))
    differences = [
        f"{signed(row['difference_gain'])} "
        f"{interval(row['difference_low'], row['difference_high'])}"
        if row["difference_gain"] == row["difference_gain"]
        else ""
        for _, row in own.iterrows()
    ]
    table = {
        metric: [
            f"{row['score']:.3f} [{row['low']:.3f}, {row['high']:.3f}]".replace("-", "−")
            for _, row in own.iterrows()
        ],
        "difference to all features": differences,
        "F1": [f"{value:.3f}" for value in own["f1"]],
        "features": [f"{value:.0f}" for value in own["n_features"]],
    }
    return pd.DataFrame(table, index=pd.Index([CONTENDERS[name] for name in own.index]))


def main(
    data: Annotated[Path | None, typer.Option(help="Folder with musk_v2.parquet.")] = None,
    page: Annotated[bool, typer.Option("--page", help="Run nothing, render the page.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs/evidence"),
) -> None:
    """Run the configurations that have no rows yet, then write the page."""
    from flows.nested import OuterPlan, nested

    path = out / "results" / f"{STUDY}.csv"
    logging.disable(logging.INFO)
    for name, (folds, roles) in {} if page else PROTOCOLS.items():
        rows = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["configuration"])
        if name in set(rows["configuration"]):
            continue
        given: dict[str, Any] = {}
        if name != "default":
            if data is None:
                raise typer.BadParameter("name the folder of musk_v2.parquet with --data")
            file = {"source": "file", "path": str(data / "musk_v2.parquet"), "id": None}
            given = {**file, "target": "target", **roles}
        config = load_select(name, [f"data.{key}={json.dumps(v)}" for key, v in given.items()])
        found = nested(config, OuterPlan(folds))
        assert isinstance(config.scoring, str)
        own = rows_of(name, config.scoring, json.loads(json.dumps(found.as_dict())))
        pd.concat([rows, own]).to_csv(path, index=False)
        # The hours on the page are those of the models: parts of these runs were resumed.
        save_facts(STUDY, out, {"seconds": {}} | environment())
    write_page(STUDY, page_of(out), out)


if __name__ == "__main__":
    typer.run(main)
