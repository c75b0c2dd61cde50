"""The command replays a whole tracker, and every issue of it is there."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory


def command(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "flashbulb", *arguments, "--json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_replays_4346_issues(data_folder: Path, store: Path) -> None:
    file = data_folder / "tracker" / "KAFKA.csv"
    if not file.exists():
        pytest.skip(f"no {file}")
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 4_346
    # A repeat is the same text (white space aside) with the same tag.
    distinct = {(" ".join(row["summary"].split()), row["section"]) for row in rows}
    summary = command(
        *("replay", str(file), "--text-column", "summary", "--tags-column", "section"),
        *("--key-column", "key", "--metadata-column", "priority"),
        *("--span-days", "365", "--until", "2026-01-05T08:00:00Z"),
        *("--store", str(store), "--quiet"),
    )
    assert summary["events"] == 4_346
    assert summary["memories"] == len(distinct)
    assert summary["repeats"] == 4_346 - len(distinct)

    stats = command("stats", "--store", str(store))
    assert stats["memories"] == len(distinct)
    assert stats["occurrences"] == 4_346
    assert stats["tags"] == dict(Counter(tag for _, tag in distinct))
    assert stats["flashbulbs"] == summary["flashbulbs"]
    assert stats["pinned"] == summary["pinned"]
    assert stats["surprise_pins_refused"] == summary["pins_refused"]

    with Memory(store) as memory:
        records = memory.list()
    keys = [o.metadata["key"] for record in records for o in record.occurrences]
    assert sorted(keys) == sorted(row["key"] for row in rows)
    by_key = {row["key"]: row for row in rows}
    for record in records[:: len(records) // 50]:
        row = by_key[record.metadata["key"]]
        assert record.text == row["summary"]
        assert record.tags == (row["section"],)
        assert record.metadata["priority"] == row["priority"]

    for record in (records[0], records[-1]):
        (hit,) = command("recall", record.text, "-k", "1", "--store", str(store), "--no-reinforce")
        assert hit["text"] == record.text
