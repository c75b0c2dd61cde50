"""The tests' side of child.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crash.shim import Fault

_TESTS = Path(__file__).parents[1]


class Trial:
    """A store in a folder of its own, with its oracle and log beside that folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "store"
        self.folder.mkdir(parents=True)
        self.store = self.folder / "agent.db"
        self.oracle = folder / "oracle"
        self.oracle.touch()
        self.log = folder / "log"

    def say(self, said: dict[str, Any]) -> None:
        """What was found after a kill, to the oracle."""
        with self.oracle.open("a") as file:
            file.write(json.dumps(said) + "\n")


class Zygote:
    """The parent of all children. `shim`: what to preload, if it could be built."""

    def __init__(self, shim: Path | None) -> None:
        self.shimmed = shim is not None
        environment = dict(os.environ, PYTHONPATH=_path(), OMP_NUM_THREADS="1")
        environment["OPENBLAS_NUM_THREADS"] = "1"
        if shim is not None:
            environment["LD_PRELOAD"] = str(shim)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self,
        trial: Trial,
        *,
        seed: int,
        operations: int = 0,
        kinds: Sequence[str] = (),
        durability: str = "full",
        fault: Fault | None = None,
        kill_after: float | None = None,
        log: bool = False,
        close: bool = False,
        synchronous_off: bool = False,
        early: bool = False,
    ) -> dict[str, Any]:
        """One child: so many operations, or these kinds in turn.

        Returns its exit code ("status"), below zero for a signal, and what it reports at its end.
        """
        request = {
            "store": os.path.realpath(trial.store),
            "folder": os.path.realpath(trial.folder),
            "oracle": os.path.realpath(trial.oracle),
            "log": os.path.realpath(trial.log) if log else "",
            "seed": seed,
            "operations": operations or len(kinds),
            "kinds": list(kinds),
            "durability": durability,
            "fault": fault,
            "kill_after": kill_after,
            "close": close,
            "synchronous_off": synchronous_off,
            "early": early,
            "shimmed": self.shimmed,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "trace" not in reply, reply["trace"]
        return reply

    def end(self) -> None:
        self._process.communicate()


def _path() -> str:
    """Where the child finds this package and Flashbulb, as this process does."""
    return os.pathsep.join([str(_TESTS), *(folder for folder in sys.path if folder)])
