"""An engine under many threads at once: every answer is right for some moment of its call.

Ids of a *stable* set are never touched, suppressed or removed, so that their scores are known
beforehand, bit for bit; the others change all the time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flashbulb
from flashbulb import Engine, _core
from flashbulb._columns import to_unit_rows
from strategies import NOW, segments_of
from test_engine_concurrency import run_together

DIM = 256
STABLE = 4000
K = 40
QUERIES = 40  # with the stable rows alone enough work for several threads


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = flashbulb.get_threads()
    flashbulb.set_threads(request.param)
    yield request.param
    flashbulb.set_threads(before)


def rows_of(count: int, seed: int) -> np.ndarray:
    return to_unit_rows(np.random.default_rng(seed).normal(size=(count, DIM)), DIM, "rows")


class Ledger:
    """Which ids were there when: begun and ended moments of adds and removals, by counting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0
        self.add_begun: dict[int, int] = {}
        self.remove_ended: dict[int, int] = {}

    def moment(self) -> int:
        with self._lock:
            self._clock += 1
            return self._clock

    def may_be_there(self, memory_id: int, start: int, end: int) -> bool:
        begun = self.add_begun.get(memory_id)
        return begun is not None and begun < end and self.remove_ended.get(memory_id, end) > start


def check(result: Any, row: int, stable: dict[int, float]) -> None:
    """What must hold of each answer, whatever the others did meanwhile."""
    ids, scores = result.ids[row], result.scores[row]
    assert len(ids) == len(set(ids.tolist())) == K
    order = sorted(zip(-scores, ids, strict=True))
    assert [memory_id for _, memory_id in order] == ids.tolist()
    total = (result.similarities + result.vividness_bonus) + result.recency_bonus
    assert total.tobytes() == result.scores.tobytes()
    found = dict(zip(ids.tolist(), scores.tolist(), strict=True))
    for memory_id, score in found.items():
        if memory_id in stable:
            assert score == stable[memory_id]
    # A stable memory is missing only behind the last hit.
    worst = (-scores[-1], ids[-1])
    for memory_id, score in stable.items():
        assert memory_id in found or (-score, memory_id) > worst


def test_answers_under_changes_are_right_for_some_moment(threads: int) -> None:
    with segments_of(5000):
        engine = Engine(DIM)
        engine.add(rows_of(STABLE, 0), salience=0.5, now=NOW)
        queries = rows_of(QUERIES, 1)
        everything = engine.search(queries, STABLE, now=NOW)
        stable = [
            dict(zip(ids.tolist(), scores.tolist(), strict=True))
            for ids, scores in zip(everything.ids, everything.scores, strict=True)
        ]
        ledger = Ledger()
        for memory_id in range(STABLE):
            ledger.add_begun[memory_id] = 0
        done = threading.Event()
        present: list[int] = []
        searches = [0, 0]

        def search(number: int) -> None:
            rng = np.random.default_rng(number)
            while not done.is_set() or searches[number] < 5:
                chosen = rng.integers(0, QUERIES, size=QUERIES if number else 1)
                start = ledger.moment()
                result = engine.search(queries[chosen], K, now=NOW)
                end = ledger.moment()
                for place, query in enumerate(chosen):
                    check(result, place, stable[query])
                for memory_id in set(result.ids.ravel().tolist()):
                    assert ledger.may_be_there(memory_id, start, end), memory_id
                searches[number] += 1

        def add_and_remove() -> None:
            rng = np.random.default_rng(10)
            for round_number in range(25):
                expected = range(engine.next_id, engine.next_id + 50)
                begun = ledger.moment()
                ledger.add_begun.update(dict.fromkeys(expected, begun))
                # Near the queries, so that they come and go in the answers.
                near = queries[rng.integers(0, QUERIES, 50)] + 0.05 * rng.normal(size=(50, DIM))
                assert engine.add(near, now=NOW).tolist() == list(expected)
                present.extend(expected)
                if round_number % 2:
                    gone = [present.pop(0) for _ in range(40)]
                    assert engine.remove(gone) == 40
                    ended = ledger.moment()
                    ledger.remove_ended.update(dict.fromkeys(gone, ended))
                if round_number % 8 == 7:
                    engine.compact()
            done.set()

        def strengthen() -> None:
            rng = np.random.default_rng(20)
            while not done.is_set():
                some = [present[i] for i in rng.integers(0, max(len(present), 1), 5) if present]
                try:
                    engine.touch(some, NOW)
                    engine.suppress(some[:2], some[2:], now=NOW)
                    engine.pin(some[:1], now=NOW)
                    engine.unpin(some[:1], now=NOW)
                except (flashbulb.MemoryNotFound, IndexError):
                    pass  # removed meanwhile

        run_together(
            lambda: search(0), lambda: search(1), lambda: search(1), add_and_remove, strengthen
        )
        assert min(searches) >= 5
        # Afterwards it is as if one thread had done it all.
        twin = Engine.from_state(engine.state())
        for one, other in zip(
            engine.search(queries, K, now=NOW), twin.search(queries, K, now=NOW), strict=True
        ):
            assert one.tobytes() == other.tobytes()


def test_a_writer_gets_its_turn_among_many_readers() -> None:
    engine = Engine(DIM)
    engine.add(rows_of(2000, 0), now=NOW)
    query = rows_of(1, 1)[0]
    reading = threading.Barrier(9)
    done = threading.Event()
    counts = [0] * 8

    def read(number: int) -> None:
        reading.wait()
        while not done.is_set():
            engine.search(query, 5, now=NOW)
            counts[number] += 1

    def write() -> None:
        reading.wait()
        for row in rows_of(100, 2):
            engine.add(row, now=NOW)
        done.set()

    run_together(*(lambda number=number: read(number) for number in range(8)), write)
    assert len(engine) == 2100
    assert min(counts) > 0  # and no reader was starved by the writer


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_ctrl_c_ends_a_wait_for_the_lock(kind: str, uncollected: None) -> None:
    lock = _core.RwLock()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.exclusive():
            held.set()
            release.wait()

    # A process that a shell has started in the background ignores Ctrl-C: not here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        holder = threading.Thread(target=hold, daemon=True)
        holder.start()
        held.wait()
        pressing = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
        pressing.start()
        with pytest.raises(KeyboardInterrupt), getattr(lock, kind)():
            raise AssertionError("the lock is held")
        pressing.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not release.is_set()  # the holder never gave it up
    release.set()
    holder.join()
    with lock.exclusive():
        pass
