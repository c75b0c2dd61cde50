"""The ends of what a memory can hold: depth, numbers, times."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory, _check

UTC = dt.timezone.utc


def test_the_deepest_metadata_is_read_from_a_deep_call() -> None:
    deep: dict[str, Any] = {}
    for _ in range(31):
        deep = {"a": deep}
    with Memory(":memory:") as memory:
        memory.remember("deep one", metadata=deep)

        def read(calls: int) -> Any:
            return memory.recall("deep")[0].record.metadata if calls == 0 else read(calls - 1)

        assert read(700) == deep


HUGE: list[Any] = [10**400, -(10**400)]


@pytest.mark.parametrize("number", HUGE, ids=["above", "below"])
def test_numbers_beyond_floats_are_value_errors(number: Any, tmp_path: Path) -> None:
    with Memory(":memory:") as memory:
        memory.remember("x")
        with pytest.raises(ValueError, match="min_score must be a number"):
            memory.recall("x", min_score=number)
    with pytest.raises(ValueError, match="timeout must be"):
        Memory(tmp_path / "agent.db", timeout=number)
    assert list(tmp_path.iterdir()) == []


def test_r17_the_last_moment_of_all_is_a_moment(store: Path) -> None:
    last = dt.datetime.max.replace(tzinfo=UTC)
    with Memory(store, clock=lambda: last) as memory:
        record = memory.remember("the end", when=last)
        assert dt.datetime.fromtimestamp(record.created, UTC).year == 9999
        assert memory.recall("end", until=last) == []
        assert memory.recall("end", since=last, reinforce=False)[0].id == record.id
        memory.remember("before the end", now=last - dt.timedelta(seconds=1))
    with Memory(store, clock=lambda: last) as memory:
        assert memory.get(1) == record


TEXT = _check.MAX_TEXT
FACT = _check.MAX_FACT
SMALL = _check.MAX_TAG
METADATA = _check.MAX_METADATA

# A call at the limit, and the same beyond it.
AT_AND_BEYOND: dict[str, Any] = {
    "text": lambda m, n: m.remember("é" * ((TEXT - 2) // 2) + "x" * (2 + n)),
    "context": lambda m, n: m.remember("a", context="x" * (TEXT + n), arousal=0.1),
    "query": lambda m, n: m.recall("x" * (TEXT + n)),
    "who": lambda m, n: m.remember("a", who="x" * (FACT + n)),
    "what": lambda m, n: m.remember("a", what="x" * (FACT + n)),
    "when": lambda m, n: m.remember("a", when="x" * (FACT + n)),
    "where": lambda m, n: m.remember("a", where="x" * (FACT + n)),
    "tag": lambda m, n: m.remember("a", tags=["b", "x" * (SMALL + n)]),
    "tags": lambda m, n: m.remember("a", tags=map(str, range(1000 + n))),
    "tags asked for": lambda m, n: m.recall("a", tags=map(str, range(1000 + n))),
    "metadata": lambda m, n: m.remember("a", metadata={"k": "x" * (METADATA - 8 + n)}),
    "filter": lambda m, n: m.recall("a", filter={"k": "x" * (METADATA - 8 + n)}),
    "namespace": lambda m, n: m.namespace("é" * (SMALL // 2) + "x" * n).remember("a"),
    "reconsolidation": lambda m, n: m.reconsolidate(1, "x" * (TEXT - len("known\n") + n)),
}


@pytest.mark.parametrize("what", AT_AND_BEYOND)
def test_what_is_larger_than_its_limit_is_refused_and_changes_nothing(what: str) -> None:
    call = AT_AND_BEYOND[what]
    with Memory(":memory:", surprise=None, clock=lambda: 1e9) as memory:
        memory.remember("known")
        before = [memory.list(), [count[:3] for count in memory.namespaces()]]
        with pytest.raises(ValueError, match=r"must (have|be) at most [\d,]+") as refused:
            call(memory, 1)
        assert len(str(refused.value)) < 200
        after = [memory.list(), [count[:3] for count in memory.namespaces()]]
        assert after == before
        call(memory, 0)


def test_an_endless_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Any:
        while True:
            yield "again"

    monkeypatch.setattr("flashbulb.memory.MAX_BATCH", 1000)
    with Memory(":memory:", surprise=None) as memory:
        with pytest.raises(ValueError, match="items must be at most 1,000, got more"):
            memory.remember_many(endless())
        assert len(memory) == 0
        with pytest.raises(ValueError, match="tags must be at most"):
            memory.remember("a", tags=endless())
        memory.remember_many(map(str, range(1000)))


@pytest.mark.parametrize("k", [2**31, 2**63 - 1, 2**70])
def test_a_large_k_gives_what_there_is(k: int) -> None:
    with Memory(":memory:", surprise=None) as memory:
        memory.remember_many(["a cat", "a dog"])
        assert len(memory.recall("cat", k)) == 2
        assert len(memory.recall("cat", k, include_archived=True)) == 2
        assert memory.list(offset=k) == []
        assert len(memory.list(limit=k)) == 2


UNUSUAL = [
    "\0",
    "a\0b\0",
    "e\u0301 \u00e9 \u212b \u00c5",
    "\ufb01 \uff21\u3000",
    "\U0001f469\u200d\U0001f680 \U0001f1e9\U0001f1ea",
    " \t padded \r\n",
    "a\u2028\u2029\x85\x0b\x1c",
    "\ufeffmark",
    "\uffff \U0010ffff",
    "\x7f\x1b[0m",
    "\u202eright",
    "x" * (10 * 2**20),
    "\U0001f680" * (10 * 2**18),
]


@pytest.mark.parametrize("text", UNUSUAL, ids=range(len(UNUSUAL)))
def test_text_comes_back_byte_for_byte(store: Path, tmp_path: Path, text: str) -> None:
    with Memory(store, surprise=None) as memory:
        facts: dict[str, Any] = {}
        if len(text) < 100:
            name = text if text.strip() else text + "x"
            facts = {"who": name, "tags": [name], "metadata": {name: [name]}}
        id = memory.namespace("n" + text[:20]).remember(text, arousal=0.1, **facts).id
    with Memory(store, surprise=None) as memory:
        view = memory.namespace("n" + text[:20])
        record = view.get(id)
        assert record.text == text
        assert view.history(id)[0].text == text
        if facts:
            assert (record.who, list(record.tags)) == (facts["who"], facts["tags"])
            assert record.metadata == facts["metadata"]
            assert [hit.text for hit in view.recall("x", filter=facts["metadata"])] == [text]
        view.export(tmp_path / "export.jsonl")
    with Memory(tmp_path / "other.db", surprise=None) as other:
        other.import_(tmp_path / "export.jsonl")
        assert other.get(id).text == text


@pytest.mark.parametrize("text", ["", " \n\t", "\ud800", "a\udfffb"])
def test_what_cannot_be_stored_is_refused(text: str) -> None:
    with Memory(":memory:", surprise=None) as memory:
        with pytest.raises(ValueError, match=r"text must (not be blank|be valid Unicode)"):
            memory.remember(text)
        assert len(memory) == 0


def test_the_documented_limits_hold() -> None:
    table = (Path(__file__).parents[1] / "docs" / "limits.md").read_text("utf-8")
    lines = {
        "text, context, query": _check.MAX_TEXT,
        "who, what, when, where": _check.MAX_FACT,
        "tag;": _check.MAX_TAG,
        "tags of a memory": _check.MAX_TAGS,
        "metadata, filter": _check.MAX_METADATA,
        "32 levels": _check.MAX_DEPTH,
        "name of a namespace": _check.MAX_NAMESPACE,
        "items of one": _check.MAX_BATCH,
    }
    for words, limit in lines.items():
        (line,) = (line for line in table.splitlines() if words in line)
        assert f"{limit:,}" in line
