"""The number of threads: what sets it, and how a process with threads ends and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import flashbulb
from flashbulb import _core

DEADLOCK_SECONDS = 120.0


@pytest.fixture(autouse=True)
def same_threads_afterwards() -> Iterator[None]:
    before = flashbulb.get_threads()
    yield
    flashbulb.set_threads(before)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLOCK_SECONDS,
    )


def test_the_number_of_threads_is_what_was_set() -> None:
    for count in (1, 2, 3, 8, 1024):
        flashbulb.set_threads(count)
        assert flashbulb.get_threads() == _core.threads() == count


def test_0_is_the_processors_of_this_process() -> None:
    flashbulb.set_threads(0)
    assert 1 <= flashbulb.get_threads() <= len(os.sched_getaffinity(0))


def test_fewer_processors_are_fewer_threads() -> None:
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import flashbulb
print(flashbulb.get_threads())
"""
    done = run(code, FLASHBULB_THREADS="")
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (-1, ValueError, "count must not be negative, got -1"),
        (1025, ValueError, r"in \[0, 1024\].*got 1025"),
        (2**70, ValueError, r"in \[0, 1024\].*got 1180591620717411303424"),
        (2.0, TypeError, "count must be an int, got float"),
        (True, TypeError, "count must be an int, got bool"),
        ("2", TypeError, "count must be an int, got str"),
    ],
)
def test_a_bad_number_is_refused(count: object, error: type[Exception], message: str) -> None:
    before = flashbulb.get_threads()
    with pytest.raises(error, match=message):
        flashbulb.set_threads(count)  # type: ignore[arg-type]
    assert flashbulb.get_threads() == before


def test_the_environment_sets_the_threads() -> None:
    done = run("import flashbulb; print(flashbulb.get_threads())", FLASHBULB_THREADS="5")
    assert done.stdout == "5\n", done.stderr


@pytest.mark.parametrize("value", ["-1", "two", "1025", "1.5", " 2"])
def test_a_bad_environment_is_an_error_that_says_so(value: str) -> None:
    done = run("import flashbulb; flashbulb.Engine(3)", FLASHBULB_THREADS=value)
    assert done.returncode == 1
    assert "FLASHBULB_THREADS must be an integer in [0, 1024]" in done.stderr
    assert f"got '{value}'" in done.stderr
