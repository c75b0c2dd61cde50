"""The bundled stream of messages and the questions asked after it."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DAY_SECONDS", "Message", "Question", "Scenario", "load_scenario"]

DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the stream."""

    key: str
    day: float
    text: str
    tags: tuple[str, ...]
    urgency: float | None
    """Makes the message an open task."""
    completes: str
    """Key of the task that is done with this message; empty: none."""
    kind: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the keys any of which may rightly come first."""

    text: str
    kind: str
    expect: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is frozen."""

    start: float
    """Epoch seconds of day 0."""
    days: float
    description: str
    messages: tuple[Message, ...]
    questions: tuple[Question, ...]

    def at(self, day: float) -> float:
        """Epoch seconds of a day of the stream."""
        return self.start + day * DAY_SECONDS

    @property
    def end(self) -> float:
        """When the questions are asked."""
        return self.at(self.days)


def load_scenario() -> Scenario:
    """Read the bundled files."""
    folder = files("flashbulb.demo")
    asked = tomllib.loads((folder / "questions.toml").read_text(encoding="utf-8"))
    lines = (folder / "stream.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    start: datetime = asked["stream"]["start"]
    return Scenario(
        start=start.timestamp(),
        days=float(asked["stream"]["days"]),
        description=asked["stream"]["description"],
        messages=tuple(
            Message(
                key=row["key"],
                day=float(row["day"]),
                text=row["text"],
                tags=tuple(row["tags"].split(";")) if row["tags"] else (),
                urgency=float(row["urgency"]) if row["urgency"] else None,
                completes=row["completes"],
                kind=row["kind"],
            )
            for row in csv.DictReader(lines, strict=True)
        ),
        questions=tuple(
            Question(q["text"], q["kind"], tuple(q["expect"]), q["why"]) for q in asked["question"]
        ),
    )
