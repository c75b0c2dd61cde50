"""The number of threads: what sets it, and how a process with threads ends and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


BUSY_AT_EXIT = """
import sys, threading
import numpy as np
import flashbulb

flashbulb.set_threads(3)
engine = flashbulb.Engine(256)
rows = np.random.default_rng(0).normal(size=(6000, 256)).astype("f4")
engine.add(rows, now=1e9)
searching = threading.Barrier(5)

def search(queries):
    engine.search(queries, 5, now=1e9)
    searching.wait()
    while True:
        engine.search(queries, 5, now=1e9)

def write():
    searching.wait()
    while True:
        engine.touch([7], 1e9)

for queries in rows[:40], rows[:1], rows[0]:
    threading.Thread(target=search, args=[queries], daemon=True).start()
threading.Thread(target=write, daemon=True).start()
searching.wait()
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [("", 0), ("sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("raise SystemExit(5)", 5)],
)
def test_a_process_ends_while_daemon_threads_search(end: str, status: int) -> None:
    for _ in range(2):
        done = run(BUSY_AT_EXIT + end)
        assert (done.returncode, done.stderr) == (status, "")


def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import os, sys, warnings
import numpy as np
from flashbulb import Engine, set_threads

warnings.simplefilter("ignore")
set_threads(3)
rows = np.random.default_rng(0).normal(size=(6000, 256)).astype("f4")

def ids():
    engine = Engine(256)
    engine.add(rows, now=1e9)
    return engine.search(rows[:40], 5, now=1e9).ids.tolist()

expected = ids()
child = os.fork()
if child == 0:
    os._exit(0 if ids() == expected else 1)
_, status = os.waitpid(child, 0)
assert ids() == expected
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_after_searches(method: str, tmp_path: Path) -> None:
    # The child of a process whose threads are asleep, by each way that Python starts one.
    script = tmp_path / "main.py"
    script.write_text("""
import multiprocessing, sys, warnings
import numpy as np
from flashbulb import Engine, set_threads

def ids(_):
    rows = np.random.default_rng(0).normal(size=(6000, 256)).astype("f4")
    engine = Engine(256)
    engine.add(rows, now=1e9)
    return engine.search(rows[:40], 5, now=1e9).ids.tolist()

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    set_threads(3)
    expected = ids(0)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(ids, range(2)) == [expected] * 2
""")
    done = subprocess.run(
        [sys.executable, str(script), method],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLOCK_SECONDS,
    )
    assert done.returncode == 0, done.stderr
