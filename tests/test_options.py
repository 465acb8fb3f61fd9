"""Options that mean nothing or do not go together are refused in one sentence before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from conf.check import check, problems_of
from conf.schema import CompareConfig
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, SpaceError
from swarm.evaluation.crossval import CrossValidation
from swarm.strategies.bpso import BinaryPso
from tests.selecting import WINE
from tests.small_run import Bench

SFS = {"strategy": {"name": "sfs", "params": {}}}
MODEL = {"estimator": "lightgbm.LGBMClassifier", "search": {"num_leaves": [2, 4]}}
GRID = {"max_depth": [1, 4]}


def stepped(**step: Any) -> dict[str, Any]:
    return {"model": {"estimator": "sklearn.linear_model.LogisticRegression", "steps": [step]}}


def timed(**sections: Any) -> dict[str, Any]:
    """Keys of a run whose rows have a time, and that is split by it."""
    data = {"time": "when", "drop": ["number", "kind", "who", "side", "fold"]}
    data |= sections.pop("data", {})
    return {"data": data, "split": {"kind": "time"}, **sections}


IMPUTER = "sklearn.impute.SimpleImputer"
STOP = {"rounds": 3, "share": 0.25}
SECTIONS: list[tuple[dict[str, Any], str]] = [
    # What does not go together.
    ({**SFS, "warm": {"subsets": [["x0"]]}}, "'sfs' takes no warm start"),
    ({"model": MODEL, "folds": {"repeats": 2, "rotate": 2}}, "rotate to 0, or remove model"),
    ({"model": MODEL, "proxy": {"params": {"n_estimators": 2}}}, "the proxy, or model.search"),
    ({"budget": {"epochs": 2, "rows": "auto"}, "folds": {"repeats": 2}}, "budget.rows to null"),
    ({"evaluation": {"asynchronous": True, "racing": 0.1}}, "racing 0.1 compares subsets"),
    (
        {"folds": {"repeats": 2, "rotate": 2}, "budget": {"epochs": 4, "noise_floor": 2}},
        "noise_floor 2 compares",
    ),
    (
        {"folds": {"repeats": 2, "rotate": 2}, "evaluation": {"importance": "refit"}},
        "importance 'refit' needs",
    ),
    # Folds and times.
    (timed(folds={"kind": "time", "repeats": 2}), "folds.repeats 2 needs folds that depend on a"),
    ({"folds": {"kind": "column", "column": "fold", "repeats": 2}}, "got kind 'column'"),
    ({"folds": {"shuffle": False, "repeats": 2}}, "got shuffle false"),
    ({"folds": {"rotate": 2}}, "folds.rotate 2 changes the fold partition, but there is only one"),
    (timed(folds={"kind": "stratified", "gap": 3}), "folds.gap 3 is for folds of kind 'time'"),
    (timed(folds={"embargo": 3}), "folds.embargo 3 is for folds of kind 'purged', got kind"),
    (timed(folds={"repeats": 2}), "folds.kind 'auto' is 'time' here"),
    (timed(folds={"kind": "purged", "repeats": 2}), "folds.repeats 2 needs folds that"),
    (timed(split={"kind": "random", "gap": 3}), "split.gap 3 is for split kind 'time'"),
    (timed(data={"horizon": "when"}), "'when' is both data.time and data.horizon"),
    ({"data": {"horizon": 3}}, "data.horizon 3 needs the order of the rows"),
    # Models, and their settings and steps.
    (
        {"model": {**MODEL, "search": {"num_leavs": [2, 4]}}},
        "unknown parameter 'model.search.num_leavs' of lightgbm.LGBMClassifier; "
        "did you mean 'num_leaves'?",
    ),
    (
        {"model": {**stepped()["model"], "steps": [], "search": {"C": [1.0, -1.0]}}},
        "model.search.C must be",
    ),
    (
        stepped(transformer="sklearn.decomposition.PCA"),
        "model.steps.0.transformer 'sklearn.decomposition.PCA' is not supported as a step;"
        " known are sklearn.impute.SimpleImputer,",
    ),
    (
        stepped(transformer="sklearn.impute.SimpleImputr"),
        "is not supported as a step; did you mean 'sklearn.impute.SimpleImputer'",
    ),
    (
        stepped(transformer=IMPUTER, params={"stratgy": "median"}),
        "unknown parameter 'model.steps.0.params.stratgy' of sklearn.impute.SimpleImputer",
    ),
    (
        stepped(transformer=IMPUTER, params={"strategy": "middle"}),
        "model.steps.0.params.strategy must be a str among",
    ),
    (
        {"model": {"estimator": "sklearn.naive_bayes.GaussianNB", "early_stopping": STOP}},
        "model.early_stopping supports LightGBM and scikit-learn's HistGradientBoosting, got "
        "sklearn.naive_bayes.GaussianNB; set it to null",
    ),
    (
        {
            "model": {
                "estimator": "lightgbm.LGBMClassifier",
                "params": {"early_stopping_rounds": 5},
                "early_stopping": STOP,
            }
        },
        "model.params.early_stopping_rounds is set by model.early_stopping too",
    ),
]


@pytest.mark.parametrize(("sections", "words"), SECTIONS, ids=[words for _, words in SECTIONS])
def test_the_keys_of_a_configuration_are_checked(
    sections: dict[str, Any], words: str, bench: Bench
) -> None:
    try:
        (told,) = problems_of(bench.config(**sections))
    except ConfigError as error:
        told = str(error)
    assert words in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"budget": {"epochs": 2, "rows": "auto"}}, "comparisons compare evaluations on all"),
        ({"evaluation": {"asynchronous": True}}, "comparisons compare strategies alone"),
        ({"model": MODEL}, r"model\.search chooses settings .* remove it"),
    ],
)
def test_comparisons_refuse_what_makes_searches_differ(
    sections: dict[str, Any], words: str
) -> None:
    given = {"name": "a", "strategies": {"random": {}}, **sections}
    given["datasets"] = {"a": {"data": {"source": "bundled", "name": "wine"}}}
    with pytest.raises(ConfigError, match=words):
        check(CompareConfig.model_validate(given))


TREE = {"estimator": DecisionTreeClassifier()}
TUNED = {**TREE, "param_grid": GRID}
FOUR = {**TREE, "param_grid": {**GRID, "min_samples_leaf": [1, 8]}}
TWICE = {"repeats": 2, "rotate": 2}
AGAIN = "repeats=2 needs folds that can be drawn again"
PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())
FORWARD = {"strategy": "sfs"}
NO_SCORER = "the name of one scorer or a callable"
NO_WARM = "warm must be a file, masks or lists of features, got"
NO_FITS = "divides the budget, which limits neither epochs nor fits; set epochs, distinct or fits"
FEW_FITS = (
    "the budget allows about 20 subsets, too few to compare 4 settings of the model and to search "
    "with one of them; give fewer values, or allow 32 subsets or more"
)
NO_SETTINGS = "the settings must be lists of values by parameter"
# " ... " stands for words that are left out.
REFUSED: dict[type[Exception], list[tuple[dict[str, Any], str]]] = {
    ConfigError: [
        # What does not go together.
        ({**TUNED, "strategy": "sfs"}, "cannot start from given subsets, ... pass param_grid=None"),
        ({**TUNED, **TWICE}, "the same folds, which rotate 2 changes ... or pass param_grid=None"),
        ({**TUNED, "proxy": GaussianNB()}, "pass proxy=None or param_grid=None"),
        ({**TUNED, "rows": 24}, "settings of the model are compared on all ... rows to None"),
        ({"rows": 50, "strategy": "sfs"}, "rows 50 leaves most subsets without a cost ... to None"),
        ({"rows": "auto", "repeats": 2}, "rows 'auto' selects the ... to 1, or rows to None"),
        ({"rows": 50, "proxy": {}}, "and a proxy on a cheaper model; ... or set rows to None"),
        *(
            (
                {"asynchronous": True, "strategy": name},
                f"which {name!r} does not support; use one of ant_colony ... asynchronous to False",
            )
            for name in ("sfs", "erfs")
        ),
        *(
            ({"asynchronous": True, **options}, f"{words} ... or asynchronous to False")
            for options, words in (
                ({"racing": 0.1}, "racing 0.1 compares subsets with incumbents"),
                ({"repeats": 2}, "repeats 2 evaluates an epoch on one fold partition"),
                ({"rows": 50}, "rows 50 selects the subsets of an epoch"),
            )
        ),
        ({"warm": [["ash"]], "strategy": "sfs"}, "strategy 'sfs' takes no warm start"),
        ({"rotate": 2}, "rotate 2 changes ... only one; set repeats to 2 or more, or rotate to 0"),
        ({**TWICE, "strategy": "sffs"}, "which 'sffs' does not support; ... or set rotate to 0"),
        ({**TWICE, "racing": 0.1}, "racing 0.1 has no costs"),
        ({**TWICE, "noise_floor": 3}, "the folds, over which noise_floor 3 compares"),
        ({**TREE, **TWICE, "importance": "refit"}, "importance 'refit' needs"),
        ({"size": 4, "max_size": 5}, "size 4 and min_size or max_size are both given"),
        ({"size": "parsimonious"}, "use pick='parsimonious'"),
        ({"size": "auto"}, "'multiswarm' does not support size 'auto'"),
        ({**FORWARD, "size": 3, "strategy_params": {"size": 4}}, "size is given twice"),
        ({**FORWARD, "strategy_params": {"tol": 0.1}}, "tol requires size 'auto', got size"),
        ({"repeats": 2, "cv": GroupKFold(3)}, AGAIN),
        ({"repeats": 2, "cv": KFold(3)}, AGAIN),
        ({"repeats": 2, "cv": 0}, AGAIN),
        ({"repeats": 2, "cv": [(np.arange(90), np.arange(90, 178))]}, AGAIN),
        ({**TUNED, "epochs": "auto", "seconds": 5.0}, NO_FITS),
        ({**FOUR, "epochs": "auto", "fits": 60}, FEW_FITS),
        # What one of them cannot be.
        ({"estimator": GaussianNB}, "must be an object with fit"),
        ({"strategy": "multiswam"}, "did you mean 'multiswarm'"),
        ({"strategy": BinaryPso}, "got the class BinaryPso; pass BinaryPso(...)"),
        ({"strategy": object()}, "derived from swarm.Strategy, got <object"),
        ({"strategy": None}, "got None"),
        ({"strategy_params": {"particles": 3}}, "'particles'"),
        ({"strategy_params": [1]}, "strategy_params must be a mapping"),
        ({"n_clusters": 99}, "n_clusters must be from 1 to 13, the number of units"),
        ({"random_state": np.random.RandomState(0)}, "random_state must be an int"),
        ({"random_state": -1}, "random_state must be at least 0"),
        ({"n_jobs": "2"}, "n_jobs must be a whole number"),
        ({"epochs": None}, "the budget has no limit"),
        ({"epochs": "many"}, "epochs must be a whole number, 'auto' or None, got 'many'"),
        ({"cv": iter([])}, "would exhaust; pass list(cv)"),
        ({"size": 0}, "size must be >= 1, got 0"),
        ({"size": (5, 3)}, "min <= max"),
        ({**FORWARD, "size": "most"}, "'auto', 'best' or 'parsimonious', got 'most'"),
        ({**FORWARD, "size": "auto", "strategy_params": {"tol": -1}}, "tol must be > 0"),
        ({**FORWARD, "size": "auto", "strategy_params": {"tol": "x"}}, "tol must be a number"),
        ({"pick": "kneel"}, "did you mean 'knee'"),
        ({"proxy": {"var_smothing": 1}}, "proxy: Invalid parameter 'var_smothing'"),
        ({"confirm": {"best": 0}}, "confirm: best must be >= 1"),
        ({"asynchronous": "yes"}, "asynchronous must be True or False, got 'yes'"),
        ({"callbacks": ["bar"]}, "pass scikit-learn callbacks to set_callbacks"),
        ({"callbacks": print}, "callbacks must be a sequence"),
        ({"scoring": ["accuracy", "f1_macro"]}, NO_SCORER),
        ({"scoring": {"a": "accuracy"}}, NO_SCORER),
        ({"scoring": 3}, NO_SCORER),
        ({"scoring": f1_score}, "make_scorer(f1_score)"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
        ({"repeats": 2, "rotate": -1}, "rotate must be a whole number of at least 0, got -1"),
        ({"rows": 90}, "rows 90 is more than half of the 178 training rows"),
        ({"rows": 3}, "rows 3 is too few for the folds"),
        ({"rows": 0}, "rows must be a whole number of at least 1, 'auto' or None, got 0"),
        ({"rows": "some"}, "got 'some'"),
        ({"prefilter": "yes"}, "must be True, False, 'auto' or a mapping of options, got 'yes'"),
        ({"prefilter": {"most": 3}}, "unknown option 'most' of prefilter"),
        ({"prefilter": {"least": 0}}, "prefilter least must be >= 1, got 0"),
        ({"prefilter": {"when": "never"}}, "when must be one of 'always', 'auto', got 'never'"),
        ({"warm": [["prolin"]]}, "warm names an unknown feature 'prolin'; did you mean 'proline'?"),
        ({"warm": [[99]]}, "warm has the position 99 but there are 13 columns"),
        ({"warm": [[True, False]]}, "warm has a mask of length 2 but there are 13 columns"),
        ({"warm": ["proline"]}, f"{NO_WARM} 'proline' in it"),
        ({"warm": [[]]}, "warm has no subset of the features of X"),
        ({"warm": 7}, f"{NO_WARM} 7"),
        (
            {**TREE, "param_grid": {"max_dept": [1]}},
            "param_grid names an unknown parameter 'max_dept' of DecisionTreeClassifier; "
            "did you mean 'max_depth'?",
        ),
        (
            {"estimator": PIPELINE, "param_grid": {"C": [1.0]}},
            "param_grid names an unknown parameter 'C' of Pipeline; "
            "did you mean 'logisticregression__C'?",
        ),
        ({**TREE, "param_grid": {"max_depth": 3}}, NO_SETTINGS),
        ({**TREE, "param_grid": {"max_depth": []}}, NO_SETTINGS),
        ({**TREE, "param_grid": {}}, "there are no settings to choose from"),
    ],
    ValueError: [
        *(({"racing": chance}, f"racing must be < 0.5, got {chance}") for chance in (0.5, 2)),
        ({"racing": 0}, "racing must be > 0, got 0"),
        ({"racing": True}, "racing must be a number, got True"),
    ],
    DataError: [({"cv": 200}, "178 rows cannot make 200 folds")],
    SpaceError: [
        ({"max_size": 14}, "max_size 14 is above the 13 units"),
        ({"fixed": ["asch"]}, "did you mean 'ash'"),
        ({"fixed": [13]}, "fixed has the position 13 but there are 13 columns"),
        ({"fixed": [-1]}, "fixed has the position -1"),
        ({"fixed": [True]}, "fixed must name features or their positions, got True"),
        ({"fixed": [1.5]}, "fixed must name features or their positions, got 1.5"),
        ({"fixed": "ash"}, "fixed must be a list of features, got 'ash'"),
        ({"fixed": 1}, "fixed must be a list of features, got 1"),
        ({"groups": [["ash", 99]]}, "group 0 has the position 99"),
        ({"groups": {"two": 1}}, "group 'two' must be a list of features, got 1"),
        ({"groups": 3}, "groups must be a mapping or a list of lists, got 3"),
        ({"groups": [[0, 1], [1, 2]]}, "'malic_acid' is in the groups"),
        ({"groups": [[1, 2], [1, 2]]}, "group 'malic_acid+ash' is given twice"),
        ({"groups": [[]]}, "group '0' has no feature"),
    ],
}


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [(error, *case) for error, cases in REFUSED.items() for case in cases],
    ids=[words for cases in REFUSED.values() for _, words in cases],
)
def test_a_selector_refuses_in_the_words_of_its_arguments(
    error: type[Exception], options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a model was trained")

    monkeypatch.setattr(CrossValidation, "evaluate", never)
    selector = SubsetSelector(**{"estimator": GaussianNB(), "cv": 3, "epochs": 20, **options})
    with pytest.raises(error) as caught:
        selector.fit(*WINE)
    others = str(caught.value)
    for part in words.split(" ... "):
        assert part in others
        others = others.replace(part, "")
    assert not any(key in others for key in ("\n", "evaluation.", "budget", "model.search"))
