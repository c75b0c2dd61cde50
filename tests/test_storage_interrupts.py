"""Ctrl-C at any statement: the store goes on, and RAM is what the record says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from flashbulb import Memory

Operation = Callable[[Memory, Path], Any]

OPERATIONS: dict[str, Operation] = {
    "remember": lambda memory, _: memory.remember("new text", tags=["new"]),
    "remember again": lambda memory, _: memory.remember("task 1", urgency=0.5),
    "remember many": lambda memory, _: memory.remember_many(["a b", "c d", "e f"]),
    "new namespace": lambda memory, _: memory.namespace("other").remember("elsewhere"),
    "forget": lambda memory, _: memory.forget(2),
    "complete": lambda memory, _: memory.complete(2),
    "pin": lambda memory, _: memory.pin(2),
    "unpin": lambda memory, _: memory.unpin(3),
    "reconsolidate": lambda memory, _: memory.reconsolidate(2, "another context"),
    "compact": lambda memory, _: memory.compact(),
    "import": lambda memory, file: memory.import_(file, new_ids=True),
    "import into a new namespace": lambda memory, file: memory.namespace("other").import_(
        file, new_ids=True
    ),
}


def interrupted(work: Callable[[], Any], function: str, event: str, count: int) -> bool:
    """Run `work`, with a KeyboardInterrupt at the `count`-th such event of a function.

    False if there are fewer of them.
    """
    left = count

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_name != function or "flashbulb" not in frame.f_code.co_filename:
            return None
        return within if event == "return" else within(frame, kind, _)

    def within(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal left
        if kind == event:
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return within

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


def state_of(memory: Memory) -> Any:
    """All that can be seen, of both namespaces."""
    return [
        (
            view.list(),
            [view.history(record.id) for record in view.list()],
            view.stats()["surprise_pins_refused"],
            [(hit.id, hit.score) for hit in view.recall("task new text", 50, reinforce=False)],
        )
        for view in (memory, memory.namespace("other"))
    ]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("function", "event"), [("_all", "call"), ("_all", "return")])
def test_an_interrupt_at_any_statement(
    tmp_path: Path, clock: Any, name: str, function: str, event: str
) -> None:
    file = tmp_path / "export.jsonl"
    with Memory(":memory:", clock=clock) as source:
        source.remember_many(["imported one", "imported two"])
        source.export(file)
    for count in range(1, 1000):
        store = tmp_path / f"{count}.db"
        with Memory(store, clock=clock, durability="normal") as memory:
            memory.remember_many([{"text": f"task {n}", "urgency": 0.5} for n in range(5)])
            memory.pin(3)
            memory.recall("task 4")
            hit = interrupted(lambda: OPERATIONS[name](memory, file), function, event, count)
            for view in (memory, memory.namespace("other")):  # every kind of write goes on
                record = view.remember(f"after {count}", urgency=0.5)
                view.complete(record.id)
                view.unpin(view.pin(record.id).id)
                view.forget(view.remember("for a moment").id)
                assert len(view.recall(f"after {count}", 1)) == 1
            seen = state_of(memory)
        with Memory(store, clock=clock, durability="normal") as memory:
            assert state_of(memory) == seen
        if not hit:
            return
    pytest.fail("an operation has no end")


def test_what_an_interrupt_left_open_is_undone_before_it_is_read(store: Path) -> None:
    """Even if the statements of a transaction ran, and no handler did."""
    with Memory(store) as memory:
        memory.remember("kept")
        database = memory._store.database

        def half() -> None:
            with memory._store.locked():
                database._all("BEGIN IMMEDIATE")
                database._all("INSERT INTO namespaces (name) VALUES ('default2')")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            half()
        assert memory.namespace("default2").list() == []
        assert not database._connection.in_transaction
        memory.namespace("default2").remember("x")
        assert len(memory) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_recall_loses_no_earlier_strength(
    store: Path, clock: Any, monkeypatch: Any, error: type[BaseException]
) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember("one")
        memory.recall("one")

        def interrupt(*_: Any, **__: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("flashbulb.engine.Engine.suppress", interrupt)
            with pytest.raises(error):
                memory.recall("one")
        assert memory.get(1).access_count >= 1
        seen = memory.get(1)
    with Memory(store, clock=clock) as memory:
        assert memory.get(1) == seen
