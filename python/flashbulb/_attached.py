"""Rows in a FAISS index of a caller: where they lie, and how they change.

Every kind of index is seen as *lists* of stored rows: a flat one (as it is, scalar-quantised, or
below an HNSW graph) as a single list, an inverted file as its inverted lists. Row numbers of the
engine ascend by id, so a row has a *place*, ``list << 32 | position in the list``, unless the rows
of a single list lie in the order of their ids anyway.
"""

from __future__ import annotations

from typing import Any

import faiss as _typed_faiss
import numpy as np
from numpy.typing import NDArray

from flashbulb import _core

__all__ = ["Attached", "FlatRows", "GraphRows", "ListRows", "overwrite"]

faiss: Any = _typed_faiss  # whose stubs know only some of what it has

_POSITION = 0xFFFFFFFF


def overwrite(index: Any, places: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Stores vectors at places of a flat index, in its encoding."""
    codes = faiss.rev_swig_ptr(index.codes.data(), index.codes.size())
    codes.reshape(-1, index.code_size)[places] = index.sa_encode(vectors)


class Attached:
    """Unit rows in an index of the caller, in the order of their ids.

    Not synchronised; a view is valid until the next change.
    """

    compacts_quickly = True

    def __init__(
        self, owner: Any, id_map: Any | None, index: Any, row_format: _core.RowFormat
    ) -> None:
        self.format = row_format
        self.ids: NDArray[np.int64] | None = None
        """Ids that the rows came with, ascending; None: 0, 1, 2 ..."""
        self._owner = owner  # the caller's object, with which FAISS would free the rows
        self._map = id_map
        self._index = index
        self._outer = index if id_map is None else id_map
        self._counted = (index,) if id_map is None else (id_map, index)
        self._places: NDArray[np.int64] | None = None
        self._sizes = self._list_sizes()
        self._view: _core.VectorView | None = None
        self._segments: list[tuple[int, int, int]] | None = None  # of all lists; None: look again

    def __len__(self) -> int:
        return self._total if self._places is None else len(self._places)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """Rows in each list; replaced as a whole."""
        return self._list_lengths

    @_sizes.setter
    def _sizes(self, sizes: NDArray[np.int64]) -> None:
        self._list_lengths = sizes
        self._total = int(sizes.sum())  # every view asks for it

    def view(self) -> _core.VectorView:
        """Where the rows lie now."""
        for index in self._counted:
            if index.ntotal != self._total:
                raise RuntimeError(
                    "the attached FAISS index was changed outside the engine: expected "
                    f"{self._total} rows, got {index.ntotal}"
                )
        if self._view is None:
            if self._places is None:
                self._view = self._list_view(0)
            else:
                if self._segments is None:
                    self._segments = [self._segment(each) for each in range(len(self._sizes))]
                self._view = _core.VectorView.scattered(self._segments, self._places, self.format)
        return self._view

    @property
    def kind(self) -> str:
        """How the rows are stored: "fp32", "fp16", "fp16 residual" or "sq8"."""
        return {"float32": "fp32", "float16": "fp16", "uint8": "sq8"}[self.format.encoding]

    @property
    def memory_bytes(self) -> int:
        """Bytes of the stored rows."""
        return self._total * self.format.row_bytes

    @property
    def structure_bytes(self) -> int:
        """Bytes of what there is beside the rows: ids, a graph, where the row of each id lies."""
        known = sum(array.nbytes for array in (self.ids, self._places) if array is not None)
        return known if self._map is None else known + 8 * int(self._map.id_map.size())

    def append(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        """Adds unit rows, (n, dim) float32, with ids above all others: all of them or none.

        Raises
        ------
        ValueError
            If the ids do not ascend, or the quantiser of the index cannot hold a row.
        """
        self.view()  # refuses an index that was changed outside
        wrong = np.flatnonzero(ids[1:] <= ids[:-1])
        if len(wrong):
            raise ValueError(f"row {wrong[0] + 1}: id {ids[wrong[0] + 1]} is out of order")
        self._require_storable(rows)
        before = self._sizes
        places = self._places
        self._view = None
        try:
            self._add(rows, ids)
        except BaseException:
            self._sizes = before
            self._places = places
            self._segments = None
            self._resize_lists()
            raise

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Overwrites what is stored of rows with zeros."""
        self.view().clear(rows)

    def replace(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32], ids: NDArray[np.int64]
    ) -> None:
        """Gives rows (ascending, with these ids) other unit vectors: all of them or none.

        Raises
        ------
        ValueError
            If the quantiser of the index cannot hold a vector.
        """
        count = len(self)
        self.append(vectors, ids)
        order = np.arange(count)
        order[rows] = np.arange(count, len(self))
        self.keep(order)

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drops all rows but the kept ones, which are numbered as they are given; their order in
        storage stays."""
        self.view()
        places = np.arange(len(self)) if self._places is None else self._places
        places = places[kept]
        order = np.argsort(places, kind="stable")  # the order in storage
        lists, positions = places[order] >> 32, places[order] & _POSITION
        ends = np.searchsorted(lists, np.arange(len(self._sizes)), side="right")
        for number, part in enumerate(np.split(positions, ends[:-1])):
            self._list_view(number).keep(part)
            self._keep_ids(number, part)
        self._view = self._segments = None
        self._sizes = np.diff(ends, prepend=0)
        self._resize_lists()
        if self._places is not None:
            starts = ends - self._sizes
            moved = np.empty_like(places)
            moved[order] = lists << 32 | (np.arange(len(kept)) - starts[lists])
            self._place(moved)

    def truncate(self, count: int) -> None:
        """Drops the rows from ``count`` on."""
        self.keep(np.arange(count))

    # -- what the kinds of index do in their own way -----------------------------------------------

    def _list_sizes(self) -> NDArray[np.int64]:
        raise NotImplementedError

    def _address(self, number: int) -> int:
        raise NotImplementedError

    def _offset(self, number: int) -> int:
        """Address of what is added to the decoded rows of a list; 0 if nothing is."""
        return 0

    def _require_storable(self, rows: NDArray[np.float32]) -> None:
        pass

    def _add(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        raise NotImplementedError

    def _place(self, places: NDArray[np.int64]) -> None:
        """Takes other places of the rows."""
        raise NotImplementedError

    def _keep_ids(self, number: int, positions: NDArray[np.int64]) -> None:
        """Drops the ids in a list that are not at these positions."""
        raise NotImplementedError

    def _resize_lists(self) -> None:
        """Shrinks the lists in FAISS to ``self._sizes``, and its counts with them."""
        raise NotImplementedError

    def _segment(self, number: int) -> tuple[int, int, int]:
        return self._address(number), int(self._sizes[number]), self._offset(number)

    def _list_view(self, number: int) -> _core.VectorView:
        size = int(self._sizes[number])
        segments = [(self._address(number), 0, size)] if size else []
        return _core.VectorView(segments, self.format)

    def _mapped_ids(self) -> NDArray[np.int64]:
        assert self._map is not None
        return np.array(faiss.vector_to_array(self._map.id_map), np.int64)

    def _set_mapped_ids(self, ids: NDArray[np.int64]) -> None:
        assert self._map is not None
        faiss.copy_array_to_vector(ids, self._map.id_map)
        self._map.ntotal = len(ids)
        if isinstance(self._map, faiss.IndexIDMap2):
            self._map.construct_rev_map()

    def _require_decoded(self, decoded: NDArray[np.float32]) -> None:
        norms = np.linalg.norm(decoded.astype(np.float64), axis=1)
        tolerance = self.format.norm_tolerance
        bad = np.flatnonzero(~(np.abs(norms - 1.0) <= tolerance))
        if len(bad):
            raise ValueError(
                f"vector {bad[0]} has norm {norms[bad[0]]:.3f} after the quantiser of the index, "
                f"expected 1 within {tolerance}: the index was trained on too few or other rows"
            )


class FlatRows(Attached):
    """Rows one after the other: an IndexFlat, or an IndexScalarQuantizer."""

    def __init__(
        self, owner: Any, id_map: Any | None, index: Any, codes: Any, row_format: _core.RowFormat
    ) -> None:
        self._stored = codes  # the flat index itself, or the storage of a graph
        super().__init__(owner, id_map, index, row_format)
        if id_map is not None:
            ids = self._mapped_ids()
            places = np.argsort(ids, kind="stable")
            self.ids = ids[places]
            self._place(places)

    def _list_sizes(self) -> NDArray[np.int64]:
        return np.array([self._stored.ntotal], np.int64)

    def _address(self, number: int) -> int:
        # An empty index has no address.
        return int(self._stored.codes.data()) if self._stored.codes.size() else 0

    def _require_storable(self, rows: NDArray[np.float32]) -> None:
        if isinstance(self._stored, faiss.IndexScalarQuantizer):
            quantiser = self._stored.sq
            self._require_decoded(quantiser.decode(quantiser.compute_codes(rows)))

    def replace(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32], ids: NDArray[np.int64]
    ) -> None:
        self.view()  # refuses an index that was changed outside
        self._require_storable(vectors)
        overwrite(self._stored, rows if self._places is None else self._places[rows], vectors)

    def _add(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        if self._map is None:
            self._index.add(rows)
        else:
            self._map.add_with_ids(rows, ids)
        before = int(self._sizes[0])
        self._sizes = self._list_sizes()
        self._segments = None
        if self._places is not None:
            added = np.arange(before, before + len(rows))
            self._places = np.concatenate([self._places, added])

    def _place(self, places: NDArray[np.int64]) -> None:
        in_order = len(places) == self._sizes[0] and bool((np.diff(places) == 1).all())
        self._places = None if in_order else places

    def _keep_ids(self, number: int, positions: NDArray[np.int64]) -> None:
        if self._map is not None:
            self._set_mapped_ids(self._mapped_ids()[positions])

    def _resize_lists(self) -> None:
        size = int(self._sizes[0])
        self._stored.codes.resize(size * self._stored.code_size)
        self._stored.ntotal = size
        self._index.ntotal = size
        if self._map is not None and self._map.id_map.size() != size:
            self._set_mapped_ids(self._mapped_ids()[:size])
        self._outer.ntotal = size


class GraphRows(FlatRows):
    """The flat storage of an IndexHNSWFlat.

    FAISS removes nothing from a graph: what is dropped stays in it, overwritten, until the graph is
    built anew.
    """

    compacts_quickly = False

    def __init__(
        self, owner: Any, id_map: Any | None, index: Any, codes: Any, row_format: _core.RowFormat
    ) -> None:
        self._row_at: NDArray[np.int64] | None = None  # row of each place, -1: none
        self._cleared: set[int] = set()
        super().__init__(owner, id_map, index, codes, row_format)

    @property
    def structure_bytes(self) -> int:
        graph = self._index.hnsw
        entries = 4 * (graph.neighbors.size() + graph.levels.size()) + 8 * graph.offsets.size()
        return super().structure_bytes + int(entries)

    def append(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        self._row_at = None
        super().append(rows, ids)

    def clear(self, rows: NDArray[np.int64]) -> None:
        super().clear(rows)
        self._cleared.update(rows.tolist())
        self._row_at = None

    def replace(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32], ids: NDArray[np.int64]
    ) -> None:
        """As of any index; the rows get new nodes in the graph, and the old ones belong to none."""
        count = len(self)
        self.append(vectors, ids)
        places = np.arange(len(self)) if self._places is None else self._places.copy()
        self._list_view(0).clear(places[rows])
        places[rows] = places[count:]
        self._places = places
        self._disown(count)

    def truncate(self, count: int) -> None:
        super().clear(np.arange(count, len(self)))
        self._disown(count)

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drops all rows but the kept ones and builds the graph anew: it or nothing happens."""
        rows = self.view().read(kept)
        places = self._places
        mapped = None if self._map is None else self._mapped_ids()
        ids = kept
        if mapped is not None:
            ids = mapped[kept] if places is None else mapped[places[kept]]
        graph = self._index.hnsw
        vectors = (graph.levels, graph.offsets, graph.neighbors, self._stored.codes)
        contents = [faiss.vector_to_array(vector) for vector in vectors]
        entry = graph.entry_point, graph.max_level
        self._view = self._row_at = self._segments = None
        try:
            self._places = None
            self._outer.reset()
            if self._map is not None:
                self._set_mapped_ids(ids[:0])  # the map of FAISS forgets only half of its ids
            self._sizes = self._list_sizes()
            self._add(rows, ids)
        except BaseException:  # out of memory: the vectors of FAISS still have their room
            for vector, content in zip(vectors, contents, strict=True):
                faiss.copy_array_to_vector(content, vector)
            graph.entry_point, graph.max_level = entry
            stored = len(contents[0])
            self._stored.ntotal = self._index.ntotal = self._outer.ntotal = stored
            if mapped is not None:
                self._set_mapped_ids(mapped)
            self._places = places
            self._sizes = self._list_sizes()
            raise
        self._cleared.clear()

    def _resize_lists(self) -> None:  # after an add that failed or was interrupted
        before = len(self)
        self._sizes = self._list_sizes()
        self._index.ntotal = int(self._sizes[0])
        for place in range(before, int(self._sizes[0])):
            self._list_view(0).clear(np.array([place]))
        self._disown(before)

    def _disown(self, count: int) -> None:
        """What was added after the first ``count`` rows belongs to no row any more."""
        stored = int(self._sizes[0])
        places = np.arange(stored) if self._places is None else self._places
        self._places = places[:count]
        self._row_at = self._view = self._segments = None
        if self._map is not None:
            ids = np.full(stored, -1, np.int64)
            ids[self._places] = self._mapped_ids()[self._places]
            self._set_mapped_ids(ids)

    def steps(self, count: int) -> int:
        """How long the list of a search of the graph must be to find ``count`` rows: what is
        dropped takes places in it as well."""
        stored, live = int(self._sizes[0]), max(1, len(self) - len(self._cleared))
        return max(int(self._index.hnsw.efSearch), 2 * count) * stored // live

    def candidates(self, query: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Rows (ascending) that the graph finds for a unit vector, about ``count`` of them."""
        self.view()
        stored = int(self._sizes[0])
        if stored == 0 or count < 1:
            return np.empty(0, np.int64)
        row_at = self._row_at
        if row_at is None:
            places = np.arange(len(self)) if self._places is None else self._places
            row_at = np.full(stored, -1, np.int64)
            row_at[places] = np.arange(len(places))
            row_at[places[list(self._cleared)]] = -1
            self._row_at = row_at
        options = {"efSearch": self.steps(count)}
        wanted = row_at >= 0
        if not wanted.all():
            bits = np.packbits(wanted, bitorder="little")
            options["sel"] = faiss.IDSelectorBitmap(bits)
        parameters = faiss.SearchParametersHNSW(**options)
        _, found = self._index.search(query[np.newaxis], min(count, stored), params=parameters)
        return np.sort(row_at[found[0][found[0] >= 0]])


class ListRows(Attached):
    """The inverted lists of an IndexIVFFlat or IndexIVFScalarQuantizer."""

    def __init__(
        self, owner: Any, id_map: Any | None, index: Any, row_format: _core.RowFormat
    ) -> None:
        self._lists = faiss.downcast_InvertedLists(index.invlists)
        self._centroids: NDArray[np.float32] | None = None
        quantised = isinstance(index, faiss.IndexIVFScalarQuantizer)
        if quantised and index.by_residual:
            self._centroids = index.quantizer.reconstruct_n(0, index.nlist)
        super().__init__(owner, id_map, index, row_format)
        numbers = np.concatenate([self._numbers(each) for each in range(len(self._sizes))])
        lists = np.repeat(np.arange(len(self._sizes)), self._sizes)
        starts = np.cumsum(self._sizes) - self._sizes
        places = lists << 32 | (np.arange(len(numbers)) - starts[lists])
        ids = numbers if id_map is None else self._mapped_ids()[numbers]
        order = np.argsort(ids, kind="stable")
        self.ids = ids[order]
        self._place(places[order])

    @property
    def kind(self) -> str:
        halves = self.format.encoding == "float16"
        return "fp16 residual" if halves and self._centroids is not None else super().kind

    @property
    def structure_bytes(self) -> int:
        own = 0 if self._centroids is None else self._centroids.nbytes
        return super().structure_bytes + own + 8 * self._total

    def _numbers(self, number: int) -> NDArray[np.int64]:
        """The ids in a list: of the rows, or where the ids of the rows stand in the map."""
        size = self._lists.list_size(number)
        if size == 0:
            return np.empty(0, np.int64)
        numbers: NDArray[np.int64] = faiss.rev_swig_ptr(self._lists.get_ids(number), size)
        return numbers

    def _list_sizes(self) -> NDArray[np.int64]:
        size = self._lists.list_size
        return np.array([size(number) for number in range(self._lists.nlist)], np.int64)

    def _address(self, number: int) -> int:
        return int(self._lists.get_codes(number)) if self._sizes[number] else 0

    def _offset(self, number: int) -> int:
        if self._centroids is None:
            return 0
        return int(self._centroids.ctypes.data + number * self._centroids.strides[0])

    def _require_storable(self, rows: NDArray[np.float32]) -> None:
        if isinstance(self._index, faiss.IndexIVFScalarQuantizer):
            quantiser = self._index.sq
            centroids = np.zeros_like(rows)
            if self._centroids is not None and len(rows):
                centroids = self._centroids[self._index.quantizer.assign(rows, 1)[:, 0]]
            decoded = quantiser.decode(quantiser.compute_codes(rows - centroids))
            self._require_decoded(decoded + centroids)

    def _add(self, rows: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        assert self._places is not None
        before = self._total
        numbers = ids if self._map is None else np.arange(before, before + len(rows))
        self._outer.add_with_ids(rows, ids)
        sizes = self._list_sizes()
        places = np.empty(len(rows), np.int64)
        grown = np.flatnonzero(sizes != self._sizes).tolist()
        for number in grown:
            positions = np.arange(self._sizes[number], sizes[number])
            added = np.searchsorted(numbers, self._numbers(number)[positions])
            places[added] = number << 32 | positions
        self._sizes = sizes
        if self._segments is not None:
            for number in grown:
                self._segments[number] = self._segment(number)
        self._places = np.concatenate([self._places, places])

    def _place(self, places: NDArray[np.int64]) -> None:
        self._places = places

    def _keep_ids(self, number: int, positions: NDArray[np.int64]) -> None:
        numbers = self._numbers(number)
        numbers[: len(positions)] = numbers[positions]

    def _resize_lists(self) -> None:
        for number in np.flatnonzero(self._list_sizes() != self._sizes).tolist():
            self._lists.resize(number, int(self._sizes[number]))
        total = self._total
        if self._map is not None and self._map.ntotal != total:
            # The numbers of the rows that are left must be their places in the map again.
            parts = [self._numbers(number) for number in range(len(self._sizes))]
            left = np.sort(np.concatenate(parts))
            for part in parts:
                part[:] = np.searchsorted(left, part)
            self._set_mapped_ids(self._mapped_ids()[left])
        self._index.ntotal = total
        self._outer.ntotal = total

    @property
    def probes(self) -> int:
        """Lists that the caller wants a search to look at."""
        return max(1, int(self._index.nprobe))

    @property
    def ranks_by_l2(self) -> bool:
        """Whether a query ranks the lists by distance, not by inner product."""
        return bool(self._index.quantizer.metric_type == faiss.METRIC_L2)

    def centroids(self) -> NDArray[np.float32] | None:
        """Of the lists, (n, dim); None if the quantiser does not say."""
        try:
            found: NDArray[np.float32] = self._index.quantizer.reconstruct_n(0, self._index.nlist)
        except RuntimeError:
            return None
        return found

    def list_numbers(self, begin: int) -> NDArray[np.uint32]:
        """The list of each row from ``begin`` on, (n, 1)."""
        assert self._places is not None
        return (self._places[begin:, np.newaxis] >> 32).astype(np.uint32)
