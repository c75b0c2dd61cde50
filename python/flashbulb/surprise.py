"""Surprise: how unusual an event is against what the stream has shown."""

from __future__ import annotations

import json
import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._calibration import DISTANCES, SLACK, SUMS, Scale, check_samples, standard_score
from flashbulb._check import (
    check_count,
    check_dim,
    check_mapping,
    check_tags,
    check_text,
    is_one_of,
)
from flashbulb._columns import to_unit_rows
from flashbulb._lookahead import CentroidLookahead, Lookahead, NeighbourLookahead, Seen
from flashbulb._time import Time, to_seconds
from flashbulb.engine import Engine
from flashbulb.policy import Policy

__all__ = ["Surprise", "SurpriseDetector", "SurpriseMode", "standard_score"]

SurpriseMode = Literal["centroid", "neighbours", "combined"]

_SECONDS_PER_DAY = 86_400.0
_SCALE_BYTES = 5_000  # the bins of a histogram, and what is around them
_TAG_BYTES = 180  # a digest as text, a time, their place in the dictionary

# The distances that a mode looks at.
_PARTS: dict[str, tuple[str, ...]] = {
    "centroid": ("centroid",),
    "neighbours": ("neighbours",),
    "combined": ("centroid", "neighbours"),
}


class Surprise(NamedTuple):
    """What one event is against the stream before it."""

    z: float
    """The score that the policy's threshold applies to, in the policy's form; 0 while there are no
    statistics."""
    raw_z: float
    """The raw form of it: (distance - mean) / sd of the distances so far."""
    distance: float
    """L2 distance to the centroid, or mean L2 distance to the nearest memories, in [0, 2]. In mode
    ``combined`` the mean of both."""
    temporal: float
    """Temporal novelty T of the tags, in [0, 1]."""
    importance: float
    """0.6 · sigmoid(z) + 0.4 · T, with the policy's weights, in [0, 1]."""


class SurpriseDetector:
    """Surprise of a stream of unit vectors with tags.

    Parameters
    ----------
    mode : {"centroid", "neighbours", "combined"}
        Whether the distance is that to the running centroid of the stream, or the mean distance to
        the nearest memories (``policy.surprise_neighbours`` of them), or whether the z of both are
        summed, and their sum is measured against the stream of such sums. A ``Memory`` takes the
        last, which finds most; the first needs no memories.
    policy : Policy
        Its ``surprise_form`` says what z is: see :class:`Policy`.
    engine : Engine, optional
        Holds the memories for the nearest of them; whoever owns it adds an event there after it
        was observed here. Without one the detector keeps the vectors of the stream itself.

    Notes
    -----
    An event is scored *before* it enters the statistics. Not synchronised.

    A lasting shift of topic is soon the new measure: in the calibrated form, of all modes, the
    flashbulbs end within 300 events.
    """

    def __init__(
        self,
        mode: SurpriseMode = "centroid",
        *,
        policy: Policy | None = None,
        engine: Engine | None = None,
    ) -> None:
        if not is_one_of(mode, get_args(SurpriseMode)):
            expected = ", ".join(map(repr, get_args(SurpriseMode)))
            raise ValueError(f"mode must be one of {expected}, got {mode!r:.80}")
        _check_parts(policy, engine)
        self.mode: SurpriseMode = mode
        self.policy = Policy() if policy is None else policy
        self.last_seen: MutableMapping[str, float] = {}
        """Epoch seconds of the last event with each tag."""
        self._scales = {name: Scale(DISTANCES, mode == "combined") for name in _PARTS[mode]}
        if mode == "combined":
            self._scales[mode] = Scale(SUMS)
        self._centroid: _core.Centroid | None = None
        self._engine = engine
        self._own_engine = False

    @property
    def samples(self) -> int:
        """How many distances the statistics hold."""
        return self._scales[_PARTS[self.mode][0]].moments.count

    @property
    def memory_bytes(self) -> int:
        """About what the statistics take in RAM, without the memories."""
        centroid = 0 if self._centroid is None else 16 * self._centroid.dim
        return centroid + _SCALE_BYTES * len(self._scales) + _TAG_BYTES * len(self.last_seen)

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
        centroid = neighbours = None
        if "neighbours" in self._scales:
            if self._engine is None or self._own_engine:
                raise ValueError("looking ahead for neighbours needs the engine of the memories")
            nearest = self.policy.surprise_neighbours
            given = np.reshape(vectors, rows.shape)
            neighbours = NeighbourLookahead(self._engine, rows, nearest, given)
        if "centroid" in self._scales:
            running = self._centroid_for(rows) if len(rows) else _core.Centroid(rows.shape[1])
            centroid = CentroidLookahead(running, rows)
        return Lookahead(centroid, neighbours)

    def judge(self, seen: Seen, tags: Sequence[str], now: Time) -> Surprise:
        """Surprise of an event that was looked up; changes nothing."""
        _check_kind(seen, "seen", Seen)
        moment = to_seconds(now, "now")
        distances = self._known(seen)
        z, raw_z = self._scores(distances)
        temporal = self._temporal_novelty(check_tags(tags), moment)
        importance = (
            self.policy.importance_surprise_weight * _sigmoid(z)
            + self.policy.importance_novelty_weight * temporal
        )
        distance = sum(distances.values()) / len(distances) if distances else 0.0
        return Surprise(z, raw_z, distance, temporal, min(importance, 1.0))

    def take(self, seen: Seen, tags: Sequence[str], now: Time) -> None:
        """Takes an event that was looked up ahead into the statistics."""
        _check_kind(seen, "seen", Seen)
        moment = to_seconds(now, "now")
        names = check_tags(tags)
        distances = self._known(seen)
        for name, (raw, calibrated) in self._values(distances).items():
            self._scales[name].take(raw, calibrated, self.policy)
        for tag in names:
            self.last_seen[tag] = max(moment, self.last_seen.get(tag, -math.inf))

    def is_flashbulb(self, surprise: Surprise) -> bool:
        """Whether it lies beyond the threshold of a stream that has enough samples."""
        _check_kind(surprise, "surprise", Surprise)
        return self._has_enough() and surprise.z >= self.policy.surprise_z()

    def salience(self, surprise: Surprise) -> float:
        """What surprise alone contributes to salience: ``min(m · g(z), 0.5)``.

        ``g`` rises linearly from 0 to 1 over the last unit of z before the threshold.
        """
        _check_kind(surprise, "surprise", Surprise)
        if not self._has_enough():
            return 0.0
        nearness = min(max(surprise.z - (self.policy.surprise_z() - 1.0), 0.0), 1.0)
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
        twin._scales = {name: scale.copy() for name, scale in self._scales.items()}
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
        scales = {name: scale.state() for name, scale in self._scales.items()}
        centroid = self._centroid
        header: dict[str, Any] = {
            "mode": self.mode,
            "centroid": None if centroid is None else [centroid.count, centroid.dim],
            "scales": {name: head for name, (head, _) in scales.items()},
        }
        values = [] if centroid is None else [centroid.mean, centroid.m2]
        values += [weights for _, weights in scales.values()]
        return json.dumps(header).encode() + b"\n" + np.concatenate(values).astype("<f8").tobytes()

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
        if not isinstance(data, bytes):
            raise TypeError(f"data must be bytes, got {type(data).__name__}")
        seen = {
            check_text(tag, "a tag of last_seen"): to_seconds(time, "a time of last_seen")
            for tag, time in check_mapping(last_seen, "last_seen").items()
        }
        _check_parts(policy, engine)
        head, separator, tail = data.partition(b"\n")
        try:
            header = json.loads(head)
            detector = cls(header["mode"], policy=policy, engine=engine)
            values = np.frombuffer(tail, "<f8")
            if header["centroid"] is not None:
                count, dim = header["centroid"]
                if engine is not None and dim != engine.dim:
                    raise ValueError(f"expected {engine.dim} dimensions, got {dim}")
                mine, values = _split(values, 2 * check_dim(dim))
                detector._centroid = _centroid_of(count, mine)
            if "moments" in header:  # of a version that knew the raw form of one distance only
                (scale,) = detector._scales.values()
                scale.restore_moments(*header["moments"])
            else:
                for name, scale in detector._scales.items():
                    part = header["scales"][name]
                    first, last = (check_count(bin, "bin") for bin in part["recent"]["bins"])
                    mine, values = _split(values, last - first)
                    scale.restore_moments(*part["moments"])
                    scale.recent.restore(part["recent"], mine)
            if len(values):
                raise ValueError(f"expected no more, got {len(values)} values")
        except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"not the state of a surprise detector: {error}") from error
        if not separator:
            raise ValueError("not the state of a surprise detector: it is cut short")
        detector.last_seen = seen
        return detector

    # -- within ----------------------------------------------------------------------------------

    def _has_enough(self) -> bool:
        scale = self._scales[self.mode]
        is_raw = self.policy.surprise_form == "raw"
        count = scale.moments.count if is_raw else scale.recent.count
        return count >= self.policy.surprise_min_samples

    def _known(self, seen: Seen) -> dict[str, float]:
        """The distances that this mode looks at, as far as there are any."""
        found = {"centroid": seen.to_centroid, "neighbours": seen.to_neighbours}
        return {
            name: distance for name in _PARTS[self.mode] if (distance := found[name]) is not None
        }

    def _values(self, distances: Mapping[str, float]) -> dict[str, tuple[float, float]]:
        """What each scale measures, raw and calibrated: distances, and the sum of their z.

        There is a sum as soon as both have some statistics: a third of what a flashbulb needs.
        """
        values = {name: (distance, distance) for name, distance in distances.items()}
        least = self.policy.surprise_min_samples // 3
        parts = [self._scales[name] for name in distances]
        if len(parts) == 2 and all(scale.recent.count >= least for scale in parts):
            pairs = list(zip(parts, distances.values(), strict=True))
            values["combined"] = (
                sum(scale.raw(distance, self.policy) for scale, distance in pairs),
                sum(scale.calibrated(distance, self.policy, least) for scale, distance in pairs),
            )
        return values

    def _scores(self, distances: Mapping[str, float]) -> tuple[float, float]:
        """z in the form of the policy, and raw; 0 while there are no statistics."""
        value = self._values(distances).get(self.mode)
        if value is None:
            return 0.0, 0.0
        scale = self._scales[self.mode]
        raw = scale.raw(value[0], self.policy)
        if self.policy.surprise_form == "raw":
            return raw, raw
        return scale.calibrated(value[1], self.policy, self.policy.surprise_min_samples), raw

    @property
    def _dim(self) -> int | None:
        known = self._centroid if self._engine is None else self._engine
        return None if known is None else known.dim

    def _unit(self, vector: ArrayLike) -> NDArray[np.float32]:
        unit = to_unit_rows(vector, self._dim, "vector")
        if np.ndim(vector) != 1:
            raise ValueError(f"vector must have one dimension, got shape {np.shape(vector)}")
        return unit

    def _centroid_for(self, rows: NDArray[np.float32]) -> _core.Centroid:
        if self._centroid is None:
            self._centroid = _core.Centroid(rows.shape[1])
        return self._centroid

    def _seen(self, row: NDArray[np.float32]) -> Seen:
        """A (1, dim) row against what was seen before."""
        seen = Seen()
        if "neighbours" in self._scales and self._engine is not None:
            nearest = self.policy.surprise_neighbours
            seen = NeighbourLookahead(self._engine, row, nearest).next()
        if self._centroid is not None and self._centroid.count:
            seen = seen._replace(to_centroid=self._centroid.distance(row[0]))
        return seen

    def _update(self, row: NDArray[np.float32], seen: Seen, tags: Sequence[str], now: Time) -> None:
        self.take(seen, tags, now)
        if "centroid" in self._scales:
            self._centroid_for(row).update(row)
        if "neighbours" in self._scales and (self._engine is None or self._own_engine):
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


def _check_parts(policy: object, engine: object) -> None:
    for name, value, kind in (("policy", policy, Policy), ("engine", engine, Engine)):
        if value is not None and not isinstance(value, kind):
            wanted = f"{name} must be {kind.__name__} or None"
            raise TypeError(f"{wanted}, got {type(value).__name__}")


def _check_kind(value: object, name: str, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


def _split(
    values: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not 0 <= count <= len(values):
        raise ValueError(f"expected {count} values, got {len(values)}")
    return values[:count], values[count:]


def _centroid_of(count: int, values: NDArray[np.float64]) -> _core.Centroid:
    """The statistics of unit vectors: no mean is longer than 1, nor is m2 / count wider."""
    check_samples(count)
    mean, m2 = np.split(values, 2)
    if not (np.abs(mean) <= SLACK).all() or not np.linalg.norm(mean) <= SLACK:
        raise ValueError("no unit vectors have such a mean")
    if not ((m2 >= 0.0).all() and m2.sum() <= count * SLACK):
        raise ValueError("no unit vectors have such an m2")
    return _core.Centroid(count, mean.tolist(), m2.tolist())


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))
