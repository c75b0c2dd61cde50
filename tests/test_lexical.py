"""BM25 as the design defines it, against the formula written out."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbulb import lexical
from flashbulb.lexical import LexicalIndex, words


def index_of(texts: dict[int, str]) -> LexicalIndex:
    index = LexicalIndex()
    index.add(sorted(texts.items()))
    return index


def written_out(texts: dict[int, str], query: str, saturation: float) -> dict[int, float]:
    """The definition, row by row, in plain Python."""
    rows = {id: words(text) for id, text in texts.items()}
    asked = sorted(set(words(query, query=True)))
    frequency = {term: sum(term in row for row in rows.values()) for term in asked}
    present = [term for term in asked if frequency[term]]
    chosen = [t for t in present if frequency[t] <= 0.1 * len(rows)] or present
    mean_length = sum(map(len, rows.values())) / max(len(rows), 1)
    scores = {}
    for id, row in rows.items():
        total = 0.0
        for term in chosen:
            count = row.count(term)
            if count:
                n = frequency[term]
                idf = math.log1p((len(rows) - n + 0.5) / (n + 0.5))
                norm = lexical.K1 * (1 - lexical.B + lexical.B * len(row) / mean_length)
                total += idf * (lexical.K1 + 1) * count / (count + norm)
        if total:
            scores[id] = total / (total + saturation)
    return scores


def searched(index: LexicalIndex, query: str, saturation: float = 8.0) -> dict[int, float]:
    ids, scores = index.search(query, saturation)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


vocabulary = st.sampled_from(
    [
        "payment",
        "system",
        "down",
        "users",
        "checkout",
        "error",
        "KAFKA-4",
        "kafka",
        "4",
        "running",
        "runs",
        "東京都",
        "東",
        "猫",
        "café",
    ]
)
texts = st.lists(st.lists(vocabulary, max_size=8).map(" ".join), max_size=30)


@given(texts, st.lists(vocabulary, max_size=5).map(" ".join), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_scores_follow_the_formula_also_after_removals(
    stored: list[str], query: str, chance: random.Random
) -> None:
    rows = {2 * i + 1: text for i, text in enumerate(stored)}
    index = index_of(rows)
    while rows:
        found = searched(index, query)
        expected = written_out(rows, query, 8.0)
        assert found.keys() == expected.keys()
        for id, score in expected.items():
            assert found[id] == pytest.approx(score, rel=1e-12)
            assert 0 < found[id] < 1
        gone = chance.choice(sorted(rows))
        index.remove(gone, rows.pop(gone))
        assert len(index) == len(rows)
    assert searched(index, query) == {}


@given(
    texts, st.lists(vocabulary, min_size=1, max_size=5).map(" ".join), st.permutations(range(30))
)
@settings(deadline=None)
def test_neither_order_nor_forgotten_rows_change_a_bit(
    stored: list[str], query: str, order: list[int]
) -> None:
    plain = index_of(dict(enumerate(stored)))
    shuffled = LexicalIndex()
    places = [place for place in order if place < len(stored)]
    shuffled.add((2 * i, stored[place]) for i, place in enumerate(places))
    shuffled.add([(1000, "payment down forgotten"), (1001, "猫 gone")])
    shuffled.remove(1000, "payment down forgotten")
    shuffled.remove(1001, "猫 gone")
    expected = searched(plain, query)
    found = searched(shuffled, query)
    assert {places[id // 2]: score for id, score in found.items()} == expected


def test_a_name_is_found_whole_and_by_its_parts() -> None:
    index = index_of({1: "Fix KAFKA-4 now", 2: "Fix KAFKA-40 now", 3: "kafka broker", 4: "other"})
    scores = searched(index, "KAFKA-4")
    assert max(scores, key=scores.__getitem__) == 1
    assert set(searched(index, "kafka")) == {1, 2, 3}


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("Café crème", "cafe CREME"),
        ("ＫＡＦＫＡ１２ is down", "kafka12"),
        ("STRASSE", "straße"),
        ("the servers crashed", "server crash"),
        ("Caroline's party", "caroline parties"),
        ("don’t panic", "don't"),
        ("東京タワーへ行く", "東京"),
        ("黒猫がいる", "猫"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("ฉันรักแมว", "แมว"),
        ("мой счёт", "счет"),
        ("co\u00adoperate", "cooperate"),
    ],
)
def test_words_are_found_in_their_other_forms(stored: str, query: str) -> None:
    index = index_of({1: stored, 2: "nothing of it"})
    assert set(searched(index, query)) == {1}


def test_signs_of_a_hindi_word_do_not_cut_it() -> None:
    assert words("हिन्दी") == ["हिन्दी"]


def test_common_words_are_skipped_unless_nothing_else_remains() -> None:
    rows = dict.fromkeys(range(1, 19), "the report") | {19: "zebra", 20: "the zebra"}
    index = index_of(rows)
    assert set(searched(index, "the zebra")) == {19, 20}
    assert len(searched(index, "the")) == 19
    assert len(searched(index, "the unicorn")) == 19


def test_only_the_best_thousand_rows_count_and_ties_go_to_the_lowest_ids() -> None:
    rows = dict.fromkeys(range(1500), "alpha") | {1500: "alpha alpha"}
    ids, scores = index_of(rows).search("alpha", 8.0)
    assert ids.tolist() == [*range(999), 1500]
    assert scores[-1] > scores[0]


def test_saturation_scales_the_sum() -> None:
    index = index_of({1: "alpha", 2: "beta"})
    (score,) = searched(index, "alpha", 1.0).values()
    total = score / (1 - score)
    assert searched(index, "alpha", 8.0)[1] == pytest.approx(total / (total + 8))


def test_texts_without_a_word_and_queries_without_one() -> None:
    index = index_of({1: "!!! 🙂", 2: "hello"})
    assert len(index) == 2
    assert searched(index, "🙂") == {}
    assert searched(LexicalIndex(), "hello") == {}


def test_removal_forgets_the_words_themselves() -> None:
    index = index_of({1: "secret secret plan", 2: "plan"})
    index.remove(1, "secret secret plan")
    assert index.document_frequency("secret") == 0
    assert index.document_frequency("plan") == 1
    assert "secret" not in index._postings


def test_a_huge_word_and_a_huge_count_stay_bounded() -> None:
    index = index_of({1: "a" * 1_000_000, 2: "b " * 100_000})
    assert set(searched(index, "a" * 1_000_000)) == {1}
    assert np.isfinite(list(searched(index, "b").values())).all()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("OutOfMemoryError", ["out", "of", "memory", "error"]),
        ("HTTPServer", ["http", "server"]),
        ("userName2", ["user", "name2"]),
        ("the iPhone", ["i", "phone"]),
        ("Café openDoor", ["open", "door"]),
        ("ABC Abc aB", ["a", "b"]),
    ],
)
def test_names_in_camel_case_are_found_by_their_parts(text: str, parts: list[str]) -> None:
    terms = words(text)
    assert terms[-len(parts) :] == [words(part)[0] for part in parts]
    assert terms[: -len(parts)] == words(text.lower())


def test_very_long_words_are_read_once() -> None:
    # No timing: a pattern that looked at every pair of letters would not end here.
    long = "a" * 2_000_000
    assert len(words(long)) == 1
    assert len(words(long + "B" + long)) == 3


@given(texts)
@settings(deadline=None)
def test_an_index_of_all_at_once_is_that_of_one_after_another(known: list[str]) -> None:
    one = LexicalIndex()
    one.add([(1, "")])  # what comes first is all at once too
    for item in enumerate(known, start=2):
        one.add([item])
    both = [vars(index_of({1: "", **dict(enumerate(known, start=2))})), vars(one)]
    assert both[0] == both[1]
