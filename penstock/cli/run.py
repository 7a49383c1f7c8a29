"""`penstock run`: executes a program as `python` does, with options set and `pyflink` as an alias of Penstock."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from penstock import options, pyflink_compat
from penstock.datastream import StreamExecutionEnvironment
from penstock.dependencies.python_dependencies import add_to_import_path, split_python_files
from penstock.errors import ArgumentError, JobExecutionError, PenstockError
from penstock.options.config_file import load_config_file
from penstock.options.configuration import Configuration
from penstock.options.option_checks import check_setting, find_option, validate
from penstock.runtime.user_code import is_user_code, users_frames

_WHERE = "command line"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `penstock run`."""

    script: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    parallelism: int | None = None
    master: str | None = None
    recover: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: str | None = None
    python_files: str | None = None
    pyflink: bool = True
    spark: bool = True
    verbose: bool = False
    config: str | None = None  # a file used instead of penstock.yaml
    session: str | None = None  # its address; empty: this user's session
    detached: bool = False


def configuration_of(given: RunOptions) -> Configuration:
    """Return the options of the command line, which override those that the program sets."""
    if given.session is not None and not given.spark:
        raise ArgumentError(
            "--no-spark and --session are mutually exclusive",
            detail="--no-spark runs jobs in this process",
            hint="remove one of them",
        )
    configuration = Configuration()
    for pair in given.options:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ArgumentError(
                f"invalid option '{pair}'", hint="write -D key=value, without spaces around '='"
            )
        check_setting(key.strip(), value, _WHERE)
        option = find_option(key.strip())
        configuration.set_string(key.strip() if option is None else option.key, value)
    named = {
        options.PARALLELISM.key: given.parallelism,
        "spark.master": given.master,
        options.RECOVERY_PATH.key: given.recover,
        options.RECOVERY_IGNORE_UNCLAIMED.key: "true" if given.allow_non_restored_state else None,
        options.RECOVERY_CLAIM_MODE.key: given.claim_mode,
        "python.files": given.python_files,
    }
    for key, setting in named.items():
        if setting is not None:
            configuration.set_string(key, str(setting))
    if given.detached:
        configuration.set(options.EXECUTION_ATTACHED, False)
    validate(configuration, _WHERE)
    if given.session is not None:
        from penstock.cli.submit import submit_to_session

        submit_to_session(configuration, given.session)
    return configuration


def run(given: RunOptions, *around: contextlib.AbstractContextManager[Any]) -> int:
    """Execute the program inside the given contexts and return the exit code."""
    script = Path(given.script)
    configuration = configuration_of(given)
    defaults, _ = load_config_file(given.config)
    if given.session is not None:
        from penstock.cli.submit import add_defaults_of_session

        add_defaults_of_session(defaults, configuration)
    try:
        code = compile(_text_of(script), given.script, "exec")
    except OSError as error:
        raise ArgumentError(f"cannot read the program {given.script}: {error.strerror}") from error
    except SyntaxError as error:
        sys.stderr.write("".join(traceback.format_exception_only(error)))
        return 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            StreamExecutionEnvironment.default_configuration(defaults, configuration)
        )
        if given.pyflink:
            stack.enter_context(pyflink_compat.pyflink_names())
        if not given.spark:
            from penstock.client.local_cluster import LocalCluster

            stack.enter_context(LocalCluster())
        stack.enter_context(_as_main(script, given))
        for context in around:
            stack.enter_context(context)
        return _execute(code, sys.modules["__main__"], verbose=given.verbose)


def _text_of(script: Path) -> bytes | str:
    """Return the source of a program; for a SQL file, a Python program that executes it."""
    text = script.read_bytes()
    if script.suffix.lower() != ".sql":
        return text
    from penstock.cli.sql.scripts import PROGRAM

    return PROGRAM


@contextlib.contextmanager
def _as_main(script: Path, given: RunOptions) -> Iterator[None]:
    """Make the program the main module, with its arguments, and its directory first on the import path."""
    module = ModuleType("__main__")
    module.__file__ = given.script
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    directory = str(script.resolve().parent)
    before = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")
    sys.modules["__main__"] = module
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, directory)
    add_to_import_path(split_python_files(given.python_files or ""))
    # Tasks also import modules next to the program: Spark's workers start with this path.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [directory, before[3]]))
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before[:3]
        if before[3] is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before[3]


def _execute(code: CodeType, module: ModuleType, *, verbose: bool) -> int:
    try:
        exec(code, module.__dict__)  # noqa: S102 - this is what the command is for
    except SystemExit as ending:
        return _exit_code(ending)
    except KeyboardInterrupt:
        return 130
    except JobExecutionError as error:  # its message begins with the user's own traceback
        if verbose:
            sys.stderr.write(f"{error.all_frames}\n{''.join(traceback.format_exception(error))}")
        else:
            sys.stderr.write(f"{error}\n")
        return 1
    except Exception as error:  # noqa: BLE001 - the program may raise anything
        sys.stderr.write("".join(traceback.format_exception(error)) if verbose else _format(error))
        return 1
    return 0


def _exit_code(ending: SystemExit) -> int:
    if ending.code is None or isinstance(ending.code, int):
        return ending.code or 0
    sys.stderr.write(f"{ending.code}\n")
    return 1


def _format(error: BaseException) -> str:
    """Return the traceback from the program's first frame; without Penstock's frames if the error is Penstock's."""
    own: TracebackType | None = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == __file__:
        own = own.tb_next
    shown = traceback.TracebackException(type(error), error, own)
    if isinstance(error, PenstockError):
        frames = [frame for frame in shown.stack if is_user_code(frame.filename)]
        shown.stack = traceback.StackSummary.from_list(frames)
        # The message already describes the cause, unless the cause is in the user's code.
        if shown.__cause__ is not None and not users_frames(shown.__cause__.stack):
            shown.__cause__ = shown.__context__ = None
    return "".join(shown.format())
