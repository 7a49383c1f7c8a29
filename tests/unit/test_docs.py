"""The pages: links lead somewhere, files that are named are there, commands and options are those that exist."""

from __future__ import annotations

import argparse
import importlib
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from functools import cache
from pathlib import Path

import pytest
import yaml

from penstock.cli.main import create_parser
from penstock.cli.submit import with_session_value
from penstock.errors import ConfigurationError
from penstock.options.option_checks import check_key, check_setting
from tests.builders.doc_pages import anchors, code_blocks, code_spans, commands, links

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMAND_LINE = ROOT / "docs" / "reference" / "command-line.md"
each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


@cache
def _anchors(page: Path) -> set[str]:
    return anchors(page.read_text())


def _is_broken(link: str, page: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in _anchors(target)


@each_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    local = [link for link in links(page.read_text()) if "://" not in link]
    assert [link for link in local if _is_broken(link, page)] == []


# Files and modules

_FILE = re.compile(r"[\w./-]+\.(?:py|md|sh|svg|ts|js|toml|java)")
_PATH = re.compile(r"(?:penstock|tools|tests|examples|benchmarks|docs)(?:/[\w.-]+)+/?")
_MODULE = re.compile(r"penstock(?:\.\w+)+")
# Scripts of Flink.
_ELSEWHERE = {"sql-client.sh", "/docker-entrypoint.sh"}


@cache
def _names() -> frozenset[str]:
    folders = ("penstock", "tools", "tests", "examples", "benchmarks", "docs")
    return frozenset(path.name for folder in folders for path in (ROOT / folder).rglob("*.*"))


def _is_there(name: str, page: Path) -> bool:
    """Whether a file exists: below the repository, the package or the page; a bare name, anywhere.

    A bare name that is also in a program or command of the page is a file of the reader.
    """
    blocks = "".join(block.text for block in code_blocks(page.read_text()))
    if "/" not in name and (name in _names() or name in blocks):
        return True
    return any((folder / name).exists() for folder in (ROOT, ROOT / "penstock", page.parent))


def _is_module(name: str) -> bool:
    """Whether a dotted name is a module, or something in one; an option is as good."""
    try:
        check_key(name)
    except ConfigurationError:
        module, _, attribute = name.rpartition(".")
        with suppress(ImportError):
            importlib.import_module(name)
            return True
        with suppress(ImportError):
            return hasattr(importlib.import_module(module), attribute)
        return False
    return True


def _missing_files(page: Path) -> list[str]:
    return [span for span in code_spans(page.read_text()) if _is_missing(span, page)]


def _is_missing(span: str, page: Path) -> bool:
    if page.parent.name == "tutorials" and not span.startswith("penstock/"):
        return False  # files that the reader writes
    if span in {block.title for block in code_blocks(page.read_text())}:
        return False
    if _FILE.fullmatch(span) or _PATH.fullmatch(span):
        return span not in _ELSEWHERE and not _is_there(span, page)
    if (
        not _MODULE.fullmatch(span) or page.name == "CHANGELOG.md"
    ):  # it says what modules were called
        return False
    return (ROOT / "penstock" / span.split(".")[1]).is_dir() and not _is_module(span)


@each_page
def test_files_and_modules_that_pages_name_exist(page: Path) -> None:
    assert _missing_files(page) == []


def test_moved_files_and_modules_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    there = "`penstock/graph/job_graph.py` `graph/job_graph.py` `page.md` `penstock.errors.PenstockError`"
    moved = ["penstock/job_graph.py", "moved_graph.py", "penstock.errors.Gone", "penstock/moved"]
    page.write_text(there + "".join(f" `{name}`" for name in moved))
    assert _missing_files(page) == moved


def test_the_picture_of_the_architecture_is_an_image() -> None:
    picture = ET.parse(ROOT / "docs" / "images" / "architecture.svg").getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


# Commands


def _command(
    words: list[str], parser: argparse.ArgumentParser
) -> tuple[argparse.ArgumentParser, list[str]]:
    """Return the parser of the command that words begin with, and the words after it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            name = words[0].split("|")[0] if words else ""  # of `start|stop`
            if name in action.choices:
                return _command(words[1:], action.choices[name])
    return parser, words


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}


def _complaint(words: list[str]) -> str | None:
    """Return what is wrong with a command line; None if nothing is."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            given = create_parser().parse_args(with_session_value(words))
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    parser, _ = _command(words, create_parser())
    behind = [word for word in getattr(given, "arguments", []) if word in _options(parser)]
    if behind:
        return f"{behind[0]} behind the program is an argument of the program"
    for setting in getattr(given, "options", []):
        key, _, value = setting.partition("=")
        try:
            check_setting(key, value)
        except ConfigurationError as error:
            return str(error)
    return None


@each_page
def test_commands_are_taken_by_the_command_line(page: Path) -> None:
    complaints = {
        " ".join(words): complaint
        for words in commands(page.read_text(), "penstock")
        if (complaint := _complaint(words)) is not None
    }
    assert complaints == {}


def test_wrong_commands_are_found() -> None:
    behind = ["run", "job.py", "-D", "rest.port=8081"]
    assert _complaint(behind) == "-D behind the program is an argument of the program"
    assert "unrecognized arguments: --depth" in (_complaint(["list", "--depth"]) or "")
    assert "unknown option 'rest.prt'" in (
        _complaint(["run", "-D", "rest.prt=8081", "job.py"]) or ""
    )
    assert _complaint(["run", "-D", "rest.port=8081", "job.py", "--input", "in.csv"]) is None


def _unknown_words(usage: str) -> Iterator[str]:
    """Yield what a command that is mentioned, such as `penstock stop [--drain] JOB`, has and the command line has not."""
    first = re.split(r"\s\\?\|\s", usage)[0]  # of a pipeline
    words = re.sub(r"[\[\](){}]|\.\.\.", " ", first).split()[1:]
    parser, rest = _command(words, create_parser())
    has_commands = any(isinstance(each, argparse._SubParsersAction) for each in parser._actions)
    if has_commands and rest and not rest[0].startswith("-"):
        yield rest[0]
    known = _options(parser)
    for word in rest:
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield word


@each_page
def test_commands_that_are_mentioned_exist(page: Path) -> None:
    text = page.read_text()
    usages = [span for span in code_spans(text) if re.match(r"penstock [\w-]", span)]
    for block in code_blocks(text):
        if block.language == "text":
            usages += re.findall(r"^penstock [a-z].*", block.text, re.MULTILINE)
    wrong = {usage: found for usage in usages if (found := list(_unknown_words(usage)))}
    assert wrong == {}


def test_the_table_of_commands_has_all_of_them() -> None:
    table = COMMAND_LINE.read_text().partition("| Command | |")[2].partition("\n\n")[0]
    listed = re.findall(r"\[([\w ]+)\]\(", table)
    (sub,) = (
        action
        for action in create_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert sorted(set(sub.choices) - set(listed)) == []


# Options

# What stands in code and looks like a key of an option.
_KEY = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+")
_BEGINNINGS = (
    "execution.", "high-availability.", "job.autoscaler.", "pipeline.", "rest.", "restart-strategy.", "security.ssl.",
    "state.backend.", "state.checkpoints.", "table.exec.", "table.optimizer.", "taskmanager.",
)  # fmt: skip


@each_page
def test_options_that_are_mentioned_exist(page: Path) -> None:
    keys = {
        span.partition(":")[0].partition("=")[0].strip() for span in code_spans(page.read_text())
    }
    wrong = []
    for key in sorted(keys):
        if _KEY.fullmatch(key) and key.startswith(_BEGINNINGS):
            try:
                check_key(key)
            except ConfigurationError as error:
                wrong.append(str(error))
    assert wrong == []


def _flat(values: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@each_page
def test_files_of_options_are_valid(page: Path) -> None:
    for block in code_blocks(page.read_text()):
        if block.language == "yaml":
            for key, value in _flat(yaml.safe_load(block.text)):
                check_setting(key, value)
