"""`penstock plan`: the plan of a program's first job, without running it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.program_options import add_options, run_options
from penstock.errors import ArgumentError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_DESCRIPTION = """\
Show the plan of a program without running it: its vertices, the exchanges between them, and the slots that it needs. The program is run up to its first
execute(), a SQL file (.sql) up to its first query or INSERT; its output goes to standard error.
"""


def add_commands(commands: Commands) -> None:
    """Add `penstock plan` to the command line."""
    parser = commands.add_parser(
        "plan", help="show the plan of a program without running it", description=_DESCRIPTION
    )
    parser.set_defaults(call=_plan)
    parser.add_argument(
        "-f",
        "--format",
        choices=["tree", "json", "svg"],
        default="tree",
        help="a tree for the terminal (the default), JSON, or an SVG image",
    )
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="print JSON"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: standard output)"
    )
    add_options(parser)


def _plan(given: argparse.Namespace) -> int:
    from penstock.cli.capture import capture
    from penstock.drawing.job_graph_drawing import count_slots, draw_svg, draw_tree
    from penstock.graph.compiler import compile_program, execution_plan

    captured = capture(run_options(given))
    if isinstance(captured, int):
        return captured
    plans = compile_program(captured.transformations, captured.settings)
    graph = plans.job_graph
    if given.format == "tree":
        text = draw_tree(graph) + "\n"
    elif given.format == "svg":
        text = draw_svg(graph)
    else:
        import json

        shown = {
            "name": captured.job_name,
            "slots": count_slots(graph),
            **execution_plan(plans.stream_graph),  # the format of Flink's plan visualizer
            "job_graph": graph.to_json(),
        }
        text = json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    if given.output is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(given.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write {given.output}: {error.strerror}") from error
    return 0
