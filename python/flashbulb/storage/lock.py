"""One writer per store, held by ``flock`` on a file of its own.

The lock is of the kernel: it goes with the process, however that ends, and never needs repair by
hand. The database file itself is not touched here: closing any descriptor of it would drop the
locks that SQLite holds in this process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time

from flashbulb.errors import StoreLocked

__all__ = ["WriterLock"]

_POLL_SECONDS = 0.02
_guard = threading.RLock()  # a collected Memory may give its lock back at any moment
_held: dict[str, WriterLock] = {}  # by real path, in this process


class WriterLock:
    """Take the writer lock of the store at `path`, a real path (symbolic links resolved).

    Raises
    ------
    StoreLocked
        At once if this process holds it, else after `timeout` seconds.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        with _guard:
            if path in _held:
                raise StoreLocked(
                    f"{path} is already open in this process; share that Memory, or close it first"
                )
            _held[path] = self
        self._file = -1
        try:
            self._file = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._wait(timeout)
        except BaseException:
            self.release()
            raise

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            else:
                # Only for the message that a second process gets.
                with contextlib.suppress(OSError):
                    os.truncate(self._file, 0)
                    os.pwrite(self._file, str(os.getpid()).encode(), 0)
                return
            if time.monotonic() >= deadline:
                holder = os.pread(self._file, 20, 0).decode("ascii", "replace") or "unknown"
                raise StoreLocked(
                    f"{self._path} is open for writing in another process (pid {holder}); "
                    f"waited {timeout:g} s"
                )
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        with _guard:
            if _held.get(self._path) is self:
                del _held[self._path]
        if self._file >= 0:
            # Explicitly: a forked child may share this open file description.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1


def _forget_in_child() -> None:
    """The child has no lock: without its descriptors the parent's lock goes with the parent."""
    global _guard
    _guard = threading.RLock()
    for lock in _held.values():
        if lock._file >= 0:
            os.close(lock._file)
            lock._file = -1
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
