"""No call of one namespace ever sees or changes another, through any order of calls.

Several namespaces hold the same texts, tags and metadata, so that whatever mixes them up would be
found by any query; with the smallest budget each call drops what the one before had loaded.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flashbulb import Memory, MemoryNotFound, Retention

TEXTS = ["the printer is out of paper", "the lift needs a key", "lunch is at noon"]
NAMES = ["default", "a", "A", "a ", "agent-7", "é", "e\u0301"]
DAY = 86_400.0

names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
tags = st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True)


@dataclass
class Row:
    """What a plain dict of dicts knows of a memory."""

    text: str
    tags: tuple[str, ...]
    owner: str
    occurrences: int = 1
    accesses: int = 0
    archived: bool = False


class NamespaceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 1_700_000_000.0
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in NAMES}
        self.written: set[str] = set()
        self.used = 0

    @initialize(budget=st.sampled_from([0, 40_000, None]))
    def open(self, budget: int | None) -> None:
        self.budget = budget
        self.memory = Memory(
            self.folder / "agents.db",
            surprise=None,
            durability="normal",
            memory_budget=budget,
            clock=lambda: self.now,
        )

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    def ids(self) -> list[int]:
        """Every id of every namespace, and ids of none."""
        return [*range(self.used + 2)]

    @rule(name=names, text=texts, tags=tags)
    def remember(self, name: str, text: str, tags: list[str]) -> None:
        self.now += 5 * DAY
        record = self.memory.namespace(name).remember(text, tags=tags, metadata={"by": name})
        self.written.add(name)
        same = [
            id
            for id, row in self.rows[name].items()
            if (row.text, set(row.tags)) == (text, set(tags))
        ]
        if same:
            assert record.id == same[0]
            self.rows[name][record.id].occurrences += 1
            self.rows[name][record.id].archived = False
        else:
            self.used += 1
            assert record.id == self.used
            self.rows[name][record.id] = Row(text, tuple(tags), name)
        assert len(record.occurrences) == self.rows[name][record.id].occurrences
        near = record.near_duplicate
        assert near is None or near.id in self.rows[name]

    @rule(name=names, query=texts, k=st.integers(1, 20), tag=st.sampled_from([None, "x"]),
          archived=st.booleans(), reinforce=st.booleans())  # fmt: skip
    def recall(
        self, name: str, query: str, k: int, tag: str | None, archived: bool, reinforce: bool
    ) -> None:
        rows = self.rows[name]
        hits = self.memory.namespace(name).recall(
            query,
            k,
            tags=None if tag is None else [tag],
            include_archived=archived,
            reinforce=reinforce,
        )
        passing = {
            id
            for id, row in rows.items()
            if (tag is None or tag in row.tags) and (archived or not row.archived)
        }
        assert len(hits) == min(k, len(passing))
        assert {hit.id for hit in hits} <= passing
        assert all(hit.record.metadata == {"by": name} for hit in hits)
        assert all(hit.record.access_count == rows[hit.id].accesses for hit in hits)
        if reinforce and hits:
            best = max(hit.similarity for hit in hits)
            for hit in hits:
                if hit.similarity >= best - 0.1:
                    rows[hit.id].accesses += 1
                    rows[hit.id].archived = False

    @rule(name=names, data=st.data())
    def reinforce(self, name: str, data: Any) -> None:
        id = data.draw(st.sampled_from(self.ids()))
        if id in self.rows[name]:
            self.memory.namespace(name).reinforce(id)
            self.rows[name][id].accesses += 1
            self.rows[name][id].archived = False
        else:
            with pytest.raises(MemoryNotFound):
                self.memory.namespace(name).reinforce(id)

    @rule(name=names, data=st.data())
    def forget(self, name: str, data: Any) -> None:
        id = data.draw(st.sampled_from(self.ids()))
        assert self.memory.namespace(name).forget(id) == (id in self.rows[name])
        self.rows[name].pop(id, None)

    @rule(name=names)
    def forget_all(self, name: str) -> None:
        assert self.memory.namespace(name).forget_all() == len(self.rows[name])
        self.rows[name].clear()
        self.written.discard(name)

    @rule(name=names, size=st.integers(0, 3))
    def archive(self, name: str, size: int) -> None:
        moved = self.memory.namespace(name).apply_retention(Retention(size=size))
        for record in moved:
            assert not self.rows[name][record.id].archived
            self.rows[name][record.id].archived = True
        assert sum(not row.archived for row in self.rows[name].values()) <= size

    @rule(name=names)
    def export(self, name: str) -> None:
        file = self.folder / "export.jsonl"
        assert self.memory.namespace(name).export(file) == len(self.rows[name])
        for line in file.read_text().splitlines()[1:]:
            assert f'"by":"{name}"' in line

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.open(self.budget)

    @invariant()
    def each_holds_its_own(self) -> None:
        for name, rows in self.rows.items():
            view = self.memory.namespace(name)
            listed = {record.id: record for record in view.list(include_archived=True)}
            assert listed.keys() == rows.keys()
            for id, row in rows.items():
                record = listed[id]
                assert (record.text, record.tags) == (row.text, row.tags)
                assert record.metadata == {"by": row.owner} == {"by": name}
                assert len(record.occurrences) == row.occurrences
                assert record.access_count == row.accesses
                assert (record.archived is not None) == row.archived
            stats = view.stats()
            assert stats["memories"] + stats["archived"] == len(rows)
            counts = dict.fromkeys("xy", 0)
            for row in rows.values():
                for tag in row.tags if not row.archived else ():
                    counts[tag] += 1
            assert stats["tags"] == {tag: count for tag, count in counts.items() if count}
        found = {count.name: count.memories + count.archived for count in self.memory.namespaces()}
        assert found == {name: len(self.rows[name]) for name in sorted(self.written)}
        if self.budget == 0:
            assert len(self.memory._store._spaces) <= 1


TestNamespaceModel = NamespaceMachine.TestCase
TestNamespaceModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
