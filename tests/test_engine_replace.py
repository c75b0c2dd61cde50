"""Other vectors for memories that stay what they are."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest

from flashbulb import DimensionMismatch, Engine, MemoryNotFound
from indexes import KINDS, WITH_IDS, made, unit
from strategies import NOW, assert_same_state, made_engine

DIM = 24


def grouped(count: int, seed: int) -> np.ndarray:
    """Rows around fifty centres."""
    noise = unit(count, DIM, seed=seed) * 0.1
    return unit(50, DIM)[np.arange(count) % 50] + noise


def divided(storage: Any = "fp32") -> Engine:
    engine = Engine(DIM, storage=storage)
    engine.add(grouped(5000, seed=1), now=NOW)
    engine.build_partition()
    assert engine.partition is not None
    assert engine.partition.searched_rows < 2500  # a search does not look everywhere
    return engine


@pytest.mark.parametrize("storage", ["fp32", "fp16"])
def test_a_moved_row_is_found_where_it_lies_now_by_approximate_searches(storage: str) -> None:
    engine = divided(storage)
    ids = engine.ids[::100]
    new = grouped(len(ids) + 7, seed=2)[7:]  # each goes to another group
    engine.replace_vectors(ids, new)
    assert engine.partition is not None
    for id, vector in zip(ids.tolist(), new, strict=True):
        assert engine.search(vector, 1, now=NOW, exact=False).ids.tolist() == [id]
    fresh = Engine.from_state(engine.state())
    queries = unit(50, DIM, seed=2)
    for one, other in zip(
        engine.search(queries, 10, now=NOW), fresh.search(queries, 10, now=NOW), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_rows_that_are_in_no_list_yet_move_too() -> None:
    engine = divided()
    new = engine.add(unit(5, DIM, seed=3), now=NOW)
    engine.replace_vectors([*new[:2], 0], unit(3, DIM, seed=4))
    assert engine.partition is not None
    assert engine.partition.rows == 5000
    for id, vector in zip([*new[:2], 0], unit(3, DIM, seed=4), strict=True):
        assert engine.search(vector, 1, now=NOW, exact=False).ids.tolist() == [id]


@pytest.mark.parametrize("kind", [name for name in KINDS if "ivf" in name or "hnsw" in name])
def test_a_moved_row_is_found_in_an_attached_index(kind: str) -> None:
    index = made(kind, DIM)
    rows = unit(400, DIM)
    if kind in WITH_IDS:
        index.add_with_ids(rows, np.arange(7, 407))
    else:
        index.add(rows)
    engine = Engine(index, now=NOW)
    engine.remove(engine.ids[5:9])
    ids = engine.ids[::40]
    new = unit(len(ids), DIM, seed=1)
    before = engine.state()
    engine.replace_vectors(ids[::-1], new[::-1])
    for id, vector in zip(ids.tolist(), new, strict=True):
        assert engine.search(vector, 1, now=NOW, exact=False).ids.tolist() == [id]
    others = np.setdiff1d(engine.ids, ids)
    kept = before["vectors"][np.isin(before["ids"], others)]
    np.testing.assert_array_equal(engine.vectors(others), kept)
    assert not np.isin(before["vectors"][np.isin(before["ids"], ids)], engine.vectors(ids)).all()
    added = engine.add(unit(3, DIM, seed=5), now=NOW)
    engine.compact()
    assert engine.search(unit(3, DIM, seed=5)[1], 1, now=NOW).ids.tolist() == [added[1]]
    for id, vector in zip(ids.tolist(), new, strict=True):
        assert engine.search(vector, 1, now=NOW, exact=False).ids.tolist() == [id]


@pytest.mark.parametrize(
    ("ids", "vectors", "error"),
    [
        ([1, 999], unit(2, DIM), MemoryNotFound),
        ([1, 1], unit(2, DIM), ValueError),
        ([1, 2], unit(1, DIM), ValueError),
        ([1], unit(1, DIM + 1), DimensionMismatch),
        ([1, 2], np.vstack([unit(1, DIM), np.zeros(DIM)]), ValueError),
        ([1, 2], np.vstack([unit(1, DIM), np.full(DIM, np.nan)]), ValueError),
    ],
)
def test_one_bad_argument_changes_nothing(
    ids: list[int], vectors: Any, error: type[Exception]
) -> None:
    engine = made_engine(0, 50, DIM)
    before = engine.state()
    with pytest.raises(error):
        engine.replace_vectors(ids, vectors)
    assert_same_state(engine.state(), before)


def test_what_the_quantiser_cannot_hold_changes_nothing() -> None:
    index = faiss.IndexScalarQuantizer(
        DIM, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    rows = np.abs(unit(300, DIM))
    index.train(rows)
    index.add(rows)
    engine = Engine(index, now=NOW)
    before = engine.state()
    with pytest.raises(ValueError, match="quantiser"):
        engine.replace_vectors([0, 3], np.vstack([rows[5], -np.eye(DIM)[0]]))
    assert_same_state(engine.state(), before)


def test_strengthening_needs_a_gain_within_bounds() -> None:
    engine = made_engine(0, 5, DIM)
    before = engine.state()
    for gain in (-0.1, 1.1, float("nan"), "much"):
        with pytest.raises((TypeError, ValueError), match="gain"):
            engine.strengthen([0], gain, NOW)
    with pytest.raises(MemoryNotFound):
        engine.strengthen([0, 99], 0.1, NOW)
    assert_same_state(engine.state(), before)
