"""Bad inputs: the table, the configuration, and the words that must tell what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.small_run import BAYES, OTHERS, table

__all__ = ["ARGUMENTS", "CONFIGURATIONS", "MODELS", "RUNS"]

NOWHERE = "http://127.0.0.1:9"
Frame = pd.DataFrame | None
Case = tuple[Frame, dict[str, Any], list[str]]


def changed(**columns: Any) -> pd.DataFrame:
    """The table with some columns replaced."""
    return table().assign(**columns)


def holed(name: str, most: int, value: Any = np.nan) -> pd.DataFrame:
    """The table with `value` in the first rows of a column."""
    frame = table()
    return frame.assign(**{name: frame[name].where(frame["when"] >= most, value)})


def without(*names: str) -> list[str]:
    """Columns that are no features, but for these."""
    return [name for name in OTHERS if name not in names]


def regressor(**params: Any) -> dict[str, Any]:
    return {"estimator": "lightgbm.LGBMRegressor", "params": {"n_estimators": 5, **params}}


def trees(**params: Any) -> dict[str, Any]:
    return {"estimator": "lightgbm.LGBMClassifier", "params": {"n_estimators": 5, **params}}


# Rows, split and folds of a target of numbers.
NUMBERS: dict[str, Any] = {
    "data": {"target": "number", "drop": [*OTHERS[1:], "y"]},
    "split": {"kind": "random"},
    "folds": {"kind": "random"},
}
HUGE = np.where(table()["x0"] > 0, 1e308, -1e308)
CELLS = [[1], [0]] * 60
NEIGHBOURS = "sklearn.neighbors.KNeighborsClassifier"
CUSTOMERS = {"source": "sql", "path": None, "url": "sqlite:///others.db", "target": "name"}


# Wrong by itself, whatever the data.
CONFIGURATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown section": ({"budgt": {"epochs": 3}}, ["budgt", "'budget'"]),
    "unknown key": ({"budget": {"epoch": 3}}, ["'budget.epoch'", "'budget.epochs'"]),
    "value of another kind": ({"budget": {"epochs": "many"}}, ["budget.epochs", "'many'"]),
    "value out of range": ({"split": {"test_size": 1.5}}, ["split.test_size", "1.5", "below 1"]),
    "no limit": ({"budget": {"epochs": None}}, ["budget", "set one", "budget.epochs"]),
    "no worker": ({"evaluation": {"n_jobs": 0}}, ["evaluation.n_jobs", "0", "at least 1 or -1"]),
    "unknown backend": ({"evaluation": {"backend": "luky"}}, ["'luky'", "loky"]),
    "timeout of nothing": ({"evaluation": {"timeout_seconds": 0}}, ["timeout_seconds", "above 0"]),
    "timeout without workers": (
        {"evaluation": {"timeout_seconds": 5, "backend": "threading"}},
        ["timeout_seconds 5", "'threading'", "'loky'"],
    ),
    "cluster address without a cluster": (
        {"evaluation": {"address": "tcp://h:1"}},
        ["evaluation.address", "'tcp://h:1'", "dask and ray"],
    ),
    "unknown source": ({"data": {"source": "fil"}}, ["data.source", "'fil'", "file"]),
    "unknown strategy": (
        {"strategy": {"name": "multiswram", "params": {}}},
        ["multiswram", "multiswarm, ", "did you mean 'multiswarm'"],
    ),
    "unknown parameter of the strategy": (
        {"strategy": {"params": {"n_particle": 4}}},
        ["'n_particle'", "did you mean 'n_particles'"],
    ),
    "parameter of the strategy out of range": (
        {"strategy": {"params": {"velocity_bound": -1.0}}},
        ["velocity_bound", "> 0", "-1.0"],
    ),
    "unknown scorer": ({"scoring": "acuracy"}, ["acuracy", "balanced_accuracy, ", "'accuracy'"]),
    "unknown metric": ({"test": {"metrics": ["f1_macr"]}}, ["test.metrics", "'f1_macro'"]),
    "estimator outside the allowed modules": (
        {"model": {"estimator": "os.path.join"}},
        ["os.path.join", "sklearn, lightgbm, swarm", "model.allow"],
    ),
    "estimator that does not exist": (
        {"model": {"estimator": "lightgbm.LGBMClasifier"}},
        ["LGBMClasifier", "'LGBMClassifier'"],
    ),
    "estimator that cannot be imported": (
        {"model": {"estimator": "sklearn.nope.X"}},
        ["'sklearn.nope.X'", "cannot be imported", "correct the path"],
    ),
    "estimator that predicts nothing": (
        {"model": {"estimator": "sklearn.decomposition.PCA"}},
        ["sklearn.decomposition.PCA", "predict"],
    ),
    "unknown parameter of the estimator": (
        {"model": {**BAYES, "params": {"var_smothing": 1e-9}}},
        ["var_smothing", "did you mean 'var_smoothing'"],
    ),
    "refused parameter of the estimator": (
        {"model": {**BAYES, "params": {"var_smoothing": -1.0}}},
        ["model.params.var_smoothing", "-1.0"],
    ),
    "feature both fixed and forbidden": (
        {"space": {"fixed": ["x1"], "forbidden": ["x1"]}},
        ["space.fixed", "space.forbidden", "'x1'", "remove it"],
    ),
    "smallest size above the largest": (
        {"space": {"min_size": 5, "max_size": 2}},
        ["space.max_size", "space.min_size", "5", "2"],
    ),
    "split by groups without a group": ({"split": {"kind": "group"}}, ["split.kind", "data.group"]),
    "folds by time without a time": ({"folds": {"kind": "time"}}, ["folds.kind", "data.time"]),
    "one fold": ({"folds": {"n_folds": 1}}, ["folds.n_folds", "1", "at least 2"]),
    "column with two roles": ({"data": {"group": "y"}}, ["'y'", "data.target", "data.group"]),
    "strata of numbers": (
        {"model": regressor()},
        ["stratified", "regressor", "'random'"],
    ),
    "more resamples than any memory": (
        {"test": {"bootstrap": 10**9}},
        ["test.bootstrap", "1000000000", "at most 100000"],
    ),
    "more random subsets than any time": (
        {"test": {"random_subsets": 10**6}},
        ["test.random_subsets", "1000000", "at most 1000"],
    ),
    "more epochs than a number holds": (
        {"budget": {"epochs": 10**30}},
        ["budget.epochs", "at most 1000000000"],
    ),
    "more workers than any machine": (
        {"evaluation": {"n_jobs": 10**6}},
        ["evaluation.n_jobs", "1000000", "at most 1024"],
    ),
    "timeout beyond the clock": (
        {"evaluation": {"timeout_seconds": 1e30}},
        ["evaluation.timeout_seconds", "at most 604800"],
    ),
    "more particles than any memory": (
        {"strategy": {"params": {"n_particles": 10**9, "n_swarms": 1}}},
        ["n_particles", "<= 100000", "1000000000"],
    ),
    "unknown parameter of LightGBM": (
        {"model": trees(num_leavs=4)},
        ["'model.params.num_leavs'", "lightgbm.LGBMClassifier", "did you mean 'num_leaves'"],
    ),
    "unknown parameter of LightGBM like no other": (
        {"model": trees(zzz=4)},
        ["'model.params.zzz'", "known are", "LightGBM"],
    ),
    "vote that does not suit": (
        {"ensemble": {"vote": "mean"}},
        ["ensemble.vote 'mean'", "LGBMClassifier", "'hard'"],
    ),
    "password in an address": (
        {"tracking": {"uri": "http://ann:s3cret@h:5000"}},
        ["tracking.uri", "${NAME}"],
    ),
}

# Seen only with the table, the archive or the tracking store at hand.
RUNS: dict[str, Case] = {
    "no such file": (None, {"data": {"path": "no/such.csv"}}, ["no/such.csv", "no such file"]),
    "file of another kind": (None, {"data": {"path": "notes.docx"}}, ["notes.docx", ".csv"]),
    "file that is none": (None, {"data": {"path": "broken.parquet"}}, ["broken.parquet", "check"]),
    "file without rows": (table().head(0), {}, ["table.csv", "no rows"]),
    "unknown column": (None, {"data": {"drop": [*OTHERS, "x9"]}}, ["'x9'", "drop"]),
    "unknown target": (None, {"data": {"target": "Y"}}, ["target", "'Y'", "the columns are 'x0'"]),
    "target with gaps": (holed("y", 3), {}, ["target 'y'", "missing in 3 of 120 rows"]),
    "constant target": (changed(y=1), {}, ["target 'y'", "constant", "choose another"]),
    "infinite target": (
        holed("number", 2, np.inf),
        {
            "data": {"target": "number", "drop": [*without("number"), "y"]},
            "model": regressor(),
            "split": {"kind": "random"},
            "folds": {"kind": "random"},
        },
        ["target 'number'", "2 infinite values"],
    ),
    "classifier of numbers": (
        None,
        {
            "data": {"target": "number", "drop": [*without("number"), "y"]},
            "split": {"kind": "random"},
            "folds": {"kind": "random"},
        },
        ["'number'", "LGBMClassifier"],
    ),
    "one class in a fold": (
        changed(y=(table()["fold"] == 0).astype(int)),
        {"data": {"drop": without("fold")}, "folds": {"kind": "column", "column": "fold"}},
        ["fold 0", "single class", "stratified"],
    ),
    "class smaller than the folds": (
        changed(y=(table()["when"] < 3).astype(int)),
        {},
        ["class 1", "2 rows", "3 folds", "use fewer folds"],
    ),
    "class of a single row": (
        changed(y=(table()["when"] < 1).astype(int)),
        {},
        ["class 1", "single row", "drop it"],
    ),
    "fewer rows than folds": (
        table().head(8),
        {"folds": {"kind": "random", "n_folds": 10}, "split": {"kind": "random"}},
        ["6 rows", "10 folds", "use fewer folds"],
    ),
    "fewer groups than folds": (
        changed(who=np.where(table()["when"] < 60, "a", "b")),
        {
            "data": {"group": "who", "drop": without("who")},
            "split": {"kind": "random"},
            "folds": {"kind": "group", "n_folds": 3},
        },
        ["2 groups", "3 folds"],
    ),
    "split by one group": (
        changed(who="a"),
        {"data": {"group": "who", "drop": without("who")}, "split": {"kind": "group"}},
        ["'who'", "two groups"],
    ),
    "one moment in time": (
        changed(when=1),
        {"data": {"time": "when", "drop": without("when")}, "split": {"kind": "time"}},
        ["'when'", "two times"],
    ),
    "side that is none": (
        changed(side="left"),
        {"data": {"part": "side", "drop": without("side")}, "split": {"kind": "column"}},
        ["'side'", "'left'", "'train' or 'test'"],
    ),
    "weights of nothing in a fold": (
        changed(number=[1.0, *[0.0] * 119], side=["train"] * 90 + ["test"] * 30),
        {
            "data": {"weight": "number", "part": "side", "drop": without("number", "side")},
            "split": {"kind": "column"},
        },
        ["training row of fold", "sample weight 0", "1 of 90 rows", "other folds"],
    ),
    "weights without a sum": (
        changed(number=1e308),
        {"data": {"weight": "number", "drop": without("number")}},
        ["weight", "1e+308", "float32", "divide all weights by their mean"],
    ),
    "negative weight": (
        changed(number=-1.0),
        {"data": {"weight": "number", "drop": without("number")}},
        ["weight", "'number'", "negative", "120 rows"],
    ),
    "duplicate column names": (
        pd.concat([table(), table()[["x0"]]], axis=1),
        {},
        ["duplicate", "'x0'", "give each column its own name"],
    ),
    "column of text": (changed(x4="a"), {"model": BAYES}, ["'x4'", "str values"]),
    "column of text for LightGBM": (changed(x4="a"), {}, ["'x4'", "categorical"]),
    "missing values": (holed("x4", 40), {"model": BAYES}, ["'x4'", "missing", "GaussianNB"]),
    "infinite values": (holed("x3", 5, np.inf), {}, ["'x3'", "infinite", "replace or drop"]),
    "value beyond any square": (
        changed(x3=HUGE),
        {"model": BAYES},
        ["'x3'", "1e+308", "float32", "rescale the column, clip it or drop it"],
    ),
    "value beyond any square, scaled": (
        changed(x3=HUGE),
        {"model": {**BAYES, "scaling": "standard"}},
        ["'x3'", "1e+308", "float32"],
    ),
    "value beyond float32": (
        changed(x3=np.where(table()["x0"] > 0, 1e39, 1.0)),
        {"model": {"estimator": "sklearn.tree.DecisionTreeClassifier"}},
        ["'x3'", "1e+39", "float32"],
    ),
    "target beyond any square": (
        changed(number=HUGE),
        {**NUMBERS, "model": regressor()},
        ["target", "1e+308", "float32", "take logarithms"],
    ),
    "target of lists": (
        changed(y=CELLS),
        {"data": {"path": "table.parquet"}},
        ["target column 'y'", "[1]", "row 0", "one value per row"],
    ),
    "group of lists": (
        changed(who=CELLS),
        {"data": {"path": "table.parquet", "group": "who", "drop": without("who")}},
        ["group column 'who'", "several values in one cell"],
    ),
    "category of lists": (
        changed(x3=CELLS),
        {"data": {"path": "table.parquet", "categorical": ["x3"]}},
        ["categorical column 'x3'", "several values in one cell"],
    ),
    "column without a name": (
        table().rename(columns={"x3": ""}),
        {"data": {"path": "table.parquet"}},
        ["column 4", "table.parquet", "has no name", "give it one"],
    ),
    "pipe in place of a file": (
        None,
        {"data": {"path": "pipe.csv"}},
        ["pipe.csv", "a pipe", "write its rows to a file"],
    ),
    "column without a value": (changed(x5=np.nan), {}, ["'x5'", "no value", "drop it"]),
    "nothing to choose from": (
        None,
        {"data": {"drop": [*OTHERS, *(f"x{i}" for i in range(8))]}},
        ["no features are left", "drop fewer"],
    ),
    "largest size above the columns": (None, {"space": {"max_size": 9}}, ["max_size 9", "8"]),
    "as many features as there are not": (
        None,
        {"strategy": {"name": "sfs", "params": {"size": 9}}},
        ["size", "9", "8"],
    ),
    "unknown feature": (None, {"space": {"fixed": ["x9"]}}, ["fixed", "'x9'"]),
    "everything forbidden": (
        None,
        {"space": {"forbidden": [f"x{i}" for i in range(8)]}},
        ["every feature is forbidden", "allow"],
    ),
    "more fixed than allowed": (
        None,
        {"space": {"fixed": ["x0", "x1"], "max_size": 1}},
        ["2 units are fixed", "max_size is 1"],
    ),
    "fixed set that splits a group": (
        None,
        {"space": {"groups": {"pair": ["x0", "x1"]}, "fixed": ["x0"]}},
        ["fixed", "'pair'", "'x1'", "name the whole group"],
    ),
    "feature in two groups": (
        None,
        {"space": {"groups": {"a": ["x0", "x1"], "b": ["x1", "x2"]}}},
        ["'x1'", "'a'", "'b'", "leave it in one"],
    ),
    "importance of a model that has none": (
        None,
        {"model": BAYES, "evaluation": {"importance": "fold"}},
        ["'fold'", "GaussianNB", "permutation"],
    ),
    "positive label that is no class": (
        None,
        {"pos_label": 7, "scoring": "recall"},
        ["pos_label", "7"],
    ),
    "numbers to split by class": (
        None,
        {"data": {"target": "number", "drop": [*without("number"), "y"]}},
        ["split 'stratified'", "regression", "use 'random'"],
    ),
    "scorer of classes for numbers": (
        None,
        {
            "data": {"target": "number", "drop": [*without("number"), "y"]},
            "model": regressor(),
            "split": {"kind": "random"},
            "folds": {"kind": "random"},
            "scoring": "accuracy",
        },
        ["'accuracy'", "regression", "'r2'"],
    ),
    "ranking of two classes for three": (
        None,
        {
            "data": {"target": "kind", "drop": [*without("kind"), "y"]},
            "scoring": "roc_auc",
        },
        ["'roc_auc'", "multiclass", "'roc_auc_ovr'"],
    ),
    "scorer of two classes for three": (
        None,
        {
            "data": {"target": "kind", "drop": [*without("kind"), "y"]},
            "scoring": "f1",
        },
        ["'f1'", "two classes", "multiclass", "'f1_macro'"],
    ),
    "variable that is not set": (
        None,
        {"archive": {"url": "sqlite:///${NOT_SET_ANYWHERE}/a.db"}},
        ["'NOT_SET_ANYWHERE'", "archive", "set it"],
    ),
    "archive that needs a driver or a server": (
        None,
        {"archive": {"url": "postgresql+psycopg://ann:${DB_SECRET}@127.0.0.1:9/db"}},
        ["archive", "postgresql", "***"],
    ),
    "archive in a place that cannot be made": (
        None,
        {"archive": {"url": "sqlite:////dev/null/archive.db"}},
        ["archive", "/dev/null", "writable"],
    ),
    "archive of another kind": (None, {"archive": {"url": "mysql://h/db"}}, ["'mysql'", "SQLite"]),
    "archive that is no database": (
        None,
        {"archive": {"url": "sqlite:///broken.parquet"}},
        ["broken.parquet", "not a database"],
    ),
    "archive of something else": (
        None,
        {"archive": {"url": "sqlite:///others.db"}},
        ["others.db", "'customers'", "another archive"],
    ),
    "database of rows out of reach": (
        None,
        {"data": {"source": "sql", "path": None, "url": "sqlite:///none.db", "query": "select 1"}},
        ["none.db", "check the URL"],
    ),
    "query that deletes": (
        None,
        {"data": {**CUSTOMERS, "query": "delete from customers returning name"}},
        ["others.db", "readonly", "may only read"],
    ),
    "query that updates": (
        None,
        {"data": {**CUSTOMERS, "query": "update customers set name = 'x'"}},
        ["others.db", "readonly", "may only read"],
    ),
    "query that makes a file": (
        None,
        {"data": {**CUSTOMERS, "query": "attach database 'made.db' as made"}},
        ["others.db", "not authorized", "may only read"],
    ),
    "query that fails": (
        None,
        {"data": {"source": "sql", "path": None, "url": "sqlite:///others.db", "query": "selec 1"}},
        ["others.db", "syntax error"],
    ),
    "artifacts in a file": (
        None,
        {"tracking": {"artifacts": "broken.parquet"}},
        ["artifacts", "broken.parquet", "it is a file", "tracking.artifacts"],
    ),
    "tracking server that is away": (
        None,
        {"tracking": {"uri": NOWHERE}},
        [NOWHERE, "check that it runs"],
    ),
    "tracking in a plain folder": (None, {"tracking": {"uri": "mlruns"}}, ["mlruns", "sqlite:///"]),
    "tracking in a file of another kind": (
        None,
        {"tracking": {"uri": "sqlite:///broken.parquet"}},
        ["broken.parquet", "not a database"],
    ),
}

# Refused by the model or the scorer themselves, once they are tried.
MODELS: dict[str, Case] = {
    "one leaf": (
        None,
        {"model": trees(num_leaves=1)},
        ["LGBMClassifier cannot be fitted", "56 training rows", "all 8 features", "num_leaves"],
    ),
    "fewer than no trees": (
        None,
        {"model": trees(n_estimators=-5)},
        ["LGBMClassifier cannot be fitted", "greater than 0", "correct model.params"],
    ),
    "unknown objective": (
        None,
        {"model": trees(objective="nonsense")},
        ["LGBMClassifier cannot be fitted", "nonsense"],
    ),
    "more neighbours than rows": (
        None,
        {"model": {"estimator": NEIGHBOURS, "params": {"n_neighbors": 1000}}},
        ["KNeighborsClassifier", "n_neighbors = 1000", "choose another"],
    ),
    "negative counts": (
        None,
        {"model": {"estimator": "sklearn.naive_bayes.MultinomialNB"}},
        ["MultinomialNB cannot be fitted", "Negative values"],
    ),
    "regressor of words": (
        changed(y=np.where(table()["y"] == 1, "yes", "no")),
        {"model": regressor(), "split": {"kind": "random"}, "folds": {"kind": "random"}},
        ["LGBMRegressor", "choose another model"],
    ),
    "scorer of probabilities that there are not": (
        None,
        {
            "model": {"estimator": "sklearn.linear_model.RidgeClassifier"},
            "scoring": "neg_log_loss",
        },
        ["'neg_log_loss'", "RidgeClassifier", "predict_proba", "choose another scorer"],
    ),
    "logarithm of negative numbers": (
        None,
        {**NUMBERS, "model": regressor(), "scoring": "neg_mean_squared_log_error"},
        ["'neg_mean_squared_log_error'", "LGBMRegressor", "choose another scorer"],
    ),
    "one model of several labels": (
        changed(number=1 - table()["y"]),
        {"data": {"target": ["y", "number"], "drop": OTHERS[1:]}, "split": {"kind": "random"}},
        ["LGBMClassifier cannot be fitted", "choose another model"],
    ),
    "cheaper model that cannot be": (
        None,
        {"proxy": {"params": {"num_leaves": 1}}},
        ["LGBMClassifier cannot be fitted", "num_leaves"],
    ),
}

ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "override of an unknown key": (
        ["default", "--set", "budget.epoch=3"],
        ["--set budget.epoch", "'budget.epochs'"],
    ),
    "override of another kind": (
        ["default", "--set", "budget.epochs=none"],
        ["budget.epochs", "'none'"],
    ),
    "override without a value": (["default", "--set", "budget.epochs"], ["section.key=value"]),
    "misspelt configuration": (["defualt"], ["defualt", "did you mean 'default'"]),
    "missing configuration": (["missing/conf.yaml"], ["missing/conf.yaml"]),
    "folder": (["."], ["'.'"]),
    "no YAML": (["no.yaml"], ["no.yaml", "YAML"]),
    "no text": (["binary.yaml"], ["binary.yaml", "UTF-8"]),
    "no mapping": (["list.yaml"], ["list.yaml", "mapping", "list"]),
    "empty": (["empty.yaml"], ["empty.yaml", "nothing"]),
    "comparison": (["compare"], ["comparison", "swarm compare"]),
}
