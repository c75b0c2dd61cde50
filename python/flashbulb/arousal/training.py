"""Fits the local model to labelled texts; needs scikit-learn (the extra ``train``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb.embedding import Embedder, default_embedder
from flashbulb.embedding.protocol import check_texts

from . import features
from .matcher import RuleMatcher
from .model import (
    BITS,
    EMBEDDING_WEIGHT,
    GROUP_WEIGHTS,
    IMPORTANT_SCORE,
    ArousalModel,
    Head,
    buckets,
)
from .rules import RuleSet

__all__ = [
    "LABELS",
    "STEPS",
    "Quality",
    "Training",
    "calibration_error",
    "design",
    "folds",
    "numbered",
    "out_of_fold",
    "quality",
    "scores",
    "softmax",
    "train",
]

LABELS = ("mundane", "important", "critical")
INVERSE_PENALTY = 1.0
"""C of the logistic regression."""
BACKGROUND_WEIGHT = 0.1
FOLDS = 5
STEPS = FOLDS + 2
"""Of :func:`train`, for who shows its progress."""

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Places of the texts that are trained on, and of those that are predicted."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How well scores tell critical texts from the rest."""

    f1: float
    """Of the texts with a score at the threshold or above."""
    auroc: float
    """How often a critical text has a higher score than another."""
    calibration_error: float
    """Mean distance of ``P(critical)`` to the frequency, over ten bins of equal width."""


def quality(
    probabilities: NDArray[np.float64], critical: NDArray[np.bool_], threshold: float
) -> Quality:
    """Measure rows of probabilities of mundane, important, critical."""
    from sklearn.metrics import roc_auc_score

    values = scores(probabilities)
    flash = values >= threshold
    return Quality(
        f1=float(2 * (flash & critical).sum() / max(flash.sum() + critical.sum(), 1)),
        auroc=float(roc_auc_score(critical, values)),
        calibration_error=calibration_error(probabilities[:, 2], critical),
    )


def calibration_error(claimed: NDArray[np.float64], critical: NDArray[np.bool_]) -> float:
    """Mean distance of probabilities to frequencies, over ten bins of equal width."""
    bins = np.minimum((claimed * 10).astype(int), 9)
    apart = [
        abs(claimed[own].mean() - critical[own].mean()) * own.mean()
        for own in (bins == number for number in np.unique(bins))
    ]
    return float(sum(apart))


@dataclass(frozen=True)
class Training:
    """A model, and what it said of each text while a model of the other folds judged it."""

    model: ArousalModel
    probabilities: NDArray[np.float64]
    """Shape (n, 3): of mundane, important, critical; calibrated."""
    temperature: float
    """By which the log-odds were divided, so that probabilities are frequencies."""

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores that these probabilities give, shape (n,)."""
        return scores(self.probabilities)


def scores(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """``P(critical) + 0.6 · P(important)`` of rows of probabilities."""
    return probabilities[:, 2] + IMPORTANT_SCORE * probabilities[:, 1]


def train(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    groups: Sequence[str] | None = None,
    background: Sequence[tuple[str, str]] = (),
    calibration: Sequence[tuple[str, str]] = (),
    embedder: Embedder | None = None,
    progress: Callable[[int], None] | None = None,
) -> Training:
    """Fit a model to labelled texts.

    Parameters
    ----------
    texts : sequence of str
        Several hundred at least.
    labels : sequence of {"mundane", "important", "critical"}
        One for each text; all three must occur.
    groups : sequence of str, optional
        What belongs together (the texts of a minimal pair, of one author): never parted between
        the folds of the cross-validation that calibrates the model.
    background : sequence of (text, label)
        Further texts that show what is ordinary, labelled with less care: each counts a tenth, and
        none when the model is calibrated.
    calibration : sequence of (text, label)
        Texts that are not trained on, as ordinary as those that will be judged: they decide how
        sure the model is. By default each text does, as a model without it judges it; that makes
        it too unsure where texts were chosen because they are hard.
    embedder : Embedder, optional
        Whose vectors the model will get; the default embedder if not given.
    progress : callable, optional
        Called with 1 after each of ``STEPS`` steps.

    Raises
    ------
    ValueError
        If the lengths differ, a label is unknown, occurs in fewer than five texts, or in too few
        groups to be both trained on and predicted.
    ImportError
        If scikit-learn is not there.
    """
    texts = check_texts(texts)
    numbers = numbered(texts, labels)
    owners = [str(i) for i in range(len(texts))] if groups is None else list(groups)
    if len(owners) != len(texts):
        raise ValueError(f"expected {len(texts)} groups, got {len(owners)}")
    _need_scikit_learn()
    divisions = folds(owners)
    _check_divisions(divisions, numbers)
    advance = progress or (lambda steps: None)
    used = default_embedder() if embedder is None else embedder
    more = numbered([t for t, _ in background], [label for _, label in background], least=0)
    natural = numbered([t for t, _ in calibration], [label for _, label in calibration], least=0)
    matrix = design([*texts, *(text for text, _ in background)], used)
    advance(1)
    everything = np.concatenate((numbers, more))
    beside = np.arange(len(texts), len(everything))
    with_rest = [(np.concatenate((others, beside)), own) for others, own in divisions]
    # What no text has gets no weight: without it, a small set is fitted in a moment.
    had = np.unique(matrix.indices)
    raw = out_of_fold(matrix[:, had], everything, with_rest, len(texts), advance)[: len(texts)]
    regression = _fit(matrix[:, had], everything, len(texts))
    if calibration:
        shown = design([text for text, _ in calibration], used)[:, had]
        temperature = _temperature(regression.decision_function(shown), natural)
    else:
        temperature = _temperature(raw, numbers)
    advance(1)
    coefficients = np.zeros((matrix.shape[1], 2))
    coefficients[had] = (regression.coef_ - regression.coef_[0])[1:].T / temperature
    bias = (regression.intercept_ - regression.intercept_[0])[1:] / temperature
    hashed = coefficients[used.dim :]
    scale = np.maximum(np.abs(hashed).max(axis=0), 1e-9) / 127.0
    head = Head(
        used.name,
        used.fingerprint,
        bias.astype(np.float32),
        coefficients[: used.dim].astype(np.float32),
        np.rint(hashed / scale).astype(np.int8),
        scale.astype(np.float32),
    )
    return Training(ArousalModel(head, used), softmax(raw / temperature), temperature)


def design(texts: Sequence[str], embedder: Embedder) -> Any:
    """The features of texts, a sparse matrix of shape (n, dim + 2 ** 18)."""
    from scipy import sparse

    rules = RuleSet.default()
    names, matcher = list(rules.classes), RuleMatcher(rules)
    said = []
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    for row, text in enumerate(texts):
        divided = features.divided(matcher.read(text).parts, rules)
        words = [word for each in divided for word in features.words(each.text)]
        said.append(features.said(text, divided))
        groups = (
            [features.runs([features.word_hash(word) for word in words])],
            [features.letters(word) for word in words],
            [features.class_pair(names, *pair) for pair in features.pairs(divided)],
        )
        for weight, group in zip(GROUP_WEIGHTS, groups, strict=True):
            hashes = np.concatenate([*group, np.zeros(0, np.uint32)])
            if len(hashes):
                places, signs = buckets(hashes)
                rows.append(np.full(len(hashes), row))
                columns.append(places.astype(np.int64))
                values.append(signs * (weight / np.sqrt(len(hashes))))
    empty = [np.zeros(0, np.int64)]
    hashed = sparse.csr_matrix(
        (
            np.concatenate([*values, np.zeros(0)]),
            (np.concatenate(rows + empty), np.concatenate(columns + empty)),
        ),
        shape=(len(texts), 1 << BITS),
    )
    dense = _unit(np.asarray(embedder.embed_documents(said), np.float64)) * EMBEDDING_WEIGHT
    return sparse.hstack([sparse.csr_matrix(dense), hashed]).tocsr()


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1; one of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0.0] = 1.0
    result: NDArray[np.float64] = rows / lengths[:, None]
    return result


def folds(held: Sequence[str], tied: Sequence[str] | None = None) -> list[Fold]:
    """Five divisions into what is trained on and what is predicted.

    Parameters
    ----------
    held : sequence of str
        What is predicted without anything that has the same entry here ...
    tied : sequence of str, optional
        ... or here.
    """
    from sklearn.model_selection import GroupKFold

    if (count := len(set(held))) < FOLDS:
        raise ValueError(f"expected at least {FOLDS} groups, got {count}")
    ties = np.asarray(held if tied is None else tied)
    return [
        (others[~np.isin(ties[others], ties[own])], own)
        for others, own in GroupKFold(FOLDS).split(ties, groups=held)
    ]


def out_of_fold(
    matrix: Any,
    numbers: NDArray[np.int64],
    divisions: Sequence[Fold],
    careful: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float64]:
    """Log-odds of each text, shape (n, 3), by a model that was trained without it.

    The texts from place `careful` on are background; zeros stand for what no fold predicts.
    """
    result = np.zeros((len(numbers), len(LABELS)))
    limit = len(numbers) if careful is None else careful
    for others, own in divisions:
        inside = int((others < limit).sum())
        regression = _fit(matrix[others], numbers[others], inside)
        result[own] = regression.decision_function(matrix[own])
        if progress is not None:
            progress(1)
    return result


def _fit(matrix: Any, numbers: NDArray[np.int64], careful: int) -> Any:
    """A regression in which the texts from place `careful` on count a tenth."""
    from sklearn.linear_model import LogisticRegression

    weights = np.where(np.arange(len(numbers)) < careful, 1.0, BACKGROUND_WEIGHT)
    regression = LogisticRegression(C=INVERSE_PENALTY, max_iter=400, tol=1e-3)
    return regression.fit(matrix, numbers, sample_weight=weights)


def numbered(
    texts: Sequence[str], labels: Sequence[str], *, least: int = FOLDS
) -> NDArray[np.int64]:
    """The labels as places in ``LABELS``; each must occur `least` times."""
    if len(labels) != len(texts):
        raise ValueError(f"expected {len(texts)} labels, got {len(labels)}")
    for place, label in enumerate(labels):
        if label not in LABELS:
            raise ValueError(f"label {place} must be one of {', '.join(LABELS)}, got {label!r}")
    numbers = np.array([LABELS.index(label) for label in labels], np.int64)
    for number, label in enumerate(LABELS):
        if (count := int((numbers == number).sum())) < least:
            raise ValueError(f"expected at least {least} texts that are {label}, got {count}")
    return numbers


def _need_scikit_learn() -> None:
    try:
        import_module("sklearn")
    except ImportError as error:
        raise ImportError(
            "training needs scikit-learn: python -m pip install 'flashbulb[train]'", name="sklearn"
        ) from error


def _check_divisions(divisions: Sequence[Fold], numbers: NDArray[np.int64]) -> None:
    for others, _ in divisions:
        for number, label in enumerate(LABELS):
            if number not in numbers[others]:
                raise ValueError(
                    f"too few groups have a text that is {label}: when a fifth of the texts is "
                    "held back, none is left to train on"
                )


def _temperature(logits: NDArray[np.float64], numbers: NDArray[np.int64]) -> float:
    """The divisor with the smallest log loss."""
    grid = np.geomspace(0.25, 4.0, 161)
    own = np.arange(len(numbers)), numbers
    losses = [-np.log(np.maximum(softmax(logits / t)[own], 1e-12)).mean() for t in grid]
    return float(grid[int(np.argmin(losses))])


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of rows of log-odds."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return result
