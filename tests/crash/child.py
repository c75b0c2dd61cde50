"""The program that is killed: a parent that has everything loaded, and forks a child for each run.

The parent imports, and touches neither SQLite nor FAISS; each child is a process of its own, with
the shim of its own. Requests and replies are lines of JSON, on standard input and output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from crash.check import found, settle
from crash.model import Model, history, same
from crash.shim import Fault, Shim
from crash.workload import Oracle, Performer, Workload, detector, open_memory, warm_up
from flashbulb import FlashbulbError, Memory

_SECONDS = 300  # after which a child that hangs is killed; the test says by which signal
_WITHOUT_ANSWER = ("forget", "pin", "unpin")


class Run:
    """One child's work, as a request describes it."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._oracle = Oracle(request["oracle"])
        self._shim = Shim() if request["shimmed"] else None
        if self._shim is not None:
            self._shim.watch(request["folder"], request["oracle"], request["log"])
        self._fault = Fault(*request["fault"]) if request["fault"] else None
        self._failures: list[dict[str, Any]] = []

    def report(self) -> dict[str, Any]:
        counts = {} if self._shim is None else self._shim.counts()
        return {"counts": counts, "failures": self._failures}

    def work(self) -> None:
        request = self._request
        if self._shim is not None and self._fault is not None:
            self._shim.arm(self._fault)
        past = history(Path(request["oracle"]))
        performer = self._opened()
        if past.begun is not None:  # the child before was killed
            self._oracle.write(**settle(performer.memory, past))
        model = past.last
        workload = Workload(request["seed"], model, request["kinds"])
        for _ in range(request["operations"]):
            operation = workload.draw()
            self._oracle.write(begun=operation)
            early = request["early"] and operation["kind"] in _WITHOUT_ANSWER
            if early:  # what a careless store would do
                self._oracle.write(answer={})
            try:
                answer = performer(operation)
            except (FlashbulbError, OSError) as error:
                self._oracle.write(answer=None)
                self._failed(operation["kind"], error)
                performer = self._goes_on(performer, model)
                continue
            if not early:
                self._oracle.write(answer=answer)
            model.apply(operation, json.loads(json.dumps(answer)))
        if request["close"]:
            try:
                performer.memory.close()
            except (FlashbulbError, OSError) as error:
                self._failed("close", error)

    def _opened(self) -> Performer:
        folder = self._request["folder"]
        try:
            return Performer(self._open, folder)
        except (FlashbulbError, OSError) as error:
            self._failed("open", error)
            return Performer(self._open, folder)

    def _open(self, weight: float | None) -> Memory:
        request = self._request
        memory = open_memory(
            request["store"], detector(), weight=weight, durability=request["durability"]
        )
        if request["synchronous_off"]:
            memory._store.database._connection.execute("PRAGMA synchronous = OFF")
        return memory

    def _failed(self, kind: str, error: Exception) -> None:
        """The disk is well from now on."""
        fired = 0 if self._shim is None else self._shim.disarm()
        self._failures.append(
            {"kind": kind, "error": type(error).__name__, "says": str(error), "fired": fired}
        )

    def _goes_on(self, performer: Performer, model: Model) -> Performer:
        """After a failure, on a disk that is well: nothing has changed, and the store works."""
        if performer.memory._store._closed:
            performer = Performer(self._open, self._request["folder"])
        there = found(performer.memory)
        if not same(model.spaces, there):
            raise AssertionError("a call that failed has changed what is there")
        return performer


def main() -> None:
    warm_up()
    gc.freeze()  # a child copies no page of it to count references
    for line in sys.stdin:
        request = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            signal.alarm(_SECONDS)
            code = 1
            try:
                run = Run(request)
                run.work()
                code = 0
                os.write(write, json.dumps(run.report()).encode())
            except BaseException:
                os.write(write, json.dumps({"trace": traceback.format_exc()[-8000:]}).encode())
            finally:
                os._exit(code)
        os.close(write)
        if request["kill_after"] is not None:
            time.sleep(request["kill_after"])
            os.kill(pid, signal.SIGKILL)  # not waited for yet: the number is its own
        with os.fdopen(read, "rb") as pipe:
            report = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        reply = {"status": status, **(json.loads(report) if report else {})}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
