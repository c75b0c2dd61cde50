"""Feeding a store with a file of past events."""

from __future__ import annotations

import csv
import json
import logging
import os
import pty
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Memory
from flashbulb.cli import main
from flashbulb.replay import Columns, ReplayError, parse_time, read_events, replay

START = 1_767_600_000.0  # 2026-01-05T08:00:00+00:00
DAY = 86400.0

EVENTS = """\
id,when,said,labels,press
a,2026-01-05T08:00:00Z,"The payment system is down,
all of it",payments; shop,0.9
b,2026-01-07T09:00:00+01:00,Lunch is at twelve,,
c,1767686400.5,User prefers dark mode,ui,0
d,2026-01-08 08:00Z,Lunch is at twelve,,
"""
COLUMNS = Columns(text="said", time="when", tags="labels", urgency="press", key="id")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS, encoding="utf-8")
    return path


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# Times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-05T08:00:00+00:00", START),
        ("2026-01-05T08:00:00Z", START),
        ("2026-01-05 08:00z", START),
        ("2026-01-05T10:00:00+02:00", START),
        ("2026-01-05T03:00:00-0500", START),
        ("2026-01-05T09:00:00 +01", START),
        ("2026-01-05T08:00:00.25Z", START + 0.25),
        ("2026-01-05T08:00:00,123456789Z", START + 0.123456789),
        ("  1767600000 ", START),
        ("1767600000.5", START + 0.5),
        ("1.7676e9", START),
        ("-86400", -DAY),
        ("0", 0.0),
    ],
)
def test_times_that_are_understood(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, abs=1e-6, rel=0)


@pytest.mark.parametrize("text", ["2026-01-05", "2026-01-05T08:00:00", "2026-01-05 08:00"])
def test_a_time_without_a_zone_is_utc_only_if_said_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no time zone; write 2026-01-05.*\+00:00 if it is"):
        parse_time(text)
    suggestion = re.search(r"write (\S+(?: \S+\+00:00)?)", _message(text))
    assert suggestion is not None
    assumed = parse_time(text, assume_utc=True)
    assert parse_time(suggestion[1]) == assumed
    assert assumed == (START if "08" in text.partition("-05")[2] else START - 8 * 3600)


def _message(text: str) -> str:
    with pytest.raises(ValueError, match="no time zone") as caught:
        parse_time(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "05/01/2026", "2026-13-01Z", "2026-02-30T00:00Z", "2026-01-05T25:00Z"),
        *("2026-01-05T08:00:00+99:00", "nan", "inf", "1e400", "1e15", "20260105", "2026-W02"),
        *("2026-01-05T08Z", "2026-01-05Z", "０", "0x10", "1_000"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|seconds"):
        parse_time(text, assume_utc=True)


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-14 * 60 + 1, 14 * 60 - 1)
)
def test_every_aware_datetime_comes_back(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    # datetime counts in microseconds; a float64 this far from 1970 resolves 30 of them.
    assert parse_time(moment.isoformat()) == pytest.approx(moment.timestamp(), abs=5e-5, rel=0)


# Reading


def test_events_are_read_in_order_of_time(file: Path) -> None:
    events = read_events(file, COLUMNS)
    assert [event["metadata"] for event in events] == [{"id": key} for key in "acbd"]
    first, second, third, fourth = events
    assert first == {
        "text": "The payment system is down,\nall of it",
        "tags": ["payments", "shop"],
        "urgency": 0.9,
        "metadata": {"id": "a"},
        "now": START,
    }
    assert (second["urgency"], second["tags"]) == (0.0, ["ui"])
    assert "urgency" not in third
    assert third["tags"] == []
    assert [third["now"], fourth["now"]] == [START + 2 * DAY, START + 3 * DAY]


def test_equal_times_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "text,t", "second one,5", "b b,3", "c c,5", "d d,3")
    events = read_events(path, Columns(time="t"))
    assert [event["text"] for event in events] == ["b b", "d d", "second one", "c c"]


def test_without_times_events_are_spread_evenly(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "text", "a a", "b b", "c c")
    events = read_events(path, span_days=10, until=START)
    assert [event["now"] for event in events] == [START - 10 * DAY, START - 5 * DAY, START]
    (only,) = read_events(write(tmp_path / "f.csv", "text", "a a"), span_days=10, until=START)
    assert only["now"] == START
    same = read_events(path, span_days=0, until=START)
    assert [event["now"] for event in same] == [START] * 3
    with pytest.raises(ValueError, match="the start of the span must be"):
        read_events(path, span_days=1e7, until=START)


def test_other_separators_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "e.tsv"
    path.write_text("\ufefftext\ttags\na, b\tx|y\n\n", encoding="utf-8")
    (event,) = read_events(path, Columns(tags="tags"), tags_separator="|")
    assert (event["text"], event["tags"]) == ("a, b", ["x", "y"])
    (event,) = read_events(write(tmp_path / "e.csv", "text;n", "a;1"), delimiter=";")
    assert event["text"] == "a"
    for wrong in ("", ";;"):
        with pytest.raises(ReplayError, match="delimiter must be one character"):
            read_events(path, delimiter=wrong)


def test_a_missing_column_is_named_beside_those_found(file: Path) -> None:
    for columns in (Columns(), Columns(text="said", key="key"), Columns("said", metadata=("x",))):
        missing = next(name for name in columns.names() if name != "said")
        with pytest.raises(
            ReplayError, match=f"no column '{missing}'; its columns are: id, when, "
        ):
            read_events(file, columns)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="several columns 'text'"):
        read_events(write(tmp_path / "e.csv", "text,text", "a,b"))


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(ReplayError, match="no first line"):
        read_events(empty)
    with pytest.raises(ReplayError, match="line 1: "):
        read_events(write(empty, '"bad"quote', "a"))


def test_a_header_alone_holds_no_events(tmp_path: Path) -> None:
    assert read_events(write(tmp_path / "e.csv", "text")) == []


BAD_ROWS = {
    "  ,,": "text must not be blank",
    "a,b": "expected 3 columns as in the header, got 2",
    "a,b,c,d": "expected 3 columns as in the header, got 4",
    "a,,high": "press must be a number in [0, 1] or empty, got 'high'",
    "a,,1.5": "urgency must be a number in [0, 1], got 1.5",
    "a,,nan": "urgency must be a number in [0, 1], got nan",
    "\udcff,,": "text must be valid Unicode",
    "a,\udce4,": "tags[0] must be valid Unicode",
}


def test_bad_rows_are_named_by_line_and_nothing_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = tmp_path / "bad.csv", tmp_path / "a.db"
    # The first event takes two lines, so that a row's number is not its line.
    lines = ["text,tags,press", '"good\none",,', *BAD_ROWS, "good,,0.5"]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    arguments = ["--tags-column", "tags", "--urgency-column", "press", "--store", str(store)]
    assert main(["replay", str(path), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"flashbulb: {path} has 8 bad rows, nothing was stored:\n")
    for line, message in enumerate(BAD_ROWS.values(), 4):
        assert f"  line {line}: {message}" in captured.err
    assert not store.exists()


def test_many_bad_rows_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", "text,n", *[" ,1"] * 25)
    with pytest.raises(ReplayError, match=r"has 25 bad rows") as caught:
        read_events(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-1].strip() == "and 15 more"


def test_an_unfinished_quote_is_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", "text,n", "a,1", 'b,"2', "c,3")
    with pytest.raises(ReplayError, match="has 1 bad row, nothing was stored:\n  line 3: "):
        read_events(path)


def test_naive_times_are_explained(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "text,day", "a a,2026-01-05")
    with pytest.raises(ReplayError, match=r"line 2: .*no time zone.*\(--assume-utc\)"):
        read_events(path, Columns(time="day"))
    (event,) = read_events(path, Columns(time="day"), assume_utc=True)
    assert event["now"] == START - 8 * 3600


# Replaying


@pytest.mark.parametrize("batch", [1, 3, 256])
def test_replay_remembers_each_event_at_its_time(file: Path, batch: int) -> None:
    done: list[int] = []
    with Memory(":memory:") as memory:
        summary = replay(memory, read_events(file, COLUMNS), batch=batch, progress=done.append)
        records = memory.list()
    assert (summary.events, summary.memories, summary.repeats) == (4, 3, 1)
    assert (sum(done), max(done)) == (4, min(batch, 4))
    assert [record.created for record in records] == [
        START,
        START + DAY + 0.5,
        START + 2 * DAY,
    ]
    assert [occurrence.metadata for occurrence in records[2].occurrences] == [
        {"id": "b"},
        {"id": "d"},
    ]
    assert summary.flashbulbs == sum(record.flashbulb for record in records)


def test_replay_into_a_store_that_already_holds_memories(file: Path) -> None:
    events = read_events(file, COLUMNS)
    with Memory(":memory:") as memory:
        replay(memory, events)
        again = replay(memory, events)
        assert (again.events, again.memories, again.repeats) == (4, 0, 4)
        assert (again.flashbulbs, again.pinned) == (0, 0)
        assert len(memory) == 3


def test_an_empty_replay() -> None:
    with Memory(":memory:") as memory:
        summary = replay(memory, [])
    assert (summary.events, summary.memories, summary.repeats) == (0, 0, 0)
    with Memory(":memory:") as memory, pytest.raises(ValueError, match="batch must be at least 1"):
        replay(memory, [], batch=0)


def test_warnings_return_after_a_replay(file: Path) -> None:
    log = logging.getLogger("flashbulb")
    before = log.level
    with Memory(":memory:") as memory:
        replay(memory, read_events(file, COLUMNS))
    assert log.level == before


# The command


def arguments(file: Path, store: Path) -> list[str]:
    return [
        *("replay", str(file), "--text-column", "said", "--time-column", "when"),
        *("--tags-column", "labels", "--urgency-column", "press", "--key-column", "id"),
        *("--metadata-column", "press", "--store", str(store)),
    ]


def test_the_command_replays(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "a.db"
    assert main(arguments(file, store)) == 0
    captured = capsys.readouterr()
    words = " ".join(captured.out.split())
    assert words.startswith("4 events: 3 memories and 1 repeats; ")
    assert re.search(r"\d flashbulbs, 0 pinned; \d+\.\d s, \d+ events per second$", words)
    assert captured.err == ""  # no bar where there is no terminal
    assert main([*arguments(file, store), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["events"], summary["memories"], summary["repeats"]) == (4, 0, 4)
    assert summary["events_per_second"] > 0
    with Memory(store) as memory:
        assert memory.get(1).metadata == {"id": "a", "press": "0.9"}


def test_until_and_span_from_the_command(tmp_path: Path) -> None:
    file, store = write(tmp_path / "e.csv", "text", "a a", "b b"), tmp_path / "a.db"
    spread = ["--span-days", "4", "--until", "2026-01-05T08:00"]
    assert main(["replay", str(file), *spread, "--store", str(store)]) == 2
    assert not store.exists()
    assert main(["replay", str(file), *spread, "--assume-utc", "--store", str(store)]) == 0
    with Memory(store) as memory:
        assert [record.created for record in memory.list()] == [START - 4 * DAY, START]


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "no.csv")
    assert main(["replay", missing, "--store", str(tmp_path / "a.db")]) == 2
    assert (
        capsys.readouterr().err == f"flashbulb: cannot read {missing}: No such file or directory\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_the_progress(tmp_path: Path, quiet: bool) -> None:
    file = write(tmp_path / "e.csv", "text", *(f"event number {i}" for i in range(2000)))
    terminal, other = pty.openpty()
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "flashbulb", "replay", str(file)),
                *("--store", str(tmp_path / "a.db"), *(["--quiet"] if quiet else [])),
            ],
            stdout=subprocess.PIPE,
            stderr=other,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
            timeout=120,
            check=True,
        )
    finally:
        os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # nothing more
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    assert b"2000 events: 2000 memories" in done.stdout
    if quiet:
        assert shown == b""
    else:
        plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
        assert re.search(r"replaying .*/2000 +[0-9]+/s", plain)


def test_real_issues(data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data_folder / "tracker" / "KAFKA.csv"
    if not file.exists():
        pytest.skip(f"no {file}")
    with file.open(encoding="utf-8", newline="") as rows:
        expected = list(csv.DictReader(rows))
    store = tmp_path / "kafka.db"
    common = ["replay", str(file), "--text-column", "summary", "--store", str(store), "--json"]
    columns = ["--tags-column", "section", "--key-column", "key", "--metadata-column", "priority"]
    assert main([*common, *columns, "--span-days", "365", "--until", str(START)]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert summary["events"] == len(expected) == 4346
    with Memory(store) as memory:
        records = memory.list()
        assert len(records) == summary["memories"]
        seen = sorted(
            (occurrence.time, occurrence.metadata["key"], record.text)
            for record in records
            for occurrence in record.occurrences
        )
    # In the order of the file, whether repeated or not; white space aside a repeat has one text.
    assert [key for _, key, _ in seen] == [row["key"] for row in expected]
    assert seen[0][0] == START - 365 * DAY
    assert seen[-1][0] == START
