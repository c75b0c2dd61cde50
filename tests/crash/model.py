"""What a store must hold: the operations that were acknowledged, done once more on dictionaries.

It knows what the documentation says of each call and nothing of how it is done. An operation is a
dict that JSON can hold: its "kind", the "namespace", its arguments. What a call returned is its
answer: the ids, the access counts afterwards.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Operation = dict[str, Any]
Answer = dict[str, Any]

RECALLS_THAT_MAY_BE_LOST = 63  # the 64th writes them all, and so does closing


SYNCED_BY = ("compact", "reopen")  # in mode "normal" too
WRITE_THE_LOG = ("remember", "remember_many", "forget", "pin", "unpin", "reconsolidate", "compact")


@dataclass(frozen=True)
class Kept:
    """What must be there of a memory."""

    text: str
    tags: tuple[str, ...]
    status: str
    occurrences: tuple[str, ...]  # their metadata, as JSON
    pinned: bool | None  # None: surprise may have pinned it, nobody was told
    earlier: tuple[str, ...] = ()  # its texts before


Spaces = dict[str, dict[int, Kept]]


def same(expected: Spaces, found: Spaces) -> bool:
    """Empty namespaces do not count; None for `pinned` goes with both."""
    for name in expected.keys() | found.keys():
        wanted, there = expected.get(name, {}), found.get(name, {})
        if wanted.keys() != there.keys():
            return False
        for id, kept in wanted.items():
            other = there[id]
            if kept.pinned is None:
                other = replace(other, pinned=None)
            if kept != other:
                return False
    return True


@dataclass
class Model:
    """The state after some operations."""

    spaces: Spaces = field(default_factory=dict)
    policies: set[str] = field(default_factory=set)
    """One of these is the store's policy (its vividness weight names it)."""
    highest: int = 0
    """No id up to this one is given out again."""
    forgotten: set[str] = field(default_factory=set)
    """Texts that no memory has any more."""
    compacted: set[str] = field(default_factory=set)
    """Those of them whose bytes may be in no file."""
    counts: dict[int, int] = field(default_factory=dict)
    """How often each memory was used, all told."""
    written: dict[int, int] = field(default_factory=dict)
    """The same, of the uses that must be on disk."""
    unwritten: deque[dict[int, int]] = field(default_factory=deque)
    exported: dict[str, int] = field(default_factory=dict)
    """Rows of each exported file."""
    backup: Spaces | None = None
    """What the backup must hold."""

    def copy(self) -> Model:
        spaces = {name: dict(space) for name, space in self.spaces.items()}
        return replace(
            self,
            spaces=spaces,
            policies=set(self.policies),
            forgotten=set(self.forgotten),
            compacted=set(self.compacted),
            counts=dict(self.counts),
            written=dict(self.written),
            unwritten=deque(self.unwritten),
            exported=dict(self.exported),
        )

    def apply(self, operation: Operation, answer: Answer) -> None:
        """Do an operation that was acknowledged with this answer."""
        kind = operation["kind"]
        space = self.spaces.setdefault(operation.get("namespace", ""), {})
        if kind in ("recall", "reinforce"):
            self._use({int(id): count for id, count in answer["counts"].items()})
            return
        if kind in ("remember", "remember_many"):
            self._remember(space, operation, answer)
        elif kind == "forget":
            self._forget(space, operation["id"])
        elif kind == "forget_all":
            for id in list(space):
                self._forget(space, id)
        elif kind in ("complete", "pin", "unpin", "reconsolidate"):
            id = operation["id"]
            before = space[id]
            space[id] = _changed(before, operation, answer.get("text"))
            self._is_there(space[id].text)
        elif kind == "compact":
            self.compacted = self.apart(self.forgotten)
        elif kind == "reopen":
            self.policies = {operation["policy"]}
            self._write()
        elif kind == "export":
            self.exported[operation["file"]] = len(space)
        elif kind == "backup":
            self.backup = {name: dict(space) for name, space in self.spaces.items()}
        elif kind not in ("rescore", "snapshot", "retention"):  # nothing that a row tells
            raise ValueError(kind)

    def _remember(self, space: dict[int, Kept], operation: Operation, answer: Answer) -> None:
        for item, id, pinned in zip(
            operation["items"], answer["ids"], answer["pinned"], strict=True
        ):
            expected = _repeated(space, item) if operation["on_duplicate"] == "occurrence" else None
            self._is_there(item["text"])
            if expected is None:
                if id <= self.highest:
                    raise AssertionError(f"id {id} was given out a second time, or merged wrongly")
                space[id] = _new(item, pinned)
                self.highest = id
                self.counts[id] = 0
            else:
                if id != expected:
                    raise AssertionError(f"{item} became {id} and not an occurrence of {expected}")
                space[id] = _again(space[id], item)

    def _forget(self, space: dict[int, Kept], id: int) -> None:
        gone = space.pop(id)
        self.counts.pop(id)
        self.written.pop(id, None)
        here = {text for kept in self.all() for text in (kept.text, *kept.earlier)}
        self.forgotten |= {gone.text, *gone.earlier} - here

    def _is_there(self, text: str) -> None:
        self.forgotten.discard(text)
        self.compacted.discard(text)

    def _use(self, counts: dict[int, int]) -> None:
        self.counts.update(counts)
        self.unwritten.append(counts)
        if len(self.unwritten) > RECALLS_THAT_MAY_BE_LOST:
            self.written.update(
                {id: n for id, n in self.unwritten.popleft().items() if id in self.counts}
            )

    def _write(self) -> None:
        self.written = dict(self.counts)
        self.unwritten.clear()

    def apart(self, texts: set[str]) -> set[str]:
        """Those that are no part of any text that is there."""
        there = "\n\n".join(text for kept in self.all() for text in (kept.text, *kept.earlier))
        return {text for text in texts if text not in there}

    def all(self) -> Iterator[Kept]:
        for space in self.spaces.values():
            yield from space.values()

    def outcomes(
        self, operation: Operation, there: Spaces
    ) -> Iterator[tuple[Model, Answer | None]]:
        """What may be there when nobody knows whether an operation was done, and its answer.

        None: it was not done. `there` says which ids are new, if any.
        """
        yield self, None
        kind = operation["kind"]
        answers: list[Answer] = [{}]
        if kind in ("remember", "remember_many"):
            name = operation["namespace"]
            new = sorted(id for id in there.get(name, {}) if id > self.highest)
            ids = _ids(self.spaces.get(name, {}), operation, new)
            if ids is None:
                return
            answers = [{"ids": ids, "pinned": [None] * len(ids)}]
        elif kind == "reconsolidate":
            before = self.spaces[operation["namespace"]][operation["id"]].text
            answers = [{"text": text} for text in _texts(before, operation["context"])]
        elif kind not in ("forget", "forget_all", "complete", "pin", "unpin"):
            return  # nothing that a memory's row tells
        for answer in answers:
            after = self.copy()
            after.apply(operation, answer)
            yield after, answer

    def copied_perhaps(self, operation: Operation | None) -> None:
        """Of a file that may be the old one or the new one, no more is known."""
        if operation is not None and operation["kind"] == "export":
            self.exported.pop(operation["file"], None)
        elif operation is not None and operation["kind"] == "backup":
            self.backup = None

    def settled(self, counts: dict[int, int], policy: str) -> None:
        """A killed store was opened again: what may have been lost of these is known now."""
        self.counts = dict(counts)
        self.policies = {policy}
        self._write()


def _new(item: dict[str, Any], pinned: bool | None) -> Kept:
    return Kept(
        item["text"],
        tuple(item["tags"]),
        "none" if item["urgency"] is None else "open",
        (json.dumps(item["metadata"]),),
        pinned,
    )


def _again(kept: Kept, item: dict[str, Any]) -> Kept:
    return replace(kept, occurrences=(*kept.occurrences, json.dumps(item["metadata"])))


def _repeated(space: dict[int, Kept], item: dict[str, Any]) -> int | None:
    """The memory that an item is one more occurrence of. (Urgencies of a run differ by text.)"""
    status = "none" if item["urgency"] is None else "open"
    alike = (
        id
        for id, kept in space.items()
        if (kept.text, kept.tags, kept.status) == (item["text"], tuple(item["tags"]), status)
    )
    return min(alike, default=None)


def _ids(space: dict[int, Kept], operation: Operation, new: list[int]) -> list[int] | None:
    """The ids that the items must have got; None if there are not so many new ones."""
    trial, left, ids = dict(space), list(new), []
    for item in operation["items"]:
        id = _repeated(trial, item) if operation["on_duplicate"] == "occurrence" else None
        if id is None:
            if not left:
                return None
            id = left.pop(0)
            trial[id] = _new(item, None)
        ids.append(id)
    return None if left else ids


def _texts(text: str, context: str) -> tuple[str, str]:
    """Of a vivid memory, and of any other."""
    return f"{text} [{context}]", f"{text}\n{context}"


def _changed(kept: Kept, operation: Operation, text: str | None) -> Kept:
    kind = operation["kind"]
    if kind == "reconsolidate":
        if text not in _texts(kept.text, operation["context"]):
            raise AssertionError(f"{kept.text!r} in {operation['context']!r} became {text!r}")
        return replace(kept, text=text, earlier=(*kept.earlier, kept.text))
    if kind == "complete":
        if kept.status == "completed":
            return kept
        return replace(kept, status="completed", pinned=False)
    return replace(kept, pinned=kind == "pin")


@dataclass
class History:
    """What an oracle says: the state after each acknowledgement, and what was begun last."""

    states: list[Model] = field(default_factory=lambda: [Model()])
    begun: Operation | None = None
    failed: Operation | None = None
    """What failed, if nothing was written in the place of what it may have left in the log: the
    next process may find it there, and take it for done."""
    every: bool = False
    """Keep each state, not only the last."""
    sure: int = 0
    """The state that even mode "normal" has on disk."""

    @property
    def last(self) -> Model:
        return self.states[-1]

    def read(self, lines: Iterable[str]) -> History:
        """Go on with the lines of an oracle."""
        for line in lines:
            said = json.loads(line)
            if "begun" in said:
                self.begun = said["begun"]
                continue
            state = self.last.copy() if self.every else self.last
            answer = said["answer"]
            if answer is None:  # what failed did nothing to the store
                self.failed = self.begun
                state.copied_perhaps(self.begun)
            else:
                if self.begun is None:
                    raise AssertionError("an answer to nothing")
                state.apply(self.begun, answer)
                if self.begun["kind"] in SYNCED_BY:
                    self.sure = len(self.states)
                if self.begun["kind"] in WRITE_THE_LOG:
                    self.failed = None
            if "counts" in said:
                state.settled({int(id): n for id, n in said["counts"].items()}, said["policy"])
            if self.every:
                self.states.append(state)
            self.begun = None
        return self

    def copy(self) -> History:
        """To be read, or settled, apart from this one."""
        return History([*self.states[:-1], self.last.copy()], self.begun, self.failed)


def history(oracle: Path) -> History:
    return History().read(oracle.read_text().splitlines())
