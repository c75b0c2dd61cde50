"""Whether a store is as it must be."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

from flashbulb import _snapshot
from flashbulb._check import check_dim, check_file, check_text, check_timeout
from flashbulb._plain import Kept, checked, plain
from flashbulb._snapshots import Snapshots
from flashbulb._store import policy_from_json
from flashbulb._time import to_seconds
from flashbulb.engine import Engine
from flashbulb.errors import CorruptStore, ReadOnlyStore
from flashbulb.policy import Policy
from flashbulb.storage import schema
from flashbulb.storage.reading import ReadTransaction
from flashbulb.storage.rows import Row
from flashbulb.storage.scanning import Finding, Scan
from flashbulb.surprise import SurpriseDetector

__all__ = [
    "Finding",
    "as_plain",
    "check_state",
    "check_store",
    "findings",
    "present",
    "read",
    "stored_embedder",
    "stored_policy",
]


def check_store(path: str | os.PathLike[str], *, timeout: float = 5.0) -> list[Finding]:
    """Look at everything in a store, of which a writer may make use meanwhile.

    What SQLite finds itself; the tables; that each row decodes and is within its bounds, has its
    strength and its unit vector, and a digest that fits its text; that occurrences, earlier texts
    and statistics belong to something, and can be used; the checksums of snapshots.

    Parameters
    ----------
    timeout : float
        Seconds to wait for another program that holds the file.

    Returns
    -------
    list of Finding
        Empty if all is as it must be.
    """
    real = os.path.realpath(check_file(path))
    timeout = check_timeout(timeout)
    with ExitStack() as stack:
        try:
            reading = stack.enter_context(closing(ReadTransaction(real, timeout, older=True)))
            connection = stack.enter_context(closing(present(reading)))
        except CorruptStore as error:
            return [Finding(real, "database", str(error))]
        except ReadOnlyStore:
            return []  # an empty file: a store is made of it when it is opened
        return list(findings(Scan(connection), real))


def present(reading: ReadTransaction) -> sqlite3.Connection:
    """A connection to the store in the present version, if need be to a copy in RAM."""
    if reading.version == schema.VERSION:
        return reading.connection
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        reading.connection.backup(connection)
        schema.prepare(connection, reading.path)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise CorruptStore(f"{reading.path} is damaged: {error}") from error
    return connection


def findings(scan: Scan, file: str) -> Iterator[Finding]:
    """Whatever is not as it must be in the store that is scanned."""
    for place, problem in scan.structure():
        yield Finding(file, place, problem)
    dim = None
    try:
        dim = check_dim(stored_embedder(scan)["dim"])
    except ValueError as error:
        yield Finding(file, "settings", f"embedder: {error}")
    try:
        stored_policy(scan)
    except ValueError as error:
        yield Finding(file, "settings", f"policy: {error}")
    namespaces: list[tuple[int, str, int]] = []
    try:
        namespaces = scan.namespaces()
    except ValueError as error:
        yield Finding(file, "namespaces", str(error))
    for number, name, refused in namespaces:
        place = f"namespace {name!r:.80}"
        if refused < 0:
            yield Finding(file, place, f"refused_pins must be 0 or more, got {refused}")
        yield from _statistics_findings(scan, number, place, dim, file)
    numbers = {number for number, _, _ in namespaces}
    for id in scan.ids():
        place = f"memory {id}"
        try:
            kept = read(scan, id)
            if dim is None:
                continue
            right = checked(as_plain(kept), dim).row._replace(namespace=kept.row.namespace)
        except (TypeError, ValueError) as error:
            yield Finding(file, place, str(error))
            continue
        for name, value, expected in zip(Row._fields, kept.row, right, strict=True):
            if value != expected:
                wrong = "the rest of the memory" if name == "digest" else "its canonical form"
                yield Finding(file, place, f"{name} does not fit {wrong}")
        if kept.row.namespace not in numbers:
            yield Finding(file, place, f"there is no namespace {kept.row.namespace}")
    try:
        scan.answers()
    except ValueError as error:
        yield Finding(file, "answers of an LLM", str(error))
    yield from _snapshot_findings(scan, dim, file)


def _snapshot_findings(scan: Scan, dim: int | None, file: str) -> Iterator[Finding]:
    """A damaged snapshot; a missing one is made anew when it is wanted."""
    snapshots = Snapshots(file)
    try:
        held = scan.snapshots()
        policy = stored_policy(scan)
    except ValueError as error:
        yield Finding(file, "snapshots", str(error))
        return
    for number, generation in held:
        path = snapshots.file(number, generation)
        if dim is None or not os.path.exists(path):
            continue
        try:
            _snapshot.load(path, generation, dim, policy=policy)
        except (_snapshot.SnapshotError, OSError, TypeError, ValueError) as error:
            yield Finding(path, f"snapshot of namespace {number}", str(error))


def read(scan: Scan, id: int) -> Kept:
    """All of a memory; a ValueError if a part is missing, or of the wrong kind."""
    return Kept(
        scan.row(id),
        _part("strength", scan.trace, id),
        _part("vector", scan.vector, id),
        _part("occurrences", scan.occurrences, id),
        _part("versions", scan.versions, id),
    )


def _part(name: str, read: Callable[[int], Any], id: int) -> Any:
    try:
        return read(id)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def as_plain(kept: Kept) -> dict[str, Any]:
    """As plain data; a ValueError if what shall be JSON is not."""
    try:
        return plain(kept)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def stored_embedder(scan: Scan) -> dict[str, Any]:
    """What the store was written with; a ValueError if that is not known."""
    stored = _setting(scan, "embedder")
    embedder = json.loads(stored)
    if not isinstance(embedder, dict) or embedder.keys() != {"name", "dim", "fingerprint"}:
        raise ValueError(f"expected its name, dim and fingerprint, got {stored!r:.80}")
    try:
        check_dim(embedder["dim"])
        check_text(embedder["name"], "name")
        check_text(embedder["fingerprint"], "fingerprint")
    except TypeError as error:
        raise ValueError(str(error)) from error
    return embedder


def stored_policy(scan: Scan) -> Policy:
    """The policy that the store keeps; a ValueError if there is none."""
    try:
        return policy_from_json(_setting(scan, "policy"))
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def _setting(scan: Scan, name: str) -> str:
    settings = scan.meta()
    if name not in settings:
        raise ValueError("it is missing")
    return settings[name]


def _statistics_findings(
    scan: Scan, number: int, place: str, dim: int | None, file: str
) -> Iterator[Finding]:
    try:
        for tag, seen in scan.last_seen(number).items():
            check_text(tag, "a tag")
            to_seconds(seen, "last_seen")
    except (TypeError, ValueError) as error:
        yield Finding(file, place, f"last_seen: {error}")
    try:
        states = scan.surprise_states(number)
    except ValueError as error:
        yield Finding(file, place, f"surprise: {error}")
        return
    for mode, state in states:
        problem = check_state(mode, state, dim)
        if problem is not None:
            yield Finding(file, place, f"surprise {mode!r:.80}: {problem}")


def check_state(mode: str, state: bytes, dim: int | None) -> str | None:
    """What is wrong with the statistics of surprise of this mode; None: nothing."""
    engine = None if dim is None else Engine(dim, approximate=False)
    try:
        found = SurpriseDetector.from_state(state, last_seen={}, engine=engine)
    except ValueError as error:
        return str(error)
    return None if found.mode == mode else f"these are the statistics of {found.mode!r}"
