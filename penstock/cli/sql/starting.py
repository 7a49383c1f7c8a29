"""Runs `penstock sql`: creates an environment, executes the initial statements, then starts a prompt or exits."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock import options
from penstock.cli.run import RunOptions, configuration_of
from penstock.cli.sql.client import SqlClient
from penstock.cli.sql.environments import create_environment
from penstock.cli.sql.output import JsonOutput, PlainOutput
from penstock.datastream import StreamExecutionEnvironment
from penstock.dependencies.python_dependencies import add_to_import_path, split_python_files
from penstock.errors import ArgumentError
from penstock.options.config_file import load_config_file


def start(given: argparse.Namespace) -> int:
    """Run the client with the parsed arguments; return the exit code."""
    scripts = [_read(path) for path in given.files]
    statements = [*given.statements, *([_read(given.file)] if given.file else [])]
    run = RunOptions(
        script="",
        options=tuple(given.options),
        parallelism=given.parallelism,
        master=given.master,
        python_files=given.py_files,
        config=given.config,
        session=given.session,
        spark=given.spark,
    )
    configuration = configuration_of(run)
    defaults, _ = load_config_file(given.config)
    if given.session is not None:
        from penstock.cli.submit import add_defaults_of_session

        add_defaults_of_session(defaults, configuration)
    mode = options.EXECUTION_MODE.key
    eager = not given.spark and not any(
        each.contains_key(mode) for each in (defaults, configuration)
    )
    if not any(each.contains_key(options.PROGRESS.key) for each in (defaults, configuration)):
        defaults.set_string(options.PROGRESS.key, "never")  # no progress bars between results
    with contextlib.ExitStack() as stack:
        stack.enter_context(_import_path(given.py_files or ""))
        stack.enter_context(
            StreamExecutionEnvironment.default_configuration(defaults, configuration)
        )
        if not given.spark:
            from penstock.client.local_cluster import LocalCluster

            stack.enter_context(LocalCluster())
        environment = create_environment()
        output = JsonOutput() if given.json else PlainOutput()
        client = SqlClient(environment, output, in_session=given.session is not None, eager=eager)
        return _work(client, scripts, statements)


@contextlib.contextmanager
def _import_path(python_files: str) -> Iterator[None]:
    """Put the current directory and the given files on the import path, for CREATE FUNCTION."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    add_to_import_path(split_python_files(python_files))
    try:
        yield
    finally:
        sys.path[:] = before


def _work(client: SqlClient, scripts: list[str], statements: list[str]) -> int:
    for text in scripts:
        if not client.run_script(text):
            return 1
    if statements or not sys.stdin.isatty():
        if not statements:
            statements = [sys.stdin.read()]
        done = all(client.run_script(text) for text in statements)
        return 0 if client.wait_for_jobs() and done else 1
    from penstock.cli.sql.prompt import Prompt

    return Prompt(client).run()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ArgumentError(f"cannot read {path}: {reason}") from error
