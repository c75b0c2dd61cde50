"""A memory takes in a new context: what may change, what stays, and what is kept of before."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Memory, MemoryNotFound, Photographer, Policy, Reconsolidation, Version
from flashbulb.reconsolidation import append_context, new_part
from strategies import assert_same_state, examples

DAY = 86400.0
OUTAGE = "CRITICAL: the payment system is down, users cannot checkout"


def add_name(text: str, context: str) -> str:
    return f"{text} (Ada)"


# The laws


def test_a_vivid_memory_is_only_enhanced(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        before = memory.remember(OUTAGE, arousal=0.9, tags=["ops"], metadata={"n": 1}, who="Ada")
        clock.pass_(days=30)
        faded = memory.get(before.id)
        assert faded.vividness == 0.7
        record = memory.reconsolidate(before.id, "It was caused by the expired certificate")
        assert record.text == f"{OUTAGE} [It was caused by the expired certificate]"
        assert record.vividness == pytest.approx(0.75, abs=1e-12)
        assert (record.id, record.tags, record.metadata) == (before.id, ("ops",), {"n": 1})
        assert (record.arousal, record.salience, record.who) == (0.9, 0.9, "Ada")
        assert (record.access_count, record.last_access) == (0, None)
        assert record.occurrences == before.occurrences
        clock.pass_(hours=2)
        memory.reconsolidate(before.id, "The certificate was renewed")
        assert memory.get(before.id).text.startswith(record.text)


def test_any_other_memory_takes_the_context_in_and_no_strength_moves(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("The meeting is at ten", arousal=0.7).id
        clock.pass_(days=3)
        before = memory.get(id)
        record = memory.reconsolidate(id, "  In room 4  ")
        assert record.text == "The meeting is at ten\nIn room 4"
        assert record.vividness == before.vividness < 1.0
        assert (record.salience, record.floor) == (before.salience, before.floor)


def test_strength_moves_at_most_once_an_hour_and_never_above_one(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember(OUTAGE, arousal=0.9).id
        clock.pass_(days=60)
        first = memory.reconsolidate(id, "one").vividness
        clock.pass_(seconds=3599)
        assert memory.reconsolidate(id, "two").vividness <= first
        for n in range(20):
            clock.pass_(hours=1)
            last = memory.reconsolidate(id, f"more {n}").vividness
        assert last == 1.0


def test_the_constants_are_the_policys(clock: Any) -> None:
    policy = Policy(reconsolidation_protects_above=0.95, reconsolidation_boost=0.2)
    with Memory(":memory:", clock=clock, policy=policy) as memory:
        strong, weak = (memory.remember(f"{OUTAGE} {a}", arousal=a).id for a in (0.96, 0.94))
        clock.pass_(days=60)
        assert memory.reconsolidate(strong, "x").vividness == pytest.approx(0.9, abs=1e-12)
        assert memory.reconsolidate(weak, "x").text == f"{OUTAGE} 0.94\nx"


def test_pinned_stays_pinned_and_a_task_stays_open(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember(OUTAGE, arousal=0.9, urgency=1.0).id
        memory.pin(id)
        clock.pass_(days=60)
        record = memory.reconsolidate(id, "Ada looks at it")
        assert (record.pinned, record.vividness, record.status) == (True, 1.0, "open")
        assert not memory.complete(id).pinned


# Nothing lost, nothing twice


def test_history_never_runs_backwards(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("The meeting is at ten", arousal=0.2).id
        born = clock.now
        memory.reconsolidate(id, "In room 4", now=born - DAY)
        memory.reconsolidate(id, "Bring the report", now=born + DAY)
        memory.reconsolidate(id, "And the keys", now=born + 60)
        times = [version.time for version in memory.history(id)]
        assert times == [born, born, born + DAY, born + DAY]


def test_the_history_holds_every_text(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("The meeting is at ten", arousal=0.2).id
        born = clock.now
        assert memory.history(id) == [Version("The meeting is at ten", born, "remembered")]
        clock.pass_(days=1)
        memory.reconsolidate(id, "In room 4")
        clock.pass_(days=1)
        memory.reconsolidate(id, "Bring the report", now=clock.now - 60)
        assert memory.history(id) == [
            Version("The meeting is at ten", born, "remembered"),
            Version("The meeting is at ten\nIn room 4", born + DAY, "integrated"),
            Version(
                "The meeting is at ten\nIn room 4\nBring the report",
                born + 2 * DAY - 60,
                "integrated",
            ),
        ]
        memory.forget(id)
        with pytest.raises(MemoryNotFound):
            memory.history(id)


@pytest.mark.parametrize("arousal", [0.1, 0.9])
def test_the_same_context_twice_changes_nothing(clock: Any, arousal: float) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("The host db-3 is full", arousal=arousal).id
        clock.pass_(days=30)
        once = memory.reconsolidate(id, "Logs fill it. Rotation was off.")
        clock.pass_(hours=2)
        faded = memory.get(id)
        for context in ("Logs fill it. Rotation was off.", "Rotation  was off", "Logs fill it"):
            assert memory.reconsolidate(id, context) == faded
        assert faded.text == once.text
        assert len(memory.history(id)) == 2


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("no data was lost", "data was lost"),
        ("No data was lost.", "Data was lost."),
        ("He said: data was lost", "data was lost"),
        ("Was the data lost?", "Was the data lost"),
        ("The meeting is at ten thirty", "The meeting is at ten"),
        ("often", "ten"),
        ("数据没有丢失", "丢失"),
    ],
)
def test_what_another_sentence_only_quotes_is_not_there_yet(text: str, context: str) -> None:
    assert new_part(text, context) == context
    assert append_context(text, context) == f"{text}\n{context}"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("The meeting is at ten. In room 4.", "In room 4"),
        ("The meeting is at ten [In room 4]", "In room 4."),
        ("one\ntwo\nthree", "two\nthree"),
        ("今天开会。在四号房间。", "在四号房间。"),
        ("cafe\u0301 at noon", "caf\u00e9  at noon"),
        ("anything", "..."),
    ],
)
def test_what_is_there_is_not_added(text: str, context: str) -> None:
    assert new_part(text, context) is None
    assert append_context(text, context) == text


plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(text=plain, context=plain)
@examples(200)
def test_the_defaults_append_once(text: str, context: str) -> None:
    whole = append_context(text, context)
    assert whole.startswith(text)
    assert append_context(whole, context) == whole
    added = new_part(text, context)
    if added is not None:
        assert context.strip() == added
        assert new_part(f"{text} [{added}]", context) is None


# What follows the text


def test_recall_words_vector_and_repeats_are_those_of_the_new_text(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember_many([f"A note about the weather, number {n}" for n in range(30)])
        id = memory.remember("The customer called", arousal=0.3, urgency=0.2, tags=["x"]).id
        memory.recall("anything")  # the words are indexed
        assert memory.recall("zeppelin", k=1, reinforce=False)[0].lexical == 0.0
        text = memory.reconsolidate(id, "He wants a zeppelin").text
        hit = memory.recall("zeppelin", k=1, reinforce=False)[0]
        assert (hit.id, hit.text) == (id, text)
        assert hit.lexical > 0.0
        vector = memory._embedder.embed_documents([text])[0]
        expected = vector / np.linalg.norm(vector)
        stored = memory._store.space("default").engine.vectors([id])[0]
        np.testing.assert_allclose(stored, expected, atol=1e-6)
        assert memory.remember(text, urgency=0.2, tags=["x"]).id == id
        assert memory.remember("The customer called", urgency=0.2, tags=["x"]).id != id
        state = memory._store.space("default").engine.state()
        hits = memory.recall("zeppelin customer", k=40, reinforce=False)
        listed, versions = memory.list(), memory.history(id)
    with Memory(store, clock=clock) as memory:
        again = memory._store.space("default").engine.state()
        for one in (state, again):
            del one["latest"]
        assert_same_state(again, state)
        assert memory.recall("zeppelin customer", k=40, reinforce=False) == hits
        assert (memory.list(), memory.history(id)) == (listed, versions)


def test_what_was_extracted_stays_only_with_the_text_it_was_extracted_from(clock: Any) -> None:
    photograph = '{"where":["db-3","pattern",4,8]}'
    rules = Reconsolidation(integrate_context=lambda text, context: context)
    with Memory(":memory:", clock=clock, reconsolidation=rules) as memory:
        vivid, other = (memory.remember(f"the db-3 {a}", arousal=a).id for a in (0.9, 0.1))
        database = memory._store.database
        with database.transaction():
            database._all("UPDATE memories SET photograph = ?", (photograph,))
        memory.reconsolidate(vivid, "more")
        memory.reconsolidate(other, "another text")
        assert database.rows([vivid])[vivid].photograph == photograph
        assert database.rows([other])[other].photograph is None


def test_what_a_context_adds_completes_the_photograph_of_a_flashbulb(
    clock: Any, store: Path
) -> None:
    asked: list[str] = []

    def ask(text: str, context: str) -> dict[str, str]:
        asked.append(text)
        return {"who": "Mallory", "what": "SEC-99"}

    with Memory(store, clock=clock, photographer=Photographer(ask)) as memory:
        before = memory.remember("SEC-12: customer data leaked from db-3", arousal=0.9)
        assert set(before.photograph) == {"what", "where"}
        clock.pass_(days=30)
        added = "Mallory did it on db-7 on 2024-03-05, see SEC-99"
        after = memory.reconsolidate(before.id, added)
        assert (after.what, after.where) == (before.what, before.where)  # not overwritten
        assert after.photograph["where"] == before.photograph["where"]
        assert (after.who, after.photograph["who"].source) == ("Mallory", "llm")
        assert (after.when, after.photograph["when"].source) == ("2024-03-05", "pattern")
        for name, said in (("who", "Mallory"), ("when", "2024-03-05"), ("where", "db-3")):
            span = after.photograph[name].span
            assert span is not None
            assert after.text[slice(*span)] == said
        assert asked[1:] == [f" [{added}]"]
        other = memory.remember("The meeting is at ten", arousal=0.2).id
        assert memory.reconsolidate(other, added).photograph == {}
    with Memory(store, clock=clock) as memory:
        assert memory.get(before.id).photograph == after.photograph


def test_the_callers_own_fields_stay(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("Customer data leaked", arousal=0.9, who="Ada", where="Bonn").id
        record = memory.reconsolidate(id, "mallory@example.com did it on db-7.example.com")
        assert (record.who, record.where) == ("Ada", "Bonn")
        assert record.photograph["who"].source == "caller"


def test_history_travels_with_an_export(clock: Any, tmp_path: Path) -> None:
    with Memory(":memory:", clock=clock) as memory:
        ids = [memory.remember(f"note {n}", arousal=0.9 * n).id for n in range(2)]
        for context in ("more", "and more"):
            clock.pass_(days=1)
            for id in ids:
                memory.reconsolidate(id, context)
        memory.export(tmp_path / "export.jsonl")
        with Memory(":memory:", clock=clock) as other:
            other.remember("in the way")
            other.import_(tmp_path / "export.jsonl", new_ids=True)
            assert [other.history(id + 1) for id in ids] == [memory.history(id) for id in ids]
            assert other.remember("note 0\nmore\nand more").id == 2


# Functions of a user


@pytest.mark.parametrize("answer", [None, "", "  \n", 5, b"text", ["text"], "\ud800"])
def test_a_bad_answer_changes_nothing(store: Path, clock: Any, answer: Any) -> None:
    rules = Reconsolidation(lambda text, context: answer, lambda text, context: answer)
    with Memory(store, clock=clock, reconsolidation=rules) as memory:
        ids = [memory.remember(f"note {a}", arousal=a).id for a in (0.1, 0.9)]
        clock.pass_(days=30)
        before = memory.list()
        for id in ids if answer is not None else ids[:1]:
            with pytest.raises((TypeError, ValueError), match="result of"):
                memory.reconsolidate(id, "context")
        if answer is None:  # of extract_enhancement: nothing to add
            assert memory.reconsolidate(ids[1], "context") == before[1]
        assert memory.list() == before
        assert [len(memory.history(id)) for id in ids] == [1, 1]


def test_what_a_function_raises_comes_out(clock: Any) -> None:
    class Broken(Exception):
        pass

    def fail(text: str, context: str) -> str:
        raise Broken(context)

    with Memory(":memory:", clock=clock, reconsolidation=Reconsolidation(fail, fail)) as memory:
        ids = [memory.remember(f"note {a}", arousal=a).id for a in (0.1, 0.9)]
        before = memory.list()
        for id in ids:
            with pytest.raises(Broken, match="context"):
                memory.reconsolidate(id, "context")
        assert memory.list() == before


def test_an_enhancement_cannot_drop_the_original(clock: Any) -> None:
    rules = Reconsolidation(extract_enhancement=lambda text, context: "all is well")
    with Memory(":memory:", clock=clock, reconsolidation=rules) as memory:
        id = memory.remember(OUTAGE, arousal=0.9).id
        assert memory.reconsolidate(id, "x").text == f"{OUTAGE} [all is well]"


def test_a_language_model_is_a_callable() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        data = json.loads(prompt[prompt.index("\n\n") :])
        if "Rewrite" in prompt:
            return f"{data['memory']}, and {data['context']}\n"
        return " None. " if data["context"] == "old" else f" {data['context']}, in short "

    rules = Reconsolidation.from_callable(ask)
    text = 'He said "}\nignore this'
    assert rules.change(text, "new", protected=True) == rules.change(text, "new", protected=True)
    change = rules.change(text, "new", protected=True)
    assert change is not None
    assert change.text == f"{text} [new, in short]"
    assert rules.change(text, "old", protected=True) is None
    change = rules.change(text, "new", protected=False)
    assert change is not None
    assert change.text == f"{text}, and new"
    for reply in ("", None, 3):
        with pytest.raises((TypeError, ValueError), match="the reply"):
            Reconsolidation.from_callable(lambda prompt, r=reply: r).change(
                text, "x", protected=False
            )


def test_bad_arguments(clock: Any) -> None:
    wrong: Any = "append"
    with pytest.raises(TypeError, match="extract_enhancement must be callable"):
        Reconsolidation(wrong)
    with pytest.raises(TypeError, match="ask must be callable"):
        Reconsolidation.from_callable(wrong)
    with pytest.raises(TypeError, match="reconsolidation must be a Reconsolidation, got str"):
        Memory(":memory:", reconsolidation=wrong)
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("note").id
        with pytest.raises(MemoryNotFound):
            memory.reconsolidate(id + 1, "x")
        with pytest.raises(MemoryNotFound):
            memory.namespace("other").reconsolidate(id, "x")
        for context in ("", "  ", None, 5):
            with pytest.raises((TypeError, ValueError), match="context"):
                memory.reconsolidate(id, context)
        assert memory.history(id) == [Version("note", clock.now, "remembered")]


# While a function thinks


def test_a_slow_function_holds_no_lock_and_what_changed_meanwhile_is_asked_about_again(
    clock: Any,
) -> None:
    asked: list[str] = []
    thinking, done = threading.Event(), threading.Event()

    def slow(text: str, context: str) -> str:
        asked.append(text)
        if context == "slow":
            thinking.set()
            assert done.wait(30)
        return append_context(text, context)

    rules = Reconsolidation(integrate_context=slow)
    with Memory(":memory:", clock=clock, reconsolidation=rules) as memory:
        id = memory.remember("note").id
        thread = threading.Thread(target=memory.reconsolidate, args=(id, "slow"))
        thread.start()
        assert thinking.wait(30)
        memory.remember("another")
        assert memory.reconsolidate(id, "quick").text == "note\nquick"
        done.set()
        thread.join(30)
        assert memory.get(id).text == "note\nquick\nslow"
        assert asked == ["note", "note", "note\nquick"]
        assert [version.text for version in memory.history(id)][1:] == [
            "note\nquick",
            "note\nquick\nslow",
        ]


@pytest.mark.parametrize("answer", ["more", None])
def test_what_was_forgotten_meanwhile_does_not_come_back(clock: Any, answer: str | None) -> None:
    def forgetful(text: str, context: str) -> str | None:
        memory.forget(id)
        return answer

    rules = Reconsolidation(extract_enhancement=forgetful)
    with Memory(":memory:", clock=clock, reconsolidation=rules) as memory:
        id = memory.remember(OUTAGE, arousal=0.9).id
        with pytest.raises(MemoryNotFound):
            memory.reconsolidate(id, "x")
        assert len(memory) == 0
        assert memory._store.database.versions([id]) == {}


def test_many_threads_lose_no_context(clock: Any) -> None:
    with Memory(":memory:", clock=clock) as memory:
        id = memory.remember("note").id
        contexts = [[f"part {t} {n}" for n in range(10)] for t in range(4)]

        def work(mine: list[str]) -> None:
            for context in mine:
                memory.reconsolidate(id, context)

        threads = [threading.Thread(target=work, args=(mine,)) for mine in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = memory.get(id).text.split("\n")
        assert sorted(lines[1:]) == sorted(context for mine in contexts for context in mine)
        texts = [version.text for version in memory.history(id)]
        assert len(texts) == 41
        assert all(later.startswith(text + "\n") for text, later in pairwise(texts))


# What fails


def test_a_change_that_cannot_be_written_does_not_happen(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember_many([{"text": f"event {n}", "arousal": 0.9} for n in range(5)])
        clock.pass_(days=9)
        memory.recall("event 1", k=1)
        before, hits = memory.list(), memory.recall("event 3", reinforce=False)
        connection = memory._store.database._connection
        connection.execute(
            "CREATE TEMP TRIGGER refuse BEFORE UPDATE ON traces "
            "WHEN new.id = 3 BEGIN SELECT RAISE(FAIL, 'refused'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="refused"):
            memory.reconsolidate(3, "with a zeppelin")
        assert memory.list() == before
        assert len(memory.history(3)) == 1
        assert memory.recall("event 3", reinforce=False) == hits
        connection.execute("DROP TRIGGER refuse")
        assert memory.reconsolidate(3, "with a zeppelin").text == "event 2 [with a zeppelin]"


def test_a_killed_reconsolidation_is_whole(store: Path) -> None:
    """A program adds to a memory until it is killed: text, vector, digest and history agree."""
    program = """
import sys
from flashbulb import Memory
with Memory(sys.argv[1]) as memory:
    id = memory.remember("note 0").id
    print("ready", flush=True)
    n = len(memory.history(id))
    while True:
        memory.reconsolidate(id, f"part {n}")
        n += 1
"""
    last = 0
    for delay in (0.05, 0.11, 0.17):
        worker = subprocess.Popen(
            [sys.executable, "-c", program, str(store)], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        threading.Event().wait(delay)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        with Memory(store) as memory:
            id = memory.list()[-1].id
            versions = memory.history(id)
            for number, version in enumerate(versions):
                parts = ["note 0", *(f"part {n}" for n in range(1, number + 1))]
                assert version.text == "\n".join(parts)
            assert memory.get(id).text == versions[-1].text
            vector = memory._embedder.embed_documents([versions[-1].text])[0]
            assert memory._store.space("default").engine.cosines(vector, [id])[0, 0] > 0.99999
            assert memory.remember(versions[-1].text).id == id
            last = max(last, len(versions))
    assert last > 1
