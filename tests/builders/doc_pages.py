"""Pages of the documentation: their headings, links, commands and options, as a reader finds them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

_FENCE = re.compile(
    r"^ {0,3}(`{3,})[ ]*(\S*)([^\n]*)\n(.*?)^ {0,3}\1`*[ \t]*$", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="([^"]*)"')
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]*)>?[^)]*\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_SUBSTITUTED = re.compile(r"\$\(([^()]*)\)")
_ASSIGNMENT = re.compile(r"\w+=")
_SHELLS = {"sh", "bash", "shell", "console"}
_BETWEEN_COMMANDS = set("|&;()<>")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block: its language and its title, which may be empty, and its text."""

    language: str
    text: str
    title: str = ""


def code_blocks(page: str) -> list[CodeBlock]:
    r"""Return the fenced blocks of a page.

    >>> code_blocks('```python title="job.py"\nx = 1\n```')
    [CodeBlock(language='python', text='x = 1\n', title='job.py')]
    """
    return [_code_block(found) for found in _FENCE.finditer(page)]


def _code_block(found: re.Match[str]) -> CodeBlock:
    title = _TITLE.search(found[3])
    return CodeBlock(found[2], found[4], title[1] if title else "")


def code_spans(page: str) -> list[str]:
    """Return the code inside of sentences, cells and headings."""
    return [" ".join(found[2].split()) for found in _INLINE.finditer(_FENCE.sub("", page))]


def links(page: str) -> list[str]:
    """Return where the links and images of a page lead.

    >>> links("[a](b.md#c), `[no](link)` and ![d](e.png)")
    ['b.md#c', 'e.png']
    """
    return _LINK.findall(_INLINE.sub("", _FENCE.sub("", page)))


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, by GitHub's rules.

    >>> sorted(anchors("# A `b`, c\\n## What's [new](x.md)?\\n## A b c"))
    ['a-b-c', 'a-b-c-1', 'whats-new']
    """
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in _HEADING.findall(_FENCE.sub("", page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(anchor if not seen[anchor] else f"{anchor}-{seen[anchor]}")
        seen[anchor] += 1
    return found


def commands(page: str, program: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of a program in the shell blocks of a page, and behind `$ `, which begins one in any block.

    >>> list(commands("```sh\\nA=1 x run -p \\\\\\n  4 'a b' | less  # c\\np=$(bin/x stop)\\n```", "x"))
    [['run', '-p', '4', 'a b'], ['stop']]
    """
    for block in code_blocks(page):
        lines = block.text.replace("\\\n", " ").splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if typed or block.language not in _SHELLS:
            lines = typed
        for line in lines:
            yield from _calls(line, program)


def _calls(line: str, program: str) -> Iterator[list[str]]:
    for inner in _SUBSTITUTED.findall(line):
        yield from _calls(inner, program)
    reader = shlex.shlex(_SUBSTITUTED.sub("", line), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""  # it would take any # for one, also that of `file#name`
    words: list[str] = []
    for word in [*takewhile(lambda word: not word.startswith("#"), reader), "|"]:
        if not word or word[0] not in _BETWEEN_COMMANDS:
            words.append(word)
            continue
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words and words[0].rpartition("/")[2] == program:
            yield words[1:]
        words = []
