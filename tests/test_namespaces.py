"""Namespaces: apart from each other, loaded on demand, within a budget of RAM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory, MemoryNotFound
from flashbulb.errors import StoreUnavailable

SECRETS = ["the vault code is 4711", "our CEO is resigning"]


def texts_of(memory: Memory) -> list[str]:
    return [record.text for record in memory.list()]


def loaded(memory: Memory) -> set[str]:
    return {space.name for space in memory._store._spaces}


def in_ram(memory: Memory) -> int:
    return sum(count.loaded_bytes for count in memory.namespaces())


def test_namespaces_lists_names_and_counts(store: Path) -> None:
    with Memory(store) as memory:
        assert memory.namespaces() == []
        memory.namespace("bob").remember_many(["a cat", "a dog"])
        memory.remember("a bird")
        only = memory.namespace("ann").remember("a fish")
        memory.namespace("ann").forget(only.id)
        memory.namespace("never written to").recall("cat")
        counts = {count.name: count.memories for count in memory.namespaces()}
        assert list(counts.items()) == [("ann", 0), ("bob", 2), ("default", 1)]
        assert memory.namespace("bob").namespaces() == memory.namespaces()
    with Memory(store, namespace="bob") as memory:
        assert [count.name for count in memory.namespaces()] == ["ann", "bob", "default"]
        assert in_ram(memory) == 0
        memory.recall("cat")
        assert [count.loaded_bytes > 0 for count in memory.namespaces()] == [False, True, False]


def test_forget_all_leaves_nothing_of_a_namespace_and_all_of_the_others(
    store: Path, clock: Any
) -> None:
    with Memory(store, clock=clock) as memory:
        bob, ann = memory.namespace("bob"), memory.namespace("ann")
        for i in range(40):
            bob.remember(f"the vault code is {i}", tags=["secret"])
            ann.remember(f"the garden gate is {i} metres wide", tags=["garden"])
        bob.remember("the vault code is 7", tags=["secret"])  # an occurrence
        vivid = bob.remember("the vault is open!", arousal=0.9)
        bob.reconsolidate(vivid.id, "the guards are away")
        kept = ann.list()
        assert bob.forget_all() == 41
        assert bob.forget_all() == 0
        assert len(bob) == 0
        assert bob.recall("vault code") == []
        with pytest.raises(MemoryNotFound):
            bob.get(vivid.id)
        assert bob.stats()["tags"] == {}
        assert ann.list() == kept
        assert [count.name for count in memory.namespaces()] == ["ann"]
        again = bob.remember("the vault code is 7", tags=["secret"])
        assert again.id > vivid.id
        assert len(again.occurrences) == 1
        # Statistics are those of a namespace that was never there.
        new = memory.namespace("new").remember("the vault code is 7", tags=["secret"])
        assert (again.surprise, again.importance) == (new.surprise, new.importance)
    with Memory(store, clock=clock) as memory:
        assert texts_of(memory.namespace("bob")) == ["the vault code is 7"]
        assert memory.namespace("ann").list() == kept


def test_what_was_forgotten_of_a_namespace_is_in_no_file_after_compaction(store: Path) -> None:
    with Memory(store) as memory:
        memory.namespace("zanzibar").remember_many(SECRETS, now=0)
        memory.remember("a bird")
        memory.namespace("zanzibar").forget_all()
        memory.compact()
        data = b"".join(path.read_bytes() for path in store.parent.iterdir())
        assert b"a bird" in data
        for secret in (*SECRETS, "zanzibar"):
            assert secret.encode() not in data


def test_the_least_recently_used_leave_ram(store: Path) -> None:
    with Memory(store) as memory:
        for name in "abcdef":
            memory.namespace(name).remember_many(f"{name} says {i}" for i in range(50))
        size = in_ram(memory) / 6
    with Memory(store, memory_budget=round(3.5 * size)) as memory:
        for name in "abc":
            assert len(memory.namespace(name)) == 50
        assert loaded(memory) == {"a", "b", "c"}
        len(memory.namespace("a"))
        len(memory.namespace("d"))
        assert loaded(memory) == {"a", "c", "d"}
        assert 0 < in_ram(memory) <= round(3.5 * size)
        # One that is larger than the budget stays while nothing else is used.
        memory.namespace("big").remember_many(f"big says {i}" for i in range(400))
        assert loaded(memory) == {"big"}
        engine = memory._store.space("big").engine
        assert len(memory.namespace("big").recall("big", 400)) == 400
        assert memory._store.space("big").engine is engine
        assert len(memory.namespace("a")) == 50
        assert loaded(memory) == {"a"}


@pytest.mark.parametrize("budget", [0, None])
def test_strengths_and_statistics_survive_leaving_ram(
    store: Path, clock: Any, budget: int | None
) -> None:
    """What a recall or a stream left behind is the same as where nothing ever leaves."""

    def run(memory: Memory) -> list[Any]:
        seen: list[Any] = []
        for i in range(60):
            clock.pass_(hours=2)
            for name in ("a", "b"):
                view = memory.namespace(name)
                text = f"{name}: pump {i % 7} reports {i * i % 11} bar"
                record = view.remember(text, tags=[f"pump {i % 7}"])
                seen.append((record.surprise, record.importance, record.pinned))
                seen += [(h.id, h.score) for h in view.recall(f"pump {i % 5}", 5)]
        return [seen, *(memory.namespace(name).list() for name in ("a", "b"))]

    start = clock.now
    with Memory(":memory:", clock=clock, memory_budget=None) as memory:
        expected = run(memory)
    clock.now = start
    with Memory(store, clock=clock, memory_budget=budget, durability="normal") as memory:
        assert run(memory) == expected
        assert len(loaded(memory)) == (1 if budget == 0 else 2)
        listed = memory.namespace("a").list()
    with Memory(store, clock=clock) as memory:
        assert memory.namespace("a").list() == listed


@contextmanager
def a_full_disk(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def full(*_: Any) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr(memory._store.database, "update_traces", full)
        yield


def test_what_cannot_be_written_stays_in_ram(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory(store, memory_budget=0) as memory:
        for name in "ab":
            memory.namespace(name).remember(f"a memory of {name}")
        with a_full_disk(memory, monkeypatch), caplog.at_level(logging.WARNING):
            assert memory.namespace("a").recall("memory")
            assert len(memory.namespace("b")) == 1
            assert loaded(memory) == {"a", "b"}
        assert "could not be written" in caplog.text
        assert memory.namespace("a").get(1).access_count == 1
        assert loaded(memory) == {"a"}
        assert len(memory.namespace("b")) == 1
        assert memory.namespace("a").get(1).access_count == 1


def test_a_view_loads_nothing(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember("a bird")
    with Memory(store) as memory:
        memory.namespace("a").namespace("b")
        assert loaded(memory) == set()


@pytest.mark.parametrize("budget", [-1, 1.5, True, "1 GB"])
def test_a_bad_budget_is_refused(store: Path, budget: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="memory_budget must"):
        Memory(store, memory_budget=budget)
    assert not store.exists()


def test_the_words_of_a_namespace_are_counted(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember_many(f"word{i} other{i} third{i}" for i in range(200))
        before = in_ram(memory)
        memory.recall("word3")
        assert in_ram(memory) > before + 200 * 3 * 100


def test_another_namespace_changes_no_bit_of_a_recall(store: Path, clock: Any) -> None:
    def hits(memory: Memory) -> list[tuple[str, float, float, float]]:
        view = memory.namespace("a")
        view.remember_many(f"pump {i} in hall {i % 5} is loud" for i in range(30))
        found = view.recall("which pump in hall 3", 30)
        return [(hit.text, hit.score, hit.lexical, hit.vividness_bonus) for hit in found]

    with Memory(":memory:", clock=clock) as memory:
        alone = hits(memory)
    with Memory(store, clock=clock) as memory:
        memory.remember_many(f"pump {i} in hall 3 is quiet" for i in range(200))
        assert hits(memory) == alone
    with Memory(store, clock=clock) as memory:
        again = memory.namespace("a").recall("which pump in hall 3", 30, reinforce=False)
        assert {hit.text: hit.lexical for hit in again} == {
            t: lexical for t, _, lexical, _ in alone
        }


@pytest.mark.parametrize("budget", [0, 60_000])
def test_threads_on_many_namespaces_lose_nothing(store: Path, budget: int) -> None:
    names = ["a", "b", "c", "d"]
    with Memory(store, surprise=None, durability="normal", memory_budget=budget) as memory:
        ids = {name: memory.namespace(name).remember(f"{name} is first").id for name in names}
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for i in range(40):
                    name = names[(number + i) % len(names)]
                    view = memory.namespace(name)
                    view.reinforce(ids[name])
                    view.remember(f"{name} hears {number} say {i}")
                    for hit in view.recall("who hears", 5, reinforce=False):
                        assert hit.text.startswith(name)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for name in names:
            assert memory.namespace(name).get(ids[name]).access_count == 60
            assert len(memory.namespace(name)) == 61
    with Memory(store, surprise=None) as memory:
        for name in names:
            assert memory.namespace(name).get(ids[name]).access_count == 60
            assert len(memory.namespace(name)) == 61
