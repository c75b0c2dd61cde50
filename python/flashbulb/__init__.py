"""Flashbulb: a memory engine for AI agents that remembers what matters.

>>> from flashbulb import Memory
>>> with Memory(":memory:") as memory:
...     _ = memory.remember("The payment system is down", tags=["payments"])
...     [hit.text for hit in memory.recall("what is broken?")]
['The payment system is down']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flashbulb.errors import (
    CorruptStore,
    DimensionMismatch,
    EmbedderMismatch,
    FlashbulbError,
    MemoryNotFound,
    ReadOnlyStore,
    StoreClosed,
    StoreForked,
    StoreLocked,
    StoreUnavailable,
)
from flashbulb.policy import Policy

if TYPE_CHECKING:
    from flashbulb._threads import get_threads, set_threads
    from flashbulb._why_not import WhyNot
    from flashbulb.arousal import ArousalDetector, ArousalResult, LLMJudge
    from flashbulb.checking import Finding, check_store
    from flashbulb.engine import Engine
    from flashbulb.memory import Memory
    from flashbulb.photograph import Extracted, Photographer
    from flashbulb.reconsolidation import Reconsolidation
    from flashbulb.records import Hit, NearDuplicate, Occurrence, Record, Version
    from flashbulb.repairing import Repair, repair_store
    from flashbulb.retention import Retention
    from flashbulb.surprise import Surprise, SurpriseDetector

    __version__: str

__all__ = [
    "ArousalDetector",
    "ArousalResult",
    "CorruptStore",
    "DimensionMismatch",
    "EmbedderMismatch",
    "Engine",
    "Extracted",
    "Finding",
    "FlashbulbError",
    "Hit",
    "LLMJudge",
    "Memory",
    "MemoryNotFound",
    "NearDuplicate",
    "Occurrence",
    "Photographer",
    "Policy",
    "ReadOnlyStore",
    "Reconsolidation",
    "Record",
    "Repair",
    "Retention",
    "StoreClosed",
    "StoreForked",
    "StoreLocked",
    "StoreUnavailable",
    "Surprise",
    "SurpriseDetector",
    "Version",
    "WhyNot",
    "__version__",
    "check_store",
    "get_threads",
    "repair_store",
    "set_threads",
]

# Loaded on first use, so that ``import flashbulb`` costs neither faiss nor the native module.
_LAZY = {
    "ArousalDetector": "flashbulb.arousal",
    "ArousalResult": "flashbulb.arousal",
    "Engine": "flashbulb.engine",
    "Extracted": "flashbulb.photograph",
    "Finding": "flashbulb.checking",
    "Hit": "flashbulb.records",
    "LLMJudge": "flashbulb.arousal",
    "Memory": "flashbulb.memory",
    "NearDuplicate": "flashbulb.records",
    "Occurrence": "flashbulb.records",
    "Photographer": "flashbulb.photograph",
    "Reconsolidation": "flashbulb.reconsolidation",
    "Retention": "flashbulb.retention",
    "Record": "flashbulb.records",
    "Repair": "flashbulb.repairing",
    "Surprise": "flashbulb.surprise",
    "SurpriseDetector": "flashbulb.surprise",
    "Version": "flashbulb.records",
    "WhyNot": "flashbulb._why_not",
    "check_store": "flashbulb.checking",
    "get_threads": "flashbulb._threads",
    "repair_store": "flashbulb.repairing",
    "set_threads": "flashbulb._threads",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("flashbulb")
    elif name in _LAZY:
        try:
            value = getattr(import_module(_LAZY[name]), name)
        except ImportError as error:
            if "_core" not in f"{error.name} {error}":
                raise
            raise ImportError(
                f"Flashbulb's native module could not be loaded ({error}). It is built when the "
                "package is installed: run 'python -m pip install .' (or 'pip install -e .') in "
                "the source folder with a C++20 compiler, with the same Python that imports it, "
                "and do not import from the source folder itself.",
                name="flashbulb._core",
            ) from error
    else:
        raise AttributeError(f"module 'flashbulb' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
