"""Running a piece of a test at every SIMD level that this processor has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flashbulb import _core

LEVELS: list[str] = _core.supported_simd_levels()


@contextmanager
def at_level(name: str) -> Iterator[None]:
    before = _core.simd_level()
    _core.set_simd_level(name)
    try:
        yield
    finally:
        _core.set_simd_level(before)


def each_level() -> Iterator[str]:
    """Yields the name of each level while it is the one in use."""
    for name in LEVELS:
        with at_level(name):
            yield name
