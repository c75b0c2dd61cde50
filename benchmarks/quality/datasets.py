"""Real data for the quality benchmarks, read from where ``FLASHBULB_DATA`` points.

Nothing of it is part of this repository. Without the variable, ``../shared/data`` beside the
repository is tried.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Question:
    text: str
    evidence: frozenset[int]
    """Numbers of the events that answer it."""


@dataclass(frozen=True)
class Stream:
    """Dated events and questions about them."""

    name: str
    texts: list[str]
    times: list[float]
    questions: list[Question]


def data_folder() -> Path:
    given = os.environ.get("FLASHBULB_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise SystemExit(f"no data at {folder}: set FLASHBULB_DATA to the folder that holds it")
    return folder


def _seconds(text: str, form: str) -> float:
    return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()


def locomo() -> list[Stream]:
    """LoCoMo: conversations of many dated sessions; an event is one turn, with its speaker."""
    streams = []
    for item in json.loads((data_folder() / "locomo" / "locomo5.json").read_text()):
        conversation = item["conversation"]
        texts: list[str] = []
        times: list[float] = []
        numbers: dict[str, int] = {}
        sessions = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
        for session in sessions:
            start = _seconds(conversation[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
            for place, turn in enumerate(conversation[session]):
                numbers[turn["dia_id"]] = len(texts)
                caption = f" [{turn['blip_caption']}]" if "blip_caption" in turn else ""
                texts.append(f"{turn['speaker']}: {turn['text']}{caption}")
                times.append(start + 30.0 * place)
        questions = [
            Question(qa["question"], frozenset(numbers[e] for e in qa["evidence"] if e in numbers))
            for qa in item["qa"]
        ]
        streams.append(
            Stream(item["sample_id"], texts, times, [q for q in questions if q.evidence])
        )
    return streams


def _json_values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        value, place = decoder.raw_decode(text, place)
        yield value


def madial() -> list[Stream]:
    """MADial-Bench: memories of a child's life; a question is the last three turns before a reply
    that should recall some of them."""
    folder = data_folder() / "madial"
    memories = {
        int(key): value
        for entry in _json_values((folder / "MADial-Bench-en-memory.json").read_text())
        for key, value in entry.items()
    }
    keys = sorted(memories)
    numbers = {key: number for number, key in enumerate(keys)}
    questions = []
    for dialogue in _json_values((folder / "MADial-Bench-en-dialogue.json").read_text()):
        evidence = frozenset(numbers[i] for i in dialogue["relevant-id"] if i in numbers)
        for turn in dialogue["test-turn"]:
            lines = [
                re.sub(r"^<[^>]+>:?\s*", "", line).strip().strip('"')
                for line in dialogue["dialogue"][1:turn]
            ]
            if evidence:
                questions.append(Question(" ".join(lines[-3:]), evidence))
    texts = [memories[key]["event"] for key in keys]
    times = [_seconds(memories[key]["time"], "%Y-%m-%d") for key in keys]
    return [Stream("madial", texts, times, questions)]


@dataclass(frozen=True)
class Issues:
    """Issue summaries of one project in order of creation, and which are Blocker or Critical."""

    name: str
    texts: list[str]
    sections: list[str]
    priorities: list[str]


def tracker() -> list[Issues]:
    projects = []
    for path in sorted((data_folder() / "tracker").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        projects.append(
            Issues(
                path.stem,
                [row["summary"] for row in rows],
                [row["section"] for row in rows],
                [row["priority"] for row in rows],
            )
        )
    return projects


def _table(*names: str) -> list[dict[str, str]]:
    with data_folder().joinpath(*names).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def messages() -> tuple[list[str], list[bool]]:
    """Messages sent in disasters, in English, and whether each asks for help."""
    rows = _table("disaster_response", "disaster_response_validation.csv")
    return [row["message"] for row in rows], [row["request"] == "1" for row in rows]


def sentences() -> tuple[list[str], list[float], list[str]]:
    """EmoBank: sentences, the arousal that readers gave each, and its split (train or dev)."""
    rows = _table("emobank", "emobank_train_dev.csv")
    return (
        [row["text"] for row in rows],
        [float(row["A"]) for row in rows],
        [row["split"] for row in rows],
    )


def log_lines() -> tuple[list[str], list[bool]]:
    """Lines of a supercomputer's log (level and message), and whether each is an alert."""
    rows = _table("loghub", "BGL_2k.log_structured.csv")
    lines = [f"{row['Level']} {row['Content']}" for row in rows]
    return lines, [row["Label"] != "-" for row in rows]
