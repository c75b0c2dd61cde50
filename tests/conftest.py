"""Fixtures that several test modules share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crash", "tests/crash: processes that are killed, disks that fail")
    group.addoption("--crash-kills", type=int, default=200, help="how many (default 200)")
    group.addoption("--crash-seed", type=int, help="what they draw from (default: random)")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data sets, which are not part of the repository."""
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("FLASHBULB_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FLASHBULB_DATA to run this test")
    return folder


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, *, days: float = 0.0, hours: float = 0.0, seconds: float = 0.0) -> None:
        self.now += 86400.0 * days + 3600.0 * hours + seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test may put a store."""
    return tmp_path / "agent.db"


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected: what a signal handler raises in a callback of the collector (the one
    of hypothesis, say) would be reported and lost."""
    gc.disable()
    yield
    gc.enable()
