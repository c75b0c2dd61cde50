"""What keeps asking an LLM from doing harm: a deadline, a circuit, a budget, a cache."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

__all__ = [
    "AT_A_TIME",
    "Budget",
    "Cache",
    "Circuit",
    "MemoryCache",
    "NoAnswer",
    "TimeLimit",
    "at_a_time",
    "within",
]

T = TypeVar("T")

AT_A_TIME = 8
"""So many questions of a batch."""
_LOOK_UP = 0.25
"""Seconds of a wait at a time: a Ctrl-C just before the system call does not end it."""

Clock = Callable[[], float]
"""Seconds that only grow."""


class NoAnswer(Exception):
    """A stage was not asked, or gave no answer; says why, in words for a user.

    `kind` is one word for statistics: "deadline", "circuit", "budget", "server", "reply",
    "refused" (the text, by the server), "steering" or "error".
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class TimeLimit:
    """One deadline for all that a question needs, repeats included."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds until the deadline.

        Raises
        ------
        NoAnswer
            When there are none.
        """
        left = self._end - self._clock()
        if left <= 0.0:
            raise self.passed()
        return left

    def passed(self) -> NoAnswer:
        return NoAnswer("deadline", f"no answer within {self.seconds:g} s")


def within(limit: TimeLimit, function: Callable[[], T]) -> T:
    """What `function` returns or raises; NoAnswer when it has not by the deadline.

    It runs in a thread of its own, which is left behind if it hangs and does not keep the program
    from ending. Ctrl-C ends the wait at once.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(function())
        except asyncio.CancelledError as error:  # of a client within, and not of this call
            errors.append(NoAnswer("error", f"it was cancelled {error}".strip()))
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="flashbulb-llm", daemon=True).start()
    end = time.monotonic() + limit.left()
    while not done.wait(min(_LOOK_UP, max(end - time.monotonic(), 0.0))):
        if time.monotonic() >= end:
            raise limit.passed()
    if errors:
        raise errors.pop()
    return results.pop()


def at_a_time(most: int, function: Callable[[T], None], items: Sequence[T]) -> None:
    """Call the function with each item, with so many of them at a time.

    What it raises comes out, and no further item is begun. The threads do not keep the program from
    ending, and Ctrl-C does not wait for them.
    """
    if len(items) < 2:
        for item in items:
            function(item)
        return
    waiting = deque(items)
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                function(item)
            except BaseException as error:
                errors.append(error)

    threads = [
        threading.Thread(target=work, name="flashbulb-asking", daemon=True)
        for _ in range(min(most, len(items)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_UP)
    except BaseException as error:
        errors.append(error)
    if errors:
        raise errors[0]


class Circuit:
    """Stops asking what keeps failing.

    After so many failures in a row it is open: nothing is asked for a while. Then one question
    goes through; its success closes the circuit, its failure opens it for twice as long.
    """

    LONGEST = 3600.0

    def __init__(
        self, failures: int = 5, seconds: float = 30.0, clock: Clock = time.monotonic
    ) -> None:
        self._allowed = failures
        self._seconds = self._pause = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until: float | None = None
        self._trying = False

    def enter(self) -> None:
        """Ask to be let through; then `succeeded` or `failed` must follow.

        Raises
        ------
        NoAnswer
            When the circuit is open.
        """
        with self._lock:
            if self._closed_until is None:
                return
            left = self._closed_until - self._clock()
            if left > 0.0 or self._trying:
                raise NoAnswer(
                    "circuit",
                    f"not asked after {self._failures} failures in a row; "
                    f"tried again in {max(left, 0.0):.0f} s",
                )
            self._trying = True

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._pause = self._seconds
            self._closed_until = None
            self._trying = False

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._trying:
                self._pause = min(2.0 * self._pause, self.LONGEST)
            if self._trying or self._failures == self._allowed:
                self._closed_until = self._clock() + self._pause
            self._trying = False

    def left(self) -> None:
        """Neither: the question was given up, by Ctrl-C or because there is no budget, or the text
        refused by a server that is there."""
        with self._lock:
            self._trying = False


class Budget:
    """At most so many requests in any hour; None: as many as there are."""

    HOUR = 3600.0

    def __init__(self, per_hour: int | None, clock: Clock = time.monotonic) -> None:
        self._per_hour = per_hour
        self._clock = clock
        self._lock = threading.Lock()
        self._spent: deque[float] = deque()

    def spend(self) -> None:
        """Take one request from the budget.

        Raises
        ------
        NoAnswer
            When none is left.
        """
        if self._per_hour is None:
            return
        with self._lock:
            now = self._clock()
            while self._spent and now - self._spent[0] >= self.HOUR:
                self._spent.popleft()
            if len(self._spent) >= self._per_hour:
                raise NoAnswer("budget", f"the budget of {self._per_hour} an hour is spent")
            self._spent.append(now)


class Cache(Protocol):
    """Answers by text and question. Whatever it raises counts as not found."""

    def get(self, text: str, question: str) -> str | None: ...
    def put(self, text: str, question: str, answer: str) -> None: ...


class MemoryCache:
    """The answers that were used last, in RAM."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple[str, str], str] = OrderedDict()

    def get(self, text: str, question: str) -> str | None:
        with self._lock:
            answer = self._answers.get((text, question))
            if answer is not None:
                self._answers.move_to_end((text, question))
            return answer

    def put(self, text: str, question: str, answer: str) -> None:
        with self._lock:
            self._answers[text, question] = answer
            self._answers.move_to_end((text, question))
            if len(self._answers) > self._capacity:
                self._answers.popitem(last=False)
