"""The engine's own rows, in float32 and in IEEE halves: exact, compact, never moved or doubled."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Engine, _faiss
from flashbulb._faiss import SearchPath, StorageKind
from flashbulb._reference import ReferenceEngine
from indexes import unit
from simd import each_level
from strategies import (
    DIMS,
    NOW,
    SIZES,
    assert_same_state,
    examples,
    fill,
    seeds,
    segments_of,
    unit_rows,
)

STORAGES = get_args(StorageKind)


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 65, 384])
def test_fp16_rows_are_the_given_ones_rounded_to_halves(dim: int) -> None:
    engine = Engine(dim, storage="fp16")
    assert engine.storage == "fp16"
    rows = np.vstack([unit(200, dim), np.eye(dim, dtype=np.float32)[:1]])
    tiny = np.full((1, dim), 1e-6, np.float32)  # subnormal halves, and zeros
    tiny[0, 0] = 1.0
    rows = np.vstack([rows, tiny / np.linalg.norm(tiny)])
    vectors = engine.vectors(engine.add(rows, now=NOW))
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, vectors.astype(np.float16).astype(np.float32))
    # Where a value lies between two halves, FAISS may take the other one than NumPy.
    spacing = np.spacing(np.abs(vectors).astype(np.float16)).astype(np.float32)
    assert (np.abs(vectors - rows) <= 0.5001 * spacing).all()


@given(
    seed=seeds,
    count=st.sampled_from(SIZES),
    dim=st.sampled_from(DIMS),
    style=st.sampled_from(["random", "equal", "close"]),
    kind=st.sampled_from(STORAGES),
    path=st.sampled_from(get_args(SearchPath)),
    segment_rows=st.sampled_from([None, 1, 64, 100]),
)
@examples(60)
def test_every_storage_path_and_level_is_exact(
    seed: int,
    count: int,
    dim: int,
    style: str,
    kind: StorageKind,
    path: SearchPath,
    segment_rows: int | None,
) -> None:
    rng = np.random.default_rng(seed)
    with segments_of(segment_rows):
        engine = Engine(dim, storage=kind, path=path)
        fill(engine, rng, count, style)
        engine.remove(engine.ids[rng.random(count) < 0.2])
        if rng.random() < 0.5:
            engine.compact()
    twin = ReferenceEngine(engine.state())
    query = unit_rows(rng, 1, dim, "random")[0]
    if len(engine):
        query = engine.vectors(engine.ids[:1])[0].astype(np.float64) + 0.3 * query
    unit_query = (query / np.linalg.norm(query)).astype(np.float32)
    for _ in each_level():
        for k in (1, 10, count + 1):
            found = engine.search(unit_query, k, now=NOW + 90.0)
            expected = twin.search(engine_query(unit_query), k, now=NOW + 90.0)
            for name, values in found._asdict().items():
                np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


def engine_query(query: np.ndarray) -> np.ndarray:
    """The query as the engine normalises it."""
    return _faiss._core.normalize_rows(query[np.newaxis])[0][0]


@pytest.mark.parametrize("kind", STORAGES)
def test_a_state_comes_back_bit_for_bit(kind: StorageKind) -> None:
    with segments_of(64):
        engine = Engine(17, storage=kind)
        fill(engine, np.random.default_rng(3), 300)
        engine.remove(engine.ids[::7])
        state = engine.state()
        assert state["storage"] == kind
        again = Engine.from_state(state)
    assert again.storage == kind
    assert_same_state(again.state(), state)
    query = unit(1, 17)[0]
    for left, right in zip(
        engine.search(query, 20, now=NOW), again.search(query, 20, now=NOW), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    del state["storage"]  # as it was before there was a choice
    if kind == "fp32":
        assert_same_state(Engine.from_state(state).state(), engine.state())


def test_rows_that_are_no_unit_vectors_are_no_state() -> None:
    engine = Engine(4, storage="fp16")
    engine.add(np.eye(4), now=NOW)
    state = engine.state()
    state["vectors"] = state["vectors"] * np.float32(1.01)
    with pytest.raises(ValueError, match=r"vector 0 does not have unit norm within 0.001"):
        Engine.from_state(state)


def test_other_storages_are_refused() -> None:
    with pytest.raises(ValueError, match="storage must be 'fp32' or 'fp16', got 'int8'"):
        Engine(4, storage="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", STORAGES)
def test_the_bytes_of_a_row_are_stated(kind: StorageKind) -> None:
    engine = Engine(384, storage=kind, path="int8")
    assert engine.memory_bytes().vectors == 0
    engine.add(unit(1000, 384), now=NOW)
    use = engine.memory_bytes()
    assert use.vectors == 1000 * 384 * (4 if kind == "fp32" else 2)
    assert use.structure == 0
    assert use.sketch >= 1000 * 384
    assert use.traces >= 1000 * 100
    assert use.bytes_per_row == (use.vectors + use.sketch + use.traces) / 1000
    plain = Engine(384, storage=kind, path="fp32")
    plain.add(unit(1000, 384), now=NOW)
    assert plain.memory_bytes() == use._replace(
        sketch=0, bytes_per_row=(use.vectors + use.traces) / 1000
    )
    plain.add(unit(1, 384), tags=["a", "b"], now=NOW)
    tagged = plain.memory_bytes().traces - use.traces
    plain.add(unit(1, 384), now=NOW)
    assert plain.memory_bytes().traces - use.traces < 2 * tagged
    plain.remove(plain.ids)
    plain.compact()
    assert plain.memory_bytes().vectors == 0


GROWING = """
import sys
import numpy as np
from flashbulb import Engine
from flashbulb._faiss import segment_rows

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

dim, storage = 64, sys.argv[1]
engine = Engine(dim, storage=storage, path=sys.argv[2])
rows = np.random.default_rng(0).normal(size=(64_000, dim)).astype(np.float32)
for _ in range(10):
    engine.add(rows, now=0.0)
addresses = [int(index.codes.data()) for index in engine._rows.storage._indexes]
before = resident()
engine.add(rows[:1], now=0.0)
grown = resident() - before
after = [int(index.codes.data()) for index in engine._rows.storage._indexes]
assert after == addresses, "a segment moved"
peak = max(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if "VmHWM" in line)
row_bytes = engine.memory_bytes().vectors // len(engine)
print(grown, peak - before, segment_rows(row_bytes) * row_bytes)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("path", ["fp32", "int8"])
@pytest.mark.parametrize("kind", STORAGES)
def test_one_row_more_than_640_000_copies_nothing(kind: StorageKind, path: SearchPath) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWING, kind, path], check=True, capture_output=True, text=True
    )
    grown, above, segment = map(float, done.stdout.split())
    # A row takes less than a page of each column; 640,000 rows of 64 values take 82 MB or more.
    assert grown < 8e6
    # While it grew, it never held more than it has in the end, but for the rows being added.
    assert above < 3 * 64_000 * 64 * 8 + segment
