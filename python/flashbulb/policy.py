"""Every constant of Flashbulb's laws, in one object."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any, Literal, get_args

__all__ = ["Policy"]

DecayLaw = Literal["clamp", "asymptotic"]
ArousalWeighting = Literal["confidence", "equal"]
SurpriseForm = Literal["calibrated", "raw"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The constants of the laws. Immutable; make a variant with ``dataclasses.replace``.

    The defaults hold the published constants together with the bounds that keep the laws from
    doing harm; :meth:`published` gives the original laws without those bounds.

    Strengths, saliences, floors and weights are plain numbers; the unit of every time is in the
    name of its field.
    """

    # Decay
    decay_law: DecayLaw = "clamp"
    """``clamp``: max(v0·exp(-λt), f).  ``asymptotic``: f + (v0 - f)·exp(-λt)."""
    decay_rate_per_day: float = 0.1
    """λ of the clamp law for salience 0."""
    decay_salience_damping: float = 0.5
    """λ of the clamp law is ``decay_rate_per_day · (1 - decay_salience_damping · salience)``."""
    asymptotic_decay_rate_per_day: float = 0.097
    """λ of the asymptotic law; it does not depend on salience."""

    # Stability floors
    flashbulb_threshold: float = 0.8
    """Salience from which a memory gets ``flashbulb_floor``; arousal from which it is one."""
    flashbulb_floor: float = 0.7
    important_threshold: float = 0.5
    important_floor: float = 0.4

    # Arousal
    arousal_weighting: ArousalWeighting = "confidence"
    """``confidence``: stages weigh by the odds ``c / (1 - c)`` of their confidence.  ``equal``: all
    the same (published)."""
    llm_unsure_low: float = 0.25
    llm_unsure_high: float = 0.8
    """An LLM is asked when the score of the cheaper stages lies between. Published: 0.2, 0.8."""
    llm_unsure_confidence: float = 0.55
    """It is asked when they are less confident than this. Published: 0."""
    llm_confirms_flashbulbs: bool = True
    """It is asked about each would-be flashbulb. Published: False."""

    # Access (reinforcement)
    access_boost: float = 0.1
    access_salience_gain: float = 0.5
    """v rises by ``access_boost · (1 + access_salience_gain · salience)``, up to 1."""
    strength_interval_seconds: float = 3600.0
    """Access and suppression move a memory's strength at most once in this time. Published: 0."""
    reinforce_similarity_margin: float = 0.1
    """A recall reinforces only hits whose similarity is this close to its best. Published: inf."""

    # Retrieval-induced forgetting
    rif_similarity: float = 0.7
    """Cosine to an accessed memory above which a memory competes with it."""
    rif_strength: float = 0.05
    """v falls by ``rif_strength · cosine``, down to the floor."""
    rif_max_salience: float = 0.7
    """Memories of a higher salience are never suppressed."""
    rif_runners_up: int = 20
    """How many ranks behind the k hits of a recall are looked at as competitors."""

    # Duplicates
    near_duplicate_cosine: float = 0.95
    """From this cosine on, the nearest memory is reported beside a new one. Above 1 nothing is
    looked for. Published: inf."""

    # Reconsolidation
    reconsolidation_protects_above: float = 0.7
    """A memory of a higher salience may only be enhanced: its text stays, with an addition."""
    reconsolidation_boost: float = 0.05
    """An enhancement raises v by this, up to 1."""

    # Zeigarnik effect (tasks only)
    open_task_boost: float = 0.2
    """Effective vividness of an open task is ``min(v + open_task_boost · urgency, 1)``."""
    completed_task_penalty: float = 0.1
    """Effective vividness of a completed task is ``max(v - completed_task_penalty, floor)``."""
    open_task_salience: float = 0.5
    """An open task counts with ``max(salience, open_task_salience · urgency)``. Published: 0."""
    completion_lowers_floor: bool = True
    """Completing a task lowers its floor by one class. Published: False."""

    # Retrieval score
    vividness_weight: float = 0.3
    recency_weight: float = 0.1
    recency_days: float = 30.0
    """Time constant of the recency term ``recency_weight · exp(-days / recency_days)``."""
    vividness_ramp_start: float = 0.2
    vividness_ramp_end: float = 0.5
    """The vividness bonus is scaled by a factor that rises linearly from 0 at the first similarity
    to 1 at the second, so that an emergency of another topic does not lead everywhere. Equal
    values switch a ramp off (published)."""
    critical_question_ramp_start: float = 0.0
    critical_question_ramp_end: float = 0.1
    """The same for a question that asks for what is critical: an emergency answers it, whatever
    it is about."""
    recency_ramp_start: float = 0.3
    recency_ramp_end: float = 0.6
    """The same for the recency bonus: of memories that answer alike the newer one leads, but
    what is merely new does not."""
    lexical_weight: float = 0.3
    """w in ``similarity = (1 - w)·cosine + w·lexical``. Published: 0."""
    lexical_saturation: float = 8.0
    """c in ``lexical = b / (b + c)`` of a BM25 score b."""

    # Surprise and importance
    surprise_form: SurpriseForm = "calibrated"
    """``calibrated``: z is the normal deviate of the tail probability among recent events.
    ``raw``: z = (x - mean) / sd of all events (published)."""
    flashbulb_rate: float = 0.01
    """``calibrated``: the share of ordinary events that may become flashbulbs by surprise, and so
    the threshold of z: 2.33 for 1 %. 0: none."""
    surprise_threshold: float = 3.0
    """``raw``: z from which an event is a flashbulb by surprise."""
    surprise_window: int = 3000
    """``calibrated``: about so many recent events count."""
    surprise_min_samples: int = 30
    """No flashbulb by surprise before this many events; in mode ``combined`` a third more."""
    surprise_relative_sd_floor: float = 0.01
    """The standard deviation in z is at least this share of the mean. Published: 0."""
    surprise_neighbours: int = 10
    """Mode ``neighbours``: mean distance to so many nearest memories."""
    surprise_max_salience: float = 0.5
    """Surprise alone never gives a higher salience. Published: 1."""
    importance_surprise_weight: float = 0.6
    importance_novelty_weight: float = 0.4
    """importance = 0.6·sigmoid(z) + 0.4·T with temporal novelty T."""
    novelty_days: float = 7.0
    """τ in ``T = 1 - exp(-Δ/τ)``."""
    max_surprise_pins: int = 20
    max_surprise_pin_share: float = 0.001
    """At most ``max(max_surprise_pins, max_surprise_pin_share · rows)`` are pinned by surprise
    alone; then what surprises more takes the place of what surprised least, which stays a flashbulb
    but fades. What is a flashbulb by arousal too is pinned although that many are."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (choices := _CHOICES.get(field.name)) is not None:
                if not isinstance(value, str) or value not in choices:
                    expected = " or ".join(map(repr, choices))
                    raise ValueError(f"{field.name} must be {expected}, got {value!r:.80}")
                continue
            if field.type == "bool":
                if not isinstance(value, bool):
                    raise TypeError(f"{field.name} must be a bool, got {value!r}")
                continue
            if field.type == "int":
                if not isinstance(value, int) or isinstance(value, bool):
                    raise TypeError(f"{field.name} must be an int, got {value!r}")
            elif not isinstance(value, (int, float)) or isinstance(value, bool):
                raise TypeError(f"{field.name} must be a number, got {value!r}")
            low, high = _BOUNDS.get(field.name, _NON_NEGATIVE)
            if not low <= value <= high:
                raise ValueError(f"{field.name} must be in [{low}, {high}], got {value!r}")
        if self.important_threshold > self.flashbulb_threshold:
            raise ValueError("important_threshold must not exceed flashbulb_threshold")
        if self.important_floor > self.flashbulb_floor:
            raise ValueError("important_floor must not exceed flashbulb_floor")
        for term in ("vividness", "critical_question", "recency"):
            start, end = getattr(self, f"{term}_ramp_start"), getattr(self, f"{term}_ramp_end")
            if end != start and end - start < _NARROWEST_RAMP:
                raise ValueError(
                    f"{term}_ramp_end must equal {term}_ramp_start or exceed it by "
                    f"{_NARROWEST_RAMP}, got {end!r} and {start!r}"
                )

    @classmethod
    def published(cls, **changes: Any) -> Policy:
        """The laws in their original form, without the protective bounds."""
        original: dict[str, Any] = {
            "arousal_weighting": "equal",
            "llm_unsure_low": 0.2,
            "llm_unsure_confidence": 0.0,
            "llm_confirms_flashbulbs": False,
            "near_duplicate_cosine": math.inf,
            "strength_interval_seconds": 0.0,
            "reinforce_similarity_margin": math.inf,
            "open_task_salience": 0.0,
            "completion_lowers_floor": False,
            "vividness_ramp_start": 0.0,
            "vividness_ramp_end": 0.0,
            "critical_question_ramp_end": 0.0,
            "recency_ramp_start": 0.0,
            "recency_ramp_end": 0.0,
            "lexical_weight": 0.0,
            "surprise_form": "raw",
            "surprise_relative_sd_floor": 0.0,
            "surprise_max_salience": 1.0,
            "max_surprise_pin_share": 1.0,
        }
        return cls(**{**original, **changes})

    def floor_for(self, salience: float) -> float:
        """The stability floor that this salience gives."""
        if not isinstance(salience, (int, float)) or isinstance(salience, bool):
            raise TypeError(f"salience must be a number, got {type(salience).__name__}")
        if salience >= self.flashbulb_threshold:
            return self.flashbulb_floor
        if salience >= self.important_threshold:
            return self.important_floor
        return 0.0

    def surprise_z(self) -> float:
        """z from which an event is a flashbulb by surprise, in the form that is in use."""
        if self.surprise_form == "raw":
            return self.surprise_threshold
        rate = self.flashbulb_rate
        return math.inf if rate == 0.0 else -NormalDist().inv_cdf(rate)

    @property
    def critical_question_ramp(self) -> tuple[float, float]:
        """Start and end of the ramp for a question that asks for what is critical."""
        return self.critical_question_ramp_start, self.critical_question_ramp_end

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, as plain values."""
        return asdict(self)

    def of_core(self) -> dict[str, Any]:
        """The fields that the native core knows too: those that its laws need."""
        return {name: value for name, value in asdict(self).items() if name not in _NOT_OF_CORE}


_NOT_OF_CORE = frozenset(
    (
        "arousal_weighting",
        "llm_unsure_low",
        "llm_unsure_high",
        "llm_unsure_confidence",
        "llm_confirms_flashbulbs",
        "critical_question_ramp_start",
        "critical_question_ramp_end",
        "near_duplicate_cosine",
        "reconsolidation_protects_above",
        "reconsolidation_boost",
        "surprise_form",
        "flashbulb_rate",
        "surprise_window",
    )
)

# A narrower ramp would be a step, which the slack of a search cannot follow.
_NARROWEST_RAMP = 1e-6

_CHOICES: dict[str, tuple[Any, ...]] = {
    "decay_law": get_args(DecayLaw),
    "arousal_weighting": get_args(ArousalWeighting),
    "surprise_form": get_args(SurpriseForm),
}
_UNIT = (0.0, 1.0)
_NON_NEGATIVE = (0.0, math.inf)
_FINITE = (0.0, 1e12)
_POSITIVE = (1e-9, 1e12)
_BOUNDS: dict[str, tuple[float, float]] = {
    "decay_rate_per_day": _FINITE,
    "asymptotic_decay_rate_per_day": _FINITE,
    "decay_salience_damping": _UNIT,
    "flashbulb_threshold": _UNIT,
    "flashbulb_floor": _UNIT,
    "important_threshold": _UNIT,
    "important_floor": _UNIT,
    "llm_unsure_low": _UNIT,
    "llm_unsure_high": _UNIT,
    "llm_unsure_confidence": _UNIT,
    "access_boost": _UNIT,
    "access_salience_gain": _FINITE,
    "rif_similarity": _UNIT,
    "rif_strength": _UNIT,
    "rif_max_salience": _UNIT,
    "rif_runners_up": (0, 10_000),
    "reconsolidation_protects_above": _UNIT,
    "reconsolidation_boost": _UNIT,
    "open_task_boost": _UNIT,
    "completed_task_penalty": _UNIT,
    "open_task_salience": _UNIT,
    "vividness_weight": (0.0, 1e3),
    "recency_weight": (0.0, 1e3),
    "recency_days": _POSITIVE,
    "vividness_ramp_start": (-1.0, 1.0),
    "vividness_ramp_end": (-1.0, 1.0),
    "critical_question_ramp_start": (-1.0, 1.0),
    "critical_question_ramp_end": (-1.0, 1.0),
    "recency_ramp_start": (-1.0, 1.0),
    "recency_ramp_end": (-1.0, 1.0),
    "lexical_weight": _UNIT,
    "lexical_saturation": _POSITIVE,
    "flashbulb_rate": (0.0, 0.5),
    "surprise_window": (100, 10**9),
    "surprise_min_samples": (2, 10**9),
    "surprise_relative_sd_floor": _UNIT,
    "surprise_neighbours": (1, 1000),
    "surprise_max_salience": _UNIT,
    "importance_surprise_weight": _UNIT,
    "importance_novelty_weight": _UNIT,
    "novelty_days": _POSITIVE,
    "max_surprise_pins": (0, 10**9),
    "max_surprise_pin_share": _UNIT,
}
