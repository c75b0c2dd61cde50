"""The policy: every constant, its bounds, and that Python and the core mean the same."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from flashbulb import Policy, _core

FIELDS = {field.name: field for field in dataclasses.fields(Policy)}
NUMBERS = [name for name, field in FIELDS.items() if field.type in ("float", "int")]

# The published constants, from the design; every other default is one of the protective bounds.
PUBLISHED = {
    "decay_law": "clamp",
    "decay_rate_per_day": 0.1,
    "decay_salience_damping": 0.5,
    "asymptotic_decay_rate_per_day": 0.097,
    "flashbulb_threshold": 0.8,
    "flashbulb_floor": 0.7,
    "important_threshold": 0.5,
    "important_floor": 0.4,
    "access_boost": 0.1,
    "access_salience_gain": 0.5,
    "rif_similarity": 0.7,
    "rif_strength": 0.05,
    "rif_max_salience": 0.7,
    "open_task_boost": 0.2,
    "completed_task_penalty": 0.1,
    "vividness_weight": 0.3,
    "recency_weight": 0.1,
    "recency_days": 30.0,
    "surprise_threshold": 3.0,
    "surprise_min_samples": 30,
    "surprise_neighbours": 10,
    "importance_surprise_weight": 0.6,
    "importance_novelty_weight": 0.4,
    "novelty_days": 7.0,
}
WITHOUT_PROTECTION = {
    "strength_interval_seconds": 0.0,
    "reinforce_similarity_margin": math.inf,
    "open_task_salience": 0.0,
    "completion_lowers_floor": False,
    "lexical_weight": 0.0,
    "surprise_relative_sd_floor": 0.0,
    "surprise_max_salience": 1.0,
    "max_surprise_pin_share": 1.0,
    "surprise_form": "raw",
    "arousal_weighting": "equal",
    "llm_unsure_low": 0.2,
    "llm_unsure_confidence": 0.0,
    "llm_confirms_flashbulbs": False,
}


def test_published_constants() -> None:
    values = Policy.published().to_dict()
    for name, value in {**PUBLISHED, **WITHOUT_PROTECTION}.items():
        assert values[name] == value, name
    for term in ("vividness", "critical_question", "recency"):
        assert values[f"{term}_ramp_start"] == values[f"{term}_ramp_end"]  # off


def test_the_defaults_are_the_published_constants_with_protection() -> None:
    default, published = Policy().to_dict(), Policy.published().to_dict()
    for name in PUBLISHED:
        assert default[name] == published[name], name
    for name in WITHOUT_PROTECTION:
        assert default[name] != published[name], name


def test_the_core_has_the_same_fields_and_defaults() -> None:
    assert _core.Policy().to_dict() == Policy().of_core()


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_reaches_the_core(name: str) -> None:
    policy = Policy()
    value = getattr(policy, name)
    for other in ("asymptotic", "equal", "raw", not value, 0.45, 0.9, 1, 2, -0.5, 17, 170):
        try:
            changed = dataclasses.replace(policy, **{name: other})
        except (TypeError, ValueError):
            continue
        if other != value:
            break
    else:
        pytest.fail(f"nothing else fits {name}")
    assert _core.Policy(**changed.of_core()).to_dict() == changed.of_core()
    assert changed != policy


def test_the_core_refuses_unknown_fields() -> None:
    with pytest.raises(TypeError, match="unknown policy field 'half_life'"):
        _core.Policy(half_life=3.0)
    with pytest.raises(TypeError, match="half_life"):
        Policy(half_life=3.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, -math.inf, -1e-9, "0.1", None, True, 1j, [0.1]])
def test_no_field_takes_what_is_no_number(name: str, value: Any) -> None:
    if value == -1e-9 and FIELDS[name].type == "float" and "ramp_start" in name:
        value = -1.5
    with pytest.raises((TypeError, ValueError), match=name):
        Policy(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_python_and_the_core_share_their_bounds(name: str) -> None:
    # What Python lets through, the core takes; what the core refuses, Python has refused.
    for value in (0, 1, 2, 0.5, 1.0, 1.0000001, 1e-9, 1e-10, 1e3, 1001.0, 1e12, 2e12, math.inf):
        try:
            policy = Policy(**{name: value})
        except (TypeError, ValueError):
            continue
        _core.Policy(**policy.of_core())


@pytest.mark.parametrize("name", [n for n in NUMBERS if FIELDS[n].type == "float"])
def test_only_what_may_be_unbounded_takes_infinity(name: str) -> None:
    unbounded = {
        "near_duplicate_cosine",
        "strength_interval_seconds",
        "reinforce_similarity_margin",
        "surprise_threshold",
    }
    if name in unbounded:
        assert getattr(Policy(**{name: math.inf}), name) == math.inf
    else:
        with pytest.raises(ValueError, match=name):
            Policy(**{name: math.inf})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decay_law": "linear"}, "decay_law"),
        ({"decay_law": None}, "decay_law"),
        ({"arousal_weighting": "odds"}, "arousal_weighting"),
        ({"llm_unsure_low": 1.1}, "llm_unsure_low"),
        ({"completion_lowers_floor": 1}, "completion_lowers_floor"),
        ({"surprise_form": "z"}, "surprise_form must be 'calibrated' or 'raw', got 'z'"),
        ({"flashbulb_rate": 0.51}, "flashbulb_rate"),
        ({"surprise_window": 99}, "surprise_window"),
        ({"surprise_min_samples": 30.0}, "surprise_min_samples"),
        ({"surprise_min_samples": 1}, "surprise_min_samples"),
        ({"surprise_neighbours": 0}, "surprise_neighbours"),
        ({"important_threshold": 0.81}, "important_threshold"),
        ({"flashbulb_threshold": 0.4}, "important_threshold"),
        ({"important_floor": 0.71}, "important_floor"),
        ({"recency_days": 0.0}, "recency_days"),
        ({"novelty_days": 0.0}, "novelty_days"),
        ({"vividness_ramp_start": 0.5, "vividness_ramp_end": 0.4}, "vividness_ramp_end"),
        ({"vividness_ramp_start": 0.5, "vividness_ramp_end": 0.5000001}, "vividness_ramp_end"),
        ({"recency_ramp_start": 0.0, "recency_ramp_end": 5e-324}, "recency_ramp_end"),
        ({"recency_ramp_start": -1.1, "recency_ramp_end": 0.0}, "recency_ramp_start"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Policy(**changes)


@pytest.mark.parametrize(("start", "end"), [(0.5, 0.4), (0.5, 0.5000001), (0.0, 5e-324)])
def test_the_core_refuses_a_ramp_that_is_a_step(start: float, end: float) -> None:
    for term in ("vividness", "recency"):
        with pytest.raises(ValueError, match=f"{term}_ramp_end"):
            _core.Policy(**{f"{term}_ramp_start": start, f"{term}_ramp_end": end})


def test_a_policy_is_immutable_and_comes_back_from_its_dict() -> None:
    policy = Policy(decay_law="asymptotic", access_boost=0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.access_boost = 0.3  # type: ignore[misc]
    assert Policy(**policy.to_dict()) == policy
    assert hash(policy) == hash(Policy(**policy.to_dict()))


@pytest.mark.parametrize(
    ("floor", "after"), [(1.0, 0.4), (0.7, 0.4), (0.69, 0.0), (0.4, 0.0), (0.2, 0.0), (0.0, 0.0)]
)
def test_completion_lowers_the_floor_by_one_class(floor: float, after: float) -> None:
    assert _core.Policy().floor_after_completion(floor) == after
    keeping = _core.Policy(completion_lowers_floor=False)
    assert keeping.floor_after_completion(floor) == floor


@pytest.mark.parametrize(("salience", "clamp"), [(0.0, 0.1), (0.5, 0.075), (1.0, 0.05)])
def test_decay_rate(salience: float, clamp: float) -> None:
    assert _core.Policy().decay_rate(salience) == pytest.approx(clamp)
    assert _core.Policy(decay_law="asymptotic").decay_rate(salience) == 0.097


def test_the_threshold_of_surprise_follows_the_form() -> None:
    assert Policy.published().surprise_z() == 3.0
    assert Policy().surprise_z() == pytest.approx(2.3263, abs=1e-4)
    assert Policy(flashbulb_rate=0.05).surprise_z() == pytest.approx(1.6449, abs=1e-4)
    assert Policy(flashbulb_rate=0.0).surprise_z() == math.inf
    assert Policy(surprise_form="raw", surprise_threshold=4.0).surprise_z() == 4.0
