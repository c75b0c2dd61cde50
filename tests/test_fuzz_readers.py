"""Readers of files and states from elsewhere: the corpus of the fuzzers, and changes of it.

`just fuzz-readers` goes on where this stops, led by coverage.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def _readers() -> Any:
    path = Path(__file__).parent / "fuzz" / "readers.py"
    spec = importlib.util.spec_from_file_location("fuzz_readers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


readers = _readers()
FILES = sorted(readers.CORPUS.glob("*/*"))


def test_every_target_has_a_corpus() -> None:
    assert {file.parent.name for file in FILES} >= readers.TARGETS.keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_the_corpus(file: Path) -> None:
    if file.parent.name in readers.TARGETS:
        readers.TARGETS[file.parent.name](file.read_bytes())


def test_the_good_files_are_taken() -> None:
    """Otherwise their changes would all stop at the same gate."""
    taken = {
        "jsonl": lambda path: readers.Memory(":memory:", embedder=readers.embed).import_(path),
        "labels": readers.read_labels,
        "rules": readers.RuleSet.load,
    }
    for name, read in taken.items():
        for file in (readers.CORPUS / name).glob("good-*"):
            assert read(file) is not None


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """A file of the corpus, some bytes or parts of it replaced, cut, doubled."""
    files = [file for file in FILES if file.parent.name == name]
    data = bytearray(draw(st.sampled_from(files)).read_bytes())
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        kind = draw(st.sampled_from(["replace", "cut", "double", "end", "token"]))
        if kind == "replace":
            data[start:end] = draw(st.binary(max_size=20))
        elif kind == "cut":
            del data[start:end]
        elif kind == "double":
            data[start:start] = data[start:end]
        elif kind == "end":
            del data[start:]
        else:
            data[start:end] = draw(st.sampled_from(TOKENS))
    return bytes(data)


TOKENS = [
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"9" * 400, b'""', b"[]", b"{}", b"[" * 3000),
    *(
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b'"\\ud800"',
        b"\r",
        b"\n",
        b"\n\n",
        b",",
        b"\t",
        b'"',
        b"=",
    ),
]


@pytest.mark.parametrize("name", readers.TARGETS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changes_of_the_corpus(name: str, data: st.DataObject) -> None:
    readers.TARGETS[name](data.draw(changed(name)))
