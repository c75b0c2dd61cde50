"""The native sums over hashed features equal those of ``arousal/features.py``, which training uses.

Tolerance: 1e-12, some hundred float64 additions in another order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb.arousal import features
from flashbulb.arousal.matcher import RuleMatcher
from flashbulb.arousal.model import BITS, GROUP_WEIGHTS, buckets
from flashbulb.arousal.rules import RuleSet

ROUNDING = 1e-12

TEXTS = (
    "All patient records were deleted, and there is no backup!",
    'It said "disk full": 3 writes rejected (see /var/log).',
    "The fire is out. That was the drill; nobody was hurt.",
    "Der Brandmelder im Kinderzimmer ging los, Straße geräumt.",
    "L'incendie n'est pas maîtrisé.",
    "患者的数据全部丢失了。データが失われました。",
    "pneumonoultramicroscopicsilicovolcanoconiosis " * 3,
    "a",
    "!!!",
)
RULES = RuleSet.default()
NAMES = list(RULES.classes)


@pytest.fixture(scope="module")
def weights() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((1 << BITS, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def head(weights: NDArray[np.float32]) -> _core.HashedHead:
    return _core.HashedHead(weights, NAMES, GROUP_WEIGHTS)


def native(head: _core.HashedHead, statements: Sequence[features.Statement]) -> tuple[float, float]:
    sets = [
        [known.to_bytes(head.set_bytes, "little") for known in each.sentence.classes if known]
        for each in statements
    ]
    return head.log_odds([w for each in statements for w in features.words(each.text)], sets)


def plainly(
    weights: NDArray[np.float32], statements: Sequence[features.Statement]
) -> NDArray[np.float64]:
    words = [word for each in statements for word in features.words(each.text)]
    groups = (
        [features.runs([features.word_hash(word) for word in words])] if words else [],
        [features.letters(word) for word in words],
        [features.class_pair(NAMES, *pair) for pair in features.pairs(statements)],
    )
    total = np.zeros(2)
    for counts_for, group in zip(GROUP_WEIGHTS, groups, strict=True):
        hashes = np.concatenate([*group, np.zeros(0, np.uint32)])
        if len(hashes):
            places, signs = buckets(hashes)
            total += signs @ weights[places].astype(np.float64) * counts_for / np.sqrt(len(hashes))
    return total


def divided(text: str) -> list[features.Statement]:
    return [
        features.Statement(each.text, each.sentence, 0)
        for each in features.divided(RuleMatcher(RULES).read(text).parts, RULES)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_sums_are_those_of_the_features(
    head: _core.HashedHead, weights: NDArray[np.float32], text: str
) -> None:
    statements = divided(text)
    for run in (statements, statements[:1], statements[1:], []):
        np.testing.assert_allclose(
            native(head, run), plainly(weights, run), rtol=ROUNDING, atol=ROUNDING
        )


@given(st.text(max_size=200))
def test_sums_of_any_text_are_those_of_the_features(
    head: _core.HashedHead, weights: NDArray[np.float32], text: str
) -> None:
    statements = divided(text)
    np.testing.assert_allclose(
        native(head, statements), plainly(weights, statements), rtol=ROUNDING, atol=ROUNDING
    )


def test_what_does_not_fit_is_refused(head: _core.HashedHead, weights: NDArray[np.float32]) -> None:
    with pytest.raises(ValueError, match="2\\^k places, got 6"):
        _core.HashedHead(weights[:3], NAMES, GROUP_WEIGHTS)
    with pytest.raises(ValueError, match="2 columns, got 4"):
        _core.HashedHead(weights.reshape(-1, 4), NAMES, GROUP_WEIGHTS)
    with pytest.raises(TypeError, match="float32"):
        _core.HashedHead(weights.astype(np.float64), NAMES, GROUP_WEIGHTS)
    with pytest.raises(TypeError, match=re.escape("words must not hold <class 'int'>")):
        head.log_odds(["data", 7], [])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a sentence must be a list"):
        head.log_odds([], [b"loss"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=f"{head.set_bytes} bytes, got 1"):
        head.log_odds([], [[b"\x01"]])
