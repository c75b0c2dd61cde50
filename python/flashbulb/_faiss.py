"""The rows of an engine: FAISS indexes of its own or one that a caller handed in, and their sketch.

Only this file, ``_attach.py`` and ``_attached.py`` know FAISS.
"""

from __future__ import annotations

import contextlib
from typing import Any, Literal, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb._attach import attach
from flashbulb._attached import Attached, GraphRows, ListRows, overwrite
from flashbulb._partition import Lists

__all__ = ["SearchPath", "StorageKind", "VectorRows", "segment_rows"]

SearchPath = Literal["auto", "fp32", "int8", "int4"]
"""What a search reads first: the rows, both planes of their sketch, one, or what pays."""

StorageKind = Literal["fp32", "fp16"]
"""How a store of our own keeps its rows: as they are, or as IEEE halves."""

_SEGMENT_BYTES = 1 << 24  # to fill them with zeros, as FAISS does, takes some 15 ms
_BLOCK_ROWS = 256  # of a search

# From how many rows on a search gains by the sketch: at once where the processor multiplies bytes,
# later where the bytes saved must pay for the arithmetic.
_SKETCH_FROM_ROWS = {"base": 8192, "v3": 2048, "v4": 1024}
_SKETCH_FROM_ROWS_WITH_VNNI = 256

# Of a graph: how many rows it is asked for.
_CANDIDATES_PER_HIT = 4
_LEAST_CANDIDATES = 64

# A step in a graph takes longer than to look at so many rows one after the other.
_ROWS_PER_STEP = 16


def segment_rows(row_bytes: int) -> int:
    """Rows of one FAISS index of a store of our own: a full one never grows, moves or is copied."""
    return max(1, _SEGMENT_BYTES // (_BLOCK_ROWS * row_bytes)) * _BLOCK_ROWS


class VectorRows:
    """Unit rows in the storage of FAISS, in the order of their ids.

    Unless ``path`` is "fp32", or "auto" and they are few, a sketch of them is kept as well.

    Not synchronised; a view is valid until the next change.
    """

    def __init__(
        self,
        storage: OwnRows | Attached,
        path: SearchPath = "auto",
        sketch: _core.Sketch | None = None,
    ) -> None:
        self.storage = storage
        self.sketch = sketch
        self.lists: Lists | None = None
        """Lists of rows for approximate searches; the rows that are in none are the last ones."""
        self.generation = 0
        """Another one when rows change their numbers or vectors."""
        self._path = path
        self._extend_sketch()
        if isinstance(storage, ListRows) and (centroids := storage.centroids()) is not None:
            native = _core.Partition(centroids, storage.ranks_by_l2)
            native.append(storage.list_numbers(0))
            self.lists = Lists(native)

    @classmethod
    def own(cls, dim: int, *, kind: StorageKind = "fp32", path: SearchPath = "auto") -> VectorRows:
        """No rows yet, in segments of our own."""
        return cls(OwnRows(dim, kind), path)

    @classmethod
    def stored(cls, rows: NDArray[np.float32], sketch: _core.Sketch | None) -> VectorRows:
        """Unit rows of a snapshot, which belong to us from now on, and their sketch."""
        storage = OwnRows(rows.shape[1])
        storage.take(rows)
        return cls(storage, sketch=sketch)

    @classmethod
    def attach(cls, index: Any, *, path: SearchPath = "auto") -> VectorRows:
        """Rows of a caller's index, which belongs to us from now on.

        Raises
        ------
        TypeError, ValueError
            As :func:`flashbulb._attach.attach` says.
        """
        return cls(attach(index), path)

    @property
    def dim(self) -> int:
        return self.storage.format.dim

    @property
    def path(self) -> SearchPath:
        """What a search reads first now."""
        if self.sketch is None:
            return "fp32"
        return cast(SearchPath, _core.resolve_path(self._path, len(self)))

    @property
    def ids(self) -> NDArray[np.int64] | None:
        """Ids that the rows of a caller's index came with, ascending; None: 0, 1, 2 ..."""
        return self.storage.ids

    @property
    def divisible(self) -> bool:
        """Whether lists of our own may be made of the rows."""
        return not isinstance(self.storage, (ListRows, GraphRows))

    def __len__(self) -> int:
        return len(self.storage)

    def view(self) -> _core.VectorView:
        """Where the rows lie now."""
        return self.storage.view()

    def append(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        """Adds unit rows, (n, dim) float32, with ids above all others: all of them or none."""
        before = len(self)
        self.storage.append(rows, ids)
        try:
            self._extend_sketch()
            if isinstance(self.storage, ListRows) and self.lists is not None:
                self.lists.native.append(self.storage.list_numbers(before))
        except BaseException:  # out of memory
            self.truncate(before)
            raise

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Overwrites what is stored of rows with zeros."""
        self.storage.clear(rows)
        if self.sketch is not None:
            self.sketch.update(self.view(), rows)

    def replace(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32], ids: NDArray[np.int64]
    ) -> None:
        """Gives rows (ascending, with these ids) other unit vectors: all of them or none."""
        self.generation += 1
        self.storage.replace(rows, vectors, ids)
        if self.sketch is not None:
            self.sketch.update(self.view(), rows)
        lists, self.lists = self.lists, None
        with contextlib.suppress(MemoryError):  # without lists, searches read all rows
            if lists is not None:
                if isinstance(self.storage, ListRows):
                    lists.assign(self.storage.list_numbers(0), l2=self.storage.ranks_by_l2)
                else:
                    lists.move(rows, vectors)
                self.lists = lists

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drops all rows but the kept ones (ascending), which move to the front in their order."""
        self.generation += 1
        self.storage.keep(kept)
        # The rows have moved: without room for lists or a sketch, searches read all of them, until
        # the next change.
        lists, self.lists, self.sketch = self.lists, None, None
        with contextlib.suppress(MemoryError):
            if lists is not None:
                lists.native.keep(kept)
                self.lists = lists
            self._extend_sketch()

    def truncate(self, count: int) -> None:
        """Drops the rows from ``count`` on."""
        self.generation += 1
        self.storage.truncate(count)
        if self.sketch is not None:
            self.sketch.truncate(count)
        if self.lists is not None:
            self.lists.native.truncate(count)

    def nearby(self, queries: NDArray[np.float32], k: int) -> list[dict[str, Any]]:
        """Where approximate searches for k memories look: arguments of ``_core.search``, once for
        all queries, or for each. None at all: everywhere.
        """
        if self.lists is not None:
            if isinstance(self.storage, ListRows):
                self.lists.least = self.storage.probes
            return [self.lists.arguments(k)]
        if not isinstance(self.storage, GraphRows):
            return []
        count = max(_CANDIDATES_PER_HIT * k, _LEAST_CANDIDATES)
        if self.storage.steps(count) * _ROWS_PER_STEP > len(self):
            return []
        found = [self.storage.candidates(query, count) for query in queries]
        return [{"candidates": rows, "least_candidates": min(2 * k, len(rows))} for rows in found]

    def _extend_sketch(self) -> None:
        sketch = self.sketch
        if sketch is None:
            enough = _SKETCH_FROM_ROWS.get(_core.simd_level(), _SKETCH_FROM_ROWS_WITH_VNNI)
            if self._path == "fp32" or (self._path == "auto" and len(self) < enough):
                return
            sketch = _core.Sketch(self.dim)
        sketch.extend(self.view())
        self.sketch = sketch


class OwnRows:
    """Rows in FAISS indexes of ``segment_rows`` rows each, of which the last one grows.

    Before them may be rows of a snapshot: FAISS never sees those, which may lie in a mapped file.
    """

    ids: NDArray[np.int64] | None = None
    compacts_quickly = True

    def __init__(self, dim: int, kind: StorageKind = "fp32") -> None:
        self.kind = kind
        self.format = _core.RowFormat(dim, "float32" if kind == "fp32" else "float16")
        self._segment_rows = segment_rows(self.format.row_bytes)
        self._stored: NDArray[np.float32] = np.empty((0, dim), np.float32)
        self._indexes: list[Any] = []
        self._full: list[tuple[int, int, int]] = []  # address, first row, rows: of full indexes
        self._rows = 0
        self._view: _core.VectorView | None = None

    def __len__(self) -> int:
        return self._rows

    @property
    def memory_bytes(self) -> int:
        """Bytes of the stored rows, without what a segment reserves."""
        return self._rows * self.format.row_bytes

    @property
    def structure_bytes(self) -> int:
        """0: there is nothing beside the rows."""
        return 0

    def view(self) -> _core.VectorView:
        """Where the rows lie now."""
        if self._view is None:
            stored = len(self._stored)
            segments = self._full.copy()
            first = stored + len(segments) * self._segment_rows
            for index in self._indexes[len(segments) :]:
                count = int(index.ntotal)
                segments.append((int(index.codes.data()), first, count))
                first += count
            self._full = segments[: (self._rows - stored) // self._segment_rows]
            if stored:
                segments.insert(0, (self._stored.ctypes.data, 0, stored))
            self._view = _core.VectorView(segments, self.format)
        return self._view

    def take(self, rows: NDArray[np.float32]) -> None:
        """Rows of a snapshot, (n, dim), as the first ones: whoever else has them must not change
        them."""
        if self._rows or self.kind != "fp32":
            raise ValueError("rows of a snapshot are the first ones, and fp32")
        self._stored = rows
        self._rows = len(rows)
        self._view = None

    def append(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        """Adds unit rows, (n, dim) float32: all of them or none."""
        before = self._rows
        self._view = None
        try:
            done = 0
            while done < len(rows):
                index = self._open_segment()
                part = rows[done : done + self._segment_rows - index.ntotal]
                index.add(part)
                done += len(part)
            self._rows = before + len(rows)
        except BaseException:  # out of memory
            self.truncate(before)
            raise

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Overwrites what is stored of rows with zeros."""
        self.view().clear(rows)

    def replace(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32], ids: NDArray[np.int64]
    ) -> None:
        """Overwrites rows with unit vectors."""
        places = rows - len(self._stored)
        self._stored[rows[places < 0]] = vectors[places < 0]
        numbers = places // self._segment_rows
        for number in np.unique(numbers[places >= 0]).tolist():
            inside = numbers == number
            overwrite(self._indexes[number], places[inside] % self._segment_rows, vectors[inside])

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drops all rows but the kept ones (ascending), which move to the front in their order."""
        self.view().keep(kept)
        self.truncate(len(kept))

    def truncate(self, count: int) -> None:
        """Drops the rows from ``count`` on."""
        self._view = None
        self._full = []
        self._stored = self._stored[:count]
        left = count - len(self._stored)
        for index in self._indexes:
            rows = min(int(index.ntotal), left)
            left -= rows
            index.ntotal = rows
            index.codes.resize(rows * self.format.row_bytes)
        self._indexes = [index for index in self._indexes if index.ntotal]
        self._rows = count

    def _open_segment(self) -> Any:
        if self._indexes and self._indexes[-1].ntotal < self._segment_rows:
            return self._indexes[-1]
        index: Any
        if self.kind == "fp32":
            index = faiss.IndexFlatIP(self.format.dim)
        else:
            index = faiss.IndexScalarQuantizer(
                self.format.dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
            )
        if self._indexes:
            # A large store reserves whole segments, so that its rows never move; a small one (of
            # which a process may hold thousands) grows its only segment by doubling.
            index.codes.resize(self._segment_rows * self.format.row_bytes)
            index.codes.resize(0)
        self._indexes.append(index)
        return index
