"""Runs a rule set over a text: matches, scopes, score and confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from .result import Evidence
from .rules import Rule, RuleSet
from .sentence import Sentence, sentences
from .text import Folded, fold, unwrapped

__all__ = ["MAX_CHARACTERS", "Reading", "RuleMatcher", "RuleScore"]

MAX_CHARACTERS = 1_000_000
"""Of a longer text the first and the last half of this are read."""

BASE_SCORE = 0.05
"""Score of a text in which no rule speaks."""

_CORROBORATION = 0.01
_MAX_CORROBORATION = 0.04
_SURE = 0.8
"""Confidence of the rules where one that names none decides: of the texts of the corpus in which a
critical rule speaks, four of five are critical."""
_MOST_AGREEING = 3
"""So many further critical rules double the odds of that, each (measured there too)."""
_MAX_EVIDENCE = 16
_MAX_MATCHES = 24
"""Places at which one rule is tried in one segment."""

_NEGATION_REACH = 7
_DOUBT_REACH = 12
_ITEM = 3
"""Tokens of an item of a list."""
_SUFFIX_REACH = 4
_SURROUNDINGS = 16
"""Tokens on each side of a match in which its sentence may say that it is none: further off, in a
text without stops, something else is spoken of."""
_SILENCE_REACH = 10
"""The same for the classes that silence a rule."""
_RESOLUTION_BLOCK_REACH = 4
_COSMETIC_REACH = 6
_CAUSE_REACH = 4
"""Tokens from "was" to the cause that it names."""


@dataclass(frozen=True, slots=True)
class RuleScore:
    """What the rules say about a text."""

    score: float
    confidence: float
    evidence: tuple[Evidence, ...]


@dataclass(slots=True)
class _Finding:
    """A rule that matched in a sentence, before the neighbouring sentences had their say."""

    rule: Rule
    start: int
    end: int
    scopes: tuple[str, ...]


@dataclass(slots=True)
class _SentenceFindings:
    findings: list[_Finding] = field(default_factory=list)
    resolves: bool = False
    drill: bool = False


@dataclass(frozen=True, slots=True)
class _Roles:
    """The classes of the rule file that the scopes are made of."""

    negator: int
    postnegator: int
    suffix_negator: int
    doubt: int
    that: int
    nearly: int
    alternative: int
    data: int
    private_data: int
    attack: int
    weak_attack: int
    victim: int
    prenegator: int
    seeming: int
    merely: int
    after_all: int
    identity: int
    set_off: int
    alarm_word: int
    harmless: int
    harmless_cause: int
    first_person: int
    in_at: int
    conditional: int
    supposition: int
    modal: int
    inverted: int
    wish: int
    wished_when: int
    cosmetic: int
    mention: int
    reporting: int
    fiction: int
    drill: int
    planned: int
    past: int
    resolved: int
    unresolving: int
    asking: int
    trial: int
    quiet: int
    quiet_minor: int
    harm: int
    head: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A text divided by a rule set."""

    text: str
    folded: Folded
    parts: list[tuple[int, str, list[Sentence]]]
    """What is read of the folded text: where it begins, the piece, its sentences."""


class RuleMatcher:
    """Scores texts with a rule set. Holds no state between texts."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self._roles = _Roles(**{f.name: rules.classes.get(f.name, 0) for f in fields(_Roles)})

    def read(self, text: str) -> Reading:
        """Divide a text; linear in its length up to ``MAX_CHARACTERS``."""
        folded = Folded(unwrapped(text))
        spans = [(0, folded.text)]
        if len(folded.text) > MAX_CHARACTERS:
            half = MAX_CHARACTERS // 2
            spans = [(0, folded.text[:half]), (len(folded.text) - half, folded.text[-half:])]
        parts = [(offset, part, list(sentences(part, self.rules))) for offset, part in spans]
        return Reading(text, folded, parts)

    def score(self, text: str, context: str = "") -> RuleScore:
        """Score one text, see :meth:`judge`."""
        return self.judge(self.read(text), context)

    def judge(self, reading: Reading, context: str = "") -> RuleScore:
        """Score a text that was read.

        A context can only lower the score: of what it says is no event ("fire drill", "from a
        novel"), the text tells none.
        """
        text, folded = reading.text, reading.folded
        around = fold(context) if "framed" in self.rules.caps else ""
        found: list[tuple[float, int, int, _Finding]] = []
        known = unknown = 0
        for offset, piece, divided in reading.parts:
            previous = _SentenceFindings()
            pending: list[_SentenceFindings] = []
            for sentence in divided:
                known += sentence.known
                unknown += sentence.unknown
                current = self._examine(sentence)
                self._across(previous, current)
                pending.append(previous)
                previous = current
            pending.append(previous)
            for item in pending:
                for finding in item.findings:
                    if (
                        around
                        and "framed" not in finding.rule.immune
                        and self.rules.is_unreal(around, piece[finding.start : finding.end])
                    ):
                        finding.scopes += ("framed",)
                    weight = self._weight(finding)
                    found.append((weight, finding.start + offset, finding.end + offset, finding))
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        del found[_MAX_EVIDENCE:]
        evidence = []
        for weight, start, end, finding in found:
            first, last = folded.origin(start, end)
            evidence.append(
                Evidence(first, last, text[first:last], finding.rule.name, weight, finding.scopes)
            )
        sure = found[0][3].rule.confidence if found else None
        return _summarise(evidence, known, unknown, sure)

    def _weight(self, finding: _Finding) -> float:
        weight = finding.rule.weight
        caps = self.rules.caps
        severe = weight >= 0.8
        for scope in finding.scopes:
            cap = caps[scope]
            if scope in ("resolved", "past") and not severe:
                # What was minor is nothing once it is over.
                cap = min(cap, caps.get("resolved_minor", cap))
            weight = min(weight, cap)
        return weight

    def _examine(self, sentence: Sentence) -> _SentenceFindings:
        result = _SentenceFindings()
        present = sentence.present
        if present & self._roles.resolved:
            result.resolves = any(True for _ in self._resolutions(sentence))
        result.drill = bool(present & self._roles.drill) and sentence.segments[-1] == 0
        if not present & self.rules.needed:
            return result
        segments: dict[int, list[int]] = {}
        needed = self.rules.needed
        for index, classes in enumerate(sentence.classes):
            if classes & needed:
                segments.setdefault(sentence.segments[index], []).append(index)
        for segment, hot in segments.items():
            union = present
            if sentence.segments[-1] or sentence.segments[0]:
                union = 0
                for index, classes in enumerate(sentence.classes):
                    if sentence.segments[index] == segment:
                        union |= classes
            for rule in self.rules.candidates(union):
                best: _Finding | None = None
                for match in self._matches(rule, sentence, hot):
                    if rule.unless and self._silenced(rule, sentence, match):
                        continue
                    scopes = self._scopes(rule, sentence, match, union)
                    start = min(sentence.starts[i] for i in match)
                    end = max(sentence.ends[i] for i in match)
                    finding = _Finding(rule, start, end, scopes)
                    if best is None or self._weight(finding) > self._weight(best):
                        best = finding
                    if not scopes:
                        break
                if best is not None:
                    result.findings.append(best)
        return result

    def _matches(self, rule: Rule, sentence: Sentence, hot: list[int]) -> Iterator[tuple[int, ...]]:
        places = [[i for i in hot if sentence.classes[i] & part] for part in rule.parts]
        positions = sentence.positions
        left = _MAX_MATCHES

        def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(chosen) == len(places):
                yield chosen
                return
            for i in places[len(chosen)]:
                if i in chosen or (rule.ordered and chosen and i < chosen[-1]):
                    continue
                span = [positions[j] for j in (*chosen, i)]
                if max(span) - min(span) <= rule.within:
                    yield from extend((*chosen, i))

        for match in extend(()):
            first = match[0]
            if rule.start and first != sentence.clause_start(first):
                continue
            yield match
            left -= 1
            if not left:
                return

    @staticmethod
    def _silenced(rule: Rule, sentence: Sentence, match: tuple[int, ...]) -> bool:
        touched = {sentence.clauses[i] for i in match}
        return any(
            sentence.classes[i] & rule.unless and sentence.clauses[i] in touched
            for i in _around(sentence, match, _SILENCE_REACH)
        )

    def _scopes(
        self, rule: Rule, sentence: Sentence, match: tuple[int, ...], present: int
    ) -> tuple[str, ...]:
        """The names of the scopes that this match stands in."""
        scopes = []
        if self._negates(rule, sentence, match):
            scopes.append("negated")
        if self._hypothetical_in(sentence, match, present) or (
            rule.group == "technical" and self._wished(sentence, match)
        ):
            scopes.append("hypothetical")
        if any(sentence.quoted[i] for i in match):
            if present & self._roles.mention or not present & self._roles.reporting:
                scopes.append("quoted")
        elif self._precedes(sentence, match, self._roles.mention):
            scopes.append("mentioned")
        after = match[-1] + 1
        if (
            after < len(sentence.classes)
            and sentence.classes[after] & self._roles.head
            and sentence.clauses[after] == sentence.clauses[match[-1]]
            and sentence.positions[after] == sentence.positions[match[-1]] + 1
        ):
            scopes.append("compound")
        if present & self._roles.cosmetic and self._is_cosmetic(sentence, match):
            scopes.append("cosmetic")
        if len(sentence.classes) > _SURROUNDINGS:
            present = 0
            for i in _around(sentence, match):
                present |= sentence.classes[i]
        if present & self._roles.fiction:
            scopes.append("fiction")
        if present & self._roles.drill:
            scopes.append("drill")
        if present & self._roles.planned:
            scopes.append("planned")
        if present & self._roles.past:
            scopes.append("past")
        if self._resolves(sentence, match):
            scopes.append("resolved")
        if sentence.question and self._is_question(sentence, match):
            scopes.append("question")
        if rule.group == "technical" and present & self._roles.trial:
            scopes.append("trial")
        first = sentence.classes[sentence.opening]
        if first & self._roles.quiet or (first & self._roles.quiet_minor and rule.weight < 0.8):
            scopes.append("quiet_log")
        return tuple(s for s in scopes if s in self.rules.caps and s not in rule.immune)

    def _negates(self, rule: Rule, sentence: Sentence, match: tuple[int, ...]) -> bool:
        classes, clauses, positions = sentence.classes, sentence.clauses, sentence.positions
        own, focus = set(match), match[-1]
        opening = sentence.opening
        if classes[opening] & self._roles.prenegator:
            return sentence.segments[opening] == sentence.segments[focus]
        for index, value in enumerate(classes):
            if (
                value & self._roles.negator
                and index not in sentence.used
                # "No customer was hacked": part of the match, and negates it.
                and (index not in own or value & self._roles.victim)
            ):
                if (
                    index < focus
                    and clauses[index] == clauses[focus]
                    and positions[focus] - positions[index] <= _NEGATION_REACH
                ) or self._lists(sentence, index, focus):
                    return True
            elif value & self._roles.suffix_negator and index not in own:
                # Japanese: the ending of the verb, in the clause itself.
                if (
                    clauses[index] == clauses[focus]
                    and 0 < positions[index] - positions[focus] <= _SUFFIX_REACH
                ):
                    return True
            elif (
                # "The breach never happened": the whole segment before it.
                value & self._roles.postnegator
                and index not in own
                and index > min(match)
                and sentence.segments[index] == sentence.segments[focus]
            ):
                return True
        return (
            self._doubted(rule, sentence, match)
            or self._only_seemed(sentence, match)
            or self._explained(sentence, match)
        )

    def _lists(self, sentence: Sentence, first: int, focus: int) -> bool:
        """Whether a list goes from one token to the clause of another: "no A, B or C was"."""
        alternative, clauses = self._roles.alternative, sentence.clauses
        if first >= focus or not sentence.present & alternative:
            return False
        between = range(first + 1, focus)
        if not any(
            sentence.classes[i] & alternative and clauses[i] == clauses[focus] for i in between
        ):
            return False
        sizes: dict[int, int] = {}
        for i in between:
            sizes[clauses[i]] = sizes.get(clauses[i], 0) + 1
        return all(size <= _ITEM for clause, size in sizes.items() if clause != clauses[focus])

    def _doubted(self, rule: Rule, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """ "No sign of ...", "I doubt that ...", and what "almost" happened to no one."""
        roles, present = self._roles, sentence.present
        nearly = roles.nearly
        things = roles.data | roles.private_data | roles.attack | roles.weak_attack
        if rule.group != "technical" and not any(sentence.classes[i] & things for i in match):
            nearly = 0  # who nearly drowned is worth knowing
        if not present & (roles.doubt | nearly):
            return False
        classes, clauses, positions = sentence.classes, sentence.clauses, sentence.positions
        focus = match[-1]
        opening = sentence.clause_start(focus)
        if not classes[opening] & roles.that:
            opening = -1
        for index, value in enumerate(classes):
            if index in match:
                continue
            if (
                value & roles.doubt
                and index < focus
                and positions[focus] - positions[index] <= _DOUBT_REACH
                and (
                    clauses[index] == clauses[focus]
                    # The clause before: "keine Hinweise darauf, dass ..."
                    or (opening > 0 and clauses[opening - 1] == clauses[index])
                )
            ):
                return True
            if value & nearly and index + 1 in match and clauses[index + 1] == clauses[index]:
                return True
        return False

    def _only_seemed(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """ "It sounded like an explosion, but it was only the popcorn." """
        merely, after_all = self._roles.merely, self._roles.after_all
        if not sentence.present & (merely | after_all):
            return False
        last = max(match)
        segment = sentence.segments[last]
        seemed = self._seemed(sentence, match)
        for index in range(last + 1, len(sentence.classes)):
            value = sentence.classes[index]
            if value & merely and (seemed or sentence.segments[index] > segment):
                return True
            if value & after_all and seemed:
                # "We thought the money was gone, it was in the drawer."
                return True
        return False

    def _seemed(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        seeming = self._roles.seeming
        return any(value & seeming for value in sentence.classes[: min(match)])

    def _explained(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """ "The intruder was a moth", "the alarm was set off by toast": the cause is harmless."""
        roles, classes = self._roles, sentence.classes
        present = sentence.present
        if not present & (roles.harmless | roles.harmless_cause):
            return False
        links = roles.identity | roles.merely | roles.after_all
        harmless, blocks = roles.harmless, roles.negator | roles.in_at
        if present & (roles.alarm_word | roles.seeming):
            links |= roles.set_off
            harmless |= roles.harmless_cause
        else:
            # "The one they robbed was our cleaner."
            blocks |= roles.first_person
        for link in range(min(match) + 1, len(classes)):
            if not classes[link] & links:
                continue
            for index in range(link + 1, min(link + 1 + _CAUSE_REACH, len(classes))):
                if classes[index] & blocks or sentence.clauses[index] != sentence.clauses[link]:
                    break
                if classes[index] & harmless and index not in match:
                    return True
        return False

    def _hypothetical_in(self, sentence: Sentence, match: tuple[int, ...], present: int) -> bool:
        marks = self._roles.conditional | self._roles.supposition | self._roles.modal
        if not present & (marks | self._roles.inverted):
            return False
        clauses, focus = sentence.clauses, match[-1]
        for index, value in enumerate(sentence.classes):
            if not value & marks or index in match or index > focus:
                continue
            if value & self._roles.supposition:
                return True
            if clauses[focus] == clauses[index]:
                return True
        # "Should the server fail, ..."
        return bool(sentence.classes[sentence.clause_start(focus)] & self._roles.inverted)

    def _wished(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """ "I want an alert when production is down": what is wished for is no event yet."""
        roles, classes, clauses = self._roles, sentence.classes, sentence.clauses
        if not sentence.present & roles.wish:
            return False
        focus = match[-1]
        for when in range(1, focus):
            if not classes[when] & roles.wished_when or clauses[when] != clauses[focus]:
                continue
            if sentence.positions[when] - sentence.positions[when - 1] > 1:
                continue  # after a comma
            if any(
                classes[i] & roles.wish and clauses[i] == clauses[when - 1] for i in range(when)
            ):
                return True
        return False

    def _is_cosmetic(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """Whether what is harmed is the look of something: "lost its [border]"."""
        last = max(match)
        return any(
            sentence.classes[i] & self._roles.cosmetic
            and sentence.clauses[i] == sentence.clauses[last]
            and sentence.positions[i] - sentence.positions[last] <= _COSMETIC_REACH
            for i in range(min(match), len(sentence.classes))
        )

    def _precedes(self, sentence: Sentence, match: tuple[int, ...], wanted: int) -> bool:
        first = min(match)
        segment = sentence.segments[first]
        return any(
            sentence.classes[i] & wanted and sentence.segments[i] == segment for i in range(first)
        )

    def _resolutions(self, sentence: Sentence) -> Iterator[int]:
        """Tokens that say that something is over, and not that it should be."""
        blocks = self._roles.unresolving | self._roles.negator
        for index, value in enumerate(sentence.classes):
            if not value & self._roles.resolved:
                continue
            if not any(
                sentence.classes[i] & blocks and sentence.clauses[i] == sentence.clauses[index]
                for i in range(max(0, index - _RESOLUTION_BLOCK_REACH), index)
            ):
                yield index

    def _resolves(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """A resolution in the segment of the match, or in a later one ("... but is back")."""
        segment = sentence.segments[match[0]]
        return any(
            sentence.segments[i] >= segment and i not in match
            for i in self._resolutions(sentence)
            if sentence.segments[i] == segment or self._only_resolution(sentence, i)
        )

    def _only_resolution(self, sentence: Sentence, index: int) -> bool:
        segment = sentence.segments[index]
        return not any(
            sentence.segments[i] == segment and value & self._roles.harm
            for i, value in enumerate(sentence.classes)
        )

    def _is_question(self, sentence: Sentence, match: tuple[int, ...]) -> bool:
        """A yes-no question asks whether it is so; "why is it down?" takes it for granted."""
        first = sentence.classes[sentence.clause_start(match[-1])]
        return bool(first & self._roles.asking)

    @staticmethod
    def _across(previous: _SentenceFindings, current: _SentenceFindings) -> None:
        """What a sentence does to the one before it, and a drill to the one after it."""
        if current.resolves and not any(not f.scopes for f in current.findings):
            for finding in previous.findings:
                if "resolved" not in finding.rule.immune:
                    finding.scopes += ("resolved",)
        if current.drill or previous.drill:
            for finding in (*previous.findings, *current.findings):
                if "drill" not in finding.scopes and "drill" not in finding.rule.immune:
                    finding.scopes += ("drill",)


def _around(sentence: Sentence, match: tuple[int, ...], reach: int = _SURROUNDINGS) -> range:
    """The tokens that are near enough to a match to be about it."""
    return range(
        max(0, min(match) - reach),
        min(len(sentence.classes), max(match) + 1 + reach),
    )


def _summarise(evidence: list[Evidence], known: int, unknown: int, sure: float | None) -> RuleScore:
    """Score and confidence; `sure` is the confidence that the strongest rule names."""
    share = known / (known + unknown) if known + unknown else 0.0
    if not evidence or evidence[0].weight <= BASE_SCORE:
        # Nothing spoke: as sure as the words are familiar.
        return RuleScore(BASE_SCORE, round(0.3 + 0.5 * share, 3), tuple(evidence))
    best = evidence[0]
    supporters = {e.rule for e in evidence[1:] if not e.scopes and e.weight >= 0.5} - {best.rule}
    score = min(1.0, best.weight + min(_MAX_CORROBORATION, _CORROBORATION * len(supporters)))
    if best.weight < 0.8:
        # Support never lifts a text over a threshold.
        score = min(score, 0.79) if best.weight >= 0.5 else min(score, 0.49)
    scoped = any(e.scopes for e in evidence)
    if best.scopes:
        # Whether what surrounds a text is true of it, the rules cannot see.
        confidence = 0.5 if "framed" in best.scopes else 0.6
    elif score >= 0.8:
        agreeing = {e.rule for e in evidence[1:] if not e.scopes and e.weight >= 0.8} - {best.rule}
        base = _SURE if sure is None else sure
        odds = base * 2 ** min(len(agreeing), _MOST_AGREEING)
        confidence = 0.65 if scoped and not agreeing else odds / (odds + 1.0 - base)
    elif sure is not None:
        confidence = sure
    elif scoped:
        confidence = 0.65
    else:
        confidence = 0.75 if score >= 0.5 else 0.5
    return RuleScore(score, confidence, tuple(evidence))
