"""The demo: ninety days of messages of a small shop, and what is remembered of them at the end.

``stream.csv`` and ``questions.toml`` were written and frozen before any ranking ran on them.
"""

from __future__ import annotations

from flashbulb.demo.run import Answer, Demo, Ranked, run_demo
from flashbulb.demo.scenario import Message, Question, Scenario, load_scenario

__all__ = [
    "Answer",
    "Demo",
    "Message",
    "Question",
    "Ranked",
    "Scenario",
    "load_scenario",
    "run_demo",
]
