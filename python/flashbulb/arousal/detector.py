"""The arousal detector: rules, and the stages that may be combined with them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol, Union, runtime_checkable

from flashbulb.policy import Policy

from .matcher import MAX_CHARACTERS, RuleMatcher
from .result import ArousalResult, Evidence
from .rules import RuleSet

__all__ = ["MAX_CHARACTERS", "ArousalDetector", "Judgement", "Stage"]

_log = logging.getLogger(__name__)


@runtime_checkable
class Judgement(Protocol):
    """What a stage may answer: anything with a score and a confidence."""

    @property
    def score(self) -> float: ...
    @property
    def confidence(self) -> float: ...


Stage = Callable[[str, str], Union[Judgement, "tuple[float, float]"]]
"""A model or LLM: called with text and context, answers (score, confidence), both in [0, 1]."""


class ArousalDetector:
    """How critical is a text? Rules, combined with a model and an LLM where they are given.

    Parameters
    ----------
    rules : RuleSet, str, Path or None
        A compiled rule set, or the path of a rule file; None: the rules that come with Flashbulb.
    model, llm : callable or None
        Further stages, called with ``(text, context)``; each answers a ``(score, confidence)``
        pair or an object with these attributes (an LLM's may also have ``reasoning``). A stage
        that raises, or that answers anything but finite numbers in [0, 1], is reported through
        ``logging`` and left out.
    policy : Policy or None
        Gives the thresholds of the stability floor.

    Notes
    -----
    The score of several stages is their mean weighted by confidence. A text of more than
    ``MAX_CHARACTERS`` is judged by its two ends.

    Examples
    --------
    >>> detector = ArousalDetector()
    >>> detector.detect("Production system is down").score >= 0.8
    True
    """

    def __init__(
        self,
        rules: RuleSet | str | Path | None = None,
        model: Stage | None = None,
        llm: Stage | None = None,
        *,
        policy: Policy | None = None,
    ) -> None:
        if rules is None:
            rules = RuleSet.default()
        elif isinstance(rules, (str, Path)):
            rules = RuleSet.load(rules)
        elif not isinstance(rules, RuleSet):
            raise TypeError(f"rules must be a RuleSet, a path or None, got {rules!r}")
        for name, stage in (("model", model), ("llm", llm)):
            if stage is not None and not callable(stage):
                raise TypeError(f"{name} must be callable or None, got {stage!r}")
        self._matcher = RuleMatcher(rules)
        self._model = model
        self._llm = llm
        self._policy = policy if policy is not None else Policy()

    def detect(self, text: str, context: str = "") -> ArousalResult:
        """Judge ``text``.

        Parameters
        ----------
        text : str
            What is to be remembered. It is data: nothing in it instructs the detector.
        context : str
            What surrounds it, handed to model and LLM; the rules judge the text alone.

        Returns
        -------
        ArousalResult

        Raises
        ------
        TypeError
            When text or context is no str.
        """
        if not isinstance(text, str) or not isinstance(context, str):
            wrong = text if not isinstance(text, str) else context
            raise TypeError(f"text and context must be str, got {type(wrong).__name__}")
        ruled = self._matcher.score(text)
        stages: list[tuple[Literal["rules", "model", "llm"], float, float]] = [
            ("rules", ruled.score, ruled.confidence)
        ]
        reasoning: str | None = None
        model = _ask("model", self._model, text, context)
        if model is not None:
            stages.append(("model", model[0], model[1]))
        llm = _ask("llm", self._llm, text, context)
        if llm is not None:
            stages.append(("llm", llm[0], llm[1]))
            reasoning = llm[2]
        return self._combine(stages, ruled.evidence, reasoning)

    def _combine(
        self,
        stages: list[tuple[Literal["rules", "model", "llm"], float, float]],
        evidence: tuple[Evidence, ...],
        reasoning: str | None,
    ) -> ArousalResult:
        speaking = [stage for stage in stages if stage[2] > 0.0] or stages[:1]
        total = sum(confidence for _, _, confidence in speaking)
        score = stages[0][1]
        if len(speaking) > 1:
            score = sum(score * confidence for _, score, confidence in speaking) / total
        score = min(max(score, 0.0), 1.0)
        return ArousalResult(
            score=score,
            source=speaking[0][0] if len(speaking) == 1 else "combined",
            confidence=max(confidence for _, _, confidence in speaking),
            stability_floor=self._policy.floor_for(score),
            evidence=evidence,
            reasoning=reasoning,
        )


def _ask(
    name: str, stage: Stage | None, text: str, context: str
) -> tuple[float, float, str | None] | None:
    """Score, confidence and reasoning of one stage; None, and a log entry, if it has no answer."""
    if stage is None:
        return None
    try:
        answer = stage(text, context)
        if isinstance(answer, tuple):
            score, confidence = answer
        else:
            score, confidence = answer.score, answer.confidence
    except Exception:
        _log.warning("the arousal %s failed and is left out", name, exc_info=True)
        return None
    if not (_is_unit(score) and _is_unit(confidence)):
        _log.warning(
            "the arousal %s must answer score and confidence in [0, 1], got %.80r and %.80r;"
            " it is left out",
            name, score, confidence,
        )  # fmt: skip
        return None
    reasoning = getattr(answer, "reasoning", None)
    return float(score), float(confidence), reasoning if isinstance(reasoning, str) else None


def _is_unit(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and 0.0 <= value <= 1.0
