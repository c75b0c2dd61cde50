"""From what a user passes to the arrays that the core takes: ids, columns, unit rows, tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._check import check_items, check_tags
from flashbulb.errors import DimensionMismatch, MemoryNotFound

__all__ = ["to_addends", "to_column", "to_ids", "to_tag_sets", "to_unit_rows"]


_LIMIT = 2**63  # of int64

NO_ID = -1
"""What no memory has as its id."""


def to_ids(
    ids: Any, name: str = "ids", *, beyond: type[Exception] | None = MemoryNotFound
) -> NDArray[np.int64]:
    """One id or several as a 1-d int64 array, exactly.

    Parameters
    ----------
    beyond : MemoryNotFound, ValueError or None
        What an integer raises that does not fit int64, so that no memory has it as its id; None:
        it becomes ``NO_ID``.

    Raises
    ------
    TypeError
        If an id is not an integer; floats, bools and strings are not ids.
    ValueError
        If an array has more than one dimension.
    """
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"{name} must be integers, got an array of {ids.dtype}")
        if ids.ndim > 1:
            raise ValueError(f"{name} must be one id or a 1-d array, got shape {ids.shape}")
        ids = ids.reshape(-1)
        if ids.dtype != np.uint64 or not ids.size or ids.max() < _LIMIT:
            return np.ascontiguousarray(ids, dtype=np.int64)
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__"):
        ids = (ids,)
    exact = []
    for value in ids:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be integers, got {type(value).__name__} {value!r:.80}")
        exact.append(int(value))
    try:
        return np.array(exact, dtype=np.int64)
    except OverflowError:
        foreign = {value for value in exact if not -_LIMIT <= value < _LIMIT}
    if beyond is MemoryNotFound:
        raise MemoryNotFound(f"no memory has the id {min(foreign)}")
    if beyond is not None:
        raise beyond(f"{name} must fit int64, got {min(foreign)}")
    return np.array([NO_ID if value in foreign else value for value in exact], np.int64)


def to_column(
    values: Any, count: int, name: str, dtype: type[np.generic] = np.float64
) -> NDArray[Any]:
    """One value for all rows, or one a row, as a contiguous column of ``count`` values."""
    kinds, wanted = "biuf", "numbers"
    if dtype is np.bool_:
        kinds, wanted = "b", "bools"
    elif issubclass(dtype, np.integer):
        kinds, wanted = "iu", "integers"
    try:
        column = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths
        raise TypeError(f"{name} must be {wanted}, got {values!r:.80}") from None
    if column.dtype.kind not in kinds and column.size:
        raise TypeError(f"{name} must be {wanted}, got {type(values).__name__} {values!r:.80}")
    if column.ndim > 1 or (column.ndim == 1 and len(column) != count):
        raise ValueError(
            f"{name} must be one value or {count} values, got an array of shape {column.shape}"
        )
    if issubclass(dtype, np.integer) and column.size:
        limits = np.iinfo(dtype)
        for value in (int(column.min()), int(column.max())):
            if not limits.min <= value <= limits.max:
                raise ValueError(f"{name} must fit {np.dtype(dtype)}, got {value}")
    return np.ascontiguousarray(np.broadcast_to(column, (count,)), dtype=dtype)


def to_unit_rows(vectors: ArrayLike, dim: int | None, name: str) -> NDArray[np.float32]:
    """One vector or several as (n, dim) float32 rows of unit length.

    Raises
    ------
    DimensionMismatch
        If they have another number of dimensions than ``dim``; None: any will do.
    TypeError, ValueError
        If they are not real numbers; if a row is not finite or zero, with its number.
    """
    try:
        array = np.asarray(vectors)
    except (TypeError, ValueError):
        _refuse_ragged(vectors, dim, name)
        raise ValueError(f"{name} must be rows of real numbers, got {vectors!r:.80}") from None
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise ValueError(f"{name} must have 1 or 2 dimensions, got shape {array.shape}")
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got an array of {array.dtype}")
    if dim is not None and array.shape[1] != dim:
        raise DimensionMismatch(f"{name} must have {dim} dimensions, got {array.shape[1]}")
    if array.dtype != np.float32:
        array = _to_float32(array)
    rows, good = _core.normalize_rows(np.ascontiguousarray(array))
    if good < len(rows):
        raise ValueError(
            f"row {good} of {name} has no direction: expected finite values that are not all zero"
        )
    return rows


def _refuse_ragged(vectors: Any, dim: int | None, name: str) -> None:
    try:
        shapes = [np.shape(row) for row in vectors]
    except (TypeError, ValueError):
        return
    expected = shapes[0] if dim is None else (dim,)
    for i, shape in enumerate(shapes):
        if len(shape) == 1 and shape != expected:
            raise DimensionMismatch(
                f"row {i} of {name} must have {expected[0]} dimensions, got {shape[0]}"
            )


def _to_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    # Values beyond float32 are scaled, row by row, before they are rounded to it; a row that is
    # not finite stays so and is refused where rows are normalised.
    wide = array.astype(np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    return (wide / scale).astype(np.float32)


def to_tag_sets(tags: Iterable[Any] | None, count: int) -> list[tuple[str, ...]]:
    """One tag set a row; one sequence of strings is the set of every row, None is no tags."""
    if tags is None:
        return []
    given = check_items(tags, "tags", "str, or of such sequences")
    if all(isinstance(tag, str) for tag in given):
        return [check_tags(given)] * count
    if len(given) != count:
        raise ValueError(f"expected {count} tag sets, got {len(given)}")
    if set(map(type, given)) == {tuple} and all(isinstance(t, str) for each in given for t in each):
        known = {each: check_tags(each) for each in set(given)}  # many rows have the same tags
        return [known[each] for each in given]
    return [check_tags(each) for each in given]


def to_addends(
    addends: Any, queries: int, single: bool
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """One (ids, values) pair for each query; for a single query the pair itself may be given."""
    if addends is None:
        return []
    given = [addends] if single else check_items(addends, "addends", "(ids, values) pairs")
    if len(given) != queries:
        raise ValueError(f"expected one (ids, values) pair for each of {queries} queries")
    pairs = []
    for pair in given:
        parts = check_items(pair, "an addend", "ids and one of values")
        if len(parts) != 2:
            raise ValueError(f"an addend must be an (ids, values) pair, got {len(parts)} parts")
        ids, values = parts
        exact = to_ids(ids, "addend ids", beyond=None)
        if not (exact[1:] > exact[:-1]).all():  # what ascends does not repeat
            known = exact[exact != NO_ID]
            if len(np.unique(known)) != len(known):
                raise ValueError("addend ids must not repeat")
        column = to_column(values, len(exact), "addend values")
        if not np.isfinite(column).all():
            raise ValueError("addend values must be finite")
        pairs.append((exact, column))
    return pairs
