"""Threads beside each other, and what a forked child may not do.

No test waits on a clock: each has a fixed amount of work, and a limit far beyond it that only a
deadlock can reach.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flashbulb import Engine, MemoryNotFound, _core
from flashbulb._columns import to_unit_rows
from flashbulb._reference import inner_products
from indexes import made
from strategies import NOW, segments_of

DIM = 24
DEADLOCK_SECONDS = 120.0


def given_row(memory_id: int) -> np.ndarray:
    return np.random.default_rng(memory_id).normal(size=(1, DIM))


def stored_row(memory_id: int) -> np.ndarray:
    return to_unit_rows(given_row(memory_id), DIM, "row")


def run_together(*tasks: Callable[[], None]) -> None:
    """Runs each in a thread of its own; re-raises the first error."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK_SECONDS)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("kind", ["own", "flat", "ivf", "map2 hnsw"])
def test_searches_beside_adds_and_removals_are_consistent(kind: str) -> None:
    with segments_of(50):
        engine = Engine(DIM if kind == "own" else made(kind, DIM))
        live: set[int] = set()  # changed only after the engine was
        gone: set[int] = set()
        stop = threading.Event()

        def write() -> None:
            rng = np.random.default_rng(1)
            try:
                for step in range(400):
                    first = engine.next_id
                    rows = np.concatenate([given_row(first + i) for i in range(3)])
                    live.update(engine.add(rows, now=NOW).tolist())
                    engine.touch([first], NOW)
                    engine.suppress([first + 1], now=NOW + step)
                    if len(live) > 100:
                        leaving = rng.choice(sorted(live), size=20, replace=False).tolist()
                        live.difference_update(leaving)
                        assert engine.remove(leaving) == 20
                        gone.update(leaving)
                    if step % 50 == 49:
                        engine.compact()
                    if step % 20 == 0:
                        engine.decay(NOW + step)
            finally:
                stop.set()

        def read(seed: int) -> None:
            rng = np.random.default_rng(seed)
            rounds = 0
            while not stop.is_set() or rounds < 5:
                rounds += 1
                query = to_unit_rows(rng.normal(size=(1, DIM)), DIM, "query")
                before_gone, before_live = set(gone), set(live)
                found = engine.search(query, 10_000, now=NOW)
                ids = found.ids[0].tolist()
                assert len(set(ids)) == len(ids)
                assert not before_gone & set(ids), "a removed memory came back"
                # What was live before and is live after was live all the time.
                assert (before_live & live) - gone <= set(ids)
                # The engine normalises the unit vector once more, which may move its last bit.
                searched = to_unit_rows(query, DIM, "query")[0]
                for place in rng.permutation(len(ids))[:3]:
                    expected = inner_products(searched, stored_row(ids[place]))[0]
                    assert found.cosines[0, place] == expected, "vector of another memory"
                if ids:
                    try:
                        stored = engine.vectors(ids[:1])
                    except MemoryNotFound:
                        continue  # removed in between
                    np.testing.assert_array_equal(stored, stored_row(ids[0]))

        run_together(write, lambda: read(2), lambda: read(3))
    assert engine.ids.tolist() == sorted(live)
    for memory_id in sorted(live):
        found = engine.search(stored_row(memory_id)[0], 1, now=NOW, vividness_weight=0)
        assert found.ids.tolist() == [memory_id]


def test_no_touch_is_lost() -> None:
    engine = Engine(2)
    engine.add(np.eye(2), now=NOW)

    def touch() -> None:
        for _ in range(2000):
            engine.touch([0], NOW)
            engine.search([1, 0], 1, now=NOW)

    run_together(*[touch] * 4)
    assert engine.traces()["access_count"].tolist() == [8000, 0]


def test_adds_from_many_threads_give_each_row_its_own_id() -> None:
    engine = Engine(DIM)
    added: dict[int, bytes] = {}

    def add(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(200):
            row = to_unit_rows(rng.normal(size=(1, DIM)), DIM, "row")
            (memory_id,) = engine.add(row, now=NOW).tolist()
            added[memory_id] = row.tobytes()

    run_together(*(lambda seed=seed: add(seed) for seed in range(4)))
    assert sorted(added) == list(range(800))
    # A unit row may move by its last bit when it is normalised again.
    stored = engine.vectors(engine.ids)
    given = np.array([np.frombuffer(added[i], np.float32) for i in range(800)])
    np.testing.assert_allclose(stored, given, rtol=0, atol=1e-7)


def test_a_writer_is_not_starved_by_readers() -> None:
    engine = Engine(DIM)
    engine.add(np.random.default_rng(0).normal(size=(2000, DIM)), now=NOW)
    done = threading.Event()

    def read() -> None:
        query = np.ones(DIM)
        while not done.is_set():
            engine.search(query, 5, now=NOW)

    def write() -> None:
        for _ in range(300):
            engine.touch([0], NOW)
        done.set()

    run_together(read, read, read, write)
    assert engine.traces([0])["access_count"].tolist() == [300]


def test_the_lock_lets_readers_in_together_and_writers_alone() -> None:
    lock = _core.RwLock()
    both_inside = threading.Barrier(2)
    inside: list[str] = []

    def read() -> None:
        with lock.shared():
            both_inside.wait(DEADLOCK_SECONDS)  # passes only if both are in

    run_together(read, read)

    def write() -> None:
        for _ in range(500):
            with lock.exclusive():
                inside.append("in")
                assert len(inside) == 1
                inside.clear()

    run_together(write, write, write)


def test_an_error_inside_releases_the_lock() -> None:
    engine = Engine(2)
    engine.add([1, 0], now=NOW)
    for attempt in (
        lambda: engine.touch(99, NOW),
        lambda: engine.vectors(99),
        lambda: engine.add([1, 0], salience=7, now=NOW),
    ):
        with pytest.raises((KeyError, ValueError)):
            attempt()
        run_together(lambda: engine.touch(0, NOW), lambda: engine.search([1, 0], 1, now=NOW))


FORKED = """
import os, sys
import faiss, numpy as np
from flashbulb import Engine, StoreForked

faiss.omp_set_num_threads(4)
index = faiss.IndexFlatIP(32) if {attached} else 32
engine = Engine(index)
rows = np.random.default_rng(0).normal(size=(20_000, 32)).astype("f4")
engine.add(rows, urgency=0.5, now=1e9)
own = faiss.IndexFlatIP(32)
own.add(rows)
own.search(rows[:2000], 5)  # FAISS has threads from here on
state = engine.state()
child = os.fork()
if child == 0:
    calls = dict(
        add=lambda: engine.add(rows, now=1e9),
        search=lambda: engine.search(rows[0], 5, now=1e9),
        touch=lambda: engine.touch(0, 1e9),
        suppress=lambda: engine.suppress(0, now=1e9),
        complete=lambda: engine.complete(0, 1e9),
        pin=lambda: engine.pin(0, now=1e9),
        unpin=lambda: engine.unpin(0, now=1e9),
        strengthen=lambda: engine.strengthen(0, 0.1, 1e9),
        replace_vectors=lambda: engine.replace_vectors(0, rows[:1]),
        decay=lambda: engine.decay(1e9),
        set_policy=lambda: engine.set_policy(engine.policy, now=1e9),
        remove=lambda: engine.remove(0),
        compact=lambda: engine.compact(),
        build_partition=lambda: engine.build_partition(),
        vividness=lambda: engine.vividness(now=1e9),
        vectors=lambda: engine.vectors(0),
        cosines=lambda: engine.cosines(rows[0], 0),
        traces=lambda: engine.traces(),
        state=lambda: engine.state(),
        memory_bytes=lambda: engine.memory_bytes(),
        ids=lambda: engine.ids,
        contains=lambda: 0 in engine,
        with_tags=lambda: engine.with_tags(["a"]),
        newest=lambda: engine.newest(["a"]),
    )
    for name, call in calls.items():
        try:
            call()
        except StoreForked as error:
            assert str(os.getppid()) in str(error), error
        else:
            print(name, "did not raise", flush=True)
            os._exit(1)
    # An engine of its own works.
    twin = Engine.from_state(state)
    assert twin.search(rows[7], 1, now=1e9).ids.tolist() == [7]
    os._exit(0)
_, status = os.waitpid(child, 0)
assert engine.search(rows[7], 1, now=1e9).ids.tolist() == [7]
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("attached", [False, True])
def test_a_forked_child_is_refused_at_once(attached: bool) -> None:
    script = textwrap.dedent(FORKED).format(attached=attached)
    result: Any = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_public_method_that_forgets_the_fork_is_noticed() -> None:
    # Whoever adds a method to Engine adds it to the script above too.
    harmless = {"dim", "path", "storage", "partition", "policy", "next_id", "from_state"}
    public = {name for name in vars(Engine) if not name.startswith("_")} - harmless
    assert {name for name in public if f"{name}=" not in FORKED} == set()
