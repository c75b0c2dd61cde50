"""The rows about searching: exact, small, batches, approximate, threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import flashbulb
from flashbulb import Engine, Policy, _core

from .data import KINDS, Vectors, has_real_data, make
from .findings import Finding, Line, Reach, lines_of
from .memories import NOW, K, Memories, supported
from .peers import (
    APPROXIMATE,
    Contender,
    Published,
    augmented,
    flat,
    flat_search,
    flat_variants,
    numpy_fused,
    peers,
)
from .timing import Reader, Spread, Task, interleave, once_of, ratios

__all__ = [
    "Settings",
    "approximate",
    "batch",
    "exact",
    "memories_of",
    "small",
    "threads",
    "use_threads",
]

OURS = "Flashbulb"
READ_OURS = "reading what Flashbulb scans"
READ_ROWS = "reading the float32 rows"

# A float32 sum over unit vectors is this far from the exact one at most.
_FLOAT32 = 2e-6
# A peer's setting that takes longer than this for one call is not measured in rounds.
_TOO_LONG = 4.0


@dataclass
class Settings:
    """The options of the command; None: what the row itself prefers."""

    rows: int | None = None
    dim: int = 384
    data: list[str] | None = None
    vivid: list[float] = field(default_factory=lambda: [0.02])
    policy: Policy = field(default_factory=Policy)
    engine: dict[str, Any] = field(default_factory=lambda: {"approximate": False})
    """Options of Engine. It makes no partition by itself, which would disturb what is timed."""
    peers: list[str] | None = None
    cache: Path | None = None
    threads: int = 1
    seconds: float = 5.0
    queries: int = 32


def memories_of(settings: Settings, count: int, kinds: tuple[str, ...]) -> Iterator[Memories]:
    """Memories of each kind of data and each share of vivid rows, one after the other."""
    for kind in settings.data or kinds:
        if kind == "real" and settings.data is None and not has_real_data():
            print("no real data: set FLASHBULB_DATA to the folder that holds it", file=sys.stderr)
            continue
        for vivid in settings.vivid:
            dataset = make(kind, settings.rows or count, settings.dim, settings.cache)
            yield Memories(dataset, vivid, settings.policy, settings.engine)


def scanned_bytes(engine: Engine) -> int:
    """Bytes that a search of all rows reads at least: of vectors, and of bounds of the bonus."""
    bonus = 2 * 2  # two bounds of 16 bits
    if engine.path == "fp32":
        return len(engine) * (4 * engine.dim + bonus)
    # A row of a sketch: two planes of equal size, a scale, a residual for each number of planes.
    plane = (engine._rows.sketch.row_bytes - 3 * 4) // 2  # type: ignore[union-attr]
    planes = {"int4": 1, "int8": 2}[engine.path]
    return len(engine) * (planes * plane + 2 * 4 + bonus)


def asked(queries: Vectors, at_once: int) -> list[Vectors]:
    """The queries in parts of ``at_once``."""
    whole = len(queries) // at_once * at_once
    return list(queries[:whole].reshape(-1, at_once, queries.shape[1]))


def tasks_of(contenders: list[Contender], parts: list[Vectors]) -> list[Task]:
    def runner(search: Callable[[Vectors], Any]) -> Callable[[int], Any]:
        return lambda turn: search(parts[turn % len(parts)])

    return [Task(each.name, runner(each.search), each.scale) for each in contenders]


def best_flat(
    index: Any, parts: list[Vectors]
) -> tuple[list[Contender], str, list[tuple[Contender, float]]]:
    """FAISS's flat index as it comes and at its best; the best one's name; what took too long."""
    variants = flat_variants(index, len(parts[0]))
    tasks = tasks_of(variants, parts)
    taken = [min(once_of(task, turn) for turn in range(2)) for task in tasks]
    best = int(np.argmin(taken))
    chosen = [variants[0]] if best == 0 else [variants[0], variants[best]]
    slow = [
        (each, seconds)
        for each, seconds in zip(variants, taken, strict=True)
        if each in chosen and seconds > _TOO_LONG and each is not variants[best]
    ]
    chosen = [each for each in chosen if each not in [other for other, _ in slow]]
    return chosen, variants[best].name, slow


def plain_agrees(engine: Engine, index: Any, queries: Vectors) -> bool:
    """Similarity alone: the ids of FAISS, except where scores are closer than float32."""
    found = engine.search(queries, K, now=NOW, vividness_weight=0.0, recency_weight=0.0)
    scores, ids = index.search(queries, K)
    if np.abs(found.scores - scores).max() > _FLOAT32:
        return False
    rows = engine.vectors(ids.ravel()).reshape(*ids.shape, -1).astype(np.float64)
    own = np.einsum("qkd,qd->qk", rows, queries.astype(np.float64))
    return bool((own >= found.scores[:, -1:] - _FLOAT32).all())


def search_of(engine: Engine, **options: Any) -> Callable[[Vectors], Any]:
    return lambda queries: engine.search(queries, K, now=NOW, **options).ids


def numbers(taken: dict[str, NDArray[np.float64]], engine: Engine) -> list[str]:
    """What is worth knowing of a run: the path, bytes, bandwidths."""
    notes = [f"path {engine.path}, SIMD level {_level()}"]
    for name, size in (
        (READ_OURS, scanned_bytes(engine)),
        (READ_ROWS, len(engine) * engine.dim * 4),
    ):
        if name in taken:
            spread = Spread.of(size / taken[name][~np.isnan(taken[name])])
            notes.append(f"{name}: {size / 1e6:,.1f} MB at {spread.median / 1e9:.1f} GB/s")
    return notes


def _level() -> str:
    return _core.simd_level()


# -- The rows ------------------------------------------------------------------------------------


def exact(settings: Settings, row: str, count: int, target: float) -> Iterator[Finding]:
    """One query at a time, exact: against FAISS's flat index by similarity alone."""
    for memories in memories_of(settings, count, KINDS):
        queries = memories.queries[: settings.queries]
        parts = asked(queries, 1)
        index = flat(memories.rows)
        chosen, best, _ = best_flat(index, parts)
        contenders = [Contender(OURS, search_of(memories.engine), "exact, fused"), *chosen]
        contenders += [augmented(memories), numpy_fused(memories), Published(memories).contender]
        answer = memories.exact(queries)
        found = memories.engine.search(queries, K, now=NOW)
        alone = [memories.engine.search(each, K, now=NOW).ids for each in queries]
        qualities = {
            each.name: memories.quality(_ids(each.search, parts), queries, answer)
            for each in contenders
            if each.scale == 1.0
        }
        tasks = tasks_of(contenders, parts)
        tasks.append(Task(READ_OURS, Reader(scanned_bytes(memories.engine))))
        tasks.append(Task(READ_ROWS, Reader(memories.rows.nbytes)))
        taken = interleave(tasks, seconds=settings.seconds)
        yield Finding(
            row,
            memories.title,
            lines_of(taken, OURS, {each.name: each.note for each in contenders}, qualities),
            [
                Reach(f"times faster than {best}", target, ratios(taken[best], taken[OURS])),
            ],
            agreed=memories.agrees(found, answer)
            and bool((np.array(alone) == found.ids).all())
            and plain_agrees(memories.engine, index, queries),
            notes=[*numbers(taken, memories.engine), _of_limit(taken)],
        )


def small(settings: Settings, row: str, count: int, target: float) -> Iterator[Finding]:
    """A small store, from Python: the very same index searched by FAISS and by the engine."""
    for kind in settings.data or ("clustered",):
        dataset = make(kind, settings.rows or count, settings.dim, settings.cache)
        memories = Memories(dataset, settings.vivid[0], settings.policy, settings.engine)
        index = flat(memories.rows)
        engine = Engine(
            index,
            policy=settings.policy,
            salience=memories.columns["salience"],
            created=memories.columns["created"],
            now=NOW,
            **supported(Engine, settings.engine),
        )
        queries = memories.queries[: settings.queries]
        contenders = [
            Contender(OURS, search_of(memories.engine), "exact, fused"),
            Contender("Flashbulb on the same index", search_of(engine), "exact, fused"),
            Contender("faiss.IndexFlatIP", flat_search(index), "similarity only"),
            numpy_fused(memories),
        ]
        answer = memories.exact(queries)
        found = memories.engine.search(queries, K, now=NOW)
        taken = interleave(tasks_of(contenders, asked(queries, 1)), seconds=settings.seconds)
        same = ratios(taken["faiss.IndexFlatIP"], taken["Flashbulb on the same index"])
        yield Finding(
            row,
            memories.title,
            lines_of(taken, OURS, {each.name: each.note for each in contenders}),
            [Reach("times faster than index.search of the same index", target, same)],
            agreed=memories.agrees(found, answer) and plain_agrees(engine, index, queries),
            notes=[f"path {engine.path} on the same index, {memories.engine.path} on its own"],
        )


def batch(settings: Settings, row: str, count: int, at_once: int = 256) -> Iterator[Finding]:
    """Many queries at once, exact: against FAISS's flat index at its best settings."""
    for memories in memories_of(settings, count, ("clustered", "spectrum", "real")):
        parts = asked(memories.queries, min(at_once, len(memories.queries)))
        queries = parts[0]
        index = flat(memories.rows)
        chosen, best, slow = best_flat(index, parts)
        contenders = [Contender(OURS, search_of(memories.engine), "exact, fused"), *chosen]
        contenders.append(numpy_fused(memories))
        answer = memories.exact(queries)
        found = memories.engine.search(queries, K, now=NOW)
        taken = interleave(tasks_of(contenders, parts), seconds=settings.seconds)
        lines = lines_of(taken, OURS, {each.name: each.note for each in contenders})
        ours = lines[0].seconds.median
        for each, seconds in slow:
            once = Spread(seconds, seconds, seconds)
            times = Spread(*[seconds / ours] * 3)
            lines.append(Line(each.name, once, times, note=f"{each.note}; one call only"))
        target = 5.0 if "amx" in _level() else 2.5
        yield Finding(
            row,
            f"{len(queries)} queries at once, {memories.title}",
            lines,
            [Reach(f"times faster than {best}", target, ratios(taken[best], taken[OURS]))],
            agreed=memories.agrees(found, answer)
            and plain_agrees(memories.engine, index, queries[:16]),
            notes=numbers(taken, memories.engine),
        )


def approximate(settings: Settings, row: str, count: int) -> Iterator[Finding]:
    """One query at a time, approximately: against our own exact search, beside the peers."""
    names = settings.peers
    if names is None:  # graphs of many rows take long to build
        few = (settings.rows or count) <= 200_000
        names = [name for name in APPROXIMATE if few or name in ("ivf", "sq8", "pq")]
    if not hasattr(Engine, "build_partition"):
        print("this version has no approximate search of its own store", file=sys.stderr)
        return
    for memories in memories_of(settings, count, ("clustered", "spectrum", "real")):
        # One half is asked before, as a store in use would have been; the other half is measured.
        before, queries = np.array_split(memories.queries, 2)
        engine = memories.engine
        for query in before:
            engine.search(query, K, now=NOW, exact=False)
        engine.build_partition()
        contenders = [
            Contender(OURS, search_of(engine, exact=False), "exact=False"),
            Contender("Flashbulb, exact", search_of(engine, exact=True), "exact=True"),
        ]
        for peer in peers(names, memories, settings.cache, settings.threads):
            contenders += peer.contenders()
        answer = memories.exact(queries)
        qualities = {
            each.name: memories.quality(_ids(each.search, asked(queries, 1)), queries, answer)
            for each in contenders
        }
        found = engine.search(queries, K, now=NOW, exact=True)
        few_queries = asked(queries[: settings.queries], 1)
        taken = interleave(tasks_of(contenders, few_queries), seconds=settings.seconds)
        own = qualities[OURS]
        yield Finding(
            row,
            memories.title,
            lines_of(taken, OURS, {each.name: each.note for each in contenders}, qualities),
            [
                Reach(
                    "times faster than our own exact search",
                    5.0,
                    ratios(taken["Flashbulb, exact"], taken[OURS]),
                ),
                Reach("recall of the exact fused top 10", 0.99, Spread(*[own.recall] * 3)),
                Reach("recall of its flashbulbs", 1.0, Spread(*[own.flashbulbs] * 3)),
            ],
            agreed=memories.agrees(found, answer),
            notes=[
                f"path {engine.path}, SIMD level {_level()}, {len(queries)} queries for recalls",
                str(engine.partition),
                "Peers fetch by similarity; their candidates are then ranked by the fused score.",
            ],
        )


def threads(settings: Settings, row: str, count: int, target: float) -> Iterator[Finding]:
    """Large scans on two threads and on one."""
    memories = next(memories_of(settings, count, ("spectrum",)))
    engine = memories.engine
    cases = {
        "1 query": asked(memories.queries[: settings.queries], 1),
        "256 queries": asked(memories.queries, min(256, len(memories.queries))),
    }
    names = {1: "1 thread", 2: "2 threads"}
    try:
        for case, parts in cases.items():
            answers = []
            tasks = []
            for number, name in names.items():
                flashbulb.set_threads(number)
                answers.append(engine.search(parts[0], K, now=NOW))
                task = tasks_of([Contender(name, search_of(engine))], parts)[0]
                tasks.append(replace(task, prepare=partial(flashbulb.set_threads, number)))
            if len(parts[0]) == 1:
                tasks += [
                    Task(f"reading the same bytes, {name}", Reader(scanned_bytes(engine), number))
                    for number, name in names.items()
                ]
            taken = interleave(tasks, seconds=settings.seconds)
            gain = ratios(taken["1 thread"], taken["2 threads"])
            yield Finding(
                row,
                f"{case}, {memories.title}",
                lines_of(taken, "2 threads"),
                [Reach("times faster with 2 threads", target, gain)],
                agreed=all(map(np.array_equal, *answers)),
                notes=[f"path {engine.path}, SIMD level {_level()}"],
            )
    finally:
        flashbulb.set_threads(settings.threads)


def _ids(search: Callable[[Vectors], Any], parts: list[Vectors]) -> NDArray[np.int64]:
    return np.concatenate([search(part) for part in parts])


def _of_limit(taken: dict[str, NDArray[np.float64]]) -> str:
    spread = ratios(taken[OURS], taken[READ_OURS])
    return f"Flashbulb takes {spread.median:.2f} of the time of reading what it scans"


def use_threads(count: int) -> None:
    """Flashbulb's and FAISS's threads; those of BLAS come from the environment."""
    flashbulb.set_threads(count)
    faiss.omp_set_num_threads(count)
