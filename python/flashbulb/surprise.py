"""Surprise: how unusual an event is against what the stream has shown, by Welford statistics."""

from __future__ import annotations

import json
import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._check import check_count, check_tags
from flashbulb._columns import to_unit_rows
from flashbulb._lookahead import CentroidLookahead, Lookahead, NeighbourLookahead, Seen
from flashbulb._time import Time, to_seconds
from flashbulb.engine import Engine
from flashbulb.policy import Policy

__all__ = ["Surprise", "SurpriseDetector", "SurpriseMode", "standard_score"]

SurpriseMode = Literal["centroid", "neighbours"]

_SECONDS_PER_DAY = 86_400.0

# Distances of float32 unit vectors are no finer than this: a stream of equal texts has a standard
# deviation of rounding errors, in which the next rounding error would look like an event.
_SMALLEST_SD = 1e-6

# Of a state that is read: float64 counts no further, and rounding may add so much to a bound.
_MOST_SAMPLES = 2**53
_SLACK = 1.001


class Surprise(NamedTuple):
    """What one event is against the stream before it."""

    z: float
    """The score that the policy's threshold applies to; 0 while there are no statistics."""
    raw_z: float
    """(distance - mean) / sd of the distances so far."""
    distance: float
    """L2 distance to the centroid, or mean L2 distance to the nearest memories, in [0, 2]."""
    temporal: float
    """Temporal novelty T of the tags, in [0, 1]."""
    importance: float
    """0.6 · sigmoid(z) + 0.4 · T, with the policy's weights, in [0, 1]."""


def standard_score(value: float, moments: _core.Moments, relative_sd_floor: float = 0.0) -> float:
    """z = (value - mean) / sd of a stream; 0 before it has two values.

    The standard deviation (of the sample, n - 1) counts as at least ``relative_sd_floor`` times
    the mean, and at least 1e-6.
    """
    if moments.count < 2:
        return 0.0
    sd = max(math.sqrt(moments.variance), relative_sd_floor * abs(moments.mean), _SMALLEST_SD)
    return (value - moments.mean) / sd


class SurpriseDetector:
    """Surprise of a stream of unit vectors with tags.

    Parameters
    ----------
    mode : {"centroid", "neighbours"}
        Whether the distance is that to the running centroid of the stream, or the mean distance to
        the nearest memories (``policy.surprise_neighbours`` of them).
    policy : Policy
    engine : Engine, optional
        Holds the memories for mode ``neighbours``; whoever owns it adds an event there after it
        was observed here. Without one the detector keeps the vectors of the stream itself.

    Notes
    -----
    An event is scored *before* it enters the statistics. Not synchronised.
    """

    def __init__(
        self,
        mode: SurpriseMode = "centroid",
        *,
        policy: Policy | None = None,
        engine: Engine | None = None,
    ) -> None:
        if mode not in ("centroid", "neighbours"):
            raise ValueError(f"mode must be 'centroid' or 'neighbours', got {mode!r}")
        self.mode: SurpriseMode = mode
        self.policy = Policy() if policy is None else policy
        self.last_seen: MutableMapping[str, float] = {}
        """Epoch seconds of the last event with each tag."""
        self._moments = _core.Moments()
        self._centroid: _core.Centroid | None = None
        self._engine = engine
        self._own_engine = False

    @property
    def samples(self) -> int:
        """How many distances the statistics hold."""
        return self._moments.count

    def score(self, vector: ArrayLike, tags: Sequence[str], now: Time) -> Surprise:
        """Surprise of an event; changes nothing.

        Parameters
        ----------
        vector : (dim,) array of floats
            Normalised to unit length here.
        tags : sequence of str
        now : time

        Raises
        ------
        ValueError
            If the vector is not finite or zero.
        DimensionMismatch
            If it has another number of dimensions than the ones before.
        """
        return self.judge(self._seen(self._unit(vector)), tags, now)

    def update(self, vector: ArrayLike, tags: Sequence[str], now: Time) -> None:
        """Takes an event into the statistics."""
        unit = self._unit(vector)
        self._update(unit, self._seen(unit), tags, now)

    def observe(self, vector: ArrayLike, tags: Sequence[str], now: Time) -> Surprise:
        """Scores an event, then takes it into the statistics."""
        unit = self._unit(vector)
        seen = self._seen(unit)
        surprise = self.judge(seen, tags, now)
        self._update(unit, seen, tags, now)
        return surprise

    def look_ahead(self, vectors: ArrayLike) -> Lookahead:
        """Look up the events of a batch in one pass over what was seen.

        Each ``next()`` of the result is to be judged and taken before the next, and told which
        memory it became. In mode ``centroid`` the vectors count as taken at once: look ahead from
        a :meth:`copy`, and drop it if the batch fails.

        Parameters
        ----------
        vectors : (n, dim) array of floats
            Normalised to unit length here.
        """
        rows = to_unit_rows(vectors, self._dim, "vectors")
        if self.mode == "centroid":
            centroid = self._centroid_for(rows) if len(rows) else _core.Centroid(rows.shape[1])
            return CentroidLookahead(centroid, rows)
        if self._engine is None or self._own_engine:
            raise ValueError("looking ahead for neighbours needs the engine of the memories")
        nearest = self.policy.surprise_neighbours
        return NeighbourLookahead(self._engine, rows, nearest, np.reshape(vectors, rows.shape))

    def judge(self, seen: Seen, tags: Sequence[str], now: Time) -> Surprise:
        """Surprise of an event that was looked up; changes nothing."""
        moment = to_seconds(now, "now")
        raw_z = (
            0.0
            if seen.distance is None
            else standard_score(
                seen.distance, self._moments, self.policy.surprise_relative_sd_floor
            )
        )
        temporal = self._temporal_novelty(check_tags(tags), moment)
        importance = (
            self.policy.importance_surprise_weight * _sigmoid(raw_z)
            + self.policy.importance_novelty_weight * temporal
        )
        return Surprise(raw_z, raw_z, seen.distance or 0.0, temporal, min(importance, 1.0))

    def take(self, seen: Seen, tags: Sequence[str], now: Time) -> None:
        """Takes an event that was looked up ahead into the statistics."""
        moment = to_seconds(now, "now")
        names = check_tags(tags)
        if seen.distance is not None:
            self._moments.update(seen.distance)
        for tag in names:
            self.last_seen[tag] = max(moment, self.last_seen.get(tag, -math.inf))

    def is_flashbulb(self, surprise: Surprise) -> bool:
        """Whether it lies beyond the threshold of a stream that has enough samples."""
        return self._has_enough() and surprise.z >= self.policy.surprise_threshold

    def salience(self, surprise: Surprise) -> float:
        """What surprise alone contributes to salience: ``min(m · g(z), 0.5)``.

        ``g`` rises linearly from 0 to 1 over the last unit of z before the threshold.
        """
        if not self._has_enough():
            return 0.0
        nearness = min(max(surprise.z - (self.policy.surprise_threshold - 1.0), 0.0), 1.0)
        importance = 1.0 if self.is_flashbulb(surprise) else surprise.importance
        return min(importance * nearness, self.policy.surprise_max_salience)

    def copy(self) -> SurpriseDetector:
        """A trial that can be updated event by event and dropped if storing them fails.

        It looks up in this one what it has not seen itself, so that it costs what it changes;
        :meth:`settle` ends that. Until then this one must stay as it is.
        """
        twin = SurpriseDetector(self.mode, policy=self.policy, engine=self._engine)
        if self._own_engine and self._engine is not None:
            twin._engine, twin._own_engine = (
                Engine.from_state(self._engine.state(), approximate=False),
                True,
            )
        twin.last_seen = ChainMap({}, self.last_seen)
        twin._moments = self._moments.copy()
        twin._centroid = None if self._centroid is None else self._centroid.copy()
        return twin

    def settle(self) -> None:
        """Put a trial in the place of the detector that it was copied from."""
        if isinstance(self.last_seen, ChainMap):
            changes, known = self.last_seen.maps
            known.update(changes)
            self.last_seen = known

    def state(self) -> bytes:
        """The statistics, exactly; ``last_seen`` and the memories are kept by the caller."""
        centroid = self._centroid
        header: dict[str, Any] = {
            "mode": self.mode,
            "moments": [self._moments.count, self._moments.mean, self._moments.m2],
            "centroid": None if centroid is None else [centroid.count, centroid.dim],
        }
        parts = [json.dumps(header).encode(), b"\n"]
        if centroid is not None:
            parts += [centroid.mean.astype("<f8").tobytes(), centroid.m2.astype("<f8").tobytes()]
        return b"".join(parts)

    @classmethod
    def from_state(
        cls,
        data: bytes,
        *,
        last_seen: Mapping[str, float],
        policy: Policy | None = None,
        engine: Engine | None = None,
    ) -> SurpriseDetector:
        """A detector from :meth:`state`.

        Raises
        ------
        ValueError
            If the data are not the state of a detector: no stream of unit vectors (of the
            engine's dimensions, if there is one) has such statistics.
        """
        head, separator, tail = data.partition(b"\n")
        try:
            header = json.loads(head)
            detector = cls(header["mode"], policy=policy, engine=engine)
            detector._moments = _moments_of(*header["moments"])
            if header["centroid"] is not None:
                count, dim = header["centroid"]
                if engine is not None and dim != engine.dim:
                    raise ValueError(f"expected {engine.dim} dimensions, got {dim}")
                detector._centroid = _centroid_of(count, dim, np.frombuffer(tail, "<f8"))
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"not the state of a surprise detector: {error}") from error
        if not separator:
            raise ValueError("not the state of a surprise detector: it is cut short")
        detector.last_seen = dict(last_seen)
        return detector

    # -- within ----------------------------------------------------------------------------------

    def _has_enough(self) -> bool:
        return self._moments.count >= self.policy.surprise_min_samples

    @property
    def _dim(self) -> int | None:
        known = self._engine if self.mode == "neighbours" else self._centroid
        return None if known is None else known.dim

    def _unit(self, vector: ArrayLike) -> NDArray[np.float32]:
        if np.ndim(vector) != 1:
            raise ValueError(f"vector must have one dimension, got shape {np.shape(vector)}")
        return to_unit_rows(vector, self._dim, "vector")

    def _centroid_for(self, rows: NDArray[np.float32]) -> _core.Centroid:
        if self._centroid is None:
            self._centroid = _core.Centroid(rows.shape[1])
        return self._centroid

    def _seen(self, row: NDArray[np.float32]) -> Seen:
        """A (1, dim) row against what was seen before."""
        if self.mode == "neighbours":
            if self._engine is None:
                return Seen(None)
            return NeighbourLookahead(self._engine, row, self.policy.surprise_neighbours).next()
        if self._centroid is None or self._centroid.count == 0:
            return Seen(None)
        return Seen(self._centroid.distance(row[0]))

    def _update(self, row: NDArray[np.float32], seen: Seen, tags: Sequence[str], now: Time) -> None:
        self.take(seen, tags, now)
        if self.mode == "centroid":
            self._centroid_for(row).update(row)
        elif self._engine is None or self._own_engine:
            if self._engine is None:
                self._engine, self._own_engine = (
                    Engine(row.shape[1], policy=self.policy, approximate=False),
                    True,
                )
            self._engine.add(row, now=now)

    def _temporal_novelty(self, tags: tuple[str, ...], now: float) -> float:
        if not tags:
            return 0.0
        scale = self.policy.novelty_days * _SECONDS_PER_DAY
        total = 0.0
        for tag in tags:
            seen = self.last_seen.get(tag)
            total += 1.0 if seen is None else -math.expm1(-max(now - seen, 0.0) / scale)
        return total / len(tags)


def _moments_of(count: int, mean: float, m2: float) -> _core.Moments:
    """The statistics of distances of unit vectors: each, and so each deviation, is at most 2."""
    _check_samples(count)
    if not (0.0 <= mean <= 2.0 * _SLACK and 0.0 <= m2 <= 4.0 * count * _SLACK):
        raise ValueError(f"no {count} distances in [0, 2] have the mean {mean} and m2 {m2}")
    return _core.Moments(count, float(mean), float(m2))


def _centroid_of(count: int, dim: int, values: NDArray[np.float64]) -> _core.Centroid:
    """The statistics of unit vectors: no mean is longer than 1, nor is m2 / count wider."""
    _check_samples(count)
    if len(values) != 2 * dim:
        raise ValueError(f"expected {2 * dim} values, got {len(values)}")
    mean, m2 = values[:dim], values[dim:]
    if not (np.abs(mean) <= _SLACK).all() or not np.linalg.norm(mean) <= _SLACK:
        raise ValueError("no unit vectors have such a mean")
    if not ((m2 >= 0.0).all() and m2.sum() <= count * _SLACK):
        raise ValueError("no unit vectors have such an m2")
    return _core.Centroid(count, mean.tolist(), m2.tolist())


def _check_samples(count: int) -> None:
    if check_count(count, "count") > _MOST_SAMPLES:
        raise ValueError(f"count must be at most {_MOST_SAMPLES}, got {count}")


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))
