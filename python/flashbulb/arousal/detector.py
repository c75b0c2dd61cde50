"""The arousal detector: a cascade of rules, a local model, and an LLM where those are unsure."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from flashbulb._check import check_items, check_str
from flashbulb.policy import Policy

from .asking import AT_A_TIME, Cache, NoAnswer, at_a_time
from .llm import Judge, as_judge
from .matcher import BASE_SCORE, MAX_CHARACTERS, RuleMatcher
from .model import IMPORTANT_SCORE, ArousalModel, Logits, ModelJudgement, probabilities
from .replies import Reply, parse_reply
from .result import ArousalResult, Evidence, StageName, StageScore
from .rules import RuleSet
from .steering import Steering

__all__ = ["MAX_CHARACTERS", "ArousalDetector", "Stage"]

_log = logging.getLogger(__name__)

Stage = Callable[..., Any]
"""A model or LLM: called with text and context. It answers a ``(score, confidence)`` pair, a
``Judgement``, or something else that ``parse_reply`` takes."""

_BLOCK = 256
"""Texts that are judged together by rules and model."""
_BAD = ("reply", "refused")
"""Kinds of failure that are about the text."""
_LASTING = (*_BAD, "steering")
"""Kinds of failure that asking again would not mend."""
_NOT_ASKED = ("circuit", "budget")
_ALL_BUT_SURE = 0.97
"""From this confidence on a model that finds nothing critical has odds of two to one."""
_SUREST = 0.99
"""A higher confidence weighs no more."""
_DOUBT = -1.5
"""Log-odds: a model may doubt a critical rule, but it does not know all words."""
_LEAST = 1e-6
"""Of a probability, so that it has odds."""


@dataclass(slots=True)
class _Opinion:
    """What the stages have said of a text so far."""

    text: str
    shown: str
    """The text without what speaks to its judge."""
    context: str
    evidence: tuple[Evidence, ...]
    stages: list[StageScore] = field(default_factory=list)
    modelled: Logits | None = None
    """Log-odds of important and critical, as our own model sees them."""
    problems: list[str] = field(default_factory=list)
    reply: Reply | None = None
    """The LLM's."""
    pending: bool = False
    """It may answer yet, when asked again."""
    bad_reply: bool = False
    unanswered: bool = False

    def add(self, name: StageName, reply: Reply) -> None:
        self.stages.append(StageScore(name, reply.score, reply.confidence))


_Voice = tuple[float, float, float]
"""Score, confidence and weight."""
_Question = tuple[_Opinion, dict[str, Any]]
"""What the model is asked about, and its further arguments."""


class ArousalDetector:
    """How critical is a text? Rules first, then a local model, an LLM only where those are unsure.

    Parameters
    ----------
    rules : RuleSet, str, Path or None
        A compiled rule set, or the path of a rule file; None: the rules that come with Flashbulb.
    model : callable, "default" or None
        A local model, called for every text with ``(text, context)``; it gets the text's embedding
        too if it takes an argument `vector`. It answers a ``(score, confidence)`` pair, or an
        object with these attributes. By default the :class:`ArousalModel` that comes with
        Flashbulb; None: no model.
    llm : LLMJudge, callable, LangChain chat model or None
        Asked when the cheaper stages are unsure, and to confirm a flashbulb; the policy says from
        where. What is no :class:`LLMJudge` becomes one, see :func:`as_judge`.
    policy : Policy or None
        Gives the thresholds of the floor, when an LLM is asked, and how stages are weighted.
    deferred : bool
        True: an LLM is not asked by `detect`, which says ``deferred`` instead where it would have
        been; :meth:`settle` asks it. ``Memory`` stores first then, and asks in
        :meth:`Memory.rescore`.

    Notes
    -----
    The score of several stages is their mean weighted by confidence: by the odds ``c / (1 - c)``
    that a stage is right, so that one that is sure outvotes one that has seen nothing. A model
    that finds nothing critical has even odds, two to one if it is all but sure: it does not know
    all words. Rules in which nothing spoke have no say beside a model. Rules and an
    :class:`ArousalModel` are one stage here: the log-odds of the rules' confidence are added to the
    model's, of critical or of important as the rules say, and taken from both where they say
    neither (a logarithmic opinion pool, Genest and Zidek 1986).
    ``arousal_weighting="equal"`` of the policy is the published form, the plain mean of all.

    A stage that fails, or answers anything but finite numbers in [0, 1], is left out: reported
    through ``logging``, in the result's ``fallback`` and in :meth:`statistics`. What of a text or
    context tells its judge what to answer is shown to no stage. A text of more
    than ``MAX_CHARACTERS`` is judged by its two ends. Safe to use from several threads.

    Examples
    --------
    >>> detector = ArousalDetector()
    >>> detector.detect("Production system is down").score >= 0.8
    True
    """

    def __init__(
        self,
        rules: RuleSet | str | Path | None = None,
        model: Stage | Literal["default"] | None = "default",
        llm: Judge | Stage | None = None,
        *,
        policy: Policy | None = None,
        deferred: bool = False,
    ) -> None:
        if rules is None:
            rules = RuleSet.default()
        elif isinstance(rules, (str, Path)):
            rules = RuleSet.load(rules)
        elif not isinstance(rules, RuleSet):
            raise TypeError(f"rules must be a RuleSet, a path or None, got {rules!r}")
        if isinstance(model, str) and model == "default":
            model = ArousalModel.default()
        if model is not None and not callable(model):
            raise TypeError(f"model must be callable, 'default' or None, got {model!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy or None, got {policy!r}")
        if not isinstance(deferred, bool):
            raise TypeError(f"deferred must be a bool, got {deferred!r}")
        self._matcher = RuleMatcher(rules)
        self._steering = Steering(rules)
        self._model = model
        self._model_takes_vector = model is not None and _takes(model, "vector")
        # What the rules have read the model need not read again.
        self._model_takes_reading = isinstance(model, ArousalModel) and model.rules is rules
        self._llm = None if llm is None else as_judge(llm)
        self._policy = policy if policy is not None else Policy()
        self._deferred = deferred
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._troubles: dict[str, str] = {}
        """The kind of each stage's last failure, until it answers again."""

    def detect(
        self, text: str, context: str = "", *, vector: Any = None, cache: Cache | None = None
    ) -> ArousalResult:
        """Judge ``text``.

        Parameters
        ----------
        text : str
            What is to be remembered. It is data: nothing in it instructs the detector.
        context : str
            What surrounds it. Each stage gets it; to the rules it only tells what is not real: a
            drill, fiction, a quotation.
        vector : array, optional
            The embedding of the text, for a model that wants it.
        cache : Cache, optional
            Where an LLM's answers are kept, in place of its own cache.

        Returns
        -------
        ArousalResult

        Raises
        ------
        TypeError
            When text or context is no str.
        """
        return self.detect_many([text], [context], vectors=[vector], cache=cache)[0]

    def detect_many(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Any] | None = None,
        cache: Cache | None = None,
    ) -> list[ArousalResult]:
        """Judge many texts; an LLM is asked about several at a time."""
        return self._judge(texts, contexts, vectors, cache, ask=not self._deferred)

    @property
    def model(self) -> Stage | None:
        """The local model, if there is one."""
        return self._model

    def shown(self, text: str) -> str:
        """What model and LLM see of a text: not what tells its judge what to answer."""
        check_str(text, "text")
        return self._steering.without(text)

    @property
    def asks_llm(self) -> bool:
        """Whether there is an LLM."""
        return self._llm is not None

    async def adetect(
        self, text: str, context: str = "", *, vector: Any = None, cache: Cache | None = None
    ) -> ArousalResult:
        """As :meth:`detect`, in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.detect, text, context, vector=vector, cache=cache)

    def settle(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Any] | None = None,
        cache: Cache | None = None,
    ) -> list[ArousalResult]:
        """As :meth:`detect_many`, and an LLM is asked even by a deferred detector."""
        return self._judge(texts, contexts, vectors, cache, ask=True)

    def statistics(self) -> dict[str, int]:
        """Counts since this detector was made.

        ``judged`` texts, how many an LLM was ``asked`` about, how often it ``answered``, how many
        were ``deferred``; and the fallbacks by cause: ``fallback.model``, ``fallback.deadline``,
        ``fallback.circuit``, ``fallback.budget``, ``fallback.server``, ``fallback.reply``,
        ``fallback.refused``,        ``fallback.steering``, ``fallback.error``.
        """
        with self._lock:
            return dict(self._counts)

    def _judge(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None,
        vectors: Sequence[Any] | None,
        cache: Cache | None,
        *,
        ask: bool,
    ) -> list[ArousalResult]:
        texts = check_items(texts, "texts")
        surroundings = [""] * len(texts) if contexts is None else check_items(contexts, "contexts")
        vectors = None if vectors is None else check_items(vectors, "vectors", "arrays")
        for name, values in (("contexts", surroundings), ("vectors", vectors)):
            if values is not None and len(values) != len(texts):
                raise ValueError(f"expected {len(texts)} {name}, got {len(values)}")
        for item in (*texts, *surroundings):
            if not isinstance(item, str):
                raise TypeError(f"text and context must be str, got {type(item).__name__}")
        given = [None] * len(texts) if vectors is None else vectors
        opinions: list[_Opinion] = []
        for start in range(0, len(texts), _BLOCK):
            block = slice(start, start + _BLOCK)
            opinions += self._cheap(texts[block], surroundings[block], given[block])
        results = [self._combine(opinion) for opinion in opinions]
        unsure = [i for i, result in enumerate(results) if self._is_for_llm(result)]
        if not unsure:
            pass
        elif ask:
            at_a_time(
                AT_A_TIME,
                lambda opinion: self._ask(opinion, cache),
                [opinions[i] for i in unsure],
            )
            for i in unsure:
                results[i] = self._combine(opinions[i])
        else:
            for i in unsure:
                results[i] = replace(results[i], deferred=True)
        self._count(judged=len(results), deferred=0 if ask else len(unsure))
        return results

    def _cheap(
        self, texts: Sequence[str], contexts: Sequence[str], vectors: Sequence[Any]
    ) -> list[_Opinion]:
        """The rules and the model."""
        opinions: list[_Opinion] = []
        asked: list[_Question] = []
        for text, context, vector in zip(texts, contexts, vectors, strict=True):
            shown, places = self._steering.divided(text)
            around = self._steering.without(context) if context else ""
            reading = self._matcher.read(shown or text)
            ruled = self._matcher.judge(reading, around)
            evidence = ruled.evidence
            if shown and shown != text:
                evidence = tuple(_in_place(each, text, places) for each in evidence)
            opinion = _Opinion(text, shown, around, evidence)
            opinion.stages.append(StageScore("rules", ruled.score, ruled.confidence))
            if self._model is not None and (shown or not text):
                named: dict[str, Any] = {}
                if self._model_takes_vector and shown == text:  # it is that of the whole text
                    named["vector"] = vector
                if self._model_takes_reading:
                    named["reading"] = reading
                asked.append((opinion, named))
            opinions.append(opinion)
        for question, answer in zip(asked, self._at_once(asked), strict=True):
            self._take(*question, answer)
        return opinions

    def _at_once(self, asked: Sequence[_Question]) -> Sequence[ModelJudgement | None]:
        """What our own model says of several texts; None: it is to be asked about each alone."""
        if len(asked) > 1 and isinstance(self._model, ArousalModel):
            try:
                return self._model.judge_many(
                    [opinion.shown for opinion, _ in asked],
                    [opinion.context for opinion, _ in asked],
                    vectors=[named.get("vector") for _, named in asked],
                    readings=[named.get("reading") for _, named in asked],
                )
            except Exception:  # because of one of them, perhaps
                _log.debug("the arousal model is asked about each text alone", exc_info=True)
        return [None] * len(asked)

    def _take(
        self, opinion: _Opinion, named: dict[str, Any], answer: ModelJudgement | None
    ) -> None:
        """Add what the model says; it is asked now if it has given no answer yet."""
        assert self._model is not None
        try:
            said = answer or self._model(opinion.shown, opinion.context, **named)
            own = isinstance(said, ModelJudgement)
            reply = Reply(said.score, said.confidence) if own else parse_reply(said)
            opinion.add("model", reply)
            if own:
                opinion.modelled = _logits(said.important, said.critical)
            self._troubles.pop("model", None)
        except Exception as error:
            self._fall_back(opinion, "model", "model", error)

    def _is_for_llm(self, cheap: ArousalResult) -> bool:
        """Whether the cheaper stages are unsure, or would make a flashbulb."""
        policy = self._policy
        if self._llm is None:
            return False
        if cheap.score >= policy.flashbulb_threshold:
            return policy.llm_confirms_flashbulbs
        if policy.llm_unsure_low < cheap.score < policy.llm_unsure_high:
            return True
        return cheap.confidence < policy.llm_unsure_confidence

    def _ask(self, opinion: _Opinion, cache: Cache | None) -> None:
        assert self._llm is not None
        self._count(asked=1)
        try:
            if not opinion.shown:
                raise NoAnswer("steering", "all of the text tells its judge what to answer")
            opinion.reply = self._llm.judge(
                opinion.shown, opinion.context, about=opinion.text, cache=cache
            )
        except Exception as error:
            kind = error.kind if isinstance(error, NoAnswer) else "error"
            opinion.pending = kind not in _LASTING
            opinion.bad_reply = kind in _BAD
            opinion.unanswered = opinion.pending and kind not in _NOT_ASKED
            self._fall_back(opinion, "llm", kind, error)
        else:
            opinion.add("llm", opinion.reply)
            self._count(answered=1)
            self._troubles.pop("llm", None)

    def _fall_back(self, opinion: _Opinion, name: str, kind: str, error: Exception) -> None:
        what = str(error) or type(error).__name__
        opinion.problems.append(f"{name}: {what}")
        with self._lock:
            self._counts[f"fallback.{kind}"] += 1
            news = self._troubles.get(name) != kind
            self._troubles[name] = kind
        _log.log(
            # The second failure of a kind in a row is no news; statistics() counts it.
            logging.WARNING if news else logging.DEBUG,
            "the arousal %s is left out: %s",
            name,
            what,
            exc_info=None if isinstance(error, (NoAnswer, ValueError)) else error,
        )

    def _combine(self, opinion: _Opinion) -> ArousalResult:
        stages = opinion.stages
        speaking = [stage for stage in stages if stage.confidence > 0.0] or stages[:1]
        if self._policy.arousal_weighting == "equal":
            voices = [(stage.score, stage.confidence, 1.0) for stage in speaking]
        else:
            voices = self._voices(opinion, speaking)
        score, confidence = _mean(voices)
        reply = opinion.reply
        return ArousalResult(
            score=score,
            source=speaking[0].name if len(speaking) == 1 else "combined",
            confidence=confidence,
            stability_floor=self._policy.floor_for(score),
            evidence=opinion.evidence,
            reasoning=None if reply is None else reply.reasoning,
            consequentiality=None if reply is None else reply.consequentiality,
            surprise=None if reply is None else reply.surprise,
            stages=tuple(stages),
            fallback="; ".join(opinion.problems) or None,
            deferred=opinion.pending,
            bad_reply=opinion.bad_reply,
            unanswered=opinion.unanswered,
        )

    def _voices(self, opinion: _Opinion, stages: Sequence[StageScore]) -> list[_Voice]:
        """The stages weighed by their odds; the rules and our own model are one voice."""
        rules, *others = stages
        if opinion.modelled is not None:
            score = self._pooled(rules, opinion.modelled)
            stages = [StageScore("model", score, max(score, 1.0 - score)), *others[1:]]
        elif rules.score <= BASE_SCORE and any(stage.name == "model" for stage in others):
            stages = others
        return [(stage.score, stage.confidence, _weight(stage)) for stage in stages]

    def _pooled(self, rules: StageScore, model: Logits) -> float:
        """What the model says, moved by what the rules say."""
        important, critical = model
        if rules.score > BASE_SCORE:
            sure = math.log(_odds(rules.confidence))
            if rules.score >= self._policy.flashbulb_threshold:
                critical = max(critical, _DOUBT) + sure
            elif rules.score >= self._policy.important_threshold:
                important += sure
            else:
                important, critical = important - sure, critical - sure
        important, critical = probabilities((important, critical))
        return critical + IMPORTANT_SCORE * important

    def _count(self, **changes: int) -> None:
        with self._lock:
            for name, count in changes.items():
                if count:
                    self._counts[name] += count


def _in_place(evidence: Evidence, text: str, places: Sequence[int]) -> Evidence:
    """Evidence of what was shown of a text, with its place in the text."""
    start, end = places[evidence.start], places[evidence.end - 1] + 1
    return replace(evidence, start=start, end=end, matched=text[start:end])


def _mean(voices: Sequence[_Voice]) -> tuple[float, float]:
    """The score of these voices together, and the confidence in it."""
    if len(voices) == 1:
        return voices[0][:2]
    total = score = spread = sure = 0.0
    for own, confidence, weight in voices:
        total += weight
        score += weight * own
        sure = max(sure, confidence)
    score /= total
    for own, _, weight in voices:
        spread += weight * abs(own - score)
    sure *= 1.0 - spread / total
    return min(max(score, 0.0), 1.0), min(max(sure, 0.0), 1.0)


def _logits(important: float, critical: float) -> Logits:
    """Log-odds of two probabilities against the rest."""
    rest = max(1.0 - important - critical, _LEAST)
    return math.log(max(important, _LEAST) / rest), math.log(max(critical, _LEAST) / rest)


def _weight(stage: StageScore) -> float:
    """Odds, except where a model says only that it has found nothing."""
    odds = _odds(stage.confidence)
    if stage.name == "model" and stage.score < 0.5:
        return min(odds, 1.0 if stage.confidence < _ALL_BUT_SURE else 2.0)
    return odds


def _odds(confidence: float) -> float:
    confidence = min(confidence, _SUREST)
    return confidence / (1.0 - confidence)


def _takes(function: Stage, parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return False
