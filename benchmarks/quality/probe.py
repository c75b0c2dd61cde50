"""How much of a label is in the features of the local model: fitted to some texts, asked of others.

The head is fitted to the labels at hand; the features (embedding, runs of words and letters,
classes of the rules) are those of ``flashbulb.arousal``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judging import EMBEDDER
from numpy.typing import NDArray

from flashbulb.arousal.training import INVERSE_PENALTY, design

__all__ = ["features", "log_odds", "ridge"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

RIDGE_PENALTY = 60.0


def features(texts: list[str]) -> Any:
    """A sparse matrix, a row a text; columns in which nothing stands are left out."""
    matrix = design(texts, EMBEDDER)
    return matrix[:, np.flatnonzero(matrix.getnnz(axis=0))]


def log_odds(matrix: Any, labels: NDArray[np.bool_], seen: Places, asked: Places) -> Floats:
    """Of the rows `asked`, by a logistic regression over the rows `seen`."""
    from sklearn.linear_model import LogisticRegression

    regression = LogisticRegression(
        C=INVERSE_PENALTY,
        solver="liblinear",
        dual=True,  # few texts, many features
        intercept_scaling=10.0,  # the intercept is hardly penalised
        tol=1e-3,
        max_iter=1_000,
        random_state=0,
    )
    regression.fit(matrix[seen], labels[seen])
    return np.asarray(regression.decision_function(matrix[asked]), np.float64)


def ridge(matrix: Any, values: Floats, seen: Places, asked: Places) -> Floats:
    """Predictions for the rows `asked`, by a ridge regression over the rows `seen`."""
    from sklearn.linear_model import Ridge

    regression = Ridge(alpha=RIDGE_PENALTY, solver="sparse_cg", tol=1e-3)
    regression.fit(matrix[seen], values[seen])
    return np.asarray(regression.predict(matrix[asked]), np.float64)
