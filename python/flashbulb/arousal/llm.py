"""LLMs as a stage of the cascade: any OpenAI-compatible server, callable or LangChain model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from inspect import isawaitable, signature
from typing import Any, Literal, TypeVar, get_args

from flashbulb._check import check_mapping, check_number, check_str, check_text, is_one_of

from . import prompts
from .asking import Budget, Cache, Circuit, Clock, MemoryCache, NoAnswer, TimeLimit, within
from .replies import (
    PHOTOGRAPH_SCHEMA,
    SCHEMA,
    BadReply,
    Reply,
    parse_photograph,
    parse_reply,
    probability_of_yes,
)
from .server import Refused, Server

__all__ = ["Judge", "LLMJudge", "as_judge", "asking", "from_callable", "from_langchain"]

DEADLINE_SECONDS = 20.0

T = TypeVar("T")

Mode = Literal["auto", "scores", "yes_no"]


class Judge(ABC):
    """Asks an LLM how critical a text is: with a deadline, a circuit, a budget and a cache.

    A subclass says in `_ask` how. Safe to use from several threads.

    Parameters
    ----------
    name : str or None
        What the answers are cached under, with the version of the prompt; None: not cached.
    deadline : float
        Seconds for one judgement, all repeats included; a photograph has a deadline of its own, so
        that ``Memory.remember`` with both may wait for both. What comes later is not waited for,
        but a server that sends its headers byte by byte keeps a thread until it stops.
    budget_per_hour : int or None
        At most so many requests in any hour of this process.
    cache : Cache or None
        Where answers are kept; None: in RAM. A ``Memory`` keeps them in its store.
    clock : callable
        Seconds that only grow.
    """

    def __init__(
        self,
        name: str | None,
        *,
        deadline: float = DEADLINE_SECONDS,
        budget_per_hour: int | None = None,
        cache: Cache | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        seconds = check_number(deadline, "deadline")
        if not seconds > 0:
            raise ValueError(f"deadline must be a number of seconds above 0, got {deadline!r}")
        if budget_per_hour is not None and (
            isinstance(budget_per_hour, bool)
            or not isinstance(budget_per_hour, int)
            or budget_per_hour < 0
        ):
            raise ValueError(f"budget_per_hour must be 0 or a higher int, got {budget_per_hour!r}")
        self._name = name
        self._seconds = seconds
        self._clock = clock
        self._circuit = Circuit(clock=clock)
        self._budget = Budget(budget_per_hour, clock)
        self._cache: Cache = MemoryCache() if cache is None else cache

    def judge(
        self, text: str, context: str = "", *, about: str | None = None, cache: Cache | None = None
    ) -> Reply:
        """The LLM's judgement, or the one it gave before.

        Parameters
        ----------
        text, context : str
            What the LLM is shown, as data.
        about : str, optional
            The memory's whole text, where `text` is less: a cached answer goes when it is
            forgotten.
        cache : Cache, optional
            In place of the judge's own.

        Raises
        ------
        NoAnswer
            If there is none by the deadline, whatever the cause.
        """
        check_str(text, "text")
        check_str(context, "context")
        kept = self._cache if cache is None else cache
        whole = text if about is None else about
        question = json.dumps([self._name, prompts.VERSION, text, context])
        if self._name is not None and (known := _remembered(kept, whole, question)) is not None:
            return known
        reply = self._guarded(lambda limit: self._ask(text, context, limit))
        if self._name is not None:
            with contextlib.suppress(Exception):
                kept.put(whole, question, reply.to_json())
        return reply

    @abstractmethod
    def _ask(self, text: str, context: str, limit: TimeLimit) -> Reply:
        """The LLM's judgement, or an error that says why there is none."""

    def _guarded(self, question: Callable[[TimeLimit], T]) -> T:
        """The answer, by the deadline; what fails again and again is not asked for a while."""
        self._circuit.enter()
        limit = TimeLimit(self._seconds, self._clock)
        try:
            answer = within(limit, lambda: question(limit))
        except Exception as error:
            if isinstance(error, NoAnswer) and error.kind in ("budget", "refused"):
                self._circuit.left()  # the server is there
            else:
                self._circuit.failed()
            if isinstance(error, BadReply):
                raise NoAnswer("reply", str(error)) from error
            raise
        except BaseException:
            self._circuit.left()
            raise
        self._circuit.succeeded()
        return answer


class LLMJudge(Judge):
    """A model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LM Studio ...

    Needs the extra ``flashbulb[llm]``.

    Parameters
    ----------
    model : str
        The model's name at the server.
    base_url : str, optional
        The server ("http://localhost:11434/v1"); by default that of the `openai` client.
    api_key : str, optional
        By default the environment variable ``OPENAI_API_KEY``; a local server needs none.
    client : openai.OpenAI, optional
        In place of `base_url` and `api_key`. Its own retries are not used.
    mode : {"auto", "scores", "yes_no"}
        ``yes_no`` asks a question of one token and takes ``P(yes) / (P(yes) + P(no))`` from its
        log-probabilities: for small models much the better score, but without reasoning.
        ``scores`` asks for JSON with score, reasoning, consequentiality and surprise, in the
        strictest form that the server understands. ``auto`` takes ``yes_no`` where the server
        tells log-probabilities.
    options : mapping, optional
        Further arguments of ``chat.completions.create``, such as ``{"seed": 1}``; None removes
        one that is sent by default (``temperature``, ``max_tokens``).
    deadline, budget_per_hour, cache, clock
        See :class:`Judge`.

    Raises
    ------
    ImportError
        If the `openai` client is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: Any = None,
        mode: Mode = "auto",
        options: Mapping[str, Any] | None = None,
        deadline: float = DEADLINE_SECONDS,
        budget_per_hour: int | None = None,
        cache: Cache | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"model must be the name of a model, got {model!r}")
        if not is_one_of(mode, get_args(Mode)):
            raise ValueError(f"mode must be 'auto', 'scores' or 'yes_no', got {mode!r:.80}")
        if options is not None:
            check_mapping(options, "options")
        for name, value in (("base_url", base_url), ("api_key", api_key)):
            if value is not None:
                check_str(value, name)
        if client is not None and (base_url is not None or api_key is not None):
            raise ValueError("a client has a base_url and api_key of its own")
        try:
            import_module("openai")  # now, so that no deadline pays for it
        except ImportError as error:
            raise ImportError(
                "an LLM is asked through the openai client: python -m pip install 'flashbulb[llm]'",
                name="openai",
            ) from error
        super().__init__(
            repr([model, _endpoint(base_url, client), mode, sorted((options or {}).items())]),
            deadline=deadline,
            budget_per_hour=budget_per_hour,
            cache=cache,
            clock=clock,
        )
        self._server = Server(
            model, base_url=base_url, api_key=api_key, client=client, options=options or {}
        )
        self._mode = mode
        self._tells_probabilities = mode != "scores"

    def close(self) -> None:
        """Close the connections. The next question opens new ones."""
        self._server.close()

    def photograph(self, text: str, context: str = "") -> dict[str, str]:
        """Who, what, when and where of a text, as far as it says: for ``Photographer(llm=...)``.

        Raises
        ------
        NoAnswer
            As from :meth:`judge`.
        """
        check_str(text, "text")
        check_str(context, "context")
        messages = prompts.photograph(text, context)
        return self._guarded(
            lambda limit: self._server.json(
                messages, PHOTOGRAPH_SCHEMA, limit, self._budget.spend, parse_photograph
            )
        )

    def reply(self, prompt: str) -> str:
        """What the model says to a prompt: for ``Reconsolidation.from_callable``.

        Raises
        ------
        NoAnswer
            As from :meth:`judge`.
        """
        messages = [{"role": "user", "content": check_text(prompt, "prompt")}]
        return self._guarded(lambda limit: self._server.text(messages, limit, self._budget.spend))

    def _ask(self, text: str, context: str, limit: TimeLimit) -> Reply:
        told = True
        if self._tells_probabilities:
            alternatives = self._alternatives(text, context, limit)
            told = alternatives is not None
            reply = None if alternatives is None else probability_of_yes(alternatives)
            if reply is not None:
                return reply
            if self._mode == "yes_no":
                raise BadReply("the server tells no probabilities of yes and no")
        messages = prompts.scores(text, context)
        reply = self._server.json(messages, SCHEMA, limit, self._budget.spend, parse_reply)
        self._tells_probabilities = self._tells_probabilities and told
        return reply

    def _alternatives(
        self, text: str, context: str, limit: TimeLimit
    ) -> Mapping[str, float] | None:
        """Log-probabilities of the first token, if the server tells them."""
        messages = prompts.yes_no(text, context)
        try:
            return self._server.first_token(messages, limit, self._budget.spend).alternatives
        except (Refused, BadReply):
            if self._mode == "yes_no":
                raise
            return None


class _CallableJudge(Judge):
    """A function as a judge; it answers what `parse_reply` takes."""

    def __init__(
        self, function: Callable[..., object], name: str | None, limits: Mapping[str, Any]
    ) -> None:
        super().__init__(name, **limits)
        self._function = asking(function)

    def _ask(self, text: str, context: str, limit: TimeLimit) -> Reply:
        self._budget.spend()
        return parse_reply(self._function(text, context))


def from_callable(
    function: Callable[..., object], *, name: str | None = None, **limits: Any
) -> Judge:
    """Any function as an LLM.

    Parameters
    ----------
    function : callable
        Called with text and context, or with the text if it takes no more; may be async. Answers
        a number, a ``(score, confidence)`` pair, a mapping or an object with a ``score``, or a str
        that holds such a mapping as JSON.
    name : str, optional
        Its answers are cached under this name; without one they are not.
    **limits
        ``deadline``, ``budget_per_hour``, ``cache`` and ``clock``, see :class:`Judge`.
    """
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"expected a function of text and context, got {function!r}")
    return _CallableJudge(function, name, limits)


def from_langchain(model: Any, *, name: str | None = None, **limits: Any) -> Judge:
    """A LangChain chat model as an LLM, asked through its ``with_structured_output``.

    Parameters
    ----------
    model : BaseChatModel
    name : str, optional
        Its answers are cached under this name; by default under the model's own, if it has one.
    **limits
        ``deadline``, ``budget_per_hour``, ``cache`` and ``clock``, see :class:`Judge`.
    """
    if not _is_chat_model(model):
        raise TypeError(f"expected a chat model with with_structured_output, got {model!r:.80}")
    structured = model.with_structured_output(SCHEMA)

    def ask(text: str, context: str) -> object:
        messages = prompts.scores(text, context)
        return structured.invoke([(message["role"], message["content"]) for message in messages])

    own = getattr(model, "model_name", None) or getattr(model, "model", None)
    if name is None and isinstance(own, str):
        name = f"{type(model).__module__}.{type(model).__qualname__}({own})"
    return _CallableJudge(ask, name, limits)


def asking(function: Callable[..., object]) -> Callable[[str, str], object]:
    """A function of a text and what surrounds it; the given one may take less, or be async."""
    takes_context = _takes_context(function)

    def ask(text: str, context: str) -> object:
        answer = function(*((text, context) if takes_context else (text,)))
        return asyncio.run(_awaited(answer)) if isawaitable(answer) else answer

    return ask


def as_judge(llm: Any) -> Judge:
    """A judge from a judge, a LangChain chat model or a callable."""
    if isinstance(llm, Judge):
        return llm
    if _is_chat_model(llm):
        return from_langchain(llm)
    if not callable(llm) or isinstance(llm, type):
        raise TypeError(f"llm must be an LLMJudge, a chat model, a callable or None, got {llm!r}")
    return from_callable(llm)


def _endpoint(base_url: str | None, client: Any) -> str | None:
    """Whose answers are cached: another server may have another model of the same name."""
    if client is not None:
        return str(getattr(client, "base_url", ""))
    return base_url or os.environ.get("OPENAI_BASE_URL")


def _takes_context(function: Callable[..., object]) -> bool:
    try:
        found = signature(function)
    except (TypeError, ValueError):  # builtins without a signature
        return True
    for arguments in (("", ""), ("",)):
        with contextlib.suppress(TypeError):
            found.bind(*arguments)
            return len(arguments) == 2
    raise TypeError(f"expected a function of text and context, got one of {found}")


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _is_chat_model(value: Any) -> bool:
    return all(
        callable(getattr(value, name, None)) for name in ("with_structured_output", "invoke")
    )


def _remembered(cache: Cache, text: str, question: str) -> Reply | None:
    try:
        answer = cache.get(text, question)
        return None if answer is None else parse_reply(answer)
    except Exception:
        return None
