"""Emotions: a multi-label data set with 72 audio features of songs."""

from __future__ import annotations

import argparse
import sys

import pandas as pd
from sklearn.model_selection import train_test_split

from swarm import MLkNN, SubsetSelector


def load(path: str | None) -> pd.DataFrame | None:
    """Read the table, whose labels begin with ``label_``; None if it is unavailable."""
    if path is not None:
        return pd.read_parquet(path)
    try:
        from sklearn.datasets import fetch_openml

        fetched = fetch_openml(data_id=41465, as_frame=True, parser="auto")
        labels = (fetched.target == "TRUE").astype(int).add_prefix("label_")
    except Exception as error:
        print(f"emotions is unavailable ({type(error).__name__}); pass a file with --data")
        return None
    return pd.concat([fetched.data.astype(float), labels], axis=1)


def main() -> None:
    """Compare two strategies on the same folds, then evaluate on unseen songs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="Parquet file whose labels begin with label_")
    parser.add_argument("--distinct", type=int, default=300, help="subsets for each search")
    given = parser.parse_args()
    table = load(given.data)
    if table is None:
        sys.exit(0)

    labels = [name for name in table if name.startswith("label_")]
    X, y = table.drop(columns=labels), table[labels]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    # ML-kNN depends on distances, so scale the columns.
    low, high = X_train.min(), X_train.max()
    X_train, X_test = (X_train - low) / (high - low), (X_test - low) / (high - low)

    model = MLkNN()
    exact = model.fit(X_train.to_numpy(), y_train.to_numpy()).predict(X_test.to_numpy())
    hits = (exact == y_test.to_numpy()).all(axis=1).mean()
    print(f"all {X.shape[1]} columns: every label right for {hits:.1%} of the unseen songs")
    for strategy in ("bpso", "mlaco"):
        budget = {"distinct": given.distinct}
        selector = SubsetSelector(
            model, strategy=strategy, scoring="subset_accuracy", budget=budget
        )
        kept = selector.fit(X_train, y_train).subset_
        model.fit(X_train[kept].to_numpy(), y_train.to_numpy())
        right = model.predict(X_test[kept].to_numpy()) == y_test.to_numpy()
        print(
            f"{strategy}: {len(kept)} columns, cost {selector.cost_:.3f} in the search,"
            f" every label right for {right.all(axis=1).mean():.1%}"
        )


if __name__ == "__main__":
    main()
