"""The local model: a linear head over an embedding and hashed features, with calibrated scores."""

from __future__ import annotations

import json
import logging
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._check import check_file, check_items, check_str
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

_MASK = np.uint32((1 << BITS) - 1)
_SHIPPED = Path(__file__).with_name("data") / "model.npz"

Logits = tuple[float, float]
"""Log-odds of important and of critical against mundane."""


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


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What of a text is looked at closely."""

    passages: list[str]
    """Folded."""
    said: list[str]
    """What of them is embedded."""
    bare: list[Logits]
    """Of each, without the embedding."""
    wider: list[int]
    """Which of the first ones the last ones are, with their neighbours."""


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
        _check_embedder(embedder)
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
        self._framing = self.rules.class_set("|".join(_FRAMING))
        self._words = _core.HashedHead(
            np.ascontiguousarray(head.hashed * head.scale, np.float32),
            list(self.rules.classes),
            GROUP_WEIGHTS,
        )
        self._bias: Logits = tuple(head.bias.tolist())
        self._embedding = np.ascontiguousarray(head.embedding.T, np.float64) * EMBEDDING_WEIGHT

    @classmethod
    def for_embedder(cls, embedder: Embedder) -> ArousalModel | None:
        """The model that comes with Flashbulb, if it fits this embedder; else None, and a note."""
        _check_embedder(embedder)
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
        return cls(
            _read(Path(check_file(path))), default_embedder() if embedder is None else embedder
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the coefficients, a quarter of a megabyte; the embedder is only named.

        A file that was there is replaced as a whole, or not at all.
        """
        write_head(self.head, Path(check_file(path)))

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
        check_str(text, "text")
        check_str(context, "context")
        return self._judge([text], [context], [vector], [reading])[0]

    def judge_many(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None = None,
        *,
        vectors: Sequence[ArrayLike | None] | None = None,
        readings: Sequence[Reading | None] | None = None,
    ) -> list[ModelJudgement]:
        """Judge texts; what of them is to be embedded is, in one call of the embedder.

        The arguments are those of a call, one for each text; none of a kind if it is not given.

        Raises
        ------
        TypeError, ValueError
            When one is no sequence, a text or context no str, or their numbers differ.
        """
        texts = check_items(texts, "texts")
        around = [""] * len(texts) if contexts is None else check_items(contexts, "contexts")
        nothing = [None] * len(texts)
        rows = nothing if vectors is None else check_items(vectors, "vectors", "arrays")
        read = nothing if readings is None else check_items(readings, "readings", "Reading")
        for name, values in (("contexts", around), ("vectors", rows), ("readings", read)):
            if len(values) != len(texts):
                raise ValueError(f"expected {len(texts)} {name}, got {len(values)}")
        for text, context in zip(texts, around, strict=True):
            check_str(text, "text")
            check_str(context, "context")
        return self._judge(texts, around, rows, read)

    def contributions(self, text: str) -> list[tuple[str, float]]:
        """What each word adds to the log-odds of critical, strongest first.

        That is how much they fall when the word is left out of the text, or, if it is long, of the
        sentences that decide.
        """
        check_str(text, "text")
        passage = next(self._of_text(text))[1][:_MOST_EXPLAINED]
        spans = [
            (start, end)
            for start, end in features.spans(passage)
            if passage[start:end] == "?" or any(map(str.isalnum, passage[start:end]))
        ]
        shorter = [passage[:start] + passage[end:] for start, end in spans]
        (_, whole), *without = (logits for logits, _ in self._of_text(passage, *shorter))
        found: dict[str, float] = {}
        for (start, end), (_, critical) in zip(spans, without, strict=True):
            word = passage[start:end]
            found[word] = found.get(word, 0.0) + whole - critical
        return sorted(found.items(), key=lambda item: -abs(item[1]))

    # -- within ----------------------------------------------------------------------------------

    def _judge(
        self,
        texts: Sequence[str],
        contexts: Sequence[str],
        vectors: Sequence[ArrayLike | None],
        readings: Sequence[Reading | None],
    ) -> list[ModelJudgement]:
        read = [
            self._matcher.read(text) if reading is None else reading
            for text, reading in zip(texts, readings, strict=True)
        ]
        judgements = []
        for context, (logits, _) in zip(contexts, self._decisive(read, vectors), strict=True):
            important, critical = probabilities(logits)
            score = critical + IMPORTANT_SCORE * important
            if context and self.rules.is_unreal(fold(context)):
                score = min(score, self.rules.caps["framed"])
            judgements.append(ModelJudgement(score, max(score, 1.0 - score), critical, important))
        return judgements

    def _of_text(self, *texts: str) -> Iterator[tuple[Logits, str]]:
        return self._decisive(list(map(self._matcher.read, texts)), [None] * len(texts))

    def _decisive(
        self, readings: Sequence[Reading], vectors: Sequence[ArrayLike | None]
    ) -> Iterator[tuple[Logits, str]]:
        """The log-odds of each text, and what of it they are of, folded."""
        every = [self._candidates(reading) for reading in readings]
        given = [
            None if vector is None or own.said != [reading.text] else np.asarray(vector, np.float64)
            for own, reading, vector in zip(every, readings, vectors, strict=True)
        ]
        said = [t for own, row in zip(every, given, strict=True) if row is None for t in own.said]
        rows = iter(np.asarray(self.embedder.embed_documents(said), np.float64) if said else ())
        for own, row in zip(every, given, strict=True):
            yield self._decide(own, islice(rows, len(own.said)) if row is None else [row])

    def _decide(
        self, candidates: _Candidates, rows: Iterable[NDArray[np.float64]]
    ) -> tuple[Logits, str]:
        """Of the candidates of a text and their embeddings."""
        all_of = [
            (a + c, b + d)
            for (a, b), (c, d) in zip(candidates.bare, map(self._embedded, rows), strict=True)
        ]
        scored = [_score(each) for each in all_of]
        first_wider = len(scored) - len(candidates.wider)
        decisive = list(range(first_wider))  # of each: alone or with its neighbours
        for at, place in enumerate(candidates.wider, first_wider):
            decisive[place] = min(place, at, key=scored.__getitem__)
        best = max(decisive, key=scored.__getitem__)
        return all_of[best], candidates.passages[best]

    def _candidates(self, reading: Reading) -> _Candidates:
        divided = features.divided(reading.parts, self.rules)
        if len(divided) < 2:
            whole = " ".join(each.text for each in divided)
            said = features.said(reading.text, divided)
            return _Candidates([whole], [said], [self._bare(divided)], [])
        alone = [self._bare([each]) for each in divided]
        frames = [bool(each.sentence.present & self._framing) for each in divided]
        seen: set[tuple[str, bool]] = set()  # what is said again need not be looked at again
        order: list[int] = []
        for place in sorted(range(len(alone)), key=lambda i: -_score(alone[i])):
            again = divided[place].text, any(frames[max(0, place - 1) : place + 2])
            if again not in seen:
                seen.add(again)
                order.append(place)
            if len(order) == _CANDIDATES:
                break
        passages = [divided[place].text for place in order]
        bare = [alone[place] for place in order]
        wider = []
        for candidate, place in enumerate(order):
            first = place - 1 if place and frames[place - 1] else place
            last = place + 2 if any(frames[place + 1 : place + 2]) else place + 1
            if last - first > 1:
                run = divided[first:last]
                wider.append(candidate)
                passages.append(" ".join(each.text for each in run))
                bare.append(self._bare(run))
        return _Candidates(passages, [features.plain(each) for each in passages], bare, wider)

    def _embedded(self, row: NDArray[np.float64]) -> Logits:
        """What an embedding adds."""
        if row.shape != self._embedding.shape[1:]:
            raise DimensionMismatch(
                f"vector must have shape ({self._embedding.shape[1]},), got {row.shape}"
            )
        square = row.dot(row)
        if not (math.isfinite(square) or np.isfinite(row).all()):
            raise ValueError("vector must be finite")
        length = math.sqrt(square)
        if not 0.0 < length < math.inf:  # zeros say nothing, nor does what is out of range
            return 0.0, 0.0
        important, critical = self._embedding.dot(row).tolist()
        return important / length, critical / length

    def _bare(self, run: Sequence[features.Statement]) -> Logits:
        """The log-odds of sentences in a row, without the embedding."""
        words = [word for each in run for word in features.words(each.text)]
        size = self._words.set_bytes
        sets = [
            [
                known.to_bytes(size, "little")
                for known in each.sentence.classes[each.first :]
                if known
            ]
            for each in run
        ]
        important, critical = self._words.log_odds(words, sets)
        return important + self._bias[0], critical + self._bias[1]


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


def _check_embedder(value: object) -> None:
    if not isinstance(value, Embedder) or isinstance(value, type):
        raise TypeError(f"embedder must be an Embedder, got {type(value).__name__}")


def _read(path: Path) -> Head:
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no archive of arrays (.npz)")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
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


def probabilities(logits: Logits) -> Logits:
    """Of important and of critical: the softmax with 0 for mundane."""
    important, critical = logits
    top = max(important, critical, 0.0)
    parts = math.exp(important - top), math.exp(critical - top)
    total = parts[0] + parts[1] + math.exp(-top)
    return parts[0] / total, parts[1] / total


def _score(logits: Logits) -> float:
    important, critical = probabilities(logits)
    return critical + IMPORTANT_SCORE * important
