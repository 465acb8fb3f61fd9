"""Select from the 30 features of the breast cancer data set, and evaluate on unseen rows."""

from __future__ import annotations

from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from swarm import SubsetEnsemble, SubsetSelector


def main() -> None:
    """Select on three quarters of the rows, evaluate on the others."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = LGBMClassifier(n_estimators=30, num_leaves=8, random_state=0, verbosity=-1)

    # A second fit reuses all evaluations if archive="sqlite:///archive.db" is passed to both.
    selector = SubsetSelector(model, scoring="f1", budget=8, n_jobs=2, verbose=1)
    selector.fit(X_train, y_train)
    print(f"{len(selector.subset_)} of {X.shape[1]} columns, cost {selector.cost_:.4f}")
    print(selector.importances_.head(5).to_string())

    # Unseen rows: the cost above is optimistic, the scores below are not.
    subsets = selector.results_.nsmallest(5, "cost")["features"].map(list).tolist()
    judged = {
        "all columns": SubsetEnsemble(model, [list(X)], vote="hard"),
        "the best subset": SubsetEnsemble(model, [selector.subset_], vote="hard"),
        "the five best, by majority": SubsetEnsemble(model, subsets, vote="hard"),
    }
    # The smallest subset within one standard error; nothing is trained for it.
    selector.repick("parsimonious")
    small = f"within one standard error, {len(selector.subset_)} columns"
    judged[small] = SubsetEnsemble(model, [selector.subset_], vote="hard")
    for name, ensemble in judged.items():
        predicted = ensemble.fit(X_train, y_train).predict(X_test)
        print(f"{name:40} F1 {f1_score(y_test, predicted):.3f} on {len(X_test)} unseen rows")


if __name__ == "__main__":
    main()
