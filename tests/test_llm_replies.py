"""What counts as a judgement: a finite number in [0, 1] under its key, and nothing else (R37)."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb.arousal import ArousalDetector, BadReply, Reply
from flashbulb.arousal.replies import parse_reply, probability_of_yes
from flashbulb.policy import Policy

ALWAYS = Policy(llm_unsure_low=0.0, llm_unsure_high=1.0, llm_unsure_confidence=1.0)
"""An LLM is asked about everything."""

GOOD: list[tuple[Any, float]] = [
    (0.4, 0.4),
    (1, 1.0),
    (np.float32(0.5), 0.5),
    ((0.4, 0.9), 0.4),
    ((0.4, 0.9, "why"), 0.4),
    ({"score": 0.4}, 0.4),
    (SimpleNamespace(score=0.4, reasoning="why"), 0.4),
    (SimpleNamespace(content='{"score": 0.4}'), 0.4),
    ('{"score": 0.4}', 0.4),
    ('{"score": 4e-1, "reasoning": "6 dimensions, 85%"}', 0.4),
    ('```json\n{"score": 0.4}\n```', 0.4),
    ('Sure! Here it is:\n```\n{"score": 0.4, "surprise": 0.2}\n```\nAnything else?', 0.4),
    ('{travel} is what matters. {"score": 0.4}', 0.4),
    ('{"plan": {"score": "none"}} and then {"score": 0.4}', 0.4),
    ('{"score": 0.4} I repeat: {"score": 0.4}', 0.4),
    ('{"score": 0}', 0.0),
]

BAD: list[Any] = [
    "6 dimensions ... 0.2",
    "85%",
    "0.8",
    "0,8",
    '{"score": "0,8"}',
    '{"score": "0.8"}',
    '{"score": 7}',
    '{"score": -0.1}',
    '{"score": NaN}',
    '{"score": Infinity}',
    '{"score": 1e999}',
    '{"score": 1' + "0" * 400 + "}",
    '{"score": 1' + "0" * 10_000 + "}",
    '{"score": true}',
    '{"score": null}',
    '{"score": [0.8]}',
    '{"score": {"score": 0.8}}',
    '{"Score": 0.8}',
    '{"importance": 0.8}',
    '{"result": {"score": 0.8}}',
    '{"score": 0.8',
    '{"score": 0.8, "score": 0.1}',
    '{"score": 0.8} or rather {"score": 0.1}',
    '{"score": 0.8, "confidence": 7}',
    "[0.8]",
    "I'm sorry, but I can't help with that.",
    "",
    "   ",
    "{" * 100_000,
    "{" * 19_000,
    '{"a":' * 3_900,
    "x" * 1_000_000 + '{"score": 0.8}',
    None,
    math.nan,
    math.inf,
    7.0,
    -0.1,
    True,
    np.bool_(True),
    1j,
    b'{"score": 0.8}',
    [0.8, 0.9],
    (0.8,),
    (0.8, 0.9, "why", "more"),
    (0.8, None, 3, 4),
    (0.8, "high"),
    {"score": math.nan},
    {"score": "0.8"},
    {},
    object(),
    SimpleNamespace(score=None),
    SimpleNamespace(content=None),
]


@pytest.mark.parametrize(("answer", "score"), GOOD, ids=repr)
def test_good_replies(answer: Any, score: float) -> None:
    reply = parse_reply(answer)
    assert reply.score == score
    assert 0.0 < reply.confidence <= 1.0
    assert parse_reply(reply.to_json()) == reply


@pytest.mark.parametrize("answer", BAD, ids=lambda answer: f"{answer!r:.40}")
def test_bad_replies_fall_back_to_the_cheaper_score(answer: Any) -> None:
    with pytest.raises(BadReply) as caught:
        parse_reply(answer)
    assert 0 < len(str(caught.value)) < 250
    rules = ArousalDetector(model=None).detect("Production is down.")
    detector = ArousalDetector(model=None, llm=lambda text, context: answer, policy=ALWAYS)
    result = detector.detect("Production is down.")
    assert result.bad_reply
    assert replace(result, fallback=None, bad_reply=False) == rules
    assert result.fallback == f"llm: {caught.value}"
    assert detector.statistics() == {"judged": 1, "asked": 1, "fallback.reply": 1}


def test_all_fields_of_a_reply() -> None:
    values = {"score": 0.9, "reasoning": "a fire", "consequentiality": 0.9, "surprise": 0.7}
    reply = parse_reply(json.dumps(values))
    assert reply == Reply(0.9, 0.95, "a fire", 0.9, 0.7)
    detector = ArousalDetector(model=None, llm=lambda text, context: values, policy=ALWAYS)
    result = detector.detect("thanks")
    assert (result.reasoning, result.consequentiality, result.surprise) == ("a fire", 0.9, 0.7)


def test_what_is_no_number_beside_the_score_is_left_out() -> None:
    reply = parse_reply({"score": 0.9, "consequentiality": "high", "surprise": 7, "reasoning": 1})
    assert reply == Reply(0.9, 0.95)


def test_a_reply_that_contradicts_itself_is_less_sure() -> None:
    agreeing = parse_reply({"score": 0.9, "consequentiality": 0.9})
    contradicting = parse_reply({"score": 0.9, "consequentiality": 0.1})
    assert contradicting.confidence < agreeing.confidence


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["score", "confidence", "x"]) | st.text(), inner)
    ),
    max_leaves=12,
)


@given(json_values | st.text() | json_values.map(json.dumps) | st.binary(max_size=40))
def test_any_reply_gives_a_judgement_or_a_fallback(answer: Any) -> None:
    result = ArousalDetector(model=None, llm=lambda text, context: answer, policy=ALWAYS).detect(
        "thanks"
    )
    assert 0.0 <= result.score <= 1.0
    assert 0.0 <= result.confidence <= 1.0
    spoke = [stage.name for stage in result.stages] == ["rules", "llm"]
    assert spoke == (result.fallback is None)
    if spoke:
        found = answer if not isinstance(answer, str) else _only_object(answer)
        told = found["score"] if isinstance(found, dict) else found
        assert result.stages[1].score == told
        assert not isinstance(told, bool)


def _only_object(text: str) -> Any:
    """Texts that hypothesis makes have at most one object, and nothing around it."""
    return json.loads(text)


# Yes or no


def test_the_probability_of_yes() -> None:
    reply = probability_of_yes({"Yes": math.log(0.6), " no": math.log(0.2), "The": math.log(0.1)})
    assert reply is not None
    # Tolerance: rounding of a few operations.
    assert reply.score == pytest.approx(0.75, abs=1e-12)
    assert reply.confidence == pytest.approx(0.5 + 0.45 * 0.5, abs=1e-12)


def test_spellings_of_yes_add_up() -> None:
    reply = probability_of_yes(
        {"Yes": math.log(0.3), "yes": math.log(0.2), " YES": math.log(0.1), "No.": math.log(0.2)}
    )
    assert reply is not None
    assert reply.score == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize(
    "alternatives",
    [
        {}, {"The": -0.1}, {"Yes": -5.0, "No": -6.0, "The": -0.1}, {"Yes": math.nan},
        {"Yes": math.inf}, {"Yes": 3.0}, {"yesterday": -0.1},
    ],
    ids=repr,
)  # fmt: skip
def test_without_yes_and_no_there_is_no_judgement(alternatives: dict[str, float]) -> None:
    assert probability_of_yes(alternatives) is None


@given(st.dictionaries(st.sampled_from(["Yes", "yes", "No", " no", "Hm"]), st.floats()))
def test_any_alternatives_give_a_judgement_or_none(alternatives: dict[str, float]) -> None:
    reply = probability_of_yes(alternatives)
    if reply is not None:
        assert 0.0 <= reply.score <= 1.0
        assert 0.5 <= reply.confidence <= 0.95
