"""Engine: adding, changing strength, state; what is refused changes nothing."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import DimensionMismatch, Engine, MemoryNotFound, Policy
from strategies import (
    DAY,
    NOW,
    SIZES,
    TAGS,
    assert_same_state,
    examples,
    made_engine,
    policies,
    seeds,
    segments_of,
)

UTC = dt.timezone.utc


def engine_of(count: int = 5, **given: Any) -> Engine:
    engine = Engine(4, policy=given.pop("policy", None))
    rows = np.random.default_rng(0).normal(size=(count, 4))
    engine.add(rows, now=NOW, **given)
    return engine


# -- adding --------------------------------------------------------------------------------------


def test_one_vector_or_several() -> None:
    engine = Engine(3)
    assert engine.add([1.0, 2.0, 2.0], now=NOW).tolist() == [0]
    assert engine.add([[3, 0, 0], [0, 0, -5]], now=NOW).tolist() == [1, 2]
    assert engine.add(np.empty((0, 3)), now=NOW).tolist() == []
    assert engine.ids.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(
        engine.vectors([2, 1, 0, 1]),
        np.array([[0, 0, -1], [1, 0, 0], [1 / 3, 2 / 3, 2 / 3], [1, 0, 0]], np.float32),
    )
    assert (len(engine), engine.next_id, engine.dim) == (3, 3, 3)
    assert repr(engine) == "Engine(dim=3, memories=3)"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64])
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed"])
def test_any_real_dtype_and_layout(dtype: type, order: str) -> None:
    rows = np.random.default_rng(1).integers(1, 100, (6, 4)).astype(dtype)
    given = {
        "C": np.ascontiguousarray(rows),
        "F": np.asfortranarray(rows),
        "strided": np.repeat(rows, 2, axis=1)[:, ::2],
        "reversed": np.ascontiguousarray(rows[::-1])[::-1],
    }[order]
    engine = Engine(4)
    engine.add(given, now=NOW)
    wide = rows.astype(np.float64)
    expected = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    np.testing.assert_allclose(engine.vectors(engine.ids), expected, atol=1e-7)


@pytest.mark.parametrize("size", [1e-300, 1e-44, 1e-20, 1e20, 3e38, 1e300])
def test_any_length_that_a_float_can_hold(size: float) -> None:
    engine = Engine(3)
    engine.add(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]) * size, now=NOW)
    np.testing.assert_allclose(engine.vectors([0, 1]), [[0.6, 0.8, 0], [0, 0, 1]], atol=1e-6)


def test_one_value_for_all_rows_or_one_a_row() -> None:
    engine = engine_of(3, salience=0.6, urgency=[0.5, np.nan, 1.0], tags=["a", "b", "a"])
    traces = engine.traces()
    assert traces["salience"].tolist() == [0.6] * 3
    assert traces["floor"].tolist() == [0.4] * 3
    assert traces["status"].tolist() == [1, 0, 1]
    assert engine.state()["tags"] == [("a", "b")] * 3
    engine = engine_of(3, salience=[0.1, 0.5, 0.9], floor=0.2, tags=[(), ["x"], ("y", "x", "y")])
    assert engine.traces()["floor"].tolist() == [0.2] * 3
    assert engine.state()["tags"] == [(), ("x",), ("y", "x")]
    engine = engine_of(2, created=[NOW - 5, NOW + 5], pinned=[True, False])
    assert engine.traces()["created"].tolist() == [NOW - 5, NOW + 5]
    assert engine.traces()["pinned"].tolist() == [True, False]
    engine = engine_of(2, created=dt.datetime(2020, 1, 1, tzinfo=UTC))
    assert engine.traces()["created"].tolist() == [1_577_836_800.0] * 2


def test_ids_of_the_caller() -> None:
    engine = Engine(2)
    assert engine.add(np.eye(2), ids=[7, 2**53 + 1], now=NOW).tolist() == [7, 2**53 + 1]
    assert engine.add([1, 1], now=NOW).tolist() == [2**53 + 2]
    assert engine.add([1, -1], ids=2**63 - 2, now=NOW).tolist() == [2**63 - 2]
    assert engine.ids.tolist() == [7, 2**53 + 1, 2**53 + 2, 2**63 - 2]
    assert engine.search([1, -1], 1, now=NOW).ids.tolist() == [2**63 - 2]
    assert 2**53 + 1 in engine
    assert 2**53 not in engine


def test_ids_are_never_used_again() -> None:
    engine = engine_of(5)
    engine.remove(engine.ids)
    assert engine.add(np.ones(4), now=NOW).tolist() == [5]
    engine.remove(5)
    engine.compact()
    assert engine.add(np.ones(4), now=NOW).tolist() == [6]
    engine = Engine.from_state(engine.state())
    engine.remove([6])
    engine = Engine.from_state(engine.state())
    assert len(engine) == 0
    assert engine.add(np.ones(4), now=NOW).tolist() == [7]


BAD_ADD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "too short": ({"vectors": np.ones((2, 3))}, DimensionMismatch, "4 dimensions, got 3"),
    "too long": ({"vectors": np.ones(5)}, DimensionMismatch, "4 dimensions, got 5"),
    "nothing": ({"vectors": []}, DimensionMismatch, "got 0"),
    "ragged": ({"vectors": [[1, 2, 3, 4], [1, 2, 3]]}, DimensionMismatch, "row 1 .* 4 .* got 3"),
    "nested": ({"vectors": [[1, 2, 3, 4], [[1], 2]]}, ValueError, "rows of real numbers"),
    "number": ({"vectors": 1.0}, ValueError, "shape"),
    "cube": ({"vectors": np.ones((2, 2, 4))}, ValueError, "shape"),
    "text": ({"vectors": ["a", "b", "c", "d"]}, TypeError, "real numbers"),
    "digits": ({"vectors": ["1", "2", "3", "4"]}, TypeError, "real numbers"),
    "objects": ({"vectors": [None] * 4}, TypeError, "real numbers"),
    "complex": ({"vectors": np.ones(4, complex)}, TypeError, "real numbers"),
    "no vector": ({"vectors": None}, ValueError, "shape"),
    "zero": ({"vectors": [[1, 0, 0, 0], [0, 0, 0, 0]]}, ValueError, "row 1"),
    "salience above": ({"salience": [0.5, 1.01]}, ValueError, "salience"),
    "salience below": ({"salience": -0.01}, ValueError, "salience"),
    "salience NaN": ({"salience": np.nan}, ValueError, "salience"),
    "salience text": ({"salience": "0.5"}, TypeError, "salience"),
    "salience shape": ({"salience": [0.1, 0.2, 0.3]}, ValueError, "salience"),
    "floor": ({"floor": [0.0, 2.0]}, ValueError, "floor"),
    "urgency": ({"urgency": 1.5}, ValueError, "urgency"),
    "urgency infinite": ({"urgency": [np.inf, 0.5]}, ValueError, "urgency"),
    "created NaN": ({"created": [NOW, np.nan]}, ValueError, "created"),
    "created infinite": ({"created": np.inf}, ValueError, "created"),
    "created far": ({"created": [NOW, 1e300]}, ValueError, "created"),
    "created in milliseconds": ({"created": [NOW * 1000, NOW]}, ValueError, "milliseconds"),
    "created naive": ({"created": dt.datetime(2020, 1, 1)}, ValueError, "naive"),
    "created text": ({"created": "2020-01-01"}, TypeError, "created"),
    "now": ({"now": np.nan}, ValueError, "now"),
    "pinned": ({"pinned": 1.0}, TypeError, "pinned"),
    "one string": ({"tags": "tag"}, TypeError, "tags"),
    "too few tag sets": ({"tags": [["a"]]}, ValueError, "2 tag sets"),
    "tag of a number": ({"tags": [["a"], [1]]}, TypeError, "tags"),
    "empty tag": ({"tags": ["a", ""]}, ValueError, "tags"),
    "surrogate": ({"tags": ["a", "\ud800"]}, ValueError, "tags"),
    "too few ids": ({"ids": [9]}, ValueError, "2 ids"),
    "used id": ({"ids": [4, 9]}, ValueError, "4"),
    "negative id": ({"ids": [-1, 9]}, ValueError, "-1"),
    "same id twice": ({"ids": [9, 9]}, ValueError, "9"),
    "descending ids": ({"ids": [10, 9]}, ValueError, "9"),
    "last id": ({"ids": [9, 2**63 - 1]}, ValueError, "9223372036854775807"),
    "id beyond int64": ({"ids": [9, 2**63]}, ValueError, "must fit int64, got 9223372036854775808"),
}


@pytest.mark.parametrize("name", BAD_ADD)
def test_a_bad_batch_changes_nothing(name: str) -> None:
    changes, error, message = BAD_ADD[name]
    engine = engine_of(5, tags=["old"])
    before = engine.state()
    arguments: dict[str, Any] = {"vectors": np.ones((2, 4)), "now": NOW + 1, **changes}
    with pytest.raises(error, match=message):
        engine.add(**arguments)
    after = engine.state()
    assert after.pop("latest") in (before.pop("latest"), NOW + 1)
    assert_same_state(after, before)
    assert engine.add(np.ones((2, 4)), now=NOW).tolist() == [5, 6]


@pytest.mark.parametrize("segment_rows", [None, 7])
def test_a_bad_row_in_the_core_takes_the_vectors_back(segment_rows: int | None) -> None:
    with segments_of(segment_rows):
        engine = engine_of(11)
        salience = np.zeros(50)
        salience[37] = 1.5
        with pytest.raises(ValueError, match=r"row 37: salience .* 1\.5"):
            engine.add(np.ones((50, 4)), salience=salience, now=NOW)
        assert len(engine._rows) == len(engine) == 11
        ids = engine.add(np.random.default_rng(1).normal(size=(20, 4)), now=NOW)
        for memory_id in (*range(11), *ids):
            vector = engine.vectors([memory_id])[0]
            assert engine.search(vector, 1, now=NOW).ids.tolist() == [memory_id]


def test_what_was_given_is_not_kept_and_not_changed() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    given = rows.copy()
    salience = np.array([0.1, 0.2, 0.3])
    engine = Engine(4)
    engine.add(given, salience=salience, now=NOW)
    np.testing.assert_array_equal(given, rows)
    before = engine.state()
    given[:] = 7.0
    salience[:] = 0.9
    for values in engine.state().values():
        if isinstance(values, np.ndarray) and values.dtype != bool:
            values[...] = 1
    assert_same_state(engine.state(), before)


# -- calls on ids --------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Engine, Any], Any]] = {
    "touch": lambda engine, ids: engine.touch(ids, NOW + 1),
    "suppress": lambda engine, ids: engine.suppress(ids, now=NOW + 1),
    "suppress related": lambda engine, ids: engine.suppress([0], ids, now=NOW + 1),
    "complete": lambda engine, ids: engine.complete(ids, NOW + 1),
    "pin": lambda engine, ids: engine.pin(ids, now=NOW + 1),
    "unpin": lambda engine, ids: engine.unpin(ids, now=NOW + 1),
    "strengthen": lambda engine, ids: engine.strengthen(ids, 0.1, NOW + 1),
    "replace vectors": lambda engine, ids: engine.replace_vectors(
        ids, np.ones((np.size(ids), engine.dim))
    ),
}
READS: dict[str, Callable[[Engine, Any], Any]] = {
    "vividness": lambda engine, ids: engine.vividness(ids, now=NOW),
    "vectors": lambda engine, ids: engine.vectors(ids),
    "traces": lambda engine, ids: engine.traces(ids),
    "cosines": lambda engine, ids: engine.cosines(np.ones(4), ids),
}


@pytest.mark.parametrize("name", [*CHANGES, *READS])
def test_an_unknown_id_changes_nothing(name: str) -> None:
    engine = engine_of(4, urgency=0.5, policy=Policy.published())
    engine.remove(2)
    before = engine.state()
    for unknown in (2, 4, 10**9, -1, 2**63 - 1, 2**63, -(2**63) - 1):
        with pytest.raises(MemoryNotFound, match=rf"no memory has the id {unknown}"):
            (CHANGES | READS)[name](engine, [0, unknown, 1])
        with pytest.raises(KeyError):
            (CHANGES | READS)[name](engine, unknown)
    assert_same_state(engine.state(), before)


@pytest.mark.parametrize("name", CHANGES)
def test_no_ids_are_no_change(name: str) -> None:
    engine = engine_of(4, urgency=0.5)
    before = engine.state()
    CHANGES[name](engine, [])
    CHANGES[name](engine, np.empty(0))
    after = engine.state()
    del before["latest"], after["latest"]
    if name != "suppress related":
        assert_same_state(after, before)


def test_a_repeated_id_counts_each_time_but_moves_strength_once_an_hour() -> None:
    engine = engine_of(2, created=NOW - 100 * DAY)
    before = engine.vividness([0], now=NOW)
    engine.touch([0, 0, 0], NOW)
    assert engine.traces([0])["access_count"].tolist() == [3]
    assert engine.vividness([0], now=NOW) == pytest.approx(before + 0.1)
    engine.touch(0, NOW + 3599.0)
    assert engine.vividness([0], now=NOW) == pytest.approx(before + 0.1)
    engine.touch(0, NOW + 3600.0)
    assert engine.vividness([0], now=NOW + 3600.0) == pytest.approx(before + 0.2, abs=0.01)
    assert engine.traces()["access_count"].tolist() == [5, 0]
    assert engine.traces([0])["last_access"].tolist() == [NOW + 3600.0]


def test_completing_what_is_not_a_task_is_refused_by_name() -> None:
    engine = engine_of(3, urgency=[0.5, np.nan, 0.5])
    before = engine.state()
    with pytest.raises(ValueError, match="memory 1 is not a task"):
        engine.complete([0, 1, 2], NOW + 1)
    assert_same_state(engine.state(), before)


@pytest.mark.parametrize(
    ("salience", "floor", "after"), [(0.9, 0.7, 0.4), (0.6, 0.4, 0.0), (0.1, 0.0, 0.0)]
)
def test_completing_a_task_unpins_it_and_lowers_its_floor_by_one_class(
    salience: float, floor: float, after: float
) -> None:
    engine = engine_of(1, salience=salience, urgency=1.0, pinned=True)
    assert engine.traces()["floor"].tolist() == [floor]
    engine.complete(0)  # at the latest time that was named
    traces = engine.traces()
    assert traces["floor"].tolist() == [after]
    assert traces["pinned"].tolist() == [False]
    assert traces["status"].tolist() == [2]
    assert engine.vividness(now=NOW + 20_000 * DAY).tolist() == [after]
    before = engine.state()
    engine.complete(0, NOW + DAY)  # again: nothing
    del before["latest"]
    again = engine.state()
    del again["latest"]
    assert_same_state(again, before)


def test_a_pinned_memory_neither_fades_nor_is_suppressed() -> None:
    engine = Engine(2)
    engine.add([[1, 0], [1, 0]], created=NOW - 50 * DAY, now=NOW)
    engine.pin(0, now=NOW)
    assert engine.vividness([0], now=NOW + 5000 * DAY).tolist() == [1.0]
    assert engine.suppress(1, now=NOW + DAY).tolist() == []
    engine.unpin(0, now=NOW + 100 * DAY)
    assert engine.vividness([0], now=NOW + 100 * DAY).tolist() == [1.0]
    assert engine.vividness([0], now=NOW + 110 * DAY) == pytest.approx(math.exp(-1.0))


def test_another_policy_does_not_rewrite_the_past() -> None:
    engine = engine_of(3, salience=[0.0, 0.6, 0.9])
    before = engine.vividness(now=NOW + 3 * DAY)
    slow = dataclasses.replace(engine.policy, decay_rate_per_day=0.01)
    engine.set_policy(slow, now=NOW + 3 * DAY)
    assert engine.policy == slow
    np.testing.assert_array_equal(engine.vividness(now=NOW + 3 * DAY), before)
    faded = engine.vividness(now=NOW + 13 * DAY)
    assert faded[0] == pytest.approx(before[0] * math.exp(-0.1))


def test_a_policy_must_be_one() -> None:
    with pytest.raises(TypeError, match="Policy"):
        Engine(3, policy={"decay_rate_per_day": 0.1})  # type: ignore[arg-type]
    engine = engine_of(2)
    before = engine.state()
    with pytest.raises(TypeError, match="Policy"):
        engine.set_policy(None, now=NOW + DAY)  # type: ignore[arg-type]
    assert_same_state(engine.state(), before)


# -- state ---------------------------------------------------------------------------------------


@examples(40)
@given(seeds, st.sampled_from(SIZES), policies(), st.sampled_from([0.0, 0.3, 1.0]))
def test_state_comes_back_bit_for_bit(
    seed: int, count: int, policy: Policy, removed: float
) -> None:
    engine = made_engine(seed, count, 3, policy, removed=removed)
    engine.suppress(engine.ids[:2], now=NOW + 100.0)
    before = engine.state()
    with segments_of(50):
        twin = Engine.from_state(before)
    assert_same_state(twin.state(), before)
    assert twin.policy == engine.policy
    assert twin.next_id == engine.next_id == count
    for each in (engine, twin):
        each.touch(each.ids[::2], NOW + DAY)
        each.add(np.ones((2, 3)), tags=["new"], now=NOW + DAY)
    assert_same_state(twin.state(), engine.state())


def _without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state.pop(name)


def _cut(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state.update({name: state[name][:-1]})


def _with(name: str, value: Any, row: int | None = None) -> Callable[[dict[str, Any]], Any]:
    def change(state: dict[str, Any]) -> None:
        if row is None:
            state[name] = value
        else:
            column = state[name].astype(np.result_type(state[name], np.asarray(value)))
            column[row] = value
            state[name] = column

    return change


CORRUPT: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{
        f"no {name}": _without(name)
        for name in ("dim", "next_id", "policy", "vectors", "tags", "ids", "salience", "pinned")
    },
    **{
        f"{name} cut short": _cut(name)
        for name in ("vectors", "tags", "ids", "floor", "created", "urgency", "status", "pinned")
    },
    "dim": _with("dim", 5),
    "dim zero": _with("dim", 0),
    "dim negative": _with("dim", -4),
    "dim float": _with("dim", 4.0),
    "next_id below": _with("next_id", 3),
    "next_id negative": _with("next_id", -1),
    "policy field": lambda state: state["policy"].update(decay="fast"),
    "policy value": lambda state: state["policy"].update(flashbulb_floor=7.0),
    "vector NaN": _with("vectors", np.nan, 2),
    "vector zero": _with("vectors", 0.0, 2),
    "vector long": _with("vectors", 1.0, 2),
    "ids descending": lambda state: state.update(ids=state["ids"][::-1]),
    "ids repeated": _with("ids", 0, 1),
    "ids negative": _with("ids", -1, 0),
    "ids float": lambda state: state.update(ids=state["ids"] + 0.5),
    "salience": _with("salience", 1.5, 2),
    "floor": _with("floor", -0.1, 2),
    "vividness": _with("vividness", np.nan, 2),
    "vividness_time": _with("vividness_time", np.inf, 2),
    "created": _with("created", np.nan, 2),
    "last_access": _with("last_access", -np.inf, 2),
    "last_strength_change": _with("last_strength_change", np.inf, 2),
    "urgency above": _with("urgency", 1.5, 2),
    "urgency of no task": _with("status", 0, 2),
    "task without urgency": _with("urgency", np.nan, 2),
    "status unknown": _with("status", 3, 2),
    "status wraps": _with("status", 257, 2),
    "status fraction": _with("status", 1.5, 2),
    "access_count negative": _with("access_count", -1, 2),
    "access_count fraction": _with("access_count", 0.5, 2),
    "access_count NaN": _with("access_count", np.nan, 2),
    "pinned numbers": lambda state: state.update(pinned=np.full(5, 0.5)),
    "tags of numbers": lambda state: state.update(tags=[(1,)] * 5),
    "empty tag": lambda state: state.update(tags=[("",)] * 5),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_state_is_refused(name: str) -> None:
    state = engine_of(5, urgency=0.5, tags=["a"]).state()
    assert len(Engine.from_state(copy.deepcopy(state))) == 5
    CORRUPT[name](state)
    with pytest.raises((ValueError, TypeError)):
        Engine.from_state(state)


def test_traces_and_vividness_follow_the_order_of_the_ids_asked_for() -> None:
    engine = engine_of(5, salience=[0.0, 0.1, 0.2, 0.3, 0.4])
    engine.remove(1)
    assert engine.traces([4, 0, 4])["salience"].tolist() == [0.4, 0.0, 0.4]
    assert engine.traces()["ids"].tolist() == [0, 2, 3, 4]
    now = NOW + 7 * DAY
    everything = dict(zip(engine.ids.tolist(), engine.vividness(now=now), strict=True))
    assert engine.vividness([3, 0], now=now).tolist() == [everything[3], everything[0]]


def test_the_newest_of_a_tag_is_the_one_created_last() -> None:
    engine = Engine(1)
    engine.add(np.ones((4, 1)), created=[3.0, 9.0, 9.0, 5.0], tags=[TAGS[:1]] * 4, now=NOW)
    assert engine.newest(TAGS[:1]) == 2  # of equal times the highest id
    engine.remove(2)
    assert engine.newest(TAGS[:1]) == 1
    assert engine.newest() == 1
    assert engine.newest(["unknown"]) is None
    assert Engine(1).newest() is None
