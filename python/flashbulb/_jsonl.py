"""Exports as JSON Lines: the first line is the header, each further one a memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from flashbulb._check import check_text, to_json
from flashbulb._plain import as_dict

__all__ = ["read", "write"]

_LATER: dict[int, dict[str, Any]] = {
    2: {"photograph": None, "deferred": False, "deferred_context": "", "versions": []},
    3: {"archived": None},
}
"""What came with each version; an export of an earlier one has it as in a new memory."""


def write(
    file: BinaryIO, header: dict[str, Any], memories: Iterable[dict[str, Any]], dim: int
) -> None:
    """Write the header and the memories, plain data; `dim` is of the vectors."""
    states = {mode: _to_base64(state) for mode, state in header["surprise"].items()}
    file.write(_line({**header, "surprise": states}))
    for memory in memories:
        file.write(_line({**memory, "vector": _to_base64(memory["vector"])}))


def read(path: str) -> Iterator[tuple[str, Any]]:
    """Each line as a name for it and plain data: the header first, then the memories."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        raise ValueError("line 1: the file is empty, not an export")
    header: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        place = f"line {number}"
        try:
            values = _object(line)
            if number == 1:
                header = values
                states = as_dict(values.get("surprise", {}), "surprise")
                states = {mode: _from_base64(state, "surprise") for mode, state in states.items()}
                values = {**values, "surprise": states} if "surprise" in values else values
            else:
                values = _completed(values, header.get("version"))
                values["vector"] = _from_base64(values.get("vector"), "vector")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from error
        yield place, values


def _completed(values: dict[str, Any], version: object) -> dict[str, Any]:
    """With what the version of the export did not know yet."""
    for since, later in _LATER.items():
        if isinstance(version, int) and version < since:
            unknown = values.keys() & later.keys()
            if unknown:
                raise ValueError(f"unknown to version {version}: {', '.join(sorted(unknown))}")
            values = {**values, **later}
    return values


def _line(value: dict[str, Any]) -> bytes:
    return f"{to_json(value)}\n".encode()


def _object(line: bytes) -> dict[str, Any]:
    try:
        return as_dict(json.loads(line.decode("utf-8"), parse_constant=_no_number), "a line")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(value: object, name: str) -> bytes:
    try:
        return base64.b64decode(check_text(value, name), validate=True)
    except ValueError as error:
        raise ValueError(f"{name} must be base64: {error}") from None
