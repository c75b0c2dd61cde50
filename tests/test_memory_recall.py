"""Recalling: scores and their terms, filters, strength, surprise."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashbulb import Memory, MemoryNotFound, Policy

DAY = 86400.0
OUTAGE = "CRITICAL: Payment system is down, users cannot checkout"


@pytest.fixture
def memory(clock: Any) -> Any:
    with Memory(":memory:", clock=clock) as opened:
        yield opened


# Recalling


def test_the_terms_of_a_score_add_up_and_are_explained(memory: Memory, clock: Any) -> None:
    memory.remember(OUTAGE, tags=["payments"])
    memory.remember("The checkout of a payment took long", urgency=0.9)
    memory.remember("User prefers dark mode")
    clock.pass_(days=2.5)
    policy = Policy()
    weight = policy.lexical_weight
    hits = memory.recall("payment checkout problems", reinforce=False)
    assert len(hits) == 3
    assert hits[0].lexical > 0
    for hit in hits:
        assert hit.score == pytest.approx(
            hit.similarity + hit.vividness_bonus + hit.recency_bonus, abs=1e-12
        )
        assert hit.similarity == pytest.approx(
            (1 - weight) * hit.cosine + weight * hit.lexical, abs=1e-12
        )
        lines = hit.explain().splitlines()
        total = float(re.search(r"-?\d+\.\d+", lines[0])[0])  # type: ignore[index]
        terms = [float(re.search(r"[+-]\d+\.\d+", line)[0]) for line in lines[1:]]  # type: ignore[index]
        assert total == round(hit.score, 4)
        assert sum(terms) == pytest.approx(total, abs=1e-9)


def test_the_explanation_uses_the_memory_as_it_was_ranked(clock: Any) -> None:
    policy = Policy.published()
    with Memory(":memory:", clock=clock, policy=policy) as memory:
        memory.remember(OUTAGE)
        memory.remember("Renew the certificate", urgency=1.0)
        for days in (0, 5, 40):
            clock.pass_(days=days)
            for hit in memory.recall("outage of payments"):
                record = hit.record
                assert hit.vividness_bonus == pytest.approx(
                    0.3 * record.effective_vividness * record.salience, abs=1e-12
                )
                last = record.created if record.last_access is None else record.last_access
                days_old = (clock.now - last) / DAY
                assert hit.recency_bonus == pytest.approx(0.1 * math.exp(-days_old / 30), abs=1e-12)
                assert "ramp" not in hit.explain()


def test_recalling_reinforces_once_an_hour_and_counts_exactly(memory: Memory, clock: Any) -> None:
    id = memory.remember("The door code is 4711").id
    clock.pass_(days=5)
    faded = memory.get(id).vividness
    (hit,) = memory.recall("door code")
    assert hit.record.access_count == 0
    assert hit.record.vividness == faded
    once = memory.get(id)
    assert once.vividness > faded + 0.09
    assert (once.access_count, once.last_access) == (1, clock.now)
    memory.recall("door code")
    assert memory.get(id).vividness == once.vividness
    assert memory.get(id).access_count == 2
    memory.recall("door code", reinforce=False)
    assert memory.get(id).access_count == 2


def test_only_hits_near_the_best_are_reinforced(memory: Memory) -> None:
    memory.remember("The database migration failed on the second shard")
    memory.remember("Bananas are yellow")
    memory.recall("database migration failed")
    assert memory.get(1).access_count == 1
    assert memory.get(2).access_count == 0


def test_runners_up_that_resemble_the_hits_are_weakened(memory: Memory, clock: Any) -> None:
    memory.remember("The meeting with the auditors is on Monday at nine")
    memory.remember("The meeting with the auditors is on Monday at ten")
    memory.remember("Bananas are yellow")
    clock.pass_(days=1)
    before = {r.id: r.vividness for r in memory.list()}
    (hit,) = memory.recall("meeting with the auditors at nine", k=1)
    after = {r.id: r.vividness for r in memory.list()}
    other = 3 - hit.id
    assert after[hit.id] > before[hit.id]
    assert after[other] < before[other]
    assert after[3] == before[3]
    assert len(memory.recall("meeting with the auditors at nine", k=3)) == 3


def test_filters_combine(memory: Memory) -> None:
    memory.remember(
        "alpha one", tags=["x", "y"], metadata={"lang": "de", "n": 1, "deep": {"a": [1]}}
    )
    memory.remember("alpha two", tags=["x"], metadata={"lang": "de", "n": True, "none": None})
    memory.remember("alpha three", tags=["y"], metadata={"note": '"lang":"de"'}, urgency=0.1)
    memory.complete(memory.remember("alpha four", urgency=0.2).id)

    def ids(**filters: Any) -> set[int]:
        return {hit.id for hit in memory.recall("alpha", reinforce=False, **filters)}

    assert ids() == {1, 2, 3, 4}
    assert ids(tags=["x"]) == {1, 2}
    assert ids(tags=["y", "x"]) == {1}
    assert ids(tags=["z"]) == set()
    assert ids(tags=[]) == {1, 2, 3, 4}
    assert ids(filter={"lang": "de"}) == {1, 2}
    assert ids(filter={"n": 1}) == {1}
    assert ids(filter={"n": 1.0}) == {1}
    assert ids(filter={"n": True}) == {2}
    assert ids(filter={"deep": {"a": [1]}}) == {1}
    assert ids(filter={"none": None}) == {2}
    assert ids(filter={"missing": None}) == set()
    assert ids(filter={}) == {1, 2, 3, 4}
    assert ids(filter={"lang": "de"}, tags=["y"]) == {1}
    assert ids(status="open") == {3}
    assert ids(status="completed") == {4}
    assert ids(status="none") == {1, 2}
    assert ids(min_score=10.0) == set()
    assert ids(min_score=-math.inf) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"query": ""}, ValueError),
        ({"query": None}, TypeError),
        ({"tags": "x"}, TypeError),
        ({"filter": [1]}, TypeError),
        ({"filter": {"a": math.nan}}, ValueError),
        ({"status": "done"}, ValueError),
        ({"since": dt.datetime(2024, 1, 1)}, ValueError),
        ({"until": "tomorrow"}, TypeError),
        ({"min_score": math.nan}, ValueError),
        ({"min_score": "0.5"}, TypeError),
        ({"reinforce": 1}, TypeError),
        ({"now": math.nan}, ValueError),
    ],
)
def test_bad_questions_are_refused(
    memory: Memory, arguments: dict[str, Any], error: type[Exception]
) -> None:
    memory.remember("something")
    with pytest.raises(error):
        memory.recall(**{"query": "something", **arguments})
    assert memory.get(1).access_count == 0


def test_neutral_ranks_by_similarity_and_recency(clock: Any) -> None:
    with Memory(":memory:", neutral=True, clock=clock) as memory:
        record = memory.remember(OUTAGE)
        assert (record.arousal, record.arousal_source) == (0.0, "off")
        assert (record.salience, record.surprise, record.importance) == (0.0, None, None)
        assert not record.flashbulb
        (hit,) = memory.recall("payment")
        assert hit.vividness_bonus == 0.0
        assert "= 0·" in hit.explain()


def test_names_and_numbers_are_found_by_their_words(memory: Memory) -> None:
    memory.remember_many([f"Ticket KAFKA-{n} was moved to the next sprint" for n in range(200)])
    assert memory.recall("KAFKA-137", k=1)[0].text.startswith("Ticket KAFKA-137 ")


# Strength


def test_tasks_are_completed_once(memory: Memory) -> None:
    task = memory.remember("Renew the certificate, it expires tonight", urgency=1.0, arousal=0.9)
    assert task.effective_vividness == 1.0
    done = memory.complete(task.id)
    assert (done.status, done.floor) == ("completed", 0.4)
    assert done.effective_vividness == pytest.approx(done.vividness - 0.1)
    assert memory.complete(task.id) == done
    note = memory.remember("No task")
    with pytest.raises(ValueError, match="not a task"):
        memory.complete(note.id)


def test_pins_hold_until_unpinned_or_completed(memory: Memory, clock: Any) -> None:
    id = memory.remember("The spare key is at the desk", urgency=0.1).id
    clock.pass_(days=30)
    assert memory.pin(id).vividness == 1.0
    assert memory.pin(id).pinned
    clock.pass_(days=30)
    assert memory.get(id).vividness == 1.0
    assert not memory.unpin(id).pinned
    memory.unpin(id)
    assert memory.get(id).vividness == 1.0
    clock.pass_(days=30)
    assert memory.get(id).vividness < 0.1
    memory.pin(id)
    assert not memory.complete(id).pinned


def test_reinforce_is_for_what_was_used(memory: Memory, clock: Any) -> None:
    memory.remember_many(["one", "two", "three"])
    clock.pass_(days=1)
    memory.reinforce([1, 3, 1])
    memory.reinforce(np.int64(3))
    assert [r.access_count for r in memory.list()] == [1, 0, 2]
    with pytest.raises(MemoryNotFound):
        memory.reinforce([2, 99])
    assert memory.get(2).access_count == 0
    memory.reinforce([])


def burst(memory: Memory, foreign: list[str], clock: Any) -> list[Any]:
    """A stream of one topic, then events of others: what is remembered of all."""
    records = []
    for n in range(60):
        clock.pass_(hours=1)
        text = f"Build {n} of the web shop finished, all {n + 300} tests passed"
        records.append(memory.remember(text))
    return records + [memory.remember(text, arousal=0) for text in foreign]


FOREIGN = [
    "My grandmother's recipe wants two kilos of ripe plums",
    "Die Eisbären im Zoo haben Nachwuchs bekommen",
    "The orchestra played Mahler without a conductor",
]


def test_surprise_pins_within_its_limit_and_reports_the_rest(store: Path, clock: Any) -> None:
    policy = dataclasses.replace(
        Policy(), max_surprise_pins=1, max_surprise_pin_share=0.0, flashbulb_rate=0.05
    )
    with Memory(store, clock=clock, policy=policy) as memory:
        records = burst(memory, FOREIGN, clock)
        surprising = [record for record in records if record.flashbulb]
        assert len(surprising) >= 2
        pinned = [r.id for r in surprising if memory.get(r.id).pinned]
        assert pinned == [max(surprising, key=lambda r: r.surprise or 0.0).id]
        for record in surprising:
            assert record.surprise is not None
            assert record.surprise >= policy.surprise_z()
            assert record.importance == 1.0
            assert record.salience <= 0.5
        stats = memory.stats()
        assert stats["pinned_by_surprise"] == 1
        assert stats["surprise_pins_refused"] == len(surprising) - 1
        assert {r.text for r in surprising} & set(FOREIGN)
    with Memory(store, clock=clock) as memory:
        assert {**memory.stats(), "store_bytes": 0} == {**stats, "store_bytes": 0}
        memory.unpin(pinned[0])
        assert memory.stats()["pinned_by_surprise"] == 0
        burst(memory, ["Glaciers calve into the warm sea"], clock)
        assert memory.stats()["pinned_by_surprise"] == 1


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined", None])
def test_surprise_statistics_are_kept(store: Path, clock: Any, mode: Any) -> None:
    """One session and several give the same scores."""
    scores = []
    for sessions in (1, 3):
        file = store.with_name(f"{sessions}.db")
        found = []
        for session in range(3):
            if session == 0 or sessions == 3:
                memory = Memory(file, surprise=mode, clock=clock)
            for n in range(20):
                now = clock.now + session * DAY + n
                record = memory.remember(
                    f"Note {n} of {session} about {'tea' if n % 3 else 'the moon'}",
                    tags=["tea"] if n % 2 else [],
                    now=now,
                )
                found.append((record.surprise, record.importance))
            if sessions == 3:
                memory.close()
        memory.close()
        scores.append(found)
    assert scores[0] == scores[1]
    assert (scores[0][-1] == (None, None)) == (mode is None)


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
def test_a_batch_scores_as_one_by_one(clock: Any, mode: Any) -> None:
    texts = [f"Note {n % 17} about {'tea' if n % 3 else 'the moon'}" for n in range(50)]
    with Memory(":memory:", surprise=mode, clock=clock) as one_by_one:
        single = [one_by_one.remember(text) for text in texts]
    with Memory(":memory:", surprise=mode, clock=clock) as batched:
        many = batched.remember_many(texts)
    assert [r.id for r in many] == [r.id for r in single]
    assert [r.surprise for r in many] == [r.surprise for r in single]
    assert len({r.surprise for r in many}) > 10


def test_a_temporal_novelty_outlives_the_session(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        first = memory.remember("one", tags=["t"])
    with Memory(store, clock=clock) as memory:
        second = memory.remember("two", tags=["t"])
    assert first.importance is not None
    assert second.importance is not None
    assert first.importance - second.importance == pytest.approx(0.4, abs=0.15)


def test_a_large_store_may_be_told_to_answer_approximately(
    store: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashbulb._partition.PARTITION_FROM_ROWS", 100)
    texts = [f"Note {n} about {('tea', 'the moon', 'a train')[n % 3]}" for n in range(150)]
    for approximate in (False, True):
        for _ in range(2):  # of a new store, and of one that is there
            with Memory(store, approximate=approximate, clock=clock) as memory:
                memory.remember_many(texts)
                alarm = memory.remember("Customer data was leaked", arousal=0.95)
                engine = memory._store.space("default").engine
                engine._growth.wait()
                assert (engine.partition is not None) == approximate
                assert memory.recall("Note 7 about the moon", k=1, reinforce=False)[0].id == 8
                assert alarm.id in [hit.id for hit in memory.recall("data", k=5)]
    wrong: Any = None
    with pytest.raises(TypeError, match="approximate must be a bool"):
        Memory(":memory:", approximate=wrong)
