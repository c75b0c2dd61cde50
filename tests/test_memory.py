"""Memory as its user meets it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashbulb import Memory, MemoryNotFound, Policy, StoreClosed
from flashbulb.arousal import ArousalDetector

DAY = 86400.0
OUTAGE = "CRITICAL: Payment system is down, users cannot checkout"


@pytest.fixture
def memory(clock: Any) -> Any:
    with Memory(":memory:", clock=clock) as opened:
        yield opened


# Remembering


def test_the_first_example(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember(OUTAGE, tags=["payments"])
        memory.remember("User prefers dark mode")
        hits = memory.recall("What critical issues are unresolved?", k=5)
    assert hits[0].text == OUTAGE
    assert hits[0].score > hits[1].score


def test_everything_given_comes_back(memory: Memory, clock: Any) -> None:
    given = memory.remember(
        "Met the auditors\n\tat noon",
        tags=["audit", "people", "audit"],
        metadata={"room": "4b", "seats": [1, 2.5, None], "ok": True, "nested": {"ä": "ö"}},
        urgency=0.25,
        who="Ana and Bo",
        what="audit",
        when=dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=9))),
        where="Oslo",
        arousal=0.3,
    )
    record = memory.get(given.id)
    assert record == given
    assert record.text == "Met the auditors\n\tat noon"
    assert record.tags == ("audit", "people")
    assert record.metadata == {
        "room": "4b",
        "seats": [1, 2.5, None],
        "ok": True,
        "nested": {"ä": "ö"},
    }
    assert (record.who, record.what, record.where) == ("Ana and Bo", "audit", "Oslo")
    assert record.when == "2024-05-01T12:00:00+09:00"
    assert (record.status, record.urgency) == ("open", 0.25)
    assert (record.arousal, record.arousal_source) == (0.3, "given")
    assert record.created == clock.now
    assert [o.time for o in record.occurrences] == [clock.now]


@pytest.mark.parametrize(
    "text", ["nul \0 inside", "🙂", "!!!", "x" * 10_000_000, "\u202eright to left", "a\u2028b"]
)
def test_any_text_comes_back_as_it_is(store: Path, text: str) -> None:
    with Memory(store) as memory:
        id = memory.remember(text).id
    with Memory(store) as memory:
        assert memory.get(id).text == text
        assert [hit.id for hit in memory.recall(text[:1000])] == [id]


def test_flashbulbs_keep_their_floor_and_mundane_ones_fade(memory: Memory, clock: Any) -> None:
    outage = memory.remember(OUTAGE)
    chat = memory.remember("thanks, see you tomorrow")
    clock.pass_(days=365)
    assert outage.flashbulb
    assert memory.get(outage.id).vividness == 0.7
    assert memory.get(chat.id).vividness < 1e-10
    assert not outage.pinned


def test_context_counts_for_arousal_only(memory: Memory) -> None:
    class Contextual:
        def detect(self, text: str, context: str = "") -> Any:
            return dataclasses.replace(ArousalDetector().detect(text), score=len(context) / 10)

    with Memory(":memory:", detector=Contextual()) as own:
        assert own.remember("one", context="12345").arousal == 0.5
        assert own.remember("two").arousal == 0.0


def test_a_batch_is_stored_in_order_with_its_own_times(memory: Memory, clock: Any) -> None:
    records = memory.remember_many(
        ["plain text", {"text": "with a time", "now": clock.now - DAY, "tags": ["old"]}]
    )
    assert [r.id for r in records] == [1, 2]
    assert records[1].created == clock.now - DAY
    assert records[1].vividness == 1.0
    assert memory.get(2).vividness < 1.0
    assert memory.remember_many([]) == []


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"text": ""}, ValueError),
        ({"text": " \n\u3000"}, ValueError),
        ({"text": 5}, TypeError),
        ({"text": b"bytes"}, TypeError),
        ({"text": "lone \ud800 surrogate"}, ValueError),
        ({"text": "x", "tags": "payments"}, TypeError),
        ({"text": "x", "tags": 5}, TypeError),
        ({"text": "x", "tags": [""]}, ValueError),
        ({"text": "x", "tags": ["a", 1]}, TypeError),
        ({"text": "x", "tags": ["\udfff"]}, ValueError),
        ({"text": "x", "metadata": {"a": math.nan}}, ValueError),
        ({"text": "x", "metadata": {"a": {1}}}, TypeError),
        ({"text": "x", "metadata": {1: "a"}}, ValueError),
        ({"text": "x", "metadata": {"a": (1, 2)}}, ValueError),
        ({"text": "x", "metadata": {"a": "\ud800"}}, ValueError),
        ({"text": "x", "metadata": ["a"]}, TypeError),
        ({"text": "x", "urgency": 1.5}, ValueError),
        ({"text": "x", "urgency": math.nan}, ValueError),
        ({"text": "x", "urgency": True}, TypeError),
        ({"text": "x", "arousal": -0.1}, ValueError),
        ({"text": "x", "arousal": "high"}, TypeError),
        ({"text": "x", "who": 3}, TypeError),
        ({"text": "x", "when": dt.datetime(2024, 1, 1)}, ValueError),
        ({"text": "x", "when": dt.date(2024, 1, 1)}, TypeError),
        ({"text": "x", "now": dt.datetime(2024, 1, 1)}, ValueError),
        ({"text": "x", "now": math.inf}, ValueError),
        ({"text": "x", "context": None}, TypeError),
        ({"text": "x", "unknown": 1}, TypeError),
        ({"tags": []}, TypeError),
        (7, TypeError),
    ],
)
def test_one_bad_item_changes_nothing(memory: Memory, bad: Any, error: type[Exception]) -> None:
    memory.remember("before")
    before = memory.stats()
    with pytest.raises(error, match="item 2: "):
        memory.remember_many(["good", {"text": "fine"}, bad, "also good"])
    if isinstance(bad, dict) and "text" in bad and "unknown" not in bad:
        with pytest.raises(error):
            memory.remember(**bad)
    assert memory.stats() == before
    assert memory.remember("after").id == 2


def test_metadata_nested_too_deeply_is_refused(memory: Memory) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="metadata"):
        memory.remember("x", metadata=deep)


def test_a_kind_of_str_is_its_characters(memory: Memory) -> None:
    class Word(str, enum.Enum):
        ASTERIX = "obelix"
        OPEN = "open"
        CREATED = "created"

    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return self.upper()

    for word in (Word.ASTERIX, Loud("obelix")):
        record = memory.remember(
            word,
            tags=[word],
            metadata={"m": word},
            who=word,
            what=word,
            when=word,
            where=word,
            urgency=0.5,
        )
        assert record.text == record.who == record.what == record.when == record.where == "obelix"
        assert record.tags == ("obelix",)
        assert record.metadata == {"m": "obelix"}
        assert type(record.text) is type(record.tags[0]) is str
        assert [h.text for h in memory.recall(word, tags=[word], filter={"m": word})] == ["obelix"]
    assert len(memory) == 1
    assert memory.recall("obelix", status=Word.OPEN)
    assert memory.recall("obelix", status=Loud("open"))
    assert memory.list(order=Word.CREATED) == memory.list()
    assert memory.remember_many([Word.ASTERIX])[0].text == "obelix"
    memory.namespace(Word.ASTERIX).remember("x")
    assert len(memory.namespace("obelix")) == 1


def test_a_detector_that_fails_stores_nothing(memory: Memory) -> None:
    class Broken:
        def __init__(self, score: Any) -> None:
            self.score = score
            self.source = "broken"

        def detect(self, text: str, context: str = "") -> Any:
            if self.score is None:
                raise RuntimeError("no judgement")
            return self

    for score, error in ((None, RuntimeError), (math.nan, ValueError), (2.0, ValueError)):
        with Memory(":memory:", detector=Broken(score)) as own:
            with pytest.raises(error):
                own.remember_many(["one", "two"])
            assert len(own) == 0


def test_no_lock_is_held_while_user_code_runs(store: Path) -> None:
    """A detector and an embedder that use the memory themselves, from another thread."""

    class Nosy:
        memory: Memory

        def detect(self, text: str, context: str = "") -> Any:
            self.ask()
            return ArousalDetector().detect(text)

        def ask(self) -> None:
            thread = threading.Thread(target=self.memory.stats)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()

    nosy = Nosy()

    def embed(texts: list[str]) -> Any:
        if hasattr(nosy, "memory"):
            nosy.ask()
        return np.ones((len(texts), 4))

    with Memory(store, detector=nosy, embedder=embed) as memory:
        nosy.memory = memory
        memory.remember("one")
        assert len(memory.recall("one")) == 1


# Repeats


def test_a_repeat_is_one_more_occurrence(memory: Memory, clock: Any) -> None:
    first = memory.remember("The cat  sat", tags=["a", "b"], metadata={"n": 1})
    clock.pass_(days=3)
    again = memory.remember(" The cat\nsat ", tags=["b", "a"], metadata={"n": 2})
    assert again.id == first.id
    assert len(memory) == 1
    assert again.text == "The cat  sat"
    assert [(o.time, o.metadata) for o in again.occurrences] == [
        (first.created, {"n": 1}),
        (clock.now, {"n": 2}),
    ]
    assert again.created == first.created
    assert again.access_count == 0
    assert again.vividness < 1.0
    assert memory.stats()["occurrences"] == 2


@pytest.mark.parametrize(
    "other",
    [
        {"text": "the cat sat"},
        {"tags": ["a"]},
        {"who": "Ana"},
        {"what": "cat"},
        {"when": "noon"},
        {"where": "mat"},
        {"urgency": 0.5},
    ],
)
def test_what_differs_is_another_memory(memory: Memory, other: dict[str, Any]) -> None:
    first = memory.remember("The cat sat")
    second = memory.remember(**{"text": "The cat sat", **other})
    assert second.id != first.id
    assert memory.remember(**{"text": "The cat sat", **other}).id == second.id


def test_a_completed_task_is_not_repeated(memory: Memory) -> None:
    task = memory.remember("Call the bank", urgency=0.5)
    assert memory.remember("Call the bank", urgency=0.5).id == task.id
    memory.complete(task.id)
    new = memory.remember("Call the bank", urgency=0.5)
    assert new.id != task.id
    assert memory.remember("Call the bank", urgency=0.5).id == new.id


def test_repeats_within_a_batch_and_after_forgetting(memory: Memory) -> None:
    ids = [r.id for r in memory.remember_many(["same", "other", "same", "same"])]
    assert ids == [1, 2, 1, 1]
    assert len(memory.get(1).occurrences) == 4 - 1
    memory.forget(1)
    assert memory.remember("same").id == 3


def test_time_filters_match_any_occurrence(memory: Memory, clock: Any) -> None:
    start = clock.now
    memory.remember("The report is late", metadata={"week": 1})
    memory.remember("Nothing to see")
    clock.pass_(days=10)
    memory.remember("The report is late", metadata={"week": 2})
    clock.pass_(days=10)

    def ids(**filters: Any) -> set[int]:
        return {hit.id for hit in memory.recall("report", reinforce=False, **filters)}

    assert ids(since=start + DAY) == {1}
    assert ids(since=start + 11 * DAY) == set()
    assert ids(until=start + DAY) == {1, 2}
    assert ids(until=start) == set()
    assert ids(since=start, until=start + 1e-3) == {1, 2}
    assert ids(filter={"week": 2}) == {1}
    assert ids(filter={"week": 2}, since=start + DAY) == {1}
    assert ids(filter={"week": 1}, since=start + DAY) == set()
    utc = dt.datetime.fromtimestamp(start + DAY, dt.timezone.utc)
    assert ids(since=utc) == {1}


# Reading and namespaces


def test_list_is_ordered_and_cut(memory: Memory, clock: Any) -> None:
    memory.remember("old", now=clock.now - DAY, tags=["x"], arousal=0.1)
    memory.remember("new", now=clock.now, arousal=0.9)
    memory.remember("older", now=clock.now - 2 * DAY, tags=["x", "y"], arousal=0.5)
    memory.reinforce(1)

    def texts(**arguments: Any) -> list[str]:
        return [record.text for record in memory.list(**arguments)]

    assert texts() == ["older", "old", "new"]
    assert texts(order="-created") == ["new", "old", "older"]
    assert texts(order="-salience") == ["new", "older", "old"]
    assert texts(order="-access_count") == ["old", "new", "older"]
    assert texts(order="-last_access") == ["old", "new", "older"]
    assert texts(order="-vividness") == ["old", "new", "older"]
    assert texts(order="vividness") == ["older", "old", "new"]
    assert texts(limit=2) == ["older", "old"]
    assert texts(limit=0) == []
    assert texts(offset=2) == ["new"]
    assert texts(offset=1, limit=1) == ["old"]
    assert texts(offset=9) == []
    assert texts(tags=["x"]) == ["older", "old"]
    assert texts(tags=["y", "x"]) == ["older"]
    assert texts(tags=["none"]) == []
    with pytest.raises(ValueError, match="order"):
        memory.list(order="colour")
    with pytest.raises(ValueError, match="limit"):
        memory.list(limit=-1)


def test_stats_count(memory: Memory) -> None:
    memory.remember(OUTAGE, tags=["payments", "shop"])
    memory.remember("tea", tags=["shop"])
    memory.remember("tea", tags=["shop"])
    memory.complete(memory.remember("Buy milk", urgency=0.1).id)
    memory.remember("Buy bread", urgency=0.1)
    memory.pin(2)
    stats = memory.stats()
    assert stats["memories"] == len(memory) == 4
    assert stats["occurrences"] == 5
    assert (stats["open_tasks"], stats["completed_tasks"]) == (1, 1)
    assert (stats["pinned"], stats["pinned_by_surprise"]) == (1, 0)
    assert stats["flashbulbs"] == 1
    assert stats["tags"] == {"payments": 1, "shop": 2}
    assert stats["policy"] == Policy().to_dict()
    assert stats["embedder"]["dim"] == 256
    assert stats["store_bytes"] > 0


def test_namespaces_do_not_see_each_other(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        bob = memory.namespace("bob")
        mine = memory.remember("The key is under the mat", tags=["t"])
        his = bob.remember("The key is under the mat", tags=["t"])
        assert his.id != mine.id
        assert len(memory) == len(bob) == 1
        assert memory.namespace("default").get(mine.id).text == mine.text
        assert [hit.id for hit in bob.recall("key")] == [his.id]
        assert bob.forget(mine.id) is False
        for call in (bob.get, bob.complete, bob.pin, bob.unpin, bob.reinforce):
            with pytest.raises(MemoryNotFound, match="bob"):
                call(mine.id)
        assert memory.stats()["namespaces"] == 2
        assert bob.forget(his.id) is True
        assert memory.stats()["namespaces"] == 1
    with Memory(store, namespace="bob") as memory:
        assert memory.list() == []
        assert len(memory.namespace("default")) == 1


def test_another_namespace_changes_no_bit_of_a_score(clock: Any) -> None:
    texts = ["The payment failed", "Payment of the rent", "A walk in the park", "The rent is due"]

    def scores(others: list[str]) -> list[tuple[int, float, float]]:
        with Memory(":memory:", clock=clock) as memory:
            ids = {r.id: i for i, r in enumerate(memory.remember_many(texts))}
            memory.namespace("other").remember_many(others or ["x"])
            return [
                (ids[hit.id], hit.score, hit.lexical)
                for hit in memory.recall("the payment of rent")
            ]

    assert scores([]) == scores(["payment payment rent", "the of", "rent"] * 5 + ["parks"])


def test_a_view_keeps_the_store_open_and_ends_with_it(store: Path) -> None:
    view = Memory(store).namespace("agent")
    view.remember("still here")
    assert len(view) == 1
    root = Memory(store.with_name("other.db"))
    with root.namespace("a") as inner:
        inner.remember("x")
    with pytest.raises(StoreClosed):
        len(inner)
    assert len(root.namespace("a")) == 1
    root.close()
    with pytest.raises(StoreClosed):
        root.namespace("a")


def test_after_close_every_call_says_so(store: Path) -> None:
    memory = Memory(store)
    id = memory.remember("x").id
    memory.close()
    memory.close()
    calls: list[Any] = [
        lambda: memory.remember("y"),
        lambda: memory.remember_many(["y"]),
        lambda: memory.remember_many([]),
        lambda: memory.recall("x"),
        lambda: memory.recall("x", k=0),
        lambda: memory.forget(id),
        lambda: memory.complete(id),
        lambda: memory.pin(id),
        lambda: memory.unpin(id),
        lambda: memory.reinforce([id]),
        lambda: memory.get(id),
        lambda: memory.list(),
        lambda: memory.stats(),
        lambda: len(memory),
        lambda: memory.namespace("n"),
        lambda: memory.export(store.with_name("e")),
        lambda: memory.import_(store.with_name("e")),
        lambda: memory.compact(),
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"policy": {}}, TypeError),
        ({"surprise": "combined!"}, ValueError),
        ({"namespace": ""}, ValueError),
        ({"namespace": 3}, TypeError),
        ({"durability": "none"}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": math.nan}, ValueError),
        ({"detector": object()}, TypeError),
        ({"neutral": "yes"}, TypeError),
        ({"clock": lambda: math.nan}, ValueError),
        ({"path": ""}, ValueError),
    ],
)
def test_bad_settings_are_refused_and_leave_no_file(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Memory(**{"path": tmp_path / "agent.db", **arguments})
    assert list(tmp_path.iterdir()) == []
