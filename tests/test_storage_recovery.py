"""A store whose program ended at any moment opens again with every acknowledged row."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from flashbulb import CorruptStore, Memory
from flashbulb.storage import schema

PAGE = 4096


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def crash(program: str, *arguments: object) -> None:
    """Run a program that ends without closing anything."""
    subprocess.run(
        [sys.executable, "-c", f"import os, sys\n{program}\nos._exit(0)", *map(str, arguments)],
        check=True,
    )


def test_a_checkpoint_may_stop_after_any_page(tmp_path: Path) -> None:
    """SQLite copies pages from the log in ascending order; the log stays until all are there."""
    store, copy = tmp_path / "agent.db", tmp_path / "copy" / "agent.db"
    texts = [f"fact {n} " + "x" * 300 for n in range(40)]
    crash(
        "from flashbulb import Memory\nmemory = Memory(sys.argv[1])\n"
        "for n in range(40): memory.remember(f'fact {n} ' + 'x' * 300)",
        store,
    )
    log, before = store.with_name("agent.db-wal").read_bytes(), store.read_bytes()
    with Memory(store) as memory:
        assert [record.text for record in memory.list()] == texts
    after = store.read_bytes()
    pages = len(after) // PAGE
    assert pages > len(before) // PAGE + 10
    copy.parent.mkdir()
    for done in range(pages + 1):
        copy.write_bytes(after[: done * PAGE] + before[done * PAGE :])
        copy.with_name("agent.db-wal").write_bytes(log)
        with Memory(copy) as memory:
            assert [record.text for record in memory.list()] == texts
            memory.forget(memory.remember("one more").id)
        shutil.rmtree(copy.parent)
        copy.parent.mkdir()


@pytest.mark.parametrize("log", [False, True])
def test_creation_may_stop_before_its_journal_is_gone(store: Path, log: bool) -> None:
    """The first page is there, and the journal that would take it away again.

    After a power cut perhaps the log too, which was named after the journal had lost its name.
    """
    crash(
        "import sqlite3\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\nconnection.execute('BEGIN')\n"
        "connection.execute('CREATE TABLE t (a)')\n"
        "for n in range(50): connection.execute('INSERT INTO t VALUES (zeroblob(3000))')",
        store,
    )
    first = store.with_name("first.db")
    connection = sqlite3.connect(first)
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.close()
    assert first.stat().st_size == PAGE
    store.write_bytes(first.read_bytes())
    assert store.with_name("agent.db-journal").stat().st_size > 0
    if log:
        store.with_name("agent.db-wal").touch()
    with Memory(store) as memory:
        memory.remember("x")
    with Memory(store) as memory:
        assert len(memory) == 1


@pytest.mark.parametrize("index", [True, False])
def test_another_programs_log_is_left_alone(store: Path, index: bool) -> None:
    """Its rows are in the log only; to open it for writing would move them."""
    crash(
        "import sqlite3\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA journal_mode = WAL')\n"
        "connection.execute('CREATE TABLE mine (a)')\n"
        "connection.execute('INSERT INTO mine VALUES (42)')",
        store,
    )
    if not index:
        store.with_name("agent.db-shm").unlink()
    before = content_of(store.parent)
    assert len(before["agent.db-wal"]) > 0
    with pytest.raises(CorruptStore, match="another program"):
        Memory(store)
    after = content_of(store.parent)
    for name in ("agent.db", "agent.db-wal"):
        assert after[name] == before[name]
    connection = sqlite3.connect(store)
    assert connection.execute("SELECT a FROM mine").fetchall() == [(42,)]
    connection.close()


def test_a_newer_store_whose_version_is_in_the_log_is_left_alone(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember("x")
    crash(
        "import sqlite3\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        f"connection.execute('PRAGMA user_version = {schema.VERSION + 1}')",
        store,
    )
    before = content_of(store.parent)
    with pytest.raises(CorruptStore, match=f"needs version {schema.VERSION + 1}"):
        Memory(store)
    after = content_of(store.parent)
    for name in ("agent.db", "agent.db-wal"):
        assert after[name] == before[name]


def test_rubbish_beside_a_log_is_left_alone(store: Path) -> None:
    with Memory(store.with_name("other.db")) as memory:
        memory.remember("x")
        log = subprocess.run(
            ["cat", f"{store.parent}/other.db-wal"], check=True, stdout=subprocess.PIPE
        ).stdout
    store.write_bytes(b"garbage" * 1000)
    store.with_name("agent.db-wal").write_bytes(log)
    with pytest.raises(CorruptStore, match=r"agent\.db"):
        Memory(store)
    assert store.read_bytes() == b"garbage" * 1000
    assert store.with_name("agent.db-wal").read_bytes() == log
