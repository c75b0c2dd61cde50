"""A store whose process was killed: every acknowledged change is there, and it can go on."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from crash.check import check
from crash.model import history
from crash.shim import Fault
from crash.workload import LIFETIME
from crash.zygote import Trial, Zygote

pytestmark = pytest.mark.usefixtures("said")

Trials = Callable[[], Trial]

_KILLS_OF_A_STORE = 20
_MODES = ("full", "normal")


def verified(trial: Trial) -> None:
    """Opens it as the next program would, and lets the oracle know what there is."""
    past = history(trial.oracle)
    try:
        trial.say(check(trial.store, past))
    except Exception:
        print(f"after {past.begun}")
        raise


def test_killed_at_random_moments(zygote: Zygote, trials: Trials, seed: int, kills: int) -> None:
    draw = random.Random(seed)
    killed = 0
    while killed < kills // 2:
        trial, durability = trials(), draw.choice(_MODES)
        for _ in range(_KILLS_OF_A_STORE):
            reply = zygote.run(
                trial,
                seed=draw.randrange(2**32),
                operations=1000,
                durability=durability,
                kill_after=draw.uniform(0.0, 0.3),
            )
            assert reply["status"] == -9
            killed += 1
            verified(trial)


@pytest.mark.usefixtures("shimmed")
def test_killed_at_the_nth_call(zygote: Zygote, trials: Trials, seed: int, kills: int) -> None:
    """And, before anything is repaired, perhaps once more during the next opening."""
    draw = random.Random(seed)
    killed = 0
    while killed < (kills + 1) // 2:
        trial, durability = trials(), draw.choice(_MODES)
        for _ in range(_KILLS_OF_A_STORE):
            fault = Fault(
                draw.choice(("any", "any", "pwrite64", "fdatasync")),
                int(draw.expovariate(1 / 150)) + 1,
                draw.choice(("kill", "tear")),
            )
            while True:
                seed_of_child = draw.randrange(2**32)
                reply = zygote.run(
                    trial,
                    seed=seed_of_child,
                    operations=60,
                    durability=durability,
                    fault=fault,
                )
                if reply["status"] == 0 or draw.random() < 0.6:
                    break
                killed += 1
                fault = Fault("any", draw.randint(1, 60), "kill")
            killed += reply["status"] == -9
            verified(trial)


@pytest.mark.usefixtures("shimmed")
def test_a_store_that_acknowledges_too_early_is_found_out(
    zygote: Zygote, trials: Trials, seed: int
) -> None:
    """Killed between its acknowledgement and the change, it would go unnoticed by no check."""
    found_out = 0
    for n in range(1, 40):
        trial = trials()
        kinds = ("remember_many", "remember", "forget", "forget")
        zygote.run(trial, seed=seed, kinds=kinds)
        fault = Fault("pwrite64", n, "kill", ending="-wal")
        zygote.run(trial, seed=seed + 1, kinds=("forget",), fault=fault, early=True)
        try:
            check(trial.store, history(trial.oracle))
        except AssertionError:
            found_out += 1
    assert found_out > 0


@pytest.mark.usefixtures("shimmed")
def test_killed_at_every_call_of_a_short_life(zygote: Zygote, trials: Trials) -> None:
    """From the creation of a store to its closing, with an export and a compaction."""

    lifetime = {"seed": 1, "kinds": LIFETIME, "close": True}
    counts = zygote.run(trials(), **lifetime)["counts"]
    for n in range(1, sum(counts.values()) + 1):
        trial = trials()
        assert zygote.run(trial, **lifetime, fault=Fault("any", n, "kill"))["status"] == -9
        verified(trial)
