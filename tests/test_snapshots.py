"""Snapshots: what a store opens from one is what it would read from its database."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from numpy.typing import NDArray

from flashbulb import Memory, Policy, Retention, StoreUnavailable, _snapshot, _snapshots
from strategies import assert_same_state, examples

DAY = 86_400.0
NOW = 1_700_000_000.0


class Hashed:
    """A direction for each text."""

    name, dim, fingerprint = "hashed", 24, "686173686564"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [zlib.crc32(text.encode()) for text in texts]
        rows = [np.random.default_rng(seed).standard_normal(self.dim) for seed in seeds]
        return np.array(rows, np.float32).reshape(len(texts), self.dim)

    embed_queries = embed_documents


def opened(path: Path, **options: Any) -> Memory:
    options = {"surprise": None, "clock": lambda: NOW, "durability": "normal", **options}
    return Memory(path, embedder=Hashed(), **options)


def snapshots(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}-snapshot-*"))


def item(i: int) -> dict[str, Any]:
    return {
        "text": f"note {i} about subject {i % 7}",
        "tags": ["notes", f"subject{i % 7}"][: i % 3],
        "urgency": 0.5 if i % 11 == 0 else None,
        "arousal": (i % 10) / 10,
        "now": NOW - i * DAY / 3,
    }


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few memories have a snapshot as well."""
    monkeypatch.setattr(_snapshots, "SNAPSHOT_FROM_ROWS", 10)


@pytest.fixture
def filled(store: Path) -> Path:
    """A closed store of varied memories, with a snapshot."""
    with opened(store) as memory:
        memory.remember_many([item(i) for i in range(200)])
        memory.pin(5)
        memory.complete(12)
        memory.forget(20)
        memory.recall("note 3 about subject 3", now=NOW + DAY)
    assert len(snapshots(store)) == 1
    return store


def answers(memory: Memory) -> list[Any]:
    """What a user sees."""
    now = NOW + 9 * DAY
    queries = [f"note {i} about subject {i % 7}" for i in (3, 50, 199)]
    found = [memory.recall(query, 30, reinforce=False, now=now) for query in queries]
    by_tag = memory.recall("subject", 30, tags=["subject2"], reinforce=False, now=now)
    stats = {**memory.stats(), "snapshot": "", "store_bytes": 0}
    return [found, by_tag, memory.list(now=now), memory.list(tags=["notes"], now=now), stats]


def without_snapshot(path: Path) -> list[Any]:
    """The same from the database alone, in another folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        with opened(path, read_only=True) as memory:
            memory.backup(copy)
        with opened(copy) as memory:
            assert memory.stats()["snapshot"] == "none"
            return answers(memory)


def test_what_it_opens_is_the_same_bit_for_bit(filled: Path) -> None:
    expected = without_snapshot(filled)
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert answers(memory) == expected


def test_small_stores_have_none(store: Path) -> None:
    with opened(store) as memory:
        memory.remember_many([item(i) for i in range(9)])
        assert memory.stats()["snapshot"] == "none"
    assert snapshots(store) == []


def test_it_is_written_when_enough_has_changed(filled: Path) -> None:
    before = snapshots(filled)
    with opened(filled) as memory:
        memory.remember("one more")
    assert snapshots(filled) == before
    with opened(filled) as memory:
        memory.remember_many([f"and {i}" for i in range(20)])
    assert len(snapshots(filled)) == 1
    assert snapshots(filled) != before
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert len(memory) == 220


def test_it_is_written_when_asked_for(store: Path) -> None:
    with opened(store) as memory:
        memory.snapshot()  # of a namespace that is not there yet
        memory.remember("the only one")
        memory.snapshot()
        assert memory.stats()["snapshot"] == "written"
        assert len(snapshots(store)) == 1
    with opened(store) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert [record.text for record in memory.list()] == ["the only one"]


def test_a_store_in_ram_has_none() -> None:
    with opened(Path(":memory:")) as memory:
        memory.remember_many([item(i) for i in range(30)])
        memory.snapshot()
        memory.compact()
        assert memory.stats()["snapshot"] == "none"


def test_it_may_be_read_by_whoever_reads_the_store(store: Path) -> None:
    opened(store).close()
    store.chmod(0o640)
    with opened(store) as memory:
        memory.remember("a note")
        memory.snapshot()
    assert snapshots(store)[0].stat().st_mode & 0o777 == 0o640


def test_each_namespace_has_its_own_and_it_goes_with_it(store: Path) -> None:
    with opened(store) as memory:
        for name in ("a", "b"):
            memory.namespace(name).remember_many([f"{name} {i}" for i in range(30)])
        memory.namespace("c").remember("too few")
    assert len(snapshots(store)) == 2
    with opened(store) as memory:
        assert memory.namespace("a").forget_all() == 30
        assert len(snapshots(store)) == 1
        assert memory.namespace("b").stats()["snapshot"] == "used"
        assert memory.namespace("a").list() == []


# -- what changed since ----------------------------------------------------------------------------


@pytest.fixture
def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is not written anew, so that openings have to catch up."""
    monkeypatch.setattr(_snapshots, "_WRITTEN_ANEW_AT", 0)


CHANGES: dict[str, Callable[[Memory], object]] = {
    "remember": lambda memory: memory.remember("something new", tags=["fresh"], urgency=0.3),
    "forget": lambda memory: memory.forget(7),
    "forget the last": lambda memory: memory.forget(200),
    "forget and remember": lambda memory: (memory.forget(3), memory.remember("in its place")),
    "pin": lambda memory: memory.pin(8),
    "unpin": lambda memory: memory.unpin(5),
    "complete": lambda memory: memory.complete(23),
    "recall": lambda memory: memory.recall("note 9 about subject 2", now=NOW + 2 * DAY),
    "reconsolidate": lambda memory: memory.reconsolidate(2, "it rained"),
    "archive": lambda memory: memory.apply_retention(Retention(size=150)),
    "compact": lambda memory: (memory.forget(9), memory.compact()),
    "nothing": lambda memory: None,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.usefixtures("never_again")
def test_it_catches_up_with_what_changed_since(filled: Path, change: Any) -> None:
    with opened(filled) as memory:
        change(memory)
    expected = without_snapshot(filled)
    for _ in range(2):
        with opened(filled) as memory:
            assert memory.stats()["snapshot"] == "used"
            assert answers(memory) == expected


@pytest.mark.usefixtures("never_again")
def test_what_a_killed_process_had_written_counts(filled: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            memory = opened(filled)
            memory.remember("the last words")
            memory.forget(4)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert memory.get(201).text == "the last words"
        assert not memory.forget(4)


def test_what_comes_back_from_the_archive_ends_it(filled: Path) -> None:
    with opened(filled) as memory:
        moved = memory.apply_retention(Retention(size=180))
        memory.snapshot()
        memory.recall(moved[0].text, include_archived=True, now=NOW + DAY)
        assert memory.stats()["snapshot"] == "none"
        assert snapshots(filled) == []
        expected = answers(memory)
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert answers(memory) == expected


def test_another_policy_ends_it(filled: Path) -> None:
    policy = Policy(decay_rate_per_day=0.2)
    with opened(filled, policy=policy) as memory:
        assert memory.stats()["snapshot"] == "none"
        assert snapshots(filled) == []
    expected = without_snapshot(filled)
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert answers(memory) == expected


# -- what is wrong with a file ---------------------------------------------------------------------


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def to_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "No such file"),
    "empty": (lambda path: path.write_bytes(b""), "ends after 0"),
    "cut off": (lambda path: os.truncate(path, path.stat().st_size - 1), "expected .* bytes"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"!"), "expected .* bytes"),
    "flipped": (flip, "differ from their checksum"),
    "a folder": (to_a_folder, "not a regular file"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_is_not_whole_is_noticed_and_the_database_read(
    filled: Path, caplog: pytest.LogCaptureFixture, damage: Any, message: str
) -> None:
    expected = without_snapshot(filled)
    (file,) = snapshots(filled)
    damage(file)
    with caplog.at_level(logging.INFO, "flashbulb"):
        with opened(filled, read_only=True) as memory:
            assert answers(memory) == expected
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
        with opened(filled) as memory:
            state = memory.stats()["snapshot"]
            assert answers(memory) == expected
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    for said in (state.removeprefix("not used: "), warnings[0]):
        assert file.name in said
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(said)
    with opened(filled) as memory:  # the last one has written it anew
        assert memory.stats()["snapshot"] == "used"
        assert answers(memory) == expected


def test_a_file_of_the_past_is_not_used(filled: Path, tmp_path: Path) -> None:
    (old,) = snapshots(filled)
    content = old.read_bytes()
    with opened(filled) as memory:
        memory.forget(1)
        memory.snapshot()
    (new,) = snapshots(filled)
    new.write_bytes(content)
    expected = without_snapshot(filled)
    with opened(filled) as memory:
        assert "it is generation" in memory.stats()["snapshot"]
        assert answers(memory) == expected


def test_files_of_two_stores_that_changed_places_are_not_used(tmp_path: Path) -> None:
    files = []
    for name in ("a.db", "b.db"):
        with opened(tmp_path / name) as memory:
            memory.remember_many([f"{name} {i}" for i in range(30)])
        files += snapshots(tmp_path / name)
    a, b = (file.read_bytes() for file in files)
    files[0].write_bytes(b)
    files[1].write_bytes(a)
    with opened(tmp_path / "a.db") as memory:
        assert "it is generation" in memory.stats()["snapshot"]
        assert {record.text[:4] for record in memory.list()} == {"a.db"}


def test_a_database_that_somebody_else_changed_is_noticed(filled: Path) -> None:
    """Where triggers have not seen it, the numbers of memories tell."""
    import sqlite3

    connection = sqlite3.connect(filled)
    connection.executescript(
        "DROP TRIGGER memories_forgotten; DELETE FROM memories WHERE id = 33; "
        "DELETE FROM traces WHERE id = 33; DELETE FROM vectors WHERE id = 33;"
    )
    connection.close()
    with opened(filled) as memory:
        assert "199 memories, expected 198" in memory.stats()["snapshot"]
        assert 33 not in [record.id for record in memory.list()]


# -- writing it ------------------------------------------------------------------------------------


def fails(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def test_without_room_the_store_closes_all_the_same(
    filled: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshots(filled)
    with opened(filled) as memory:
        memory.remember_many([f"and {i}" for i in range(50)])
        with monkeypatch.context() as patch:
            patch.setattr(_snapshot, "save", fails)
            with pytest.raises(StoreUnavailable, match="No space left"):
                memory.snapshot()
            memory.close()
    assert "No space left" in caplog.text
    assert snapshots(filled) == before
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert len(memory) == 249


def test_one_that_the_database_does_not_come_to_name_is_removed(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshots(filled)
    with opened(filled) as memory:
        memory.remember("one more")
        with monkeypatch.context() as patch:
            patch.setattr(type(memory._store.database), "set_snapshot", fails)
            with pytest.raises(StoreUnavailable):
                memory.snapshot()
        assert snapshots(filled) == before
    with opened(filled) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert len(memory) == 200


def test_rubbish_is_removed_at_the_next_opening_and_nothing_else(filled: Path) -> None:
    (file,) = snapshots(filled)
    rubbish = file.with_name(f"{filled.name}-snapshot-1-{0:016x}")
    others = [
        file.with_name(f"x{file.name}"),
        file.with_name(f"{file.name}.copy"),
        file.with_name(f"{filled.name}-snapshot-of-mine"),
        file.with_name(f"other.db-snapshot-1-{0:016x}"),
    ]
    for path in (rubbish, *others):
        shutil.copy(file, path)
    opened(filled, read_only=True).close()
    assert rubbish.exists()
    opened(filled).close()
    assert not rubbish.exists()
    assert all(path.exists() for path in (file, *others))


def test_no_file_has_what_was_forgotten_once_the_store_is_compacted(store: Path) -> None:
    def files_with(part: bytes) -> list[str]:
        return [path.name for path in store.parent.iterdir() if part in path.read_bytes()]

    with opened(store) as memory:
        memory.remember_many([item(i) for i in range(50)])
        memory.namespace("small").remember_many([f"small {i}" for i in range(10)])
        kept = memory.remember("stays").id
        gone = memory.remember("xylophone", tags=["zanzibar"]).id
        rewritten = memory.remember("the door is blue", arousal=0.1).id
        small = memory.namespace("small").remember("quagmire", tags=["timbuktu"]).id
        engine = memory._store.space("default").engine
        vectors = {id: engine.vectors(id).tobytes() for id in (kept, gone, rewritten)}
        vectors[small] = memory._store.space("small").engine.vectors(small).tobytes()
    assert len(snapshots(store)) == 2
    for vector in vectors.values():
        assert len(files_with(vector)) == 2  # the database and the snapshot
    with opened(store) as memory:
        memory.forget(gone)
        memory.reconsolidate(rewritten, "it was painted red")
        memory.namespace("small").forget(small)
        memory.compact()
        held = [vectors.pop(kept), vectors.pop(gone), vectors.pop(rewritten), vectors.pop(small)]
        assert len(files_with(held[0])) == 2
        for part in (*held[1:], b"xylophone", b"zanzibar", b"quagmire", b"timbuktu"):
            assert files_with(part) == []
    with opened(store) as memory:
        assert memory.stats()["snapshot"] == "used"
        assert memory.namespace("small").stats()["snapshot"] == "used"


def test_what_is_forgotten_in_a_namespace_that_is_not_loaded_goes_too(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(store) as memory:
        memory.remember_many([item(i) for i in range(30)])
        vector = memory._store.space("default").engine.vectors(4).tobytes()
    with opened(store) as memory:
        memory.forget(4)
        monkeypatch.setattr(_snapshots, "_WRITTEN_ANEW_AT", 0)
    assert vector in snapshots(store)[0].read_bytes()
    with opened(store) as memory:
        memory.namespace("other").remember("something else")
        memory._store._spaces.clear()
        memory.namespace("other").compact()
    assert not any(vector in path.read_bytes() for path in store.parent.iterdir())
    with opened(store) as memory:
        assert len(memory) == 29


def test_a_backup_has_no_snapshot_and_misses_none(
    filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(filled) as memory:
        memory.backup(tmp_path / "backup.db")
        expected = answers(memory)
    with opened(tmp_path / "backup.db") as memory:
        assert memory.stats()["snapshot"] == "none"
        assert answers(memory) == expected
    assert caplog.text == ""


# -- any order of calls ----------------------------------------------------------------------------


class SnapshotMachine(RuleBasedStateMachine):
    """Whatever was done, an opening from a snapshot equals one from the database."""

    @initialize(anew=st.sampled_from([0, 20]), policy=st.sampled_from([None, Policy.published()]))
    def open(self, anew: int, policy: Policy | None) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(_snapshots, "SNAPSHOT_FROM_ROWS", 3)
        self.patch.setattr(_snapshots, "_WRITTEN_ANEW_AT", anew)
        self.folder = Path(tempfile.mkdtemp())
        self.now = NOW
        self.count = 0
        self.memory = self.opened(policy=policy)
        self.remember(7, False)

    def opened(self, **options: Any) -> Memory:
        return opened(self.folder / "agent.db", clock=lambda: self.now, **options)

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.memory.close()
            self.patch.undo()
            shutil.rmtree(self.folder)

    def some(self, pick: int) -> list[int]:
        ids = [record.id for record in self.memory.list()]
        return ids[pick % len(ids) :][:3] if ids else []

    picks = st.integers(0, 1000)

    @rule(count=st.integers(1, 6), pinned=st.booleans())
    def remember(self, count: int, pinned: bool) -> None:
        items = [item(self.count + i) | {"now": self.now} for i in range(count)]
        records = self.memory.remember_many(items)
        self.count += count
        if pinned:
            self.memory.pin(records[0].id)

    @rule(pick=picks)
    def forget(self, pick: int) -> None:
        for id in self.some(pick):
            self.memory.forget(id)

    @rule(pick=picks)
    def use(self, pick: int) -> None:
        self.memory.reinforce(self.some(pick))

    @rule(pick=picks, archived=st.booleans())
    def recall(self, pick: int, archived: bool) -> None:
        query = f"note {pick % 50} about subject {pick % 7}"
        self.memory.recall(query, 4, include_archived=archived)

    @rule(pick=picks)
    def rewrite(self, pick: int) -> None:
        for id in self.some(pick)[:1]:
            self.memory.reconsolidate(id, f"in context {pick}")

    @rule(pick=picks)
    def unpin_and_complete(self, pick: int) -> None:
        for id in self.some(pick):
            self.memory.unpin(id)
            if self.memory.get(id).status == "open":
                self.memory.complete(id)

    @rule(size=st.integers(0, 20))
    def archive(self, size: int) -> None:
        self.memory.apply_retention(Retention(size=size))

    @rule(hours=st.sampled_from([0.1, 2.0, 100.0]))
    def time_passes(self, hours: float) -> None:
        self.now += 3600.0 * hours

    @rule()
    def compact(self) -> None:
        self.memory.compact()

    @rule()
    def snapshot(self) -> None:
        self.memory.snapshot()

    @rule()
    def fail(self) -> None:
        """A transaction that is rolled back changes nothing."""
        some = self.some(0)

        def begin() -> None:
            with self.memory._store.write() as database:
                for id in some:
                    database.delete(id)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            begin()

    @precondition(lambda self: hasattr(self, "memory"))
    @rule(policy=st.none() | st.sampled_from([Policy(), Policy.published()]))
    def reopen(self, policy: Policy | None) -> None:
        self.memory.close()
        self.memory = self.opened(policy=policy)
        store = self.memory._store
        space = store.space("default")
        if space.number is None:
            return
        kept = self.memory._store.snapshots
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(kept), "load", lambda *_, **__: None)
            plain = store._load_engine(space.number, store.policy)
        ignored = {"next_id": 0, "latest": 0.0}
        assert_same_state(space.engine.state() | ignored, plain.state() | ignored)
        query = Hashed().embed_queries(["note 3 about subject 3"])[0]
        found = space.engine.search(query, 10, now=self.now)
        for name, values in plain.search(query, 10, now=self.now)._asdict().items():
            np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


SnapshotMachine.TestCase.settings = settings(examples(25), stateful_step_count=25)
TestSnapshotMachine: Any = SnapshotMachine.TestCase
