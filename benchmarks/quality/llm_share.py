"""How much of a stream an LLM is asked about, and what the rest costs in accuracy.

    python benchmarks/quality --only llm_share        (needs the extra flashbulb[llm])

5,000 messages, turns of LoCoMo and issues of the trackers, shuffled. The LLM is an oracle behind a
real HTTP server that speaks the OpenAI chat protocol: it knows the labels (Blocker and Critical
issues are critical, everything else is not). Accuracy is the share of messages that are judged as
labelled, critical being a score from the flashbulb threshold on.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from datasets import locomo, tracker
from judging import default_detector, embeddings, stages
from table import Row, at_most, progress

from flashbulb import Policy
from flashbulb.arousal import LLMJudge

MESSAGES = 5000
MOST_SENT = 0.2
MOST_LOST = 0.02
BATCH = 250

_EVENT = re.compile(r"The event:\n(=====.*?=====)\n(.*)\n\1", re.DOTALL)


def stream() -> dict[str, bool]:
    """Messages in their order, and whether they are critical."""
    chooser = random.Random(5000)
    turns = {text: False for each in locomo() for text in each.texts}
    issues = {
        text: priority in ("Blocker", "Critical")
        for project in tracker()
        for text, priority in zip(project.texts, project.priorities, strict=True)
    }
    chosen = chooser.sample(sorted(issues.items()), MESSAGES - len(turns))
    messages = [*turns.items(), *chosen]
    chooser.shuffle(messages)
    return dict(messages)


class Oracle(ThreadingHTTPServer):
    """Answers chat completions from the labels; counts the texts it was asked about."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, labels: dict[str, bool]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.labels = labels

    def is_critical(self, shown: str) -> bool:
        """By the label; what looks like an instruction is cut from a text before it is shown."""
        if shown not in self.labels:
            words = set(shown.split())
            shown = max(self.labels, key=lambda text: len(words & set(text.split())))
        return self.labels[shown]

    def judge(self, request: dict[str, object]) -> dict[str, object]:
        messages = request["messages"]
        assert isinstance(messages, list)
        event = _EVENT.search(messages[-1]["content"])
        assert event is not None
        score = 0.95 if self.is_critical(event[2]) else 0.05
        judgement = {"reasoning": "", "consequentiality": score, "surprise": score, "score": score}
        message = {"role": "assistant", "content": json.dumps(judgement)}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "oracle",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet a response
    server: Oracle

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(self.server.judge(request)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(labels: dict[str, bool]) -> Iterator[str]:
    """The address of an oracle that runs in a thread."""
    with Oracle(labels) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def judged(messages: dict[str, bool], policy: Policy, what: str) -> tuple[float, float, str]:
    """Accuracy, the share that was sent, and the cheap stages."""
    texts = list(messages)
    vectors = embeddings(texts)
    right = 0
    with serving(messages) as url:
        judge = LLMJudge("oracle", base_url=url, mode="scores")
        detector = default_detector(llm=judge, policy=policy)
        for start in range(0, len(texts), BATCH):
            if start % 1000 == 0:
                progress(f"{what}: message {start:,} of {len(texts):,}")
            batch = texts[start : start + BATCH]
            results = detector.detect_many(batch, vectors=vectors[start : start + BATCH])
            for text, result in zip(batch, results, strict=True):
                right += (result.score >= policy.flashbulb_threshold) == messages[text]
        judge.close()
    counts = detector.statistics()
    # A text that is nothing but an instruction is not sent; all else must have been answered.
    unanswered = {n: c for n, c in counts.items() if n.startswith("fallback.")}
    unanswered.pop("fallback.steering", None)
    assert not unanswered, unanswered
    return right / len(texts), counts.get("asked", 0) / len(texts), stages(default_detector())


def rows() -> Iterator[Row]:
    messages = stream()
    share = sum(messages.values()) / len(messages)
    default = Policy()
    everything = replace(default, llm_unsure_confidence=1.0)
    nothing = replace(
        default, llm_unsure_confidence=0.0, llm_unsure_low=1.0, llm_confirms_flashbulbs=False
    )
    accuracy, sent, cheap = judged(messages, default, "the default")
    best, all_sent, _ = judged(messages, everything, "all sent")
    alone, _, _ = judged(messages, nothing, "none sent")
    data = f"tracker + locomo, {len(messages):,}, {share:.1%} critical"
    yield at_most(
        "share of a stream sent to the LLM", data, sent, MOST_SENT, f"{cheap}, default policy"
    )
    yield at_most(
        "accuracy lost against sending all",
        data,
        best - accuracy,
        MOST_LOST,
        f"{accuracy:.3f}; {all_sent:.0%} sent: {best:.3f}; none sent: {alone:.3f}",
    )
