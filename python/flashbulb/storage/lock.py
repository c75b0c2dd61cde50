"""One writer per store, held by ``flock`` on a file of its own; readers only leave a note.

The lock is of the kernel: it goes with the process, however that ends, and never needs repair by
hand. The database file itself is not opened here: closing any descriptor of it would drop the
locks that SQLite holds in this process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from typing import TypeAlias

from flashbulb.errors import StoreForked, StoreLocked

__all__ = ["ReaderNote", "WriterLock", "refuse_readers"]

_POLL_SECONDS = 0.02
_Identity: TypeAlias = "tuple[int, int]"  # device and inode: a file may have several names

_guard = threading.RLock()  # a collected Memory may give its lock back at any moment
_held: dict[str, WriterLock] = {}  # by real path, in this process
_readers: set[ReaderNote] = set()
_inherited: set[_Identity] = set()  # what was open when this process was forked


class WriterLock:
    """Take the writer lock of the store at `path`, a real path (symbolic links resolved).

    Raises
    ------
    StoreLocked
        At once if this process holds it or the file has a second name, else after `timeout`
        seconds.
    StoreForked
        If the file was open in the process that this one was forked from. SQLite remembers per
        process which locks it has on a file; a child believes in those of its parent.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._file = -1
        self._owns = False
        self._identity = _identify(path)
        with _guard:
            _refuse_inherited(path, self._identity)
            for lock in _held.values():
                same = self._identity is not None and lock._identity == self._identity
                if same or lock._path == path:
                    raise StoreLocked(
                        f"{path} is already open in this process; share that Memory, "
                        "or close it first"
                    )
            _held[path] = self
        try:
            self._wait(timeout)
        except BaseException:
            self.release()
            raise

    def created(self) -> None:
        """Look at the store's file again: it is there now."""
        self._identity = _identify(self._path)

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            with _guard:  # a child forked in between would keep the descriptor, and so the lock
                self._file = os.open(self._path + ".lock", flags, 0o644)
            if self._try():
                if self._is_current():
                    break
            elif time.monotonic() >= deadline:
                holder = os.pread(self._file, 20, 0).decode("ascii", "replace") or "unknown"
                raise StoreLocked(
                    f"{self._path} is open for writing in another process (pid {holder}); "
                    f"waited {timeout:g} s"
                )
            else:
                time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
            os.close(self._file)
            self._file = -1
        self._owns = True
        # Only for the message that a second process gets.
        with contextlib.suppress(OSError):
            os.truncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            return False
        return True

    def _is_current(self) -> bool:
        """Whether the locked file is the one that others find: a holder removes it at its end."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file), os.stat(self._path + ".lock"))
        return False

    def release(self) -> None:
        """Give the lock back and remove its file; a second call does nothing."""
        with _guard:
            if _held.get(self._path) is self:
                del _held[self._path]
        if self._file >= 0:
            if self._owns:  # and while it is locked: it is nobody else's yet
                with contextlib.suppress(OSError):
                    os.unlink(self._path + ".lock")
            # Explicitly: a forked child may share this open file description.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file, self._owns = -1, False


class ReaderNote:
    """Note that this process reads the store at `path`: it holds nobody off.

    Raises
    ------
    StoreLocked
        If the file has a second name: the log of a writer that uses the other would not be seen.
    StoreForked
        As for :class:`WriterLock`.
    """

    def __init__(self, path: str) -> None:
        self._identity = _identify(path)
        with _guard:
            _refuse_inherited(path, self._identity)
            _readers.add(self)

    def release(self) -> None:
        """Take the note back; a second call does nothing."""
        with _guard:
            _readers.discard(self)


def refuse_readers(path: str) -> None:
    """Refuse to go on with the files at `path` while this very process reads them.

    Only then may they be opened without SQLite: to close one drops the locks that it holds.
    """
    identity = _identify(path)
    with _guard:
        if any(note._identity == identity for note in _readers):
            raise StoreLocked(f"{path} is open to be read in this process; close that first")


def _identify(path: str) -> _Identity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if status.st_nlink > 1:
        raise StoreLocked(
            f"{path} has {status.st_nlink} names (hard links), and a lock on one does not hold off "
            "who uses another; remove all but one, or copy the file"
        )
    return status.st_dev, status.st_ino


def _refuse_inherited(path: str, identity: _Identity | None) -> None:
    if identity in _inherited:
        raise StoreForked(
            f"{path} was open in the process that this one was forked from, and SQLite "
            "cannot open it a second time here; open it in a new program, such as a worker "
            "that multiprocessing starts by 'spawn' (other stores can be opened)"
        )


def _forget_in_child() -> None:
    """The child has no lock: without its descriptors the parent's lock goes with the parent."""
    global _guard
    _guard = threading.RLock()
    for lock in _held.values():
        identity = lock._identity
        if identity is None:  # about to be created
            with contextlib.suppress(OSError, StoreLocked):
                identity = _identify(lock._path)
        if identity is not None:
            _inherited.add(identity)
        if lock._file >= 0:
            os.close(lock._file)
            lock._file = -1
    _held.clear()
    _inherited.update(note._identity for note in _readers if note._identity is not None)
    _readers.clear()


os.register_at_fork(
    before=lambda: _guard.acquire(),
    after_in_parent=lambda: _guard.release(),
    after_in_child=_forget_in_child,
)
