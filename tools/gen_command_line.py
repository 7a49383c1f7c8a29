"""Writes the options of all commands and the table of REST routes into docs/reference/command-line.md.

    python tools/gen_command_line.py

Text between `<!-- generated: name -->` and `<!-- end -->` is replaced; a command that the page does not have yet gets a
block below its heading, or a section at the end. A unit test checks that the page is up to date.
"""

# ruff: noqa: SLF001 - argparse has no other way to look into a parser

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.main import create_parser
from penstock.rest.resources import ROUTES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
_REST = "rest"


def commands(
    parser: argparse.ArgumentParser | None = None, prefix: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield all commands that take arguments of their own, such as `run` and `state ls`, with their parsers."""
    for action in (parser or create_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                nested = list(commands(child, f"{prefix}{name} "))
                yield from nested or [(f"{prefix}{name}", child)]


def render_command(name: str, parser: argparse.ArgumentParser) -> str:
    """Return how a command is called, and the table of its options."""
    actions = [action for action in parser._actions if action.dest != "help"]
    named = [action for action in actions if action.option_strings]
    words = ["penstock", name, *(["[options]"] if named else [])]
    words += [_positional(action) for action in actions if not action.option_strings]
    lines = ["```text", " ".join(words), "```"]
    if named:
        lines += ["", "| Option | |", "|---|---|"]
        lines += [f"| {_option(action)} | {_cell(action.help)} |" for action in named]
    return "\n".join(lines)


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return f"[{name}]" if action.nargs == "?" else name


def _option(action: argparse.Action) -> str:
    names = [f"`{name}`" for name in action.option_strings]
    if action.nargs != 0:
        value = action.metavar or (
            "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
        )
        names[-1] = f"`{action.option_strings[-1]} {value}`"
    return ", ".join(names).replace("|", "\\|")


def _cell(text: str | None) -> str:
    return (text or "").replace("%%", "%").replace("|", "\\|")


def render_routes() -> str:
    """Return the table of REST routes."""
    lines = ["| Request | |", "|---|---|"]
    lines += [f"| `{route.method} /v1{route.path}` | {route.summary} |" for route in ROUTES]
    return "\n".join(lines)


def blocks() -> dict[str, str]:
    """Return all generated blocks by name."""
    return {
        **{name: render_command(name, parser) for name, parser in commands()},
        _REST: render_routes(),
    }


def render(page: str, found: dict[str, str]) -> str:
    """Return the page with all generated blocks put in."""
    names = re.findall(r"<!-- generated: ([\w -]+) -->", page)
    unknown = sorted(set(names) - set(found))
    if unknown:
        raise SystemExit(f"the page has commands that are not there: {unknown}")
    for name in found:
        if name not in names:
            heading = f"## penstock {name}\n"
            if heading not in page:
                page += f"\n{heading}"
            page = page.replace(heading, f"{heading}\n<!-- generated: {name} -->\n<!-- end -->\n")
    return re.sub(
        r"(<!-- generated: ([\w -]+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{found[match[2]]}\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(), blocks()))
