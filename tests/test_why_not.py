"""Why a memory is not among the hits: its exact place, its terms, or the filter it fails."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Memory, MemoryNotFound, Policy, WhyNot
from strategies import examples, policies, seeds

DAY = 86_400.0
START = 1_700_000_000.0
END = START + 60 * DAY
WORDS = [
    "payment",
    "outage",
    "door",
    "lemon",
    "cake",
    "server",
    "disk",
    "leak",
    "customer",
    "tram",
    "garden",
    "tulip",
]


@pytest.fixture
def memory(clock: Any) -> Any:
    with Memory(":memory:", clock=clock) as opened:
        yield opened


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d{4}", line)]


def filled(rng: np.random.Generator, memory: Memory, count: int) -> list[int]:
    """Memories of a small vocabulary: repeats, tasks, tags and metadata."""
    ids, now = [], START
    for _ in range(count):
        now += float(rng.uniform(0, 3)) * DAY
        text = " ".join(rng.choice(WORDS, rng.integers(1, 5)))
        record = memory.remember(
            text,
            tags=[tag for tag in ("a", "b") if rng.random() < 0.5],
            metadata={"n": int(rng.integers(2))},
            urgency=float(rng.random()) if rng.random() < 0.3 else None,
            now=now,
        )
        ids.append(record.id)
        if record.status == "open" and rng.random() < 0.4:
            memory.complete(record.id, now=now)
    return sorted(set(ids))


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.sampled_from([[], ["a"], ["a", "b"], ["never"]]),
        "filter": st.sampled_from([{}, {"n": 1}, {"n": 0}, {"other": None}]),
        "status": st.sampled_from([None, "none", "open", "completed"]),
        "since": st.sampled_from([None, 5.0, 20.0]),
        "until": st.sampled_from([None, 15.0, 30.0]),
        "min_score": st.sampled_from([None, 0.1, 0.4]),
    },
)


@examples(25)
@given(seed=seeds, policy=policies(), filters=FILTERS, k=st.integers(0, 12))
def test_the_place_is_that_of_a_recall_of_everything(
    seed: int, policy: Policy, filters: dict[str, Any], k: int
) -> None:
    rng = np.random.default_rng(seed)
    filters = dict(filters)
    for name in ("since", "until"):
        if filters.get(name) is not None:
            filters[name] = START + filters[name] * DAY
    with Memory(":memory:", clock=lambda: END, policy=policy) as memory:
        ids = filled(rng, memory, 20)
        query = " ".join(rng.choice(WORDS, 2))
        unlimited = {name: value for name, value in filters.items() if name != "min_score"}
        everything = memory.recall(query, 100, reinforce=False, **unlimited)
        places = {hit.id: place for place, hit in enumerate(everything, 1)}
        returned = [hit.id for hit in memory.recall(query, k, reinforce=False, **filters)]
        for id in ids:
            why = memory.why_not(query, id, k, **filters)
            assert why.rank == places.get(id)
            assert bool(why.excluded) == (id not in places)
            assert why.passing == len(everything)
            assert why.found == (id in returned)
            if why.rank is not None:
                assert why.own == everything[why.rank - 1]
                last = min(k, len(everything))
                assert why.kth == (everything[last - 1] if last else None)


@examples(25)
@given(seed=seeds, policy=policies())
def test_every_printed_term_adds_up(seed: int, policy: Policy) -> None:
    rng = np.random.default_rng(seed)
    with Memory(":memory:", clock=lambda: END, policy=policy) as memory:
        ids = filled(rng, memory, 12)
        query = " ".join(rng.choice(WORDS, 2))
        for hit in memory.recall(query, 100, reinforce=False):
            score, *terms = (numbers(line)[0] for line in hit.explain().splitlines())
            assert sum(terms) == pytest.approx(score, abs=1e-9)
            assert score == pytest.approx(hit.score, abs=5.1e-5)
        for id in ids:
            why = memory.why_not(query, id, 3)
            *terms, score = why.terms()
            for column in (1, 2, 3):
                assert sum(term[column] for term in terms) == pytest.approx(score[column], abs=1e-9)
            for term in (*terms, score):
                assert term.own - term.kth == pytest.approx(term.difference, abs=1e-9)


def test_a_memory_that_ranks_lower_is_compared_with_the_last_hit(memory: Memory) -> None:
    for text in ("The door code is 4711", "The door is locked", "Lemon cake on the counter"):
        memory.remember(text)
    why = memory.why_not("door code", 3, k=2)
    assert (why.rank, why.passing, why.excluded, why.found) == (3, 3, (), False)
    assert why.own is not None
    assert why.own.id == 3
    assert why.kth is not None
    assert why.kth.id == memory.recall("door code", 2, reinforce=False)[-1].id
    lines = why.explain().splitlines()
    gap = -why.terms()[-1].difference
    assert lines[0].startswith(f"memory 3 is at place 3 of 3: {gap:.4f} below place 2, memory ")
    assert [line.split()[0] for line in lines[2:]] == [
        "meaning",
        "words",
        "vividness",
        "recency",
        "score",
    ]
    for line, term in zip(lines[2:], why.terms(), strict=True):
        assert numbers(line) == [term.own, term.kth, term.difference]


def test_a_memory_among_the_hits_says_so(memory: Memory) -> None:
    memory.remember("The door code is 4711")
    why = memory.why_not("door code", 1)
    assert why.found
    assert why.explain() == "memory 1 is at place 1 of 1: among the best 10"


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"tags": ["door", "home"]}, "it lacks the tag 'home'"),
        ({"tags": ["x", "y"]}, "it lacks the tags 'x', 'y'"),
        ({"status": "open"}, "its status is 'none', asked for is 'open'"),
        ({"since": 3e9}, "it did not occur between since and until"),
        ({"until": 1.0}, "it did not occur between since and until"),
        ({"filter": {"n": True}}, "it did not occur with the metadata {'n': True}"),
    ],
)
def test_the_filter_that_excludes_it_is_named(
    memory: Memory, filters: dict[str, Any], reason: str
) -> None:
    memory.remember("The door code is 4711", tags=["door"], metadata={"n": 1})
    why = memory.why_not("door code", 1, **filters)
    assert why.excluded == (reason,)
    assert (why.rank, why.own, why.kth, why.found) == (None, None, None, False)
    assert why.explain() == f"memory 1 is left out: {reason}"


def test_all_filters_that_exclude_it_are_named(memory: Memory) -> None:
    memory.remember("The door code is 4711")
    why = memory.why_not("door code", 1, tags=["x"], status="open")
    assert len(why.excluded) == 2


def test_a_minimum_score_that_cuts_it_is_named(memory: Memory) -> None:
    memory.remember("The door code is 4711")
    why = memory.why_not("lemon cake", 1, min_score=1.5)
    assert why.rank == 1
    assert why.below_min_score
    assert not why.found
    assert "below min_score 1.5" in why.explain()


def test_what_is_not_here_is_not_found_and_the_error_says_why(memory: Memory) -> None:
    memory.remember("The door code is 4711")
    other = memory.namespace("other").remember("The door code is 4712").id
    memory.remember("Lemon cake")
    memory.forget(3)
    for id, reason in ((other, "belongs to another"), (3, "forgotten"), (99, "no memory has had")):
        with pytest.raises(MemoryNotFound, match=reason):
            memory.why_not("door code", id)


def test_asking_why_changes_nothing(memory: Memory, clock: Any) -> None:
    for text in ("The door code is 4711", "The door is locked"):
        memory.remember(text)
    clock.pass_(days=3)
    before = memory.list()
    assert isinstance(memory.why_not("door code", 2, k=1), WhyNot)
    assert memory.list() == before


def test_bad_arguments_are_those_of_recall(memory: Memory) -> None:
    memory.remember("The door code is 4711")
    with pytest.raises(ValueError, match="k must not be negative"):
        memory.why_not("door", 1, -1)
    with pytest.raises(ValueError, match="status must be"):
        memory.why_not("door", 1, status="done")
    wrong: Any = "1"
    with pytest.raises(TypeError, match="an id must be an int"):
        memory.why_not("door", wrong)


def test_an_approximate_store_is_looked_at_as_a_whole() -> None:
    with Memory(":memory:", clock=lambda: END, approximate=True) as memory:
        ids = filled(np.random.default_rng(5), memory, 30)
        ranks = [memory.why_not("tram garden", id, k=3).rank for id in ids]
    assert sorted(rank for rank in ranks if rank) == list(range(1, len(ids) + 1))
