"""README and the site's pages, taken apart: blocks of Python, and commands of `lspc` in blocks and in text."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FRAGMENT = "<!-- fragment -->"
"""Stands above a block of Python that shows a piece of something and cannot run by itself."""
FENCE = re.compile(rf"({re.escape(FRAGMENT)}\n+)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Command(NamedTuple):
    page: str
    words: list[str]
    """Without `lspc`."""
    whole: bool
    """From a block: it can be given as it stands. In running text a command may be cut short."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_blocks(text: str) -> list[tuple[str, bool]]:
    """Each block, and whether it is marked as a fragment."""
    return [(block, bool(mark)) for mark, language, block in FENCE.findall(text) if language == "python"]


def commands(path: Path) -> list[Command]:
    text = path.read_text(encoding="utf-8")
    plain = FENCE.sub("", text)
    indented = re.findall(r"^ {4}(\S.*)$", plain, re.MULTILINE)
    shells = [
        line
        for _, language, block in FENCE.findall(text)
        if language in ("", "bash", "sh")
        for line in block.splitlines()
    ]
    found = [Command(name(path), words, True) for line in (*indented, *shells) if (words := _words(line))]
    for inline in re.findall(r"`(lspc [^`]+)`", plain):
        found.append(Command(name(path), inline.split()[1:], False))
    return found


def _words(line: str) -> list[str]:
    """The arguments of `lspc` in a line of a shell; none if it calls something else or is a synopsis."""
    # Settings of the environment may come first; comments, pipes and redirections end the command.
    match = re.match(r"(?:[A-Z_]+=\S+ )*lspc (.+)$", line)
    if not match or " [" in line or "VERB" in line:
        return []
    words = shlex.split(match[1], comments=True)
    ends = [words.index(sign) for sign in ("|", ">", ";", "&&") if sign in words]
    return words[: min(ends, default=len(words))]
