"""Memory against a plain dict, through any order of calls."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from flashbulb import Memory, MemoryNotFound, Record

TEXTS = [
    "CRITICAL: Payment system is down",
    "User prefers dark mode",
    "the printer is out of paper",
    "The printer is out of paper",
    "printer paper ordered",
    "dark chocolate for the user",
]
NAMESPACES = ["default", "bob"]


@dataclass
class Model:
    """What is known of a memory."""

    text: str
    tags: frozenset[str]
    urgency: float | None
    times: list[float]
    status: str
    pinned: bool = False
    accesses: int = 0
    metadata: list[dict[str, Any]] = field(default_factory=list)
    history: list[str] = field(default_factory=list)


def by_function(how: str, item: dict[str, Any] | None = None) -> Any:
    """A function that decides as the name does; it is asked about what is near as well."""

    def decide(existing: Record, text: str) -> Any:
        if how == "keep" or item is None:
            return "keep"
        known = existing.text, frozenset(existing.tags), existing.urgency
        same = known == (text, frozenset(item["tags"]), item["urgency"])
        return "occurrence" if same else "keep"

    return decide


class MemoryMachine(RuleBasedStateMachine):
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 1_700_000_000.0
        self.rows: dict[str, dict[int, Model]] = {name: {} for name in NAMESPACES}
        self.used = 0

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    @initialize(surprise=st.sampled_from(["centroid", "neighbours", "combined", None]))
    def open(self, surprise: Any) -> None:
        self.surprise = surprise
        self.memory = Memory(
            self.folder / "agent.db",
            surprise=surprise,
            durability="normal",
            clock=lambda: self.now,
        )

    def view(self, name: str) -> Memory:
        return self.memory.namespace(name)

    def expected(self, name: str, item: dict[str, Any], now: float, how: str) -> int:
        """Where the model says an item goes; it goes there."""
        rows = self.rows[name]
        for id, row in rows.items() if how != "keep" else ():
            same = (row.text, row.tags, row.urgency) == (
                item["text"],
                frozenset(item["tags"]),
                item["urgency"],
            )
            if same and row.status != "completed":
                row.times.append(now)
                row.metadata.append(item["metadata"])
                return id
        self.used += 1
        status = "none" if item["urgency"] is None else "open"
        rows[self.used] = Model(
            item["text"],
            frozenset(item["tags"]),
            item["urgency"],
            [now],
            status,
            metadata=[item["metadata"]],
        )
        return self.used

    items = st.fixed_dictionaries(
        {
            "text": st.sampled_from(TEXTS),
            "tags": st.lists(st.sampled_from(["a", "b"]), max_size=2),
            "urgency": st.sampled_from([None, 0.0, 0.7]),
            "metadata": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 1), max_size=2),
        }
    )

    hows = st.sampled_from(["occurrence", "keep"])

    @rule(
        target=ids,
        name=st.sampled_from(NAMESPACES),
        item=items,
        wait=st.floats(0, 1e6),
        how=hows,
        called=st.booleans(),
    )
    def remember(self, name: str, item: dict[str, Any], wait: float, how: str, called: bool) -> int:
        self.now += wait
        told = by_function(how, item) if called else how
        record = self.view(name).remember(**item, on_duplicate=told)
        assert record.id == self.expected(name, item, self.now, how)
        near = record.near_duplicate
        if near is not None:
            assert near.cosine >= 0.95
            assert near.text == self.rows[name][near.id].text
        self.adopt_surprise(name, record)
        return record.id

    @rule(target=ids, name=st.sampled_from(NAMESPACES), batch=st.lists(items, max_size=4), how=hows)
    def remember_many(self, name: str, batch: list[dict[str, Any]], how: str) -> Any:
        told = by_function(how) if how == "keep" else how
        records = self.view(name).remember_many(batch, on_duplicate=told)
        expected = [self.expected(name, item, self.now, how) for item in batch]
        assert [record.id for record in records] == expected
        for record in records:
            self.adopt_surprise(name, record)
        return multiple(*(record.id for record in records))

    def adopt_surprise(self, name: str, record: Any) -> None:
        """Whether surprise pins is not this model's business."""
        row = self.rows[name][record.id]
        if len(record.occurrences) == 1:
            row.pinned = record.pinned

    @rule(name=st.sampled_from(NAMESPACES), item=items, bad=st.sampled_from([5, "", None]))
    def a_bad_batch(self, name: str, item: dict[str, Any], bad: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="item 1"):
            self.view(name).remember_many([item, {**item, "text": bad}])

    @rule(
        name=st.sampled_from(NAMESPACES),
        query=st.sampled_from(TEXTS),
        k=st.integers(0, 8),
        tags=st.none() | st.lists(st.sampled_from(["a", "b", "c"]), max_size=2),
        status=st.sampled_from([None, "none", "open", "completed"]),
        window=st.tuples(st.booleans(), st.booleans(), st.floats(0, 1e6), st.floats(0, 1e6)),
        wanted=st.none() | st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 1)),
        reinforce=st.booleans(),
    )
    def recall(
        self,
        name: str,
        query: str,
        k: int,
        tags: list[str] | None,
        status: str | None,
        window: tuple[bool, bool, float, float],
        wanted: dict[str, Any] | None,
        reinforce: bool,
    ) -> None:
        since = self.now - max(window[2:]) if window[0] else None
        until = self.now - min(window[2:]) + 1 if window[1] else None

        def passes(row: Model) -> bool:
            return (
                frozenset(tags or ()) <= row.tags
                and status in (None, row.status)
                and any(
                    (since is None or since <= time)
                    and (until is None or time < until)
                    and all(metadata.get(key) == value for key, value in (wanted or {}).items())
                    for time, metadata in zip(row.times, row.metadata, strict=True)
                )
            )

        rows = self.rows[name]
        allowed = {id for id, row in rows.items() if passes(row)}
        view = self.view(name)
        hits = view.recall(
            query,
            k,
            tags=tags,
            status=status,
            since=since,
            until=until,
            filter=wanted,
            reinforce=reinforce,
        )
        found = [hit.id for hit in hits]
        assert len(found) == len(set(found)) == min(k, len(allowed))
        assert set(found) <= allowed
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            assert hit.text == rows[hit.id].text
            assert hit.record.access_count == rows[hit.id].accesses
        if reinforce and hits:
            best = max(hit.similarity for hit in hits)
            for hit in hits:
                rows[hit.id].accesses += hit.similarity >= best - 0.1

    @rule(name=st.sampled_from(NAMESPACES), ids=st.lists(ids, max_size=3))
    def reinforce(self, name: str, ids: list[int]) -> None:
        rows = self.rows[name]
        if set(ids) <= rows.keys():
            self.view(name).reinforce(ids)
            for id in set(ids):
                rows[id].accesses += 1
        else:
            with pytest.raises(MemoryNotFound):
                self.view(name).reinforce(ids)

    @rule(name=st.sampled_from(NAMESPACES), id=ids)
    def forget(self, name: str, id: int) -> None:
        assert self.view(name).forget(id) == (self.rows[name].pop(id, None) is not None)

    @rule(name=st.sampled_from(NAMESPACES), id=ids, call=st.sampled_from(["pin", "unpin"]))
    def pin(self, name: str, id: int, call: str) -> None:
        change = getattr(self.view(name), call)
        if id in self.rows[name]:
            self.rows[name][id].pinned = change(id).pinned
            assert self.rows[name][id].pinned == (call == "pin")
        else:
            with pytest.raises(MemoryNotFound):
                change(id)

    @rule(name=st.sampled_from(NAMESPACES), id=ids, context=st.sampled_from(["a zeppelin", *TEXTS]))
    def reconsolidate(self, name: str, id: int, context: str) -> None:
        row = self.rows[name].get(id)
        if row is None:
            with pytest.raises(MemoryNotFound):
                self.view(name).reconsolidate(id, context)
            return
        before = self.view(name).get(id)
        record = self.view(name).reconsolidate(id, context)
        if context not in re.split(r"\n| \[|\]", row.text):
            row.history.append(row.text)
            vivid = before.salience > 0.7
            row.text += f" [{context}]" if vivid else f"\n{context}"
            assert before.vividness <= record.vividness <= before.vividness + vivid * 0.05 + 1e-12
        else:
            assert record == before

    @rule(name=st.sampled_from(NAMESPACES), id=ids)
    def complete(self, name: str, id: int) -> None:
        row = self.rows[name].get(id)
        if row is None:
            with pytest.raises(MemoryNotFound):
                self.view(name).complete(id)
        elif row.status == "none":
            with pytest.raises(ValueError, match="not a task"):
                self.view(name).complete(id)
        else:
            record = self.view(name).complete(id)
            assert record.status == row.status.replace("open", "completed")
            if row.status == "open":
                row.pinned = False
            row.status = "completed"

    @rule()
    def reopen(self) -> None:
        before = {name: self.view(name).list() for name in NAMESPACES}
        self.memory.close()
        self.open(self.surprise)
        assert {name: self.view(name).list() for name in NAMESPACES} == before
        for name in NAMESPACES:
            engine = self.memory._store.space(name).engine
            for id, row in self.rows[name].items():
                vector = self.memory._embedder.embed_documents([row.text])[0]
                assert engine.cosines(vector, [id])[0, 0] > 0.9999

    @rule()
    def compact(self) -> None:
        self.memory.compact()

    @rule(name=st.sampled_from(NAMESPACES))
    def move(self, name: str) -> None:
        """An export into a new store is the same namespace."""
        self.view(name).export(self.folder / "export.jsonl")
        with Memory(":memory:", surprise=self.surprise, clock=lambda: self.now) as other:
            other.import_(self.folder / "export.jsonl")
            assert other.list() == self.view(name).list()
            for id in self.rows[name]:
                assert other.history(id) == self.view(name).history(id)

    @invariant()
    def agrees(self) -> None:
        for name, rows in self.rows.items():
            view = self.view(name)
            records = {record.id: record for record in view.list()}
            assert records.keys() == rows.keys()
            assert len(view) == len(rows)
            for id, row in rows.items():
                record = records[id]
                assert record.text == row.text
                assert [v.text for v in view.history(id)] == [*row.history, row.text]
                assert frozenset(record.tags) == row.tags
                assert record.urgency == row.urgency
                assert record.status == row.status
                assert record.pinned == row.pinned
                assert record.access_count == row.accesses
                assert [o.time for o in record.occurrences] == row.times
                assert [o.metadata for o in record.occurrences] == row.metadata
                assert record.floor <= record.vividness <= 1.0
            stats = view.stats()
            assert stats["memories"] == len(rows)
            assert stats["occurrences"] == sum(len(row.times) for row in rows.values())
            assert stats["open_tasks"] == sum(row.status == "open" for row in rows.values())
            assert stats["pinned"] == sum(row.pinned for row in rows.values())
            assert stats["pinned_by_surprise"] <= stats["pinned"]
            counts = {tag: sum(tag in row.tags for row in rows.values()) for tag in "ab"}
            assert stats["tags"] == {tag: n for tag, n in counts.items() if n}


TestMemoryModel = MemoryMachine.TestCase
TestMemoryModel.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
