"""The partition of a large store: how it is made, beside the searches and changes that go on.

The rows of a store are put into lists around centroids (spherical k-means, a fresh sample for each
round), each into the two nearest: a neighbour beyond a border is found from both sides. How many
rows a search must look at is measured on the store itself: the queries that came last are asked
again, exactly, and the lists that hold what they find are counted. Where there were no queries yet,
rows of the store stand in for them.

Everything is done in short steps. A step holds the engine's lock as a reader, or as a writer for
the moment in which something is put in place; nothing else waits.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb import _core

if TYPE_CHECKING:
    from flashbulb.engine import Engine

__all__ = ["PARTITION_FROM_ROWS", "Growth", "Lists", "Partition", "build"]

PARTITION_FROM_ROWS = 200_000
"""From how many rows on a store makes a partition by itself: an exact search of fewer takes less
than about 5 ms."""

_LISTS_PER_ROOT = 4.0  # lists, per square root of the number of rows
_LISTS_OF_A_ROW = 2
_SAMPLE_PER_LIST = 32
_LARGEST_SAMPLE = 65_536
_ROUNDS = 12
_MEMORY = 0.7  # weight of the samples of earlier rounds, from one round to the next
_STEP_ROWS = 2048  # read under one lock
_TAIL_ROWS = 8192  # rows in no list, from which on they are put into lists
_RETRAIN_GROWTH = 2.0  # how often as many rows as at the training lead to a new one
_CALIBRATION_QUERIES = 256
_CALIBRATION_STEP = 16
_FEWEST_QUERIES = 64  # of users; with fewer, rows of the store are asked for
_CALIBRATED_K = (10, 100, 1000)
_WANTED_RECALL = 0.9925  # of the exact top k, on average


class Partition(NamedTuple):
    """How an engine is divided for approximate searches."""

    lists: int
    """Around so many centroids."""
    rows: int
    """In them; rows that came later are all looked at."""
    searched_rows: int
    """In the lists that a search for 10 memories looks at; most are in two lists and count twice
    if it looks at both."""


class Lists:
    """Lists of rows, and how many of them a search needs.

    Parameters
    ----------
    native : _core.Partition
    least : int
        A search looks at so many lists at least.
    wanted : ((k, rows), ...)
        A search for k memories looks at lists that hold this many rows; k ascending. Measured
        when the lists held ``trained_rows``; with the lists it grows.
    trained_rows : int
        Rows of the store when the centroids were made.
    """

    def __init__(
        self,
        native: _core.Partition,
        *,
        least: int = 1,
        wanted: tuple[tuple[int, int], ...] = (),
        trained_rows: int = 0,
    ) -> None:
        self.native = native
        self.least = least
        self.wanted = wanted
        self.trained_rows = trained_rows

    def wanted_rows(self, k: int) -> int:
        """In how many rows the k best of all are looked for."""
        if not self.wanted:
            return k
        measured, rows = next((each for each in self.wanted if k <= each[0]), self.wanted[-1])
        growth = len(self.native) / max(1, self.trained_rows)
        return max(k, int(rows * growth * max(1.0, k / measured)))

    def describe(self) -> Partition:
        """What a user may know of it."""
        rows = len(self.native)
        wanted = max(self.wanted_rows(10), self.least * rows // self.native.lists)
        return Partition(self.native.lists, rows, min(wanted, rows))

    def move(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Puts rows that got other vectors into the lists near these. All lists are written anew,
        which takes some 30 ms for 200,000 rows."""
        listed = rows < len(self.native)
        if listed.any():
            in_lists, entries = self.native.entries()
            lists_of = in_lists[np.argsort(entries, kind="stable")].reshape(len(self.native), -1)
            find = _Finder(self.native.centroids)
            lists_of[rows[listed]] = find(vectors[listed], lists_of.shape[1])
            self.assign(lists_of)

    def assign(self, lists_of: NDArray[np.uint32], *, l2: bool = False) -> None:
        """Takes other lists for all rows, (rows, lists of a row); ``l2`` as of the partition."""
        native = _core.Partition(self.native.centroids, l2)
        native.append(lists_of)
        self.native = native

    def arguments(self, k: int) -> dict[str, Any]:
        """Where a search for k memories looks, for ``_core.search``."""
        return {
            "partition": self.native,
            "least_lists": self.least,
            "wanted_rows": self.wanted_rows(k),
        }


class Stopped(Exception):
    """The engine is gone, or its rows were renumbered meanwhile."""


class Growth:
    """Makes and extends the partition of one engine on a thread of its own, when that is due."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked: deque[NDArray[np.float32]] = deque(maxlen=_CALIBRATION_QUERIES)

    def note(self, queries: NDArray[np.float32]) -> None:
        """Remembers what was asked, (m, dim) unit rows."""
        self._asked.extend(queries[-_CALIBRATION_QUERIES:].copy())

    def asked(self) -> NDArray[np.float32] | None:
        """The queries that came last, (m, dim); None: too few to tell anything."""
        asked = list(self._asked)
        return np.array(asked) if len(asked) >= _FEWEST_QUERIES else None

    def look_at(self, engine: Engine) -> None:
        """Starts the thread if the engine has grown enough. Cheap; called after every change."""
        if not _is_due(engine) or (self._thread is not None and self._thread.is_alive()):
            return
        with self._starting:
            if self._thread is not None and self._thread.is_alive():
                return
            thread = threading.Thread(
                target=_grow, args=(weakref.ref(engine),), name="flashbulb-partition", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # no more threads: the next change tries again
                thread.start()
                self._thread = thread

    def wait(self) -> None:
        """Until what is under way is done."""
        thread = self._thread
        if thread is not None:
            thread.join()


def _is_due(engine: Engine) -> bool:
    rows = engine._rows
    if len(rows) < PARTITION_FROM_ROWS:
        return False
    lists = rows.lists
    return (
        lists is None
        or len(rows) - len(lists.native) >= _TAIL_ROWS
        or len(rows) >= _RETRAIN_GROWTH * lists.trained_rows
    )


def _grow(reference: weakref.ref[Engine]) -> None:
    while True:
        engine = reference()
        if engine is None or not _is_due(engine):
            return
        lists = engine._rows.lists
        trained = lists is not None and len(engine._rows) < _RETRAIN_GROWTH * lists.trained_rows
        steps = _extend(reference) if trained else build(reference)
        del engine, lists
        try:
            for _ in steps:
                pass
        except Stopped:
            continue  # with what the engine is now, if it is
        except MemoryError:
            return  # the next change tries again


def _held(reference: weakref.ref[Engine], generation: int | None = None) -> Engine:
    engine = reference()
    if engine is None or generation not in (None, engine._rows.generation):
        raise Stopped
    return engine


def build(reference: weakref.ref[Engine]) -> Iterator[str]:
    """Makes a partition and puts it in place; yields between two steps.

    Raises
    ------
    Stopped
        If the engine is gone or its rows were renumbered.
    """
    engine = _held(reference)
    random = np.random.default_rng(0)
    with engine._reading():
        generation = engine._rows.generation
        live = engine._traces.table.live_rows()
        trained_rows = len(engine._rows)
        if len(live) == 0:
            return
        count = max(1, min(int(_LISTS_PER_ROOT * len(live) ** 0.5), len(live)))
        size = min(len(live), max(count, min(_SAMPLE_PER_LIST * count, _LARGEST_SAMPLE)))
        first = np.sort(random.choice(live, count, replace=False))
        centroids = engine._rows.view().read(first)
    del engine
    sums = np.zeros(centroids.shape, np.float64)
    for _ in range(_ROUNDS):
        chosen = np.sort(random.choice(live, size, replace=False))
        finder = _Finder(centroids)
        sums *= _MEMORY
        for start in range(0, size, _STEP_ROWS):
            sample = _read(reference, generation, chosen[start : start + _STEP_ROWS])
            _add(sums, finder(sample, 1)[:, 0], sample)
            yield "training"
        centroids = _directions(sums, sample, random)
    native = _core.Partition(centroids)
    finder = _Finder(centroids)
    while True:
        done = len(native)
        rows = np.arange(done, min(done + _STEP_ROWS, len(_held(reference)._rows)))
        if len(rows) == 0:
            break
        native.append(finder(_read(reference, generation, rows), _LISTS_OF_A_ROW))
        yield "lists"
    lists = Lists(native, trained_rows=trained_rows)
    yield from _calibrate(reference, generation, lists, random)
    engine = _held(reference)
    with engine._writing():
        _held(reference, generation)
        engine._rows.lists = lists


def _extend(reference: weakref.ref[Engine]) -> Iterator[str]:
    """Puts the rows that are in no list yet into lists."""
    engine = _held(reference)
    with engine._reading():
        lists = engine._rows.lists
        generation = engine._rows.generation
        if lists is None:
            raise Stopped
    finder = _Finder(lists.native.centroids)
    del engine
    while True:
        done = len(lists.native)
        rows = np.arange(done, min(done + _STEP_ROWS, len(_held(reference)._rows)))
        if len(rows) == 0:
            return
        found = finder(_read(reference, generation, rows), _LISTS_OF_A_ROW)
        engine = _held(reference)
        with engine._writing():
            _held(reference, generation)
            lists.native.append(found)
        del engine
        yield "lists"


def _read(
    reference: weakref.ref[Engine], generation: int, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    engine = _held(reference)
    with engine._reading():
        _held(reference, generation)
        return engine._rows.view().read(rows)


class _Finder:
    """The nearest of some unit centroids: an exact search of a store that has only these."""

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        count, dim = centroids.shape
        self._centroids = centroids  # whose address the view has
        self._view = _core.VectorView(
            [(centroids.ctypes.data, 0, count)], _core.RowFormat(dim, "float32")
        )
        self._sketch = _core.Sketch(dim)
        self._sketch.extend(self._view)
        self._table = _core.TraceTable(_core.Policy())
        self._table.append(
            {
                "ids": np.arange(count),
                "access_count": np.zeros(count, np.int64),
                "status": np.zeros(count, np.uint8),
                "pinned": np.zeros(count, np.bool_),
                "urgency": np.full(count, np.nan),
                "last_access": np.full(count, np.nan),
                "last_strength_change": np.full(count, np.nan),
                **{
                    name: np.zeros(count)
                    for name in ("salience", "floor", "vividness", "vividness_time", "created")
                },
            },
            [],
        )

    def __call__(self, rows: NDArray[np.float32], count: int) -> NDArray[np.uint32]:
        """The nearest centroids of each row, (n, count), or (n, all) if they are fewer."""
        found = _core.search(
            view=self._view,
            traces=self._table,
            queries=rows,
            k=count,
            now=0.0,
            similarity_weight=1.0,
            vividness_weight=0.0,
            recency_weight=0.0,
            tags=(),
            unknown_tag=False,
            since=-np.inf,
            until=np.inf,
            time_exempt=None,
            status=None,
            allowed=None,
            addends=[],
            sketch=self._sketch,
        )
        return found[0].astype(np.uint32)


def _add(sums: NDArray[np.float64], nearest: NDArray[np.uint32], rows: NDArray[np.float32]) -> None:
    """Adds each row to the sum of its centroid."""
    order = np.argsort(nearest, kind="stable")
    found, starts = np.unique(nearest[order], return_index=True)
    sums[found] += np.add.reduceat(rows[order], starts, axis=0, dtype=np.float64)


def _directions(
    sums: NDArray[np.float64], rows: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float32]:
    """The sums scaled to unit length; any of the rows where there is none."""
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    some = norms[:, 0] > 1e-6  # else it has no rows, or they cancel each other
    sums[~some] = 0.0
    centroids = rows[random.choice(len(rows), len(sums))]
    centroids[some] = (sums[some] / norms[some]).astype(np.float32)
    return centroids


def _calibrate(
    reference: weakref.ref[Engine], generation: int, lists: Lists, random: np.random.Generator
) -> Iterator[str]:
    """Measures in how many rows the best of all are found."""
    native = lists.native
    engine = _held(reference)
    queries = engine._growth.asked()
    own = None  # the rows that stand in for queries; they find themselves
    with engine._reading():
        _held(reference, generation)
        table = engine._traces.table
        if queries is None:
            live = table.live_rows()
            own = np.sort(random.choice(live, min(_CALIBRATION_QUERIES, len(live)), replace=False))
            queries = engine._rows.view().read(own)
        weights = engine.policy.vividness_weight, engine.policy.recency_weight
        now = engine._traces.latest
        if not np.isfinite(now):  # no call has named a time yet
            now = float(table.export(table.live_rows())["created"].max())
        vivid = np.zeros(len(engine._rows), np.bool_)
        vivid[_core.vivid_rows(table, now, *weights)] = True
    in_lists, entries = native.entries()
    order = np.argsort(entries, kind="stable")  # by rows, all of which are in equally many lists
    lists_of = in_lists[order].reshape(len(native), -1)
    sizes = native.sizes()
    needed: dict[int, list[NDArray[np.int64]]] = {k: [] for k in _CALIBRATED_K}
    del engine, table
    for start in range(0, len(queries), _CALIBRATION_STEP):
        part = queries[start : start + _CALIBRATION_STEP]
        engine = _held(reference)
        ids = engine.search(part, max(_CALIBRATED_K) + 1, now=now, exact=True).ids
        with engine._reading():
            _held(reference, generation)
            found = engine._traces.table.find(ids.ravel()).reshape(ids.shape)
        del engine
        for i, (query, best) in enumerate(zip(part, found, strict=True)):
            best = best[(best >= 0) & (best < len(native))]
            if own is not None:
                best = best[best != own[start + i]]
            ranking = native.ranking(query)
            rows_to = np.empty(len(sizes), np.int64)
            rows_to[ranking] = np.cumsum(sizes[ranking])
            for k, counts in needed.items():
                inside = best[:k]
                counts.append(np.where(vivid[inside], 0, rows_to[lists_of[inside]].min(axis=1)))
        yield "calibration"
    lists.wanted = tuple(
        (k, int(np.quantile(np.concatenate(counts), _WANTED_RECALL, method="higher")))
        for k, counts in needed.items()
        if sum(map(len, counts))
    )
