"""Every native kernel equals its readable float64 twin, bit for bit, at every SIMD level.

Where the twin sums in another order (merged Welford moments), the tolerance is 1e-12 relative:
float64 rounding of some hundred additions, with room.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flashbulb import Engine, Policy, _core
from flashbulb._reference import (
    ReferenceEngine,
    ReferenceMoments,
    decoded_codes,
    exp_of_negative,
    inner_products,
    moments_of,
    squared_distance,
)
from simd import LEVELS, each_level
from strategies import (
    DAY,
    DIMS,
    NOW,
    SIZES,
    TAGS,
    examples,
    made_engine,
    policies,
    seeds,
    unit_rows,
)

ROUNDING = 1e-12

finite_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def test_there_is_more_than_one_level_on_a_processor_that_has_avx2() -> None:
    assert LEVELS[0] == "base"
    assert _core.simd_level() in LEVELS
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    assert ("v3" in LEVELS) == ({"avx2", "fma"} <= flags)


@pytest.mark.parametrize("name", ["v5", "", "V3", "avx2"])
def test_unknown_level_is_refused(name: str) -> None:
    before = _core.simd_level()
    with pytest.raises(ValueError, match="base"):
        _core.set_simd_level(name)
    assert _core.simd_level() == before


# -- decoding ------------------------------------------------------------------------------------


@examples(60)
@given(seed=seeds, count=st.sampled_from(SIZES), dim=st.sampled_from(DIMS), data=st.data())
def test_stored_rows_are_decoded(seed: int, count: int, dim: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, size=(count, dim), dtype=np.uint8)
    values = hnp.arrays(np.float32, dim, elements=st.floats(-(2.0**40), 2.0**40, width=32))
    minimum, extent = data.draw(values), data.draw(values)
    halves = rng.integers(0, 0x7C00, size=(count, dim), dtype=np.uint16)  # finite ones
    halves |= rng.integers(0, 2, size=(count, dim), dtype=np.uint16) << np.uint16(15)
    every = np.arange(count)
    for stored, layout, expected in (
        (
            codes,
            _core.RowFormat(dim, "uint8", minimum, extent),
            decoded_codes(codes, minimum, extent),
        ),
        (halves, _core.RowFormat(dim, "float16"), halves.view(np.float16).astype(np.float32)),
    ):
        segments = [(stored.ctypes.data, 0, count)] if count else []
        view = _core.VectorView(segments, layout)
        backwards = _core.VectorView.scattered(
            [(stored.ctypes.data, count, 0)], every[::-1].copy(), layout
        )
        for _ in each_level():
            np.testing.assert_array_equal(view.read(every), expected)
            np.testing.assert_array_equal(backwards.read(every), expected[::-1])


# -- inner products ------------------------------------------------------------------------------


@examples(100)
@given(
    hnp.arrays(np.float32, st.tuples(st.just(2), st.sampled_from(DIMS)), elements=finite_float32)
)
def test_inner_product(pair: np.ndarray) -> None:
    a, b = pair
    expected = inner_products(a, b[None, :])[0]
    for _ in each_level():
        assert _core.inner_product(a, b) == expected
    exact = math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    size = math.fsum(abs(float(x) * float(y)) for x, y in zip(a, b, strict=True))
    assert expected == pytest.approx(exact, rel=0, abs=size * 1e-15 * len(a) + 1e-300)


@pytest.mark.parametrize("dim", [1, 2, 3, 15, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 65, 257])
def test_selection_sees_every_dimension_of_every_row(count: int, dim: int) -> None:
    # Row i is an axis; each query leans on one axis and a little on another. A selection that
    # dropped one element of one row would prefer the other axis.
    rows = np.eye(dim)[np.arange(count) % dim]
    engine = Engine(dim)
    engine.add(rows, now=NOW)
    axes = np.arange(min(count, dim))
    queries = 0.9 * np.eye(dim)[axes] + 0.43 * np.eye(dim)[(axes + 1) % dim]
    for _ in each_level():
        found = engine.search(queries, 1, now=NOW)
        assert found.ids[:, 0].tolist() == axes.tolist()


# -- laws ----------------------------------------------------------------------------------------


def _engine_of_exponents(exponents: np.ndarray) -> Engine:
    """Memories whose vividness at 0 is exp(exponent), by the clamp law."""
    policy = Policy(decay_rate_per_day=DAY, decay_salience_damping=0.0)
    engine = Engine(1, policy=policy)
    engine.add(np.ones((len(exponents), 1)), created=exponents, now=0.0)
    return engine


def _exponents() -> np.ndarray:
    rng = np.random.default_rng(7)
    boundaries = -(np.arange(1009) + 0.5) * math.log(2.0)  # where the reduction changes over
    near = [b + np.arange(-40, 41) * np.spacing(b) for b in boundaries[boundaries > -699.0]]
    return np.sort(
        np.concatenate(
            [
                [0.0, -5e-324, -1e-300, -1e-17, -700.0],
                -rng.uniform(0, 700, 30_000),
                -rng.uniform(0, 2, 30_000),
                *near,
            ]
        )
    )


def test_exponential_is_within_two_units_in_the_last_place_and_monotone() -> None:
    x = _exponents()
    exact = np.exp(x.astype(np.longdouble))
    unit = np.spacing(exact.astype(np.float64))
    if np.finfo(np.longdouble).eps > 1e-18:  # no longer float here: NumPy's own last place
        unit = 2 * unit
    engine = _engine_of_exponents(x)
    for _ in each_level():
        values = engine._traces.table.all_vividness(0.0)
        assert np.abs((values - exact) / unit).max() <= 2.0
        assert (np.diff(values) >= 0.0).all()
        assert values[-1] == 1.0
        np.testing.assert_array_equal(values, exp_of_negative(x))


def test_a_strength_far_below_is_exactly_zero() -> None:
    x = np.concatenate([-np.geomspace(691.0, 6e10, 5000), [-703.0000001, -745.0, -1e9]])
    engine = _engine_of_exponents(x)
    for _ in each_level():
        values = engine._traces.table.all_vividness(0.0)
        assert ((values == 0.0) | (values >= 1e-305)).all()  # never subnormal
        assert (values[x < -703.0] == 0.0).all()


@examples(60)
@given(seeds, st.sampled_from(SIZES), policies(), st.floats(-20.0, 4000.0))
def test_vividness(seed: int, count: int, policy: Policy, days: float) -> None:
    engine = made_engine(seed, count, 2, policy)
    now = NOW + DAY * days
    twin = ReferenceEngine(engine.state())
    plain, with_task = twin.vividness(now), twin.effective_vividness(now)
    for _ in each_level():
        np.testing.assert_array_equal(engine._traces.table.all_vividness(now), plain)
        np.testing.assert_array_equal(engine.vividness(now=now), plain)
        np.testing.assert_array_equal(engine.vividness(now=now, effective=True), with_task)
    assert ((plain >= twin.state["floor"]) & (plain <= 1.0)).all()
    assert (plain <= twin.state["vividness"]).all()


@examples(60)
@given(seeds, st.sampled_from(SIZES), policies(), st.floats(-20.0, 4000.0))
def test_bonus_and_ramps(seed: int, count: int, policy: Policy, days: float) -> None:
    # All rows hold the same vector, so that the bonus alone decides the order.
    engine = made_engine(seed, count, 1, policy, style="equal")
    now = NOW + DAY * days
    query = np.array([[1.0]], np.float32)
    expected = ReferenceEngine(engine.state()).search(query[0], 5, now=now)
    for _ in each_level():
        found = engine.search(query[0], 5, now=now)
        for name, values in found._asdict().items():
            np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


@examples(60)
@given(seeds, st.sampled_from(SIZES), policies(), st.floats(-20.0, 4000.0))
def test_bonus_of_all_rows(seed: int, count: int, policy: Policy, days: float) -> None:
    engine = made_engine(seed, count, 2, policy)
    now = NOW + DAY * days
    expected = ReferenceEngine(engine.state()).bonus(now, 0.3, 0.1)
    for _ in each_level():
        found = np.full(count, np.nan), np.full(count, np.nan)
        engine._traces.table.all_bonuses(now, 0.3, 0.1, *found)
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(own, other)


def test_bonus_of_all_rows_needs_an_array_of_every_row_to_write_to() -> None:
    engine = made_engine(1, 16, 2, Policy())
    good, short, narrow = np.zeros(16), np.zeros(15), np.zeros(16, np.float32)
    fixed = np.zeros(16)
    fixed.flags.writeable = False
    for bad, error in ((short, ValueError), (fixed, ValueError), (narrow, TypeError)):
        with pytest.raises(error):
            engine._traces.table.all_bonuses(NOW, 0.3, 0.1, good, bad)
    assert not good.any()


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
@examples(30)
@given(seed=seeds, steps=st.lists(st.floats(0.0, 300.0), min_size=1, max_size=60))
def test_lazy_decay_equals_stepwise_decay(law: str, seed: int, steps: list[float]) -> None:
    policy = Policy(decay_law=law)
    lazy, stepwise = (made_engine(seed, 65, 2, policy) for _ in range(2))
    now = NOW + 10 * DAY  # after every anchor
    for days in steps:
        now += DAY * days
        stepwise.decay(now)
        # Strengths below 1e-305 count as zero.
        np.testing.assert_allclose(
            stepwise.vividness(now=now), lazy.vividness(now=now), rtol=1e-12, atol=1e-304
        )
    state = stepwise.state()
    assert (state["vividness_time"] == now).all()


def test_many_small_steps_of_decay_do_not_drift_or_linger() -> None:
    for law in ("clamp", "asymptotic"):
        policy = Policy(decay_law=law)
        lazy, stepwise = (made_engine(3, 40, 2, policy) for _ in range(2))
        for step in range(1, 40_000):
            now = NOW + 10 * DAY + step * DAY / 4
            stepwise.decay(now)
            if step % 500 == 0:
                values = stepwise.state()["vividness"]
                assert ((values == 0) | (values >= 1e-305)).all()
                np.testing.assert_allclose(values, lazy.vividness(now=now), rtol=2e-12, atol=1e-304)
        assert values.min() == 0.0


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_rounding_lifts_no_memory_above_its_anchor(law: str) -> None:
    engine = Engine(1, policy=Policy(decay_law=law))
    # f + (v - f) is sometimes rounded to above v.
    rng, count = np.random.default_rng(0), 100_000
    anchors = rng.random(count)
    floors = anchors * rng.random(count) * 2.0 ** -rng.integers(0, 56, count)
    assert ((floors + (anchors - floors)) > anchors).any()
    engine.add(np.ones((count, 1)), floor=floors, now=NOW)
    state = engine.state()
    state["vividness"] = anchors
    engine = Engine.from_state(state)
    for _ in each_level():
        for now in (NOW, NOW + 1e-3):
            for values in (engine.vividness(now=now), engine._traces.table.all_vividness(now)):
                assert (values <= state["vividness"]).all()


# -- moments -------------------------------------------------------------------------------------


@examples(60)
@given(seeds, st.sampled_from(SIZES), st.sampled_from(DIMS))
def test_welford_one_by_one(seed: int, count: int, dim: int) -> None:
    rows = np.random.default_rng(seed).normal(2.0, 1.0, (count, dim)).astype(np.float32)
    expected = ReferenceMoments(0, np.zeros(dim), np.zeros(dim))
    before = []
    for row in rows:
        before.append(math.sqrt(squared_distance(row, expected.mean)) if expected.count else 0.0)
        expected.update(row)
    for _ in each_level():
        centroid = _core.Centroid(dim)
        for row in rows:
            centroid.update(row)
        at_once, observed = _core.Centroid(dim), _core.Centroid(dim)
        at_once.update(rows)
        distances = observed.observe(rows)
        for each in (centroid, at_once, observed):
            assert each.count == count
            np.testing.assert_array_equal(each.mean, expected.mean)
            np.testing.assert_array_equal(each.m2, expected.m2)
        np.testing.assert_array_equal(distances, before)
    defined = moments_of(rows)
    np.testing.assert_allclose(expected.mean, defined.mean, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(expected.m2, defined.m2, rtol=ROUNDING, atol=ROUNDING)


@examples(60)
@given(seeds, st.lists(st.sampled_from(SIZES), max_size=4), st.sampled_from(DIMS))
def test_welford_in_parts_and_merged(seed: int, counts: list[int], dim: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(2.0, 1.0, (count, dim)).astype(np.float32) for count in counts]
    expected = moments_of(np.concatenate([np.empty((0, dim), np.float32), *parts]))
    results = []
    for _ in each_level():
        batched, merged = _core.Centroid(dim), _core.Centroid(dim)
        for part in parts:
            batched.update(part)
            other = _core.Centroid(dim)
            for row in part:
                other.update(row)
            merged.merge(other)
        for centroid in (batched, merged):
            assert centroid.count == expected.count
            np.testing.assert_allclose(centroid.mean, expected.mean, rtol=ROUNDING, atol=ROUNDING)
            np.testing.assert_allclose(centroid.m2, expected.m2, rtol=ROUNDING, atol=ROUNDING)
        results.append((batched.mean, batched.m2, merged.mean, merged.m2))
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(("count", "dim"), [(40_000, 3), (300, 1000), (5, 40_000)])
def test_welford_over_several_blocks(count: int, dim: int) -> None:
    rows = np.random.default_rng(1).normal(2.0, 1.0, (count, dim)).astype(np.float32)
    expected = moments_of(rows)
    for _ in each_level():
        centroid = _core.Centroid(dim)
        centroid.update(rows)
        np.testing.assert_allclose(centroid.mean, expected.mean, rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(centroid.m2, expected.m2, rtol=ROUNDING, atol=ROUNDING)


@examples(60)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=20), max_size=5))
def test_moments_of_numbers(parts: list[list[float]]) -> None:
    one_by_one, twin = _core.Moments(), ReferenceMoments()
    merged, twin_merged = _core.Moments(), ReferenceMoments()
    for part in parts:
        native, reference = _core.Moments(), ReferenceMoments()
        for value in part:
            for moments in (one_by_one, twin, native, reference):
                moments.update(value)
        merged.merge(native)
        twin_merged.merge(reference)
    assert (one_by_one.count, one_by_one.mean, one_by_one.m2) == (twin.count, twin.mean, twin.m2)
    assert (merged.count, merged.mean, merged.m2) == (
        twin_merged.count,
        twin_merged.mean,
        twin_merged.m2,
    )
    values = [value for part in parts for value in part]
    if len(values) > 1:
        assert one_by_one.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
        assert one_by_one.variance == pytest.approx(np.var(values, ddof=1), rel=1e-9, abs=1e-3)
    else:
        assert one_by_one.variance == 0.0


@examples(60)
@given(seeds, st.sampled_from(DIMS), st.integers(1, 20))
def test_distance_to_the_centroid(seed: int, dim: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, dim)).astype(np.float32)
    vector = rng.normal(size=dim).astype(np.float32)
    for _ in each_level():
        centroid = _core.Centroid(dim)
        assert centroid.distance(vector) == 0.0
        centroid.update(rows)
        distance = centroid.distance(vector)
        assert distance == math.sqrt(squared_distance(vector, centroid.mean))
        assert distance == pytest.approx(
            np.linalg.norm(vector.astype(np.float64) - rows.astype(np.float64).mean(axis=0)),
            rel=ROUNDING,
            abs=1e-12,
        )


# -- filters -------------------------------------------------------------------------------------


@examples(80)
@given(
    seed=seeds,
    count=st.sampled_from(SIZES),
    tags=st.none() | st.lists(st.sampled_from([*TAGS, "unknown"]), max_size=3),
    since=st.none() | st.sampled_from([NOW - 40 * DAY, NOW - 7 * DAY, NOW, NOW + 9 * DAY]),
    until=st.none() | st.sampled_from([NOW - 40 * DAY, NOW - 7 * DAY, NOW, NOW + 9 * DAY]),
    also=st.none() | st.just("some"),
    status=st.sampled_from([None, "none", "open", "completed"]),
    allowed=st.none() | st.sampled_from(["some", "unknown", "empty"]),
    removed=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_filters(seed: int, count: int, removed: float, **wanted: object) -> None:
    engine = made_engine(seed, count, 3, removed=removed)
    rng = np.random.default_rng(seed)
    for name in ("also", "allowed"):
        if wanted[name] is not None:
            chosen = np.flatnonzero(rng.random(count + 5) < 0.5)  # removed and unknown ids too
            wanted[name] = chosen if wanted[name] == "some" else chosen[count:]
    if wanted["allowed"] is not None and rng.random() < 0.1:
        wanted["allowed"] = []
    expected = engine.ids[ReferenceEngine(engine.state()).passes(**wanted)]
    for _ in each_level():
        found = engine.search(np.ones(3), count + 1, now=NOW, **wanted)
        assert sorted(found.ids.tolist()) == expected.tolist()


def test_since_is_inside_and_until_is_outside() -> None:
    engine = Engine(1)
    times = [NOW - 1.0, np.nextafter(NOW, 0), NOW, np.nextafter(NOW, 2 * NOW), NOW + 1.0]
    engine.add(np.ones((65 * 5, 1)), created=times * 65, now=NOW)
    for _ in each_level():
        for wanted, inside in (
            ({"since": NOW}, {2, 3, 4}),
            ({"until": NOW}, {0, 1}),
            ({"since": NOW, "until": NOW}, set()),
            ({"since": times[1], "until": times[3]}, {1, 2}),
        ):
            found = engine.search([1.0], 400, now=NOW, **wanted).ids
            assert sorted(found.tolist()) == [i for i in range(65 * 5) if i % 5 in inside]


@examples(60)
@given(
    seeds,
    st.sampled_from(SIZES),
    st.lists(st.sampled_from([*TAGS, "unknown"]), max_size=3),
    st.sampled_from([0.0, 0.3]),
)
def test_scan_for_tags(seed: int, count: int, tags: list[str], removed: float) -> None:
    engine = made_engine(seed, count, 1, removed=removed)
    state = engine.state()
    rows = np.flatnonzero(ReferenceEngine(state).passes(tags=tags))
    created = state["created"][rows]
    newest = max(zip(created, state["ids"][rows], strict=True), default=(0.0, None))[1]
    for _ in each_level():
        assert engine.with_tags(tags).tolist() == state["ids"][rows].tolist()
        assert engine.newest(tags) == newest


def test_more_tags_than_a_bloom_word_can_tell_apart() -> None:
    engine = Engine(1)
    names = [f"word {i}" for i in range(3000)]
    engine.add(np.ones((3000, 1)), tags=[(name,) for name in names], now=NOW)
    engine.add(np.ones((1, 1)), tags=names[:1000], now=NOW)  # its Bloom word is full
    for level in each_level():
        for i in (0, 1, 63, 64, 500, 999):
            assert engine.with_tags([names[i]]).tolist() == [i, 3000], level
            found = engine.search([1.0], 10, now=NOW, tags=[names[i]])
            assert sorted(found.ids.tolist()) == [i, 3000], level
        assert engine.with_tags(names[:50]).tolist() == [3000]


# -- suppression ---------------------------------------------------------------------------------


@examples(60)
@given(
    seed=seeds,
    count=st.sampled_from(SIZES[1:]),
    dim=st.sampled_from([2, 3, 5, 17]),
    policy=policies(),
    style=st.sampled_from(["random", "equal", "close"]),
    removed=st.sampled_from([0.0, 0.3]),
    everything=st.booleans(),
    hours=st.sampled_from([0.0, 0.5, 24.0]),
)
def test_suppression(
    seed: int,
    count: int,
    dim: int,
    policy: Policy,
    style: str,
    removed: float,
    everything: bool,
    hours: float,
) -> None:
    rng = np.random.default_rng(seed)
    accessed_share, related_share = rng.random(2)
    results = []
    for _ in each_level():
        engine = made_engine(seed, count, dim, policy, style=style, removed=removed)
        choice = np.random.default_rng(seed + 1)
        accessed = engine.ids[choice.random(len(engine)) < accessed_share]
        related = None if everything else engine.ids[choice.random(len(engine)) < related_share]
        now = NOW + 90.0 + 3600.0 * hours
        twin = ReferenceEngine(engine.state())
        moved = engine.suppress(accessed, related, now=now)
        assert moved.tolist() == twin.suppress(accessed, related, now)
        state = engine.state()
        for name in ("vividness", "vividness_time", "last_strength_change", "access_count"):
            np.testing.assert_array_equal(state[name], twin.state[name], err_msg=name)
        results.append(state["vividness"])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


# -- rows ----------------------------------------------------------------------------------------


@examples(60)
@given(seeds, st.sampled_from(SIZES), st.sampled_from(DIMS), st.sampled_from([1e-44, 1e-6, 1e37]))
def test_rows_are_normalised(seed: int, count: int, dim: int, size: float) -> None:
    rows = unit_rows(np.random.default_rng(seed), count, dim, "random") * size
    rows = rows.astype(np.float32)
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    zero = np.flatnonzero(norms[:, 0] == 0.0)
    first_zero = int(zero[0]) if len(zero) else count
    for _ in each_level():
        unit, good = _core.normalize_rows(rows)
        assert good == first_zero
        # The twin's norm is summed in another order: the last bit of float32 may differ.
        expected = (wide[:good] / norms[:good]).astype(np.float32)
        np.testing.assert_allclose(unit[:good], expected, rtol=2.0**-23, atol=1e-45)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
@pytest.mark.parametrize("place", [0, 3, 8])
def test_the_first_row_without_direction_is_named(bad: float | None, place: int) -> None:
    rows = np.ones((9, 5), np.float32)
    if bad is None:
        rows[place] = 0.0
    else:
        rows[place, 4] = bad
    rows[8, 0] = np.nan
    for _ in each_level():
        assert _core.normalize_rows(rows)[1] == place
