"""How critical a text is: rules now, a local model and an LLM where they are given."""

from .detector import MAX_CHARACTERS, ArousalDetector, Judgement, Stage
from .result import ArousalResult, Evidence
from .rules import Rule, RuleSet

__all__ = [
    "MAX_CHARACTERS",
    "ArousalDetector",
    "ArousalResult",
    "Evidence",
    "Judgement",
    "Rule",
    "RuleSet",
    "Stage",
]
