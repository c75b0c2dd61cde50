"""Threads: no lock is held while a user's code runs, and counts are exact."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashbulb import (
    ArousalDetector,
    Memory,
    MemoryNotFound,
    Photographer,
    Reconsolidation,
    Retention,
    StoreLocked,
)
from test_engine_concurrency import run_together

NOW = 1_900_000_000.0


class Intruder:
    """What each callback does: another thread uses the memory, and the callback waits for it."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.calls = 0
        self.inside = threading.local()
        self.stuck: list[str] = []

    def __call__(self, where: str) -> None:
        if self.memory is None or getattr(self.inside, "busy", False):
            return
        self.calls += 1
        memory = self.memory

        def use() -> None:
            self.inside.busy = True  # in this thread the callbacks do only their work
            memory.remember(f"by another thread {self.calls}")
            memory.recall("another thread")
            memory.list()
            memory.reinforce(1)
            memory.namespace("other").remember("x")

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(60)  # a lock that is held lets it wait for ever
        if thread.is_alive():
            self.stuck.append(where)


class Embedder:
    name, dim, fingerprint = "test", 3, "test"

    def __init__(self, intruder: Intruder) -> None:
        self.intruder = intruder

    def embed_documents(self, texts: Any) -> Any:
        self.intruder("embed_documents")
        return np.array([[len(text), sum(map(ord, text)) % 97 + 1.0, 1.0] for text in texts])

    def embed_queries(self, texts: Any) -> Any:
        self.intruder("embed_queries")
        return np.array([[len(text), sum(map(ord, text)) % 97 + 1.0, 1.0] for text in texts])


@pytest.fixture
def intruder() -> Intruder:
    return Intruder()


def opened(store: Path, intruder: Intruder, **arguments: Any) -> Memory:
    arguments.setdefault("embedder", Embedder(Intruder()))
    memory = Memory(store, durability="normal", **arguments)
    memory.remember("CRITICAL: Customer data was leaked by Ana")
    memory.remember("a task", urgency=0.5)
    intruder.memory = memory
    return memory


def test_embedding(store: Path, intruder: Intruder) -> None:
    with opened(store, intruder, embedder=Embedder(intruder)) as memory:
        memory.remember("text")
        memory.remember_many(["one", "two"])
        memory.recall("text")
        memory.why_not("text", 1)
        memory.reconsolidate(1, "a context")
        assert intruder.calls >= 5
        assert intruder.stuck == []


def test_the_clock(store: Path, intruder: Intruder) -> None:
    def clock() -> float:
        intruder("clock")
        return 1_700_000_000.0

    calls: dict[str, Callable[[Memory], Any]] = {
        "remember": lambda memory: memory.remember("text"),
        "recall": lambda memory: memory.recall("text"),
        "why_not": lambda memory: memory.why_not("text", 1),
        "get": lambda memory: memory.get(1),
        "list": lambda memory: memory.list(),
        "complete": lambda memory: memory.complete(2),
        "pin": lambda memory: memory.pin(1),
        "unpin": lambda memory: memory.unpin(1),
        "reinforce": lambda memory: memory.reinforce(1),
        "reconsolidate": lambda memory: memory.reconsolidate(1, "a context"),
        "retention": lambda memory: memory.apply_retention(Retention(size=10**6)),
        "restore": lambda memory: memory.restore(1),
        "import": lambda memory: memory.import_(store.with_suffix(".jsonl"), new_ids=True),
    }
    with opened(store, intruder, clock=clock) as memory:
        memory.export(store.with_suffix(".jsonl"))
        for name, call in calls.items():
            before = intruder.calls
            call(memory)
            assert intruder.calls > before, name
        assert intruder.stuck == []


def test_judging(store: Path, intruder: Intruder) -> None:
    class Detector(ArousalDetector):
        def detect_many(self, *arguments: Any, **named: Any) -> Any:
            intruder("detect_many")
            return super().detect_many(*arguments, **named)

        def detect(self, *arguments: Any, **named: Any) -> Any:
            intruder("detect")
            return super().detect(*arguments, **named)

    def judge(text: str) -> float:
        intruder("judge")
        return 0.9

    with opened(store, intruder, detector=Detector(llm=judge)) as memory:
        memory.remember("CRITICAL: the production database is on fire, all is lost")
        memory.remember_many(["one", "The payment system may be down again, urgent?"])
        assert intruder.calls >= 3
        assert intruder.stuck == []


def test_judging_later(store: Path, intruder: Intruder) -> None:
    def judge(text: str) -> float:
        intruder("judge")
        return 0.9

    detector = ArousalDetector(llm=judge, deferred=True)
    with opened(store, intruder, detector=detector) as memory:
        memory.remember("The payment system may be down again, urgent?")
        intruder.calls = 0
        assert memory.rescore() >= 1
        assert intruder.calls >= 1
        assert intruder.stuck == []


def test_photographs(store: Path, intruder: Intruder) -> None:
    def ask(*arguments: Any) -> dict[str, Any]:
        intruder("photographer")
        return {"who": "Ana"}

    with opened(store, intruder, photographer=Photographer(ask)) as memory:
        memory.remember("CRITICAL: Customer data was leaked again", arousal=1.0)
        assert intruder.calls >= 1
        assert intruder.stuck == []


def test_duplicates(store: Path, intruder: Intruder) -> None:
    def on_duplicate(record: Any, text: str) -> str:
        intruder("on_duplicate")
        return "keep"

    with opened(store, intruder) as memory:
        memory.remember("a repeat")
        memory.remember("a repeat", on_duplicate=on_duplicate)
        assert intruder.calls >= 1
        assert intruder.stuck == []


def test_reconsolidation(store: Path, intruder: Intruder) -> None:
    def extract(text: str, context: str) -> str:
        intruder("extract")
        return "more"

    def integrate(text: str, context: str) -> str:
        intruder("integrate")
        return f"{text} {context}"

    rules = Reconsolidation(extract, integrate)
    with opened(store, intruder, reconsolidation=rules) as memory:
        memory.remember("Vivid as few", arousal=1.0)
        for record in memory.list():
            memory.reconsolidate(record.id, "a context")
        assert intruder.calls >= 3
        assert intruder.stuck == []


def test_progress_of_a_copy(store: Path, intruder: Intruder) -> None:
    with opened(store, intruder) as memory:
        memory.backup(store.with_name("copy.db"), progress=lambda done, total: intruder("progress"))
        assert intruder.calls >= 1
        assert intruder.stuck == []


# Counts


@pytest.fixture
def small(store: Path) -> Iterator[Memory]:
    with Memory(
        store, embedder=Embedder(Intruder()), neutral=True, durability="normal", clock=lambda: 1e9
    ) as memory:
        yield memory


def test_eight_threads_recall_one_memory_ten_thousand_times_each(small: Memory) -> None:
    id = small.remember("the one memory").id

    def recall() -> None:
        for _ in range(10_000):
            small.recall("memory")

    run_together(*[recall] * 8)
    assert small.get(id).access_count == 80_000
    path = small._store.path
    small.close()
    with Memory(path, embedder=Embedder(Intruder()), neutral=True) as memory:
        assert memory.get(id).access_count == 80_000


def test_eight_threads_remember_the_same_text(small: Memory) -> None:
    def remember() -> None:
        for n in range(50):
            small.remember("the same text", metadata={"n": n})

    run_together(*[remember] * 8)
    assert len(small) == 1
    assert len(small.get(1).occurrences) == 400


SECONDS = float(os.environ.get("FLASHBULB_MIXED_SECONDS", "3"))
"""How long every call is mixed with every other; a minute under the thread sanitizer."""


def test_eight_threads_mix_every_call(store: Path) -> None:
    """Whatever they do, all that is left is found by its own text, and the record is sound."""
    memory = Memory(store, embedder=Embedder(Intruder()), durability="normal")
    memory.remember_many([f"kept {n}" for n in range(20)])
    end = time.monotonic() + SECONDS
    calls: list[Callable[[int, random.Random], Any]] = [
        lambda n, draw: memory.remember(f"event {n}", tags=[f"tag {n % 3}"], urgency=0.5),
        lambda n, draw: memory.remember_many([f"one {n}", {"text": "the same"}]),
        lambda n, draw: memory.recall(f"event {n % 50}", 5),
        lambda n, draw: memory.recall("event", tags=["tag 1"], reinforce=False),
        lambda n, draw: memory.forget(draw.randint(21, 21 + n)),
        lambda n, draw: memory.pin(draw.randint(1, 20)),
        lambda n, draw: memory.unpin(draw.randint(1, 20)),
        lambda n, draw: memory.reinforce([draw.randint(1, 20)]),
        lambda n, draw: memory.complete(draw.randint(21, 21 + n)),
        lambda n, draw: memory.reconsolidate(draw.randint(21, 21 + n), f"context {n}"),
        lambda n, draw: memory.get(draw.randint(1, 20)),
        lambda n, draw: memory.history(draw.randint(1, 20)),
        lambda n, draw: memory.why_not("event", draw.randint(1, 20)),
        lambda n, draw: memory.list(limit=5, order="-vividness"),
        lambda n, draw: memory.stats(),
        lambda n, draw: len(memory),
        lambda n, draw: memory.namespace(f"agent {n % 3}").remember(f"theirs {n}"),
        lambda n, draw: memory.namespace(f"agent {n % 3}").recall("theirs"),
        lambda n, draw: memory.namespace(f"agent {n % 3}").forget_all(),
        lambda n, draw: memory.export(store.with_name(f"{threading.get_ident()}.jsonl")),
        lambda n, draw: memory.backup(
            store.with_name(f"{threading.get_ident()}.db"), overwrite=True
        ),
        lambda n, draw: memory.check(),
        lambda n, draw: read_beside(store, n),
        lambda n, draw: memory.apply_retention(Retention(size=10**6)),
    ]
    rare = {memory.compact: 0.002}

    def mix(seed: int) -> None:
        draw, n = random.Random(seed), 0
        while time.monotonic() < end or n < 50:
            n += 1
            with contextlib.suppress(MemoryNotFound, ValueError, StoreLocked):
                draw.choice(calls)(n, draw)
                for call, share in rare.items():
                    if draw.random() < share:
                        call()

    run_together(*[functools.partial(mix, seed) for seed in range(8)])
    assert memory.check() == []
    for record in memory.list():
        assert record.id in {hit.id for hit in memory.recall(record.text, 40, reinforce=False)}
    expected = memory.list(now=NOW)
    memory.close()
    with Memory(store, embedder=Embedder(Intruder())) as memory:
        assert memory.list(now=NOW) == expected


def read_beside(store: Path, n: int) -> None:
    with Memory(store, embedder=Embedder(Intruder()), read_only=True) as reader:
        reader.recall(f"event {n % 50}")
        reader.refresh()
        reader.namespace("agent 1").list()
