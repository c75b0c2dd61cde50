"""A sound store from what can be read of a damaged one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Any, NamedTuple

import numpy as np

from flashbulb._check import check_bool, check_file, check_text, check_timeout
from flashbulb._columns import to_unit_rows
from flashbulb._plain import Kept, checked
from flashbulb._snapshots import Snapshots
from flashbulb._store import policy_to_json
from flashbulb._time import to_seconds
from flashbulb.checking import (
    as_plain,
    check_state,
    check_store,
    present,
    read,
    stored_embedder,
    stored_policy,
)
from flashbulb.embedding import Embedder, resolve_embedder
from flashbulb.engine import Engine
from flashbulb.policy import Policy
from flashbulb.storage.backup import copy_files, new_store
from flashbulb.storage.lock import WriterLock, refuse_readers
from flashbulb.storage.reading import ReadTransaction
from flashbulb.storage.rows import TRACE_COLUMNS, Row
from flashbulb.storage.scanning import Finding, Scan
from flashbulb.storage.schema import check_path
from flashbulb.storage.sqlite import Database

__all__ = ["Repair", "repair_store"]


class Repair(NamedTuple):
    """What a repair did."""

    backup: str | None
    """Where the files are as they were; None: nothing was done, or none was wanted."""
    mended: list[Finding]
    """What was wrong, and is made anew from what else is known, or gone because it belonged to
    nothing."""
    lost: list[Finding]
    """What could not be read, and is no longer there."""


def repair_store(
    path: str | os.PathLike[str],
    *,
    embedder: Any = None,
    backup: bool = True,
    timeout: float = 5.0,
) -> Repair:
    """Make a sound store of what can be read of a damaged one, in its place; nobody may use it.

    What is derived is made anew: indexes and digests; a vector from its text, if the embedder is
    that of the store; the strength of a memory, as if it had just been remembered; statistics of
    surprise, which then have to know their stream again. A memory whose text cannot be read is
    lost, and so is an occurrence or an earlier text; all are reported. A store that is as it must
    be is not touched. The new file takes the place of the old one when it is complete.

    Parameters
    ----------
    embedder : optional
        As of a ``Memory``; by default that one's default.
    backup : bool
        Whether to keep the files as they are, beside the store, before anything is changed.
    timeout : float
        Seconds to wait for who has the store open.
    """
    real = os.path.realpath(check_file(path))
    check_bool(backup, "backup")
    timeout = check_timeout(timeout)
    check_path(real)
    resolved = resolve_embedder(embedder)
    with ExitStack() as stack:
        stack.callback(WriterLock(real, timeout).release)
        refuse_readers(real)
        found = check_store(real, timeout=timeout)
        for finding in found:
            if finding.file != real:  # a snapshot, which is made anew when it is wanted
                with suppress(FileNotFoundError):
                    os.unlink(finding.file)
        if all(finding.file != real for finding in found):
            return Repair(None, found, [])
        kept = None
        if backup:
            kept = f"{real}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.bak"
            copy_files(real, kept)
        with new_store(real) as temporary, ExitStack() as reading:
            old = reading.enter_context(closing(ReadTransaction(real, timeout, older=True)))
            scan = Scan(reading.enter_context(closing(present(old))))
            database = reading.enter_context(closing(Database(temporary, "full", 0.0)))
            salvage = _Salvage(scan, database, resolved, real)
            with database.transaction():
                salvage.run()
            Snapshots(real).remove_others(database)  # it has none yet
        lost = {finding.place for finding in salvage.lost}
        mended = [finding for finding in found if finding.place not in lost]
        return Repair(kept, mended, salvage.lost)


class _Salvage:
    """What can be read of a store, on its way into a new one."""

    def __init__(self, scan: Scan, database: Database, embedder: Embedder, file: str) -> None:
        self._scan = scan
        self._database = database
        self._embedder = embedder
        self._file = file
        self.lost: list[Finding] = []

    def run(self) -> None:
        own = {
            "name": self._embedder.name,
            "dim": self._embedder.dim,
            "fingerprint": self._embedder.fingerprint,
        }
        described = self._kept(lambda: stored_embedder(self._scan), own)
        self._embeds = described["fingerprint"] == own["fingerprint"]
        self._dim: int = described["dim"]
        policy = self._kept(lambda: stored_policy(self._scan), Policy())
        self._engine = Engine(self._dim, policy=policy, approximate=False)
        self._database.set_meta(
            {"embedder": json.dumps(described), "policy": policy_to_json(policy)}
        )
        self._numbers: dict[int, int] = {}
        for number, name, refused in self._kept(self._scan.namespaces, []):
            self._numbers[number] = self._database.create_namespace(name)
            self._database.set_refused_pins(self._numbers[number], max(refused, 0))
            self._statistics(number)
        highest = 0
        for id in self._scan.ids():
            highest = max(highest, id)
            self._memory(id)
        self._database.give_out(max(highest, self._scan.highest()))
        for answer in self._kept(self._scan.answers, []):
            self._database.add_answer(*answer)

    @staticmethod
    def _kept(read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except ValueError:
            return otherwise

    def _statistics(self, number: int) -> None:
        for mode, state in self._kept(lambda: self._scan.surprise_states(number), []):
            if check_state(mode, state, self._dim) is None:
                self._database.set_surprise_state(self._numbers[number], mode, state)
        seen = {}
        for tag, moment in self._kept(lambda: self._scan.last_seen(number), {}).items():
            with suppress(TypeError, ValueError):
                seen[check_text(tag, "a tag")] = to_seconds(moment, "last_seen")
        self._database.set_last_seen(self._numbers[number], seen)

    def _memory(self, id: int) -> None:
        try:
            kept = read(self._scan, id)
            namespace = kept.row.namespace
            kept = checked(as_plain(kept), self._dim)
        except (TypeError, ValueError):
            before = len(self.lost)
            try:
                namespace, kept = self._parts(id)
            except (TypeError, ValueError) as error:
                self.lost[before:] = [Finding(self._file, f"memory {id}", str(error))]
                return
        if namespace not in self._numbers:
            name = f"recovered-{namespace}"
            self._numbers[namespace] = self._database.create_namespace(name)
        number = self._numbers[namespace]
        self._database.insert(kept.row._replace(namespace=number))
        trace = {
            name: np.array([np.nan if kept.trace[name] is None else kept.trace[name]], dtype=kind)
            for name, kind in TRACE_COLUMNS.items()
        }
        vector = np.frombuffer(kept.vector, dtype="<f4")[None]
        self._database.insert_strengths(np.array([id], dtype=np.int64), trace, vector)
        for moment, metadata in kept.occurrences:
            self._database.add_occurrence(id, number, moment, metadata)
        for place, version in enumerate(kept.versions, start=1):
            self._database.add_version(id, place, *version)

    def _parts(self, id: int) -> tuple[int, Kept]:
        """A memory of which something is wrong: what is right of it, the rest made anew."""
        row = self._row(id)
        some = np.eye(1, self._dim, dtype="<f4").tobytes()
        whole = Kept(row, self._fresh_trace(row), some, [], [])
        checked(as_plain(whole), self._dim)
        for name, part in (
            ("trace", self._scan.trace),
            ("vector", self._scan.vector),
            ("occurrences", self._scan.occurrences),
            ("versions", self._scan.versions),
        ):
            whole = self._with(whole, name, part)
        return row.namespace, checked(as_plain(whole), self._dim)

    def _with(self, whole: Kept, name: str, part: Callable[[int], Any]) -> Kept:
        """With one part more, or with what can be made in its place."""
        id, values = whole.row.id, whole._asdict()
        try:
            values[name] = part(id)
            with_it = Kept(**values)
            checked(as_plain(with_it), self._dim)
            return with_it
        except (TypeError, ValueError) as error:
            if name == "vector":
                return whole._replace(vector=self._embedded(whole.row.text))
            if name != "trace":
                self.lost.append(Finding(self._file, f"{name} of memory {id}", str(error)))
            return whole

    def _row(self, id: int) -> Row:
        """The row, or if it is bad what its text alone says."""
        try:
            row = self._scan.row(id)
            some = np.eye(1, self._dim, dtype="<f4").tobytes()
            checked(as_plain(Kept(row, self._fresh_trace(row), some, [], [])), self._dim)
            return row
        except (TypeError, ValueError) as error:
            namespace, text, created = self._scan.text(id)
            place = f"memory {id}, all but its text"
            self.lost.append(Finding(self._file, place, str(error)))
            return Row(
                id=id,
                namespace=namespace,
                digest=b"",
                text=check_text(text, "text"),
                tags="[]",
                metadata="{}",
                who=None,
                what=None,
                when=None,
                where=None,
                arousal=0.0,
                arousal_source="repair",
                surprise=None,
                importance=None,
                flashbulb=0,
                pinned_by=None,
                created=created,
            )

    def _fresh_trace(self, row: Row) -> dict[str, Any]:
        """As of what is remembered with this arousal; whether it was a task is not known."""
        new = self._engine.add(
            np.eye(1, self._dim),
            salience=row.arousal,
            created=row.created,
            pinned=row.pinned_by is not None,
            now=row.created,
        )
        traces = self._engine.traces(new)
        values = {name: traces[name][0].item() for name in TRACE_COLUMNS}
        self._engine.remove(new)
        return {name: None if value != value else value for name, value in values.items()}

    def _embedded(self, text: str) -> bytes:
        if not self._embeds:
            raise ValueError(
                "its vector cannot be used, and the store was written with another embedder than "
                f"{self._embedder.name!r}"
            )
        row = to_unit_rows(self._embedder.embed_documents([text]), self._dim, "the embedder's")
        return bytes(row.astype("<f4").tobytes())
