"""What keeps asking an LLM from doing harm: deadline, circuit, budget, cache; and other LLMs."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda

from conftest import Clock
from flashbulb import Memory
from flashbulb.arousal import ArousalDetector, LLMJudge, from_callable, from_langchain
from flashbulb.arousal.asking import MemoryCache
from llm_server import OUTAGES, LLMServer, fails, hangs, says, serving

DOWN = "Production is down."
DOWN_TOO = "The database is down."


@pytest.fixture
def server() -> Iterator[LLMServer]:
    with serving() as started:
        yield started


class Answers:
    """A function for an LLM that counts its calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, str]] = []

    def __call__(self, text: str, context: str) -> Any:
        self.seen.append((text, context))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def judge(function: Callable[..., Any], **limits: Any) -> ArousalDetector:
    return ArousalDetector(model=None, llm=from_callable(function, **limits))


# Deadline


def test_a_function_that_hangs_is_left_behind() -> None:
    ever = threading.Event()
    detector = judge(lambda text, context: ever.wait(60), deadline=0.2)
    assert detector.detect(DOWN).fallback == "llm: no answer within 0.2 s"
    ever.set()


def test_twenty_seconds_are_the_default() -> None:
    left: list[float] = []

    def ask(text: str, context: str) -> float:
        return 0.9

    one = from_callable(ask, clock=lambda: left.append(0.0) or 0.0)
    assert one.judge(DOWN).score == 0.9
    assert one._seconds == 20.0


# Circuit


def test_what_keeps_failing_is_not_asked_for_a_while(server: LLMServer, clock: Clock) -> None:
    server.behaviour = fails(403)
    llm = LLMJudge("m", base_url=server.url, mode="scores", clock=clock)
    detector = ArousalDetector(model=None, llm=llm)
    for _ in range(5):
        assert "HTTP 403" in (detector.detect(DOWN).fallback or "")
    for _ in range(2):
        assert "5 failures in a row" in (detector.detect(DOWN).fallback or "")
    assert len(server.requests) == 5

    clock.pass_(seconds=30)  # one question goes through, and fails
    assert "HTTP 403" in (detector.detect(DOWN).fallback or "")
    assert "6 failures in a row" in (detector.detect(DOWN).fallback or "")
    clock.pass_(seconds=59)  # twice as long now
    assert "6 failures in a row" in (detector.detect(DOWN).fallback or "")
    assert len(server.requests) == 6

    server.behaviour = says('{"score": 0.9}')
    clock.pass_(seconds=1)
    assert detector.detect(DOWN).fallback is None
    assert detector.detect(DOWN_TOO).fallback is None
    assert detector.statistics() == {
        "judged": 12, "asked": 12, "answered": 2, "fallback.server": 6, "fallback.circuit": 4,
    }  # fmt: skip
    llm.close()


def test_a_success_forgives(clock: Clock) -> None:
    ask = Answers(*[ValueError("no")] * 4, 0.9, *[ValueError("no")] * 4, 0.9)
    detector = judge(ask, clock=clock)
    fallbacks = [detector.detect(DOWN).fallback for _ in range(10)]
    assert fallbacks == [*["llm: no"] * 4, None, *["llm: no"] * 4, None]


def test_only_one_question_goes_through_when_it_is_time(clock: Clock) -> None:
    asked, answer = threading.Event(), threading.Event()
    failing = True

    def ask(text: str, context: str) -> float:
        if failing:
            raise ValueError("no")
        asked.set()
        answer.wait(20)
        return 0.9

    detector = judge(ask, clock=clock)
    for _ in range(5):
        detector.detect(DOWN)
    failing = False
    clock.pass_(seconds=30)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(detector.detect(DOWN)))
    thread.start()
    assert asked.wait(20)
    assert "failures in a row" in (detector.detect(DOWN).fallback or "")
    answer.set()
    thread.join()
    assert results[0].fallback is None
    assert detector.detect(DOWN).fallback is None


# Budget


def test_a_budget_for_an_hour(server: LLMServer, clock: Clock) -> None:
    llm = LLMJudge("m", base_url=server.url, mode="scores", budget_per_hour=2, clock=clock)
    detector = ArousalDetector(model=None, llm=llm)
    fallbacks = [detector.detect(text).fallback for text in OUTAGES[:9]]
    assert fallbacks == [None, None, *["llm: the budget of 2 an hour is spent"] * 7]
    assert detector.detect(OUTAGES[0]).fallback is None  # known
    clock.pass_(hours=1)
    assert [detector.detect(text).fallback for text in OUTAGES[9:11]] == [None, None]
    assert detector.detect(OUTAGES[11]).fallback is not None
    assert len(server.requests) == 4
    llm.close()


def test_repeats_count_against_the_budget(server: LLMServer) -> None:
    server.behaviour = fails(500)
    llm = LLMJudge("m", base_url=server.url, mode="scores", budget_per_hour=2)
    assert (
        ArousalDetector(model=None, llm=llm).detect(DOWN).fallback
        == "llm: the budget of 2 an hour is spent"
    )
    assert len(server.requests) == 2
    llm.close()


# Cache


class Kept:
    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], str] = {}

    def get(self, text: str, question: str) -> str | None:
        return self.answers.get((text, question))

    def put(self, text: str, question: str, answer: str) -> None:
        self.answers[text, question] = answer


def test_answers_are_cached_by_model_text_and_context(server: LLMServer) -> None:
    kept = Kept()
    judges = [LLMJudge(name, base_url=server.url, mode="scores", cache=kept) for name in "ab"]
    server.behaviour = says('{"score": 0.9, "reasoning": "an outage", "surprise": 0.5}')
    first = ArousalDetector(model=None, llm=judges[0])
    result = first.detect(DOWN)
    assert first.detect(DOWN) == result
    assert len(server.requests) == 1
    first.detect(DOWN, "at night")
    first.detect(DOWN_TOO)
    assert len(server.requests) == 3
    ArousalDetector(model=None, llm=judges[1]).detect(DOWN)
    assert len(server.requests) == 4
    assert {text for text, _ in kept.answers} == {DOWN, DOWN_TOO}
    for one in judges:
        one.close()


@pytest.mark.parametrize("how", ["client", "environment"])
def test_another_server_is_not_answered_for_from_the_cache(
    server: LLMServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    from openai import OpenAI

    cache = MemoryCache()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    scores = []
    with serving() as other:
        for each, answer in ((server, "0.9"), (other, "0.1")):
            each.behaviour = says(f'{{"score": {answer}}}')
            monkeypatch.setenv("OPENAI_BASE_URL", each.url)
            client = OpenAI() if how == "client" else None
            judge = LLMJudge("m", client=client, mode="scores", cache=cache)
            scores.append(judge.judge(DOWN).score)
            judge.close()
            if client is not None:
                client.close()
    assert scores == [0.9, 0.1]


def test_failures_are_not_cached() -> None:
    ask = Answers("no idea", 0.9)
    detector = judge(ask, name="mine")
    assert detector.detect(DOWN).fallback is not None
    assert detector.detect(DOWN).fallback is None
    assert detector.detect(DOWN).fallback is None
    assert len(ask.seen) == 2


def test_a_function_without_a_name_is_not_cached() -> None:
    ask = Answers(0.9)
    detector = judge(ask)
    detector.detect(DOWN)
    detector.detect(DOWN)
    assert len(ask.seen) == 2


class Broken:
    def get(self, text: str, question: str) -> str | None:
        raise OSError("the disk is gone")

    def put(self, text: str, question: str, answer: str) -> None:
        raise OSError("the disk is gone")


class Damaged(Broken):
    def get(self, text: str, question: str) -> str | None:
        return '{"score": 7}'


@pytest.mark.parametrize("cache", [Broken(), Damaged()])
def test_a_cache_that_fails_costs_nothing_but_a_question(cache: Any) -> None:
    ask = Answers(0.9)
    detector = judge(ask, name="mine", cache=cache)
    assert [detector.detect(DOWN).fallback for _ in range(2)] == [None, None]
    assert len(ask.seen) == 2


# Other LLMs


def test_an_interrupt_passes_through_a_batch() -> None:
    def ask(text: str, context: str) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(ask).detect_many([DOWN, DOWN_TOO])


HANGING = """
import signal, sys, threading
from flashbulb.arousal import ArousalDetector

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
texts = sys.argv[1:]
asked = threading.Semaphore(0)

def hang(text, context):
    asked.release()
    threading.Event().wait(600)

def interrupt():
    for _ in texts:
        asked.acquire()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

detector = ArousalDetector(llm=hang)
threading.Thread(target=interrupt).start()
try:
    detector.detect_many(texts)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("count", [1, 3])
def test_ctrl_c_waits_for_no_llm(count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING, *OUTAGES[:count]],
        capture_output=True,
        text=True,
        timeout=120,  # the LLM would take 600 seconds
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


class ChatModel(BaseChatModel):
    """A chat model of LangChain that answers what it is told to."""

    answer: Any
    model_name: str = "parrot"
    seen: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def with_structured_output(self, schema: Any, **named: Any) -> Runnable[Any, Any]:
        assert schema["title"] == "arousal"

        def parse(message: AIMessage) -> Any:
            return self.answer

        return self | RunnableLambda(parse)

    def _generate(self, messages: list[BaseMessage], *args: Any, **named: Any) -> ChatResult:
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("{}"))])


def test_a_langchain_model() -> None:
    model = ChatModel(answer={"score": 0.95, "reasoning": "an outage"}, seen=[])
    detector = ArousalDetector(model=None, llm=model)
    result = detector.detect(DOWN, "at night")
    assert result.stages[1].score == 0.95
    assert result.reasoning == "an outage"
    assert detector.detect(DOWN, "at night") == result
    ((system, user),) = model.seen
    assert system.type == "system"
    assert DOWN in user.content
    assert "at night" in user.content


@pytest.mark.parametrize("answer", [None, {}, {"score": 7}, "0.9"])
def test_a_langchain_model_that_fails(answer: Any) -> None:
    detector = ArousalDetector(model=None, llm=from_langchain(ChatModel(answer=answer, seen=[])))
    assert (detector.detect(DOWN).fallback or "").startswith("llm: ")


def test_a_function_of_the_text_alone() -> None:
    assert judge(lambda text: 0.9).detect(DOWN).stages[1].score == 0.9


def test_an_async_function() -> None:
    async def ask(text: str, context: str) -> float:
        await asyncio.sleep(0)
        return 0.9

    assert judge(ask).detect(DOWN).stages[1].score == 0.9


def test_a_cancelled_client_is_a_failure_like_any_other() -> None:
    async def ask(text: str, context: str) -> float:
        raise asyncio.CancelledError

    result = judge(ask).detect(DOWN)
    assert result.fallback is not None
    assert "cancelled" in result.fallback
    with Memory(":memory:", detector=judge(ask)) as memory:
        memory.remember(DOWN)
        assert len(memory) == 1


def test_failures_in_a_row_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    detector = judge(Answers(*["no idea"] * 3, 0.9, "no idea"))
    with caplog.at_level(logging.WARNING, logger="flashbulb.arousal"):
        fallbacks = [detector.detect(DOWN).fallback for _ in range(5)]
    assert [fallback is None for fallback in fallbacks] == [False, False, False, True, False]
    assert caplog.text.count("no idea") == 2
    assert detector.statistics()["fallback.reply"] == 4


def test_what_is_no_llm_is_refused() -> None:
    with pytest.raises(TypeError, match="llm must be an LLMJudge"):
        ArousalDetector(model=None, llm="gpt")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function of text and context"):
        from_callable("gpt")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="llm must be an LLMJudge"):
        ArousalDetector(model=None, llm=LLMJudge)
    with pytest.raises(TypeError, match="function of text and context"):
        from_callable(lambda: 0.9)
    with pytest.raises(TypeError, match="with_structured_output"):
        from_langchain(print)


def test_a_judge_that_hangs_in_a_batch_does_not_keep_the_others(server: LLMServer) -> None:
    def behaviour(handler: Any, request: Any) -> None:
        stuck = OUTAGES[1] in request["messages"][1]["content"]
        (hangs if stuck else says('{"score": 0.9}'))(handler, request)

    server.behaviour = behaviour
    llm = LLMJudge("m", base_url=server.url, mode="scores", deadline=1.0)
    results = ArousalDetector(model=None, llm=llm).detect_many(OUTAGES[:3])
    fallbacks = [result.fallback for result in results]
    assert fallbacks == [None, "llm: no answer within 1 s", None]
    llm.close()
