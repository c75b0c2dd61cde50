"""``flashbulb explain`` and ``flashbulb why-not``: what they show, and that nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from command import run
from flashbulb import ArousalDetector, Memory, Policy
from flashbulb.drawing import underlined
from llm_server import says, serving
from strategies import examples

NOW = "2026-05-14T09:30:00Z"
LEAK = "Customer data leaked last night, see SEC-4411"


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "agent.db")
    with Memory(path) as memory:
        memory.remember_many(
            [
                {"text": "CRITICAL: Payment system is down", "tags": ["payments"]},
                {"text": "The payment form has a new logo", "metadata": {"n": 1}},
                {"text": "User prefers dark mode"},
            ],
            now=0.0,
        )
    return path


# explain


def test_explain_shows_stages_evidence_and_photograph(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", LEAK, "--now", NOW)
    assert code == 0
    result = ArousalDetector().detect(LEAK)
    assert out.startswith(LEAK)
    assert f"arousal {result.score:.2f}, a flashbulb" in out
    for stage in result.stages:
        assert f"{stage.name} " in out
    for each in result.evidence:
        assert each.rule in out
    assert "SEC-4411" in out.split("photograph")[-1]
    assert "2026-05-13T18/2026-05-14T06" in out


def test_explain_underlines_what_spoke(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "explain", LEAK)
    text, marks, *_ = out.splitlines()
    spoke = {
        i for each in ArousalDetector().detect(LEAK).evidence for i in range(each.start, each.end)
    }
    assert text == LEAK
    assert {i for i, mark in enumerate(marks) if mark in "‾^"} == spoke


def test_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "explain", LEAK, "--json", "--now", NOW)
    answer = json.loads(out)
    assert answer["stages"][0]["name"] == "rules"
    assert (
        LEAK[answer["evidence"][0]["start"] : answer["evidence"][0]["end"]]
        == (answer["evidence"][0]["matched"])
    )
    assert answer["photograph"]["what"] == {
        "value": "SEC-4411",
        "source": "pattern",
        "span": [37, 45],
    }


def test_explain_judges_as_the_store_does_and_stores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "strict.db")
    with Memory(path, policy=Policy(flashbulb_threshold=1.0)) as memory:
        memory.remember("Lunch is at twelve")
    assert "a flashbulb" in run(capsys, "explain", LEAK)[1]
    assert "a flashbulb" not in run(capsys, "explain", LEAK, "--store", path)[1]
    with Memory(path) as memory:
        assert len(memory) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", ""], "text must not be blank, got ''"),
        (["explain", "x", "--model", "text.bin"], "no archive of arrays"),
        (["explain", "x", "--model", "."], "path must be a file, got the folder ."),
        (["train-arousal", "utf16.tsv", "--output", "m.npz"], "must be UTF-8, got UTF-16"),
        (["replay", "utf16.tsv", "--store", "r.db"], "must be UTF-8, got UTF-16"),
    ],
)
def test_bad_texts_and_files_are_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.bin").write_bytes(b"root:x:0:0\n")
    Path("utf16.tsv").write_text("text\tlabel\nabc\tcritical\n", "utf-16")
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("r.db").exists()


def test_explain_of_a_store_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "explain", LEAK, "--store", str(tmp_path / "no.db"))
    assert code == 3
    assert "there is no store" in err
    assert list(tmp_path.iterdir()) == []


def test_explain_says_that_no_rule_spoke(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", "ok")
    assert code == 0
    assert "mundane" in out
    assert "no rule spoke" in out


def test_explain_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "explain", "\x1b[31mThe payment system is down\u202e [bold]now[/bold]")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[bold]now[/bold]" in out


def test_explain_asks_an_llm_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        server.behaviour = says('{"score": 0.25, "reasoning": "a drill\\u001b"}')
        asked = ("explain", "Production is down.", "--llm", "small", "--llm-url", server.url)
        code, out, _ = run(capsys, *asked)
        assert {request["model"] for request in server.requests} == {"small"}
    assert code == 0
    assert "llm" in out
    assert "0.25" in out
    assert "reasoning: a drill\\x1b" in out
    code, _, err = run(capsys, "explain", "x", "--llm-url", "http://localhost:1")
    assert code == 2
    assert "--llm-url needs --llm" in err


# Drawing


@examples(300)
@given(
    text=st.text(st.sampled_from("ab c 漢é\t\n\x07"), min_size=1, max_size=60),
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=3),
    width=st.integers(8, 30),
)
def test_marks_lie_under_what_they_mark(
    text: str, spans: list[tuple[int, int]], width: int
) -> None:
    marked = {i for start, end in spans for i in range(start, min(end, len(text)))}
    lines = underlined(text, spans, width, ascii_only=True)
    assert all(cell_len(line) <= width for line in lines)
    shown = under = 0
    for line in lines:
        if set(line) <= {"^", " "} and "^" in line:
            under += line.replace(" ", "").count("^")
        else:
            shown += len(line.replace(" ", ""))
    visible = [i for i, character in enumerate(text) if not character.isspace()]
    assert shown == sum(4 if text[i] == "\x07" else 1 for i in visible)
    wanted = sum({"漢": 2, "\x07": 4}.get(text[i], 1) for i in visible if i in marked)
    assert under >= wanted  # and the blanks between words that are both marked
    assert (under == 0) == (wanted == 0)


# remember


def test_remember_shows_the_photograph_of_a_flashbulb(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "remember", LEAK, "--store", path, "--now", NOW)
    assert [" ".join(line.split()) for line in out.splitlines()[1:]] == [
        "what SEC-4411 (pattern)",
        "when 2026-05-13T18/2026-05-14T06 (pattern, part of a day)",
    ]
    assert run(capsys, "remember", "SEC-1 is fine", "--store", path)[1].count("\n") == 1


# why-not


def test_why_not_shows_the_place_and_the_terms(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Memory(path) as memory:
        why = memory.why_not("payment problems", 3, k=2, now=86_400.0)
        before = memory.list(now=0.0)
    asked = ("why-not", "payment problems", "3", "-k", "2", "--store", path, "--now", "86400")
    code, out, _ = run(capsys, *asked)
    assert code == 0
    assert " ".join(out.split()).startswith(why.verdict())
    for term in why.terms():
        assert f"{term.own:.4f}" in out
        assert f"{term.difference:+.4f}" in out
    answer = json.loads(run(capsys, *asked, "--json")[1])
    assert (answer["rank"], answer["passing"], answer["found"]) == (3, 3, False)
    assert why.own is not None
    assert answer["own"]["score"] == why.own.score
    with Memory(path) as memory:
        assert memory.list(now=0.0) == before


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        (["--tag", "payments"], "it lacks the tag 'payments'"),
        (["--status", "open"], "its status is 'none'"),
        (["--since", "2026-01-01T00:00:00Z"], "it did not occur between"),
        (["--filter", '{"n": 1}'], "it did not occur with the metadata {'n': 1}"),
    ],
)
def test_why_not_names_the_filter(
    path: str, capsys: pytest.CaptureFixture[str], filters: list[str], reason: str
) -> None:
    code, out, _ = run(capsys, "why-not", "payment", "3", *filters, "--store", path)
    assert code == 0
    assert f"memory 3 is left out: {reason}" in " ".join(out.split())


def test_why_not_of_what_is_not_there(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "why-not", "payment", "9", "--store", path)
    assert code == 1
    assert "no memory 9" in err


def test_recall_takes_the_same_filter(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("recall", "payment", "--filter", '{"n": 1}', "--store", path, "--json")
    hits: Any = json.loads(run(capsys, *asked)[1])
    assert [hit["id"] for hit in hits] == [2]
