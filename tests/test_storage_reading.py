"""Stores that are open to be read only, beside a writer or alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashbulb import (
    CorruptStore,
    EmbedderMismatch,
    Memory,
    Policy,
    ReadOnlyStore,
    Retention,
    StoreClosed,
    StoreForked,
    StoreLocked,
)
from flashbulb.storage import schema
from test_storage_processes import HOLDER, in_child, run

TEXTS = [f"event {n}" for n in range(20)]

WRITING: dict[str, Callable[[Memory], Any]] = {
    "remember": lambda memory: memory.remember("new"),
    "remember_many": lambda memory: memory.remember_many(["new", "newer"]),
    "forget": lambda memory: memory.forget(1),
    "forget what is not there": lambda memory: memory.forget(0),
    "complete": lambda memory: memory.complete(1),
    "pin": lambda memory: memory.pin(2),
    "unpin": lambda memory: memory.unpin(2),
    "reconsolidate": lambda memory: memory.reconsolidate(2, "a new context"),
    "reinforce": lambda memory: memory.reinforce([1, 2]),
    "recall and reinforce": lambda memory: memory.recall("event 3", reinforce=True),
    "compact": lambda memory: memory.compact(),
    "forget_all": lambda memory: memory.forget_all(),
    "restore": lambda memory: memory.restore(2),
    "apply_retention": lambda memory: memory.apply_retention(Retention(size=1)),
    "snapshot": lambda memory: memory.snapshot(),
    "import_": lambda memory: memory.import_(Path(__file__)),
    "import into another": lambda memory: memory.namespace("other").import_(Path(__file__)),
    "remember in another": lambda memory: memory.namespace("other").remember("new"),
}

READING = {
    *("backup", "check", "close", "export", "get", "history", "list", "namespace", "namespaces"),
    *("recall", "refresh", "stats", "why_not"),
}


def test_of_every_method_it_is_known_whether_it_writes() -> None:
    methods = {
        name for name in dir(Memory) if not name.startswith("_") and callable(getattr(Memory, name))
    }
    assert methods == READING | WRITING.keys() & methods | {"rescore"}


@pytest.fixture
def written(store: Path, clock: Any) -> Path:
    """A closed store."""
    with Memory(store, clock=clock) as memory:
        memory.remember("a task", urgency=0.5)
        memory.remember_many(TEXTS)
        memory.namespace("agent 7").remember("of another")
    return store


def state(memory: Memory) -> tuple[Any, ...]:
    now = 1_700_100_000.0
    hits = memory.recall("event 3", k=50, reinforce=False, now=now)
    return memory.list(now=now), hits, memory.stats()["memories"]


# What it shows


def test_it_shows_what_the_writer_shows(written: Path, clock: Any) -> None:
    with Memory(written, clock=clock) as memory:
        expected = state(memory)
        others = memory.namespace("agent 7").list()
        with Memory(written, read_only=True, clock=clock) as reader:
            assert reader.read_only
            assert not memory.read_only
            assert state(reader) == expected
            assert reader.namespace("agent 7").list() == others
            assert reader.get(3) == memory.get(3)
            assert reader.history(3) == memory.history(3)
            assert reader.why_not("event 3", 9).rank == memory.why_not("event 3", 9).rank
            assert len(reader) == len(memory)
            assert reader.policy == memory.policy


def test_a_snapshot_stays_until_it_is_refreshed(written: Path, clock: Any) -> None:
    with Memory(written, clock=clock) as memory, Memory(written, read_only=True) as reader:
        early = Memory(written, read_only=True)
        before = state(reader)
        assert not reader.refresh()
        id = memory.remember("written meanwhile", tags=["late"]).id
        memory.forget(5)
        memory.namespace("agent 8").remember("of a new one")
        assert state(reader) == before
        assert len(reader.namespace("agent 8")) == 0  # read only now, from the same moment
        assert reader.get(5).text == "event 3"
        assert reader.refresh()
        assert not reader.refresh()
        assert state(reader) == state(memory)
        assert reader.get(id).tags == ("late",)
        assert len(reader.namespace("agent 8")) == 1
        assert state(early) == before
        early.close()


def test_strengths_come_with_a_refresh_too(written: Path, clock: Any) -> None:
    with Memory(written, clock=clock) as memory, Memory(written, read_only=True) as reader:
        memory.recall("event 3", k=1)
        memory.pin(9)  # writes what the recall changed
        assert reader.get(5).access_count == 0
        assert reader.refresh()
        assert reader.get(5).access_count == 1
        assert reader.get(9).pinned


def test_a_writer_is_always_at_the_newest_state(written: Path) -> None:
    with Memory(written) as memory:
        memory.remember("x")
        assert memory.refresh() is False
        assert len(memory) == 22


def test_a_snapshot_survives_a_writer_that_closes_and_comes_again(written: Path) -> None:
    writer = Memory(written)
    with Memory(written, read_only=True) as reader:
        before = state(reader)
        for n in range(3):
            writer.remember(f"later {n}")
            writer.close()
            assert state(reader) == before
            writer = Memory(written)
        writer.close()
        assert reader.refresh()
        assert len(reader) == 24


def test_a_file_that_took_the_place_of_the_store_is_found_by_a_refresh(
    written: Path, tmp_path: Path
) -> None:
    with Memory(tmp_path / "other.db") as other:
        other.remember("in its place")
    with Memory(written, read_only=True) as reader:
        os.replace(tmp_path / "other.db", written)
        assert len(reader) == 21
        assert reader.refresh()
        assert [record.text for record in reader.list()] == ["in its place"]


def test_what_cannot_be_refreshed_stays(written: Path) -> None:
    with Memory(written, read_only=True) as reader:
        before = state(reader)
        kept = written.read_bytes()
        written.unlink()
        with pytest.raises(FileNotFoundError, match=r"agent\.db"):
            reader.refresh()
        assert state(reader) == before
        written.write_bytes(kept)
        assert reader.refresh()
        assert state(reader) == before


# What it refuses


@pytest.mark.parametrize("call", WRITING.values(), ids=WRITING)
def test_what_writes_is_refused_before_anything_is_done(
    written: Path, call: Callable[[Memory], Any]
) -> None:
    class Refusing:
        name, dim, fingerprint = "t", 2, "t"

    with Memory(written, read_only=True) as reader:
        before = state(reader)
        embedder = reader._embedder
        reader._embedder = Refusing()  # type: ignore[assignment]
        with pytest.raises(ReadOnlyStore, match=r"agent\.db.*read only"):
            call(reader)
        reader._embedder = embedder
        assert state(reader) == before
    with Memory(written) as memory:
        assert state(memory) == before


def test_rescoring_is_refused_too(written: Path) -> None:
    from flashbulb import ArousalDetector
    from flashbulb.arousal import LLMJudge

    class Unasked(LLMJudge):
        def __init__(self) -> None:
            pass

    with (
        Memory(written, read_only=True, detector=ArousalDetector(llm=Unasked())) as reader,
        pytest.raises(ReadOnlyStore),
    ):
        reader.rescore()


def test_a_recall_reinforces_only_where_that_can_be_kept(written: Path, clock: Any) -> None:
    with Memory(written, read_only=True, clock=clock) as reader:
        for arguments in ({}, {"reinforce": None}, {"reinforce": False}):
            assert reader.recall("event 3", k=1, **arguments)[0].text == "event 3"
        assert reader.get(5).access_count == 0
    with Memory(written, clock=clock) as memory:
        assert memory.get(5).access_count == 0
        memory.recall("event 3", k=1)
        assert memory.get(5).access_count == 1
        with pytest.raises(TypeError, match="reinforce"):
            memory.recall("event 3", reinforce="no")  # type: ignore[arg-type]


def test_settings_are_compared_as_ever(written: Path) -> None:
    class Other:
        name, dim, fingerprint = "other", 8, "other"

        def embed_documents(self, texts: Any) -> Any: ...
        def embed_queries(self, texts: Any) -> Any: ...

    with pytest.raises(EmbedderMismatch):
        Memory(written, read_only=True, embedder=Other())
    with Memory(written, read_only=True, policy=Policy()) as reader:
        assert len(reader) == 21
    with pytest.raises(ReadOnlyStore, match="another policy"):
        Memory(written, read_only=True, policy=Policy(recency_days=5.0))
    with pytest.raises(TypeError, match="read_only"):
        Memory(written, read_only=1)  # type: ignore[arg-type]


def test_what_is_not_there_cannot_be_read(store: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"agent\.db"):
        Memory(store, read_only=True)
    with pytest.raises(FileNotFoundError, match="no folder"):
        Memory(store / "deeper", read_only=True)
    with pytest.raises(IsADirectoryError):
        Memory(tmp_path, read_only=True)
    with pytest.raises(ValueError, match="nothing to read"):
        Memory(":memory:", read_only=True)
    store.touch()
    with pytest.raises(ReadOnlyStore, match="empty"):
        Memory(store, read_only=True)
    store.write_bytes(b"garbage" * 1000)
    with pytest.raises(CorruptStore):
        Memory(store, read_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.db"]


def test_an_older_store_must_be_brought_to_this_version_first(written: Path) -> None:
    with sqlite3.connect(written) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    connection.close()
    before = written.read_bytes()
    with pytest.raises(ReadOnlyStore, match=f"of version {schema.VERSION - 1} .*once for writing"):
        Memory(written, read_only=True)
    assert written.read_bytes() == before


def test_a_closed_reader_says_so(written: Path) -> None:
    reader = Memory(written, read_only=True)
    view = reader.namespace("agent 7")
    reader.close()
    reader.close()
    for call in (reader.refresh, reader.stats, lambda: view.remember("x"), view.list):
        with pytest.raises(StoreClosed):
            call()


# Beside others


def test_reading_takes_no_lock_and_writes_nothing(written: Path) -> None:
    before = written.read_bytes()
    readers = [Memory(written, read_only=True, timeout=0) for _ in range(3)]
    assert not written.with_name("agent.db.lock").exists()
    with Memory(written, timeout=0) as memory:
        late = Memory(written, read_only=True, timeout=0)
        with pytest.raises(StoreLocked):
            Memory(written, timeout=0)
        for reader in (*readers, late):
            assert state(reader) == state(memory)
            reader.close()
    assert written.read_bytes() == before
    assert [path.name for path in written.parent.iterdir()] == ["agent.db"]


def test_another_process_reads_while_one_writes(store: Path) -> None:
    holder = run(HOLDER, store)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with Memory(store, read_only=True, timeout=0) as reader:
            assert [record.text for record in reader.list()] == ["held"]
            holder.kill()
            holder.wait()
            assert len(reader) == 1
            with Memory(store, timeout=0) as memory:  # the reader does not hold it off
                memory.remember("after the end of the holder")
            assert reader.refresh()
            assert len(reader) == 2
    finally:
        holder.kill()
        holder.communicate()


def test_a_reader_that_ends_does_not_take_the_locks_of_a_writer(written: Path) -> None:
    """Closing a descriptor drops the locks of its process on the file, unless SQLite does it."""
    program = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("DELETE FROM meta")
        except sqlite3.OperationalError as error:
            print(error)
    """
    with Memory(written) as memory:
        memory.remember("x")
        with memory._store.database.transaction():
            for _ in range(2):
                with Memory(written, read_only=True) as reader:
                    assert len(reader) == 22
                    reader.refresh()
            assert run(program, written).communicate()[0] == "database is locked\n"


def test_readers_see_whole_batches_while_a_thread_writes(store: Path) -> None:
    batches = 40
    with Memory(store, durability="normal") as memory:
        memory.remember_many([f"batch 0 row {n}" for n in range(10)])
        failures: list[object] = []
        done = threading.Event()

        def read() -> None:
            try:
                with Memory(store, read_only=True) as reader:
                    seen = 0
                    while not done.is_set():
                        reader.refresh()
                        texts = [record.text for record in reader.list()]
                        assert len(texts) % 10 == 0
                        assert len(texts) >= seen
                        assert len(reader.recall("row 3", k=1000)) == len(texts)
                        seen = len(texts)
                    reader.refresh()
                    assert len(reader) == 10 * batches
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, batches):
            memory.remember_many([f"batch {number} row {n}" for n in range(10)])
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_compaction_waits_for_readers(written: Path) -> None:
    with Memory(written, timeout=0) as memory:
        memory.forget(3)
        with (
            Memory(written, read_only=True),
            pytest.raises(StoreLocked, match="compact again later"),
        ):
            memory.compact()
        memory.compact()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_may_not_go_on_reading(written: Path, tmp_path: Path) -> None:
    with Memory(tmp_path / "other.db") as other:
        other.remember("x")
    with Memory(written, read_only=True) as reader:

        def child() -> int:
            for call in (reader.refresh, reader.list, lambda: reader.recall("x")):
                with pytest.raises(StoreForked):
                    call()
            reader.close()
            for read_only in (True, False):
                with pytest.raises(StoreForked, match="spawn"):
                    Memory(written, read_only=read_only)
            with Memory(tmp_path / "other.db", read_only=True) as another:
                assert len(another) == 1
            return 7

        assert in_child(child) == 7
        assert not reader.refresh()
    with Memory(written) as memory:
        assert len(memory) == 21


def test_a_file_with_two_names_is_not_read(written: Path) -> None:
    link = written.with_name("link.db")
    link.hardlink_to(written)
    with pytest.raises(StoreLocked, match="2 names"):
        Memory(link, read_only=True)


def test_a_symbolic_link_is_followed(written: Path) -> None:
    link = written.with_name("link.db")
    link.symlink_to(written)
    with Memory(written) as memory, Memory(link, read_only=True) as reader:
        memory.remember("x")
        assert reader.refresh()
        assert len(reader) == 22


# Where nothing may be written


@pytest.fixture
def unwritable(written: Path) -> Iterator[Path]:
    """A store and its folder that the user of `as_nobody` may only read."""
    folder = Path(tempfile.mkdtemp(prefix="flashbulb-"))
    copy = folder / "agent.db"
    shutil.copy(written, copy)
    copy.chmod(0o444)
    folder.chmod(0o555)
    yield copy
    folder.chmod(0o755)
    shutil.rmtree(folder)


# Everything is imported before the rights go: another user may not read what Python is made of.
WITHOUT_RIGHTS = """
import os, sys
from flashbulb import Memory, StoreUnavailable
with Memory(":memory:") as memory:
    memory.remember("x")
    memory.recall("x")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def as_nobody(program: str, store: Path) -> subprocess.Popen[str]:
    """Another Python process, without the rights of root."""
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_RIGHTS + textwrap.dedent(program), str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_store_that_may_only_be_read_is_read(unwritable: Path) -> None:
    program = """
        with Memory(sys.argv[1], read_only=True) as reader:
            print(len(reader), reader.recall("event 3", k=1)[0].text, reader.refresh())
        try:
            Memory(sys.argv[1])
        except PermissionError as error:
            print("writable" in str(error))
    """
    assert as_nobody(program, unwritable).communicate()[0] == "21 event 3 False\nTrue\n"
    assert os.listdir(unwritable.parent) == ["agent.db"]


def test_a_change_by_its_owner_is_found_by_a_refresh(unwritable: Path) -> None:
    program = """
        with Memory(sys.argv[1], read_only=True) as reader:
            print(len(reader), flush=True)
            sys.stdin.readline()
            print(reader.refresh(), reader.refresh(), len(reader), flush=True)
    """
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    reader = as_nobody(program, unwritable)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "21\n"
    with Memory(unwritable) as memory:
        memory.remember("by its owner")
    out, _ = reader.communicate("\n")
    assert out == "True False 22\n"


def test_a_log_that_cannot_be_read_there_is_said(unwritable: Path, written: Path) -> None:
    """Without its index the log of a killed writer needs one that writes."""
    unwritable.parent.chmod(0o755)
    unwritable.with_name("agent.db-wal").write_bytes(b"")
    unwritable.parent.chmod(0o555)
    program = """
        try:
            Memory(sys.argv[1], read_only=True)
        except StoreUnavailable as error:
            print(error)
    """
    assert "agent.db" in as_nobody(program, unwritable).communicate()[0]
