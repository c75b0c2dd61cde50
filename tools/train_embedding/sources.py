"""Unlabelled English sentences under permissive licences, from which the static table is fitted.

Every reader takes a folder or file that the caller names and yields plain sentences. A source that
is absent is left out and reported, so that the script runs (with a poorer table) on what is there.
Benchmarks (LoCoMo, MADial, STS-B, EmoBank) are deliberately not among the sources.
"""

from __future__ import annotations

import csv
import html
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from own_texts import own_texts

_MIN_WORDS, _MAX_CHARACTERS = 3, 400
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_TAG = re.compile(r"<[^>]+>")


def wordnet(folder: Path) -> Iterator[str]:
    """Definitions, examples, "word: definition" lines of WordNet 3.0 (Debian: wordnet-base)."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
            if line.startswith("  ") or " | " not in line:
                continue
            head, gloss = line.split(" | ", 1)
            word = head.split()[4].replace("_", " ")
            yield from (piece.strip() for piece in re.findall(r'"([^"]+)"', gloss))
            definition = re.split(r';\s*"', gloss, maxsplit=1)[0].strip().rstrip(";")
            yield definition
            yield f"{word}: {definition}"


def chitchat(package: Path) -> Iterator[str]:
    """Single utterances and whole turns of the BYU chit-chat conversations (MIT)."""
    conversations = json.loads((package / "dataset.json").read_text("utf-8"))
    for conversation in conversations.values():
        for turn in conversation["messages"]:
            texts = [str(message["text"]).strip() for message in turn]
            yield from texts
            if len(texts) > 1:
                yield " ".join(texts)


def chatterbot(package: Path) -> Iterator[str]:
    """Questions and answers of the English ChatterBot corpus (BSD-3-Clause)."""
    for path in sorted((package / "data" / "english").glob("*.yml")):
        for line in path.read_text("utf-8").splitlines():
            text = line.strip().lstrip("- ").strip().strip("'\"")
            if text and not text.endswith(":"):
                yield text


def postgresql(folder: Path) -> Iterator[str]:
    """Sentences of the PostgreSQL manual (PostgreSQL licence; Debian package postgresql-doc)."""
    for path in sorted(folder.rglob("*.html")):
        page = path.read_text("utf-8", errors="replace")
        for paragraph in re.findall(r"<p>(.*?)</p>", page, re.S):
            text = " ".join(html.unescape(_TAG.sub("", paragraph)).split())
            yield from _SENTENCE.split(text)


def tracker(folder: Path) -> Iterator[str]:
    """Issue summaries of Apache projects (Apache-2.0)."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as handle:
            yield from (row["summary"] for row in csv.DictReader(handle))


def disaster(folder: Path) -> Iterator[str]:
    """English messages sent in disasters (CC BY)."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as handle:
            yield from (row["message"] for row in csv.DictReader(handle))


def advisories(folder: Path) -> Iterator[str]:
    """Titles and first sentences of RustSec advisories (CC0; those under CC BY 4.0 too)."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                yield row["title"]
                yield from _SENTENCE.split(row["description_400"])


READERS: dict[str, tuple[Callable[[Path], Iterator[str]], int]] = {
    "wordnet": (wordnet, 90_000),
    "chitchat": (chitchat, 90_000),
    "chatterbot": (chatterbot, 10_000),
    "postgresql": (postgresql, 12_000),
    "tracker": (tracker, 20_000),
    "disaster": (disaster, 10_000),
    "advisories": (advisories, 10_000),
}
"""Reader of each source and the largest number of its sentences that is taken."""


def collect(folders: dict[str, Path], seed: int) -> list[str]:
    """All distinct sentences, in an order that depends on the seed and the sources alone."""
    chosen: dict[str, None] = dict.fromkeys(own_texts(seed))
    print(f"own texts: {len(chosen)}")
    for name, (reader, limit) in READERS.items():
        if name not in folders:
            print(f"{name}: not given, left out")
            continue
        texts = [
            text[:_MAX_CHARACTERS]
            for text in dict.fromkeys(" ".join(raw.split()) for raw in reader(folders[name]))
            if len(text.split()) >= _MIN_WORDS
        ]
        random.Random(f"{seed}-{name}").shuffle(texts)
        chosen.update(dict.fromkeys(texts[:limit]))
        print(f"{name}: {min(len(texts), limit)} of {len(texts)}")
    sentences = list(chosen)
    random.Random(seed).shuffle(sentences)
    return sentences
