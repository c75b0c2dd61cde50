"""Surprise and temporal novelty against their definitions."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, Policy, Surprise, SurpriseDetector, _core
from flashbulb._reference import standard_score as twin_score
from flashbulb._reference import temporal_novelty
from flashbulb.surprise import SurpriseMode, standard_score
from simd import each_level
from strategies import DAY, NOW, examples, seeds

# Distances are float64 sums over float32 unit vectors, in another order than NumPy's.
DISTANCE = 1e-6
DIM = 10
MODES = get_args(SurpriseMode)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def plain_distances(stream: np.ndarray, mode: str, neighbours: int) -> list[float]:
    """What each event of the stream is away from those before it."""
    distances = []
    for i in range(1, len(stream)):
        if mode == "centroid":
            distances.append(float(np.linalg.norm(stream[i] - stream[:i].mean(axis=0))))
        else:
            each = np.sort(np.linalg.norm(stream[:i] - stream[i], axis=1))
            distances.append(float(each[:neighbours].mean()))
    return distances


@pytest.mark.parametrize("mode", ["centroid", "neighbours"])
@examples(25)
@given(
    seed=seeds,
    count=st.sampled_from([1, 2, 3, 11, 40]),
    neighbours=st.sampled_from([1, 3, 10]),
    sd_floor=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_observe_follows_the_definition(
    mode: Any, seed: int, count: int, neighbours: int, sd_floor: float
) -> None:
    rng = np.random.default_rng(seed)
    stream = rng.normal(1.0, 1.0, size=(count, DIM))
    stream /= np.linalg.norm(stream, axis=1, keepdims=True)
    policy = Policy(
        surprise_form="raw", surprise_neighbours=neighbours, surprise_relative_sd_floor=sd_floor
    )
    expected = plain_distances(stream, mode, neighbours)
    for _ in each_level():
        detector = SurpriseDetector(mode, policy=policy)
        own = Engine(DIM)
        shared = SurpriseDetector(mode, policy=policy, engine=own)
        for i, vector in enumerate(stream):
            surprise = detector.observe(3.0 * vector, [], NOW)
            assert shared.observe(vector, [], NOW) == pytest.approx(surprise, rel=0, abs=1e-4)
            own.add(vector, now=NOW)
            distance = expected[i - 1] if i else 0.0
            assert surprise.distance == pytest.approx(distance, rel=0, abs=DISTANCE)
            z = twin_score(distance, expected[: max(i - 1, 0)], sd_floor) if i else 0.0
            assert surprise.raw_z == pytest.approx(z, rel=1e-3, abs=1e-4)
            assert surprise.z == surprise.raw_z
            sigmoid = 1.0 / (1.0 + math.exp(-surprise.z)) if abs(surprise.z) < 500 else 1.0
            assert surprise.importance == pytest.approx(0.6 * sigmoid, abs=1e-9)
        assert detector.samples == max(count - 1, 0)


def test_an_event_is_scored_before_it_enters_the_statistics() -> None:
    detector = SurpriseDetector(policy=Policy.published())
    rng = np.random.default_rng(0)
    for _ in range(50):
        detector.observe(np.array([1.0, 0.0]) + 0.05 * rng.normal(size=2), [], NOW)
    state, samples = detector.state(), detector.samples
    outlier = detector.score([-1.0, 0.0], ["new"], NOW)
    assert (detector.state(), detector.samples, detector.last_seen) == (state, samples, {})
    assert detector.observe([-1.0, 0.0], ["new"], NOW) == outlier
    assert detector.samples == samples + 1
    assert detector.is_flashbulb(outlier)
    # Once it is known, the same event surprises less.
    assert detector.score([-1.0, 0.0], ["new"], NOW).z < outlier.z


@pytest.mark.parametrize("samples", [0, 1, 29, 30, 31])
def test_no_flashbulb_before_enough_samples(samples: int) -> None:
    policy = Policy.published(surprise_min_samples=30)
    detector = SurpriseDetector(policy=policy)
    for _ in range(samples + 1):
        detector.observe([1.0, 0.0], [], NOW)
    assert detector.samples == samples
    surprise = detector.score([-1.0, 0.0], [], NOW)
    assert detector.is_flashbulb(surprise) == (samples >= 30)
    assert (detector.salience(surprise) > 0.0) == (samples >= 30)


@pytest.mark.parametrize(
    ("z", "importance", "published", "bounded"),
    [
        (-5.0, 0.9, 0.0, 0.0),
        (2.0, 0.9, 0.0, 0.0),  # one unit before the threshold
        (2.25, 0.8, 0.2, 0.2),
        (2.9, 0.8, 0.72, 0.5),
        (3.0, 0.8, 1.0, 0.5),  # at the threshold importance is 1
        (9.0, 0.6, 1.0, 0.5),
    ],
)
def test_salience_rises_over_the_last_unit_before_the_threshold(
    z: float, importance: float, published: float, bounded: float
) -> None:
    raw = Policy(surprise_form="raw")
    for policy, expected in ((Policy.published(), published), (raw, bounded)):
        detector = SurpriseDetector(policy=policy)
        for _ in range(31):
            detector.observe([1.0, 0.0], [], NOW)
        surprise = Surprise(z, z, 1.0, 0.0, importance)
        assert detector.salience(surprise) == pytest.approx(expected)


# -- scores --------------------------------------------------------------------------------------


@examples(60)
@given(
    st.lists(st.floats(0.0, 2.0), max_size=50),
    st.floats(0.0, 2.0),
    st.sampled_from([0.0, 0.01, 0.5]),
)
def test_standard_score(stream: list[float], value: float, floor: float) -> None:
    moments = _core.Moments()
    for each in stream:
        moments.update(each)
    z = standard_score(value, moments, floor)
    assert z == pytest.approx(twin_score(value, stream, floor), rel=1e-6, abs=1e-6)
    assert math.isfinite(z)


@examples(60)
@given(st.lists(st.none() | st.floats(-1e7, 1e8), max_size=6))
def test_temporal_novelty(ages: list[float | None]) -> None:
    detector = SurpriseDetector()
    tags = [f"t{i}" for i in range(len(ages))]
    detector.last_seen = {
        tag: NOW - age for tag, age in zip(tags, ages, strict=True) if age is not None
    }
    surprise = detector.score(np.ones(3), [*tags, *tags], NOW)  # a repeated tag counts once
    assert surprise.temporal == pytest.approx(temporal_novelty(ages, 7.0), abs=1e-9)
    assert surprise.importance == pytest.approx(min(0.3 + 0.4 * surprise.temporal, 1.0))


def test_a_tag_wears_off_and_comes_back() -> None:
    detector = SurpriseDetector()
    assert detector.observe(np.ones(3), ["a"], NOW).temporal == 1.0
    assert detector.observe(np.ones(3), ["a"], NOW).temporal == 0.0
    week = detector.observe(np.ones(3), ["a"], NOW + 7 * DAY).temporal
    assert week == pytest.approx(1.0 - math.exp(-1.0))
    assert detector.score(np.ones(3), ["a", "b"], NOW + 7 * DAY).temporal == 0.5
    assert detector.score(np.ones(3), [], NOW + 7 * DAY).temporal == 0.0


# -- trials and states ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_is_a_trial(mode: Any) -> None:
    detector = SurpriseDetector(mode)
    rng = np.random.default_rng(1)
    for _ in range(20):
        detector.observe(rng.normal(size=DIM), ["a"], NOW)
    before = detector.state(), dict(detector.last_seen), detector.samples
    trial = detector.copy()
    events = rng.normal(size=(15, DIM))
    tried = [trial.observe(vector, ["b"], NOW + DAY) for vector in events]
    assert (detector.state(), dict(detector.last_seen), detector.samples) == before
    for vector, expected in zip(events, tried, strict=True):
        assert detector.observe(vector, ["b"], NOW + DAY) == expected
    assert trial.samples == detector.samples


def test_a_trial_costs_what_it_changes_not_what_was_seen() -> None:
    class Walked(dict[str, float]):
        def __iter__(self) -> Any:
            raise AssertionError("every tag ever seen is walked through")

        keys = items = values = copy = __iter__

    vector = np.ones(DIM)
    detector = SurpriseDetector()
    detector.observe(vector, ["a", "b"], NOW)
    detector.last_seen = Walked(detector.last_seen)
    for kept in (False, True):
        trial = detector.copy()
        trial.observe(vector, ["b", "c"], NOW + DAY)
        assert [trial.last_seen[tag] for tag in "abc"] == [NOW, NOW + DAY, NOW + DAY]
        assert [detector.last_seen.get(tag) for tag in "abc"] == [NOW, NOW, None]
        if kept:
            trial.settle()
            assert type(trial.last_seen) is Walked
            assert [trial.last_seen[tag] for tag in "abc"] == [NOW, NOW + DAY, NOW + DAY]


@pytest.mark.parametrize("events", [0, 1, 2, 50])
def test_state_comes_back_exactly(events: int) -> None:
    detector = SurpriseDetector()
    rng = np.random.default_rng(2)
    for _ in range(events):
        detector.observe(rng.normal(size=DIM), ["a"], NOW)
    twin = SurpriseDetector.from_state(detector.state(), last_seen=detector.last_seen)
    assert twin.state() == detector.state()
    assert twin.last_seen == detector.last_seen
    vector = rng.normal(size=DIM)
    assert twin.observe(vector, ["a"], NOW) == detector.observe(vector, ["a"], NOW)


def _header(**changes: Any) -> bytes:
    header = {"mode": "centroid", "moments": [2, 0.5, 0.1], "centroid": [3, 2], **changes}
    return json.dumps(header).encode() + b"\n" + np.full(4, 0.5).tobytes()


CORRUPT_STATES = {
    "empty": b"",
    "no header": b"\n" + bytes(32),
    "no JSON": b"\xff\xfe{}\n",
    "a list": b"[]\n",
    "a number": b"7\n",
    "cut in the header": _header()[:20],
    "cut in the values": _header()[:-1],
    "one value short": _header()[:-8],
    "one value long": _header() + bytes(8),
    "mode": _header(mode="both"),
    "a mode without its scales": _header(mode="combined"),
    "no moments": _header(moments=None),
    "two moments": _header(moments=[2, 0.5]),
    "negative count": _header(moments=[-2, 0.5, 0.1]),
    "fractional count": _header(moments=[2.5, 0.5, 0.1]),
    "mean NaN": _header(moments=[2, math.nan, 0.1]),
    "mean text": _header(moments=[2, "0.5", 0.1]),
    "m2 negative": _header(moments=[2, 0.5, -0.1]),
    "m2 infinite": _header(moments=[2, 0.5, math.inf]),
    "centroid count": _header(centroid=[-3, 2]),
    "centroid dim": _header(centroid=[3, 3]),
    "centroid of nothing": _header(centroid=[3, 0])[: -len(np.ones(4).tobytes())],
    "centroid NaN": _header()[:-32] + np.array([np.nan, 0.5, 0.5, 0.5]).tobytes(),
    "centroid m2 negative": _header()[:-32] + np.array([0.5, 0.5, -0.5, 0.5]).tobytes(),
}


@pytest.mark.parametrize("name", CORRUPT_STATES)
def test_a_corrupt_state_is_refused(name: str) -> None:
    assert SurpriseDetector.from_state(_header(), last_seen={}).samples == 2
    with pytest.raises(ValueError, match="not the state of a surprise detector"):
        SurpriseDetector.from_state(CORRUPT_STATES[name], last_seen={})


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "both", "neighbors", None, 1, ["centroid"]])
def test_unknown_modes_are_refused(mode: Any) -> None:
    with pytest.raises(ValueError, match="'centroid', 'neighbours', 'combined', got"):
        SurpriseDetector(mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("vector", "tags", "error"),
    [
        (np.ones((1, DIM)), [], ValueError),
        (3.0, [], ValueError),
        ([], [], ValueError),
        (["1"] * DIM, [], TypeError),
        ([True] * DIM, [], TypeError),
        (np.ones(DIM, complex), [], TypeError),
        (np.ones(DIM), "payments", TypeError),
        (np.ones(DIM), [1], TypeError),
        (np.ones(DIM), [""], ValueError),
        (np.ones(DIM), None, TypeError),
    ],
)
def test_bad_arguments_change_nothing(
    mode: Any, vector: Any, tags: Any, error: type[Exception]
) -> None:
    for filled in (False, True):
        detector = SurpriseDetector(mode)
        if filled:
            detector.observe(np.ones(DIM), ["a"], NOW)
        before = detector.state(), detector.samples, dict(detector.last_seen)
        for call in (detector.score, detector.update, detector.observe):
            with pytest.raises(error):
                call(vector, tags, NOW)
        assert (detector.state(), detector.samples, dict(detector.last_seen)) == before


@pytest.mark.parametrize("size", [1e-300, 1e-40, 1e30, 1e300])
def test_the_length_of_a_vector_does_not_matter(size: float) -> None:
    vector = np.array([3.0, 4.0])
    detector = SurpriseDetector()
    detector.observe(vector, [], NOW)
    assert detector.score(size * vector, [], NOW).distance == pytest.approx(0.0, abs=1e-7)
