"""Promises of the whole: similarity, floors, and threads that work beside a search."""

from __future__ import annotations

import inspect
import math
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashbulb import Engine, Memory, Policy
from flashbulb.records import Record

# R15: similarity, not distance


def embed(texts: list[str]) -> Any:
    """Exact, close and opposite to the query."""
    vectors = {"close": [0.8, 0.6, 0.0], "opposite": [-1.0, 0.0, 0.0], "across": [0.0, 0.0, 1.0]}
    return np.array([vectors.get(text, [1.0, 0.0, 0.0]) for text in texts])


@pytest.mark.parametrize("policy", [Policy(), Policy.published()])
@pytest.mark.parametrize("order", ["forth", "back"])
def test_r15_exact_before_close_before_opposite(
    store: Path, clock: Any, policy: Policy, order: str
) -> None:
    texts = ["exact", "close", "opposite"]
    for memory in (
        Memory(store, embedder=embed, policy=policy, clock=clock),
        Memory(":memory:", embedder=embed, policy=policy, clock=clock, neutral=True),
    ):
        with memory:
            for text in texts if order == "forth" else reversed(texts):
                memory.remember(text, arousal=0.0)
            hits = memory.recall("query", reinforce=False)
            assert [hit.text for hit in hits] == texts
            assert [round(hit.cosine, 6) for hit in hits] == [1.0, 0.8, -1.0]
            assert [h.text for h in memory.recall("query", min_score=0.5)] == texts[:2]
            assert [h.text for h in memory.recall("query", k=1)] == texts[:1]
            assert [h.text for h in memory.recall("query", min_score=hits[1].score)] == texts[:2]


# R22: floors


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_r22_time_alone_takes_no_memory_below_its_floor_or_away(
    store: Path, clock: Any, law: Any
) -> None:
    options: dict[str, Any] = {"policy": Policy(decay_law=law), "clock": clock}
    arousals = {"critical": 0.9, "serious": 0.6, "mundane": 0.0}
    floors = {"critical": 0.7, "serious": 0.4, "mundane": 0.0}
    with Memory(store, **options) as memory:
        for text, arousal in arousals.items():
            memory.remember(text, arousal=arousal)
    before = dict.fromkeys(floors, 1.0)
    for days in (1, 364, 36_160):  # a day, a year, a hundred years
        clock.pass_(days=days)
        with Memory(store, **options) as memory:
            memory.compact()
            assert len(memory) == 3
            found: dict[str, Record] = {record.text: record for record in memory.list()}
            hits = memory.recall("critical", reinforce=False)
            assert {hit.text for hit in hits} == set(floors)
            assert all(math.isfinite(hit.score) for hit in hits)
            for text, floor in floors.items():
                strength = found[text].vividness
                assert found[text].floor == floor <= strength < before[text] or strength == floor
                assert strength == 0.0 or strength >= sys.float_info.min
                before[text] = strength
    assert before == pytest.approx(floors, abs=1e-12)


def test_r22_nothing_but_forget_removes_a_memory() -> None:
    """There is no retention, pruning or archiving that a floor would have to hold off."""
    words = ("prune", "expire", "evict", "archive", "retention", "ttl", "capacity")
    names = [*vars(Memory), *Policy().to_dict(), *inspect.signature(Memory).parameters]
    assert [name for name in names for word in words if word in name.lower().split("_")] == []
    with Memory(":memory:", clock=lambda: 0.0) as memory:
        memory.remember_many([f"note {n}" for n in range(200)])
        memory.recall("note", now=36_525 * 86_400.0)
        memory.compact()
        assert len(memory.list(now=36_525 * 86_400.0)) == 200
        assert memory.forget(1)
        assert len(memory) == 199


# Threads


def test_a_search_leaves_the_interpreter_to_other_threads() -> None:
    """The interpreter switches threads on its own only after an hour here, so that another one
    moves only while this one lets go, as the native search does.
    """
    rng = np.random.default_rng(0)
    engine = Engine(64)
    engine.add(rng.normal(size=(60_000, 64)).astype(np.float32), now=0.0)
    queries = rng.normal(size=(256, 64)).astype(np.float32)
    count, stop = 0, threading.Event()

    def work() -> None:
        nonlocal count
        while not stop.is_set():
            count += 1
            time.sleep(0)  # lets the searching thread go on

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    try:
        thread.start()
        while count == 0:
            time.sleep(0)
        before = count
        sum(range(3_000_000))  # a call that does not let go: the proof that nothing moves then
        assert count == before
        moved = 0
        for _ in range(100):  # a busy machine may run the other thread late
            before = count
            engine.search(queries, 10, now=0.0)
            moved = max(moved, count - before)
            if moved >= 200:
                break
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert moved >= 200


def test_a_store_opens_with_the_same_embedder_under_another_name(tmp_path: Path) -> None:
    def vectors(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text)), float(text.count("e"))] for text in texts]

    def moved(texts: list[str]) -> list[list[float]]:
        return vectors(texts)

    with Memory(tmp_path / "s.db", embedder=vectors) as memory:
        memory.remember("seven geese")
    with Memory(tmp_path / "s.db", embedder=moved) as memory:
        assert memory.recall("seven geese")[0].text == "seven geese"


@pytest.mark.parametrize("answer", [0.9, (0.9, 1.0), None, "critical"])
def test_a_detector_that_returns_something_else_is_told_what_is_wanted(answer: Any) -> None:
    class Wrong:
        def detect(self, text: str, context: str = "") -> Any:
            return answer

    with Memory(":memory:", detector=Wrong()) as memory:
        with pytest.raises(TypeError, match=r"must return an object with a score .* got"):
            memory.remember("text")
        assert len(memory) == 0


def test_open_tasks_are_listed_without_asking_a_question() -> None:
    with Memory(":memory:") as memory:
        done = memory.remember("call the plumber", urgency=0.5, tags=["house"])
        todo = memory.remember("order a new tap", urgency=0.2, tags=["house"])
        said = memory.remember("the tap drips", tags=["house"])
        memory.complete(done.id)
        by_status = {
            status: [record.id for record in memory.list(status=status, tags=["house"])]
            for status in ("open", "completed", "none")
        }
        assert by_status == {"open": [todo.id], "completed": [done.id], "none": [said.id]}
        assert all(record.access_count == 0 for record in memory.list())
        with pytest.raises(ValueError, match="status must be"):
            memory.list(status="todo")


@pytest.mark.parametrize("k", [1.5, None, "3", True, -1])
def test_r13_a_k_that_is_no_count_is_a_value_error(k: Any) -> None:
    engine = Engine(2)
    with Memory(":memory:") as memory:
        with pytest.raises(ValueError, match="k must"):
            memory.recall("anything", k)
        with pytest.raises(ValueError, match="k must"):
            engine.search([1.0, 0.0], k, now=0.0)


# What is rare and critical


def test_an_error_that_comes_once_in_a_year_is_pinned_and_leads_when_asked_for() -> None:
    day, start = 86_400.0, 1_700_000_000.0
    routine = [
        f"GET /orders/{n * 7919 % 9973} answered {(200, 204)[n % 2]} in {n * 31 % 300} ms"
        if n % 3
        else f"Health check {n} of the service passed"
        for n in range(1200)
    ]
    with Memory(":memory:") as memory:
        memory.remember_many(
            [{"text": text, "now": start + 60.0 * n} for n, text in enumerate(routine[:600])]
        )
        error = memory.remember(
            "java.lang.OutOfMemoryError: Java heap space", now=start + 60.0 * 600
        )
        memory.remember_many(
            [
                {"text": text, "now": start + (1.0 + 0.6 * n) * day}
                for n, text in enumerate(routine[600:])
            ]
        )
        assert error.pinned
        hits = memory.recall("the service keeps running out of memory", now=start + 366.0 * day)
        assert hits[0].id == error.id
        assert hits[0].record.vividness == 1.0
