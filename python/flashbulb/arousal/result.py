"""What the arousal detector answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["ArousalResult", "Evidence", "Judgement", "Source", "StageName", "StageScore"]

StageName = Literal["rules", "model", "llm"]
Source = Literal["rules", "model", "llm", "combined"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One rule that spoke, and where.

    ``start`` and ``end`` are character offsets in the text as it was given, so that
    ``text[start:end] == matched``.
    """

    start: int
    end: int
    matched: str
    rule: str
    weight: float
    """What this evidence is worth after its scopes, in [0, 1]."""
    scopes: tuple[str, ...] = ()
    """The scopes that lowered it: negated, resolved, hypothetical, quoted ... Empty: a fact."""


@runtime_checkable
class Judgement(Protocol):
    """What a stage may answer: anything with a score and a confidence, both in [0, 1]."""

    @property
    def score(self) -> float: ...
    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True, slots=True)
class StageScore:
    """What one stage of the cascade answered."""

    name: StageName
    score: float
    confidence: float


@dataclass(frozen=True, slots=True)
class ArousalResult:
    """How critical a text is.

    Attributes
    ----------
    score : float
        In [0, 1]: from 0.8 a flashbulb, from 0.5 important, below that mundane.
    source : {"rules", "model", "llm", "combined"}
        The stage that the score is from.
    confidence : float
        In [0, 1]: how sure the stages are of the score; low when evidence or stages conflict, or
        when most words are unknown.
    stability_floor : float
        The floor that the policy gives to this score.
    evidence : tuple of Evidence
        Strongest first.
    reasoning : str or None
        What an LLM said, if one was asked.
    consequentiality, surprise : float or None
        How much depends on the event and how unexpected it is, as an LLM sees it, in [0, 1].
    stages : tuple of StageScore
        What each stage answered, in the order in which they were asked.
    fallback : str or None
        Why a stage that was asked, or should have been, did not answer.
    deferred : bool
        Whether an LLM is still to be asked, or asked again: it was to be asked later, or gave no
        answer for a cause that may pass.
    bad_reply : bool
        Whether an LLM gave an answer that is no judgement, or its server refused the text (a filter
        of contents). Another model may do better; :meth:`Memory.rescore` asks a second and a third
        time.
    unanswered : bool
        Whether an LLM was asked and gave no answer; False where it was not asked, because of its
        budget or because it kept failing.
    """

    score: float
    source: Source
    confidence: float
    stability_floor: float
    evidence: tuple[Evidence, ...] = ()
    reasoning: str | None = None
    consequentiality: float | None = None
    surprise: float | None = None
    stages: tuple[StageScore, ...] = ()
    fallback: str | None = None
    deferred: bool = False
    bad_reply: bool = False
    unanswered: bool = False
