"""Chat completions of any OpenAI-compatible server, whatever it understands, however it fails."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .asking import NoAnswer, TimeLimit
from .prompts import Messages
from .replies import BadReply

__all__ = ["Answer", "Refused", "Server"]

T = TypeVar("T")

_MAX_BYTES = 1_000_000
"""Of one response; more is not read."""
_MAX_TOKENS = 600
_MAX_ATTEMPTS = 3
_FIRST_PAUSE = 0.25
_RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_NOT_UNDERSTOOD = frozenset((400, 415, 422, 501))
_NOT_THE_TEXT = frozenset((401, 402, 403, 404, 405, 408, 409, 425, 429))
"""Of the refusals, those that are not about what was sent."""

_FORMATS = 4


def _format(number: int, schema: Mapping[str, Any]) -> dict[str, Any]:
    """One of the ways to ask for JSON, the strictest first; at last the prompt alone."""
    named = {"name": schema["title"], "strict": True, "schema": schema}
    forms: tuple[dict[str, Any], ...] = (
        {"type": "json_schema", "json_schema": named},
        {"type": "json_object", "schema": schema},
        {"type": "json_object"},
    )
    return {"response_format": forms[number]} if number < len(forms) else {}


class Refused(NoAnswer):
    """The server does not understand the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    content: str
    alternatives: Mapping[str, float] | None
    """Log-probabilities of the likely first tokens, if the server tells them."""


class Server:
    """One model of one server.

    What the server turned out not to understand is not sent to it again.

    Parameters
    ----------
    model : str
    client : openai.OpenAI or None
        None: one is made from `base_url` and `api_key`, at the first question.
    options : mapping
        Further arguments of ``chat.completions.create``, in place of those that are sent.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: str | None,
        client: Any,
        options: Mapping[str, Any],
    ) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key = api_key
        self._given = client
        self._made: Any = None
        self._options = dict(options)
        self._lock = threading.Lock()
        self._format = 0
        self._unwanted: frozenset[str] = frozenset()

    def close(self) -> None:
        """Close the connections of a client that was made here."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def json(
        self,
        messages: Messages,
        schema: Mapping[str, Any],
        limit: TimeLimit,
        spend: Callable[[], None],
        read: Callable[[str], T],
    ) -> T:
        """What `read` makes of an object of the schema, asked for in the strictest way that works.

        After a reply that is none, one less strict way is tried.
        """
        bad = 0
        for tried in range(self._format, _FORMATS):
            asked = {"max_tokens": _MAX_TOKENS, **_format(tried, schema)}
            try:
                answer = self._adapted(asked, messages, limit, spend)
                value = read(answer.content)
            except (Refused, BadReply) as error:
                bad += isinstance(error, BadReply)
                if tried == _FORMATS - 1 or bad == 2:
                    raise
            else:
                self._format = tried
                return value
        raise AssertionError("the last way was none")

    def text(self, messages: Messages, limit: TimeLimit, spend: Callable[[], None]) -> str:
        """What the model says."""
        return self._adapted({"max_tokens": _MAX_TOKENS}, messages, limit, spend).content

    def first_token(
        self, messages: Messages, limit: TimeLimit, spend: Callable[[], None]
    ) -> Answer:
        """Ask for one token and the probabilities of its alternatives."""
        options = {"max_tokens": 1, "logprobs": True, "top_logprobs": 20}
        return self._adapted(options, messages, limit, spend)

    def _adapted(
        self,
        options: Mapping[str, Any],
        messages: Messages,
        limit: TimeLimit,
        spend: Callable[[], None],
    ) -> Answer:
        """Send a request, without what the server names as not supported."""
        unwanted = self._unwanted
        while True:
            request = {"temperature": 0.0, **options, **self._options}
            if "max_tokens" in unwanted and "max_tokens" in request:
                request["max_completion_tokens"] = request["max_tokens"]
            request = {n: v for n, v in request.items() if n not in unwanted and v is not None}
            try:
                answer = self._send(request, messages, limit, spend)
            except Refused as refusal:
                named = {n for n in ("max_tokens", "temperature") if n in str(refusal)}
                if not named - unwanted:
                    raise
                unwanted |= named
            else:
                self._unwanted = unwanted
                return answer

    def _send(
        self,
        request: Mapping[str, Any],
        messages: Messages,
        limit: TimeLimit,
        spend: Callable[[], None],
    ) -> Answer:
        """Send a request, again after what passes."""
        import openai

        client = self._client()
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            spend()
            pause = _FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
            try:
                return _read(client, self.model, request, messages, limit)
            except (NoAnswer, BadReply):
                raise
            except openai.APITimeoutError as error:
                raise limit.passed() from error
            except openai.APIStatusError as error:
                status = error.status_code
                problem = f"HTTP {status}: {_one_line(error)}"
                about_text = status < 500 and status not in _NOT_THE_TEXT
                kind = "refused" if about_text else "server"
                if status in _NOT_UNDERSTOOD:
                    raise Refused(kind, problem) from error
                if status not in _RETRIED:
                    raise NoAnswer(kind, problem) from error
                pause = max(pause, _retry_after(error.response.headers))
            except Exception as error:  # the connection: of openai, or of the client below it
                problem = f"{type(error).__name__}: {_one_line(error)}"
            if attempt < _MAX_ATTEMPTS:
                if pause >= limit.left():
                    raise NoAnswer("server", f"{problem} (no time to ask again)")
                time.sleep(pause)
        raise NoAnswer("server", problem)

    def _client(self) -> Any:
        with self._lock:
            if self._given is not None:
                return self._given.with_options(max_retries=0)
            if self._made is None:
                self._made = _make_client(self._base_url, self._api_key)
            return self._made


def _make_client(base_url: str | None, api_key: str | None) -> Any:
    from openai import OpenAI

    if api_key is None and base_url is not None:
        # A local server wants none, but the client does.
        api_key = os.environ.get("OPENAI_API_KEY") or "none"
    return OpenAI(base_url=base_url, api_key=api_key, max_retries=0)


def _read(
    client: Any, model: str, request: Mapping[str, Any], messages: Messages, limit: TimeLimit
) -> Answer:
    body = bytearray()
    with client.chat.completions.with_streaming_response.create(
        model=model, messages=messages, timeout=limit.left(), **request
    ) as response:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise BadReply(f"the response has more than {_MAX_BYTES:,} bytes")
            limit.left()
    return _answer(bytes(body))


def _answer(body: bytes) -> Answer:
    """The content, and the alternatives of its first token."""
    try:
        values = json.loads(body)
        choice = values["choices"][0]
        message = choice["message"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise BadReply(f"no chat completion but {body[:80]!r}") from error
    if not isinstance(message, dict):
        raise BadReply(f"no message but {message!r:.80}")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        refusal = message.get("refusal")
        content = refusal if isinstance(refusal, str) else ""
    return Answer(content.rpartition("</think>")[2], _alternatives(choice.get("logprobs")))


def _alternatives(logprobs: Any) -> dict[str, float] | None:
    try:
        first = logprobs["content"][0]
        found = [first, *first["top_logprobs"]]
        return {str(entry["token"]): float(entry["logprob"]) for entry in found}
    except (LookupError, TypeError, ValueError):
        return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait; 0 if it does not say, or not in seconds."""
    try:
        seconds = float(headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
    return seconds if seconds > 0.0 else 0.0
