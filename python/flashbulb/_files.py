"""Files: one that is replaced as a whole or not at all, and tables with a header."""

from __future__ import annotations

import codecs
import contextlib
import csv
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from flashbulb._check import check_file

__all__ = ["bad_rows", "outside_the_store", "replacing", "synchronise", "table_rows"]

_MOST_REPORTED = 10


@contextlib.contextmanager
def replacing(target: str, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` once all of it is written; then both are durable.

    Parameters
    ----------
    mode : int
        Permissions, as the umask allows.
    """
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    synchronise(folder)


def synchronise(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def outside_the_store(store: str, path: str | os.PathLike[str]) -> str:
    """The real path of a file that is none of those of the open store at the real path `store`.

    To open and close one of those would drop the locks that SQLite holds.
    """
    target = os.path.realpath(check_file(path))
    if store != ":memory:" and os.path.exists(target):
        for end in ("", "-wal", "-shm", ".lock"):
            own = store + end
            if os.path.exists(own) and os.path.samefile(own, target):
                raise ValueError(f"{path} is a file of the open store itself")
    return target


def table_rows(
    path: Path,
    delimiter: str,
    names: Sequence[str],
    *,
    optional: Sequence[str] = (),
    quoted: bool = True,
    error: type[ValueError] = ValueError,
) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Line number and cells by column, or what is wrong with the row.

    Parameters
    ----------
    path : Path
        A file in UTF-8 whose first line names the columns. A byte that is not UTF-8 becomes a lone
        surrogate, which a check of the value refuses: so it is reported with its line.
    names, optional : sequence of str
        Columns that must be there, once; and that may be, once.
    quoted : bool
        Whether double quotes enclose cells, as in CSV.
    error : type of ValueError
        What is raised for a header that is not as wanted.
    """
    with path.open("rb") as beginning:
        if beginning.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise error(f"{path} must be UTF-8, got UTF-16: save it in UTF-8")
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            reader = csv.reader(file, delimiter=delimiter, strict=True, quoting=quoting)
        except TypeError as cause:
            raise error(f"the delimiter must be one character, got {delimiter!r}") from cause
        try:
            header = next(reader, None)
        except csv.Error as cause:
            raise error(f"{path}, line {reader.line_num}: {cause}") from cause
        if not header:
            raise error(f"{path} has no first line with the names of the columns")
        found = ", ".join(header)
        for name in names:
            if name not in header:
                raise error(f"{path} has no column {name!r}; its columns are: {found}")
        for name in (*names, *optional):
            if header.count(name) > 1:
                raise error(f"{path} has several columns {name!r}; its columns are: {found}")
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as cause:
                yield line, str(cause)
                return  # where the next row begins is unknown
            if row is None:
                return
            if not row:
                continue
            if len(row) == len(header):
                yield line, dict(zip(header, row, strict=True))
            else:
                yield line, f"expected {len(header)} columns as in the header, got {len(row)}"


def bad_rows(path: str | Path, problems: Sequence[str], consequence: str = "") -> str:
    """The message about rows of a table that are not as wanted: the first ones, and how many."""
    count = len(problems)
    listed = list(problems[:_MOST_REPORTED])
    if count > _MOST_REPORTED:
        listed.append(f"and {count - _MOST_REPORTED} more")
    return "\n  ".join((f"{path} has {count} bad row{'s' * (count > 1)}{consequence}:", *listed))
