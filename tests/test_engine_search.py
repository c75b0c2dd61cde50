"""The fused top-k is exact: it equals a float64 brute force, bit for bit, whatever runs it.

Ids and every term of the score are compared for equality with the readable twin. Beside it, scores
are compared with the plain formula in NumPy within 1e-12: float64 rounding in another order.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, Policy
from flashbulb._columns import to_unit_rows
from flashbulb._reference import ReferenceEngine, ReferenceHits
from flashbulb.engine import SearchResult
from simd import each_level
from strategies import (
    DAY,
    DIMS,
    NOW,
    SIZES,
    TAGS,
    assert_same_state,
    examples,
    made_engine,
    policies,
    seeds,
    segments_of,
    unit_rows,
)

PLAIN_FORMULA = 1e-12


def assert_same(found: Any, expected: Any, message: str = "") -> None:
    for name in SearchResult._fields:
        np.testing.assert_array_equal(
            getattr(found, name), getattr(expected, name), err_msg=f"{name} {message}"
        )


def part_of(found: SearchResult, query: int) -> SearchResult:
    return SearchResult(*(values[query] for values in found))


def brute_force(engine: Engine, queries: np.ndarray, k: int, **wanted: Any) -> list[ReferenceHits]:
    twin = ReferenceEngine(engine.state())
    addends = wanted.pop("addends", None) or [None] * len(queries)
    units = to_unit_rows(queries, engine.dim, "queries")
    return [
        twin.search(query, k, addends=pair, **wanted)
        for query, pair in zip(units, addends, strict=True)
    ]


cases = st.fixed_dictionaries(
    {
        "seed": seeds,
        "count": st.sampled_from((*SIZES, 1000, 3000)),
        "dim": st.sampled_from(DIMS),
        "policy": policies(),
        "style": st.sampled_from(["random", "equal", "close"]),
        "removed": st.sampled_from([0.0, 0.0, 0.2, 0.9, 1.0]),
    }
)


def varied_queries(engine: Engine, rng: np.random.Generator, count: int) -> np.ndarray:
    """Random directions, and directions of (or close to) stored memories."""
    queries = unit_rows(rng, count, engine.dim, "random")
    for i in range(0, count, 2):
        if len(engine):
            queries[i] = engine.vectors([rng.choice(engine.ids)])[0]
            queries[i] += rng.choice([0.0, 1e-7, 0.1]) * rng.normal(size=engine.dim)
    return np.where(np.abs(queries).max(axis=1, keepdims=True) > 0, queries, 1.0)


def varied_addends(
    engine: Engine, rng: np.random.Generator, queries: int, size: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    pairs = []
    for _ in range(queries):
        ids = rng.permutation(engine.next_id + 3)[: rng.integers(engine.next_id + 4)]
        pairs.append((ids, size * rng.choice([-1.0, 0.0, 0.25, 0.5, 1.0], size=len(ids))))
    return pairs


@examples(120)
@given(
    case=cases,
    k=st.sampled_from([0, 1, 2, 5, 10, 100, 5000]),
    days=st.sampled_from([-500.0, 0.0, 0.5, 30.0, 4000.0]),
    weight=st.sampled_from([1.0, 0.6, 0.0, -1.0, 1e3]),
    addend_size=st.sampled_from([None, 0.5, 1e-9, 1e6]),
    weights=st.sampled_from([(None, None), (0.0, 0.0), (1.0, 0.0), (0.0, 2.0)]),
    tags=st.none() | st.lists(st.sampled_from(TAGS), max_size=1),
    since=st.none() | st.just(NOW - 40 * DAY),
    status=st.sampled_from([None, None, "none", "open", "completed"]),
    named=st.booleans(),
    ramp=st.sampled_from([None, None, (0.1, 0.1), (-0.1, 0.3)]),
)
def test_top_k_equals_brute_force(
    case: dict[str, Any],
    k: int,
    days: float,
    weight: float,
    addend_size: float | None,
    weights: tuple[float | None, float | None],
    named: bool,
    ramp: tuple[float, float] | None,
    **filters: Any,
) -> None:
    engine = made_engine(**case)
    rng = np.random.default_rng(case["seed"] + 1)
    queries = varied_queries(engine, rng, int(rng.integers(1, 5)))
    wanted = {
        "now": NOW + DAY * days,
        "similarity_weight": weight,
        "vividness_weight": weights[0],
        "recency_weight": weights[1],
        **filters,
    }
    if addend_size is not None:
        wanted["addends"] = varied_addends(engine, rng, len(queries), addend_size)
    if ramp is not None:
        wanted["vividness_ramp"] = ramp
    if named:
        ids = np.arange(engine.next_id + 3)
        wanted["allowed"] = ids[rng.random(len(ids)) < rng.choice([0.01, 0.2, 0.9])]
    expected = brute_force(engine, queries, k, **wanted)
    for level in each_level():
        found = engine.search(queries, k, **wanted)
        for i, one in enumerate(expected):
            assert_same(part_of(found, i), one, f"query {i} at {level}")


@pytest.mark.parametrize(
    ("dim", "style"),
    [(1, "random"), (7, "close"), (100, "equal"), (384, "random"), (1024, "close")],
)
def test_twenty_thousand_rows(dim: int, style: str) -> None:
    engine = made_engine(5, 20_000, dim, style=style, removed=0.1)
    queries = varied_queries(engine, np.random.default_rng(6), 2)
    for wanted in ({}, {"vividness_weight": 0.0, "recency_weight": 0.0}, {"tags": [TAGS[0]]}):
        expected = brute_force(engine, queries, 25, now=NOW, **wanted)
        for level in each_level():
            found = engine.search(queries, 25, now=NOW, **wanted)
            for i, one in enumerate(expected):
                assert_same(part_of(found, i), one, f"query {i} at {level}")


@pytest.mark.parametrize("dim", [16, 100, 384])
def test_near_duplicates_around_the_last_place(dim: int) -> None:
    # A thousand rows whose cosines differ by less than float32 can tell, k in the midst of them.
    rng = np.random.default_rng(dim)
    query = rng.normal(size=dim)
    rows = query + 1e-6 * rng.normal(size=(1000, dim))
    engine = Engine(dim)
    engine.add(np.concatenate([rows, rng.normal(size=(2000, dim))]), now=NOW)
    for k in (1, 10, 500, 999):
        (expected,) = brute_force(engine, query[None, :], k, now=NOW)
        for level in each_level():
            assert_same(engine.search(query, k, now=NOW), expected, f"k {k} at {level}")


@pytest.mark.parametrize("count", SIZES)
def test_equal_rows_come_in_the_order_of_their_ids(count: int) -> None:
    engine = Engine(9)
    engine.add(np.ones((count, 9)), now=NOW)
    for k in {1, count // 2, count, count + 1}:
        for level in each_level():
            found = engine.search(np.ones(9), k, now=NOW)
            assert found.ids.tolist() == list(range(min(k, count))), level


@examples(30)
@given(
    case=cases,
    queries=st.sampled_from([1, 2, 5, 17]),
    segment_rows=st.sampled_from([1, 7, 64, 300]),
    metric=st.sampled_from([faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2]),
)
def test_same_bits_in_any_batch_segmentation_and_index(
    case: dict[str, Any], queries: int, segment_rows: int, metric: int
) -> None:
    engine = made_engine(**case)
    rng = np.random.default_rng(case["seed"] + 2)
    asked = varied_queries(engine, rng, queries)
    addends = varied_addends(engine, rng, queries, 0.5)
    wanted = {"now": NOW + DAY, "k": 7}
    with segments_of(segment_rows):
        others = [made_engine(**case), made_engine(**case)]
    others[1].compact()
    others.append(made_engine(**case, index=faiss.IndexFlat(case["dim"], metric)))
    others.append(Engine.from_state(engine.state()))
    expected = engine.search(asked, addends=addends, **wanted)
    for level in each_level():
        for other in (engine, *others):
            assert_same(other.search(asked, addends=addends, **wanted), expected, level)
        for i in range(queries):
            one = engine.search(asked[i], addends=addends[i], **wanted)
            assert_same(one, part_of(expected, i), level)


@examples(40)
@given(case=cases, days=st.sampled_from([0.0, 3.0, 400.0]))
def test_scores_follow_the_plain_formula(case: dict[str, Any], days: float) -> None:
    case["policy"] = policy = Policy.published(decay_law=case["policy"].decay_law)
    engine = made_engine(**case)
    now = NOW + DAY * days
    query = np.random.default_rng(case["seed"]).normal(size=case["dim"])
    found = engine.search(query, len(engine), now=now)
    assert len(found.ids) == len(engine)

    s = engine.traces(found.ids)
    rows = engine.vectors(found.ids).astype(np.float64)
    unit = to_unit_rows(query, engine.dim, "query")[0].astype(np.float64)
    age = np.maximum(now - s["vividness_time"], 0.0) / DAY
    rate = 0.1 * (1.0 - 0.5 * s["salience"])
    if policy.decay_law == "asymptotic":
        v = s["floor"] + (s["vividness"] - s["floor"]) * np.exp(-0.097 * age)
    else:
        v = np.maximum(s["vividness"] * np.exp(-rate * age), s["floor"])
    v = np.where(s["pinned"], 1.0, v)
    e = np.where(s["status"] == 1, np.minimum(v + 0.2 * np.nan_to_num(s["urgency"]), 1.0), v)
    e = np.where(s["status"] == 2, np.maximum(v - 0.1, s["floor"]), e)
    days_old = np.maximum(now - np.fmax(s["created"], s["last_access"]), 0.0) / DAY
    expected = rows @ unit + 0.3 * e * s["salience"] + 0.1 * np.exp(-days_old / 30.0)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=PLAIN_FORMULA)


@examples(40)
@given(case=cases, scale=st.sampled_from([1e-30, 1.0, 1e30, 1e300]))
def test_terms_add_up_and_length_of_a_query_does_not_matter(
    case: dict[str, Any], scale: float
) -> None:
    engine = made_engine(**case)
    query = np.sign(np.random.default_rng(case["seed"]).normal(size=case["dim"]))
    found = engine.search(query, 50, now=NOW)
    assert_same(engine.search(query * scale, 50, now=NOW), found)
    np.testing.assert_array_equal(
        found.scores, (found.similarities + found.vividness_bonus) + found.recency_bonus
    )
    order = np.lexsort((found.ids, -found.scores))
    assert order.tolist() == list(range(len(order)))
    np.testing.assert_array_equal(
        engine.cosines(query, found.ids)[0] if len(found.ids) else [], found.cosines
    )


def around_cosine(cosine: float, spread: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A query and rows whose cosines to it lie so closely around one value."""
    rng = np.random.default_rng(8)
    query = rng.normal(size=DIM_OF_CLOSE)
    query /= np.linalg.norm(query)
    aside = rng.normal(size=(count, DIM_OF_CLOSE))
    aside -= np.outer(aside @ query, query)
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosines = cosine + rng.uniform(-spread, spread, size=(count, 1))
    return query[None, :], cosines * query + np.sqrt(1.0 - cosines**2) * aside


DIM_OF_CLOSE = 300


@pytest.mark.parametrize("size", [2.0**30, 1e12])
@pytest.mark.parametrize("k", [1, 500, 1000, 1500, 2000])
def test_large_addends_stay_exact(size: float, k: int) -> None:
    # The last place of 1e12 is 2^-13: cosines around half of it are rounded up or down there, and
    # float32 takes some of them to the other side.
    place = np.spacing(size)
    cosine = (np.floor(0.5 / place) + 0.5) * place
    query, rows = around_cosine(cosine, 2e-7, 2000)
    engine = Engine(DIM_OF_CLOSE)
    engine.add(rows, now=NOW)
    plain = {"now": NOW, "vividness_weight": 0.0, "recency_weight": 0.0}
    addends = [(engine.ids, np.full(2000, size))]
    (expected,) = brute_force(engine, query, k, addends=addends, **plain)
    for level in each_level():
        found = part_of(engine.search(query, k, addends=addends, **plain), 0)
        assert_same(found, expected, level)


@pytest.mark.parametrize("term", ["vividness", "recency"])
def test_narrow_ramps_stay_exact(term: str) -> None:
    # Within the ramp a last place of float32 is worth tens in the score.
    ramps = {f"{term}_ramp_start": 0.3, f"{term}_ramp_end": 0.300002, f"{term}_weight": 1000.0}
    query, rows = around_cosine(0.300001, 1.5e-6, 2000)
    engine = Engine(DIM_OF_CLOSE, policy=Policy.published(**ramps))
    engine.add(rows, salience=1.0, now=NOW)
    for k in (1, 20, 1000):
        (expected,) = brute_force(engine, query, k, now=NOW)
        for level in each_level():
            assert_same(part_of(engine.search(query, k, now=NOW), 0), expected, level)


def test_searching_changes_nothing() -> None:
    engine = made_engine(1, 100, 5, removed=0.2)
    before = engine.state()
    engine.search(np.ones((3, 5)), 10, now=NOW + 1e9, tags=[TAGS[0]])
    engine.vividness(now=NOW + 1e9)
    assert_same_state(engine.state(), before)


# -- shapes and arguments ------------------------------------------------------------------------


def test_shapes() -> None:
    engine = made_engine(1, 10, 4)
    for k, expected in ((0, 0), (3, 3), (10, 10), (11, 10), (2**63, 10)):
        one = engine.search(np.ones(4), k, now=NOW)
        several = engine.search(np.ones((3, 4)), k, now=NOW)
        for name, values in one._asdict().items():
            assert values.shape == (expected,), name
            assert values.dtype == (np.int64 if name == "ids" else np.float64), name
        assert {values.shape for values in several} == {(3, expected)}
        none = engine.search(np.empty((0, 4)), k, now=NOW)
        assert {values.shape for values in none} == {(0, expected)}


@pytest.mark.parametrize("count", [10, 600])  # with a sketch, too
def test_no_queries_find_as_many_memories_each_as_some_do(count: int) -> None:
    engine = made_engine(1, count, 4)
    for arguments in ({}, {"allowed": [1, 2, 7]}, {"since": NOW + 1e9}, {"tags": ["no such"]}):
        one = engine.search(np.ones((1, 4)), 5, now=NOW, **arguments)
        none = engine.search(np.empty((0, 4)), 5, now=NOW, **arguments)
        assert none.ids.shape == (0, one.ids.shape[1])
    assert Engine(4).search(np.empty((0, 4)), 5, now=NOW).ids.shape == (0, 0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"queries": np.ones(5)}, ValueError, "4 dimensions, got 5"),
        ({"queries": np.ones((2, 3))}, ValueError, "4 dimensions, got 3"),
        ({"queries": np.ones((1, 1, 4))}, ValueError, "shape"),
        ({"queries": 3.0}, ValueError, "shape"),
        ({"queries": np.zeros(4)}, ValueError, "row 0"),
        ({"queries": [[1, 2, 3, 4], [0, 0, 0, 0]]}, ValueError, "row 1"),
        ({"queries": ["a", "b", "c", "d"]}, TypeError, "real numbers"),
        ({"queries": np.ones(4, complex)}, TypeError, "real numbers"),
        ({"queries": np.ones(4, bool)}, TypeError, "real numbers"),
        ({"k": -1}, ValueError, "k"),
        ({"k": 1.0}, TypeError, "k"),
        ({"k": True}, TypeError, "k"),
        ({"k": None}, TypeError, "k"),
        ({"k": "3"}, TypeError, "k"),
        ({"now": float("nan")}, ValueError, "now"),
        ({"now": "today"}, TypeError, "now"),
        ({"since": float("inf")}, ValueError, "since"),
        ({"until": None, "since": "x"}, TypeError, "since"),
        ({"tags": "tag1"}, TypeError, "tags"),
        ({"tags": [1]}, TypeError, "tags"),
        ({"status": "done"}, ValueError, "status"),
        ({"similarity_weight": float("nan")}, ValueError, "similarity_weight"),
        ({"similarity_weight": float("inf")}, ValueError, "similarity_weight"),
        ({"similarity_weight": 1e13}, ValueError, "similarity_weight"),
        ({"vividness_weight": -0.1}, ValueError, "vividness_weight"),
        ({"vividness_weight": float("nan")}, ValueError, "vividness_weight"),
        ({"recency_weight": float("inf")}, ValueError, "recency_weight"),
        ({"vividness_ramp": (0.1, 0.0)}, ValueError, "vividness_ramp_end"),
        ({"vividness_ramp": (float("nan"), 0.5)}, ValueError, "vividness_ramp_start"),
        ({"exact": 1}, TypeError, "exact"),
        ({"allowed": [1.5]}, TypeError, "ids"),
        ({"also": ["1"]}, TypeError, "ids"),
        ({"addends": ([0, 0], [1.0, 2.0])}, ValueError, "repeat"),
        ({"addends": ([0, 1], [1.0, 2.0, 3.0])}, ValueError, "addend"),
        ({"addends": ([0, 1], [1.0, float("nan")])}, ValueError, "addend"),
        ({"addends": ([0], [float("inf")])}, ValueError, "addend"),
        ({"addends": ([0], [-1e13])}, ValueError, "addend"),
        ({"addends": ([0.5], [1.0])}, TypeError, "addend ids"),
        ({"queries": np.ones((2, 4)), "addends": [([0], [1.0])]}, ValueError, "2 queries"),
    ],
)
def test_bad_arguments_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    engine = made_engine(1, 10, 4)
    arguments: dict[str, Any] = {"queries": np.ones(4), "k": 3, "now": NOW, **changes}
    with pytest.raises(error, match=message):
        engine.search(arguments.pop("queries"), arguments.pop("k"), **arguments)
    assert len(engine.search(np.ones(4), 3, now=NOW).ids) == 3
