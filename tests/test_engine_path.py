"""The paths of a search: whatever is scanned, ids and scores are the same, bit for bit."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from flashbulb._faiss import SearchPath
from flashbulb.engine import Engine, SearchResult
from simd import each_level
from strategies import assert_same_state

NOW = 1.7e9
DAY = 86_400.0


def assert_same(left: SearchResult, right: SearchResult) -> None:
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def hard_vectors(random: np.random.Generator, count: int, dim: int) -> NDArray[np.float64]:
    """Ordinary rows, one-hot rows, equal rows, and rows that differ in the last bits only."""
    rows = random.normal(size=(count, dim))
    kind = random.integers(0, 5, size=count)
    rows[kind == 1] = np.eye(dim)[random.integers(0, dim, size=int((kind == 1).sum()))]
    rows[kind == 2] = rows[0]
    near = int((kind == 3).sum())
    rows[kind == 3] = rows[0] * (1.0 + 1e-7 * random.normal(size=(near, dim)))
    return rows


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dim=st.sampled_from([1, 3, 16, 63, 64, 65, 130]))
def test_every_path_finds_the_same(seed: int, dim: int) -> None:
    random = np.random.default_rng(seed)
    paths: tuple[SearchPath, ...] = ("fp32", "int8", "int4")
    engines = [Engine(dim, path=path) for path in paths]
    for _ in range(3):
        count = int(random.integers(1, 400))
        vectors = hard_vectors(random, count, dim)
        columns: dict[str, Any] = {
            "salience": random.random(count),
            "created": NOW - random.random(count) * 90 * DAY,
            "tags": [[f"t{number % 3}"] for number in range(count)],
        }
        for engine in engines:
            engine.add(vectors, now=NOW, **columns)
        gone = random.choice(engines[0].ids, len(engines[0]) // 4, replace=False)
        for engine in engines:
            engine.remove(gone)
        if random.random() < 0.5:
            for engine in engines:
                engine.compact()
    assert tuple(engine.path for engine in engines) == paths
    queries = hard_vectors(random, 19, dim)
    ids = random.choice(engines[0].ids, min(10, len(engines[0])), replace=False)
    addends = (ids, random.normal(size=len(ids)))
    for _ in each_level():
        for k in (1, 7, 2000):
            plain, *sketched = (engine.search(queries, k, now=NOW) for engine in engines)
            for each in sketched:
                assert_same(plain, each)
            plain, *sketched = (
                engine.search(
                    queries[0], k, now=NOW, tags=["t1"], addends=addends, similarity_weight=-0.5
                )
                for engine in engines
            )
            for each in sketched:
                assert_same(plain, each)


def test_the_sketch_comes_by_itself_when_a_store_grows() -> None:
    random = np.random.default_rng(0)
    for level in each_level():
        engine = Engine(8)
        engine.add(random.normal(size=(200, 8)), now=NOW)
        assert engine.path == "fp32"
        engine.add(random.normal(size=(2000, 8)), now=NOW)
        assert engine.path == ("fp32" if level == "base" else "int8")
        engine.add(random.normal(size=(9000, 8)), now=NOW)
        assert engine.path == "int4"
        forced = Engine(8, path="fp32")
        forced.add(random.normal(size=(10_000, 8)), now=NOW)
        assert forced.path == "fp32"


def test_an_attached_index_gets_a_sketch_of_its_rows() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(500, 20)).astype(np.float32)
    faiss.normalize_L2(rows)
    index = faiss.IndexFlatL2(20)
    index.add(rows)
    engine = Engine(index, now=NOW, path="int8")
    assert engine.path == "int8"
    assert engine.search(rows[123], 1, now=NOW).ids.tolist() == [123]
    engine.remove([123])
    assert 123 not in engine.search(rows[123], 500, now=NOW).ids


def test_a_compaction_without_room_for_a_sketch_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(2)
    engine = Engine(20, path="int8")
    engine.add(random.normal(size=(500, 20)), now=NOW)
    engine.remove(np.arange(0, 500, 3))
    before = engine.state()
    query = random.normal(size=20)
    found = engine.search(query, 7, now=NOW)

    def no_room(_: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("flashbulb._core.Sketch", no_room)
        engine.compact()
    assert engine.path == "fp32"
    assert_same_state(engine.state(), before)
    assert_same(engine.search(query, 7, now=NOW), found)
    engine.add(random.normal(size=(1, 20)), now=NOW)
    assert engine.path == "int8"
    assert engine.search(engine.vectors([499])[0], 1, now=NOW).ids.tolist() == [499]


def test_an_unknown_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"path must be one of .*'int4'.*, got 'int2'"):
        Engine(8, path="int2")  # type: ignore[arg-type]
