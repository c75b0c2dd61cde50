"""What keeps the laws from doing harm: each bound, and the harm that is there without it.

Each test runs the default policy, and the same with one field at its published value.
Similarities are made by hand: the embedder gives each text the cosines that the test says.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flashbulb import Memory, Policy

DEFAULT = Policy()
PUBLISHED = Policy.published()
DIM = 8
LIMIT = 1e-9  # sums of a few float64 terms


def published(*names: str) -> Policy:
    """The default policy with these fields at their published values."""
    return dataclasses.replace(DEFAULT, **{name: getattr(PUBLISHED, name) for name in names})


def towards(**cosines: float) -> NDArray[np.float64]:
    """The unit vector with these cosines to the axes a, b, c ...; the rest goes to the last."""
    vector = np.zeros(DIM)
    for axis, cosine in cosines.items():
        vector["abcdefg".index(axis)] = cosine
    vector[-1] = math.sqrt(1.0 - vector @ vector)
    return vector


def open_with(
    vectors: Mapping[str, NDArray[np.float64]],
    policy: Policy,
    clock: Callable[[], float],
    **options: Any,
) -> Memory:
    def embed(texts: list[str]) -> NDArray[np.float64]:
        unasked = towards(g=0.5)  # the probes of an unknown embedder
        return np.array([vectors.get(text, unasked) for text in texts])

    options = {"path": ":memory:", "surprise": None, **options}
    return Memory(embedder=embed, policy=policy, clock=clock, **options)


def leader(memory: Memory, question: str) -> str:
    return memory.recall(question, k=1, reinforce=False)[0].text


# What was recalled is not always recalled


def use_for_a_month(policy: Policy, clock: Any) -> tuple[str, int]:
    """A question of each day returns its answer, and beside it what is merely popular. Who leads
    on a question that something else answers better, and how often the popular one was used."""
    vectors = {
        "daily question": towards(a=1.0),
        "daily answer": towards(a=0.9),
        "popular": towards(a=0.4, b=0.72),
        "better": towards(b=0.75),
        "rare question": towards(b=1.0),
    }
    with open_with(vectors, policy, clock) as memory:
        for text in ("daily answer", "popular", "better"):
            memory.remember(text, arousal=0.0)
        for _ in range(30):
            clock.pass_(days=1)
            assert [hit.text for hit in memory.recall("daily question", k=2)] == [
                "daily answer",
                "popular",
            ]
        return leader(memory, "rare question"), memory.get(2).access_count


def test_only_what_answers_is_reinforced_so_that_the_popular_does_not_win_everywhere(
    clock: Any,
) -> None:
    assert use_for_a_month(DEFAULT, clock) == ("better", 0)
    assert use_for_a_month(published("reinforce_similarity_margin"), clock) == ("popular", 30)


@pytest.mark.parametrize(
    ("policy", "strength"), [(DEFAULT, 0.1), (published("strength_interval_seconds"), 1.0)]
)
def test_a_talkative_minute_strengthens_once(policy: Policy, strength: float, clock: Any) -> None:
    vectors = {"question": towards(a=1.0), "answer": towards(a=0.9)}
    with open_with(vectors, policy, clock) as memory:
        memory.remember("answer", arousal=0.0)
        clock.pass_(days=200)
        for _ in range(60):
            clock.pass_(seconds=1)
            memory.recall("question")
        record = memory.get(1)
        assert record.access_count == 60  # counts stay exact
        assert record.vividness == pytest.approx(strength, abs=1e-3)


# The good eleventh row


def eleven(policy: Policy, clock: Any, arousal: float = 0.45) -> Memory:
    """Ten hits and an eleventh that resembles them, each asked for by "question"; "other question"
    is answered by the eleventh, and a little less by a rival that resembles none of them."""
    vectors = {
        "question": towards(a=1.0),
        "other question": towards(b=1.0),
        "eleventh": towards(a=0.7, b=0.65),
        "rival": towards(b=0.63, c=0.7),
        **{f"hit {n}": towards(a=0.8, b=0.4) for n in range(10)},
    }
    memory = open_with(vectors, policy, clock)
    memory.remember("eleventh", arousal=arousal)
    memory.remember("rival", arousal=arousal)
    for n in range(10):
        memory.remember(f"hit {n}", arousal=arousal)
    return memory


@pytest.mark.parametrize(
    ("policy", "first"),
    [(DEFAULT, "eleventh"), (published("strength_interval_seconds"), "rival")],
)
def test_a_talkative_minute_does_not_sink_the_good_eleventh_row(
    policy: Policy, first: str, clock: Any
) -> None:
    with eleven(policy, clock) as memory:
        assert leader(memory, "other question") == "eleventh"
        for _ in range(20):
            clock.pass_(seconds=3)
            assert len(memory.recall("question", k=10)) == 10
        assert (memory.get(1).vividness > 0.9) == (first == "eleventh")
        assert leader(memory, "other question") == first


@pytest.mark.parametrize("policy", [DEFAULT, PUBLISHED])
def test_a_recall_suppresses_by_the_largest_cosine_only(policy: Policy, clock: Any) -> None:
    with eleven(policy, clock) as memory:
        hits = memory.recall("question", k=10)
        assert {hit.text for hit in hits} == {f"hit {n}" for n in range(10)}
        cosine = float(towards(a=0.7, b=0.65) @ towards(a=0.8, b=0.4))
        assert cosine > 0.7
        # Ten hits that are all this close take no more than one would.
        assert memory.get(1).vividness == pytest.approx(1.0 - 0.05 * cosine, abs=1e-6)


@pytest.mark.parametrize("policy", [DEFAULT, PUBLISHED])
def test_forgetting_by_retrieval_removes_nothing(policy: Policy, clock: Any) -> None:
    with eleven(policy, clock) as memory:
        for _ in range(100):
            clock.pass_(days=1)
            memory.recall("question", k=10)
        faded = memory.get(1).vividness
        assert faded == 0.0
        # Where there is room it is found, and asked for it is first.
        assert "eleventh" in {hit.text for hit in memory.recall("question", k=12, reinforce=False)}
        assert leader(memory, "other question") == "eleventh"
        assert len(memory) == 12


@pytest.mark.parametrize(("arousal", "lowest"), [(0.6, 0.4), (0.75, 0.4), (0.9, 0.7)])
def test_forgetting_by_retrieval_ends_at_the_floor(
    arousal: float, lowest: float, clock: Any
) -> None:
    with eleven(DEFAULT, clock, arousal) as memory:
        memory.recall("question", k=10)
        # What is more salient than rif_max_salience is not suppressed at all.
        assert (memory.get(1).vividness == 1.0) == (arousal > 0.7)
        for _ in range(100):
            clock.pass_(hours=5)
            memory.recall("question", k=10)
            assert memory.get(1).vividness >= lowest


# Tasks


def after_completion(policy: Policy, clock: Any, *, pinned: bool) -> str:
    """Who leads two months after an emergency was dealt with."""
    vectors = {
        "question": towards(a=1.0),
        "emergency": towards(a=0.6),
        "what holds now": towards(a=0.77),
    }
    with open_with(vectors, policy, clock) as memory:
        memory.remember("emergency", arousal=0.9, urgency=1.0)
        memory.remember("what holds now", arousal=0.0)
        if pinned:
            memory.pin(1)
        assert leader(memory, "question") == "emergency"
        memory.complete(1)
        clock.pass_(days=60)
        return leader(memory, "question")


@pytest.mark.parametrize("pinned", [False, True])
def test_a_completed_emergency_stops_leading(pinned: bool, clock: Any) -> None:
    assert after_completion(DEFAULT, clock, pinned=pinned) == "what holds now"
    keeping = published("completion_lowers_floor")
    assert after_completion(keeping, clock, pinned=pinned) == "emergency"


def test_of_two_emergencies_the_open_one_leads_at_once(clock: Any) -> None:
    vectors = {
        "question": towards(a=1.0),
        "first": towards(a=0.605),
        "second": towards(a=0.6),
    }
    with open_with(vectors, DEFAULT, clock) as memory:
        memory.remember_many(
            [{"text": text, "arousal": 0.9, "urgency": 1.0} for text in ("first", "second")]
        )
        assert leader(memory, "question") == "first"
        memory.complete(1)
        assert leader(memory, "question") == "second"


@pytest.mark.parametrize(
    ("policy", "first"), [(DEFAULT, "task"), (published("open_task_salience"), "note")]
)
def test_an_open_task_rises_although_nothing_about_it_is_arousing(
    policy: Policy, first: str, clock: Any
) -> None:
    vectors = {"question": towards(a=1.0), "task": towards(a=0.6), "note": towards(a=0.7)}
    with open_with(vectors, policy, clock) as memory:
        memory.remember("task", arousal=0.0, urgency=1.0)
        memory.remember("note", arousal=0.0)
        assert leader(memory, "question") == first
        memory.complete(1)
        assert leader(memory, "question") == "note"


@pytest.mark.parametrize("arousal", [0.0, 0.45, 0.6, 0.9])
def test_what_is_not_a_task_is_untouched_by_the_terms_of_tasks(arousal: float, clock: Any) -> None:
    vectors = {"question": towards(a=1.0), "note": towards(a=0.7), "task": towards(a=0.6)}
    found = []
    for policy in (
        DEFAULT,
        dataclasses.replace(
            DEFAULT, open_task_boost=1.0, completed_task_penalty=1.0, open_task_salience=1.0
        ),
    ):
        with open_with(vectors, policy, clock) as memory:
            memory.remember("note", arousal=arousal)
            memory.remember("task", arousal=arousal, urgency=0.5)
            with pytest.raises(ValueError, match="not a task"):
                memory.complete(1)
            memory.complete(2)
            hits = memory.recall("question", now=clock.now + 9 * 86_400.0, reinforce=False)
            note = next(hit for hit in hits if hit.text == "note")
            assert note.record.effective_vividness == note.record.vividness
            found.append((note.score, note.record.vividness))
    assert found[0] == found[1]


# Ramps


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        (DEFAULT, "answer"),
        (published("vividness_ramp_start", "vividness_ramp_end"), "emergency elsewhere"),
    ],
)
def test_an_emergency_of_another_topic_does_not_lead_everywhere(
    policy: Policy, first: str, clock: Any
) -> None:
    vectors = {
        "question": towards(a=1.0),
        "answer": towards(a=0.4),
        "emergency elsewhere": towards(a=0.05),
    }
    with open_with(vectors, policy, clock) as memory:
        memory.remember("emergency elsewhere", arousal=0.9)
        memory.remember("answer", arousal=0.0)
        assert leader(memory, "question") == first


def test_a_question_for_what_is_critical_is_answered_by_it_whatever_it_is_about(
    clock: Any,
) -> None:
    question = "What critical issues are unresolved?"
    vectors = {question: towards(a=1.0), "decoy": towards(a=0.3), "leak": towards(a=0.15)}
    no_exception = dataclasses.replace(
        DEFAULT,
        critical_question_ramp_start=DEFAULT.vividness_ramp_start,
        critical_question_ramp_end=DEFAULT.vividness_ramp_end,
    )
    for policy, first in ((DEFAULT, "leak"), (no_exception, "decoy")):
        with open_with(vectors, policy, clock) as memory:
            memory.remember("decoy", arousal=0.0)
            memory.remember("leak", arousal=0.9)
            clock.pass_(days=40)
            assert leader(memory, question) == first


@pytest.mark.parametrize(
    "question",
    [
        "which URGENT problems are open?",
        "are there emergencies?",
        "was ist kritisch?",
        "¿hay algo urgente?",
        "有什么紧急情况？",
    ],
)
def test_such_questions_are_known_by_their_words(question: str, clock: Any) -> None:
    other = "what was for lunch?"
    bonus = []
    for asked in (question, other):
        with open_with({asked: towards(a=1.0), "leak": towards(a=0.15)}, DEFAULT, clock) as memory:
            memory.remember("leak", arousal=0.9)
            bonus.append(memory.recall(asked)[0].vividness_bonus)
    assert bonus[0] > 2.0 * bonus[1]


@pytest.mark.parametrize(
    ("policy", "first"),
    [(DEFAULT, "answer"), (published("recency_ramp_start", "recency_ramp_end"), "small talk")],
)
def test_what_is_merely_new_does_not_lead(policy: Policy, first: str, clock: Any) -> None:
    vectors = {
        "question": towards(a=1.0),
        "answer": towards(a=0.4),
        "small talk": towards(a=0.3),
        "outdated": towards(b=0.9),
        "corrected": towards(b=0.89),
        "what holds?": towards(b=1.0),
    }
    with open_with(vectors, policy, clock) as memory:
        for text in ("answer", "outdated"):
            memory.remember(text, arousal=0.0)
        clock.pass_(days=100)
        for text in ("small talk", "corrected"):
            memory.remember(text, arousal=0.0)
        assert leader(memory, "question") == first
        assert leader(memory, "what holds?") == "corrected"  # of what answers alike the newer


# Surprise


def stream_with_novelty(policy: Policy, clock: Any, novel: int) -> Memory:
    """An alarm, 400 events of routine, then novel ones; each of them answers "question" alike."""
    random = np.random.default_rng(4)
    routine = random.normal(0.0, 0.05, (400, DIM))
    routine[:, 1] += 1.0
    vectors = {"question": towards(a=1.0), "alarm": towards(a=0.6, b=0.5)}
    vectors |= {f"routine {n}": row for n, row in enumerate(routine)}
    vectors |= {f"novel {n}": towards(a=0.6, **{"cdefg"[n]: 0.7}) for n in range(novel)}
    memory = open_with(vectors, policy, clock, surprise="centroid")
    memory.remember("alarm", arousal=0.7)
    for prefix, count in (("routine", 400), ("novel", novel)):
        clock.pass_(hours=1)
        memory.remember_many([{"text": f"{prefix} {n}", "arousal": 0.0} for n in range(count)])
    return memory


@pytest.mark.parametrize(
    ("policy", "first"), [(DEFAULT, "alarm"), (published("surprise_max_salience"), "novel 0")]
)
def test_surprise_alone_never_leads_before_what_is_critical(
    policy: Policy, first: str, clock: Any
) -> None:
    with stream_with_novelty(policy, clock, 1) as memory:
        (novel,) = memory.list(order="-created", limit=1)
        assert (novel.text, novel.flashbulb, novel.pinned) == ("novel 0", True, True)
        assert (novel.salience <= 0.5) == (first == "alarm")
        assert leader(memory, "question") == first


def test_only_so_much_is_pinned_by_surprise(clock: Any) -> None:
    few = dataclasses.replace(DEFAULT, max_surprise_pins=2)
    all_of_them = dataclasses.replace(few, max_surprise_pin_share=PUBLISHED.max_surprise_pin_share)
    for policy in (few, all_of_them):
        with stream_with_novelty(policy, clock, 5) as memory:
            records = memory.list()
            flashbulbs = [record for record in records if record.flashbulb]
            assert len(flashbulbs) >= 5
            pinned = sum(record.pinned for record in records)
            assert pinned == (2 if policy is few else len(flashbulbs))
            assert memory.stats()["surprise_pins_refused"] == len(flashbulbs) - pinned


@pytest.mark.parametrize("largest", ["first", "last"])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_surprises_most_is_pinned_whatever_the_order(
    largest: str, at_once: bool, tmp_path: Path, clock: Any
) -> None:
    policy = dataclasses.replace(DEFAULT, max_surprise_pins=2)
    vectors = {f"routine {n}": towards(a=0.9, b=0.001 * (n % 97)) for n in range(400)}
    odd = {f"odd {n}": towards(a=0.6 - 0.05 * n, c=0.3) for n in range(4)}
    odd["shock"] = towards(d=1.0)
    order = sorted(odd, key=lambda text: (text == "shock") == (largest == "last"))
    options = {"surprise": "centroid", "path": tmp_path / "store.db"}
    with open_with(vectors | odd, policy, clock, **options) as memory:
        memory.remember_many([{"text": text, "arousal": 0.0} for text in vectors])
        clock.pass_(hours=1)
        if at_once:
            memory.remember_many([{"text": text, "arousal": 0.0} for text in order])
        else:
            for text in order:
                clock.pass_(hours=1)
                memory.remember(text, arousal=0.0)
        stats = memory.stats()
        records = {record.text: record for record in memory.list()}
    flashbulbs = [record for record in records.values() if record.flashbulb]
    pinned = [record for record in flashbulbs if record.pinned]
    assert records["shock"].pinned
    assert len(flashbulbs) > len(pinned) == stats["pinned_by_surprise"] == 2
    assert stats["surprise_pins_refused"] == len(flashbulbs) - 2
    least = min(record.surprise or 0.0 for record in pinned)
    assert all(record.pinned or (record.surprise or 0.0) <= least for record in flashbulbs)
    clock.pass_(days=30)
    with open_with(vectors | odd, policy, clock, **options) as memory:
        again = {record.text: record for record in memory.list()}
    for text, record in records.items():
        assert (again[text].pinned, again[text].flashbulb) == (record.pinned, record.flashbulb)
        assert (again[text].vividness == 1.0) == record.pinned


def test_what_is_critical_too_is_pinned_although_the_limit_is_reached(clock: Any) -> None:
    none = dataclasses.replace(DEFAULT, max_surprise_pins=0, max_surprise_pin_share=0.0)
    with stream_with_novelty(none, clock, 2) as memory:
        assert not any(record.pinned for record in memory.list())
        # A repeat with another tag is another memory, as far from the routine.
        critical = memory.remember("novel 1", arousal=0.9, tags=["outage"])
        assert critical.flashbulb
        assert critical.pinned == (critical.importance == 1.0)
        assert critical.pinned


# Decay is derived on read


@pytest.mark.parametrize("law", ["clamp", "asymptotic"])
def test_decay_is_the_same_however_often_it_is_read(store: Path, law: Any, clock: Any) -> None:
    policy = dataclasses.replace(DEFAULT, decay_law=law)
    start = clock.now
    arousals = (0.0, 0.3, 0.6, 0.9)
    found = set()
    for reads, reopened in ((1, False), (100, False), (1, True), (100, True)):
        clock.now = start
        file = store.with_name(f"{reads}-{reopened}.db")
        memory = Memory(file, policy=policy, clock=clock, surprise=None)
        for n, arousal in enumerate(arousals):
            memory.remember(f"event {n}", arousal=arousal, urgency=0.5 if n % 2 else None)
        for read in range(1, reads + 1):
            clock.now = start + 40.0 * 86_400.0 * read / reads
            if reopened and read % 10 in (0, 1):
                memory.close()
                memory = Memory(file, policy=policy, clock=clock, surprise=None)
            memory.list()
            memory.recall("event", reinforce=False)
        records = memory.list()
        memory.close()
        found.add(tuple((r.vividness, r.effective_vividness) for r in records))
    assert len(found) == 1
