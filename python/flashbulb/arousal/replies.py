"""What a stage answers, and what of it counts: a finite number in [0, 1] under its key.

A reply is never searched for "the first number". Whatever is no proper reply is a
:class:`BadReply`, and the cheaper stages stand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn

__all__ = [
    "PHOTOGRAPH_SCHEMA",
    "SCHEMA",
    "BadReply",
    "Reply",
    "parse_photograph",
    "parse_reply",
    "probability_of_yes",
]

MAX_REPLY_CHARACTERS = 20_000
"""A longer reply is refused unread."""
_MAX_BRACES = 200
"""Opening braces of a reply at which an object is tried."""
_MAX_REASONING = 2_000

ASSUMED_CONFIDENCE = 0.95
"""Of a stage that tells a score and no confidence."""
_LEAST_MASS = 0.2
"""A yes-no answer counts if yes and no together are at least so probable."""

_NUMBER = {"type": "number", "minimum": 0, "maximum": 1}
SCHEMA: dict[str, Any] = {
    "title": "arousal",
    "description": "How critical an event is to whoever has to remember it.",
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "One or two sentences."},
        "consequentiality": {**_NUMBER, "description": "How much depends on it."},
        "surprise": {**_NUMBER, "description": "How unexpected it is."},
        "score": {**_NUMBER, "description": "How critical it is."},
    },
    "required": ["reasoning", "consequentiality", "surprise", "score"],
    "additionalProperties": False,
}
"""JSON schema of a reply; reasoning first, so that the numbers follow from it."""


_WORDS = {"type": ["string", "null"]}
PHOTOGRAPH_SCHEMA: dict[str, Any] = {
    "title": "photograph",
    "description": "Who, what, when and where of an event, in its own words.",
    "type": "object",
    "properties": dict.fromkeys(("who", "what", "when", "where"), _WORDS),
    "required": ["who", "what", "when", "where"],
    "additionalProperties": False,
}


class BadReply(ValueError):
    """A stage answered something that is no judgement; says what came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A judgement that has been found good."""

    score: float
    confidence: float
    reasoning: str | None = None
    consequentiality: float | None = None
    surprise: float | None = None

    def to_json(self) -> str:
        """The reply as :func:`parse_reply` reads it."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in values.items() if value is not None})


def parse_reply(answer: object) -> Reply:
    """The judgement in what a stage answered.

    Parameters
    ----------
    answer
        A number; a ``(score, confidence)`` pair, with the reasoning as a third if there is one; a
        mapping or an object with ``score`` and perhaps ``confidence``, ``reasoning``,
        ``consequentiality`` and ``surprise``; a str or message that holds one such mapping as
        JSON, fenced or amid prose.

    Raises
    ------
    BadReply
        If it is nothing of these, if a score or confidence is no finite number in [0, 1], or if
        a str holds several judgements that differ.
    """
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return _from_text(answer)
    if isinstance(answer, Mapping):
        return _from_mapping(answer)
    if isinstance(answer, tuple):
        if not 2 <= len(answer) <= 3:
            raise BadReply(f"expected (score, confidence), got {_shown(answer)}")
        return _from_mapping(dict(zip(("score", "confidence", "reasoning"), answer, strict=False)))
    if isinstance(answer, Real):
        return _from_mapping({"score": answer})
    if hasattr(answer, "score"):
        return _from_mapping(
            {
                name: getattr(answer, name)
                for name in Reply.__slots__
                if getattr(answer, name, None) is not None
            }
        )
    if isinstance(content := getattr(answer, "content", None), str):
        return _from_text(content)
    raise BadReply(f"expected a judgement with a score, got {_shown(answer)}")


def parse_photograph(answer: object) -> dict[str, str]:
    """What a reply says of who, what, when and where.

    Parameters
    ----------
    answer
        A mapping or an object with some of them, each a str or None; a str or message that holds
        one such mapping as JSON, fenced or amid prose.

    Raises
    ------
    BadReply
        If it is nothing of these, or a str holds several; or if there are values, and none is text.
    """
    names = PHOTOGRAPH_SCHEMA["required"]
    if isinstance(answer, Mapping):
        values = answer
        known = not answer or not answer.keys().isdisjoint(names)
    elif known := any(hasattr(answer, name) for name in names):
        values = {name: getattr(answer, name, None) for name in names}
    else:
        text = answer if isinstance(answer, str) else getattr(answer, "content", None)
        if known := isinstance(text, str):
            found = [each for each in _objects(text) if not each.keys().isdisjoint(names)]
            if len(found) != 1:
                raise BadReply(f"{len(found)} photographs in {_shown(text)}")
            values = found[0]
    if not known:
        raise BadReply(f"expected some of {', '.join(names)}, got {_shown(answer)}")
    said = {name: values[name] for name in names if values.get(name) is not None}
    texts = {name: value for name, value in said.items() if isinstance(value, str)}
    if said and not texts:
        name, value = next(iter(said.items()))
        raise BadReply(f"{name} must be a str or None, got {_shown(value)}")
    return texts


def probability_of_yes(alternatives: Mapping[str, float]) -> Reply | None:
    """The judgement in the log-probabilities of the first token of an answer to a yes-no question.

    None where neither word is among the likely ones. The score is ``P(yes) / (P(yes) + P(no))``;
    the confidence is lowest for a score of one half.
    """
    yes = no = 0.0
    for token, logarithm in alternatives.items():
        if not math.isfinite(logarithm) or logarithm > 1e-6:
            continue
        word = token.strip().strip(".!\"'*").lower()
        yes += math.exp(logarithm) if word == "yes" else 0.0
        no += math.exp(logarithm) if word == "no" else 0.0
    if yes + no < _LEAST_MASS:
        return None
    score = min(yes / (yes + no), 1.0)
    return Reply(score, 0.5 + (ASSUMED_CONFIDENCE - 0.5) * abs(2.0 * score - 1.0))


def _from_text(text: str) -> Reply:
    found = {_from_mapping(values) for values in _objects(text) if "score" in values}
    if not found:
        raise BadReply(f"no JSON object with a score in {_shown(text)}")
    if len(found) > 1:
        raise BadReply(f"several judgements that differ in {_shown(text)}")
    return found.pop()


def _from_mapping(values: Mapping[Any, Any]) -> Reply:
    score = _unit(values.get("score"))
    if score is None:
        raise BadReply(f"expected a score in [0, 1], got {_shown(values.get('score'))}")
    consequentiality = _unit(values.get("consequentiality"))
    if (told := values.get("confidence")) is None:
        # A critical event is one on which much depends: a reply that denies it is less sure.
        doubt = 0.0 if consequentiality is None else abs(score - consequentiality)
        confidence: float | None = ASSUMED_CONFIDENCE * (1.0 - 0.5 * doubt)
    else:
        confidence = _unit(told)
    if confidence is None:
        raise BadReply(f"expected a confidence in [0, 1], got {_shown(told)}")
    reasoning = values.get("reasoning")
    return Reply(
        score=score,
        confidence=confidence,
        reasoning=reasoning[:_MAX_REASONING] if isinstance(reasoning, str) else None,
        consequentiality=consequentiality,
        surprise=_unit(values.get("surprise")),
    )


def _unit(value: Any) -> float | None:
    """A finite number in [0, 1] that is no bool; None for anything else."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    number: Any = value
    return float(number) if 0 <= number <= 1 else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, in their order."""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise BadReply(f"the reply has {len(text):,} characters")
    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unambiguous)
    start = text.find("{")
    for _ in range(_MAX_BRACES):
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if isinstance(error, BadReply):
                raise
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _refuse(constant: str) -> NoReturn:
    raise BadReply(f"expected finite numbers, got {constant}")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise BadReply("a JSON object has a key twice")
    return values


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.80}"
