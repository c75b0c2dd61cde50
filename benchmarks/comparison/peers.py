"""Flashbulb's contenders: the same questions asked to other libraries over the same rows.

An index that ranks by similarity alone fetches more than k, and its candidates are then ranked by
the fused score, as an application would do it; that is part of its time.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from .data import Vectors
from .memories import DAY, NOW, K, Memories

__all__ = [
    "APPROXIMATE",
    "Contender",
    "Published",
    "augmented",
    "flat",
    "flat_search",
    "flat_variants",
    "numpy_fused",
    "peers",
]

Ids = NDArray[np.int64]

FETCH = (100, 1000)


@dataclass
class Contender:
    """Something that answers queries (m, d) with ids (m, k)."""

    name: str
    search: Callable[[Vectors], Ids]
    note: str = ""
    scale: float = 1.0


# -- Exact by similarity, or by the fused score --------------------------------------------------


def flat(rows: Vectors) -> Any:
    """A FAISS flat index of the rows."""
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def flat_search(
    index: Any, blas_from: int | None = None, block: int | None = None
) -> Callable[[Vectors], Ids]:
    """Search of a flat index, with FAISS's own settings for batches or with others."""
    if blas_from is None:
        return lambda queries: index.search(queries, K)[1]  # type: ignore[no-any-return]
    settings = faiss.cvar
    default = (settings.distance_compute_blas_threshold, settings.distance_compute_blas_query_bs)

    def search(queries: Vectors) -> Ids:
        settings.distance_compute_blas_threshold = blas_from
        settings.distance_compute_blas_query_bs = block or default[1]
        try:
            found: Ids = index.search(queries, K)[1]
        finally:
            settings.distance_compute_blas_threshold = default[0]
            settings.distance_compute_blas_query_bs = default[1]
        return found

    return search


def flat_variants(index: Any, queries: int) -> list[Contender]:
    """A flat index as it comes, and with each setting that may make it faster."""
    variants = [Contender("faiss.IndexFlatIP", flat_search(index), "similarity only")]
    tried: list[tuple[int, int | None]] = [(1, None), (1_000_000, None)]
    if queries > 1:
        tried += [(1, 64), (1, 256)]
    for blas_from, block in tried:
        how = "with BLAS" if blas_from == 1 else "without BLAS"
        how += "" if block is None else f", blocks of {block}"
        variants.append(
            Contender(
                f"faiss.IndexFlatIP, {how}",
                flat_search(index, blas_from, block),
                "similarity only",
            )
        )
    return variants


def augmented(memories: Memories) -> Contender:
    """A flat index with the bonus in one more dimension, for queries with a 1 there."""
    bonus = (memories.vivid + memories.recent).astype(np.float32)
    index = flat(np.hstack([memories.rows, bonus[:, None]]))
    search = flat_search(index)
    return Contender(
        "faiss.IndexFlatIP, d + 1",
        lambda queries: search(np.hstack([queries, np.ones((len(queries), 1), np.float32)])),
        "bonus as a dimension: exact without ramps only, for one moment",
    )


def numpy_fused(memories: Memories) -> Contender:
    """The whole fused score of all rows in NumPy, bonus included: float32, but for the bonus."""
    columns, policy, rows = memories.columns, memories.policy, memories.rows
    days = ((NOW - columns["vividness_time"]) / DAY).astype(np.float32)
    latest = np.fmax(columns["created"], columns["last_access"])
    recency_days = ((NOW - latest) / DAY).astype(np.float32)
    salience = columns["salience"].astype(np.float32)
    rate = np.where(columns["pinned"], 0, -0.1 * (1 - 0.5 * salience)).astype(np.float32)
    anchor = columns["vividness"].astype(np.float32)
    floor = columns["floor"].astype(np.float32)
    is_open = columns["status"] == 1
    urgency = np.where(is_open, columns["urgency"], 0).astype(np.float32)
    counted = np.maximum(salience, np.float32(policy.open_task_salience) * urgency)
    shift = np.float32(policy.open_task_boost) * urgency

    def scaled(similarities: Vectors, bonus: Vectors, start: float, end: float) -> Any:
        if not end > start:
            return bonus
        factor = similarities - np.float32(start)
        factor *= np.float32(1 / (end - start))
        np.clip(factor, 0, 1, out=factor)
        factor *= bonus
        return factor

    def search(queries: Vectors) -> Ids:
        vivid = np.exp(rate * days)
        vivid *= anchor
        np.maximum(vivid, floor, out=vivid)
        vivid += shift
        np.minimum(vivid, 1, out=vivid)
        vivid *= np.float32(policy.vividness_weight) * counted
        recent = np.exp(recency_days * np.float32(-1 / policy.recency_days))
        recent *= np.float32(policy.recency_weight)
        found = np.empty((len(queries), K), np.int64)
        for start in range(0, len(queries), 16):
            similarities = queries[start : start + 16] @ rows.T
            scores = scaled(
                similarities, vivid, policy.vividness_ramp_start, policy.vividness_ramp_end
            )
            scores = scores + similarities
            scores += scaled(
                similarities, recent, policy.recency_ramp_start, policy.recency_ramp_end
            )
            best = np.argpartition(scores, -K, axis=1)[:, -K:]
            order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
            found[start : start + 16] = np.take_along_axis(best, order, axis=1)
        return found

    return Contender("NumPy, fused", search, "float32")


class Published:
    """The published way: one memory after the other, in Python. Over the first rows only."""

    def __init__(self, memories: Memories, sample: int = 10_000) -> None:
        count = min(sample, len(memories.rows))
        columns = memories.columns
        self._memories = [
            (i, row, float(v), float(s), float(d))
            for i, row, v, s, d in zip(
                range(count),
                memories.rows[:count],
                memories.engine.vividness(np.arange(count), now=NOW, effective=True),
                columns["salience"],
                (NOW - np.fmax(columns["created"], columns["last_access"])) / DAY,
                strict=False,
            )
        ]
        self.contender = Contender(
            "published Python loop",
            self.search,
            f"{count:,} rows, scaled; without ramps",
            len(memories.rows) / count,
        )

    def search(self, queries: Vectors) -> Ids:
        found = np.empty((len(queries), K), np.int64)
        for place, query in enumerate(queries):
            scored = []
            for number, vector, vividness, salience, days in self._memories:
                similarity = float(np.dot(query, vector))
                score = similarity + 0.3 * vividness * salience + 0.1 * math.exp(-days / 30)
                scored.append((score, number))
            found[place] = [number for _, number in heapq.nlargest(K, scored)]
        return found


# -- Approximate ---------------------------------------------------------------------------------


class Index:
    """A peer's index over the rows of some memories; made once, or read from the cache."""

    name = ""
    suffix = "faiss"
    fetch = FETCH
    settings: tuple[int, ...] = (0,)
    setting = ""

    def __init__(self, memories: Memories, cache: Path | None, threads: int) -> None:
        self.memories = memories
        self.threads = threads
        self._file = None
        if cache is not None:
            rows = memories.rows
            mark = f"{float(np.abs(rows[:: max(1, len(rows) // 100)]).sum()):.6f}"
            self._file = cache / f"{type(self).__name__}-{len(rows)}-{mark}.{self.suffix}"

    @cached_property
    def index(self) -> Any:
        if self._file is not None and self._file.exists():
            return self.load(str(self._file))
        index = self.build()
        if self._file is not None:
            self.save(index, str(self._file))
        return index

    def build(self) -> Any:
        raise NotImplementedError

    def save(self, index: Any, path: str) -> None:
        faiss.write_index(index, path)

    def load(self, path: str) -> Any:
        return faiss.read_index(path)

    def candidates(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        """Ids (m, fetch) by similarity, -1 where there is none."""
        found: Ids = self.index.search(queries, fetch)[1]
        return found

    def contenders(self) -> list[Contender]:
        assert self.index is not None  # built before anything is timed
        made = []
        for fetch in self.fetch:
            for value in self.settings:
                how = f", {self.setting} {value}" if self.setting else ""
                made.append(
                    Contender(
                        f"{self.name}{how}, fetch {fetch}",
                        lambda q, fetch=fetch, value=value: self.search(q, fetch, value),
                    )
                )
        return made

    def search(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        memories = self.memories
        found = np.empty((len(queries), K), np.int64)
        fetch = min(fetch, len(memories.rows))
        for place, ids in enumerate(self.candidates(queries, fetch, setting)):
            rows = ids[ids >= 0].astype(np.int64)
            scores = memories.scores(memories.rows[rows] @ queries[place], rows)
            best = rows[np.argsort(-scores)[:K]]
            found[place] = -1
            found[place, : len(best)] = best
        return found


class Inverted(Index):
    name = "faiss.IndexIVFFlat"
    setting = "nprobe"
    settings = (8, 32)

    def build(self) -> Any:
        rows = self.memories.rows
        lists = max(1, min(int(4 * math.sqrt(len(rows))), len(rows) // 39))
        index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(rows.shape[1]), rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT
        )
        _train(index, rows, 64 * lists, self.threads)
        return index

    def candidates(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        self.index.nprobe = setting
        return super().candidates(queries, fetch, setting)


class ScalarQuantized(Index):
    name = "faiss SQ8"

    def build(self) -> Any:
        rows = self.memories.rows
        index = faiss.IndexScalarQuantizer(
            rows.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        _train(index, rows, 100_000, self.threads)
        return index


class FastScan(Index):
    name = "faiss PQ FastScan"

    def build(self) -> Any:
        rows = self.memories.rows
        dim = rows.shape[1]
        parts = next(dim // size for size in (4, 3, 2, 1) if dim % size == 0)
        index = faiss.IndexPQFastScan(dim, parts, 4, faiss.METRIC_INNER_PRODUCT)
        _train(index, rows, 20_000, self.threads)
        return index


class Graph(Index):
    name = "faiss.IndexHNSWFlat"
    setting = "ef"
    settings = (128,)
    fetch = (100,)

    def build(self) -> Any:
        rows = self.memories.rows
        index = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        _train(index, rows, 0, self.threads)
        return index

    def candidates(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        self.index.hnsw.efSearch = setting
        return super().candidates(queries, fetch, setting)


class Usearch(Index):
    name = "usearch"
    suffix = "usearch"
    setting = "ef"
    settings = (128,)
    fetch = (100,)

    def _empty(self) -> Any:
        from usearch.index import Index as UsearchIndex

        return UsearchIndex(
            ndim=self.memories.rows.shape[1], metric="ip", dtype="f32", expansion_search=128
        )

    def build(self) -> Any:
        index = self._empty()
        index.add(np.arange(len(self.memories.rows)), self.memories.rows, threads=2)
        return index

    def save(self, index: Any, path: str) -> None:
        index.save(path)

    def load(self, path: str) -> Any:
        index = self._empty()
        index.load(path)
        return index

    def candidates(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        keys = self.index.search(queries, fetch, threads=self.threads).keys
        found: Ids = np.atleast_2d(keys).astype(np.int64)
        return found


class Hnswlib(Index):
    name = "hnswlib"
    suffix = "hnswlib"
    setting = "ef"
    settings = (128,)
    fetch = (100,)

    def build(self) -> Any:
        import hnswlib

        rows = self.memories.rows
        index = hnswlib.Index(space="ip", dim=rows.shape[1])
        index.init_index(max_elements=len(rows), ef_construction=100, M=16)
        index.add_items(rows, num_threads=2)
        return index

    def save(self, index: Any, path: str) -> None:
        index.save_index(path)

    def load(self, path: str) -> Any:
        import hnswlib

        index = hnswlib.Index(space="ip", dim=self.memories.rows.shape[1])
        index.load_index(path, max_elements=len(self.memories.rows))
        return index

    def candidates(self, queries: Vectors, fetch: int, setting: int) -> Ids:
        self.index.set_ef(max(setting, fetch))
        found: Ids = self.index.knn_query(queries, fetch, num_threads=self.threads)[0]
        return found.astype(np.int64)


APPROXIMATE: dict[str, type[Index]] = {
    "ivf": Inverted,
    "sq8": ScalarQuantized,
    "pq": FastScan,
    "hnsw": Graph,
    "usearch": Usearch,
    "hnswlib": Hnswlib,
}
_NEEDS = {"usearch", "hnswlib"}


def peers(names: list[str], memories: Memories, cache: Path | None, threads: int) -> list[Index]:
    """The approximate peers of these names that are installed."""
    return [
        APPROXIMATE[name](memories, cache, threads)
        for name in names
        if name not in _NEEDS or find_spec(name) is not None
    ]


def _train(index: Any, rows: Vectors, sample: int, threads: int) -> None:
    """Trains on a sample (if there is anything to train) and adds, with all threads."""
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    try:
        if not index.is_trained:
            step = max(1, len(rows) // sample)
            index.train(np.ascontiguousarray(rows[::step]))
        index.add(rows)
    finally:
        faiss.omp_set_num_threads(threads)
