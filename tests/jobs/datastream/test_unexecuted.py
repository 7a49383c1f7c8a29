"""A program that ends without execute() says so, and no other program does."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.builders.cases import check_all

_DEFINE = """
import sys
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda n: n + 1).name("plus one").print()
"""
_TABLES = """
from penstock.table import EnvironmentSettings, TableEnvironment
tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
tables.execute_sql("CREATE TABLE p (a INT) WITH ('connector' = 'print')")
"""
_STREAM_TO_TABLE = """
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
words = env.from_collection([1]).map(str, Types.STRING())
StreamTableEnvironment.create(env).from_data_stream(words).execute().print()
"""
_UNUSED_VIEW = f"""
{_STREAM_TO_TABLE}
StreamTableEnvironment.create(env).create_temporary_view("v", env.from_collection([1]).map(str, Types.STRING()))
"""
_UNUSED_STREAM = f"""
{_STREAM_TO_TABLE}
tables = StreamTableEnvironment.create(env)
tables.to_data_stream(tables.sql_query("SELECT 1"))
"""
_SAYS = "the program ends without executing everything it defined"
_RUN = ("-m", "penstock", "run", "--no-spark")


def _ended(tmp_path: Path, program: str, *command: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, *command] if "unittest" in command else [sys.executable, *command, script],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )


def test_a_program_without_execute_says_so_once(tmp_path: Path) -> None:
    in_function = """
        from penstock.datastream import StreamExecutionEnvironment
        def main():
            env = StreamExecutionEnvironment.get_execution_environment()
            numbers = env.from_collection([1, 2]).map(lambda n: n + 1).name("plus one")
            numbers.print()
        main()
        main()
    """
    ended = _ended(tmp_path, in_function)
    assert ended.returncode == 0
    assert ended.stderr.strip() == (
        f"{_SAYS}: 4 operations were never executed, in 2 environments ('plus one', 'Print to Std. Out', 'plus one', "
        "'Print to Std. Out'). Call execute(), or close() of an environment if nothing should run"
    )


def test_programs_that_forget_to_execute(tmp_path: Path) -> None:
    cases = {
        "by the command line": (_DEFINE, _RUN, "2 operations were never executed"),
        "the second job": (
            f"{_DEFINE}env.execute()\nenv.from_collection([3]).filter(bool)\n",
            _RUN,
            "1 operation was never executed, in 1 environment ('Filter')",
        ),
        "a stream that was a table": (
            f"{_UNUSED_STREAM.rstrip()}.print()",
            _RUN,
            "1 operation was never executed, in 1 environment ('Print to Std. Out')",
        ),
        "an exit without an error": (f"{_DEFINE}sys.exit()", _RUN, "2 operations"),
        "a statement set": (
            f"{_TABLES}tables.create_statement_set().add_insert_sql('INSERT INTO p VALUES (1)')",
            _RUN,
            "in 1 statement set ('INSERT INTO `default_catalog`.`default_database`.`p`')",
        ),
        "a table pipeline": (
            f"{_TABLES}tables.sql_query('SELECT 1').insert_into('p')",
            _RUN,
            "in 1 table pipeline",
        ),
    }

    def check(case: tuple[str, tuple[str, ...], str]) -> None:
        program, command, expected = case
        said = _ended(tmp_path, program, *command).stderr
        assert said.count(_SAYS) == 1, said
        assert expected in said

    check_all(cases, check)


def test_programs_that_mean_it(tmp_path: Path) -> None:
    tests = f"""
        import unittest
        class Test(unittest.TestCase):
            def test(self):
                exec({_DEFINE!r})
    """
    cases: dict[str, tuple[str, tuple[str, ...], str | None]] = {
        "nothing defined": (_DEFINE.rpartition("env.from")[0], (), None),
        "a source that is not read": (
            _DEFINE.rpartition("env.from")[0] + "env.from_collection([1])",
            (),
            None,
        ),
        "an exception": (f"{_DEFINE}raise ValueError('bad')", (), "ValueError: bad"),
        "an exception by the command line": (
            f"{_DEFINE}raise ValueError('bad')",
            _RUN,
            "ValueError: bad",
        ),
        "an exit with an error": (f"{_DEFINE}sys.exit('bad')", _RUN, "bad"),
        "the plan": (f"{_DEFINE}print(env.get_execution_plan())", (), None),
        "given up": (f"{_DEFINE}env.close()", (), None),
        "an interactive session": (_DEFINE, ("-i",), ">>>"),
        "unit tests": (tests, ("-m", "unittest", "program"), "OK"),
        "unit tests that run themselves": (
            f"{textwrap.dedent(tests)}\nunittest.main()",
            (),
            "OK",
        ),
        "a handled failure": (
            f"{_DEFINE.replace('n + 1', '1 // 0')}\ntry:\n    env.execute()\nexcept RuntimeError:\n    pass",
            _RUN,
            None,
        ),
        "a view that no query reads": (_UNUSED_VIEW, _RUN, None),
        "a table that becomes a stream for nothing": (_UNUSED_STREAM, _RUN, None),
        "a branch that is not collected": (
            f"{_DEFINE.replace('.print()', '')}\nlist(env.from_collection([3]).execute_and_collect())",
            _RUN,
            None,
        ),
        "a forked process": (f"{_DEFINE}import os\nenv.close() if os.fork() else None", (), None),
        "a job": (f"{_DEFINE}env.execute()", _RUN, None),
        "SQL": (f"{_TABLES}tables.execute_sql('INSERT INTO p VALUES (1)').wait()", _RUN, None),
        "a table of a stream": (_STREAM_TO_TABLE, _RUN, None),
        "a statement set": (
            f"{_TABLES}tables.create_statement_set().add_insert_sql('INSERT INTO p VALUES (1)').execute().wait()",
            _RUN,
            None,
        ),
        "an explained pipeline": (
            f"{_TABLES}tables.sql_query('SELECT 1').insert_into('p').explain()",
            _RUN,
            None,
        ),
    }

    def check(case: tuple[str, tuple[str, ...], str | None]) -> None:
        program, command, expected = case
        ended = _ended(tmp_path, program, *command)
        if expected is None:
            assert ended.returncode == 0, ended.stderr
        else:
            assert expected in ended.stderr
        assert _SAYS not in ended.stderr

    check_all(cases, check)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_plan_of_nothing_is_one_error(tmp_path: Path, command: str) -> None:
    said = _ended(tmp_path, _DEFINE, "-m", "penstock", command).stderr
    assert ("does not execute a job" in said) is (command == "plan")
    assert (_SAYS in said) is (command == "run")
