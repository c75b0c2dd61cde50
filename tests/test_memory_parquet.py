"""Exports as Parquet, which needs pyarrow: what comes back is what JSON Lines would bring."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from every_kind import remember_every_kind
from flashbulb import EmbedderMismatch, Memory

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def memory(tmp_path: Path, clock: Any) -> Any:
    """A store with every kind of memory in it."""
    with Memory(tmp_path / "source.db", clock=clock) as memory:
        remember_every_kind(memory, clock, events=60)
        memory.reconsolidate(2, "Ana restarted the gateway")
        for n in range(10):
            memory.recall(f"server {n}")
        yield memory


@pytest.fixture
def exported(memory: Memory, tmp_path: Path) -> Path:
    file = tmp_path / "export.parquet"
    assert memory.export(file) == len(memory)
    return file


def test_it_comes_back_bit_for_bit(
    memory: Memory, exported: Path, tmp_path: Path, clock: Any
) -> None:
    expected = tmp_path / "expected.jsonl"
    memory.export(expected)
    with Memory(":memory:", namespace="elsewhere", clock=clock) as copy:
        assert copy.import_(exported) == len(memory)
        assert copy.list() == memory.list()
        copy.export(tmp_path / "again.jsonl")
        assert (tmp_path / "again.jsonl").read_bytes() == expected.read_bytes()
        copy.export(tmp_path / "again.PARQUET")
        text = "A new thing"
        assert copy.remember(text, tags=["t1"]) == memory.remember(text, tags=["t1"])
    assert pq.read_table(tmp_path / "again.PARQUET").equals(pq.read_table(exported))


def test_more_rows_than_one_group_and_none(tmp_path: Path) -> None:
    file = tmp_path / "export.parquet"
    with Memory(":memory:", neutral=True) as memory:
        assert memory.export(file) == 0
        assert memory.import_(file) == 0
        memory.remember_many([f"event {n}" for n in range(2500)])
        assert memory.export(file) == 2500
        with Memory(":memory:", neutral=True) as copy:
            assert copy.import_(file) == 2500
            assert copy.get(2500).text == "event 2499"
            assert copy.import_(file, new_ids=True) == 2500
            assert len(copy) == 5000


def test_other_programs_read_the_columns(exported: Path) -> None:
    table = pq.read_table(exported)
    assert table.column("text").to_pylist()[2] == "Call the bank"
    assert len(table.column("vector")[0]) == 256
    assert table.column("tags")[0].as_py() == ["ä", "b"]
    assert json.loads(table.column("metadata")[0].as_py()) == {"x": [1.5, None]}


# What is refused, with nothing changed


def rewritten(file: Path, change: Callable[[Any], Any]) -> None:
    table = pq.read_table(file)
    pq.write_table(change(table), file)


def with_column(name: str, row: int, value: Any) -> Callable[[Any], Any]:
    def change(table: Any) -> Any:
        field = table.schema.field(name)
        values = table.column(name).to_pylist()
        values[row] = value
        index = table.schema.get_field_index(name)
        return table.set_column(index, field, pa.array(values, type=field.type))

    return change


def with_header(**values: Any) -> Callable[[Any], Any]:
    def change(table: Any) -> Any:
        header = {**json.loads(table.schema.metadata[b"flashbulb"]), **values}
        return table.replace_schema_metadata({b"flashbulb": json.dumps(header).encode()})

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_column("id", 3, 1), r"row 4: id 1 is in the file twice"),
        (with_column("id", 3, None), r"row 4: id must be an integer"),
        (with_column("text", 3, " "), r"row 4: text must not be blank"),
        (with_column("text", 3, None), r"row 4: text must be a str"),
        (with_column("metadata", 3, "{"), r"row 4: "),
        (with_column("metadata", 3, "[]"), r"row 4: metadata must be an object"),
        (with_column("metadata", 3, "[" * 100_000), r"row 4: "),
        (with_column("arousal", 3, float("nan")), r"row 4: arousal"),
        (with_column("vector", 3, [0.0] * 256), r"row 4: vector must have length 1"),
        (with_column("vector", 3, None), r"row 4: vector"),
        (with_column("vector", 3, [float("inf")] * 256), r"row 4: vector must have length 1"),
        (with_column("trace", 3, None), r"row 4: trace must be an object"),
        (with_column("occurrences", 3, [None]), r"row 4: "),
        (with_column("versions", 3, [{"time": None, "text": "x", "reason": "y"}]), r"row 4: "),
        (with_column("tags", 3, [None]), r"row 4: "),
        (lambda table: table.slice(1), r"ends after 63 of 64 memories"),
        (lambda table: table.drop_columns(["who"]), r"columns are not those"),
        (lambda table: table.replace_schema_metadata({}), r"not a Flashbulb export"),
        (with_header(memories=-1), r"the header: memories"),
        (with_header(version=99), r"needs version 99"),
        (with_header(surprise=[]), r"surprise must be an object"),
        (with_header(surprise={"centroid": "!"}), r"the header: .*base64"),
        (with_header(embedder=None), r"embedder must be an object"),
        (with_header(more=1), r"missing or unknown: more"),
    ],
)
def test_a_bad_file_changes_nothing_and_says_where(
    exported: Path, change: Callable[[Any], Any], message: str
) -> None:
    rewritten(exported, change)
    with Memory(":memory:") as memory:
        with pytest.raises(ValueError, match=rf"export\.parquet.*{message}"):
            memory.import_(exported)
        assert len(memory) == 0
        assert memory.stats()["namespaces"] == 0


def test_another_embedder_is_refused(exported: Path) -> None:
    def embedder(texts: Any) -> Any:
        return [[1.0, 2.0]] * len(texts)

    with Memory(":memory:", embedder=embedder) as memory, pytest.raises(EmbedderMismatch):
        memory.import_(exported)


@pytest.mark.parametrize("cut", range(0, 100, 7))
def test_a_file_that_is_cut_short_is_refused(exported: Path, cut: int) -> None:
    data = exported.read_bytes()
    exported.write_bytes(data[: len(data) * cut // 100])
    with Memory(":memory:") as memory:
        with pytest.raises(ValueError, match=r"export\.parquet"):
            memory.import_(exported)
        assert len(memory) == 0


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with Memory(":memory:") as memory, pytest.raises(FileNotFoundError):
        memory.import_(tmp_path / "no.parquet")


def test_without_pyarrow_it_is_said_what_to_install() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
from flashbulb import Memory
with Memory(":memory:") as memory:
    try:
        memory.export("export.parquet")
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'flashbulb[parquet]'" in done.stdout, done.stderr
