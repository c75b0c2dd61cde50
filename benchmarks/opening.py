"""What a snapshot saves at opening: python benchmarks/opening.py [--rows 1000000] [--dim 256]

Makes a store of that size with a snapshot, in a temporary folder, and opens it from the snapshot
and from the database in turn, each time in a process of its own: until the namespace is there, and
on to the answer of a first search by its vector (the words of all memories are indexed at the first
recall, in either case). Files are in the cache of the system. Then it measures what noting the
changes since a snapshot costs reinforcement.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from flashbulb import Engine, Memory
from flashbulb._snapshots import Snapshots
from flashbulb.storage.rows import Row

NOW = 1_700_000_000.0
BATCH = 50_000


class Random:
    """Vectors that nobody looks at."""

    name, fingerprint = "random", "72616e646f6d"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        return np.random.default_rng(7).standard_normal((len(texts), self.dim), np.float32)

    embed_queries = embed_documents


def opened(path: Path, dim: int) -> Memory:
    return Memory(path, embedder=Random(dim), neutral=True, clock=lambda: NOW, durability="normal")


def no_new_snapshot() -> Any:
    """Inside, ``close`` leaves the snapshot as it is."""
    return patch.object(Snapshots, "is_due", return_value=False)


def fill(path: Path, rows: int, dim: int) -> None:
    """Past the checks of ``remember``, which take longer than everything that is measured here."""
    with opened(path, dim) as memory:
        store = memory._store
        engine = Engine(dim, approximate=False)
        random = np.random.default_rng(0)
        for start in range(0, rows, BATCH):
            count = min(BATCH, rows - start)
            ids = np.arange(start + 1, start + count + 1)
            vectors = random.standard_normal((count, dim), np.float32)
            engine.add(vectors, salience=random.random(count), ids=ids, now=NOW)
            with store.database.transaction():
                number = 1 if start else store.database.create_namespace("default")
                for id in ids.tolist():
                    text = f"note {id}: what was said about subject {id % 997} on that day"
                    tags = json.dumps(["notes", f"subject{id % 997}"])
                    store.database.insert(
                        Row(
                            id,
                            number,
                            id.to_bytes(16, "big"),
                            text,
                            tags,
                            "{}",
                            None,
                            None,
                            None,
                            None,
                            0.0,
                            "off",
                            None,
                            None,
                            0,
                            None,
                            NOW,
                        )
                    )
                store.database.insert_strengths(ids, engine.traces(ids), engine.vectors(ids))
            engine.remove(ids)
        len(memory)


def open_once(path: Path, dim: int) -> dict[str, Any]:
    """In a process of its own: seconds, and how it was opened."""
    start, begun = time.perf_counter(), time.process_time()
    memory = opened(path, dim)
    count = len(memory)
    there = time.perf_counter() - start
    processor = time.process_time() - begun
    engine = memory._store.space("default").engine
    found = engine.search(np.random.default_rng(1).standard_normal(dim), 10, now=NOW)
    answered = time.perf_counter() - start
    state = memory.stats()["snapshot"]
    with no_new_snapshot():
        memory.close()
    return {
        "there": there,
        "processor": processor,
        "answered": answered,
        "snapshot": state,
        "rows": count,
        "found": [found.ids.tolist(), found.scores.tolist()],
    }


def timed(path: Path, dim: int, state: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--open", str(path), "--dim", str(dim)]
    result: dict[str, Any] = json.loads(subprocess.check_output(command))
    assert result["snapshot"] == state, result
    return result


def openings(path: Path, dim: int, repeats: int) -> None:
    # A copy that knows of no snapshot, so that each can be opened again and again.
    with opened(path, dim) as memory:
        start = time.perf_counter()
        memory.snapshot()
        written = time.perf_counter() - start
        memory.backup(path.with_name("plain.db"))
    (snapshot,) = path.parent.glob(f"{path.name}-snapshot-*")
    print(
        f"database {path.stat().st_size / 1e6:,.0f} MB, snapshot "
        f"{snapshot.stat().st_size / 1e6:,.0f} MB, written in {written:.2f} s"
    )
    results: dict[str, list[dict[str, Any]]] = {"used": [], "none": []}
    for _ in range(repeats):
        results["used"].append(timed(path, dim, "used"))
        results["none"].append(timed(path.with_name("plain.db"), dim, "none"))
    assert results["used"][0]["found"] == results["none"][0]["found"]
    for what, described in (
        ("there", "until the namespace is there"),
        ("processor", "of it processor time, of all threads"),
        ("answered", "until a first search is answered"),
    ):
        new, old = (statistics.median(r[what] for r in results[s]) for s in ("used", "none"))
        print(f"{described:43s} snapshot {new:6.2f} s, database {old:6.2f} s: 1/{old / new:.1f}")


def reinforcing(path: Path, dim: int, repeats: int) -> None:
    """Processor time of writing the strengths of 1,000 memories, as after 64 recalls."""
    random = np.random.default_rng(3)
    seconds: dict[str, list[float]] = {"with a snapshot": [], "without": []}
    stores = {"with a snapshot": path, "without": path.with_name("plain.db")}
    for _ in range(repeats):
        for name, file in stores.items():
            with no_new_snapshot(), opened(file, dim) as memory:
                store, space = memory._store, memory._store.space("default")
                for _ in range(10):
                    space.dirty.update(random.choice(len(memory), 1000, replace=False) + 1)
                    start = time.process_time()
                    store.flush()
                    seconds[name].append(time.process_time() - start)
    new, old = (statistics.median(values) for values in seconds.values())
    print(f"1,000 strengths written: {new * 1e3:.1f} ms with a snapshot, {old * 1e3:.1f} without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.open:
        print(json.dumps(open_once(given.open, given.dim)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        fill(path, given.rows, given.dim)
        openings(path, given.dim, given.repeats)
        reinforcing(path, given.dim, given.repeats)


if __name__ == "__main__":
    main()
