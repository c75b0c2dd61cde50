"""Ctrl-C, or a timer that raises, at any moment of a change: it has happened, or it has not."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from types import FrameType

import faiss
import numpy as np
import pytest

from flashbulb import Engine
from flashbulb._signals import SignalsDeferred

NOW = 1.7e9


class Interrupt(BaseException):
    """What the handler of these tests raises."""


@pytest.fixture(autouse=True)
def raising_timer(uncollected: None) -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def expect_consistent(engine: Engine, truth: np.ndarray) -> None:
    ids = engine.ids
    np.testing.assert_array_equal(engine.vectors(ids), truth[ids])
    found = engine.search(truth[ids[-1]], 1, now=NOW, vividness_weight=0.0, recency_weight=0.0)
    assert found.ids.tolist() == [ids[-1]]


@pytest.mark.parametrize("kind", ["fp32", "int8", "mapped"])
def test_an_interrupted_compaction_is_whole(kind: str) -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((20_000, 32)).astype(np.float32)
    faiss.normalize_L2(vectors)
    interrupts = 0
    longest = 0.02
    for _ in range(25):
        if kind == "mapped":
            index = faiss.IndexIDMap2(faiss.IndexFlatIP(32))
            index.add_with_ids(vectors, np.arange(len(vectors)))
            engine = Engine(index, now=NOW)
        else:
            engine = Engine(32, path="fp32" if kind == "fp32" else "int8")
            engine.add(vectors, now=NOW)
        truth = engine.vectors(engine.ids)
        engine.remove(np.arange(0, len(vectors) // 3))
        begin = time.perf_counter()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-5, random.random() * longest))
            engine.compact()
            longest = time.perf_counter() - begin
        except Interrupt:
            interrupts += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            interrupts += 1
        expect_consistent(engine, truth)
    assert interrupts > 0


def test_an_interrupted_add_is_whole() -> None:
    random = np.random.default_rng(1)
    vectors = random.standard_normal((50, 32)).astype(np.float32)
    engine = Engine(32)
    interrupts = 0
    for _ in range(600):
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-5, random.random() * 3e-4))
            engine.add(vectors, now=NOW)
        except Interrupt:
            interrupts += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            interrupts += 1
    assert interrupts > 0
    assert len(engine) % len(vectors) == 0
    one = engine.vectors(engine.ids[:50])
    np.testing.assert_array_equal(
        engine.vectors(engine.ids), np.tile(one, (len(engine) // len(vectors), 1))
    )
    assert len(engine.search(vectors[0], 3, now=NOW).ids) == 3


def raise_within(seen: list[str]) -> None:
    with SignalsDeferred():
        signal.raise_signal(signal.SIGALRM)
        seen.append("all of it")


def test_deferred_handlers_run_in_their_order_and_come_back() -> None:
    seen: list[str] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append("one"))
    try:
        with SignalsDeferred():
            signal.raise_signal(signal.SIGUSR1)
            seen.append("inside")
        assert seen == ["inside", "one"]
        signal.raise_signal(signal.SIGUSR1)
        assert seen == ["inside", "one", "one"]
        with pytest.raises(Interrupt):
            raise_within(seen)
        assert seen[-1] == "all of it"
    finally:
        signal.signal(signal.SIGUSR1, before)
