"""What a disk may hold after a power cut, from the log of what was written, synced and named.

Only two things are sure: the bytes of a file at its last sync, and the names of a folder at the
folder's last sync. Of what came after, any part may be there: of each sector any of the contents
that it had since, of each change of a name that it happened or that it did not. A sector is never
half old and half new, and a write changes no byte beside its own (SQLite's "powersafe overwrite").
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from crash.shim import SYNC_FAILED, Call

Kind = Literal["nothing", "everything", "some files", "sectors"]
KINDS: tuple[Kind, ...] = ("nothing", "everything", "some files", "sectors")
_SECTORS = (512, 4096)


class _Write(NamedTuple):
    offset: int
    data: bytes
    size: int | None = None
    """Of a truncation; then there is no data."""


class _File:
    """One file by whatever name: its bytes at the last sync, and what came after."""

    def __init__(self, content: bytes = b"") -> None:
        self.synced = content
        self.pending: list[_Write] = []

    def sync(self) -> None:
        self.synced, self.pending = self.after(self.pending), []

    def after(self, writes: list[_Write]) -> bytes:
        content = bytearray(self.synced)
        for write in writes:
            _apply(content, write)
        return bytes(content)

    def sectors(self, random: random.Random) -> bytes:
        """Each sector as it was after some of the writes, independently of the others."""
        sector = random.choice(_SECTORS)
        seen: dict[int, int] = {}

        def until(number: int) -> int:
            """So many writes reached this sector."""
            if number not in seen:
                seen[number] = random.choice(
                    (0, len(self.pending), random.randint(0, len(self.pending)))
                )
            return seen[number]

        content = bytearray(self.synced)
        size = len(content)
        kept = random.randint(0, len(self.pending))  # of the sizes
        for i, write in enumerate(self.pending):
            if write.size is not None:
                if i < kept:
                    size = write.size
                continue
            end = write.offset + len(write.data)
            if i < kept:
                size = max(size, end)
            content.extend(bytes(max(0, end - len(content))))
            for number in range(write.offset // sector, -(-end // sector)):
                if i < until(number):
                    a, b = max(write.offset, number * sector), min(end, (number + 1) * sector)
                    content[a:b] = write.data[a - write.offset : b - write.offset]
        content.extend(bytes(max(0, size - len(content))))
        return bytes(content[:size])


def _apply(content: bytearray, write: _Write) -> None:
    if write.size is not None:
        content.extend(bytes(max(0, write.size - len(content))))
        del content[write.size :]
        return
    content.extend(bytes(max(0, write.offset - len(content))))
    content[write.offset : write.offset + len(write.data)] = write.data


Names = dict[str, _File]
_Naming = Callable[[Names], None]


class Disk:
    """One folder, empty at first, as the calls of a log change it.

    When a sync fails, the system takes what was to be written for written (so Linux does), and a
    later sync is good without it: `written` says whether it was, or is lost.
    """

    def __init__(self, folder: Path, *, written: bool = False) -> None:
        self._folder = str(folder)
        self._written = written
        self._files: dict[int, _File] = {}  # by inode, while they have a name
        self._names: Names = {}  # as programs see them
        self._synced: Names = {}
        self._pending: list[_Naming] = []

    def do(self, call: Call) -> None:
        name = os.path.relpath(call.path, self._folder)
        if call.function == "create":
            self._files[call.inode] = file = _File()
            self._name(lambda names: names.update({name: file}))
        elif call.function == "unlink":
            self._name(lambda names: names.pop(name, None))
        elif call.function == "rename":
            file = self._names[name]
            to = os.path.relpath(call.data.decode(), self._folder)

            def rename(names: Names) -> None:
                if names.get(name) is file:
                    del names[name]
                names[to] = file

            self._name(rename)
        elif call.function in ("fsync", "fdatasync"):
            failed = call.offset == SYNC_FAILED
            if name == ".":
                if not failed:
                    self._synced, self._pending = dict(self._names), []
            elif failed and not self._written:
                self._files[call.inode].pending.clear()
            else:
                self._files[call.inode].sync()
        elif call.function == "ftruncate64":
            self._files[call.inode].pending.append(_Write(0, b"", call.offset))
        else:
            self._files[call.inode].pending.append(_Write(call.offset, call.data))

    def _name(self, naming: _Naming) -> None:
        naming(self._names)
        self._pending.append(naming)

    def now(self) -> dict[str, bytes]:
        """The files as programs see them: what is there if only the process ends."""
        return {name: file.after(file.pending) for name, file in self._names.items()}

    def after_power_cut(self, kind: Kind, random: random.Random) -> dict[str, bytes]:
        """The files as the next start may find them."""
        names = dict(self._synced)
        for naming in self._pending:
            if kind == "everything" or (kind != "nothing" and random.random() < 0.5):
                naming(names)
        return {name: self._content(file, kind, random) for name, file in names.items()}

    def _content(self, file: _File, kind: Kind, random: random.Random) -> bytes:
        if kind == "sectors":
            return file.sectors(random)
        if kind == "everything" or (kind == "some files" and random.random() < 0.5):
            return file.after(file.pending)
        return file.synced


def laid_out(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, content in files.items():
        # The index of SQLite's log is in shared memory: no program trusts one that it finds.
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)


def cuts(
    folder: Path, log: Iterable[Call], *, written: bool = False
) -> Iterator[tuple[Disk, Call]]:
    """The disk after each call of the log: a power cut may come there."""
    disk = Disk(folder, written=written)
    for call in log:
        if call.function != "oracle":
            disk.do(call)
        yield disk, call
