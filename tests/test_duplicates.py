"""The same text again, and texts that are nearly the same: merged only where that is asked for."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flashbulb import Memory, NearDuplicate, Policy, Record, _duplicates
from strategies import examples

PAIRS = [
    ("the meeting is at ten", "the meeting is at eleven"),
    ("data was lost", "no data was lost"),
    ("The outage is resolved", "The outage is not resolved"),
    ("User prefers dark mode", "User prefers light mode"),
    ("Version 1.2.3 is deployed", "Version 1.2.4 is deployed"),
    ("The key rotates on Monday", "The key rotates on Tuesday"),
    ("Payments are up", "PAYMENTS ARE UP"),
]


# What is reported


def test_a_near_duplicate_is_kept_and_reported_with_its_neighbour(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        first = memory.remember("The customer database is backed up every night at two")
        assert first.near_duplicate is None
        memory.remember("Lunch is at twelve")
        second = memory.remember("The customer database is backed up every night at two!")
        found = second.near_duplicate
        assert found is not None
        assert (second.id, found.id, found.text) == (3, first.id, first.text)
        assert 0.95 <= found.cosine <= 1.0 + 1e-6
        engine = memory._store.space("default").engine
        assert found.cosine == engine.cosines(engine.vectors([3])[0], [1])[0, 0]
        assert memory.get(3) == second  # it counts in no comparison ...
        assert memory.get(3).near_duplicate is None  # ... and is not kept
        assert memory.remember(first.text).near_duplicate is None  # a repeat is no near duplicate
        assert memory.namespace("other").remember(second.text).near_duplicate is None


@pytest.mark.parametrize("surprise", [None, "centroid", "neighbours"])
def test_one_by_one_or_in_a_batch_the_neighbour_is_the_same(surprise: Any) -> None:
    texts = [text for pair in PAIRS for text in pair] + ["Payments are up!", "Lunch at noon"]
    policy = Policy(near_duplicate_cosine=0.6)

    def neighbours(records: Sequence[Record]) -> list[NearDuplicate | None]:
        return [record.near_duplicate for record in records]

    with Memory(":memory:", surprise=surprise, policy=policy) as memory:
        singly = neighbours([memory.remember(text) for text in texts])
    with Memory(":memory:", surprise=surprise, policy=policy) as memory:
        assert neighbours(memory.remember_many(texts)) == singly
    with Memory(":memory:", surprise=surprise, policy=policy) as memory:
        parts = [memory.remember_many(texts[:5]), memory.remember_many(texts[5:])]
        assert neighbours([record for part in parts for record in part]) == singly
    assert sum(found is not None for found in singly) > 5


class Directions:
    """Texts are numbers of directions; the same number is the same vector, noise apart."""

    name, dim, fingerprint = "directions", 8, "646972"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = []
        for text in texts:
            direction, noise = text.split()[:2]
            rows.append(
                np.random.default_rng(int(direction)).normal(size=8)
                + 0.02 * np.random.default_rng(1000 + int(noise)).normal(size=8)
            )
        return np.array(rows, np.float32)

    embed_queries = embed_documents


@given(
    numbers=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    chunk=st.sampled_from([1, 2, 5, 256]),
    how=st.sampled_from(["occurrence", "keep"]),
    forgotten=st.sets(st.integers(0, 30), max_size=4),
)
@examples(150)
def test_the_neighbour_is_the_nearest_memory_there_was(
    numbers: list[tuple[int, int]], cuts: list[int], chunk: int, how: Any, forgotten: set[int]
) -> None:
    """Against brute force, whatever comes in one batch."""
    texts = [f"{direction} {noise}" for direction, noise in numbers]
    ends = sorted({min(cut, len(texts)) for cut in cuts} | {len(texts)})
    embedder = Directions()
    with pytest.MonkeyPatch.context() as patch, Memory(":memory:", embedder=embedder) as memory:
        patch.setattr(_duplicates, "_CHUNK", chunk)
        live: dict[int, str] = {}
        engine = memory._store.space("default").engine
        begin = 0
        for end in ends:
            for record in memory.remember_many(texts[begin:end], on_duplicate=how):
                if record.id in live and len(record.occurrences) > 1:
                    assert how == "occurrence"
                    assert record.near_duplicate is None
                    continue
                vector = embedder.embed_documents([record.text])[0]
                cosines = engine.cosines(vector, list(live))[0]
                best = max(
                    ((float(c), -i) for i, c in zip(live, cosines, strict=True)),
                    default=(-1.0, 0),
                )
                found = record.near_duplicate
                if best[0] < 0.95:
                    assert found is None
                else:
                    assert found == NearDuplicate(-best[1], live[-best[1]], best[0])
                live[record.id] = record.text
            begin = end
            for place in forgotten & live.keys():
                memory.forget(place)
                del live[place]


def test_what_is_forgotten_or_of_a_completed_task_is_no_neighbour_or_one_that_is_kept(
    clock: Any,
) -> None:
    with Memory(":memory:", clock=clock, on_duplicate=lambda record, text: "occurrence") as memory:
        first = memory.remember("Renew the certificate", urgency=0.5).id
        memory.complete(first)
        again = memory.remember("Renew the certificate", urgency=0.5)
        assert again.near_duplicate is not None
        assert (again.id, again.near_duplicate.id, again.status) == (2, first, "open")
        for id in (1, 2):
            memory.forget(id)
        assert memory.remember("Renew the certificate").near_duplicate is None


def test_the_threshold_is_the_policys_and_above_one_nothing_is_looked_for() -> None:
    for threshold, expected in ((0.5, True), (0.999, False), (math.inf, False)):
        with Memory(":memory:", policy=Policy(near_duplicate_cosine=threshold)) as memory:
            memory.remember("Lunch is at twelve")
            found = memory.remember("Lunch is at twelve o'clock").near_duplicate
            assert (found is not None) == expected
    assert Policy.published().near_duplicate_cosine == math.inf


# Nothing is merged away


@pytest.mark.parametrize("how", ["occurrence", "keep"])
@pytest.mark.parametrize("pair", PAIRS)
def test_an_update_or_a_negation_is_a_memory_of_its_own(pair: tuple[str, str], how: Any) -> None:
    for texts in (pair, pair[::-1]):
        with Memory(
            ":memory:", on_duplicate=how, policy=Policy(near_duplicate_cosine=0.0)
        ) as memory:
            first, second = (memory.remember(text) for text in texts)
            assert second.near_duplicate is not None
            assert [record.text for record in memory.list()] == list(texts)
            assert [len(record.occurrences) for record in memory.list()] == [1, 1]
            assert {hit.id for hit in memory.recall(texts[1], k=2)} == {first.id, second.id}
        with Memory(":memory:", on_duplicate=how) as memory:
            assert [r.id for r in memory.remember_many(texts)] == [first.id, second.id]


words = st.sampled_from(["no", "data", "was", "lost", "at", "ten", "eleven", "not", "the", "key"])


@given(
    text=st.lists(words, min_size=2, max_size=8),
    place=st.integers(0, 7),
    word=words,
    change=st.sampled_from(["insert", "replace", "remove", "move"]),
)
@examples(100)
def test_one_word_more_or_less_or_elsewhere_is_another_fact(
    text: list[str], place: int, word: str, change: str
) -> None:
    other = list(text)
    place %= len(text)
    if change == "insert":
        other.insert(place, word)
    elif change == "replace":
        other[place] = word
    elif change == "remove":
        del other[place]
    else:
        other.append(other.pop(place))
    with Memory(":memory:") as memory:
        records = memory.remember_many([" ".join(text), " ".join(other)])
        assert len(memory) == len({" ".join(text), " ".join(other)})
        assert [record.text for record in records] == [" ".join(text), " ".join(other)]


# What the caller decides


def test_keep_stores_the_same_text_again(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock, on_duplicate="keep") as memory:
        records = [memory.remember("Lunch is at twelve", tags=["x"]) for _ in range(2)]
        records += memory.remember_many([{"text": "Lunch is at twelve", "tags": ["x"]}] * 2)
        assert [record.id for record in records] == [1, 2, 3, 4]
        assert [r.near_duplicate.id for r in records if r.near_duplicate is not None] == [1, 1, 1]
        assert len(memory.recall("lunch")) == 4
        once_more = memory.remember("Lunch is at twelve", tags=["x"], on_duplicate="occurrence")
        assert (once_more.id, len(once_more.occurrences)) == (1, 2)
        assert memory.namespace("other")._on_duplicate == "keep"


def test_a_callable_decides_on_repeats_and_near_ones(clock: Any) -> None:
    asked: list[tuple[int, str, str]] = []

    def decide(existing: Record, text: str) -> Any:
        asked.append((existing.id, existing.text, text))
        return "keep" if "not" in text else "occurrence"

    with Memory(":memory:", clock=clock, on_duplicate=decide) as memory:
        first = memory.remember("The outage is resolved", metadata={"n": 0})
        assert asked == []
        clock.pass_(hours=1)
        kept = memory.remember("The outage is not resolved")
        assert (kept.id, kept.near_duplicate is not None) == (2, True)
        merged = memory.remember("The outage is resolved!", metadata={"n": 1})
        assert (merged.id, merged.text, merged.near_duplicate) == (1, first.text, None)
        assert [occurrence.metadata for occurrence in merged.occurrences] == [{"n": 0}, {"n": 1}]
        assert memory.remember("The outage is not resolved").id == 3
        assert asked == [
            (1, "The outage is resolved", "The outage is not resolved"),
            (1, "The outage is resolved", "The outage is resolved!"),
            (2, "The outage is not resolved", "The outage is not resolved"),
        ]


@pytest.mark.parametrize("answer", ["occurrence", "keep"])
def test_a_callable_decides_within_a_batch_too(clock: Any, answer: Any) -> None:
    asked: list[Record] = []

    def decide(existing: Record, text: str) -> Any:
        asked.append(existing)
        return answer

    items = [{"text": "Lunch is at twelve", "metadata": {"n": n}, "arousal": 0.6} for n in range(3)]
    with Memory(":memory:", clock=clock) as memory:
        records = memory.remember_many(items, on_duplicate=decide)
        merged = answer == "occurrence"
        assert [record.id for record in records] == ([1, 1, 1] if merged else [1, 2, 3])
        assert {record.id for record in asked} == {0}
        assert asked[0].metadata == {"n": 0}
        assert asked[0].near_duplicate is None
        expected = dataclasses.replace(memory.list()[0], id=0, surprise=None, importance=None)
        assert asked[0].floor == expected.floor == 0.4
        if merged:
            assert [o.metadata["n"] for o in records[-1].occurrences] == [0, 1, 2]


def test_what_was_merged_within_a_batch_is_nobodys_neighbour() -> None:
    asked: list[tuple[str, str]] = []

    def decide(existing: Record, text: str) -> Any:
        asked.append((existing.text, text))
        return "keep" if text == "1 2 again" else "occurrence"

    with Memory(":memory:", embedder=Directions(), on_duplicate=decide) as memory:
        records = memory.remember_many(["1 1", "1 2", "1 2 again"])
        assert [record.id for record in records] == [1, 1, 2]
        found = records[2].near_duplicate
        assert found is not None
        assert (found.id, found.text) == (1, "1 1")
        assert found.cosine < 1.0 - 1e-6
        assert asked == [("1 1", "1 2"), ("1 2", "1 2 again"), ("1 1", "1 2 again")]


@pytest.mark.parametrize("answer", [None, "merge", True, 1])
def test_a_bad_answer_stores_nothing(clock: Any, answer: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        memory.remember("one")
        before = memory.list()
        with pytest.raises(ValueError, match="on_duplicate must return"):
            memory.remember_many(["two", "one"], on_duplicate=lambda record, text: answer)
        assert memory.list() == before
        with pytest.raises(ValueError, match="on_duplicate must be"):
            memory.remember("two", on_duplicate=answer or "merge")
        assert memory.remember("two").id == 2
    with pytest.raises(ValueError, match="on_duplicate must be"):
        Memory(":memory:", on_duplicate=answer)


def test_what_a_callable_raises_comes_out_and_stores_nothing(clock: Any) -> None:
    def decide(existing: Record, text: str) -> Any:
        raise KeyboardInterrupt

    with Memory(":memory:", clock=clock) as memory:
        memory.remember("one")
        with pytest.raises(KeyboardInterrupt):
            memory.remember_many(["two", "one"], on_duplicate=decide)
        assert len(memory) == 1
        assert memory.remember("two").id == 2


def test_a_callable_holds_no_lock_and_is_asked_again_about_what_changed(clock: Any) -> None:
    asked: list[str] = []
    thinking, done = threading.Event(), threading.Event()

    def decide(existing: Record, text: str) -> Any:
        asked.append(existing.text)
        thinking.set()
        assert done.wait(30)
        return "occurrence"

    with Memory(":memory:", clock=clock) as memory:
        memory.remember("The outage is resolved", arousal=0.1)
        records: list[Record] = []
        thread = threading.Thread(
            target=lambda: records.append(
                memory.remember("The outage is resolved", on_duplicate=decide)
            )
        )
        thread.start()
        assert thinking.wait(30)
        memory.forget(1)
        other = memory.remember("The outage is resolved!", arousal=0.1).id
        done.set()
        thread.join(30)
        assert [record.id for record in records] == [other]
        assert asked == ["The outage is resolved", "The outage is resolved!"]
        assert [len(record.occurrences) for record in memory.list()] == [2]
