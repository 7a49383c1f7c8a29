"""The options of commands that take a program: `run`, `plan`, `config`."""

from __future__ import annotations

import argparse

from penstock.cli.run import RunOptions


def add_options(parser: argparse.ArgumentParser, *, program: bool = True) -> None:
    """Add the options of a program and the program itself, which may be omitted unless `program`."""
    add_settings(parser)
    parser.add_argument(
        "--py-files",
        metavar="PATHS",
        help="comma-separated Python files and archives that tasks need",
    )
    parser.add_argument(
        "--no-pyflink",
        dest="pyflink",
        action="store_false",
        help="do not alias pyflink to Penstock",
    )
    parser.add_argument(
        "script",
        metavar="PROGRAM",
        nargs=None if program else "?",
        help="the Python or SQL file, which is run up to its first job",
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments passed to the program"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that set options of jobs."""
    parser.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option; repeatable",
    )
    parser.add_argument(
        "-p", "--parallelism", type=int, metavar="N", help="default parallelism of operators"
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
        help="configuration file (default: PENSTOCK_CONFIG, ./penstock.yaml or ~/.penstock/penstock.yaml)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_options(given: argparse.Namespace) -> RunOptions:
    """Return the parsed arguments as the options of a run."""
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
