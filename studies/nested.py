"""Nested estimates of the shipped configurations: ``swarm nested`` on each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from conf.load import load_as
from conf.schema import SelectConfig
from flows.nested import OuterPlan, nested
from studies.page import Section, command
from studies.runner import save_facts, stored
from swarm.errors import DataError
from swarm.validation.contenders import CONTENDERS

STUDY = "nested"
# Outer folds, and the column of molecules: by which rows are divided, or which is left out.
PROTOCOLS: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (5, {}),
    "musk": (3, {"group": "group"}),
    "musk_grouped": (3, {"group": "group"}),
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


def run_estimates(data: Path | None, _: Path, out: Path, verbosity: int) -> None:
    """Run the configurations that have no rows yet."""
    path = out / "results" / f"{STUDY}.csv"
    for name, (folds, roles) in PROTOCOLS.items():
        rows = stored(path, ["configuration"])
        if name in set(rows["configuration"]):
            continue
        given: dict[str, Any] = {}
        if name != "default":
            if data is None:
                raise DataError("name the folder of musk_v2.parquet with --data")
            file = {"source": "file", "path": str(data / "musk_v2.parquet"), "name": None}
            given = {**file, "target": "target", **roles}
        config = load_as(
            SelectConfig, name, [f"data.{key}={json.dumps(v)}" for key, v in given.items()]
        )
        found = nested(config, OuterPlan(folds), verbosity=verbosity)
        assert isinstance(config.scoring, str)
        own = rows_of(name, config.scoring, json.loads(json.dumps(found.as_dict())))
        pd.concat([rows, own]).to_csv(path, index=False)
        save_facts(STUDY, out, {"seconds": {}})


def section_of(out: Path) -> Section:
    """Fill the section in from the stored rows."""
    rows = pd.read_csv(out / "results" / f"{STUDY}.csv")
    of = {name: own.set_index("contender") for name, own in rows.groupby("configuration")}
    values = {
        "of": {name: own.loc[list(CONTENDERS)] for name, own in of.items()},
        "contenders": CONTENDERS,
    }
    return Section(values)


if __name__ == "__main__":
    command(STUDY, section_of, before=run_estimates)
