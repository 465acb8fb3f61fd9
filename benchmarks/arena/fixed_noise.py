"""Selectors at fixed sizes among as many columns of noise as real ones.

The other modes of TabArena's benchmark of feature selection: which share of the selected columns is
real, and how well the columns agree that a selector finds in parts of 80 % of the training rows. A
column of noise is a real one with its values permuted. The sizes are those of the real columns.

``python benchmarks/arena/fixed_noise.py --tables FOLDER --out FILE`` runs what FILE does not hold;
``--summary`` prints means over the tables.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fixed_size import (
    MODELS,
    SIZES,
    append,
    carry_out,
    divided,
    finished,
    measured,
    parser,
    select,
    tables,
    with_selectors,
)
from sklearn.model_selection import train_test_split

from swarm.validation.stability import nogueira


def with_noise(X: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Add a permuted copy of each column, named after it."""
    rng = np.random.default_rng(seed)
    noise = pd.DataFrame(rng.permuted(X.to_numpy(), axis=0), columns=[f"noise_{c}" for c in X])
    return pd.concat([X, noise], axis=1)


def run(
    folder: Path,
    out: Path,
    *,
    names: list[str],
    models: list[str],
    selectors: list[str],
    sizes: list[str],
    parts: int,
    **limits: float,
) -> None:
    """Append a row for each part of the rows, size, table, model and selector that has none."""
    done = finished(out, ["part", "size", "table", "model", "selector"])
    read = [(name, *divided(X, y)) for name, X, y in tables(folder, names)]
    for part, size_name, (name, A, a, B, b) in itertools.product(range(parts), sizes, read):
        size = SIZES[size_name](A.shape[1])
        rows, _ = train_test_split(np.arange(len(A)), train_size=0.8, stratify=a, random_state=part)
        noisy = with_noise(A, 0)
        # In another order for each part: a selector may prefer the first of equal columns.
        order = np.random.default_rng(part).permutation(noisy.columns)
        train = noisy.iloc[rows][order].reset_index(drop=True)
        test = with_noise(B, 1)[order]
        for model_name, selector in itertools.product(models, selectors):
            if (part, size_name, name, model_name, selector) in done:
                continue
            make = MODELS[model_name]
            at, seconds = select(selector, make(), train, a[rows], size, **limits)
            columns = order[at]
            row = {
                "part": part,
                "size": size_name,
                "table": name,
                "model": model_name,
                "selector": selector,
                **measured(make(), at, seconds, (train, a[rows]), (test, b)),
                "real": np.mean([c in A for c in columns]).round(6) if len(columns) else np.nan,
                "columns": " ".join(sorted(columns)) if selector != "all columns" else "",
            }
            append(out, row)


def stability(columns: pd.Series, width: int) -> float:
    """Return the index of Nogueira et al. of selections among a number of columns."""
    chosen = [text.split() for text in columns.dropna()]
    every = sorted({name for names in chosen for name in names})
    if len(chosen) < 2 or not every:
        return np.nan
    masks = np.zeros((len(chosen), width), dtype=bool)
    for mask, names in zip(masks, chosen, strict=True):
        mask[: len(every)] = np.isin(every, names)
    return float(nogueira(masks).index)


def summary(out: Path) -> pd.DataFrame:
    """Return means over the tables by model, size and selector.

    A selector that has not finished some table has means of fewer, which are not comparable.
    """
    rows: list[dict[str, Any]] = []
    keys = ["model", "size", "selector", "table"]
    for key, part in pd.read_csv(out).groupby(keys):
        row: dict[str, Any] = dict(zip(keys, key, strict=True))
        row["tables"] = part["score"].notna().all()
        row |= part[["real", "score", "seconds"]].mean().to_dict()
        row["stability"] = stability(part["columns"], part["n_columns"].iloc[0])
        rows.append(row)
    by = pd.DataFrame(rows).groupby(keys[:3])
    means = by[["real", "score", "stability"]].mean() * 100
    found = pd.concat([by["tables"].sum(), means, by["seconds"].median()], axis=1).reset_index()
    return found.sort_values(["model", "size", "real"], ascending=[True, True, False])


def main() -> None:
    """Run or summarise."""
    options = with_selectors(parser(__doc__, MODELS))
    options.add_argument("--parts", type=int, default=5, help="parts of the training rows")
    carry_out(options, run, summary)


if __name__ == "__main__":
    main()
