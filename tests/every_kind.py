"""Memories of every kind, for tests of what has to keep them all."""

from __future__ import annotations

from typing import Any

from flashbulb import Memory


def remember_every_kind(memory: Memory, clock: Any, events: int) -> None:
    """Into an empty store: a task, a pin, a flashbulb, a repeat, a gap in the ids, and a stream."""
    memory.remember("Line\u2028one\n\0two 🙂", tags=["ä", "b"], metadata={"x": [1.5, None]})
    memory.remember("CRITICAL: the payment system is down", who="Ana", when=clock.now)
    memory.complete(memory.remember("Call the bank", urgency=1 / 3).id)
    memory.pin(memory.remember("Keep this", where="here").id)
    memory.remember("Forgotten")
    memory.forget(5)
    for n in range(events):
        clock.pass_(hours=1 / 3)
        memory.remember(f"Server {n % 31} answered in {n} ms", tags=[f"t{n % 4}"])
    memory.remember("Keep this", where="here", metadata={"again": True})
