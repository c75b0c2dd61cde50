"""What the arousal detector answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ArousalResult", "Evidence", "Source"]

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
        In [0, 1]: how sure the stage is of the score; low when evidence conflicts or when most
        words are unknown.
    stability_floor : float
        The floor that the policy gives to this score.
    evidence : tuple of Evidence
        Strongest first.
    reasoning : str or None
        What an LLM said, if one was asked.
    """

    score: float
    source: Source
    confidence: float
    stability_floor: float
    evidence: tuple[Evidence, ...] = ()
    reasoning: str | None = None
