"""How many threads one call may use."""

from __future__ import annotations

from flashbulb import _core
from flashbulb._check import check_count

__all__ = ["get_threads", "set_threads"]

_MOST = 1024


def get_threads() -> int:
    """Number of threads that one call may use, the caller's own included.

    At first it is the environment variable ``FLASHBULB_THREADS``, or the number of processors that
    this process may run on (its affinity, or the quota of its control group) if that is unset
    or 0. Results do not depend on it, bit for bit.
    """
    return _core.threads()


def set_threads(count: int) -> None:
    """Sets for this process how many threads one call may use.

    Large scans are split among so many; small ones stay on the caller's thread. Several callers at
    once share the threads, which sleep while there is nothing to do.

    Parameters
    ----------
    count : int in [0, 1024]
        1: only the caller's own thread. 0: as many as this process has processors.

    Raises
    ------
    TypeError, ValueError
        If count is not an integer, or out of range.
    """
    count = check_count(count, "count")
    if count > _MOST:
        raise ValueError(
            f"count must be in [0, {_MOST}] (0: the available processors), got {count}"
        )
    _core.set_threads(count)
