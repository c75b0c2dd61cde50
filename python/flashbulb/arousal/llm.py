"""LLMs as a stage of the cascade: any OpenAI-compatible server, callable or LangChain model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from .asking import (
    Budget,
    Cache,
    Circuit,
    Clock,
    MemoryCache,
    NoAnswer,
    TimeLimit,
    cache_key,
    within,
)
from .replies import BadReply, Reply, parse_reply

__all__ = ["CallableJudge", "Judge", "as_judge", "from_callable"]

DEADLINE_SECONDS = 20.0


class Judge:
    """Asks an LLM how critical a text is: with a deadline, a circuit, a budget and a cache.

    A subclass says in `_ask` how it is asked.

    Parameters
    ----------
    name : str or None
        What the answers are cached under, with the version of the prompt; None: not cached.
    deadline : float
        Seconds for one judgement, all repeats included.
    budget_per_hour : int or None
        At most so many requests in any hour.
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
        if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not deadline > 0:
            raise ValueError(f"deadline must be a number of seconds above 0, got {deadline!r}")
        if budget_per_hour is not None and (
            isinstance(budget_per_hour, bool)
            or not isinstance(budget_per_hour, int)
            or budget_per_hour < 0
        ):
            raise ValueError(
                f"budget_per_hour must be an int of 0 or more, got {budget_per_hour!r}"
            )
        self._name = name
        self._seconds = float(deadline)
        self._clock = clock
        self._circuit = Circuit(clock=clock)
        self._budget = Budget(budget_per_hour, clock)
        self._cache: Cache = MemoryCache() if cache is None else cache

    def judge(self, text: str, context: str = "", *, cache: Cache | None = None) -> Reply:
        """The LLM's judgement, or the one it gave before.

        Raises
        ------
        NoAnswer
            If there is none by the deadline, whatever the cause.
        """
        kept = self._cache if cache is None else cache
        key = None if self._name is None else cache_key(self._name, text, context)
        if key is not None and (known := _remembered(kept, key)) is not None:
            return known
        self._circuit.enter()
        limit = TimeLimit(self._seconds, self._clock)
        try:
            reply = within(limit, lambda: self._ask(text, context, limit))
        except NoAnswer as error:
            if error.kind == "budget":
                self._circuit.left()
            else:
                self._circuit.failed()
            raise
        except BadReply as error:
            self._circuit.failed()
            raise NoAnswer("reply", str(error)) from error
        except Exception:
            self._circuit.failed()
            raise
        except BaseException:
            self._circuit.left()
            raise
        self._circuit.succeeded()
        if key is not None:
            _remember(kept, key, reply)
        return reply

    def _ask(self, text: str, context: str, limit: TimeLimit) -> Reply:
        raise NotImplementedError


class CallableJudge(Judge):
    """A function of ``(text, context)`` as a judge; it answers what ``parse_reply`` takes."""

    def __init__(
        self, function: Callable[..., Any], name: str | None = None, **limits: Any
    ) -> None:
        super().__init__(name, **limits)
        self._function = function

    def _ask(self, text: str, context: str, limit: TimeLimit) -> Reply:
        self._budget.spend()
        return parse_reply(self._function(text, context))


def from_callable(function: Callable[..., Any], *, name: str | None = None, **limits: Any) -> Judge:
    """Any function as an LLM.

    Parameters
    ----------
    function : callable
        Called with text and context. Answers a number, a ``(score, confidence)`` pair, a mapping
        or an object with a ``score``, or a str that holds such a mapping as JSON.
    name : str, optional
        Its answers are cached under this name; without one they are not.
    **limits
        ``deadline``, ``budget_per_hour``, ``cache`` and ``clock`` as for :class:`Judge`.
    """
    if not callable(function):
        raise TypeError(f"expected a function of text and context, got {function!r}")
    return CallableJudge(function, name, **limits)


def as_judge(llm: Any) -> Judge:
    """A judge from a judge, a LangChain chat model or a callable."""
    if isinstance(llm, Judge):
        return llm
    if not callable(llm):
        raise TypeError(f"llm must be an LLMJudge, a chat model, a callable or None, got {llm!r}")
    return from_callable(llm)


def _remembered(cache: Cache, key: str) -> Reply | None:
    try:
        value = cache.get(key)
        return None if value is None else parse_reply(value)
    except Exception:
        return None


def _remember(cache: Cache, key: str, reply: Reply) -> None:
    with contextlib.suppress(Exception):
        cache.put(key, reply.to_json())
