r"""Time of the calls of Engine, beside FAISS and NumPy over the same rows in the same run.

    OPENBLAS_NUM_THREADS=1 python -m pytest benchmarks/test_engine_benchmark.py \
        --benchmark-columns=min,median,rounds

Informational: nothing here fails because it is slow. What is compared gives the same answers,
which is checked before it is timed. ``plain`` is similarity alone, which is all that
``faiss.IndexFlatIP`` does; ``fused`` adds vividness and recency, and NumPy does the same work.
Everything runs on one thread, for which NumPy needs the variable above. FAISS runs with its faster
path for a batch of this size, not with the default one.
FLASHBULB_BENCHMARK_ROWS=1000,10000 chooses other sizes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import faiss
import numpy as np
import pytest

from flashbulb import Engine

DIM = 384
K = 10
NOW = 1_700_000_000.0
DAY = 86_400.0
ROWS = [
    int(part) for part in os.environ.get("FLASHBULB_BENCHMARK_ROWS", "1000,10000,100000").split(",")
]
QUERIES = [1, 64]


class Setting:
    """The same memories in an engine, in a FAISS index and in NumPy arrays."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(count)
        rows = rng.normal(size=(count, DIM)).astype(np.float32)
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        queries = rng.normal(size=(64, DIM)).astype(np.float32)
        self.queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        self.salience = rng.random(count)
        self.created = NOW - DAY * rng.uniform(0, 365, count)
        self.engine = Engine(DIM)
        self.engine.add(self.rows, salience=self.salience, created=self.created, now=NOW)
        self.index = faiss.IndexFlatIP(DIM)
        self.index.add(self.rows)
        self.floor = self.engine.traces()["floor"]
        self.policy = self.engine.policy

    def bonus(self) -> tuple[np.ndarray, np.ndarray]:
        days = (NOW - self.created) / DAY
        vividness = np.maximum(np.exp(-0.1 * (1.0 - 0.5 * self.salience) * days), self.floor)
        return 0.3 * vividness * self.salience, 0.1 * np.exp(-days / 30.0)

    def numpy_search(self, queries: np.ndarray, fused: bool) -> tuple[np.ndarray, np.ndarray]:
        scores = queries @ self.rows.T
        if fused:
            p = self.policy
            vivid, recent = self.bonus()
            scores = (
                scores
                + _ramp(scores, p.vividness_ramp_start, p.vividness_ramp_end) * vivid
                + _ramp(scores, p.recency_ramp_start, p.recency_ramp_end) * recent
            )
        best = np.argpartition(-scores, K - 1, axis=1)[:, :K]
        values = np.take_along_axis(scores, best, axis=1)
        order = np.argsort(-values, axis=1)
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)

    def engine_search(self, queries: np.ndarray, fused: bool) -> Any:
        weights = {} if fused else {"vividness_weight": 0.0, "recency_weight": 0.0}
        return self.engine.search(queries, K, now=NOW, **weights)


def _ramp(similarity: np.ndarray, start: float, end: float) -> Any:
    return np.clip((similarity - start) / (end - start), 0.0, 1.0) if end > start else 1.0


setting = cache(Setting)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        pytest.skip("set OPENBLAS_NUM_THREADS=1: NumPy's threads beside ours would compare nothing")
    threads = faiss.omp_get_max_threads()
    blas_from = faiss.cvar.distance_compute_blas_threshold
    faiss.omp_set_num_threads(1)
    faiss.cvar.distance_compute_blas_threshold = 1000
    yield
    faiss.omp_set_num_threads(threads)
    faiss.cvar.distance_compute_blas_threshold = blas_from
    setting.cache_clear()


def assert_same(ids: np.ndarray, scores: np.ndarray, expected: np.ndarray, own: np.ndarray) -> None:
    """The same memories in the same order, except where scores are closer than float32."""
    np.testing.assert_allclose(scores, own, rtol=0, atol=2e-6)
    for i, j in zip(*np.nonzero(ids != expected), strict=True):
        assert abs(scores[i] - scores[i, j]).min() <= 2e-6


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("count", ROWS)
class TestSearch:
    @pytest.fixture(autouse=True)
    def in_one_group(self, benchmark: Any, count: int, queries: int, request: Any) -> None:
        kind = "fused" if "fused" in request.node.name else "plain"
        benchmark.group = f"search {kind}, {queries} queries, {count} rows"

    def test_plain_engine(self, benchmark: Any, count: int, queries: int) -> None:
        each = setting(count)
        asked = each.queries[:queries]
        found = each.engine_search(asked, fused=False)
        scores, ids = each.index.search(asked, K)
        assert_same(ids, scores, found.ids, found.scores)
        benchmark(each.engine_search, asked, fused=False)

    def test_plain_faiss(self, benchmark: Any, count: int, queries: int) -> None:
        each = setting(count)
        benchmark(each.index.search, each.queries[:queries], K)

    def test_plain_numpy(self, benchmark: Any, count: int, queries: int) -> None:
        each = setting(count)
        benchmark(each.numpy_search, each.queries[:queries], fused=False)

    def test_fused_engine(self, benchmark: Any, count: int, queries: int) -> None:
        each = setting(count)
        asked = each.queries[:queries]
        found = each.engine_search(asked, fused=True)
        ids, scores = each.numpy_search(asked, fused=True)
        assert_same(ids, scores, found.ids, found.scores)
        benchmark(each.engine_search, asked, fused=True)

    def test_fused_numpy(self, benchmark: Any, count: int, queries: int) -> None:
        each = setting(count)
        benchmark(each.numpy_search, each.queries[:queries], fused=True)


@pytest.mark.parametrize("count", ROWS)
class TestCalls:
    @pytest.fixture(autouse=True)
    def in_one_group(self, benchmark: Any, count: int) -> None:
        benchmark.group = f"calls, {count} rows"

    def test_add_all_rows(self, benchmark: Any, count: int) -> None:
        rows = setting(count).rows
        benchmark.pedantic(
            lambda engine: engine.add(rows, now=NOW),
            setup=lambda: ((Engine(DIM),), {}),
            rounds=5,
        )

    def test_add_all_rows_to_faiss(self, benchmark: Any, count: int) -> None:
        rows = setting(count).rows
        benchmark.pedantic(
            lambda index: index.add(rows),
            setup=lambda: ((faiss.IndexFlatIP(DIM),), {}),
            rounds=5,
        )

    def test_add_one_row(self, benchmark: Any, count: int) -> None:
        engine = Engine.from_state(setting(count).engine.state())
        row = setting(count).rows[0]
        benchmark.pedantic(engine.add, (row,), {"now": NOW}, rounds=200, warmup_rounds=10)
        assert len(engine) > count

    def test_touch_ten(self, benchmark: Any, count: int) -> None:
        engine = Engine.from_state(setting(count).engine.state())
        ids = np.arange(0, count, max(1, count // 10))[:10]
        before = engine.traces(ids)["access_count"]
        benchmark(engine.touch, ids, NOW)
        assert (engine.traces(ids)["access_count"] > before).all()

    def test_suppress_by_five(self, benchmark: Any, count: int) -> None:
        # Against all rows. The interval between changes of strength has not passed: none move.
        engine = Engine.from_state(setting(count).engine.state())
        twins = engine.add(setting(count).rows[:5], now=NOW)
        assert engine.suppress(np.arange(5), now=NOW).tolist() == twins.tolist()
        benchmark(engine.suppress, np.arange(5), now=NOW)

    def test_suppress_by_five_among_twenty(self, benchmark: Any, count: int) -> None:
        engine = Engine.from_state(setting(count).engine.state())
        benchmark(engine.suppress, np.arange(5), np.arange(5, 25), now=NOW)

    def test_vividness(self, benchmark: Any, count: int) -> None:
        each = setting(count)
        found = benchmark(each.engine.vividness, now=NOW)
        assert found.shape == (count,)

    def test_decay(self, benchmark: Any, count: int) -> None:
        engine = Engine.from_state(setting(count).engine.state())
        expected = engine.vividness(now=NOW)
        benchmark(engine.decay, NOW)
        np.testing.assert_array_equal(engine.traces()["vividness"], expected)

    def test_decay_in_numpy(self, benchmark: Any, count: int) -> None:
        each = setting(count)
        days = (NOW - each.created) / DAY
        rate = 0.1 * (1.0 - 0.5 * each.salience)
        found = benchmark(lambda: np.maximum(np.exp(-rate * days), each.floor))
        np.testing.assert_allclose(found, each.engine.vividness(now=NOW), rtol=1e-12)

    def test_state(self, benchmark: Any, count: int) -> None:
        state = benchmark(setting(count).engine.state)
        assert len(state["ids"]) == count

    def test_from_state(self, benchmark: Any, count: int) -> None:
        state = setting(count).engine.state()
        engine = benchmark(Engine.from_state, state)
        assert len(engine) == count
