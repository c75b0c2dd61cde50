"""Copies of a store that is in use."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from command import run
from flashbulb import (
    CorruptStore,
    Memory,
    StoreClosed,
    StoreLocked,
    StoreUnavailable,
)
from flashbulb.storage.lock import WriterLock

NOW = 1_700_100_000.0


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder / "copy.db"


@pytest.fixture
def memory(store: Path, clock: Any) -> Any:
    with Memory(store, clock=clock) as memory:
        memory.remember("a task", urgency=0.5)
        memory.remember_many([f"event {n}" for n in range(200)])
        memory.namespace("agent 7").remember("of another")
        memory.recall("event 3", k=1)
        yield memory


def state(memory: Memory) -> tuple[Any, ...]:
    others = memory.namespace("agent 7")
    hits = memory.recall("event 3", k=9, reinforce=False, now=NOW)
    return memory.list(now=NOW), others.list(now=NOW), hits


def test_a_copy_is_the_store_with_what_recalls_changed(memory: Memory, copy: Path) -> None:
    expected = state(memory)
    memory.backup(copy)
    with Memory(copy) as other:
        assert state(other) == expected
        assert other.recall("event 3", k=1, reinforce=False)[0].record.access_count == 1
        other.remember("only there")
        assert len(memory) == len(other) - 1
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]


def test_a_reader_and_a_store_in_ram_are_copied_too(
    memory: Memory, store: Path, copy: Path
) -> None:
    with Memory(store, read_only=True) as reader:
        expected = state(reader)
        reader.backup(copy)
        with Memory(copy) as other:
            assert state(other) == expected
    with Memory(":memory:") as volatile:
        volatile.remember("kept after all")
        volatile.backup(copy, overwrite=True)
    with Memory(copy) as other:
        assert [record.text for record in other.list()] == ["kept after all"]


def test_others_write_while_the_copy_is_made_and_it_is_of_one_moment(
    memory: Memory, store: Path, copy: Path
) -> None:
    expected = state(memory)
    reports: list[tuple[int, int]] = []

    def write(done: int, total: int) -> None:
        reports.append((done, total))
        writer = threading.Thread(target=memory.remember, args=(f"meanwhile {done}",))
        writer.start()
        writer.join(60)  # it would hang if the copying held a lock
        assert not writer.is_alive()

    memory.remember_many([f"more {n}" for n in range(2000)])
    expected = state(memory)
    memory.backup(copy, progress=write)
    assert len(reports) > 1
    done, total = reports[-1]
    assert done == total
    assert [report[0] for report in reports] == sorted(report[0] for report in reports)
    with Memory(copy) as other:
        assert state(other) == expected
    assert len(memory) == len(expected[0]) + len(reports)


def test_what_is_there_stays_unless_it_may_be_replaced(memory: Memory, copy: Path) -> None:
    copy.write_text("precious")
    with pytest.raises(FileExistsError, match=r"copy\.db"):
        memory.backup(copy)
    assert copy.read_text() == "precious"
    memory.backup(copy, overwrite=True)
    memory.backup(copy, overwrite=True)
    with Memory(copy) as other:
        assert len(other) == 201


def test_a_store_that_is_in_use_is_not_replaced(memory: Memory, copy: Path) -> None:
    with Memory(copy) as other:
        other.remember("in use")
        with pytest.raises(StoreLocked):
            memory.backup(copy, overwrite=True)
        assert len(other) == 1
    with Memory(copy, read_only=True) as other:
        with pytest.raises(StoreLocked, match="somebody reads it"):
            memory.backup(copy, overwrite=True)
        assert len(other) == 1
    memory.backup(copy, overwrite=True)
    with Memory(copy) as other:
        assert len(other) == 201


def test_the_log_of_a_replaced_store_is_not_taken_for_one_of_the_copy(
    memory: Memory, store: Path, copy: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.db"
    with Memory(old) as other:
        other.remember_many([f"old {n}" for n in range(50)])
        for end in ("", "-wal"):  # as if it had been killed
            copy.with_name(f"copy.db{end}").write_bytes(Path(f"{old}{end}").read_bytes())
    memory.backup(copy, overwrite=True)
    with Memory(copy) as other:
        assert state(other) == state(memory)


@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".lock"])
def test_the_files_of_the_store_are_not_replaced(memory: Memory, store: Path, end: str) -> None:
    for path in (Path(f"{store}{end}"), store.parent / "." / f"agent.db{end}"):
        with pytest.raises(ValueError, match="of the open store itself"):
            memory.backup(path, overwrite=True)
    assert len(memory) == 201


def test_what_fails_leaves_nothing(
    memory: Memory, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        memory.backup(copy, progress=interrupt)
    copy.write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space"):
            memory.backup(copy, overwrite=True)
    assert copy.read_text() == "precious"
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    with pytest.raises(FileNotFoundError, match="no folder"):
        memory.backup(copy / "deeper")
    with pytest.raises(ValueError, match="must be a file"):
        memory.backup(copy.parent, overwrite=True)
    assert len(memory) == 201


def test_a_full_disk_is_said(memory: Memory, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flashbulb.storage import backup

    connect = backup.connect

    def small(*arguments: Any) -> sqlite3.Connection:
        connection = connect(*arguments)
        connection.execute("PRAGMA max_page_count = 3").fetchone()
        return connection

    monkeypatch.setattr(backup, "connect", small)
    with pytest.raises(StoreUnavailable, match="full"):
        memory.backup(copy)
    assert list(copy.parent.iterdir()) == []


def test_the_copy_gets_its_name_when_it_is_durable(
    memory: Memory, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: (calls.append(os.readlink(f"/proc/self/fd/{number}")), fsync(number)),
    )
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("replace"), replace(*paths)))
    memory.backup(copy)
    assert calls[0].startswith(str(copy.parent / ".copy.db."))
    assert calls[1:] == ["replace", str(copy.parent)]


def test_copies_need_an_open_store_and_good_arguments(memory: Memory, copy: Path) -> None:
    with pytest.raises(TypeError, match="overwrite"):
        memory.backup(copy, overwrite=1)  # type: ignore[arg-type]
    memory.close()
    with pytest.raises(StoreClosed):
        memory.backup(copy)


# The command


def test_the_command_copies_beside_an_agent(
    memory: Memory, store: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "backup", str(copy), "--store", str(store))[0] == 0
    code, out, err = run(capsys, "backup", str(copy), "--store", str(store))
    assert (code, out) == (3, "")
    assert "may not be replaced" in err
    code, out, _ = run(capsys, "backup", str(copy), "--store", str(store), "--overwrite", "--json")
    assert code == 0
    assert json.loads(out) == {"copy": str(copy), "bytes": copy.stat().st_size}
    with Memory(copy) as other:
        assert len(other) == 201
    code, _, err = run(capsys, "backup", str(copy), "--store", str(store) + "x", "--overwrite")
    assert code == 3
    assert "no store" in err
    assert copy.exists()


def test_an_older_store_is_copied_as_it_is(
    tmp_path: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(
        gzip.decompress((Path(__file__).parent / "data" / "store_v1.db.gz").read_bytes())
    )
    assert run(capsys, "backup", str(copy), "--store", str(old))[0] == 0
    versions = []
    for path in (old, copy):
        connection = sqlite3.connect(path)
        versions.append(connection.execute("PRAGMA user_version").fetchone())
        connection.close()
    assert versions == [(1,), (1,)]


def test_a_damaged_header_is_not_copied(store: Path, copy: Path) -> None:
    from flashbulb.storage.backup import copy_store

    store.write_bytes(b"garbage" * 1000)
    with pytest.raises(CorruptStore):
        copy_store(str(store), str(copy))
    assert list(copy.parent.iterdir()) == []
    WriterLock(str(copy), 0.0).release()
