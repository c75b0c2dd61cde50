"""What SQLite says, in this package's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from flashbulb.errors import CorruptStore, StoreLocked, StoreUnavailable

__all__ = ["decoding", "translated"]


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Say what SQLite found wrong with the file at `path`.

    Raises
    ------
    CorruptStore
        If the file does not hold what it must hold.
    StoreLocked
        If another program holds it.
    StoreUnavailable
        If it cannot be read or written: no room, no access, a failing disk.
    """
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's own message quotes what it found
        raise CorruptStore(f"{path} is damaged: {error}") from error
    except sqlite3.DatabaseError as error:
        message = str(error)
        if any(sign in message for sign in ("malformed", "not a database", "decode to UTF-8")):
            raise CorruptStore(f"{path} is damaged: {message}") from error
        if "no such table" in message or "no such column" in message:
            raise CorruptStore(f"{path} lacks a part of a store: {message}") from error
        if "locked" in message or "busy" in message:
            raise StoreLocked(f"another program holds the database {path}: {message}") from error
        if isinstance(error, sqlite3.OperationalError):
            raise StoreUnavailable(
                f"{path} cannot be read or written ({message}); nothing was changed: see to its "
                "disk's room and its access rights, then try again"
            ) from error
        raise


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Only what was read from the file at `path` is at work inside: what fails is damage."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} is damaged: {error}") from error
