"""What can go wrong with a store. Bad arguments are plain ``ValueError`` and ``TypeError``."""

from __future__ import annotations

__all__ = [
    "CorruptStore",
    "DimensionMismatch",
    "EmbedderMismatch",
    "FlashbulbError",
    "MemoryNotFound",
    "ReadOnlyStore",
    "StoreClosed",
    "StoreForked",
    "StoreLocked",
    "StoreUnavailable",
]


class FlashbulbError(Exception):
    """Base of every error that concerns the state of a store or an engine."""


class StoreLocked(FlashbulbError):
    """Another process or another open ``Memory`` holds the store's writer lock.

    Or no lock can hold: the file has a second name, a hard link, under which others may open it.
    """


class StoreClosed(FlashbulbError):
    """The store has been closed."""


class StoreForked(FlashbulbError):
    """The store or engine was opened in another process, before a ``fork``.

    A forked child cannot open the same file either: a new program can (`spawn`, not `fork`, in
    ``multiprocessing``).
    """


class StoreUnavailable(FlashbulbError):
    """The file system does not let the store be read or written: no room, no access, no file."""


class ReadOnlyStore(FlashbulbError):
    """The store is open to be read only, and the call would change it."""


class CorruptStore(FlashbulbError):
    """The store's file does not hold what a Flashbulb store must hold."""


class MemoryNotFound(FlashbulbError, KeyError):
    """No memory with this id lives here: unknown, forgotten, or of another namespace."""

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return str(self.args[0]) if self.args else ""


class DimensionMismatch(FlashbulbError, ValueError):
    """A vector has another number of dimensions than the store or engine."""


class EmbedderMismatch(FlashbulbError, ValueError):
    """The store was written with another embedder than the one it is opened with."""
