"""A FAISS index handed to the engine: which are taken, which are refused, and what happens then."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest

from flashbulb import Engine, _faiss
from strategies import NOW, assert_same_state, made_engine

DIM = 16


def unit(count: int, dim: int = DIM, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def filled(index: Any, count: int = 50) -> Any:
    rows = unit(count)
    if not index.is_trained:
        index.train(rows)
    index.add(rows)
    return index


ACCEPTED: dict[str, Callable[[], Any]] = {
    "inner product": lambda: faiss.IndexFlatIP(DIM),
    "L2": lambda: faiss.IndexFlatL2(DIM),
    "flat of either metric": lambda: faiss.IndexFlat(DIM, faiss.METRIC_INNER_PRODUCT),
    "factory": lambda: faiss.index_factory(DIM, "Flat", faiss.METRIC_INNER_PRODUCT),
    "factory, L2": lambda: faiss.index_factory(DIM, "Flat"),
    "read back": lambda: faiss.deserialize_index(faiss.serialize_index(faiss.IndexFlatIP(DIM))),
    "clone": lambda: faiss.clone_index(faiss.IndexFlatL2(DIM)),
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("count", [0, 1, 50])
def test_flat_indexes_are_taken_without_a_copy(name: str, count: int) -> None:
    index = filled(ACCEPTED[name](), count)
    address = int(index.get_xb()) if count else 0
    engine = Engine(index, now=NOW)
    assert (engine.dim, len(engine)) == (DIM, count)
    assert engine.ids.tolist() == list(range(count))
    for i, row in enumerate(unit(count)):
        found = engine.search(row, 1, now=NOW)
        assert found.ids.tolist() == [i]
        assert found.cosines[0] == pytest.approx(1.0, abs=1e-6)
    if count:
        assert int(index.get_xb()) == address
    assert set(engine.traces()["created"]) <= {NOW}
    # What the engine adds lies in the caller's index.
    ids = engine.add(unit(3, seed=1), now=NOW)
    assert ids.tolist() == [count, count + 1, count + 2]
    assert index.ntotal == count + 3
    np.testing.assert_allclose(index.reconstruct_n(count, 3), unit(3, seed=1), atol=1e-6)


class FlatInPython(faiss.IndexFlatIP):
    pass


REFUSED: dict[str, Callable[[], Any]] = {
    "IndexIVFPQ": lambda: faiss.index_factory(DIM, "IVF2,PQ2"),
    "IndexHNSWSQ": lambda: faiss.index_factory(DIM, "HNSW8,SQ8"),
    "IndexPQ": lambda: faiss.IndexPQ(DIM, 2, 4),
    "IndexLSH ": lambda: faiss.IndexIDMap(faiss.IndexLSH(DIM, 8)),
    "IndexIDMap2": lambda: faiss.IndexIDMap(faiss.IndexIDMap2(faiss.IndexFlatIP(DIM))),
    "QT_4bit": lambda: faiss.IndexScalarQuantizer(DIM, faiss.ScalarQuantizer.QT_4bit),
    "IndexPreTransform": lambda: faiss.index_factory(DIM, "PCA8,Flat"),
    "IndexRefineFlat": lambda: faiss.IndexRefineFlat(faiss.IndexFlatIP(DIM)),
    "IndexShards": lambda: faiss.IndexShards(DIM),
    "IndexReplicas": lambda: faiss.IndexReplicas(DIM),
    "IndexLSH": lambda: faiss.IndexLSH(DIM, 8),
    "IndexFlat1D": lambda: faiss.IndexFlat1D(),
    "IndexBinaryFlat": lambda: faiss.IndexBinaryFlat(DIM),
    "FlatInPython": lambda: FlatInPython(DIM),
    "IndexFlatIPPanorama": lambda: faiss.IndexFlatIPPanorama(DIM, 4),
    "IndexFlatL2Panorama": lambda: faiss.IndexFlatL2Panorama(DIM, 4),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_indexes_are_refused_by_name(name: str) -> None:
    if "Panorama" in name and not hasattr(faiss, name):
        pytest.skip(f"this FAISS has no {name}")
    with pytest.raises(TypeError, match=rf"got {name.strip()}\b"):
        Engine(REFUSED[name](), now=NOW)


def test_an_index_inside_another_is_judged_by_what_it_is() -> None:
    outer = faiss.IndexIDMap(faiss.IndexPQ(DIM, 2, 4))
    with pytest.raises(TypeError, match="IndexPQ"):
        Engine(outer.index, now=NOW)


@pytest.mark.parametrize("thing", [None, "index", 3.0, True, [1], np.ones((3, 3)), faiss])
def test_what_is_no_index_is_refused(thing: object) -> None:
    with pytest.raises(TypeError, match=r"dim|index"):
        Engine(thing)


@pytest.mark.parametrize("dim", [0, -1])
def test_dim_must_be_positive(dim: int) -> None:
    with pytest.raises(ValueError, match="dim"):
        Engine(dim)


@pytest.mark.parametrize("metric", [faiss.METRIC_L1, faiss.METRIC_Linf, faiss.METRIC_Jaccard])
def test_other_metrics_are_refused(metric: int) -> None:
    with pytest.raises(ValueError, match="metric"):
        Engine(faiss.IndexFlat(DIM, metric))


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0001, 2.0, np.nan, np.inf])
@pytest.mark.parametrize("row", [0, 7, 49])
def test_a_row_without_unit_norm_is_named(factor: float, row: int) -> None:
    rows = unit(50)
    rows[row] *= np.float32(factor)
    index = faiss.IndexFlatIP(DIM)
    index.add(rows)
    with pytest.raises(ValueError, match=rf"row {row} "):
        Engine(index, now=NOW)
    assert index.ntotal == 50  # and still the caller's
    index.remove_ids(np.array([row]))
    assert len(Engine(index, now=NOW)) == 49


def test_rows_within_the_tolerance_are_taken() -> None:
    index = faiss.IndexFlatIP(DIM)
    index.add(unit(5) * np.float32(1 + 5e-6))
    assert len(Engine(index, now=NOW)) == 5


def test_an_index_with_rows_needs_a_time() -> None:
    with pytest.raises(ValueError, match="now="):
        Engine(filled(faiss.IndexFlatIP(DIM)))


def test_storage_that_does_not_fit_its_count_is_refused() -> None:
    index = filled(faiss.IndexFlatIP(DIM))
    index.ntotal = 51
    with pytest.raises(ValueError, match="claims 51 rows"):
        Engine(index, now=NOW)
    index.ntotal = 50


@pytest.mark.parametrize("change", ["add", "reset", "remove_ids"])
def test_an_index_changed_outside_is_refused_from_then_on(change: str) -> None:
    index = filled(faiss.IndexFlatIP(DIM))
    engine = Engine(index, now=NOW)
    engine.search(unit(1)[0], 3, now=NOW)
    {
        "add": lambda: index.add(unit(1)),
        "reset": index.reset,
        "remove_ids": lambda: index.remove_ids(np.array([3])),
    }[change]()
    attempts: list[Callable[[], Any]] = [
        lambda: engine.search(unit(1)[0], 3, now=NOW),
        lambda: engine.add(unit(1), now=NOW),
        lambda: engine.remove([0]),
        lambda: engine.vectors([0]),
        lambda: engine.suppress([0], now=NOW),
        lambda: engine.state(),
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match=f"expected 50 rows, got {index.ntotal}"):
            attempt()
    assert len(engine) == 50


def test_an_attached_index_lives_as_long_as_its_engine() -> None:
    engine = Engine(filled(faiss.IndexFlatIP(DIM)), now=NOW)  # nobody else holds the index
    gc.collect()
    overwriting = [faiss.IndexFlatIP(DIM) for _ in range(20)]
    for index in overwriting:  # takes the memory that a freed index would have left
        index.add(np.zeros((50, DIM), np.float32))
    for i, row in enumerate(unit(50)):
        assert engine.search(row, 1, now=NOW).ids.tolist() == [i]
    engine.add(unit(30, seed=2), now=NOW)
    for i, row in enumerate(unit(30, seed=2)):
        assert engine.search(row, 1, now=NOW).ids.tolist() == [50 + i]
    del overwriting


@pytest.mark.parametrize("metric", [faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2])
def test_removal_and_compaction_in_an_attached_index(metric: int) -> None:
    index = filled(faiss.IndexFlat(DIM, metric))
    engine = Engine(index, now=NOW)
    assert engine.remove([0, 17, 49, 1000]) == 3
    assert not index.reconstruct(17).any()  # the vector is overwritten at once
    for i in set(range(50)) - {0, 17, 49}:
        assert engine.search(unit(50)[i], 1, now=NOW).ids.tolist() == [i]
    before = engine.state()
    engine.compact()
    assert index.ntotal == len(engine) == 47
    assert_same_state(engine.state(), before)
    ids = engine.add(unit(2, seed=3), now=NOW)
    assert ids.tolist() == [50, 51]
    for i in set(range(50)) - {0, 17, 49}:
        assert engine.search(unit(50)[i], 1, now=NOW).ids.tolist() == [i]


def test_the_same_answers_as_faiss_without_a_bonus() -> None:
    rows, queries = unit(2000, seed=4), unit(20, seed=5)
    index = faiss.IndexFlatIP(DIM)
    index.add(rows)
    scores, expected = index.search(queries, 10)
    engine = Engine(index, now=NOW)
    found = engine.search(queries, 10, now=NOW, vividness_weight=0, recency_weight=0)
    # FAISS sums in float32, so that two neighbours closer than 1e-6 might swap: none are here.
    assert np.diff(np.sort(queries @ rows.T)[:, -11:]).min() > 1e-6
    np.testing.assert_array_equal(found.ids, expected)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)


# -- a store of our own --------------------------------------------------------------------------


def _addresses(engine: Engine) -> list[int]:
    return [int(index.get_xb()) for index in engine._rows.storage._indexes]


@pytest.mark.parametrize("dim", [1, 4, 100, 384, 768, 4096, 16_385, 32_768])
def test_a_segment_is_some_blocks_of_rows_in_16_mib(dim: int) -> None:
    rows = _faiss.segment_rows(4 * dim)
    assert rows % 256 == 0
    assert 4 * dim * rows <= 1 << 24 or rows == 256
    assert 4 * dim * (rows + 256) > 1 << 24


def test_full_segments_never_move() -> None:
    assert _faiss.segment_rows(4 * 64) == 65_536
    engine = Engine(64)
    rng = np.random.default_rng(0)
    engine.add(rng.normal(size=(65_536, 64)), now=NOW)
    full = _addresses(engine)
    assert len(full) == 1
    growing = None
    for count in (1, 1000, 30_000, 34_535, 70_000):
        ids = engine.add(rng.normal(size=(count, 64)), now=NOW)
        assert _addresses(engine)[:1] == full
        growing = growing or _addresses(engine)[1]
        assert _addresses(engine)[1] == growing  # reserved: it does not move while it grows
        probe = ids[[0, count // 2, -1]]
        found = engine.search(engine.vectors(probe), 1, now=NOW, vividness_weight=0)
        assert found.ids[:, 0].tolist() == probe.tolist()
    segments = [int(index.ntotal) for index in engine._rows.storage._indexes]
    assert segments == [65_536, 65_536, 65_536, len(engine) - 3 * 65_536]
    engine.remove(np.arange(100, 190_000))
    assert len(engine._rows.storage._indexes) == 1  # compacted by itself
    probe = engine.ids[[0, 99, 100, -1]]
    assert probe.tolist() == [0, 99, 190_000, engine.next_id - 1]
    found = engine.search(engine.vectors(probe), 1, now=NOW)
    assert found.ids[:, 0].tolist() == probe.tolist()


def test_a_small_store_takes_little_room() -> None:
    engine = made_engine(0, 10, 384)
    (index,) = engine._rows.storage._indexes
    assert index.codes.size() == 10 * 384 * 4


def test_the_rows_of_an_index_may_come_with_their_traces() -> None:
    rows = np.eye(4, dtype=np.float32)
    index = faiss.IndexFlatIP(4)
    index.add(rows)
    engine = Engine(
        index,
        now=NOW,
        salience=[0.0, 0.5, 0.9, 0.1],
        created=NOW - 3600.0,
        tags=[["a"], ["a", "b"], [], ["b"]],
    )
    traces = engine.traces()
    assert traces["salience"].tolist() == [0.0, 0.5, 0.9, 0.1]
    assert traces["floor"].tolist() == [0.0, 0.4, 0.7, 0.0]
    assert traces["created"].tolist() == [NOW - 3600.0] * 4
    assert engine.with_tags(["b"]).tolist() == [1, 3]
    engine.remove([0])
    engine.compact()
    assert engine.ids.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(index.reconstruct_n(0, 3), rows[1:])
    with pytest.raises(ValueError, match="salience must be one value or 4 values"):
        Engine(faiss.clone_index(_unit_index(4)), now=NOW, salience=[0.5, 0.5])


def _unit_index(count: int) -> faiss.IndexFlatIP:
    index = faiss.IndexFlatIP(count)
    index.add(np.eye(count, dtype=np.float32))
    return index
