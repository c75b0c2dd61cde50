"""How unusual a number is in its stream: by all of it (raw), or by its recent inner quantiles."""

from __future__ import annotations

import math
from copy import copy
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb._check import check_count
from flashbulb.policy import Policy

__all__ = [
    "DISTANCES",
    "SLACK",
    "SUMS",
    "RecentQuantiles",
    "Scale",
    "check_samples",
    "standard_score",
]

# Distances of float32 unit vectors are no finer than this: a stream of equal texts has a standard
# deviation of rounding errors, in which the next rounding error would look like an event.
_SMALLEST_SD = 1e-6

# The tail is a line, in normal deviates, through these quantiles of the stream: of the inner ones
# those towards the tail, because the distributions of distances bend.
_LEVELS = np.linspace(0.75, 0.95, 9)
_DEVIATES = np.array([NormalDist().inv_cdf(level) for level in _LEVELS])
_CENTRED = _DEVIATES - _DEVIATES.mean()
_TO_SPREAD = _CENTRED / (_CENTRED @ _CENTRED)
_TO_LEVEL = 1.0 / len(_LEVELS) - _DEVIATES.mean() * _TO_SPREAD

# A tail is known by two of its quantiles: in the middle of these levels, and at the top 1 %.
_MIDDLE, _TOP = float(_DEVIATES.mean()), NormalDist().inv_cdf(0.99)
_PART_LEVELS = np.array([NormalDist().cdf(_MIDDLE), 0.99])

# A tail that is heavier than the line is a log-normal one (Tukey's g) through these quantiles:
# their deviates have equal steps, so the steps of the values grow by a ratio, here at most by 3 (a
# log-normal sigma of 1.3). A lighter one stays a line, which asks for more than it need.
_BEND_STEP = NormalDist().inv_cdf(0.95) / 2.0
_BEND_LEVELS = np.array([NormalDist().cdf(steps * _BEND_STEP) for steps in range(3)])
_MOST_BEND = 3.0

# What is foreign lies above what is ordinary. Its share is how much more than half a per cent lies
# beyond the top half per cent of the ordinary, and counts up to 5 %: more is a new topic.
_FAR_SHARE = 0.005
_FAR = NormalDist().inv_cdf(1.0 - _FAR_SHARE)
_MOST_FOREIGN = 0.05
_ROUNDS = 20

# Variance of the line at the top 1 %, from n normal values: this over n, in squared spreads.
EXTRAPOLATION = 10.3

# Of a state that is read: float64 counts no further, and rounding may add so much to a bound.
_MOST_SAMPLES = 2**53
SLACK = 1.001


class Kind(NamedTuple):
    """What the numbers of a stream are."""

    low: float
    high: float
    """What is usual lies between."""
    lowest: float
    highest: float
    """What is possible lies between."""
    least_spread: float
    """One unit of z is at least this."""
    is_relative: bool
    """One unit of z is at least the policy's share of the usual number."""


DISTANCES = Kind(0.0, 2.0, 0.0, 2.0, _SMALLEST_SD, True)
"""Of unit vectors."""

SUMS = Kind(-16.0, 16.0, -1e7, 1e7, 1.0, False)
"""Of two z. Less spread than one of the two has only a stream of equal events."""


def standard_score(
    value: float,
    moments: _core.Moments,
    relative_sd_floor: float = 0.0,
    least_sd: float = _SMALLEST_SD,
) -> float:
    """z = (value - mean) / sd of a stream; 0 before it has two values.

    The standard deviation (of the sample, n - 1) counts as at least ``relative_sd_floor`` times
    the mean, and at least ``least_sd``.
    """
    if moments.count < 2:
        return 0.0
    sd = max(math.sqrt(moments.variance), relative_sd_floor * abs(moments.mean), least_sd)
    return (value - moments.mean) / sd


class Tail(NamedTuple):
    """The upper tail of a stream: ``level + spread · deviate``."""

    level: float
    spread: float
    weight: float


class RecentQuantiles:
    """The upper tail of the recent values of a stream, in bounded memory.

    A histogram in which every value weighs more than the one before. Its quantiles vary as much as
    those of an exact window of the last ``window`` values, but it needs neither the values nor
    their order: a state is small, and what comes after a shift counts sooner. The tail is fitted
    again when one value in a hundred is new.

    Parameters
    ----------
    low, high : float
        Range of the 512 bins; what lies outside is counted in the first or the last.
    is_part : bool
        The values are measured in order to be summed. So the tail is what was seen up to the top
        1 %, foreign values included; else it is that of the ordinary values, from inner quantiles.
    """

    BINS = 512
    _HIGHEST_GAIN = 1e9

    def __init__(self, low: float, high: float, is_part: bool = False) -> None:
        self.is_part = is_part
        self.count = 0
        """How many values there were, since the beginning."""
        self.width = (high - low) / self.BINS
        self._low = low
        self._weights = np.zeros(self.BINS)
        self._gain = 1.0
        self.tail: Tail | None = None
        """None before the first value."""
        self._fitted = 0

    def add(self, value: float, window: int) -> None:
        """A further value."""
        place = min(max((value - self._low) / self.width, 0.0), self.BINS - 1.0)
        self._gain *= (window + 1.0) / (window - 1.0)
        self._weights[int(place)] += self._gain
        self.count += 1
        if self._gain > self._HIGHEST_GAIN:
            self._weights /= self._gain
            self._weights[self._weights < 1.0 / self._HIGHEST_GAIN] = 0.0
            self._gain = 1.0
        if self.tail is None or 100 * (self.count - self._fitted) >= min(self.count, window):
            self.tail, self._fitted = self._fit(), self.count

    def _fit(self) -> Tail:
        below = self._weights.cumsum()
        middle, top = (
            self._quantiles(below, _PART_LEVELS) if self.is_part else self._ordinary(below)
        )
        spread = float(top - middle) / (_TOP - _MIDDLE)
        return Tail(float(middle) - _MIDDLE * spread, spread, float(below[-1]) / self._gain)

    def _ordinary(self, below: NDArray[np.float64]) -> tuple[float, float]:
        """The middle and the top 1 % of what is ordinary, given the share of what is foreign.

        That share follows from the tail, and so both are found in turns, from a share of 0 up.
        """
        foreign = 0.0
        for _ in range(_ROUNDS):
            inner = self._quantiles(below, (1.0 - foreign) * _LEVELS)
            level, spread = float(_TO_LEVEL @ inner), float(_TO_SPREAD @ inner)
            low, mid, high = self._quantiles(below, (1.0 - foreign) * _BEND_LEVELS)
            growth = min((high - mid) / (mid - low), _MOST_BEND)
            top, far = (
                max(level + deviate * spread, _bent(high, high - mid, growth, deviate))
                for deviate in (_TOP, _FAR)
            )
            before, beyond = foreign, self._share_above(below, far)
            foreign = min(max(beyond - _FAR_SHARE, 0.0), _MOST_FOREIGN)
            if abs(foreign - before) < 1e-5:
                break
        return level + _MIDDLE * spread, top

    def _quantiles(
        self, below: NDArray[np.float64], levels: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        wanted = levels * below[-1]
        bins = below.searchsorted(wanted)
        within = 1.0 - (below[bins] - wanted) / self._weights[bins]
        quantiles: NDArray[np.float64] = self._low + self.width * (bins + within)
        return quantiles

    def _share_above(self, below: NDArray[np.float64], value: float) -> float:
        place = (value - self._low) / self.width
        return 1.0 - float(np.interp(place, np.arange(1, self.BINS + 1), below)) / float(below[-1])

    def copy(self) -> RecentQuantiles:
        twin = copy(self)
        twin._weights = self._weights.copy()
        return twin

    def state(self) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """What JSON holds of it, and the weights of a range of bins."""
        used = np.flatnonzero(self._weights)
        first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        header = {
            "count": self.count,
            "gain": self._gain,
            "bins": [first, last],
            "tail": self.tail,
            "fitted": self._fitted,
        }
        return header, self._weights[first:last]

    def restore(self, header: dict[str, Any], weights: NDArray[np.float64]) -> None:
        """Take over a state; a ValueError if no stream leaves it behind."""
        self.count = check_samples(header["count"])
        self._fitted = check_samples(header["fitted"])
        self._gain = float(header["gain"])
        first, last = header["bins"]
        if not (1.0 <= self._gain <= self._HIGHEST_GAIN and self._fitted <= self.count):
            raise ValueError(f"no histogram of {self.count} values is like {header!r:.200}")
        total = float(weights.sum()) / self._gain
        is_empty = not self.count
        if not ((weights >= 0.0).all() and total <= self.count * SLACK and (total or is_empty)):
            raise ValueError(f"no {self.count} values have such weights")
        self._weights[first:last] = weights
        if is_empty:
            return
        self.tail = Tail(*map(float, header["tail"]))
        if not (all(map(math.isfinite, self.tail)) and self.tail.spread >= 0.0 < self.tail.weight):
            raise ValueError(f"no values have the tail {self.tail}")


def _bent(high: float, step: float, growth: float, deviate: float) -> float:
    """A quantile beyond the highest one; -inf if the steps do not grow."""
    if growth <= 1.0:
        return -math.inf
    steps = (deviate - 2.0 * _BEND_STEP) / _BEND_STEP
    return high + step * growth * (math.pow(growth, steps) - 1.0) / (growth - 1.0)


class Scale:
    """What is usual in a stream of numbers, in both forms of surprise."""

    def __init__(self, kind: Kind, is_part: bool = False) -> None:
        self.kind = kind
        self.moments = _core.Moments()
        self.recent = RecentQuantiles(kind.low, kind.high, is_part)

    def raw(self, value: float, policy: Policy) -> float:
        """``(value - mean) / sd`` of all values; 0 before there are two."""
        share = self._share(policy)
        return standard_score(value, self.moments, share, self.kind.least_spread)

    def calibrated(self, value: float, policy: Policy, least: int) -> float:
        """The normal deviate of the value's tail probability among the recent values.

        Before there are ``least`` of them it is the raw score.
        """
        tail = self.recent.tail
        if tail is None or self.recent.count < least:
            return self.raw(value, policy)
        level, spread, weight = tail
        floor = max(self._share(policy) * abs(level), self.kind.least_spread)
        unit = max(spread, floor, self.recent.width)
        # Few values know the tail less well: so many of equal weights would know it alike.
        fading = 2.0 / (policy.surprise_window + 1.0)
        samples = weight * (2.0 - fading) / (2.0 - min(weight * fading, 1.0))
        return (value - level) / (unit * math.sqrt(1.0 + EXTRAPOLATION / samples))

    def take(self, raw: float, calibrated: float, policy: Policy) -> None:
        """Take in a value as it is in each form."""
        self.moments.update(raw)
        self.recent.add(calibrated, policy.surprise_window)

    def copy(self) -> Scale:
        twin = Scale(self.kind, self.recent.is_part)
        twin.moments, twin.recent = self.moments.copy(), self.recent.copy()
        return twin

    def state(self) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """What JSON holds of it, exactly, and the rest."""
        recent, weights = self.recent.state()
        moments = self.moments
        return {"moments": [moments.count, moments.mean, moments.m2], "recent": recent}, weights

    def restore_moments(self, count: int, mean: float, m2: float) -> None:
        """Take over moments; a ValueError if no such numbers have them."""
        check_samples(count)
        low, high = SLACK * self.kind.lowest, SLACK * self.kind.highest
        if not (low <= mean <= high and 0.0 <= m2 <= count * high**2):
            raise ValueError(f"no {count} such values have the mean {mean} and m2 {m2}")
        self.moments = _core.Moments(count, float(mean), float(m2))

    def _share(self, policy: Policy) -> float:
        return policy.surprise_relative_sd_floor if self.kind.is_relative else 0.0


def check_samples(value: object) -> int:
    """A number of events that statistics can hold."""
    count = check_count(value, "count")
    if count > _MOST_SAMPLES:
        raise ValueError(f"count must be at most {_MOST_SAMPLES}, got {count}")
    return count
