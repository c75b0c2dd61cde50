"""A batch that is looked up at once is judged as its events one by one, to the last bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flashbulb import Engine, Memory, Policy, Surprise, SurpriseDetector
from simd import each_level
from strategies import NOW, examples, seeds

DIM = 19


def stream_of(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Vectors of any length, with repeats and near repeats: neighbours at equal distances."""
    stream = rng.normal(0.3, 1.0, size=(count, DIM)).astype(np.float32)
    for i in range(1, count):
        if rng.random() < 0.3:
            stream[i] = stream[rng.integers(i)] * np.float32(rng.choice([1.0, 3.0]))
    return stream


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
@pytest.mark.parametrize("storage", ["fp32", "fp16"])
@examples(25)
@given(
    seed=seeds,
    before=st.sampled_from([0, 1, 5, 40]),
    count=st.sampled_from([0, 1, 2, 15, 16, 17]),
    neighbours=st.sampled_from([1, 3, 10]),
)
def test_a_batch_is_its_events_one_by_one(
    mode: Any, storage: Any, seed: int, before: int, count: int, neighbours: int
) -> None:
    rng = np.random.default_rng(seed)
    stream = stream_of(rng, before + count)
    stored = rng.random(before + count) < 0.8  # the others repeat a text that is there
    policy = Policy(surprise_neighbours=neighbours)
    for _ in each_level():
        engines = [Engine(DIM, storage=storage) for _ in range(2)]
        one_by_one, batch = (
            SurpriseDetector(mode, policy=policy, engine=engine) for engine in engines
        )
        for vector in stream[:before]:
            for detector in (one_by_one, batch):
                detector.observe(vector, ["a"], NOW)
            for engine in engines:
                engine.add(vector, now=NOW)
        expected = []
        ids = []
        for vector, is_stored in zip(stream[before:], stored[before:], strict=True):
            expected.append(one_by_one.observe(vector, ["a"], NOW))
            if is_stored:
                ids.append(int(engines[0].add(vector, now=NOW)[0]))
        trial = batch.copy()
        ahead = trial.look_ahead(stream[before:])
        given_ids = iter(ids)
        found: list[Surprise] = []
        for is_stored in stored[before:]:
            seen = ahead.next()
            found.append(trial.judge(seen, ["a"], NOW))
            trial.take(seen, ["a"], NOW)
            if is_stored:
                ahead.enter(next(given_ids))
        assert found == expected
        assert trial.state() == one_by_one.state()
        trial.settle()
        assert trial.last_seen == one_by_one.last_seen


def test_the_nearest_memory_comes_with_its_cosine() -> None:
    stream = stream_of(np.random.default_rng(3), 30)
    engine = Engine(DIM)
    ahead = SurpriseDetector("neighbours", engine=engine).look_ahead(stream)
    twin = Engine(DIM)
    for i, vector in enumerate(stream):
        seen = ahead.next()
        if not i:
            assert seen == (None, None, None, None)
        else:
            cosines = twin.cosines(vector, twin.ids)[0]
            assert seen.nearest_cosine == cosines.max()
            assert seen.nearest_id == 100 + cosines.argmax()
        twin.add(vector, now=NOW, ids=[100 + i])
        ahead.enter(100 + i)


def test_a_detector_that_keeps_its_own_vectors_does_not_look_ahead() -> None:
    detector = SurpriseDetector("neighbours")
    detector.observe(np.ones(DIM), [], NOW)
    with pytest.raises(ValueError, match="needs the engine of the memories"):
        detector.look_ahead(np.ones((2, DIM)))


@pytest.mark.parametrize("mode", ["centroid", "neighbours", "combined"])
def test_remember_many_is_remember_one_by_one(mode: Any, tmp_path: Path) -> None:
    texts = [f"the {i % 7} of {i % 11} went to {i % 5}" for i in range(60)]
    policy = Policy(surprise_min_samples=5)
    settings: Any = {"surprise": mode, "policy": policy, "clock": lambda: NOW + 60.0}
    with Memory(tmp_path / "one", **settings) as one, Memory(tmp_path / "many", **settings) as many:
        for memory in (one, many):
            memory.remember_many(texts[:7], now=NOW)
        singly = [one.remember(text, tags=["x"], now=NOW + 60.0) for text in texts[7:]]
        at_once = many.remember_many(
            [{"text": text, "tags": ["x"]} for text in texts[7:]], now=NOW + 60.0
        )
        assert [record.id for record in at_once] == [record.id for record in singly]
        for record in at_once:
            assert many.get(record.id) == one.get(record.id)
        assert {record.surprise for record in at_once} != {0.0}


def test_a_batch_searches_the_memories_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = Engine.search

    def spy(self: Engine, queries: Any, *args: Any, **named: Any) -> Any:
        if len(self) >= 100:
            searched.append(len(queries))
        return search(self, queries, *args, **named)

    monkeypatch.setattr(Engine, "search", spy)
    policy = Policy(near_duplicate_cosine=math.inf)  # which would be a search of its own
    with Memory(tmp_path / "store", surprise="neighbours", policy=policy) as memory:
        memory.remember_many([f"event number {i}" for i in range(100)], now=NOW)
        searched.clear()
        memory.remember_many([f"another one, {i}" for i in range(20)], now=NOW)
        memory.remember("a single one", now=NOW)
    assert searched == [20, 1]
