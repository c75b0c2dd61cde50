"""Connections that only read: the state of one moment, whoever writes meanwhile.

A read transaction of SQLite's write-ahead log stays open as long as the connection. It hinders no
writer, but the log cannot be emptied under it, and so grows.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TypeAlias

from flashbulb.errors import ReadOnlyStore
from flashbulb.storage import schema
from flashbulb.storage.lock import ReaderNote
from flashbulb.storage.translation import translated

__all__ = ["ReadTransaction"]

_Identity: TypeAlias = "tuple[int, ...]"


class ReadTransaction:
    """The newest committed state of the store at `path`, a real path.

    Parameters
    ----------
    timeout : float
        Seconds to wait for another program that holds the file.
    older : bool
        Whether the store may be of an older version, as it is when it is only copied.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    ReadOnlyStore
        If it is empty or of an older version: only a writer brings it to the present one.
    CorruptStore, StoreUnavailable, StoreLocked
        As for a writer.
    """

    def __init__(self, path: str, timeout: float, *, older: bool = False) -> None:
        schema.check_path(path, read_only=True)
        self.path = path
        self._note = ReaderNote(path)  # before SQLite is asked anything: it may hang after a fork
        try:
            schema.check_file(path, timeout)
            with translated(path):
                self.connection, self._immutable = self._open(timeout)
        except BaseException:
            self._note.release()
            raise
        try:
            self._identity = self._identify()
            with translated(path):
                self.version = schema.check_header(self.connection, path)
            self._check_version(older)
        except BaseException:
            self.close()
            raise

    def _check_version(self, older: bool) -> None:
        if self.version == 0:
            raise ReadOnlyStore(
                f"{self.path} is empty; open it once for writing, to make a store of it"
            )
        if self.version < schema.VERSION and not older:
            raise ReadOnlyStore(
                f"{self.path} is of version {self.version} of the store format; open it once for "
                f"writing, to bring it to version {schema.VERSION}"
            )

    def _open(self, timeout: float) -> tuple[sqlite3.Connection, bool]:
        try:
            return self._begin("mode=ro", timeout), False
        except sqlite3.OperationalError:
            # A reader needs files beside the store that it cannot make here. But without a log
            # nobody has the store open, and the file alone says all.
            folder = os.path.dirname(self.path)
            if os.path.exists(self.path + "-wal") or os.access(folder, os.W_OK):
                raise
            return self._begin("immutable=1", timeout), True

    def _begin(self, mode: str, timeout: float) -> sqlite3.Connection:
        connection = schema.connect(self.path, mode, timeout)
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _identify(self) -> _Identity:
        status = os.stat(self.path)
        if self._immutable:
            return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        return status.st_dev, status.st_ino

    def outdated(self, newer: ReadTransaction) -> bool:
        """Whether anything was committed between this one, which thereby ends, and a newer one."""
        if self._identity != newer._identity:
            return True
        with translated(self.path):
            before = self.connection.execute("PRAGMA data_version").fetchone()
            self.connection.execute("COMMIT")
            after = self.connection.execute("PRAGMA data_version").fetchone()
        return bool(before != after)

    def close(self) -> None:
        self.connection.close()
        self._note.release()
