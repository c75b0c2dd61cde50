"""The tables of a store, and the question whether a file is one."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from flashbulb.errors import CorruptStore, StoreUnavailable
from flashbulb.storage.translation import translated

__all__ = ["VERSION", "check_file", "check_header", "check_path", "connect", "prepare"]

_SMALLEST_DATABASE = 512  # one page of the smallest size
_APPLICATION_ID = 0x464C4248  # "FLBH"

# Text, strength and vector lie in tables of their own: a recall rewrites the small strengths of
# many rows, and only few pages with them. NULL stands for NaN (never; not a task).
_VERSION_1 = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    refused_pins INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE surprise (
    namespace INTEGER NOT NULL REFERENCES namespaces,
    mode TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (namespace, mode)
);

-- When a tag was last remembered, for temporal novelty. `tag` is a digest: the statistics of the
-- stream outlive what is forgotten, its words do not.
CREATE TABLE last_seen (
    namespace INTEGER NOT NULL REFERENCES namespaces,
    tag TEXT NOT NULL,
    time REAL NOT NULL,
    PRIMARY KEY (namespace, tag)
) WITHOUT ROWID;

CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL REFERENCES namespaces,
    digest BLOB NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    who TEXT,
    what TEXT,
    "when" TEXT,
    "where" TEXT,
    arousal REAL NOT NULL,
    arousal_source TEXT NOT NULL,
    surprise REAL,
    importance REAL,
    flashbulb INTEGER NOT NULL,
    pinned_by TEXT,
    created REAL NOT NULL
);
CREATE INDEX memories_by_digest ON memories (namespace, digest);
CREATE INDEX memories_by_time ON memories (namespace, created);

CREATE TABLE traces (
    id INTEGER PRIMARY KEY REFERENCES memories,
    salience REAL NOT NULL,
    floor REAL NOT NULL,
    vividness REAL NOT NULL,
    vividness_time REAL NOT NULL,
    last_access REAL,
    last_strength_change REAL,
    access_count INTEGER NOT NULL,
    urgency REAL,
    status INTEGER NOT NULL,
    pinned INTEGER NOT NULL
);

CREATE TABLE vectors (
    id INTEGER PRIMARY KEY REFERENCES memories,
    vector BLOB NOT NULL
);

-- The second and later times that a memory was remembered.
CREATE TABLE occurrences (
    number INTEGER PRIMARY KEY,
    memory INTEGER NOT NULL REFERENCES memories,
    namespace INTEGER NOT NULL REFERENCES namespaces,
    time REAL NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX occurrences_by_memory ON occurrences (memory);
CREATE INDEX occurrences_by_time ON occurrences (namespace, time);
"""

_VERSION_2 = """
-- JSON: field -> [value, source, start, end], of what was extracted from the text.
ALTER TABLE memories ADD COLUMN photograph TEXT;
-- From 1 on: still to be scored by the LLM, 1 more for each answer that was no judgement; with the
-- context that is kept until then.
ALTER TABLE memories ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memories ADD COLUMN deferred_context TEXT NOT NULL DEFAULT '';
CREATE INDEX memories_deferred ON memories (namespace, id) WHERE deferred;

-- The texts that a memory had before, the oldest is number 1; when and why each was replaced.
CREATE TABLE versions (
    memory INTEGER NOT NULL REFERENCES memories,
    number INTEGER NOT NULL,
    time REAL NOT NULL,
    text TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (memory, number)
) WITHOUT ROWID;

-- What an LLM said. `key` begins with a digest of the text that it was asked about, so that its
-- answers are found when the text is forgotten.
CREATE TABLE llm_cache (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    time REAL NOT NULL
) WITHOUT ROWID;
"""

_VERSION_3 = """
-- The generation of the snapshot file of a namespace: a file with another one does not count.
CREATE TABLE snapshots (
    namespace INTEGER PRIMARY KEY REFERENCES namespaces,
    generation INTEGER NOT NULL
);

-- What was remembered, forgotten, strengthened, rewritten or moved since that snapshot. Triggers
-- note it, so that no statement can leave it out.
CREATE TABLE changed (
    namespace INTEGER NOT NULL REFERENCES snapshots,
    id INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) WITHOUT ROWID;

-- What a namespace has pinned is asked for at its opening: without reading all texts.
CREATE INDEX memories_pinned ON memories (namespace, pinned_by) WHERE pinned_by IS NOT NULL;

-- When a memory moved to the archive; NULL: it is in RAM and searched. The index has the ids of
-- a tier in their order.
ALTER TABLE memories ADD COLUMN archived REAL;
CREATE INDEX memories_by_tier ON memories (namespace, archived);

CREATE TRIGGER memories_remembered AFTER INSERT ON memories
WHEN NEW.namespace IN (SELECT namespace FROM snapshots) BEGIN
    INSERT OR IGNORE INTO changed VALUES (NEW.namespace, NEW.id);
END;
CREATE TRIGGER memories_forgotten AFTER DELETE ON memories
WHEN OLD.namespace IN (SELECT namespace FROM snapshots) BEGIN
    INSERT OR IGNORE INTO changed VALUES (OLD.namespace, OLD.id);
END;
CREATE TRIGGER memories_moved AFTER UPDATE OF archived ON memories
WHEN NEW.namespace IN (SELECT namespace FROM snapshots) BEGIN
    INSERT OR IGNORE INTO changed VALUES (NEW.namespace, NEW.id);
END;
CREATE TRIGGER traces_changed AFTER UPDATE ON traces
WHEN EXISTS (SELECT 1 FROM snapshots) BEGIN
    INSERT OR IGNORE INTO changed
    SELECT namespace, id FROM memories WHERE id = NEW.id
    AND namespace IN (SELECT namespace FROM snapshots);
END;
CREATE TRIGGER vectors_changed AFTER UPDATE ON vectors
WHEN EXISTS (SELECT 1 FROM snapshots) BEGIN
    INSERT OR IGNORE INTO changed
    SELECT namespace, id FROM memories WHERE id = NEW.id
    AND namespace IN (SELECT namespace FROM snapshots);
END;
"""

# What each version added to the one before. A new store takes every step, an older one those that
# it lacks: there is one way to each table.
_STEPS = (_VERSION_1, _VERSION_2, _VERSION_3)
VERSION = len(_STEPS)


def check_path(path: str, *, read_only: bool = False) -> None:
    """Refuse a path that cannot hold a store; nothing is opened or created.

    Raises
    ------
    IsADirectoryError, PermissionError, FileNotFoundError
        What is there is a directory or not ours to use; or the folder is missing, or, if it is
        only to be read, the file.
    StoreUnavailable
        What is there is no file, but a device, a pipe, a link to itself.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"no folder {folder} for the store {path}") from None
        if read_only:
            raise FileNotFoundError(f"there is no store {path} to read") from None
        return
    except PermissionError:
        raise
    except OSError as error:
        raise StoreUnavailable(
            f"a store must be a regular file, {path} is none: {error.strerror}"
        ) from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"a store must be a file, {path} is a directory")
    if not stat.S_ISREG(mode):
        raise StoreUnavailable(
            f"a store must be a regular file, {path} is a device, pipe or socket"
        )
    if not os.access(path, os.R_OK if read_only else os.R_OK | os.W_OK):
        needed = "readable" if read_only else "readable and writable"
        raise PermissionError(f"the store {path} must be {needed}")


def check_file(path: str, timeout: float) -> None:
    """Refuse what is not a store, or a newer one, before anything is opened for writing.

    `timeout` is how many seconds to wait for another program that holds the file.

    Raises
    ------
    CorruptStore
        If the file is no SQLite database, another program's, or of a newer version.
    """
    if not os.path.exists(path):
        return
    size = os.path.getsize(path)
    if size == 0:
        return
    if size < _SMALLEST_DATABASE:  # SQLite would take it for an empty one
        raise CorruptStore(f"{path} is not a Flashbulb store: it has only {size} bytes")
    if os.path.exists(path + "-journal") and _is_blank(path):
        return  # its creation was cut short, and SQLite takes it back
    if not _is_database(path):
        raise CorruptStore(f"{path} is not a Flashbulb store, nor any SQLite database")
    # Without a log the file says all, and immutable means that nothing appears beside it. With a
    # log only both together say what is there; a connection that only reads moves nothing. (Beside
    # a rollback journal it cannot read. A store has one only before there is anything in it; after
    # a power cut perhaps with a log that was begun when the journal had lost its name.)
    logged = os.path.exists(path + "-wal") and not os.path.exists(path + "-journal")
    mode = "mode=ro" if logged else "immutable=1"
    with translated(path), closing(connect(path, mode, timeout)) as connection:
        check_header(connection, path)


def _is_blank(path: str) -> bool:
    """Whether a file, which nobody has open, has no content yet but its length."""
    with open(path, "rb") as file:
        return not any(map(any, iter(lambda: file.read(1 << 16), b"")))


def _is_database(path: str) -> bool:
    """Whether the file itself begins like one: SQLite would take the first page from a log."""
    with closing(connect(path, "immutable=1", 0.0)) as connection:
        try:
            connection.execute("PRAGMA application_id").fetchone()
        except sqlite3.DatabaseError as error:
            return "not a database" not in str(error)
    return True


def connect(path: str, mode: str, timeout: float) -> sqlite3.Connection:
    """Open the file at `path`, a real path, as the parameters of SQLite's URI say."""
    return sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )


def prepare(connection: sqlite3.Connection, path: str) -> bool:
    """Bring a database that is empty or of an older version to this one; say whether it was empty.

    All in one transaction: whatever ends the program, the file is what it was or what it shall be.
    """
    version = check_header(connection, path)
    if version < VERSION:
        connection.executescript(
            f"BEGIN IMMEDIATE; {''.join(_STEPS[version:])}"
            f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
        )
    return version == 0


def check_header(connection: sqlite3.Connection, path: str) -> int:
    """The version of the store; 0: nothing is there yet; CorruptStore: it is none, or newer."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == version == objects == 0:
        return 0  # new, or its creation was interrupted
    if application != _APPLICATION_ID:
        raise CorruptStore(f"{path} is an SQLite database of another program, not a store")
    if version > VERSION:
        raise CorruptStore(
            f"{path} needs version {version} of the store format, this Flashbulb reads up to "
            f"{VERSION}; update Flashbulb"
        )
    if version < 1 or objects == 0:
        raise CorruptStore(f"{path} is a damaged store: version {version}, {objects} tables")
    return int(version)
