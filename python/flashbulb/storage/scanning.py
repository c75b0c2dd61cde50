"""All of a store, row by row, as far as it can be read: for checks, and to save what is left.

Each reader raises a ValueError that says what is wrong with its row; the others can still be read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, get_type_hints

from flashbulb.storage import schema
from flashbulb.storage.rows import TRACE_COLUMNS, Row

__all__ = ["Finding", "Scan"]

_ROW = ", ".join(f'"{name}"' for name in Row._fields)
_ROW_KINDS = tuple(get_type_hints(Row).values())
_TRACE = ", ".join(TRACE_COLUMNS)
_MOST_LINES = 100  # of SQLite's own check


class Finding(NamedTuple):
    """Something in a store that is not as it must be."""

    file: str
    place: str
    """What of the file: "memory 12", "settings", "database" and the like."""
    problem: str


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"it cannot be read: {error}") from error


class Scan:
    """The rows of the store that `connection` reads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _all(self, sql: str, parameters: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
        with _readable():
            rows = self._connection.execute(sql, parameters).fetchall()
        for row in rows:
            for value, kind in zip(row, kinds, strict=True):
                if not isinstance(value, kind):
                    expected = getattr(kind, "__name__", kind)
                    raise ValueError(f"expected {expected}, got {value!r:.80}")
        return rows

    def structure(self) -> Iterator[tuple[str, str]]:
        """Place and problem of whatever SQLite itself finds wrong, or what no memory has."""
        try:
            for (line,) in self._connection.execute(f"PRAGMA integrity_check({_MOST_LINES})"):
                if line != "ok":
                    yield "database", str(line)
            for table, row, parent, _ in self._connection.execute("PRAGMA foreign_key_check"):
                yield f"{table}, row {row}", f"it belongs to no row of {parent}"
            for (id,) in self._connection.execute(
                "SELECT DISTINCT memory FROM versions WHERE memory NOT IN (SELECT id FROM memories)"
            ):
                yield f"versions of memory {id}", "there is no such memory"
            for (id,) in self._connection.execute(
                "SELECT DISTINCT memory FROM occurrences JOIN memories ON memory = memories.id "
                "WHERE occurrences.namespace IS NOT memories.namespace"
            ):
                yield f"occurrences of memory {id}", "they are of another namespace"
            yield from self._tables()
            highest, given = self._connection.execute(
                "SELECT (SELECT max(id) FROM memories), "
                "(SELECT max(seq) FROM sqlite_sequence WHERE name = 'memories')"
            ).fetchone()
            if (highest or 0) > (given or 0):
                yield "ids", f"memory {highest} is there, but ids up to {given} were given out"
        except sqlite3.DatabaseError as error:
            yield "database", f"it cannot be read: {error}"

    def _tables(self) -> Iterator[tuple[str, str]]:
        """Tables and indexes that are not those of a new store."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            schema.prepare(connection, ":memory:")
            expected = _definitions(connection)
        found = _definitions(self._connection)
        for name in sorted(expected.keys() - found.keys()):
            yield name, "it is missing"
        for name in sorted(found.keys() - expected.keys()):
            yield name, "it is none of a store's tables and indexes"
        for name in sorted(expected.keys() & found.keys()):
            if expected[name] != found[name]:
                yield name, f"it is not defined as in a new store: {found[name]:.200}"

    def meta(self) -> dict[str, str]:
        return dict(self._all("SELECT key, value FROM meta", (), (str, str)))

    def namespaces(self) -> list[tuple[int, str, int]]:
        """Number, name, and count of refused pins."""
        kinds = (int, str, int)
        sql = "SELECT id, name, refused_pins FROM namespaces NOT INDEXED ORDER BY id"
        return self._all(sql, (), kinds)

    def ids(self) -> Iterator[int]:
        """Of all memories. From where the table cannot be read on, each number is tried."""
        last = 0
        try:
            for (id,) in self._connection.execute(
                "SELECT id FROM memories NOT INDEXED ORDER BY id"
            ):
                yield id
                last = id
        except sqlite3.DatabaseError:
            yield from filter(self._may_be_there, range(last + 1, self.highest() + 1))

    def _may_be_there(self, id: int) -> bool:
        sql = "SELECT 1 FROM memories NOT INDEXED WHERE id = ?"
        try:
            return self._connection.execute(sql, (id,)).fetchone() is not None
        except sqlite3.DatabaseError:
            return True  # who asks for more of it is told

    def highest(self) -> int:
        """A number that no id is above that was given out, from whatever can be read."""
        highest = 0
        for sql in (
            "SELECT max(seq) FROM sqlite_sequence WHERE name = 'memories'",
            "SELECT max(id) FROM memories NOT INDEXED",
            "SELECT max(id) FROM vectors",
            "SELECT max(id) FROM traces",
        ):
            try:
                (found,) = self._connection.execute(sql).fetchone()
            except (sqlite3.DatabaseError, TypeError):
                continue
            highest = max(highest, found if isinstance(found, int) else 0)
        return highest

    def row(self, id: int) -> Row:
        sql = f"SELECT {_ROW} FROM memories NOT INDEXED WHERE id = ?"
        return Row(*self._one(sql, id, _ROW_KINDS))

    def text(self, id: int) -> tuple[int, str, float]:
        """Namespace, text and time of a memory."""
        sql = "SELECT namespace, text, created FROM memories NOT INDEXED WHERE id = ?"
        namespace, text, created = self._one(sql, id, (int, str, float))
        return namespace, text, created

    def trace(self, id: int) -> dict[str, Any]:
        """The strength, None for NaN."""
        values = self._one(f"SELECT {_TRACE} FROM traces WHERE id = ?", id, [object] * 10)
        trace = dict(zip(TRACE_COLUMNS, values, strict=True))
        if trace["pinned"] not in (0, 1):
            raise ValueError(f"pinned must be 0 or 1, got {trace['pinned']!r:.80}")
        return {**trace, "pinned": bool(trace["pinned"])}

    def vector(self, id: int) -> bytes:
        (vector,) = self._one("SELECT vector FROM vectors WHERE id = ?", id, (bytes,))
        return bytes(vector)

    def _one(self, sql: str, id: int, kinds: Sequence[Any]) -> Any:
        rows = self._all(sql, (id,), kinds)
        if not rows:
            raise ValueError("it is missing")
        return rows[0]

    def occurrences(self, id: int) -> list[tuple[float, str]]:
        sql = "SELECT time, metadata FROM occurrences WHERE memory = ? ORDER BY number"
        return self._all(sql, (id,), (float, str))

    def versions(self, id: int) -> list[tuple[float, str, str]]:
        sql = "SELECT time, text, reason FROM versions WHERE memory = ? ORDER BY number"
        return self._all(sql, (id,), (float, str, str))

    def surprise_states(self, namespace: int) -> list[tuple[str, bytes]]:
        sql = "SELECT mode, state FROM surprise NOT INDEXED WHERE namespace = ?"
        return self._all(sql, (namespace,), (str, bytes))

    def last_seen(self, namespace: int) -> dict[str, float]:
        sql = "SELECT tag, time FROM last_seen WHERE namespace = ? ORDER BY tag"
        return dict(self._all(sql, (namespace,), (str, float)))

    def snapshots(self) -> list[tuple[int, int]]:
        """Namespace and generation of the snapshots that hold."""
        return self._all("SELECT namespace, generation FROM snapshots", (), (int, int))

    def answers(self) -> list[tuple[str, str, float]]:
        """What an LLM said."""
        return self._all("SELECT key, value, time FROM llm_cache", (), (str, str, float))


def _definitions(connection: sqlite3.Connection) -> dict[str, str]:
    """How tables and indexes are defined, without white space and quotes that say nothing."""
    return {
        f"{kind} {name}": re.sub(r'[\s"]+', " ", sql or "").strip()
        for kind, name, sql in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
        )
    }
