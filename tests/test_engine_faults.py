"""Faults of vectors, ids and queries that people met in other stores, ruled out.

The numbers are those of the project's list of faults; each test covers the whole kind.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import DimensionMismatch, Engine, MemoryNotFound, Policy, SurpriseDetector
from simd import each_level
from strategies import DAY, NOW, assert_same_state, examples, made_engine, policies, seeds

DIM = 12
KINDS: dict[str, Callable[[], Any]] = {
    "own": lambda: DIM,
    "inner product": lambda: faiss.IndexFlatIP(DIM),
    "L2": lambda: faiss.IndexFlatL2(DIM),
}


def rows_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, DIM))


def engine_of(count: int, kind: str = "own", **given: Any) -> Engine:
    engine = Engine(KINDS[kind](), policy=given.pop("policy", None))
    engine.add(rows_of(count), now=NOW, **given)
    return engine


def state_but_latest(engine: Engine) -> dict[str, Any]:
    return {name: value for name, value in engine.state().items() if name != "latest"}


# -- R01: a vector that is not finite ------------------------------------------------------------

NOT_FINITE = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("row", [0, 37, 49])
def test_r01_one_bad_row_refuses_the_whole_batch(
    kind: str, bad: float, dtype: type, row: int
) -> None:
    engine, clean = engine_of(100, kind), engine_of(100, kind)
    before = engine.state()
    for column in (0, DIM - 1):
        batch = rows_of(50, 1).astype(dtype)
        batch[row, column] = bad
        with pytest.raises(ValueError, match=rf"row {row} "):
            engine.add(batch, now=NOW)
    single = rows_of(1, 2)[0]
    single[3] = bad
    with pytest.raises(ValueError, match="row 0 "):
        engine.add(single, now=NOW)
    with pytest.raises(ValueError, match="row 0 "):
        engine.search(single, 5, now=NOW)
    with pytest.raises(ValueError, match="row 0 "):
        engine.cosines(single, [0])
    assert_same_state(engine.state(), before)
    reopened = Engine.from_state(engine.state())
    for level in each_level():
        expected = clean.search(rows_of(5, 3), 10, now=NOW)
        for each in (engine, reopened):
            found = each.search(rows_of(5, 3), 10, now=NOW)
            assert [a.tolist() for a in found] == [a.tolist() for a in expected], level


def test_r01_the_first_of_several_bad_rows_is_named() -> None:
    batch = rows_of(50)
    batch[[31, 37, 44]] = np.nan
    with pytest.raises(ValueError, match="row 31 "):
        engine_of(1).add(batch, now=NOW)


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
@pytest.mark.parametrize("bad", [*NOT_FINITE, 0.0])
def test_r01_surprise_refuses_it_too(mode: Any, bad: float) -> None:
    detector = SurpriseDetector(mode)
    for row in rows_of(5):
        detector.observe(row, ["a"], NOW)
    before = detector.state(), detector.samples, dict(detector.last_seen)
    vector = np.zeros(DIM) if bad == 0.0 else rows_of(1, 9)[0]
    vector[4] = bad
    for call in (detector.score, detector.update, detector.observe):
        with pytest.raises(ValueError, match="vector"):
            call(vector, ["b"], NOW)
    assert (detector.state(), detector.samples, dict(detector.last_seen)) == before


# -- R03: another number of dimensions -----------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, DIM - 1, DIM + 1, 2 * DIM])
def test_r03_the_error_names_both_sizes(kind: str, dim: int) -> None:
    engine = engine_of(20, kind)
    before = engine.state()
    wrong = np.ones((3, dim))
    for call in (
        lambda: engine.add(wrong, now=NOW),
        lambda: engine.add(wrong[0], now=NOW),
        lambda: engine.search(wrong, 3, now=NOW),
        lambda: engine.search(wrong[0], 3, now=NOW),
        lambda: engine.cosines(wrong, [0]),
    ):
        with pytest.raises(DimensionMismatch, match=rf"{DIM} dimensions, .*got {dim}\b"):
            call()
    batch = [list(row) for row in rows_of(5)]
    batch[2] = [1.0] * dim
    with pytest.raises(DimensionMismatch, match=rf"row 2 .*{DIM} dimensions, got {dim}\b"):
        engine.add(batch, now=NOW)
    assert_same_state(engine.state(), before)
    assert len(engine._rows) == 20  # no row without its trace, no trace without its row
    assert engine.add(rows_of(1, 5), now=NOW).tolist() == [20]


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
def test_r03_in_surprise(mode: Any) -> None:
    detector = SurpriseDetector(mode)
    detector.observe(np.ones(DIM), [], NOW)
    for call in (detector.score, detector.update, detector.observe):
        with pytest.raises(DimensionMismatch, match=rf"{DIM} dimensions, got 3\b"):
            call(np.ones(3), [], NOW)
    assert detector.observe(np.ones(DIM), [], NOW).distance == pytest.approx(0.0, abs=1e-6)


# -- R10: ids that are not exact integers --------------------------------------------------------

ID_CALLS: dict[str, Callable[[Engine, Any], Any]] = {
    "touch": lambda engine, ids: engine.touch(ids, NOW),
    "suppress": lambda engine, ids: engine.suppress(ids, now=NOW),
    "suppress related": lambda engine, ids: engine.suppress([0], ids, now=NOW),
    "complete": lambda engine, ids: engine.complete(ids, NOW),
    "pin": lambda engine, ids: engine.pin(ids, now=NOW),
    "unpin": lambda engine, ids: engine.unpin(ids, now=NOW),
    "remove": lambda engine, ids: engine.remove(ids),
    "vividness": lambda engine, ids: engine.vividness(ids, now=NOW),
    "vectors": lambda engine, ids: engine.vectors(ids),
    "traces": lambda engine, ids: engine.traces(ids),
    "cosines": lambda engine, ids: engine.cosines(rows_of(1), ids),
    "also": lambda engine, ids: engine.search(rows_of(1), 5, now=NOW, also=ids, since=NOW + 1),
    "allowed": lambda engine, ids: engine.search(rows_of(1), 5, now=NOW, allowed=ids),
    "addends": lambda engine, ids: engine.search(
        rows_of(1)[0], 5, now=NOW, addends=(ids, np.ones(np.size(ids)))
    ),
    "add": lambda engine, ids: engine.add(rows_of(np.size(ids)), ids=ids, now=NOW),
    "contains": lambda engine, ids: ids in engine,
    "from_state": lambda engine, ids: Engine.from_state({**engine.state(), "ids": [0, 1, ids]}),
}
PASS_OVER_UNKNOWN_IDS = {"remove", "also", "allowed", "addends", "contains"}
NOT_IDS: dict[str, Any] = {
    "float": 1.9,
    "whole float": 1.0,
    "NaN": float("nan"),
    "bool": True,
    "NumPy bool": np.True_,
    "NumPy float": np.float64(1.0),
    "digits": "7",
    "bytes": b"7",
    "empty text": "",
    "UUID": uuid.UUID(int=1),
    "None": None,
    "complex": 1j,
}


# None stands for all ids, for no filter, or for the next free ids there.
NONE_HAS_A_MEANING = {"suppress related", "vividness", "traces", "also", "allowed", "add"}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (call, name)
        for call in ID_CALLS
        for name in NOT_IDS
        if not (name == "None" and call in NONE_HAS_A_MEANING)
    ],
)
def test_r10_what_is_no_integer_is_no_id(call: str, name: str) -> None:
    value = NOT_IDS[name]
    engine = engine_of(3, urgency=0.5)
    before = state_but_latest(engine)
    for ids in (value, [value], [0, value], np.array([value])):
        if call == "from_state" and ids is not value:
            continue
        with pytest.raises(TypeError):
            ID_CALLS[call](engine, ids)
    assert_same_state(state_but_latest(engine), before)


@pytest.mark.parametrize("call", ID_CALLS)
@pytest.mark.parametrize("value", [2**63, 2**64 + 1, -(2**63) - 1, np.uint64(2**63 + 5)])
def test_r10_what_does_not_fit_is_not_wrapped(call: str, value: Any) -> None:
    engine = engine_of(3, urgency=0.5)
    before = state_but_latest(engine)
    forms = [value]
    if isinstance(value, np.uint64) and call not in ("contains", "from_state"):
        forms.append(np.array([value]))
    for ids in forms:
        if call in PASS_OVER_UNKNOWN_IDS:
            found, expected = ID_CALLS[call](engine, ids), ID_CALLS[call](engine, 99)
            np.testing.assert_equal(found, expected)
        elif call in ("add", "from_state"):
            with pytest.raises(ValueError, match=rf"ids must fit int64, got {value}"):
                ID_CALLS[call](engine, ids)
        else:
            with pytest.raises(MemoryNotFound, match=rf"no memory has the id {value}"):
                ID_CALLS[call](engine, ids)
    assert_same_state(state_but_latest(engine), before)


def test_r10_ids_of_other_memories_count_beside_what_does_not_fit() -> None:
    engine = engine_of(3)
    query = rows_of(1)[0]
    for ids in ([2**63, 1], [1, -(2**70)], np.array([1, 2**63], np.uint64)):
        assert engine.search(query, 3, now=NOW, allowed=ids).ids.tolist() == [1]
        assert engine.search(query, 3, now=NOW, since=NOW + 1, also=ids).ids.tolist() == [1]
        found = engine.search(query, 3, now=NOW, addends=(ids, [9.0, 9.0]))
        assert found.ids[0] == 1
    engine.search(query, 3, now=NOW, addends=([2**63, 2**64], [9.0, 9.0]))
    assert engine.remove([2**63, 1]) == 1
    assert engine.ids.tolist() == [0, 2]
    large = 2**62 + 1  # no float64
    engine.add(rows_of(1), ids=[large], now=NOW)
    assert engine.remove([2**63, -1, large - 1]) == 0
    assert engine.remove([2**63, -1, large]) == 1


@pytest.mark.parametrize("wanted", [[0, 1, 2**53 + 1, 2**53 + 3, 2**62 + 1, 2**63 - 2]])
def test_r10_large_ids_come_back_exactly(wanted: list[int]) -> None:
    engine = Engine(DIM)
    rows = rows_of(len(wanted))
    assert engine.add(rows, ids=wanted, now=NOW).tolist() == wanted
    for memory_id, row in zip(wanted, rows, strict=True):
        assert engine.search(row, 1, now=NOW).ids.tolist() == [memory_id]
        assert engine.search(row, 9, now=NOW, allowed=[memory_id]).ids.tolist() == [memory_id]
        assert memory_id in engine
        assert memory_id + 1 not in engine or memory_id + 1 in wanted
        engine.touch(np.uint64(memory_id), NOW)
    assert engine.traces()["access_count"].tolist() == [1] * len(wanted)
    assert Engine.from_state(engine.state()).ids.tolist() == wanted
    assert engine.remove(2**53 + 1) == 1
    assert engine.ids.tolist() == [i for i in wanted if i != 2**53 + 1]


def test_r10_no_result_has_no_id() -> None:
    # -1 is FAISS's mark for "nothing found"; it is nobody's id.
    engine = engine_of(3)
    with pytest.raises(ValueError, match="-1"):
        engine.add(rows_of(1), ids=[-1], now=NOW)
    with pytest.raises(KeyError):
        engine.touch(-1, NOW)
    assert engine.remove(-1) == 0
    assert -1 not in engine


# -- R11, R13: k and what there is ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_r11_fewer_than_k_pass_the_filter(kind: str) -> None:
    engine = engine_of(10, kind, tags=[["a"] if i in (2, 7) else ["b"] for i in range(10)])
    filters: list[dict[str, Any]] = [{"tags": ["a"]}, {"allowed": [2, 7]}]
    for removed, left in ((None, 2), (7, 1), (2, 0)):
        if removed is not None:
            engine.remove(removed)
        for wanted in filters:
            for queries in (rows_of(1)[0], rows_of(3)):
                for _ in each_level():
                    found = engine.search(queries, 5, now=NOW, **wanted)
                    assert found.ids.shape[-1] == left
                    assert set(found.ids.ravel().tolist()) <= {2, 7}
                    assert all(np.isfinite(values).all() for values in found)
                    assert np.abs(found.scores).max(initial=0.0) < 2.0


def _never_written(kind: str) -> Engine:
    return Engine(KINDS[kind]())


def _emptied(kind: str) -> Engine:
    engine = engine_of(30, kind)
    engine.remove(engine.ids)
    return engine


def _emptied_and_compacted(kind: str) -> Engine:
    engine = _emptied(kind)
    engine.compact()
    return engine


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [_never_written, _emptied, _emptied_and_compacted])
def test_r13_an_empty_engine_answers_everything(kind: str, make: Callable[[str], Engine]) -> None:
    engine = make(kind)
    for k in (0, 1, 30, 31, 10**6, 2**31, 2**63 - 1, 2**64):
        for level in each_level():
            assert engine.search(rows_of(1)[0], k, now=NOW).ids.shape == (0,), level
            assert engine.search(rows_of(3), k, now=NOW).scores.shape == (3, 0), level
    assert engine.remove([0, 1, 2]) == 0
    assert engine.suppress([], now=NOW).tolist() == []
    assert engine.vividness(now=NOW).tolist() == []
    assert engine.with_tags(["a"]).tolist() == []
    assert engine.newest() is None
    assert engine.ids.tolist() == []
    assert 0 not in engine
    engine.decay(NOW)
    engine.touch([], NOW)
    engine.compact()
    assert_same_state(Engine.from_state(engine.state()).state(), engine.state())
    (memory_id,) = engine.add(rows_of(1), now=NOW).tolist()
    assert engine.search(rows_of(1)[0], 5, now=NOW).ids.tolist() == [memory_id]


@pytest.mark.parametrize("dim", [0, 32_769, 10**12, 2**64])
def test_dimensions_that_the_core_cannot_hold_are_refused(dim: int) -> None:
    with pytest.raises(ValueError, match=rf"dim must be in \[1, 32768\], got {dim}"):
        Engine(dim)
    with pytest.raises(ValueError, match=rf"dim must be in \[1, 32768\], got {dim}"):
        Engine.from_state({**engine_of(1).state(), "dim": dim})
    if dim == 32_769:
        with pytest.raises(ValueError, match=rf"dim must be in \[1, 32768\], got {dim}"):
            Engine(faiss.IndexFlatIP(dim), path="fp32")


def test_the_largest_dimension_is_held() -> None:
    engine = Engine(32_768, path="int8")
    engine.add(np.eye(2, 32_768), now=NOW)
    assert engine.search(np.eye(1, 32_768)[0], 1, now=NOW).ids.tolist() == [0]


@pytest.mark.parametrize(
    ("k", "error"),
    [
        (-1, ValueError),
        (-(2**63), ValueError),
        (-(2**64), ValueError),
        (1.5, TypeError),
        (2.0, TypeError),
        (float("inf"), TypeError),
        (None, TypeError),
        ("5", TypeError),
        (True, TypeError),
        ([5], TypeError),
    ],
)
@pytest.mark.parametrize("count", [0, 3])
def test_r13_k_must_be_a_count(k: Any, error: type[Exception], count: int) -> None:
    engine = engine_of(count)
    with pytest.raises(error, match=r"k must"):
        engine.search(rows_of(1)[0], k, now=NOW)


@pytest.mark.parametrize("k", [7, 8, 10**6, 2**31, 2**40, 2**63 - 1, 2**63, 2**64, np.int32(9)])
def test_r13_a_large_k_gives_what_there_is(k: int) -> None:
    engine = engine_of(7)
    for _ in each_level():
        found = engine.search(rows_of(2, 1), k, now=NOW)
        assert found.ids.shape == (2, 7)
        assert sorted(found.ids[0].tolist()) == list(range(7))


# -- R15: similarity, not distance ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_r15_exact_before_close_before_opposite(kind: str) -> None:
    engine = Engine(KINDS[kind]())
    exact = rows_of(1)[0]
    close = exact + 0.3 * rows_of(1, 1)[0]
    engine.add(np.stack([-exact, close, exact]), now=NOW)
    for _ in each_level():
        found = engine.search(exact, 3, now=NOW)
        assert found.ids.tolist() == [2, 1, 0]
        assert found.cosines.tolist() == pytest.approx([1.0, 0.96, -1.0], abs=0.05)
        assert (found.similarities >= 0.5).tolist() == [True, True, False]
        order = engine.search(exact, 3, now=NOW, vividness_weight=0, recency_weight=0).ids
        assert order.tolist() == [2, 1, 0]


@examples(30)
@given(seeds, st.sampled_from([2, 17, 256, 1000]))
def test_r15_the_nearest_is_first_in_every_backend(seed: int, count: int) -> None:
    rows = rows_of(count, seed)
    for kind in KINDS:
        engine = Engine(KINDS[kind]())
        engine.add(rows, now=NOW)
        found = engine.search(rows[:5], count, now=NOW)
        assert found.ids[:, 0].tolist() == list(range(min(5, count)))
        # By decreasing cosine, which is by increasing distance.
        assert (np.diff(found.cosines) <= 0).all()


# -- R16: boosts and relevance -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("age_days", [30, 400, 4000])
@pytest.mark.parametrize("others", [12, 500])
def test_r16_an_exact_match_is_first(kind: str, age_days: float, others: int) -> None:
    # Other topics: random directions of 64 dimensions in FAISS's storage; worst case in strength.
    dim = 64
    rng = np.random.default_rng(others)
    index = {"own": dim, "inner product": faiss.IndexFlatIP(dim), "L2": faiss.IndexFlatL2(dim)}
    engine = Engine(index[kind])
    old = rng.normal(size=dim)
    fresh = rng.normal(size=(others, dim))
    fresh -= np.outer(fresh @ old, old) / (old @ old)
    fresh += 0.25 * old  # not quite unrelated: a cosine of about 0.25
    engine.add(old, created=NOW - age_days * DAY, now=NOW)
    engine.add(fresh, salience=1.0, pinned=True, urgency=1.0, now=NOW)
    for _ in each_level():
        assert engine.search(old, 10, now=NOW).ids[0] == 0


@examples(60)
@given(seeds, policies(), st.sampled_from([1, 17, 300]))
def test_r16_boosts_are_bounded_by_their_weights(seed: int, policy: Policy, count: int) -> None:
    engine = made_engine(seed, count, 5, policy)
    found = engine.search(rows_of(3, seed)[:, :5], count, now=NOW)
    assert (found.vividness_bonus >= 0).all()
    assert (found.vividness_bonus <= policy.vividness_weight).all()
    assert (found.recency_bonus >= 0).all()
    assert (found.recency_bonus <= policy.recency_weight).all()
    # So a memory can only be overtaken by one whose similarity is within the sum of both.
    reach = policy.vividness_weight + policy.recency_weight
    best = found.similarities.max(axis=1)
    assert (found.similarities[:, 0] >= best - reach - 1e-12).all()
