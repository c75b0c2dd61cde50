"""The ends of what a memory can hold: depth, numbers, times."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory

UTC = dt.timezone.utc


def test_the_deepest_metadata_is_read_from_a_deep_call() -> None:
    deep: dict[str, Any] = {}
    for _ in range(31):
        deep = {"a": deep}
    with Memory(":memory:") as memory:
        memory.remember("deep one", metadata=deep)

        def read(calls: int) -> Any:
            return memory.recall("deep")[0].record.metadata if calls == 0 else read(calls - 1)

        assert read(700) == deep


HUGE: list[Any] = [10**400, -(10**400)]


@pytest.mark.parametrize("number", HUGE, ids=["above", "below"])
def test_numbers_beyond_floats_are_value_errors(number: Any, tmp_path: Path) -> None:
    with Memory(":memory:") as memory:
        memory.remember("x")
        with pytest.raises(ValueError, match="min_score must be a number"):
            memory.recall("x", min_score=number)
    with pytest.raises(ValueError, match="timeout must be"):
        Memory(tmp_path / "agent.db", timeout=number)
    assert list(tmp_path.iterdir()) == []


def test_r17_the_last_moment_of_all_is_a_moment(store: Path) -> None:
    last = dt.datetime.max.replace(tzinfo=UTC)
    with Memory(store, clock=lambda: last) as memory:
        record = memory.remember("the end", when=last)
        assert dt.datetime.fromtimestamp(record.created, UTC).year == 9999
        assert memory.recall("end", until=last) == []
        assert memory.recall("end", since=last, reinforce=False)[0].id == record.id
        memory.remember("before the end", now=last - dt.timedelta(seconds=1))
    with Memory(store, clock=lambda: last) as memory:
        assert memory.get(1) == record
