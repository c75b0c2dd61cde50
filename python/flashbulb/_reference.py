"""Every kernel and law once more, in plain NumPy float64: what the native ones are compared with.

Only tests use it. It is meant to be read beside the design, row by row and without tricks, and it
keeps the order of operations of the one definition, so that results are equal bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb.policy import Policy

__all__ = [
    "ReferenceEngine",
    "ReferenceHits",
    "ReferenceMoments",
    "exp_of_negative",
    "inner_products",
    "moments_of",
    "ramp",
    "squared_distance",
    "standard_score",
    "temporal_novelty",
]

Floats = NDArray[np.float64]

SECONDS_PER_DAY = 86_400.0
NOT_A_TASK, OPEN, COMPLETED = 0, 1, 2
_STATUS = {"none": NOT_A_TASK, "open": OPEN, "completed": COMPLETED}


# -- arithmetic ----------------------------------------------------------------------------------


def _sum_of_lanes(lanes: Floats) -> Floats:
    """The fixed tree over the last axis of 8 lanes."""
    a, b, c, d, e, f, g, h = np.moveaxis(lanes, -1, 0)
    total: Floats = ((a + e) + (c + g)) + ((b + f) + (d + h))
    return total


def inner_products(query: NDArray[np.float32], rows: NDArray[np.float32]) -> Floats:
    """The one definition of similarity: float64 products, summed in 8 lanes and a fixed tree."""
    lanes = np.zeros((len(rows), 8))
    for start in range(0, rows.shape[1], 8):
        part = rows[:, start : start + 8].astype(np.float64)
        lanes[:, : part.shape[1]] += query[start : start + 8].astype(np.float64) * part
    return _sum_of_lanes(lanes)


def decoded_codes(
    codes: NDArray[np.uint8], minimum: NDArray[np.float32], extent: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Rows of 8-bit codes (n, dim) as FAISS's QT_8bit means them, each step in float32."""
    share = (codes.astype(np.float32) + np.float32(0.5)) / np.float32(255.0)
    rows: NDArray[np.float32] = minimum + share * extent
    return rows


def squared_distance(vector: NDArray[np.float32], centroid: Floats) -> float:
    """Squared L2 distance, summed like :func:`inner_products`."""
    lanes = np.zeros(8)
    for start in range(0, len(centroid), 8):
        delta = vector[start : start + 8].astype(np.float64) - centroid[start : start + 8]
        lanes[: len(delta)] += delta * delta
    return float(_sum_of_lanes(lanes))


_EXP_POLYNOMIAL = (
    2.5100375832561234e-08,
    2.7620075879983367e-07,
    2.7557268480310024e-06,
    2.4801521322368692e-05,
    0.00019841269863040545,
    0.0013888888917196719,
    0.008333333333330065,
    0.041666666666624164,
    0.16666666666666669,
    0.5000000000000001,
)


def exp_of_negative(x: Floats) -> Floats:
    """exp(x) for -703 <= x <= 0 (below, exp(-703)): Cody and Waite's reduction, then
    1 + r + r^2 q(r), where q interpolates in Chebyshev nodes.

    Tests compare it with the exponential of longer floats.
    """
    clamped = np.maximum(x, -703.0)
    k = np.rint(clamped * 1.4426950408889634074)
    r = (clamped - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    q = np.full_like(r, _EXP_POLYNOMIAL[0])
    for coefficient in _EXP_POLYNOMIAL[1:]:
        q = q * r + coefficient
    e = (q * r) * r + r + 1.0
    result: Floats = np.ldexp(e, k.astype(np.int64))
    return result


def _faded(strength: Floats, factor: Floats) -> Floats:
    left = strength * factor
    return np.where(left < 1e-305, 0.0, left)


def ramp(similarity: Floats, start: float, end: float) -> Floats:
    """0 up to ``start``, 1 from ``end`` on, linear between; equal values: 1 everywhere."""
    if not end > start:
        return np.ones_like(similarity)
    return np.clip((similarity - start) * (1.0 / (end - start)), 0.0, 1.0)


# -- moments -------------------------------------------------------------------------------------


class ReferenceMoments:
    """Welford's update and Chan's merge, of one stream or of many at once."""

    def __init__(self, count: int = 0, mean: Any = 0.0, m2: Any = 0.0) -> None:
        self.count = count
        self.mean = np.array(mean, dtype=np.float64)
        self.m2 = np.array(m2, dtype=np.float64)

    def update(self, value: Any) -> None:
        self.count += 1
        delta = np.asarray(value, dtype=np.float64) - self.mean
        self.mean = self.mean + delta * (1.0 / self.count)
        self.m2 = self.m2 + delta * (np.asarray(value, dtype=np.float64) - self.mean)

    def merge(self, other: ReferenceMoments) -> None:
        if other.count == 0:
            return
        delta = other.mean - self.mean
        share = other.count / (self.count + other.count)
        self.mean = self.mean + delta * share
        self.m2 = self.m2 + (other.m2 + delta * delta * (self.count * share))
        self.count += other.count

    @property
    def variance(self) -> Any:
        return self.m2 / (self.count - 1) if self.count > 1 else np.zeros_like(self.m2)


def moments_of(values: NDArray[Any]) -> ReferenceMoments:
    """Of all values (rows) at once, by the definition of mean and squared deviations."""
    wide = np.asarray(values, dtype=np.float64)
    if not len(wide):
        return ReferenceMoments(0, np.zeros(wide.shape[1:]), np.zeros(wide.shape[1:]))
    mean = wide.mean(axis=0)
    return ReferenceMoments(len(wide), mean, ((wide - mean) ** 2).sum(axis=0))


def standard_score(value: float, stream: Sequence[float], relative_sd_floor: float = 0.0) -> float:
    """z of a value against a stream of earlier ones; 0 before there are two."""
    if len(stream) < 2:
        return 0.0
    sd = max(float(np.std(stream, ddof=1)), relative_sd_floor * abs(float(np.mean(stream))), 1e-6)
    return (value - float(np.mean(stream))) / sd


def temporal_novelty(ages: Sequence[float | None], days: float) -> float:
    """Mean of ``1 - exp(-age / days)`` over tags, by seconds since each was seen; None: never."""
    if not ages:
        return 0.0
    terms = [
        1.0 if age is None else 1.0 - math.exp(-max(age, 0.0) / (days * SECONDS_PER_DAY))
        for age in ages
    ]
    return sum(terms) / len(terms)


# -- engine --------------------------------------------------------------------------------------


class ReferenceHits(NamedTuple):
    """The result of a search for one query; the fields of ``SearchResult``."""

    ids: NDArray[np.int64]
    scores: Floats
    similarities: Floats
    cosines: Floats
    vividness_bonus: Floats
    recency_bonus: Floats


class ReferenceEngine:
    """The laws over the columns of :meth:`flashbulb.Engine.state`, which it copies.

    Rows are those of the state: live ones only, in ascending order of ids.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.policy = Policy(**state["policy"])
        self.state = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in state.items()
        }

    def rows_of(self, ids: Iterable[int]) -> list[int]:
        place = {int(memory_id): row for row, memory_id in enumerate(self.state["ids"])}
        return [place[int(memory_id)] for memory_id in ids]

    # The laws, for all rows at once.

    def vividness(self, now: float) -> Floats:
        """Decay in the policy's law from each row's anchor."""
        policy, s = self.policy, self.state
        if policy.decay_law == "asymptotic":
            rate = np.full(len(s["ids"]), policy.asymptotic_decay_rate_per_day)
        else:
            damping = policy.decay_salience_damping * s["salience"]
            rate = policy.decay_rate_per_day * (1.0 - damping)
        rate = np.where(s["pinned"], 0.0, rate / SECONDS_PER_DAY)
        factor = exp_of_negative(-rate * np.maximum(now - s["vividness_time"], 0.0))
        if policy.decay_law == "asymptotic":
            faded = s["floor"] + _faded(s["vividness"] - s["floor"], factor)
            return np.asarray(np.minimum(faded, s["vividness"]))
        return np.asarray(np.maximum(_faded(s["vividness"], factor), s["floor"]))

    def effective_vividness(self, now: float) -> Floats:
        """Vividness with the task terms (Zeigarnik)."""
        policy, s = self.policy, self.state
        v = self.vividness(now)
        with np.errstate(invalid="ignore"):  # urgency is NaN where there is no task
            shifted = np.select(
                [s["status"] == OPEN, s["status"] == COMPLETED],
                [v + policy.open_task_boost * s["urgency"], v - policy.completed_task_penalty],
                v,
            )
        return np.asarray(np.minimum(np.maximum(shifted, s["floor"]), 1.0))

    def bonus(
        self, now: float, vividness_weight: float, recency_weight: float
    ) -> tuple[Floats, Floats]:
        """Both bonus terms before any ramp."""
        policy, s = self.policy, self.state
        salience = np.where(
            s["status"] == OPEN,
            np.fmax(s["salience"], policy.open_task_salience * s["urgency"]),
            s["salience"],
        )
        vivid = vividness_weight * self.effective_vividness(now) * salience
        latest = np.fmax(s["created"], s["last_access"])
        age = np.maximum(now - latest, 0.0)
        return vivid, recency_weight * exp_of_negative(
            -age * (1.0 / (policy.recency_days * SECONDS_PER_DAY))
        )

    def passes(
        self,
        *,
        tags: Sequence[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        also: Iterable[int] | None = None,
        status: str | None = None,
        allowed: Iterable[int] | None = None,
    ) -> NDArray[np.bool_]:
        """Which rows pass the filters of a search."""
        s = self.state
        exempt = set() if also is None else set(map(int, also))
        named = None if allowed is None else set(map(int, allowed))
        result = np.zeros(len(s["ids"]), np.bool_)
        for row, memory_id in enumerate(map(int, s["ids"])):
            created = s["created"][row]
            inside = (since is None or since <= created) and (until is None or created < until)
            result[row] = (
                (inside or memory_id in exempt)
                and (named is None or memory_id in named)
                and (status is None or s["status"][row] == _STATUS[status])
                and set(tags or ()) <= set(s["tags"][row])
            )
        return result

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        *,
        now: float,
        similarity_weight: float = 1.0,
        addends: tuple[Iterable[int], Iterable[float]] | None = None,
        vividness_weight: float | None = None,
        recency_weight: float | None = None,
        vividness_ramp: tuple[float, float] | None = None,
        **filters: Any,
    ) -> ReferenceHits:
        """Brute force over all rows for one unit query."""
        policy, s = self.policy, self.state
        addend = np.zeros(len(s["ids"]))
        if addends is not None:
            given = {int(i): float(value) for i, value in zip(*addends, strict=True)}
            addend = np.array([given.get(int(i), 0.0) for i in s["ids"]], np.float64)
        cosines = inner_products(query, s["vectors"])
        similarities = similarity_weight * cosines + addend
        vivid, recent = self.bonus(
            now,
            policy.vividness_weight if vividness_weight is None else vividness_weight,
            policy.recency_weight if recency_weight is None else recency_weight,
        )
        own = (policy.vividness_ramp_start, policy.vividness_ramp_end)
        vivid = vivid * ramp(similarities, *(vividness_ramp or own))
        recent = recent * ramp(similarities, policy.recency_ramp_start, policy.recency_ramp_end)
        scores = (similarities + vivid) + recent
        rows = np.flatnonzero(self.passes(**filters))
        best = rows[np.lexsort((s["ids"][rows], -scores[rows]))][:k]
        return ReferenceHits(
            s["ids"][best],
            scores[best],
            similarities[best],
            cosines[best],
            vivid[best],
            recent[best],
        )

    # What changes strength, row by row.

    def _anchor(self, row: int, vividness: float, now: float) -> None:
        self.state["vividness"][row] = vividness
        self.state["vividness_time"][row] = max(self.state["vividness_time"][row], now)

    def _strength_may_move(self, row: int, now: float) -> bool:
        last = self.state["last_strength_change"][row]
        return math.isnan(last) or max(now - last, 0.0) >= self.policy.strength_interval_seconds

    def strengthen(self, ids: Iterable[int], gain: float, now: float) -> None:
        for row in self.rows_of(ids):
            if self._strength_may_move(row, now):
                self._anchor(row, min(self.vividness(now)[row] + gain, 1.0), now)
                self.state["last_strength_change"][row] = now

    def touch(self, ids: Iterable[int], now: float) -> None:
        policy, s = self.policy, self.state
        for row in self.rows_of(ids):
            gain = policy.access_boost * (1.0 + policy.access_salience_gain * s["salience"][row])
            self.strengthen([s["ids"][row]], gain, now)
            s["access_count"][row] += 1
            s["last_access"][row] = np.fmax(s["last_access"][row], now)

    def suppress(
        self, accessed: Iterable[int], related: Iterable[int] | None, now: float
    ) -> list[int]:
        """Retrieval-induced forgetting; the ids whose strength moved."""
        policy, s = self.policy, self.state
        own = self.rows_of(accessed)
        others = range(len(s["ids"])) if related is None else self.rows_of(related)
        moved = []
        for row in sorted(set(others) - set(own)):
            if not own:
                break
            cosine = float(inner_products(s["vectors"][row], s["vectors"][own]).max())
            if (
                cosine > policy.rif_similarity
                and s["salience"][row] <= policy.rif_max_salience
                and not s["pinned"][row]
                and self._strength_may_move(row, now)
            ):
                lowered = self.vividness(now)[row] - policy.rif_strength * cosine
                self._anchor(row, max(lowered, s["floor"][row]), now)
                s["last_strength_change"][row] = now
                moved.append(int(s["ids"][row]))
        return moved

    def complete(self, ids: Iterable[int], now: float) -> None:
        policy, s = self.policy, self.state
        for row in self.rows_of(ids):
            if s["status"][row] == COMPLETED:
                continue
            self._anchor(row, self.vividness(now)[row], now)
            s["status"][row] = COMPLETED
            s["pinned"][row] = False
            if policy.completion_lowers_floor:  # 0.7 to 0.4 to 0
                is_highest = s["floor"][row] >= policy.flashbulb_floor
                s["floor"][row] = policy.important_floor if is_highest else 0.0

    def pin(self, ids: Iterable[int], now: float) -> None:
        for row in self.rows_of(ids):
            self.state["pinned"][row] = True
            self._anchor(row, 1.0, now)

    def unpin(self, ids: Iterable[int], now: float) -> None:
        s = self.state
        for row in self.rows_of(ids):
            if s["pinned"][row]:
                s["pinned"][row] = False
                self._anchor(row, s["vividness"][row], now)

    def decay(self, now: float) -> None:
        for row, vividness in enumerate(self.vividness(now)):
            self._anchor(row, vividness, now)

    def remove(self, ids: Iterable[int]) -> None:
        gone = set(map(int, ids))
        kept = [row for row, i in enumerate(map(int, self.state["ids"])) if i not in gone]
        rows = len(self.state["ids"])
        for name, value in self.state.items():
            if isinstance(value, np.ndarray) and len(value) == rows:
                self.state[name] = value[kept]
        self.state["tags"] = [self.state["tags"][row] for row in kept]
