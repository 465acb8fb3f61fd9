"""Musk by molecule: rows that belong together stay together, and a cheaper model searches.

Each of 102 molecules has up to 1,044 rows, one for each shape that it can take. A random split
puts shapes of one molecule on both sides; the figures are then those of recognising a molecule
again. Here they hold for molecules never seen.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold, train_test_split

from swarm import SubsetEnsemble, SubsetSelector


def load(path: str | None) -> pd.DataFrame | None:
    """Read the table, from a file or from UCI; None where it cannot be had."""
    if path is not None:
        return pd.read_parquet(path)
    try:
        from ucimlrepo import fetch_ucirepo

        fetched = fetch_ucirepo(id=75).data
    except Exception as error:
        print(f"Musk is not to be had from UCI ({type(error).__name__}); give a file with --data")
        return None
    names = fetched.ids["molecule_name"].to_numpy()
    target = fetched.targets.iloc[:, 0].astype(int).to_numpy()
    return fetched.features.assign(group=names, target=target)


def main() -> None:
    """Select by molecule, judge by molecule, and show what a random split would have said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="Parquet file with the columns group, target and features")
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    table = load(given.data)
    if table is None:
        sys.exit(0)

    X = table.drop(columns=["group", "target"])
    y, molecule = table["target"], table["group"]
    # A molecule has one class: split the molecules, in proportion.
    first = table.drop_duplicates("group")
    train, _ = train_test_split(first["group"], stratify=first["target"], random_state=0)
    inside = molecule.isin(set(train)).to_numpy()

    model = LGBMClassifier(n_estimators=60, num_leaves=16, random_state=0, verbosity=-1)
    selector = SubsetSelector(
        model,
        scoring="f1",
        cv=StratifiedGroupKFold(3),
        epochs=given.epochs,
        # Fewer and larger steps rank subsets much as the model does; it has the last word.
        proxy={"n_estimators": 15, "learning_rate": 0.25, "max_bin": 63},
        strategy_params={"velocity_bound": 4.0},
        n_jobs=2,
        verbose=1,
    )
    selector.fit(X[inside], y[inside], groups=molecule[inside])
    print(f"{len(selector.subset_)} of {X.shape[1]} columns, cost {selector.cost_:.3f} by molecule")

    for name, columns in {"all columns": list(X), "the subset": selector.subset_}.items():
        fitted = SubsetEnsemble(model, [columns], vote="hard").fit(X[inside], y[inside])
        f1 = f1_score(y[~inside], fitted.predict(X[~inside]))
        print(f"{name:12} F1 {f1:.3f} on {molecule[~inside].nunique()} molecules never seen")

    shuffled = np.random.default_rng(0).random(len(X)) < inside.mean()
    leaky = SubsetEnsemble(model, [list(X)], vote="hard").fit(X[shuffled], y[shuffled])
    f1 = f1_score(y[~shuffled], leaky.predict(X[~shuffled]))
    print(f"a random split of rows would have said F1 {f1:.3f}, of molecules it knew")


if __name__ == "__main__":
    main()
