"""The archive: what a retention policy moves there, who finds it, how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory, MemoryNotFound, Record, Retention

DAY = 86_400.0
OLD = Retention(idle_days=30)


def filled(memory: Memory, clock: Any) -> dict[str, int]:
    """Memories of each kind, 100 days old."""
    ids = {
        "mundane": memory.remember("the canteen serves lentils", arousal=0.1).id,
        "faint": memory.remember("somebody moved a chair", arousal=0.0).id,
        "floor": memory.remember("the press wrote about our outage", arousal=0.6).id,
        "flashbulb": memory.remember("customer data was leaked", arousal=0.9).id,
        "pinned": memory.remember("the canteen is in building 4", arousal=0.1).id,
        "task": memory.remember("order lentils for the canteen", arousal=0.1, urgency=0.4).id,
        "done": memory.remember("clean the canteen", arousal=0.1, urgency=0.4).id,
        "recalled": memory.remember("the lift needs a key", arousal=0.1).id,
        "repeated": memory.remember("the gate was open again", arousal=0.1).id,
    }
    memory.pin(ids["pinned"])
    memory.complete(ids["done"])
    clock.pass_(days=95)
    memory.reinforce(ids["recalled"])
    memory.remember("the gate was open again", arousal=0.1)
    clock.pass_(days=5)
    return ids


def names(ids: dict[str, int], records: list[Record]) -> set[str]:
    return {name for name, id in ids.items() if id in {record.id for record in records}}


@pytest.fixture
def memory(store: Path, clock: Any) -> Any:
    with Memory(store, clock=clock, surprise=None) as memory:
        yield memory


def test_what_is_protected_or_in_use_stays(memory: Memory, clock: Any) -> None:
    ids = filled(memory, clock)
    assert names(ids, memory.apply_retention(OLD)) == {"mundane", "faint", "done"}
    assert names(ids, memory.list()) == set(ids) - {"mundane", "faint", "done"}
    assert memory.apply_retention(OLD) == []


def test_no_policy_moves_what_is_protected(memory: Memory, clock: Any) -> None:
    ids = filled(memory, clock)
    moved = memory.apply_retention(Retention(size=0))
    assert names(ids, moved) == set(ids) - {"floor", "flashbulb", "pinned", "task"}
    clock.pass_(days=1000)
    moved = memory.apply_retention(Retention(size=0, idle_days=0, vividness=1.0, keep_floor=1.0))
    assert names(ids, moved) == {"floor"}


def test_age_and_vividness_must_both_hold_and_size_takes_the_faintest(
    memory: Memory, clock: Any
) -> None:
    clock.pass_(days=1)
    for i in range(6):
        memory.remember(f"event {i} of the day", arousal=0.1)
        clock.pass_(days=1)
    told = memory.apply_retention(Retention(size=4), dry_run=True)
    assert [record.text for record in told] == ["event 0 of the day", "event 1 of the day"]
    both = Retention(idle_days=3, vividness=memory.get(2).vividness)
    assert [record.id for record in memory.apply_retention(both)] == [1]
    older = Retention(idle_days=3, size=2)
    assert [record.id for record in memory.apply_retention(older)] == [2, 3, 4]
    assert [record.id for record in memory.list()] == [5, 6]


def test_a_dry_run_tells_what_would_move_and_moves_nothing(memory: Memory, clock: Any) -> None:
    ids = filled(memory, clock)
    before = memory.list()
    told = memory.apply_retention(OLD, dry_run=True)
    assert names(ids, told) == {"mundane", "faint", "done"}
    assert memory.list() == before
    assert memory.apply_retention(OLD) == told


def test_the_archive_is_found_when_asked_for(memory: Memory, clock: Any, store: Path) -> None:
    ids = filled(memory, clock)
    before = memory.list()
    exact = memory.recall("lentils in the canteen", 20, reinforce=False)
    memory.apply_retention(OLD)
    for _ in range(2):
        found = memory.recall("lentils in the canteen", 20, reinforce=False)
        assert {hit.id for hit in found} == set(ids.values()) - {
            ids[name] for name in ("mundane", "faint", "done")
        }
        everywhere = memory.recall(
            "lentils in the canteen", 20, reinforce=False, include_archived=True
        )
        assert [(h.id, h.score, h.lexical) for h in everywhere] == [
            (h.id, h.score, h.lexical) for h in exact
        ]
        listed = memory.list(include_archived=True)
        assert [(r.id, r.text, r.vividness) for r in listed] == [
            (r.id, r.text, r.vividness) for r in before
        ]
        moved = memory.get(ids["mundane"])
        assert moved.archived == clock.now
        assert moved == listed[0]
        assert memory.history(ids["mundane"])[0].text == "the canteen serves lentils"
        assert len(memory) == len(ids) - 3
        stats = memory.stats()
        assert (stats["memories"], stats["archived"]) == (len(ids) - 3, 3)
        assert stats["completed_tasks"] == 0
        assert [c[:3] for c in memory.namespaces()] == [("default", len(ids) - 3, 3)]
        memory.close()
        memory = Memory(store, clock=clock, surprise=None)
    memory.close()


def test_filters_hold_in_the_archive(memory: Memory, clock: Any) -> None:
    memory.remember("the canteen serves peas", tags=["food"], metadata={"n": 1}, arousal=0.1)
    memory.remember("the canteen serves peas", tags=["other"], metadata={"n": 2}, arousal=0.1)
    start = clock.now
    clock.pass_(days=50)
    memory.apply_retention(OLD)
    assert len(memory) == 0

    def found(**filters: Any) -> list[int]:
        hits = memory.recall("peas", reinforce=False, include_archived=True, **filters)
        return [hit.id for hit in hits]

    assert found(tags=["food"]) == [1]
    assert found(filter={"n": 2}) == [2]
    assert found(since=start + 1) == []
    assert sorted(found(until=start + 1)) == [1, 2]
    assert found(status="open") == []
    assert memory.recall("peas", tags=["food"]) == []
    assert memory.list(tags=["food"]) == []
    assert [record.id for record in memory.list(tags=["food"], include_archived=True)] == [1]


@pytest.mark.parametrize(
    "use",
    ["restore", "recall", "reinforce", "pin", "unpin", "complete", "reconsolidate", "remember"],
)
def test_what_is_used_comes_back(memory: Memory, clock: Any, store: Path, use: str) -> None:
    ids = filled(memory, clock)
    memory.recall("anything", reinforce=False)  # words are indexed
    id = ids["done" if use == "complete" else "mundane"]
    text = memory.get(id).text
    before = memory.get(id)
    memory.apply_retention(OLD)
    assert memory.get(id).archived is not None
    if use == "recall":
        assert memory.recall(text, 1, include_archived=True)[0].id == id
    elif use == "remember":
        memory.remember(text, arousal=0.1)
    elif use == "reconsolidate":
        memory.reconsolidate(id, "and peas")
    elif use == "reinforce":
        memory.reinforce([id])
    else:
        getattr(memory, use)(id)
    after = memory.get(id)
    assert after.archived is None
    assert after.pinned == (use == "pin")
    assert after.access_count == (use in ("recall", "reinforce"))
    assert len(after.occurrences) == 1 + (use == "remember")
    if use == "restore":
        assert after == before
        assert memory.restore(id) == before
    assert id in [record.id for record in memory.list()]
    assert id in [hit.id for hit in memory.recall(text, 10, reinforce=False)]
    others = [r.id for r in memory.list(include_archived=True) if r.archived is not None]
    assert set(others) == {ids[name] for name in ("mundane", "faint", "done")} - {id}
    memory.close()
    with Memory(store, clock=clock, surprise=None) as memory:
        assert memory.get(id) == after


def test_looking_at_the_archive_leaves_it_there(memory: Memory, clock: Any) -> None:
    ids = filled(memory, clock)
    memory.apply_retention(OLD)
    memory.get(ids["mundane"])
    memory.list(include_archived=True)
    memory.history(ids["mundane"])
    memory.recall("lentils", include_archived=True, reinforce=False)
    assert memory.get(ids["mundane"]).archived is not None
    why = memory.why_not("lentils", ids["mundane"])
    assert "archive" in why.explain()


def test_what_stays_in_the_archive_is_not_weakened(memory: Memory, clock: Any) -> None:
    for i in range(4):
        memory.remember(f"the canteen serves lentils {'on monday ' * i}", arousal=0.1)
    clock.pass_(days=3)
    memory.apply_retention(Retention(size=1))
    stays = {r.id: r.vividness for r in memory.list(include_archived=True)}
    memory.recall("the canteen serves lentils", 1, include_archived=True)
    archived = [r for r in memory.list(include_archived=True) if r.archived is not None]
    assert archived
    assert all(r.vividness == stays[r.id] for r in archived)


def test_a_forgotten_memory_of_the_archive_is_gone(memory: Memory, clock: Any, store: Path) -> None:
    ids = filled(memory, clock)
    memory.apply_retention(OLD)
    assert memory.forget(ids["mundane"])
    assert not memory.forget(ids["mundane"])
    with pytest.raises(MemoryNotFound, match="forgotten"):
        memory.get(ids["mundane"])
    with pytest.raises(MemoryNotFound):
        memory.restore(ids["mundane"])
    found = memory.recall("lentils in the canteen", 20, include_archived=True, reinforce=False)
    assert ids["mundane"] not in [hit.id for hit in found]
    memory.compact()
    data = b"".join(path.read_bytes() for path in store.parent.iterdir())
    assert b"serves lentils" not in data
    assert b"moved a chair" in data
    assert memory.forget_all() == len(ids) - 1
    assert memory.list(include_archived=True) == []


def test_an_archive_belongs_to_its_namespace(memory: Memory, clock: Any) -> None:
    ids = filled(memory, clock)
    other = memory.namespace("other")
    other.remember("the canteen serves lentils")
    memory.apply_retention(OLD)
    assert [h.id for h in other.recall("lentils", 20, include_archived=True)] == [10]
    with pytest.raises(MemoryNotFound, match="another"):
        other.restore(ids["mundane"])
    assert other.apply_retention(Retention(size=0)) != []
    assert memory.get(ids["mundane"]).archived is not None


@pytest.mark.parametrize("new_ids", [False, True])
def test_an_export_has_the_archive(
    memory: Memory, clock: Any, tmp_path: Path, new_ids: bool
) -> None:
    filled(memory, clock)
    memory.apply_retention(OLD)
    memory.export(tmp_path / "a.jsonl")
    with Memory(":memory:", clock=clock, surprise=None) as copy:
        assert copy.import_(tmp_path / "a.jsonl", new_ids=new_ids) == 9
        assert copy.list(include_archived=True) == memory.list(include_archived=True)
        assert copy.list() == memory.list()
        copy.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    broken = (tmp_path / "a.jsonl").read_text().replace('"pinned":false', '"pinned":true')
    (tmp_path / "c.jsonl").write_text(broken)
    with Memory(":memory:", clock=clock, surprise=None) as copy:
        with pytest.raises(ValueError, match="line"):
            copy.import_(tmp_path / "c.jsonl")
        assert len(copy) == 0


def test_another_policy_does_not_rewrite_the_past_of_the_archive(
    store: Path, clock: Any, memory: Memory
) -> None:
    from flashbulb import Policy

    ids = filled(memory, clock)
    memory.apply_retention(OLD)
    before = memory.get(ids["mundane"]).vividness
    memory.close()
    with Memory(store, clock=clock, policy=Policy(decay_rate_per_day=0.5), surprise=None) as memory:
        assert memory.get(ids["mundane"]).vividness == pytest.approx(before, rel=1e-12)


def test_a_move_that_cannot_be_written_moves_nothing(
    memory: Memory, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(memory, clock)
    before = memory.list()

    def fails(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(memory._store.database, "set_archived", fails)
        with pytest.raises(OSError, match="no room"):
            memory.apply_retention(OLD)
    assert memory.list() == before
    assert len(memory.recall("canteen", 20, reinforce=False)) == len(before)


@pytest.mark.parametrize(
    "bad",
    [{}, {"idle_days": -1}, {"size": -1}, {"size": 1.5}, {"vividness": 2}, {"idle_days": "old"},
     {"size": 1, "keep_floor": 7}, {"idle_days": float("nan")}],
)  # fmt: skip
def test_a_bad_policy_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retention(**bad)


def test_what_is_no_policy_is_refused(memory: Memory) -> None:
    with pytest.raises(TypeError, match="must be a Retention"):
        memory.apply_retention({"size": 3})  # type: ignore[arg-type]


def test_what_comes_back_is_not_missed_by_a_snapshot(
    memory: Memory, clock: Any, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = filled(memory, clock)
    memory.apply_retention(OLD)
    memory.snapshot()
    memory.restore(ids["mundane"])
    memory.remember("what came last", arousal=0.1)
    before = memory.list(include_archived=True)
    memory.close()
    with Memory(store, clock=clock, surprise=None) as memory:
        assert memory.list(include_archived=True) == before
        assert len(memory.list()) == len(before) - 2
        memory.snapshot()
    with Memory(store, clock=clock, surprise=None) as memory:
        assert memory.list(include_archived=True) == before
        memory.apply_retention(Retention(size=0))
    with Memory(store, clock=clock, surprise=None) as memory:
        assert len(memory.list(include_archived=True)) == len(before)
    assert caplog.messages == []
