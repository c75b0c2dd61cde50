"""The snapshot files of a store: which of them hold, when they are written, and when they go.

A file has the number of its namespace and its generation in its name. The one that holds is the one
that the database names, and the transaction that names it forgets what changed before: so a file
counts from the moment at which it is whole and on the disk, and is wrong at no moment. Every other
one is rubbish, of a write that was cut short or of the past.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets

from flashbulb import _snapshot
from flashbulb._files import synchronise
from flashbulb.engine import Engine
from flashbulb.errors import CorruptStore, FlashbulbError, StoreUnavailable
from flashbulb.policy import Policy
from flashbulb.storage.sqlite import Database

__all__ = ["SNAPSHOT_FROM_ROWS", "Snapshots"]

SNAPSHOT_FROM_ROWS = 10_000
"""From how many memories on a namespace has a snapshot: fewer are read from the database in about a
tenth of a second."""

_WRITTEN_ANEW_AT = 20  # when one in so many rows has changed: to catch up takes as long as to open

log = logging.getLogger("flashbulb")


class Snapshots:
    """Not synchronised; the store's lock guards it.

    Parameters
    ----------
    path : str
        The store's real path, or ":memory:", for which there are none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._states: dict[int, str] = {}
        self._unused: set[int] = set()  # those that should be written anew

    def state(self, number: int | None) -> str:
        """What became of the snapshot of a namespace at its opening, and since."""
        return "none" if number is None else self._states.get(number, "none")

    def file(self, number: int, generation: int) -> str:
        return f"{self._path}-snapshot-{number}-{generation:016x}"

    def load(
        self,
        database: Database,
        number: int,
        dim: int,
        policy: Policy,
        *,
        approximate: bool,
        level: int,
    ) -> Engine | None:
        """The engine of a namespace as the database has it now; None: read it from there.

        `level` is that of the message about a file that cannot be used.
        """
        self._unused.discard(number)
        generation = database.snapshots().get(number)
        if generation is None:
            self._states.pop(number, None)
            return None
        try:
            file = self.file(number, generation)
            engine = _snapshot.load(file, generation, dim, policy=policy, approximate=approximate)
            changed = database.load(number, dim, changed=True)
            tags = [tuple(json.loads(names)) for names in changed.tags]
            _snapshot.catch_up(engine, changed, tags, database.gone(number))
            expected = database.loaded_count(number)
            if len(engine) != expected:
                raise ValueError(f"{file} leads to {len(engine)} memories, expected {expected}")
        except (_snapshot.SnapshotError, CorruptStore, TypeError, ValueError) as error:
            # What is wrong in the database itself, its own loading says.
            log.log(level, "no use of a snapshot, the database is read instead: %s", error)
            self._states[number] = f"not used: {error}"
            self._unused.add(number)
            return None
        self._states[number] = "used"
        return engine

    def is_due(self, database: Database, number: int, engine: Engine) -> bool:
        """Whether the next opening would be much faster with a new one."""
        if self._path == ":memory:" or not _is_wanted(engine):
            return False
        if number in self._unused or number not in database.snapshots():
            return True
        return database.changes(number) * _WRITTEN_ANEW_AT >= len(engine)

    def save(self, database: Database, number: int, engine: Engine) -> None:
        """Write the snapshot of a namespace, of which the database has everything; the one before
        goes.

        Raises
        ------
        StoreUnavailable
            If there is no room, no access, a failing disk; then all is as it was.
        """
        if self._path == ":memory:":
            return
        generation = secrets.randbits(63)
        file = self.file(number, generation)
        try:
            _snapshot.save(engine, file, generation, os.stat(self._path).st_mode & 0o666)
            synchronise(os.path.dirname(self._path))
            with database.transaction():
                database.set_snapshot(number, generation)
        except Exception as error:  # an interrupt comes at an unknown place: the next opening looks
            with contextlib.suppress(OSError):
                os.unlink(file)
            if isinstance(error, OSError):
                raise StoreUnavailable(f"{file} cannot be written: {error.strerror}") from error
            raise
        self._states[number] = "written"
        self._unused.discard(number)
        self.remove_others(database)

    def try_to_save(self, database: Database, number: int, engine: Engine) -> bool:
        """The same; without one, the next opening only takes longer."""
        try:
            self.save(database, number, engine)
        except FlashbulbError as error:
            log.warning("no snapshot: %s", error)
            return False
        return True

    def drop(self, database: Database, number: int) -> None:
        """Have none of a namespace any more."""
        with database.transaction():
            database.set_snapshot(number, None)
        self._states.pop(number, None)
        self.remove_others(database)

    def forget_changed(self, database: Database, engines: dict[int, Engine]) -> None:
        """See to it that no file has what was forgotten or replaced; `engines` are those in RAM."""
        for number in database.snapshots():
            if database.changes(number) == 0:
                continue
            engine = engines.get(number)
            kept = engine is not None and _is_wanted(engine)
            if engine is None or not kept or not self.try_to_save(database, number, engine):
                self.drop(database, number)
        self.remove_others(database)

    def remove_others(self, database: Database) -> None:
        """Remove the files that the database does not name."""
        if self._path == ":memory:":
            return
        held = {
            self.file(number, generation) for number, generation in database.snapshots().items()
        }
        folder, name = os.path.split(self._path)
        pattern = re.compile(re.escape(name) + r"-snapshot-\d+-[0-9a-f]{16}")
        with contextlib.suppress(OSError):  # they do no harm: the next opening tries again
            for entry in os.listdir(folder):
                path = os.path.join(folder, entry)
                if pattern.fullmatch(entry) and path not in held:
                    os.unlink(path)


def _is_wanted(engine: Engine) -> bool:
    return len(engine) >= SNAPSHOT_FROM_ROWS
