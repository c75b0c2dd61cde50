"""The store on disk: writes that fail, its file, its settings."""

from __future__ import annotations

import dataclasses
import os
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashbulb import (
    CorruptStore,
    EmbedderMismatch,
    Memory,
    Policy,
    StoreUnavailable,
)
from flashbulb.storage import schema

DAY = 86400.0


def test_access_counts_survive_close_and_are_flushed_meanwhile(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember_many(["one", "two"])
        for _ in range(130):
            memory.recall("one", k=1)
        state = memory.list()
    with Memory(store, clock=clock) as memory:
        assert memory.list() == state
        assert memory.get(1).access_count == 130


def test_a_full_disk_changes_nothing_and_the_store_goes_on(store: Path, clock: Any) -> None:
    """SQLite's own limit of pages stands for the disk."""
    with Memory(store, clock=clock) as memory:
        memory.remember_many([f"event {n}" for n in range(10)])
        memory.recall("event 3")
        before = (memory.list(), memory.stats())
        connection = memory._store.database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"agent\.db.*full.*room") as caught:
                memory.remember_many(["x" * 1000 + str(n) for n in range(1000)])
            assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
            assert (memory.list(), memory.stats()) == before
        connection.execute("PRAGMA max_page_count = 1000000").fetchone()
        assert memory.remember("event 3").id == 4
        assert memory.remember("new").id > 10
        hits = memory.recall("event 3", k=20, reinforce=False)
        assert len(hits) == 11
        assert [hit.text for hit in memory.recall("new", k=1)] == ["new"]
        kept = memory.list()
    with Memory(store, clock=clock) as memory:
        assert memory.list() == kept


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
@pytest.mark.parametrize("table", ["memories", "traces", "vectors", "occurrences", "surprise"])
def test_a_batch_that_cannot_be_written_leaves_no_trace(
    store: Path, clock: Any, mode: Any, table: str
) -> None:
    texts = [f"event {n}" for n in range(40)]
    with Memory(store, clock=clock, surprise=mode) as memory:
        memory.remember_many(texts)
        memory.recall("event 3")
        before = memory.list(), memory.stats(), memory.recall("event 31", reinforce=False)
        connection = memory._store.database._connection
        connection.execute(
            f"CREATE TEMP TRIGGER refuse AFTER INSERT ON {table} "
            "BEGIN SELECT RAISE(FAIL, 'refused'); END"
        )
        for _ in range(2):
            with pytest.raises(sqlite3.IntegrityError, match="refused"):
                memory.remember_many(["event 31 again", "and more", "event 3"])
            found = memory.list(), memory.stats(), memory.recall("event 31", reinforce=False)
            assert found == before
        connection.execute("DROP TRIGGER refuse")
        records = memory.remember_many(["event 31 again", "and more", "event 3"])
        assert records[2].id == 4
        assert records[1].id == records[0].id + 1 > 41
        kept = memory.list()
    with Memory(store, clock=clock, surprise=mode) as memory:
        assert memory.list() == kept


@pytest.mark.parametrize("call", ["complete", "pin", "unpin", "forget"])
def test_a_change_that_cannot_be_written_does_not_happen(
    store: Path, clock: Any, call: str
) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember_many([{"text": f"task {n}", "urgency": 0.5} for n in range(5)])
        memory.pin(2)
        memory.recall("task 1", k=1)
        id = 2 if call == "unpin" else 3
        before = memory.list()
        hits = memory.recall("task 3", reinforce=False)
        connection = memory._store.database._connection
        connection.execute(
            "CREATE TEMP TRIGGER refuse BEFORE DELETE ON memories "
            "BEGIN SELECT RAISE(FAIL, 'refused'); END"
        )
        connection.execute(
            "CREATE TEMP TRIGGER refuse_update BEFORE UPDATE ON memories "
            "BEGIN SELECT RAISE(FAIL, 'refused'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="refused"):
            getattr(memory, call)(id)
        assert memory.list() == before
        assert memory.recall("task 3", reinforce=False) == hits
        connection.execute("DROP TRIGGER refuse")
        connection.execute("DROP TRIGGER refuse_update")
        getattr(memory, call)(id)
        assert memory.list() != before


# The file


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"x", b"SQLite format 3\0" + b"\0" * 5000])
def test_a_file_that_is_no_store_is_refused_untouched(store: Path, content: bytes) -> None:
    store.write_bytes(content)
    with pytest.raises(CorruptStore, match=r"agent\.db"):
        Memory(store)
    assert store.read_bytes() == content
    assert {path.name for path in store.parent.iterdir()} == {"agent.db"}


def test_a_database_of_another_program_is_refused_untouched(store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute("CREATE TABLE mine (a)")
    connection.commit()
    connection.close()
    content = store.read_bytes()
    with pytest.raises(CorruptStore, match="another program"):
        Memory(store)
    assert store.read_bytes() == content


def test_a_newer_store_is_refused_untouched(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember("x")
    connection = sqlite3.connect(store)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = store.read_bytes()
    with pytest.raises(CorruptStore, match=f"needs version {schema.VERSION + 1}"):
        Memory(store)
    assert store.read_bytes() == content
    assert {path.name for path in store.parent.iterdir()} == {"agent.db"}


def test_an_empty_file_becomes_a_store(store: Path) -> None:
    store.touch()
    with Memory(store) as memory:
        memory.remember("x")
    connection = sqlite3.connect(store.with_name("wal.db"))
    connection.execute("PRAGMA journal_mode = WAL").close()
    connection.close()
    with Memory(store.with_name("wal.db")) as memory:
        memory.remember("x")


def test_paths_that_cannot_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Memory(tmp_path)
    with pytest.raises(FileNotFoundError):
        Memory(tmp_path / "no" / "agent.db")


@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "loop", "long name"])
def test_what_is_no_regular_file_is_unavailable(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "agent.db"
    if kind == "device":
        path.symlink_to("/dev/null")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        path = Path(tempfile.mkdtemp(), "s")  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path = tmp_path / ("x" * 300)
    before = sorted(path.parent.iterdir())
    with pytest.raises(StoreUnavailable, match="a store must be a regular file") as caught:
        Memory(path, timeout=0)
    assert path.name[:50] in str(caught.value) or kind == "device"
    assert sorted(path.parent.iterdir()) == before


def test_a_path_that_holds_no_store_gets_no_lock_file(store: Path) -> None:
    store.write_text("some notes of mine, " * 100)
    with pytest.raises(CorruptStore):
        Memory(store)
    assert list(store.parent.iterdir()) == [store]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memories SET tags = '[' WHERE id = 2",
        "UPDATE memories SET tags = '7' WHERE id = 2",
        "UPDATE memories SET tags = '[7]' WHERE id = 2",
        "UPDATE memories SET metadata = '{' WHERE id = 2",
        "UPDATE memories SET metadata = '[]' WHERE id = 2",
        "UPDATE memories SET metadata = x'80' WHERE id = 2",
        "UPDATE memories SET text = CAST(x'80' AS TEXT) WHERE id = 2",
        "UPDATE memories SET text = x'80' WHERE id = 2",
        "UPDATE memories SET arousal = 'much' WHERE id = 2",
        "UPDATE memories SET created = 'now' WHERE id = 2",
        "UPDATE traces SET salience = 'high' WHERE id = 2",
        "UPDATE traces SET access_count = 'often' WHERE id = 2",
        "UPDATE traces SET pinned = 'yes' WHERE id = 2",
        "UPDATE vectors SET vector = 'text' WHERE id = 2",
        "UPDATE occurrences SET metadata = ''",
        "UPDATE occurrences SET time = 'then'",
        "UPDATE surprise SET state = 'text'",
        "UPDATE last_seen SET time = 'then'",
        "UPDATE meta SET value = 7",
    ],
)
@pytest.mark.parametrize("read", ["recall", "list", "filter", "stats", "export"])
def test_a_damaged_value_is_read_as_it_is_or_said_to_be_damaged(
    store: Path, damage: str, read: str
) -> None:
    with Memory(store) as memory:
        memory.remember_many(
            [{"text": text, "tags": ["t"], "metadata": {"a": 1}} for text in ["one", "two", "two"]]
        )
    connection = sqlite3.connect(store)
    connection.execute(damage)
    connection.commit()
    connection.close()
    reads: dict[str, Callable[[Memory], Any]] = {
        "recall": lambda memory: memory.recall("two"),
        "list": lambda memory: memory.list(),
        "filter": lambda memory: memory.recall("two", filter={"a": 1}),
        "stats": lambda memory: memory.stats(),
        "export": lambda memory: memory.export(store.with_name("export.jsonl")),
    }
    try:
        with Memory(store) as memory:
            reads[read](memory)
    except CorruptStore as error:
        assert "agent.db" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM vectors WHERE id = 2",
        "DELETE FROM traces WHERE id = 2",
        "UPDATE vectors SET vector = x'00' WHERE id = 2",
        "UPDATE vectors SET vector = zeroblob(1024) WHERE id = 2",
        "UPDATE traces SET vividness = 7.0 WHERE id = 2",
        "UPDATE meta SET value = '{}' WHERE key = 'policy2' OR key = 'embedder'",
        "UPDATE meta SET value = 'no json' WHERE key = 'policy'",
        "DELETE FROM meta WHERE key = 'policy'",
        "UPDATE surprise SET state = x'00'",
        "DROP TABLE vectors",
    ],
)
def test_a_damaged_store_says_so(store: Path, damage: str) -> None:
    with Memory(store) as memory:
        memory.remember_many(["one", "two", "three"])
    connection = sqlite3.connect(store)
    connection.execute(damage)
    connection.commit()
    connection.close()

    def use() -> None:
        with Memory(store) as memory:
            memory.recall("one")

    with pytest.raises(CorruptStore, match=r"agent\.db"):
        use()


def test_pages_of_rubbish_say_so(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember_many([f"event {n}" for n in range(200)])
    content = bytearray(store.read_bytes())
    content[8192:-4096] = b"\xa5" * (len(content) - 12288)
    store.write_bytes(content)

    def use() -> None:
        with Memory(store) as memory:
            memory.recall("event")

    with pytest.raises(CorruptStore, match=r"agent\.db"):
        use()


def test_forgotten_bytes_leave_every_file(store: Path) -> None:
    secret = "The passphrase is correcthorsebatterystaple"
    with Memory(store) as memory:
        memory.remember_many([f"event {n}" for n in range(50)])
        record = memory.remember(
            secret,
            tags=["classifiedtag"],
            metadata={"hiddenkey": "hiddenvalue"},
            who="Agentwho",
            what="Agentwhat",
            where="Agentwhere",
            when="Agentwhen",
        )
        memory.remember(
            secret,
            tags=["classifiedtag"],
            metadata={"again": "seconddata"},
            who="Agentwho",
            what="Agentwhat",
            where="Agentwhere",
            when="Agentwhen",
        )
        assert len(memory.get(record.id).occurrences) == 2
        memory.recall("passphrase")
        engine = memory._store.space("default").engine
        first_vector = engine.vectors([record.id]).tobytes()
        text = memory.reconsolidate(record.id, "Contextword of the vault").text
        memory.reconsolidate(record.id, "Latercontext")
        vector = engine.vectors([record.id]).tobytes()
        database = memory._store.database
        with database.transaction():
            for asked in (secret, text):
                database.cache(asked, "model, prompt", f"Answerword about {asked[4:14]}", 1.0)
            database.cache("never stored", "model, prompt", "Orphananswer", 1.0)
            database.cache("event 7", "model, prompt", "keptanswer", 1.0)
        words = [
            b"correcthorse", b"passphrase", b"classifiedtag", b"hiddenkey", b"hiddenvalue",
            b"Agentwho", b"Agentwhat", b"Agentwhere", b"Agentwhen", b"seconddata",
            b"Contextword", b"Latercontext", b"Answerword", b"Orphananswer",
            vector[:64], vector[-64:],
        ]  # fmt: skip

        def found() -> list[bytes]:
            return [word for word in words if word in content_of_all_files(store)]

        assert found() == words
        memory.forget(record.id)
        memory.compact()
        assert found() == []
        assert first_vector[:64] not in content_of_all_files(store)
        assert database.cached("event 7", "model, prompt") == ("keptanswer", 1.0)
        assert database.cached(text, "model, prompt") is None
        assert len(memory) == 50
        assert memory.recall("event 7", k=1)[0].text == "event 7"
        assert memory.remember("after").id == record.id + 1
    assert found() == []


def test_forgotten_bytes_leave_the_file_at_close_and_their_room_at_compact(store: Path) -> None:
    with Memory(store) as memory:
        ids = [r.id for r in memory.remember_many([f"secretword {n}" for n in range(500)])]
        memory.remember("kept")
        for id in ids:
            memory.forget(id)
    assert b"secretword" not in content_of_all_files(store)
    size = store.stat().st_size
    with Memory(store) as memory:
        memory.compact()
        assert memory.stats()["store_bytes"] < size / 4
        assert [record.text for record in memory.list()] == ["kept"]


def content_of_all_files(store: Path) -> bytes:
    """Read by another process: to close a store's file here would drop SQLite's locks."""
    files = [str(path) for path in sorted(store.parent.iterdir())]
    return subprocess.run(["cat", *files], check=True, stdout=subprocess.PIPE).stdout


def test_ids_are_not_reused_after_forgetting_everything(store: Path) -> None:
    with Memory(store) as memory:
        memory.remember_many(["one", "two", "three"])
        for id in (1, 2, 3):
            memory.forget(id)
        memory.compact()
    with Memory(store) as memory:
        assert memory.namespace("other").remember("four").id == 4
        assert len(memory) == 0


# Settings


def embed_letters(texts: list[str]) -> Any:
    return np.array([[1.0 + text.count(c) for c in "abcde"] for text in texts])


def embed_six(texts: list[str]) -> Any:
    return np.array([[1.0 + text.count(c) for c in "abcdef"] for text in texts])


def test_another_embedder_is_refused_and_both_are_named(store: Path) -> None:
    with Memory(store, embedder=embed_letters) as memory:
        memory.remember("abc")
    content = store.read_bytes()
    for other in (None, embed_six):
        with pytest.raises(EmbedderMismatch, match=r"embed_letters.*5 dimensions") as caught:
            Memory(store, embedder=other)
        assert ("flashbulb-static" if other is None else "embed_six") in str(caught.value)
    assert store.read_bytes() == content
    with Memory(store, embedder=embed_letters) as memory:
        assert [hit.text for hit in memory.recall("abc")] == ["abc"]


def test_the_store_keeps_its_policy(store: Path) -> None:
    policy = Policy.published(access_boost=0.25)
    with Memory(store, policy=policy) as memory:
        memory.remember("x")
    with Memory(store) as memory:
        assert memory.stats()["policy"] == policy.to_dict()


def test_another_policy_does_not_rewrite_the_past(store: Path, clock: Any) -> None:
    slow = dataclasses.replace(Policy(), decay_rate_per_day=0.01)
    fast = dataclasses.replace(Policy(), decay_rate_per_day=1.0)
    texts = [{"text": f"note {n}", "arousal": n / 10, "urgency": 0.5} for n in range(10)]
    with Memory(store, policy=slow, clock=clock) as memory:
        memory.remember_many(texts)
        memory.namespace("other").remember_many(texts)
        clock.pass_(days=10)
        memory.pin(3)
        before = memory.list(), memory.namespace("other").list()
    with Memory(store, policy=fast, clock=clock) as memory:
        after = memory.list(), memory.namespace("other").list()
        assert after == before
        clock.pass_(days=1)
        # A floor is what a memory was given, the rate is the new policy's.
        expected = max(before[0][0].vividness * np.exp(-1.0), before[0][0].floor)
        assert memory.get(1).vividness == pytest.approx(expected, rel=1e-12)
        assert memory.get(3).vividness == 1.0
    with Memory(store, policy=fast, clock=clock) as memory:
        assert memory.get(1).vividness == pytest.approx(expected, rel=1e-12)


def test_durability_is_what_sqlite_is_told(store: Path) -> None:
    for durability, level in (("full", 2), ("normal", 1)):
        with Memory(store, durability=durability) as memory:  # type: ignore[arg-type]
            connection = memory._store.database._connection
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_reopened_store_answers_bit_for_bit(store: Path, clock: Any) -> None:
    texts = [
        f"Server {n} in rack {n % 7} reported {'errors' if n % 3 else 'nothing'}"
        for n in range(200)
    ]
    with Memory(store, clock=clock) as memory:
        memory.remember_many(texts)
        clock.pass_(days=3)
        for n in range(0, 200, 9):
            memory.forget(n)
            memory.recall(texts[n])
        hits = [memory.recall(text, reinforce=False) for text in texts[::10]]
    with Memory(store, clock=clock) as memory:
        assert [memory.recall(text, reinforce=False) for text in texts[::10]] == hits
        memory.compact()
        assert [memory.recall(text, reinforce=False) for text in texts[::10]] == hits


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_after_the_commit_leaves_record_and_ram_alike(
    clock: Any, monkeypatch: Any, error: type[BaseException]
) -> None:
    """The record has the row; what is in RAM is read from it again."""
    with Memory(":memory:", clock=clock) as memory:
        memory.remember_many(["one", "two"])
        memory.recall("one", k=1)

        def interrupt(index: Any, items: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("flashbulb.lexical.LexicalIndex.add", interrupt)
            with pytest.raises(error):
                memory.remember("three and more")
        assert [record.text for record in memory.list()] == ["one", "two", "three and more"]
        assert memory.get(1).access_count == 1
        hit = memory.recall("three and more", k=1)[0]
        assert (hit.id, hit.lexical > 0) == (3, True)
        assert memory.remember("four").id == 4
