"""The options of commands that take a program: `run`, `plan`, `config`."""

from __future__ import annotations

import argparse

from penstock.cli.run import RunOptions


def add_options(parser: argparse.ArgumentParser, *, program: bool = True) -> None:
    """Add the options that count for every program, and the program; it may be left out unless `program`."""
    add_settings(parser)
    parser.add_argument(
        "--py-files",
        metavar="PATHS",
        help="Python files and archives that tasks need, separated by commas",
    )
    parser.add_argument(
        "--no-pyflink",
        dest="pyflink",
        action="store_false",
        help="let 'import pyflink' mean PyFlink itself",
    )
    parser.add_argument(
        "script",
        metavar="PROGRAM",
        nargs=None if program else "?",
        help="the Python file, or a file of SQL, which is run up to its first job",
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="what the program gets"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options that set options of jobs."""
    parser.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option; may be given many times",
    )
    parser.add_argument(
        "-p", "--parallelism", type=int, metavar="N", help="parallelism of operators that set none"
    )
    parser.add_argument(
        "-m", "--master", metavar="URL", help="Spark master, such as local[4] or yarn"
    )
    add_config(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a configuration file."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read options from this file; without it: PENSTOCK_CONFIG, ./penstock.yaml, ~/.penstock/penstock.yaml",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option of all commands that print for other programs."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_options(given: argparse.Namespace) -> RunOptions:
    """Return what was given as the options of a run."""
    return RunOptions(
        script=given.script,
        arguments=tuple(given.arguments),
        options=tuple(given.options),
        parallelism=given.parallelism,
        master=given.master,
        python_files=given.py_files,
        pyflink=given.pyflink,
        config=given.config,
    )
