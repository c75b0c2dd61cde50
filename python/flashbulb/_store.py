"""One open store: its database, and of each namespace in use what is derived from it in RAM.

SQLite holds the record. The engine, the words and the surprise statistics of a namespace are read
from it when the namespace is first used, and read again if a write failed half-way.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import HIGHEST_ID
from flashbulb._snapshots import Snapshots
from flashbulb._spaces import Space, Spaces
from flashbulb.embedding import Embedder
from flashbulb.engine import Engine
from flashbulb.errors import (
    CorruptStore,
    EmbedderMismatch,
    FlashbulbError,
    ReadOnlyStore,
    StoreClosed,
    StoreForked,
)
from flashbulb.lexical import LexicalIndex
from flashbulb.policy import Policy
from flashbulb.records import NamespaceCount
from flashbulb.storage.lock import WriterLock
from flashbulb.storage.schema import check_path
from flashbulb.storage.sqlite import Database, Durability
from flashbulb.storage.translation import decoding
from flashbulb.surprise import SurpriseDetector, SurpriseMode

__all__ = ["Space", "Store", "policy_from_json", "policy_to_json"]

# Reinforcement and suppression by recalls are written together: by the next call after so many
# recalls, or after so long, and at close.
FLUSH_RECALLS = 64
FLUSH_SECONDS = 1.0

log = logging.getLogger("flashbulb")


class Store:
    """The database, its lock, its namespaces, and the one lock of the threads.

    `policy` None is the policy that the store keeps, and the default for a new store. Another one
    re-anchors every row at `now` under the old laws, before the new ones hold.
    """

    def __init__(
        self,
        path: str,
        *,
        embedder: Embedder,
        policy: Policy | None,
        surprise: SurpriseMode | None,
        durability: Durability,
        timeout: float,
        approximate: bool,
        memory_budget: int | None,
        now: float,
        read_only: bool = False,
    ) -> None:
        self.path = path if path == ":memory:" else os.path.realpath(path)
        self.read_only = read_only
        if read_only and path == ":memory:":
            raise ValueError("a store in ':memory:' is new and empty: there is nothing to read")
        self.embedder = embedder
        self.surprise = surprise
        self._approximate = approximate
        self._timeout = timeout
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._interrupted = False
        self._spaces = Spaces(memory_budget)
        self.snapshots = Snapshots(self.path)
        self._recalls = 0
        self._flushed = time.monotonic()
        with contextlib.ExitStack() as cleanup:
            writer = None
            if self.path != ":memory:" and not read_only:
                check_path(self.path)
                writer = WriterLock(self.path, timeout)
                cleanup.callback(writer.release)
            self.database = Database(self.path, durability, timeout, read_only=read_only)
            cleanup.callback(lambda: self.database.close())  # another one after a refresh
            if writer is not None:
                writer.created()
            self.policy = self._settle(policy, now)
            self.next_id = self.database.next_id()
            if writer is not None:
                self.snapshots.remove_others(self.database)
            self._cleanup = cleanup.pop_all()
        _open.add(self)

    def _settle(self, policy: Policy | None, now: float) -> Policy:
        """Compare what the store keeps with what it was opened with; return the policy."""
        old = self._kept(self.database)
        if old is None:
            settled = policy or Policy()
            with self.database.transaction():
                embedder = json.dumps(self.described_embedder())
                self.database.set_meta({"embedder": embedder, "policy": policy_to_json(settled)})
            return settled
        if policy is None or policy == old:
            return old
        if self.read_only:
            raise ReadOnlyStore(
                f"{self.path} keeps another policy; opened to be read only, it cannot get this one"
            )
        with self.database.transaction():
            for number in self.database.snapshots():
                self.database.set_snapshot(number, None)
            for number in self.database.namespaces().values():
                engine = self._load_engine(number, old, archived=True)
                engine.set_policy(policy, now=now)
                self.database.update_traces(engine.ids, engine.traces())
            self.database.set_meta({"policy": policy_to_json(policy)})
        return policy

    def _kept(self, database: Database) -> Policy | None:
        """The policy in a store that was written with this embedder; None: the store is new."""
        meta = database.meta()
        if not meta:
            return None
        try:
            check_embedder(json.loads(meta["embedder"]), self.described_embedder(), self.path)
            return policy_from_json(meta["policy"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, EmbedderMismatch):
                raise
            raise CorruptStore(f"{self.path} has damaged settings: {error}") from error

    def refresh(self) -> bool:
        """Go to the newest state that was committed; say whether it is another one.

        If that cannot be read, all stays as it is. A store that is open for writing is there.
        """
        if not self.read_only:
            return False
        with contextlib.ExitStack() as cleanup:
            newer = Database(self.path, "full", self._timeout, read_only=True)
            cleanup.callback(newer.close)
            policy, next_id = self._kept(newer), newer.next_id()
            changed = self.database.outdated(newer)
            cleanup.pop_all()
        older, self.database = self.database, newer
        older.close()
        if changed:
            self._spaces.clear()
            self.policy, self.next_id = policy or Policy(), next_id
        return changed

    def described_embedder(self) -> dict[str, Any]:
        """What tells one embedder from another."""
        embedder = self.embedder
        return {
            "name": embedder.name,
            "dim": embedder.dim,
            "fingerprint": embedder.fingerprint,
        }

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store's lock, if the store is open and this is the process that opened it.

        What is no ``Exception``, Ctrl-C above all, comes at an unknown place: only the record is
        sure then, and the next to come reads everything from it.
        """
        if os.getpid() != self._pid:  # first of all: a lock copied by fork may never be free
            raise StoreForked(
                f"the store {self.path} was opened in process {self._pid}, before a fork; open it "
                "in a new program, such as a worker that multiprocessing starts by 'spawn'"
            )
        with self._lock:
            if self._closed:
                raise StoreClosed(f"the store {self.path} is closed")
            if self._interrupted:
                self._recover()
            try:
                yield
            except Exception:
                raise
            except BaseException:
                self._interrupted = True
                raise

    def _recover(self) -> None:
        """Let go of everything in RAM; what recalls have changed is saved, if it can be."""
        self.database.roll_back()
        with contextlib.suppress(Exception):
            self.flush()
        self._spaces.clear()
        self.next_id = max(self.next_id, self.database.next_id())
        self._interrupted = False

    def close(self) -> None:
        """Write what recalls have changed and let the file go. In a forked child: nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            try:
                self.flush()
                self._save_snapshots()
            finally:
                self._closed = True
                self._spaces.clear()
                self._cleanup.close()

    def _save_snapshots(self) -> None:
        """Write those that will make the next opening much faster."""
        if self.read_only or self._interrupted:
            return
        for space in self._spaces:
            number = space.number
            if number is not None and self.snapshots.is_due(self.database, number, space.engine):
                self.snapshots.try_to_save(self.database, number, space.engine)

    def save_snapshot(self, space: Space) -> None:
        """Write the snapshot of a namespace now."""
        self.flush()
        if space.number is not None:
            self.snapshots.save(self.database, space.number, space.engine)

    # Namespaces

    def space(self, name: str) -> Space:
        """A namespace, read from the database if it is not in RAM. Valid under the lock only."""
        space = self._spaces.get(name)
        if space is None:
            space = self.load(name)
            self._spaces.put(space)
        return space

    def used(self, space: Space) -> None:
        """Drop from RAM what the budget has no room for, now that this namespace was used."""
        leaving = self._spaces.used(space)
        if not leaving:
            return
        try:
            self.flush()
        except Exception as error:  # who used it has an answer; the next write will report
            log.warning("reinforcement could not be written to %s yet: %s", self.path, error)
        for other in leaving:
            if not other.dirty:
                self._spaces.drop(other)

    def load(self, name: str) -> Space:
        found = self.database.namespace(name)
        number, refused = found or (None, 0)
        if number is None:
            engine = Engine(self.embedder.dim, policy=self.policy, approximate=self._approximate)
            detector = self._detector(engine, {}, {})
            pins: list[int] = []
            archived: list[int] = []
        else:
            engine = self._load_engine(number, self.policy)
            detector = self._detector(
                engine, self.database.surprise_states(number), self.database.last_seen(number)
            )
            pins = self.database.pinned_by(number, "surprise")
            archived = self.database.archived(number)
        return Space(name, number, engine, detector, set(pins), refused, set(archived))

    def with_archive(self, space: Space, id: int | None = None) -> Space:
        """A namespace with its archive, or only this memory of it, for one call that reads.

        Without an archive: itself.
        """
        if not space.archived or space.number is None:
            return space
        self.flush()
        engine = self._load_engine(space.number, self.policy, archived=True, id=id)
        whole = Space(
            space.name, space.number, engine, None, set(), space.refused_pins, space.archived
        )
        whole.has_archive = True
        return whole

    def archive(self, space: Space, ids: Sequence[int], now: float) -> None:
        """Move memories out of RAM, to where only the disk has them."""
        texts = {id: row.text for id, row in self.database.rows(ids).items()}
        with self.changing(space) as database:
            database.set_archived(ids, now)
            space.engine.remove(np.array(ids, np.int64))
            if space.lexical is not None:
                for id, text in texts.items():
                    space.lexical.remove(id, text)
        space.archived.update(ids)

    def restore(self, space: Space, ids: Collection[int]) -> Space:
        """Move those of the memories back that are in the archive; return the namespace anew."""
        moved = sorted(space.archived.intersection(ids))
        if not moved or space.number is None:
            return space
        self.flush()
        with self.database.transaction():
            self.database.set_archived(moved, None)
            # An engine takes in ids above all others only, so that one of a snapshot cannot.
            self.database.set_snapshot(space.number, None)
        self._spaces.drop(space)
        self.snapshots.remove_others(self.database)
        return self.space(space.name)

    def replace(self, space: Space) -> None:
        """Put a freshly loaded namespace in the place of what was in RAM."""
        self._spaces.put(space)

    def discard(self, space: Space) -> None:
        """Drop what is in RAM; it is read again from the record."""
        with contextlib.suppress(Exception):
            self.flush()
        self._spaces.drop(space)

    def namespaces(self) -> list[NamespaceCount]:
        """Every namespace by name; none is loaded for this."""
        loaded = {space.name: space.memory_bytes() for space in self._spaces}
        return [
            NamespaceCount(name, memories, archived, loaded.get(name, 0))
            for name, memories, archived in self.database.namespace_counts()
        ]

    def forget_all(self, space: Space) -> int:
        """Delete a namespace with its statistics; return how many memories it had."""
        count = len(space.engine) + len(space.archived)
        if space.number is not None:
            self.flush()
            with self.database.transaction():
                self.database.delete_namespace(space.number)
            self._spaces.drop(space)
            self.snapshots.remove_others(self.database)
        return count

    def lexical(self, space: Space) -> LexicalIndex:
        if space.lexical is None:
            index = LexicalIndex()
            if space.number is not None:
                index.add(self.database.texts(space.number, archived=space.has_archive))
            space.lexical = index
        return space.lexical

    def _load_engine(
        self, number: int, policy: Policy, *, archived: bool = False, id: int | None = None
    ) -> Engine:
        """The engine of a namespace, perhaps with its archive, or with one memory of both."""
        if not archived and id is None:
            engine = self.snapshots.load(
                self.database,
                number,
                self.embedder.dim,
                policy,
                approximate=self._approximate,
                # A reader may come too late for a file that the writer has replaced meanwhile.
                level=logging.INFO if self.read_only else logging.WARNING,
            )
            if engine is not None:
                return engine
        loaded = self.database.load(number, self.embedder.dim, archived=archived, id=id)
        with decoding(self.path):
            sets = {text: tuple(json.loads(text)) for text in set(loaded.tags)}
            return Engine.from_state(
                {
                    "dim": self.embedder.dim,
                    "policy": policy.to_dict(),
                    "next_id": int(loaded.ids[-1]) + 1 if len(loaded.ids) else 1,
                    "ids": loaded.ids,
                    "created": loaded.created,
                    "tags": [sets[text] for text in loaded.tags],
                    "vectors": loaded.vectors,
                    **loaded.traces,
                },
                approximate=self._approximate,
            )

    def _detector(
        self, engine: Engine, states: dict[str, bytes], last_seen: dict[str, float]
    ) -> SurpriseDetector | None:
        if self.surprise is None:
            return None
        state = states.get(self.surprise)
        if state is None:
            detector = SurpriseDetector(self.surprise, policy=self.policy, engine=engine)
            detector.last_seen = last_seen
            return detector
        with decoding(self.path):
            return SurpriseDetector.from_state(
                state, last_seen=last_seen, policy=self.policy, engine=engine
            )

    # Writing

    def check_room(self, count: int) -> None:
        """Refuse to go on where so many new ids are not left; only odd imports lead there."""
        if self.next_id + count - 1 > HIGHEST_ID:
            raise FlashbulbError(
                f"the store {self.path} has given out its ids up to {self.next_id - 1}, the last "
                f"id is {HIGHEST_ID}; export it, and import into a new store with new_ids=True"
            )

    @contextlib.contextmanager
    def write(self, *, when_due: bool = False) -> Iterator[Database]:
        """A transaction that also writes what recalls have changed, always or when it is time."""
        changed = []
        if not when_due or self._due():
            changed = [space for space in self._spaces if space.dirty]
        with self.database.transaction():
            for space in changed:
                ids = np.fromiter(sorted(space.dirty), np.int64, len(space.dirty))
                self.database.update_traces(ids, space.engine.traces(ids))
            yield self.database
        for space in changed:
            space.dirty.clear()
        if changed:
            self._recalls = 0
            self._flushed = time.monotonic()

    def _due(self) -> bool:
        late = time.monotonic() - self._flushed >= FLUSH_SECONDS
        return late or self._recalls >= FLUSH_RECALLS

    @contextlib.contextmanager
    def changing(self, space: Space) -> Iterator[Database]:
        """A transaction inside which RAM is changed too: if it fails, RAM is read anew."""
        self.flush()  # so that nothing but this change can be lost
        try:
            with self.write() as database:
                yield database
        except BaseException:
            self.discard(space)
            raise

    def flush(self) -> None:
        """Write what recalls have changed."""
        if any(space.dirty for space in self._spaces):
            with self.write():
                pass

    def compact(self) -> None:
        """Rewrite the file without what was forgotten, and give its room in RAM back."""
        self.flush()
        engines = {each.number: each.engine for each in self._spaces if each.number is not None}
        self.snapshots.forget_changed(self.database, engines)
        self.database.compact()
        for space in self._spaces:
            space.engine.compact()
            space.lexical = None  # its slots of forgotten memories go; built again when needed

    def changed(self, space: Space, ids: NDArray[np.int64]) -> None:
        """Note that the strength of `ids` moved, and write all such changes when it is time."""
        space.dirty.update(ids.tolist())
        self._recalls += 1
        if self._due():
            try:
                self.flush()
            except Exception as error:  # a recall has its answer; the next write will report
                log.warning("reinforcement could not be written to %s yet: %s", self.path, error)


_open: weakref.WeakSet[Store] = weakref.WeakSet()
_forking = threading.local()  # .held: the stores whose lock the thread that forks has got
_FORK_SECONDS = 1.0


def _before_fork() -> None:
    """Wait a moment for calls of other threads to end.

    SQLite has locks of its own, for all its databases. A child that is forked while another thread
    holds one of them would hang as soon as it opens a store of its own.
    """
    deadline = time.monotonic() + _FORK_SECONDS
    _forking.held = [
        store
        for store in list(_open)
        if store._lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
    ]


def _after_fork() -> None:
    for store in _forking.held:
        store._lock.release()
    _forking.held = []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def check_embedder(stored: object, given: dict[str, Any], where: str) -> None:
    """Refuse vectors of another embedder, whatever its name is now; the message names both."""
    if not isinstance(stored, dict) or stored.keys() != given.keys():
        raise ValueError(f"{where} does not say what its embedder is")
    if (stored["dim"], stored["fingerprint"]) != (given["dim"], given["fingerprint"]):
        raise EmbedderMismatch(
            f"{where} was written with the embedder {_embedder_name(stored)}, "
            f"but is used with {_embedder_name(given)}"
        )


def _embedder_name(embedder: dict[str, Any]) -> str:
    fingerprint = str(embedder["fingerprint"])[:12]
    return f"{embedder['name']!r} ({embedder['dim']} dimensions, fingerprint {fingerprint})"


def policy_to_json(policy: Policy) -> str:
    """All fields; an infinity is the string "inf", so that it is JSON."""
    values = policy.to_dict()
    return json.dumps({name: "inf" if v == math.inf else v for name, v in values.items()})


def policy_from_json(text: str) -> Policy:
    """The policy, from a store of this or an older version; missing fields are the default."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise TypeError(f"a policy must be an object, got {type(values).__name__}")
    unknown = values.keys() - {field.name for field in fields(Policy)}
    if unknown:
        raise ValueError(f"unknown fields of the policy: {', '.join(sorted(unknown))}")
    plain: dict[str, Any] = {n: math.inf if v == "inf" else v for n, v in values.items()}
    return Policy(**plain)
