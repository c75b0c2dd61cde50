"""Our WordPiece equals that of `tokenizers`, id for id."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbulb.embedding.wordpiece import WordPiece, read_vocabulary, split_words

tokenizers = pytest.importorskip("tokenizers", reason="parity needs the test extra")


@pytest.fixture(scope="module")
def ours() -> WordPiece:
    return WordPiece(read_vocabulary())


@pytest.fixture(scope="module")
def reference() -> Any:
    # Built without added tokens: "[SEP]" in a user's text is text, for us as for it.
    vocabulary = {token: number for number, token in enumerate(read_vocabulary())}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


HARD = [
    "",
    " \t\r\n ",
    "\x00",
    "a\x00b\ufffdc",
    "Ünïcödé ÀÉÎÕÜ ñandú Ångström",
    "İstanbul DİYARBAKIR ıI",
    "ΟΔΥΣΣΕΥΣ Σ ς σ",
    "straße ẞ",
    "日本語のテキスト、中文字符。한국어 텍스트",
    "\u2b820 \U0002b820 \U0002b920 \U0002f800 \uf900",
    "हिन्दी में पाठ",
    "مرحبا بالعالم",
    "שָׁלוֹם",
    "ไทยไม่มีช่องว่าง",
    "great🎉 🎉🎉 👩\u200d👩\u200d👧 ☎️",
    "don't stop: it's 5 o'clock (really?) [yes] {no} <tag> a_b #1 $2 50% x^y ~ `q`",
    "https://example.org/path?query=1&other=two#three user.name+tag@mail.example.com",
    "x" * 100,
    "x" * 101,
    "é" * 100,
    "é" * 101,
    "e\u0301" * 101,
    "[CLS] [SEP] [UNK] [MASK] [PAD] ##ing [unused1]",
    "soft\u00adhyphen zero\u200bwidth \ufeffbom \u2028line\u2029paragraph nbsp\u00a0here\u3000wide",
    "≠ ≮ \u037e \u1fef ¼ ½ ² ﬁ ﬂ ①",
    "\u0301 \u0301a a\u0301\u0301",
    "ᄀ가각힣",
    "a\x0bb\x0cc\x1cd\x1ee\x85f\x7fg",
    "\U0010ffff \ue000 \u0378",
]


@pytest.mark.parametrize("text", HARD)
def test_hard_cases(ours: WordPiece, reference: Any, text: str) -> None:
    assert ours.encode(text) == reference.encode(text).ids


@settings(max_examples=500, deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_unicode(ours: WordPiece, reference: Any, text: str) -> None:
    assert ours.encode(text) == reference.encode(text).ids


_FRAGMENTS = st.sampled_from([*read_vocabulary()[999::37], "##", "'", "é", "🎉", "ß", "中", "_"])


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.tuples(_FRAGMENTS, st.sampled_from(["", " ", "\n", "-"])), max_size=30))
def test_texts_of_vocabulary(ours: WordPiece, reference: Any, parts: list[tuple[str, str]]) -> None:
    text = "".join(token + glue for token, glue in parts)
    assert ours.encode(text) == reference.encode(text).ids


def test_every_code_point(ours: WordPiece, reference: Any) -> None:
    # "a?b" shows whether the code point vanishes, splits the word or is a letter within it.
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(codes), 50_000):
        texts = [f"a{chr(code)}b {chr(code)}" for code in codes[start : start + 50_000]]
        expected = [encoding.ids for encoding in reference.encode_batch(texts)]
        for text, ids in zip(texts, expected, strict=True):
            assert ours.encode(text) == ids, ascii(text)


def _real_texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.csv")):
        with path.open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                yield from (value for value in row.values() if isinstance(value, str))
    for path in sorted(folder.rglob("*.json")):
        yield from path.read_text("utf-8").splitlines()
    for path in sorted(folder.glob("locomo/*.json")):
        for conversation in json.loads(path.read_text("utf-8")):
            yield from map(json.dumps, conversation["qa"])


def test_real_texts(ours: WordPiece, reference: Any, data_folder: Path) -> None:
    texts = list(dict.fromkeys(text for text in _real_texts(data_folder) if len(text) < 100_000))
    assert len(texts) > 1_000
    for text, encoding in zip(texts, reference.encode_batch(texts), strict=True):
        assert ours.encode(text) == encoding.ids, ascii(text[:200])


@given(text=st.text(max_size=200))
@settings(deadline=None)
def test_blocks_equal_the_whole(ours: WordPiece, text: str) -> None:
    assert [number for block in ours.encode_blocks(text) for number in block] == ours.encode(text)


def test_blocks_are_bounded(ours: WordPiece) -> None:
    text = "word, " * 100_000
    blocks = list(ours.encode_blocks(text))
    assert len(blocks) > 1
    assert [number for block in blocks for number in block] == ours.encode(text)


def test_lone_surrogates_vanish() -> None:
    assert split_words("a\ud800b \udfff") == ["ab"]


def test_the_cache_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashbulb.embedding.wordpiece._CACHED_WORDS", 10)
    tokenizer = WordPiece(read_vocabulary())
    fresh = WordPiece(read_vocabulary())
    words = [f"word{number}" for number in range(100)] * 2
    for word in words:
        assert tokenizer.encode(word) == [*fresh.pieces(word)]
        assert len(tokenizer._cache) <= 10


def test_a_vocabulary_without_unk_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[UNK\]"):
        WordPiece(["a", "b"])
