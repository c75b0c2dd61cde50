"""Every kind of FAISS index that may be handed in: read where its rows lie, changed as FAISS would.

Scores are compared with the readable twin, bit for bit: it multiplies in float64 what the engine
says it has stored. That this is what FAISS has stored is compared with its own `reconstruct`, at a
tolerance for 8-bit codes only: FAISS fuses two steps of their decoding on some processors, which
moves the last bit.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any, get_args

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from flashbulb import Engine
from flashbulb._faiss import SearchPath
from flashbulb._reference import ReferenceEngine
from indexes import EIGHT_BIT, KINDS, METRICS, WITH_IDS, made, unit
from simd import at_level, each_level
from strategies import NOW, assert_same_state

DIM = 20
COUNT = 300
ONE_STEP = 1e-6  # beyond the last bit of a value below 2


def ids_for(kind: str, count: int) -> NDArray[np.int64]:
    """Ids with gaps in no order, where the index takes ids."""
    if kind in WITH_IDS:
        return np.random.default_rng(5).permutation(np.arange(count) * 7 + 3)
    return np.arange(count)


def fill(kind: str, index: Any, rows: np.ndarray) -> NDArray[np.int64]:
    ids = ids_for(kind, len(rows))
    if kind in WITH_IDS:
        index.add_with_ids(rows, ids)
    else:
        index.add(rows)
    return ids


def attached(kind: str, count: int = COUNT, metric: str = "ip", **options: Any) -> tuple[Any, ...]:
    """Index, engine, and the rows that went into the index in the order of their ids."""
    index = made(kind, DIM, metric)
    rows = unit(count, DIM)
    ids = fill(kind, index, rows)
    return index, Engine(index, now=NOW, **options), rows[np.argsort(ids)]


def innermost(index: Any) -> Any:
    return faiss.downcast_index(index.index) if hasattr(index, "id_map") else index


def stored(index: Any) -> dict[int, np.ndarray]:
    """What FAISS says it has: id -> decoded row."""
    inner = innermost(index)
    if isinstance(inner, faiss.IndexIVF):
        found = {}
        lists = faiss.downcast_InvertedLists(inner.invlists)
        for number in range(lists.nlist):
            for place in range(lists.list_size(number)):
                row = np.empty(inner.d, np.float32)
                inner.reconstruct_from_offset(number, place, faiss.swig_ptr(row))
                found[int(lists.get_single_id(number, place))] = row
    else:
        found = dict(enumerate(inner.reconstruct_n(0, inner.ntotal)))
    if inner is not index:
        ids = faiss.vector_to_array(index.id_map)
        found = {int(ids[number]): row for number, row in found.items()}
    return found


def assert_stored(kind: str, engine: Engine, index: Any) -> None:
    known = stored(index)
    if kind in WITH_IDS:
        assert sorted(known) == engine.ids.tolist()
        rows = np.stack([known[each] for each in engine.ids.tolist()])
    else:
        rows = np.stack([known[place] for place in range(len(engine))])
    vectors = engine.vectors(engine.ids)
    if kind in EIGHT_BIT:
        np.testing.assert_allclose(vectors, rows, rtol=0, atol=ONE_STEP)
    else:
        np.testing.assert_array_equal(vectors, rows)


def assert_exact(engine: Engine, k: int = 10, **options: Any) -> None:
    queries = unit(2, engine.dim, seed=8)
    twin = ReferenceEngine(engine.state())
    for query in queries:
        expected = twin.search(query, k, now=NOW + 60.0, **options)
        found = engine.search(query, k, now=NOW + 60.0, exact=True, **options)
        for name, values in found._asdict().items():
            np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("count", [0, 1, 17, COUNT])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_where_faiss_keeps_them(kind: str, metric: str, count: int) -> None:
    index, engine, rows = attached(kind, count, metric)
    assert engine.ids.tolist() == sorted(ids_for(kind, count).tolist())
    if count:
        assert_stored(kind, engine, index)
        coarse = 0.03 if kind in EIGHT_BIT else 1e-3
        np.testing.assert_allclose(engine.vectors(engine.ids), rows, atol=coarse)
    assert_exact(engine)
    # What the engine adds lies in the caller's index.
    ids = engine.add(unit(3, DIM, seed=1), now=NOW)
    assert ids.tolist() == [engine.next_id - 3 + each for each in range(3)]
    assert index.ntotal == count + 3
    assert_stored(kind, engine, index)
    assert_exact(engine)


@pytest.mark.parametrize("path", get_args(SearchPath))
@pytest.mark.parametrize("kind", KINDS)
def test_every_path_and_level_is_exact_for_the_stored_rows(kind: str, path: SearchPath) -> None:
    _, engine, _ = attached(kind, path=path)
    engine.remove(engine.ids[::5])
    engine.add(unit(40, DIM, seed=2), tags=[["new"]] * 40, salience=0.9, now=NOW)
    for _ in each_level():
        assert_exact(engine, 1)
        assert_exact(engine, 20)
        assert_exact(engine, 500)
        assert_exact(engine, 20, tags=["new"])
        assert len(engine.search(unit(1, DIM)[0], 5, tags=["none has this"], now=NOW).ids) == 0
        assert len(engine.search(unit(1, DIM)[0], 5, allowed=[], now=NOW).ids) == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_removal_and_compaction(kind: str, metric: str) -> None:
    index, engine, _ = attached(kind, metric=metric)
    gone = engine.ids[[0, 1, 17, 150, 299]]
    ids = [each for each in engine.ids.tolist() if each not in gone]
    vectors = engine.vectors(ids)
    assert engine.remove([*gone, 10**9]) == 5
    assert index.ntotal == COUNT
    assert_exact(engine)
    before = engine.state()
    engine.compact()
    assert_same_state(engine.state(), before)
    assert index.ntotal == len(engine) == COUNT - 5
    assert engine.ids.tolist() == ids
    np.testing.assert_array_equal(engine.vectors(ids), vectors)
    assert_stored(kind, engine, index)
    added = engine.add(unit(7, DIM, seed=3), now=NOW)
    engine.remove(added[::2])
    engine.compact()
    assert_stored(kind, engine, index)
    assert_exact(engine)
    # FAISS itself finds what is left, by the ids that the engine knows.
    if hasattr(index, "nprobe"):
        index.nprobe = index.nlist
    _, found = index.search(engine.vectors(engine.ids), 1)
    known = engine.ids if kind in WITH_IDS else np.arange(len(engine))
    assert (found[:, 0] == known).mean() > 0.95  # a graph and 8 bits may miss one


@pytest.mark.parametrize("kind", KINDS)
def test_removal_of_all(kind: str) -> None:
    index, engine, _ = attached(kind, 40)
    engine.remove(engine.ids)
    assert len(engine.search(unit(1, DIM)[0], 3, now=NOW).ids) == 0
    engine.compact()
    assert index.ntotal == len(engine) == 0
    ids = engine.add(unit(3, DIM), now=NOW)
    assert_stored(kind, engine, index)
    assert engine.search(unit(3, DIM)[1], 1, now=NOW).ids.tolist() == [ids[1]]


def test_a_graph_is_built_anew_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashbulb.engine._COMPACT_AT", 10)
    for kind, left in (("hnsw", COUNT), ("ivf", 0), ("flat", 0)):
        index, engine, _ = attached(kind)
        engine.remove(engine.ids)
        assert index.ntotal == left, kind
        engine.compact()
        assert index.ntotal == 0


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("done", [0, 100])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "hnsw" in kind])
def test_a_graph_that_cannot_be_built_anew_stays_as_it_was(
    kind: str, done: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, engine, _ = attached(kind)
    engine.remove(engine.ids[::3])
    engine.compact()
    engine.add(unit(50, DIM, seed=4), now=NOW)
    engine.remove(engine.ids[::4])
    storage = engine._rows.storage
    queries = unit(20, DIM, seed=5)

    def seen() -> list[Any]:
        found = engine.search(queries, 10, now=NOW)
        candidates = [storage.candidates(query, 30) for query in queries]
        return [*found, *index.search(queries, 10), *candidates, index.ntotal]

    before, state = seen(), engine.state()
    build = type(storage)._add

    def broken(self: Any, rows: np.ndarray, ids: np.ndarray) -> None:
        build(self, rows[:done], ids[:done])
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(type(storage), "_add", broken)
        with pytest.raises(error):
            engine.compact()
    np.testing.assert_equal(seen(), before)
    assert_same_state(engine.state(), state)
    engine.add(unit(5, DIM, seed=6), now=NOW)
    engine.compact()
    assert index.ntotal == len(engine)
    assert_stored(kind, engine, index)
    assert_exact(engine)


def test_a_graph_of_removed_rows_or_for_many_rows_is_not_asked() -> None:
    rows = unit(4_000, DIM)
    index = faiss.IndexHNSWFlat(DIM, 16, faiss.METRIC_INNER_PRODUCT)
    index.add(rows)
    engine = Engine(index, now=NOW)
    queries = unit(20, DIM, seed=5)
    assert len(engine._rows.nearby(queries, 10)) == 20
    assert engine._rows.nearby(queries, 1_000) == []
    engine.remove(np.flatnonzero(np.arange(4_000) % 30))
    for query in queries:
        exact = engine.search(query, 10, now=NOW, exact=True).ids
        np.testing.assert_array_equal(engine.search(query, 10, now=NOW).ids, exact)


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_index_takes_beside_its_rows_is_stated(kind: str) -> None:
    index, engine, _ = attached(kind)
    inner = innermost(index)
    expected = 0
    if "hnsw" in kind:
        graph = inner.hnsw
        vectors = (graph.neighbors, graph.offsets, graph.levels)
        expected = sum(faiss.vector_to_array(each).nbytes for each in vectors)
        assert expected > COUNT * 16 * 4  # neighbours of the lowest level
    if kind in WITH_IDS:
        # The ids, in a map or in lists or both; those it came with; places by id.
        expected += 8 * COUNT * (("map" in kind) + ("ivf" in kind) + 2)
    if "ivf" in kind:
        lists = engine._rows.lists
        assert lists is not None
        assert lists.native.memory_bytes >= 4 * COUNT + 4 * DIM * inner.nlist
        expected += lists.native.memory_bytes
    if getattr(inner, "by_residual", False) and hasattr(inner, "sq"):
        expected += 4 * DIM * inner.nlist
    use = engine.memory_bytes()
    assert use.structure == expected
    total = use.vectors + use.structure + use.sketch + use.traces
    assert use.bytes_per_row == total / COUNT
    engine.remove(engine.ids[::2])
    engine.compact()
    if expected:
        assert engine.memory_bytes().structure < use.structure


@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_row_is_overwritten_at_once(kind: str) -> None:
    index, engine, _ = attached(kind)
    row = np.array([123])
    before = engine._rows.view().read(row)[0]
    engine.remove(engine.ids[row])
    after = engine._rows.view().read(row)[0]
    assert np.abs(before - after).max() > 0.01
    # Codes of zero say nothing but where the quantiser, or the list, begins.
    inner = innermost(index)
    if "sq8" in kind:
        minimum = faiss.vector_to_array(inner.sq.trained)[: DIM if "uniform" not in kind else 1]
        extent = faiss.vector_to_array(inner.sq.trained)[-len(minimum) :]
        after -= (minimum + 0.5 / 255.0 * extent).astype(np.float32)
    if getattr(inner, "by_residual", False):
        centroids = inner.quantizer.reconstruct_n(0, inner.nlist)
        after -= centroids[np.abs(centroids - after).max(axis=1).argmin()]
    np.testing.assert_allclose(after, 0.0, atol=ONE_STEP)


@pytest.mark.parametrize("path", ["fp32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_add_that_is_refused_changes_nothing(kind: str, path: SearchPath) -> None:
    _, engine, _ = attached(kind, path=path)
    before = engine.state()
    top = int(engine.ids[-1])
    for ids in ([top + 2, top + 1], [top + 1, top + 1], [top - 1, top + 1], [0, 1]):
        with pytest.raises(ValueError, match="out of order"):
            engine.add(unit(2, DIM, seed=4), ids=ids, now=NOW)
        assert_same_state(engine.state(), before)
    with pytest.raises(ValueError, match="salience"):
        engine.add(unit(2, DIM, seed=4), salience=2.0, now=NOW)
    assert_same_state(engine.state(), before)
    assert_exact(engine)
    ids = engine.add(unit(2, DIM, seed=4), now=NOW)
    assert ids.tolist() == [top + 1, top + 2]
    assert_exact(engine, 500)
    engine.remove(ids)
    engine.compact()
    assert_same_state(engine.state(), {**before, "next_id": top + 3})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["add", "reset"])
def test_an_index_changed_outside_is_refused_from_then_on(kind: str, change: str) -> None:
    index, engine, _ = attached(kind, 50)
    if change == "reset":
        index.reset()
    elif kind in WITH_IDS:
        index.add_with_ids(unit(1, DIM), np.array([10**6]))
    else:
        index.add(unit(1, DIM))
    attempts = [
        lambda: engine.search(unit(1, DIM)[0], 3, now=NOW),
        lambda: engine.add(unit(1, DIM), now=NOW),
        lambda: engine.remove(engine.ids[:1]),
        lambda: engine.vectors(engine.ids[:1]),
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match=f"expected 50 rows, got {index.ntotal}"):
            attempt()
    assert len(engine) == 50


@pytest.mark.parametrize("kind", KINDS)
def test_an_attached_index_lives_as_long_as_its_engine(kind: str) -> None:
    index, engine, _ = attached(kind)
    vectors = engine.vectors(engine.ids)
    del index
    gc.collect()
    overwriting = [faiss.IndexFlatIP(DIM) for _ in range(20)]
    for each in overwriting:  # takes the memory that a freed index would have left
        each.add(np.zeros((COUNT, DIM), np.float32))
    np.testing.assert_array_equal(engine.vectors(engine.ids), vectors)
    engine.add(unit(50, DIM, seed=6), now=NOW)
    engine.compact()
    assert_exact(engine)
    del overwriting


# -- what an index must be ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WITH_IDS)
@pytest.mark.parametrize(
    ("ids", "message"),
    [([5, 9, 5], "unique ids, got 5"), ([5, -2, 9], "at least 0, got -2")],
)
def test_ids_must_be_ids(kind: str, ids: list[int], message: str) -> None:
    index = made(kind, DIM)
    index.add_with_ids(unit(3, DIM), np.array(ids))
    with pytest.raises(ValueError, match=message):
        Engine(index, now=NOW)


@pytest.mark.parametrize("description", ["IVF5,Flat", "SQ8", "IVF5,SQ8", "IDMap2,IVF5,Flat"])
def test_an_index_must_be_trained(description: str) -> None:
    with pytest.raises(ValueError, match="is not trained: call its train"):
        Engine(faiss.index_factory(DIM, description), now=NOW)


# Codes have no NaN, and an inverted file has no list for one.
NORMS = [(kind, norm) for kind in KINDS for norm in (0.0, 0.8, 1.2)] + [
    (kind, np.nan) for kind in KINDS if "sq8" not in kind and "ivf" not in kind
]


@pytest.mark.parametrize(("kind", "norm"), NORMS)
def test_a_row_without_unit_norm_is_named(kind: str, norm: float) -> None:
    rows = unit(51, DIM)
    index = made(kind, DIM)
    fill(kind, index, rows[:50])
    bad = (norm * rows[50:]).astype(np.float32)
    if kind in WITH_IDS:
        index.add_with_ids(bad, np.array([10**6]))
        name = "the row of id 1000000"
    else:
        index.add(bad)
        name = "row 50 of the index"
    with pytest.raises(ValueError, match=f"{name} does not have unit norm within"):
        Engine(index, now=NOW)


def test_rows_within_the_tolerance_of_their_encoding_are_taken() -> None:
    for kind, factor in (("flat", 1 + 5e-6), ("fp16", 1 + 5e-4), ("sq8", 1.02)):
        index = made(kind, DIM)
        index.add(unit(50, DIM) * np.float32(factor))
        assert len(Engine(index, now=NOW)) == 50, kind


def test_a_quantiser_trained_on_other_rows_refuses_what_it_cannot_hold() -> None:
    narrow = unit(400, DIM, seed=7) * 0.05 + unit(1, DIM, seed=8)
    narrow = (narrow / np.linalg.norm(narrow, axis=1, keepdims=True)).astype(np.float32)
    for description in ("SQ8", "IVF2,SQ8", "IDMap2,SQ8"):
        index = faiss.index_factory(DIM, description, faiss.METRIC_INNER_PRODUCT)
        index.train(narrow)
        engine = Engine(index, now=NOW)
        ids = engine.add(narrow[:100], now=NOW)
        before = engine.state()
        with pytest.raises(ValueError, match=r"vector 1 has norm .* trained on too few or other"):
            engine.add(np.stack([narrow[0], -narrow[0]]), now=NOW)
        assert_same_state(engine.state(), before)
        assert index.ntotal == len(ids)


def test_storage_that_does_not_fit_its_count_is_refused() -> None:
    for kind in ("fp16", "hnsw", "ivf", "map flat"):
        index, *_ = attached(kind, 50)
        index.ntotal = 51
        with pytest.raises(ValueError, match="claims 51 rows"):
            Engine(index, now=NOW)
        index.ntotal = 50


def test_a_direct_map_is_refused() -> None:
    index = made("ivf", DIM)
    index.add(unit(10, DIM))
    index.make_direct_map()
    with pytest.raises(ValueError, match="direct map"):
        Engine(index, now=NOW)


def test_a_map_that_faiss_broke_is_refused() -> None:
    index = made("map ivf", DIM)
    index.add_with_ids(unit(20, DIM), np.arange(20))
    index.remove_ids(np.array([3]))
    with pytest.raises(ValueError, match="do not fit the map"):
        Engine(index, now=NOW)


def test_an_index_has_its_own_storage() -> None:
    with pytest.raises(ValueError, match="an index has its own storage"):
        Engine(made("flat", DIM), storage="fp16")


@pytest.mark.parametrize(
    ("kind", "storage"), [("flat", "fp32"), ("ivf fp16", "fp16"), ("sq8", "sq8"), ("hnsw", "fp32")]
)
def test_the_storage_can_be_read(kind: str, storage: str) -> None:
    assert attached(kind, 5)[1].storage == storage


# -- what an index finds --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_approximate_search_finds_what_is_close(kind: str, metric: str) -> None:
    """One in ten of the rows is looked at and more than nine in ten of the best are found."""
    index, engine, _ = attached(kind, metric=metric)
    queries = unit(20, DIM, seed=9)
    for step in range(3):
        close = same = 0
        for query in queries:
            exact = engine.search(query, 10, now=NOW, exact=True)
            found = engine.search(query, 10, now=NOW)
            assert len(found.ids) == 10
            assert len(np.unique(found.ids)) == 10
            both, here, there = np.intersect1d(found.ids, exact.ids, return_indices=True)
            np.testing.assert_array_equal(found.scores[here], exact.scores[there])
            close += len(both)
            same += found.ids.tolist() == exact.ids.tolist()
        if "hnsw" in kind:
            assert close >= 190
        elif "ivf" in kind:
            # One list of five; of all rows while half of them are tombstones.
            assert (same == 20) == (step == 1)
            assert close >= 60
            inner = innermost(index)
            inner.nprobe = inner.nlist
            for query in queries:
                exact = engine.search(query, 10, now=NOW, exact=True)
                assert engine.search(query, 10, now=NOW).ids.tolist() == exact.ids.tolist()
            inner.nprobe = 1
        else:
            assert same == 20
        if step == 0:
            engine.remove(engine.ids[::2])
        else:
            engine.compact()
            engine.add(unit(30, DIM, seed=11), now=NOW)


@pytest.mark.parametrize("kind", ["hnsw", "map2 hnsw", "ivf", "map ivf"])
def test_several_queries_are_answered_as_each_alone(kind: str) -> None:
    _, engine, _ = attached(kind)
    queries = unit(5, DIM, seed=9)
    addends = [(engine.ids[i : i + 3], np.full(3, 0.5)) for i in range(5)]
    together = engine.search(queries, 7, now=NOW, addends=addends)
    for i, query in enumerate(queries):
        alone = engine.search(query, 7, now=NOW, addends=addends[i])
        for name, values in alone._asdict().items():
            np.testing.assert_array_equal(getattr(together, name)[i], values, err_msg=name)
    many = np.tile(queries, (20, 1))
    expected = engine.search(many, 7, now=NOW, exact=True)
    np.testing.assert_array_equal(engine.search(many, 7, now=NOW).ids, expected.ids)


def test_an_empty_inverted_file_or_graph_finds_nothing() -> None:
    for kind in ("hnsw", "ivf"):
        engine = Engine(made(kind, DIM))
        assert len(engine.search(unit(1, DIM)[0], 5, now=NOW).ids) == 0
        engine.add(unit(1, DIM), now=NOW)
        assert len(engine.search(unit(1, DIM)[0], 5, now=NOW).ids) == 1


# -- decoding -------------------------------------------------------------------------------------

PLAIN = """
import sys; sys.path[:0] = {path!r}
import numpy as np
from flashbulb import Engine
from indexes import EIGHT_BIT, made, unit
from test_attached import attached, stored
for kind in EIGHT_BIT:
    index, engine, _ = attached(kind)
    known = stored(index)
    order = engine.ids.tolist() if set(known) == set(engine.ids.tolist()) else range(len(engine))
    rows = np.stack([known[each] for each in order])
    assert np.array_equal(engine.vectors(engine.ids), rows), kind
"""


def test_codes_decode_to_the_bits_of_faiss_where_it_fuses_nothing() -> None:
    environment = {**os.environ, "FAISS_SIMD_LEVEL": "NONE"}
    subprocess.run([sys.executable, "-c", PLAIN.format(path=sys.path)], check=True, env=environment)


@pytest.mark.parametrize("kind", ["fp16", *EIGHT_BIT])
def test_every_level_decodes_to_the_same_bits(kind: str) -> None:
    _, engine, _ = attached(kind)
    with at_level("base"):
        expected = engine.vectors(engine.ids)
    for _ in each_level():
        np.testing.assert_array_equal(engine.vectors(engine.ids), expected)
