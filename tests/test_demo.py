"""The demo: what it promises, what it shows, and the drawings of which it is made."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Memory
from flashbulb.cli import main
from flashbulb.demo import Demo, Scenario, load_scenario, report, run_demo
from flashbulb.demo import run as demo_run
from flashbulb.drawing import Curve, console, curve_lines, printable, shortened, stacked_bar


@pytest.fixture(scope="module")
def demo() -> Demo:
    with Memory(":memory:") as memory:
        return run_demo(memory)


def show(
    *arguments: str, columns: int = 80, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flashbulb", "demo", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
        timeout=120,
    )


# The promise of the README


@pytest.mark.parametrize("number", range(len(load_scenario().questions)))
def test_a_promised_answer_comes_first(demo: Demo, number: int) -> None:
    answer = demo.answers[number]
    first = answer.flashbulb[0]
    # What is not promised must really fail: otherwise it can be promised.
    assert answer.passed == answer.promised, (
        f"{answer.question.text!r}: {first.key} ({first.hit.score:.4f}) came first; the best of "
        f"those expected is {answer.best.key} at rank {answer.best.rank} "
        f"({answer.best.hit.score:.4f})"
    )


def test_all_but_one_are_promised(demo: Demo) -> None:
    assert sum(answer.promised for answer in demo.answers) == len(demo.answers) - 1


def test_check_agrees_with_the_rankings(demo: Demo) -> None:
    done = show("--check")
    assert done.returncode == (0 if demo.passed else 1)
    assert done.stderr == ""
    rows = [line.split()[0] for line in done.stdout.splitlines() if line[:6].split()]
    marks = [word for word in rows if word in ("ok", "FAIL", "miss")]
    assert marks == [
        "ok" if answer.passed else "FAIL" if answer.promised else "miss" for answer in demo.answers
    ]


def test_check_fails_if_a_promise_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = load_scenario()
    # Nobody would call this the answer, whatever is asked.
    broken = tuple(
        dataclasses.replace(question, expect=("pottery-crash-course",))
        for question in scenario.questions
    )
    monkeypatch.setattr(
        demo_run, "load_scenario", lambda: dataclasses.replace(scenario, questions=broken)
    )
    assert main(["demo", "--check"]) == 1
    assert capsys.readouterr().out.count("FAIL") == len(broken) - 1  # one is not promised
    assert main(["demo", "--check", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["passed"]
    assert main(["demo"]) == 0  # showing is not checking


# What is compared with what


def test_the_rankings_are_whole_and_well_ordered(demo: Demo) -> None:
    keys = {message.key for message in demo.scenario.messages}
    for answer in demo.answers:
        for ranking in (answer.plain, answer.flashbulb):
            assert {ranked.key for ranked in ranking} == keys
            assert [ranked.rank for ranked in ranking] == list(range(1, len(keys) + 1))
        cosines = [ranked.hit.cosine for ranked in answer.plain]
        scores = [ranked.hit.score for ranked in answer.flashbulb]
        assert cosines == sorted(cosines, reverse=True)
        assert scores == sorted(scores, reverse=True)
        assert answer.passed == (answer.best.rank == 1) == (answer.margin > 0)


def test_plain_similarity_is_the_cosine_of_the_embeddings(demo: Demo) -> None:
    from flashbulb.embedding import resolve_embedder

    embedder = resolve_embedder(None)
    messages = demo.scenario.messages
    rows = np.asarray(embedder.embed_documents([m.text for m in messages]), dtype=np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for answer in demo.answers:
        query = np.asarray(embedder.embed_queries([answer.question.text])[0], dtype=np.float64)
        cosine = dict(
            zip((m.key for m in messages), rows @ query / np.linalg.norm(query), strict=True)
        )
        for ranked in answer.plain:
            # The engine keeps unit rows in float32.
            assert ranked.hit.cosine == pytest.approx(cosine[ranked.key], abs=1e-6)


def test_the_demo_is_the_same_each_time(demo: Demo) -> None:
    with Memory(":memory:") as memory:
        again = run_demo(memory)
    for before, after in zip(demo.answers, again.answers, strict=True):
        assert [r.hit.score for r in before.flashbulb] == [r.hit.score for r in after.flashbulb]
        assert [r.key for r in before.plain] == [r.key for r in after.plain]
    assert demo.watched == again.watched


def test_tasks_are_completed_when_the_stream_says_so(demo: Demo) -> None:
    messages = demo.scenario.messages
    done = {message.completes for message in messages if message.completes}
    tasks = {message.key for message in messages if message.urgency is not None}
    status = {ranked.key: ranked.hit.record.status for ranked in demo.answers[0].flashbulb}
    assert {key for key, value in status.items() if value == "completed"} == done
    assert {key for key, value in status.items() if value == "open"} == tasks - done
    assert demo.stats["open_tasks"] == len(tasks - done)


def test_memories_were_made_at_their_times(demo: Demo) -> None:
    created = {ranked.key: ranked.hit.record.created for ranked in demo.answers[0].plain}
    assert created == {m.key: demo.scenario.at(m.day) for m in demo.scenario.messages}


# The curves


def test_the_curves_follow_the_laws(demo: Demo) -> None:
    lives = {each.key: each for each in demo.watched}
    assert list(lives) == list(demo_run.WATCHED)
    for each in demo.watched:
        assert all(before < after for before, after in itertools.pairwise(each.days))
        assert each.days[0] == each.created
        assert each.days[-1] == demo.scenario.days
        for vividness, floor in zip(each.vividness, each.floors, strict=True):
            assert floor <= vividness <= 1
    assert not lives["sam-birthday-cake"].recalled
    cake = lives["sam-birthday-cake"].vividness
    assert all(after < before for before, after in itertools.pairwise(cake))
    (done,) = lives["warehouse-fire"].completed
    fire = lives["warehouse-fire"]
    floors = {day <= done for day, floor in zip(fire.days, fire.floors, strict=True) if floor > 0.5}
    assert floors == {True}  # completing has lowered it by one class
    assert lives["data-exposed"].vividness[-1] > 0.7
    assert [day for day, _ in demo_run.RECALLS] == lives["warehouse-hours"].recalled


def test_no_question_asks_for_what_is_recalled() -> None:
    expected = set(itertools.chain(*(q.expect for q in load_scenario().questions)))
    assert "warehouse-hours" not in expected


# What is shown


@pytest.mark.parametrize("columns", [51, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(
    demo: Demo,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    report.show_demo(console(), demo, top=3)
    report.show_check(console(), demo)
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > columns] == []


def test_everything_is_shown_without_colour_and_without_unicode(demo: Demo) -> None:
    done = show("--top", "4", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    for answer in demo.answers:
        assert answer.question.text in " ".join(done.stdout.split())
        for ranked in answer.flashbulb[:4]:
            assert f"{ranked.hit.score:.2f} = " in done.stdout
        for ranked in answer.plain[:4]:
            assert f"cosine {ranked.hit.cosine:.2f}" in done.stdout
    assert done.stdout.count("* 1 ") >= sum(answer.passed for answer in demo.answers)
    for legend in ("score = ## meaning + == shared words", "^ recalled", "x done", "... floor 0.7"):
        assert legend in done.stdout


def test_printed_terms_add_up_to_the_printed_score(demo: Demo) -> None:
    weight = demo.stats["policy"]["lexical_weight"]
    for answer in demo.answers:
        for ranked in answer.flashbulb:
            hit = ranked.hit
            terms = report.score_terms(hit, weight)
            assert sum(terms) == pytest.approx(hit.score, abs=1e-12)
            total, _, parts = report.score_sum(hit.score, terms).partition(" = ")
            assert sum(round(float(part) * 100) for part in parts.split(" + ")) == round(
                float(total) * 100
            )


def test_json_holds_what_is_shown(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--top", "2"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    expected = json.loads(json.dumps(report.to_json(demo, top=2)))
    assert shown.pop("seconds") > 0
    expected.pop("seconds")
    assert shown == expected
    assert [len(question["flashbulb"]) for question in shown["questions"]] == [2] * len(
        demo.answers
    )


def test_the_memories_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "shop.db"
    assert main(["demo", "--store", str(store)]) == 0
    out = capsys.readouterr().out
    assert "--now 2026-04-05T08:00:00+00:00" in out
    with Memory(store) as memory:
        assert len(memory) == 218
    assert main(["demo", "--store", str(store)]) == 2
    assert "already there" in capsys.readouterr().err


def test_a_store_that_is_not_empty_is_refused() -> None:
    with Memory(":memory:") as memory:
        memory.remember("x y")
        with pytest.raises(ValueError, match="needs an empty store"):
            run_demo(memory)


def test_another_scenario_can_be_lived_through() -> None:
    scenario = load_scenario()
    some = tuple(m for m in scenario.messages if m.key in demo_run.WATCHED or m.kind == "fact")
    question = next(q for q in scenario.questions if q.expect == ("eleanor-wrapping",))
    short = Scenario(scenario.start, scenario.days, "short", some, (question,))
    with Memory(":memory:") as memory:
        assert run_demo(memory, short).passed


# Drawing


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
    st.integers(24, 120),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)
def test_a_curve_keeps_to_its_frame(
    values: list[float], width: int, half: int, marked: bool, ascii_only: bool
) -> None:
    height = 2 * half + 1
    days = [90 * i / len(values) for i in range(len(values))]
    marks = [(0.0, "^"), (90.0, "x")] if marked else []
    lines = curve_lines(
        Curve(days, values, [value / 2 for value in values], marks),
        span=90,
        width=width,
        height=height,
        ascii_only=ascii_only,
    )
    assert len(lines) == height + 2 + marked
    assert all(len(line) <= width for line in lines)
    assert (lines[0][:3], lines[half][:3], lines[height - 1][:3]) == ("1.0", "0.5", "0.0")
    assert lines[-1].split()[1:] == ["0", "30", "60", "90"]
    if ascii_only:
        assert all(line.isascii() for line in lines)
    if marked:
        assert lines[height][5] == "^"
        assert lines[height][width - 1] == "x"


def test_a_curve_is_where_it_belongs() -> None:
    # Eleven rows, one for each tenth, and nineteen columns.
    lines = curve_lines(
        Curve([0.0, 10.0], [1.0, 0.0], [0.3, 0.3]), span=10, width=24, height=11, ascii_only=True
    )
    rows = [line[5:].ljust(19) for line in lines[:11]]
    for row, line in enumerate(rows):
        assert abs(line.index("*") - row * 1.8) < 1
    assert rows[7].replace("*", ".") == "." * 19


def test_a_curve_starts_when_its_memory_does() -> None:
    lines = curve_lines(
        Curve([5.0, 10.0], [1.0, 1.0], [0.0, 0.0]), span=10, width=24, height=3, ascii_only=True
    )
    assert lines[0] == "1.0 |" + " " * 9 + "*" * 10


def test_braille_dots_lie_on_a_level_line() -> None:
    top, middle, bottom = (
        curve_lines(Curve([0.0, 9.0], [v, v], [0, 0]), span=9, width=24, height=3)[row][5:]
        for row, v in enumerate((1.0, 0.5, 0.0))
    )
    assert (top, bottom) == ("⠉" * 19, "⣀" * 19)
    assert len(middle) == 19


@pytest.mark.parametrize(("width", "height"), [(23, 9), (40, 1), (40, 8)])
def test_a_frame_that_holds_no_curve_is_refused(width: int, height: int) -> None:
    with pytest.raises(ValueError, match="24 columns or more and an odd number of rows"):
        curve_lines(Curve([0.0], [1.0], [0.0]), span=1, width=width, height=height)


def test_bars_are_as_long_as_their_terms() -> None:
    assert stacked_bar([0.5, 0.25, 0.25], 1.0, 8, ascii_only=True).plain == "####==++"
    assert stacked_bar([0.5, -0.2, 0.5], 2.0, 8, ascii_only=True).plain == "##++"
    assert stacked_bar([3.0], 1.0, 4, ascii_only=False).plain == "████"
    assert stacked_bar([1.0], 0.0, 4, ascii_only=False).plain == ""


@given(st.text())
def test_printable_text_is_one_harmless_line(value: str) -> None:
    line = printable(value)
    assert not any(character in line for character in map(chr, [*range(32), *range(127, 160)]))
    assert not set(line) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    if value.isascii() and value.isprintable():
        assert line == " ".join(value.split())


@given(st.text(), st.integers(4, 60))
def test_shortened_text_is_short(value: str, length: int) -> None:
    line = shortened(value, length)
    assert len(line) <= length
    assert line == printable(value) or line.endswith("...")


def test_a_console_takes_no_text_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("[bold]:smile: 123")
    assert capsys.readouterr().out == "[bold]:smile: 123\n"
