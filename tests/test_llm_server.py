"""The LLM client against a real HTTP server, which speaks the protocol, or misbehaves (R37)."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flashbulb import Memory, Reconsolidation
from flashbulb.arousal import ArousalDetector, LLMJudge, NoAnswer
from flashbulb.photograph import Photographer
from llm_server import (
    OUTAGES,
    Behaviour,
    Handler,
    LLMServer,
    breaks_off,
    closes,
    completion,
    drips,
    fails,
    floods,
    hangs,
    logprobs,
    says,
    sends,
    serving,
)

TEXT = "Production is down."
RULES = ArousalDetector(model=None).detect(TEXT)


@pytest.fixture
def server() -> Iterator[LLMServer]:
    with serving() as started:
        yield started


@pytest.fixture
def judges() -> Iterator[Any]:
    """Makes judges, and closes their connections at the end."""
    made: list[LLMJudge] = []

    def judge(server: LLMServer, **named: Any) -> LLMJudge:
        made.append(LLMJudge("test-model", base_url=server.url, **{"mode": "scores", **named}))
        return made[-1]

    yield judge
    for one in made:
        one.close()


def formats(server: LLMServer) -> list[str | None]:
    return [request.get("response_format", {}).get("type") for request in server.requests]


def test_a_would_be_flashbulb_is_confirmed(server: LLMServer, judges: Any) -> None:
    server.behaviour = says(
        '{"reasoning": "an outage", "consequentiality": 0.9, "surprise": 0.6, "score": 0.95}'
    )
    result = ArousalDetector(model=None, llm=judges(server)).detect(TEXT, "night shift")
    assert [stage.name for stage in result.stages] == ["rules", "llm"]
    assert result.stages[1].score == 0.95
    assert RULES.score < result.score < 0.95
    assert result.source == "combined"
    assert result.reasoning == "an outage"
    assert (result.consequentiality, result.surprise) == (0.9, 0.6)
    assert result.fallback is None

    (request,) = server.requests
    assert request["model"] == "test-model"
    assert request["temperature"] == 0
    system, user = request["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert TEXT not in system["content"]
    assert "night shift" not in system["content"]
    assert request["response_format"]["json_schema"]["schema"]["required"]


def test_a_sure_llm_rescues_what_the_rules_missed_and_vetoes_a_false_alarm(
    server: LLMServer, judges: Any
) -> None:
    detector = ArousalDetector(model=None, llm=judges(server))
    missed = "Qorvath zhenya imploded."
    assert ArousalDetector(model=None).detect(missed).score < 0.3
    server.behaviour = says('{"score": 1.0}')
    assert detector.detect(missed).score >= 0.8
    server.behaviour = says('{"score": 0.0}')
    assert detector.detect(TEXT).score < 0.5


def test_what_is_plain_is_not_asked_about(server: LLMServer, judges: Any) -> None:
    detector = ArousalDetector(model=None, llm=judges(server))
    for text in ("thanks", "See you at lunch on Thursday.", "The user prefers dark mode."):
        assert detector.detect(text) == ArousalDetector(model=None).detect(text)
    assert server.requests == []


MISBEHAVIOURS: dict[str, Behaviour] = {
    "first number": says("6 dimensions ... 0.2"),
    "percent": says("85%"),
    "out of range": says('{"score": 7}'),
    "negative": says('{"score": -0.1}'),
    "nan": says('{"score": NaN}'),
    "comma": says('{"score": "0,8"}'),
    "refusal": says("I'm sorry, but I can't help with that."),
    "refusal field": says(None, refusal="I can't help with that."),
    "empty": says(""),
    "null": says(None),
    "number for content": says(0.9),
    "error 500": fails(500),
    "error 503 to wait too long": fails(503, retry_after="100"),
    "error 429 to wait too long": fails(429, retry_after="100"),
    "error 401": fails(401),
    "error 404": fails(404, "no such model"),
    "error 400 for everything": fails(400),
    "closed connection": closes,
    "broken off": breaks_off,
    "hangs": hangs,
    "slow drip": drips,
    "flood": floods,
    "html": sends("<html><body>It works!</body></html>", content_type="text/html"),
    "no json": sends("\x00\xff\x00"),
    "not utf-8": sends(b"\xff\xfe\x00\x80"),
    "a list": sends("[]"),
    "no choices": sends('{"choices": []}'),
    "no message": sends('{"choices": [{}]}'),
    "message of text": sends('{"choices": [{"message": "0.9"}]}'),
    "deep": sends("[" * 200_000),
    "redirects for ever": sends("", status=307, headers={"location": "/v1/chat/completions"}),
    "no gzip": sends(b"0.9", headers={"content-encoding": "gzip"}),
    "nothing": sends(""),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
@pytest.mark.parametrize("mode", ["scores", "auto"])
def test_a_server_that_misbehaves_costs_nothing_but_its_answer(
    server: LLMServer, judges: Any, name: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.behaviour = MISBEHAVIOURS[name]
    # Only what waits for the deadline needs it.
    deadline = 0.5 if name in ("hangs", "slow drip", "redirects for ever") else 20.0
    detector = ArousalDetector(model=None, llm=judges(server, mode=mode, deadline=deadline))
    with caplog.at_level(logging.WARNING, logger="flashbulb.arousal"):
        result = detector.detect(TEXT)
    assert (
        replace(result, fallback=None, deferred=False, bad_reply=False, unanswered=False) == RULES
    )
    lasting = {"fallback.reply", "fallback.refused"}
    assert result.deferred == lasting.isdisjoint(detector.statistics())
    assert result.bad_reply != result.deferred
    assert result.fallback is not None
    assert result.fallback.startswith("llm: ")
    assert result.fallback in "llm: " + caplog.text.partition("left out: ")[2]
    assert server.requests
    counts = detector.statistics()
    assert counts.pop("judged") == counts.pop("asked") == 1
    assert sum(counts.values()) == 1


@pytest.mark.parametrize(
    "content",
    [
        '```json\n{"score": 0.4}\n```',
        'In {travel} we trust. {"score": 0.4}',
        '<think>{"score": 0.9}? No.</think>{"score": 0.4}',
        [{"type": "text", "text": '{"score": 0.4}'}],
    ],
    ids=repr,
)
def test_replies_in_other_dress(server: LLMServer, judges: Any, content: Any) -> None:
    server.behaviour = says(content)
    result = ArousalDetector(model=None, llm=judges(server)).detect(TEXT)
    assert result.stages[1].score == 0.4


@pytest.mark.parametrize(
    "passing", [fails(500), fails(429, retry_after="0"), fails(529), closes, breaks_off]
)
def test_what_passes_is_tried_again(server: LLMServer, judges: Any, passing: Behaviour) -> None:
    server.first = [passing]
    result = ArousalDetector(model=None, llm=judges(server)).detect(TEXT)
    assert result.fallback is None
    assert len(server.requests) == 2


def test_repeats_end(server: LLMServer, judges: Any) -> None:
    server.behaviour = fails(500)
    ArousalDetector(model=None, llm=judges(server)).detect(TEXT)
    assert len(server.requests) == 3


def test_the_deadline_holds_for_all_repeats_together(server: LLMServer, judges: Any) -> None:
    server.behaviour = hangs
    server.first = [fails(500, retry_after="0.3")]
    detector = ArousalDetector(model=None, llm=judges(server, deadline=0.5))
    assert detector.detect(TEXT).fallback == "llm: no answer within 0.5 s"


# What servers understand


def understands(*types: str | None) -> Behaviour:
    """A server that refuses other response formats."""

    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        form = request.get("response_format")
        kind = None if form is None else form["type"] + (" schema" if "schema" in form else "")
        if kind in types:
            says('{"score": 0.9}')(handler, request)
        else:
            fails(400, "'response_format.type' is not supported")(handler, request)

    return behaviour


@pytest.mark.parametrize(
    ("kind", "tries"),
    [("json_schema", 1), ("json_object schema", 2), ("json_object", 3), (None, 4)],
)
def test_the_strictest_form_that_the_server_takes_is_remembered(
    server: LLMServer, judges: Any, kind: str | None, tries: int
) -> None:
    server.behaviour = understands(kind)
    detector = ArousalDetector(model=None, llm=judges(server))
    assert detector.detect(TEXT).fallback is None
    assert len(server.requests) == tries
    assert detector.detect("The database is down.").fallback is None
    assert len(server.requests) == tries + 1
    assert formats(server)[-1] == (None if kind is None else kind.split()[0])


def test_a_form_that_gives_no_json_is_left(server: LLMServer, judges: Any) -> None:
    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        strict = request.get("response_format", {}).get("type") == "json_schema"
        says("" if strict else '{"score": 0.9}')(handler, request)

    server.behaviour = behaviour
    detector = ArousalDetector(model=None, llm=judges(server))
    assert detector.detect(TEXT).fallback is None
    assert detector.detect("The database is down.").fallback is None
    assert formats(server) == ["json_schema", "json_object", "json_object"]


def test_a_bad_hour_does_not_change_the_form(server: LLMServer, judges: Any) -> None:
    detector = ArousalDetector(model=None, llm=judges(server))
    server.behaviour = fails(400, "the context is too long")
    assert detector.detect(TEXT).fallback is not None
    server.requests.clear()
    server.behaviour = says('{"score": 0.9}')
    assert detector.detect(TEXT).fallback is None
    assert formats(server) == ["json_schema"]


@pytest.mark.parametrize("name", ["max_tokens", "temperature"])
def test_an_argument_that_the_server_refuses_is_not_sent_again(
    server: LLMServer, judges: Any, name: str
) -> None:
    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        if name in request:
            fails(400, f"Unsupported parameter: '{name}'")(handler, request)
        else:
            says('{"score": 0.9}')(handler, request)

    server.behaviour = behaviour
    detector = ArousalDetector(model=None, llm=judges(server))
    assert detector.detect(TEXT).fallback is None
    assert detector.detect("The database is down.").fallback is None
    assert [name in request for request in server.requests] == [True, False, False]
    assert ("max_completion_tokens" in server.requests[-1]) == (name == "max_tokens")


def test_options_are_the_users(server: LLMServer, judges: Any) -> None:
    judge = judges(server, options={"seed": 7, "temperature": None, "max_tokens": 50})
    ArousalDetector(model=None, llm=judge).detect(TEXT)
    (request,) = server.requests
    assert request["seed"] == 7
    assert request["max_tokens"] == 50
    assert "temperature" not in request


def test_a_client_of_the_users_own(server: LLMServer) -> None:
    from openai import OpenAI

    with OpenAI(base_url=server.url, api_key="secret", max_retries=9) as client:
        server.behaviour = fails(500)
        detector = ArousalDetector(model=None, llm=LLMJudge("m", client=client, mode="scores"))
        assert detector.detect(TEXT).fallback is not None
        assert len(server.requests) == 3  # ours, not the client's


# Log-probabilities


def test_where_the_server_tells_probabilities_the_score_is_that_of_yes(
    server: LLMServer, judges: Any
) -> None:
    tokens = logprobs(Yes=math.log(0.72), No=math.log(0.18), It=math.log(0.1))
    server.behaviour = sends(completion("Yes", tokens))
    result = ArousalDetector(model=None, llm=judges(server, mode="auto")).detect(TEXT)
    # Tolerance: rounding of a few operations.
    assert result.stages[1].score == pytest.approx(0.8, abs=1e-12)
    (request,) = server.requests
    assert request["logprobs"] is True
    assert request["max_tokens"] == 1
    assert "response_format" not in request


def refuses_logprobs(handler: Handler, request: dict[str, Any]) -> None:
    if "logprobs" in request:
        fails(400, "logprobs are not supported")(handler, request)
    else:
        says('{"score": 0.9}')(handler, request)


@pytest.mark.parametrize("behaviour", [refuses_logprobs, says('{"score": 0.9}')])
def test_where_it_does_not_the_scores_are_asked_for(
    server: LLMServer, judges: Any, behaviour: Behaviour
) -> None:
    server.behaviour = behaviour
    detector = ArousalDetector(model=None, llm=judges(server, mode="auto"))
    for text in (TEXT, "The database is down."):
        assert detector.detect(text).stages[1].score == 0.9
    assert ["logprobs" in request for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "logprobs", [{}, {"content": []}, {"content": [{}]}, {"content": [{"top_logprobs": 7}]}, 7, "x"]
)
def test_garbage_for_probabilities_is_none(server: LLMServer, judges: Any, logprobs: Any) -> None:
    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        handler.reply(completion('{"score": 0.9}', logprobs))

    server.behaviour = behaviour
    assert (
        ArousalDetector(model=None, llm=judges(server, mode="auto")).detect(TEXT).stages[1].score
        == 0.9
    )


def test_a_first_token_of_another_kind_asks_for_scores(server: LLMServer, judges: Any) -> None:
    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        tokens = logprobs(The=-0.1, Yes=-6.0) if "logprobs" in request else None
        handler.reply(completion('{"score": 0.9}', tokens))

    server.behaviour = behaviour
    detector = ArousalDetector(model=None, llm=judges(server, mode="auto"))
    for text in (TEXT, "The database is down."):
        assert detector.detect(text).stages[1].score == 0.9
    # The server does tell them: the next text is asked about so again.
    assert ["logprobs" in request for request in server.requests] == [True, False] * 2


# Many at a time


def test_many_are_asked_about_at_a_time(server: LLMServer, judges: Any) -> None:
    together = threading.Barrier(4)

    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        together.wait(20)
        user = request["messages"][1]["content"]
        places = [place for place, text in enumerate(OUTAGES) if text in user]
        says(json.dumps({"score": places[0] / 100}))(handler, request)

    server.behaviour = behaviour
    results = ArousalDetector(model=None, llm=judges(server)).detect_many(["thanks", *OUTAGES])
    assert len(server.requests) == len(OUTAGES)
    assert results[0] == ArousalDetector(model=None).detect("thanks")
    scores = [result.stages[1].score for result in results[1:]]
    assert scores == [place / 100 for place in range(len(OUTAGES))]


def test_async(server: LLMServer, judges: Any) -> None:
    together = threading.Barrier(3)

    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        together.wait(20)
        says('{"score": 0.9}')(handler, request)

    server.behaviour = behaviour
    detector = ArousalDetector(model=None, llm=judges(server))

    async def ask() -> list[Any]:
        return await asyncio.gather(*(detector.adetect(text) for text in OUTAGES[:3]))

    assert [result.stages[1].score for result in asyncio.run(ask())] == [0.9] * 3


def test_one_bad_answer_of_many_is_one_fallback(server: LLMServer, judges: Any) -> None:
    def behaviour(handler: Handler, request: dict[str, Any]) -> None:
        bad = OUTAGES[2] in request["messages"][1]["content"]
        says("no idea" if bad else '{"score": 0.9}')(handler, request)

    server.behaviour = behaviour
    results = ArousalDetector(model=None, llm=judges(server)).detect_many(OUTAGES[:4])
    assert [result.fallback is None for result in results] == [True, True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": ""}, "name of a model"),
        ({"mode": "json"}, "mode must be"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": True}, "deadline"),
        ({"budget_per_hour": -1}, "budget_per_hour"),
        ({"budget_per_hour": 1.5}, "budget_per_hour"),
        ({"client": object(), "base_url": "http://localhost"}, "a client has"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        LLMJudge(**{"model": "m", **arguments})


# Photographs and reconsolidation


def test_a_photograph(server: LLMServer, judges: Any) -> None:
    server.behaviour = says('{"who": "Zhenya Q", "what": null, "when": "", "where": 7}')
    text = "Yesterday Zhenya Q found the door of vault B open."
    photographer = Photographer(judges(server).photograph)
    found = photographer.photograph(text, created=0.0, context="night shift")
    assert (found["who"].value, found["who"].source) == ("Zhenya Q", "llm")
    assert "night shift" in server.requests[0]["messages"][1]["content"]
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["who", "what", "when", "where"]


@pytest.mark.parametrize(
    "content", ["nobody", "{}", '{"score": 0.9}', '{"who": "a"} {"who": "b"}', "[]", ""]
)
def test_a_bad_photograph_is_left_out(server: LLMServer, judges: Any, content: str) -> None:
    server.behaviour = says(content)
    text = "Write to ops@example.org"
    expected = Photographer().photograph(text, created=0.0)
    assert Photographer(judges(server).photograph).photograph(text, created=0.0) == expected


def test_a_reply_to_a_prompt(server: LLMServer, judges: Any) -> None:
    server.behaviour = says("It was Zhenya.")
    reconsolidation = Reconsolidation.from_callable(judges(server).reply)
    with Memory(":memory:", reconsolidation=reconsolidation) as memory:
        record = memory.remember("Somebody left the vault open.", arousal=0.9)
        text = memory.reconsolidate(record.id, "Zhenya says: sorry, the vault, that was me").text
    assert text == "Somebody left the vault open. [It was Zhenya.]"


def test_a_reply_that_does_not_come_is_an_error(server: LLMServer, judges: Any) -> None:
    server.behaviour = fails(403)
    with pytest.raises(NoAnswer, match="HTTP 403"):
        judges(server).reply("hello")
