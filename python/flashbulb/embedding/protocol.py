"""What an embedder is, and the check that what it returns is what the memory can store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import check_items
from flashbulb.errors import DimensionMismatch

__all__ = ["Embedder", "check_texts", "checked_vectors"]


@runtime_checkable
class Embedder(Protocol):
    """Texts in, vectors out. Queries and documents may be embedded differently.

    Attributes
    ----------
    name
        What a person calls it; stored with a memory, shown in errors.
    dim
        Number of dimensions.
    fingerprint
        Hexadecimal digest that changes when the vectors would: stored, and compared at opening.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts to be remembered, shape (n, dim), finite."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of questions, shape (n, dim), finite."""


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list; a TypeError names the first item that is no string."""
    listed = check_items(texts, "texts")
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(
                f"expected texts of type str, got {type(text).__name__} at position {place}"
            )
    return listed


def checked_vectors(
    output: Any, *, count: int, dim: int | None, name: str, allow_zero: bool = False
) -> NDArray[np.float32]:
    """What an embedder returned, as float32 rows.

    Parameters
    ----------
    output
        Anything `numpy` can turn into an array of numbers.
    count, dim
        Rows and columns it must have; `dim` None accepts any.
    name
        The embedder's name, for the errors.
    allow_zero
        Whether rows of zeros pass.

    Raises
    ------
    DimensionMismatch
        If the vectors have another number of dimensions than ``dim``.
    ValueError
        If the shape differs otherwise, a value is not finite, or a row is zero; the message says
        what came.
    TypeError
        If it is no array of real numbers.
    """
    try:
        vectors = np.asarray(output)
    except ValueError as error:  # rows of unequal length
        raise ValueError(f"embedder {name!r} returned rows of unequal length: {error}") from error
    if vectors.size == 0 and count == 0:
        return np.empty((0, dim or 0), dtype=np.float32)
    if vectors.dtype.kind not in "fiu":
        raise TypeError(
            f"embedder {name!r} must return an array of real numbers, got "
            f"{type(output).__name__} of dtype {vectors.dtype}"
        )
    expected = f"({count}, {dim if dim is not None else 'dim'})"
    if (
        vectors.ndim != 2
        or vectors.shape[0] != count
        or vectors.shape[1] == 0
        or (dim is not None and vectors.shape[1] != dim)
    ):
        other_dim = dim is not None and vectors.ndim == 2 and vectors.shape[1] != dim
        raise (DimensionMismatch if other_dim else ValueError)(
            f"embedder {name!r} must return shape {expected} for {count} texts, "
            f"got shape {vectors.shape}"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused below
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
    finite = np.isfinite(rows)
    if not finite.all():
        usable = finite.all(axis=1)
        raise ValueError(
            f"embedder {name!r} returned NaN or infinity for text {int(np.argmin(usable))}"
        )
    nonzero = rows.any(axis=1)
    if not (allow_zero or nonzero.all()):
        raise ValueError(
            f"embedder {name!r} returned a zero vector for text {int(np.argmin(nonzero))}: "
            "it has no direction, so no similarity"
        )
    return rows
