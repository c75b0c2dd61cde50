"""The shape of the bundled demo stream, and that nobody has touched it since it was frozen."""

from __future__ import annotations

import csv
import hashlib
import math
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEMO = Path(__file__).resolve().parents[1] / "python" / "flashbulb" / "demo"
STREAM = DEMO / "stream.csv"
QUESTIONS = DEMO / "questions.toml"

# Both files were written and hashed before any ranking was run on them. A demo whose stream or
# questions follow the tuning would only show the tuning, so a change here must be a deliberate
# re-freeze, never a way to make an answer come out right.
FROZEN = {
    STREAM: "461d3d8d66f1d1a41fda2062186d4eb8b1df315a72ce404007e2212d9a7f12d6",
    QUESTIONS: "e8133dca889ded1642127e9b839bfac83e24e8a8b6091f45ee57b8fae3f6d428",
}

COLUMNS = ["key", "day", "text", "tags", "urgency", "completes", "kind"]
DAYS = 90
OLD_DAYS = 45  # an unresolved emergency older than this has outlived several half-lives


@dataclass(frozen=True)
class Message:
    key: str
    day: float
    text: str
    tags: tuple[str, ...]
    urgency: float | None
    completes: str
    kind: str


def read_stream() -> list[Message]:
    with STREAM.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        assert reader.fieldnames == COLUMNS
        return [
            Message(
                key=row["key"],
                day=float(row["day"]),
                text=row["text"],
                tags=tuple(row["tags"].split(";")) if row["tags"] else (),
                urgency=float(row["urgency"]) if row["urgency"] else None,
                completes=row["completes"],
                kind=row["kind"],
            )
            for row in reader
        ]


@pytest.fixture(scope="module")
def stream() -> list[Message]:
    return read_stream()


@pytest.fixture(scope="module")
def questions() -> dict[str, Any]:
    parsed: dict[str, Any] = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    return parsed


def unresolved_emergencies(stream: list[Message]) -> list[Message]:
    completed = {message.completes for message in stream}
    return [
        message
        for message in stream
        if message.kind == "emergency"
        and message.urgency is not None
        and message.key not in completed
    ]


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.name)
def test_frozen_before_tuning(path: Path) -> None:
    assert hashlib.sha256(path.read_bytes()).hexdigest() == FROZEN[path]


def test_keys_are_unique_slugs(stream: list[Message]) -> None:
    keys = [message.key for message in stream]
    assert len(set(keys)) == len(keys)
    assert all(key.replace("-", "").isalnum() and key == key.lower() for key in keys)


def test_days_ascend_within_the_span(stream: list[Message]) -> None:
    days = [message.day for message in stream]
    assert all(before < after for before, after in pairwise(days))
    assert days[0] >= 0
    assert days[-1] <= DAYS


def test_times_look_like_working_life(stream: list[Message], questions: dict[str, Any]) -> None:
    start: datetime = questions["stream"]["start"]
    moments = [start + timedelta(days=message.day) for message in stream]
    assert all(7 <= moment.hour < 20 for moment in moments)
    on_weekends = sum(moment.weekday() >= 5 for moment in moments)
    # Two days in seven would be 0.29 of the messages if weekends were as busy as weekdays.
    assert 0 < on_weekends / len(stream) < 0.15


def test_texts_tags_and_urgencies_are_well_formed(stream: list[Message]) -> None:
    for message in stream:
        assert 3 <= len(message.text.split()) <= 60, message.key
        assert message.text == message.text.strip()
        assert all(tag and tag == tag.strip() for tag in message.tags), message.key
        if message.urgency is not None:
            assert math.isfinite(message.urgency), message.key
            assert 0 <= message.urgency <= 1, message.key
    assert len({message.text for message in stream}) == len(stream)


def test_completions_refer_to_an_earlier_open_task(stream: list[Message]) -> None:
    open_tasks: set[str] = set()
    for message in stream:
        if message.completes:
            assert message.completes in open_tasks, message.key
            open_tasks.remove(message.completes)
        if message.urgency is not None:
            open_tasks.add(message.key)
    assert all(bool(message.completes) == (message.kind == "resolved") for message in stream)


def test_counts_of_each_kind(stream: list[Message]) -> None:
    assert Counter(message.kind for message in stream) == {
        "mundane": 92,
        "ticket": 45,
        "emergency": 27,
        "resolved": 21,
        "fact": 15,
        "negative": 12,
        "update": 6,
    }
    incidents = [m for m in stream if m.kind == "emergency" and m.urgency is not None]
    assert len(incidents) == 8


def test_unresolved_emergencies(stream: list[Message], questions: dict[str, Any]) -> None:
    unresolved = unresolved_emergencies(stream)
    assert len(unresolved) == 3
    assert sum(DAYS - message.day > OLD_DAYS for message in unresolved) == 2
    (question,) = [
        q for q in questions["question"] if q["text"] == "What critical issues are unresolved?"
    ]
    assert set(question["expect"]) == {message.key for message in unresolved}


def test_updates_follow_their_fact_by_weeks(stream: list[Message]) -> None:
    by_key = {message.key: message for message in stream}
    for update in (message for message in stream if message.kind == "update"):
        fact = by_key[update.key.removesuffix("-new")]
        assert fact.kind == "fact", update.key
        assert update.day - fact.day >= 14, update.key
        assert update.tags == fact.tags, update.key


def test_questions(stream: list[Message], questions: dict[str, Any]) -> None:
    by_key = {message.key: message for message in stream}
    assert set(questions) == {"stream", "question"}
    assert questions["stream"]["start"] == datetime(2026, 1, 5, 8, tzinfo=timezone.utc)
    assert questions["stream"]["days"] == DAYS
    assert questions["stream"]["description"]
    asked = questions["question"]
    assert Counter(q["kind"] for q in asked) == {"critical": 4, "mundane": 3, "updated": 2}
    for question in asked:
        assert set(question) == {"text", "kind", "expect", "why"}
        assert question["text"].endswith("?")
        assert question["why"]
        assert question["expect"]
        assert set(question["expect"]) <= set(by_key), question["text"]
        if question["kind"] == "updated":
            for key in question["expect"]:
                assert by_key[key].kind == "update"
                fact = by_key[key.removesuffix("-new")]
                assert fact.kind == "fact"
                assert fact.day < by_key[key].day


def test_files_are_plain_utf8_with_unix_line_ends() -> None:
    for path in FROZEN:
        content = path.read_bytes()
        content.decode("utf-8")
        assert b"\r" not in content
        assert content.endswith(b"\n")
        assert not content.startswith(b"\xef\xbb\xbf")
