"""How critical a text is: rules, a local model, and an LLM where one is given."""

from .asking import NoAnswer
from .detector import MAX_CHARACTERS, ArousalDetector, Stage
from .llm import Judge, LLMJudge, as_judge, from_callable, from_langchain
from .model import ArousalModel, ModelJudgement
from .replies import BadReply, Reply
from .result import ArousalResult, Evidence, Judgement, StageScore
from .rules import Rule, RuleSet

__all__ = [
    "MAX_CHARACTERS",
    "ArousalDetector",
    "ArousalModel",
    "ArousalResult",
    "BadReply",
    "Evidence",
    "Judge",
    "Judgement",
    "LLMJudge",
    "ModelJudgement",
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
