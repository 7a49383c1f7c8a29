"""docs/command-line.md says what the program does: its options and routes are today's, its examples are accepted."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from penstock.cli.main import create_parser
from penstock.rest.resources import ROUTES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "command-line.md").read_text()


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location(
        "gen_command_line", ROOT / "tools" / "gen_command_line.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_options_and_routes_of_today(generator):
    assert generator.render(PAGE, generator.blocks()) == PAGE, (
        "run: python tools/gen_command_line.py"
    )


def test_every_command_is_generated_with_all_its_options(generator):
    found = dict(generator.commands())
    assert {"run", "info", "list", "job", "savepoint", "stop", "cancel", "rescale"} <= set(found)
    for name, parser in found.items():
        block = generator.render_command(name, parser)
        for action in parser._actions:
            for option in action.option_strings:
                assert option in block or option in {"-h", "--help"}
    assert len(generator.render_routes().splitlines()) == 2 + len(ROUTES)


def test_a_command_that_the_page_lacks_gets_a_section(generator):
    page = generator.render("", {"dance": "steps"})
    assert page == "\n## penstock dance\n\n<!-- generated: dance -->\nsteps\n<!-- end -->\n"


def test_a_command_that_is_no_more_is_noticed(generator):
    with pytest.raises(SystemExit, match="dance"):
        generator.render("<!-- generated: dance -->\n<!-- end -->", {})


EXAMPLES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if re.match(r"(\w+=\S+ )?penstock ", line)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_command_line_takes_the_examples_of_the_page(example):
    words = shlex.split(example, comments=True)
    given = create_parser().parse_args(words[words.index("penstock") + 1 :])
    assert callable(given.call)


def test_the_page_has_examples():
    assert len(EXAMPLES) > 20


def test_links_within_the_page_lead_to_headings():
    headings = {
        heading.lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= headings
