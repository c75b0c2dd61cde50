"""The one rule for points in time: aware datetimes or epoch seconds, nothing else."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import TypeAlias

import numpy as np

__all__ = ["Time", "to_moment", "to_seconds"]

Time: TypeAlias = "datetime | int | float"
"""What a user may give as a point in time; NumPy's integer and float scalars count too."""

_WANTED = "an aware datetime or seconds since 1970-01-01 UTC (int or float)"
# Years 1 to 9999, what a datetime can hold. It also catches milliseconds given as seconds.
_EARLIEST = -62_135_596_800.0
_LATEST = 253_402_300_800.0


def to_seconds(value: object, name: str) -> float:
    """Seconds since 1970-01-01 UTC of a point in time.

    Parameters
    ----------
    value : datetime, int or float
        An aware datetime of any time zone, or epoch seconds.
    name : str
        The argument's name, for messages.

    Raises
    ------
    TypeError
        For any other type: a date, a ``datetime64``, a bool, a string.
    ValueError
        For a naive datetime, NaN, an infinity, or a time outside the years 1 to 9999.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(
                f"{name} must be {_WANTED}, got the naive datetime {value!r}; "
                "give it a time zone, e.g. value.replace(tzinfo=timezone.utc)"
            )
        seconds = value.timestamp()
        if seconds == _LATEST:  # rounded up from the last microseconds
            seconds = math.nextafter(_LATEST, 0.0)
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    else:
        raise TypeError(f"{name} must be {_WANTED}, got {type(value).__name__} {value!r:.80}")
    if not math.isfinite(seconds):
        raise ValueError(f"{name} must be {_WANTED}, got {value!r:.80}")
    if not _EARLIEST <= seconds < _LATEST:
        raise ValueError(
            f"{name} must be {_WANTED} within the years 1 to 9999, got {value!r:.80}"
            + ("; is it in milliseconds?" if seconds >= _LATEST else "")
        )
    return seconds + 0.0  # -0.0 would not survive storage


def to_moment(value: object, name: str) -> str:
    """ISO 8601 text of a point in time; a datetime keeps its own UTC offset."""
    seconds = to_seconds(value, name)
    if isinstance(value, datetime):
        return value.isoformat()
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
