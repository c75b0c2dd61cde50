"""The default embedder: the sum of one stored row per token, and nothing to learn or download.

The table was fitted so that these sums point where all-MiniLM-L6-v2 (reduced to 256 dimensions)
would; how, is in ``tools/train_embedding``. A row is int8 values times one 16 bit scale, so every
product is an integer below 2^23, and the float64 sum of up to 2^30 of them is exact. Hence the
order of tokens, batches and threads cannot change a bit of a vector.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb.embedding.protocol import check_texts
from flashbulb.embedding.wordpiece import DATA, LONGEST_WORD, WordPiece, read_vocabulary

__all__ = ["DIM", "StaticEmbedder", "default_embedder"]

DIM = 256

_ALGORITHM = b"flashbulb-static-1"
"""Names the way from text to vector; to be changed with anything that changes a vector."""

_LONG_TEXT = 100_000
"""Texts of more characters than this are read in blocks, so that memory stays bounded."""

_BATCH_TOKENS = 8_192

_UNKNOWN_ROWS = 4_096


class _Model(NamedTuple):
    tokenizer: WordPiece
    rows: NDArray[np.int8]  # (tokens + _UNKNOWN_ROWS, DIM)
    scales: NDArray[np.float32]  # (tokens + _UNKNOWN_ROWS,); integers


class StaticEmbedder:
    """Static token table: offline, deterministic, tens of thousands of short texts a second.

    Every text has a vector. Unknown characters (most emoji, rare scripts) and words of more than
    100 characters point in pseudo-random directions of their own, found by hashing, so that equal
    ones match and different ones differ; so does a text without any token, such as an empty one.
    Texts of any length are read whole. Loaded on first use; safe to use from several threads.

    Parameters
    ----------
    folder
        Where ``table.npy`` (int8) and ``scales.npy`` (uint16) lie; by default the bundled ones.
    """

    name = "flashbulb-static"
    dim = DIM

    def __init__(self, folder: Path = DATA) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the algorithm's version, table, vocabulary and character sets."""
        with self._lock:
            if self._fingerprint is None:
                digest = hashlib.sha256(_ALGORITHM)
                for path in (
                    DATA / "vocabulary.txt",
                    DATA / "characters.txt",
                    self._folder / "scales.npy",
                    self._folder / "table.npy",
                ):
                    digest.update(path.read_bytes())
                self._fingerprint = digest.hexdigest()
            return self._fingerprint

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, shape (n, 256), float32."""
        return self._embed(check_texts(texts))

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of questions: the same as of documents."""
        return self._embed(check_texts(texts))

    def _loaded(self) -> _Model:
        model = self._model
        if model is None:
            with self._lock:
                model = self._model = self._model or self._load()
        return model

    def _load(self) -> _Model:
        table = np.load(self._folder / "table.npy")
        scales = np.load(self._folder / "scales.npy")
        vocabulary = read_vocabulary()
        expected = (len(vocabulary), DIM)
        if table.dtype != np.int8 or table.shape != expected:
            raise ValueError(
                f"table.npy must hold int8 of shape {expected}, got {table.dtype} of {table.shape}"
            )
        if scales.dtype != np.uint16 or scales.shape != (len(vocabulary) + 1,):
            raise ValueError(
                f"scales.npy must hold uint16 of shape {(len(vocabulary) + 1,)} (the last is that "
                f"of unknown words), got {scales.dtype} of {scales.shape}"
            )
        noise = hashlib.shake_256(_ALGORITHM).digest(_UNKNOWN_ROWS * DIM)
        # Odd values, so that their mean is zero.
        unknown = np.frombuffer(noise, dtype=np.int8).reshape(_UNKNOWN_ROWS, DIM) | np.int8(1)
        return _Model(
            WordPiece(vocabulary, unknown=self._unknown_word),
            np.concatenate([table, unknown]),
            np.concatenate([scales, np.repeat(scales[-1:], _UNKNOWN_ROWS - 1)]).astype(np.float32),
        )

    def _unknown_word(self, word: str) -> tuple[int, ...]:
        """Pieces where there are some, hashed directions where there are none."""
        tokenizer = self._loaded().tokenizer
        numbers: list[int] = []
        start = 0
        while start < min(len(word), LONGEST_WORD):
            known = word[start] in tokenizer.characters
            match = tokenizer.longest_match(word, start) if known else None
            if match is None:
                numbers += _hashed_character(word[start])
                start += 1
            else:
                number, start = match
                numbers.append(number)
        if len(word) > LONGEST_WORD:  # what was not read counts about as much as what was
            numbers += _hashed(word) * (1 + len(numbers) // 2)
        return tuple(numbers)

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        model = self._loaded()
        sums = np.empty((len(texts), DIM))
        waiting: list[int] = []  # ids of the texts from `first` on, which end at `ends`
        ends: list[int] = []
        first = 0
        for place, text in enumerate(texts):
            if len(text) > _LONG_TEXT:
                _add_up(model, waiting, ends, sums[first:place])
                _add_up_blocks(model, text, sums[place])
            else:
                waiting += model.tokenizer.encode(text) or _hashed(text.strip())
                ends.append(len(waiting))
                if len(waiting) < _BATCH_TOKENS:
                    continue
                _add_up(model, waiting, ends, sums[first : place + 1])
            waiting, ends, first = [], [], place + 1
        _add_up(model, waiting, ends, sums[first:])
        for place in np.flatnonzero(~sums.any(axis=1)).tolist():  # rows that cancelled out, if ever
            _add_up(model, _hashed(texts[place].strip()), [2], sums[place : place + 1])
        lengths = np.sqrt(np.add.reduce(sums * sums, axis=1, keepdims=True))
        return (sums / lengths).astype(np.float32)


def _hashed(text: str) -> tuple[int, int]:
    """Ids of the two pseudo-random rows, of 16 million pairs, that stand for an unknown text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    base = len(read_vocabulary())
    return (
        base + int.from_bytes(digest[:4], "little") % _UNKNOWN_ROWS,
        base + int.from_bytes(digest[4:], "little") % _UNKNOWN_ROWS,
    )


_hashed_character = lru_cache(maxsize=10_000)(_hashed)


def _add_up(
    model: _Model, numbers: Sequence[int], ends: list[int], out: NDArray[np.float64]
) -> None:
    """Write the sum of the rows up to each end; exact, because all terms are integers."""
    if not ends:
        return
    products = _products(model, np.array(numbers))
    start = 0
    for place, end in enumerate(ends):  # ten times faster than `np.add.reduceat` along this axis
        np.add.reduce(products[start:end], axis=0, dtype=np.float64, out=out[place])
        start = end


def _add_up_blocks(model: _Model, text: str, out: NDArray[np.float64]) -> None:
    """As `_add_up`, for one text of any length in bounded memory."""
    counts = np.zeros(len(model.scales), dtype=np.int64)
    for block in model.tokenizer.encode_blocks(text):
        counts += np.bincount(block, minlength=len(counts))
    present = np.flatnonzero(counts)
    if not len(present):
        _add_up(model, _hashed(text.strip()), [2], out[None])
        return
    out[:] = counts[present].astype(np.float64) @ _products(model, present)


def _products(model: _Model, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows times their scales: integers below 2^23, exact in float32."""
    products = model.rows[numbers].astype(np.float32)
    products *= model.scales[numbers, None]
    return products


_default = StaticEmbedder()


def default_embedder() -> StaticEmbedder:
    """The bundled table, one for the whole process, loaded on first use."""
    return _default
