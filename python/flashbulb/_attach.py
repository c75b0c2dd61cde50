"""Which FAISS indexes a caller may hand in.

The core reads FAISS's own storage through plain addresses, without a copy. What makes that safe is
checked here: exact index types, sizes that fit together, owned storage, ids and norms.
"""

from __future__ import annotations

from typing import Any

import faiss as _typed_faiss
import numpy as np
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb._attached import Attached, FlatRows, GraphRows, ListRows
from flashbulb._check import check_dim

__all__ = ["attach"]

faiss: Any = _typed_faiss  # whose stubs know only some of what it has

# Subclasses may lay their rows out differently and would pass isinstance.
_FLAT = (faiss.IndexFlat, faiss.IndexFlatIP, faiss.IndexFlatL2)
_QUANTISED = (faiss.IndexScalarQuantizer,)
_GRAPH = (faiss.IndexHNSWFlat,)
_LISTS = (faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer)
_MAPS = (faiss.IndexIDMap, faiss.IndexIDMap2)


def attach(index: Any) -> Attached:
    """The rows of a caller's index, which belongs to the engine from now on.

    Raises
    ------
    TypeError
        If it is not a FAISS index, or of a kind that cannot be searched here.
    ValueError
        If its metric is neither inner product nor L2, it has over 32,768 dimensions or is not
        trained, its storage is inconsistent or borrowed, an id is negative or not unique, or a row
        does not have unit norm within the tolerance of its encoding (float32: 1e-5, fp16: 1e-3,
        8 bit: 0.05).
    """
    if not isinstance(index, faiss.Index):
        raise TypeError(
            f"expected a number of dimensions or a FAISS index, got {type(index).__name__}"
        )
    outer = _downcast(index)
    id_map = outer if type(outer) in _MAPS else None
    inner = outer if id_map is None else _downcast(outer.index)
    kind = type(inner)
    if kind not in (*_FLAT, *_QUANTISED, *_GRAPH, *_LISTS):
        known = ", ".join(each.__name__ for each in (*_FLAT, *_QUANTISED, *_GRAPH, *_LISTS))
        raise TypeError(
            f"expected one of {known}, as it is or in an IndexIDMap or IndexIDMap2, got "
            f"{kind.__name__}, which this version cannot search"
        )
    quantised = kind in (faiss.IndexScalarQuantizer, faiss.IndexIVFScalarQuantizer)
    if quantised:
        _check_quantiser(inner.sq)
    if inner.metric_type not in (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2):
        raise ValueError(
            f"expected metric inner product or L2, got metric type {inner.metric_type}"
        )
    if not inner.is_trained:
        raise ValueError(
            f"the {kind.__name__} is not trained: call its train() with rows like those to come"
        )
    check_dim(int(inner.d))
    row_format = _quantised_format(inner) if quantised else _core.RowFormat(int(inner.d))
    if id_map is not None and not id_map.ntotal == id_map.id_map.size() == inner.ntotal:
        raise ValueError(
            f"the {type(id_map).__name__} claims {id_map.ntotal} rows, but maps "
            f"{id_map.id_map.size()} ids to an index of {inner.ntotal}"
        )
    rows: Attached
    if kind in _LISTS:
        _check_lists(inner, row_format)
        if id_map is not None:
            _check_mapped_numbers(inner)
        rows = ListRows(index, id_map, inner, row_format)
    elif kind in _GRAPH:
        storage = _downcast(inner.storage)
        if type(storage) not in _FLAT:
            raise TypeError(f"expected flat storage below HNSW, got {type(storage).__name__}")
        if inner.hnsw.levels.size() != inner.ntotal or storage.ntotal != inner.ntotal:
            raise ValueError(
                f"the index claims {inner.ntotal} rows, but its graph has "
                f"{inner.hnsw.levels.size()} and its storage {storage.ntotal}"
            )
        _check_codes(storage, row_format)
        rows = GraphRows(index, id_map, inner, storage, row_format)
    else:
        _check_codes(inner, row_format)
        rows = FlatRows(index, id_map, inner, inner, row_format)
    _check_ids(rows.ids)
    bad = rows.view().first_row_not_unit()
    if bad < len(rows):
        name = f"row {bad} of the index" if rows.ids is None else f"the row of id {rows.ids[bad]}"
        raise ValueError(
            f"{name} does not have unit norm within {row_format.norm_tolerance}; "
            "normalise the rows before handing the index over"
        )
    return rows


def _downcast(index: Any) -> Any:
    """The index as what it is; a subclass that FAISS cannot downcast to (IndexFlat1D, one in
    Python) as it came: it has methods or state that nobody would look after."""
    known = faiss.downcast_index(index)
    return known if isinstance(known, type(index)) else index


def _check_quantiser(quantiser: Any) -> None:
    kinds = faiss.ScalarQuantizer
    if quantiser.qtype not in (kinds.QT_fp16, kinds.QT_8bit, kinds.QT_8bit_uniform):
        names = {getattr(kinds, each): each for each in dir(kinds) if each.startswith("QT_")}
        raise TypeError(
            "expected a quantiser QT_fp16, QT_8bit or QT_8bit_uniform, got "
            f"{names.get(quantiser.qtype, quantiser.qtype)}"
        )


def _quantised_format(index: Any) -> _core.RowFormat:
    dim = int(index.d)
    quantiser = index.sq
    kinds = faiss.ScalarQuantizer
    if quantiser.qtype == kinds.QT_fp16:
        return _core.RowFormat(dim, "float16")
    trained = np.array(faiss.vector_to_array(quantiser.trained), np.float32)
    width = dim if quantiser.qtype == kinds.QT_8bit else 1
    if len(trained) != 2 * width:
        raise ValueError(f"expected a quantiser of {2 * width} values, got {len(trained)}")
    minimum, extent = (np.array(np.broadcast_to(part, dim)) for part in np.split(trained, 2))
    return _core.RowFormat(dim, "uint8", minimum, extent)


def _check_codes(index: Any, row_format: _core.RowFormat) -> None:
    if not index.codes.is_owned:
        raise ValueError("expected an index that owns its rows, got a mapped or viewed one")
    if (
        index.code_size != row_format.row_bytes
        or index.codes.size() != index.ntotal * row_format.row_bytes
    ):
        raise ValueError(
            f"the index claims {index.ntotal} rows of {row_format.row_bytes} bytes, but holds "
            f"{index.codes.size()} bytes in rows of {index.code_size}"
        )


def _check_lists(index: Any, row_format: _core.RowFormat) -> None:
    lists = faiss.downcast_InvertedLists(index.invlists)
    if type(lists) is not faiss.ArrayInvertedLists:
        raise TypeError(f"expected ArrayInvertedLists, got {type(lists).__name__}")
    if index.direct_map.type != faiss.DirectMap.NoMap:
        raise ValueError(
            "expected an index without a direct map: call "
            "set_direct_map_type(faiss.DirectMap.NoMap) before handing it over"
        )
    if lists.nlist != index.nlist or not lists.code_size == index.code_size == row_format.row_bytes:
        raise ValueError(
            f"expected {index.nlist} lists of rows of {row_format.row_bytes} bytes, got "
            f"{lists.nlist} of {lists.code_size}"
        )
    total = 0
    for number in range(lists.nlist):
        size = lists.list_size(number)
        codes = lists.codes.at(number)
        if not codes.is_owned:
            raise ValueError("expected an index that owns its rows, got a mapped or viewed one")
        if codes.size() != size * row_format.row_bytes:  # its size is that of its ids
            raise ValueError(f"list {number} claims {size} rows, but holds {codes.size()} bytes")
        total += size
    if total != index.ntotal:
        raise ValueError(f"the index claims {index.ntotal} rows, but its lists hold {total}")


def _check_mapped_numbers(index: Any) -> None:
    """Below a map, the ids in the lists are places in the map: each once."""
    lists = faiss.downcast_InvertedLists(index.invlists)
    seen = np.zeros(index.ntotal, np.bool_)
    for number in range(lists.nlist):
        size = lists.list_size(number)
        if size:
            ids = faiss.rev_swig_ptr(lists.get_ids(number), size)
            seen[ids[(ids >= 0) & (ids < len(seen))]] = True
    if not seen.all():
        raise ValueError(
            "the ids in the lists do not fit the map around the index: FAISS breaks it when rows "
            "are removed"
        )


def _check_ids(ids: NDArray[np.int64] | None) -> None:
    if ids is None or len(ids) == 0:
        return
    if ids[0] < 0:
        raise ValueError(f"expected ids of at least 0, got {ids[0]}")
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        raise ValueError(f"expected unique ids, got {ids[repeated[0]]} more than once")
