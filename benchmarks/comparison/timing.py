"""Timing of contenders side by side: in rounds, so that what disturbs one disturbs all.

The limit of a scan is the time in which the same number of bytes can be read at all, from pages as
large as the system gives. It is one more contender: the loop of ``benchmarks/cpp/read_limit.cpp``,
compiled when it is first needed. Without a compiler it is NumPy's ``bitwise_or.reduce``, which
reads up to 13 % less; the report says which.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reader", "Spread", "Task", "interleave", "once_of", "ratios"]

# A call that is faster than this is repeated, and the mean of a turn counts.
_SHORTEST_TURN = 0.004


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread:
        return cls(*np.quantile(values, [0.25, 0.5, 0.75]).tolist())


@dataclass
class Task:
    """What is timed: ``run(turn)``, where the turn number picks the query."""

    name: str
    run: Callable[[int], object]
    scale: float = 1.0
    """What the time is multiplied with: for what was measured on a part."""
    prepare: Callable[[], object] | None = None
    """Called before each turn, untimed."""


def interleave(
    tasks: list[Task], *, seconds: float, rounds: int = 60, fewest: int = 5
) -> dict[str, NDArray[np.float64]]:
    """Seconds a call of each task, one value a round; NaN in rounds that it was left out of.

    Every task may take about ``seconds`` in all, but has at least ``fewest`` rounds (3 if a call
    takes over a second). The one that goes first changes from round to round.
    """
    repeats: dict[str, int] = {}
    least: dict[str, int] = {}
    for task in tasks:
        once = once_of(task) / task.scale  # warms up
        if once < 1.0:
            once = once_of(task, 1) / task.scale
        repeats[task.name] = min(max(1, math.ceil(_SHORTEST_TURN / once)), 1000)
        least[task.name] = fewest if once < 1.0 else min(fewest, 3)
    spent = dict.fromkeys(repeats, 0.0)
    taken: dict[str, list[float]] = {task.name: [] for task in tasks}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            busy = [t for t in tasks if turn < least[t.name] or spent[t.name] < seconds]
            if not busy:
                break
            for task in tasks[turn % len(tasks) :] + tasks[: turn % len(tasks)]:
                if task not in busy:
                    taken[task.name].append(math.nan)
                    continue
                count = repeats[task.name]
                run = task.run
                if task.prepare is not None:
                    task.prepare()
                start = time.perf_counter()
                for call in range(count):
                    run(turn * count + call)
                elapsed = time.perf_counter() - start
                spent[task.name] += elapsed
                taken[task.name].append(elapsed / count * task.scale)
    finally:
        if collecting:
            gc.enable()
    return {name: np.array(values) for name, values in taken.items()}


def once_of(task: Task, turn: int = 0) -> float:
    """Seconds of one call."""
    if task.prepare is not None:
        task.prepare()
    start = time.perf_counter()
    task.run(turn)
    return max(time.perf_counter() - start, 1e-7) * task.scale


def ratios(slower: NDArray[np.float64], faster: NDArray[np.float64]) -> Spread:
    """How many times faster, by the rounds that both took part in."""
    both = ~(np.isnan(slower) | np.isnan(faster))
    return Spread.of(slower[both] / faster[both])


@cache
def _native_reader() -> Callable[[NDArray[np.uint64]], int] | None:
    source = Path(__file__).resolve().parents[1] / "cpp" / "read_limit.cpp"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "read_limit.so"
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", str(source), "-o"]
        try:
            subprocess.run([*command, str(library)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        read = ctypes.CDLL(str(library)).flashbulb_read
    read.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    read.restype = ctypes.c_uint64
    return lambda part: int(read(part.ctypes.data, part.nbytes))


class Reader:
    """Reads so many bytes of memory as fast as it can, on one thread or several."""

    _buffer: NDArray[np.uint64] = np.empty(0, np.uint64)
    """Shared: only one of them reads at a time. NumPy asks for large pages for it."""

    def __init__(self, size: int, threads: int = 1) -> None:
        words = size // 8
        if len(Reader._buffer) < words:
            Reader._buffer = np.ones(words, np.uint64)
        self.size = size
        native = _native_reader()
        self.how = "a native loop" if native else "NumPy's bitwise_or (no C++ compiler found)"
        self._read = native or np.bitwise_or.reduce
        self._parts = np.array_split(Reader._buffer[:words], threads)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __call__(self, turn: int = 0) -> None:
        if self._pool is None:
            self._read(self._parts[0])
        else:
            list(self._pool.map(self._read, self._parts))
