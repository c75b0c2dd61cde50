"""Changes of several steps that Ctrl-C, or any signal handler that raises, must not cut in two."""

from __future__ import annotations

# The module under `signal`, which makes no enumeration of each answer: every change asks for all,
# 3 µs in place of 26.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SignalsDeferred"]

_SIGNALS = sorted(signal.valid_signals())


class SignalsDeferred:
    """Within ``with``, signal handlers in Python wait; they run when it ends.

    Python runs handlers in the main thread only: in others there is nothing to do.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._pending: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    _signal.signal(number, self._note)
        except BaseException:  # one that had not been replaced yet: nothing has begun
            self._restore()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        for number, frame in self._pending:
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._pending.append((number, frame))

    def _restore(self) -> None:
        waiting = list(self._handlers.items())
        try:
            while waiting:
                _signal.signal(*waiting[-1])
                waiting.pop()
        finally:  # a handler that is back already may have raised: the others come back too
            for number, handler in waiting:
                _signal.signal(number, handler)
