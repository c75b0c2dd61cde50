"""The published examples, as a table: what the laws give with the published constants.

Everything runs through the real engine, at every SIMD level: vectors are built with the wanted
cosine, memories are given the age or history that leads to the wanted strength, and the engine is
asked. Results are compared with the published figures, which have two decimals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flashbulb import ArousalDetector, Engine, Policy, _core
from flashbulb.surprise import standard_score
from simd import each_level
from strategies import DAY, NOW

PUBLISHED = Policy.published()
QUERY = np.array([1.0, 0.0])


def with_cosine(cosine: float) -> np.ndarray:
    return np.array([cosine, math.sqrt(1.0 - cosine * cosine)])


def created_for(vividness: float, salience: float) -> float:
    """When a memory must have been made to have faded to this strength by now."""
    rate = 0.1 * (1.0 - 0.5 * salience)
    return NOW + DAY * math.log(vividness) / rate


def remembered(*memories: dict[str, float], policy: Policy = PUBLISHED) -> Engine:
    engine = Engine(2, policy=policy)
    for memory in memories:
        given: dict[str, Any] = dict(memory)
        vector = with_cosine(given.pop("similarity", 1.0))
        if "vividness" in given:
            given["created"] = created_for(given.pop("vividness"), given.get("salience", 0.0))
        engine.add(vector, now=NOW, **given)
    return engine


# -- score = similarity + 0.3 · vividness · salience ---------------------------------------------

# The published row, and two companions chosen here, because the source does not give theirs: a
# mundane memory that is more similar and still loses, and one of equal similarity.
SCORES = [
    # similarity, vividness, salience, score
    pytest.param(0.89, 0.95, 0.85, 1.13, id="0.89 + 0.95·0.85·0.3"),
    pytest.param(0.94, 0.60, 0.10, 0.96, id="0.94 + 0.60·0.10·0.3"),
    pytest.param(0.89, 0.50, 0.40, 0.95, id="0.89 + 0.50·0.40·0.3"),
]


@pytest.mark.parametrize(("similarity", "vividness", "salience", "score"), SCORES)
def test_score(similarity: float, vividness: float, salience: float, score: float) -> None:
    engine = remembered({"similarity": similarity, "vividness": vividness, "salience": salience})
    for _ in each_level():
        found = engine.search(QUERY, now=NOW, recency_weight=0.0)
        assert found.similarities[0] == pytest.approx(similarity, abs=1e-6)
        assert engine.vividness([0], now=NOW)[0] == pytest.approx(vividness)
        assert round(float(found.scores[0]), 2) == score


def test_the_critical_memory_comes_before_its_companions() -> None:
    memories = [param.values for param in SCORES]
    engine = remembered(
        *({"similarity": s, "vividness": v, "salience": a} for s, v, a, _ in reversed(memories))
    )
    for _ in each_level():
        found = engine.search(QUERY, now=NOW, recency_weight=0.0)
        assert np.round(found.scores, 2).tolist() == [1.13, 0.96, 0.95]
        assert found.ids.tolist() == [2, 1, 0]
        plain = engine.search(QUERY, now=NOW, recency_weight=0.0, vividness_weight=0.0)
        assert plain.ids[0] == 1  # by similarity alone the mundane one leads


@pytest.mark.parametrize(
    ("similarity", "recency_weight"),
    [pytest.param(0.97, 0.0, id="without recency"), pytest.param(0.965, 0.1, id="0.1·e^(-90/30)")],
)
def test_a_flashbulb_at_its_floor(similarity: float, recency_weight: float) -> None:
    # 0.70 · 0.86 · 0.3 = 0.18, and 1.15 in all: after 90 days the critical memory rests on 0.70.
    engine = remembered({"similarity": similarity, "salience": 0.86, "created": NOW - 90 * DAY})
    for _ in each_level():
        found = engine.search(QUERY, now=NOW, recency_weight=recency_weight)
        assert engine.vividness(now=NOW).tolist() == [0.7]
        assert round(float(found.vividness_bonus[0]), 2) == 0.18
        assert found.recency_bonus[0] == pytest.approx(recency_weight * math.exp(-3.0))
        assert round(float(found.scores[0]), 2) == 1.15


@pytest.mark.parametrize(("days", "bonus"), [(0, 0.1), (30, 0.037), (90, 0.005), (365, 0.0)])
def test_recency(days: float, bonus: float) -> None:
    engine = remembered({"created": NOW - days * DAY})
    for _ in each_level():
        found = engine.search(QUERY, now=NOW)
        assert round(float(found.recency_bonus[0]), 3) == bonus


# -- surprise ------------------------------------------------------------------------------------


def test_z_score() -> None:
    # (3.7 - 2.1) / 0.6 = 2.67: 1.5, 2.1 and 2.7 have the mean 2.1 and the standard deviation 0.6.
    moments = _core.Moments()
    for distance in (1.5, 2.1, 2.7):
        moments.update(distance)
    assert (moments.mean, math.sqrt(moments.variance)) == pytest.approx((2.1, 0.6))
    assert round(standard_score(3.7, moments), 2) == 2.67
    assert moments.count == 3  # scored before the update


# -- decay ---------------------------------------------------------------------------------------

ASYMPTOTIC = [(0, 1.00), (7, 0.85), (30, 0.72), (60, 0.70), (90, 0.70)]
# The clamp law with the same floor reaches it within a week; others go their own way.
CLAMP = {
    0.9: [(0, 1.00), (1, 0.95), (3, 0.85), (7, 0.70), (30, 0.70), (60, 0.70), (90, 0.70)],
    0.5: [(0, 1.00), (1, 0.93), (7, 0.59), (30, 0.40), (60, 0.40), (90, 0.40)],
    0.0: [(0, 1.00), (1, 0.90), (7, 0.50), (30, 0.05), (60, 0.00), (90, 0.00)],
}


@pytest.mark.parametrize(("days", "vividness"), ASYMPTOTIC)
@pytest.mark.parametrize("salience", [0.8, 0.9, 1.0])
def test_asymptotic_decay(days: float, vividness: float, salience: float) -> None:
    policy = Policy.published(decay_law="asymptotic")
    engine = remembered({"salience": salience}, policy=policy)
    for _ in each_level():
        now = NOW + days * DAY
        assert round(float(engine.vividness(now=now)[0]), 2) == vividness
        assert round(float(engine._traces.table.all_vividness(now)[0]), 2) == vividness


@pytest.mark.parametrize(
    ("salience", "days", "vividness"),
    [(salience, *row) for salience, rows in CLAMP.items() for row in rows],
)
def test_clamp_decay(salience: float, days: float, vividness: float) -> None:
    engine = remembered({"salience": salience})
    for _ in each_level():
        now = NOW + days * DAY
        assert round(float(engine.vividness(now=now)[0]), 2) == vividness
        assert round(float(engine._traces.table.all_vividness(now)[0]), 2) == vividness


@pytest.mark.parametrize(
    ("salience", "floor"),
    [(0.0, 0.0), (0.49, 0.0), (0.5, 0.4), (0.79, 0.4), (0.80, 0.7), (1.0, 0.7)],
)
@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_floors(salience: float, floor: float, law: str) -> None:
    engine = remembered({"salience": salience}, policy=Policy.published(decay_law=law))
    assert engine.traces()["floor"].tolist() == [floor]
    assert engine.policy.floor_for(salience) == floor
    for _ in each_level():
        assert engine.vividness(now=NOW + 36_500 * DAY).tolist() == [floor]


# -- access --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("salience", "before", "after"),
    [
        (0.0, 0.50, 0.600),  # + 0.1
        (0.4, 0.50, 0.620),  # + 0.1 · 1.2
        (1.0, 0.80, 0.950),  # + 0.1 · 1.5
        (0.9, 0.90, 1.000),  # never above 1
        (0.0, 1.00, 1.000),
    ],
)
def test_access(salience: float, before: float, after: float) -> None:
    engine = remembered({"salience": salience, "vividness": before})
    engine.touch(0, NOW)
    assert engine.vividness(now=NOW)[0] == pytest.approx(after)
    traces = engine.traces()
    assert traces["access_count"].tolist() == [1]
    assert traces["last_access"].tolist() == [NOW]
    engine.touch(0, NOW)  # the published law knows no interval
    assert engine.vividness(now=NOW)[0] == pytest.approx(min(after + after - before, 1.0))
    assert engine.traces()["access_count"].tolist() == [2]


# -- retrieval-induced forgetting ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("cosine", "salience", "before", "after"),
    [
        (0.80, 0.0, 0.90, 0.860),  # - 0.05 · 0.8
        (1.00, 0.3, 0.90, 0.850),  # - 0.05 · 1.0
        (0.701, 0.0, 0.90, 0.86495),
        (0.699, 0.0, 0.90, 0.900),  # not similar enough to compete
        (0.00, 0.0, 0.90, 0.900),
        (0.80, 0.7, 0.90, 0.860),  # the highest salience that is suppressed
        (0.80, 0.71, 0.90, 0.900),
        (0.80, 0.6, 0.41, 0.400),  # never below the floor
    ],
)
def test_suppression(cosine: float, salience: float, before: float, after: float) -> None:
    for _ in each_level():
        engine = remembered(
            {"similarity": 1.0, "salience": 0.2},
            {"similarity": cosine, "salience": salience, "vividness": before},
        )
        moved = engine.suppress([0], now=NOW)
        assert moved.tolist() == ([1] if after != before else [])
        assert engine.vividness([1], now=NOW)[0] == pytest.approx(after, abs=1e-7)
        assert engine.vividness([0], now=NOW)[0] == 1.0  # what was accessed is never suppressed


def test_a_pinned_memory_is_not_suppressed() -> None:
    engine = remembered({"similarity": 1.0}, {"similarity": 0.9, "pinned": True})
    assert engine.suppress([0], now=NOW).tolist() == []


# -- Zeigarnik -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("urgency", "before", "open_", "completed"),
    [
        (1.0, 0.60, 0.80, 0.50),  # open + 0.2 · urgency; completed - 0.1
        (0.5, 0.60, 0.70, 0.50),
        (0.0, 0.60, 0.60, 0.50),
        (1.0, 0.90, 1.00, 0.80),  # never above 1
        (1.0, 0.42, 0.62, 0.40),  # never below the floor of salience 0.5
    ],
)
def test_tasks(urgency: float, before: float, open_: float, completed: float) -> None:
    salience = 0.5
    engine = remembered({"urgency": urgency, "vividness": before, "salience": salience})
    for _ in each_level():
        assert engine.vividness(now=NOW)[0] == pytest.approx(before)
        assert engine.vividness(now=NOW, effective=True)[0] == pytest.approx(open_)
        bonus = engine.search(QUERY, now=NOW).vividness_bonus[0]
        assert bonus == pytest.approx(0.3 * open_ * salience)
    engine.complete(0, NOW)
    for _ in each_level():
        assert engine.vividness(now=NOW)[0] == pytest.approx(before)
        assert engine.vividness(now=NOW, effective=True)[0] == pytest.approx(completed)
        bonus = engine.search(QUERY, now=NOW).vividness_bonus[0]
        assert bonus == pytest.approx(0.3 * completed * salience)


def test_what_is_not_a_task_has_its_own_vividness() -> None:
    engine = remembered({"vividness": 0.6, "salience": 0.3})
    assert engine.vividness(now=NOW, effective=True).tolist() == engine.vividness(now=NOW).tolist()


# -- arousal -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Production system is down",
        "CRITICAL: Payment system is down, users cannot checkout",
    ],
)
def test_headline_flashbulbs(text: str) -> None:
    result = ArousalDetector().detect(text)
    assert result.score >= 0.8
    assert result.stability_floor == 0.7


@pytest.mark.parametrize(
    "text",
    [
        "This is NOT urgent",
        "Security questions for account recovery",
        "thanks",
        "User prefers dark mode",
    ],
)
def test_mundane_texts(text: str) -> None:
    result = ArousalDetector().detect(text)
    assert result.score < 0.5
    assert result.stability_floor == 0.0


def test_one_negation_does_not_veto_the_rest() -> None:
    result = ArousalDetector().detect("not urgent, but customer data leaked last night")
    assert result.score >= 0.8
