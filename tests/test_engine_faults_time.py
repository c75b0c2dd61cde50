"""Faults of times and fading that people met in other stores, ruled out at the level of the engine.

The numbers are those of the project's list of faults; each test covers the whole kind.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, Policy, SurpriseDetector
from flashbulb._reference import ReferenceEngine
from simd import each_level
from strategies import DAY, NOW, assert_same_state, examples, fill, made_engine, policies, seeds

DIM = 12


def rows_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, DIM))


def engine_of(count: int, **given: Any) -> Engine:
    engine = Engine(DIM, policy=given.pop("policy", None))
    engine.add(rows_of(count), now=NOW, **given)
    return engine


# -- R18: times in the future, clocks that step back ---------------------------------------------

FUTURES = {
    "1 s": 1.0,
    "10 days": 10 * DAY,
    "10 years": 3652 * DAY,
    "year 9999": dt.datetime(9999, 12, 31, tzinfo=dt.timezone.utc).timestamp() - NOW,
}


@pytest.mark.parametrize("ahead", FUTURES)
@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
@pytest.mark.parametrize("salience", [0.0, 0.6, 1.0])
def test_r18_the_future_counts_as_just_now(ahead: str, law: str, salience: float) -> None:
    engine = Engine(2, policy=Policy(decay_law=law))
    engine.add([1, 0], salience=salience, now=NOW)
    engine.add([1, 0], salience=salience, created=NOW + FUTURES[ahead], now=NOW)
    for _ in each_level():
        assert engine.vividness(now=NOW).tolist() == [1.0, 1.0]
        assert engine._traces.table.all_vividness(NOW).tolist() == [1.0, 1.0]
        found = engine.search([1, 0], 2, now=NOW)
        assert found.ids.tolist() == [0, 1]  # equal: the older id first
        for values in found[1:]:
            assert values[0] == values[1]
            assert np.isfinite(values).all()
        assert engine.search([1, 0], 2, now=0).vividness_bonus[1] == 0.3 * salience


@examples(60)
@given(seeds, policies(), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8))
def test_r18_no_order_of_times_breaks_the_bounds(
    seed: int, policy: Policy, steps: list[float]
) -> None:
    engine = made_engine(seed, 40, 2, policy)
    rng = np.random.default_rng(seed)
    for step in steps:
        now = NOW + step
        ids = engine.ids[rng.random(40) < 0.2]
        engine.touch(ids, now)
        engine.suppress(ids, now=now - 1800.0)
        engine.decay(now + 7.0)
        state = engine.state()
        # An anchor never moves back: what has faded once does not fade again.
        for at in (now, now - 3600.0, 0.0, NOW + 1e9):
            values = engine.vividness(now=at)
            assert np.isfinite(values).all()
            assert (values >= state["floor"]).all()
            assert (values <= state["vividness"]).all()
            assert (values <= 1.0).all()


@pytest.mark.parametrize("hours", [1.0, 1000.0])
def test_r18_a_clock_that_steps_back_fades_nothing_twice(hours: float) -> None:
    lazy, stepping = (engine_of(5) for _ in range(2))
    for day in range(1, 20):
        now = NOW + day * DAY
        stepping.decay(now)
        stepping.decay(now - hours * 3600.0)
        np.testing.assert_allclose(stepping.vividness(now=now), lazy.vividness(now=now), rtol=1e-12)


@pytest.mark.parametrize("policy", [Policy(), Policy.published()])
def test_r18_access_still_counts_after_the_clock_stepped_back(policy: Policy) -> None:
    engine = engine_of(1, created=NOW - 10 * DAY, policy=policy)
    engine.touch(0, NOW)
    once = engine.vividness(now=NOW)[0]
    engine.touch(0, NOW - 3600.0)
    assert engine.traces()["access_count"].tolist() == [2]
    assert engine.traces()["last_access"].tolist() == [NOW]
    # Published: each access strengthens. Default: at most one in an hour, and none has passed.
    assert (engine.vividness(now=NOW)[0] > once) == (policy == Policy.published())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, NOW * 1000])
def test_r18_no_call_takes_a_time_that_cannot_be(bad: float) -> None:
    engine = engine_of(3, urgency=0.5)
    before = engine.state()
    detector = SurpriseDetector()
    for call in (
        lambda: engine.add(rows_of(1), now=bad),
        lambda: engine.add(rows_of(1), created=bad, now=NOW),
        lambda: engine.add(rows_of(1), created=[bad], now=NOW),
        lambda: engine.search(rows_of(1), 1, now=bad),
        lambda: engine.search(rows_of(1), 1, since=bad, now=NOW),
        lambda: engine.search(rows_of(1), 1, until=bad, now=NOW),
        lambda: engine.touch(0, bad),
        lambda: engine.suppress(0, now=bad),
        lambda: engine.complete(0, bad),
        lambda: engine.pin(0, now=bad),
        lambda: engine.unpin(0, now=bad),
        lambda: engine.decay(bad),
        lambda: engine.vividness(now=bad),
        lambda: engine.set_policy(Policy(), now=bad),
        lambda: Engine(_index_of_one(), now=bad),
        lambda: detector.observe(rows_of(1)[0], ["a"], bad),
        lambda: detector.score(rows_of(1)[0], ["a"], bad),
    ):
        with pytest.raises(ValueError, match=r"now|created|since|until"):
            call()
    assert_same_state(engine.state(), before)
    assert detector.samples == 0


def _index_of_one() -> Any:
    index = faiss.IndexFlatIP(2)
    index.add(np.array([[1, 0]], np.float32))
    return index


def test_r18_novelty_of_a_tag_seen_in_the_future_is_none() -> None:
    detector = SurpriseDetector()
    detector.observe(np.ones(3), ["a"], NOW + 10 * DAY)
    assert detector.observe(np.ones(3), ["a"], NOW).temporal == 0.0
    assert detector.last_seen["a"] == NOW + 10 * DAY


# -- R20: ages are continuous --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("younger", "older"),
    [(1.0, 3540.0), (86_340.0, 86_460.0), (0.0, 0.01), (3600.0, 3601.0), (30 * DAY, 30 * DAY + 1)],
)
@pytest.mark.parametrize("salience", [0.0, 0.3])
@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_r20_strictly_younger_is_strictly_stronger(
    younger: float, older: float, salience: float, law: str
) -> None:
    for moment in (NOW, 2.0**31, 2.0**32 + 0.5):
        engine = Engine(2, policy=Policy(decay_law=law))
        engine.add(
            [[1, 0], [1, 0]],
            created=[moment - older, moment - younger],
            salience=salience,
            now=moment,
        )
        for _ in each_level():
            weaker, stronger = engine.vividness(now=moment)
            assert stronger > weaker
            found = engine.search([1, 0], 2, now=moment)
            assert found.ids.tolist() == [1, 0]
            assert found.recency_bonus[0] > found.recency_bonus[1]
            assert (found.vividness_bonus[0] > found.vividness_bonus[1]) == (salience > 0)


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_r20_the_curve_has_no_steps(law: str) -> None:
    # One memory a minute over 90 days: no step larger than the slope of the law allows.
    minutes = np.arange(90 * 24 * 60) * 60.0
    engine = Engine(1, policy=Policy(decay_law=law))
    engine.add(np.ones((len(minutes), 1)), created=NOW - minutes, now=NOW)
    steps = -np.diff(engine.vividness(now=NOW))
    assert (steps > 0).all()
    assert steps.max() <= 0.1 / (24 * 60) * 1.000001
    found = engine.search([1.0], len(minutes), now=NOW)
    recency_steps = -np.diff(found.recency_bonus)
    assert (recency_steps > 0).all()
    assert recency_steps.max() <= 0.1 / 30 / (24 * 60) * 1.000001


@pytest.mark.parametrize("moment", [NOW + 0.125, 2.0**31 + 0.001, 2.0**33 + 0.75, 0.0009765625])
def test_r20_times_are_kept_below_the_second(moment: float) -> None:
    engine = engine_of(1, created=[moment])
    engine.touch(0, moment)
    assert engine.traces()["created"][0] == moment
    assert engine.traces()["last_access"][0] == moment
    assert Engine.from_state(engine.state()).traces()["created"][0] == moment


# -- R22: what matters never fades away ----------------------------------------------------------


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
@pytest.mark.parametrize("years", [1 / 365, 1, 19, 20, 21, 100, 7000])
@pytest.mark.parametrize("stepwise", [False, True])
def test_r22_the_floor_holds(law: str, years: float, stepwise: bool) -> None:
    engine = Engine(2, policy=Policy(decay_law=law))
    floors = np.array([0.5, 0.0, 1.0, 0.7, 1e-3])
    engine.add(np.ones((5, 2)), floor=floors, salience=[0.9, 0.0, 1.0, 0.8, 0.2], now=NOW)
    now = NOW + years * 365 * DAY
    if stepwise:
        for part in np.linspace(0, 1, 500):
            engine.decay(NOW + part * (now - NOW))
    for _ in each_level():
        for values in (engine.vividness(now=now), engine._traces.table.all_vividness(now)):
            assert (values >= floors).all()
            assert np.isfinite(values).all()
            assert ((values == 0) | (values > np.finfo(np.float64).tiny)).all()
        if years >= 100:
            assert engine.vividness(now=now).tolist() == floors.tolist()  # reached, exactly
        bonus = engine.search([1, 1], 5, now=now).vividness_bonus
        assert np.isfinite(bonus).all()


@examples(40)
@given(seeds, policies(), st.floats(0, 1e5))
def test_r22_no_history_leads_below_the_floor(seed: int, policy: Policy, days: float) -> None:
    engine = made_engine(seed, 60, 2, policy, style="equal")
    for hour in range(5):
        engine.suppress(engine.ids[:3], now=NOW + hour * 3600.0)
    now = NOW + days * DAY
    engine.decay(now)
    engine.suppress(engine.ids[:3], now=now)
    twin = ReferenceEngine(engine.state())
    for values in (engine.vividness(now=now), engine.vividness(now=now, effective=True)):
        assert (values >= twin.state["floor"]).all()


def test_fill_reaches_every_kind_of_memory() -> None:
    # The properties above are worth what their memories are: all kinds must occur.
    engine = Engine(3)
    fill(engine, np.random.default_rng(0), 2000)
    traces = engine.traces()
    assert set(traces["status"].tolist()) == {0, 1, 2}
    assert traces["pinned"].any()
    assert (traces["created"] > NOW).any()
    assert (traces["access_count"] > 0).any()
    assert {0.0, 0.4, 0.7} <= set(traces["floor"].tolist())
