"""Words that must not come back: each has a better one that everybody in the field knows."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What must not be written, why, and what to write.
FORBIDDEN = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less|different|better|worse|use\b|way\b|one\b)[a-z]": "say what it is: 'unknown time zone', 'not a directory', 'has no key'",
    r"\banew\b": "again",
    r"\bwhoever\b": "name the component",
    r"\b(?:some|no)body\b": "name the component or the user",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\bcannot be had\b": "is not available",
    r"\bhad no success\b": "failed after N attempts",
    r"\bis not there yet\b": "is not supported yet",
    r"\bwhat there is not\b": "unknown",
    r"\bdealt out\b": "redistributed",
    r"\btasks?_stay\b|\btasks? that stays?\b|\bstages? that stays?\b": "pipelined mode",
    r"\bLiveTask\b|\bflowing_time\b|\bSideBySide\b|\bwants_stages\b": "names of pipelined mode begin with pipelined",
}
PATTERNS = {re.compile(pattern, re.IGNORECASE): better for pattern, better in FORBIDDEN.items()}


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield what people read in a file, with its line: all of a page, names, comments and texts of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT, tokenize.NAME}:
            yield from enumerate(token.string.splitlines(), token.start[0])


def found_in(path: Path) -> Iterator[str]:
    for line, text in prose_of(path):
        for pattern, better in PATTERNS.items():
            if match := pattern.search(text):
                yield f"{path.relative_to(ROOT)}:{line}: '{match[0]}': {better}"


def pages_and_modules() -> Iterator[Path]:
    yield from (ROOT / "penstock").rglob("*.py")
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))


def test_forbidden_words_do_not_come_back() -> None:
    found = [each for path in sorted(pages_and_modules()) for each in found_in(path)]
    assert not found, "\n".join(found)


def test_forbidden_words_are_found(tmp_path: Path) -> None:
    samples = ["'X' is no time zone", "send it anew", "tasks that stay", "mend the record"]
    assert all(any(p.search(each) for p in PATTERNS) for each in samples)
    assert not any(p.search("it is no longer needed") for p in PATTERNS)
