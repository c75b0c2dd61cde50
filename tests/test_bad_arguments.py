"""Every public callable, each of its arguments in turn of a wrong type: what comes out is meant.

An error is meant if a line of Flashbulb raises it: then it says what was expected and what came. A
TypeError or IndexError that Python or NumPy raised somewhere within is not.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import linecache
import math
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashbulb
from flashbulb import (
    ArousalDetector,
    Engine,
    FlashbulbError,
    LLMJudge,
    Memory,
    Photographer,
    Policy,
    Reconsolidation,
    Retention,
    SurpriseDetector,
    arousal,
    embedding,
    photograph,
)
from flashbulb.arousal import ArousalModel, RuleSet, from_callable

NOW = 1_700_000_000.0
VECTOR = np.eye(3)[0]


class Thing:
    """A class that is called with anything."""

    def __init__(self, *arguments: Any, **named: Any) -> None: ...


BAD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "3": lambda: 3,
    "-1": lambda: -1,
    "1.5": lambda: 1.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "huge": lambda: 10**400,
    "empty": lambda: "",
    "text": lambda: "abc",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"abc",
    "list": lambda: ["abc", 3],
    "nested": lambda: [[1.0, 2.0], [3.0]],
    "dict": lambda: {"abc": 3},
    "object": object,
    "class": lambda: Thing,
    "function": lambda: lambda *arguments, **named: None,
    "generator": lambda: (each for each in ("abc", None)),
    "vector": lambda: np.array([1.0, 2.0]),
    "matrix": lambda: np.ones((2, 2, 2)),
    "no array": lambda: np.array("abc"),
    "objects": lambda: np.array([None, "abc"]),
    "no numbers": lambda: np.array(["a", "b"]),
}
"""By name, made anew for each call; where one of them is good, the call works."""

RECORDS = {
    "ArousalResult",
    "Evidence",
    "Extracted",
    "Finding",
    "Hit",
    "Judge",
    "Judgement",
    "ModelJudgement",
    "NearDuplicate",
    "Occurrence",
    "Record",
    "Repair",
    "Reply",
    "Rule",
    "Source",
    "Stage",
    "StageScore",
    "Surprise",
    "Version",
    "WhyNot",
    "Embedder",
}
"""What Flashbulb makes and hands out, and what it only names."""


def public() -> Iterator[str]:
    """Names of what takes arguments: functions, classes, and methods of classes."""
    for module in (flashbulb, arousal, embedding, photograph):
        for name in module.__all__:
            value = getattr(module, name)
            if name in RECORDS or not callable(value):
                continue
            if not inspect.isclass(value):
                yield name
            elif not issubclass(value, Exception):
                yield name
                yield from (
                    f"{name}.{method}"
                    for method in dir(value)
                    if not method.startswith("_") and callable(getattr(value, method))
                )


# Of each what it is called on, with arguments that are good.


class World:
    """Objects whose methods are called."""

    def __init__(self, folder: Path) -> None:
        self.memory = Memory(folder / "agent.db", clock=lambda: NOW)
        self.memory.remember("Production is down", urgency=0.5, tags=["ops"])
        self.llm = Memory(":memory:", detector=ArousalDetector(llm=lambda text: 0.5))
        self.export = folder / "export.jsonl"
        self.memory.export(self.export)
        self.sound = folder / "sound.db"
        self.memory.backup(self.sound)
        self.engine = Engine(3)
        self.engine.add(np.eye(3), now=NOW)
        self.surprise = SurpriseDetector("combined")
        self.surprise.update(VECTOR, ["ops"], NOW)
        self.seen = self.surprise._seen(self.surprise._unit(VECTOR))
        self.model = ArousalModel.default()
        self.folder = folder


def calls(world: World) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    memory, engine, surprise = world.memory, world.engine, world.surprise
    detector, judge = ArousalDetector(), LLMJudge("m", base_url="http://127.0.0.1:9", deadline=1e-9)
    photographer, rules, static = Photographer(), RuleSet.default(), embedding.default_embedder()
    ids, now = {"ids": 0}, {"now": NOW}
    text, id = {"text": "abc"}, {"id": 1}
    asked = {"query": "abc"}
    vector = {"vector": VECTOR, "tags": ["ops"], "now": NOW}
    seen = {"seen": world.seen, "tags": ["ops"], "now": NOW}
    observed = surprise.score(VECTOR, [], NOW)
    return {
        "ArousalDetector": (ArousalDetector, {}),
        "ArousalDetector.adetect": (_awaited(detector.adetect), text),
        "ArousalDetector.detect": (detector.detect, text),
        "ArousalDetector.detect_many": (detector.detect_many, {"texts": ["abc"]}),
        "ArousalDetector.settle": (detector.settle, {"texts": ["abc"]}),
        "ArousalDetector.shown": (detector.shown, text),
        "ArousalModel.contributions": (world.model.contributions, text),
        "ArousalModel.for_embedder": (ArousalModel.for_embedder, {"embedder": static}),
        "ArousalModel.load": (ArousalModel.load, {"path": world.folder / "model.npz"}),
        "ArousalModel.save": (world.model.save, {"path": world.folder / "model.npz"}),
        "Engine": (Engine, {"dim_or_index": 3}),
        "Engine.add": (engine.add, {"vectors": VECTOR, **now}),
        "Engine.complete": (engine.complete, {**ids, **now}),
        "Engine.cosines": (engine.cosines, {"queries": VECTOR, **ids}),
        "Engine.decay": (engine.decay, now),
        "Engine.from_state": (Engine.from_state, {"state": engine.state()}),
        "Engine.newest": (engine.newest, {}),
        "Engine.pin": (engine.pin, {**ids, **now}),
        "Engine.remove": (engine.remove, {"ids": []}),
        "Engine.replace_vectors": (engine.replace_vectors, {**ids, "vectors": VECTOR}),
        "Engine.search": (engine.search, {"queries": VECTOR, **now}),
        "Engine.set_policy": (engine.set_policy, {"policy": Policy(), **now}),
        "Engine.strengthen": (engine.strengthen, {**ids, "gain": 0.1, **now}),
        "Engine.suppress": (engine.suppress, {"accessed": 0, **now}),
        "Engine.touch": (engine.touch, {**ids, **now}),
        "Engine.traces": (engine.traces, {}),
        "Engine.unpin": (engine.unpin, {**ids, **now}),
        "Engine.vectors": (engine.vectors, ids),
        "Engine.vividness": (engine.vividness, now),
        "Engine.with_tags": (engine.with_tags, {"tags": ["ops"]}),
        "LLMJudge": (LLMJudge, {"model": "m"}),
        "LLMJudge.judge": (judge.judge, text),
        "LLMJudge.photograph": (judge.photograph, text),
        "LLMJudge.reply": (judge.reply, {"prompt": "abc"}),
        "Memory": (_closed(Memory), {"path": ":memory:"}),
        "Memory.apply_retention": (memory.apply_retention, {"policy": Retention(size=10**6)}),
        "Memory.backup": (
            memory.backup,
            {"path": world.folder / "copy.db", "overwrite": True},
        ),
        "Memory.complete": (memory.complete, id),
        "Memory.export": (memory.export, {"path": world.folder / "again.jsonl"}),
        "Memory.forget": (memory.forget, {"id": 77}),
        "Memory.get": (memory.get, id),
        "Memory.history": (memory.history, id),
        "Memory.import_": (memory.import_, {"path": world.export, "new_ids": True}),
        "Memory.list": (memory.list, {}),
        "Memory.namespace": (memory.namespace, {"name": "abc"}),
        "Memory.pin": (memory.pin, id),
        "Memory.recall": (memory.recall, asked),
        "Memory.reconsolidate": (memory.reconsolidate, {**id, "context": "abc"}),
        "Memory.reinforce": (memory.reinforce, {"ids": 1}),
        "Memory.remember": (memory.remember, text),
        "Memory.remember_many": (memory.remember_many, {"items": ["abc"]}),
        "Memory.rescore": (world.llm.rescore, {}),
        "Memory.restore": (memory.restore, id),
        "Memory.unpin": (memory.unpin, id),
        "Memory.why_not": (memory.why_not, {**asked, **id}),
        "MiniLMEmbedder": (embedding.MiniLMEmbedder, {}),
        "Photographer": (Photographer, {}),
        "Photographer.photograph": (photographer.photograph, {**text, "created": NOW}),
        "Policy": (Policy, {}),
        "Policy.floor_for": (Policy().floor_for, {"salience": 0.5}),
        "Policy.published": (_published, {"change": 0.5}),
        "Reconsolidation": (Reconsolidation, {}),
        "Reconsolidation.change": (
            Reconsolidation().change,
            {**text, "context": "abc", "protected": True},
        ),
        "Reconsolidation.from_callable": (Reconsolidation.from_callable, {"ask": str}),
        "Retention": (Retention, {"size": 1}),
        "RuleSet.is_unreal": (rules.is_unreal, {"context": "abc"}),
        "RuleSet.load": (RuleSet.load, {"path": world.folder / "rules.toml"}),
        "StaticEmbedder.embed_documents": (static.embed_documents, {"texts": ["abc"]}),
        "StaticEmbedder.embed_queries": (static.embed_queries, {"texts": ["abc"]}),
        "SurpriseDetector": (SurpriseDetector, {}),
        "SurpriseDetector.from_state": (
            SurpriseDetector.from_state,
            {"data": surprise.state(), "last_seen": {}},
        ),
        "SurpriseDetector.is_flashbulb": (surprise.is_flashbulb, {"surprise": observed}),
        "SurpriseDetector.judge": (surprise.judge, seen),
        "SurpriseDetector.look_ahead": (
            SurpriseDetector().look_ahead,
            {"vectors": np.eye(3)},
        ),
        "SurpriseDetector.observe": (surprise.observe, vector),
        "SurpriseDetector.salience": (surprise.salience, {"surprise": observed}),
        "SurpriseDetector.score": (surprise.score, vector),
        "SurpriseDetector.take": (surprise.take, seen),
        "SurpriseDetector.update": (surprise.update, vector),
        "as_judge": (arousal.as_judge, {"llm": lambda text: 0.5}),
        "check_store": (flashbulb.check_store, {"path": world.folder / "agent.db"}),
        "from_callable": (from_callable, {"function": lambda text: 0.5}),
        "from_langchain": (arousal.from_langchain, {"model": _ChatModel()}),
        "photograph": (photograph.photograph, {**text, "created": NOW}),
        "repair_store": (flashbulb.repair_store, {"path": world.sound}),
        "resolve_embedder": (embedding.resolve_embedder, {}),
        "set_threads": (flashbulb.set_threads, {"count": flashbulb.get_threads()}),
    }


WITHOUT = {
    "ArousalModel": "is trained or loaded",
    "ArousalModel.judge_many": "takes what the detector has checked",
    "MiniLMEmbedder.embed_documents": "needs an extra",
    "MiniLMEmbedder.embed_queries": "needs an extra",
    "Photographer.take": "takes what the memory has checked",
    "RuleSet": "takes a parsed rule file, which its own tests spoil",
    "RuleSet.candidates": "of the matcher",
    "RuleSet.class_set": "of the matcher",
    "StaticEmbedder": "takes the files of the package",
}
"""What is not called here, and why."""


class _ChatModel:
    def with_structured_output(self, schema: Any) -> Any:
        return self

    def invoke(self, messages: Any) -> Any:
        return {"score": 0.5}


def _awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        return asyncio.run(function(**arguments))

    return call


def _closed(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**arguments: Any) -> None:
        function(**arguments).close()

    return call


def _published(change: Any) -> Policy:
    return Policy.published(decay_rate_per_day=change)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.memory.close()
    made.llm.close()


def takes_arguments(name: str) -> bool:
    value: Any = next(
        getattr(module, name.split(".")[0])
        for module in (flashbulb, arousal, embedding, photograph)
        if name.split(".")[0] in module.__all__
    )
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return bool(set(inspect.signature(value).parameters) - {"self"})


NAMES = sorted({name for name in public() if takes_arguments(name)})


def test_every_public_callable_is_called_here(world: World) -> None:
    """A new one gets a line in `calls`, with arguments that are good."""
    assert set(NAMES) == set(calls(world)) | set(WITHOUT)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(WITHOUT)))
def test_what_a_bad_argument_raises_is_meant(
    name: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be a path
    function, good = calls(world)[name]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind in kinds]
    raised = [
        f"{name}({parameter}={bad}): {error!r:.150}"
        for parameter in names
        for bad, make in BAD.items()
        if (error := raised_by(function, {**good, parameter: make()})) and not is_meant(error)
    ]
    assert not raised, "\n".join(raised)


def raised_by(function: Callable[..., Any], arguments: dict[str, Any]) -> Exception | None:
    try:
        function(**arguments)
    except Exception as error:
        return error
    return None


def is_meant(error: Exception) -> bool:
    """Whether it is of a kind that is told, and says what was expected and what came.

    Or a statement of Flashbulb raised it, or it is about a file that is not there.
    """
    if isinstance(error, (arousal.NoAnswer, FileNotFoundError)):
        return True
    if not isinstance(error, (TypeError, ValueError, FlashbulbError)):
        return False
    *_, last = traceback.extract_tb(error.__traceback__)
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    ours = last.filename.startswith(os.path.dirname(flashbulb.__file__))
    of_the_core = "must " in str(error) or str(error).startswith("row ")
    return ours and (line.startswith("raise ") or of_the_core)


def test_any_iterable_of_texts_is_judged() -> None:
    texts = ["Production is down", "thanks"]
    detector = ArousalDetector()
    expected = detector.detect_many(texts)
    assert detector.detect_many(text for text in texts) == expected
    assert detector.detect_many(np.array(texts), (context for context in ("", ""))) == expected


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with Memory(":memory:") as memory:
        for call in (memory.export, memory.import_, ArousalModel.load, RuleSet.load):
            with pytest.raises(ValueError, match="must be a file, got the folder"):
                call(tmp_path)
