"""The ``flashbulb`` command, in this process and in its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command import run
from flashbulb import Memory, Policy, __version__
from flashbulb.cli.parser import build_parser

VERBS = [
    "demo",
    "remember",
    "recall",
    "why-not",
    "explain",
    "train-arousal",
    "forget",
    "complete",
    "list",
    "stats",
    "replay",
    "reconsolidate",
    "history",
    "export",
    "import",
    "backup",
    "check",
    "repair",
    "namespaces",
    "retention",
    "restore",
]
START = "2026-01-05T08:00:00+00:00"
DAY_30 = "2026-02-04T08:00:00+00:00"


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    environment.update(options.pop("env", {}))
    return subprocess.run(
        [sys.executable, "-m", "flashbulb", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        check=False,
        timeout=120,
        **options,
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with an open task (1), a mundane memory (2) and one said twice (3)."""
    path = str(tmp_path / "agent.db")
    with Memory(path) as memory:
        memory.remember_many(
            [
                {
                    "text": "CRITICAL: Payment system is down, users cannot checkout",
                    "tags": ["payments", "shop"],
                    "urgency": 0.9,
                },
                {"text": "User prefers dark mode", "metadata": {"user": 7}},
                {"text": "Lunch is at twelve", "tags": ["shop"]},
                {"text": "Lunch is at twelve", "tags": ["shop"]},
            ],
            now=1_767_600_000.0,  # START
        )
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


# The main path, as a user types it


def test_a_session_in_processes_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    first = command("remember", "The payment system is down", "--urgency", "1", "--store", path)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("remembered 1: salience ")
    piped = command("remember", "-", "--store", path, input="Noor prefers düster\n")
    assert piped.stdout.startswith("remembered 2: ")
    found = command("recall", "which payment trouble is open?", "--store", path, "--json")
    hits = json.loads(found.stdout)
    assert [hit["text"] for hit in hits] == ["The payment system is down", "Noor prefers düster"]
    assert command("complete", "1", "--store", path).stdout.startswith("completed 1: ")
    assert command("forget", "2", "--store", path).stdout == "forgot 2\n"
    listed = json.loads(command("list", "--store", path, "--json").stdout)
    assert [(record["id"], record["status"]) for record in listed] == [(1, "completed")]
    counts = json.loads(command("stats", "--store", path, "--json").stdout)
    assert (counts["memories"], counts["completed_tasks"]) == (1, 1)


def test_the_installed_script_is_the_same_command() -> None:
    script = Path(sys.executable).with_name("flashbulb")
    if not script.exists():
        pytest.skip(f"no script beside {sys.executable}")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"flashbulb {__version__}\n"


# Remembering


def test_remember_takes_every_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "new.db")
    record = answer(
        capsys,
        *("remember", "Ship the jars", "--tag", "a", "--tag", "b", "--urgency", "0.25"),
        *("--metadata", '{"ticket": 17}', "--arousal", "0.85", "--now", START, "--store", path),
    )
    assert record["tags"] == ["a", "b"]
    assert record["metadata"] == {"ticket": 17}
    assert (record["status"], record["urgency"]) == ("open", 0.25)
    assert (record["arousal"], record["salience"], record["floor"]) == (0.85, 0.85, 0.7)
    assert record["created"] == 1_767_600_000.0
    with Memory(path) as memory:
        assert memory.get(1).text == "Ship the jars"


def test_context_counts_for_arousal_and_is_not_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "new.db")
    command = ["remember", "It is down again", "--store", path]
    context = "incident channel, production outage"
    assert "context" not in answer(capsys, *command, "--context", context)
    assert context.encode() not in Path(path).read_bytes()


def test_remember_says_what_it_made_of_it(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, "remember", "x y", "--arousal", "0.9", "--urgency", "1", "--store", store
    )
    assert out == "remembered 4: salience 0.90 (given), floor 0.7, flashbulb, open\n"
    _, out, _ = run(capsys, "remember", "User prefers dark mode", "--store", store)
    assert out.startswith("remembered 2, now 2 times: ")
    _, out, _ = run(capsys, "remember", "The user prefers dark mode.", "--store", store)
    assert out.startswith("remembered 5: ")
    assert " ".join(out.split()).endswith("; near 2 (0.99): User prefers dark mode")


def test_namespaces_do_not_meet(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = ("--namespace", "other", "--store", store)
    assert answer(capsys, "remember", "Something else", *other)["id"] == 4
    assert [r["id"] for r in answer(capsys, "list", *other)] == [4]
    assert [r["id"] for r in answer(capsys, "list", "--store", store)] == [1, 2, 3]
    assert run(capsys, "forget", "1", *other)[0] == 1


# Recalling


def test_recall_shows_every_term(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "recall", "which payments are down?", "-k", "1", "--now", START, "--store", store
    )
    with Memory(store) as memory:
        (hit,) = memory.recall("which payments are down?", 1, reinforce=False, now=1_767_600_000.0)
    assert code == 0
    for figure in (
        f"{hit.score:.3f}",
        f"{hit.similarity:.3f}",
        f"cosine {hit.cosine:.2f}",
        f"words {hit.lexical:.2f}",
        f"+{hit.vividness_bonus:.3f}",
        f"+{hit.recency_bonus:.3f}",
        "flashbulb, open: ",
        "#payments",
    ):
        assert figure in out


def test_recall_explains(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("recall", "payments", "--no-reinforce", "--now", DAY_30, "--store", store)
    _, out, _ = run(capsys, *arguments, "--explain")
    with Memory(store) as memory:
        hits = memory.recall("payments", reinforce=False, now=1_767_600_000.0 + 30 * 86400)
    assert [hit.explain() in out for hit in hits] == [True] * 3
    assert out.startswith("1. [1] CRITICAL: Payment system is down")


def test_recall_filters(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ids(*arguments: str) -> list[int]:
        hits = answer(capsys, "recall", "anything", "--store", store, "--now", DAY_30, *arguments)
        return sorted(hit["id"] for hit in hits)

    assert ids() == [1, 2, 3]
    assert ids("--tag", "shop") == [1, 3]
    assert ids("--tag", "shop", "--tag", "payments") == [1]
    assert ids("--status", "open") == [1]
    assert ids("--status", "none") == [2, 3]
    assert ids("--status", "completed") == []
    assert ids("--until", START) == []
    assert ids("--since", START) == [1, 2, 3]
    assert ids("--min-score", "1e9") == []
    assert len(ids("-k", "2")) == 2
    assert ids("-k", "0") == []


def test_recall_reinforces_unless_told_not_to(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    looked = ("recall", "dark mode", "-k", "1", "--now", DAY_30, "--store", store)
    (before,) = answer(capsys, *looked, "--no-reinforce")
    (unchanged,) = answer(capsys, *looked)
    assert before == unchanged
    assert before["record"]["access_count"] == 0
    (after,) = answer(capsys, *looked)
    assert after["record"]["access_count"] == 1
    assert after["record"]["vividness"] > before["record"]["vividness"]


def test_nothing_found_is_no_failure(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "recall", "x", "--min-score", "1e9", "--store", store)
    assert (code, out, err) == (0, "no memory found\n", "")


# Listing, completing, forgetting, counting


def test_list_is_ordered_by_the_vividness_that_it_shows(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Memory(store, namespace="tasks", clock=lambda: 0.0) as memory:
        note, task = (memory.remember(text, urgency=u).id for text, u in (("a", None), ("b", 1)))
        memory.reinforce(
            note, now=86400.0
        )  # a little more vivid than the task, but for its urgency
    listed = ("list", "--order=-vividness", "--namespace", "tasks", "--now", str(5 * 86400))
    records = answer(capsys, *listed, "--store", store)
    assert [record["id"] for record in records] == [task, note]
    assert records[0]["vividness"] < records[1]["vividness"]
    _, out, _ = run(capsys, *listed, "--store", store)
    shown = re.findall(r"1970-01-01 00:00Z +(\d\.\d\d)", out)
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == 2


def test_list_orders_and_pages(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ids(*arguments: str) -> list[int]:
        return [record["id"] for record in answer(capsys, "list", "--store", store, *arguments)]

    assert ids() == [1, 2, 3]
    assert ids("--order=-salience", "--limit", "1") == [1]
    assert ids("--limit", "1", "--offset", "1") == [2]
    assert ids("--tag", "shop") == [1, 3]
    _, out, _ = run(capsys, "list", "--limit", "2", "--now", START, "--store", store)
    assert "2026-01-05 08:00Z" in out
    assert "2 of 3 memories" in out
    assert "times)" not in out
    _, out, _ = run(capsys, "list", "--offset", "2", "--store", store)
    assert "(2 times)" in " ".join(out.split())


def test_memories_move_to_the_archive_and_back(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    later = "2027-01-05T08:00:00+00:00"
    policy = ("retention", "--idle-days", "90", "--now", later, "--store", store)
    before = json.loads(run(capsys, "list", "--now", later, "--store", store, "--json")[1])
    code, out, _ = run(capsys, *policy, "--dry-run", "--json")
    told = json.loads(out)
    assert code == 0
    assert told
    assert json.loads(run(capsys, "list", "--now", later, "--store", store, "--json")[1]) == before
    code, out, _ = run(capsys, *policy)
    assert code == 0
    assert "moved to the archive" in out
    left = json.loads(run(capsys, "list", "--now", later, "--store", store, "--json")[1])
    assert {r["id"] for r in left} == {r["id"] for r in before} - {r["id"] for r in told}
    everything = json.loads(run(capsys, "list", "--archived", "--store", store, "--json")[1])
    assert {r["id"] for r in everything} == {r["id"] for r in before}
    counts = json.loads(run(capsys, "namespaces", "--store", store, "--json")[1])
    assert {"name": "default", "memories": len(left), "archived": len(told)} in counts
    assert run(capsys, "restore", str(told[0]["id"]), "999", "--store", store)[0] == 1
    code, out, _ = run(capsys, "restore", str(told[0]["id"]), "--store", store)
    assert (code, out) == (0, f"restored {told[0]['id']}\n")
    assert f"{len(told) - 1} more in the archive" in run(capsys, "stats", "--store", store)[1]
    text = told[0]["text"]
    hits = json.loads(run(capsys, "recall", text, "-k", "1", "--store", store, "--json")[1])
    assert hits[0]["text"] == text
    code, _, error = run(capsys, "retention", "--store", store)
    assert code == 2
    assert "at least one of idle_days, vividness, size" in error


def test_complete_changes_all_or_nothing(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "complete", "1", "99", "--store", store)[0] == 1
    code, _, err = run(capsys, "complete", "1", "2", "--store", store)
    assert code == 2
    assert "memory 2 is not a task" in err
    assert answer(capsys, "list", "--store", store)[0]["status"] == "open"
    (done,) = answer(capsys, "complete", "1", "--now", DAY_30, "--store", store)
    assert (done["status"], done["floor"]) == ("completed", 0.4)
    assert run(capsys, "complete", "1", "--store", store)[0] == 0


def test_a_memory_changes_and_its_history_is_shown(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--store", store, "--now", DAY_30)
    _, out, _ = run(capsys, "reconsolidate", "2", "At night only", *at)
    assert out.endswith(": User prefers dark mode At night only\n")
    assert out.startswith("memory 2, vividness 0.")
    record = answer(capsys, "reconsolidate", "1", "The certificate had expired", *at)
    assert record["text"].endswith("checkout [The certificate had expired]")
    versions = answer(capsys, "history", "2", "--store", store)
    assert [version["text"] for version in versions] == [
        "User prefers dark mode",
        "User prefers dark mode\nAt night only",
    ]
    _, out, _ = run(capsys, "history", "2", "--store", store)
    assert "2026-01-05 08:00Z" in out
    assert "integrated" in out
    code, _, err = run(capsys, "history", "9", "--store", store)
    assert code == 1
    assert err.startswith("flashbulb: no memory 9 in namespace 'default'")


def test_forget_tells_what_was_not_there(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "forget", "2", "99", "3", "--store", store)
    assert (code, out) == (1, "forgot 2\nforgot 3\n")
    assert err == "flashbulb: there is no memory 99\n"
    assert [record["id"] for record in answer(capsys, "list", "--store", store)] == [1]
    assert answer(capsys, "forget", "1", "--store", store) == {"forgotten": [1]}


def test_stats_for_people(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "stats", "--store", store)
    assert "3, and 1 repeats of them" in out
    assert "1 open, 0 done" in out
    assert "shop 2, payments 1" in out


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: VERB"),
        (["dream"], "invalid choice: 'dream'"),
        (["recall", "x"], "required: --store"),
        (["recall", "x", "--now", "yesterday"], "a time must be ISO 8601"),
        (["recall", "x", "--since", "2026-01-05"], "write 2026-01-05T00:00+00:00"),
        (["recall", "x", "--until", "20260105"], "could be a date or epoch seconds"),
        (["recall", "x", "-k", "-1"], "expected a whole number"),
        (["recall", "x", "-k", "1.5"], "expected a whole number"),
        (["recall", "x", "--min-score", "nan"], "expected a number"),
        (["recall", "x", "--status", "done"], "invalid choice: 'done'"),
        (["remember", "x", "--urgency", "1.5"], "expected a number in [0, 1]"),
        (["remember", "x", "--arousal", "high"], "expected a number"),
        (["remember", "x", "--metadata", "[1]"], "expected a JSON object like"),
        (["remember", "x", "--metadata", "{"], "expected a JSON object:"),
        (["forget", "one"], "invalid int value: 'one'"),
        (["demo", "--top", "0"], "expected at least 1"),
        (["replay", "x.csv", "--span-days", "-1"], "expected 0 or more days"),
    ],
)
def test_bad_usage_is_2_and_says_what_was_expected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "never.db"
    wanting = arguments and arguments[0] not in ("dream", "demo") and "--store" not in message
    code, out, err = run(capsys, *arguments, *(["--store", str(path)] if wanting else []))
    assert (code, out) == (2, "")
    assert message in err
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["remember", "  "], "text must not be blank"),
        (["remember", "\udcff"], "text must be valid Unicode"),
        (["recall", " "], "query must not be blank"),
        (["remember", "x", "--tag", ""], "tags[0] must not be blank"),
        (["list", "--order", "size"], "order must be one of"),
        (["recall", "x", "--now", "1e15"], "within the years 1 to 9999"),
    ],
)
def test_bad_values_are_2_and_change_nothing(
    store: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments, "--store", store)
    assert (code, out) == (2, "")
    assert message in err
    assert len(answer(capsys, "list", "--store", store)) == 3


@pytest.mark.parametrize("verb", [["recall", "x"], ["list"], ["stats"], ["forget", "1"]])
def test_reading_from_a_mistyped_path_makes_no_store(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agnet.db"
    code, out, err = run(capsys, *verb, "--store", str(path))
    assert (code, out) == (3, "")
    assert err == f"flashbulb: there is no store {path}; 'flashbulb remember' creates one\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_store_is_3(tmp_path: Path) -> None:
    path = tmp_path / "junk.db"
    path.write_bytes(b"This is not a database. " * 400)
    done = command("list", "--store", str(path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("flashbulb: ")
    assert done.stderr.count("\n") == 1
    assert path.read_bytes() == b"This is not a database. " * 400


def test_a_store_in_no_folder_is_3(tmp_path: Path) -> None:
    done = command("remember", "x", "--store", str(tmp_path / "none" / "agent.db"))
    assert done.returncode == 3
    assert done.stderr.startswith("flashbulb: ")
    assert done.stderr.count("\n") == 1


def test_a_store_of_another_embedder_is_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "other.db")
    with Memory(path, embedder=lambda texts: [[1.0, 2.0]] * len(texts)) as memory:
        memory.remember("x y")
    code, _, err = run(capsys, "list", "--store", path)
    assert code == 3
    assert "was written with the embedder" in err


def test_a_locked_store_is_3_without_a_traceback(store: str) -> None:
    with Memory(store):
        done = command("forget", "1", "--store", store, "--timeout", "0")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("flashbulb: ")
    assert "waited 0 s" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["stats"],
        ["history", "1"],
        ["recall", "lunch", "--no-reinforce"],
        ["why-not", "lunch", "1"],
        ["explain", "lunch"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_reads_works_while_an_agent_writes(store: str, arguments: list[str]) -> None:
    with Memory(store) as memory:
        memory.remember("written a moment ago")
        done = command(*arguments, "--store", store, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        if arguments[0] in ("list", "recall"):
            assert "written a moment ago" in done.stdout


def test_recall_strengthens_nothing_beside_an_agent_and_says_so(store: str) -> None:
    with Memory(store) as memory:
        done = command("recall", "lunch", "-k", "1", "--store", store, "--json")
        assert done.returncode == 0
        assert json.loads(done.stdout)[0]["text"] == "Lunch is at twelve"
        assert done.stderr.count("\n") == 1
        assert "nothing is strengthened" in done.stderr
        memory.remember("x")
    with Memory(store) as memory:
        assert memory.get(3).access_count == 0
    assert command("recall", "lunch", "-k", "1", "--store", store).stderr == ""
    with Memory(store) as memory:
        assert memory.get(3).access_count == 1


def test_what_reads_opens_what_only_a_writer_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty file; a store of an older version takes the same way."""
    path = tmp_path / "empty.db"
    path.touch()
    assert answer(capsys, "list", "--store", str(path)) == []
    assert answer(capsys, "stats", "--store", str(path))["memories"] == 0


def test_memories_travel_by_a_file(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = str(tmp_path / "memories.jsonl"), str(tmp_path / "other.db")
    with Memory(store):  # an agent has it open
        done = command("export", file, "--store", store)
    assert (done.returncode, done.stdout) == (0, f"exported 3 memories to {file}\n")
    assert run(capsys, "import", file, "--store", other)[0] == 0
    shown = [answer(capsys, "list", "--store", path, "--now", DAY_30) for path in (store, other)]
    assert shown[0] == shown[1]
    code, _, err = run(capsys, "import", file, "--store", other)
    assert code == 2
    assert "line 2: id 1 is not free" in err
    assert answer(capsys, "import", file, "--store", other, "--new-ids")["imported"] == 3
    assert answer(capsys, "stats", "--store", other)["memories"] == 6


def test_interruption_is_130_and_quiet(tmp_path: Path) -> None:
    # It waits for its text when the signal comes.
    arguments = ["remember", "-", "--store", str(tmp_path / "a.db")]
    program = (
        "import signal, sys; from flashbulb.cli import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a job in the background
        f"print('ready', flush=True); sys.exit(main({arguments!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_wants_no_more_is_no_error(store: str) -> None:
    with Memory(store) as memory:
        memory.remember_many(f"message number {i} about something" for i in range(3000))
    for extra in ([], ["--json"]):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flashbulb",
                "list",
                "--limit",
                "9999",
                "--store",
                store,
                *extra,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), errors) == (141, b"")


# Help and output


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches_with_an_example_that_parses(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    example = out.partition("example:\n")[2].strip()
    assert example.startswith(f"flashbulb {verb}")
    build_parser().parse_args(shlex.split(example)[1:])


def test_help_lists_every_verb_and_examples_that_parse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert [verb for verb in VERBS if re.search(rf"\n    {verb}\s", out)] == VERBS
    examples = [line for line in out.splitlines() if line.startswith("  flashbulb ")]
    assert len(examples) == 3
    for example in examples:
        build_parser().parse_args(shlex.split(example)[1:])


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"flashbulb {__version__}\n", "")


def test_a_stored_text_cannot_steer_the_terminal(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "red \x1b[31m bell \x07 [bold]not markup[/bold] :smile:\nsecond line \u202etxet"
    assert answer(capsys, "remember", hostile, "--store", store)["text"] == hostile
    for arguments in (["list"], ["recall", "red bell"], ["recall", "red bell", "--explain"]):
        _, out, _ = run(capsys, *arguments, "--store", store)
        assert not any(character in out for character in "\x1b\x07\u202e")
        joined = " ".join(out.split())
        assert "\\x1b[31m" in joined
        assert "[bold]not" in joined
        assert ":smile:" in joined


def test_no_colour_where_none_is_wanted(store: str) -> None:
    coloured = command("list", "--store", store, env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[33m" in coloured.stdout
    plain = command(
        "list", "--store", store, env={"FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1"}
    )
    assert "\x1b[33m" not in plain.stdout
    assert "\x1b" not in command("list", "--store", store).stdout


def test_a_terminal_without_the_characters(store: str) -> None:
    assert command("remember", "Noël Größe", "--store", store).returncode == 0
    poor = {"PYTHONIOENCODING": "ascii"}
    listed = command("list", "--store", store, env=poor)
    assert listed.returncode == 0
    assert "No?l Gr??e" in listed.stdout
    values = json.loads(command("list", "--store", store, "--json", env=poor).stdout)
    assert values[-1]["text"] == "Noël Größe"


def test_the_store_keeps_its_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "published.db")
    with Memory(path, policy=Policy.published()):
        pass
    assert answer(capsys, "stats", "--store", path)["policy"]["lexical_weight"] == 0.0


@pytest.mark.parametrize(
    ("line", "code"),
    [("explain - <&-", 2), ("remember - --store {store} <&-", 2), ("explain x >&-", 0)],
)
def test_a_closed_stream_is_an_empty_one(tmp_path: Path, line: str, code: int) -> None:
    shell = f"{sys.executable} -m flashbulb {line.format(store=tmp_path / 'store')}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_no_columns_are_no_width(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "Payments are down" in run(capsys, "explain", "Payments are down")[1]
