"""Which memories move to the archive: a policy, and what it says of a namespace."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import check_count, check_limit, check_unit
from flashbulb._store import Space, Store
from flashbulb._traces import STATUS

__all__ = ["Retention", "leaving"]

_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which memories of a namespace move to the archive when ``Memory.apply_retention`` is called.

    Never moved is what is pinned, an open task or a flashbulb, and what has a stability floor above
    `keep_floor`. Of the rest, those move that meet `idle_days` and `vividness` (both, if both are
    given), and then the least vivid ones, until at most `size` memories are left.

    Parameters
    ----------
    idle_days : float, optional
        Moves what was neither remembered nor recalled for at least so many days.
    vividness : float in [0, 1], optional
        Moves what is less vivid than this.
    size : int, optional
        How many memories may stay, unless more are protected.
    keep_floor : float in [0, 1]
        By default 0: only what may fade to nothing can move.

    Raises
    ------
    ValueError, TypeError
        If a value is out of range, or nothing is asked for.
    """

    idle_days: float | None = None
    vividness: float | None = None
    size: int | None = None
    keep_floor: float = 0.0

    def __post_init__(self) -> None:
        days = check_limit(self.idle_days, "idle_days")
        if days is not None and days < 0:
            raise ValueError(f"idle_days must be 0 or more, got {self.idle_days!r}")
        if self.vividness is not None:
            check_unit(self.vividness, "vividness")
        if self.size is not None:
            check_count(self.size, "size")
        check_unit(self.keep_floor, "keep_floor")
        if self.idle_days is self.vividness is self.size is None:
            names = ", ".join(field.name for field in fields(self)[:3])
            raise ValueError(f"a Retention must have at least one of {names}")


def leaving(store: Store, space: Space, policy: Retention, now: float) -> list[int]:
    """Ids of the memories in RAM that a policy moves to the archive, ascending."""
    if space.number is None:
        return []
    engine = space.engine
    traces = engine.traces()
    ids: NDArray[np.int64] = traces["ids"]
    free = ~traces["pinned"] & (traces["status"] != STATUS["open"])
    free &= traces["floor"] <= policy.keep_floor
    free &= ~np.isin(ids, store.database.flashbulbs(space.number))
    vividness = engine.vividness(ids, now=now)
    moves = np.zeros(len(ids), np.bool_)
    if policy.idle_days is not None or policy.vividness is not None:
        moves = free.copy()
    if policy.idle_days is not None:
        used = np.fmax(traces["created"], traces["last_access"])
        repeats = store.database.last_occurrences(space.number)
        used = np.fmax(used, [repeats.get(id, -np.inf) for id in ids.tolist()])
        moves &= now - used >= policy.idle_days * _SECONDS_PER_DAY
    if policy.vividness is not None:
        moves &= vividness < policy.vividness
    if policy.size is not None:
        others = np.flatnonzero(free & ~moves)
        excess = max(0, len(ids) - int(moves.sum()) - policy.size)
        faintest = others[np.argsort(vividness[others], kind="stable")][:excess]
        moves[faintest] = True
    leaving: list[int] = ids[moves].tolist()
    return leaving
