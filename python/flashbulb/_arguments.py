"""Checks of what a user passes, shared by Engine and Memory: numbers, ids, columns."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["to_column", "to_count", "to_ids"]


def to_count(value: object, name: str) -> int:
    """A whole number >= 0 as an int; bools and floats are not numbers of things."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an int, got {value!r}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name} must be an int, got {type(value).__name__} {value!r:.80}"
        ) from None
    if count < 0:
        raise ValueError(f"{name} must be at least 0, got {count}")
    return count


def to_ids(ids: Any, name: str = "ids") -> NDArray[np.int64]:
    """One id or several as a 1-d int64 array, exactly.

    Raises
    ------
    TypeError
        If an id is not an integer; floats, bools and strings are not ids.
    OverflowError
        If an id does not fit int64.
    """
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"{name} must be integers, got an array of {ids.dtype}")
        if ids.ndim > 1:
            raise ValueError(f"{name} must be one id or a 1-d array, got shape {ids.shape}")
        if ids.dtype.kind == "u" and ids.size and int(ids.max()) > np.iinfo(np.int64).max:
            raise OverflowError(f"{name} must be below 2**63, got {int(ids.max())}")
        return np.ascontiguousarray(ids.reshape(-1), dtype=np.int64)
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
        raise OverflowError(f"{name} must fit int64, got {max(exact, key=abs)}") from None


def to_column(
    values: Any, count: int, name: str, dtype: type[np.generic] = np.float64
) -> NDArray[Any]:
    """One value for all rows, or one a row, as a contiguous column of ``count`` values."""
    column = np.asarray(values)
    wanted = "biuf" if dtype is not np.bool_ else "b"
    if column.dtype.kind not in wanted:
        raise TypeError(f"{name} must be numbers, got {type(values).__name__} {values!r:.80}")
    if column.ndim > 1 or (column.ndim == 1 and len(column) != count):
        raise ValueError(
            f"{name} must be one value or {count} values, got an array of shape {column.shape}"
        )
    return np.ascontiguousarray(np.broadcast_to(column, (count,)), dtype=dtype)
