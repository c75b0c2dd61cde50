"""A store or an export of an older version opens with everything in it.

The files in ``data`` were written by the last Flashbulb with that version of the store's format:
some memories (a task, a completed one, a pinned one, a repeat, one recalled; from version 2 on one
that was rewritten, a photograph, one for the LLM to score, and what an LLM said) and one of another
namespace; both namespaces were exported from that same store.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flashbulb import CorruptStore, Memory, Policy
from flashbulb._store import policy_from_json
from flashbulb.storage import schema

DATA = Path(__file__).parent / "data"
VERSIONS = range(1, schema.VERSION)
REPEATED = {1: 8, 2: 7}  # the id of what was remembered twice
NOW = 1_700_100_000.0


class Letters:
    """The embedder of the files."""

    name, dim, fingerprint = "letters", 6, "6c657474657273"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[1.0 + text.count(c) for c in "aeiost"] for text in texts], np.float32)

    embed_queries = embed_documents


def exports(version: int) -> dict[str, Path]:
    """The exported namespaces, by name."""
    return {
        "default": DATA / f"export_v{version}.jsonl",
        "other": DATA / f"export_v{version}_other.jsonl",
    }


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def old(store: Path, version: int) -> Path:
    store.write_bytes(gzip.decompress((DATA / f"store_v{version}.db.gz").read_bytes()))
    assert version_of(store) == version
    return store


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def opened(path: Path, policy: Policy | None = None) -> Memory:
    return Memory(path, embedder=Letters(), policy=policy, clock=lambda: NOW)


def lines_of(name: str | Path) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def test_everything_is_there_and_new_things_work(old: Path, version: int, tmp_path: Path) -> None:
    later = {
        "photograph": None,
        "deferred": False,
        "deferred_context": "",
        "versions": [],
        "archived": None,
    }
    with opened(old) as memory:
        for name, file in exports(version).items():
            memory.namespace(name).export(tmp_path / "new.jsonl")
            header, *lines = lines_of(tmp_path / "new.jsonl")
            _, *expected = lines_of(file)
            assert header["version"] == 3
            assert lines == [{**later, **line} for line in expected]
        kept = memory.list()
        assert [record.status for record in kept[2:4]] == ["open", "completed"]
        assert [record.pinned for record in kept[:6]] == [False] * 4 + [True, False]
        assert len(memory.get(REPEATED[version]).occurrences) == 2
        assert memory.remember("one more").id == {1: 15, 2: 16}[version]
    assert version_of(old) == schema.VERSION
    with opened(old) as memory:
        assert memory.list(limit=len(kept)) == kept


def test_an_old_store_gets_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    for path in (old, new):
        opened(path).close()
    tables = [
        {
            name: connection.execute(f"PRAGMA table_info({name})").fetchall()
            for (name,) in connection.execute("SELECT name FROM sqlite_master ORDER BY name")
        }
        for path in (old, new)
        for connection in [sqlite3.connect(path)]
    ]
    assert tables[0] == tables[1]
    assert {"versions", "llm_cache", "snapshots", "changed"} < tables[0].keys()


def test_an_old_export_is_imported_whole(store: Path, version: int, tmp_path: Path) -> None:
    # Under another policy strengths would be anchored anew, as at opening.
    files = exports(version)
    policy = policy_from_json(json.dumps(lines_of(files["default"])[0]["policy"]))
    with opened(store, policy) as memory:
        for name, file in files.items():
            view = memory.namespace(name)
            view.import_(file)
            view.export(tmp_path / "new.jsonl")
            _, *lines = lines_of(tmp_path / "new.jsonl")
            _, *expected = lines_of(file)
            for line, old in zip(lines, expected, strict=True):
                assert {key: line[key] for key in old} == old
        assert memory.get(REPEATED[version]).occurrences[1].metadata == {"again": True}


@pytest.mark.parametrize("unknown", [0, 4, True, 1.5, "2", None])
def test_an_export_of_another_version_is_refused(
    store: Path, tmp_path: Path, unknown: object
) -> None:
    header, *lines = lines_of(exports(2)["default"])
    file = tmp_path / "other.jsonl"
    file.write_text(
        "\n".join(json.dumps(line) for line in [{**header, "version": unknown}, *lines])
    )
    with opened(store) as memory:
        with pytest.raises((ValueError, TypeError), match=r"line 1.*version"):
            memory.import_(file)
        assert len(memory) == 0


def test_a_migration_that_is_killed_at_any_statement_leaves_the_old_store(
    old: Path, version: int
) -> None:
    program = """
import os, signal, sqlite3, sys
from flashbulb.storage import schema

for statement in range(1, 100):
    child = os.fork()
    if child == 0:
        left = statement

        def count(_):
            global left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.set_trace_callback(count)
        schema.prepare(connection, sys.argv[1])
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    connection = sqlite3.connect(sys.argv[1])
    print(*connection.execute("PRAGMA user_version").fetchone(),
          *connection.execute("SELECT count(*) FROM sqlite_master").fetchone(),
          len(connection.execute("SELECT * FROM memories").description))
    connection.close()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(old)], check=True, stdout=subprocess.PIPE, text=True
    )
    states = ended.stdout.splitlines()
    assert len(states) > 5
    assert len(set(states)) == 1
    assert states[0].startswith(f"{version} ")
    with opened(old) as memory:
        assert len(memory) == len(lines_of(exports(version)["default"])) - 1


def test_a_migration_without_room_leaves_the_old_store(old: Path, version: int) -> None:
    """SQLite's own limit of pages stands for the disk."""
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="full"):
            schema.prepare(connection, str(old))
    assert version_of(old) == version
    with opened(old) as memory:
        assert len(memory) == len(lines_of(exports(version)["default"])) - 1


def test_the_next_version_is_refused_untouched(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    content = old.read_bytes()
    with pytest.raises(CorruptStore, match=f"needs version {schema.VERSION + 1}"):
        opened(old)
    assert old.read_bytes() == content
    assert os.listdir(old.parent) == [old.name]
