"""Calibrated surprise: z against its definition, its rate, shifts of topic, states, old stores."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flashbulb import Engine, Memory, Policy, SurpriseDetector
from flashbulb._calibration import DISTANCES, EXTRAPOLATION, SUMS, Scale
from flashbulb._store import policy_from_json
from flashbulb.surprise import SurpriseMode
from strategies import DAY, NOW, examples, seeds

DIM = 16
MODES = get_args(SurpriseMode)
LEVELS = np.linspace(0.75, 0.95, 9)
DEVIATES = np.array([NormalDist().inv_cdf(level) for level in LEVELS])


def filled(values: Any, policy: Policy, kind: Any = DISTANCES) -> Scale:
    scale = Scale(kind)
    for value in values:
        scale.take(value, value, policy)
    return scale


def topic(rng: np.random.Generator, count: int, center: NDArray[np.float64]) -> Any:
    """Unit vectors around a direction."""
    vectors = center + rng.normal(0.0, 0.5, size=(count, DIM))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def axis(number: int) -> NDArray[np.float64]:
    return 2.0 * np.eye(DIM)[number]


class Stream:
    """A detector beside the engine of its memories."""

    def __init__(self, mode: Any, policy: Policy | None = None) -> None:
        self.engine = Engine(DIM, approximate=False)
        self.detector = SurpriseDetector(mode, policy=policy, engine=self.engine)

    def observe(self, vector: Any) -> tuple[float, bool]:
        surprise = self.detector.score(vector, [], NOW)
        found = surprise.z, self.detector.is_flashbulb(surprise)
        self.detector.observe(vector, [], NOW)
        self.engine.add(vector, now=NOW)
        return found

    def flashbulbs(self, vectors: Any) -> list[bool]:
        return [self.observe(vector)[1] for vector in vectors]

    def reopened(self) -> Stream:
        twin = Stream(self.detector.mode, self.detector.policy)
        twin.engine = Engine.from_state(self.engine.state())
        twin.detector = SurpriseDetector.from_state(
            self.detector.state(),
            last_seen=self.detector.last_seen,
            policy=self.detector.policy,
            engine=twin.engine,
        )
        return twin


# -- the definition --------------------------------------------------------------------------------


def plain_tail(values: NDArray[np.float64], window: int) -> tuple[float, float, float]:
    """Line through the middle and the top 1 % of faded values, and how many equal weights they are.

    The top is that of a line through inner quantiles, or of a log-normal tail if it lies higher; if
    more lies beyond its top half per cent, so much is foreign.
    """
    weights = (1.0 - 2.0 / (window + 1.0)) ** np.arange(len(values))[::-1]
    order = values.argsort()
    below = weights[order].cumsum() / weights.sum()
    share, step = 0.0, NormalDist().inv_cdf(0.95) / 2.0
    middle = DEVIATES.mean()
    for _ in range(20):
        inner = np.interp((1.0 - share) * LEVELS, below, values[order])
        spread, level = np.polyfit(DEVIATES, inner, 1)
        bent = [(1.0 - share) * NormalDist().cdf(step * n) for n in range(3)]
        low, mid, high = np.interp(bent, below, values[order])
        g = math.log(min((high - mid) / (mid - low), 3.0)) / step
        scale = (mid - low) / math.expm1(g * step)
        top, far = (
            max(level + d * spread, low + scale * math.expm1(g * d) if g > 0.0 else -math.inf)
            for d in (NormalDist().inv_cdf(0.99), NormalDist().inv_cdf(0.995))
        )
        beyond = 1.0 - np.interp(far, values[order], below)
        share = min(max(beyond - 0.005, 0.0), 0.05)
    center = level + middle * spread
    spread = (top - center) / (NormalDist().inv_cdf(0.99) - middle)
    return center - middle * spread, spread, weights.sum() ** 2 / (weights**2).sum()


@examples(30)
@given(
    seed=seeds,
    count=st.sampled_from([300, 1000, 5000]),
    window=st.sampled_from([300, 1000, 3000]),
    kind=st.sampled_from([DISTANCES, SUMS]),
)
def test_z_follows_the_definition(seed: int, count: int, window: int, kind: Any) -> None:
    rng = np.random.default_rng(seed)
    center, unit = (1.0, 0.08) if kind is DISTANCES else (0.0, 1.8)
    values = center + unit * rng.normal(size=count)
    policy = Policy(surprise_window=window)
    scale = filled(values, policy, kind)
    level, spread, samples = plain_tail(values, window)
    for deviate in (-2.0, 0.0, 1.0, 2.33, 5.0):
        value = center + unit * deviate
        z = (value - level) / (max(spread, kind.least_spread) * math.sqrt(1 + 10.3 / samples))
        # Bins are 1/20 of the spread, quantiles of few values jump, 1 % may be newer than the fit.
        near = 0.15 + 0.1 * abs(deviate) + 2.0 / math.sqrt(samples)
        assert scale.calibrated(value, policy, 30) == pytest.approx(z, abs=near)


def test_the_uncertainty_of_the_tail_is_that_of_sample_quantiles() -> None:
    density = np.array([NormalDist().pdf(deviate) for deviate in DEVIATES])
    covariance = np.minimum.outer(LEVELS, LEVELS) - np.outer(LEVELS, LEVELS)
    covariance /= np.outer(density, density)
    centred = DEVIATES - DEVIATES.mean()
    at = Policy().surprise_z() - DEVIATES.mean()
    weights = 1.0 / len(LEVELS) + at * centred / (centred @ centred)
    assert weights @ covariance @ weights == pytest.approx(EXTRAPOLATION, abs=0.05)


@pytest.mark.parametrize("rate", [0.01, 0.03])
@pytest.mark.parametrize(("start", "count"), [(30, 100), (1000, 3000)])
def test_the_rate_of_flashbulbs_is_the_one_asked_for(rate: float, start: int, count: int) -> None:
    policy = Policy(flashbulb_rate=rate)
    flashbulbs = events = 0
    for seed in range(12000 // count):
        values = np.random.default_rng(seed).normal(1.0, 0.08, size=count)
        scale = filled(values[:start], policy)
        for value in values[start:]:
            flashbulbs += scale.calibrated(value, policy, 30) >= policy.surprise_z()
            events += 1
            scale.take(value, value, policy)
    assert 0.7 * rate <= flashbulbs / events <= 1.3 * rate


def level_of_flashbulbs(scale: Scale, policy: Policy) -> float:
    """The value from which the scale says that it is one."""
    zero, one = (scale.calibrated(value, policy, 30) for value in (0.0, 1.0))
    return (policy.surprise_z() - zero) / (one - zero)


# How large a share of such values lies above one of them.
SHAPES: dict[str, tuple[Any, Any]] = {
    "normal": (lambda rng, n: rng.normal(size=n), lambda x: 1.0 - NormalDist().cdf(x)),
    "lognormal": (
        lambda rng, n: rng.lognormal(size=n),
        lambda x: 1.0 - NormalDist().cdf(math.log(x)),
    ),
    "exponential": (lambda rng, n: rng.exponential(size=n), lambda x: math.exp(-x)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tail_of_any_weight_has_the_rate_asked_for(shape: str) -> None:
    draw, share_above = SHAPES[shape]
    policy, shares = Policy(), []
    for seed in range(15):
        scale = filled(draw(np.random.default_rng(seed), 4000), policy, SUMS._replace(low=-4.0))
        shares.append(share_above(level_of_flashbulbs(scale, policy)))
    # A histogram of 3000 knows the top 1 % to a third; the median of 15 to a tenth.
    assert 0.8 * 0.01 <= np.median(shares) <= 1.2 * 0.01


def test_far_foreign_events_do_not_raise_the_threshold() -> None:
    policy, shares = Policy(), []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        values = rng.normal(np.where(rng.random(4000) < 0.02, 5.0, 0.0), 1.0)
        shares.append(
            1.0 - NormalDist().cdf(level_of_flashbulbs(filled(values, policy, SUMS), policy))
        )
    assert 0.8 * 0.01 <= np.median(shares) <= 1.2 * 0.01


def test_what_is_summed_is_measured_by_all_that_was_seen() -> None:
    policy, scale = Policy(), Scale(DISTANCES, is_part=True)
    for value in np.random.default_rng(1).uniform(0.8, 1.2, size=4000):
        scale.take(value, value, policy)
    assert level_of_flashbulbs(scale, policy) == pytest.approx(1.196, abs=0.004)


def test_a_few_per_cent_of_foreign_events_do_not_hide_themselves() -> None:
    rng = np.random.default_rng(1)
    policy = Policy()
    is_foreign = rng.random(4000) < 0.03
    values = rng.normal(np.where(is_foreign, 1.28, 1.0), np.where(is_foreign, 0.02, 0.08))
    scale, raw = filled([], policy), []
    found = []
    for value in values:
        found.append(scale.calibrated(value, policy, 30) >= policy.surprise_z())
        raw.append(scale.raw(value, policy) >= Policy.published().surprise_z())
        scale.take(value, value, policy)
    caught = np.array(found[100:])[is_foreign[100:]].mean()
    assert caught >= 0.95
    assert np.array(found[100:])[~is_foreign[100:]].mean() <= 0.01
    assert np.array(raw[100:])[is_foreign[100:]].mean() <= 0.6


def test_rate_zero_means_none() -> None:
    stream = Stream("centroid", Policy(flashbulb_rate=0.0))
    stream.flashbulbs([axis(0)] * 100)
    assert not stream.observe(-axis(0))[1]
    assert stream.detector.salience(stream.detector.score(-axis(0), [], NOW)) == 0.0


# -- forms and modes -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_raw_form_can_be_chosen_and_is_told_beside_the_other(mode: Any) -> None:
    rng = np.random.default_rng(3)
    raw, calibrated = (Stream(mode, Policy(surprise_form=form)) for form in ("raw", "calibrated"))
    differ = 0
    for vector in topic(rng, 150, axis(0)):
        one, other = (s.detector.score(vector, [], NOW) for s in (raw, calibrated))
        assert one.z == one.raw_z == other.raw_z
        differ += other.z != other.raw_z
        for stream in (raw, calibrated):
            stream.observe(vector)
    assert differ >= 80
    # What one form has kept, the other can go on with.
    raw.detector.policy = calibrated.detector.policy
    assert raw.detector.state() == calibrated.detector.state()
    vector = topic(rng, 1, axis(1))[0]
    assert raw.observe(vector) == calibrated.observe(vector)


def test_combined_needs_statistics_of_both_and_then_of_their_sum() -> None:
    stream = Stream("combined")
    rng = np.random.default_rng(5)
    scores = [stream.observe(vector)[0] for vector in topic(rng, 70, axis(0))]
    # The first event has no distance, ten make the parts known, two more the sum.
    assert scores[:13] == [0.0] * 13
    assert all(z != 0.0 for z in scores[13:])
    early, ready = Stream("combined"), Stream("combined")
    early.flashbulbs(topic(rng, 40, axis(0)))
    ready.flashbulbs(topic(rng, 41, axis(0)))
    assert [early.observe(-axis(0))[1], ready.observe(-axis(0))[1]] == [False, True]


# -- streams ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_after_a_lasting_shift_of_topic_the_flood_ends(mode: Any) -> None:
    rng = np.random.default_rng(7)
    stream = Stream(mode)
    before = stream.flashbulbs(topic(rng, 3000, axis(0)))
    after = stream.flashbulbs(topic(rng, 1000, axis(1)))
    assert sum(before) <= 0.02 * len(before)
    assert after[0]
    assert sum(after[300:]) <= 0.02 * len(after[300:])


def test_a_shift_of_topic_pins_no_more_than_the_limit(store: Path, clock: Any) -> None:
    def text(n: int, topic: str) -> str:
        return f"{topic} number {n % 97} of batch {n}"

    old = [{"text": text(n, "build passed, unit tests green in job")} for n in range(1000)]
    new = [{"text": text(n, "the gardener waters roses and prunes hedge")} for n in range(600)]
    with Memory(store, clock=clock) as memory:
        memory.remember_many(old)
        before = memory.stats()["pinned_by_surprise"]
        records = memory.remember_many(new)
        stats = memory.stats()
        pinned = sum(record.pinned for record in memory.list())
        assert pinned == stats["pinned_by_surprise"] >= before  # some of them gave way
        assert 1 <= stats["pinned_by_surprise"] <= Policy().max_surprise_pins
        assert records[0].flashbulb
        assert sum(record.flashbulb for record in records[300:]) <= 0.02 * 300


@pytest.mark.parametrize("mode", MODES)
def test_equal_or_constant_streams_have_no_flashbulbs(mode: Any) -> None:
    equal = Stream(mode)
    assert not any(equal.flashbulbs([axis(0)] * 300))
    # Each event is as similar to all before it as every other one.
    constant = Stream(mode, Policy(surprise_neighbours=1000))
    center = np.ones(400)
    vectors = np.eye(400)[:300] + 0.05 * center
    constant.engine = Engine(400)
    constant.detector = SurpriseDetector(mode, policy=Policy(), engine=constant.engine)
    assert sum(constant.flashbulbs(vectors)) == 0


@pytest.mark.parametrize("mode", MODES)
def test_ok_is_not_what_surprises_in_a_chat(mode: Any, data_folder: Path) -> None:
    for item in json.loads((data_folder / "locomo" / "locomo5.json").read_text()):
        sessions = [part for part in item["conversation"].values() if isinstance(part, list)]
        turns = [f"{turn['speaker']}: {turn['text']}" for part in sessions for turn in part]
        speaker = turns[0].partition(":")[0]
        with Memory(":memory:", surprise=mode, clock=lambda: NOW) as memory:
            memory.remember_many(turns)
            leak = f"{speaker}: The production database leaked customer records"
            scores = {}
            for text in (f"{speaker}: ok", f"{speaker}: thanks!", leak):
                record = memory.remember(text, arousal=0.0)
                assert record.surprise is not None
                assert record.flashbulb <= (text == leak)
                scores[text] = record.surprise
            assert max(scores.values()) == scores[leak]


def test_a_burst_of_alarms_keeps_its_arousal(clock: Any) -> None:
    """Crises arrive as look-alikes: the last of them is no surprise, but no less of an alarm."""
    with Memory(":memory:", clock=clock) as memory:
        memory.remember_many([f"standup note {n}: reviewed ticket {n}" for n in range(100)])
        burst = [memory.remember(f"disk {n} of the cluster failed", arousal=0.9) for n in range(30)]
        assert burst[-1].surprise is not None
        assert burst[0].surprise is not None
        assert burst[-1].surprise < burst[0].surprise
        assert all(record.salience >= 0.9 and record.flashbulb for record in burst)


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cut", [0, 1, 31, 62, 333, 449])
def test_a_stream_goes_on_after_reopening(mode: Any, cut: int) -> None:
    vectors = topic(np.random.default_rng(11), 450, axis(2))
    straight, reopened = Stream(mode), Stream(mode)
    for step, vector in enumerate(vectors):
        if step == cut:
            reopened = reopened.reopened()
        assert straight.observe(vector) == reopened.observe(vector)
    assert straight.detector.state() == reopened.detector.state()


def test_a_state_stays_small_however_long_the_stream() -> None:
    policy = Policy(surprise_window=1000)
    scale = filled([], policy)
    values = np.random.default_rng(13).normal(1.0, 0.08, size=25_000)
    for value in values:
        scale.take(value, value, policy)
    header, weights = scale.state()
    assert header["recent"]["count"] == 25_000
    assert len(weights) <= 512
    assert np.isfinite(weights).all()
    level, spread, _ = plain_tail(values, 1000)
    assert scale.calibrated(level + 2.0 * spread, policy, 30) == pytest.approx(2.0, abs=0.15)


CORRUPT: dict[str, dict[str, Any]] = {
    "count": {"count": -1},
    "count of a part": {"count": 1.5},
    "more fitted than seen": {"fitted": 10**9},
    "gain too small": {"gain": 0.5},
    "gain NaN": {"gain": math.nan},
    "gain text": {"gain": None},
    "bins in disorder": {"bins": [200, 100]},
    "bins beyond": {"bins": [500, 600]},
    "bins before": {"bins": [-1, 5]},
    "tail of two": {"tail": [1.0, 0.1]},
    "tail infinite": {"tail": [math.inf, 0.1, 10.0]},
    "tail falling": {"tail": [1.0, -0.1, 10.0]},
    "tail of nothing": {"tail": [1.0, 0.1, 0.0]},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_histogram_is_refused(mode: Any, name: str) -> None:
    stream = Stream(mode)
    stream.flashbulbs(topic(np.random.default_rng(17), 100, axis(0)))
    head, _, values = stream.detector.state().partition(b"\n")
    header = json.loads(head)
    again = json.dumps(header).encode() + b"\n" + values
    SurpriseDetector.from_state(again, last_seen={}, engine=stream.engine)
    header["scales"][mode]["recent"].update(CORRUPT[name])
    bad = json.dumps(header).encode() + b"\n" + values
    with pytest.raises(ValueError, match="not the state of a surprise detector"):
        SurpriseDetector.from_state(bad, last_seen={}, engine=stream.engine)


def test_weights_of_no_histogram_are_refused() -> None:
    stream = Stream("centroid")
    stream.flashbulbs(topic(np.random.default_rng(19), 100, axis(0)))
    state = stream.detector.state()
    for last in (math.nan, -1.0, 1e9):
        bad = state[:-8] + np.array([last], "<f8").tobytes()
        with pytest.raises(ValueError, match="not the state of a surprise detector"):
            SurpriseDetector.from_state(bad, last_seen={})
    for bad in (state[:-8], state + bytes(8)):
        with pytest.raises(ValueError, match="not the state of a surprise detector"):
            SurpriseDetector.from_state(bad, last_seen={})


def test_a_state_of_the_raw_form_alone_goes_on() -> None:
    """As older versions wrote it: moments, and no histogram."""
    rng = np.random.default_rng(23)
    stream = Stream("centroid")
    stream.flashbulbs(topic(rng, 200, axis(0)))
    head, _, values = stream.detector.state().partition(b"\n")
    header = json.loads(head)
    count, mean, m2 = header.pop("scales")["centroid"]["moments"]
    old = json.dumps({**header, "moments": [count, mean, m2]}).encode() + b"\n"
    old += values[: 2 * 8 * DIM]
    stream.detector = SurpriseDetector.from_state(old, last_seen={}, engine=stream.engine)
    assert stream.detector.samples == count
    sd = math.sqrt(m2 / (count - 1))
    # The raw score is at hand; the calibrated one and its flashbulbs when there are 30 again.
    first = stream.detector.score(-axis(0), [], NOW)
    assert first.z == first.raw_z == pytest.approx((first.distance - mean) / sd)
    assert not stream.detector.is_flashbulb(first)
    stream.flashbulbs(topic(rng, 30, axis(0)))
    later = stream.detector.score(-axis(0), [], NOW)
    assert later.z != later.raw_z
    assert stream.detector.is_flashbulb(later)


@pytest.mark.parametrize("mode", MODES)
def test_a_store_keeps_its_statistics_per_namespace(store: Path, clock: Any, mode: Any) -> None:
    def text(n: int) -> str:
        return f"note {n} on {('tea', 'the moon', 'a bridge')[n % 3]} and {n * n % 17}"

    def open_() -> Memory:
        return Memory(store, surprise=mode, clock=clock)

    with Memory(":memory:", surprise=mode, clock=clock) as memory:
        expected = [memory.remember(text(n)).surprise for n in range(120)]
    found = []
    for part in range(3):
        with open_() as memory:
            other = memory.namespace("other")
            for n in range(40 * part, 40 * part + 40):
                found.append(memory.remember(text(n)).surprise)
                other.remember(f"something else {n}", now=clock() + DAY)
    assert found == expected
    assert len(set(found)) > 60


def test_an_old_store_opens_and_goes_on(store: Path) -> None:
    class Letters:
        name, dim, fingerprint = "letters", 6, "6c657474657273"

        def embed_documents(self, texts: Any) -> NDArray[np.float32]:
            return np.array([[1.0 + text.count(c) for c in "aeiost"] for text in texts], np.float32)

        embed_queries = embed_documents

    data = Path(__file__).parent / "data" / "store_v1.db.gz"
    store.write_bytes(gzip.decompress(data.read_bytes()))
    for mode in MODES:
        with Memory(store, embedder=Letters(), surprise=mode, clock=lambda: NOW + DAY) as memory:
            detector = memory._store.space("default").detector
            assert detector is not None
            assert detector.samples == (13 if mode == "centroid" else 0)
            assert memory.stats()["policy"]["surprise_form"] == "calibrated"
            for n in range(3):
                assert memory.remember(f"{mode} goes on, {n} times").surprise is not None
            samples = detector.samples if mode == "centroid" else 0
        with Memory(store, embedder=Letters(), surprise=mode, clock=lambda: NOW + DAY) as memory:
            detector = memory._store.space("default").detector
            assert detector is not None
            assert detector.samples >= max(samples, 2)


def test_a_policy_of_an_older_version_gets_the_calibrated_form() -> None:
    values = Policy(novelty_days=3.0).to_dict()
    for name in ("surprise_form", "flashbulb_rate", "surprise_window"):
        del values[name]
    values["reinforce_similarity_margin"] = 0.1
    assert policy_from_json(json.dumps(values)) == Policy(novelty_days=3.0)
