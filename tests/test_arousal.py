"""Arousal by rules: the judgements, what must not change them, and the combination of stages."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from flashbulb.arousal import (
    MAX_CHARACTERS,
    ArousalDetector,
    ArousalModel,
    ArousalResult,
    RuleSet,
    StageScore,
)
from flashbulb.arousal.lexicon import inflect
from flashbulb.policy import Policy

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("FLASHBULB_DATA", HERE.parent.parent / "shared" / "data"))

RULES = ArousalDetector(model=None)

CRITICAL = [
    "Production system is down",
    "CRITICAL: Payment system is down, users cannot checkout",
    "not urgent, but customer data leaked last night",
    "Remember: my brother is allergic to penicillin.",
    "My father died this morning.",
    "Never give her nuts, they could kill her.",
    "The emergency exit is blocked.",
    "java.lang.OutOfMemoryError: Java heap space",
    "Would you mind checking why our patients' records are publicly visible?",
]
MUNDANE = [
    "This is NOT urgent",
    "Security questions for account recovery",
    "thanks",
    "User prefers dark mode",
    "",
    "   \n\t ",
    "!!!",
    "No data was lost.",
    "The critical path runs through the design review.",
    "Apologies for the intrusion, may I take this chair?",
    "La plante du bureau a soif.",
    "What if the database were deleted?",
    "The unit test expects 'fatal error: disk full'.",
    "De-escalation went well; the escalation policy has a new logo.",
    "I LOVE THIS SONG!!!",
    "DEBUG 0 errors, retry succeeded",
]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


OWN: dict[str, list[str]] = {}
for _row in read(HERE / "data" / "arousal_own.tsv"):
    OWN.setdefault(_row["kind"], []).append(_row["text"])


def f1_and_false_alarms(rows: list[dict[str, str]]) -> tuple[float, int]:
    """F1 of critical against the rest at 0.8, and the mundane texts above it."""
    hits = wrong = false_alarms = 0
    for row in rows:
        found = RULES.detect(row["text"]).score >= 0.8
        critical = row["label"] == "critical"
        hits += found and critical
        wrong += found != critical
        false_alarms += found and row["label"] == "mundane"
    return 2 * hits / (2 * hits + wrong), false_alarms


@pytest.mark.parametrize("text", CRITICAL)
def test_headline_critical(text: str) -> None:
    result = RULES.detect(text)
    assert result.score >= 0.8
    assert result.stability_floor == 0.7
    assert result.source == "rules"


@pytest.mark.parametrize("text", MUNDANE)
def test_headline_mundane(text: str) -> None:
    result = RULES.detect(text)
    assert result.score < 0.3
    assert result.stability_floor == 0.0


def test_own_texts() -> None:
    f1, false_alarms = f1_and_false_alarms(read(HERE / "data" / "arousal_own.tsv"))
    assert f1 >= 0.95
    assert false_alarms == 0


def test_held_out_texts() -> None:
    """Texts that no rule was tuned on; the floor lies a little below what was measured."""
    f1, false_alarms = f1_and_false_alarms(read(HERE / "data" / "arousal_heldout.tsv"))
    assert f1 >= 0.9
    assert false_alarms <= 5


@pytest.mark.parametrize(
    ("batch", "floor", "allowed"),
    [(1, 0.93, 1), (2, 0.92, 3), (3, 0.93, 1), (4, 0.75, 1)],
)
def test_blind_batches(batch: int, floor: float, allowed: int) -> None:
    """Texts in new settings, a third not English, written before their scores were seen.

    At first sight F1 was 0.76, 0.68, 0.74 and 0.78; the causes of the misses of the first three
    batches were repaired, the words of the fourth were not touched.
    """
    f1, false_alarms = f1_and_false_alarms(read(HERE / "data" / f"arousal_blind{batch}.tsv"))
    assert f1 >= floor
    assert false_alarms <= allowed


def test_independent_texts() -> None:
    """Texts by somebody who had not seen the rules, unread by whoever wrote the rules.

    F1 was 0.878 with four false alarms among 52 mundane texts. Rules are not to be mended by
    reading this file: what it measures would be gone.
    """
    f1, false_alarms = f1_and_false_alarms(read(HERE / "data" / "arousal_independent.tsv"))
    assert f1 >= 0.85
    assert false_alarms <= 5


def test_handed_cases() -> None:
    path = SHARED.parent / "cases" / "arousal.tsv"
    if not path.exists():
        pytest.skip(f"no labelled cases at {path}")
    rows = read(path)
    f1, false_alarms = f1_and_false_alarms(rows)
    assert f1 >= 0.9
    assert false_alarms == 0
    means = {
        label: sum(RULES.detect(r["text"]).score for r in rows if r["label"] == label)
        / sum(r["label"] == label for r in rows)
        for label in ("critical", "important", "mundane")
    }
    assert means["critical"] > means["important"] > means["mundane"]


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("There was never a security breach.", "negated"),
        ("If the server crashes, the watchdog restarts it.", "hypothetical"),
        ("He yells 'the server is down' every morning.", "quoted"),
        ("Translate my account was hacked into Dutch.", "mentioned"),
        ("In the drill our network was hacked.", "drill"),
        ("The novel is about a hospital where the server is down.", "fiction"),
        ("The database was down but is back online.", "resolved"),
        ("Production was down. It is fixed now.", "resolved"),
        ("The staging database is down.", "trial"),
        ("Is the database down?", "question"),
        ("DEBUG payment service is down", "quiet_log"),
        ("My wife had a heart attack years ago.", "past"),
        ("The database is offline for planned maintenance.", "planned"),
        ("It looked like a burglar, but it was only the wind.", "negated"),
        ("Fausse alerte, la fumée venait du four.", "negated"),
        ("昨日の停電でけが人は出ていません。", "negated"),
        ("The intruder was a hedgehog.", "negated"),
        ("The break-in alert was set off by a shower.", "negated"),
        ("We thought the money was stolen, it was in the drawer.", "negated"),
        ("L'intrus, c'était le chat.", "negated"),
        ("泥棒かと思ったら猫だった。", "negated"),
        ("Earthquake is what they call the milkshake.", "negated"),
        ("A cyclone wallpaper would suit the nursery.", "compound"),
        ("Say a burglar broke into the house.", "hypothetical"),
        ("Comment dit-on « on nous a cambriolés » en suédois ?", "quoted"),
    ],
)
def test_scope_is_named_and_lowers(text: str, scope: str) -> None:
    result = RULES.detect(text)
    assert result.score < 0.8
    assert any(scope in evidence.scopes for evidence in result.evidence)


@pytest.mark.parametrize(
    "text",
    [
        "The drill is over, but our network was hacked.",
        "The newsletter can wait; the database is down.",
        "I have no idea why the database is down.",
        "The database is down and has not been fixed.",
        "Please fix the database, it is down.",
        "Nobody can log in.",
        "The server isn't responding.",
        "The ransom note says all our files are encrypted.",
        "False alarm in the east wing, yet in the west wing a patient is unconscious.",
        "Das Tor der Feuerwache öffnet sich nicht, die Bremsen greifen nicht.",
        "Les données des patients ont été volées.",
        "Han robado las historias clínicas.",
        "Die Bremse des Schulbusses reagiert seit dem 3. März nicht.",
        "The intruder was not the hedgehog.",
        "The one who was robbed was our cleaner.",
        "The explosion was caused by a candle.",
        "They say the server is down.",
        "Nobody in the harbour has drinking water.",
        "The salaries have not been paid.",
        "The db's gone.",
        "Ma sœur est allergique aux noix.",
    ],
)
def test_scope_ends_where_it_should(text: str) -> None:
    assert RULES.detect(text).score >= 0.8


@pytest.mark.parametrize("text", OWN["undone"])
def test_what_did_not_happen_or_is_over_is_no_flashbulb(text: str) -> None:
    """Negation over several subjects, no sign of it, doubt, nearly, and "but it is back"."""
    assert RULES.detect(text).score < 0.7


@pytest.mark.parametrize("text", OWN["figure_or_frame"])
def test_figures_of_speech_and_wishes_are_no_flashbulbs(text: str) -> None:
    """ "A stroke of luck", a user story, a feature request, what looks wrong on a screen."""
    assert RULES.detect(text).score < 0.7


SCREENS = ("The calendar", "The tooltip", "The search box", "The login page", "The mobile app")
COMPLAINTS = (
    "truncates long names",
    "overlaps the logo",
    "steals the keyboard focus",
    "crashes the layout on narrow screens",
    "exposes the scroll bar",
    "is broken in landscape mode",
    "is cut off at the bottom",
    "deletes the leading zero",
)


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_how_a_screen_looks_is_no_flashbulb(complaint: str) -> None:
    for screen in SCREENS:
        assert RULES.detect(f"{screen} {complaint}.").score < 0.8
        assert RULES.detect(f"{screen} {complaint}, and customer data was leaked.").score >= 0.8


@pytest.mark.parametrize("text", [*OWN["done_after_all"], *OWN["log_with_loss"]])
def test_doubt_and_nearly_end_where_they_should(text: str) -> None:
    assert RULES.detect(text).score >= 0.8


UNREAL = [
    "fire drill",
    "This is only a test.",
    "Dry run of the incident process",
    "a scene from a novel he writes",
    "quoted text to be translated",
    "Einsatzübung der Feuerwehr, nur ein Test",
    "simulacro de evacuación",
    "exercice incendie",
    "消防演习",
]
UNREAL += [
    "fire drill at ten",
    "quote from the script:",
    "Please translate this:",
    "This is only a test of the alert system.",
    "Scene from my novel",
    "fiction",
    "Ein Witz:",
    "翻译：",
]
REAL = ["", "night shift", "This is not a drill.", "The drill is over.", "pager", "at the cinema"]
REAL += [  # a mere mention
    "Please add a unit test for the date parser.",
    "Can you translate this menu?",
    "we only have sample data",
    "The joke about cats",
    "my novel is on page 30",
    "All test cases passed on Tuesday.",
    "I quote 40 euros an hour",
    "Der Roman liegt auf dem Tisch.",
    "La traducción llega mañana.",
    "我在翻译菜单",
]


def test_a_frame_must_be_about_the_event() -> None:
    leaked = "Customer data was leaked last night."
    assert RULES.detect(leaked, "In my novel customer data is leaked.").score < 0.5
    assert RULES.detect(leaked, "I read my novel last night.").score >= 0.8
    assert RULES.detect(leaked, "Please test the import of customer data.").score >= 0.8


@pytest.mark.parametrize("context", UNREAL)
def test_a_context_tells_what_is_no_event(context: str) -> None:
    for text in CRITICAL:
        result = RULES.detect(text, context)
        assert result.score <= 0.3, text
        assert "framed" in result.evidence[0].scopes, text
        assert result.confidence < RULES.detect(text).confidence


@pytest.mark.parametrize("context", REAL)
def test_another_context_changes_nothing(context: str) -> None:
    for text in (*CRITICAL, *MUNDANE):
        assert RULES.detect(text, context) == RULES.detect(text)


@pytest.mark.parametrize("context", [*UNREAL, *CRITICAL, *MUNDANE])
def test_a_context_never_raises_a_score(context: str) -> None:
    for text in (*CRITICAL, *MUNDANE):
        assert RULES.detect(text, context).score <= RULES.detect(text).score


def test_resolved_incident_is_important_and_resolved_trifle_mundane() -> None:
    assert 0.5 <= RULES.detect("The database was down but is back online.").score < 0.8
    assert RULES.detect("The printer was down but is fixed.").score < 0.5


def test_evidence_points_into_the_original_text() -> None:
    text = "Hallo! ＰＲＯＤＵＣＴＩＯＮ  sy\u200dstem — ﬁnally — is\u00a0DOWN…"
    evidence = RULES.detect(text).evidence
    assert evidence
    for item in evidence:
        assert text[item.start : item.end] == item.matched
    assert evidence[0].matched.startswith("ＰＲＯＤ")
    assert evidence[0].matched.endswith("DOWN")


def test_confidence_is_low_for_unknown_words() -> None:
    familiar = RULES.detect("Thanks, see you at lunch on Thursday.").confidence
    strange = RULES.detect("Zqxv brnrl fthagn wgahnagl.").confidence
    assert strange < 0.5 < familiar
    assert RULES.detect("Production is down.").confidence > familiar


def test_huge_text_is_read_at_both_ends() -> None:
    filler = "the meeting room has a new whiteboard and " * (MAX_CHARACTERS // 40 + 1)
    for text in ("Production is down. " + filler, filler + ". Production is down."):
        result = RULES.detect(text)
        assert result.score >= 0.8
        item = result.evidence[0]
        assert text[item.start : item.end] == item.matched


# Stages

ALWAYS = Policy(llm_unsure_low=0.0, llm_unsure_high=1.0, llm_unsure_confidence=1.0)
"""An LLM is asked about everything."""


@dataclass
class Answer:
    score: float
    confidence: float
    reasoning: str | None = None


def alone(stage: str, function: Any) -> dict[str, Any]:
    """The arguments of a detector with no other stage than the rules and this one."""
    return {"model": None, stage: function}


def odds(confidence: float) -> float:
    return confidence / (1.0 - confidence)


def test_stages_are_combined_by_confidence() -> None:
    seen: list[tuple[str, str]] = []

    def llm(text: str, context: str) -> Answer:
        seen.append((text, context))
        return Answer(1.0, 0.9, "a real emergency")

    ruled = RULES.detect("thanks")
    both = ArousalDetector(model=None, llm=llm, policy=ALWAYS).detect(
        "thanks", context="to the nurse"
    )
    assert seen == [("thanks", "to the nurse")]
    rules, total = odds(ruled.confidence), odds(ruled.confidence) + odds(0.9)
    # Tolerance: rounding of one weighted mean.
    assert both.score == pytest.approx((ruled.score * rules + 1.0 * odds(0.9)) / total, abs=1e-12)
    assert both.source == "combined"
    assert both.reasoning == "a real emergency"
    assert both.stages == (*ruled.stages, StageScore("llm", 1.0, 0.9))

    three = ArousalDetector(model=lambda text, context: (0.5, 0.8), llm=llm, policy=ALWAYS)
    assert three.detect("thanks").score == pytest.approx(
        # Rules in which nothing spoke have no say beside a model.
        (odds(0.9) + 0.5 * odds(0.8)) / (odds(0.9) + odds(0.8)),
        abs=1e-12,
    )
    down = "Production is down."
    ruled = RULES.detect(down)
    rules = odds(ruled.confidence)
    for says, weight in ((0.7, odds(0.8)), (0.1, 1.0)):  # what finds nothing has even odds
        two = ArousalDetector(model=lambda text, context, says=says: (says, 0.8)).detect(down)
        expected = (ruled.score * rules + says * weight) / (rules + weight)
        assert two.score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("Production is down.", (0, 1)),
        ("The deadline for the offer is 12 May.", (1, 0)),
        ("No customer data was leaked.", (-1, -1)),
        ("thanks", (0, 0)),
    ],
)
def test_rules_move_the_log_odds_of_the_model(text: str, moved: tuple[int, int]) -> None:
    ruled, model = RULES.detect(text), ArousalModel.default()
    assert model is not None
    said = model(text, "")
    assert said.critical > 0.2 or moved != (0, 1)  # else its doubt is bounded
    sure = math.log(odds(ruled.confidence))
    rest = 1.0 - said.important - said.critical
    parts = np.array([rest, said.important, said.critical])
    parts *= np.exp(sure * np.array([0, *moved]))
    parts /= parts.sum()
    result = ArousalDetector().detect(text)
    # Tolerance: rounding of a softmax and of the logarithms of its probabilities.
    assert result.score == pytest.approx(parts[2] + 0.6 * parts[1], abs=1e-9)
    assert result.source == "combined"


def test_the_published_mean_weighs_all_stages_alike() -> None:
    policy = Policy(**{**ALWAYS.to_dict(), "arousal_weighting": "equal"})
    result = ArousalDetector(
        model=None, llm=lambda text, context: (1.0, 0.6), policy=policy
    ).detect("thanks")
    assert result.score == pytest.approx((RULES.detect("thanks").score + 1.0) / 2, abs=1e-12)


def test_a_stage_without_confidence_has_no_say() -> None:
    result = ArousalDetector(model=lambda text, context: (1.0, 0.0)).detect("thanks")
    assert result.stages[1] == StageScore("model", 1.0, 0.0)
    assert replace(result, stages=result.stages[:1]) == RULES.detect("thanks")


@pytest.mark.parametrize(
    "answer",
    [
        (math.nan, 0.9), (0.9, math.nan), (math.inf, 1.0), (7.0, 1.0), (-0.1, 1.0), (0.5, 2.0),
        (True, 1.0), ("0.9", 1.0), (0.5,), None, "6 dimensions ... 0.2", {"score": 7.0},
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("stage", ["model", "llm"])
def test_bad_answers_are_left_out_and_reported(
    stage: str, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    detector = ArousalDetector(**alone(stage, lambda text, context: answer), policy=ALWAYS)
    with caplog.at_level(logging.WARNING, logger="flashbulb.arousal"):
        result = detector.detect("Production is down.")
    assert replace(result, fallback=None, bad_reply=False) == RULES.detect("Production is down.")
    assert result.fallback is not None
    assert result.fallback.startswith(f"{stage}: ")
    assert stage in caplog.text
    assert sum(n for name, n in detector.statistics().items() if "fallback" in name) == 1


def test_a_failing_stage_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def model(text: str, context: str) -> tuple[float, float]:
        raise RuntimeError("no weights")

    with caplog.at_level(logging.WARNING, logger="flashbulb.arousal"):
        result = ArousalDetector(model=model).detect("thanks")
    assert result.fallback == "model: no weights"
    assert replace(result, fallback=None) == RULES.detect("thanks")
    assert "no weights" in caplog.text


@pytest.mark.parametrize("stage", ["model", "llm"])
def test_an_interrupt_passes(stage: str) -> None:
    def interrupted(text: str, context: str) -> tuple[float, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ArousalDetector(**alone(stage, interrupted), policy=ALWAYS).detect("thanks")


def test_the_policy_sets_the_floor() -> None:
    policy = Policy(flashbulb_threshold=0.99)
    result = ArousalDetector(model=None, policy=policy).detect("Production is down.")
    assert result.stability_floor == policy.important_floor


@pytest.mark.parametrize("bad", [None, 7, b"Production is down."])
def test_text_must_be_text(bad: object) -> None:
    with pytest.raises(TypeError, match="must be str"):
        RULES.detect(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be str"):
        RULES.detect("thanks", bad)  # type: ignore[arg-type]


def test_stages_must_be_callable() -> None:
    with pytest.raises(TypeError, match="model must be callable"):
        ArousalDetector(model="minilm")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rules must be"):
        ArousalDetector(rules=7)  # type: ignore[arg-type]


# Rule files

OWN_RULES = """
[scopes]
negated = 0.1
[words.en]
kettle = "kettle+, tea urn"
boils = "boil over*"
negator = "not, never"
[[rule]]
name = "kettle boils over"
weight = 0.9
parts = ["kettle", "boils"]
"""


def test_rules_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(OWN_RULES, encoding="utf-8")
    for rules in (path, str(path), RuleSet.load(path)):
        detector = ArousalDetector(rules, None)
        assert detector.detect("The kettles boil over!").score == 0.9
        assert detector.detect("The kettle does not boil over.").score == 0.1
        assert detector.detect("Production is down.").score < 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"boils"]', '"burns"]'), "unknown word class 'burns'"),
        (("weight = 0.9", "weight = 9"), "must be a number in"),
        (("weight = 0.9", 'weight = "high"'), "must be a number in"),
        (("weight = 0.9\n", "weight = 0.9\nwait = 3\n"), "unknown fields"),
        (("weight = 0.9\n", 'weight = 0.9\nimmune = ["tired"]\n'), "unknown scopes"),
        (("negated = 0.1", "negated = -1"), "scopes.negated"),
        (("[words.en]", "[words.de]"), r"\[words.en\]"),
        (("[scopes]", "[scope]"), "unknown entries"),
        (("[scopes]", '[context]\nreal = "drill"\n[scopes]'), "events, labels, frames, denied"),
    ],
)
def test_bad_rule_files_are_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    text = OWN_RULES.replace(*change)
    assert text != OWN_RULES
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        ArousalDetector(path, None)


@pytest.mark.parametrize(
    ("entry", "language", "some"),
    [
        ("crash*", "en", {"crash", "crashes", "crashed", "crashing"}),
        ("mot+ de passe", "fr", {"mot de passe", "mots de passe"}),
        ("vole~", "fr", {"vole", "volee", "voles", "volees"}),
        ("robad~", "es", {"robado", "robada", "robados", "robadas"}),
        ("losch*", "de", {"loscht", "loschte", "geloscht", "geloschten"}),
        ("offline", "de", {"offline"}),
    ],
)
def test_inflection(entry: str, language: str, some: set[str]) -> None:
    assert some <= set(inflect(entry, language))


def test_no_rule_names_a_case() -> None:
    """No word list holds a whole case: rules must generalise."""
    cases = [row["text"] for row in read(HERE / "data" / "arousal_own.tsv")]
    for name in ("heldout", "blind1", "blind2", "blind3", "blind4"):
        cases += [row["text"] for row in read(HERE / "data" / f"arousal_{name}.tsv")]
    lexicon = RuleSet.default().lexicons[0]
    entries = {
        f"{first} {second} {' '.join(tail)}".strip()
        for first, seconds in lexicon.phrases.items()
        for second, phrases in seconds.items()
        for tail, _ in phrases
    }
    long_cases = [case.lower() for case in cases if len(case.split()) >= 5]
    assert not [case for case in long_cases if case.rstrip(".!?") in entries]


def test_results_are_frozen() -> None:
    result: ArousalResult = RULES.detect("Production is down.")
    with pytest.raises(AttributeError):
        result.score = 0.0  # type: ignore[misc]
    assert json.dumps([e.rule for e in result.evidence])


def test_candidates_are_the_rules_of_which_each_part_is_met() -> None:
    rules, random = RuleSet.default(), Random(0)
    bits = list(rules.classes.values())
    parts = [part for rule in rules.rules for part in rule.parts]
    for count in (0, 1, 2, 4, 8, 16, 64, len(bits)):
        for _ in range(20):
            present = random.choice(parts) if count else 0
            for bit in random.sample(bits, count):
                present |= bit
            expected = [r for r in rules.rules if all(part & present for part in r.parts)]
            assert list(rules.candidates(present)) == expected


@pytest.mark.parametrize(
    "content", [b"[lexicon\nx = 1\n", b"version = 1\nversion = 2\n", b"\xff\xfe"]
)
def test_a_rule_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "my rules.toml"
    file.write_bytes(content)
    place = "position 0" if content[0] == 0xFF else "line [12]"
    with pytest.raises(ValueError, match=rf"my rules\.toml: .*{place}"):
        ArousalDetector(rules=file)
