"""A disk that fails: the call says so, nothing acknowledged is lost, and the store goes on."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest

from crash.check import check
from crash.model import history
from crash.shim import Fault
from crash.workload import LIFETIME
from crash.zygote import Trial, Zygote

pytestmark = pytest.mark.usefixtures("shimmed", "said")

Trials = Callable[[], Trial]

# What may become of a call, by function: what the system can say (an errno), or a short write.
FAULTS = {
    "pwrite64": (errno.ENOSPC, "short", errno.EIO, errno.EINTR),
    "write": (errno.ENOSPC, "short", errno.EIO),
    "ftruncate64": (errno.EIO,),
    "fdatasync": (errno.EIO, errno.ENOSPC),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO, errno.EACCES),
    "create": (errno.ENOSPC, errno.EMFILE),
}
SAID = ("StoreUnavailable", "OSError", "PermissionError")
LAST = ("remember", "recall")  # after a failure, all that a store must still do


def life(zygote: Zygote, trials: Trials, fault: Fault | None) -> dict[str, Any]:
    """A store from its creation to its closing; the disk is well again after one error."""
    trial = trials()
    reply = zygote.run(trial, seed=1, kinds=(*LIFETIME, *LAST), fault=fault, close=True)
    assert reply["status"] == 0
    past = history(trial.oracle)
    assert past.begun is None
    check(trial.store, past)
    for failure in reply["failures"]:
        assert failure["fired"] > 0, f"failed on a disk that is well: {failure}"
        assert failure["error"] in SAID, failure
    return reply


@pytest.mark.parametrize("function", FAULTS)
def test_every_call_may_fail(
    zygote: Zygote, trials: Trials, function: str, seed: int, kills: int
) -> None:
    """Once, or until it is noticed. What fails says so; a short write is completed, or fails.

    So many of them as half the kills, by chance; with those of `just crash` all but a few.
    """
    count = life(zygote, trials, None)["counts"][function]
    cases = [
        (n, how, lasting)
        for n in range(1, count + 1)
        for how in FAULTS[function]
        for lasting in (False, True)
        if (how, lasting) != (errno.EINTR, True)  # SQLite would try again for ever
    ]
    failures = 0
    for n, how, lasting in random.Random(seed).sample(cases, min(len(cases), kills // 2)):
        fault = Fault(function, n, "short", lasting=lasting)
        if not isinstance(how, str):
            fault = fault._replace(action="error", error=how)
        print(fault)
        failures += len(life(zygote, trials, fault)["failures"])
    if function not in ("ftruncate64", "unlink"):
        assert failures > 0
