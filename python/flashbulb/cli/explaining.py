"""What ``flashbulb explain`` and ``flashbulb why-not`` print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from flashbulb._why_not import score_terms
from flashbulb.cli.output import columns, photograph_lines
from flashbulb.drawing import printable, shortened, stacked_bar, underlined

if TYPE_CHECKING:
    from flashbulb._why_not import WhyNot
    from flashbulb.arousal import ArousalDetector, ArousalResult
    from flashbulb.photograph import Extracted
    from flashbulb.policy import Policy
    from flashbulb.records import Hit

__all__ = [
    "arousal_values",
    "explained_arousal",
    "explained_rank",
    "model_opinion",
    "photograph_lines",
    "why_values",
]

_BAR = 20
_MOST_EVIDENCE = 12
_MOST_WORDS = 8
_LEAST_WEIGHT = 0.05


@dataclass(frozen=True, slots=True)
class ModelOpinion:
    """What a model of Flashbulb says of a text, and which words made it say so."""

    critical: float
    """Probability."""
    important: float
    words: list[tuple[str, float]]
    """The strongest, and what each adds to the log-odds of critical."""


def model_opinion(detector: ArousalDetector, text: str, context: str) -> ModelOpinion | None:
    """None if the detector's model is none of Flashbulb's, or was shown nothing of the text."""
    from flashbulb.arousal import ArousalModel

    model, shown = detector.model, detector.shown(text)
    if not isinstance(model, ArousalModel) or not shown:
        return None
    judged = model(shown, detector.shown(context))
    words = [item for item in model.contributions(shown) if abs(item[1]) >= _LEAST_WEIGHT]
    return ModelOpinion(judged.critical, judged.important, words[:_MOST_WORDS])


def arousal_values(
    result: ArousalResult, opinion: ModelOpinion | None, photograph: Mapping[str, Extracted]
) -> dict[str, Any]:
    return {
        **asdict(result),
        "model": None if opinion is None else asdict(opinion),
        "photograph": {name: asdict(each) for name, each in photograph.items()},
    }


def explained_arousal(
    out: Console,
    text: str,
    result: ArousalResult,
    opinion: ModelOpinion | None,
    photograph: Mapping[str, Extracted],
    policy: Policy,
) -> None:
    """The text with what spoke underlined, each stage, what moved it, the photograph."""
    ascii_only = out.options.ascii_only
    spans = [(each.start, each.end) for each in result.evidence]
    for line in underlined(text, spans, out.width, ascii_only=ascii_only):
        out.print(Text(line), soft_wrap=True)
    out.print()
    kind = "mundane"
    if result.score >= policy.flashbulb_threshold:
        kind = "a flashbulb"
    elif result.stability_floor > 0:
        kind = "important"
    out.print(
        Text.assemble(
            ("arousal ", ""),
            (f"{result.score:.2f}", "bold"),
            f", {kind}; confidence {result.confidence:.2f}, "
            f"floor {result.stability_floor:g}, from {result.source}",
        )
    )
    stages = columns(("stage", "left"), ("score", "left"), ("confidence", "right"))
    for stage in result.stages:
        bar = stacked_bar([stage.score], 1.0, _BAR, ascii_only=ascii_only)
        bar.append(" " * (_BAR - len(bar)))
        score = Text(f"{stage.score:.2f} ").append_text(bar)
        stages.add_row(stage.name, score, f"{stage.confidence:.2f}")
    if result.stages:
        out.print(stages)
    if opinion is not None:
        _model(out, opinion)
    _evidence(out, result)
    for name, value in (
        ("reasoning", result.reasoning),
        ("left out", result.fallback),
        ("deferred", "an LLM is still to be asked" if result.deferred else None),
    ):
        if value:
            out.print(Text(f"{name}: {printable(value)}"))
    if photograph:
        out.print(photograph_lines(photograph))


def _model(out: Console, opinion: ModelOpinion) -> None:
    out.print(
        f"model: critical {opinion.critical:.2f}, important {opinion.important:.2f}; by word:"
    )
    words = [
        Text.assemble(printable(word), " ", (f"{weight:+.1f}", "red" if weight > 0 else "green"))
        for word, weight in opinion.words
    ]
    out.print(Columns(words or ["none"], padding=(0, 2)))
    out.print()


def _evidence(out: Console, result: ArousalResult) -> None:
    if not result.evidence:
        out.print(Text("no rule spoke", style="dim"))
        return
    table = columns(
        ("evidence", "left"), ("weight", "right"), ("scopes", "left"), ("words", "left")
    )
    for each in result.evidence[:_MOST_EVIDENCE]:
        words = shortened(each.matched, 60)
        scopes = Text(", ".join(each.scopes) or "a fact", style="yellow" if each.scopes else "dim")
        table.add_row(printable(each.rule), f"{each.weight:.2f}", scopes, words)
    out.print(table)
    if len(result.evidence) > _MOST_EVIDENCE:
        out.print(Text(f"and {len(result.evidence) - _MOST_EVIDENCE} more", style="dim"))


def why_values(why: WhyNot) -> dict[str, Any]:
    def terms(hit: Hit | None) -> dict[str, Any] | None:
        if hit is None:
            return None
        names = ("score", "similarity", "cosine", "lexical", "vividness_bonus", "recency_bonus")
        return {"id": hit.id, "text": hit.text, **{name: getattr(hit, name) for name in names}}

    return {
        "id": why.id,
        "k": why.k,
        "found": why.found,
        "rank": why.rank,
        "passing": why.passing,
        "excluded": list(why.excluded),
        "below_min_score": why.below_min_score,
        "own": terms(why.own),
        "kth": terms(why.kth),
    }


def explained_rank(out: Console, why: WhyNot) -> None:
    """The verdict; then the terms of the memory beside those of the hit at place k."""
    out.print(Text(why.verdict(), style="bold"))
    if why.own is None:
        return
    pair = [why.own] if why.kth is None or why.kth.id == why.id else [why.own, why.kth]
    ascii_only = out.options.ascii_only
    scale = max(hit.score for hit in pair)
    table = columns(("id", "right"), ("score", "left"), ("text", "left"))
    for hit in pair:
        *terms, score = score_terms(hit).values()
        bar = stacked_bar(terms, scale, _BAR, ascii_only=ascii_only)
        table.add_row(str(hit.id), Text(f"{score:.4f} ").append_text(bar), shortened(hit.text, 200))
    out.print(table)
    if len(pair) == 1:
        return
    table = columns(
        ("term", "left"),
        (f"memory {pair[0].id}", "right"),
        (f"memory {pair[1].id}", "right"),
        ("difference", "right"),
    )
    for term in why.terms():
        style = "bold" if term.name == "score" else ""
        values = (f"{term.own:.4f}", f"{term.kth:.4f}", f"{term.difference:+.4f}")
        table.add_row(term.name, *values, style=style)
    out.print(table)
