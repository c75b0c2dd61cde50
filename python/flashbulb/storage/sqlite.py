"""The database of a store: every SQL statement is here.

Not thread-safe; the store's lock guards it. The rows speak SQL's language (JSON text for tags and
metadata, None for what does not apply); columns of strengths travel as NumPy arrays, NaN for None.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_type_hints

import numpy as np
from numpy.typing import NDArray

from flashbulb._files import synchronise
from flashbulb.errors import CorruptStore, ReadOnlyStore, StoreLocked, StoreUnavailable
from flashbulb.storage import schema
from flashbulb.storage.backup import Progress, copy_store
from flashbulb.storage.reading import ReadTransaction
from flashbulb.storage.rows import TRACE_COLUMNS, Loaded, Row
from flashbulb.storage.scanning import Scan
from flashbulb.storage.translation import decoding, translated

__all__ = ["Database", "Durability"]

Durability = Literal["full", "normal"]

_IN_ONE_STATEMENT = 500  # ids; old builds of SQLite allow 999 parameters


_ROW_KINDS = tuple(get_type_hints(Row).values())
_ROW = ", ".join(f'"{name}"' for name in Row._fields)
_ROW_MARKS = ", ".join("?" * len(Row._fields))
_TRACE = ", ".join(TRACE_COLUMNS)
_TRACE_MARKS = ", ".join("?" * len(TRACE_COLUMNS))


class Database:
    """The open database of one store.

    Parameters
    ----------
    path : str
        A real path, or ":memory:".
    durability : {"full", "normal"}
        What a commit survives: power loss, or the end of the process.
    timeout : float
        Seconds to wait for another program that reads or writes the file.
    read_only : bool
        Show the state of this moment, and change nothing.
    """

    def __init__(
        self, path: str, durability: Durability, timeout: float, *, read_only: bool = False
    ) -> None:
        self.path = path
        self._good_kinds: dict[tuple[Any, ...], set[tuple[type, ...]]] = {}
        wait = min(timeout, 1e6)
        self._reading: ReadTransaction | None = None
        self.is_new = False
        if read_only:
            self._reading = ReadTransaction(path, wait)
            self._connection = self._reading.connection
            _open.add(self)
            return
        if path != ":memory:":
            schema.check_file(path, wait)
        with translated(path):
            self._connection = sqlite3.connect(
                path, timeout=wait, isolation_level=None, check_same_thread=False
            )
        _open.add(self)
        try:
            with translated(self.path):
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                self._connection.execute(
                    f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}"
                )
                # Forgotten bytes are overwritten at once; compact() takes care of the log.
                self._connection.execute("PRAGMA secure_delete = ON").fetchone()
                self._connection.create_function("text_key", 1, _text_key, deterministic=True)
                self.is_new = schema.prepare(self._connection, path)
            if path != ":memory:":
                _keep_names(path)
        except BaseException:
            self._connection.close()
            raise

    def _all(
        self, sql: str, parameters: Sequence[Any] = (), kinds: Sequence[Any] = ()
    ) -> list[Any]:
        """The rows of a statement; a value that is not of its column's kind is damage."""
        with translated(self.path):
            rows = self._connection.execute(sql, parameters).fetchall()
        if kinds:
            good = self._good_kinds.setdefault(tuple(kinds), set())
            for row in rows:
                if (found := tuple(map(type, row))) not in good:
                    self._check(row, kinds)
                    good.add(found)
        return rows

    def _check(self, row: Sequence[Any], kinds: Sequence[Any]) -> None:
        for value, kind in zip(row, kinds, strict=True):
            if not isinstance(value, kind):
                raise CorruptStore(
                    f"{self.path} is damaged: expected {getattr(kind, '__name__', kind)}, "
                    f"got {value!r:.80}"
                )

    def _each_of(self, sql: str, ids: Sequence[int], kinds: Sequence[Any]) -> Iterator[Any]:
        """The rows of a SELECT that ends in ``IN``, for any number of ids."""
        for start in range(0, len(ids), _IN_ONE_STATEMENT):
            some = ids[start : start + _IN_ONE_STATEMENT]
            yield from self._all(f"{sql} ({', '.join('?' * len(some))})", some, kinds)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside take effect together and durably, or not at all."""
        if self._reading is not None:
            raise ReadOnlyStore(f"the store {self.path} is open to be read only")
        self.roll_back()
        try:
            self._all("BEGIN IMMEDIATE")
            yield
            self._all("COMMIT")
        except GeneratorExit:  # dropped by an interrupt, who knows when: another may have begun
            raise
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Undo what an error or interrupt left open, if anything."""
        if self._reading is None and self._connection.in_transaction:
            self._all("ROLLBACK")

    def outdated(self, newer: Database) -> bool:
        """Whether anything was committed between this and a newer one, both open to be read only.

        This one can only be closed then.
        """
        assert self._reading is not None
        assert newer._reading is not None
        return self._reading.outdated(newer._reading)

    def close(self) -> None:
        if self._reading is not None:
            with translated(self.path):
                self._reading.close()
            return
        try:
            if self.path != ":memory:":
                # SQLite does this as well, but says nothing where it fails; what was committed in
                # mode "normal" would then be on no disk.
                self.roll_back()
                self._all("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            with translated(self.path):
                self._connection.close()

    # Meta and namespaces

    def meta(self) -> dict[str, str]:
        return dict(self._all("SELECT key, value FROM meta"))

    def set_meta(self, values: Mapping[str, str]) -> None:
        for item in values.items():
            self._all("INSERT OR REPLACE INTO meta VALUES (?, ?)", item)

    def namespaces(self) -> dict[str, int]:
        return dict(self._all("SELECT name, id FROM namespaces ORDER BY id"))

    def namespace(self, name: str) -> tuple[int, int] | None:
        """The number of a namespace and its count of refused pins."""
        rows = self._all("SELECT id, refused_pins FROM namespaces WHERE name = ?", (name,))
        return rows[0] if rows else None

    def namespace_counts(self) -> list[tuple[str, int, int]]:
        """(name, memories, archived ones) of every namespace, by name."""
        count = "(SELECT count(*) FROM memories WHERE namespace = namespaces.id AND archived IS"
        return self._all(
            f"SELECT name, {count} NULL), {count} NOT NULL) FROM namespaces ORDER BY name",
            (),
            (str, int, int),
        )

    def create_namespace(self, name: str) -> int:
        self._all("INSERT INTO namespaces (name) VALUES (?)", (name,))
        return self._count("SELECT id FROM namespaces WHERE name = ?", (name,))

    def set_refused_pins(self, namespace: int, count: int) -> None:
        self._all("UPDATE namespaces SET refused_pins = ? WHERE id = ?", (count, namespace))

    def surprise_states(self, namespace: int) -> dict[str, bytes]:
        return dict(
            self._all(
                "SELECT mode, state FROM surprise WHERE namespace = ? ORDER BY mode",
                (namespace,),
                (str, bytes),
            )
        )

    def set_surprise_state(self, namespace: int, mode: str, state: bytes) -> None:
        self._all("INSERT OR REPLACE INTO surprise VALUES (?, ?, ?)", (namespace, mode, state))

    def last_seen(self, namespace: int) -> dict[str, float]:
        return dict(
            self._all(
                "SELECT tag, time FROM last_seen WHERE namespace = ? ORDER BY tag",
                (namespace,),
                (str, float),
            )
        )

    def set_last_seen(self, namespace: int, times: Mapping[str, float]) -> None:
        with translated(self.path):
            self._connection.executemany(
                "INSERT OR REPLACE INTO last_seen VALUES (?, ?, ?)",
                ((namespace, tag, time) for tag, time in times.items()),
            )

    # Memories

    def next_id(self) -> int:
        """One above the highest id that was ever given out."""
        return 1 + self._count("SELECT max(seq) FROM sqlite_sequence WHERE name = 'memories'")

    def give_out(self, id: int) -> None:
        """Count all ids up to this one as given out."""
        self._all(
            "INSERT INTO sqlite_sequence (name, seq) SELECT 'memories', 0 WHERE NOT EXISTS "
            "(SELECT 1 FROM sqlite_sequence WHERE name = 'memories')"
        )
        self._all("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'memories'", (id,))

    def insert(self, row: Row) -> None:
        self._all(f"INSERT INTO memories ({_ROW}) VALUES ({_ROW_MARKS})", row)

    def insert_strengths(
        self, ids: NDArray[np.int64], traces: Mapping[str, NDArray[Any]], vectors: NDArray[Any]
    ) -> None:
        """The traces and vectors (n, d) of rows that were inserted."""
        stored = np.ascontiguousarray(vectors, dtype="<f4")
        with translated(self.path):
            self._connection.executemany(
                f"INSERT INTO traces (id, {_TRACE}) VALUES (?, {_TRACE_MARKS})",
                (
                    (id, *values)
                    for id, *values in zip(ids.tolist(), *_columns(traces), strict=True)
                ),
            )
            self._connection.executemany(
                "INSERT INTO vectors VALUES (?, ?)",
                ((id, row.tobytes()) for id, row in zip(ids.tolist(), stored, strict=True)),
            )

    def update_traces(self, ids: NDArray[np.int64], traces: Mapping[str, NDArray[Any]]) -> None:
        assignments = ", ".join(f"{name} = ?" for name in TRACE_COLUMNS)
        with translated(self.path):
            self._connection.executemany(
                f"UPDATE traces SET {assignments} WHERE id = ?",
                zip(*_columns(traces), ids.tolist(), strict=True),
            )

    def add_occurrence(self, memory: int, namespace: int, time: float, metadata: str) -> None:
        self._all(
            "INSERT INTO occurrences (memory, namespace, time, metadata) VALUES (?, ?, ?, ?)",
            (memory, namespace, time, metadata),
        )

    def deferred(self, namespace: int, limit: int | None) -> list[int]:
        """Ids of the memories that an LLM is still to score: those it failed at least, then the
        oldest first."""
        return [
            id
            for (id,) in self._all(
                "SELECT id FROM memories WHERE namespace = ? AND deferred AND archived IS NULL "
                "ORDER BY deferred, id LIMIT ?",
                (namespace, -1 if limit is None else limit),
                (int,),
            )
        ]

    def set_arousal(
        self, id: int, arousal: float, source: str, *, flashbulb: bool, photograph: str | None
    ) -> None:
        """What is settled now, and need no longer be asked; a photograph if there is a new one."""
        self._all(
            "UPDATE memories SET arousal = ?, arousal_source = ?, flashbulb = ?, deferred = 0, "
            "deferred_context = '', photograph = coalesce(?, photograph) WHERE id = ?",
            (arousal, source, int(flashbulb), photograph, id),
        )

    def set_deferred(self, id: int, deferred: int) -> None:
        self._all("UPDATE memories SET deferred = ? WHERE id = ?", (deferred, id))

    def set_pinned_by(self, id: int, source: str | None) -> None:
        self._all("UPDATE memories SET pinned_by = ? WHERE id = ?", (source, id))

    def replace_text(self, row: Row, vector: NDArray[Any], time: float, reason: str) -> None:
        """Give a memory the text, digest and photograph of `row`, and another unit vector.

        The text that it has becomes a version.
        """
        self._all(
            "INSERT INTO versions (memory, number, time, text, reason) SELECT id, 1 + "
            "(SELECT count(*) FROM versions WHERE memory = id), ?, text, ? FROM memories "
            "WHERE id = ?",
            (time, reason, row.id),
        )
        self._all(
            "UPDATE memories SET text = ?, digest = ?, photograph = ? WHERE id = ?",
            (row.text, row.digest, row.photograph, row.id),
        )
        stored = np.ascontiguousarray(vector, dtype="<f4").tobytes()
        self._all("UPDATE vectors SET vector = ? WHERE id = ?", (stored, row.id))

    def add_version(self, memory: int, number: int, time: float, text: str, reason: str) -> None:
        self._all(
            "INSERT INTO versions (memory, number, time, text, reason) VALUES (?, ?, ?, ?, ?)",
            (memory, number, time, text, reason),
        )

    def versions(self, ids: Sequence[int]) -> dict[int, list[tuple[float, str, str]]]:
        """The earlier texts as (time, text, reason), the oldest first: when and why it changed."""
        result: dict[int, list[tuple[float, str, str]]] = {}
        numbered = self._each_of(
            "SELECT memory, number, time, text, reason FROM versions WHERE memory IN",
            ids,
            (int, int, float, str, str),
        )
        for memory, _, time, text, reason in sorted(numbered):
            result.setdefault(memory, []).append((time, text, reason))
        return result

    def delete(self, id: int) -> None:
        """Delete a memory with everything that was derived from it."""
        self._delete("SELECT ?", id)

    def delete_namespace(self, namespace: int) -> None:
        """Delete all memories of a namespace, its statistics, and the namespace."""
        self._delete("SELECT id FROM memories WHERE namespace = ?", namespace)
        for table in ("surprise", "last_seen", "changed", "snapshots"):
            self._all(f"DELETE FROM {table} WHERE namespace = ?", (namespace,))
        self._all("DELETE FROM namespaces WHERE id = ?", (namespace,))

    def _delete(self, ids: str, parameter: int) -> None:
        """Delete the memories whose ids a SELECT with one parameter gives."""
        texts = self._all(
            f"SELECT text FROM memories WHERE id IN ({ids}) UNION "
            f"SELECT text FROM versions WHERE memory IN ({ids})",
            (parameter, parameter),
            (str,),
        )
        for (text,) in texts:
            first = _text_key(text)
            self._all("DELETE FROM llm_cache WHERE key >= ? AND key < ?", (first, first + "~"))
        for table, column in (
            ("versions", "memory"),
            ("occurrences", "memory"),
            ("vectors", "id"),
            ("traces", "id"),
            ("memories", "id"),
        ):
            self._all(f"DELETE FROM {table} WHERE {column} IN ({ids})", (parameter,))

    def same_digest(self, namespace: int, digest: bytes, completed: int) -> list[int]:
        """Memories that could be a repeat, but for those whose status is `completed`."""
        return [
            id
            for (id,) in self._all(
                "SELECT memories.id FROM memories LEFT JOIN traces USING (id) "
                "WHERE namespace = ? AND digest = ? AND status IS NOT ? ORDER BY memories.id",
                (namespace, digest, completed),
            )
        ]

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        found = self._each_of(f"SELECT {_ROW} FROM memories WHERE id IN", ids, _ROW_KINDS)
        return {row[0]: Row(*row) for row in found}

    def occurrences(self, ids: Sequence[int]) -> dict[int, list[tuple[float, str]]]:
        """The second and later occurrences, in the order they came."""
        result: dict[int, list[tuple[float, str]]] = {}
        numbered = self._each_of(
            "SELECT number, memory, time, metadata FROM occurrences WHERE memory IN",
            ids,
            (int, int, float, str),
        )
        for _, memory, time, metadata in sorted(numbered):
            result.setdefault(memory, []).append((time, metadata))
        return result

    def occurring(self, namespace: int, since: float | None, until: float | None) -> list[int]:
        """Memories with a second or later occurrence in ``since <= time < until``."""
        return [
            id
            for (id,) in self._all(
                "SELECT DISTINCT memory FROM occurrences "
                "WHERE namespace = ? AND time >= ? AND time < ?",
                (namespace, *_window(since, until)),
            )
        ]

    def metadata_with(
        self, namespace: int, parts: Sequence[str], since: float | None, until: float | None
    ) -> list[tuple[int, str]]:
        """(id, metadata) of every occurrence in the window whose JSON holds all `parts`."""
        holds = "".join(" AND instr(metadata, ?)" for _ in parts)
        window = (namespace, *_window(since, until), *parts)
        return self._all(
            "SELECT id, metadata FROM memories "
            f"WHERE namespace = ? AND created >= ? AND created < ?{holds} UNION ALL "
            "SELECT memory, metadata FROM occurrences "
            f"WHERE namespace = ? AND time >= ? AND time < ?{holds}",
            (*window, *window),
            (int, str),
        )

    def tags(self, namespace: int) -> list[tuple[str, int]]:
        """Each list of tags as JSON, with the number of memories that have just these."""
        return self._all(
            "SELECT tags, count(*) FROM memories WHERE namespace = ? AND archived IS NULL "
            "GROUP BY tags",
            (namespace,),
            (str, int),
        )

    def texts(self, namespace: int, *, archived: bool = False) -> Iterator[tuple[int, str]]:
        """(id, text) of the memories; `archived` says whether those of the archive too."""
        with translated(self.path):
            for row in self._connection.execute(
                f"SELECT id, text FROM memories WHERE namespace = ?{_tiers(archived)} ORDER BY id",
                (namespace,),
            ):
                if type(row[0]) is not int or type(row[1]) is not str:
                    self._check(row, (int, str))
                yield row

    def pinned_by(self, namespace: int, source: str) -> list[int]:
        return [
            id
            for (id,) in self._all(
                "SELECT id FROM memories WHERE namespace = ? AND pinned_by = ?",
                (namespace, source),
            )
        ]

    def least_surprising_pin(self, namespace: int, critical: float) -> tuple[int, float] | None:
        """The memory that is pinned by surprise with the least of it, and its z; what is of an
        arousal from `critical` on is passed over."""
        found = self._all(
            "SELECT id, surprise FROM memories WHERE namespace = ? AND pinned_by = 'surprise' "
            "AND arousal < ? ORDER BY surprise, id DESC LIMIT 1",
            (namespace, critical),
        )
        return found[0] if found else None

    def set_archived(self, ids: Sequence[int], time: float | None) -> None:
        """Move memories to the archive, or back: None."""
        with translated(self.path):
            self._connection.executemany(
                "UPDATE memories SET archived = ? WHERE id = ?", ((time, id) for id in ids)
            )

    def archived(self, namespace: int) -> list[int]:
        """Ids of the memories in the archive, ascending."""
        return [
            id
            for (id,) in self._all(
                "SELECT id FROM memories WHERE namespace = ? AND archived IS NOT NULL ORDER BY id",
                (namespace,),
                (int,),
            )
        ]

    def flashbulbs(self, namespace: int) -> list[int]:
        return [
            id
            for (id,) in self._all(
                "SELECT id FROM memories WHERE namespace = ? AND flashbulb", (namespace,), (int,)
            )
        ]

    def last_occurrences(self, namespace: int) -> dict[int, float]:
        """When those memories were remembered last that were more than once."""
        return dict(
            self._all(
                "SELECT memory, max(time) FROM occurrences WHERE namespace = ? GROUP BY memory",
                (namespace,),
                (int, float),
            )
        )

    def load(
        self,
        namespace: int,
        dim: int,
        *,
        archived: bool = False,
        id: int | None = None,
        changed: bool = False,
    ) -> Loaded:
        """The rows of a namespace, for the engine; or one of them, or those that changed since its
        snapshot. `archived` as for :meth:`texts`."""
        chosen, parameters = _tiers(archived), [namespace]
        if id is not None:
            chosen += " AND memories.id = ?"
            parameters.append(id)
        if changed:
            chosen += " AND memories.id IN (SELECT id FROM changed WHERE namespace = ?)"
            parameters.append(namespace)
        rows = self._all(
            f"SELECT memories.id, created, tags, vector, {_TRACE} FROM memories "
            "LEFT JOIN traces USING (id) LEFT JOIN vectors USING (id) "
            f"WHERE namespace = ?{chosen} ORDER BY memories.id",
            parameters,
        )
        columns = list(zip(*rows, strict=True)) if rows else [()] * (4 + len(TRACE_COLUMNS))
        ids, created, tags, vectors, salience, *_ = columns
        for memory, vector, value in zip(ids, vectors, salience, strict=True):
            if value is None or vector is None or len(vector) != 4 * dim:
                raise CorruptStore(f"{self.path} is damaged: memory {memory} is incomplete")
        with decoding(self.path):
            return Loaded(
                np.array(ids, np.int64),
                np.array(created, np.float64),
                list(tags),
                {  # None becomes NaN
                    name: np.array(values, kind)
                    for (name, kind), values in zip(TRACE_COLUMNS.items(), columns[4:], strict=True)
                },
                np.frombuffer(b"".join(vectors), "<f4").reshape(len(ids), dim),
            )

    # Snapshots: files beside the database with what load() would give

    def snapshots(self) -> dict[int, int]:
        """The generation of the snapshot that holds, of each namespace that has one."""
        return dict(self._all("SELECT namespace, generation FROM snapshots", (), (int, int)))

    def set_snapshot(self, namespace: int, generation: int | None) -> None:
        """The snapshot that holds from now on; None: there is none."""
        self._all("DELETE FROM changed WHERE namespace = ?", (namespace,))
        self._all("DELETE FROM snapshots WHERE namespace = ?", (namespace,))
        if generation is not None:
            self._all("INSERT INTO snapshots VALUES (?, ?)", (namespace, generation))

    def changes(self, namespace: int) -> int:
        """How many memories came, went or changed since the snapshot."""
        return self._count("SELECT count(*) FROM changed WHERE namespace = ?", (namespace,))

    def gone(self, namespace: int) -> list[int]:
        """Those of them that are forgotten or in the archive."""
        return [
            id
            for (id,) in self._all(
                "SELECT changed.id FROM changed LEFT JOIN memories ON memories.id = changed.id "
                f"{_tiers(False)} WHERE changed.namespace = ? AND memories.id IS NULL",
                (namespace,),
                (int,),
            )
        ]

    def loaded_count(self, namespace: int) -> int:
        """How many memories are to be in RAM."""
        return self._count(
            f"SELECT count(*) FROM memories WHERE namespace = ?{_tiers(False)}", (namespace,)
        )

    # What an LLM said

    def cached(self, text: str, question: str) -> tuple[str, float] | None:
        """What was answered to a question about a text, and when; `question` names what else
        the answer depends on: model, version of the prompt, context."""
        rows = self._all(
            "SELECT value, time FROM llm_cache WHERE key = ?",
            (_cache_key(text, question),),
            (str, float),
        )
        return rows[0] if rows else None

    def cache(self, text: str, question: str, value: str, time: float) -> None:
        """Keep an answer, until a memory with this text is forgotten."""
        self._all(
            "INSERT OR REPLACE INTO llm_cache VALUES (?, ?, ?)",
            (_cache_key(text, question), value, time),
        )

    def add_answer(self, key: str, value: str, time: float) -> None:
        """An answer from another store."""
        self._all("INSERT OR REPLACE INTO llm_cache VALUES (?, ?, ?)", (key, value, time))

    # The whole file

    def _count(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        rows = self._all(sql, parameters)
        return int(rows[0][0] or 0) if rows else 0

    def counts(self, namespace: int) -> dict[str, int]:
        of_namespace = (namespace,)
        return {
            "flashbulbs": self._count(
                f"SELECT count(*) FROM memories WHERE namespace = ? AND flashbulb{_tiers(False)}",
                of_namespace,
            ),
            "deferred": self._count(
                f"SELECT count(*) FROM memories WHERE namespace = ? AND deferred{_tiers(False)}",
                of_namespace,
            ),
            "repeats": self._count(
                "SELECT count(*) FROM occurrences JOIN memories ON memory = memories.id "
                f"WHERE occurrences.namespace = ?{_tiers(False)}",
                of_namespace,
            ),
            "namespaces": self._count("SELECT count(DISTINCT namespace) FROM memories"),
        }

    def size(self) -> int:
        """Bytes of the database and its log, without opening them."""
        if self.path == ":memory:":
            pages = self._count("PRAGMA page_count")
            return pages * self._count("PRAGMA page_size")
        return sum(
            os.path.getsize(self.path + end)
            for end in ("", "-wal")
            if os.path.exists(self.path + end)
        )

    def copy(self, target: str, *, overwrite: bool, progress: Progress | None) -> None:
        """A backup through this very connection, as a database in RAM needs it."""
        copy_store(self._connection, target, overwrite=overwrite, progress=progress)

    def scan(self) -> Scan:
        """Everything, for a check."""
        return Scan(self._connection)

    def compact(self) -> None:
        """Rewrite the file without what was deleted, and empty the log.

        Answers about texts that are not remembered (now, or after all) go as well.
        """
        self._all(
            "DELETE FROM llm_cache WHERE substr(key, 1, instr(key, ':') - 1) NOT IN "
            "(SELECT text_key(text) FROM memories)"
        )
        self._all("VACUUM")
        ((busy, _, _),) = self._all("PRAGMA wal_checkpoint(TRUNCATE)") or [(0, 0, 0)]
        if busy:
            raise StoreLocked(
                f"another program reads {self.path}: its log still holds what was forgotten; "
                "compact again later"
            )


def _tiers(archived: bool) -> str:
    """The condition for the memories that are in RAM, or for all of them."""
    return "" if archived else " AND archived IS NULL"


def _keep_names(path: str) -> None:
    """Bring the names of the database and its log to the disk; they stay until it is closed.

    SQLite does so too, but where that fails it goes on, and a power cut could take the log away.
    """
    folder = os.path.dirname(path)
    try:
        synchronise(folder)
    except PermissionError:  # a folder that may not be listed; to write in it is enough
        return
    except OSError as error:
        raise StoreUnavailable(f"the folder {folder} cannot be written: {error}") from error


def _text_key(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _cache_key(text: str, question: str) -> str:
    """Digests only: a cache tells nothing of what was not remembered."""
    return f"{_text_key(text)}:{_text_key(question)}"


def _window(since: float | None, until: float | None) -> tuple[float, float]:
    return (-math.inf if since is None else since, math.inf if until is None else until)


def _columns(traces: Mapping[str, NDArray[Any]]) -> Iterable[list[Any]]:
    """The trace columns as SQL values; what is not a number becomes NULL."""
    for name, kind in TRACE_COLUMNS.items():
        values = traces[name].tolist()
        yield [None if v != v else v for v in values] if kind is np.float64 else values


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _leak_in_child() -> None:
    """A forked child must never close the parent's database: keep the connection for ever."""
    for database in list(_open):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database._connection))


os.register_at_fork(after_in_child=_leak_in_child)
