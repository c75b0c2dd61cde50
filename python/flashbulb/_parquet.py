"""Exports as Parquet: a row for each memory, the header among the file's own key-value pairs.

What has a fixed shape has columns of its own; metadata and photograph are JSON texts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flashbulb._check import to_json
from flashbulb._plain import as_dict

__all__ = ["read", "write"]

_HEADER = b"flashbulb"
_ROWS_AT_ONCE = 1000

_TRACE = pa.struct(
    [
        ("salience", pa.float64()),
        ("floor", pa.float64()),
        ("vividness", pa.float64()),
        ("vividness_time", pa.float64()),
        ("last_access", pa.float64()),
        ("last_strength_change", pa.float64()),
        ("access_count", pa.int64()),
        ("urgency", pa.float64()),
        ("status", pa.int64()),
        ("pinned", pa.bool_()),
    ]
)
_COLUMNS = [
    ("id", pa.int64()),
    ("text", pa.string()),
    ("tags", pa.list_(pa.string())),
    ("metadata", pa.string()),
    ("who", pa.string()),
    ("what", pa.string()),
    ("when", pa.string()),
    ("where", pa.string()),
    ("arousal", pa.float64()),
    ("arousal_source", pa.string()),
    ("surprise", pa.float64()),
    ("importance", pa.float64()),
    ("flashbulb", pa.bool_()),
    ("pinned_by", pa.string()),
    ("created", pa.float64()),
    ("photograph", pa.string()),
    ("deferred", pa.bool_()),
    ("deferred_context", pa.string()),
    ("archived", pa.float64()),
    ("occurrences", pa.list_(pa.struct([("time", pa.float64()), ("metadata", pa.string())]))),
    (
        "versions",
        pa.list_(
            pa.struct([("time", pa.float64()), ("text", pa.string()), ("reason", pa.string())])
        ),
    ),
    ("trace", _TRACE),
]


def _schema(dim: int) -> pa.Schema:
    return pa.schema([*_COLUMNS, ("vector", pa.list_(pa.float32(), dim))])


def write(
    file: BinaryIO, header: dict[str, Any], memories: Iterable[dict[str, Any]], dim: int
) -> None:
    """Write the header and the memories, plain data; `dim` is of the vectors."""
    states = {m: base64.b64encode(s).decode("ascii") for m, s in header["surprise"].items()}
    text = to_json({**header, "surprise": states})
    schema = _schema(dim).with_metadata({_HEADER: text.encode()})
    waiting = iter(memories)
    with pq.ParquetWriter(file, schema) as writer:
        while some := list(islice(waiting, _ROWS_AT_ONCE)):
            rows = [_to_row(memory) for memory in some]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def read(path: str) -> Iterator[tuple[str, Any]]:
    """Each part with a name for its place, as plain data: the header first, then the memories."""
    try:
        with pq.ParquetFile(path) as file:
            header = _header(file.schema_arrow)
            yield "the header", header
            number = 0
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", _from_row(row, f"row {number}")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError)):
            raise
        raise ValueError(f"the file is not Parquet, or damaged: {error}") from error


def _header(schema: pa.Schema) -> dict[str, Any]:
    text = (schema.metadata or {}).get(_HEADER)
    if text is None:
        raise ValueError("the header: not a Flashbulb export, there is none")
    try:
        header = as_dict(json.loads(text), "the header")
        states = as_dict(header.get("surprise"), "surprise")
        header["surprise"] = {m: base64.b64decode(s, validate=True) for m, s in states.items()}
        dim = as_dict(header.get("embedder"), "embedder").get("dim")
        expected = _schema(dim) if isinstance(dim, int) and 0 < dim < 2**31 else None
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"the header: {error}") from error
    if expected is None or not schema.equals(expected):
        raise ValueError("the header: the columns are not those of an export")
    return header


def _to_row(memory: dict[str, Any]) -> dict[str, Any]:
    photograph = memory["photograph"]
    return {
        **memory,
        "metadata": to_json(memory["metadata"]),
        "photograph": None if photograph is None else to_json(photograph),
        "occurrences": [
            {"time": time, "metadata": to_json(metadata)}
            for time, metadata in memory["occurrences"]
        ],
        "versions": [
            {"time": time, "text": text, "reason": reason}
            for time, text, reason in memory["versions"]
        ],
        "vector": np.frombuffer(memory["vector"], dtype="<f4"),
    }


def _from_row(row: dict[str, Any], place: str) -> dict[str, Any]:
    try:
        photograph = row["photograph"]
        return {
            **row,
            "metadata": json.loads(row["metadata"]),
            "photograph": None if photograph is None else json.loads(photograph),
            "occurrences": [
                [each["time"], json.loads(each["metadata"])] for each in row["occurrences"]
            ],
            "versions": [list(each.values()) for each in row["versions"]],
            "vector": np.array(row["vector"], dtype="<f4").tobytes(),
        }
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error
