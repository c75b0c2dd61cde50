"""What a check finds in a store, and what a repair makes of it."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import run
from flashbulb import (
    CorruptStore,
    Memory,
    StoreLocked,
    _snapshots,
    check_store,
    repair_store,
)

NOW = 1_700_100_000.0


@pytest.fixture
def written(store: Path, clock: Any) -> Path:
    """A closed store with every kind of row."""
    with Memory(store, clock=clock) as memory:
        memory.remember("A task", urgency=0.5, tags=["work"])  # 1
        memory.remember_many([f"event {n}" for n in range(60)])  # 2 ... 61
        memory.remember("event 7", metadata={"again": True})  # an occurrence of 9
        memory.remember("Customer data was leaked by Ana", who="Ana")  # 62
        memory.reconsolidate(62, "It was the old backup")
        memory.pin(5)
        memory.complete(1)
        memory.namespace("agent 7").remember("of another")  # 63
        memory.forget(memory.remember("forgotten").id)  # 64
        for n in range(10):
            memory.recall(f"event {n}")
    return store


def change(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def state(path: Path, **arguments: Any) -> dict[int, Any]:
    with Memory(path, read_only=True, **arguments) as memory:
        views = memory, memory.namespace("agent 7")
        return {record.id: record for view in views for record in view.list(now=NOW)}


def test_a_sound_store_is_found_so(written: Path, clock: Any) -> None:
    assert check_store(written) == []
    with Memory(written, clock=clock) as memory:
        assert memory.check() == []
        memory.remember("meanwhile")
        assert memory.check() == []
    with Memory(written, read_only=True) as reader:
        assert reader.check() == []
    with Memory(":memory:") as memory:
        memory.remember("in RAM")
        assert memory.check() == []
        memory._store.database._connection.execute("DELETE FROM traces")
        assert [finding.place for finding in memory.check()] == ["memory 1"]


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_store_is_checked_as_it_will_be(tmp_path: Path, version: int) -> None:
    old = tmp_path / "old.db"
    packed = Path(__file__).parent / "data" / f"store_v{version}.db.gz"
    old.write_bytes(gzip.decompress(packed.read_bytes()))
    before = old.read_bytes()
    assert check_store(old) == []
    assert old.read_bytes() == before


def test_what_is_no_store(store: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_store(store)
    store.touch()
    assert check_store(store) == []
    store.write_bytes(b"garbage" * 1000)
    ((file, place, problem),) = check_store(store)
    assert (file, place) == (str(store), "database")
    assert "not a Flashbulb store" in problem
    with pytest.raises(CorruptStore):
        repair_store(store)
    assert store.read_bytes() == b"garbage" * 1000


# One thing wrong: what changes the record, the place, a part of the problem, and what a repair
# mends (True) or loses (the ids that are gone).
DAMAGE = {
    "digest": ("UPDATE memories SET digest = x'00' WHERE id = 5", "memory 5", "digest", True),
    "text": ("UPDATE memories SET text = 'other' WHERE id = 5", "memory 5", "digest", True),
    "blob": ("UPDATE memories SET text = x'ff' WHERE id = 5", "memory 5", "expected str", {5}),
    "utf-8": (
        "UPDATE memories SET text = CAST(x'41ff41' AS TEXT) WHERE id = 5",
        "memory 5",
        "UTF-8",
        {5},
    ),
    "tags": ("UPDATE memories SET tags = '{}' WHERE id = 5", "memory 5", "tags", "but its text"),
    "metadata": (
        "UPDATE memories SET metadata = '[1' WHERE id = 5",
        "memory 5",
        "delimiter",
        "but its text",
    ),
    "arousal": (
        "UPDATE memories SET arousal = 7.5 WHERE id = 5",
        "memory 5",
        "arousal",
        "but its text",
    ),
    "created": ("UPDATE memories SET created = 9e99 WHERE id = 5", "memory 5", "created", {5}),
    "namespace": ("UPDATE memories SET namespace = 9 WHERE id = 5", "memory 5", "namespace", True),
    "no trace": ("DELETE FROM traces WHERE id = 5", "memory 5", "strength: it is missing", True),
    "vividness": (
        "UPDATE traces SET vividness = -1 WHERE id = 5",
        "memory 5",
        "vividness must be a number in",
        True,
    ),
    "infinite": (
        "UPDATE traces SET vividness_time = 9e999 WHERE id = 5",
        "memory 5",
        "vividness_time",
        True,
    ),
    "status": ("UPDATE traces SET status = 3 WHERE id = 5", "memory 5", "status", True),
    "pin": ("UPDATE traces SET pinned = 2 WHERE id = 5", "memory 5", "pinned", True),
    "no vector": ("DELETE FROM vectors WHERE id = 5", "memory 5", "vector: it is missing", True),
    "short vector": (
        "UPDATE vectors SET vector = x'00000000' WHERE id = 5",
        "memory 5",
        "vector must have 1024 bytes",
        True,
    ),
    "zero vector": (
        "UPDATE vectors SET vector = zeroblob(1024) WHERE id = 5",
        "memory 5",
        "vector must have length 1",
        True,
    ),
    "occurrence of none": (
        "UPDATE occurrences SET memory = 999",
        "occurrences, row 1",
        "belongs to no row of memories",
        True,
    ),
    "occurrence elsewhere": (
        "UPDATE occurrences SET namespace = 2",
        "occurrences of memory 9",
        "another namespace",
        True,
    ),
    "occurrence": (
        "UPDATE occurrences SET metadata = '7'",
        "memory 9",
        "metadata must be an object",
        "occurrences of memory 9",
    ),
    "version of none": (
        "UPDATE versions SET memory = 999",
        "versions of memory 999",
        "no such memory",
        True,
    ),
    "version": (
        "UPDATE versions SET text = x'00'",
        "memory 62",
        "versions: expected str",
        "versions of memory 62",
    ),
    "trace of none": (
        "INSERT INTO traces SELECT 999, salience, floor, vividness, vividness_time, last_access, "
        "last_strength_change, access_count, urgency, status, pinned FROM traces WHERE id = 5",
        "traces, row 999",
        "belongs to no row of memories",
        True,
    ),
    "surprise": (
        "UPDATE surprise SET state = x'7b7d' WHERE namespace = 1",
        "namespace 'default'",
        "not the state of a surprise detector",
        True,
    ),
    "surprise mode": (
        "UPDATE surprise SET mode = 'centroid' WHERE namespace = 1",
        "namespace 'default'",
        "statistics of 'combined'",
        True,
    ),
    "last seen": (
        "UPDATE last_seen SET time = 9e999",
        "namespace 'default'",
        "last_seen",
        True,
    ),
    "refused": (
        "UPDATE namespaces SET refused_pins = -1 WHERE id = 1",
        "namespace 'default'",
        "refused_pins",
        True,
    ),
    "ids": ("UPDATE sqlite_sequence SET seq = 3", "ids", "memory 63 is there", True),
    "no policy": ("DELETE FROM meta WHERE key = 'policy'", "settings", "policy: it is", True),
    "policy": (
        "UPDATE meta SET value = '{\"access_boost\": 7}' WHERE key = 'policy'",
        "settings",
        "access_boost",
        True,
    ),
    "embedder": (
        "UPDATE meta SET value = '[]' WHERE key = 'embedder'",
        "settings",
        "embedder: expected its name",
        True,
    ),
    "index": ("DROP INDEX memories_by_time", "index memories_by_time", "missing", True),
    "table": ("CREATE TABLE other (x)", "table other", "none of a store's tables", True),
    "columns": ("ALTER TABLE meta ADD COLUMN x", "table meta", "not defined as", True),
    "answers": (
        "INSERT INTO llm_cache VALUES ('a', x'00', 1.0)",
        "answers of an LLM",
        "expected str",
        True,
    ),
}


@pytest.mark.parametrize(("damage", "place", "problem", "lost"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_and_repaired(
    written: Path, damage: str, place: str, problem: str, lost: Any
) -> None:
    before = state(written)
    change(written, damage)
    damaged = written.read_bytes()
    found = check_store(written)
    assert any(
        finding.file == str(written) and finding.place == place and problem in finding.problem
        for finding in found
    ), found
    done = repair_store(written)
    assert done.backup is not None
    assert Path(done.backup).read_bytes() == damaged
    assert check_store(written) == []
    gone = lost if isinstance(lost, set) else set()
    lines = [finding.place for finding in done.lost]
    if lost is True:
        assert lines == []
        assert place in [finding.place for finding in done.mended]
    elif gone:
        assert lines == [f"memory {id}" for id in gone]
    else:
        assert len(lines) == 1
        assert lost in lines[0]
    after = state(written)
    places = {5: 5, 9: 9, 62: 62}
    moved = {5} if "namespace = 9" in damage else set()  # into a namespace of its own
    assert after.keys() == before.keys() - gone - moved
    for id in after.keys() - places.keys():
        assert after[id] == before[id]
    with Memory(written) as memory:
        assert memory.remember("the next id").id >= (64 if "seq = 3" in damage else 65)
        if moved:
            assert memory.namespace("recovered-9").get(5).text == "event 3"
        elif not gone and "text = 'other'" not in damage:
            assert after[5].text == before[5].text
            assert memory.recall(after[5].text, k=1, reinforce=False)[0].id == 5
            assert np.isclose(memory.recall(after[5].text, k=1)[0].cosine, 1.0)


def test_a_repair_of_a_sound_store_does_nothing(written: Path) -> None:
    before = written.read_bytes()
    assert repair_store(written) == (None, [], [])
    assert written.read_bytes() == before


def test_a_store_in_use_is_not_repaired(written: Path) -> None:
    change(written, "DELETE FROM traces WHERE id = 5")
    with Memory(written, read_only=True), pytest.raises(StoreLocked):
        repair_store(written)
    change(written, "INSERT INTO traces SELECT 5, 0, 0, 0, 2e9, NULL, NULL, 0, NULL, 0, 1")
    with Memory(written), pytest.raises(StoreLocked, match="already open"):
        repair_store(written)


def test_the_log_of_a_killed_writer_is_part_of_the_store(
    written: Path, tmp_path: Path, clock: Any
) -> None:
    killed = tmp_path / "killed.db"
    with Memory(written, clock=clock) as memory:
        memory.remember("only in the log")
        memory._store.database._connection.execute("DELETE FROM traces WHERE id = 5")
        for end in ("", "-wal"):
            Path(f"{killed}{end}").write_bytes(Path(f"{written}{end}").read_bytes())
    assert [finding.place for finding in check_store(killed)] == ["memory 5"]
    done = repair_store(killed)
    assert check_store(killed) == []
    assert "only in the log" in {record.text for record in state(killed).values()}
    assert done.backup is not None
    assert [finding.place for finding in check_store(done.backup)] == ["memory 5"]


def test_a_memory_needs_the_embedder_of_its_store_for_a_new_vector(store: Path) -> None:
    def embedder(texts: list[str]) -> Any:
        return [[len(text), 1.0] for text in texts]

    with Memory(store, embedder=embedder) as memory:
        memory.remember_many(["one", "three"])
    change(store, "DELETE FROM vectors WHERE id = 2")
    copy = store.with_name("copy.db")
    copy.write_bytes(store.read_bytes())
    assert [finding.place for finding in repair_store(store).lost] == ["memory 2"]
    assert repair_store(copy, embedder=embedder).lost == []
    with Memory(copy, embedder=embedder) as memory:
        assert len(memory) == 2


@pytest.mark.parametrize("seed", range(40))
def test_torn_pages_are_survived(written: Path, seed: int) -> None:
    """A check ends with findings or none, a repair with a sound store or CorruptStore."""
    generator = random.Random(seed)
    data = bytearray(written.read_bytes())
    size = 4096
    pages = len(data) // size
    for _ in range(generator.randint(1, 3)):
        page = generator.randrange(1, pages)
        if seed % 3 == 0:
            data[page * size : (page + 1) * size] = bytes(size)
        elif seed % 3 == 1:
            other = generator.randrange(1, pages)
            data[page * size : (page + 1) * size] = data[other * size : (other + 1) * size]
        else:
            place = page * size + generator.randrange(size)
            data[place] ^= 1 << generator.randrange(8)
    before = state(written)
    written.write_bytes(data)
    found = check_store(written)
    try:
        done = repair_store(written, backup=False)
    except CorruptStore:  # not even its tables can be read
        assert found
        assert written.read_bytes() == data
        return
    assert check_store(written) == []
    after = state(written)
    reported = " ".join(f"{finding.place}: {finding.problem}" for finding in done.lost)
    for id, record in before.items():
        if seed % 3 == 2 and id in after:  # of a number, nothing says which bit was flipped
            same = (after[id].text, after[id].tags, after[id].who) == (
                record.text,
                record.tags,
                record.who,
            )
        else:
            same = after.get(id) == record
        if not same:
            assert found  # nothing goes in silence
        if id not in after and f"memory {id}:" not in reported:
            assert any(finding.place == "database" for finding in found)
    assert after.keys() <= before.keys()


def test_a_damaged_snapshot_is_found_and_goes(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_snapshots, "SNAPSHOT_FROM_ROWS", 10)
    with Memory(store, neutral=True) as memory:
        memory.remember_many([f"event {n}" for n in range(50)])
        memory.backup(tmp_path / "copy.db")
    (snapshot,) = tmp_path.glob("agent.db-snapshot-*")
    assert check_store(store) == []
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    snapshot.write_bytes(data)
    before = store.read_bytes()
    ((file, place, _),) = check_store(store)
    assert (file, place) == (str(snapshot), "snapshot of namespace 1")
    done = repair_store(store)
    assert (done.backup, len(done.mended), done.lost) == (None, 1, [])
    assert not snapshot.exists()
    assert store.read_bytes() == before
    assert check_store(store) == []  # nor is a missing one a fault, as beside a copy
    with Memory(store, neutral=True) as memory:
        assert len(memory) == 50
    (snapshot,) = tmp_path.glob("agent.db-snapshot-*")
    change(store, "DELETE FROM traces WHERE id = 5")
    assert len(repair_store(store).mended) == 1
    assert not snapshot.exists()


def test_nothing_is_kept_beside_if_that_is_not_wanted(written: Path) -> None:
    change(written, "DELETE FROM traces WHERE id = 5")
    assert repair_store(written, backup=False).backup is None
    assert [path.name for path in written.parent.iterdir()] == ["agent.db"]


# The command


def test_the_command_checks_and_repairs(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written)
    assert run(capsys, "check", path) == (0, f"{path} is sound\n", "")
    assert run(capsys, "repair", path) == (0, "nothing had to be repaired\n", "")
    change(
        written, "DELETE FROM traces WHERE id = 5", "UPDATE memories SET text = x'ff' WHERE id=6"
    )
    code, out, err = run(capsys, "check", path)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{path}: memory 5: strength: it is missing",
        f"{path}: memory 6: expected str, got b'\\xff'",
    ]
    code, out, _ = run(capsys, "check", path, "--json")
    assert code == 1
    assert json.loads(out)[0] == {
        "file": path,
        "place": "memory 5",
        "problem": "strength: it is missing",
    }
    with Memory(written, read_only=True):
        code, _, err = run(capsys, "repair", path, "--timeout", "0")
        assert code == 3
    code, out, _ = run(capsys, "repair", path)
    assert code == 1
    first, *lines = out.splitlines()
    assert first.startswith(f"the files as they were: {path}.")
    assert lines == [
        "mended:",
        f"{path}: memory 5: strength: it is missing",
        "lost:",
        f"{path}: memory 6: expected str, got b'\\xff'",
    ]
    assert run(capsys, "check", path)[0] == 0
    assert run(capsys, "check", path + "x")[0] == 3
