"""The namespaces that are in RAM, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from flashbulb.engine import Engine
from flashbulb.lexical import LexicalIndex
from flashbulb.surprise import SurpriseDetector

__all__ = ["Space", "Spaces"]

# Of the Python objects of an empty namespace, measured; and of an id in a set.
_SPACE_BYTES = 4_000
_ID_BYTES = 64


class Space:
    """One namespace in RAM."""

    def __init__(
        self,
        name: str,
        number: int | None,
        engine: Engine,
        detector: SurpriseDetector | None,
        surprise_pins: set[int],
        refused_pins: int,
        archived: set[int] | None = None,
    ) -> None:
        self.name = name
        self.number = number
        """In the database; None until the first memory."""
        self.engine = engine
        self.detector = detector
        self.surprise_pins = surprise_pins
        self.refused_pins = refused_pins
        self.archived = set() if archived is None else archived
        """Ids of the memories in the archive: they are on disk only."""
        self.has_archive = False
        """Whether the engine holds these too, for one call."""
        self.lexical: LexicalIndex | None = None
        """Built at the first recall that needs it."""
        self.dirty: set[int] = set()
        """Rows whose strength a recall changed since it was last written."""

    def memory_bytes(self) -> int:
        """What it takes in RAM: the engine exactly, words, statistics and sets about."""
        use = self.engine.memory_bytes()
        total = _SPACE_BYTES + use.vectors + use.structure + use.sketch + use.traces
        total += _ID_BYTES * (len(self.surprise_pins) + len(self.archived) + len(self.dirty))
        for part in (self.lexical, self.detector):
            if part is not None:
                total += part.memory_bytes
        return total


class Spaces:
    """Namespaces by name, the least recently used first.

    Parameters
    ----------
    budget : int or None
        Bytes that all of them may take together; None: any number. The one that was used last
        stays, whatever it takes.
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self._spaces: dict[str, Space] = {}
        self._bytes: dict[str, int] = {}
        self._total = 0
        self._stamps: dict[str, tuple[int, bool]] = {}  # what was so when it was measured

    def __len__(self) -> int:
        return len(self._spaces)

    def __iter__(self) -> Iterator[Space]:
        return iter(list(self._spaces.values()))

    def get(self, name: str) -> Space | None:
        return self._spaces.get(name)

    def put(self, space: Space) -> None:
        """Have it as the one that was used last; another one of its name goes."""
        self._spaces.pop(space.name, None)
        self._spaces[space.name] = space

    def drop(self, space: Space) -> None:
        """Have it no longer, if it is there."""
        if self._spaces.get(space.name) is space:
            del self._spaces[space.name]
            self._total -= self._bytes.pop(space.name, 0)
            self._stamps.pop(space.name, None)

    def clear(self) -> None:
        self._spaces.clear()
        self._bytes.clear()
        self._stamps.clear()
        self._total = 0

    def used(self, space: Space) -> list[Space]:
        """Measure a namespace after use; return those that should go, the least recent first."""
        if self._spaces.get(space.name) is not space:
            return []
        self.put(space)
        if self.budget is None:
            return []
        stamp = (space.engine.next_id, space.lexical is None)
        if self._stamps.get(space.name) != stamp:  # to measure takes longer
            size = space.memory_bytes()
            self._total += size - self._bytes.get(space.name, 0)
            self._bytes[space.name], self._stamps[space.name] = size, stamp
        leaving = []
        excess = self._total - self.budget
        for other in self._spaces.values():
            if excess <= 0 or other is space:
                break
            leaving.append(other)
            excess -= self._bytes.get(other.name, 0)
        return leaving
