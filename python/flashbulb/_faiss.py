"""The only place that knows FAISS: where the rows of a flat index lie, and how they change.

The core reads FAISS's own storage through plain addresses, without a copy. What makes that safe is
checked here: exact index types, sizes that fit together, and a row count nobody else has changed.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from flashbulb import _core

__all__ = ["SEGMENT_ROWS", "FlatRows", "SearchPath"]

SearchPath = Literal["auto", "fp32", "int8", "int4"]
"""What a search reads first: the rows, both planes of their sketch, one, or what pays."""

SEGMENT_ROWS = 65_536
"""Rows of one FAISS index of a store of our own: a full one never grows, moves or is copied."""

# Fewer rows cost little either way; the base level multiplies codes no faster than float32, and
# gains by the bytes alone.
_SKETCH_FROM_ROWS = 1024
_SKETCH_FROM_ROWS_AT_BASE = 8192

# Subclasses may lay their rows out differently and would pass isinstance.
_ACCEPTED = (faiss.IndexFlat, faiss.IndexFlatIP, faiss.IndexFlatL2)


class FlatRows:
    """Float32 unit rows in one FAISS flat index of the caller, or in segments of our own.

    Unless ``path`` is "fp32", or "auto" and they are few, a sketch of them is kept as well.

    Not synchronised; a view is valid until the next change.
    """

    def __init__(
        self, dim: int, *, path: SearchPath = "auto", index: Any = None, owner: Any = None
    ) -> None:
        self.dim = dim
        self.sketch: _core.Sketch | None = None
        self._path = path
        self._owner = owner  # the caller's object, with which FAISS would free the rows
        self._attached = index is not None
        self._indexes: list[Any] = [index] if self._attached else []
        self._rows = int(index.ntotal) if self._attached else 0
        self._view: _core.VectorView | None = None

    @classmethod
    def attach(cls, index: Any, *, path: SearchPath = "auto") -> FlatRows:
        """Rows of a caller's index, which belongs to us from now on.

        Raises
        ------
        TypeError
            If it is not a FAISS index, or not a flat one.
        ValueError
            If its metric is neither inner product nor L2, its storage is inconsistent or borrowed,
            or a row does not have unit norm within 1e-5.
        """
        if not isinstance(index, faiss.Index):
            raise TypeError(
                f"expected a number of dimensions or a FAISS index, got {type(index).__name__}"
            )
        flat: Any = faiss.downcast_index(index)  # whatever it is; its type is checked below
        # A subclass that FAISS cannot downcast to (IndexFlat1D, one in Python) has methods or
        # state that nobody would look after.
        kind = type(flat) if isinstance(flat, type(index)) else type(index)
        if kind not in _ACCEPTED:
            raise TypeError(
                "expected a faiss.IndexFlatIP or faiss.IndexFlatL2, got "
                f"{kind.__name__}, which this version cannot search"
            )
        if flat.metric_type not in (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2):
            raise ValueError(
                f"expected metric inner product or L2, got metric type {flat.metric_type}"
            )
        if not flat.codes.is_owned:
            raise ValueError("expected an index that owns its rows, got a mapped or viewed one")
        if flat.codes.size() != flat.ntotal * flat.d * 4:
            raise ValueError(
                f"the index claims {flat.ntotal} rows of {flat.d} float32 values, but holds "
                f"{flat.codes.size()} bytes"
            )
        # A downcast index does not keep its rows alive: the object that was handed in does.
        rows = cls(int(flat.d), path=path, index=flat, owner=index)
        bad = rows.view().first_row_not_unit()
        if bad < len(rows):
            raise ValueError(
                f"row {bad} of the index does not have unit norm within 1e-05; "
                "normalise the rows before handing the index over"
            )
        rows._extend_sketch()
        return rows

    def __len__(self) -> int:
        return self._rows

    @property
    def path(self) -> SearchPath:
        """What a search reads first now."""
        if self.sketch is None:
            return "fp32"
        return cast(SearchPath, _core.resolve_path(self._path, self._rows))

    def view(self) -> _core.VectorView:
        """Where the rows lie now."""
        if self._attached and self._indexes[0].ntotal != self._rows:
            raise RuntimeError(
                f"the attached FAISS index was changed outside the engine: expected "
                f"{self._rows} rows, got {self._indexes[0].ntotal}"
            )
        if self._view is None:
            segments = []
            first = 0
            for index in self._indexes:
                count = int(index.ntotal)
                if count:  # an empty index has no address
                    segments.append((int(index.get_xb()), first, count))
                first += count
            self._view = _core.VectorView(segments, _core.RowFormat(self.dim))
        return self._view

    def append(self, rows: NDArray[np.float32]) -> None:
        """Adds unit rows, (n, dim) float32."""
        self.view()  # refuses an index that was changed outside
        before = self._rows
        self._view = None
        try:
            if self._attached:
                self._indexes[0].add(rows)
            else:
                done = 0
                while done < len(rows):
                    index = self._open_segment()
                    part = rows[done : done + SEGMENT_ROWS - index.ntotal]
                    index.add(part)
                    done += len(part)
            self._rows = before + len(rows)
            self._extend_sketch()
        except BaseException:  # out of memory: all rows or none
            self.truncate(before)
            raise

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Overwrites rows with zeros."""
        view = self.view()
        view.clear(rows)
        if self.sketch is not None:
            self.sketch.update(view, rows)

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drops all rows but the kept ones (ascending), which move to the front in their order."""
        self.view().keep(kept)
        if self.sketch is not None:
            self.sketch.truncate(0)
        self.truncate(len(kept))
        self._extend_sketch()

    def truncate(self, count: int) -> None:
        """Drops the rows from ``count`` on."""
        self._view = None
        left = count
        for index in self._indexes:
            rows = min(int(index.ntotal), left)
            left -= rows
            index.ntotal = rows
            index.codes.resize(rows * self.dim * 4)
        if not self._attached:
            self._indexes = [index for index in self._indexes if index.ntotal]
        self._rows = count
        if self.sketch is not None:
            self.sketch.truncate(count)

    def _extend_sketch(self) -> None:
        if self.sketch is None:
            base = _core.simd_level() == "base"
            enough = _SKETCH_FROM_ROWS_AT_BASE if base else _SKETCH_FROM_ROWS
            if self._path == "fp32" or (self._path == "auto" and self._rows < enough):
                return
            self.sketch = _core.Sketch(self.dim)
        self.sketch.extend(self.view())

    def _open_segment(self) -> Any:
        if self._indexes and self._indexes[-1].ntotal < SEGMENT_ROWS:
            return self._indexes[-1]
        index = faiss.IndexFlatIP(self.dim)
        if self._indexes:
            # A large store reserves whole segments, so that its rows never move; a small one (of
            # which a process may hold thousands) grows its only segment by doubling.
            index.codes.resize(SEGMENT_ROWS * self.dim * 4)
            index.codes.resize(0)
        self._indexes.append(index)
        return index
