"""Write the vocabulary and the frozen character sets that the WordPiece of Flashbulb reads.

    python characters.py TOKENIZER.json FOLDER

TOKENIZER.json is the teacher's tokeniser file. The sets are taken from `tokenizers` itself, code
point by code point, so that ours agrees with it whatever Unicode version Python has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

_SURROGATES = range(0xD800, 0xE000)


def as_ranges(codes: list[int]) -> str:
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in ranges)


def main(tokenizer: Path, folder: Path) -> None:
    numbers = json.loads(tokenizer.read_text("utf-8"))["model"]["vocab"]
    tokens = sorted(numbers, key=numbers.__getitem__)
    (folder / "vocabulary.txt").write_text("\n".join(tokens) + "\n", "utf-8")

    normaliser = normalizers.BertNormalizer()
    splitter = pre_tokenizers.BertPreTokenizer()
    vanish, punctuation = list(_SURROGATES), []
    for code in range(0x110000):
        if code in _SURROGATES:  # Rust has none; a lone one in Python is no character
            continue
        if normaliser.normalize_str(chr(code)) == "":
            vanish.append(code)
        if len(splitter.pre_tokenize_str(f"a{chr(code)}b")) == 3:
            punctuation.append(code)
    (folder / "characters.txt").write_text(
        "# Code points (hexadecimal, inclusive ranges) as the BERT normaliser of `tokenizers`\n"
        "# treats them. Written by tools/train_embedding/characters.py.\n"
        f"vanish {as_ranges(sorted(vanish))}\n"
        f"punctuation {as_ranges(punctuation)}\n",
        "ascii",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
