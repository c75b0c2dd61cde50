"""The photograph: who, what, when and where of a text; empty rather than wrong."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import logging
import re
import string
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbulb import Memory
from flashbulb.photograph import FIELDS, Extracted, Photographer, photograph
from flashbulb.photograph.patterns import Kind, kinds
from flashbulb.photograph.time_words import time_words
from strategies import examples

LABELLED = Path(__file__).parent / "data" / "photograph.tsv"
CREATED = dt.datetime(2026, 5, 14, 9, 30, tzinfo=dt.timezone.utc)  # a Thursday


def labelled(half: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Texts, and for each field what may be found: nothing, or one of these."""
    with LABELLED.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["half"] == half:
                yield (
                    row["text"],
                    {name: [value for value in row[name].split(" | ") if value] for name in FIELDS},
                )


def measured(half: str) -> tuple[float, float]:
    """Precision and recall over all fields of the texts of one half."""
    right = found = wanted = 0
    for text, expected in labelled(half):
        taken = photograph(text, created=CREATED)
        found += len(taken)
        wanted += sum(map(bool, expected.values()))
        right += sum(taken[name].value in expected[name] for name in taken)
    return right / found, right / wanted


def when(text: str, created: dt.datetime = CREATED) -> str | None:
    taken = photograph(text, created=created).get("when")
    return None if taken is None else taken.value


def values(text: str, **options: Any) -> dict[str, str]:
    taken = Photographer(**options).photograph(text, created=CREATED)
    return {name: extracted.value for name, extracted in taken.items()}


# Against the labels


@pytest.mark.parametrize("half", ["tuned", "held out"])
def test_what_is_found_is_right_and_most_is_found(half: str) -> None:
    right, complete = measured(half)
    assert right >= 0.95
    assert complete >= 0.75


def test_the_labels_are_of_many_settings_and_half_of_them_held_out() -> None:
    halves = [list(labelled(half)) for half in ("tuned", "held out")]
    assert sum(map(len, halves)) >= 250
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    nothing = [text for half in halves for text, expected in half if not any(expected.values())]
    assert len(nothing) >= 80


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind.field} {kind.name}")
def test_the_examples_of_a_kind_are_true(kind: Kind) -> None:
    for example in kind.yes:
        text, value = example.split(" => ")
        assert [text[start:end] for start, end in kind.spans(text)] == [value], example
    for text in kind.no:
        assert kind.spans(text) == [], text


# Times


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It failed at 03:12 UTC", "2026-05-14T03:12+00:00"),
        ("It failed on 2026-05-12 at 22:40:05 CEST", "2026-05-12T22:40:05+02:00"),
        ("Data leaked last night", "2026-05-13T18/2026-05-14T06"),
        ("Data leaked at 2 last night", "2026-05-14T02"),
        ("Data leaked at 11 last night", "2026-05-13T23"),
        ("It has failed since six this morning", "2026-05-14T06"),
        ("It failed at 9:40 pm yesterday", "2026-05-13T21:40"),
        ("It failed yesterday", "2026-05-13"),
        ("It failed at 12 am", "2026-05-14T00"),
        ("It failed half an hour ago", "2026-05-14T09:00+00:00"),
        ("It failed two weeks ago", "2026-W18"),
        ("It failed last Friday", "2026-05-08"),
        ("It failed on 3 May", "2026-05-03"),
        ("It failed on May 3rd, 2024", "2024-05-03"),
        ("It failed on 29 February 2024", "2024-02-29"),
        ("Am 12.05.2026 um 14:30 Uhr war es dunkel", "2026-05-12T14:30"),
        ("It failed on 31/12/2025", "2025-12-31"),
        ("Thu May 14 01:02:03 UTC 2026 it failed", "2026-05-14T01:02:03+00:00"),
    ],
)
def test_a_time_is_as_precise_as_it_is_told(text: str, value: str) -> None:
    assert when(text) == value
    assert photograph(text, created=CREATED)["when"].precision is not None


@pytest.mark.parametrize(
    "text",
    [
        "May I restart it?",
        "March on, we said on 5 streets",
        "Wait a second",
        "Release 2024.05.01 is out",
        "Version 10.12.2023 was out",
        "It took 10:30 minutes",
        "It ran for 3 hours",
        "It rose by 10.5 percent",
        "It failed on 31.02.2026",
        "It failed on 05/06/2026",
        "It failed on 30 February 2024",
        "It failed at 25:00",
        "It failed at 13:00",  # later today, or yesterday
        "It runs every day at 04:00",
        "Let it dry overnight",
        "Write it today",
        "Her birthday is on 3 May",
        "The token expires on 2026-12-31",
        "The test expected '2020-01-01'",
        "It failed on Thursday night",  # today is Thursday
    ],
)
def test_what_is_no_time_of_an_event_is_left_alone(text: str) -> None:
    assert when(text) is None


def test_relative_times_count_from_the_moment_of_writing_in_its_zone() -> None:
    zone = dt.timezone(dt.timedelta(hours=-8))
    created = dt.datetime(2024, 3, 1, 0, 20, tzinfo=zone)
    assert when("It failed yesterday", created) == "2024-02-29"
    assert when("It failed 30 minutes ago", created) == "2024-02-29T23:50-08:00"
    # The same instant, as a number, is in UTC.
    (taken,) = photograph("It failed yesterday", created=created.timestamp()).values()
    assert taken.value == "2024-02-29"
    assert photograph("It failed 30 minutes ago", created=created.timestamp())["when"].value == (
        "2024-03-01T07:50+00:00"
    )


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar_do_no_harm(year: int) -> None:
    created = dt.datetime(year, 1, 1, 0, 0, tzinfo=dt.timezone.utc)
    if year == 9999:
        created = created.replace(month=12, day=31, hour=23)
    for told in ("last year", "5 days ago", "tomorrow", "on 31 December", "last night", "tonight"):
        photograph(f"It failed {told}", created=created)
        photograph(f"It failed at 0:30 CET {told}", created=created)


def test_every_word_of_the_time_table_is_found() -> None:
    for word in (*time_words().days, *time_words().parts):
        assert when(f"It failed {word}") is not None, word


# From whom


def test_the_caller_comes_first_then_the_llm_then_patterns_then_a_model() -> None:
    text = "@dana told Anna last night in Bergen that OPS-118 broke payment-service"

    def llm(asked: str, context: str) -> dict[str, object]:
        assert (asked, context) == (text, "chat")
        return {"who": "anna", "where": "Oslo", "what": None, "when": "last night", "why": "x"}

    entity = SimpleNamespace(label_="GPE", start_char=27, end_char=33)
    photographer = Photographer(llm, lambda asked: SimpleNamespace(ents=[entity]))
    taken = photographer.photograph(text, created=CREATED, context="chat", given={"what": "a bug"})
    assert taken == {
        "who": Extracted("Anna", "llm", (11, 15)),
        "what": Extracted("a bug", "caller"),
        "when": Extracted("2026-05-13T18/2026-05-14T06", "llm", (16, 26)),
        "where": Extracted("payment-service", "pattern", (56, 71)),
    }


def test_a_model_answers_where_the_patterns_found_nothing() -> None:
    text = "Acme lost Anna in Bergen"
    entities = [
        SimpleNamespace(label_=label, start_char=text.index(name), end_char=text.index(name) + size)
        for label, name, size in (("ORG", "Acme", 4), ("PERSON", "Anna", 4), ("GPE", "Bergen", 6))
    ]
    taken = Photographer(model=lambda _: SimpleNamespace(ents=entities)).photograph(
        text, created=CREATED
    )
    assert taken == {
        "who": Extracted("Anna", "model", (10, 14)),
        "where": Extracted("Bergen", "model", (18, 24)),
    }


def test_an_llm_may_answer_with_an_object() -> None:
    answer = SimpleNamespace(who="Anna", when=7, where="")
    assert values("Anna fell", llm=lambda *_: answer) == {"who": "Anna"}


@pytest.mark.parametrize("value", ["Ann", "nna", "Anna Lee", "root", "", "  ", 7, None, ["Anna"]])
def test_what_an_llm_makes_up_is_dropped(value: object) -> None:
    assert values("Anna fell", llm=lambda *_: {"who": value}) == {}


@pytest.mark.parametrize("answer", [None, "who: Anna", 7, ["who"], []])
def test_an_llm_that_answers_something_else_is_passed_over(answer: object) -> None:
    assert values("Mrs Lee fell", llm=lambda *_: answer) == {"who": "Mrs Lee"}


async def later(text: str) -> str:
    return 'Here it is: {"who": "Anna", "what": null}'


@pytest.mark.parametrize(
    "llm",
    [
        lambda text: {"who": "Anna"},
        lambda text, context: '{"who": "Anna"}',
        lambda text, context: SimpleNamespace(content='```json\n{"who": "Anna"}\n```'),
        later,
    ],
)
def test_an_llm_may_be_any_function_and_answer_json(
    llm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert values("Anna fell", llm=llm) == {"who": "Anna"}
    assert not caplog.records


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (7, "expected some of who, what, when, where, got int 7"),
        (None, "expected some of who, what, when, where, got NoneType None"),
        (["who"], "expected some of who, what, when, where, got list"),
        ({"name": "Anna"}, "expected some of who, what, when, where, got dict"),
        ("Anna", "0 photographs in str 'Anna'"),
        ({"who": 7}, "who must be a str or None, got int 7"),
    ],
)
def test_an_answer_of_a_wrong_kind_is_reported(
    answer: object, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flashbulb"):
        assert values("Mrs Lee fell", llm=lambda *_: answer) == {"who": "Mrs Lee"}
    assert message in caplog.text


def test_the_flashbulbs_of_a_batch_are_asked_about_together() -> None:
    together = threading.Barrier(8)

    def llm(text: str, context: str) -> dict[str, str]:
        together.wait(20)
        return {"what": text.split()[-1]}

    with Memory(":memory:", photographer=Photographer(llm)) as memory:
        items = [{"text": f"A fire in mill-{i}", "arousal": 1.0} for i in range(8)]
        records = memory.remember_many([*items, {"text": "thanks", "arousal": 0.0}])
    assert [record.what for record in records] == [*(f"mill-{i}" for i in range(8)), None]


def test_a_batch_waits_for_an_llm_that_hangs_once() -> None:
    ever, asked = threading.Event(), []

    def hangs(text: str, context: str) -> dict[str, str]:
        asked.append(text)
        ever.wait(60)
        return {}

    photographer = Photographer(hangs, deadline=0.2)
    with Memory(":memory:", photographer=photographer) as memory:
        memory.remember_many([{"text": f"Fire {i}", "arousal": 1.0} for i in range(40)])
    assert len(asked) < 16  # those of one deadline; then the circuit is open
    ever.set()


def test_an_llm_or_model_that_fails_is_reported_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: object) -> object:
        raise ConnectionError("no route")

    with caplog.at_level(logging.WARNING, "flashbulb"):
        assert values("Mrs Lee fell", llm=fails, model=fails) == {"who": "Mrs Lee"}
    assert [record.getMessage() for record in caplog.records] == [
        "the LLM's photograph is left out: no route",
        "the model's photograph is left out: no route",
    ]


def test_an_llm_that_hangs_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    released = threading.Event()

    def hangs(*_: object) -> dict[str, str]:
        released.wait(60)
        return {"who": "Lee"}

    assert values("Mrs Lee fell", llm=hangs, deadline=0.05) == {"who": "Mrs Lee"}
    released.set()
    assert "no answer within 0.05 s" in caplog.text


def test_an_llm_that_always_fails_is_asked_no_more() -> None:
    asked = []

    def fails(text: str, context: str) -> object:
        asked.append(text)
        raise ConnectionError

    photographer = Photographer(fails)
    for _ in range(8):
        assert photographer.photograph("Mrs Lee fell", created=CREATED).keys() == {"who"}
    assert len(asked) == 5


def test_ctrl_c_in_an_llm_passes_through() -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        values("Mrs Lee fell", llm=interrupted)


def test_nobody_is_asked_what_the_caller_knows() -> None:
    def never(*_: object) -> object:
        raise AssertionError

    known = dict.fromkeys(FIELDS, "x")
    taken = Photographer(never, never).photograph("Mrs Lee", created=CREATED, given=known)
    assert {extracted.source for extracted in taken.values()} == {"caller"}


# Any text


PIECES = re.split(
    r"\|",
    "at 3 pm|May|12|2026|-05-|Dr.|Lee|@ann|my son|/etc/x|10.0.0.1|last|night|ago|two|hours|"
    "OPS-1|v1.2|::|on Friday|'|http://a.b|yesterday|since|。",
)
TEXTS = st.text(
    st.sampled_from([*string.ascii_letters, *string.digits, *"@./:-_'\"#~\\ \n年é̈", "\0"]),
    max_size=80,
) | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)


@examples(300)
@given(text=TEXTS)
def test_what_patterns_find_stands_in_the_text_and_overlaps_nothing(text: str) -> None:
    taken = photograph(text, created=CREATED)
    assert list(taken) == [name for name in FIELDS if name in taken]
    spans = []
    for name, extracted in taken.items():
        assert extracted.source == "pattern"
        assert extracted.span is not None
        spans.append(extracted.span)
        if name == "when":
            assert extracted.precision is not None
            for part in re.sub(r"W\d\d", "01", extracted.value).split("/"):
                assert re.match(r"\d{4}", part)
        else:
            assert text[slice(*extracted.span)] == extracted.value
    for (start, end), (other, last) in itertools.combinations(spans, 2):
        assert end <= other or last <= start


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    padding = "word " * 3000
    assert values(f"Mrs Lee fell. {padding}") == {"who": "Mrs Lee"}
    assert values(f"{padding} Mrs Lee fell.") == {}


def test_bad_arguments_say_what_was_expected() -> None:
    wrong: Any = 7
    later: Any = "today"
    with pytest.raises(TypeError, match="text must be a str, got int"):
        photograph(wrong, created=CREATED)
    with pytest.raises(TypeError, match="created must be an aware datetime"):
        photograph("x", created=later)
    with pytest.raises(ValueError, match="naive"):
        photograph("x", created=CREATED.replace(tzinfo=None))
    with pytest.raises(TypeError, match="llm must be callable or None, got 7"):
        Photographer(wrong)
    with pytest.raises(ValueError, match="deadline must be a number of seconds above 0, got 0"):
        Photographer(deadline=0)
    with pytest.raises(ValueError, match="given must have fields of who, what, when, where"):
        Photographer().photograph("x", created=CREATED, given={"why": "x"})
    with pytest.raises(TypeError, match="who must be a str"):
        Photographer().photograph("x", created=CREATED, given={"who": wrong})


# In a memory


def test_a_flashbulb_is_photographed_and_keeps_it(store: Path, tmp_path: Path) -> None:
    created = CREATED.timestamp()
    text = "Customer data leaked last night, see SEC-4411"
    with Memory(store) as memory:
        record = memory.remember(text, where="Bergen", arousal=0.9, now=created)
        assert (record.who, record.what, record.when, record.where) == (
            None,
            "SEC-4411",
            "2026-05-13T18/2026-05-14T06",
            "Bergen",
        )
        assert record.photograph == {
            "what": Extracted("SEC-4411", "pattern", (37, 45)),
            "when": Extracted("2026-05-13T18/2026-05-14T06", "pattern", (21, 31)),
            "where": Extracted("Bergen", "caller"),
        }
        memory.export(tmp_path / "all.jsonl")
    with Memory(store) as memory:
        assert memory.get(record.id).photograph == record.photograph
    with Memory(":memory:") as memory:
        memory.import_(tmp_path / "all.jsonl")
        assert memory.get(record.id).photograph == record.photograph


def test_what_is_no_flashbulb_is_not_photographed() -> None:
    with Memory(":memory:", surprise=None) as memory:
        record = memory.remember("Mrs Lee saw SEC-4411", where="Bergen", arousal=0.7)
        assert (record.who, record.what, record.where) == (None, None, "Bergen")
        assert record.photograph == {"where": Extracted("Bergen", "caller")}


def test_the_same_text_again_is_one_memory_whatever_was_extracted() -> None:
    answers = iter([{"what": "Lee fell"}, {"what": "fell"}])
    photographer = Photographer(lambda *_: next(answers))
    with Memory(":memory:", photographer=photographer) as memory:
        first = memory.remember("Mrs Lee fell", arousal=1.0)
        again = memory.remember("Mrs Lee fell", arousal=1.0)
        other = memory.remember(
            "Mrs Lee fell", arousal=1.0, who="Lee", what="a", when="b", where="c"
        )
        assert (again.id, again.what, len(again.occurrences)) == (first.id, "Lee fell", 2)
        assert other.id != first.id


def test_the_llm_gets_the_context_and_no_lock_is_held_while_it_works() -> None:
    seen = []

    def llm(text: str, context: str) -> dict[str, str]:
        worker = threading.Thread(target=lambda: seen.append(len(memory)))
        worker.start()
        worker.join(30)
        return {"what": context}

    with Memory(":memory:", photographer=Photographer(llm)) as memory:
        record = memory.remember("A fire in the mill", context="fire", arousal=1.0)
    assert seen == [0]
    assert record.photograph["what"] == Extracted("fire", "llm", (2, 6))


def test_a_flashbulb_by_surprise_is_photographed_by_patterns() -> None:
    def never(*_: object) -> object:
        raise AssertionError

    with Memory(":memory:", photographer=Photographer(never)) as memory:
        for number in range(200):
            memory.remember(f"The build {number} of the shop passed its tests", arousal=0.0)
        record = memory.remember("Mrs Lee sings arias to her tulips", arousal=0.0)
        assert record.flashbulb
        assert record.photograph == {"who": Extracted("Mrs Lee", "pattern", (0, 7))}


def test_a_photographer_must_be_one() -> None:
    wrong: Any = "me"
    with pytest.raises(TypeError, match="photographer must be a Photographer, got str"):
        Memory(":memory:", photographer=wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The day after tomorrow the certificate expires", "2026-05-16"),
        ("übermorgen läuft das Zertifikat ab", "2026-05-16"),
        ("It did not start yesterday but on 2026-05-11", "2026-05-11"),
        ("It wasn't last night but this morning that it failed", "2026-05-14T06/2026-05-14T12"),
        ("The server was not reachable yesterday", "2026-05-13"),
        ("USA Today reported the leak", None),
        ("today.com is down", None),
        ("news.today is down", None),
        ("Today the database was lost", "2026-05-14"),
    ],
)
def test_words_of_time_that_mean_another_time_or_none(text: str, expected: str | None) -> None:
    assert when(text) == expected


def test_an_llm_copies_a_few_words_and_replaces_nothing_that_tells_more() -> None:
    text = "Mrs Nguyen fell in ward 3 at 02:15 on 2026-05-11, a dark night"
    found = values(text)
    assert (found["who"], found["when"]) == ("Mrs Nguyen", "2026-05-11T02:15")
    for answer in (
        {"who": text, "when": "night", "where": text},
        {"who": "Nguyen", "when": "2026-05-11"},
    ):
        assert values(text, llm=lambda text, context, answer=answer: answer) == found
    longer = {"who": "Mrs Nguyen", "what": "fell in ward 3"}
    assert values(text, llm=lambda text, context: longer)["what"] == "fell in ward 3"
