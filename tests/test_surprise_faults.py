"""Faults of surprise statistics that people met elsewhere (R35 of the project's list)."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, Policy, SurpriseDetector, _core
from flashbulb.surprise import SurpriseMode
from strategies import DAY, NOW, examples, seeds

DIM = 12
MODES = get_args(SurpriseMode)


def _is_sound(surprise: Any) -> bool:
    return (
        all(math.isfinite(value) for value in surprise)
        and 0.0 <= surprise.distance <= 2.0
        and 0.0 <= surprise.temporal <= 1.0
        and 0.0 <= surprise.importance <= 1.0
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", [Policy(), Policy.published()])
def test_r35_first_second_and_a_thousand_equal_events(mode: Any, policy: Policy) -> None:
    detector = SurpriseDetector(mode, policy=policy)
    same, other = np.zeros(DIM), np.zeros(DIM)
    same[0], other[1] = 1.0, 1.0
    first = detector.observe(same, [], NOW)
    assert _is_sound(first)
    assert (first.z, first.distance, first.importance) == (0.0, 0.0, 0.6 * 0.5)  # no statistics
    assert not detector.is_flashbulb(first)
    second = detector.observe(same, [], NOW)
    assert _is_sound(second)
    for _ in range(1000):
        equal = detector.observe(same, [], NOW)
        assert _is_sound(equal)
        assert not detector.is_flashbulb(equal)
        assert detector.salience(equal) == 0.0
    different = detector.score(other, [], NOW)
    assert _is_sound(different)
    assert equal.importance == min(first.importance, second.importance, equal.importance)
    assert different.importance > 0.599  # 0.6 is the most without tags
    assert detector.is_flashbulb(different)
    assert detector.score(same, [], NOW).importance == equal.importance


@pytest.mark.parametrize("mode", MODES)
def test_r35_rounding_noise_is_no_event(mode: Any) -> None:
    # Equal texts whose vectors differ in their last bits: nothing happens in such a stream.
    detector = SurpriseDetector(mode, policy=Policy.published())
    rng = np.random.default_rng(0)
    base = rng.normal(size=DIM)
    for _ in range(300):
        noisy = base * (1.0 + 1e-7 * rng.integers(-1, 2, size=DIM))
        assert not detector.is_flashbulb(detector.observe(noisy, [], NOW))


@examples(30)
@given(seeds, st.sampled_from(MODES), st.sampled_from([1, 2, 3, 50]))
def test_r35_always_finite_and_in_range(seed: int, mode: Any, dim: int) -> None:
    rng = np.random.default_rng(seed)
    detector = SurpriseDetector(mode)
    for step in range(60):
        vector = rng.choice([1e-30, 1.0, 1e30]) * rng.choice([-1.0, 1.0], size=dim)
        tags = rng.choice(["a", "b", "c"], size=rng.integers(3)).tolist()
        surprise = detector.observe(vector, tags, NOW + step * 3600.0 * rng.integers(-9, 10))
        assert _is_sound(surprise)
        assert 0.0 <= detector.salience(surprise) <= 0.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cut", [0, 1, 2, 30, 99])
def test_r35_reopening_in_the_middle_changes_nothing(mode: Any, cut: int) -> None:
    def events() -> Any:
        rng = np.random.default_rng(4)
        for step in range(100):
            yield rng.normal(size=DIM), ["a", "b"][: step % 3], NOW + step * DAY

    engines = [Engine(DIM), Engine(DIM)]
    straight, reopened = (SurpriseDetector(mode, engine=engine) for engine in engines)
    for step, (vector, tags, now) in enumerate(events()):
        if step == cut:
            engines[1] = Engine.from_state(engines[1].state())
            reopened = SurpriseDetector.from_state(
                reopened.state(), last_seen=reopened.last_seen, engine=engines[1]
            )
        assert straight.observe(vector, tags, now) == reopened.observe(vector, tags, now)
        for engine in engines:
            engine.add(vector, now=now)
    assert straight.state() == reopened.state()


def test_r35_ten_million_updates_of_the_running_moments() -> None:
    centroid = _core.Centroid(1)
    chunk = np.random.default_rng(0).normal(0.7, 0.2, (1_000_000, 1)).astype(np.float32)
    for _ in range(10):
        centroid.update(chunk)
    wide = chunk.astype(np.float64)
    assert centroid.count == 10_000_000
    assert centroid.mean[0] == pytest.approx(wide.mean(), rel=1e-12)
    assert centroid.m2[0] == pytest.approx(10 * ((wide - wide.mean()) ** 2).sum(), rel=1e-11)
    moments = _core.Moments()
    for value in wide[:200_000, 0]:
        moments.update(value)
    part = wide[:200_000, 0]
    for _ in range(6):  # 200,000 · 2^6 = 12.8 million by merging it with itself
        moments.merge(moments.copy())
    assert moments.count == 12_800_000
    assert moments.mean == pytest.approx(part.mean(), rel=1e-12)
    assert moments.variance == pytest.approx(part.var(), rel=1e-7)


# States that no stream of unit vectors leaves behind


def _state(
    mode: Any = "centroid",
    moments: Any = (10, 1.0, 1.0),
    count: Any = 11,
    mean: float = 0.1,
    m2: float = 0.5,
    dim: int = DIM,
) -> bytes:
    head = json.dumps({"mode": mode, "moments": list(moments), "centroid": [count, dim]})
    values = np.concatenate((np.full(dim, mean), np.full(dim, m2)))
    return head.encode() + b"\n" + values.astype("<f8").tobytes()


STATES: dict[str, dict[str, Any]] = {
    "another dimension": {"dim": DIM + 1},
    "no dimension": {"dim": 0},
    "huge centroid": {"mean": 1e300},
    "long centroid": {"mean": 0.5},
    "infinite centroid": {"mean": math.inf},
    "no centroid": {"mean": math.nan},
    "spread too far": {"m2": 1.0},
    "negative spread": {"m2": -1.0},
    "no spread": {"m2": math.nan},
    "centroid of too many": {"count": 2**53 + 1},
    "centroid of far too many": {"count": 2**80},
    "centroid of a part": {"count": 1.5},
    "centroid of fewer than none": {"count": -1},
    "too many distances": {"moments": (2**53 + 1, 1.0, 1.0)},
    "largest integer of distances": {"moments": (2**63 - 1, 1.0, 1.0)},
    "far distances": {"moments": (10, 1e308, 1.0)},
    "negative distances": {"moments": (10, -1.0, 1.0)},
    "a distance that is no float": {"moments": (10, 10**400, 1.0)},
    "distances spread too far": {"moments": (10, 1.0, 41.0)},
    "distances spread beyond floats": {"moments": (10, 1.0, 10**400)},
    "text for distances": {"moments": ("10", "1", "1")},
    "two moments": {"moments": (10, 1.0)},
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_no_stream_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the state of a surprise detector"):
        SurpriseDetector.from_state(_state(**STATES[name]), last_seen={}, engine=Engine(DIM))


def test_a_state_at_its_bounds_is_taken() -> None:
    length = DIM**-0.5
    widest = {"moments": (10, 2.0, 40.0), "mean": length, "m2": 11 * length**2}
    for options in ({}, widest, {"count": 2**53, "moments": (2**53, 0.0, 0.0)}):
        state = _state(**options)
        detector = SurpriseDetector.from_state(state, last_seen={}, engine=Engine(DIM))
        assert _is_sound(detector.observe(np.ones(DIM), ["a"], NOW))


@pytest.mark.parametrize("mode", MODES)
def test_the_state_of_the_widest_stream_is_taken(mode: Any) -> None:
    """Opposite vectors: the largest distances and spreads that there are."""
    detector = SurpriseDetector(mode)
    for step in range(200):
        detector.observe(np.full(DIM, 1.0 if step % 2 else -1.0), [], NOW)
        state = detector.state()
        again = SurpriseDetector.from_state(state, last_seen={}, engine=Engine(DIM))
        assert again.state() == state
