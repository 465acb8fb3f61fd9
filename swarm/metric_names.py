"""Names of metrics: those of scorers, of results, and those that people read."""

from __future__ import annotations


def natural_name(scorer: str) -> str:
    """Return the name of the metric of a scorer."""
    return scorer.removeprefix("neg_")


def tested_metric(metric: str, task: str) -> str:
    """Return the metric on test rows of that of a scorer.

    Of several labels, scikit-learn's accuracy is the share of rows with all labels correct.
    """
    return "subset_accuracy" if (task, metric) == ("multilabel", "accuracy") else metric


_DISPLAY = {
    "f1": "F1",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "f1_samples": "samples F1",
    "f1_weighted": "weighted F1",
    "matthews_corrcoef": "MCC",
    "mean_absolute_error": "MAE",
    "mean_absolute_percentage_error": "MAPE",
    "mean_squared_error": "MSE",
    "r2": "R2",
    "root_mean_squared_error": "RMSE",
    "roc_auc": "ROC AUC",
    "roc_auc_ovo": "ROC AUC (one vs. one)",
    "roc_auc_ovr": "ROC AUC (one vs. rest)",
}


def display_name(metric: str) -> str:
    """Return the name of a metric in sentences and tables: ``RMSE``, ``balanced accuracy``."""
    return _DISPLAY.get(metric, metric.replace("_", " "))
