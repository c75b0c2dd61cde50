"""A copy of a store while it is in use: one state of it, whoever writes meanwhile."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeAlias

from flashbulb._files import outside_the_store, synchronise
from flashbulb.errors import StoreLocked
from flashbulb.storage.lock import WriterLock
from flashbulb.storage.reading import ReadTransaction
from flashbulb.storage.schema import check_path, connect
from flashbulb.storage.translation import translated

__all__ = ["Progress", "copy_files", "copy_store", "new_store"]

Progress: TypeAlias = "Callable[[int, int], object]"
"""Called with the number of pages that are copied, and of all."""

_LOG_ENDS = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database
_PAGES_AT_ONCE = 256


def copy_store(
    source: str | sqlite3.Connection,
    target: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    timeout: float = 5.0,
) -> None:
    """Copy the newest committed state of a store to the file `target`, all of it or nothing.

    Parameters
    ----------
    source : str or Connection
        The store's real path, which is read through a connection of its own, so that nobody is held
        up; or a database in RAM, that nobody may use meanwhile.
    target : str
        A real path.
    overwrite : bool
        Whether a file that is there may be replaced; if it is a store, nobody may use it.
    progress : callable, optional
        What it raises ends the copying.

    Raises
    ------
    FileExistsError, StoreLocked
        If there is a file that may not be replaced, or a store that is in use.
    ValueError
        If the target is a file of the store itself.
    """
    if not isinstance(source, str):
        with _replacing(target, overwrite, timeout) as temporary:
            _copy(source, temporary, progress)
        return
    outside_the_store(source, target)
    with (
        closing(ReadTransaction(source, timeout, older=True)) as reading,
        _replacing(target, overwrite, timeout) as temporary,
    ):
        _copy(reading.connection, temporary, progress)


def _copy(source: sqlite3.Connection, temporary: str, progress: Progress | None) -> None:
    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    with translated(temporary), closing(connect(temporary, "mode=rwc", 0.0)) as target:
        # The file counts only once it has been synchronised and has its name.
        target.execute("PRAGMA journal_mode = OFF").fetchone()
        target.execute("PRAGMA synchronous = OFF")
        source.backup(target, pages=_PAGES_AT_ONCE, progress=report)
        # The copy has no files beside it.
        for (table,) in target.execute(
            "SELECT name FROM sqlite_master WHERE name IN ('changed', 'snapshots')"
        ).fetchall():
            target.execute(f"DELETE FROM {table}")


@contextlib.contextmanager
def _replacing(target: str, overwrite: bool, timeout: float) -> Iterator[str]:
    """As :func:`new_store`, where nobody uses what is there, and only if it may be replaced."""
    check_path(target)
    lock = WriterLock(target, timeout)
    try:
        _check_target(target, overwrite, timeout)
        with new_store(target) as temporary:
            yield temporary
            _check_target(target, overwrite, timeout)
    finally:
        lock.release()


@contextlib.contextmanager
def new_store(target: str) -> Iterator[str]:
    """The path of a database to be written, and closed; it then becomes the store `target`.

    Whoever holds that one's writer lock may do this.
    """
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    with contextlib.ExitStack() as stack:
        for end in ("", *_LOG_ENDS):
            stack.callback(_remove, temporary + end)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary
        synchronise(temporary)
        for end in _LOG_ENDS:  # SQLite would take the log of the old file for one of the new
            _remove(target + end)
        os.replace(temporary, target)
        synchronise(folder)


def copy_files(path: str, target: str) -> None:
    """Copy a store's file, and its log, as they are, sound or not; nobody may have it open.

    Raises
    ------
    FileExistsError
        If there is such a file already.
    """
    for end in ("", "-wal", "-journal"):
        if os.path.exists(path + end):
            with open(path + end, "rb") as source, open(target + end, "xb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
    synchronise(os.path.dirname(target))


def _check_target(target: str, overwrite: bool, timeout: float) -> None:
    if not os.path.exists(target):
        return
    if not overwrite:
        raise FileExistsError(f"{target} is there already, and may not be replaced")
    if not any(os.path.exists(target + end) for end in _LOG_ENDS):
        return
    # A connection that closes as the last one leaves no log.
    with translated(target), closing(connect(target, "mode=rw", timeout)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    left = [target + end for end in _LOG_ENDS if os.path.exists(target + end)]
    if left:
        raise StoreLocked(f"{target} cannot be replaced: somebody reads it ({', '.join(left)})")


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
