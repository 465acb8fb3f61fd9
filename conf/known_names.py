"""Names that every supported version of LightGBM and scikit-learn has.

Importing these packages takes two seconds of processor time. A configuration that uses only names
listed here is checked without them; any other name is checked against the installed packages.
"""

from __future__ import annotations

__all__ = ["LIGHTGBM_MODELS", "LIGHTGBM_PARAMETERS", "SCORERS"]

# Whether a model is a classifier. LightGBM checks the values of parameters in `fit` only.
LIGHTGBM_MODELS = {"lightgbm.LGBMClassifier": True, "lightgbm.LGBMRegressor": False}

LIGHTGBM_PARAMETERS = frozenset(
    {
        *("bagging_fraction", "bagging_freq", "boosting", "boosting_type", "cat_l2", "cat_smooth"),
        *("class_weight", "colsample_bytree", "deterministic", "extra_trees", "feature_fraction"),
        *("feature_fraction_bynode", "force_col_wise", "force_row_wise", "importance_type"),
        *("is_unbalance", "lambda_l1", "lambda_l2", "learning_rate", "linear_tree", "max_bin"),
        *("max_cat_threshold", "max_cat_to_onehot", "max_depth", "min_child_samples"),
        *("min_child_weight", "min_data_in_leaf", "min_gain_to_split", "min_split_gain"),
        *("min_sum_hessian_in_leaf", "n_estimators", "n_jobs", "num_iterations", "num_leaves"),
        *("num_threads", "objective", "path_smooth", "random_state", "reg_alpha", "reg_lambda"),
        *("scale_pos_weight", "seed", "subsample", "subsample_for_bin", "subsample_freq"),
        *("verbose", "verbosity"),
    }
)

SCORERS = frozenset(
    {
        *("accuracy", "average_precision", "balanced_accuracy", "f1", "f1_macro", "f1_micro"),
        *("f1_samples", "f1_weighted", "jaccard", "matthews_corrcoef"),
        *("neg_brier_score", "neg_hamming_loss", "neg_log_loss", "neg_mean_absolute_error"),
        *("neg_mean_absolute_percentage_error", "neg_mean_squared_error"),
        *("neg_median_absolute_error", "neg_root_mean_squared_error", "precision"),
        *("precision_macro", "precision_micro", "precision_weighted", "r2", "recall"),
        *("recall_macro", "recall_micro", "recall_weighted", "roc_auc", "roc_auc_ovo"),
        *("roc_auc_ovr", "subset_accuracy"),
    }
)
