"""The shim sees what it must see, and what it does has the effect that it should have."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from crash import shim
from crash.disk import cuts
from crash.shim import Fault
from crash.zygote import Trial, Zygote

pytestmark = pytest.mark.usefixtures("shimmed", "said")

Trials = Callable[[], Trial]

# Each at least once in a run with an export, a compaction and a close. (SQLite itself calls
# neither `write` nor `fsync` nor `rename`: it syncs files and folders by `fdatasync`.)
FIRED = ("write", "pwrite64", "ftruncate64", "fdatasync", "fsync", "rename", "unlink", "create")
KINDS = (
    "remember_many",
    "remember",
    "forget",
    "export",
    "compact",
    "recall",
    "snapshot",
    "remember",
)


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_the_log_tells_all_that_is_written(
    zygote: Zygote, trials: Trials, seed: int, durability: str
) -> None:
    """The files made from it are the files that are there, byte for byte."""
    trial = trials()
    zygote.run(trial, seed=seed, durability=durability, kinds=KINDS, log=True)
    *_, (disk, _) = cuts(trial.folder, shim.calls(trial.log))
    there = {path.name: path.read_bytes() for path in trial.folder.iterdir()}
    made = disk.now()
    assert made.keys() == there.keys()
    for name, content in there.items():
        if not name.endswith("-shm"):  # written through a mapping as well
            assert made[name] == content, name


def test_each_function_is_called(zygote: Zygote, trials: Trials) -> None:
    counts = zygote.run(trials(), seed=1, kinds=KINDS, close=True)["counts"]
    assert {name for name, count in counts.items() if count > 0} == set(FIRED)


@pytest.mark.parametrize("function", FIRED)
def test_a_kill_comes_at_its_call(zygote: Zygote, trials: Trials, function: str) -> None:
    fault = Fault(function, 1, "kill")
    reply = zygote.run(trials(), seed=1, kinds=KINDS, fault=fault, close=True)
    assert reply["status"] == -9


@pytest.mark.parametrize("function", FIRED)
def test_a_failure_comes_at_its_call(zygote: Zygote, trials: Trials, function: str) -> None:
    """And where SQLite or Python says what the system said, so does the store."""
    fault = Fault(function, 1, "error", errno.EIO, lasting=True)
    reply = zygote.run(trials(), seed=1, kinds=KINDS, fault=fault, close=True)
    assert reply["status"] == 0
    if function in ("pwrite64", "fdatasync", "fsync", "rename", "create"):
        assert reply["failures"][0]["fired"] > 0
