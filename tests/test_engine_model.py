"""An engine under any sequence of calls equals the readable twin, and never mixes up its ids."""

from __future__ import annotations

import tempfile
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flashbulb import Engine, MemoryNotFound, Policy, _snapshot
from flashbulb._columns import to_unit_rows
from flashbulb._faiss import SearchPath
from flashbulb._reference import ReferenceEngine
from indexes import EIGHT_BIT, KINDS, METRICS, made
from simd import LEVELS, at_level
from strategies import (
    DAY,
    NOW,
    TAGS,
    assert_same_state,
    examples,
    fill,
    policies,
    seeds,
    segments_of,
    unit_rows,
)


def assert_part_of(nearby: Any, exact: Any, everything: Any, twin: ReferenceEngine) -> None:
    """An approximate result: as long as the exact one, exactly scored, no flashbulb less."""
    assert len(nearby.ids) == len(exact.ids)
    place = {memory_id: i for i, memory_id in enumerate(everything.ids.tolist())}
    places = [place[memory_id] for memory_id in nearby.ids.tolist()]
    assert places == sorted(set(places))
    for name, values in nearby._asdict().items():
        np.testing.assert_array_equal(values, getattr(everything, name)[places], err_msg=name)
    state = twin.state
    threshold = state["policy"]["flashbulb_threshold"]
    flashbulbs = state["ids"][state["pinned"] | (state["salience"] >= threshold)]
    assert np.isin(np.intersect1d(exact.ids, flashbulbs), nearby.ids).all()


def assert_near(stored: np.ndarray, given: np.ndarray, kind: str) -> None:
    """Rows as an index of this kind keeps them."""
    tolerance = 0.05 if "sq8" in kind else 1e-3 if "fp16" in kind else 1e-6
    rows = to_unit_rows(given, None, "vectors")
    np.testing.assert_allclose(stored, rows, rtol=0.0, atol=tolerance)


few = st.lists(st.integers(0, 2**16), min_size=1, max_size=4)


class EngineAgainstTwin(RuleBasedStateMachine):
    @initialize(
        dim=st.sampled_from([1, 3, 17]),
        policy=policies(),
        kind=st.sampled_from(["fp32", "fp16", "fp32 segments", "fp16 segments"])
        | st.sampled_from(list(KINDS)),
        metric=st.sampled_from(list(METRICS)),
        path=st.sampled_from(get_args(SearchPath)),
    )
    def start(self, dim: int, policy: Policy, kind: str, metric: str, path: SearchPath) -> None:
        self.kind = kind
        self.segment_rows = 5 if "segments" in kind else None
        if kind in KINDS:
            self.engine = Engine(made(kind, dim, metric), policy=policy, path=path)
        else:
            self.engine = Engine(dim, policy=policy, path=path, storage=kind[:4])
        self.now = NOW
        self.vectors: dict[int, np.ndarray] = {}
        self.used: set[int] = set()

    def chosen(self, picks: list[int]) -> list[int]:
        live = sorted(self.vectors)
        return [live[pick % len(live)] for pick in picks]

    def twin(self) -> ReferenceEngine:
        return ReferenceEngine(self.engine.state())

    def compare(self, twin: ReferenceEngine) -> None:
        state = self.engine.state()
        for name in ("next_id", "latest"):  # what the twin has no use for
            twin.state[name] = state[name]
        assert_same_state(state, twin.state)

    @rule(seed=seeds, count=st.integers(0, 12), style=st.sampled_from(["random", "close"]))
    def add(self, seed: int, count: int, style: str) -> None:
        rng = np.random.default_rng(seed)
        first = self.engine.next_id
        with segments_of(self.segment_rows):
            if rng.random() < 0.5:
                fill(self.engine, rng, count, style)
                ids = np.arange(first, first + count)
            else:
                gaps = first + np.cumsum(rng.integers(1, 1000, size=count))
                rows = unit_rows(rng, count, self.engine.dim, style)
                ids = self.engine.add(rows, ids=gaps, salience=rng.random(), now=self.now)
                assert ids.tolist() == gaps.tolist()
        assert self.used.isdisjoint(ids.tolist())
        self.used.update(ids.tolist())
        self.vectors.update(zip(ids.tolist(), self.engine.vectors(ids), strict=True))

    @rule(hours=st.sampled_from([-2.0, 0.0, 0.01, 1.0, 24.0, 2400.0]))
    def time_passes(self, hours: float) -> None:
        self.now += 3600.0 * hours

    @precondition(lambda self: self.vectors)
    @rule(picks=few)
    def touch(self, picks: list[int]) -> None:
        ids, twin = self.chosen(picks), self.twin()
        self.engine.touch(ids, self.now)
        twin.touch(ids, self.now)
        self.compare(twin)

    @precondition(lambda self: self.vectors)
    @rule(picks=few, gain=st.sampled_from([0.0, 0.05, 1.0]))
    def strengthen(self, picks: list[int], gain: float) -> None:
        ids, twin = self.chosen(picks), self.twin()
        self.engine.strengthen(ids, gain, self.now)
        twin.strengthen(ids, gain, self.now)
        self.compare(twin)

    @precondition(lambda self: self.vectors)
    @rule(picks=few, seed=seeds)
    def replace_vectors(self, picks: list[int], seed: int) -> None:
        ids = list(dict.fromkeys(self.chosen(picks)))
        before = self.engine.state()
        vectors = unit_rows(np.random.default_rng(seed), len(ids), self.engine.dim, "random")
        self.engine.replace_vectors(ids, vectors)
        stored = self.engine.vectors(ids)
        assert_near(stored, vectors, self.kind)
        self.vectors.update(zip(ids, stored, strict=True))
        assert_same_state({**self.engine.state(), "vectors": None}, {**before, "vectors": None})

    @precondition(lambda self: self.vectors)
    @rule(picks=few, related=st.none() | few)
    def suppress(self, picks: list[int], related: list[int] | None) -> None:
        ids, twin = self.chosen(picks), self.twin()
        others = None if related is None else self.chosen(related)
        moved = self.engine.suppress(ids, others, now=self.now)
        assert moved.tolist() == twin.suppress(ids, others, self.now)
        self.compare(twin)

    @precondition(lambda self: self.vectors)
    @rule(picks=few)
    def pin(self, picks: list[int]) -> None:
        ids, twin = self.chosen(picks), self.twin()
        self.engine.pin(ids, now=self.now)
        twin.pin(ids, self.now)
        self.compare(twin)

    @precondition(lambda self: self.vectors)
    @rule(picks=few)
    def unpin(self, picks: list[int]) -> None:
        ids, twin = self.chosen(picks), self.twin()
        self.engine.unpin(ids, now=self.now)
        twin.unpin(ids, self.now)
        self.compare(twin)

    @precondition(lambda self: self.vectors)
    @rule(picks=few)
    def complete(self, picks: list[int]) -> None:
        ids, twin = self.chosen(picks), self.twin()
        if (self.engine.traces(ids)["status"] == 0).any():
            with pytest.raises(ValueError, match="not a task"):
                self.engine.complete(ids, self.now)
        else:
            self.engine.complete(ids, self.now)
            twin.complete(ids, self.now)
        self.compare(twin)

    @rule()
    def decay(self) -> None:
        twin = self.twin()
        self.engine.decay(self.now)
        twin.decay(self.now)
        self.compare(twin)

    @rule(policy=policies())
    def set_policy(self, policy: Policy) -> None:
        before = self.engine.vividness(now=self.now)
        self.engine.set_policy(policy, now=self.now)
        np.testing.assert_allclose(self.engine.vividness(now=self.now), before, rtol=1e-12)

    @precondition(lambda self: self.vectors)
    @rule(picks=few, unknown=st.booleans())
    def remove(self, picks: list[int], unknown: bool) -> None:
        ids, twin = self.chosen(picks), self.twin()
        asked = [*ids, self.engine.next_id + 7] if unknown else ids
        assert self.engine.remove(asked) == len(set(ids))
        twin.remove(ids)
        for memory_id in set(ids):
            del self.vectors[memory_id]
        self.compare(twin)
        with pytest.raises(MemoryNotFound, match=str(ids[0])):
            self.engine.touch(ids[0], self.now)

    @rule()
    def compact(self) -> None:
        before = self.engine.state()
        self.engine.compact()
        assert_same_state(self.engine.state(), before)

    @rule()
    def reopen(self) -> None:
        before = self.engine.state()
        if self.kind in EIGHT_BIT or "residual" in self.kind:
            with pytest.raises(ValueError, match="storage must be 'fp32' or 'fp16', got"):
                Engine.from_state(before)
            return
        with segments_of(self.segment_rows):
            self.engine = Engine.from_state(before)
        assert_same_state(self.engine.state(), before)

    @precondition(lambda self: self.kind in ("fp32", "fp32 segments"))
    @rule(mapped=st.booleans())
    def come_out_of_a_file(self, mapped: bool) -> None:
        before = self.engine.state()
        with tempfile.TemporaryDirectory() as folder, segments_of(self.segment_rows):
            _snapshot.save(self.engine, f"{folder}/snapshot", 7)
            self.engine = _snapshot.load(
                f"{folder}/snapshot",
                7,
                self.engine.dim,
                policy=self.engine.policy,
                map_from=0 if mapped else None,
            )
        self.engine._traces.latest = before["latest"]
        assert_same_state(self.engine.state(), before)

    @rule(
        seed=seeds,
        k=st.sampled_from([1, 5, 100]),
        level=st.sampled_from(LEVELS),
        tags=st.none() | st.lists(st.sampled_from(TAGS), max_size=1),
    )
    def search(self, seed: int, k: int, level: str, tags: list[str] | None) -> None:
        twin = self.twin()
        query = unit_rows(np.random.default_rng(seed), 1, self.engine.dim, "random")
        if len(self.vectors) > 1:
            query = np.array([self.vectors[self.chosen([seed])[0]]])
        now = self.now + DAY
        expected = twin.search(to_unit_rows(query, None, "query")[0], k, now=now, tags=tags)
        with at_level(level):
            found = self.engine.search(query[0], k, now=now, tags=tags, exact=True)
            nearby = self.engine.search(query[0], k, now=now, tags=tags, exact=False)
        for name, values in found._asdict().items():
            np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)
        everything = twin.search(to_unit_rows(query, None, "query")[0], 10**6, now=now, tags=tags)
        assert_part_of(nearby, found, everything, twin)

    @precondition(lambda self: self.engine._rows.divisible)
    @rule()
    def divide(self) -> None:
        self.engine.build_partition()
        assert (self.engine.partition is None) == (not self.vectors)

    @invariant()
    def ids_and_vectors_belong_together(self) -> None:
        if not hasattr(self, "engine"):
            return
        ids = sorted(self.vectors)
        assert self.engine.ids.tolist() == ids
        assert len(self.engine) == len(ids)
        assert self.engine.next_id > max(self.used, default=-1)
        if ids:
            np.testing.assert_array_equal(
                self.engine.vectors(ids), np.stack([self.vectors[i] for i in ids])
            )


EngineAgainstTwin.TestCase.settings = settings(examples(40), stateful_step_count=30)
TestEngineAgainstTwin: Any = EngineAgainstTwin.TestCase
