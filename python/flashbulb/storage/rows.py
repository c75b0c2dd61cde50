"""What the database keeps of a memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TRACE_COLUMNS", "Loaded", "Row"]

TRACE_COLUMNS: dict[str, Any] = {
    "salience": np.float64,
    "floor": np.float64,
    "vividness": np.float64,
    "vividness_time": np.float64,
    "last_access": np.float64,
    "last_strength_change": np.float64,
    "access_count": np.int64,
    "urgency": np.float64,
    "status": np.uint8,
    "pinned": np.bool_,
}


class Row(NamedTuple):
    """What of a memory does not change with its strength: one row of the table ``memories``."""

    id: int
    namespace: int
    digest: bytes
    text: str
    tags: str
    metadata: str
    who: str | None
    what: str | None
    when: str | None
    where: str | None
    arousal: float
    arousal_source: str
    surprise: float | None
    importance: float | None
    flashbulb: int
    pinned_by: str | None
    created: float
    photograph: str | None = None
    deferred: int = 0
    deferred_context: str = ""
    archived: float | None = None


class Loaded(NamedTuple):
    """What the engine needs of a namespace; n rows, ids ascending."""

    ids: NDArray[np.int64]
    created: NDArray[np.float64]
    tags: list[str]
    traces: dict[str, NDArray[Any]]
    vectors: NDArray[np.float32]
