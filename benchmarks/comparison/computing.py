"""The rows about laws and statistics: Welford, decay, bonus, retrieval-induced forgetting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb import Engine, _core
from flashbulb._reference import ReferenceEngine

from .data import make
from .findings import Finding, Reach, lines_of
from .memories import DAY, NOW, Memories
from .searching import OURS, Settings, memories_of
from .timing import Reader, Task, interleave, ratios

__all__ = ["bonus", "decay", "forgetting", "welford"]

Floats = NDArray[np.float64]

# Rows of the slow one-by-one contenders, whose time is scaled to all rows.
_SAMPLE = 20_000

HOUR = 3600.0


def welford(settings: Settings, row: str, count: int) -> Iterator[Finding]:
    """Running mean and sum of squared deviations of each dimension of a stream of vectors."""
    rows = make(
        (settings.data or ["isotropic"])[0], settings.rows or count, settings.dim, settings.cache
    ).rows
    sample = min(len(rows), _SAMPLE)
    scale = len(rows) / sample
    dim = rows.shape[1]

    def numpy_one_by_one(turn: int) -> tuple[Floats, Floats]:
        mean, m2 = np.zeros(dim), np.zeros(dim)
        for number, values in enumerate(rows[:sample], 1):
            delta = values - mean
            mean += delta / number
            m2 += delta * (values - mean)
        return mean, m2

    def numpy_batched(turn: int) -> tuple[Floats, Floats]:
        seen, mean, m2 = 0, np.zeros(dim), np.zeros(dim)
        for start in range(0, len(rows), 512):
            part = rows[start : start + 512]
            own = part.mean(axis=0, dtype=np.float64)
            part = part - own
            delta = own - mean
            total = seen + len(part)
            m2 += np.einsum("ij,ij->j", part, part) + delta * delta * (seen * len(part) / total)
            mean += delta * (len(part) / total)
            seen = total
        return mean, m2

    def ours(turn: int) -> Any:
        centroid = _core.Centroid(dim)
        centroid.update(rows)
        return centroid

    def ours_by_calls(turn: int) -> Any:
        centroid = _core.Centroid(dim)
        for values in rows[:sample]:
            centroid.update(values[None])
        return centroid

    names = {
        OURS: "Centroid.update of all rows at once",
        "Flashbulb, a Python call a row": f"{sample:,} rows, scaled",
        "NumPy, one by one": f"{sample:,} rows, scaled",
        "NumPy, batches of 512": "Chan's merge",
        "reading the rows": "",
    }
    mean = rows.mean(axis=0, dtype=np.float64)
    m2 = np.zeros(dim)
    for start in range(0, len(rows), 4096):
        m2 += ((rows[start : start + 4096] - mean) ** 2).sum(axis=0)
    found, stream, slow = ours(0), ours_by_calls(0), numpy_one_by_one(0)
    agreed = (
        np.allclose(found.mean, mean, rtol=0, atol=1e-12)
        and np.allclose(found.m2, m2, rtol=1e-9)
        and np.allclose(stream.mean, slow[0], rtol=0, atol=1e-12)
        and np.allclose(stream.m2, slow[1], rtol=1e-9)
    )
    runs = [ours, ours_by_calls, numpy_one_by_one, numpy_batched, Reader(rows.nbytes)]
    scales = [1.0, scale, scale, 1.0, 1.0]
    taken = interleave(
        [Task(n, run, by) for n, run, by in zip(names, runs, scales, strict=True)],
        seconds=settings.seconds,
    )
    yield Finding(
        row,
        f"{len(rows):,} × {dim}",
        lines_of(taken, OURS, names),
        [
            Reach(
                "times faster than NumPy, one by one",
                15.0,
                ratios(taken["NumPy, one by one"], taken[OURS]),
            ),
            Reach(
                "of the time of reading the rows",
                1.5,
                ratios(taken[OURS], taken["reading the rows"]),
                at_most=True,
            ),
        ],
        agreed=agreed,
        notes=[_bandwidth(rows.nbytes, taken["reading the rows"])],
    )


def decay(settings: Settings, row: str, count: int) -> Iterator[Finding]:
    """Vividness of every row at a moment, written back as its anchor."""
    engine, columns = _traces_only(settings, count)
    rows = len(columns["ids"])
    rate, floor = _rates(columns), columns["floor"]
    anchor, since = columns["vividness"].copy(), columns["vividness_time"].copy()
    clock = {OURS: NOW, "NumPy": NOW}
    scratch = np.empty(rows)

    def numpy_in_place(turn: int) -> None:
        now = clock["NumPy"] = clock["NumPy"] + HOUR
        np.subtract(since, now, out=scratch)
        np.minimum(scratch, 0.0, out=scratch)
        np.multiply(scratch, rate, out=scratch)
        np.exp(scratch, out=scratch)
        np.multiply(anchor, scratch, out=anchor)
        np.maximum(anchor, floor, out=anchor)
        since.fill(now)

    def ours(turn: int) -> None:
        clock[OURS] += HOUR
        engine.decay(clock[OURS])

    expected = ReferenceEngine({**columns, "policy": settings.policy.to_dict()})
    ours(0)
    numpy_in_place(0)
    agreed = bool(
        np.allclose(engine.traces()["vividness"], expected.vividness(NOW + HOUR), rtol=1e-12)
        and np.allclose(anchor, expected.vividness(NOW + HOUR), rtol=1e-12)
    )
    touched = 8 * (4 + 2)  # anchor, its time, rate, floor; the first two are written as well
    yield _against_numpy(
        settings, row, rows, ours, numpy_in_place, touched, agreed, "NumPy, in place"
    )


def bonus(settings: Settings, row: str, count: int) -> Iterator[Finding]:
    """Both bonus terms of every row at a moment, in float64."""
    engine, columns = _traces_only(settings, count)
    rows = len(columns["ids"])
    policy = settings.policy
    law = ReferenceEngine({**columns, "policy": policy.to_dict()})
    weights = (policy.vividness_weight, policy.recency_weight)
    rate, floor, anchor = _rates(columns), columns["floor"], columns["vividness"]
    since = columns["vividness_time"]
    latest = np.fmax(columns["created"], columns["last_access"])
    is_open = columns["status"] == 1
    urgency = np.where(is_open, columns["urgency"], 0.0)
    shift = policy.open_task_boost * urgency
    counted = weights[0] * np.maximum(columns["salience"], policy.open_task_salience * urgency)
    vivid, recent = np.empty(rows), np.empty(rows)
    own_vivid, own_recent = np.empty(rows), np.empty(rows)

    def numpy_in_place(turn: int) -> None:
        now = NOW + turn
        np.subtract(since, now, out=vivid)
        np.multiply(vivid, rate, out=vivid)
        np.exp(vivid, out=vivid)
        np.multiply(vivid, anchor, out=vivid)
        np.maximum(vivid, floor, out=vivid)
        np.add(vivid, shift, out=vivid)
        np.minimum(vivid, 1.0, out=vivid)
        np.multiply(vivid, counted, out=vivid)
        np.subtract(latest, now, out=recent)
        np.multiply(recent, 1.0 / (policy.recency_days * DAY), out=recent)
        np.exp(recent, out=recent)
        np.multiply(recent, weights[1], out=recent)

    def ours(turn: int) -> None:
        engine._traces.table.all_bonuses(NOW + turn, *weights, own_vivid, own_recent)

    ours(0)
    numpy_in_place(0)
    expected = law.bonus(NOW, *weights)
    agreed = all(
        np.allclose(found, own, rtol=1e-12, atol=1e-300)
        for found, own in zip(
            (own_vivid, own_recent, vivid, recent), (*expected, *expected), strict=True
        )
    )
    touched = 8 * (7 + 2)  # seven columns are read, two results are written
    yield _against_numpy(
        settings, row, rows, ours, numpy_in_place, touched, agreed, "NumPy, in place"
    )


def forgetting(settings: Settings, row: str, count: int, target: float) -> Iterator[Finding]:
    """Suppression of all rows that are close to ten accessed ones."""
    policy = settings.policy
    for memories in memories_of(settings, count, ("clustered", "real")):
        engine, rows = memories.engine, memories.rows
        accessed = np.sort(np.random.default_rng(3).choice(len(rows), 10, replace=False))
        salience, pinned = memories.columns["salience"], memories.columns["pinned"]
        suppressible = (salience <= policy.rif_max_salience) & ~pinned
        suppressible[accessed] = False
        clock = [NOW]

        def ours(
            turn: int, engine: Engine = engine, clock: Any = clock, ids: Any = accessed
        ) -> Any:
            clock[0] += 2 * HOUR  # strengths move at most once an hour
            return engine.suppress(ids, now=clock[0])

        def in_numpy(
            turn: int, rows: Any = rows, ids: Any = accessed, open_to_it: Any = suppressible
        ) -> Any:
            cosines = (rows @ rows[ids].T).max(axis=1)
            return np.flatnonzero((cosines > policy.rif_similarity) & open_to_it)

        wide = rows[accessed].astype(np.float64)
        closest = np.concatenate(
            [
                (rows[start : start + 16384].astype(np.float64) @ wide.T).max(axis=1)
                for start in range(0, len(rows), 16384)
            ]
        )
        exact = np.flatnonzero((closest > policy.rif_similarity) & suppressible)
        agreed = bool(np.array_equal(ours(0), exact))
        taken = interleave(
            [
                Task(OURS, ours),
                Task("NumPy, X @ A.T and mask", in_numpy),
                Task("reading the float32 rows", Reader(rows.nbytes)),
            ],
            seconds=settings.seconds,
        )
        yield Finding(
            row,
            f"10 accessed rows, {len(exact):,} rows suppressed, {memories.title}",
            lines_of(taken, OURS, {OURS: "strengths are written, too"}),
            [
                Reach(
                    "times faster than NumPy",
                    target,
                    ratios(taken["NumPy, X @ A.T and mask"], taken[OURS]),
                )
            ],
            agreed=agreed,
            notes=[
                f"path {engine.path}",
                _bandwidth(rows.nbytes, taken["reading the float32 rows"]),
            ],
        )


def _traces_only(settings: Settings, count: int) -> tuple[Engine, dict[str, NDArray[Any]]]:
    """Memories with vectors of two dimensions: only their traces matter."""
    dataset = make("isotropic", settings.rows or count, 2, None)
    memories = Memories(dataset, settings.vivid[0], settings.policy, {})
    return memories.engine, memories.columns


def _rates(columns: dict[str, NDArray[Any]]) -> Floats:
    """Decay a second by the default law."""
    rate: Floats = np.where(columns["pinned"], 0.0, 0.1 * (1.0 - 0.5 * columns["salience"]) / DAY)
    return rate


def _against_numpy(
    settings: Settings,
    row: str,
    rows: int,
    ours: Any,
    in_numpy: Any,
    touched: int,
    agreed: bool,
    peer: str,
) -> Finding:
    limit = f"reading {touched} bytes a row"
    taken = interleave(
        [Task(OURS, ours), Task(peer, in_numpy), Task(limit, Reader(touched * rows))],
        seconds=settings.seconds,
        rounds=300,
    )
    return Finding(
        row,
        f"{rows:,} rows",
        lines_of(taken, OURS),
        [
            Reach("times faster than NumPy", 3.0, ratios(taken[peer], taken[OURS])),
            Reach("of the limit", 2.0, ratios(taken[OURS], taken[limit]), at_most=True),
        ],
        agreed=agreed,
        notes=[_bandwidth(touched * rows, taken[limit])],
    )


def _bandwidth(size: int, seconds: Floats) -> str:
    taken = float(np.nanmedian(seconds))
    if not math.isfinite(taken):
        return "no bandwidth was measured"
    return f"read bandwidth: {size / taken / 1e9:.1f} GB/s over {size / 1e6:,.1f} MB"
