"""How critical a text is: rules now, a local model and an LLM where they are given."""

from .asking import NoAnswer
from .detector import MAX_CHARACTERS, ArousalDetector, Stage
from .llm import Judge, LLMJudge, as_judge, from_callable, from_langchain
from .replies import BadReply, Reply
from .result import ArousalResult, Evidence, StageScore
from .rules import Rule, RuleSet

__all__ = [
    "MAX_CHARACTERS",
    "ArousalDetector",
    "ArousalResult",
    "BadReply",
    "Evidence",
    "Judge",
    "LLMJudge",
    "NoAnswer",
    "Reply",
    "Rule",
    "RuleSet",
    "Stage",
    "StageScore",
    "as_judge",
    "from_callable",
    "from_langchain",
]
