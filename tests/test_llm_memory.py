"""A Memory with an LLM: asked without a lock, remembered, and asked later (R23, R25, R37)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from conftest import Clock
from flashbulb import Memory, Policy
from flashbulb.arousal import ArousalDetector, LLMJudge, from_callable
from flashbulb.arousal.asking import NoAnswer
from llm_server import OUTAGES, fails, hangs, says, serving

UNSURE = "Qorvath zhenya imploded."
"""A text that the rules know nothing of."""


class Answers:
    """A function for an LLM: what it says of each text, and what it was asked."""

    def __init__(self, **scores: float) -> None:
        self.scores = scores
        self.seen: list[tuple[str, str]] = []
        self.failing = False

    def __call__(self, text: str, context: str) -> float:
        self.seen.append((text, context))
        if self.failing:
            raise ConnectionError("no route to the model")
        return next((score for word, score in self.scores.items() if word in text), 0.5)


def detector(function: Any, *, deferred: bool = False) -> ArousalDetector:
    return ArousalDetector(model=None, llm=from_callable(function, name="test"), deferred=deferred)


def shown(memory: Memory, id: int, now: float) -> dict[str, Any]:
    """Of a record, what an arousal decides."""
    record = memory.get(id, now=now)
    names = (
        "text",
        "who",
        "what",
        "when",
        "where",
        "arousal",
        "arousal_source",
        "salience",
        "floor",
        "vividness",
        "pinned",
    )
    return {name: getattr(record, name) for name in names}


def test_an_llm_decides_what_the_rules_cannot(clock: Clock) -> None:
    with Memory(":memory:", detector=detector(Answers(Qorvath=1.0)), clock=clock) as memory:
        record = memory.remember(UNSURE)
        assert record.arousal >= 0.8
        assert record.floor == 0.7
        assert record.arousal_source == "combined"


@pytest.mark.parametrize("behaviour", [fails(500), hangs, says("no idea"), says('{"score": 7}')])
def test_what_an_llm_fails_at_is_stored_all_the_same(behaviour: Any, store: Path) -> None:
    with serving() as server:
        server.behaviour = behaviour
        judge = LLMJudge("m", base_url=server.url, mode="scores", deadline=0.5)
        with Memory(store, detector=ArousalDetector(model=None, llm=judge)) as memory:
            record = memory.remember("Production is down.")
            assert record.arousal == ArousalDetector(model=None).detect("Production is down.").score
            assert record.arousal_source == "rules"
            assert record.floor == 0.7
        judge.close()
    with Memory(store) as memory:
        assert [hit.text for hit in memory.recall("outage")] == ["Production is down."]


def test_ctrl_c_while_an_llm_is_asked_stores_nothing(store: Path) -> None:
    def interrupted(text: str, context: str) -> float:
        raise KeyboardInterrupt

    with Memory(store, detector=detector(interrupted)) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.remember(UNSURE)
        assert len(memory) == 0
        assert memory.remember("thanks").id == 1


def test_no_lock_is_held_while_an_llm_is_asked(store: Path) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(text: str, context: str) -> float:
        asked.set()
        assert answer.wait(20)
        return 0.9

    with Memory(store, detector=detector(slow)) as memory:
        thread = threading.Thread(target=memory.remember, args=(UNSURE,))
        thread.start()
        assert asked.wait(20)
        other = memory.namespace("other")
        for place in (memory, other):
            place.remember("thanks")
            assert len(place.recall("thanks")) == 1
        answer.set()
        thread.join()
        assert {record.text for record in memory.list()} == {UNSURE, "thanks"}


def test_many_memories_are_asked_about_together(store: Path) -> None:
    together = threading.Barrier(4)

    def ask(text: str, context: str) -> float:
        together.wait(20)
        return 0.9

    with Memory(store, detector=detector(ask)) as memory:
        records = memory.remember_many([*OUTAGES, "thanks", {"text": UNSURE, "arousal": 0.1}])
    assert [record.arousal_source for record in records] == ["combined"] * 12 + ["rules", "given"]


# What was said is kept


def test_answers_are_kept_in_the_store_until_the_text_is_forgotten(store: Path) -> None:
    ask = Answers(Qorvath=0.9)
    for _ in range(2):
        with Memory(store, detector=detector(ask)) as memory:
            memory.remember(UNSURE, tags=["a"])
            memory.namespace("other").remember(UNSURE)
    assert ask.seen == [(UNSURE, "")]
    with Memory(store, detector=detector(ask)) as memory:
        for place in (memory, memory.namespace("other")):
            for record in place.list():
                place.forget(record.id)
        memory.remember(UNSURE)
    assert len(ask.seen) == 2


def test_what_an_llm_said_leaves_the_file_with_the_text(store: Path) -> None:
    def ask(text: str, context: str) -> dict[str, Any]:
        return {"score": 0.9, "reasoning": "XYLOPHONE " + text}

    with Memory(store, detector=detector(ask)) as memory:
        memory.forget(memory.remember(UNSURE, context="VIBRAPHONE").id)
        memory.compact()
    data = b"".join(path.read_bytes() for path in store.parent.iterdir() if path.is_file())
    for word in (b"XYLOPHONE", b"VIBRAPHONE", b"Qorvath"):
        assert word not in data


def test_what_an_llm_said_of_a_text_that_was_not_stored_leaves_the_file(store: Path) -> None:
    def ask(text: str, context: str) -> dict[str, Any]:
        return {"score": 0.9, "reasoning": "XYLOPHONE " + text}

    def refuse(record: Any, text: str) -> str:
        raise RuntimeError("no answer")

    def held() -> bytes:
        return b"".join(path.read_bytes() for path in store.parent.iterdir() if path.is_file())

    with Memory(store, detector=detector(ask)) as memory:
        memory.remember(UNSURE, arousal=0.1)
        with pytest.raises(RuntimeError):
            memory.remember(UNSURE, on_duplicate=refuse)
        other = UNSURE.replace("Qorvath", "Vibraphone")
        with pytest.raises(RuntimeError):
            memory.remember_many([UNSURE, other, other], on_duplicate=refuse)
        assert b"Vibraphone" in held()
        memory.compact()
        assert b"Vibraphone" not in held()
        assert b"XYLOPHONE" in held()  # of the text that is there


# Later


def test_deferred_is_in_the_end_as_if_asked_at_once(store: Path, clock: Clock) -> None:
    scores = {"Qorvath": 1.0, "down": 0.1}
    texts = [UNSURE, "Qorvath zhenya imploded at host db-7.", "Production is down.", "thanks"]
    with Memory(":memory:", detector=detector(Answers(**scores)), clock=clock) as at_once:
        expected = [shown(at_once, at_once.remember(text).id, clock()) for text in texts]

    ask = Answers(**scores)
    with Memory(store, detector=detector(ask, deferred=True), clock=clock) as memory:
        ids = [memory.remember(text, context="night shift").id for text in texts]
        assert ask.seen == []
        cheap = ArousalDetector(model=None)
        for id, text in zip(ids, texts, strict=True):
            assert memory.get(id).arousal == cheap.detect(text, "night shift").score
        before = memory.get(ids[0])
        assert before.floor == 0.0
        settled = memory.rescore()
        assert [shown(memory, id, clock()) for id in ids] == expected
        assert memory.get(ids[0]).floor == 0.7
        assert settled == len(ask.seen)
        assert set(ask.seen) <= {(text, "night shift") for text in texts}
        assert memory.rescore() == 0
    with Memory(store, clock=clock) as memory:
        assert [shown(memory, id, clock()) for id in ids] == expected


def test_nothing_is_lost_by_closing(store: Path, clock: Clock) -> None:
    with Memory(store, detector=detector(Answers(), deferred=True), clock=clock) as memory:
        id = memory.remember(UNSURE, context="from the lab").id
    clock.pass_(days=30)
    ask = Answers(Qorvath=1.0)
    with Memory(store, detector=detector(ask, deferred=True), clock=clock) as memory:
        assert memory.stats()["deferred"] == 1
        faded = memory.get(id).vividness
        assert faded < 0.2
        assert memory.rescore() == 1
        assert ask.seen == [(UNSURE, "from the lab")]
        record = memory.get(id)
        assert (record.floor, record.vividness) == (0.7, 0.7)
        assert record.salience == record.arousal >= 0.8
        stats = memory.stats()
        assert (stats["flashbulbs"], stats["deferred"]) == (1, 0)
        assert [hit.id for hit in memory.recall("what happened to Qorvath?")] == [id]


def test_what_failed_is_asked_about_again(store: Path, clock: Clock) -> None:
    ask = Answers(Qorvath=1.0)
    ask.failing = True
    with Memory(store, detector=detector(ask), clock=clock) as memory:
        id = memory.remember(UNSURE).id
        assert memory.get(id).arousal < 0.3
        assert memory.rescore() == 0
        ask.failing = False
        assert memory.rescore() == 1
        assert memory.get(id).arousal >= 0.8
        assert memory.rescore() == 0


@pytest.mark.parametrize("bad", [7.0, "no idea", '{"score": "high"}', None])
@pytest.mark.parametrize("deferred", [False, True])
def test_a_bad_reply_is_asked_about_again_but_not_for_ever(
    store: Path, bad: Any, deferred: bool
) -> None:
    asked: list[str] = []

    def ask(text: str, context: str) -> Any:
        asked.append(text)
        return bad

    with Memory(store, detector=detector(ask, deferred=deferred)) as memory:
        id = memory.remember(UNSURE).id
        cheap = memory.get(id).arousal
        for _ in range(3 if deferred else 2):
            assert memory.stats()["deferred"] == 1
            memory.rescore()
            assert memory.get(id).arousal == cheap
        assert memory.stats()["deferred"] == 0
        assert memory.rescore() == 0
    assert asked == [UNSURE] * 3


@pytest.mark.parametrize("failure", ["raises", "refuses", "says nothing"])
def test_texts_that_an_llm_fails_at_keep_no_other_from_being_asked(
    store: Path, failure: str
) -> None:
    class Hours:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    hours = Hours()

    def ask(text: str, context: str) -> Any:
        if "zhenya" not in text:
            return 0.9
        if failure == "raises":
            raise TimeoutError("no answer")
        if failure == "refuses":
            raise NoAnswer("refused", "HTTP 400: content filter")
        return "no idea"

    judge = from_callable(ask, clock=hours, name="test")
    one = ArousalDetector(model=None, llm=judge, deferred=True)
    with Memory(store, detector=one) as memory:
        for n in range(20):
            memory.remember(f"Qorvath zhenya {n} imploded.")
        good = [memory.remember(f"Qorvath brenya {n} imploded.").id for n in range(3)]
        for _ in range(30):
            hours.now += 7200.0
            memory.rescore(limit=8)
        assert [memory.get(id).arousal_source for id in good] == ["combined"] * 3
        for _ in range(100):
            hours.now += 7200.0
            memory.rescore()
        # What concerns the text is settled in the end; what may pass is not.
        assert memory.stats()["deferred"] == (20 if failure == "raises" else 0)


def test_a_better_model_scores_what_another_had_no_judgement_of(store: Path) -> None:
    with Memory(store, detector=detector(lambda text, context: "no idea")) as memory:
        id = memory.remember(UNSURE, context="from the lab").id
        assert memory.rescore() == 0
    ask = Answers(Qorvath=1.0)
    with Memory(store, detector=detector(ask)) as memory:
        assert memory.rescore() == 1
        assert memory.get(id).floor == 0.7
        assert ask.seen == [(UNSURE, "from the lab")]
        assert memory.rescore() == 0


def test_a_limit(store: Path) -> None:
    ask = Answers(down=0.9)
    with Memory(store, detector=detector(ask, deferred=True)) as memory:
        memory.remember_many(OUTAGES)
        assert memory.rescore(limit=2) == 2
        assert {text for text, _ in ask.seen} == set(OUTAGES[:2])
        assert memory.rescore() == len(OUTAGES) - 2
        assert memory.rescore() == 0


def test_what_changes_while_it_is_asked_about_stays_as_it_is(store: Path) -> None:
    def ask(text: str, context: str) -> float:
        memory.forget(2)
        return 0.9

    with Memory(store, detector=detector(ask, deferred=True)) as memory:
        memory.remember_many(OUTAGES[:3])
        assert memory.rescore() == 2
        assert [record.id for record in memory.list()] == [1, 3]
        assert {record.arousal_source for record in memory.list()} == {"combined"}


def test_what_recalls_have_changed_survives(store: Path, clock: Clock) -> None:
    with Memory(store, detector=detector(Answers(down=0.9), deferred=True), clock=clock) as memory:
        memory.remember_many([*OUTAGES[:3], "The kettle is next to the window."])
        memory.pin(4)
        memory.reinforce([1, 4])
        counts = [memory.get(id).access_count for id in range(1, 5)]
        assert memory.rescore() == 3
        assert [memory.get(id).access_count for id in range(1, 5)] == counts == [1, 0, 0, 1]
        assert memory.get(4).pinned
        hits = memory.recall(OUTAGES[0])
        assert hits[0].id == 1
        assert hits[0].lexical > 0


def test_a_completed_task_does_not_rise(store: Path) -> None:
    with Memory(store, detector=detector(Answers(Qorvath=1.0), deferred=True)) as memory:
        id = memory.remember(UNSURE, urgency=0.5).id
        memory.complete(id)
        assert memory.rescore() == 1
        assert memory.get(id).salience >= 0.8
        assert memory.get(id).floor == 0.0


def test_surprise_keeps_its_share(store: Path, clock: Clock) -> None:
    policy = Policy(surprise_threshold=1.0, surprise_min_samples=5)
    ask = Answers(Qorvath=0.0)
    with Memory(store, detector=detector(ask, deferred=True), policy=policy, clock=clock) as memory:
        memory.remember_many([f"The kettle number {i} is next to the window." for i in range(20)])
        record = memory.remember(UNSURE)
        assert record.salience > record.arousal
        assert memory.rescore() == 1
        settled = memory.get(record.id)
        assert settled.arousal < record.arousal
        assert settled.salience == record.salience
        assert (settled.pinned, settled.importance) == (record.pinned, record.importance)


def test_other_namespaces_are_left_alone(store: Path) -> None:
    ask = Answers(down=0.9)
    with Memory(store, detector=detector(ask, deferred=True)) as memory:
        memory.namespace("other").remember(OUTAGES[0])
        assert memory.rescore() == 0
        assert memory.namespace("other").rescore() == 1


@pytest.mark.parametrize(
    "options", [{}, {"neutral": True}, {"detector": ArousalDetector(model=None)}]
)
def test_without_an_llm_there_is_nobody_to_ask(options: dict[str, Any]) -> None:
    with (
        Memory(":memory:", **options) as memory,
        pytest.raises(ValueError, match="no LLM to ask"),
    ):
        memory.rescore()


def test_an_export_keeps_what_is_still_to_be_asked(store: Path, tmp_path: Path) -> None:
    ask = Answers(Qorvath=1.0)
    with Memory(store, detector=detector(ask, deferred=True)) as memory:
        memory.remember(UNSURE, context="from the lab")
        memory.export(tmp_path / "export.jsonl")
    with Memory(tmp_path / "other.db", detector=detector(ask, deferred=True)) as memory:
        memory.import_(tmp_path / "export.jsonl")
        assert memory.rescore() == 1
        assert ask.seen == [(UNSURE, "from the lab")]
