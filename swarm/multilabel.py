"""ML-kNN: multi-label k nearest neighbours with a Bayesian decision per label."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from swarm.arrays import Bool, Float, Int
from swarm.statistics.lowest import lowest

# Memory for the distances of one block of rows.
_DISTANCE_BYTES = 2**26


class MLkNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Multi-label k nearest neighbours.

    For each label, the number of the k nearest training rows that have it is counted. The label is
    predicted if, according to the training rows and their own neighbours, that count is more
    probable with the label than without. Distances are Euclidean. Ties of distances are broken by
    the order of the training rows.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours, k.
    smoothing : float, default=1.0
        Pseudo-count s that is added to every count; 1 is Laplace smoothing.

    Attributes
    ----------
    classes_ : list of array
        The classes 0 and 1 of each label.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : array of str (n_features_in_,)
        Names of the columns, if all of them are text.

    References
    ----------
    Zhang and Zhou (2007), ML-KNN: A lazy learning approach to multi-label learning, Pattern
    Recognition 40. Matijević (2022) evaluates subsets with it.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> Y = [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    >>> MLkNN(n_neighbors=2).fit(X, Y).predict([[0.05], [4.9]]).tolist()
    [[1, 0], [0, 1]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, n_neighbors: int = 10, smoothing: float = 1.0) -> None:
        self.n_neighbors = n_neighbors
        self.smoothing = smoothing

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Count how often rows with each label have neighbours with it.

        Parameters
        ----------
        X : array-like (n_rows, n_features)
            Numbers.
        y : array-like (n_rows, n_labels)
            0 or 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a value is out of range, or there are not more rows than neighbours.
        """
        self._validate_params()
        rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        labels = _checked_labels(y, len(rows))
        k = int(self.n_neighbors)
        if k >= len(rows):
            raise ValueError(
                f"n_neighbors must be below the {len(rows)} training rows, got {k}; "
                "lower it or use more rows"
            )
        self.rows_ = rows
        self.labels_ = labels
        self.classes_ = [np.array([0, 1]) for _ in range(labels.shape[1])]
        counts = self._neighbours(rows, excludes_itself=True)
        seen_with, seen_without = (_seen(counts, labels == value, k) for value in (1, 0))
        with_label, without = label_evidence(seen_with, seen_without, float(self.smoothing))
        self.decision_ = (with_label > without).astype(np.int64)
        self.probability_ = with_label / (with_label + without)
        return self

    def predict(self, X: ArrayLike) -> Int:
        """Predict the labels: int (n_rows, n_labels) of 0 and 1."""
        return np.take_along_axis(self.decision_, self._counts(X), axis=0)

    def predict_proba(self, X: ArrayLike) -> Float:
        """Return the probability that each row has each label: float64 (n_rows, n_labels).

        There is one column per label; scikit-learn returns a list of two-column arrays.
        """
        return np.take_along_axis(self.probability_, self._counts(X), axis=0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _counts(self, X: ArrayLike) -> Int:
        check_is_fitted(self, "decision_")
        return self._neighbours(validate_data(self, X, dtype=np.float64, reset=False))

    def _neighbours(self, rows: Float, *, excludes_itself: bool = False) -> Int:
        """Count the nearest training rows that have each label: int (n_rows, n_labels)."""
        counts = np.empty((len(rows), self.labels_.shape[1]), dtype=np.int64)
        labels = self.labels_.astype(np.float64)
        step = max(1, _DISTANCE_BYTES // (8 * len(self.rows_)))
        for start in range(0, len(rows), step):
            # The rounding of a matrix product would break ties between equal distances.
            distance = cdist(rows[start : start + step], self.rows_, "sqeuclidean")
            if excludes_itself:
                places = np.arange(len(distance))
                distance[places, start + places] = np.inf
            near = lowest(distance, int(self.n_neighbors))
            counts[start : start + step] = near.astype(np.float64) @ labels
        return counts


def label_evidence(seen_with: Int, seen_without: Int, smoothing: float) -> tuple[Float, Float]:
    """Compute evidence (k + 1, n_labels) for and against labels, proportional to the posteriors.

    `seen_with` and `seen_without` have that shape too: training rows with and without each label,
    by the number of their `k` neighbours that have it.
    Source: Zhang and Zhou (2007), equations 3 to 5.
    """
    n_with = seen_with.sum(axis=0)
    n_without = seen_without.sum(axis=0)
    k = len(seen_with) - 1
    s = smoothing
    # Both sides are multiplied by all denominators, such as 2 s + n_rows and s (k + 1) + n_with.
    # They are integers for an integer s, so that ties are exact.
    with_label = (s + n_with) * (s + seen_with) * (s * (k + 1) + n_without)
    without = (s + n_without) * (s + seen_without) * (s * (k + 1) + n_with)
    return with_label, without


def _seen(counts: Int, mask: Bool, k: int) -> Int:
    """Count rows of a mask by their number of neighbours with the label: int (k + 1, n_labels)."""
    n_labels = counts.shape[1]
    places = (counts * n_labels + np.arange(n_labels))[mask]
    return np.bincount(places, minlength=(k + 1) * n_labels).reshape(k + 1, n_labels)


def _checked_labels(y: ArrayLike, n_rows: int) -> Int:
    labels = np.asarray(y)
    if labels.ndim != 2:
        raise ValueError(
            f"y must have one column of 0 and 1 per label, got the shape {labels.shape}; "
            "ML-kNN is a multi-label classifier"
        )
    if len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {len(labels)}; they must match")
    if not np.isin(labels, [0, 1]).all():
        raise ValueError("y must contain only the values 0 and 1; encode each label this way")
    return labels.astype(np.int64)
