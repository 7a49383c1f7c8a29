"""`penstock sql` with scripts, statements and pipes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.client.local_cluster import LocalCluster
from penstock.errors import PenstockError
from penstock.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command with arguments and standard input; return its exit code and what it wrote."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)

    def run(*arguments, given=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        code = main(["sql", "--no-spark", *arguments])
        return code, *capsys.readouterr()

    return run


def test_a_script_writes_files_and_its_end_is_that_of_its_jobs(run, tmp_path):
    (tmp_path / "tables.sql").write_text(
        f"""-- where the result goes
        CREATE TABLE out (name STRING, n INT) WITH
          ('connector' = 'filesystem', 'path' = '{tmp_path / "out" / "a"}', 'format' = 'json');
        CREATE TABLE more WITH ('path' = '{tmp_path / "out" / "b"}') LIKE out (OVERWRITING OPTIONS);
        """
    )
    (tmp_path / "job.sql").write_text(
        """EXECUTE STATEMENT SET BEGIN
          INSERT INTO out VALUES ('ann', 1), ('bob', 2);
          INSERT INTO more SELECT 'eve', 3;
        END;
        """
    )
    code, out, err = run("-i", str(tmp_path / "tables.sql"), "-f", str(tmp_path / "job.sql"))
    assert (code, out) == (0, "OK\nOK\n"), err
    assert "has finished" in err
    written = [
        json.loads(line)
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
        for line in path.read_text().splitlines()
    ]
    assert sorted(row["name"] for row in written) == ["ann", "bob", "eve"]


def test_programs_read_json_and_pipes(run):
    text = "SELECT a, DATE '2024-02-29' AS d FROM (VALUES (1), (2)) AS t(a)"
    code, out, err = run("--json", given=text)
    assert code == 0, err
    assert [json.loads(line) for line in out.splitlines()] == [
        {"op": "+I", "row": {"a": 1, "d": "2024-02-29"}},
        {"op": "+I", "row": {"a": 2, "d": "2024-02-29"}},
    ]


def test_batches_and_streams_may_alternate(run):
    query = "SELECT a, COUNT(*) AS n FROM (VALUES (1), (1)) AS t(a) GROUP BY a;"
    mode = "SET 'execution.runtime-mode' ="
    code, out, err = run("-e", f"{query} {mode} 'batch'; {query} {mode} 'streaming'; {query}")
    assert (code, err) == (0, "")
    assert out.count("1 row in set") == 3
    assert out.count("| op |") == 2


def test_the_runtime_mode_of_the_configuration_file_counts(run, tmp_path, capsys):
    """A batch shows rows without their kinds of change."""
    query = "SELECT a, COUNT(*) AS n FROM (VALUES (1), (1)) AS t(a) GROUP BY a;"
    (tmp_path / "penstock.yaml").write_text("execution.runtime-mode: BATCH\n")
    (tmp_path / "job.sql").write_text(query)
    config = ("--config", str(tmp_path / "penstock.yaml"))
    code, out, err = run(*config, "-e", query)
    assert (code, "op" in out) == (0, False), err
    code, out, err = run(*config, "-e", "SET 'execution.runtime-mode' = 'streaming';" + query)
    assert (code, "op" in out) == (0, True), err
    assert main(["run", "--no-spark", *config, str(tmp_path / "job.sql")]) == 0
    assert "op" not in capsys.readouterr().out


def test_failed_statement_ends_with_a_plain_error(run):
    code, out, err = run("-e", "SELECT 1 AS a; SELECT b FROM nowhere; SELECT 2 AS c")
    assert code == 1
    assert "nowhere" in err
    assert "Traceback" not in err
    assert " c |" not in out


def test_failed_job_is_reported_without_frames(run):
    code, _, err = run("-e", "SELECT CAST(a AS INT) FROM (VALUES ('x')) AS t(a)")
    assert code == 1
    assert err.startswith("error: cannot cast 'x' to INT\n")
    assert "Traceback" not in err


def test_failed_function_is_reported_with_its_line(run, tmp_path):
    (tmp_path / "failing.py").write_text(
        "from penstock.table import DataTypes\n"
        "from penstock.table.udf import udf\n\n\n"
        "@udf(result_type=DataTypes.INT())\n"
        "def tenth(n):\n"
        "    return 10 // n\n"
    )
    code, _, err = run(
        "--py-files", str(tmp_path / "failing.py"),
        "-e", "CREATE FUNCTION tenth AS 'failing.tenth' LANGUAGE PYTHON",
        "-e", "SELECT tenth(n) FROM (VALUES (0)) AS t(n)",
    )  # fmt: skip
    assert code == 1
    assert "ZeroDivisionError" in err
    assert f"{tmp_path / 'failing.py'}, line 7, in tenth: return 10 // n" in err
    assert "Traceback" not in err


def test_functions_come_from_files(run, tmp_path):
    (tmp_path / "loud_words.py").write_text(
        "from penstock.table import DataTypes\n"
        "from penstock.table.udf import udf\n"
        "loud = udf(lambda word: word.upper() + '!', result_type=DataTypes.STRING())\n"
    )
    code, out, err = run(
        "--py-files",
        str(tmp_path / "loud_words.py"),
        "--json",
        "-e",
        "CREATE TEMPORARY FUNCTION loud AS 'loud_words.loud' LANGUAGE PYTHON; SELECT loud('hey') AS w",
    )
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["row"] == {"w": "HEY!"}


def test_missing_file_is_named(run, tmp_path):
    code, _, err = run("-f", str(tmp_path / "none.sql"))
    assert code == 2
    assert "cannot read" in err


def test_a_file_of_sql_is_a_program(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    out = tmp_path / "out"
    script = tmp_path / "job.sql"
    script.write_text(
        f"""CREATE TABLE out (name STRING, n INT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');
        SELECT name FROM (VALUES ('ann')) AS t(name);
        INSERT INTO out VALUES ('eve', 3);"""
    )
    assert main(["run", "--no-spark", str(script)]) == 0
    reported = capsys.readouterr()
    assert "ann" in reported.out
    assert "OK" not in reported.out
    assert "has finished" in reported.err
    written = [each.read_text() for each in out.rglob("part-*")]
    assert written == ["eve,3\n"]
    script.write_text("SELECT 1 / 0;")
    assert main(["run", "--no-spark", str(script)]) == 1
    reported = capsys.readouterr()
    assert "division by zero" in reported.err
    assert "Traceback" not in reported.err


def test_a_job_is_stopped_with_a_savepoint_where_the_session_says(tmp_path):
    with LocalCluster():
        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        environment.get_config().set("penstock.execution.mode", "pipelined")
        for statement in (
            "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')",
            "CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')",
        ):
            environment.execute_sql(statement)
        job = environment.execute_sql("INSERT INTO hole SELECT n FROM ticks").get_job_client()
        stop = f"STOP JOB '{job.get_job_id()}' WITH SAVEPOINT"
        with pytest.raises(PenstockError, match="a savepoint needs a directory"):
            environment.execute_sql(stop)
        environment.execute_sql(f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path}'")
        ((path,),) = environment.execute_sql(stop).collect()
        assert Path(path.removeprefix("file:")).parent == tmp_path
        job.get_job_execution_result().result(60)
        with environment.execute_sql("SHOW JOBS").collect() as rows:
            assert [row[2] for row in rows] == ["FINISHED"]


def test_functions_come_from_modules_that_import_pyflink(run, tmp_path, monkeypatch):
    (tmp_path / "shop_functions.py").write_text(
        "from pyflink.table import DataTypes\n"
        "from pyflink.table.udf import udf\n"
        "twice = udf(lambda n: n * 2, result_type=DataTypes.INT())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    statements = "CREATE TEMPORARY FUNCTION twice AS 'shop_functions.twice' LANGUAGE PYTHON; SELECT twice(21) AS n"
    code, out, err = run("-e", statements)
    assert code == 0, err
    assert "42" in out
    assert "pyflink" not in sys.modules
