"""An engine as a file: what it took from its record, ready to be searched again."""

from __future__ import annotations

from flashbulb import _core
from flashbulb._faiss import VectorRows
from flashbulb._traces import Traces
from flashbulb.engine import Engine
from flashbulb.policy import Policy

__all__ = ["SnapshotError", "load", "save"]

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
    path: str, generation: int, dim: int, *, policy: Policy, approximate: bool = True
) -> Engine:
    """The engine that was saved, bit for bit, under this policy.

    Everything in the file is compared with its checksums. From 64 MiB on, the vectors stay in the
    file, from where the system brings them to RAM and drops them again: to cut off the file then
    ends this process.

    Raises
    ------
    SnapshotError
        If the file is missing, damaged, or another one.
    """
    vectors, table, tags, sketch = _core.read_snapshot(
        path, generation, dim, _core.Policy(**policy.of_core())
    )
    engine = Engine(dim, policy=policy, approximate=approximate)
    engine._traces = Traces(policy, table, tags)
    engine._rows = VectorRows.stored(vectors, sketch)
    engine._grow()
    return engine
