"""What reads files and states from elsewhere, each as a function of bytes.

A target returns if it can make use of the bytes or refuses them as it says that it does; whatever
else comes out of it is a fault. `python tests/fuzz/run.py TARGET` feeds them with atheris,
`tests/test_fuzz_readers.py` with the corpus and changes of it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from flashbulb import Memory, SurpriseDetector
from flashbulb.arousal import RuleSet
from flashbulb.arousal.labels import read_labels
from flashbulb.replay import Columns, read_events

__all__ = ["CORPUS", "TARGETS", "embed"]

CORPUS = Path(__file__).parent / "corpus"
NOW = 1_700_000_000.0


def embed(texts: list[str]) -> list[list[float]]:
    return [[len(text) % 7 + 1.0, sum(map(ord, text)) % 97 + 1.0, 1.0] for text in texts]


def _in_file(data: bytes, ending: str, read: Callable[[Path], object]) -> object:
    """What `read` makes of a file with these bytes; None if it refuses them."""
    descriptor, path = tempfile.mkstemp(suffix=ending)
    try:
        os.write(descriptor, data)
        os.close(descriptor)
        return read(Path(path))
    except ValueError:
        return None
    finally:
        os.unlink(path)


_memory: list[Memory] = []


def jsonl(data: bytes) -> None:
    """An import is refused and changes nothing, or what it brought is sound and can be exported."""
    if not _memory or len(_memory[0]) > 200:
        _memory[:] = [Memory(":memory:", embedder=embed, clock=lambda: NOW)]
    memory = _memory[0]
    before = len(memory)
    count = _in_file(data, ".jsonl", lambda path: memory.import_(path, new_ids=True))
    assert len(memory) == before + (count if isinstance(count, int) else 0)
    if count:
        assert memory.check() == []
        assert len(memory.list(now=NOW)) == len(memory)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "again.jsonl"
            memory.export(file)
            with Memory(":memory:", embedder=embed, neutral=True, clock=lambda: NOW) as other:
                assert other.import_(file) == len(memory)


def events(data: bytes) -> None:
    """Events of a CSV file."""
    columns = Columns(tags="tags", urgency="urgency", key="key")
    found = _in_file(data, ".csv", lambda path: read_events(path, columns, until=NOW))
    if isinstance(found, list) and len(found) < 100:
        with Memory(":memory:", embedder=embed, neutral=True) as memory:
            memory.remember_many(found)


def labels(data: bytes) -> None:
    """Labels of a user's own texts."""
    _in_file(data, ".tsv", read_labels)


def rules(data: bytes) -> None:
    """A file of rules of arousal."""
    _in_file(data, ".toml", RuleSet.load)


def surprise(data: bytes) -> None:
    """Statistics of surprise; what is taken for them can be used and written again."""
    try:
        detector = SurpriseDetector.from_state(data, last_seen={})
    except ValueError:
        return
    again = SurpriseDetector.from_state(detector.state(), last_seen={})
    assert again.state() == detector.state()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "jsonl": jsonl,
    "events": events,
    "labels": labels,
    "rules": rules,
    "surprise": surprise,
}
