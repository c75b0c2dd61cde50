"""Export and import: everything, bit for bit, or nothing."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from every_kind import remember_every_kind
from flashbulb import EmbedderMismatch, FlashbulbError, Memory, Policy


@pytest.fixture
def exported(tmp_path: Path, clock: Any) -> Path:
    """A file with every kind of memory in it."""
    file = tmp_path / "export.jsonl"
    with Memory(tmp_path / "source.db", clock=clock) as memory:
        remember_every_kind(memory, clock, events=40)
        memory.remember("The parrot sings Verdi", arousal=0)
        clock.pass_(hours=5)
        for n in range(10):
            memory.recall(f"server {n}")
        assert memory.export(file) == len(memory)
    return file


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def write(file: Path, lines: list[Any]) -> None:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text(text + "\n", encoding="utf-8")


def test_a_round_trip_is_exact(tmp_path: Path, exported: Path, clock: Any) -> None:
    again = tmp_path / "again.jsonl"
    with Memory(tmp_path / "source.db", clock=clock) as source:
        for target in (tmp_path / "copy.db", ":memory:"):
            with Memory(target, namespace="elsewhere", clock=clock) as copy:
                assert copy.import_(exported) == len(source)
                assert copy.list() == source.list()
                assert copy.recall("server 7", reinforce=False) == source.recall(
                    "server 7", reinforce=False
                )
                copy.export(again)
                assert again.read_bytes() == exported.read_bytes()
        with Memory(tmp_path / "copy.db", namespace="elsewhere", clock=clock) as copy:
            copy.export(again)
            assert again.read_bytes() == exported.read_bytes()
            # The stream goes on alike: ids, repeats and surprise.
            for text in ("Keep this", "Server 3 answered in 3 ms", "A new thing"):
                assert copy.remember(text, tags=["t1"]) == source.remember(text, tags=["t1"])


def test_an_empty_namespace_travels_too(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    with Memory(":memory:") as memory:
        assert memory.export(file) == 0
        assert memory.import_(file) == 0
        memory.remember("first")
        assert memory.import_(file) == 0
        assert len(memory) == 1


@pytest.mark.parametrize("new_ids", [False, True])
def test_an_import_joins_what_is_there(
    tmp_path: Path, exported: Path, clock: Any, new_ids: bool
) -> None:
    lines = lines_of(exported)
    if not new_ids:
        for line in lines[1:]:
            line["id"] += 1000
    write(exported, lines)
    with Memory(tmp_path / "target.db", clock=clock) as memory:
        mine = memory.remember_many(["mine", "also mine"])
        memory.recall("mine")
        before = [memory.get(record.id) for record in mine]
        assert memory.import_(exported, new_ids=new_ids) == len(lines) - 1
        assert [memory.get(record.id) for record in mine] == before
        ids = [record.id for record in memory.list()]
        expected = range(3, len(lines) + 2) if new_ids else [line["id"] for line in lines[1:]]
        assert sorted(ids) == [1, 2, *expected]
        assert memory.remember("next").id == max(expected) + 1
        assert memory.recall("parrot Verdi", k=1)[0].text == "The parrot sings Verdi"
        again = memory.remember("Keep this", where="here")
        assert [o.metadata for o in again.occurrences] == [{}, {"again": True}, {}]
        kept = memory.list()
    with Memory(tmp_path / "target.db", clock=clock) as memory:
        assert memory.list() == kept


def test_the_order_of_lines_does_not_matter(tmp_path: Path, exported: Path, clock: Any) -> None:
    lines = exported.read_text(encoding="utf-8").split("\n")[:-1]
    shuffled = tmp_path / "shuffled.jsonl"
    write(shuffled, [lines[0], *reversed(lines[1:])])
    again = tmp_path / "again.jsonl"
    with Memory(":memory:", clock=clock) as memory:
        memory.import_(shuffled)
        memory.export(again)
    assert again.read_bytes() == exported.read_bytes()


def test_an_import_under_another_policy_keeps_the_past(exported: Path, clock: Any) -> None:
    fast = dataclasses.replace(Policy(), decay_rate_per_day=5.0)
    with (
        Memory(":memory:", clock=clock) as same,
        Memory(":memory:", clock=clock, policy=fast) as other,
    ):
        same.import_(exported)
        other.import_(exported)
        assert [r.vividness for r in other.list()] == [r.vividness for r in same.list()]
        clock.pass_(days=1)
        assert other.get(1).vividness < same.get(1).vividness


BAD_IDS = [1.0, 1.9, "7", True, False, None, 0, -1, 2**62 + 1, 2**63 - 1, 2**63, 2**64 + 5, [1], {}]


@pytest.mark.parametrize("id", BAD_IDS)
def test_bad_ids_are_refused_by_line(tmp_path: Path, exported: Path, id: Any) -> None:
    lines = lines_of(exported)
    lines[4]["id"] = id
    write(exported, lines)
    refused(exported, 5)


def test_ids_twice_or_in_use_are_refused(exported: Path) -> None:
    lines = lines_of(exported)
    lines[9]["id"] = lines[3]["id"]
    write(exported, lines)
    refused(exported, 10, "twice")


def test_ids_that_were_used_before_are_refused(exported: Path, clock: Any) -> None:
    with Memory(":memory:") as memory:
        memory.forget(memory.remember("was 1").id)
        with pytest.raises(ValueError, match=r"line 2: id 1 is not free"):
            memory.import_(exported)
        assert len(memory) == 0
    with Memory(":memory:", clock=clock) as memory:
        memory.import_(exported)
        before = memory.list(), memory.stats()
        with pytest.raises(ValueError, match=r"line 2: id 1 is not free"):
            memory.import_(exported)
        with pytest.raises(ValueError, match=r"line 2: id 1 is not free"):
            memory.namespace("other").import_(exported)
        assert (memory.list(), memory.stats()) == before


def refused(file: Path, line: int, message: str = "") -> None:
    with Memory(":memory:") as memory:
        before = memory.stats()
        for new_ids in (False, True):
            with pytest.raises(ValueError, match=rf"export\.jsonl, line {line}: .*{message}"):
                memory.import_(file, new_ids=new_ids)
        assert memory.stats() == before
        assert memory.list() == []
        assert memory.remember("after").id == 1


def vector_of(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


UNIT = [1.0] + [0.0] * 255


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": 5},
        {"text": "\ud800"},
        {"tags": "abc"},
        {"tags": [1]},
        {"metadata": None},
        {"metadata": []},
        {"created": None},
        {"created": "2024-01-01"},
        {"created": 1e30},
        {"who": 1},
        {"when": 5.0},
        {"arousal": 1.5},
        {"arousal": None},
        {"arousal_source": None},
        {"surprise": "3"},
        {"importance": True},
        {"importance": -0.1},
        {"importance": 1.1},
        {"importance": math.nan},
        {"importance": None},
        {"surprise": None},
        {"flashbulb": 1},
        {"flashbulb": True, "arousal": 0, "importance": 0.5},
        {"flashbulb": False, "arousal": 1},
        {"pinned_by": "surprise", "trace.pinned": True, "flashbulb": True, "importance": 0.9},
        {"pinned_by": "surprise", "trace.pinned": True, "flashbulb": False, "importance": 1.0},
        {"created": 4e9},
        {"pinned_by": "nobody"},
        {"pinned_by": "user"},
        {"vector": vector_of(UNIT[:-1])},
        {"vector": vector_of([*UNIT, 0.0])},
        {"vector": vector_of([2.0, *UNIT[1:]])},
        {"vector": vector_of([math.nan, *UNIT[1:]])},
        {"vector": vector_of([0.0] * 256)},
        {"vector": "not base64!"},
        {"vector": None},
        {"occurrences": {}},
        {"occurrences": [[1.0]]},
        {"occurrences": [[1.0, []]]},
        {"occurrences": [["now", {}]]},
        {"trace": None},
        {"trace": {}},
        {"trace.salience": 1.5},
        {"trace.floor": -0.1},
        {"trace.vividness": None},
        {"trace.vividness_time": None},
        {"trace.last_access": "x"},
        {"trace.last_strength_change": True},
        {"trace.access_count": 1.0},
        {"trace.access_count": -1},
        {"trace.status": 3},
        {"trace.status": 1},
        {"trace.urgency": 0.5},
        {"trace.pinned": None},
        {"trace.pinned": True},
        {"unknown": 1},
        {"text": None},
    ],
)
def test_a_bad_line_changes_nothing_and_is_named(exported: Path, change: dict[str, Any]) -> None:
    lines = lines_of(exported)
    for key, value in change.items():
        target, _, name = key.rpartition(".")
        (lines[6][target] if target else lines[6])[name] = value
    write(exported, lines)
    refused(exported, 7)


@pytest.mark.parametrize("line", ["", "null", "[]", "{", "{}", '{"a": NaN}', "[" * 100_000])
def test_lines_that_are_no_memory(exported: Path, line: str) -> None:
    lines = exported.read_text(encoding="utf-8").split("\n")[:-1]
    lines[3] = line
    write(exported, lines)
    refused(exported, 4)


def test_a_line_that_is_not_utf_8(exported: Path) -> None:
    lines = exported.read_bytes().split(b"\n")
    lines[2] = b"\xff" + lines[2]
    exported.write_bytes(b"\n".join(lines))
    refused(exported, 3)


def test_a_file_that_is_cut_short(exported: Path) -> None:
    content = exported.read_bytes()
    lines = content.split(b"\n")
    exported.write_bytes(b"\n".join(lines[:10]) + b"\n")
    refused(exported, 10, "ends after 9 of")
    exported.write_bytes(content[: len(b"\n".join(lines[:10])) - 7])
    refused(exported, 10)
    exported.write_bytes(b"")
    with Memory(":memory:") as memory, pytest.raises(ValueError, match="empty"):
        memory.import_(exported)


def statistics(count: int = 10, mean: float = 0.01, dim: int = 256) -> str:
    """What a stream left behind, or could not have."""
    head = {"mode": "centroid", "moments": [count, 1.0, 1.0], "centroid": [count + 1, dim]}
    values = np.concatenate((np.full(dim, mean), np.full(dim, 0.01))).astype("<f8")
    return base64.b64encode(json.dumps(head).encode() + b"\n" + values.tobytes()).decode()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": "other"}, ValueError),
        ({"version": 4}, ValueError),
        ({"memories": 1}, ValueError),
        ({"memories": "1"}, ValueError),
        ({"embedder": {"name": "x", "dim": 3, "fingerprint": "f"}}, EmbedderMismatch),
        ({"embedder": 5}, ValueError),
        ({"embedder": {}}, ValueError),
        ({"policy": {"unknown": 1}}, ValueError),
        ({"policy": {"access_boost": 7}}, ValueError),
        ({"policy": []}, ValueError),
        ({"surprise": {"centroid": "AAAA"}}, ValueError),
        ({"surprise": {"centroid": statistics(dim=3)}}, ValueError),
        ({"surprise": {"centroid": statistics(mean=1e300)}}, ValueError),
        ({"surprise": {"centroid": statistics(count=2**63 - 1)}}, ValueError),
        ({"surprise": []}, ValueError),
        ({"last_seen": {"x": "y"}}, ValueError),
    ],
)
def test_a_bad_header(exported: Path, change: dict[str, Any], error: type[Exception]) -> None:
    lines = lines_of(exported)
    lines[0].update(change)
    write(exported, lines)
    with Memory(":memory:") as memory:
        with pytest.raises(error, match=r"export\.jsonl"):
            memory.import_(exported)
        assert len(memory) == 0


def test_statistics_made_by_hand_are_taken_if_they_could_be(exported: Path) -> None:
    lines = lines_of(exported)
    lines[0]["surprise"] = {"centroid": statistics()}
    write(exported, lines)
    with Memory(":memory:", surprise="centroid") as memory:
        memory.import_(exported)
        assert memory._store.space("default").detector.samples == 10  # type: ignore[union-attr]
        assert math.isfinite(memory.remember("goes on").surprise or 0.0)


def test_an_export_never_touches_the_store_itself(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    link = tmp_path / "link"
    with Memory(store) as memory:
        memory.remember("x")
        link.hardlink_to(store)
        for name in ("agent.db", "agent.db-wal", "agent.db-shm", "agent.db.lock", "link"):
            for call in (memory.export, memory.import_):
                with pytest.raises(ValueError, match="of the open store itself"):
                    call(tmp_path / name)
        assert len(memory) == 1
    link.unlink()
    with Memory(store) as memory:
        assert len(memory) == 1


def test_a_failed_export_keeps_the_older_one(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "export.jsonl"
    with Memory(":memory:") as memory:
        memory.remember("x")
        memory.export(file)
        older = file.read_bytes()
        memory.remember("y")

        def fail(descriptor: int) -> None:
            raise OSError("no space")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="no space"):
            memory.export(file)
    assert file.read_bytes() == older
    assert list(tmp_path.iterdir()) == [file]
    with Memory(":memory:") as memory, pytest.raises(FileNotFoundError):
        memory.import_(tmp_path / "none.jsonl")


# Whatever an export writes, an import takes


def taken(memory: Memory, file: Path) -> None:
    """The export of this memory is imported, and says the same again."""
    memory.export(file)
    with Memory(":memory:", clock=memory._clock) as copy:
        assert copy.import_(file) == len(memory)
        assert copy.list() == memory.list()
        again = file.with_name("again.jsonl")
        copy.export(again)
        assert again.read_bytes() == file.read_bytes()


def test_a_completed_task_that_is_pinned_travels(tmp_path: Path, clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("Call the bank", urgency=0.5).id
        memory.complete(id)
        memory.pin(id)
        before = memory.get(id)
        assert memory.complete(id) == before
        assert before.pinned
        taken(memory, tmp_path / "export.jsonl")


@pytest.mark.parametrize("source", ["", "  ", None, 5, "\ud800"])
def test_a_detector_without_a_source_stores_nothing(
    tmp_path: Path, clock: Any, source: Any
) -> None:
    class Judge:
        def detect(self, text: str, context: str = "") -> Any:
            return type("Result", (), {"score": 0.5, "source": source})()

    with Memory(":memory:", detector=Judge(), clock=clock) as memory:
        with pytest.raises((TypeError, ValueError), match="the detector's source"):
            memory.remember("x")
        assert len(memory) == 0
        memory.remember("y", arousal=0.5)
        taken(memory, tmp_path / "export.jsonl")


def test_the_last_id_is_the_last(tmp_path: Path, clock: Any) -> None:
    file = tmp_path / "export.jsonl"
    with Memory(":memory:", clock=clock) as memory:
        memory.remember_many(["one", "two"])
        memory.export(file)
    lines = lines_of(file)
    lines[2]["id"] = 2**62 - 1
    write(file, lines)
    with Memory(tmp_path / "agent.db", clock=clock) as memory:
        memory.import_(file)
        assert memory.remember("three").id == 2**62
        state = memory.list(), memory.stats()
        for call in (
            lambda: memory.remember("four"),
            lambda: memory.remember_many(["four", "five"]),
            lambda: memory.import_(file, new_ids=True),
            lambda: memory.namespace("other").remember("four"),
        ):
            with pytest.raises(FlashbulbError, match="last id"):
                call()
            assert (memory.list(), memory.stats()) == state
        assert len(memory.remember("three").occurrences) == 2
        taken(memory, tmp_path / "again-export.jsonl")


def nested(depth: int) -> dict[str, Any]:
    """`depth` containers in each other, dicts and lists in turn."""
    value: Any = {} if depth % 2 else []
    for level in range(1, depth):
        value = {"a": value} if (depth - level) % 2 else [value]
    assert isinstance(value, dict)
    return value


def test_metadata_is_as_deep_as_it_may_be_everywhere(tmp_path: Path, clock: Any) -> None:
    file = tmp_path / "export.jsonl"
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with Memory(":memory:", clock=clock) as memory:
        for text in ("x", "x", "y"):
            memory.remember(text, metadata=nested(32))
        assert memory.recall("x", filter=nested(32))[0].record.metadata == nested(32)
        for deep in (nested(33), nested(100_001), loop):
            for call in (
                lambda: memory.remember("z", metadata=deep),  # noqa: B023
                lambda: memory.recall("x", filter=deep),  # noqa: B023
            ):
                with pytest.raises(ValueError, match="at most 32 levels"):
                    call()
        taken(memory, file)
    for place in ("metadata", "occurrences"):
        lines = lines_of(file)
        lines[1][place] = nested(33) if place == "metadata" else [[1.0, nested(33)]]
        write(file, lines)
        refused(file, 2, "at most 32 levels")
