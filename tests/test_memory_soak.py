"""What long lives of a process cost in RAM.

FLASHBULB_SOAK=1 runs the whole: 1,000 openings and 100,000 memories that come and go (`just soak`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

WHOLE = os.environ.get("FLASHBULB_SOAK", "") not in ("", "0")
GROWTH = 1.05

PROGRAM = """
    import gc, os, sys
    from flashbulb import Memory

    path, what, before, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

    def embed(texts):
        return [[len(text) % 7 + 1.0, sum(map(ord, text)) % 97 + 1.0, 1.0] for text in texts]

    def opened():
        return Memory(path, embedder=embed, durability="normal")

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    def come_and_go(memory, count):
        for n in range(count):
            memory.forget(memory.remember(f"event {n % 50}", tags=[f"tag {n % 7}"]).id)
            if n % 10 == 0:
                memory.recall("event")

    def open_and_close(count):
        for n in range(count):
            with opened() as memory:
                memory.recall("event")
            with Memory(path, embedder=embed, read_only=True) as memory:
                memory.recall("event")

    with opened() as memory:
        memory.remember_many([f"event {n}" for n in range(100)])
    if what == "opening":
        open_and_close(before)
        start = resident()
        open_and_close(after)
        end = resident()
    else:
        with opened() as memory:
            come_and_go(memory, before)
            start = resident()
            come_and_go(memory, after)
            end = resident()
    print(start, end)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("opening", 20, 1000 if WHOLE else 60),
        ("memories", 2000, 100_000 if WHOLE else 3000),
    ],
)
def test_memory_in_use_stays_flat(store: Path, what: str, before: int, after: int) -> None:
    """Within 5 % of what it is once caches are full, of SQLite (2 MB) and of the allocator."""
    arguments = map(str, (store, what, before, after))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    start, end = map(int, done.stdout.split())
    assert end <= start * GROWTH, (start, end)
