"""One rule for points in time, everywhere."""

from __future__ import annotations

import datetime as dt
import math
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb._time import to_moment, to_seconds

UTC = dt.timezone.utc


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York")])
    )
)
def test_an_aware_datetime_is_its_instant(moment: dt.datetime) -> None:
    try:
        in_utc = moment.astimezone(UTC)
    except OverflowError:  # within a day of year 1 or 9999
        return
    assert to_seconds(moment, "now") == to_seconds(in_utc, "now")
    if moment < dt.datetime.max.replace(microsecond=0, tzinfo=moment.tzinfo):
        assert to_seconds(moment, "now") == moment.timestamp()


def test_the_two_times_of_a_fold_are_an_hour_apart() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=zone)
    assert to_seconds(first.replace(fold=1), "now") - to_seconds(first, "now") == 3600


def test_a_time_in_a_gap_is_an_instant_too() -> None:
    gap = dt.datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert math.isfinite(to_seconds(gap, "now"))


@pytest.mark.parametrize(
    "value",
    [0, -1, 1.5, 2**31 + 0.25, np.int64(7), np.float32(0.5), np.float64(1e9), np.uint64(3)],
)
def test_numbers_are_epoch_seconds(value: float) -> None:
    assert to_seconds(value, "now") == float(value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 10**400, np.float64("nan"), 1e300]
)
def test_a_number_that_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="when must be an aware datetime or seconds"):
        to_seconds(value, "when")


def test_milliseconds_are_recognised() -> None:
    with pytest.raises(ValueError, match="milliseconds"):
        to_seconds(1_700_000_000_000, "now")


def test_a_naive_datetime_is_refused_and_the_message_teaches() -> None:
    with pytest.raises(ValueError, match="naive"):
        to_seconds(dt.datetime(2024, 1, 1), "now")


@pytest.mark.parametrize(
    "value",
    [
        dt.date(2024, 1, 1),
        np.datetime64("2024-01-01"),
        True,
        np.bool_(True),
        "2024-01-01",
        None,
        dt.timedelta(1),
        np.array([1.0]),
        1j,
    ],
)
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="since must be an aware datetime or seconds"):
        to_seconds(value, "since")


def test_moments_keep_their_offset() -> None:
    tokyo = dt.datetime(2024, 5, 1, 9, tzinfo=dt.timezone(dt.timedelta(hours=9)))
    assert to_moment(tokyo, "when") == "2024-05-01T09:00:00+09:00"
    assert to_moment(0, "when") == "1970-01-01T00:00:00+00:00"


def test_the_first_and_the_last_moment() -> None:
    first, last = (m.replace(tzinfo=UTC) for m in (dt.datetime.min, dt.datetime.max))
    for moment in (first, last):
        seconds = to_seconds(moment, "now")
        assert to_seconds(seconds, "now") == seconds
        assert abs(dt.datetime.fromtimestamp(seconds, UTC) - moment) < dt.timedelta(microseconds=50)
    assert to_seconds(last.replace(tzinfo=ZoneInfo("Asia/Tokyo")), "now") < to_seconds(last, "now")
    with pytest.raises(ValueError, match="within the years 1 to 9999"):
        to_seconds(last.replace(tzinfo=ZoneInfo("America/New_York")), "now")
