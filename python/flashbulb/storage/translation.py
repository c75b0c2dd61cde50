"""What SQLite says, in this package's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from flashbulb.errors import CorruptStore, StoreLocked

__all__ = ["translated"]


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Say what SQLite found wrong with the file at `path`.

    Raises
    ------
    CorruptStore
        If the file does not hold what it must hold.
    StoreLocked
        If another program holds it.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        message = str(error)
        if any(sign in message for sign in ("malformed", "not a database", "decode to UTF-8")):
            raise CorruptStore(f"{path} is damaged: {message}") from error
        if "no such table" in message or "no such column" in message:
            raise CorruptStore(f"{path} lacks a part of a store: {message}") from error
        if "locked" in message or "busy" in message:
            raise StoreLocked(f"another program holds the database {path}: {message}") from error
        raise
