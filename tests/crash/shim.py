"""The preloaded library that watches file system calls: built here, armed in the child, its log."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

SOURCE = Path(__file__).with_name("shim.c")

# The orders of the enumerations in shim.c. "any" is the number after the last function.
FUNCTIONS = (
    "write", "pwrite64", "ftruncate64", "fdatasync", "fsync", "rename", "unlink", "create", "any",
)  # fmt: skip
ORACLE = "oracle"
ACTIONS = ("none", "kill", "tear", "short", "error")

Action = Literal["none", "kill", "tear", "short", "error"]


class Fault(NamedTuple):
    """What becomes of the `n`-th call of `function` on a path that ends in `ending`.

    kill: the process ends before it; tear: after half of what it writes; short: it writes half and
    says so; error: it fails with `error`, an errno. `lasting`: so do all that come after it.
    """

    function: str
    n: int
    action: Action
    error: int = 0
    ending: str = ""
    lasting: bool = False


def build(folder: Path) -> Path | None:
    """Compile it with the system's C compiler; None if there is none."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or os.uname().sysname != "Linux":
        return None
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE]
    subprocess.run(list(map(str, command)), check=True)
    return library


class Shim:
    """The library in this process, if it was preloaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_count.restype = ctypes.c_long
        self._library.shim_fired.restype = ctypes.c_long

    def watch(self, folder: str, oracle: str, log: str) -> None:
        """`log` "": none is written."""
        self._library.shim_watch(*(name.encode() for name in (folder, oracle, log)))

    def arm(self, fault: Fault) -> None:
        self._library.shim_arm(
            FUNCTIONS.index(fault.function),
            fault.ending.encode(),
            ctypes.c_long(fault.n),
            ACTIONS.index(fault.action),
            fault.error,
            int(fault.lasting),
        )

    def disarm(self) -> int:
        """The disk is well again. How many calls were not what they should have been?"""
        fired = int(self._library.shim_fired())
        self.arm(Fault("any", 0, "none"))
        return fired

    def counts(self) -> dict[str, int]:
        """How often each function was called on the folder's files."""
        names = FUNCTIONS[:-1]
        return {name: int(self._library.shim_count(i)) for i, name in enumerate(names)}


SYNC_FAILED = -1
"""The offset of a sync that failed."""


class Call(NamedTuple):
    """One record of the log: a call that succeeded, or a sync that failed."""

    function: str
    inode: int
    offset: int
    path: str
    data: bytes


_HEAD = struct.Struct("<IIQqQ")


def calls(log: Path) -> Iterator[Call]:
    """All whole records; a killed process may have left a part of one at the end."""
    content = log.read_bytes()
    place = 0
    while place + _HEAD.size <= len(content):
        function, path_length, inode, offset, length = _HEAD.unpack_from(content, place)
        start = place + _HEAD.size + path_length
        if start + length > len(content):
            return
        name = ORACLE if function == len(FUNCTIONS) else FUNCTIONS[function]
        path = content[place + _HEAD.size : start].decode()
        yield Call(name, inode, offset, path, content[start : start + length])
        place = start + length
