"""The local model: a linear head over an embedding and hashed features, with calibrated scores."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb._files import replacing
from flashbulb.embedding import Embedder, default_embedder
from flashbulb.errors import DimensionMismatch

from . import features
from .matcher import Reading, RuleMatcher
from .rules import RuleSet
from .text import fold

__all__ = ["ArousalModel", "Head", "ModelJudgement"]

_log = logging.getLogger(__name__)

VERSION = 1
"""Of the features; a head fits those that it was trained on."""
BITS = 18
GROUP_WEIGHTS = (4.0, 4.0, 4.0)
"""Length of the features of word runs, letters and classes of a text; an embedding's is 2."""
EMBEDDING_WEIGHT = 2.0

IMPORTANT_SCORE = 0.6
"""What an important memory scores, where a critical one scores 1 and a mundane one 0."""
_CANDIDATES = 16
"""Different sentences of a longer text that are looked at closely."""
_FRAMING = ("resolved", "drill", "prenegator", "postnegator", "merely")
"""Classes of the rules that tell that the sentence before or after is over, or no event."""
_MOST_EXPLAINED = 600
"""Characters whose words are told apart."""
_MOST_CACHED = 65_536

_MASK = np.uint32((1 << BITS) - 1)
_SHIPPED = Path(__file__).with_name("data") / "model.npz"

Logits = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelJudgement:
    """What the model says of a text."""

    score: float
    """``P(critical) + 0.6 · P(important)``."""
    confidence: float
    critical: float
    """Probability that the text is critical."""
    important: float
    """Probability that it is important, and not critical."""


@dataclass(frozen=True)
class Head:
    """The coefficients: log-odds of important and of critical against mundane."""

    embedder: str
    """Name of the embedder that the part `embedding` was fitted to ..."""
    fingerprint: str
    """... and its fingerprint."""
    bias: NDArray[np.float32]
    """Shape (2,)."""
    embedding: NDArray[np.float32]
    """Shape (dim, 2)."""
    hashed: NDArray[np.int8]
    """Shape (2 ** 18, 2), in units of `scale`."""
    scale: NDArray[np.float32]
    """Shape (2,)."""


class ArousalModel:
    """A small linear model of how critical a text is; a stage of :class:`ArousalDetector`.

    It reads the embedding of the text, runs of words and of letters, and pairs of the classes that
    the words have in the rules that come with Flashbulb. How it was trained, and on what, is in
    ``tools/train_arousal``; ``flashbulb train-arousal`` fits one to labels of your own.

    Parameters
    ----------
    head : Head
    embedder : Embedder
        The one that the head was trained with; embeds what comes without a vector.

    Notes
    -----
    Each sentence is judged alone; and together with a neighbour that tells that it is over, or no
    event ("... That was the drill."), if that lowers its score. The most critical counts, so that
    what surrounds it does not. Case, spacing, width, exclamation marks and labels in front
    ("URGENT: ...") change nothing. Safe to use from several threads.
    """

    def __init__(self, head: Head, embedder: Embedder) -> None:
        if (embedder.dim, embedder.fingerprint) != (len(head.embedding), head.fingerprint):
            raise DimensionMismatch(
                f"the head was trained with the embedder {head.embedder!r} "
                f"({len(head.embedding)} dimensions, fingerprint {head.fingerprint[:12]}), got "
                f"{embedder.name!r} ({embedder.dim}, {embedder.fingerprint[:12]})"
            )
        self.head = head
        self.embedder = embedder
        self.rules = RuleSet.default()
        self._matcher = RuleMatcher(self.rules)
        self._names = list(self.rules.classes)
        self._framing = self.rules.class_set("|".join(_FRAMING))
        # Important is the real part, critical the imaginary: one look-up gets both.
        self._weights = np.ascontiguousarray(head.hashed * head.scale, np.float32).view(
            np.complex64
        )
        self._weights = self._weights[:, 0].astype(np.complex128)
        self._bias = complex(*head.bias.tolist())
        self._embedding = head.embedding.astype(np.float64) * EMBEDDING_WEIGHT
        self._words: dict[str, tuple[int, complex, int]] = {}
        self._pairs: dict[tuple[int, int], tuple[complex, int]] = {}

    @classmethod
    def for_embedder(cls, embedder: Embedder) -> ArousalModel | None:
        """The model that comes with Flashbulb, if it fits this embedder; else None, and a note."""
        head = _shipped()
        if head.fingerprint == embedder.fingerprint:
            return cls(head, embedder)
        _note_once(embedder.name)
        return None

    @classmethod
    def default(cls) -> ArousalModel:
        """The model that comes with Flashbulb, over its default embedder."""
        return _default()

    @classmethod
    def load(cls, path: str | os.PathLike[str], embedder: Embedder | None = None) -> ArousalModel:
        """A model from :meth:`save`.

        Parameters
        ----------
        path : str or path
        embedder : Embedder, optional
            What it was trained with; the default embedder if not given.

        Raises
        ------
        OSError, ValueError
            If the file cannot be read, or is no model; if it is of another embedder.
        """
        return cls(_read(Path(path)), default_embedder() if embedder is None else embedder)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the coefficients, a quarter of a megabyte; the embedder is only named.

        A file that was there is replaced as a whole, or not at all.
        """
        write_head(self.head, Path(path))

    def __call__(
        self,
        text: str,
        context: str = "",
        *,
        vector: ArrayLike | None = None,
        reading: Reading | None = None,
    ) -> ModelJudgement:
        """Judge a text.

        Parameters
        ----------
        text, context : str
            A context only tells that its text is no event: a drill, fiction.
        vector : (dim,) array of floats, optional
            The embedding of the text.
        reading : Reading, optional
            The text, as the rules that come with Flashbulb divide it.
        """
        read = self._matcher.read(text) if reading is None else reading
        important, critical = _probabilities(self._decisive(read, vector)[0])
        score = critical + IMPORTANT_SCORE * important
        if context and self.rules.is_unreal(fold(context)):
            score = min(score, self.rules.caps["framed"])
        return ModelJudgement(score, max(score, 1.0 - score), critical, important)

    def contributions(self, text: str) -> list[tuple[str, float]]:
        """What each word adds to the log-odds of critical, strongest first.

        That is how much they fall when the word is left out of the text, or, if it is long, of the
        sentences that decide.
        """
        passage = self._decisive(self._matcher.read(text), None)[1][:_MOST_EXPLAINED]
        whole = self._critical(passage)
        found: dict[str, float] = {}
        for start, end in features.spans(passage):
            word = passage[start:end]
            if word != "?" and not any(map(str.isalnum, word)):
                continue
            without = self._critical(passage[:start] + passage[end:])
            found[word] = found.get(word, 0.0) + whole - without
        return sorted(found.items(), key=lambda item: -abs(item[1]))

    # -- within ----------------------------------------------------------------------------------

    def _critical(self, text: str) -> float:
        """The log-odds of critical against mundane."""
        return float(self._decisive(self._matcher.read(text), None)[0][1])

    def _decisive(self, reading: Reading, vector: ArrayLike | None) -> tuple[Logits, str]:
        """The log-odds, and what of the text they are of, folded."""
        divided = features.divided(reading.parts, self.rules)
        if len(divided) < 2:
            text = features.said(reading.text, divided)
            given = vector if text == reading.text else None
            whole: Logits = self._bare(divided) + self._embedded([text], given)[0]
            return whole, " ".join(each.text for each in divided)
        alone = [self._bare([each]) for each in divided]
        ranked = sorted(range(len(alone)), key=lambda i: -_score(alone[i]))
        seen: set[tuple[str, bool]] = set()  # what is said again need not be looked at again
        order: list[int] = []
        for place in ranked:
            around = divided[max(0, place - 1) : place + 2]
            framed = any(each.sentence.present & self._framing for each in around)
            if (divided[place].text, framed) not in seen:
                seen.add((divided[place].text, framed))
                order.append(place)
            if len(order) == _CANDIDATES:
                break
        runs: list[Sequence[features.Statement]] = []
        for place in order:
            first, last = place, place + 1
            if place and divided[place - 1].sentence.present & self._framing:
                first -= 1
            if last < len(divided) and divided[last].sentence.present & self._framing:
                last += 1
            runs.append(divided[first:last])
        texts = [divided[place].text for place in order]
        bare = [alone[place] for place in order]
        wider = [i for i, run in enumerate(runs) if len(run) > 1]
        texts += [" ".join(each.text for each in runs[i]) for i in wider]
        bare += [self._bare(runs[i]) for i in wider]
        all_of = np.array(bare) + self._embedded([features.plain(text) for text in texts], None)
        scored = [_score(each) for each in all_of]
        decisive = list(range(len(order)))  # of each candidate: alone or with its neighbours
        for at, i in enumerate(wider, len(order)):
            decisive[i] = min(i, at, key=scored.__getitem__)
        best = max(decisive, key=scored.__getitem__)
        return all_of[best], texts[best]

    def _embedded(self, texts: Sequence[str], vector: ArrayLike | None) -> Logits:
        if vector is None:
            rows = np.asarray(self.embedder.embed_documents(texts), np.float64)
        else:
            rows = np.asarray(vector, np.float64)[None]
            if rows.shape != (1, len(self._embedding)):
                raise DimensionMismatch(
                    f"vector must have shape ({len(self._embedding)},), got {np.shape(vector)}"
                )
            if not np.isfinite(rows).all():
                raise ValueError("vector must be finite")
        return unit(rows) @ self._embedding

    def _bare(self, run: Sequence[features.Statement]) -> Logits:
        """The log-odds of sentences in a row, without the embedding."""
        words = [word for each in run for word in features.words(each.text)]
        total = self._bias
        if words:
            known = self._words
            hashes, sums, counts = zip(
                *[known.get(word) or self._word(word) for word in words], strict=True
            )
            order = features.runs(hashes)
            total += self._sum(order) * (GROUP_WEIGHTS[0] / math.sqrt(len(order)))
            total += sum(sums) * (GROUP_WEIGHTS[1] / math.sqrt(sum(counts)))
        pairs = features.pairs(run)
        if pairs:
            met = self._pairs
            sums, counts = zip(*[met.get(pair) or self._pair(pair) for pair in pairs], strict=True)
            total += sum(sums) * (GROUP_WEIGHTS[2] / math.sqrt(sum(counts)))
        return np.array((total.real, total.imag))

    def _word(self, word: str) -> tuple[int, complex, int]:
        """Its hash, the sum of its letters' weights, and how many these are."""
        hashes = features.letters(word)
        found = (features.word_hash(word), self._sum(hashes), len(hashes))
        if len(self._words) < _MOST_CACHED:
            self._words[word] = found
        return found

    def _pair(self, pair: tuple[int, int]) -> tuple[complex, int]:
        hashes = features.class_pair(self._names, *pair)
        found = (self._sum(hashes), len(hashes))
        if len(self._pairs) < _MOST_CACHED:
            self._pairs[pair] = found
        return found

    def _sum(self, hashes: features.Hashes) -> complex:
        places, signs = buckets(hashes)
        return complex(np.dot(self._weights[places], signs))


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1; one of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0.0] = 1.0
    result: NDArray[np.float64] = rows / lengths[:, None]
    return result


def buckets(hashes: features.Hashes) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Which weight each feature has, and with which sign."""
    return hashes & _MASK, np.where(hashes >> np.uint32(31), 1.0, -1.0)


def write_head(head: Head, path: Path) -> None:
    about = {"version": VERSION, "embedder": head.embedder, "fingerprint": head.fingerprint}
    with replacing(os.path.realpath(path), 0o666) as file:
        np.savez_compressed(
            file,
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
            bias=head.bias,
            embedding=head.embedding,
            hashed=head.hashed,
            scale=head.scale,
        )


def _read(path: Path) -> Head:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        about = json.loads(arrays.pop("about").tobytes())
        if about.pop("version") != VERSION:
            raise ValueError(f"it is of another version than {VERSION}; train it again")
        head = Head(**about, **arrays)
        _check(head)
    except OSError:
        raise
    except Exception as error:  # a damaged archive raises whatever its reader meets
        raise ValueError(f"{path} is not an arousal model: {error}") from error
    return head


def _check(head: Head) -> None:
    expected: dict[str, tuple[Any, tuple[int, ...]]] = {
        "bias": (np.float32, (2,)),
        "embedding": (np.float32, (len(head.embedding), 2)),
        "hashed": (np.int8, (1 << BITS, 2)),
        "scale": (np.float32, (2,)),
    }
    for name, (dtype, shape) in expected.items():
        array = getattr(head, name)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"{name} must be {np.dtype(dtype)} of shape {shape}, "
                f"got {array.dtype} of {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
    if not (isinstance(head.embedder, str) and isinstance(head.fingerprint, str)):
        raise ValueError("it does not name its embedder")


@lru_cache(maxsize=1)
def _shipped() -> Head:
    return _read(_SHIPPED)


@lru_cache(maxsize=1)
def _default() -> ArousalModel:
    return ArousalModel(_shipped(), default_embedder())


@lru_cache(maxsize=64)
def _note_once(name: str) -> None:
    _log.info(
        "no arousal model comes with Flashbulb for the embedder %r: arousal is judged by rules; "
        "flashbulb train-arousal fits a model to it",
        name,
    )


def _probabilities(logits: Logits) -> tuple[float, float]:
    """Of important and of critical: the softmax with 0 for mundane."""
    important, critical = logits.tolist()
    top = max(important, critical, 0.0)
    parts = math.exp(important - top), math.exp(critical - top), math.exp(-top)
    return parts[0] / sum(parts), parts[1] / sum(parts)


def _score(logits: Logits) -> float:
    important, critical = _probabilities(logits)
    return critical + IMPORTANT_SCORE * important
