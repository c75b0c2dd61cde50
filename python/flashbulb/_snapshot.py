"""An engine as a file: what it took from its record, ready to be searched again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb._faiss import VectorRows
from flashbulb._traces import Traces
from flashbulb.engine import Engine
from flashbulb.policy import Policy
from flashbulb.storage.rows import Loaded

__all__ = ["SnapshotError", "catch_up", "load", "save"]

SnapshotError = _core.SnapshotError
"""The file does not hold the snapshot that was looked for; the message says which and why."""


def save(engine: Engine, path: str, generation: int, mode: int = 0o600) -> None:
    """Writes all memories to a new file, and waits until it is on the disk.

    Searches go on meanwhile, changes wait. The folder is the caller's to sync.

    Parameters
    ----------
    engine : Engine
        One that keeps its own rows, as "fp32".
    generation : int in [0, 2**64)
        Tells this snapshot from all others of the same name.
    mode : int
        Permissions of the file, as the umask allows.

    Raises
    ------
    OSError
        If the file is there already, or cannot be written; it is removed then.
    """
    with engine._reading():
        rows, traces = engine._rows, engine._traces
        _core.write_snapshot(
            path, generation, mode, rows.view(), traces.table, traces.dictionary, rows.sketch
        )


def load(
    path: str,
    generation: int,
    dim: int,
    *,
    policy: Policy,
    approximate: bool = True,
    map_from: int | None = None,
) -> Engine:
    """The engine that was saved, bit for bit (but for the latest time that it knew of), under this
    policy.

    Everything in the file is compared with its checksums.

    Parameters
    ----------
    map_from : int, optional
        From so many bytes on (64 MiB), vectors stay in the file, from where the system brings them
        to RAM, and drops them again, as it likes: to cut off the file then ends this process.

    Raises
    ------
    SnapshotError
        If the file is missing, damaged, or another one.
    """
    vectors, table, tags, sketch = _core.read_snapshot(
        path,
        generation,
        dim,
        _core.Policy(**policy.of_core()),
        _core.MAP_FROM_BYTES if map_from is None else map_from,
    )
    engine = Engine(dim, policy=policy, approximate=approximate)
    engine._traces = Traces(policy, table, tags)
    engine._rows = VectorRows.stored(vectors, sketch)
    engine._grow()
    return engine


def catch_up(engine: Engine, changed: Loaded, tags: list[tuple[str, ...]], gone: list[int]) -> None:
    """Brings an engine that was just loaded to what its record says now.

    Parameters
    ----------
    changed : Loaded
        Memories that are new, or have other strengths or another vector.
    tags : list of tuples of str
        Theirs.
    gone : list of int
        Memories that are no longer to be here.

    Raises
    ------
    ValueError
        If a new memory belongs between old ones, or a value is out of range.
    """
    engine.remove(gone)
    traces, rows = engine._traces, engine._rows
    columns = {"ids": changed.ids, "created": changed.created, **changed.traces}
    places = traces.table.find(changed.ids)
    known = places >= 0
    with engine._writing():
        _require_unit_rows(changed.vectors)
        traces.table.replace(places[known], {name: c[known] for name, c in columns.items()})
        vectors = changed.vectors[known]
        before = rows.view().read(places[known])
        moved = (before.view(np.uint32) != vectors.view(np.uint32)).any(axis=1)
        if moved.any():
            rows.replace(places[known][moved], vectors[moved], changed.ids[known][moved])
        if not known.all():
            new = {name: column[~known] for name, column in columns.items()}
            names = [tags[i] for i in np.flatnonzero(~known)]
            traces.append(len(names), -np.inf, new, names, new["ids"])
            rows.append(changed.vectors[~known], new["ids"])
    engine._grow()


def _require_unit_rows(vectors: NDArray[np.float32]) -> None:
    count, dim = vectors.shape
    view = _core.VectorView([(vectors.ctypes.data, 0, count)], _core.RowFormat(dim, "float32"))
    bad = view.first_row_not_unit()
    if bad < count:
        raise ValueError(f"vector {bad} does not have unit norm")
