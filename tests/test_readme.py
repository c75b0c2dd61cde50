"""The README does what it says: its snippets run, and what it shows is what they print.

``python tests/test_readme.py`` puts the present outputs into the README.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

SHOWN = re.compile(
    r"(<!-- output of COLUMNS=80 flashbulb demo: (?P<part>[\w ]+) -->\n```text\n)"
    r"(?P<text>.*?)```\n",
    re.DOTALL,
)

PRINTED = re.compile(
    r"(?P<before>```python\n(?P<code>(?:(?!```).)*?)```\n+<!-- what it prints -->\n```text\n)"
    r"(?P<text>.*?)```\n",
    re.DOTALL,
)

COMMAND = re.compile(
    r"(?P<before><!-- output of COLUMNS=80 (?P<command>flashbulb explain .*?) -->\n```text\n)"
    r"(?P<text>.*?)```\n",
    re.DOTALL,
)


def output_of(*arguments: str) -> str:
    """What the command prints, without blanks at the ends of lines."""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "flashbulb", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        check=True,
        timeout=120,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def output_of_command(command: str) -> str:
    return output_of(*shlex.split(command)[1:]).strip("\n") + "\n"


def output_of_snippet(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README", "exec"), {"__name__": "readme"})
    return printed.getvalue()


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def demo_parts() -> dict[str, str]:
    """The parts of the demo's output that the README shows."""
    out = output_of("demo")
    question = out[out.index("score = ") : out.index("\n2. ")]
    curves = out[out.index("Effective vividness of") : out.index("A right answer comes first")]
    return {"question 1": question.strip() + "\n", "curves": curves.strip() + "\n"}


def test_every_python_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = blocks("python")
    assert len(snippets) >= 3
    for number, snippet in enumerate(snippets):
        exec(compile(snippet, f"README snippet {number}", "exec"), {"__name__": "readme"})
    assert (tmp_path / "agent.db").exists()


def test_the_first_snippet_puts_the_emergency_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "README", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert printed.startswith("CRITICAL: Payment system is down, users cannot checkout ")
    assert "User prefers dark mode" in printed


def test_two_commands_do_all_the_set_up() -> None:
    commands = [block for block in blocks("sh") if "venv" in block]
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/flashbulb demo\n",
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest\n",
    ]


def test_continuous_integration_runs_the_second_command() -> None:
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("no .ci/run here")
    assert "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest" in (
        script.read_text("utf-8")
    )


def test_every_shell_line_parses() -> None:
    from flashbulb.cli.parser import build_parser

    lines = [
        line
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("flashbulb ")
    ]
    assert len(lines) >= 5
    for line in lines:
        build_parser().parse_args(shlex.split(line)[1:])


def test_every_file_that_is_named_is_there() -> None:
    text = README.read_text("utf-8")
    named = re.findall(r"python ((?:benchmarks|tools)/[\w/.]+)", text)
    named += re.findall(r"\]\(([\w/.]+)\)", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_output_shown_is_the_output() -> None:
    parts = demo_parts()
    shown = {match["part"]: match["text"] for match in SHOWN.finditer(README.read_text("utf-8"))}
    assert shown.keys() == parts.keys()
    for part, text in parts.items():
        assert shown[part] == text, f"run: python {Path(__file__).relative_to(ROOT)}"


def test_what_a_command_prints_is_what_it_prints() -> None:
    shown = list(COMMAND.finditer(README.read_text("utf-8")))
    assert shown
    for match in shown:
        assert match["text"] == output_of_command(match["command"]), match["command"]


def test_what_a_snippet_prints_is_what_it_prints() -> None:
    shown = list(PRINTED.finditer(README.read_text("utf-8")))
    assert shown
    for match in shown:
        assert match["text"] == output_of_snippet(match["code"])


if __name__ == "__main__":
    parts = demo_parts()
    text = SHOWN.sub(lambda m: f"{m[1]}{parts[m['part']]}```\n", README.read_text("utf-8"))
    for pattern, source, printed in (
        (COMMAND, "command", output_of_command),
        (PRINTED, "code", output_of_snippet),
    ):
        text = pattern.sub(
            lambda m, source=source, printed=printed: f"{m['before']}{printed(m[source])}```\n",
            text,
        )
    README.write_text(text, "utf-8")
