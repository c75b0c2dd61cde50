"""Power cuts, simulated: what a disk may have kept is laid out as files, and opened."""

from __future__ import annotations

import errno
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crash import shim
from crash.check import check_after_power_cut, check_is_one_of
from crash.disk import KINDS, Disk, Kind, cuts, laid_out
from crash.model import History, history
from crash.shim import Fault
from crash.workload import LIFETIME
from crash.zygote import Trial, Zygote
from flashbulb import FlashbulbError

pytestmark = pytest.mark.usefixtures("shimmed", "said")

Trials = Callable[[], Trial]

_MOMENTS_OF_A_LIFE = 40


def moments(
    zygote: Zygote, trials: Trials, random: random.Random, count: int, **how: Any
) -> Iterator[tuple[Disk, History]]:
    """The disk and what was acknowledged, at some calls of some stores' lives.

    Half of them right after an acknowledgement, when most is promised.
    """
    while count > 0:
        trial = trials()
        kinds = random.choice(((), LIFETIME, LIFETIME[-4:] + LIFETIME))
        zygote.run(
            trial,
            seed=random.randrange(2**32),
            kinds=kinds,
            operations=len(kinds) or 80,
            log=True,
            close=random.random() < 0.5,
            **how,
        )
        log = list(shim.calls(trial.log))
        told = [i for i, call in enumerate(log) if call.function == "oracle"]
        chosen = {*random.sample(range(len(log)), _MOMENTS_OF_A_LIFE // 2), len(log) - 1}
        chosen |= set(random.sample(told, min(len(told), _MOMENTS_OF_A_LIFE // 2)))
        count -= len(chosen)
        past = History(every=True)
        for i, (disk, call) in enumerate(cuts(trial.folder, log)):
            if call.function == "oracle":
                past.read([call.data.decode()])
            if i in chosen:
                yield disk, past


def image(disk: Disk, folder: Path, random: random.Random, kind: Kind) -> Path:
    """Another store, such as the next start may find it."""
    shutil.rmtree(folder, ignore_errors=True)
    laid_out(disk.after_power_cut(kind, random), folder)
    return folder / "agent.db"


def test_what_is_acknowledged_survives_in_mode_full(
    zygote: Zygote, trials: Trials, folder: Path, seed: int, kills: int
) -> None:
    draw = random.Random(seed)
    for disk, past in moments(zygote, trials, draw, kills // 4):
        for kind in KINDS:
            store = image(disk, folder / "image", draw, kind)
            check_after_power_cut(store, past.copy())


def test_a_state_that_was_there_survives_in_mode_normal(
    zygote: Zygote, trials: Trials, folder: Path, seed: int, kills: int
) -> None:
    """And what was there when the store was last compacted or closed, at least."""
    draw = random.Random(seed)
    lost = 0
    for disk, past in moments(zygote, trials, draw, kills // 4, durability="normal"):
        for kind in KINDS:
            store = image(disk, folder / "image", draw, kind)
            lost += check_is_one_of(store, past)
    assert lost > 0  # or this mode would be no other than "full"


@pytest.mark.parametrize("written", [False, True], ids=["lost", "written"])
@pytest.mark.parametrize("function", ["fdatasync", "fsync"])
def test_a_failed_sync_is_not_taken_for_a_good_one(
    zygote: Zygote, trials: Trials, folder: Path, seed: int, function: str, written: bool
) -> None:
    """What it did not bring to the disk no later sync does; the store has to write it again."""
    draw = random.Random(seed)
    life = {"seed": 1, "kinds": (*LIFETIME, "remember"), "log": True}
    for n in range(1, zygote.run(trials(), **life)["counts"][function] + 1):
        trial = trials()
        zygote.run(trial, **life, fault=Fault(function, n, "error", errno.EIO))
        log = list(shim.calls(trial.log))
        assert [call.offset for call in log].count(shim.SYNC_FAILED) == 1
        *_, (disk, _) = cuts(trial.folder, log, written=written)
        for kind in KINDS:
            print(function, n, kind)
            store = image(disk, folder / "image", draw, kind)
            check_after_power_cut(store, history(trial.oracle))


def test_what_close_could_not_bring_to_the_disk_it_says(
    zygote: Zygote, trials: Trials, folder: Path, seed: int
) -> None:
    """Mode "normal" leaves it to the end."""
    draw = random.Random(seed)
    life = {"seed": 1, "kinds": ("remember", "forget", "remember"), "durability": "normal"}
    life |= {"log": True, "close": True}
    said = 0
    for n in range(1, zygote.run(trials(), **life)["counts"]["fdatasync"] + 1):
        trial = trials()
        reply = zygote.run(trial, **life, fault=Fault("fdatasync", n, "error", errno.EIO))
        said += "close" in [failure["kind"] for failure in reply["failures"]]
        if not reply["failures"]:
            *_, (disk, _) = cuts(trial.folder, shim.calls(trial.log))
            store = image(disk, folder / "image", draw, "nothing")
            check_after_power_cut(store, history(trial.oracle))
    assert said > 0


def test_without_syncs_the_simulation_finds_loss(
    zygote: Zygote, trials: Trials, folder: Path, seed: int, kills: int
) -> None:
    """Or it would prove nothing."""
    draw = random.Random(seed)
    failures = 0
    for disk, past in moments(zygote, trials, draw, kills // 8, synchronous_off=True):
        for kind in KINDS:
            store = image(disk, folder / "image", draw, kind)
            try:
                check_after_power_cut(store, past.copy())
            except (AssertionError, FlashbulbError, sqlite3.DatabaseError):
                failures += 1
    assert failures > 0
