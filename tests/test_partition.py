"""Approximate searches of a divided store, and how it comes to be divided."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, Policy, _core, _partition
from flashbulb._partition import Stopped, build
from flashbulb._reference import ReferenceEngine
from simd import each_level
from strategies import DAY, NOW, TAGS, examples, fill, made_engine, policies, seeds
from test_engine_model import assert_part_of


def clustered(count: int, dim: int = 32, topics: int = 50, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((topics, dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rows = centres[random.integers(topics, size=count)]
    return rows + random.standard_normal((count, dim)) * (0.6 / np.sqrt(dim))


def divided(count: int, **options: Any) -> Engine:
    random = np.random.default_rng(1)
    engine = Engine(32, **options)
    engine.add(
        clustered(count),
        salience=random.beta(1.0, 4.0, count),
        created=NOW - DAY * random.uniform(0.0, 300.0, count),
        now=NOW,
    )
    engine.build_partition()
    return engine


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores grow lists by themselves from 500 rows on."""
    monkeypatch.setattr(_partition, "PARTITION_FROM_ROWS", 500)
    monkeypatch.setattr(_partition, "_TAIL_ROWS", 200)
    monkeypatch.setattr(_partition, "_STEP_ROWS", 64)


# -- what is found --------------------------------------------------------------------------------


@examples(60)
@given(
    seed=seeds,
    count=st.sampled_from([1, 2, 17, 300, 900]),
    style=st.sampled_from(["random", "equal", "close"]),
    policy=policies(),
    removed=st.sampled_from([0.0, 0.6]),
    later=st.sampled_from([0, 40]),
    k=st.sampled_from([1, 10, 400]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "tags": st.lists(st.sampled_from(TAGS), max_size=1),
            "since": st.sampled_from([NOW - 32 * DAY, NOW - DAY]),
            "status": st.sampled_from(["open", "none", "completed"]),
            "allowed": st.sampled_from([[], [0, 5, 10**6], list(range(0, 900, 3))]),
            "addends": st.just((np.array([0, 3, 16]), np.array([0.5, -0.25, 1.5]))),
            "similarity_weight": st.sampled_from([0.7, 0.1, 0.0, -1.0]),
            "recency_weight": st.just(0.0),
        },
    ),
)
def test_what_is_found_is_ranked_exactly_and_no_flashbulb_is_missing(
    seed: int,
    count: int,
    style: str,
    policy: Policy,
    removed: float,
    later: int,
    k: int,
    options: dict[str, Any],
) -> None:
    engine = made_engine(seed, count, 9, policy, style=style)
    engine.build_partition()
    fill(engine, np.random.default_rng(seed + 1), later, style)
    if removed:
        engine.remove(engine.ids[np.random.default_rng(seed).random(len(engine)) < removed])
    query = np.random.default_rng(seed + 2).normal(size=9)
    twin = ReferenceEngine(engine.state())
    exact = engine.search(query, k, now=NOW + DAY, exact=True, **options)
    everything = engine.search(query, 10**6, now=NOW + DAY, exact=True, **options)
    found = engine.search(query, k, now=NOW + DAY, exact=False, **options)
    assert_part_of(found, exact, everything, twin)


def test_nearly_everything_is_found_where_rows_form_groups() -> None:
    engine = divided(20_000)
    partition = engine.partition
    assert partition is not None
    assert partition.rows == 20_000
    assert partition.searched_rows < 5_000
    queries = clustered(200, seed=0)[-200:]
    exact = engine.search(queries, 10, now=NOW, exact=True).ids
    found = np.array([engine.search(query, 10, now=NOW, exact=False).ids for query in queries])
    same = sum(len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True))
    assert same >= 0.99 * exact.size
    # That is because enough rows are looked at, and no accident.
    assert engine._rows.lists is not None
    engine._rows.lists.wanted = ((10, 50),)
    found = np.array([engine.search(query, 10, now=NOW, exact=False).ids for query in queries])
    same = sum(len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True))
    assert same < 0.9 * exact.size


def test_every_level_path_and_number_of_threads_finds_the_same() -> None:
    engines = [divided(3_000, path=path) for path in ("fp32", "int8", "int4")]
    queries = clustered(3, seed=0)
    for options in ({}, {"since": NOW - 200 * DAY}, {"allowed": np.arange(0, 3000, 2)}):
        for engine in engines:
            expected = None
            for level in each_level():
                found = engine.search(queries, 10, now=NOW, exact=False, **options)
                if expected is None:
                    expected = found
                for name, values in found._asdict().items():
                    np.testing.assert_array_equal(values, getattr(expected, name), err_msg=level)


def test_a_filter_that_leaves_few_rows_is_answered_exactly() -> None:
    engine = divided(5_000)
    tagged = engine.add(clustered(30, seed=3), tags=["rare"], now=NOW)
    engine.build_partition()
    query = clustered(1, seed=5)[0]
    found = engine.search(query, 50, now=NOW, tags=["rare"], exact=False)
    assert np.sort(found.ids).tolist() == tagged.tolist()
    exact = engine.search(query, 10, now=NOW, tags=["rare"], exact=True)
    assert (engine.search(query, 10, now=NOW, tags=["rare"], exact=False).ids == exact.ids).all()
    for nothing in ({"tags": ["unknown"]}, {"allowed": [10**9]}, {"until": NOW - 10**4 * DAY}):
        assert len(engine.search(query, 10, now=NOW, exact=False, **nothing).ids) == 0


def test_a_filter_for_what_lies_far_from_the_query_finds_nearly_everything() -> None:
    """As a tag of one project does for a question about another."""
    random = np.random.default_rng(2)
    centres = random.standard_normal((200, 32))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    topics = random.integers(200, size=20_000)
    rows = centres[topics] + random.standard_normal((20_000, 32)) * 0.12
    engine = Engine(32)
    engine.add(rows, tags=[["a"] if topic < 20 else ["b"] for topic in topics], now=NOW)
    engine.build_partition()
    allowed = np.flatnonzero(topics < 20)
    for options in ({"tags": ["a"]}, {"allowed": allowed}):
        same = 0
        for topic in range(100, 140):
            exact = engine.search(centres[topic], 10, now=NOW, exact=True, **options).ids
            found = engine.search(centres[topic], 10, now=NOW, exact=False, **options).ids
            same += len(np.intersect1d(exact, found))
        assert same >= 0.9 * 400


def test_where_most_rows_were_removed_nearly_everything_is_found() -> None:
    random = np.random.default_rng(2)
    centres = random.standard_normal((100, 32))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    topics = random.integers(100, size=10_000)
    engine = Engine(32)
    engine.add(centres[topics] + random.standard_normal((10_000, 32)) * 0.12, now=NOW)
    engine.build_partition()
    engine.remove(np.flatnonzero(topics < 5))
    for topic in range(5):
        exact = engine.search(centres[topic], 10, now=NOW, exact=True).ids
        found = engine.search(centres[topic], 10, now=NOW, exact=False).ids
        assert len(np.intersect1d(exact, found)) >= 8, topic


@pytest.mark.parametrize("k", [1, 300, 1500])
def test_few_and_many_are_found_as_well(k: int) -> None:
    engine = divided(20_000)
    queries = clustered(50, seed=0)[-50:]
    exact = engine.search(queries, k, now=NOW, exact=True).ids
    found = [engine.search(query, k, now=NOW, exact=False).ids for query in queries]
    same = sum(len(np.intersect1d(*both)) for both in zip(exact, found, strict=True))
    assert same >= 0.98 * exact.size


def test_a_store_whose_lists_tell_little_is_searched_exactly() -> None:
    """Looking at a large part of the rows here and there would cost more than at all of them."""
    random = np.random.default_rng(2)
    engine = Engine(64)
    engine.add(random.normal(size=(4_000, 64)), salience=random.random(4_000) * 0.7, now=NOW)
    engine.build_partition()
    assert engine.partition is not None
    assert engine.partition.searched_rows > 1_500
    queries = random.normal(size=(300, 64))
    exact = engine.search(queries, 10, now=NOW, exact=True)
    found = [engine.search(query, 10, now=NOW, exact=False) for query in queries]
    np.testing.assert_array_equal([each.ids for each in found], exact.ids)


def test_what_is_pinned_or_recalled_later_is_always_looked_at() -> None:
    engine = divided(5_000, policy=Policy(vividness_ramp_start=0.0, vividness_ramp_end=0.0))
    query = clustered(1, seed=5)[0]
    far = engine.ids[np.argsort(engine.cosines(query, engine.ids)[0])[:3]]
    assert not np.isin(far, engine.search(query, 10, now=NOW, exact=False).ids).any()
    engine.pin(far, now=NOW)
    addends = (far, np.full(3, 2.0))
    assert np.isin(far, engine.search(query, 10, now=NOW, addends=addends, exact=False).ids).all()
    exact = engine.search(query, 5_000, now=NOW, exact=True)
    pinned = np.isin(exact.ids, far)
    found = engine.search(query, 4_000, now=NOW, exact=False)
    assert np.isin(exact.ids[:4_000][pinned[:4_000]], found.ids).all()


def test_a_time_before_an_earlier_search_is_answered_exactly() -> None:
    engine = divided(3_000)
    query = clustered(1, seed=5)[0]
    engine.search(query, 10, now=NOW + 100 * DAY, exact=False)
    exact = engine.search(query, 10, now=NOW, exact=True)
    np.testing.assert_array_equal(engine.search(query, 10, now=NOW, exact=False).ids, exact.ids)


def test_what_was_asked_before_says_how_much_is_looked_at() -> None:
    """From 64 queries on; before that, rows of the store stand in for them."""
    elsewhere = np.random.default_rng(0).normal(size=(300, 32))
    searched = []
    for asked in (0, 20, 100):
        engine = Engine(32)
        engine.add(clustered(5_000, topics=500), now=NOW)
        for query in elsewhere[:asked]:
            engine.search(query, 10, now=NOW)
        engine.build_partition()
        assert engine.partition is not None
        searched.append(engine.partition.searched_rows)
        if asked == 100:
            exact = engine.search(elsewhere, 10, now=NOW, exact=True).ids
            found = [engine.search(query, 10, now=NOW).ids for query in elsewhere[100:]]
            same = sum(len(np.intersect1d(*both)) for both in zip(exact[100:], found, strict=True))
            assert same >= 0.97 * 2_000
    assert searched[0] == searched[1] != searched[2]


# -- how it comes to be ---------------------------------------------------------------------------


def test_a_store_divides_itself_when_it_is_large_enough(small: None) -> None:
    engine = Engine(32)
    rows = clustered(1_500)
    engine.add(rows[:499], now=NOW)
    engine._growth.wait()
    assert engine.partition is None
    engine.add(rows[499:500], now=NOW)
    engine._growth.wait()
    assert engine.partition is not None
    assert engine.partition.rows == 500
    engine.add(rows[500:600], now=NOW)
    engine._growth.wait()
    assert engine.partition.rows == 500  # the others are looked at one by one
    query = rows[599]
    assert engine.search(query, 1, now=NOW, exact=False).ids.tolist() == [599]
    searched = engine.partition.searched_rows
    engine.add(rows[600:750], now=NOW)
    engine._growth.wait()
    assert engine.partition.rows == 750
    assert engine.partition.searched_rows == pytest.approx(1.5 * searched, abs=1.0)
    lists = engine.partition.lists
    engine.add(rows[750:1_200], now=NOW)
    engine._growth.wait()
    assert engine.partition.rows == 1_200
    assert engine.partition.lists > lists  # trained anew
    engine.remove(np.arange(0, 1_200, 2))
    engine.compact()
    assert engine.partition.rows == 600
    exact = engine.search(query, 20, now=NOW, exact=True).ids
    assert len(np.intersect1d(engine.search(query, 20, now=NOW).ids, exact)) >= 15


def test_searches_and_changes_go_on_while_a_store_divides_itself(small: None) -> None:
    engine = Engine(32)
    rows = clustered(4_000)
    wrong: list[str] = []
    done = threading.Event()

    def search() -> None:
        random = np.random.default_rng(threading.get_ident() % 1000)
        while not done.is_set():
            ids = engine.ids
            if len(ids) == 0:
                continue
            asked = random.choice(ids)
            found = engine.search(rows[asked], 1, now=NOW).ids.tolist()
            if asked in engine and found != [asked]:
                wrong.append(f"{found} in place of {asked}")

    readers = [threading.Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(0, 4_000, 100):
        engine.add(rows[start : start + 100], now=NOW)
        if start % 900 == 0:
            engine.remove(np.arange(start, start + 50))
            engine.compact()
    done.set()
    for reader in readers:
        reader.join()
    engine._growth.wait()
    assert wrong == []
    assert engine.partition is not None


def test_no_store_divides_itself_that_should_not(small: None) -> None:
    engine = Engine(32, approximate=False)
    engine.add(clustered(800), now=NOW)
    engine._growth.wait()
    assert engine.partition is None
    engine.build_partition()
    query = clustered(1, seed=5)[0]
    exact = engine.search(query, 100, now=NOW, exact=True).ids
    np.testing.assert_array_equal(engine.search(query, 100, now=NOW).ids, exact)
    wrong: Any = 1
    with pytest.raises(TypeError, match="approximate must be a bool, got 1"):
        Engine(32, approximate=wrong)


def test_rows_are_added_where_no_thread_can_be_started(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    engine = Engine(32)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert len(engine.add(clustered(800), now=NOW)) == 800
        assert engine.partition is None
    engine.add(clustered(1), now=NOW)  # the next change tries it again
    engine._growth.wait()
    assert engine.partition is not None


def test_rows_that_are_renumbered_meanwhile_are_noticed() -> None:
    for change in ("compact", "nothing"):
        engine = Engine(32)
        engine.add(clustered(3_000), now=NOW)
        steps = build(weakref.ref(engine))
        for step in steps:
            if step == "lists":
                break
        if change == "compact":
            engine.remove(engine.ids[:100])
            engine.compact()
            with pytest.raises(Stopped):
                list(steps)
            assert engine.partition is None
        else:
            list(steps)
            assert engine.partition is not None


def test_an_engine_can_go_while_it_is_divided() -> None:
    engine = Engine(32)
    engine.add(clustered(3_000), now=NOW)
    steps = build(weakref.ref(engine))
    next(steps)
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    with pytest.raises(Stopped):
        next(steps)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 40])
@pytest.mark.parametrize("style", ["random", "equal", "opposite"])
def test_few_or_equal_rows_can_be_divided(count: int, style: str) -> None:
    rows = np.random.default_rng(0).normal(size=(count, 8))
    if style == "equal":
        rows[:] = 1.0
    elif style == "opposite":
        rows[:] = 1.0
        rows[::2] *= -1.0
    engine = Engine(8)
    engine.add(rows, now=NOW)
    engine.build_partition()
    assert (engine.partition is None) == (count == 0)
    found = engine.search(np.ones(8), 3, now=NOW, exact=False)
    exact = engine.search(np.ones(8), 3, now=NOW, exact=True)
    np.testing.assert_array_equal(found.scores, exact.scores)


# -- the lists ------------------------------------------------------------------------------------


@examples(60)
@given(seed=seeds, lists=st.integers(1, 9), steps=st.integers(1, 12))
def test_lists_equal_a_plain_model(seed: int, lists: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    centroids = random.normal(size=(lists, 5)).astype(np.float32)
    partition = _core.Partition(centroids)
    model: list[list[int]] = []  # of each row its lists
    for _ in range(steps):
        what = random.integers(4)
        if what < 2:
            each = 1 if seed % 2 else 2
            added = random.integers(lists, size=(random.integers(30), each)).astype(np.uint32)
            partition.append(added)
            model += added.tolist()
        elif what == 2:
            count = int(random.integers(len(model) + 2))
            partition.truncate(count)
            model = model[:count]
        else:  # rows beyond the lists are kept or dropped as well
            kept = np.flatnonzero(random.random(len(model) + 5) < 0.7)
            partition.keep(kept)
            model = [model[row] for row in kept if row < len(model)]
        expected = sorted((number, row) for row, inside in enumerate(model) for number in inside)
        assert list(zip(*(part.tolist() for part in partition.entries()), strict=True)) == expected
        flat = np.array([number for number, _ in expected], np.int64)
        assert partition.sizes().tolist() == np.bincount(flat, minlength=lists).tolist()
        assert len(partition) == len(model)
    query = random.normal(size=5).astype(np.float32)
    order = np.argsort(-(centroids @ query), kind="stable")
    np.testing.assert_array_equal(partition.ranking(query), order)
    by_distance = _core.Partition(centroids, l2=True).ranking(query)
    distances = ((centroids - query) ** 2).sum(axis=1)
    assert (np.diff(distances[by_distance]) >= -1e-5).all()


def test_bad_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="expected centroids of dim 5, got 0 values"):
        _core.Partition(np.empty((0, 5), np.float32))
    with pytest.raises(ValueError, match="not finite"):
        _core.Partition(np.full((2, 5), np.nan, np.float32))
    partition = _core.Partition(np.eye(3, dtype=np.float32))
    with pytest.raises(ValueError, match="expected a list below 3, got 3"):
        partition.append(np.array([[0, 3]], np.uint32))
    with pytest.raises(ValueError, match="expected 0 lists for each row and at least one"):
        partition.append(np.empty((4, 0), np.uint32))
    assert len(partition) == 0


def test_the_twin_knows_which_rows_are_always_looked_at() -> None:
    engine = made_engine(3, 2_000, 9)
    policy = engine.policy
    weights = (policy.vividness_weight, policy.recency_weight)
    rows = _core.vivid_rows(engine._traces.table, NOW + DAY, *weights)
    twin = ReferenceEngine(engine.state())
    bonus = np.add(*twin.bonus(NOW + DAY, *weights))
    flashbulb = twin.state["pinned"] | (twin.state["salience"] >= policy.flashbulb_threshold)
    looked_at = np.zeros(len(bonus), np.bool_)
    looked_at[rows] = True
    assert looked_at[flashbulb].all()
    others = ~flashbulb
    assert bonus[others & looked_at].min(initial=2.0) >= bonus[others & ~looked_at].max() - 1e-4
