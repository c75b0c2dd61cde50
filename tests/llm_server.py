"""A real HTTP server that speaks the OpenAI chat protocol, well or badly, for the tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OUTAGES = [
    f"The {what} is down."
    for what in (
        "database", "server", "website", "gateway", "network", "payment system", "api", "cluster",
        "checkout", "portal", "terminal", "intranet",
    )
]  # fmt: skip
"""Flashbulbs by the rules, so that an LLM is asked about each."""

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's behaviour says."""

    protocol_version = "HTTP/1.1"
    server: LLMServer

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        request = json.loads(self.rfile.read(length))
        with self.server.lock:
            self.server.requests.append(request)
            behaviour = self.server.behaviour
            if self.server.first:
                behaviour = self.server.first.pop(0)
        try:
            behaviour(self, request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client had enough

    def reply(
        self,
        body: str | bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class LLMServer(ThreadingHTTPServer):
    """`behaviour` answers each request, after those of `first`, once each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.behaviour: Behaviour = says('{"score": 0.9}')
        self.first: list[Behaviour] = []
        self.requests: list[dict[str, Any]] = []
        self.stopping = threading.Event()
        """What hangs waits for this."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away in the middle


@contextmanager
def serving() -> Iterator[LLMServer]:
    with LLMServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


# Behaviours


def completion(content: Any, logprobs: Any = None, **message: Any) -> str:
    """The body of a chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "logprobs": logprobs,
        "finish_reason": "stop",
    }
    return json.dumps({"id": "1", "object": "chat.completion", "created": 1, "choices": [choice]})


def says(content: Any, **message: Any) -> Behaviour:
    """A completion with this content."""
    return lambda handler, request: handler.reply(completion(content, **message))


def sends(body: str | bytes, **named: Any) -> Behaviour:
    """This body, whatever it is."""
    return lambda handler, request: handler.reply(body, **named)


def fails(status: int, message: str = "no", **headers: str) -> Behaviour:
    body = json.dumps({"error": {"message": message}})
    return sends(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def closes(handler: Handler, request: dict[str, Any]) -> None:
    """The connection, without a word."""
    handler.close_connection = True


def breaks_off(handler: Handler, request: dict[str, Any]) -> None:
    """In the middle of the body."""
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def hangs(handler: Handler, request: dict[str, Any]) -> None:
    handler.server.stopping.wait(60)
    handler.close_connection = True


def drips(handler: Handler, request: dict[str, Any]) -> None:
    """One byte at a time, always in time for a timeout between two of them."""
    handler.send_response(200)
    handler.send_header("content-length", "1000000")
    handler.end_headers()
    while not handler.server.stopping.wait(0.02):
        handler.wfile.write(b" ")
    handler.close_connection = True


def floods(handler: Handler, request: dict[str, Any]) -> None:
    """More than anyone wants to read."""
    handler.send_response(200)
    handler.send_header("content-length", str(10**10))
    handler.end_headers()
    while not handler.server.stopping.is_set():
        handler.wfile.write(b" " * 65536)
    handler.close_connection = True


def logprobs(**tokens: float) -> dict[str, Any]:
    """Log-probabilities of the first token as the protocol has them."""
    found = [{"token": token, "logprob": value, "bytes": None} for token, value in tokens.items()]
    return {"content": [{**found[0], "top_logprobs": found}]}
