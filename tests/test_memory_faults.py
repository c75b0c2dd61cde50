"""Faults that people met in other memory stores, as whole kinds, at Memory."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbulb import DimensionMismatch, Memory, MemoryNotFound, Policy

DAY = 86400.0
UTC = dt.timezone.utc


def one_hot(texts: list[str]) -> Any:
    """Texts are numbers below 15, their vectors orthogonal."""
    return np.eye(16)[[int(text) if text.isdigit() else 15 for text in texts]]


def plain() -> Policy:
    """Similarity alone: the cosine, without words."""
    return Policy.published(vividness_weight=0.0, recency_weight=0.0)


# R01, R03: vectors


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0])
@pytest.mark.parametrize("size", [1, 50])
def test_r01_a_bad_vector_changes_nothing(store: Path, bad: float, size: int) -> None:
    poison = {"at": -1}

    def embed(texts: list[str]) -> Any:
        vectors = np.random.default_rng(len(texts)).normal(size=(len(texts), 8)) + 2.0
        if 0 <= poison["at"] < len(texts):
            vectors[poison["at"]] *= 0.0
            vectors[poison["at"], 0] = bad
        return vectors

    with Memory(store, embedder=embed, clock=lambda: 1e9) as memory:
        memory.remember_many([f"good {n}" for n in range(100)])
        hits = memory.recall("query", k=100, reinforce=False)
        stats = memory.stats()
        poison["at"] = size // 2
        with pytest.raises(ValueError, match=str(size // 2)):
            memory.remember_many([f"batch {n}" for n in range(size)])
        poison["at"] = 0
        with pytest.raises(ValueError, match="0"):
            memory.recall("query")
        poison["at"] = -1
        assert memory.stats() == stats
        assert memory.recall("query", k=100, reinforce=False) == hits
    with Memory(store, embedder=embed, clock=lambda: 1e9) as memory:
        assert memory.recall("query", k=100, reinforce=False) == hits


def test_r03_a_vector_of_another_size_changes_nothing(store: Path) -> None:
    size = {"dim": 8}

    def embed(texts: list[str]) -> Any:
        return np.ones((len(texts), size["dim"]))

    with Memory(store, embedder=embed) as memory:
        memory.remember("one")
        for dim in (7, 9, 1):
            size["dim"] = dim
            for call in (
                lambda: memory.remember_many(["two", "three"]),
                lambda: memory.recall("x"),
            ):
                with pytest.raises((DimensionMismatch, ValueError), match=rf"8.*\b{dim}\b"):
                    call()
        size["dim"] = 8
        assert len(memory) == 1
        assert len(memory.recall("one")) == 1


# R05, R06: forgetting


@given(order=st.permutations(range(10)), reopened=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_r05_every_other_row_keeps_its_own_text(
    tmp_path_factory: Any, order: list[int], reopened: int
) -> None:
    path = tmp_path_factory.mktemp("r05") / "agent.db"
    options: dict[str, Any] = {"embedder": one_hot, "policy": plain(), "durability": "normal"}
    memory = Memory(path, **options)
    try:
        ids = {n: memory.remember(str(n)).id for n in range(10)}
        for step, gone in enumerate(order):
            assert memory.forget(ids.pop(gone))
            if step == reopened:
                memory.close()
                memory = Memory(path, **options)
            if step % 4 == 3:
                memory.compact()
            for n, id in ids.items():
                best = memory.recall(str(n), k=1)[0]
                assert (best.id, best.text) == (id, str(n))
                assert best.cosine == 1.0
                assert memory.get(id).text == str(n)
    finally:
        memory.close()


def test_r06_a_forgotten_memory_is_on_no_read_path(store: Path) -> None:
    text = "The safe's number is 90125"

    def nowhere(memory: Memory, id: int) -> None:
        for query in (text, "safe", "90125", "anything"):
            for filters in ({}, {"tags": ["safe"]}, {"filter": {"a": 1}}, {"since": 0}):
                assert id not in [hit.id for hit in memory.recall(query, k=100, **filters)]
        assert id not in [record.id for record in memory.list()]
        assert memory.list(tags=["safe"]) == []
        assert "safe" not in memory.stats()["tags"]
        assert memory.stats()["memories"] == len(memory) == 2
        for call in (memory.get, memory.pin, memory.unpin, memory.complete, memory.reinforce):
            with pytest.raises(MemoryNotFound):
                call(id)
        assert memory.forget(id) is False
        memory.export(store.with_name("export.jsonl"))
        assert "90125" not in store.with_name("export.jsonl").read_text()

    with Memory(store) as memory:
        memory.remember_many(["One other memory", "Another safe memory"])
        record = memory.remember(
            text, tags=["safe"], metadata={"a": 1}, urgency=1.0, arousal=0.9, now=5.0
        )
        memory.remember(text, tags=["safe"], metadata={"a": 1}, urgency=1.0, now=10.0)
        memory.recall(text)
        memory.pin(record.id)
        assert memory.forget(record.id) is True
        nowhere(memory, record.id)
        memory.compact()
        nowhere(memory, record.id)
    with Memory(store) as memory:
        nowhere(memory, record.id)
        again = memory.remember(text, tags=["safe"])
        assert again.id > record.id
        assert again.access_count == 0
        assert len(again.occurrences) == 1


# R08, R10: ids (at import: see test_memory_transfer)

NO_IDS: list[Any] = [1.0, 1.9, True, False, "1", "7", "", b"1", None, uuid.UUID(int=1), [1], 1j]
NO_IDS += [np.float64(1), np.bool_(True), np.array([1]), "plumless", "buckeroo"]
UNKNOWN_IDS: list[Any] = [0, -1, 2, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 + 1]
UNKNOWN_IDS += [-(2**63), np.uint64(2**63 + 5), np.int64(-1), 10**30]


def calls_with_an_id(memory: Memory) -> list[Callable[[Any], Any]]:
    return [
        memory.get,
        memory.pin,
        memory.unpin,
        memory.complete,
        lambda id: memory.reinforce([1, id]),
    ]


@pytest.mark.parametrize("id", NO_IDS, ids=repr)
def test_r10_what_is_no_id_is_a_type_error(id: Any) -> None:
    with Memory(":memory:", clock=lambda: 1e9) as memory:
        before = memory.remember("x", urgency=0.5)
        for call in (*calls_with_an_id(memory), memory.forget):
            with pytest.raises(TypeError):
                call(id)
        assert memory.get(1) == before


@pytest.mark.parametrize("id", UNKNOWN_IDS, ids=repr)
def test_r10_an_unknown_id_is_not_found(id: Any) -> None:
    with Memory(":memory:", clock=lambda: 1e9) as memory:
        before = memory.remember("x", urgency=0.5)
        for call in calls_with_an_id(memory):
            with pytest.raises(MemoryNotFound):
                call(id)
            with pytest.raises(KeyError):
                call(id)
        assert memory.forget(id) is False
        assert memory.get(1) == before


@pytest.mark.parametrize("kind", [int, np.int64, np.int8, np.uint64])
def test_r10_numpy_integers_are_ids(kind: Any) -> None:
    with Memory(":memory:") as memory:
        memory.remember("x", urgency=0.5)
        for call in calls_with_an_id(memory):
            call(kind(1))
        assert type(memory.get(kind(1)).id) is int
        assert memory.forget(kind(1)) is True


def test_r08_r10_large_ids_stay_exact(store: Path, tmp_path: Path) -> None:
    """2**53 + 1 and its neighbours are three ids, in the file and after it."""
    file = tmp_path / "export.jsonl"
    with Memory(":memory:", embedder=one_hot, policy=plain()) as memory:
        memory.remember_many(["0", "1", "2"])
        memory.export(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ids = [2**53, 2**53 + 1, 2**53 + 2]
    for line, id in zip(lines[1:], ids, strict=True):
        line["id"] = id
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Memory(store, embedder=one_hot, policy=plain()) as memory:
        memory.import_(file)
        for n, id in enumerate(ids):
            assert memory.get(id).text == str(n)
            assert memory.recall(str(n), k=1)[0].id == id
        assert memory.forget(2**53 + 1)
    with Memory(store, embedder=one_hot, policy=plain()) as memory:
        assert [record.id for record in memory.list()] == [2**53, 2**53 + 2]
        assert memory.remember("3").id == 2**53 + 3


# R11, R13: k


def test_r11_fewer_rows_pass_than_k() -> None:
    with Memory(":memory:") as memory:
        memory.remember_many([{"text": f"row {n}", "tags": ["x"] * (n < 2)} for n in range(10)])
        for left in (2, 1, 0):
            hits = memory.recall("row", k=5, tags=["x"])
            assert len(hits) == left
            for hit in hits:
                assert hit.id >= 1
                assert abs(hit.score) < 10
                memory_id = hit.id
            if left:
                memory.forget(memory_id)


COUNTS = [0, 1, 2, 3, 4, 10**6, 2**31, 2**40, 2**63 - 1, 2**64, np.int64(2)]


def test_r13_any_k_on_stores_with_nothing_in_them(store: Path) -> None:
    with Memory(store) as memory:
        for _ in range(2):
            for k in COUNTS:
                assert memory.recall("anything", k=k) == []
                assert memory.recall("anything", k=k, tags=["x"], filter={"a": 1}, since=0) == []
            for k in (-1, -(2**63)):
                with pytest.raises(ValueError, match="k must not be negative"):
                    memory.recall("anything", k=k)
            for bad in (1.5, 2.0, None, "3", True, np.float64(2)):
                with pytest.raises(TypeError, match="k must be an int"):
                    memory.recall("anything", k=bad)  # type: ignore[arg-type]
            assert memory.forget(1) is False
            assert memory.list() == []
            assert len(memory) == 0
            assert memory.stats()["memories"] == 0
            memory.compact()
            memory.forget(memory.remember("only for a moment").id)
    with Memory(store) as memory:
        assert memory.recall("anything") == []


def test_r13_k_is_clamped_to_what_there_is() -> None:
    with Memory(":memory:") as memory:
        memory.remember_many(["one", "two", "three"])
        assert [len(memory.recall("one", k=k)) for k in COUNTS] == [min(int(k), 3) for k in COUNTS]


# R16: the exact match stays first


def test_r16_vivid_rows_of_other_topics_do_not_hide_an_exact_match(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        text = "Maria's bicycle is kept in the shed behind the library"
        memory.remember(text, now=clock.now - 300 * DAY, arousal=0)
        for n in range(12):
            memory.remember(f"Data centre {n} burns, evacuate at once", arousal=1.0, urgency=1.0)
        assert memory.recall(text)[0].text == text


# R17, R18: time

MOMENTS = [
    dt.datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),  # in a gap
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),  # in a fold
    dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    dt.datetime(2024, 5, 1, 9, tzinfo=dt.timezone(dt.timedelta(hours=9))),
    dt.datetime(2024, 5, 1, tzinfo=UTC),
    1_714_521_600,
    1_714_521_600.125,
    np.float64(1_714_521_600.5),
    np.int64(1_714_521_600),
    0,
    -5e9,
]
NO_MOMENTS = [
    dt.datetime(2024, 5, 1),
    dt.date(2024, 5, 1),
    dt.time(5),
    np.datetime64("2024-05-01"),
    "2024-05-01",
    True,
    math.nan,
    math.inf,
    -math.inf,
    10**18,
]


@pytest.mark.parametrize("moment", MOMENTS, ids=repr)
def test_r17_every_kind_of_time_works_everywhere_twice(store: Path, moment: Any) -> None:
    for _ in range(2):
        with Memory(store, clock=lambda: moment) as memory:
            id = memory.remember("stored at some time", when=moment, now=moment).id
            task = memory.remember("by the clock", urgency=0.5).id
            for now in (*MOMENTS, None):
                memory.recall("time", now=now)
                memory.get(id, now=now)
                memory.list(now=now)
            assert memory.recall("time", since=moment, until=4e9)[0].id in (id, task)
            memory.reinforce([id], now=moment)
            memory.unpin(memory.pin(id, now=moment).id, now=moment)
            memory.complete(task, now=moment)
            memory.forget(task)


@pytest.mark.parametrize("moment", NO_MOMENTS, ids=repr)
def test_r17_what_is_no_time_is_refused_everywhere(moment: Any) -> None:
    with Memory(":memory:", clock=lambda: 1e9) as memory:
        before = memory.remember("x", urgency=0.5)
        calls: list[Callable[[], Any]] = [
            lambda: memory.remember("y", now=moment),
            lambda: memory.remember_many(["y"], now=moment),
            lambda: memory.remember_many([{"text": "y", "now": moment}]),
            lambda: memory.recall("x", now=moment),
            lambda: memory.recall("x", since=moment),
            lambda: memory.recall("x", until=moment),
            lambda: memory.get(1, now=moment),
            lambda: memory.list(now=moment),
            lambda: memory.reinforce([1], now=moment),
            lambda: memory.pin(1, now=moment),
            lambda: memory.unpin(1, now=moment),
            lambda: memory.complete(1, now=moment),
        ]
        if not isinstance(moment, str):
            calls.append(lambda: memory.remember("y", when=moment))
        for call in calls:
            with pytest.raises((TypeError, ValueError), match="must be an aware datetime"):
                call()
        assert memory.get(1) == before
        assert len(memory) == 1
    with pytest.raises((TypeError, ValueError), match="must be an aware datetime"):
        Memory(":memory:", clock=lambda: moment)


def test_r17_equal_instants_give_equal_strength() -> None:
    instant = dt.datetime(2024, 5, 1, tzinfo=UTC)
    kinds: list[Any] = [
        instant,
        instant.astimezone(ZoneInfo("Asia/Tokyo")),
        instant.timestamp(),
        int(instant.timestamp()),
        np.float64(instant.timestamp()),
    ]
    later = instant + dt.timedelta(days=9)
    records = []
    for kind in kinds:
        with Memory(":memory:") as memory:
            memory.remember("the same", now=kind)
            records.append(memory.get(1, now=later))
    assert all(record == records[0] for record in records)


AHEAD = [1.0, 10 * DAY, 3650 * DAY, 253_402_300_799.0 - 1e9]


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_r18_the_future_counts_as_just_now(ahead: float, law: Any) -> None:
    now = 1e9
    with Memory(":memory:", clock=lambda: now, policy=Policy(decay_law=law)) as memory:
        future = memory.remember("A walk in the park", now=now + ahead, where="a")
        present = memory.remember("A walk in the park", now=now, where="b")
        hits = {hit.id: hit for hit in memory.recall("walk", reinforce=False)}
        assert hits[future.id].record.vividness == hits[present.id].record.vividness == 1.0
        assert hits[future.id].score == hits[present.id].score
        memory.recall("walk")
        assert memory.get(future.id).vividness == 1.0
        for other in (0.0, -1e9, now - DAY, now + DAY):
            for record in memory.list(now=other):
                assert record.floor <= record.vividness <= 1.0


def test_r18_the_clock_steps_back(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        id = memory.remember("A walk in the park").id
        clock.pass_(hours=5)
        memory.recall("walk")
        strength = memory.get(id).vividness
        clock.pass_(hours=-3)
        assert strength <= memory.get(id).vividness <= 1.0
        for _ in range(5):
            clock.pass_(hours=-1)
            memory.recall("walk")
            record = memory.get(id)
            assert 0.0 <= record.floor <= record.vividness <= 1.0
        assert record.access_count == 6
    with Memory(store, policy=Policy(decay_rate_per_day=0.5), clock=clock) as memory:
        assert memory.get(id).vividness <= 1.0


# R20, R22: decay


def test_r20_strength_is_continuous_in_time(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        base = 2.0**31
        memory.remember("A walk in the park", where="a", now=base)
        ages = [0.0, 0.001, 1.0, 59 * 60.0, 3600.0, DAY - 60, DAY + 60, 3 * DAY]
        values = [memory.get(1, now=base + age).vividness for age in ages]
        curve = list(zip(ages, values, strict=True))
        for (young, strong), (old, weak) in itertools.pairwise(curve):
            assert 0 < strong - weak <= 0.1 / DAY * (old - young) * 1.0001


def test_r22_a_floor_holds_for_a_hundred_years(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        memory.remember("one", arousal=0.9)
        memory.remember("two", arousal=0.5)
        memory.remember("three", arousal=0.0)
        for days in (1, 364, 36_500):
            clock.pass_(days=days)
            strengths = [record.vividness for record in memory.list()]
            assert strengths[0] >= 0.7
            assert strengths[1] >= 0.4
            assert 0.0 <= strengths[2] < 1.0
        assert strengths == [0.7, 0.4, 0.0]


def test_forgetting_in_random_order_agrees_with_a_dict(store: Path) -> None:
    chance = random.Random(5)
    rows: dict[int, str] = {}
    with Memory(store, durability="normal") as memory:
        for n in range(300):
            if rows and chance.random() < 0.45:
                id = chance.choice(list(rows))
                assert memory.forget(id)
                assert not memory.forget(id)
                del rows[id]
            else:
                text = f"Parcel {n} waits in locker {n * 7919 % 1000}"
                rows[memory.remember(text).id] = text
            if n % 50 == 49:
                for id, text in rows.items():
                    assert memory.recall(text, k=1, reinforce=False)[0].id == id
    with Memory(store) as memory:
        assert {record.id: record.text for record in memory.list()} == rows
