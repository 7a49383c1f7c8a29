"""The SQL client: statements, commands, errors, jobs; completion and the live view."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prompt_toolkit.document import Document

from penstock.cli.sql.client import ClientExit, SqlClient
from penstock.cli.sql.output import describe
from penstock.cli.sql.prompt import SqlLexer, is_complete
from penstock.cli.sql.suggestions import suggestions
from penstock.cli.sql.view import View
from penstock.errors import ArgumentError
from penstock.sql.parse.splitting import split_statements
from penstock.sql.results.result_models import ChangesModel, TableModel


class FakeResult:
    def __init__(self, job=None):
        self.job = job

    def get_job_client(self):
        return self.job


class FakeJob:
    def __init__(self, fails=None):
        self.status = "RUNNING"
        self.fails = fails

    def get_job_id(self):
        return "job-1"

    def get_job_status(self):
        return SimpleNamespace(result=lambda: SimpleNamespace(name=self.status))

    def cancel(self):
        self.status = "CANCELED"
        return SimpleNamespace(result=lambda timeout: None)


class JobResult(FakeResult):
    def wait(self):
        if self.job.fails:
            raise self.job.fails
        self.job.status = "FINISHED"


class FakeEnvironment:
    """Remembers statements; INSERT starts a job, `bad` in a statement is an error."""

    def __init__(self, job=None):
        self.executed = []
        self.options = {}
        self.job = job or FakeJob()
        self.tables = {"orders": ["id", "price", "order time"], "rates": ["currency", "rate"]}

    def execute_sql(self, text):
        if "bad" in text:
            raise ArgumentError("this is bad", hint="make it good")
        if "ugly" in text:
            raise ZeroDivisionError("by zero")
        if "endless" in text:
            raise KeyboardInterrupt
        self.executed.append(text)
        return JobResult(self.job) if text.startswith("INSERT") else FakeResult()

    def get_config(self):
        return SimpleNamespace(get=self.options.get)

    def list_tables(self):
        return list(self.tables)

    def list_functions(self):
        return ["upper", "unix_timestamp", "coalesce"]

    def from_path(self, path):
        names = self.tables[path]
        return SimpleNamespace(
            get_resolved_schema=lambda: SimpleNamespace(get_column_names=lambda: names)
        )


class Said:
    """Remembers what the client says."""

    def __init__(self):
        self.errors, self.notes, self.texts, self.results, self.jobs = [], [], [], [], []

    def result(self, result):
        self.results.append(result)

    def job(self, job_id):
        self.jobs.append(job_id)

    def note(self, text):
        self.notes.append(text)

    def text(self, text):
        self.texts.append(text)

    def error(self, error):
        self.errors.append(describe(error))

    def clear(self):
        self.texts.append("cleared")


@pytest.fixture
def environment():
    return FakeEnvironment()


@pytest.fixture
def client(environment):
    return SqlClient(environment, Said())


def test_a_script_is_executed_statement_by_statement(client, environment):
    assert client.run_script("SET 'a' = ';';\n-- then\nSHOW TABLES;\nSELECT 1")
    assert environment.executed == ["SET 'a' = ';'", "SHOW TABLES", "SELECT 1"]
    assert len(client.output.results) == 3


def test_a_script_ends_at_the_first_statement_that_fails(client, environment):
    assert not client.run_script("SHOW TABLES;\n\nSELECT bad;\nSHOW VIEWS;")
    assert environment.executed == ["SHOW TABLES"]
    assert client.output.errors == ["this is bad\nhint: make it good"]
    assert client.output.notes == ["the statement that failed starts in line 3"]


def test_a_script_that_the_user_stops_has_no_statement_that_failed(client, environment):
    assert not client.run_script("SHOW TABLES;\nSELECT endless;\nSHOW VIEWS;")
    assert environment.executed == ["SHOW TABLES"]
    assert client.output.notes == ["stopped"]


def test_errors_are_shown_without_traces(client):
    assert not client.run("SELEC 1")
    assert not client.run("SELECT ugly")
    syntax, other = client.output.errors
    assert "did you mean SELECT" in syntax
    assert other == "ZeroDivisionError: by zero"


@pytest.mark.parametrize("text", ["quit", "QUIT;", "exit", "\\q", " \\q ;"])
def test_there_are_ways_to_leave(client, text):
    with pytest.raises(ClientExit):
        client.run(text)


def test_help_and_clear_are_not_statements(client, environment):
    assert client.run("help;")
    assert client.run("\\h")
    assert client.run("CLEAR;")
    assert environment.executed == []
    assert "Ctrl-C" in client.output.texts[0]
    assert client.output.texts[2] == "cleared"


def test_rows_are_shown_as_the_result_mode_says(client, environment):
    environment.options["sql-client.execution.result-mode"] = "changelog"
    seen = []
    client.show_rows = lambda result, mode: seen.append(mode)
    assert client.run("SELECT 1")
    environment.options["sql-client.execution.result-mode"] = "TABLEAU"
    assert client.run("SELECT 2")
    assert seen == ["changelog"]
    assert len(client.output.results) == 1


def test_jobs_are_waited_for_or_cancelled(client, environment):
    assert client.run("INSERT INTO t SELECT 1")
    assert client.output.jobs == ["job-1"]
    assert client.running_jobs() == ["job-1"]
    assert client.wait_for_jobs()
    assert client.running_jobs() == []
    environment.job.status = "RUNNING"
    client.cancel_jobs()
    assert environment.job.status == "CANCELED"


def test_a_job_that_fails_is_reported():
    client = SqlClient(FakeEnvironment(FakeJob(fails=ArgumentError("no disk"))), Said())
    client.run("INSERT INTO t SELECT 1")
    assert not client.wait_for_jobs()
    assert client.output.errors == ["no disk"]


def test_ctrl_c_cancels_the_jobs_that_are_waited_for():
    job = FakeJob(fails=KeyboardInterrupt())
    client = SqlClient(FakeEnvironment(job), Said())
    client.run("INSERT INTO t SELECT 1")
    assert not client.wait_for_jobs()
    assert job.status == "CANCELED"


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("\\q", True),
        ("quit", True),
        ("", True),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1;", False),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;", True),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;", True),
    ],
)
def test_enter_executes_what_is_complete(text, complete):
    assert is_complete(text) is complete


def test_a_statement_set_is_one_statement():
    pieces, rest = split_statements("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END; SHOW")
    assert [piece.text for piece in pieces] == [
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END"
    ]
    assert rest == "SHOW"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SHOW T", ["TABLES"]),
        ("SELECT * FROM ", ["orders", "rates"]),
        ("SELECT * FROM o", ["orders"]),
        ("SELECT * FROM orders, r", ["rates"]),
        ("INSERT INTO r", ["rates"]),
        ("SELECT * FROM orders AS o WHERE o.", ["id", "price", "`order time`"]),
        ("SELECT * FROM orders o WHERE o.p", ["price"]),
        ("SELECT * FROM orders WHERE pri", ["price", "primary"]),
        ("SELECT coal", ["coalesce"]),
        ("SELECT UPP", ["UPPER"]),
        ("SELECT CAST(a AS BIGI", ["BIGINT"]),
        ("SELECT * FROM orders GROUP ", ["BY"]),
        ("SHOW TABLES; SHOW V", ["VIEWS"]),
        ("SELECT 'sel", []),
        ("SELECT pri", ["price", "primary"]),
        ("CREATE TABLE t (a INT) WITH ('conn", ["connector"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'data", ["datagen"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'rows", ["rows-per-second"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'p", ["parquet"]),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'scan.startup.mode' = 'ea",
            ["earliest-offset"],
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'upsert-kafka', 'value.format' = 'deb",
            ["debezium-json"],
        ),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'nobody', 'x", []),
    ],
)
def test_words_are_completed_by_what_stands_before_them(environment, before, expected):
    assert [text for text, _, _ in suggestions(environment, before)] == expected


def test_keys_of_options_are_completed(environment):
    found = [text for text, _, _ in suggestions(environment, "SET 'table.exec.state")]
    assert found == ["table.exec.state.ttl"]


def test_what_is_typed_is_coloured():
    lines = SqlLexer().lex_document(Document("SELECT 'x', a -- b\nFROM t"))
    assert lines(0) == [
        ("class:keyword", "SELECT"),
        ("", " "),
        ("class:string", "'x'"),
        ("", ","),
        ("", " "),
        ("", "a"),
        ("class:comment", " -- b"),
    ]
    assert lines(1)[:2] == [("class:comment", ""), ("class:keyword", "FROM")]
    unfinished = SqlLexer().lex_document(Document("SELECT 'x\nFROM"))
    assert unfinished(1) == [("", "FROM")]


def test_the_table_has_the_rows_that_are_left():
    table = TableModel()
    for kind, *row in (
        ("+I", "a", "1"),
        ("+I", "a", "1"),
        ("-U", "a", "1"),
        ("+U", "a", "2"),
        ("+I", "b", "1"),
        ("-D", "b", "1"),
        ("-D", "x", "9"),
    ):
        table.add(kind, tuple(row))
    assert table.rows() == [("", ("a", "1")), ("", ("a", "2"))]
    assert table.changes == 7


def test_a_row_that_is_updated_stays_in_its_place():
    table = TableModel()
    for kind, *row in (
        ("+I", "a", "1"),
        ("+I", "b", "1"),
        ("+I", "c", "1"),
        ("-U", "a", "1"),
        ("-U", "b", "1"),
        ("+U", "a", "2"),
        ("+U", "b", "2"),
        ("-U", "b", "2"),
        ("+U", "b", "3"),
        ("-D", "a", "2"),
    ):
        table.add(kind, tuple(row))
    assert [row for _, row in table.rows()] == [("b", "3"), ("c", "1")]


def test_the_oldest_rows_go_when_there_are_too_many():
    table, changes = TableModel(most=2), ChangesModel(most=2)
    for number in range(4):
        table.add("+I", (str(number),))
        changes.add("+I", (str(number),))
    assert [row for _, row in table.rows()] == [("2",), ("3",)]
    assert [row for _, row in changes.rows()] == [("2",), ("3",)]


def screen(view, width=60, height=8):
    text = "".join(part for _, part in view.render(width, height))
    return [line.rstrip() for line in text.split("\n")]


def test_the_view_shows_a_part_and_moves():
    view = View(["name", "n"], changes=False)
    assert "no rows, 0 changes, running" in screen(view)[-1]
    for number in range(10):
        view.add("+I", (f"name {number}", str(number)))
    assert screen(view)[:5] == [
        "name    n", "name 0  0", "name 1  1", "name 2  2", "name 3  3",
    ]  # fmt: skip
    assert "1-4 of 10 rows, 10 changes" in screen(view)[-1]
    view.scroll(2, 4)
    assert screen(view)[1] == "name 2  2"
    view.scroll(100, 4)
    assert screen(view)[1] == "name 6  6"
    view.scroll(-100, 4)
    assert screen(view)[1] == "name 0  0"


def test_the_view_moves_to_columns_that_are_out_of_sight():
    view = View(["first", "second", "third"], changes=True)
    view.add("+I", ("a", "b", "c"))
    view.shift(1)
    assert screen(view)[:2] == ["op  second  third", "+I  b       c"]
    view.shift(9)
    assert screen(view)[0] == "op  third"
    view.shift(-9)
    assert screen(view)[0] == "op  first  second  third"


def test_changes_are_shown_with_their_kinds_and_the_last_stay_in_sight():
    view = View(["n"], changes=True)
    for number in range(6):
        view.add("+I" if number == 0 else "+U", (str(number),))
    assert screen(view)[0].split() == ["op", "n"]
    assert screen(view)[4].split() == ["+U", "5"]
    view.scroll(-1, 4)
    view.add("-D", ("9",))
    assert screen(view)[4].split() == ["+U", "4"]
    view.scroll(100, 4)
    assert screen(view)[4].split() == ["-D", "9"]
    assert view.follow


def test_long_and_wide_values_are_cut():
    view = View(["text"], changes=False)
    view.add("+I", ("x" * 100,))
    view.add("+I", ("日本" * 40,))
    lines = screen(view)
    assert lines[1] == "x" * 39 + "…"
    assert lines[2].endswith("…")
