"""Is a store what its oracle says?"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from crash.model import Answer, History, Kept, Model, Spaces, same
from crash.workload import BACKUP, NAMESPACES, HashEmbedder, open_memory
from flashbulb import Engine, Memory

_FORGOTTEN_ASKED = 10


class _Unasked:
    """The detector of a memory in which nothing is remembered."""

    def detect(self, text: str, context: str = "") -> NoReturn:
        raise AssertionError("nothing is remembered by who looks")


def _opened(store: Path) -> Memory:
    return open_memory(str(store), _Unasked(), durability="normal")


def found(memory: Memory) -> Spaces:
    """What a store holds, read by its public calls."""
    spaces: Spaces = {}
    for name in NAMESPACES:
        view = memory.namespace(name)
        spaces[name] = {
            record.id: Kept(
                record.text,
                record.tags,
                record.status,
                tuple(json.dumps(one.metadata) for one in record.occurrences),
                record.pinned,
                tuple(version.text for version in view.history(record.id)[:-1]),
            )
            for record in view.list(include_archived=True)
        }
    return spaces


def settle(memory: Memory, past: History) -> dict[str, Any]:
    """Which of the states that may be there is there: what is to be said to the oracle of it.

    An AssertionError if none is. `past` goes on from there.
    """
    there = found(memory)
    states: Iterable[tuple[Model, Answer | None]] = [(past.last, None)]
    if past.begun is not None:
        states = past.last.outcomes(past.begun, there)
    for state, answer in states:
        if same(state.spaces, there):
            counts = _counts(memory)
            _check_counts(counts, state, past)
            weight = f"{memory.policy.vividness_weight:g}"
            known = state.policies | ({past.begun["policy"]} if _is(past, "reopen") else set())
            assert weight in known or not state.policies, f"policy {weight}, not of {known}"
            if not past.failed:
                _check_snapshots(memory)
            state.settled(counts, weight)
            past.states[-1], past.begun = state, None
            return {"answer": answer, "counts": counts, "policy": weight}
    raise AssertionError(
        f"not what was acknowledged: {_difference(past.last.spaces, there)}; begun: {past.begun}"
    )


def _difference(expected: Spaces, there: Spaces) -> str:
    """The first memories that are not as expected."""
    ids = {(name, id) for spaces in (expected, there) for name in spaces for id in spaces[name]}
    lines = [
        f"{name[:10]} {id}: expected {wanted}, found {got}"
        for name, id in sorted(ids)
        for wanted, got in [(expected.get(name, {}).get(id), there.get(name, {}).get(id))]
        if wanted != got
    ]
    return "\n  ".join(line[:400] for line in lines[:5]) or "nothing"


def _is(past: History, kind: str) -> bool:
    return past.begun is not None and past.begun["kind"] == kind


def _check_snapshots(memory: Memory) -> None:
    """The file that the database names is whole, whatever ended its writing."""
    for name in NAMESPACES:
        state = memory.namespace(name).stats()["snapshot"]
        assert state in ("none", "used"), f"snapshot of {name[:10]}: {state}"


def _counts(memory: Memory) -> dict[int, int]:
    views = [memory.namespace(name) for name in NAMESPACES]
    return {
        record.id: record.access_count
        for view in views
        for record in view.list(include_archived=True)
    }


def _check_counts(counts: dict[int, int], state: Model, past: History) -> None:
    """No more uses than there were; no fewer than must be on disk."""
    more = int(_is(past, "recall") or _is(past, "reinforce"))
    for id, count in counts.items():
        lowest, highest = state.written.get(id, 0), state.counts[id] + more
        assert lowest <= count <= highest, (
            f"memory {id} was used {lowest} to {highest} times, but its count is {count}"
        )


def check_recall(memory: Memory, state: Model) -> None:
    """Every row is found by its own text; what was forgotten is not."""
    for name, space in state.spaces.items():
        if not name:
            continue
        view = memory.namespace(name)
        texts = [kept.text for kept in space.values()]
        for id, kept in space.items():
            hits = view.recall(
                kept.text, texts.count(kept.text), reinforce=False, include_archived=True
            )
            assert id in [hit.id for hit in hits], f"memory {id} is not found by its own text"
        for text in sorted(state.forgotten)[:_FORGOTTEN_ASKED]:
            hits = view.recall(text, 3, reinforce=False, include_archived=True)
            assert text not in [hit.text for hit in hits], f"{text!r} was forgotten, and returns"


def check_file(path: Path) -> None:
    """The closed database by itself: every part of a memory is there, and no part too many."""
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:

        def all(sql: str) -> list[tuple[object, ...]]:
            return connection.execute(sql).fetchall()

        assert all("PRAGMA integrity_check") == [("ok",)]
        assert all("PRAGMA foreign_key_check") == []
        ids = all("SELECT id FROM memories ORDER BY id")
        assert all("SELECT id FROM traces ORDER BY id") == ids
        assert all("SELECT id FROM vectors ORDER BY id") == ids
        vectors = [vector for (vector,) in connection.execute("SELECT vector FROM vectors")]
        if vectors:
            rows = np.array([np.frombuffer(vector, "<f4") for vector in vectors], np.float64)
            norms = np.linalg.norm(rows, axis=1)
            assert np.abs(norms - 1.0).max() < 1e-6  # float32 values


def check_bytes(folder: Path, state: Model) -> None:
    """What was forgotten before the store was compacted is in none of its files."""
    gone = sorted(state.apart(state.compacted))
    if not gone:
        return
    engine = Engine(HashEmbedder.dim)
    ids = engine.add(HashEmbedder().embed_documents(gone), now=0.0)
    vectors = [row.tobytes() for row in engine.vectors(ids)]
    for path in sorted(folder.glob("agent.db*")):
        # When SQLite makes an index of a log in which no frame counts, it copies memory of its
        # process that it never wrote to into it, and a child of ours has read the oracle.
        if path.name.endswith("-shm"):
            continue
        content = path.read_bytes()
        for text, vector in zip(gone, vectors, strict=True):
            assert text.encode() not in content, f"{path.name} still holds {text[:40]!r}"
            assert vector not in content, f"{path.name} still holds the vector of {text[:40]!r}"


def check_copies(folder: Path, past: History) -> None:
    """Exported files and the backup are there, and whole."""
    for name, rows in past.last.exported.items():
        if past.begun is None or past.begun.get("file") != name:
            lines = (folder / name).read_bytes().splitlines()
            assert len(lines) == rows + 1, f"{name} has {len(lines)} lines for {rows} memories"
    if past.last.backup is not None and not _is(past, "backup"):
        with _opened(folder / BACKUP) as memory:
            there = found(memory)
        assert same(past.last.backup, there), f"backup: {_difference(past.last.backup, there)}"


def check(store: Path, past: History) -> dict[str, Any]:
    """All of it; returns what is to be said to the oracle."""
    if not _is(past, "compact"):
        check_bytes(store.parent, past.last)
    check_copies(store.parent, past)
    with _opened(store) as memory:
        said = settle(memory, past)
        check_recall(memory, past.last)
        assert memory.check() == []
    check_file(store)
    return said


def check_after_power_cut(store: Path, past: History) -> None:
    """The same, on a disk that may show old bytes until the store has been open once more."""
    check_copies(store.parent, past)
    past.begun = past.begun or past.failed
    with _opened(store) as memory:
        settle(memory, past)
        check_recall(memory, past.last)
    check_file(store)
    check_bytes(store.parent, past.last)


def check_is_one_of(store: Path, past: History) -> int:
    """The store is in a state that it had, whole; returns how many acknowledgements are lost."""
    with _opened(store) as memory:
        there = found(memory)
        states = past.states[past.sure :]
        number = len(states) - 1
        if past.begun is not None:
            states = [*states, *(state for state, _ in past.last.outcomes(past.begun, there))]
        alike = [i for i, state in enumerate(states) if same(state.spaces, there)]
        if not alike:
            last = _difference(past.last.spaces, there)
            raise AssertionError(f"a state that never was; the last was another: {last}")
        check_recall(memory, states[alike[-1]])
    check_file(store)
    return max(0, number - alike[-1])
